//! Groups of servers in `stream`.
//!
//! Mirrors `stream/ngx_stream_upstream.c` and the balancers' modules beside it.

use super::super::{BLOCK, NONE, ONE_MORE, Row, STREAM, STREAM_UPSTREAM, TAKE1, TAKE12, upstream};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::new(
        "upstream",
        STREAM,
        BLOCK | TAKE1,
        upstream::upstream,
        "Defines a group of servers to proxy to.",
    ).takes("<name> { ... }", "").differs(&["reload"]),
    Row::new(
        "server",
        STREAM_UPSTREAM,
        ONE_MORE,
        upstream::server,
        "Adds a server with its port to the group.",
    ).takes("<address>:<port> | unix:<path> [weight=<number>] [max_conns=<number>] \
             [max_fails=<number>] [fail_timeout=<time>] [backup] [down]", "").differs(&["unsupported"]),
    Row::new(
        "zone",
        STREAM_UPSTREAM,
        TAKE12,
        upstream::zone,
        "Names shared memory for the group's state; here it is always shared.",
    ).takes("<name> [<size>]", "").differs(&["shared-state"]),
    Row::new(
        "least_conn",
        STREAM_UPSTREAM,
        NONE,
        upstream::LEAST_CONN,
        "Picks the server with the fewest connections.",
    ),
    Row::new(
        "least_time",
        STREAM_UPSTREAM,
        TAKE12,
        upstream::least_time,
        "Picks the server with the least time to `connect`, to the `first_byte` or to the `last_byte`.",
    ).takes("connect | first_byte | last_byte [inflight]", "").differs(&["one-clock", "long-idle", "no-sample", "connect-sample"]),
    Row::new(
        "hash",
        STREAM_UPSTREAM,
        TAKE12,
        upstream::hash,
        "Picks the server by the hash of a text.",
    ).takes("<text> [consistent]", ""),
    Row::new(
        "random",
        STREAM_UPSTREAM,
        NONE | TAKE12,
        upstream::random,
        "Picks a server at random, or the better of two.",
    ).takes("[two [least_conn]]", ""),
];
