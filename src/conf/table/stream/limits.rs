//! How many sessions at once may share a key.
//!
//! Mirrors `stream/ngx_stream_limit_conn_module.c`.

use super::{
    super::{
        FLAG, Row, STREAM, TAKE1, TAKE2,
        limits::{LEVELS, conn_limit, conn_zone},
    },
    BOTH,
};
use crate::conf::read::{ZoneUse, choice, flag};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::new(
        "limit_conn_zone",
        STREAM,
        TAKE2,
        |r, s| {
            conn_zone(r, s, ZoneUse::StreamLimitConn, |r| {
                &mut r.stream.limit_zones
            })
        },
        "Defines what sessions are counted by, and how much memory that may take.",
    )
    .takes("<text> zone=<name>:<size>", ""),
    Row::new(
        "limit_conn",
        BOTH,
        TAKE2,
        |r, s| {
            let limits = r.session.core.limit_conn.take();
            let limits = conn_limit(
                r,
                s,
                ZoneUse::StreamLimitConn,
                |r| &mut r.stream.limit_zones,
                limits,
            );
            r.session.core.limit_conn = Some(limits?);
            Ok(())
        },
        "Limits the sessions at once that share a key of the zone.",
    )
    .takes("<zone> <number>", ""),
    Row::new(
        "limit_conn_log_level",
        BOTH,
        TAKE1,
        |r, s| choice(&mut r.session.core.limit_conn_log_level, s, &LEVELS),
        "Sets the severity of refused sessions in the error log.",
    )
    .takes("info | notice | warn | error", "error"),
    Row::new(
        "limit_conn_dry_run",
        BOTH,
        FLAG,
        |r, s| flag(&mut r.session.core.limit_conn_dry_run, s),
        "Only logs which sessions would be refused.",
    )
    .default("off"),
];
