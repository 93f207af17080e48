//! `proxy_pass`: where a location's requests go.
//!
//! Mirrors `ngx_http_proxy_pass` and `ngx_http_proxy_set_vars` (`ngx_http_proxy_module.c`).

use std::sync::Arc;

use crate::{
    conf::{
        address::{Url, UrlOptions},
        error::Problem,
        model::{Handler, LocationKind, PassTarget, ProxyPass},
        parser::Statement,
        read::{AddUpstream, Reader, Role, first},
    },
    vars::Template,
};

/// The directive.
pub(super) fn proxy_pass(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if reader.loc.proxy.pass.is_some() {
        return Err(Problem::duplicate());
    }
    reader.loc.handler = Some(Handler::Proxy);
    if reader.loc.name.ends_with(b"/") {
        reader.loc.auto_redirect = true;
    }
    let text = first(statement);
    let url = reader.template(text)?;
    let pass = if text.contains(&b'$') {
        ProxyPass {
            url,
            target: PassTarget::Variable,
            tls: false,
            uri: None,
            host_header: "".into(),
            port: "".into(),
            location_len: 0,
            location: [].into(),
        }
    } else {
        fixed_pass(reader, statement)?
    };
    reader.loc.proxy.pass = Some(Some(Arc::new(pass)));
    Ok(())
}

/// `proxy_pass` without variables.
fn fixed_pass(reader: &mut Reader, statement: &Statement) -> Result<ProxyPass, Problem> {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    let starts = |prefix: &str| {
        text.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let (skip, default_port, tls) = if starts("http://") {
        ("http://".len(), 80, false)
    } else if starts("https://") {
        ("https://".len(), 443, true)
    } else {
        return Err(Problem::message("invalid URL prefix"));
    };
    let address = text.get(skip..).unwrap_or_default();
    let options = UrlOptions {
        default_port,
        uri_part: true,
        no_resolve: true,
        ..UrlOptions::default()
    };
    let url = reader
        .url(address, options)
        .map_err(|error| Problem::message(format!("{error} in upstream \"{address}\"")))?;
    let index = reader.add_upstream(AddUpstream {
        host: &url.host,
        port: url.port,
        no_port: url.no_port,
        create: false,
        addrs: url.addrs.clone(),
        place: &statement.place,
    })?;
    let plain = matches!(
        reader.loc.kind,
        LocationKind::Exact | LocationKind::Prefix | LocationKind::PrefixNoRegex
    ) && reader.loc.role == Role::Location;
    if !plain && !url.uri.is_empty() {
        return Err(Problem::message(
            "\"proxy_pass\" cannot have URI part in location given by regular expression, \
             or inside named location, or inside \"if\" statement, \
             or inside \"limit_except\" block",
        ));
    }
    let (host_header, port) = host_and_port(&url, default_port);
    Ok(ProxyPass {
        url: Template::literal(text.as_bytes()),
        target: PassTarget::Upstream(index),
        tls,
        uri: (!url.uri.is_empty()).then(|| url.uri.as_bytes().into()),
        host_header: host_header.into(),
        port: port.into(),
        location_len: if plain { reader.loc.name.len() } else { 0 },
        location: if plain {
            reader.loc.name[..].into()
        } else {
            [].into()
        },
    })
}

/// `$proxy_host` and `$proxy_port` (`ngx_http_proxy_set_vars`).
fn host_and_port(url: &Url, default_port: u16) -> (String, String) {
    let default = url.no_port || url.port == default_port;
    match (url.unix, default) {
        (true, _) => ("localhost".to_owned(), String::new()),
        (false, true) => (url.host.clone(), default_port.to_string()),
        (false, false) => (
            format!("{}:{}", url.host, url.port_text),
            url.port_text.clone(),
        ),
    }
}
