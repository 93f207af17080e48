//! How the proxy module's settings are read where they are more than a number, a size or a time.
//!
//! Mirrors the setters of `ngx_http_proxy_module.c` and `ngx_http_upstream.c`.

use std::sync::Arc;

use crate::{
    conf::{
        address::parse_addr_port,
        error::Problem,
        model::{Bind, IgnoreHeaders, NextUpstream},
        parser::Statement,
        read::{Bit, Reader, bits, bytes, first, shared, unset},
    },
    vars::Template,
};

/// Where a reader puts what it has read.
type Slot<T> = fn(&mut Reader) -> &mut Option<T>;

pub(super) fn option_text(
    reader: &mut Reader,
    statement: &Statement,
    slot: Slot<Option<Template>>,
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

/// `proxy_set_header` and its kin.
pub(super) fn set_header(
    reader: &mut Reader,
    statement: &Statement,
    slot: Slot<Vec<(Arc<[u8]>, Template)>>,
) -> Result<(), Problem> {
    let [name, text] = statement.args.as_slice() else {
        return Ok(());
    };
    let value = reader.template(text.bytes())?;
    let header = (shared(name), value);
    slot(reader).get_or_insert_default().push(header);
    Ok(())
}

/// One more name of a header field.
#[expect(clippy::unnecessary_wraps, reason = "a reader as the others are")]
pub(super) fn field(
    reader: &mut Reader,
    statement: &Statement,
    slot: Slot<Vec<Box<[u8]>>>,
) -> Result<(), Problem> {
    let name = first(statement).to_ascii_lowercase().into();
    slot(reader).get_or_insert_default().push(name);
    Ok(())
}

/// `proxy_ignore_headers` and its kin.
pub(super) fn ignore_headers(
    reader: &mut Reader,
    statement: &Statement,
    slot: Slot<IgnoreHeaders>,
) -> Result<(), Problem> {
    bits(
        reader,
        statement,
        slot,
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

/// `proxy_next_upstream` and its kin, with the words that it knows.
pub(super) fn next_upstream(
    reader: &mut Reader,
    statement: &Statement,
    slot: Slot<NextUpstream>,
    words: &[Bit<NextUpstream>],
) -> Result<(), Problem> {
    bits(reader, statement, slot, words)?;
    if let Some(set) = slot(reader).as_mut().filter(|set| set.off) {
        // Whatever else is said.
        *set = NextUpstream {
            off: true,
            ..NextUpstream::default()
        };
    }
    Ok(())
}

/// Words of `proxy_next_upstream`; `updating` is the last, and of caches alone.
pub(super) const CASES: [Bit<NextUpstream>; 13] = [
    ("error", |set| &mut set.error),
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
    ("off", |set| &mut set.off),
    ("updating", |set| &mut set.updating),
];

/// `proxy_bind` and its kin.
pub(super) fn bind(
    reader: &mut Reader,
    statement: &Statement,
    slot: Slot<Option<Bind>>,
) -> Result<(), Problem> {
    unset(slot(reader).as_ref())?;
    let [word, rest @ ..] = statement.args.as_slice() else {
        return Ok(());
    };
    if rest.is_empty() && *word == "off" {
        *slot(reader) = Some(None);
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
    *slot(reader) = Some(Some(Bind {
        addr,
        fixed,
        transparent,
    }));
    Ok(())
}

pub(super) fn proxy_send_lowat(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    bytes(&mut reader.loc.proxy.send_lowat, statement)?;
    reader.warn("\"proxy_send_lowat\" is not supported, ignored", statement);
    Ok(())
}
