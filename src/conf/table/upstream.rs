//! `upstream` and what stands in it.
//!
//! Mirrors `ngx_http_upstream` and `ngx_http_upstream_server` (`http/ngx_http_upstream.c`), the balancers' modules, and the
//! twins of all of them in `stream`.

use std::time::Duration;

use super::{
    BLOCK, HTTP, NONE, ONE_MORE, Read, Row, STREAM_UPSTREAM, TAKE1, TAKE12, UPSTREAM, unsupported,
};
use crate::conf::{
    address::UrlOptions,
    error::Problem,
    lexer::Word,
    model::{LeastTimeMode, Method, UpstreamServer},
    parser::Statement,
    read::{
        AddUpstream, MethodSupport, PAGE, Reader, UpstreamDraft, ZoneUse, choice, first, msec, num,
        unset,
    },
    value,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "upstream",
        HTTP,
        BLOCK | TAKE1,
        upstream,
        "Defines a group of servers to proxy to.",
    )
    .takes("<name> { ... }", "")
    .differs(&["reload"]),
    Row::new(
        "server",
        UPSTREAM,
        ONE_MORE,
        server,
        "Adds a server to the group.",
    )
    .takes(
        "<address> [weight=<number>] [max_conns=<number>] [max_fails=<number>] \
             [fail_timeout=<time>] [backup] [down]",
        "",
    )
    .differs(&["unsupported"]),
    Row::new(
        "zone",
        UPSTREAM,
        TAKE12,
        zone,
        "Names shared memory for the group's state; here it is always shared.",
    )
    .takes("<name> [<size>]", "")
    .differs(&["shared-state"]),
    Row::new(
        "least_conn",
        UPSTREAM,
        NONE,
        LEAST_CONN,
        "Picks the server with the fewest connections.",
    ),
    Row::new(
        "least_time",
        UPSTREAM,
        TAKE12,
        least_time,
        "Picks the server with the least response time and connections.",
    )
    .takes("header | last_byte [inflight]", "")
    .differs(&[
        "one-clock",
        "long-idle",
        "no-sample",
        "early-sample",
        "connect-sample",
    ]),
    Row::new(
        "hash",
        UPSTREAM,
        TAKE12,
        hash,
        "Picks the server by the hash of a text.",
    )
    .takes("<text> [consistent]", ""),
    Row::new(
        "ip_hash",
        UPSTREAM,
        NONE,
        |r, s| {
            method(r, s, Method::IpHash, MethodSupport::no_backup());
            Ok(())
        },
        "Picks the server by the client's address.",
    ),
    Row::new(
        "random",
        UPSTREAM,
        NONE | TAKE12,
        random,
        "Picks a server at random, or the better of two.",
    )
    .takes("[two [least_conn]]", ""),
    Row::new(
        "keepalive",
        UPSTREAM,
        TAKE12,
        keepalive,
        "Sets how many idle connections to the group are kept; 0 is none.",
    )
    .takes("<number> [local]", "32 local")
    .differs(&["pool-key", "giveback"]),
    Row::new(
        "keepalive_requests",
        UPSTREAM,
        TAKE1,
        |r, s| num(&mut r.up.keepalive_requests, s),
        "Limits the requests of a connection to the group.",
    )
    .takes("<number>", "1000"),
    Row::new(
        "keepalive_time",
        UPSTREAM,
        TAKE1,
        |r, s| msec(&mut r.up.keepalive_time, s),
        "Limits how long a connection to the group is used.",
    )
    .takes("<time>", "1h"),
    Row::new(
        "keepalive_timeout",
        UPSTREAM,
        TAKE1,
        |r, s| msec(&mut r.up.keepalive_timeout, s),
        "Bounds how long a connection to the group is idle.",
    )
    .takes("<time>", "60s"),
];

pub(super) fn upstream(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let name = String::from_utf8_lossy(first(statement)).into_owned();
    let index = reader.add_upstream(AddUpstream {
        host: &name,
        port: 0,
        no_port: true,
        create: true,
        addrs: Vec::new(),
        place: &statement.place,
    })?;
    let draft = UpstreamDraft::new(&name, statement.place.clone());
    let outer = std::mem::replace(&mut reader.up, draft);
    let context = if reader.in_stream() {
        STREAM_UPSTREAM
    } else {
        UPSTREAM
    };
    let result = reader.block(statement, context);
    let mut draft = std::mem::replace(&mut reader.up, outer);
    result?;
    if draft.servers.is_empty() {
        return Err(Problem::message("no servers are inside upstream").ending(statement));
    }
    draft.explicit = true;
    if let Some(known) = reader.realm.upstreams.get_mut(index) {
        draft.name.clone_from(&known.name);
        draft.place.clone_from(&known.place);
        *known = draft;
    }
    Ok(())
}

pub(super) fn server(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    let mut server = UpstreamServer::new(text.as_str().into(), Vec::new());
    let mut run_time = None;
    let in_stream = reader.in_stream();
    for word in statement.args.iter().skip(1) {
        match word.bytes() {
            b"resolve" => run_time = Some("resolve"),
            text if text.starts_with(b"service=") => run_time = run_time.or(Some("service")),
            b"drain" if !in_stream => return Err(unsupported("server ... drain")),
            text if text.starts_with(b"route=") && !in_stream => {
                return Err(unsupported("server ... route"));
            }
            _ => server_parameter(&mut server, word, reader.up.support)?,
        }
    }
    if let Some(parameter) = run_time {
        return Err(unsupported(format!("server ... {parameter}")));
    }
    let options = UrlOptions {
        default_port: if in_stream { 0 } else { 80 },
        ..UrlOptions::default()
    };
    let url = reader
        .url(&text, options)
        .map_err(|error| Problem::message(format!("{error} in upstream \"{text}\"")))?;
    if in_stream && url.no_port {
        return Err(Problem::message(format!("no port in upstream \"{text}\"")));
    }
    server.addrs = url.addrs;
    reader.up.servers.push(server);
    Ok(())
}

