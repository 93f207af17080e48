//! The head of a response on a stream, and the fields behind its body.
//!
//! The order is nginx's; what is about a connection of HTTP/1 is left out, whoever said it. Mirrors
//! `ngx_http_v2_header_filter` (`http/v2/ngx_http_v2_filter_module.c`).

use http::{
    Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, LAST_MODIFIED, LOCATION, SERVER, VARY},
};

use super::fields::{Fields, Frozen};
use crate::{
    common::{clock, date, decimal},
    http::{exchange::Exchange, h1::known::Known, output},
};

/// Sends the head of the response.
pub(in crate::http) fn send_head(x: &mut Exchange<'_>) {
    let server = output::server(x);
    let location = output::location(x).map(<[u8]>::to_vec);
    let response = &x.response;
    let mut fields = Fields::new();
    if let Some(server) = &server {
        fields.add(SERVER, server);
    }
    if !response.headers.has(Known::Date) {
        fields.add(DATE, &clock::http_date());
    }
    if !response.content_type.is_empty() {
        fields.add(CONTENT_TYPE, &response.content_type);
    }
    if let Some(length) = response.content_length
        && !response.headers.has(Known::ContentLength)
    {
        let mut text = Vec::with_capacity(20);
        decimal::push(&mut text, length);
        fields.add(CONTENT_LENGTH, &text);
    }
    if let Some(secs) = response.last_modified
        && !response.headers.has(Known::LastModified)
    {
        fields.add(LAST_MODIFIED, &date::http(secs));
    }
    if let Some(location) = &location {
        fields.add(LOCATION, location);
    }
    if response.gzip_vary && x.location.gzip.vary {
        fields.add(VARY, b"Accept-Encoding");
    }
    fields.add_all(&response.headers);
    let is_all =
        response.header_only || (response.content_length == Some(0) && !response.expect_trailers);
    let Ok(status) = StatusCode::from_u16(response.status) else {
        // An upstream's: there is no way to say it.
        x.broken = true;
        return;
    };
    let (size, map) = fields.freeze().map();
    let mut head = Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = map;
    x.response.header_size = size;
    x.conn.sent += size;
    let chunk = x.location.core.http2_chunk_size;
    if let Some(stream) = x.conn.io.stream() {
        stream.set_chunk(chunk);
        stream.send_head(head, is_all);
    }
}

/// Sends early hints.
pub(in crate::http) fn send_hints(x: &mut Exchange<'_>, fields: &Frozen) {
    let (size, map) = fields.map();
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::EARLY_HINTS;
    *head.headers_mut() = map;
    x.conn.sent += size;
    if let Some(stream) = x.conn.io.stream() {
        stream.send_early(head);
    }
}

/// The body is complete: its end is said with its last bytes, or with the trailers.
pub(in crate::http) fn end(x: &mut Exchange<'_>) {
    let mut fields = Fields::default();
    fields.add_all(&x.response.trailers);
    if let Some(stream) = x.conn.io.stream().filter(|stream| !stream.has_ended()) {
        stream.set_trailers(fields.freeze().map().1);
        x.out.end();
    }
}
