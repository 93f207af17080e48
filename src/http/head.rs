//! Reading the head of a request off the connection, and everything that can be wrong with it.
//!
//! Mirrors `ngx_http_process_request_line`, `ngx_http_process_request_headers` and `ngx_http_process_request_header`
//! (`http/ngx_http_request.c`).

use super::{
    conn::ConnError,
    exchange::{Action, EscapeLog, Exchange},
    h1::{
        headers,
        known::Known,
        line::{self, Line},
        request_line::{self, LineError, Method, Parsed, RequestLine},
        uri,
    },
    route,
};
use crate::{
    common::{
        buffer::{Buf, SMALL},
        clock::Now,
        decimal, host,
    },
    conf::model::{Level, ServerCore},
};

/// How reading a head ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// The request can be served.
    Ready,
    /// It is answered with this status; the rest of what the client sent is of no use.
    Refused(u16),
    /// The client is gone or too slow; the status for the log.
    Gone(u16),
}

/// Room for head lines, counted as nginx's buffers would fill.
struct Room {
    left: usize,
    large: usize,
    size: usize,
}

impl Room {
    fn new(core: &ServerCore) -> Self {
        let (large, size) = core.large_client_header_buffers;
        Self {
            left: core.client_header_buffer_size,
            large,
            size,
        }
    }

    /// Takes `len` bytes for a line; false when no buffer can hold it.
    fn take(&mut self, len: usize) -> bool {
        if len <= self.left {
            self.left -= len;
            return true;
        }
        if len > self.size || self.large == 0 {
            return false;
        }
        self.large -= 1;
        self.left = self.size - len;
        true
    }

    /// Whether a line that is longer than `len` bytes could still be taken.
    fn admits_more_than(&self, len: usize) -> bool {
        len < self.left || (self.large > 0 && len < self.size)
    }
}

/// Reads a head; the deadline holds for all of it.
pub(super) async fn read(x: &mut Exchange<'_>, deadline: Option<Now>) -> Head {
    let mut room = Room::new(&x.server.core);
    x.action = Action::ReadingLine;
    let line = loop {
        match request_line::parse(x.conn.buf.filled()) {
            Parsed::Line(line) => break line,
            Parsed::Invalid(error) => return invalid_line(x, error),
            Parsed::Partial => {
                if !room.admits_more_than(x.conn.buf.len()) {
                    keep_partial_line(x);
                    x.log(Level::Info, format_args!("client sent too long URI"));
                    return Head::Refused(414);
                }
                if let Err(gone) = fill(x, deadline).await {
                    return gone;
                }
            }
        }
    };
    if !room.take(line.len) {
        keep_partial_line(x);
        x.log(Level::Info, format_args!("client sent too long URI"));
        return Head::Refused(414);
    }
    if let Err(status) = accept_line(x, &line) {
        return Head::Refused(status);
    }
    if x.request.version < 1000 {
        finish_line(x);
        return Head::Ready;
    }
    fields(x, room, deadline).await
}

/// For the log: as much of the request line as came.
fn keep_partial_line(x: &mut Exchange<'_>) {
    let is_end = |c: &u8| matches!(c, b'\r' | b'\n');
    let text = x.conn.buf.filled().iter().skip_while(|c| is_end(c));
    x.request.line.extend(text.take_while(|c| !is_end(c)));
}

fn invalid_line(x: &mut Exchange<'_>, error: LineError) -> Head {
    keep_partial_line(x);
    x.log(Level::Info, format_args!("{}", error.message()));
    Head::Refused(if error == LineError::Version {
        505
    } else {
        400
    })
}

/// Reads more bytes of the head.
async fn fill(x: &mut Exchange<'_>, deadline: Option<Now>) -> Result<(), Head> {
    let conn = &mut x.conn;
    conn.buf.compact();
    if conn.buf.spare().is_empty() {
        let larger = (conn.buf.capacity() * 2).max(SMALL);
        conn.buf.grow(larger);
    }
    match x.conn.read(deadline).await {
        Ok(n) if n > 0 => Ok(()),
        Ok(_) => {
            x.log(
                Level::Info,
                format_args!("client prematurely closed connection"),
            );
            Err(Head::Gone(400))
        }
        Err(ConnError::Timeout) => {
            x.timed_out = true;
            x.log(
                Level::Info,
                format_args!("client timed out (110: Connection timed out)"),
            );
            Err(Head::Gone(408))
        }
        Err(ConnError::Gone | ConnError::Io(_)) => Err(Head::Gone(400)),
    }
}

