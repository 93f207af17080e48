//! `map`, `geo` and `split_clients`: tables behind variables.
//!
//! Mirrors `ngx_http_map_module.c`, `ngx_http_geo_module.c` and `ngx_http_split_clients_module.c`.

use super::{BLOCK, HTTP, Row, TAKE1, TAKE2, TAKE12, accepted::number_once, unsupported};
use crate::conf::{error::Problem, parser::Statement, read::Reader};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "map",
        HTTP,
        BLOCK | TAKE2,
        map,
        "Gives a variable a value that depends on another text.",
    ),
    Row::accepted(
        "map_hash_max_size",
        HTTP,
        TAKE1,
        number_once,
        "Limits the size of the hash tables of maps.",
    ),
    Row::accepted(
        "map_hash_bucket_size",
        HTTP,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash tables of maps.",
    ),
    Row::new(
        "geo",
        HTTP,
        BLOCK | TAKE12,
        geo,
        "Gives a variable a value that depends on an address.",
    ),
    Row::new(
        "split_clients",
        HTTP,
        BLOCK | TAKE2,
        split_clients,
        "Gives a variable one of several values by shares of a hash.",
    ),
];

// Each reader: `statement.args` are the words before the block, `statement.lines()?` the lines inside with `include`
// resolved (a line's words are `name` and `args`, its place is `place`), `reader.template(bytes)?`,
// `reader.pattern(bytes, caseless)?`, and at last `reader.vars.define(name, SlotSource::Map(table))?`.

fn map(_reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    Err(unsupported(&statement.name))
}

fn geo(_reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    Err(unsupported(&statement.name))
}

fn split_clients(_reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    Err(unsupported(&statement.name))
}
