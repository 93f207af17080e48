//! Readers of TLS's arguments, towards clients and towards upstreams.
//!
//! Mirrors the setters of `ngx_http_ssl_module.c`, `ngx_stream_ssl_module.c` and the proxy modules. A setting that nginx
//! has and the TLS library has not is named in a warning, or refused where ignoring it would be less safe.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::unsupported;
use crate::conf::{
    error::Problem,
    lexer::Word,
    model::{CertificateCache, Passwords, PemName, Protocols, SessionCache, SslZone},
    parser::Statement,
    read::{Bit, PAGE, Reader, ZoneUse, bits, check_command, first, shared, unset},
    value,
};

/// Where a reader puts what it has read.
type Place<T> = fn(&mut Reader) -> &mut Option<T>;

fn argument(statement: &Statement) -> Arc<str> {
    String::from_utf8_lossy(first(statement)).into()
}

/// A text.
pub(super) fn text(slot: &mut Option<Arc<str>>, statement: &Statement) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    *slot = Some(argument(statement));
    Ok(())
}

/// A text; an empty one is none.
#[expect(clippy::option_option, reason = "unset, or set to nothing")]
pub(super) fn optional(
    slot: &mut Option<Option<Arc<str>>>,
    statement: &Statement,
) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    *slot = Some(Some(argument(statement)).filter(|text| !text.is_empty()));
    Ok(())
}

/// A file; an empty name is none.
pub(super) fn file(
    reader: &mut Reader,
    statement: &Statement,
    slot: Place<Option<PathBuf>>,
) -> Result<(), Problem> {
    unset(slot(reader).as_ref())?;
    let name = first(statement);
    let path = (!name.is_empty()).then(|| reader.tls_path(name));
    *slot(reader) = Some(path);
    Ok(())
}

/// One more file.
#[expect(clippy::unnecessary_wraps, reason = "a reader as the others are")]
pub(super) fn files(
    reader: &mut Reader,
    statement: &Statement,
    slot: Place<Vec<PathBuf>>,
) -> Result<(), Problem> {
    let path = reader.tls_path(first(statement));
    slot(reader).get_or_insert_default().push(path);
    Ok(())
}

/// One more certificate or key of a server.
pub(super) fn name(
    reader: &mut Reader,
    statement: &Statement,
    slot: Place<Vec<PemName>>,
) -> Result<(), Problem> {
    let name = pem_name(reader, statement)?;
    slot(reader).get_or_insert_default().push(name);
    Ok(())
}

/// The one certificate or key of a proxy.
pub(super) fn only_name(
    reader: &mut Reader,
    statement: &Statement,
    slot: Place<Option<PemName>>,
) -> Result<(), Problem> {
    unset(slot(reader).as_ref())?;
    let name = pem_name(reader, statement)?;
    *slot(reader) = Some(Some(name));
    Ok(())
}

fn pem_name(reader: &mut Reader, statement: &Statement) -> Result<PemName, Problem> {
    Ok(PemName {
        written: argument(statement),
        template: reader.template(first(statement))?,
    })
}

pub(super) fn passwords(
    reader: &mut Reader,
    statement: &Statement,
    slot: Place<Passwords>,
) -> Result<(), Problem> {
    unset(slot(reader).as_ref())?;
    let passwords = reader.passwords(first(statement))?;
    *slot(reader) = Some(passwords);
    Ok(())
}

/// `ssl_dhparam` and `ssl_engine`: a warning says that nothing comes of them.
// DIFFERS(dhe): OpenSSL has ciphers with DHE, and reads the file.
// DIFFERS(engines): OpenSSL loads the engine.
pub(super) fn not_supported(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    reader.warn(
        format_args!("\"{}\" is not supported, ignored", statement.name),
        statement,
    );
    Ok(())
}

/// Versions of TLS.
pub(super) fn protocols(
    reader: &mut Reader,
    statement: &Statement,
    slot: Place<Protocols>,
) -> Result<(), Problem> {
    bits(reader, statement, slot, &PROTOCOLS)?;
    let spoken = |word: &&Word| {
        let spoken = [&b"TLSv1.2"[..], b"TLSv1.3"];
        spoken
            .iter()
            .any(|name| name.eq_ignore_ascii_case(word.bytes()))
    };
    // DIFFERS(tls-versions): nginx speaks them where OpenSSL's security level lets it.
    for word in statement.args.iter().filter(|word| !spoken(word)) {
        reader.warn(
            format_args!(
                "\"{word}\" of \"{}\" is not supported, ignored",
                statement.name
            ),
            statement,
        );
    }
    Ok(())
}

const PROTOCOLS: [Bit<Protocols>; 6] = [
    ("SSLv2", |set| &mut set.ssl2),
    ("SSLv3", |set| &mut set.ssl3),
    ("TLSv1", |set| &mut set.tls1),
    ("TLSv1.1", |set| &mut set.tls11),
    ("TLSv1.2", |set| &mut set.tls12),
    ("TLSv1.3", |set| &mut set.tls13),
];

