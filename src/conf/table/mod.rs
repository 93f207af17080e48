//! Every directive that nginx knows: where it may stand, how many arguments it takes, how it is read, what it is for.
//!
//! One checker, [`dispatch`], yields the messages of `ngx_conf_handler` (`core/ngx_conf_file.c`). Man page and coverage
//! table are printed from the rows; tests run over them.

mod accepted;
mod affinity;
mod coverage;
mod events;
mod geo;
mod grpc;
mod gzip;
mod headers;
mod http2;
mod http_blocks;
mod http_clients;
mod http_core;
mod http_core_values;
mod http_paths;
mod http_small;
mod limits;
mod listen;
mod log;
mod main;
mod manual;
mod maps;
mod proxy;
mod proxy_pass;
mod proxy_rewrite;
mod proxy_ssl;
mod proxy_values;
mod refused;
mod resolver;
mod rewrite;
mod ssl;
mod ssl_values;
mod stream;
#[cfg(test)]
mod tests;
mod upstream;

use std::{collections::HashMap, sync::OnceLock};

pub use coverage::coverage;
pub use manual::{Difference, differences, man_page};

use super::{
    error::{ConfError, Problem},
    parser::{Body, Statement},
    read::Reader,
};

/// Where a directive may stand: a set of the constants below (`NGX_HTTP_MAIN_CONF` and its kin).
pub(crate) type Contexts = u32;

/// How many arguments, and whether a block follows: a set of the constants below (`NGX_CONF_TAKE1` and its kin).
pub(crate) type Arguments = u32;

/// Reads a directive's arguments into the drafts of the reader.
pub(crate) type Read = fn(&mut Reader, &Statement) -> Result<(), Problem>;

/// What headwater does with a directive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Support {
    /// It works as in nginx.
    Honoured(Read),
    /// Its arguments are checked; it has no meaning here.
    Accepted(Read),
    /// nginx has it, headwater does not yet: an error.
    Refused,
}

/// One directive of one module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: &'static str,
    /// Where it may stand.
    pub(crate) contexts: Contexts,
    /// What follows its name.
    pub(crate) arguments: Arguments,
    /// What becomes of it.
    pub(crate) support: Support,
    /// What it is for, one sentence.
    pub(crate) doc: &'static str,
    /// What follows its name, as the manual writes it; see [`Row::takes`].
    pub(crate) syntax: &'static str,
    /// What holds where it is not given; empty where nothing does.
    pub(crate) default: &'static str,
    /// Where it differs from nginx: keys of the README's table of differences.
    pub(crate) differs: &'static [&'static str],
}

impl Row {
    /// A directive that works.
    const fn new(
        name: &'static str,
        contexts: Contexts,
        arguments: Arguments,
        read: Read,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            contexts,
            arguments,
            support: Support::Honoured(read),
            doc,
            syntax: "",
            default: "",
            differs: &[],
        }
    }

    /// A directive that has no meaning here.
    const fn accepted(
        name: &'static str,
        contexts: Contexts,
        arguments: Arguments,
        read: Read,
        doc: &'static str,
    ) -> Self {
        Self {
            support: Support::Accepted(read),
            ..Self::new(name, contexts, arguments, read, doc)
        }
    }

    /// A directive that is not there yet.
    const fn refused(
        name: &'static str,
        contexts: Contexts,
        arguments: Arguments,
        doc: &'static str,
    ) -> Self {
        Self {
            support: Support::Refused,
            ..Self::new(name, contexts, arguments, |_, _| Ok(()), doc)
        }
    }

    /// How its arguments are written, and its default. `<x>` stands for a word, `a | b` for one of them, `[x]` for what may
    /// be left out, `...` for more of the word before it; `;` stands between forms. Flags, single words and blocks need
    /// none: what they take follows from [`Row::arguments`].
    const fn takes(self, syntax: &'static str, default: &'static str) -> Self {
        Self {
            syntax,
            default,
            ..self
        }
    }

    /// What holds where it is not given, for what needs no [`Row::takes`].
    const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Keys of the README's table of differences that the manual shows with it.
    const fn differs(self, differs: &'static [&'static str]) -> Self {
        Self { differs, ..self }
    }

    /// What follows the name, form by form; None where nobody has said it.
    fn forms(&self) -> Option<Vec<&'static str>> {
        match self.syntax {
            "" if self.arguments & FLAG != 0 => Some(vec!["on | off"]),
            "" if self.arguments == NONE => Some(vec![""]),
            "" if self.arguments == BLOCK | NONE => Some(vec!["{ ... }"]),
            "" => None,
            syntax => Some(syntax.split("; ").collect()),
        }
    }
}

