//! Directives of `http` and below that are about nginx's inner workings, and the readers that check such arguments.

use super::{
    FLAG, HSL, HSLI, HTTP, LOCATION, ONE_MORE, Read, Row, SERVER, TAKE1, TAKE2, TAKE12, TAKE123,
    gzip::add_types,
};
use std::time::Duration;

use crate::conf::{
    error::Problem,
    model::OpenFileCache,
    parser::Statement,
    read::{self, Reader, first},
    value,
};

pub(super) const ROWS: &[Row] = &[
    Row::accepted("aio", HSL, TAKE1, aio, "Reads files asynchronously."),
    Row::accepted(
        "aio_write",
        HSL,
        FLAG,
        flag_once,
        "Writes files asynchronously.",
    ),
    Row::accepted(
        "directio_alignment",
        HSL,
        TAKE1,
        size_once,
        "Sets the alignment of direct reads.",
    ),
    Row::accepted(
        "open_file_cache",
        HSL,
        TAKE12,
        open_file_cache,
        "Keeps file descriptors and facts about files.",
    ),
    Row::accepted(
        "open_file_cache_errors",
        HSL,
        FLAG,
        flag_once,
        "Keeps failed look-ups too.",
    ),
    Row::accepted(
        "open_file_cache_events",
        HSL,
        FLAG,
        flag_once,
        "Watches kept files for changes.",
    ),
    Row::accepted(
        "open_file_cache_min_uses",
        HSL,
        TAKE1,
        number_once,
        "Sets how often a file must be used to stay open.",
    ),
    Row::accepted(
        "open_file_cache_valid",
        HSL,
        TAKE1,
        seconds_once,
        "Sets how long facts about files are trusted.",
    ),
    Row::accepted(
        "sendfile_max_chunk",
        HSL,
        TAKE1,
        size_once,
        "Bounds what one sendfile() call sends.",
    ),
    Row::accepted(
        "server_names_hash_bucket_size",
        HTTP,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash tables of server names.",
    ),
    Row::accepted(
        "server_names_hash_max_size",
        HTTP,
        TAKE1,
        number_once,
        "Limits the size of the hash tables of server names.",
    ),
    Row::accepted(
        "types_hash_bucket_size",
        HSL,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash tables of types.",
    ),
    Row::accepted(
        "types_hash_max_size",
        HSL,
        TAKE1,
        number_once,
        "Limits the size of the hash tables of types.",
    ),
    Row::accepted(
        "variables_hash_bucket_size",
        HTTP,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash table of variables.",
    ),
    Row::accepted(
        "variables_hash_max_size",
        HTTP,
        TAKE1,
        number_once,
        "Limits the size of the hash table of variables.",
    ),
    Row::accepted(
        "referer_hash_bucket_size",
        SERVER | LOCATION,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash tables of referers.",
    ),
    Row::accepted(
        "referer_hash_max_size",
        SERVER | LOCATION,
        TAKE1,
        number_once,
        "Limits the size of the hash tables of referers.",
    ),
    Row::accepted(
        "proxy_headers_hash_bucket_size",
        HSL,
        TAKE1,
        number_once,
        "Sets the bucket size of the hash tables of proxied headers.",
    ),
    Row::accepted(
        "proxy_headers_hash_max_size",
        HSL,
        TAKE1,
        number_once,
        "Limits the size of the hash tables of proxied headers.",
    ),
    Row::accepted(
        "proxy_store_access",
        HSL,
        TAKE123,
        ANYTHING,
        "Sets the permissions of stored responses.",
    ),
    Row::accepted(
        "charset_types",
        HSL,
        ONE_MORE,
        TYPES,
        "Sets which types get a charset.",
    ),
    Row::accepted(
        "override_charset",
        HSLI,
        FLAG,
        flag_once,
        "Changes the charset of proxied responses too.",
    ),
    Row::accepted(
        "sub_filter_types",
        HSL,
        ONE_MORE,
        TYPES,
        "Sets in which types texts are replaced.",
    ),
    Row::accepted(
        "proxy_cache_min_uses",
        HSL,
        TAKE1,
        number_once,
        "Sets how often a response is asked for before it is cached.",
    ),
    Row::accepted(
        "proxy_cache_bypass",
        HSL,
        ONE_MORE,
        texts,
        "Says when a response is not taken from the cache.",
    ),
    Row::accepted(
        "proxy_no_cache",
        HSL,
        ONE_MORE,
        texts,
        "Says when a response is not put into the cache.",
    ),
    Row::accepted(
        "proxy_cache_key",
        HSL,
        TAKE1,
        text_once,
        "Sets the key of cached responses.",
    ),
    Row::accepted(
        "proxy_cache_valid",
        HSL,
        ONE_MORE,
        ANYTHING,
        "Sets how long responses are fresh.",
    ),
    Row::accepted(
        "proxy_cache_use_stale",
        HSL,
        ONE_MORE,
        ANYTHING,
        "Says when stale responses are served.",
    ),
    Row::accepted(
        "proxy_cache_methods",
        HSL,
        ONE_MORE,
        ANYTHING,
        "Sets which methods are cached.",
    ),
    Row::accepted(
        "proxy_cache_lock",
        HSL,
        FLAG,
        flag_once,
        "Lets one request at a time fill a place of the cache.",
    ),
    Row::accepted(
        "proxy_cache_lock_age",
        HSL,
        TAKE1,
        time_once,
        "Bounds how long others wait before they ask too.",
    ),
    Row::accepted(
        "proxy_cache_lock_timeout",
        HSL,
        TAKE1,
        time_once,
        "Bounds how long others wait for the cache.",
    ),
    Row::accepted(
        "proxy_cache_revalidate",
        HSL,
        FLAG,
        flag_once,
        "Asks whether stale responses have changed.",
    ),
    Row::accepted(
        "proxy_cache_background_update",
        HSL,
        FLAG,
        flag_once,
        "Renews stale responses behind a client's back.",
    ),
    Row::accepted(
        "proxy_cache_convert_head",
        HSL,
        FLAG,
        flag_once,
        "Asks with GET instead of HEAD.",
    ),
    Row::accepted(
        "proxy_cache_max_range_offset",
        HSL,
        TAKE1,
        offset_once,
        "Asks the server for ranges beyond this offset.",
    ),
    Row::accepted(
        "gunzip_buffers",
        HSL,
        TAKE2,
        buffers_once,
        "Sets the buffers that responses are decompressed into.",
    ),
];

