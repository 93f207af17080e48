//! Addresses to listen on, and which server answers for which name there.
//!
//! Mirrors `ngx_http_add_listen`, `ngx_http_server_names` and `ngx_http_init_listening` (`http/ngx_http.c`) and their
//! twins in `stream/ngx_stream.c`: a wildcard address takes the connections of every address of its port and family that has no socket options of its own.

use std::{borrow::Borrow, collections::HashSet, path::Path, sync::Arc};

use super::{ListenDraft, Problem, Reader, Statement};
use crate::{
    common::addr::Addr,
    conf::{
        error::ConfError,
        model::{Listen, ListenOptions, Server, ServerName, ServerNames, Ssl, StreamServer},
    },
};

/// One address of a `listen` directive.
#[derive(Clone, Debug)]
pub(crate) struct AddListen {
    /// Socket options and the address.
    pub(crate) options: ListenOptions,
    /// Any option of the socket was given.
    pub(crate) set: bool,
    /// `default_server`
    pub(crate) default_server: bool,
    /// `proxy_protocol`
    pub(crate) proxy_protocol: bool,
    /// `ssl`
    pub(crate) ssl: bool,
    /// `http2`
    pub(crate) http2: bool,
}

impl Reader {
    /// Adds an address to the server that is being read.
    pub(crate) fn add_listen(
        &mut self,
        new: AddListen,
        statement: &Statement,
    ) -> Result<(), Problem> {
        let server = self.server_index();
        let known = self.realm.listens.iter_mut().find(|known| {
            known.options.addr == new.options.addr && known.options.udp == new.options.udp
        });
        let Some(known) = known else {
            self.realm.listens.push(ListenDraft {
                set: new.set,
                is_default_set: new.default_server,
                default_server: server,
                servers: vec![server],
                proxy_protocol: new.proxy_protocol,
                ssl: new.ssl,
                http2: new.http2,
                protocols: None,
                protocols_changed: false,
                options: new.options,
            });
            return Ok(());
        };
        if merge(known, new, server)? {
            let text = format!("protocol options redefined for {}", known.options.addr);
            self.warn(text, statement);
        }
        Ok(())
    }
}

/// Adds to a known address (`ngx_http_add_addresses`); true when protocol options differ suspiciously.
fn merge(known: &mut ListenDraft, new: AddListen, server: usize) -> Result<bool, Problem> {
    let addr = known.options.addr.clone();
    if known.servers.contains(&server) {
        return Err(Problem::Message(format!("a duplicate listen {addr}")));
    }
    known.servers.push(server);
    let was_set = known.set;
    if new.set {
        if known.set {
            return Err(Problem::Message(format!(
                "duplicate listen options for {addr}"
            )));
        }
        known.options = new.options;
        known.set = true;
    }
    if new.default_server {
        if known.is_default_set {
            return Err(Problem::Message(format!(
                "a duplicate default server for {addr}"
            )));
        }
        known.is_default_set = true;
        known.default_server = server;
    }
    let before = protocols(known.proxy_protocol, known.ssl, known.http2);
    let now = protocols(new.proxy_protocol, new.ssl, new.http2);
    let other = known.protocols.is_some_and(|protocols| protocols != now);
    let (added, removed) = (now & !before != 0, before & !now != 0);
    let suspicious = match (added, removed) {
        (true, _) => (was_set && !new.set) || known.protocols_changed || removed,
        (false, true) => new.set || other,
        (false, false) => (new.set && known.protocols_changed) || other,
    };
    known.protocols = Some(if added { before } else { now });
    known.protocols_changed |= before != now;
    known.proxy_protocol |= new.proxy_protocol;
    known.ssl |= new.ssl;
    known.http2 |= new.http2;
    Ok(suspicious)
}

/// Protocol options as a set of bits.
fn protocols(proxy_protocol: bool, ssl: bool, http2: bool) -> u8 {
    u8::from(proxy_protocol) | u8::from(ssl) << 1 | u8::from(http2) << 2
}