/// Rows that belong together, with what they are about.
pub(crate) type Area = (&'static str, &'static [Row]);

/// All rows, by area.
pub(crate) const AREAS: [Area; 37] = [
    ("Main context", main::ROWS),
    ("Events", events::ROWS),
    ("Blocks", http_blocks::ROWS),
    ("HTTP core", http_core::ROWS),
    ("Clients", http_clients::ROWS),
    ("Paths and error pages", http_paths::ROWS),
    ("Listening and names", listen::ROWS),
    ("Access, real IP, index, files", http_small::ROWS),
    ("Rewrite", rewrite::ROWS),
    ("Maps", maps::ROWS),
    ("Limits", limits::ROWS),
    ("Logs", log::ROWS),
    ("Headers", headers::ROWS),
    ("gzip", gzip::ROWS),
    ("Proxy", proxy::ROWS),
    ("gRPC", grpc::ROWS),
    ("Resolver", resolver::ROWS),
    ("Upstreams", upstream::ROWS),
    ("HTTP/2", http2::ROWS),
    ("TLS", ssl::ROWS),
    ("TLS to upstreams", proxy_ssl::ROWS),
    ("TLS to gRPC servers", proxy_ssl::GRPC_ROWS),
    ("nginx's inner workings", accepted::ROWS),
    ("Other HTTP modules", refused::HTTP),
    ("Other upstream protocols", refused::GATEWAYS),
    ("Stream", stream::ROWS),
    ("Stream settings", stream::settings::ROWS),
    ("Stream handlers", stream::handlers::ROWS),
    ("Stream proxy", stream::proxy::ROWS),
    ("Stream TLS", ssl::STREAM_ROWS),
    ("Stream TLS to upstreams", proxy_ssl::STREAM_ROWS),
    ("Stream upstreams", stream::upstream::ROWS),
    ("Stream maps", stream::maps::ROWS),
    ("Stream logs", stream::logs::ROWS),
    ("Stream limits", stream::limits::ROWS),
    ("Other stream modules", refused::STREAM),
    ("Mail", refused::MAIL),
];

/// All rows.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    AREAS.iter().flat_map(|(_, rows)| *rows)
}

fn named(name: &[u8]) -> &'static [&'static Row] {
    static BY_NAME: OnceLock<HashMap<&'static [u8], Vec<&'static Row>>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| {
            let mut map: HashMap<_, Vec<_>> = HashMap::new();
            for row in rows() {
                map.entry(row.name.as_bytes()).or_default().push(row);
            }
            map
        })
        .get(name)
        .map_or(&[], Vec::as_slice)
}

/// Checks `statement`, which stands in `context`, against its row and reads it.
pub(crate) fn dispatch(
    reader: &mut Reader,
    statement: &Statement,
    context: Contexts,
) -> Result<(), ConfError> {
    let name = &statement.name;
    let rows = named(name.bytes());
    let Some(row) = rows.iter().find(|row| row.contexts & context != 0) else {
        let text = if rows.is_empty() {
            format!("unknown directive \"{name}\"")
        } else {
            format!("\"{name}\" directive is not allowed here")
        };
        return Err(ConfError::at(text, &statement.place));
    };
    check(row, statement)
        .and_then(|()| match row.support {
            Support::Honoured(read) | Support::Accepted(read) => read(reader, statement),
            Support::Refused if turns_off(statement) => Ok(()),
            // DIFFERS(unsupported): what nginx has and we have not is an error, never swallowed.
            Support::Refused => Err(unsupported(name)),
        })
        .map_err(|problem| problem.at(statement))
}

