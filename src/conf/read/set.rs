//! Setters for arguments of the usual kinds, each with nginx's complaints.
//!
//! Mirrors `ngx_conf_set_*_slot` (`core/ngx_conf_file.c`).

use std::time::Duration;

use super::{Problem, Reader, Statement};
use crate::{
    conf::value::{milliseconds, number, offset, seconds, size},
    vars::Template,
};

/// The first argument; nothing when there is none (the table sees to it that there is one).
pub(crate) fn first(statement: &Statement) -> &[u8] {
    statement.args.first().map_or(&[], |word| word.bytes())
}

/// A slot is set once.
pub(crate) fn unset<T>(slot: Option<&T>) -> Result<(), Problem> {
    if slot.is_some() {
        return Err(Problem::duplicate());
    }
    Ok(())
}

/// `on` or `off`.
pub(crate) fn flag(slot: &mut Option<bool>, statement: &Statement) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    let value = first(statement);
    *slot = Some(if value.eq_ignore_ascii_case(b"on") {
        true
    } else if value.eq_ignore_ascii_case(b"off") {
        false
    } else {
        return Err(Problem::Message(format!(
            "invalid value \"{}\" in \"{}\" directive, it must be \"on\" or \"off\"",
            String::from_utf8_lossy(value),
            statement.name
        )));
    });
    Ok(())
}

/// A number.
pub(crate) fn num<T: TryFrom<u64>>(
    slot: &mut Option<T>,
    statement: &Statement,
) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    let value = number(first(statement)).and_then(|n| T::try_from(n).ok());
    *slot = Some(value.ok_or_else(|| Problem::Directive("invalid number".to_owned()))?);
    Ok(())
}

/// A number within bounds (`ngx_conf_check_num_bounds`).
pub(crate) fn num_between<T: TryFrom<u64> + Into<u64> + Copy>(
    slot: &mut Option<T>,
    statement: &Statement,
    low: u64,
    high: u64,
) -> Result<(), Problem> {
    num(slot, statement)?;
    match slot.map(Into::into) {
        Some(value) if value < low || value > high => Err(Problem::Message(format!(
            "value must be between {low} and {high}"
        ))),
        _ => Ok(()),
    }
}

fn parsed<T>(
    slot: &mut Option<T>,
    statement: &Statement,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    *slot = Some(parse(first(statement)).ok_or_else(Problem::invalid_value)?);
    Ok(())
}

/// A size with `k` or `m`.
pub(crate) fn bytes<T: TryFrom<u64>>(
    slot: &mut Option<T>,
    statement: &Statement,
) -> Result<(), Problem> {
    parsed(slot, statement, |text| T::try_from(size(text)?).ok())
}

/// A size with `k`, `m` or `g`.
pub(crate) fn bytes_or_giga(slot: &mut Option<u64>, statement: &Statement) -> Result<(), Problem> {
    parsed(slot, statement, offset)
}

/// A time with milliseconds.
pub(crate) fn msec(slot: &mut Option<Duration>, statement: &Statement) -> Result<(), Problem> {
    parsed(slot, statement, |text| {
        milliseconds(text).map(Duration::from_millis)
    })
}

/// A time in whole seconds.
pub(crate) fn sec(slot: &mut Option<Duration>, statement: &Statement) -> Result<(), Problem> {
    parsed(slot, statement, |text| {
        seconds(text).map(Duration::from_secs)
    })
}

/// A number of buffers and their size.
pub(crate) fn bufs(
    slot: &mut Option<(usize, usize)>,
    statement: &Statement,
) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    let count = number(first(statement)).filter(|n| *n > 0);
    let each = statement
        .args
        .get(1)
        .and_then(|word| size(word.bytes()))
        .filter(|n| *n > 0);
    let pair = count.zip(each).and_then(|(count, each)| {
        Some((usize::try_from(count).ok()?, usize::try_from(each).ok()?))
    });
    *slot = Some(pair.ok_or_else(Problem::invalid_value)?);
    Ok(())
}

/// One of a few words.
pub(crate) fn choice<T: Copy>(
    slot: &mut Option<T>,
    statement: &Statement,
    words: &[(&str, T)],
) -> Result<(), Problem> {
    unset(slot.as_ref())?;
    let value = first(statement);
    let found = words
        .iter()
        .find(|(word, _)| word.as_bytes().eq_ignore_ascii_case(value));
    let (_, meaning) = found.ok_or_else(|| Problem::value(String::from_utf8_lossy(value)))?;
    *slot = Some(*meaning);
    Ok(())
}

/// A word of a set, and the flag in `T` that stands for it.
pub(crate) type Bit<T> = (&'static str, fn(&mut T) -> &mut bool);

/// Any of a few words; a word twice is a warning.
pub(crate) fn bits<T: Copy + Default>(
    reader: &mut Reader,
    statement: &Statement,
    slot: fn(&mut Reader) -> &mut Option<T>,
    words: &[Bit<T>],
) -> Result<(), Problem> {
    let mut set = slot(reader).unwrap_or_default();
    for value in &statement.args {
        let found = words
            .iter()
            .find(|(word, _)| word.as_bytes().eq_ignore_ascii_case(value.bytes()));
        let (_, bit) = found.ok_or_else(|| Problem::value(value))?;
        let bit = bit(&mut set);
        if *bit {
            reader.warn(format_args!("duplicate value \"{value}\""), statement);
        }
        *bit = true;
    }
    *slot(reader) = Some(set);
    Ok(())
}

/// A text with variables.
pub(crate) fn text(
    reader: &mut Reader,
    statement: &Statement,
    slot: fn(&mut Reader) -> &mut Option<Template>,
) -> Result<(), Problem> {
    unset(slot(reader).as_ref())?;
    let template = reader.template(first(statement))?;
    *slot(reader) = Some(template);
    Ok(())
}

/// A size, perhaps with variables (`ngx_http_set_complex_value_size_slot`).
pub(crate) fn text_size(
    reader: &mut Reader,
    statement: &Statement,
    slot: fn(&mut Reader) -> &mut Option<Template>,
) -> Result<(), Problem> {
    text(reader, statement, slot)?;
    match slot(reader).as_ref().and_then(Template::as_literal) {
        Some(literal) if size(literal).is_none() => Err(Problem::invalid_value()),
        _ => Ok(()),
    }
}