/// A server that is chosen by its names.
pub(super) trait Named {
    /// All names of `server_name`.
    fn names(&self) -> &[ServerName];

    /// `ssl_*`
    fn ssl(&self) -> &Ssl;

    /// File and line of the block.
    fn origin(&self) -> (&Path, usize);
}

impl Named for Server {
    fn names(&self) -> &[ServerName] {
        &self.names
    }

    fn ssl(&self) -> &Ssl {
        &self.ssl
    }

    fn origin(&self) -> (&Path, usize) {
        (&self.origin.0, self.origin.1)
    }
}

impl Named for StreamServer {
    fn names(&self) -> &[ServerName] {
        &self.names
    }

    fn ssl(&self) -> &Ssl {
        &self.ssl
    }

    fn origin(&self) -> (&Path, usize) {
        (&self.origin.0, self.origin.1)
    }
}

/// Makes the model's addresses of all that were asked for.
pub(super) fn listens<S: Named>(
    drafts: Vec<ListenDraft>,
    servers: &[Arc<S>],
    warnings: &mut Vec<String>,
) -> Result<Vec<Listen<S>>, ConfError> {
    let mut listens = Vec::new();
    for mut addresses in by_port(drafts.into_iter()) {
        addresses.sort_by_key(|draft| (is_wildcard(&draft.options.addr), !draft.options.bind));
        let wildcard = addresses
            .last()
            .map(|draft| draft.options.addr.clone())
            .filter(is_wildcard);
        for draft in addresses {
            listens.push(listen(draft, wildcard.as_ref(), servers, warnings)?);
        }
    }
    Ok(listens)
}

/// Addresses by port, each where it was named first.
pub(super) fn by_port<D: Borrow<ListenDraft>>(drafts: impl Iterator<Item = D>) -> Vec<Vec<D>> {
    let mut ports: Vec<((Port, bool), Vec<D>)> = Vec::new();
    for draft in drafts {
        let options = &draft.borrow().options;
        let port = (Port::of(&options.addr), options.udp);
        match ports.iter_mut().find(|(known, _)| *known == port) {
            Some((_, addresses)) => addresses.push(draft),
            None => ports.push((port, vec![draft])),
        }
    }
    ports.into_iter().map(|(_, addresses)| addresses).collect()
}

/// What shares a wildcard socket.
#[derive(PartialEq, Eq)]
enum Port {
    V4(u16),
    V6(u16),
    Unix,
}

impl Port {
    fn of(addr: &Addr) -> Self {
        match addr {
            Addr::Inet(addr) if addr.is_ipv4() => Self::V4(addr.port()),
            Addr::Inet(addr) => Self::V6(addr.port()),
            Addr::Unix(_) => Self::Unix,
        }
    }
}

fn is_wildcard(addr: &Addr) -> bool {
    addr.ip().is_some_and(|ip| ip.is_unspecified())
}

fn listen<S: Named>(
    draft: ListenDraft,
    wildcard: Option<&Addr>,
    servers: &[Arc<S>],
    warnings: &mut Vec<String>,
) -> Result<Listen<S>, ConfError> {
    let here: Vec<&Arc<S>> = draft
        .servers
        .iter()
        .filter_map(|index| servers.get(*index))
        .collect();
    let Some(default_server) = servers.get(draft.default_server) else {
        return Err(ConfError::new("no server for an address"));
    };
    let names = if here.len() > 1 || captures(default_server.names()) {
        server_names(&here, &draft.options.addr, warnings)?
    } else {
        ServerNames::default()
    };
    let bind_addr = wildcard
        .filter(|_| !draft.options.bind)
        .unwrap_or(&draft.options.addr)
        .clone();
    Ok(Listen {
        bind_addr,
        ssl: draft.ssl,
        http2: draft.http2,
        quic: false,
        proxy_protocol: draft.proxy_protocol,
        default_server: default_server.clone(),
        names,
        options: draft.options,
    })
}

