//! `http2` and `http2_*`: HTTP/2 from clients.
//!
//! Mirrors `http/v2/ngx_http_v2_module.c`.

use super::{FLAG, HSL, HTTP, Row, SERVER, TAKE1, http_core_values::pool_size};
use crate::conf::{
    error::Problem,
    parser::Statement,
    read::{Reader, bytes, flag, num},
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "http2",
        HS,
        FLAG,
        |r, s| flag(&mut r.srv.http2.enabled, s),
        "Speaks HTTP/2 with clients, besides HTTP/1 on the same address.",
    )
    .default("off")
    .differs(&["head-bytes", "hop-fields", "stream-priority"]),
    Row::new(
        "http2_max_concurrent_streams",
        HS,
        TAKE1,
        |r, s| num(&mut r.srv.http2.max_concurrent_streams, s),
        "Limits requests at once in a connection.",
    )
    .takes("<number>", "128"),
    Row::new(
        "http2_body_preread_size",
        HS,
        TAKE1,
        body_preread_size,
        "Sets how much of a body may come before it is asked for.",
    )
    .takes("<size>", "64k")
    .differs(&["body-window"]),
    Row::new(
        "http2_chunk_size",
        HSL,
        TAKE1,
        chunk_size,
        "Sets the most of a response in one frame.",
    )
    .takes("<size>", "8k"),
    Row::accepted(
        "http2_recv_buffer_size",
        HTTP,
        TAKE1,
        recv_buffer_size,
        "Sets the receive buffer of a worker.",
    )
    .takes("<size>", "256k"),
    Row::accepted(
        "http2_pool_size",
        HS,
        TAKE1,
        |r, s| pool_size(&mut r.srv.http2.pool_size, s),
        "Sets how much memory nginx allocates for a request.",
    )
    .takes("<size>", "4k"),
    Row::accepted(
        "http2_streams_index_size",
        HS,
        TAKE1,
        streams_index_size,
        "Sets the size of the table of streams.",
    )
    .takes("<number>", "32"),
    Row::accepted(
        "http2_idle_timeout",
        HS,
        TAKE1,
        |r, s| replaced(r, s, "keepalive_timeout"),
        "Obsolete: `keepalive_timeout` is for HTTP/2 too.",
    ),
    Row::accepted(
        "http2_max_requests",
        HS,
        TAKE1,
        |r, s| replaced(r, s, "keepalive_requests"),
        "Obsolete: `keepalive_requests` is for HTTP/2 too.",
    ),
    Row::accepted(
        "http2_recv_timeout",
        HS,
        TAKE1,
        |r, s| replaced(r, s, "client_header_timeout"),
        "Obsolete: `client_header_timeout` is for HTTP/2 too.",
    ),
    Row::accepted(
        "http2_max_field_size",
        HS,
        TAKE1,
        |r, s| replaced(r, s, "large_client_header_buffers"),
        "Obsolete: `large_client_header_buffers` is for HTTP/2 too.",
    ),
    Row::accepted(
        "http2_max_header_size",
        HS,
        TAKE1,
        |r, s| replaced(r, s, "large_client_header_buffers"),
        "Obsolete: `large_client_header_buffers` is for HTTP/2 too.",
    ),
    Row::accepted(
        "http2_max_concurrent_pushes",
        HS,
        TAKE1,
        gone,
        "Obsolete: nothing is pushed.",
    ),
    Row::accepted(
        "http2_push",
        HSL,
        TAKE1,
        gone,
        "Obsolete: nothing is pushed.",
    ),
    Row::accepted(
        "http2_push_preload",
        HSL,
        FLAG,
        gone,
        "Obsolete: nothing is pushed.",
    ),
];

const HS: u32 = HTTP | SERVER;

fn body_preread_size(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let slot = &mut reader.srv.http2.body_preread_size;
    bytes(slot, statement)?;
    if slot.is_some_and(|size| size > MAX_WINDOW) {
        return Err(Problem::message(format!(
            "the maximum body preread buffer size is {MAX_WINDOW}"
        )));
    }
    Ok(())
}

fn chunk_size(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let slot = &mut reader.loc.core.http2_chunk_size;
    bytes(slot, statement)?;
    if *slot == Some(0) {
        return Err(Problem::message("the http2 chunk size cannot be zero"));
    }
    *slot = slot.map(|size| size.min(MAX_FRAME));
    Ok(())
}

fn recv_buffer_size(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let slot = &mut reader.srv.http2.recv_buffer_size;
    bytes(slot, statement)?;
    if slot.is_some_and(|size| size <= STATE_BUFFER) {
        return Err(Problem::Directive("value is too small".to_owned()));
    }
    Ok(())
}

fn streams_index_size(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let slot = &mut reader.srv.http2.streams_index_size;
    num(slot, statement)?;
    if slot.is_some_and(|size| !size.is_power_of_two()) {
        return Err(Problem::Directive("must be a power of two".to_owned()));
    }
    Ok(())
}

/// An obsolete directive, in whose place another one is.
#[expect(clippy::unnecessary_wraps, reason = "a reader as the others are")]
fn replaced(reader: &mut Reader, statement: &Statement, by: &str) -> Result<(), Problem> {
    reader.warn(
        format_args!(
            "the \"{}\" directive is obsolete, use the \"{by}\" directive instead",
            statement.name
        ),
        statement,
    );
    Ok(())
}

/// An obsolete directive that means nothing any more.
#[expect(clippy::unnecessary_wraps, reason = "a reader as the others are")]
fn gone(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.warn(
        format_args!("the \"{}\" directive is obsolete, ignored", statement.name),
        statement,
    );
    Ok(())
}

/// `NGX_HTTP_V2_MAX_WINDOW`
const MAX_WINDOW: usize = (1 << 31) - 1;
/// `NGX_HTTP_V2_MAX_FRAME_SIZE`
const MAX_FRAME: usize = (1 << 24) - 1;
/// `NGX_HTTP_V2_STATE_BUFFER_SIZE`
const STATE_BUFFER: usize = 16;
