//! Access logs of sessions. There is no format that is always there, and no log that nobody asked for.
//!
//! Mirrors `stream/ngx_stream_log_module.c`.

use super::{
    super::{ONE_MORE, Row, STREAM, TAKE1234, TWO_MORE, log},
    BOTH,
};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::new(
        "access_log",
        BOTH,
        ONE_MORE,
        log::access_log,
        "Logs sessions to a file, a path with variables or syslog; `off` logs none.",
    )
    .takes(
        "<path> <format> [buffer=<size>] [gzip[=<level>]] [flush=<time>] \
             [if=<condition>]; syslog:server=<address>[,<parameter>=<value>] \
             <format> [if=<condition>]; off",
        "off",
    )
    .differs(&["log-writes"]),
    Row::new(
        "log_format",
        STREAM,
        TWO_MORE,
        log::log_format,
        "Names a format for access logs.",
    )
    .takes("<name> [escape=default|json|none] <text> ...", "")
    .differs(&["json-log"]),
    Row::new(
        "open_log_file_cache",
        BOTH,
        TAKE1234,
        log::open_log_file_cache,
        "Keeps logs with variables in their path open.",
    )
    .takes(
        "max=<number> [inactive=<time>] [min_uses=<number>] [valid=<time>]; off",
        "off",
    )
    .differs(&["log-files"]),
];
