//! The contexts of a whole configuration: what servers and proxies need for their handshakes.
//!
//! Servers that inherit one block of settings share a context, and with it what is kept in it. Contexts are made before the
//! worker is; of those before a reload, keys of tickets and what has not changed of the files go on.

use std::{
    cell::RefCell,
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use super::{
    ServerContext,
    cache::Cache,
    client::{self, ClientContext},
    keyring::Keyring,
    objects::{Kept, Loader},
    ocsp::{self, Statuses},
    sessions::{Room, Zone},
};
use crate::{
    common::clock,
    conf::model::{CertificateCache, Config, SessionCache, Ssl, SslZone, UpstreamSsl},
};

/// The contexts of a whole configuration. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Contexts {
    /// By address of the settings, which the configuration keeps.
    servers: Arc<HashMap<usize, Arc<ServerContext>>>,
    /// Likewise for proxies.
    clients: Arc<HashMap<usize, Arc<ClientContext>>>,
    keyring: Option<Arc<Keyring>>,
    statuses: Statuses,
    /// What was read of files, if it may be used again.
    kept: Option<Arc<Kept>>,
}

/// Zones by part of the configuration and name.
type Zones = HashMap<(&'static str, Arc<str>), Arc<Zone>>;

/// What contexts of servers are made with, and share.
pub(super) struct Workshop<'a> {
    pub(super) loader: &'a Loader<'a>,
    /// Keys of tickets where there are no files; None: there is no randomness.
    pub(super) keyring: Option<Arc<Keyring>>,
    caches: RefCell<Vec<Arc<Cache>>>,
    zones: RefCell<Zones>,
    statuses: RefCell<Statuses>,
}

impl Workshop<'_> {
    /// What the blocks keep that have this directive, or inherit it.
    fn cache(&self, rule: &Arc<CertificateCache>) -> Arc<Cache> {
        let mut caches = self.caches.borrow_mut();
        let known = caches.iter().find(|cache| cache.is_of(rule)).cloned();
        known.unwrap_or_else(|| {
            let cache = Arc::new(Cache::new(rule.clone()));
            caches.push(cache.clone());
            cache
        })
    }

    /// What a server of `realm` keeps of certificates with variables.
    pub(super) fn certificates(&self, ssl: &Ssl) -> Option<Arc<Cache>> {
        ssl.certificate_cache.as_ref().map(|rule| self.cache(rule))
    }

    /// What servers of `realm` know of certificates of clients.
    pub(super) fn statuses(&self, realm: &'static str, ssl: &Ssl) -> Option<Arc<ocsp::Cache>> {
        let zone = ssl.ocsp_cache.as_ref()?;
        let scope = if realm == "HTTP" { "http" } else { "stream" };
        Some(self.statuses.borrow_mut().zone(scope, zone))
    }

    /// Where a server of `realm` keeps sessions; None: nowhere.
    pub(super) fn zone(&self, realm: &'static str, ssl: &Ssl) -> Option<Arc<Zone>> {
        if let Some(SslZone { name, size }) = &ssl.session_zone
            && !matches!(ssl.session_cache, SessionCache::Off | SessionCache::None)
        {
            let mut zones = self.zones.borrow_mut();
            let zone = zones.entry((realm, name.clone()));
            let zone = zone.or_insert_with(|| Arc::new(Zone::new(Room::Bytes(*size))));
            return Some(zone.clone());
        }
        match ssl.session_cache {
            SessionCache::Builtin(count) => Some(Arc::new(Zone::new(Room::Sessions(count)))),
            SessionCache::Off | SessionCache::None | SessionCache::ZoneOnly => None,
        }
    }
}

