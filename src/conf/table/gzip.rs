//! gzip.
//!
//! Mirrors `ngx_http_gzip_filter_module.c` and the core module's part of it.

use std::sync::Arc;

use super::{
    FLAG, HSL, HSLI, ONE_MORE, Row, TAKE1, TAKE2,
    accepted::{flag_once, size_once},
};
use crate::{
    conf::{
        error::Problem,
        model::{GzipProxied, TypeSet},
        parser::Statement,
        read::{self, Reader, bits, bufs, choice, first, flag, num_between},
        value,
    },
    vars::Pattern,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "gzip",
        HSLI,
        FLAG,
        |r, s| flag(&mut r.loc.gzip.on, s),
        "Compresses responses.",
    )
    .default("off")
    .differs(&["gzip"]),
    Row::accepted(
        "gzip_buffers",
        HSL,
        TAKE2,
        |r, s| bufs(&mut r.loc.gzip.buffers, s),
        "Sets the buffers that responses are compressed into.",
    ),
    Row::new(
        "gzip_types",
        HSL,
        ONE_MORE,
        |r, s| {
            gzip_types(r, s);
            Ok(())
        },
        "Sets which types are compressed besides text/html; `*` is all.",
    )
    .takes("<type> ...", "text/html"),
    Row::new(
        "gzip_comp_level",
        HSL,
        TAKE1,
        |r, s| num_between(&mut r.loc.gzip.level, s, 1, 9),
        "Sets how hard to compress, 1 to 9.",
    )
    .takes("<level>", "1"),
    Row::new(
        "gzip_min_length",
        HSL,
        TAKE1,
        |r, s| read::bytes(&mut r.loc.gzip.min_length, s),
        "Leaves shorter responses alone.",
    )
    .takes("<length>", "20"),
    Row::new(
        "gzip_http_version",
        HSL,
        TAKE1,
        |r, s| {
            choice(
                &mut r.loc.gzip.http_version_10,
                s,
                &[("1.0", true), ("1.1", false)],
            )
        },
        "Sets the lowest version of a request whose response is compressed.",
    )
    .takes("1.0 | 1.1", "1.1"),
    Row::new(
        "gzip_proxied",
        HSL,
        ONE_MORE,
        gzip_proxied,
        "Says which responses to proxies are compressed.",
    )
    .takes(
        "off | expired | no-cache | no-store | private | no_last_modified | \
             no_etag | auth | any ...",
        "off",
    ),
    Row::new(
        "gzip_vary",
        HSL,
        FLAG,
        |r, s| flag(&mut r.loc.gzip.vary, s),
        "Sends Vary with responses that may be compressed.",
    )
    .default("off"),
    Row::new(
        "gzip_disable",
        HSL,
        ONE_MORE,
        gzip_disable,
        "Compresses nothing for these browsers.",
    )
    .takes("<pattern> ...", "")
    .differs(&["patterns"]),
    Row::accepted(
        "gzip_window",
        HSL,
        TAKE1,
        |r, s| power_of_two(r, s, 512, 32 << 10),
        "Sets the window of nginx's compressor.",
    ),
    Row::accepted(
        "gzip_hash",
        HSL,
        TAKE1,
        |r, s| power_of_two(r, s, 512, 128 << 10),
        "Sets the hash table of nginx's compressor.",
    ),
    Row::accepted(
        "gzip_no_buffer",
        HSL,
        FLAG,
        flag_once,
        "Sends compressed data as it comes.",
    ),
    Row::accepted(
        "postpone_gzipping",
        HSL,
        TAKE1,
        size_once,
        "Waits for this much before compressing.",
    ),
];

fn gzip_types(reader: &mut Reader, statement: &Statement) {
    let types = reader.loc.gzip.types.take();
    let types = add_types(reader, statement, types);
    reader.loc.gzip.types = Some(types);
}

/// Adds to a list of types (`ngx_http_types_slot`).
pub(super) fn add_types(
    reader: &mut Reader,
    statement: &Statement,
    known: Option<TypeSet>,
) -> TypeSet {
    let mut types: Vec<Box<[u8]>> = match known.unwrap_or_else(TypeSet::html) {
        TypeSet::All => return TypeSet::All,
        TypeSet::Some(types) => types.to_vec(),
    };
    for word in &statement.args {
        if *word == "*" {
            return TypeSet::All;
        }
        let kind = word.bytes().to_ascii_lowercase().into_boxed_slice();
        if types.contains(&kind) {
            let text = format!("duplicate MIME type \"{}\"", String::from_utf8_lossy(&kind));
            reader.warn(text, statement);
        } else {
            types.push(kind);
        }
    }
    TypeSet::Some(types.into())
}

fn gzip_proxied(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    bits(
        reader,
        statement,
        |r| &mut r.loc.gzip.proxied,
        &[
            ("off", |set: &mut GzipProxied| &mut set.off),
            ("expired", |set| &mut set.expired),
            ("no-cache", |set| &mut set.no_cache),
            ("no-store", |set| &mut set.no_store),
            ("private", |set| &mut set.private),
            ("no_last_modified", |set| &mut set.no_last_modified),
            ("no_etag", |set| &mut set.no_etag),
            ("auth", |set| &mut set.auth),
            ("any", |set| &mut set.any),
        ],
    )
}

fn gzip_disable(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let mut patterns = match &reader.loc.gzip.disable {
        Some(patterns) => patterns.to_vec(),
        None => Vec::new(),
    };
    for word in &statement.args {
        let (text, caseless) = match word.bytes() {
            b"msie6" => (MSIE6.into(), false),
            _ => (word.text(), true),
        };
        patterns.push(Pattern::new(&text, caseless)?);
    }
    reader.loc.gzip.disable = Some(Arc::from(patterns));
    Ok(())
}

/// A size that must be a power of two between two others.
fn power_of_two(
    reader: &mut Reader,
    statement: &Statement,
    low: u64,
    high: u64,
) -> Result<(), Problem> {
    reader.once(statement)?;
    let size = value::size(first(statement)).ok_or_else(Problem::invalid_value)?;
    if size.is_power_of_two() && (low..=high).contains(&size) {
        return Ok(());
    }
    let mut list: Vec<String> = Vec::new();
    let mut size = low;
    while size < high {
        list.push(shown(size));
        size *= 2;
    }
    Err(Problem::Directive(format!(
        "must be {}, or {}",
        list.join(", "),
        shown(high)
    )))
}

fn shown(size: u64) -> String {
    if size >= 1024 {
        format!("{}k", size / 1024)
    } else {
        size.to_string()
    }
}

/// Internet Explorer 4 to 6, without service pack 2 of Windows XP.
const MSIE6: &str = r"^(?!.*Opera).*MSIE (?:[45]\.|6\.(?!.*SV1))";
