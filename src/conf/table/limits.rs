//! How many connections or sessions at once, and how many requests a second, may share a key.
//!
//! Mirrors `ngx_http_limit_conn_module.c`, `ngx_http_limit_req_module.c` and, with [`super::stream::limits`], the former's twin
//! in stream.

use std::sync::Arc;

use super::{FLAG, HSL, HTTP, Row, TAKE1, TAKE2, TAKE3, TAKE123};
use crate::{
    conf::{
        error::Problem,
        lexer::Word,
        model::{Level, LimitConn, LimitReq},
        parser::Statement,
        read::{
            LimitZoneDraft, PAGE, RateZoneDraft, Reader, ZoneUse, choice, first, flag, num_between,
        },
        value,
    },
    vars::Template,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "limit_conn_zone",
        HTTP,
        TAKE2,
        |r, s| conn_zone(r, s, ZoneUse::LimitConn, |r| &mut r.http.limit_zones),
        "Defines what connections are counted by, and how much memory that may take.",
    )
    .takes("<text> zone=<name>:<size>", ""),
    Row::new(
        "limit_conn",
        HSL,
        TAKE2,
        |r, s| {
            let limits = r.loc.limits.conn.take();
            let limits = conn_limit(
                r,
                s,
                ZoneUse::LimitConn,
                |r| &mut r.http.limit_zones,
                limits,
            );
            r.loc.limits.conn = Some(limits?);
            Ok(())
        },
        "Limits the requests at once that share a key of the zone.",
    )
    .takes("<zone> <number>", ""),
    Row::new(
        "limit_conn_log_level",
        HSL,
        TAKE1,
        |r, s| choice(&mut r.loc.limits.conn_log_level, s, &LEVELS),
        "Sets the severity of requests refused by `limit_conn` in the error log.",
    )
    .takes("info | notice | warn | error", "error"),
    Row::new(
        "limit_conn_status",
        HSL,
        TAKE1,
        |r, s| num_between(&mut r.loc.limits.conn_status, s, 400, 599),
        "Sets the status of requests refused by `limit_conn`.",
    )
    .takes("<status>", "503"),
    Row::new(
        "limit_conn_dry_run",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.limits.conn_dry_run, s),
        "Only logs which requests `limit_conn` would refuse.",
    )
    .default("off"),
    Row::new(
        "limit_req_zone",
        HTTP,
        TAKE3,
        rate_zone,
        "Defines what requests are counted by, how much memory that may take, and how many may come in a second or minute.",
    )
    .takes("<text> zone=<name>:<size> rate=<rate>", "")
    .differs(&["limit-key"]),
    Row::new(
        "limit_req",
        HSL,
        TAKE123,
        limit_req,
        "Limits how fast requests that share a key of the zone come: they wait, and are refused beyond the burst.",
    )
    .takes("zone=<name> [burst=<number>] [nodelay | delay=<number>]", ""),
    Row::new(
        "limit_req_log_level",
        HSL,
        TAKE1,
        |r, s| choice(&mut r.loc.limits.req_log_level, s, &LEVELS),
        "Sets the severity of requests refused by `limit_req` in the error log; those that wait are one level below.",
    )
    .takes("info | notice | warn | error", "error"),
    Row::new(
        "limit_req_status",
        HSL,
        TAKE1,
        |r, s| num_between(&mut r.loc.limits.req_status, s, 400, 599),
        "Sets the status of requests refused by `limit_req`.",
    )
    .takes("<status>", "503"),
    Row::new(
        "limit_req_dry_run",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.limits.req_dry_run, s),
        "Only logs which requests `limit_req` would delay or refuse.",
    )
    .default("off"),
];

pub(super) const LEVELS: [(&str, Level); 4] = [
    ("info", Level::Info),
    ("notice", Level::Notice),
    ("warn", Level::Warn),
    ("error", Level::Error),
];

/// Where a realm keeps its zones of connections.
type Zones = fn(&mut Reader) -> &mut Vec<LimitZoneDraft>;

/// `limit_conn_zone` of either realm.
pub(super) fn conn_zone(
    reader: &mut Reader,
    statement: &Statement,
    usage: ZoneUse,
    zones: Zones,
) -> Result<(), Problem> {
    let [key, word] = statement.args.as_slice() else {
        return Ok(());
    };
    let template = reader.template(key.bytes())?;
    let text = word.text();
    let zone = text
        .strip_prefix("zone=")
        .ok_or_else(|| Problem::parameter(word))?;
    let (name, size) = name_and_size(zone, word)?;
    has_name(name, statement)?;
    reader.add_zone(name, size, usage)?;
    let index = conn_index(reader, name, zones);
    let draft = &mut zones(reader)[index];
    define(draft, statement, template, key, size)
}

/// `name:size`
fn name_and_size<'a>(zone: &'a str, word: &Word) -> Result<(&'a str, u64), Problem> {
    let invalid = || Problem::message(format!("invalid zone size \"{word}\""));
    let (name, size) = zone.split_once(':').ok_or_else(invalid)?;
    let size = value::size(size.as_bytes()).ok_or_else(invalid)?;
    if size < 8 * PAGE {
        return Err(Problem::message(format!("zone \"{word}\" is too small")));
    }
    Ok((name, size))
}

