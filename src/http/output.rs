//! Sending a response: header filters, the header's bytes, body filters, writing.
//!
//! Mirrors `http/ngx_http_header_filter_module.c` and the order of nginx's filters.

use std::borrow::Cow;

use super::{
    conn::ConnError,
    exchange::{Action, Exchange},
    filters,
    h1::known::Known,
    h2,
    out::Piece,
    phases::Next,
    response::Response,
    status,
};
use crate::{
    common::{clock, date, decimal},
    conf::model::{Level, ServerTokens},
    net::client,
};

/// Our name. DIFFERS(product): nginx says nginx.
pub(super) const SERVER: &str = "headwater";
/// Our name and version.
pub(super) const SERVER_FULL: &str = concat!("headwater/", env!("CARGO_PKG_VERSION"));

/// The header went out, or what has to happen instead.
pub(super) type Sent<'g> = Result<(), Next<'g>>;

/// Runs the header filters and puts the header into the output; nothing is written yet. Err means that a filter answers
/// in another way, e.g. with 412.
pub(super) fn send_header<'g>(x: &mut Exchange<'g>) -> Sent<'g> {
    if x.response.header_sent {
        return Ok(());
    }
    if x.response.error_status != 0 {
        x.response.status = x.response.error_status;
        x.response.status_line.clear();
    }
    filters::header(x)?;
    x.response.header_sent = true;
    if x.request.version < 1000 {
        // HTTP/0.9 has no header.
        return Ok(());
    }
    if x.thread.is_shutting_down() {
        // The client is told, so that it does not send a request into a connection that closes.
        x.keepalive = false;
    }
    if x.request.is_head() {
        x.response.header_only = true;
    }
    let is_stream = x.conn.io.is_stream();
    settle(&mut x.response, is_stream);
    if is_stream {
        h2::send_head(x);
        return Ok(());
    }
    let mut bytes = x.thread.take_vec();
    encode(x, &mut bytes);
    x.response.header_size = bytes.len() as u64;
    x.out.push_vec(bytes);
    Ok(())
}

/// Sends header and a body that is in memory.
pub(super) async fn send_body<'g>(x: &mut Exchange<'g>, body: Vec<u8>) -> Next<'g> {
    if let Err(next) = send_header(x) {
        return next;
    }
    if !x.response.header_only {
        filters::body(x, Piece::Vec(body, 0));
        filters::finish(x);
    }
    flush(x).await
}

/// Sends header and a body in a file, or without one.
pub(super) async fn send_piece<'g>(x: &mut Exchange<'g>, body: Piece) -> Next<'g> {
    if let Err(next) = send_header(x) {
        return next;
    }
    if !x.response.header_only {
        filters::body(x, body);
        filters::finish(x);
    }
    flush(x).await
}

/// Writes what is left of the output; the response is complete then.
pub(super) async fn flush<'g>(x: &mut Exchange<'g>) -> Next<'g> {
    match write(x).await {
        Ok(()) => {
            x.complete = true;
            Next::Done
        }
        Err(next) => next,
    }
}

/// Writes what is in the output, as fast as `limit_rate` allows.
pub(super) async fn write<'g>(x: &mut Exchange<'g>) -> Result<(), Next<'g>> {
    let mut out = std::mem::take(&mut x.out);
    let timeout = x.location.core.send_timeout;
    let result = match filters::limit_rate::Limiter::new(x) {
        None => x.conn.flush(&mut out, timeout).await,
        Some(limiter) => limiter.flush(x, &mut out).await,
    };
    x.out = out;
    result.map_err(|error| failed(x, &error))
}

/// The client cannot be written to.
pub(super) fn failed<'g>(x: &mut Exchange<'g>, error: &ConnError) -> Next<'g> {
    x.action = Action::SendingToClient;
    match error {
        ConnError::Timeout => {
            x.log(
                Level::Info,
                format_args!("client timed out (110: Connection timed out)"),
            );
            x.timed_out = true;
            Next::Terminate(408)
        }
        ConnError::Gone => {
            x.log(
                Level::Info,
                format_args!("client prematurely closed connection"),
            );
            x.broken = true;
            Next::Terminate(super::phases::CLIENT_CLOSED)
        }
        ConnError::Io(error) => {
            x.log(
                Level::Info,
                format_args!("send() failed ({})", crate::common::errno::Errno(error)),
            );
            x.broken = true;
            Next::Terminate(super::phases::CLIENT_CLOSED)
        }
    }
}

