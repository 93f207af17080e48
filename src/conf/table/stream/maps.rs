//! Tables behind the variables of `stream`.
//!
//! Mirrors the modules `map`, `geo` and `split_clients` of `stream`.

use super::super::{BLOCK, Row, STREAM, TAKE1, TAKE2, TAKE12, accepted::number_once, geo, maps};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::new(
        "map",
        STREAM,
        BLOCK | TAKE2,
        maps::map,
        "Gives a variable a value that depends on another text.",
    )
    .takes("<text> $<variable> { ... }", "")
    .differs(&["patterns"]),
    Row::accepted(
        "map_hash_max_size",
        STREAM,
        TAKE1,
        number_once,
        "Limits the size of the hash tables of maps.",
    ),
    Row::accepted(
        "map_hash_bucket_size",
        STREAM,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash tables of maps.",
    ),
    Row::new(
        "geo",
        STREAM,
        BLOCK | TAKE12,
        geo::geo,
        "Gives a variable a value that depends on an address.",
    )
    .takes("[$<address>] $<variable> { ... }", ""),
    Row::new(
        "split_clients",
        STREAM,
        BLOCK | TAKE2,
        maps::split_clients,
        "Gives a variable one of several values by shares of a hash.",
    )
    .takes("<text> $<variable> { ... }", "")
    .differs(&["split-clients"]),
];
