//! The head of a response on a stream, and its trailers.
//!
//! Mirrors `ngx_http_proxy_v2_process_header` and `ngx_http_proxy_v2_validate_header_name`.

use super::heads::Read;
use crate::{
    conf::model::{Handler, Level},
    http::{
        exchange::{EscapeLog, Exchange},
        h1::{headers::Headers, known::Known},
        h2::hpack::Fields,
        proxy::{attempt::Fail, head::ResponseHead},
    },
};

/// Takes a head over; `limit` bounds its names and values together (`proxy_buffer_size`). `is_all`: nothing follows. How
/// long it is.
pub(super) fn take(
    x: &Exchange<'_>,
    head: &mut ResponseHead,
    read: Read,
    (limit, is_all): (usize, bool),
) -> Result<u64, Fail> {
    let fields = read.map_err(|error| {
        x.log(
            Level::Error,
            format_args!("upstream sent invalid header: {error}"),
        );
        Fail::InvalidHeader
    })?;
    let size = take_fields(x, head, &fields, limit)?;
    fields.end();
    // A call that ends with its head has trailers for a head; a client of HTTP/2 gets no empty body behind it.
    if is_all && head.content_length.is_none() && matches!(x.location.handler, Handler::Grpc) {
        head.content_length = Some(0);
    }
    Ok(size as u64)
}

/// How long its names and values are together.
fn take_fields(
    x: &Exchange<'_>,
    head: &mut ResponseHead,
    fields: &Fields,
    limit: usize,
) -> Result<usize, Fail> {
    let refuse = |text: std::fmt::Arguments<'_>| {
        x.log(Level::Error, text);
        Fail::InvalidHeader
    };
    head.version = 2000;
    let mut size = 0;
    for (name, value) in fields.iter() {
        size += name.len() + value.len();
        if size > limit {
            return Err(refuse(format_args!("upstream sent too big header")));
        }
        if !is_valid(name, value) {
            let (name, value) = (name.escape_log(), value.escape_log());
            return Err(refuse(format_args!(
                "upstream sent invalid header: \"{name}: {value}\""
            )));
        }
        if name.starts_with(b":") {
            head.status =
                status(head.status, name, value).map_err(|text| refuse(format_args!("{text}")))?;
        } else if head.status == 0 {
            return Err(refuse(format_args!("upstream sent no :status header")));
        } else if !is_of_connection(name) && !head.field(x, None, Known::of(name), (name, value)) {
            return Err(Fail::InvalidHeader);
        }
    }
    if head.status == 0 {
        return Err(refuse(format_args!("upstream sent no :status header")));
    }
    Ok(size)
}

/// The status that a pseudo-header says, of which there is one.
fn status(before: u16, name: &[u8], value: &[u8]) -> Result<u16, String> {
    let text = value.escape_log();
    if name != b":status" {
        let name = name.escape_log();
        return Err(format!("upstream sent invalid header \"{name}: {text}\""));
    }
    if before != 0 {
        return Err("upstream sent duplicate :status header".to_owned());
    }
    let is_number = value.len() == 3 && value.iter().all(u8::is_ascii_digit);
    match text.parse().ok().filter(|_| is_number) {
        None => Err(format!("upstream sent invalid :status \"{text}\"")),
        Some(code) if code < 200 => Err(format!("upstream sent unexpected :status \"{text}\"")),
        Some(code) => Ok(code),
    }
}

/// The fields of early hints; None of another head that comes early, which means nothing to anybody.
pub(super) fn hints(fields: &Fields) -> Option<Headers> {
    let mut headers = Headers::default();
    for (name, value) in fields.iter() {
        if name == b":status" && value != b"103" {
            return None;
        }
        if !name.starts_with(b":") && is_valid(name, value) {
            headers.push(Known::of(name), name, value);
        }
    }
    Some(headers)
}

/// Takes the fields behind a body; false is an error that was logged.
pub(in crate::http::proxy) fn trailers(
    x: &Exchange<'_>,
    read: Read,
    limit: usize,
    into: &mut Headers,
) -> bool {
    let Ok(fields) = read else {
        x.log(Level::Error, format_args!("upstream sent invalid trailer"));
        return false;
    };
    let mut size = 0;
    for (name, value) in fields.iter() {
        size += name.len() + value.len();
        if size > limit {
            x.log(Level::Error, format_args!("upstream sent too big trailers"));
            return false;
        }
        if name.starts_with(b":") || !is_valid(name, value) {
            let (name, value) = (name.escape_log(), value.escape_log());
            x.log(
                Level::Error,
                format_args!("upstream sent invalid trailer: \"{name}: {value}\""),
            );
            return false;
        }
        if !is_of_connection(name) {
            into.push(Known::of(name), name, value);
        }
    }
    fields.end();
    true
}

/// Whether a field can be one of HTTP/2.
fn is_valid(name: &[u8], value: &[u8]) -> bool {
    let in_name = |(at, c): (usize, &u8)| {
        !(matches!(c, 0..=b' ' | b'A'..=b'Z' | 0x7f) || (*c == b':' && at > 0))
    };
    let in_value = |c: &u8| !matches!(c, 0 | b'\r' | b'\n');
    !name.is_empty() && name.iter().enumerate().all(in_name) && value.iter().all(in_value)
}

/// What has no place in HTTP/2, and would mean something else to who gets it (RFC 9113, 8.2.2).
fn is_of_connection(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade"
    )
}