pub(super) fn certificate_cache(
    reader: &mut Reader,
    statement: &Statement,
    slot: Place<Option<Arc<CertificateCache>>>,
) -> Result<(), Problem> {
    unset(slot(reader).as_ref())?;
    let mut cache = CertificateCache {
        max: 0,
        inactive: Duration::from_secs(10),
        valid: Duration::from_mins(1),
    };
    let mut off = false;
    for word in &statement.args {
        cache_parameter(&mut cache, &mut off, word).ok_or_else(|| Problem::parameter(word))?;
    }
    if !off && cache.max == 0 {
        return Err(Problem::message(format!(
            "\"{}\" must have the \"max\" parameter",
            statement.name
        )));
    }
    *slot(reader) = Some((!off).then(|| cache.into()));
    Ok(())
}

fn cache_parameter(cache: &mut CertificateCache, off: &mut bool, word: &Word) -> Option<()> {
    let text = word.text();
    if text == "off" {
        *off = true;
        return Some(());
    }
    let (key, value) = text.split_once('=')?;
    let seconds = || value::seconds(value.as_bytes()).map(Duration::from_secs);
    match key {
        "max" => {
            let max = value::number(value.as_bytes()).filter(|max| *max > 0)?;
            cache.max = usize::try_from(max).ok()?;
        }
        "inactive" => cache.inactive = seconds()?,
        "valid" => cache.valid = seconds()?,
        _ => return None,
    }
    Some(())
}

/// `ssl_session_cache`; a later one adds to an earlier one.
pub(super) fn session_cache(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let usage = if reader.in_stream() {
        ZoneUse::StreamSslSessions
    } else {
        ZoneUse::SslSessions
    };
    for word in &statement.args {
        let text = word.text();
        let invalid = || Problem::message(format!("invalid session cache \"{word}\""));
        let cache = match text.split_once(':') {
            None if text == "off" => SessionCache::Off,
            None if text == "none" => SessionCache::None,
            None if text == "builtin" => SessionCache::Builtin(OPENSSL_SESSIONS),
            Some(("builtin", count)) => {
                let count = value::number(count.as_bytes()).ok_or_else(invalid)?;
                SessionCache::Builtin(usize::try_from(count).map_err(|_| invalid())?)
            }
            Some(("shared", rest)) => {
                let zone = zone(reader, word, rest, ("session", usage))?;
                reader.ssl().session_zone = Some(Some(zone));
                continue;
            }
            _ => return Err(invalid()),
        };
        reader.ssl().session_cache = Some(cache);
    }
    let ssl = reader.ssl();
    if ssl.session_zone.is_some() && ssl.session_cache.is_none() {
        ssl.session_cache = Some(SessionCache::ZoneOnly);
    }
    Ok(())
}

/// `NAME:SIZE` of `word`; `what` says of which kind of cache, for messages.
fn zone(
    reader: &mut Reader,
    word: &Word,
    text: &str,
    (what, usage): (&str, ZoneUse),
) -> Result<SslZone, Problem> {
    let invalid = || Problem::message(format!("invalid {what} cache \"{word}\""));
    let named = text.split_once(':').filter(|(name, _)| !name.is_empty());
    let (name, size) = named.ok_or_else(invalid)?;
    let size = value::size(size.as_bytes()).ok_or_else(invalid)?;
    if size < 8 * PAGE {
        return Err(Problem::message(format!(
            "{what} cache \"{word}\" is too small"
        )));
    }
    reader.add_zone(name, size, usage)?;
    Ok(SslZone {
        name: name.into(),
        size,
    })
}

/// `ssl_ocsp_cache`
pub(super) fn ocsp_cache(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.ssl().ocsp_cache.as_ref())?;
    let usage = if reader.in_stream() {
        ZoneUse::StreamOcsp
    } else {
        ZoneUse::Ocsp
    };
    let Some(word) = statement.args.first() else {
        return Ok(());
    };
    let text = word.text();
    let cache = match text.strip_prefix("shared:") {
        None if text == "off" => None,
        Some(rest) => Some(zone(reader, word, rest, ("OCSP", usage))?),
        None => return Err(Problem::message(format!("invalid OCSP cache \"{word}\""))),
    };
    reader.ssl().ocsp_cache = Some(cache);
    Ok(())
}

/// `ssl_conf_command` and its kin.
// DIFFERS(conf-command): nginx passes each to OpenSSL.
pub(super) fn command(
    reader: &mut Reader,
    statement: &Statement,
    slot: Place<Vec<(Arc<str>, Arc<str>)>>,
) -> Result<(), Problem> {
    let [name, value] = statement.args.as_slice() else {
        return Ok(());
    };
    let (name, value) = (name.text(), value.text());
    let ignored = check_command(&name, &value)
        .ok_or_else(|| unsupported(format_args!("{} {name} {value}", statement.name)))?;
    for word in ignored {
        reader.warn(
            format_args!(
                "\"{word}\" of \"{}\" is not supported, ignored",
                statement.name
            ),
            statement,
        );
    }
    let command = (Arc::from(&*name), Arc::from(&*value));
    slot(reader).get_or_insert_default().push(command);
    Ok(())
}

/// `ssl_alpn`
pub(super) fn alpn(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.ssl().alpn.as_ref())?;
    if statement.args.iter().any(|word| word.bytes().len() > 255) {
        return Err(Problem::Directive("protocol too long".to_owned()));
    }
    reader.ssl().alpn = Some(statement.args.iter().map(shared).collect());
    Ok(())
}

/// How many sessions OpenSSL keeps where nothing is said.
const OPENSSL_SESSIONS: usize = 20480;