fn has_name(name: &str, statement: &Statement) -> Result<(), Problem> {
    if name.is_empty() {
        let directive = &statement.name;
        return Err(Problem::message(format!(
            "\"{directive}\" must have \"zone\" parameter"
        )));
    }
    Ok(())
}

/// A zone gets its key, which it has only once.
fn define(
    zone: &mut LimitZoneDraft,
    statement: &Statement,
    template: Template,
    key: &Word,
    size: u64,
) -> Result<(), Problem> {
    if let Some((_, bound)) = &zone.key {
        let (directive, name) = (&statement.name, &zone.name);
        return Err(Problem::message(format!(
            "{directive} \"{name}\" is already bound to key \"{bound}\""
        )));
    }
    zone.key = Some((template, key.text().into_owned()));
    zone.size = size;
    Ok(())
}

/// The zone of this name, which may be defined later.
fn conn_index(reader: &mut Reader, name: &str, zones: Zones) -> usize {
    let zones = zones(reader);
    let known = zones.iter().position(|zone| &*zone.name == name);
    known.unwrap_or_else(|| {
        zones.push(LimitZoneDraft::new(name));
        zones.len() - 1
    })
}

/// `limit_conn` of either realm: `limits` and one more.
pub(super) fn conn_limit(
    reader: &mut Reader,
    statement: &Statement,
    usage: ZoneUse,
    zones: Zones,
    limits: Option<Arc<[LimitConn]>>,
) -> Result<Arc<[LimitConn]>, Problem> {
    let name = String::from_utf8_lossy(first(statement)).into_owned();
    reader.add_zone(&name, 0, usage)?;
    let zone = conn_index(reader, &name, zones);
    let mut limits = limits.map_or_else(Vec::new, |limits| limits.to_vec());
    if limits.iter().any(|limit| limit.zone == zone) {
        return Err(Problem::duplicate());
    }
    let connections = connections(statement)?;
    limits.push(LimitConn { zone, connections });
    Ok(limits.into())
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

fn rate_zone(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let Some((key, words)) = statement.args.split_first() else {
        return Ok(());
    };
    let template = reader.template(key.bytes())?;
    let (mut zone, mut rate) = (None, 1000);
    for word in words {
        let text = word.text();
        if let Some(value) = text.strip_prefix("zone=") {
            let (name, size) = name_and_size(value, word)?;
            zone = Some((name.to_owned(), size));
        } else if let Some(value) = text.strip_prefix("rate=") {
            rate = parse_rate(value)
                .ok_or_else(|| Problem::message(format!("invalid rate \"{word}\"")))?;
        } else {
            return Err(Problem::parameter(word));
        }
    }
    let (name, size) = zone.unwrap_or_default();
    has_name(&name, statement)?;
    reader.add_zone(&name, size, ZoneUse::LimitReq)?;
    let index = rate_index(reader, &name);
    let draft = &mut reader.http.rate_zones[index];
    draft.rate = rate;
    define(&mut draft.zone, statement, template, key, size)
}

/// Thousandths of a request a second.
fn parse_rate(text: &str) -> Option<u64> {
    let (number, seconds) = match (text.strip_suffix("r/s"), text.strip_suffix("r/m")) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 60),
        (None, None) => (text, 1),
    };
    let number = value::number(number.as_bytes()).filter(|number| *number > 0)?;
    Some(number.checked_mul(1000)? / seconds)
}

fn rate_index(reader: &mut Reader, name: &str) -> usize {
    let zones = &mut reader.http.rate_zones;
    let known = zones.iter().position(|zone| &*zone.zone.name == name);
    known.unwrap_or_else(|| {
        zones.push(RateZoneDraft {
            zone: LimitZoneDraft::new(name),
            rate: 0,
        });
        zones.len() - 1
    })
}

fn limit_req(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let (mut zone, mut burst, mut delay) = (None, 0, 0);
    for word in &statement.args {
        let text = word.text();
        let number = |text: &str, what: &str| {
            value::number(text.as_bytes())
                .filter(|number| *number > 0)
                .ok_or_else(|| Problem::message(format!("invalid {what} value \"{word}\"")))
        };
        if let Some(name) = text.strip_prefix("zone=") {
            reader.add_zone(name, 0, ZoneUse::LimitReq)?;
            zone = Some(name.to_owned());
        } else if let Some(value) = text.strip_prefix("burst=") {
            burst = number(value, "burst")?;
        } else if let Some(value) = text.strip_prefix("delay=") {
            delay = number(value, "delay")?;
        } else if text == "nodelay" {
            delay = u64::MAX;
        } else {
            return Err(Problem::parameter(word));
        }
    }
    if zone.is_none() {
        has_name("", statement)?;
    }
    let zone = rate_index(reader, &zone.unwrap_or_default());
    let limits = reader.loc.limits.req.take();
    let mut limits = limits.map_or_else(Vec::new, |limits| limits.to_vec());
    if limits.iter().any(|limit: &LimitReq| limit.zone == zone) {
        return Err(Problem::duplicate());
    }
    limits.push(LimitReq {
        zone,
        burst: burst.saturating_mul(1000),
        delay: delay.saturating_mul(1000),
    });
    reader.loc.limits.req = Some(limits.into());
    Ok(())
}
