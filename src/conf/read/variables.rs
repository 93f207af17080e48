//! The variables of a configuration.
//!
//! A reference may stand before the definition, so every name that is not built in gets a slot where it is first met;
//! what nobody defined by the end is nginx's `unknown "x" variable`. Names of a family (`http_x`, `arg_x`, ...) and of
//! TLS are built in unless the configuration defines them itself somewhere, which [`Variables::scan`] finds out beforehand.
//!
//! `http` and `stream` each have a namespace. Mirrors `ngx_http_add_variable`, `ngx_http_get_variable_index` and
//! `ngx_http_variables_init_vars` (`http/ngx_http_variables.c`) and their twins in `stream/ngx_stream_variables.c`.

use std::collections::{HashMap, HashSet};

use super::Realm;
use crate::{
    conf::{
        error::{ConfError, Problem},
        model::{Slot, SlotSource},
        parser::{Body, Node, Statement},
    },
    vars::{SlotId, VarId},
};

/// Names and slots.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// Whose names these are.
    realm: Realm,
    slots: Vec<Slot>,
    defined: Vec<bool>,
    by_name: HashMap<String, SlotId>,
    /// Names of the built-in families that the configuration defines.
    claimed: HashSet<String>,
}

impl Variables {
    /// Looks through the statements of `realm` for definitions.
    pub(crate) fn scan(realm: Realm, nodes: &[Node]) -> Self {
        let mut vars = Self {
            realm,
            ..Self::default()
        };
        vars.scan_nodes(nodes);
        vars
    }

    fn scan_nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            let Node::Statement(statement) = node else {
                continue;
            };
            self.scan_statement(statement);
            if let Body::Block(nodes, _) | Body::Include(nodes) = &statement.body {
                self.scan_nodes(nodes);
            }
        }
    }

    fn scan_statement(&mut self, statement: &Statement) {
        let name = &*statement.name.text();
        let target = match name {
            "set" => statement.args.first(),
            "map" | "split_clients" => statement.args.get(1),
            "geo" => statement.args.last(),
            _ => None,
        };
        if let Some(name) = target.and_then(|word| word.bytes().strip_prefix(b"$")) {
            self.claim(&String::from_utf8_lossy(name));
        }
        for arg in &statement.args {
            let text = arg.text();
            for marker in ["(?<", "(?P<"] {
                for part in text.split(marker).skip(1) {
                    if let Some((name, _)) = part.split_once('>') {
                        self.claim(name);
                    }
                }
            }
        }
    }

    fn claim(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        if is_family(self.builtin(&name).as_ref()) {
            self.claimed.insert(name);
        }
    }

    fn builtin(&self, name: &str) -> Option<VarId> {
        match self.realm {
            Realm::Http => VarId::builtin(name),
            Realm::Stream => VarId::stream(name),
        }
    }

    /// The variable of a reference.
    pub(crate) fn resolve(&mut self, name: &str) -> VarId {
        let name = name.to_ascii_lowercase();
        if !self.claimed.contains(&name)
            && let Some(id) = self.builtin(&name)
        {
            return id;
        }
        VarId::Slot(self.slot(&name))
    }

    /// The variable of a reference by name alone: `1` is no capture there, and nothing else either.
    pub(crate) fn resolve_name(&mut self, name: &str) -> VarId {
        match name.as_bytes() {
            [b'1'..=b'9', ..] => VarId::Slot(self.slot(name)),
            _ => self.resolve(name),
        }
    }

    /// The variable of a definition; a built-in one that cannot be changed is an error. A later source wins, except that
    /// an assignment leaves the source of a table alone.
    pub(crate) fn define(&mut self, name: &str, source: SlotSource) -> Result<VarId, Problem> {
        let lower = name.to_ascii_lowercase();
        let builtin = self
            .builtin(&lower)
            // A digit is a name like others here, though no text can refer to it.
            .filter(|id| !matches!(id, VarId::Capture(_)) && !self.claimed.contains(&lower));
        if let Some(id) = builtin {
            return if id.is_changeable() {
                Ok(id)
            } else {
                Err(Problem::Message(format!(
                    "the duplicate \"{name}\" variable"
                )))
            };
        }
        let slot = self.slot(&lower);
        let index = slot.0 as usize;
        if let Some(defined) = self.defined.get_mut(index) {
            *defined = true;
        }
        if let Some(entry) = self.slots.get_mut(index)
            && !matches!(source, SlotSource::Assigned)
        {
            entry.source = source;
        }
        Ok(VarId::Slot(slot))
    }

    fn slot(&mut self, name: &str) -> SlotId {
        let next = SlotId(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        let slot = *self.by_name.entry(name.to_owned()).or_insert(next);
        if slot == next {
            self.slots.push(Slot {
                name: name.into(),
                source: SlotSource::Assigned,
            });
            self.defined.push(match self.realm {
                Realm::Http => is_absent(name),
                Realm::Stream => false,
            });
        }
        slot
    }

    /// The slots, if all are defined.
    pub(crate) fn finish(&mut self) -> Result<Vec<Slot>, ConfError> {
        for (slot, defined) in self.slots.iter().zip(&self.defined) {
            if !defined {
                return Err(ConfError::new(format!(
                    "unknown \"{}\" variable",
                    slot.name
                )));
            }
        }
        Ok(std::mem::take(&mut self.slots))
    }
}

/// Whether a built-in variable is one of a family or of TLS, so that a configuration may define it itself.
fn is_family(id: Option<&VarId>) -> bool {
    match id {
        Some(VarId::Http(name)) => !KNOWN_REQUEST_HEADERS.contains(&&**name),
        Some(VarId::SentHttp(name)) => !KNOWN_RESPONSE_HEADERS.contains(&&**name),
        Some(
            VarId::Arg(_)
            | VarId::Cookie(_)
            | VarId::ProxyProtocolTlv(_)
            | VarId::SentTrailer(_)
            | VarId::UpstreamHttp(_)
            | VarId::UpstreamTrailer(_)
            | VarId::UpstreamCookie(_),
        ) => true,
        Some(id) => id.is_tls(),
        None => false,
    }
}

/// Variables of nginx's modules that have no value here, because what they tell of never happens: HTTP/3,
/// caching, slices, signed links, identifiers.
fn is_absent(name: &str) -> bool {
    matches!(
        name,
        "http3"
            | "secure_link"
            | "secure_link_expires"
            | "slice_range"
            | "uid_got"
            | "uid_reset"
            | "uid_set"
            | "upstream_cache_etag"
            | "upstream_cache_last_modified"
    )
}

/// `$http_*` with a place of their own in nginx's table of variables.
const KNOWN_REQUEST_HEADERS: [&str; 6] = [
    "host",
    "user_agent",
    "referer",
    "via",
    "x_forwarded_for",
    "cookie",
];

/// `$sent_http_*` likewise.
const KNOWN_RESPONSE_HEADERS: [&str; 9] = [
    "content_type",
    "content_length",
    "location",
    "last_modified",
    "connection",
    "keep_alive",
    "transfer_encoding",
    "cache_control",
    "link",
];
