//! Chunked bodies for clients of HTTP/1.1. Mirrors `ngx_http_chunked_filter_module.c`.

use crate::http::{
    exchange::Exchange,
    h1::chunked,
    h2,
    out::{Out, Piece},
};

/// Decides whether the body is chunked: its length is unknown, or there are trailers.
pub(crate) fn header(x: &mut Exchange<'_>) {
    let is_stream = x.conn.io.is_stream();
    let response = &mut x.response;
    // The end of a stream is the body's, and trailers stand behind it whatever its length.
    if is_stream
        || matches!(response.status, 304 | 204)
        || response.status < 200
        || x.request.is_head()
        || x.request.method == crate::http::h1::request_line::Method::Connect
    {
        return;
    }
    if response.content_length.is_some() && !response.expect_trailers {
        return;
    }
    if x.request.version < 1001 {
        if response.content_length.is_none() {
            x.keepalive = false;
        }
    } else if x.location.core.chunked_transfer_encoding {
        response.clear_content_length();
        response.chunked = true;
    } else if response.content_length.is_none() {
        x.keepalive = false;
    }
}

/// Puts a piece into the output, as a chunk if the body is chunked.
pub(crate) fn frame(piece: Piece, is_chunked: bool, out: &mut Out) {
    let len = piece.len();
    if len == 0 {
        return;
    }
    if !is_chunked {
        return out.push(piece);
    }
    let mut line = Vec::with_capacity(20);
    chunked::begin(usize::try_from(len).unwrap_or(usize::MAX), &mut line);
    out.push_vec(line);
    out.push(piece);
    out.push(Piece::Static(b"\r\n"));
}

/// The end of the body, with trailers if there are any.
pub(crate) fn finish(x: &mut Exchange<'_>) {
    if x.conn.io.is_stream() {
        return h2::end(x);
    }
    if !x.response.chunked {
        return;
    }
    if x.response.trailers.is_empty() {
        return x.out.push(Piece::Static(chunked::LAST));
    }
    let mut end = b"0\r\n".to_vec();
    x.response.trailers.encode(&mut end);
    end.extend_from_slice(b"\r\n");
    x.out.push_vec(end);
}
