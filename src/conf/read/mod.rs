//! The walk over the statements: each directive's row reads it into the drafts here.
//!
//! A block's settings gather in a draft while its statements are read; when the `http` block ends, [`assemble`] merges the
//! drafts from the outside in and makes the model of them.

mod arrange;
mod assemble;
mod assemble_stream;
mod draft;
mod names;
mod realm;
mod set;
mod tls;
mod tls_commands;
mod upstreams;
mod variables;
mod zones;

use std::{collections::HashSet, mem, path::PathBuf, sync::Arc};

pub(super) use assemble::default_redirect;
pub(super) use draft::{
    EventsDraft, FormatDraft, HttpDraft, IfDraft, Inherit, LimitZoneDraft, ListenDraft,
    LocationDraft, LogBuffers, MainDraft, OpDraft, RateZoneDraft, Role, ServerDraft, SessionDraft,
    StreamDraft, UpstreamDraft,
};
pub(super) use names::AddListen;
pub(super) use realm::{Realm, RealmDraft};
pub(super) use set::*;
pub(super) use tls_commands::check as check_command;
pub(super) use upstreams::{AddUpstream, MethodSupport};
pub(super) use variables::Variables;
pub(super) use zones::{PAGE, ZoneDraft, ZoneUse};

use super::{
    LoadOptions, Names,
    address::{Url, UrlOptions, parse_url},
    error::{ConfError, Place, Problem},
    lexer::Word,
    model,
    parser::{Body, Node, Statement, Tree, join},
    table::{self, Contexts},
};
use crate::vars::{BoundPattern, Pattern, Template, VarId};

/// What has been read so far.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(super) options: LoadOptions,
    names: Names,
    /// Warnings in nginx's words.
    pub(super) warnings: Vec<String>,
    /// Variables of the `http` or `stream` block that is being read.
    pub(super) vars: Variables,
    /// The main context.
    pub(super) main: MainDraft,
    /// `events`, once there is one.
    pub(super) events: Option<EventsDraft>,
    /// What belongs to no single server of the `http` or `stream` block that is being read.
    pub(super) realm: RealmDraft,
    /// The servers of `http`.
    pub(super) http: HttpDraft,
    /// The servers of `stream`.
    pub(super) stream: StreamDraft,
    /// Files of buffered access logs, in both realms.
    pub(super) log_buffers: LogBuffers,
    /// The settings of the innermost block that has a location's.
    pub(super) loc: LocationDraft,
    /// The settings of the innermost `server` (of `http` outside of one).
    pub(super) srv: ServerDraft,
    /// The settings of the innermost block of `stream`: a `server` or `stream` itself.
    pub(super) session: SessionDraft,
    /// The `upstream` block that is being read.
    pub(super) up: UpstreamDraft,
    /// Directives without a draft of their own that this block has had already.
    seen: HashSet<Vec<u8>>,
    /// Shared memory zones, in order.
    pub(super) zones: Vec<ZoneDraft>,
    /// The finished `http` block.
    pub(super) done: Option<model::Http>,
    /// The finished `stream` block.
    pub(super) done_stream: Option<model::Stream>,
}

impl Reader {
    /// Reads the whole tree.
    pub(super) fn read(
        options: &LoadOptions,
        tree: Tree,
        names: Names,
    ) -> Result<model::Config, ConfError> {
        let place = Place {
            file: None,
            line: 0,
        };
        let mut reader = Self {
            options: options.clone(),
            names,
            warnings: Vec::new(),
            vars: Variables::default(),
            main: MainDraft::default(),
            events: None,
            realm: RealmDraft::default(),
            http: HttpDraft::default(),
            stream: StreamDraft::default(),
            log_buffers: LogBuffers::default(),
            loc: LocationDraft::new(Role::Http, place.clone()),
            srv: ServerDraft::new(place.clone()),
            session: SessionDraft::new(place.clone()),
            up: UpstreamDraft::new("", place),
            seen: HashSet::new(),
            zones: Vec::new(),
            done: None,
            done_stream: None,
        };
        let result = reader
            .walk(&tree.globals, table::MAIN)
            .and_then(|()| reader.walk(&tree.nodes, table::MAIN));
        match result {
            Ok(()) => reader.finish(tree.files),
            Err(error) => Err(error.after(reader.warnings)),
        }
    }