/// What follows from the status. Over HTTP/1 an upstream's own line may promise a body whatever it says.
fn settle(response: &mut Response, is_stream: bool) {
    if response.status_line.is_empty() || is_stream {
        if response.status == 204 {
            response.header_only = true;
            response.content_type.clear();
            response.last_modified = None;
            response.clear_content_length();
        }
        response.header_only |= response.status == 304;
    }
    if !matches!(response.status, 200 | 206 | 304) {
        response.last_modified = None;
    }
}

/// Appends the header of the response.
fn encode(x: &mut Exchange<'_>, out: &mut Vec<u8>) {
    status_line(x, out);
    if let Some(name) = server(x) {
        field(out, b"Server", &name);
    }
    let core = &x.location.core;
    if !x.response.headers.has(Known::Date) {
        field(out, b"Date", &clock::http_date());
    }
    let response = &x.response;
    if !response.content_type.is_empty() {
        field(out, b"Content-Type", &response.content_type);
    }
    if let Some(length) = response.content_length
        && !response.headers.has(Known::ContentLength)
    {
        out.extend_from_slice(b"Content-Length: ");
        decimal::push(out, length);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(secs) = response.last_modified
        && !response.headers.has(Known::LastModified)
    {
        field(out, b"Last-Modified", &date::http(secs));
    }
    if let Some(address) = location(x) {
        field(out, b"Location", address);
    }
    if x.response.chunked {
        field(out, b"Transfer-Encoding", b"chunked");
    }
    if x.response.status == 101 {
        field(out, b"Connection", b"upgrade");
    } else if x.keepalive {
        field(out, b"Connection", b"keep-alive");
        if let Some(timeout) = core.keepalive_header {
            out.extend_from_slice(b"Keep-Alive: timeout=");
            decimal::push(out, timeout.as_secs());
            out.extend_from_slice(b"\r\n");
        }
    } else {
        field(out, b"Connection", b"close");
    }
    if x.response.gzip_vary && x.location.gzip.vary {
        field(out, b"Vary", b"Accept-Encoding");
    }
    x.response.headers.encode(out);
    out.extend_from_slice(b"\r\n");
}

fn status_line(x: &Exchange<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    let response = &x.response;
    if response.status_line.is_empty() {
        match status::line(response.status) {
            Some(line) => out.extend_from_slice(line.as_bytes()),
            None => out.extend_from_slice(format!("{:03} ", response.status).as_bytes()),
        }
    } else {
        out.extend_from_slice(&response.status_line);
    }
    out.extend_from_slice(b"\r\n");
}

/// The value of `Server`, if there is to be one.
pub(super) fn server(x: &mut Exchange<'_>) -> Option<Cow<'static, [u8]>> {
    if x.response.headers.has(Known::Server) {
        return None;
    }
    match &x.location.core.server_tokens {
        ServerTokens::On | ServerTokens::Build => Some(SERVER_FULL.as_bytes().into()),
        ServerTokens::Off => Some(SERVER.as_bytes().into()),
        ServerTokens::Text(text) => {
            let text = text.clone().to_vec(x);
            (!text.is_empty()).then_some(text.into())
        }
    }
}

/// Our own relative `Location` as an absolute one.
pub(super) fn location<'x>(x: &'x mut Exchange<'_>) -> Option<&'x [u8]> {
    if !x.response.own_location || !x.location.core.absolute_redirect {
        return None;
    }
    let headers = &x.response.headers;
    let path = headers
        .get(Known::Location)
        .filter(|path| path.starts_with(b"/"))?;
    let (scheme, usual) = if x.conn.io.is_plain() {
        ("http://", 80)
    } else {
        ("https://", 443)
    };
    let mut address = scheme.as_bytes().to_vec();
    let core = &x.location.core;
    if core.server_name_in_redirect {
        address.extend_from_slice(x.server.name.as_bytes());
    } else if x.request.host.is_empty() {
        client::push_addr(&mut address, x.conn.local());
    } else {
        address.extend_from_slice(&x.request.host);
    }
    let port = x
        .conn
        .local()
        .port()
        .filter(|port| *port != usual && core.port_in_redirect);
    if let Some(port) = port {
        address.extend_from_slice(format!(":{port}").as_bytes());
    }
    address.extend_from_slice(path);
    x.response.headers.remove(Known::Location);
    // For `$sent_http_location`.
    Some(x.response.sent_location.insert(address))
}

/// Appends `name: value`.
pub(super) fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
