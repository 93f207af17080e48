//! The core module's settings of clients' connections and of how requests are read.
//!
//! Mirrors `http/ngx_http_core_module.c`.

use super::{FLAG, HSL, HTTP, Row, SERVER, TAKE1, TAKE2, TAKE12, http_core_values as values};
use crate::conf::{
    model::{BodyInFile, LingeringClose},
    read::{bufs, bytes, bytes_or_giga, choice, flag, msec, num},
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "client_max_body_size",
        HSL,
        TAKE1,
        |r, s| bytes_or_giga(&mut r.loc.core.client_max_body_size, s),
        "Limits the size of a request's body; 0 is no limit.",
    )
    .takes("<size>", "1m"),
    Row::new(
        "client_body_buffer_size",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.core.client_body_buffer_size, s),
        "Sets how much of a request's body stays in memory.",
    )
    .takes("<size>", "16k"),
    Row::new(
        "client_body_in_file_only",
        HSL,
        TAKE1,
        |r, s| {
            choice(
                &mut r.loc.core.client_body_in_file_only,
                s,
                &[
                    ("off", BodyInFile::Off),
                    ("on", BodyInFile::On),
                    ("clean", BodyInFile::Clean),
                ],
            )
        },
        "Writes every request's body to a file.",
    )
    .takes("on | clean | off", "off"),
    Row::accepted(
        "client_body_in_single_buffer",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.client_body_in_single_buffer, s),
        "Keeps a request's body in one piece.",
    ),
    Row::new(
        "client_body_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.client_body_timeout, s),
        "Bounds the time between two reads of a request's body.",
    )
    .takes("<time>", "60s"),
    Row::new(
        "client_header_buffer_size",
        HTTP | SERVER,
        TAKE1,
        |r, s| bytes(&mut r.srv.core.client_header_buffer_size, s),
        "Sets the size of the first buffer for a request's header.",
    )
    .takes("<size>", "1k"),
    Row::new(
        "client_header_timeout",
        HTTP | SERVER,
        TAKE1,
        |r, s| msec(&mut r.srv.core.client_header_timeout, s),
        "Bounds the time that a request's header takes.",
    )
    .takes("<time>", "60s"),
    Row::new(
        "large_client_header_buffers",
        HTTP | SERVER,
        TAKE2,
        |r, s| bufs(&mut r.srv.core.large_client_header_buffers, s),
        "Sets the buffers for long request lines and header fields.",
    )
    .takes("<number> <size>", "4 8k"),
    Row::new(
        "max_headers",
        HTTP | SERVER,
        TAKE1,
        |r, s| num(&mut r.srv.core.max_headers, s),
        "Limits the number of a request's header fields.",
    )
    .takes("<number>", "1000"),
    Row::accepted(
        "connection_pool_size",
        HTTP | SERVER,
        TAKE1,
        |r, s| values::pool_size(&mut r.srv.core.connection_pool_size, s),
        "Sets how much memory nginx allocates for a connection at first.",
    ),
    Row::accepted(
        "request_pool_size",
        HTTP | SERVER,
        TAKE1,
        |r, s| values::pool_size(&mut r.srv.core.request_pool_size, s),
        "Sets how much memory nginx allocates for a request at first.",
    ),
    Row::new(
        "ignore_invalid_headers",
        HTTP | SERVER,
        FLAG,
        |r, s| flag(&mut r.srv.core.ignore_invalid_headers, s),
        "Drops header fields with invalid names instead of refusing the request.",
    )
    .default("on"),
    Row::new(
        "underscores_in_headers",
        HTTP | SERVER,
        FLAG,
        |r, s| flag(&mut r.srv.core.underscores_in_headers, s),
        "Allows underscores in the names of header fields.",
    )
    .default("off"),
    Row::new(
        "send_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.send_timeout, s),
        "Bounds the time between two writes to a client.",
    )
    .takes("<time>", "60s"),
    Row::accepted(
        "send_lowat",
        HSL,
        TAKE1,
        values::send_lowat,
        "Sets the smallest write to a client where the system can.",
    ),
    Row::new(
        "tcp_nodelay",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.tcp_nodelay, s),
        "Sends small packets at once.",
    )
    .default("on"),
    Row::accepted(
        "tcp_nopush",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.tcp_nopush, s),
        "Sends full packets only while there is more.",
    ),
    Row::new(
        "keepalive_requests",
        HSL,
        TAKE1,
        |r, s| num(&mut r.loc.core.keepalive_requests, s),
        "Limits the requests of a client connection.",
    )
    .takes("<number>", "1000"),
    Row::new(
        "keepalive_time",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.keepalive_time, s),
        "Limits how long a client connection takes requests.",
    )
    .takes("<time>", "1h"),
    Row::new(
        "keepalive_timeout",
        HSL,
        TAKE12,
        values::keepalive_timeout,
        "Bounds how long a client connection is idle; 0 turns keep-alive off.",
    )
    .takes("<timeout> [<header>]", "75s"),
    Row::new(
        "keepalive_min_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.keepalive_min_timeout, s),
        "Keeps an idle client connection at least this long when the worker stops.",
    )
    .takes("<timeout>", "0"),
    Row::new(
        "keepalive_disable",
        HSL,
        TAKE12,
        values::keepalive_disable,
        "Turns keep-alive off for some browsers.",
    )
    .takes("none | msie6 | safari [none | msie6 | safari]", "msie6"),
    Row::new(
        "lingering_close",
        HSL,
        TAKE1,
        |r, s| {
            choice(
                &mut r.loc.core.lingering_close,
                s,
                &[
                    ("off", LingeringClose::Off),
                    ("on", LingeringClose::On),
                    ("always", LingeringClose::Always),
                ],
            )
        },
        "Reads what a client still sends before its connection is closed.",
    )
    .takes("off | on | always", "on"),
    Row::new(
        "lingering_time",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.lingering_time, s),
        "Bounds how long that goes on.",
    )
    .takes("<time>", "30s"),
    Row::new(
        "lingering_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.lingering_timeout, s),
        "Bounds how long it waits for more.",
    )
    .takes("<time>", "5s"),
    Row::new(
        "reset_timedout_connection",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.core.reset_timedout_connection, s),
        "Resets connections that timed out.",
    )
    .default("off"),
];
