//! `grpc_*`: HTTP/2 to upstreams that speak gRPC.
//!
//! Mirrors `http/modules/ngx_http_grpc_module.c`; what concerns TLS is in [`super::proxy_ssl`].

use std::sync::Arc;

use super::{
    FLAG, HSL, LOCATION, LOCATION_IF, ONE_MORE, Row, TAKE1, TAKE2, TAKE12,
    proxy_values::{CASES, bind, field, ignore_headers, next_upstream, option_bytes, set_header},
};
use crate::{
    conf::{
        address::UrlOptions,
        error::Problem,
        model::{Handler, PassTarget, ProxyPass},
        parser::Statement,
        read::{AddUpstream, Reader, bytes, first, flag, msec, num},
    },
    vars::Template,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "grpc_pass",
        LOCATION | LOCATION_IF,
        TAKE1,
        grpc_pass,
        "Passes requests to a gRPC server; `grpcs://` is TLS.",
    )
    .takes("<address> | grpc://<address> | grpcs://<address>", ""),
    Row::new(
        "grpc_set_header",
        HSL,
        TAKE2,
        |r, s| set_header(r, s, |r| &mut r.loc.grpc.set_header),
        "Sets a header field of gRPC requests; empty leaves it out.",
    )
    .takes("<field> <value>", ""),
    Row::new(
        "grpc_pass_header",
        HSL,
        TAKE1,
        |r, s| field(r, s, |r| &mut r.loc.grpc.pass_header),
        "Passes a header field of gRPC responses that is hidden otherwise.",
    )
    .takes("<field>", ""),
    Row::new(
        "grpc_hide_header",
        HSL,
        TAKE1,
        |r, s| field(r, s, |r| &mut r.loc.grpc.hide_header),
        "Hides a header field of gRPC responses.",
    )
    .takes("<field>", ""),
    Row::new(
        "grpc_ignore_headers",
        HSL,
        ONE_MORE,
        |r, s| ignore_headers(r, s, |r| &mut r.loc.grpc.ignore_headers),
        "Ignores what these header fields of gRPC responses ask for.",
    )
    .takes("<field> ...", ""),
    Row::new(
        "grpc_intercept_errors",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.grpc.intercept_errors, s),
        "Lets error_page answer instead of gRPC responses of 300 and more.",
    )
    .default("off"),
    Row::new(
        "grpc_buffer_size",
        HSL,
        TAKE1,
        |r, s| bytes(&mut r.loc.grpc.buffer_size, s),
        "Sets the buffer for a gRPC response.",
    )
    .takes("<size>", "4k"),
    Row::new(
        "grpc_connect_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.grpc.connect_timeout, s),
        "Bounds the time to connect to a gRPC server.",
    )
    .takes("<time>", "60s"),
    Row::new(
        "grpc_send_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.grpc.send_timeout, s),
        "Bounds the time between two writes to a gRPC server.",
    )
    .takes("<time>", "60s"),
    Row::new(
        "grpc_read_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.grpc.read_timeout, s),
        "Bounds the time between two reads from a gRPC server.",
    )
    .takes("<time>", "60s"),
    Row::new(
        "grpc_next_upstream",
        HSL,
        ONE_MORE,
        cases,
        "Says in which cases a gRPC request is tried on the next server.",
    )
    .takes(
        "error | timeout | invalid_header | http_500 | http_502 | http_503 | \
         http_504 | http_403 | http_404 | http_429 | non_idempotent | off ...",
        "error timeout",
    ),
    Row::new(
        "grpc_next_upstream_tries",
        HSL,
        TAKE1,
        |r, s| num(&mut r.loc.grpc.next_upstream_tries, s),
        "Limits the gRPC tries of a request; 0 is no limit.",
    )
    .takes("<number>", "0"),
    Row::new(
        "grpc_next_upstream_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.grpc.next_upstream_timeout, s),
        "Bounds the time in which gRPC tries begin; 0 is no limit.",
    )
    .takes("<time>", "0"),
    Row::new(
        "grpc_bind",
        HSL,
        TAKE12,
        |r, s| bind(r, s, |r| &mut r.loc.grpc.bind),
        "Sets the local address of gRPC connections.",
    )
    .takes("<address> [transparent]; off", ""),
    Row::new(
        "grpc_socket_keepalive",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.grpc.socket_keepalive, s),
        "Lets the system probe idle gRPC connections.",
    )
    .default("off"),
    Row::new(
        "grpc_socket_rcvbuf",
        HSL,
        TAKE1,
        |r, s| option_bytes(&mut r.loc.grpc.socket_rcvbuf, s),
        "Sets the system's receive buffer of gRPC connections.",
    )
    .takes("<size>", ""),
    Row::new(
        "grpc_socket_sndbuf",
        HSL,
        TAKE1,
        |r, s| option_bytes(&mut r.loc.grpc.socket_sndbuf, s),
        "Sets the system's send buffer of gRPC connections.",
    )
    .takes("<size>", ""),
];

fn cases(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let (_updating, words) = CASES.split_last().unwrap_or((&CASES[0], &CASES));
    next_upstream(reader, statement, |r| &mut r.loc.grpc.next_upstream, words)
}

/// `grpc_pass`
fn grpc_pass(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if reader.loc.grpc.pass.is_some() {
        return Err(Problem::duplicate());
    }
    reader.loc.handler = Some(Handler::Grpc);
    if reader.loc.name.ends_with(b"/") {
        reader.loc.auto_redirect = true;
    }
    let pass = ProxyPass {
        url: reader.template(first(statement))?,
        target: PassTarget::Variable,
        tls: false,
        uri: None,
        host_header: "".into(),
        port: "".into(),
        location_len: 0,
        location: [].into(),
    };
    let pass = if first(statement).contains(&b'$') {
        pass
    } else {
        fixed_pass(reader, statement, pass)?
    };
    reader.loc.grpc.pass = Some(Some(Arc::new(pass)));
    Ok(())
}

/// `grpc_pass` without variables.
fn fixed_pass(
    reader: &mut Reader,
    statement: &Statement,
    pass: ProxyPass,
) -> Result<ProxyPass, Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    let after = |scheme: &str| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let (address, tls) = match (after("grpc://"), after("grpcs://")) {
        (Some(rest), _) => (rest, false),
        (None, Some(rest)) => (rest, true),
        (None, None) => (&*text, false),
    };
    let options = UrlOptions {
        no_resolve: true,
        ..UrlOptions::default()
    };
    let url = reader
        .url(address, options)
        .map_err(|error| Problem::message(format!("{error} in upstream \"{address}\"")))?;
    let host_header = match (url.unix, url.no_port) {
        (true, _) => "localhost".into(),
        (false, true) => url.host.as_str().into(),
        (false, false) => format!("{}:{}", url.host, url.port_text).into(),
    };
    let index = reader.add_upstream(AddUpstream {
        host: &url.host,
        port: url.port,
        no_port: url.no_port,
        create: false,
        addrs: url.addrs,
        place: &statement.place,
    })?;
    Ok(ProxyPass {
        url: Template::literal(text.as_bytes()),
        target: PassTarget::Upstream(index),
        tls,
        host_header,
        ..pass
    })
}