/// `x off` of a directive that is not there yet asks for nothing.
fn turns_off(statement: &Statement) -> bool {
    matches!(statement.args.as_slice(), [word] if *word == "off")
}

/// `name` is nginx's, but not ours yet.
pub(crate) fn unsupported(name: impl std::fmt::Display) -> Problem {
    Problem::Message(format!("headwater does not support \"{name}\" yet"))
}

fn check(row: &Row, statement: &Statement) -> Result<(), Problem> {
    let name = &statement.name;
    let is_block = matches!(statement.body, Body::Block(..));
    if row.arguments & BLOCK == 0 && is_block {
        return Err(Problem::Message(format!(
            "directive \"{name}\" is not terminated by \";\""
        )));
    }
    if row.arguments & BLOCK != 0 && !is_block {
        return Err(Problem::Message(format!(
            "directive \"{name}\" has no opening \"{{\""
        )));
    }
    let count = statement.args.len();
    let fits = if row.arguments & ONE_MORE != 0 {
        count >= 1
    } else if row.arguments & TWO_MORE != 0 {
        count >= 2
    } else if row.arguments & FLAG != 0 {
        count == 1
    } else {
        count <= 7 && row.arguments & (1 << count) != 0
    };
    if !fits {
        return Err(Problem::Message(format!(
            "invalid number of arguments in \"{name}\" directive"
        )));
    }
    Ok(())
}

/// The main context.
pub(crate) const MAIN: Contexts = 1;
/// `events`
pub(crate) const EVENTS: Contexts = 1 << 1;
/// `http`
pub(crate) const HTTP: Contexts = 1 << 2;
/// `server` in `http`
pub(crate) const SERVER: Contexts = 1 << 3;
/// `location`
pub(crate) const LOCATION: Contexts = 1 << 4;
/// `upstream` in `http`
pub(crate) const UPSTREAM: Contexts = 1 << 5;
/// `if` in `server`
pub(crate) const SERVER_IF: Contexts = 1 << 6;
/// `if` in `location`
pub(crate) const LOCATION_IF: Contexts = 1 << 7;
/// `limit_except`
pub(crate) const LIMIT_EXCEPT: Contexts = 1 << 8;
/// `stream`
pub(crate) const STREAM: Contexts = 1 << 9;
/// `server` in `stream`
pub(crate) const STREAM_SERVER: Contexts = 1 << 10;
/// `upstream` in `stream`
pub(crate) const STREAM_UPSTREAM: Contexts = 1 << 11;
/// `mail`
pub(crate) const MAIL: Contexts = 1 << 12;
/// `server` in `mail`
pub(crate) const MAIL_SERVER: Contexts = 1 << 13;
/// Everywhere.
pub(crate) const ANY: Contexts = u32::MAX;

/// `http`, `server`, `location`
pub(crate) const HSL: Contexts = HTTP | SERVER | LOCATION;
/// `http`, `server`, `location` and `if` in `location`
pub(crate) const HSLI: Contexts = HSL | LOCATION_IF;

/// No argument.
pub(crate) const NONE: Arguments = 1;
/// One argument.
pub(crate) const TAKE1: Arguments = 1 << 1;
/// Two arguments.
pub(crate) const TAKE2: Arguments = 1 << 2;
/// Three arguments.
pub(crate) const TAKE3: Arguments = 1 << 3;
/// Four arguments.
pub(crate) const TAKE4: Arguments = 1 << 4;
/// One or two.
pub(crate) const TAKE12: Arguments = TAKE1 | TAKE2;
/// One to three.
pub(crate) const TAKE123: Arguments = TAKE12 | TAKE3;
/// One to four.
pub(crate) const TAKE1234: Arguments = TAKE123 | TAKE4;
/// Two or three.
pub(crate) const TAKE23: Arguments = TAKE2 | TAKE3;
/// `on` or `off`.
pub(crate) const FLAG: Arguments = 1 << 9;
/// One or more.
pub(crate) const ONE_MORE: Arguments = 1 << 10;
/// Two or more.
pub(crate) const TWO_MORE: Arguments = 1 << 11;
/// A block in braces.
pub(crate) const BLOCK: Arguments = 1 << 12;