/// No check at all.
pub(super) const ANYTHING: Read = |_, _| Ok(());

/// At most one in a block.
pub(super) fn once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)
}

/// `on` or `off`, at most one in a block.
pub(super) fn flag_once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    read::flag(&mut None, statement)
}

/// A number, at most one in a block.
pub(super) fn number_once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    read::num(&mut None::<u64>, statement)
}

/// A size, at most one in a block.
pub(super) fn size_once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    read::bytes(&mut None::<u64>, statement)
}

/// A size with `g`, at most one in a block.
fn offset_once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    read::bytes_or_giga(&mut None, statement)
}

/// Texts with variables.
fn texts(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    for word in &statement.args {
        reader.template(word.bytes())?;
    }
    Ok(())
}

/// A list of types.
const TYPES: Read = |reader, statement| {
    add_types(reader, statement, None);
    Ok(())
};

/// A time, at most one in a block.
pub(super) fn time_once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    read::msec(&mut None, statement)
}

/// A time in seconds, at most one in a block.
pub(super) fn seconds_once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    read::sec(&mut None, statement)
}

/// A number of buffers and their size, at most one in a block.
pub(super) fn buffers_once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    read::bufs(&mut None, statement)
}

/// One of a few words, at most one in a block.
pub(super) fn word_once(
    reader: &mut Reader,
    statement: &Statement,
    words: &[&str],
) -> Result<(), Problem> {
    reader.once(statement)?;
    let words: Vec<(&str, ())> = words.iter().map(|word| (*word, ())).collect();
    read::choice(&mut None, statement, &words)
}

/// A text with variables, at most one in a block.
pub(super) fn text_once(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    reader.template(first(statement)).map(drop)
}

fn aio(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    match first(statement) {
        b"on" | b"off" | b"threads" => Ok(()),
        text => match text.strip_prefix(b"threads=") {
            Some(name) => reader.template(name).map(drop),
            None => Err(Problem::invalid_value()),
        },
    }
}

fn open_file_cache(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    reader.once(statement)?;
    cache_parameters(statement, &["max", "inactive"]).map(drop)
}

/// Parameters of a cache of descriptors: numbers and times, or `off`.
pub(super) fn cache_parameters(
    statement: &Statement,
    known: &[&str],
) -> Result<Option<OpenFileCache>, Problem> {
    let name = &statement.name;
    let mut cache = OpenFileCache::default();
    let mut off = false;
    for word in &statement.args {
        let text = word.text();
        let (key, value) = text.split_once('=').unwrap_or((&text, ""));
        let value = value.as_bytes();
        let seconds = |slot: &mut Duration| {
            value::seconds(value).map(|secs| *slot = Duration::from_secs(secs))
        };
        let number = |slot: &mut usize| {
            let number = value::number(value).and_then(|n| usize::try_from(n).ok());
            number.map(|n| *slot = n)
        };
        let fine = match key {
            _ if *word == "off" => {
                off = true;
                Some(())
            }
            _ if !known.contains(&key) || !text.contains('=') => None,
            "max" => number(&mut cache.max).filter(|()| cache.max > 0),
            "min_uses" => number(&mut cache.min_uses),
            "inactive" => seconds(&mut cache.inactive),
            _ => seconds(&mut cache.valid),
        };
        if fine.is_none() {
            return Err(Problem::message(format!(
                "invalid \"{name}\" parameter \"{word}\""
            )));
        }
    }
    if off {
        return Ok(None);
    }
    if cache.max == 0 {
        let the = if *name == "open_file_cache" {
            "the "
        } else {
            ""
        };
        return Err(Problem::message(format!(
            "\"{name}\" must have {the}\"max\" parameter"
        )));
    }
    Ok(Some(cache))
}
