//! Databases of addresses in `stream`, and names that groups resolve while running: not there yet.

use super::super::{ONE_MORE, Row, STREAM, STREAM_UPSTREAM, TAKE1, TAKE12};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::refused(
        "geoip_city",
        STREAM,
        TAKE12,
        "Names the database of cities.",
    ),
    Row::refused(
        "geoip_country",
        STREAM,
        TAKE12,
        "Names the database of countries.",
    ),
    Row::refused(
        "geoip_org",
        STREAM,
        TAKE12,
        "Names the database of organizations.",
    ),
    Row::refused(
        "resolver",
        STREAM_UPSTREAM,
        ONE_MORE,
        "Names the servers that resolve names while running.",
    ),
    Row::refused(
        "resolver_timeout",
        STREAM_UPSTREAM,
        TAKE1,
        "Bounds a look-up of a name.",
    ),
];
