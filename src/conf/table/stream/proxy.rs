//! `proxy_*` of `stream`.
//!
//! Mirrors `stream/ngx_stream_proxy_module.c`.

use super::{
    super::{
        FLAG, Row, STREAM_SERVER, TAKE1, TAKE12,
        proxy_values::{bind, option_bytes},
    },
    BOTH,
};
use crate::conf::{
    address::UrlOptions,
    error::Problem,
    model::{ProxyProtocol, StreamHandler, StreamPass},
    parser::Statement,
    read::{self, AddUpstream, Reader, bytes, choice, first, flag, msec, num, unset},
};

pub(in crate::conf::table) const ROWS: &[Row] = &[
    Row::new(
        "proxy_pass",
        STREAM_SERVER,
        TAKE1,
        proxy_pass,
        "Proxies to this address or group.",
    )
    .takes("<address>:<port> | unix:<path> | <upstream>", ""),
    Row::new(
        "proxy_connect_timeout",
        BOTH,
        TAKE1,
        |r, s| msec(&mut r.session.proxy.connect_timeout, s),
        "Bounds the time to connect to a server.",
    )
    .takes("<time>", "60s"),
    Row::new(
        "proxy_timeout",
        BOTH,
        TAKE1,
        |r, s| msec(&mut r.session.proxy.timeout, s),
        "Bounds how long a session is idle.",
    )
    .takes("<time>", "10m"),
    Row::new(
        "proxy_buffer_size",
        BOTH,
        TAKE1,
        buffer_size,
        "Sets the buffer of each direction.",
    )
    .takes("<size>", "16k")
    .differs(&["udp-whole"]),
    Row::new(
        "proxy_downstream_buffer",
        BOTH,
        TAKE1,
        old_buffer_size,
        "Sets the buffer of each direction, an old name.",
    )
    .takes("<size>", "16k"),
    Row::new(
        "proxy_upstream_buffer",
        BOTH,
        TAKE1,
        old_buffer_size,
        "Sets the buffer of each direction, an old name.",
    )
    .takes("<size>", "16k"),
    Row::new(
        "proxy_upload_rate",
        BOTH,
        TAKE1,
        |r, s| read::text_size(r, s, |r| &mut r.session.proxy.upload_rate),
        "Limits the bytes a second from a client.",
    )
    .takes("<rate>", "0"),
    Row::new(
        "proxy_download_rate",
        BOTH,
        TAKE1,
        |r, s| read::text_size(r, s, |r| &mut r.session.proxy.download_rate),
        "Limits the bytes a second from a server.",
    )
    .takes("<rate>", "0"),
    Row::new(
        "proxy_requests",
        BOTH,
        TAKE1,
        |r, s| num(&mut r.session.proxy.requests, s),
        "Sets how many datagrams of a client make a session; 0 is no limit.",
    )
    .takes("<number>", "0"),
    Row::new(
        "proxy_responses",
        BOTH,
        TAKE1,
        proxy_responses,
        "Sets how many datagrams a server answers with; 0 is none.",
    )
    .takes("<number>", ""),
    Row::new(
        "proxy_next_upstream",
        BOTH,
        FLAG,
        |r, s| flag(&mut r.session.proxy.next_upstream, s),
        "Tries the next server when one cannot be reached.",
    )
    .default("on"),
    Row::new(
        "proxy_next_upstream_tries",
        BOTH,
        TAKE1,
        |r, s| num(&mut r.session.proxy.next_upstream_tries, s),
        "Limits the tries of a session; 0 is no limit.",
    )
    .takes("<number>", "0"),
    Row::new(
        "proxy_next_upstream_timeout",
        BOTH,
        TAKE1,
        |r, s| msec(&mut r.session.proxy.next_upstream_timeout, s),
        "Bounds the time in which tries begin; 0 is no limit.",
    )
    .takes("<time>", "0"),
    Row::new(
        "proxy_protocol",
        BOTH,
        TAKE1,
        |r, s| choice(&mut r.session.proxy.protocol, s, &VERSIONS),
        "Begins a connection to a server with a PROXY line: `on` is version 1, `v2` version 2.",
    )
    .takes("on | v2 | off", "off"),
    Row::new(
        "proxy_bind",
        BOTH,
        TAKE12,
        |r, s| bind(r, s, |r| &mut r.session.proxy.bind),
        "Sets the local address of connections to servers.",
    )
    .takes("<address> [transparent]; off", ""),
    Row::new(
        "proxy_socket_keepalive",
        BOTH,
        FLAG,
        |r, s| flag(&mut r.session.proxy.socket_keepalive, s),
        "Lets the system probe idle connections to servers.",
    )
    .default("off"),
    Row::new(
        "proxy_socket_rcvbuf",
        BOTH,
        TAKE1,
        |r, s| option_bytes(&mut r.session.proxy.socket_rcvbuf, s),
        "Sets the system's receive buffer of connections to servers.",
    )
    .takes("<size>", ""),
    Row::new(
        "proxy_socket_sndbuf",
        BOTH,
        TAKE1,
        |r, s| option_bytes(&mut r.session.proxy.socket_sndbuf, s),
        "Sets the system's send buffer of connections to servers.",
    )
    .takes("<size>", ""),
    Row::new(
        "proxy_half_close",
        BOTH,
        FLAG,
        |r, s| flag(&mut r.session.proxy.half_close, s),
        "Lets each direction of a session end by itself.",
    )
    .default("off"),
];

const VERSIONS: [(&str, ProxyProtocol); 3] = [
    ("off", ProxyProtocol::Off),
    ("on", ProxyProtocol::V1),
    ("v2", ProxyProtocol::V2),
];

fn proxy_pass(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.session.proxy.pass.as_ref())?;
    reader.session.handler = StreamHandler::Proxy;
    let template = reader.template(first(statement))?;
    let pass = match template.as_literal() {
        None => StreamPass::Variable(template),
        Some(_) => fixed_pass(reader, statement)?,
    };
    reader.session.proxy.pass = Some(Some(pass));
    Ok(())
}

/// `proxy_pass` without variables: a group, or an address that becomes one.
fn fixed_pass(reader: &mut Reader, statement: &Statement) -> Result<StreamPass, Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    let options = UrlOptions {
        no_resolve: true,
        ..UrlOptions::default()
    };
    let url = reader
        .url(&text, options)
        .map_err(|error| Problem::message(format!("{error} in upstream \"{text}\"")))?;
    let index = reader.add_upstream(AddUpstream {
        host: &url.host,
        port: url.port,
        no_port: url.no_port,
        create: false,
        addrs: url.addrs,
        place: &statement.place,
    })?;
    Ok(StreamPass::Upstream(index))
}

fn buffer_size(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    bytes(&mut reader.session.proxy.buffer_size, statement)
}

fn old_buffer_size(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    buffer_size(reader, statement)?;
    reader.warn(
        format_args!(
            "the \"{}\" directive is deprecated, use the \"proxy_buffer_size\" directive instead",
            statement.name
        ),
        statement,
    );
    Ok(())
}

fn proxy_responses(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let mut number = reader.session.proxy.responses.flatten();
    num(&mut number, statement)?;
    reader.session.proxy.responses = Some(number);
    Ok(())
}