impl Contexts {
    /// Loads everything that the servers of `config` name. `older` are those before a reload. `warn` takes nginx's warnings;
    /// the error is its message.
    pub fn new(
        config: &Config,
        older: Option<&Self>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Self, String> {
        let loader = Loader::new(older.and_then(|older| older.kept.as_deref()));
        let keyring = keyring(config, older);
        let workshop = Workshop {
            loader: &loader,
            keyring: keyring.clone(),
            caches: RefCell::default(),
            zones: RefCell::default(),
            statuses: RefCell::default(),
        };
        let mut servers: HashMap<usize, Arc<ServerContext>> = HashMap::new();
        for (realm, ssl) in settings(config) {
            if !ssl.is_usable() {
                continue;
            }
            let context = match servers.entry(address(ssl)) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    entry.insert(Arc::new(ServerContext::new(realm, ssl, &workshop)?))
                }
            };
            // nginx has a context for each server, and says it for each.
            context.warnings().iter().for_each(|text| warn(text));
        }
        let clients = clients(config, &workshop)?;
        let statuses = workshop.statuses.take();
        drop(workshop);
        let is_kept = config.main.object_cache_inheritable;
        Ok(Self {
            servers: Arc::new(servers),
            clients: Arc::new(clients),
            keyring,
            statuses,
            kept: is_kept.then(|| Arc::new(loader.into_kept())),
        })
    }

    /// What is known of the certificates of the clients of `http` or of `stream`.
    pub fn statuses(&self) -> &Statuses {
        &self.statuses
    }

    /// The context of these settings; None when a server cannot take part in handshakes.
    pub fn server(&self, ssl: &Arc<Ssl>) -> Option<&Arc<ServerContext>> {
        self.servers.get(&address(ssl))
    }

    /// The context of these settings of a proxy; None where nothing goes out over TLS.
    pub fn client(&self, ssl: &Arc<UpstreamSsl>) -> Option<&Arc<ClientContext>> {
        self.clients.get(&address(ssl))
    }
}

/// The part of the configuration and the settings of all servers.
fn settings(config: &Config) -> impl Iterator<Item = (&'static str, &Arc<Ssl>)> {
    let http = config.http.iter().flat_map(|http| &http.servers);
    let streams = config.stream.iter().flat_map(|stream| &stream.servers);
    let http = http.map(|server| ("HTTP", &server.ssl));
    http.chain(streams.map(|server| ("STREAM", &server.ssl)))
}

/// Keys for tickets of all servers, those of `older` if there are any.
fn keyring(config: &Config, older: Option<&Contexts>) -> Option<Arc<Keyring>> {
    let lifetimes = settings(config)
        .filter(|(_, ssl)| ssl.is_usable())
        .map(|(_, ssl)| ssl.session_timeout);
    let (now, longest) = (clock::wall().secs, lifetimes.max().unwrap_or_default());
    let keyring = match older.and_then(|older| older.keyring.as_ref()) {
        Some(keyring) => keyring.renewed(now, longest),
        None => Keyring::random(now, longest)?,
    };
    Some(Arc::new(keyring))
}

/// Contexts of all proxies that may speak TLS.
fn clients(
    config: &Config,
    workshop: &Workshop<'_>,
) -> Result<HashMap<usize, Arc<ClientContext>>, String> {
    let mut wanted: Vec<Arc<UpstreamSsl>> = Vec::new();
    if let Some(http) = &config.http {
        http.each_location(&mut |location| {
            let proxy = location.grpc.as_ref().unwrap_or(&location.proxy);
            if proxy.pass.as_ref().is_some_and(|pass| pass.may_be_tls()) {
                wanted.push(proxy.ssl.clone());
            }
        });
    }
    let streams = config.stream.iter().flat_map(|stream| &stream.servers);
    let streams = streams.map(|server| &server.proxy.ssl);
    wanted.extend(streams.filter(|ssl| ssl.enabled).cloned());
    let mut clients = HashMap::new();
    let mut known: Vec<(Arc<UpstreamSsl>, Arc<ClientContext>)> = Vec::new();
    for ssl in wanted {
        let alike = known
            .iter()
            .find(|(other, _)| client::is_alike(other, &ssl));
        let context = if let Some((_, context)) = alike {
            context.clone()
        } else {
            let rule = ssl.certificate_cache.as_ref();
            let cache = rule.map(|rule| workshop.cache(rule));
            Arc::new(ClientContext::new(&ssl, cache, workshop.loader)?)
        };
        clients.insert(address(&ssl), context.clone());
        known.push((ssl, context));
    }
    Ok(clients)
}

fn address<T>(settings: &Arc<T>) -> usize {
    Arc::as_ptr(settings).addr()
}
