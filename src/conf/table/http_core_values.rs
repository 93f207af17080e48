//! How the core module's settings are read where it is not only a number, a size or a time.
//!
//! Mirrors the setters of `http/ngx_http_core_module.c`.

use super::unsupported;
use crate::conf::{
    error::Problem,
    model::{KeepaliveDisable, ServerTokens},
    parser::Statement,
    read::{self, Reader, bytes, first, msec, num, unset},
    value,
};

/// A value that is set once.
pub(super) fn once<T>(
    slot: &mut Option<T>,
    statement: &Statement,
    make: impl Fn(&Statement) -> T,
) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    *slot = Some(make(statement));
    Ok(())
}

/// `ngx_http_core_pool_size`
pub(super) fn pool_size(slot: &mut Option<usize>, statement: &Statement) -> Result<(), Problem> {
    bytes(slot, statement)?;
    match *slot {
        Some(size) if size < MIN_POOL_SIZE => Err(Problem::message(format!(
            "the pool size must be no less than {MIN_POOL_SIZE}"
        ))),
        Some(size) if size % POOL_ALIGNMENT != 0 => Err(Problem::message(format!(
            "the pool size must be a multiple of {POOL_ALIGNMENT}"
        ))),
        _ => Ok(()),
    }
}

pub(super) fn send_lowat(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    bytes(&mut reader.loc.core.send_lowat, statement)?;
    reader.warn("\"send_lowat\" is not supported, ignored", statement);
    Ok(())
}

pub(super) fn keepalive_timeout(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    msec(&mut reader.loc.core.keepalive_timeout, statement)?;
    if let Some(word) = statement.args.get(1) {
        let seconds = value::seconds(word.bytes()).ok_or_else(Problem::invalid_value)?;
        reader.loc.core.keepalive_header = Some(Some(std::time::Duration::from_secs(seconds)));
    }
    Ok(())
}

pub(super) fn keepalive_disable(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    read::bits(
        reader,
        statement,
        |r| &mut r.loc.core.keepalive_disable,
        &[
            ("none", |set: &mut KeepaliveDisable| &mut set.none),
            ("msie6", |set| &mut set.msie6),
            ("safari", |set| &mut set.safari),
        ],
    )
}

pub(super) fn early_hints(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.core.early_hints.as_ref())?;
    let words = statement.args.iter();
    let values = words.map(|word| reader.template(word.bytes()));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    reader.loc.core.early_hints = Some(values);
    Ok(())
}

pub(super) fn server_tokens(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.core.server_tokens.as_ref())?;
    let text = first(statement);
    reader.loc.core.server_tokens = Some(match text {
        b"on" => ServerTokens::On,
        b"off" => ServerTokens::Off,
        b"build" => ServerTokens::Build,
        // DIFFERS(server-tokens): nginx takes a text in its commercial edition only.
        text => ServerTokens::Text(reader.template(text)?),
    });
    Ok(())
}

pub(super) fn max_ranges(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let mut number = None;
    if reader.loc.core.max_ranges.is_some() {
        return Err(Problem::duplicate());
    }
    num::<u64>(&mut number, statement)?;
    reader.loc.core.max_ranges = Some(number);
    Ok(())
}

pub(super) fn disable_symlinks(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.core.disable_symlinks.as_ref())?;
    let mut mode = None;
    let mut from = false;
    for word in &statement.args {
        match word.bytes() {
            b"off" => mode = Some(false),
            b"on" | b"if_not_owner" => mode = Some(true),
            text => match text.strip_prefix(b"from=") {
                Some(path) => {
                    reader.template(path)?;
                    from = true;
                }
                None => return Err(Problem::parameter(word)),
            },
        }
    }
    let mode = mode.ok_or_else(|| {
        Problem::message(
            "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter",
        )
    })?;
    if let ([a, b], false) = (statement.args.as_slice(), from) {
        return Err(Problem::message(format!(
            "duplicate parameters \"{a} {b}\""
        )));
    }
    if from && !mode {
        return Err(Problem::message(
            "\"from=\" cannot be used with \"off\" parameter",
        ));
    }
    if mode {
        return Err(unsupported("disable_symlinks on"));
    }
    reader.loc.core.disable_symlinks = Some(mode);
    Ok(())
}

pub(super) fn directio(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if reader.loc.core.directio.is_some() {
        return Err(Problem::duplicate());
    }
    reader.loc.core.directio = Some(match first(statement) {
        b"off" => None,
        text => Some(value::offset(text).ok_or_else(Problem::invalid_value)?),
    });
    Ok(())
}

/// `NGX_MIN_POOL_SIZE`
const MIN_POOL_SIZE: usize = 112;
/// `NGX_POOL_ALIGNMENT`
const POOL_ALIGNMENT: usize = 16;
