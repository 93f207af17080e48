//! How many sessions at once may share a key.
//!
//! Mirrors `stream/ngx_stream_limit_conn_module.c`.

use std::sync::Arc;

use super::{
    super::{FLAG, Row, STREAM, TAKE1, TAKE2},
    BOTH,
};
use crate::conf::{
    error::Problem,
    model::{Level, LimitConn},
    parser::Statement,
    read::{LimitZoneDraft, PAGE, Reader, ZoneUse, choice, first, flag},
    value,
};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::new(
        "limit_conn_zone",
        STREAM,
        TAKE2,
        limit_conn_zone,
        "Defines what sessions are counted by, and how much memory that may take.",
    ),
    Row::new(
        "limit_conn",
        BOTH,
        TAKE2,
        limit_conn,
        "Limits the sessions at once that share a key of the zone.",
    ),
    Row::new(
        "limit_conn_log_level",
        BOTH,
        TAKE1,
        |r, s| choice(&mut r.session.core.limit_conn_log_level, s, &LEVELS),
        "Sets the severity of refused sessions in the error log.",
    ),
    Row::new(
        "limit_conn_dry_run",
        BOTH,
        FLAG,
        |r, s| flag(&mut r.session.core.limit_conn_dry_run, s),
        "Only logs which sessions would be refused.",
    ),
];

const LEVELS: [(&str, Level); 4] = [
    ("info", Level::Info),
    ("notice", Level::Notice),
    ("warn", Level::Warn),
    ("error", Level::Error),
];

fn limit_conn_zone(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let [key, word] = statement.args.as_slice() else {
        return Ok(());
    };
    let template = reader.template(key.bytes())?;
    let text = word.text();
    let zone = text
        .strip_prefix("zone=")
        .ok_or_else(|| Problem::parameter(word))?;
    let invalid = || Problem::message(format!("invalid zone size \"{word}\""));
    let (name, size) = zone.split_once(':').ok_or_else(invalid)?;
    let size = value::size(size.as_bytes()).ok_or_else(invalid)?;
    if size < 8 * PAGE {
        return Err(Problem::message(format!("zone \"{word}\" is too small")));
    }
    if name.is_empty() {
        return Err(Problem::message(format!(
            "\"{}\" must have \"zone\" parameter",
            statement.name
        )));
    }
    reader.add_zone(name, size, ZoneUse::StreamLimitConn)?;
    let index = zone_index(reader, name);
    let zone = &mut reader.stream.limit_zones[index];
    if let Some((_, bound)) = &zone.key {
        return Err(Problem::message(format!(
            "{} \"{name}\" is already bound to key \"{bound}\"",
            statement.name
        )));
    }
    zone.key = Some((template, key.text().into_owned()));
    zone.size = size;
    Ok(())
}

/// The zone of this name, which may be defined later.
fn zone_index(reader: &mut Reader, name: &str) -> usize {
    let zones = &mut reader.stream.limit_zones;
    let known = zones.iter().position(|zone| &*zone.name == name);
    known.unwrap_or_else(|| {
        zones.push(LimitZoneDraft {
            name: name.into(),
            key: None,
            size: 0,
        });
        zones.len() - 1
    })
}

fn limit_conn(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let name = String::from_utf8_lossy(first(statement)).into_owned();
    reader.add_zone(&name, 0, ZoneUse::StreamLimitConn)?;
    let zone = zone_index(reader, &name);
    let limits = reader.session.core.limit_conn.take();
    let mut limits = limits.map_or_else(Vec::new, |limits| limits.to_vec());
    if limits.iter().any(|limit: &LimitConn| limit.zone == zone) {
        return Err(Problem::duplicate());
    }
    let connections = connections(statement)?;
    limits.push(LimitConn { zone, connections });
    reader.session.core.limit_conn = Some(Arc::from(limits));
    Ok(())
}

fn connections(statement: &Statement) -> Result<u32, Problem> {
    let Some(word) = statement.args.get(1) else {
        return Err(Problem::invalid_value());
    };
    match value::number(word.bytes()) {
        None | Some(0) => Err(Problem::message(format!(
            "invalid number of connections \"{word}\""
        ))),
        Some(number) => u16::try_from(number)
            .map(u32::from)
            .map_err(|_| Problem::message("connection limit must be less 65536")),
    }
}