fn server_parameter(
    server: &mut UpstreamServer,
    word: &Word,
    support: MethodSupport,
) -> Result<(), Problem> {
    let text = word.text();
    let invalid = || Problem::parameter(word);
    let (key, value) = text.split_once('=').unwrap_or((&text, ""));
    let number = || value::number(value.as_bytes()).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    match (key, text.contains('=')) {
        ("weight", true) => {
            server.weight = number().filter(|n| *n > 0).ok_or_else(invalid)?;
        }
        ("max_conns", true) => server.max_conns = number().ok_or_else(invalid)?,
        ("max_fails", true) => server.max_fails = number().ok_or_else(invalid)?,
        ("fail_timeout", true) => {
            let seconds = value::seconds(value.as_bytes()).ok_or_else(invalid)?;
            server.fail_timeout = Duration::from_secs(seconds);
        }
        ("backup", false) if !support.backup => {
            return Err(Problem::message(format!(
                "balancing method does not support parameter \"{word}\""
            )));
        }
        ("backup", false) => server.backup = true,
        ("down", false) => server.down = true,
        _ => return Err(invalid()),
    }
    Ok(())
}

/// A method after another only warns; the last one wins.
fn method(reader: &mut Reader, statement: &Statement, method: Method, support: MethodSupport) {
    if reader.up.method.is_some() {
        reader.warn("load balancing method redefined", statement);
    }
    reader.up.method = Some(method);
    reader.up.support = support;
}

/// `least_conn`
pub(super) const LEAST_CONN: Read = |reader, statement| {
    method(reader, statement, Method::LeastConn, MethodSupport::all());
    Ok(())
};

pub(super) fn least_time(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let again = matches!(reader.up.method, Some(Method::LeastTime { .. }));
    let modes: &[_] = if reader.in_stream() {
        &[
            ("connect", LeastTimeMode::Connect),
            ("first_byte", LeastTimeMode::FirstByte),
            ("last_byte", LeastTimeMode::LastByte),
        ]
    } else {
        &[
            ("header", LeastTimeMode::Header),
            ("last_byte", LeastTimeMode::LastByte),
        ]
    };
    let fallback = Method::LeastTime {
        mode: LeastTimeMode::LastByte,
        inflight: false,
    };
    method(reader, statement, fallback, MethodSupport::all());
    let inflight = match statement.args.get(1) {
        Some(word) if *word == "inflight" => true,
        Some(word) => return Err(Problem::parameter(word)),
        None => false,
    };
    let mut mode = again.then_some(LeastTimeMode::LastByte);
    choice(&mut mode, statement, modes)?;
    if let Some(mode) = mode {
        reader.up.method = Some(Method::LeastTime { mode, inflight });
    }
    Ok(())
}

pub(super) fn hash(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let key = reader.template(first(statement))?;
    let consistent = statement.args.get(1);
    let chosen = Method::Hash {
        key,
        consistent: consistent.is_some(),
    };
    method(reader, statement, chosen, MethodSupport::no_backup());
    match consistent {
        Some(word) if *word != "consistent" => Err(Problem::parameter(word)),
        _ => Ok(()),
    }
}

pub(super) fn random(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let words = &statement.args;
    let two = !words.is_empty();
    method(
        reader,
        statement,
        Method::Random { two },
        MethodSupport::no_backup(),
    );
    let known = ["two", "least_conn"];
    match words.iter().zip(known).find(|(word, known)| *word != known) {
        Some((word, _)) => Err(Problem::parameter(word)),
        None => Ok(()),
    }
}

fn keepalive(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.up.keepalive.as_ref())?;
    let text = first(statement);
    let count = value::number(text)
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| {
            Problem::message(format!(
                "invalid value \"{}\" in \"{}\" directive",
                String::from_utf8_lossy(text),
                statement.name
            ))
        })?;
    let local = match statement.args.get(1) {
        Some(word) if *word == "local" => true,
        Some(word) => return Err(Problem::parameter(word)),
        None => false,
    };
    reader.up.keepalive = Some((count, local));
    Ok(())
}

pub(super) fn zone(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let name = String::from_utf8_lossy(first(statement)).into_owned();
    if name.is_empty() {
        return Err(Problem::message(format!("invalid zone name \"{name}\"")));
    }
    let size = match statement.args.get(1) {
        Some(word) => {
            let size = value::size(word.bytes())
                .ok_or_else(|| Problem::message(format!("invalid zone size \"{word}\"")))?;
            if size < 8 * PAGE {
                return Err(Problem::message(format!("zone \"{name}\" is too small")));
            }
            size
        }
        None => 0,
    };
    let usage = if reader.in_stream() {
        ZoneUse::StreamUpstream
    } else {
        ZoneUse::Upstream
    };
    reader.add_zone(&name, size, usage)?;
    reader.up.zone = Some((name.into(), size));
    Ok(())
}
