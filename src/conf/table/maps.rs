//! `map`, `geo` and `split_clients`: tables behind variables.
//!
//! Mirrors `ngx_http_map_module.c`, `ngx_http_geo_module.c` and `ngx_http_split_clients_module.c`.

use super::{BLOCK, HTTP, Row, TAKE1, TAKE2, TAKE12, accepted::number_once, geo::geo};
use crate::{
    conf::{
        error::{ConfError, Problem},
        lexer::Word,
        model::SlotSource,
        parser::{Body, Node, Statement},
        read::Reader,
        value::number,
    },
    vars::{
        Template,
        map::{KeyError, Map},
        split_clients::{SplitClients, TooMuch},
    },
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "map",
        HTTP,
        BLOCK | TAKE2,
        map,
        "Gives a variable a value that depends on another text.",
    )
    .takes("<text> $<variable> { ... }", "")
    .differs(&["patterns"]),
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
    )
    .takes("[$<address>] $<variable> { ... }", ""),
    Row::new(
        "split_clients",
        HTTP,
        BLOCK | TAKE2,
        split_clients,
        "Gives a variable one of several values by shares of a hash.",
    )
    .takes("<text> $<variable> { ... }", "")
    .differs(&["split-clients"]),
];

/// A line of a table: no directive, but words of its own.
pub(super) type Line<'a> = dyn FnMut(&mut Reader, &Statement) -> Result<(), Problem> + 'a;

/// Reads the lines of a table in order; with `include`, those of included files at their place.
pub(super) fn lines(
    reader: &mut Reader,
    nodes: &[Node],
    include: bool,
    line: &mut Line<'_>,
) -> Result<(), Problem> {
    for node in nodes {
        let statement = match node {
            Node::Statement(statement) => statement,
            Node::Error(error) => return Err(error.clone().into()),
        };
        match &statement.body {
            Body::Include(nodes) if include => lines(reader, nodes, include, line)?,
            Body::Simple | Body::Include(_) => {
                line(reader, statement)
                    .map_err(|problem| Problem::Placed(problem.at(statement)))?;
            }
            Body::Block(..) => {
                return Err(ConfError::at("unexpected \"{\"", &statement.place).into());
            }
        }
    }
    Ok(())
}

pub(super) fn block(statement: &Statement) -> &[Node] {
    match &statement.body {
        Body::Block(nodes, _) => nodes,
        _ => &[],
    }
}

/// The name of a variable, without `$`.
pub(super) fn variable(word: &Word) -> Result<String, Problem> {
    match word.bytes().strip_prefix(b"$") {
        Some(name) if !name.is_empty() => Ok(String::from_utf8_lossy(name).into_owned()),
        _ => Err(Problem::Message(format!(
            "invalid variable name \"{word}\""
        ))),
    }
}

/// The text and the variable of `map` and `split_clients`.
fn key_and_target(
    reader: &mut Reader,
    statement: &Statement,
) -> Result<(Template, String), Problem> {
    let [key, target] = statement.args.as_slice() else {
        return Err(Problem::invalid_value());
    };
    let key = reader.template(key.bytes())?;
    let target = variable(target)?;
    // What is wrong with the name is said before the block is read.
    reader.vars.define(&target, SlotSource::Assigned)?;
    Ok((key, target))
}

pub(super) fn map(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let (key, target) = key_and_target(reader, statement)?;
    let mut map = Map::new(key);
    lines(reader, block(statement), true, &mut |reader, line| {
        map_line(reader, &mut map, line)
    })?;
    reader.vars.define(&target, SlotSource::Map(map.into()))?;
    Ok(())
}

fn map_line(reader: &mut Reader, map: &mut Map, line: &Statement) -> Result<(), Problem> {
    let value = match line.args.as_slice() {
        [] if line.name == "hostnames" => {
            map.set_hostnames();
            return Ok(());
        }
        [] if line.name == "volatile" => {
            map.set_volatile();
            return Ok(());
        }
        [value] => reader.template(value.bytes())?,
        _ => return Err(Problem::message("invalid number of the map parameters")),
    };
    let name = line.name.bytes();
    if name == b"default" {
        return if map.set_default(value) {
            Ok(())
        } else {
            Err(Problem::message("duplicate default map parameter"))
        };
    }
    if let Some(pattern) = name.strip_prefix(b"~") {
        let (pattern, caseless) = match pattern.strip_prefix(b"*") {
            Some(pattern) => (pattern, true),
            None => (pattern, false),
        };
        let pattern = reader.pattern(pattern, caseless)?;
        map.add_pattern(pattern, value);
        return Ok(());
    }
    // `\` before a word that would mean something else.
    let name = name.strip_prefix(b"\\").unwrap_or(name);
    map.add(name, value).map_err(|error| {
        Problem::Message(match error {
            KeyError::Invalid => {
                let name = String::from_utf8_lossy(name);
                format!("invalid hostname or wildcard \"{name}\"")
            }
            KeyError::Conflicting(name) => {
                let name = String::from_utf8_lossy(&name);
                format!("conflicting parameter \"{name}\"")
            }
        })
    })
}

pub(super) fn split_clients(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let (key, target) = key_and_target(reader, statement)?;
    let mut shares = Vec::new();
    lines(reader, block(statement), false, &mut |_, line| {
        shares.push(share(line)?);
        Ok(())
    })?;
    let split = SplitClients::new(key, shares).map_err(|TooMuch| {
        Problem::message("percent total is greater than 100%").ending(statement)
    })?;
    reader
        .vars
        .define(&target, SlotSource::SplitClients(split.into()))?;
    Ok(())
}

/// Hundredths of a percent, 0 for the rest, and the value.
fn share(line: &Statement) -> Result<(u64, Box<[u8]>), Problem> {
    let share = match line.name.bytes() {
        b"*" => Some(0),
        [percent @ .., b'%'] => hundredths(percent).filter(|share| *share > 0),
        _ => None,
    };
    let share = share
        .ok_or_else(|| Problem::Message(format!("invalid percent value \"{}\"", line.name)))?;
    let Some(value) = line.args.first() else {
        // DIFFERS(split-clients): nginx takes the value of whatever line stood in memory before.
        return Err(Problem::Message(format!(
            "no value for the percent value \"{}\"",
            line.name
        )));
    };
    Ok((share, value.bytes().into()))
}

/// A number with at most two decimals, times a hundred (`ngx_atofp`).
fn hundredths(text: &[u8]) -> Option<u64> {
    let (whole, decimals) = match text.iter().position(|c| *c == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &[][..]),
    };
    if text.is_empty() || decimals.len() > 2 {
        return None;
    }
    let zeros = &b"00"[decimals.len()..];
    number(&[b"0", whole, decimals, zeros].concat())
}