    /// Reads the statements of one level.
    pub(super) fn walk(&mut self, nodes: &[Node], context: Contexts) -> Result<(), ConfError> {
        for node in nodes {
            match node {
                Node::Error(error) => return Err(error.clone()),
                Node::Statement(statement) => {
                    table::dispatch(self, statement, context)?;
                    if let Body::Include(nodes) = &statement.body {
                        self.walk(nodes, context)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the block of `statement`.
    pub(super) fn block(
        &mut self,
        statement: &Statement,
        context: Contexts,
    ) -> Result<(), ConfError> {
        let Body::Block(nodes, _) = &statement.body else {
            return Ok(());
        };
        let outer = mem::take(&mut self.seen);
        let result = self.walk(nodes, context);
        self.seen = outer;
        result
    }

    /// Reads the block of `statement` into `draft`, which stands for the settings meanwhile.
    pub(super) fn location_block(
        &mut self,
        draft: LocationDraft,
        statement: &Statement,
        context: Contexts,
    ) -> Result<LocationDraft, ConfError> {
        let outer = mem::replace(&mut self.loc, draft);
        let result = self.block(statement, context);
        let inner = mem::replace(&mut self.loc, outer);
        result.map(|()| inner)
    }

    /// An error when this block has had this directive already.
    pub(super) fn once(&mut self, statement: &Statement) -> Result<(), Problem> {
        if self.seen.insert(statement.name.bytes().to_vec()) {
            Ok(())
        } else {
            Err(Problem::duplicate())
        }
    }

    /// Notes a warning about `statement`.
    pub(super) fn warn(&mut self, text: impl std::fmt::Display, statement: &Statement) {
        self.warnings.push(format!("{text} in {}", statement.place));
    }

    /// Compiles a text with variables.
    pub(super) fn template(&mut self, text: &[u8]) -> Result<Template, Problem> {
        Ok(Template::compile(text, &mut |name| {
            self.vars.resolve(name)
        })?)
    }

    /// Compiles a pattern whose named groups become variables (`ngx_http_regex_compile`).
    pub(super) fn pattern(&mut self, text: &[u8], caseless: bool) -> Result<BoundPattern, Problem> {
        let pattern = Pattern::new(&String::from_utf8_lossy(text), caseless)?;
        let mut slots = Vec::new();
        for (group, name) in pattern.names() {
            if let VarId::Slot(slot) = self.vars.define(name, model::SlotSource::Assigned)? {
                slots.push((group, slot));
            }
        }
        Ok(BoundPattern { pattern, slots })
    }

    /// Takes an address apart; names are looked up unless that is not wanted.
    pub(super) fn url(&self, text: &str, options: UrlOptions) -> Result<Url, &'static str> {
        let no_resolve = options.no_resolve || self.names == Names::Skip;
        parse_url(
            text,
            UrlOptions {
                no_resolve,
                ..options
            },
        )
    }

    /// A path of the configuration: relative ones start at the prefix.
    pub(super) fn full_path(&self, path: &str) -> PathBuf {
        join(&self.options.prefix.to_string_lossy(), path)
    }

    fn finish(mut self, files: Vec<(PathBuf, Vec<u8>)>) -> Result<model::Config, ConfError> {
        let Some(events) = self.events.take() else {
            let error = ConfError::late("no \"events\" section in configuration");
            return Err(error.after(self.warnings));
        };
        if let Some(zone) = self.zones.iter().find(|zone| zone.size == 0) {
            let error = ConfError::late(format!("zero size shared memory zone \"{}\"", zone.name));
            return Err(error.after(self.warnings));
        }
        let main = mem::take(&mut self.main).build(&self);
        Ok(model::Config {
            main,
            events: events.build(),
            http: self.done,
            stream: self.done_stream,
            files,
            warnings: self.warnings,
        })
    }
}

/// The bytes of a word, shared.
pub(super) fn shared(word: &Word) -> Arc<[u8]> {
    word.bytes().into()
}

#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
