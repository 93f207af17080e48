//! Names resolved while running.
//!
//! Mirrors `ngx_resolver_create` (`core/ngx_resolver.c`).

use std::{sync::Arc, time::Duration};

use super::{HSL, ONE_MORE, Row, TAKE1};
use crate::{
    common::addr::Addr,
    conf::{
        address::UrlOptions,
        error::Problem,
        model,
        parser::Statement,
        read::{Reader, msec, unset},
        value,
    },
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "resolver",
        HSL,
        ONE_MORE,
        resolver,
        "Names the servers that resolve names while running.",
    )
    .takes(
        "<address> ... [valid=<time>] [ipv4=on|off] [ipv6=on|off]",
        "",
    )
    .differs(&["resolver-ports"]),
    Row::new(
        "resolver_timeout",
        HSL,
        TAKE1,
        |r, s| msec(&mut r.loc.core.resolver_timeout, s),
        "Bounds a look-up of a name.",
    )
    .takes("<time>", "30s"),
];

pub(super) fn resolver(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.resolver().as_ref())?;
    *reader.resolver() = Some(Some(Arc::new(name_servers(reader, statement)?)));
    Ok(())
}

fn name_servers(reader: &Reader, statement: &Statement) -> Result<model::Resolver, Problem> {
    let mut resolver = model::Resolver {
        servers: Vec::new(),
        valid: None,
        ipv4: true,
        ipv6: true,
    };
    for word in &statement.args {
        let text = word.text();
        let invalid = || Problem::message(format!("invalid parameter: {word}"));
        match text.split_once('=') {
            Some(("valid", time)) => {
                let time = value::seconds(time.as_bytes()).ok_or_else(invalid)?;
                resolver.valid = (time > 0).then(|| Duration::from_secs(time));
            }
            Some(("ipv4", flag)) => resolver.ipv4 = on_or_off(flag).ok_or_else(invalid)?,
            Some(("ipv6", flag)) => resolver.ipv6 = on_or_off(flag).ok_or_else(invalid)?,
            // Statistics of nginx's commercial version.
            Some(("status_zone", zone)) if !zone.is_empty() => {}
            _ => servers(reader, &text, &mut resolver)?,
        }
    }
    if !resolver.ipv4 && !resolver.ipv6 {
        return Err(Problem::message(
            "\"ipv4\" and \"ipv6\" cannot both be \"off\"",
        ));
    }
    if resolver.servers.is_empty() {
        return Err(Problem::message("no name servers defined"));
    }
    Ok(resolver)
}

/// All addresses of a name server.
fn servers(reader: &Reader, text: &str, resolver: &mut model::Resolver) -> Result<(), Problem> {
    let options = UrlOptions {
        default_port: 53,
        ..UrlOptions::default()
    };
    let url = reader
        .url(text, options)
        .map_err(|error| Problem::message(format!("{error} in resolver \"{text}\"")))?;
    resolver
        .servers
        .extend(url.addrs.iter().filter_map(|addr| match addr {
            Addr::Inet(addr) => Some(*addr),
            Addr::Unix(_) => None,
        }));
    Ok(())
}

fn on_or_off(flag: &str) -> Option<bool> {
    match flag {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}
