//! How the proxy module's settings are read where they are more than a number, a size or a time.
//!
//! Mirrors the setters of `ngx_http_proxy_module.c` and `ngx_http_upstream.c`.

use super::unsupported;
use crate::conf::{
    address::parse_addr_port,
    error::Problem,
    model::{Bind, IgnoreHeaders, NextUpstream, ProxyVersion},
    parser::Statement,
    read::{self, Reader, bits, bytes, first, shared, unset},
};

pub(super) fn option_text(
    reader: &mut Reader,
    statement: &Statement,
    slot: fn(&mut Reader) -> &mut Option<Option<crate::vars::Template>>,
) -> Result<(), Problem> {
    if slot(reader).is_some() {
        return Err(Problem::duplicate());
    }
    let template = reader.template(first(statement))?;
    *slot(reader) = Some(Some(template));
    Ok(())
}

#[expect(clippy::option_option, reason = "unset, or set to nothing")]
pub(super) fn option_bytes(
    slot: &mut Option<Option<usize>>,
    statement: &Statement,
) -> Result<(), Problem> {
    let mut size = slot.flatten();
    bytes(&mut size, statement)?;
    *slot = Some(size);
    Ok(())
}

pub(super) fn proxy_set_header(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let [name, text] = statement.args.as_slice() else {
        return Ok(());
    };
    let value = reader.template(text.bytes())?;
    let header = (shared(name), value);
    reader
        .loc
        .proxy
        .set_header
        .get_or_insert_default()
        .push(header);
    Ok(())
}

pub(super) fn proxy_ignore_headers(
    reader: &mut Reader,
    statement: &Statement,
) -> Result<(), Problem> {
    bits(
        reader,
        statement,
        |r| &mut r.loc.proxy.ignore_headers,
        &[
            ("X-Accel-Redirect", |set: &mut IgnoreHeaders| {
                &mut set.accel_redirect
            }),
            ("X-Accel-Expires", |set| &mut set.accel_expires),
            ("X-Accel-Limit-Rate", |set| &mut set.accel_limit_rate),
            ("X-Accel-Buffering", |set| &mut set.accel_buffering),
            ("X-Accel-Charset", |set| &mut set.accel_charset),
            ("Expires", |set| &mut set.expires),
            ("Cache-Control", |set| &mut set.cache_control),
            ("Set-Cookie", |set| &mut set.set_cookie),
            ("Vary", |set| &mut set.vary),
        ],
    )
}

pub(super) fn proxy_next_upstream(
    reader: &mut Reader,
    statement: &Statement,
) -> Result<(), Problem> {
    bits(
        reader,
        statement,
        |r| &mut r.loc.proxy.next_upstream,
        &[
            ("error", |set: &mut NextUpstream| &mut set.error),
            ("timeout", |set| &mut set.timeout),
            ("invalid_header", |set| &mut set.invalid_header),
            ("non_idempotent", |set| &mut set.non_idempotent),
            ("http_500", |set| &mut set.http_500),
            ("http_502", |set| &mut set.http_502),
            ("http_503", |set| &mut set.http_503),
            ("http_504", |set| &mut set.http_504),
            ("http_403", |set| &mut set.http_403),
            ("http_404", |set| &mut set.http_404),
            ("http_429", |set| &mut set.http_429),
            ("updating", |set| &mut set.updating),
            ("off", |set| &mut set.off),
        ],
    )?;
    if let Some(set) = reader
        .loc
        .proxy
        .next_upstream
        .as_mut()
        .filter(|set| set.off)
    {
        // Whatever else is said.
        *set = NextUpstream {
            off: true,
            ..NextUpstream::default()
        };
    }
    Ok(())
}

pub(super) fn proxy_bind(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if reader.bind().is_some() {
        return Err(Problem::duplicate());
    }
    let [word, rest @ ..] = statement.args.as_slice() else {
        return Ok(());
    };
    if rest.is_empty() && *word == "off" {
        *reader.bind() = Some(None);
        return Ok(());
    }
    let addr = reader.template(word.bytes())?;
    let fixed = match addr.as_literal() {
        Some(_) => Some(
            parse_addr_port(&word.text())
                .ok_or_else(|| Problem::message(format!("invalid address \"{word}\"")))?
                .into(),
        ),
        None => None,
    };
    let transparent = match rest.first() {
        Some(word) if *word == "transparent" => true,
        Some(word) => return Err(Problem::parameter(word)),
        None => false,
    };
    reader.main.transparent |= transparent;
    *reader.bind() = Some(Some(Bind {
        addr,
        fixed,
        transparent,
    }));
    Ok(())
}

pub(super) fn proxy_http_version(
    reader: &mut Reader,
    statement: &Statement,
) -> Result<(), Problem> {
    let mut version = reader.loc.proxy.http_version.map(Some);
    read::choice(
        &mut version,
        statement,
        &[
            ("1.0", Some(ProxyVersion::Http10)),
            ("1.1", Some(ProxyVersion::Http11)),
            ("2", None),
        ],
    )?;
    reader.loc.proxy.http_version = version.flatten();
    unset(reader.loc.proxy.http_version.is_none().then_some(&()))
        .map_err(|_| unsupported("proxy_http_version 2"))
}

pub(super) fn proxy_send_lowat(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    bytes(&mut reader.loc.proxy.send_lowat, statement)?;
    reader.warn("\"proxy_send_lowat\" is not supported, ignored", statement);
    Ok(())
}
