//! The head of a response on a stream, and the fields behind its body.
//!
//! The order is nginx's; what is about a connection of HTTP/1 is left out, whoever said it. Mirrors
//! `ngx_http_v2_header_filter` (`http/v2/ngx_http_v2_filter_module.c`).

use super::block::{Block, Name};
use crate::{
    common::{clock, date},
    http::{
        exchange::Exchange,
        h1::{headers::Headers, known::Known},
        output,
    },
};

/// Sends the head of the response.
pub(in crate::http) fn send_head(x: &mut Exchange<'_>) {
    let server = output::server(x);
    let location = output::location(x).map(<[u8]>::to_vec);
    let Some(mut block) = x.conn.io.stream().map(|stream| stream.block()) else {
        return;
    };
    let response = &x.response;
    block.status(response.status);
    if let Some(server) = &server {
        block.field(Name::Server, server);
    }
    if !response.headers.has(Known::Date) {
        block.field(Name::Date, &clock::http_date());
    }
    if !response.content_type.is_empty() {
        block.field(Name::ContentType, &response.content_type);
    }
    if let Some(length) = response.content_length
        && !response.headers.has(Known::ContentLength)
    {
        block.length(length);
    }
    if let Some(secs) = response.last_modified
        && !response.headers.has(Known::LastModified)
    {
        block.field(Name::LastModified, &date::http(secs));
    }
    if let Some(location) = &location {
        block.field(Name::Location, location);
    }
    if response.gzip_vary && x.location.gzip.vary {
        block.field(Name::Vary, b"Accept-Encoding");
    }
    add_all(&mut block, &response.headers);
    let is_all =
        response.header_only || (response.content_length == Some(0) && !response.expect_trailers);
    x.response.header_size = block.size();
    x.conn.sent += block.size();
    let chunk = x.location.core.http2_chunk_size;
    if let Some(stream) = x.conn.io.stream() {
        stream.set_chunk(chunk);
        stream.send_head(block, is_all);
    }
}

/// Sends early hints.
pub(in crate::http) fn send_hints<'a>(
    x: &mut Exchange<'_>,
    fields: impl Iterator<Item = (Known, &'a [u8], &'a [u8])>,
) {
    let Some(stream) = x.conn.io.stream() else {
        return;
    };
    let mut block = stream.block();
    block.status(103);
    for (known, name, value) in fields {
        block.named(known, name, value);
    }
    let size = block.size();
    stream.send_early(block);
    x.conn.sent += size;
}

/// The body is complete: its end is said with its last bytes, or with the trailers.
pub(in crate::http) fn end(x: &mut Exchange<'_>) {
    let Some(stream) = x.conn.io.stream().filter(|stream| !stream.has_ended()) else {
        return;
    };
    if !x.response.trailers.is_empty() {
        let mut block = stream.block();
        add_all(&mut block, &x.response.trailers);
        if !block.is_empty() {
            stream.set_trailers(block);
        }
    }
    x.out.end();
}

fn add_all(block: &mut Block, headers: &Headers) {
    for (known, name, value) in headers.iter() {
        block.named(known, name, value);
    }
}