/// Takes over a request line; Err is the status that refuses it.
fn accept_line(x: &mut Exchange<'_>, line: &RequestLine) -> Result<(), u16> {
    let mut buf = std::mem::take(&mut x.conn.buf);
    let bytes = buf.filled();
    x.request.set_line(bytes, line);
    x.request.length = (line.len - line.line.start) as u64;
    let host = line.host.clone().map(|range| bytes[range].to_vec());
    let target = &bytes[line.target.clone()];
    let args = line.args.map(|args| args - line.target.start);
    let result = set_uri(x, (args, line.complex), target);
    buf.consume(line.len);
    x.conn.buf = buf;
    result?;
    if x.request.version < 1000 && x.request.method != Method::Get {
        x.log(
            Level::Info,
            format_args!("client sent invalid method in HTTP/0.9 request"),
        );
        return Err(400);
    }
    if let Some(host) = host {
        x.request.has_absolute_target = line.scheme.is_some();
        set_host(x, &host, "client sent invalid host in request line")?;
    }
    Ok(())
}

/// Takes over the path and the arguments, which begin at `args`, of a target; `complex` says that its path is to be decoded
/// or made normal.
pub(super) fn set_uri(
    x: &mut Exchange<'_>,
    (args, complex): (Option<usize>, bool),
    target: &[u8],
) -> Result<(), u16> {
    let request = &mut x.request;
    request.valid_target = target.first() == Some(&b'/');
    let path_end = args.map_or(target.len(), |args| args - 1);
    request.quoted_uri = complex && memchr::memchr(b'%', &target[..path_end]).is_some();
    if !complex {
        request.uri.extend_from_slice(&target[..path_end]);
        if path_end < target.len() {
            request.args.extend_from_slice(&target[path_end + 1..]);
        }
        return Ok(());
    }
    let with_slash;
    let text = if request.valid_target {
        target
    } else {
        with_slash = [b"/", target].concat();
        &with_slash
    };
    match uri::normalize(text, x.server.core.merge_slashes, &mut request.uri) {
        Ok(args) => {
            request
                .args
                .extend_from_slice(args.map_or(&b""[..], |range| &text[range]));
            Ok(())
        }
        Err(_invalid) => {
            request.uri.clear();
            x.log(Level::Info, format_args!("client sent invalid request"));
            Err(400)
        }
    }
}

/// Takes the host from the target or the `Host` header; the first one counts.
pub(super) fn set_host(x: &mut Exchange<'_>, text: &[u8], message: &str) -> Result<(), u16> {
    let Some(host) = host::validate(text) else {
        x.log(Level::Info, format_args!("{message}"));
        return Err(400);
    };
    if x.request.host.is_empty() {
        route::set_server(x, &host.name);
        x.request.host.extend_from_slice(&host.name);
        x.request.port = host.port;
    }
    Ok(())
}

/// Reads the fields.
async fn fields(x: &mut Exchange<'_>, mut room: Room, deadline: Option<Now>) -> Head {
    x.action = Action::ReadingHeaders;
    let mut count = 0;
    loop {
        let mut buf = std::mem::take(&mut x.conn.buf);
        let result = lines(x, &mut buf, &mut room, &mut count);
        x.conn.buf = buf;
        match result {
            Ok(true) => break,
            Ok(false) => {
                if !room.admits_more_than(x.conn.buf.len()) {
                    let line = x.conn.buf.filled().escape_log().into_owned();
                    x.log(
                        Level::Info,
                        format_args!("client sent too long header line: \"{line}...\""),
                    );
                    x.lingering_close = true;
                    return Head::Refused(494);
                }
                if let Err(gone) = fill(x, deadline).await {
                    return gone;
                }
            }
            Err(status) => return Head::Refused(status),
        }
    }
    match check(x) {
        Ok(()) => {
            finish_line(x);
            Head::Ready
        }
        Err(status) => Head::Refused(status),
    }
}

