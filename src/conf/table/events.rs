//! `events`
//!
//! Mirrors `event/ngx_event.c`.

use ipnet::IpNet;

use super::{
    EVENTS, FLAG, Row, TAKE1,
    accepted::{flag_once, number_once, time_once},
    http_small::network,
};
use crate::conf::{
    address,
    error::Problem,
    parser::Statement,
    read::{EventsDraft, Reader, first, flag, unset},
    value,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "worker_connections",
        EVENTS,
        TAKE1,
        worker_connections,
        "Limits how many connections a thread has at once.",
    )
    .takes("<number>", "512")
    .differs(&["worker-connections"]),
    Row::accepted(
        "multi_accept",
        EVENTS,
        FLAG,
        |r, s| flag(&mut draft(r).multi_accept, s),
        "Accepts all waiting connections at once.",
    ),
    Row::accepted(
        "debug_connection",
        EVENTS,
        TAKE1,
        debug_connection,
        "Logs connections from these addresses at level debug.",
    ),
    Row::accepted(
        "use",
        EVENTS,
        TAKE1,
        use_method,
        "Names the system's interface for events.",
    ),
    Row::accepted(
        "accept_mutex",
        EVENTS,
        FLAG,
        flag_once,
        "Lets nginx's workers accept in turn.",
    ),
    Row::accepted(
        "accept_mutex_delay",
        EVENTS,
        TAKE1,
        time_once,
        "Sets how long a worker waits for its turn.",
    ),
    Row::accepted(
        "epoll_events",
        EVENTS,
        TAKE1,
        number_once,
        "Sets how many events nginx takes from the system at once.",
    ),
    Row::accepted(
        "worker_aio_requests",
        EVENTS,
        TAKE1,
        number_once,
        "Sets how many asynchronous reads nginx has in flight.",
    ),
];

pub(super) fn events(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if reader.events.is_some() {
        return Err(Problem::duplicate());
    }
    reader.events = Some(EventsDraft::default());
    Ok(reader.block(statement, EVENTS)?)
}

fn draft(reader: &mut Reader) -> &mut EventsDraft {
    reader.events.get_or_insert_default()
}

fn worker_connections(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(draft(reader).worker_connections.as_ref())?;
    let text = first(statement);
    let number = value::number(text).and_then(|n| usize::try_from(n).ok());
    let number = number.ok_or_else(|| {
        Problem::message(format!(
            "invalid number \"{}\"",
            String::from_utf8_lossy(text)
        ))
    })?;
    draft(reader).worker_connections = Some(number);
    Ok(())
}

fn debug_connection(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    if text == "unix:" {
        return Ok(());
    }
    if let Some((net, _)) = network(&text) {
        draft(reader).debug_connection.push(net);
        return Ok(());
    }
    let options = address::UrlOptions::default();
    let url = reader
        .url(&text, options)
        .map_err(|error| Problem::message(format!("{error} in debug_connection \"{text}\"")))?;
    let nets = url
        .addrs
        .iter()
        .filter_map(|addr| addr.ip().map(IpNet::from));
    draft(reader).debug_connection.extend(nets);
    Ok(())
}

/// Which one is used is ours to know; a name that nginx on Linux does not have is an error.
fn use_method(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    match first(statement) {
        b"epoll" | b"poll" | b"select" => Ok(()),
        other => Err(Problem::message(format!(
            "invalid event type \"{}\"",
            String::from_utf8_lossy(other)
        ))),
    }
}
