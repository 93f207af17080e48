//! `root`, `alias`, `error_page` and directories of temporary files.
//!
//! Mirrors `ngx_http_core_root` and `ngx_http_core_error_page` (`http/ngx_http_core_module.c`).

use super::{HSL, HSLI, LOCATION, Row, TAKE1, TAKE1234, TWO_MORE};
use crate::{
    conf::{
        error::Problem,
        model::{self, LocationKind},
        parser::Statement,
        read::{Reader, first, unset},
        value,
    },
    vars::Template,
};

pub(super) const ROWS: &[Row] = &[
    Row::new("root", HSLI, TAKE1, root, "Sets the directory of files.").takes("<path>", "html"),
    Row::new(
        "alias",
        LOCATION,
        TAKE1,
        root,
        "Replaces the location's name by a path.",
    )
    .takes("<path>", ""),
    Row::new(
        "error_page",
        HSLI,
        TWO_MORE,
        error_page,
        "Sets what answers instead of a response with these statuses.",
    )
    .takes("<code> ... [= | =<code>] <uri>", ""),
    Row::new(
        "client_body_temp_path",
        HSL,
        TAKE1234,
        |r, s| temp_path(r, s, |r| &mut r.loc.core.client_body_temp_path),
        "Sets the directory of request bodies that do not fit in memory.",
    )
    .takes(
        "<path> [<level1> [<level2> [<level3>]]]",
        "client_body_temp",
    ),
];

fn root(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let name = &statement.name;
    let alias = *name == "alias";
    if let Some(known) = &reader.loc.core.root {
        if known.alias == alias {
            return Err(Problem::duplicate());
        }
        return Err(Problem::message(format!(
            "\"{name}\" directive is duplicate, \"{}\" directive was specified earlier",
            if known.alias { "alias" } else { "root" }
        )));
    }
    if alias && matches!(reader.loc.kind, LocationKind::Named) {
        return Err(Problem::message(
            "the \"alias\" directive cannot be used inside the named location",
        ));
    }
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    for variable in ["document_root", "realpath_root"] {
        if text.contains(&format!("${variable}")) || text.contains(&format!("${{{variable}}}")) {
            return Err(Problem::message(format!(
                "the ${variable} variable cannot be used in the \"{name}\" directive"
            )));
        }
    }
    let mut path = first(statement);
    if !alias {
        path = path.strip_suffix(b"/").unwrap_or(path);
    }
    let path = prefixed(reader, path);
    let path = reader.template(&path)?;
    let alias_len = match reader.loc.kind {
        _ if !alias => Some(0),
        LocationKind::Regex(_) => None,
        _ => Some(reader.loc.name.len()),
    };
    reader.loc.core.root = Some(model::Root {
        path,
        alias,
        alias_len,
    });
    Ok(())
}

/// A path that may begin with a variable; other relative ones start at the prefix.
fn prefixed(reader: &Reader, path: &[u8]) -> Vec<u8> {
    if matches!(path.first(), Some(b'$' | b'/')) {
        return path.to_vec();
    }
    let mut full = reader.full_path("").into_os_string().into_encoded_bytes();
    full.extend_from_slice(path);
    full
}

fn error_page(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let Some((target, words)) = statement.args.split_last() else {
        return Ok(());
    };
    let (overwrite, statuses) = match words.split_last() {
        Some((word, rest)) if word.bytes().starts_with(b"=") => {
            let code = &word.bytes()[1..];
            let overwrite = match value::number(code).map(u16::try_from) {
                _ if rest.is_empty() => return Err(Problem::value(word)),
                Some(Ok(code)) => model::ErrorPageStatus::Code(code),
                _ if code.is_empty() => model::ErrorPageStatus::Response,
                _ => return Err(Problem::value(word)),
            };
            (overwrite, rest)
        }
        _ => (model::ErrorPageStatus::Keep, words),
    };
    let mut template = reader.template(target.bytes())?;
    let mut args = None;
    if let Some(text) = template.as_literal()
        && text.starts_with(b"/")
        && let Some(at) = memchr::memchr(b'?', text)
    {
        args = Some(text[at + 1..].into());
        template = Template::literal(&text[..at]);
    }
    let mut pages = match &reader.loc.core.error_pages {
        Some(pages) => pages.to_vec(),
        None => Vec::new(),
    };
    for word in statuses {
        let status = value::number(word.bytes())
            .filter(|n| *n != 499)
            .ok_or_else(|| Problem::value(word))?;
        let status = u16::try_from(status)
            .ok()
            .filter(|n| (300..=599).contains(n))
            .ok_or_else(|| {
                Problem::message(format!("value \"{word}\" must be between 300 and 599"))
            })?;
        let bad_request = matches!(status, 494..=497);
        pages.push(model::ErrorPage {
            status,
            overwrite: match overwrite {
                model::ErrorPageStatus::Keep if bad_request => model::ErrorPageStatus::Code(400),
                other => other,
            },
            target: template.clone(),
            args: args.clone(),
        });
    }
    reader.loc.core.error_pages = Some(pages.into());
    Ok(())
}

/// `path [level1 [level2 [level3]]]` (`ngx_conf_set_path_slot`).
pub(super) fn temp_path(
    reader: &mut Reader,
    statement: &Statement,
    slot: fn(&mut Reader) -> &mut Option<model::TempPath>,
) -> Result<(), Problem> {
    unset(slot(reader).as_ref())?;
    let mut path = String::from_utf8_lossy(first(statement)).into_owned();
    if path.ends_with('/') {
        path.pop();
    }
    let mut levels = [0; 3];
    for (level, word) in levels.iter_mut().zip(statement.args.iter().skip(1)) {
        *level = value::number(word.bytes())
            .and_then(|n| u8::try_from(n).ok())
            .filter(|n| (1..=10).contains(n))
            .ok_or_else(Problem::invalid_value)?;
    }
    if levels.iter().sum::<u8>() > 10 {
        return Err(Problem::invalid_value());
    }
    let path = reader.full_path(&path).into();
    *slot(reader) = Some(model::TempPath { path, levels });
    Ok(())
}