/// Takes over the lines that are complete; true at the end of the head.
fn lines(
    x: &mut Exchange<'_>,
    buf: &mut Buf,
    room: &mut Room,
    count: &mut usize,
) -> Result<bool, u16> {
    loop {
        let core = &x.server.core;
        let (len, end) = match line::line(buf.filled(), core.underscores_in_headers) {
            Line::Partial => return Ok(false),
            Line::End(len) => (len, true),
            Line::Field {
                known,
                name,
                value,
                len,
                valid,
            } => {
                if valid || !core.ignore_invalid_headers {
                    *count += 1;
                    if *count > core.max_headers {
                        x.log(
                            Level::Info,
                            format_args!("client sent too many header lines"),
                        );
                        x.lingering_close = true;
                        return Err(494);
                    }
                    field(x, &buf.filled()[..len], known, (name, value))?;
                } else {
                    let line = buf.filled()[..len].trim_ascii_end().escape_log();
                    x.log(
                        Level::Info,
                        format_args!("client sent invalid header line: \"{line}\""),
                    );
                }
                (len, false)
            }
            Line::Invalid(at) => {
                let line = buf.filled()[..at].escape_log();
                let bad = buf.filled()[at];
                x.log(
                    Level::Info,
                    format_args!("client sent invalid header line: \"{line}\\x{bad:02x}...\""),
                );
                return Err(400);
            }
        };
        if !room.take(len) {
            let line = buf.filled()[..len].escape_log();
            x.log(
                Level::Info,
                format_args!("client sent too long header line: \"{line}...\""),
            );
            x.lingering_close = true;
            return Err(494);
        }
        x.request.length += len as u64;
        buf.consume(len);
        if end {
            return Ok(true);
        }
    }
}

/// Takes over one field.
pub(super) fn field(
    x: &mut Exchange<'_>,
    line: &[u8],
    known: Known,
    (name, value): (&[u8], &[u8]),
) -> Result<(), u16> {
    if is_unique(known)
        && let Some(previous) = x.request.headers.get(known)
    {
        let what = if known == Known::Host {
            "host header"
        } else {
            "header line"
        };
        x.log(
            Level::Info,
            format_args!(
                "client sent duplicate {what}: \"{}: {}\", previous value: \"{}: {}\"",
                name.escape_log(),
                value.escape_log(),
                known.name(),
                previous.escape_log()
            ),
        );
        return Err(400);
    }
    match known {
        Known::Host => {
            x.request.headers.push_line(known, line, name, value);
            return set_host(x, value, "client sent invalid host header");
        }
        Known::Connection => {
            if headers::contains(value, b"close") {
                x.request.connection = Some(false);
            } else if headers::contains(value, b"keep-alive") {
                x.request.connection = Some(true);
            }
        }
        _ => {}
    }
    x.request.headers.push_line(known, line, name, value);
    Ok(())
}

fn is_unique(known: Known) -> bool {
    matches!(
        known,
        Known::Host
            | Known::IfModifiedSince
            | Known::IfUnmodifiedSince
            | Known::IfMatch
            | Known::IfNoneMatch
            | Known::ContentLength
            | Known::ContentRange
            | Known::IfRange
            | Known::TransferEncoding
            | Known::Expect
            | Known::Authorization
            | Known::ProxyAuthorization
    )
}

/// What must hold for a head as a whole (`ngx_http_process_request_header`).
fn check(x: &mut Exchange<'_>) -> Result<(), u16> {
    let (status, message) = match framing(x) {
        Ok(()) => return Ok(()),
        Err(refusal) => refusal,
    };
    x.log(Level::Info, format_args!("{message}"));
    Err(status)
}

fn framing(x: &mut Exchange<'_>) -> Result<(), (u16, String)> {
    let request = &mut x.request;
    if !request.headers.has(Known::Host) && request.version > 1000 {
        return Err((
            400,
            "client sent HTTP/1.1 request without \"Host\" header".to_owned(),
        ));
    }
    if let Some(value) = request.headers.get(Known::ContentLength) {
        request.content_length = Some(decimal::parse(value).ok_or_else(|| {
            (
                400,
                "client sent invalid \"Content-Length\" header".to_owned(),
            )
        })?);
    }
    if let Some(coding) = request.headers.get(Known::TransferEncoding) {
        if request.version < 1001 {
            return Err((
                400,
                "client sent HTTP/1.0 request with \"Transfer-Encoding\" header".to_owned(),
            ));
        }
        if !coding.eq_ignore_ascii_case(b"chunked") {
            return Err((
                501,
                format!(
                    "client sent unknown \"Transfer-Encoding\": \"{}\"",
                    coding.escape_log()
                ),
            ));
        }
        if request.content_length.is_some() {
            let message =
                "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time";
            return Err((400, message.to_owned()));
        }
        request.chunked = true;
    }
    match request.method {
        Method::Connect => return Err((405, "client sent CONNECT method".to_owned())),
        Method::Trace => return Err((405, "client sent TRACE method".to_owned())),
        _ => {}
    }
    Ok(())
}

/// The head is complete: what it says of body and connection.
fn finish_line(x: &mut Exchange<'_>) {
    x.action = Action::None;
    if x.request.host.is_empty() {
        route::set_server(x, b"");
    }
    let request = &mut x.request;
    request.body.expect(request.content_length, request.chunked);
    x.keepalive = match request.connection {
        Some(keep) => keep,
        None => request.version > 1000,
    };
}
