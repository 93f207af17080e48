//! What is done with a session besides proxying, and `set`.
//!
//! Mirrors the modules `return`, `pass` and `set` of `stream`. Of several handlers the last one holds.

use super::super::{Row, STREAM_SERVER, TAKE1, TAKE2, maps::variable};
use crate::{
    conf::{
        address::UrlOptions,
        error::Problem,
        model::{PassAddr, SlotSource, StreamHandler},
        parser::Statement,
        read::{Reader, first},
    },
    vars::VarId,
};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::new(
        "return",
        STREAM_SERVER,
        TAKE1,
        return_,
        "Sends this text and ends the session.",
    )
    .takes("<text>", ""),
    Row::new(
        "pass",
        STREAM_SERVER,
        TAKE1,
        pass,
        "Hands a connection to the server here that listens on this address.",
    )
    .takes("<address>:<port> | unix:<path>", ""),
    Row::new(
        "set",
        STREAM_SERVER,
        TAKE2,
        set,
        "Gives a variable a value.",
    )
    .takes("$<variable> <value>", ""),
];

fn return_(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    let text = reader.template(first(statement))?;
    reader.session.handler = StreamHandler::Return(text);
    Ok(())
}

fn pass(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    let template = reader.template(first(statement))?;
    let addr = match template.as_literal() {
        None => PassAddr::Variable(template),
        Some(_) => fixed_pass(reader, statement)?,
    };
    reader.session.handler = StreamHandler::Pass(addr);
    Ok(())
}

/// An address without variables: the first of those that it stands for.
fn fixed_pass(reader: &Reader, statement: &Statement) -> Result<PassAddr, Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    let options = UrlOptions {
        no_resolve: true,
        ..UrlOptions::default()
    };
    let url = reader.url(&text, options).map_err(|error| {
        Problem::message(format!("{error} in \"{text}\" of the \"pass\" directive"))
    })?;
    let addr = url.addrs.into_iter().next();
    let addr = addr.ok_or_else(|| Problem::Directive("has no addresses".to_owned()))?;
    if url.no_port {
        return Err(Problem::Directive("has no port".to_owned()));
    }
    Ok(PassAddr::Fixed(addr))
}

fn set(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let [name, text] = statement.args.as_slice() else {
        return Ok(());
    };
    let target = reader.vars.define(&variable(name)?, SlotSource::Assigned)?;
    let value = reader.template(text.bytes())?;
    if let VarId::Slot(slot) = target {
        reader.session.assignments.push((slot, value));
    }
    Ok(())
}