/// `$server_name`
pub(super) fn first_name(names: &[ServerName]) -> Arc<str> {
    match names.first() {
        Some(ServerName::Regex(bound)) => format!("~{}", bound.pattern.as_str()).into(),
        Some(ServerName::Name(name)) => name.strip_prefix('.').unwrap_or(name).into(),
        None => "".into(),
    }
}

/// Whether a lone server needs its name matched for the captures' sake.
fn captures(names: &[ServerName]) -> bool {
    names
        .iter()
        .rev()
        .find_map(|name| match name {
            ServerName::Regex(bound) => Some(bound.pattern.group_count() > 0),
            ServerName::Name(_) => None,
        })
        .unwrap_or(false)
}

fn server_names<S: Named>(
    servers: &[&Arc<S>],
    addr: &Addr,
    warnings: &mut Vec<String>,
) -> Result<ServerNames<S>, ConfError> {
    let mut keys = Keys::default();
    for server in servers {
        for name in server.names() {
            let name = match name {
                ServerName::Name(name) => name,
                ServerName::Regex(bound) => {
                    let entry = ((**bound).clone(), Arc::clone(server));
                    keys.names.regex.push(entry);
                    continue;
                }
            };
            match keys.add(name, server) {
                Added::Yes => {}
                Added::Conflict => warnings.push(format!(
                    "conflicting server name \"{name}\" on {addr}, ignored"
                )),
                Added::Invalid => {
                    return Err(ConfError::new(format!(
                        "invalid server name or wildcard \"{name}\" on {addr}"
                    )));
                }
            }
        }
    }
    let mut names = keys.names;
    names
        .leading
        .sort_by_key(|(name, _)| usize::MAX - name.len());
    names
        .trailing
        .sort_by_key(|(name, _)| usize::MAX - name.len());
    Ok(names)
}

enum Added {
    Yes,
    Conflict,
    Invalid,
}

/// Names so far; mirrors `ngx_hash_add_key` with `NGX_HASH_WILDCARD_KEY`.
struct Keys<S> {
    names: ServerNames<S>,
    leading: HashSet<String>,
    trailing: HashSet<String>,
}

impl<S> Default for Keys<S> {
    fn default() -> Self {
        Self {
            names: ServerNames::default(),
            leading: HashSet::new(),
            trailing: HashSet::new(),
        }
    }
}

impl<S> Keys<S> {
    fn add(&mut self, name: &str, server: &Arc<S>) -> Added {
        let stars = name.matches('*').count();
        if stars > 1 || name.contains("..") || name.contains('\0') {
            return Added::Invalid;
        }
        if let Some(domain) = name.strip_prefix('.').filter(|domain| !domain.is_empty()) {
            let key: Box<[u8]> = domain.as_bytes().into();
            if self.names.exact.contains_key(&key) {
                return Added::Conflict;
            }
            self.names.exact.insert(key, server.clone());
            return self.add_leading(domain, server);
        }
        if let Some(domain) = name.strip_prefix("*.").filter(|domain| !domain.is_empty()) {
            return self.add_leading(domain, server);
        }
        if let Some(stem) = name.strip_suffix(".*").filter(|stem| !stem.is_empty()) {
            if !self.trailing.insert(stem.to_owned()) {
                return Added::Conflict;
            }
            let key = format!("{stem}.").into_bytes().into();
            self.names.trailing.push((key, server.clone()));
            return Added::Yes;
        }
        if stars > 0 {
            return Added::Invalid;
        }
        let key: Box<[u8]> = name.as_bytes().into();
        if self.names.exact.contains_key(&key) {
            return Added::Conflict;
        }
        self.names.exact.insert(key, server.clone());
        Added::Yes
    }

    fn add_leading(&mut self, domain: &str, server: &Arc<S>) -> Added {
        if !self.leading.insert(domain.to_owned()) {
            return Added::Conflict;
        }
        let key = format!(".{domain}").into_bytes().into();
        self.names.leading.push((key, server.clone()));
        Added::Yes
    }
}
