//! `http`, `server`, `location`, `limit_except`, `types`.
//!
//! Mirrors `ngx_http_block` (`http/ngx_http.c`) and `ngx_http_core_server`, `ngx_http_core_location` and their kin
//! (`http/ngx_http_core_module.c`).

use std::sync::Arc;

use super::{BLOCK, HSL, HTTP, LIMIT_EXCEPT, LOCATION, NONE, ONE_MORE, Row, SERVER, TAKE12, log};
use crate::conf::{
    error::Problem,
    model::{self, LocationKind},
    parser::Statement,
    read::{LocationDraft, Reader, Realm, Role, ServerDraft, first, shared, unset},
};

pub(super) const ROWS: &[Row] = &[
    Row::new("server", HTTP, BLOCK | NONE, server, "Defines a server."),
    Row::new(
        "location",
        SERVER | LOCATION,
        BLOCK | TAKE12,
        location,
        "Holds what applies to some URIs.",
    )
    .takes("[= | ~ | ~* | ^~] <uri> { ... }; @<name> { ... }", "")
    .differs(&["patterns"]),
    Row::new(
        "limit_except",
        LOCATION,
        BLOCK | ONE_MORE,
        limit_except,
        "Holds what applies to other methods than these.",
    )
    .takes("<method> ... { ... }", ""),
    Row::new(
        "types",
        HSL,
        BLOCK | NONE,
        types,
        "Maps file extensions to content types.",
    )
    .default("{ text/html html; image/gif gif; image/jpeg jpg; }"),
];

pub(super) fn http(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if std::mem::replace(&mut reader.http.seen, true) {
        return Err(Problem::duplicate());
    }
    reader.enter(Realm::Http, statement);
    let combined = log::combined(reader);
    reader.realm.formats.push(combined);
    reader.block(statement, HTTP)?;
    let http = reader.assemble(statement)?;
    reader.done = Some(http);
    Ok(())
}

fn server(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let place = &statement.place;
    let outer = std::mem::replace(&mut reader.srv, ServerDraft::new(place.clone()));
    let draft = LocationDraft::new(Role::Server, place.clone());
    let location = reader.location_block(draft, statement, SERVER);
    let mut server = std::mem::replace(&mut reader.srv, outer);
    server.location = Some(location?);
    if !server.listen {
        super::listen::default(reader, statement)?;
    }
    reader.http.servers.push(server);
    Ok(())
}

fn location(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let mut draft = LocationDraft::new(Role::Location, statement.place.clone());
    let (kind, name) = location_kind(reader, statement)?;
    draft.kind = kind;
    draft.name = name;
    if reader.loc.role == Role::Location {
        check_nesting(&draft, &reader.loc)?;
    }
    let draft = reader.location_block(draft, statement, LOCATION)?;
    reader.loc.children.push(draft);
    Ok(())
}

fn location_kind(
    reader: &mut Reader,
    statement: &Statement,
) -> Result<(LocationKind, Vec<u8>), Problem> {
    let modifiers: [&[u8]; 4] = [b"=", b"^~", b"~*", b"~"];
    let (modifier, name) = if let [modifier, name] = statement.args.as_slice() {
        if !modifiers.contains(&modifier.bytes()) {
            return Err(Problem::message(format!(
                "invalid location modifier \"{modifier}\""
            )));
        }
        (modifier.bytes(), name.bytes())
    } else {
        let text = first(statement);
        modifiers
            .into_iter()
            .find_map(|m| text.strip_prefix(m).map(|rest| (m, rest)))
            .unwrap_or((b"", text))
    };
    let kind = match modifier {
        b"=" => LocationKind::Exact,
        b"^~" => LocationKind::PrefixNoRegex,
        b"~" | b"~*" => LocationKind::Regex(reader.pattern(name, modifier == b"~*")?),
        _ if name.starts_with(b"@") => LocationKind::Named,
        _ => LocationKind::Prefix,
    };
    Ok((kind, name.to_vec()))
}

/// What may stand inside which location.
fn check_nesting(inner: &LocationDraft, outer: &LocationDraft) -> Result<(), Problem> {
    let (name, around) = (inner.name_text(), outer.name_text());
    let regex = matches!(inner.kind, LocationKind::Regex(_));
    let text = if matches!(outer.kind, LocationKind::Exact) {
        format!("location \"{name}\" cannot be inside the exact location \"{around}\"")
    } else if matches!(outer.kind, LocationKind::Named) {
        format!("location \"{name}\" cannot be inside the named location \"{around}\"")
    } else if matches!(inner.kind, LocationKind::Named) {
        format!("named location \"{name}\" can be on the server level only")
    } else if !regex && !inner.name.starts_with(&outer.name) {
        format!("location \"{name}\" is outside location \"{around}\"")
    } else {
        return Ok(());
    };
    Err(Problem::Message(text))
}

fn limit_except(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.limit_except.as_ref())?;
    let mut methods = model::Methods::default();
    for word in &statement.args {
        let method = model::Methods::named(&word.text())
            .ok_or_else(|| Problem::message(format!("invalid method \"{word}\"")))?;
        methods.0 |= method.0;
    }
    if methods.contains(model::Methods::GET) {
        methods.0 |= model::Methods::HEAD.0;
    }
    let mut draft = LocationDraft::new(Role::LimitExcept, statement.place.clone());
    draft.name.clone_from(&reader.loc.name);
    let draft = reader.location_block(draft, statement, LIMIT_EXCEPT)?;
    reader.loc.limit_except = Some((methods, Box::new(draft)));
    Ok(())
}

fn types(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let mut types = reader.loc.core.types.take().unwrap_or_default();
    for line in statement.lines()? {
        if line.name == "include" {
            return Err(Problem::Message(
                "invalid number of arguments in \"include\" directive".to_owned(),
            )
            .at(line)
            .into());
        }
        let kind = shared(&line.name);
        for extension in &line.args {
            let extension = extension.bytes().to_ascii_lowercase().into_boxed_slice();
            let shown = String::from_utf8_lossy(&extension).into_owned();
            let old = Arc::make_mut(&mut types).insert(extension, kind.clone());
            if let Some(old) = old {
                let text = format!(
                    "duplicate extension \"{shown}\", content type: \"{}\", \
                     previous content type: \"{}\"",
                    line.name,
                    String::from_utf8_lossy(&old)
                );
                reader.warn(text, line);
            }
        }
    }
    reader.loc.core.types = Some(types);
    Ok(())
}
