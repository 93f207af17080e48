//! `http` and `stream`: two realms with groups, formats, variables and addresses of their own, read by the same readers.
//!
//! One block of each may stand in a configuration, never one in the other, so that what belongs to the block as a whole
//! is in one [`RealmDraft`]. What nginx has twice, a module for each realm, is one reader here: it asks for the slot in
//! the innermost block of whichever realm is being read.

use std::sync::Arc;

use super::{FormatDraft, ListenDraft, Reader, UpstreamDraft, Variables};
use crate::conf::{
    model,
    parser::{Body, Statement},
};

/// Which of the two is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Realm {
    /// `http`
    #[default]
    Http,
    /// `stream`
    Stream,
}

/// What belongs to the block as a whole.
#[derive(Debug, Default)]
pub(crate) struct RealmDraft {
    pub(crate) kind: Realm,
    pub(crate) listens: Vec<ListenDraft>,
    pub(crate) upstreams: Vec<UpstreamDraft>,
    pub(crate) formats: Vec<FormatDraft>,
}

impl Reader {
    /// Begins the block of `statement`.
    pub(crate) fn enter(&mut self, kind: Realm, statement: &Statement) {
        self.realm = RealmDraft {
            kind,
            ..RealmDraft::default()
        };
        self.vars = match &statement.body {
            Body::Block(nodes, _) => Variables::scan(kind, nodes),
            _ => Variables::default(),
        };
    }

    /// Whether `stream` is being read.
    pub(crate) fn in_stream(&self) -> bool {
        self.realm.kind == Realm::Stream
    }

    /// The number of the server that is being read.
    pub(crate) fn server_index(&self) -> usize {
        match self.realm.kind {
            Realm::Http => self.http.servers.len(),
            Realm::Stream => self.stream.servers.len(),
        }
    }

    /// Notes that the server has a `listen`.
    pub(crate) fn listens(&mut self) {
        match self.realm.kind {
            Realm::Http => self.srv.listen = true,
            Realm::Stream => self.session.listen = true,
        }
    }

    /// `server_name`
    pub(crate) fn server_names(&mut self) -> &mut Vec<model::ServerName> {
        match self.realm.kind {
            Realm::Http => &mut self.srv.names,
            Realm::Stream => &mut self.session.names,
        }
    }

    /// `error_log`
    #[expect(clippy::option_option, reason = "unset, or set to nothing")]
    pub(crate) fn error_logs(&mut self) -> &mut Option<Option<Arc<[model::ErrorLog]>>> {
        match self.realm.kind {
            Realm::Http => &mut self.loc.core.error_log,
            Realm::Stream => &mut self.session.core.error_log,
        }
    }

    /// `access_log`, and whether one is `off`.
    pub(crate) fn access_logs(&mut self) -> (&mut Option<Vec<model::AccessLog>>, &mut bool) {
        match self.realm.kind {
            Realm::Http => (&mut self.loc.access_log, &mut self.loc.access_log_off),
            Realm::Stream => (
                &mut self.session.access_log,
                &mut self.session.access_log_off,
            ),
        }
    }

    /// `open_log_file_cache`
    #[expect(clippy::option_option, reason = "unset, or set to nothing")]
    pub(crate) fn log_cache(&mut self) -> &mut Option<Option<model::OpenFileCache>> {
        match self.realm.kind {
            Realm::Http => &mut self.loc.core.open_log_file_cache,
            Realm::Stream => &mut self.session.core.open_log_file_cache,
        }
    }

    /// `resolver`
    #[expect(clippy::option_option, reason = "unset, or set to nothing")]
    pub(crate) fn resolver(&mut self) -> &mut Option<Option<Arc<model::Resolver>>> {
        match self.realm.kind {
            Realm::Http => &mut self.loc.core.resolver,
            Realm::Stream => &mut self.session.core.resolver,
        }
    }

    /// `allow` and `deny`
    pub(crate) fn access(&mut self) -> &mut Option<Vec<model::AccessRule>> {
        match self.realm.kind {
            Realm::Http => &mut self.loc.access,
            Realm::Stream => &mut self.session.access,
        }
    }

    /// `set_real_ip_from` and its kin.
    pub(crate) fn realip(&mut self) -> &mut model::RealipDraft {
        match self.realm.kind {
            Realm::Http => &mut self.loc.realip,
            Realm::Stream => &mut self.session.realip,
        }
    }
}
