//! A group of peers, shared by all threads: its facts, and its moving state behind one short mutex.
//!
//! Mirrors `ngx_http_upstream_init_round_robin`: a peer for each address, primary and backup ones apart.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{common::addr::Addr, conf::model, vars::Template};

use super::{
    Snapshot,
    balance::{self, Balancer},
    live::{Compared, State},
};

/// An upstream at run time.
#[derive(Debug)]
pub struct Group {
    name: Arc<str>,
    log_name: Arc<str>,
    /// Primary peers first, then backup ones.
    peers: Box<[Peer]>,
    // DIFFERS(shared-state): every thread shares one state, with or without `zone`; nginx's workers each learn alone without it.
    state: Mutex<State>,
    pub(super) primary: Side,
    pub(super) backup: Option<Side>,
    /// One peer and no backup: it is never benched.
    pub(super) single: bool,
    method: model::Method,
    keepalive: Option<model::Keepalive>,
}

/// What does not change of a peer.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it is.
    pub addr: Addr,
    /// The same as `$upstream_addr` shows it.
    pub text: Arc<str>,
    /// The argument of `server` as written.
    pub server: Arc<str>,
    /// Whether it is a backup.
    pub backup: bool,
}

/// The primary or the backup peers of a group.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) range: Range<usize>,
    pub(super) total_weight: u64,
    pub(super) weighted: bool,
    /// Peers that are not down.
    pub(super) tries: u32,
    pub(super) balancer: Box<dyn Balancer>,
}

impl Group {
    /// Makes the group that `conf` describes. Peers that `previous` knows by the name of the group and by address go
    /// on with its averages, failures and weights.
    pub fn new(conf: &model::Upstream, previous: Option<&Snapshot>, now: u64) -> Self {
        let mut peers = Vec::new();
        let primary = Side::build(conf, false, &mut peers);
        let backup = Side::build(conf, true, &mut peers);
        let backup = (!backup.range.is_empty()).then_some(backup);
        let compared = match &conf.method {
            model::Method::LeastTime { mode, .. } => Compared::Time(*mode),
            model::Method::LeastConn => Compared::Conns,
            _ => Compared::Nothing,
        };
        let servers = servers(conf, false).chain(servers(conf, true));
        let mut state = State::new(servers.map(|(server, _)| server), compared);
        // DIFFERS(reload): averages, failures and weights outlive a reload.
        if let Some(previous) = previous {
            previous.restore(&conf.name, &peers, &mut state, now);
        }
        Self {
            name: conf.name.clone(),
            log_name: log_name(conf),
            single: primary.range.len() == 1 && backup.is_none(),
            peers: peers.into(),
            state: Mutex::new(state),
            primary,
            backup,
            method: conf.method.clone(),
            keepalive: conf.keepalive,
        }
    }

    /// A group that the configuration does not have: for an address that a variable named
    /// (`ngx_http_upstream_create_round_robin_peer`).
    pub fn made(name: Arc<str>, addrs: Vec<Addr>, now: u64) -> Self {
        let server = model::UpstreamServer::new(name.clone(), addrs);
        let conf = model::Upstream {
            name,
            port: 0,
            explicit: false,
            servers: vec![server],
            method: model::Method::RoundRobin,
            zone: None,
            keepalive: None,
        };
        Self::new(&conf, None, now)
    }

    /// Its name, as written.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What logs show as the address when no peer is left.
    pub fn log_name(&self) -> &Arc<str> {
        &self.log_name
    }

    /// Its peers, primary ones first.
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// Whether it has one peer and no backup.
    pub fn is_single(&self) -> bool {
        self.single
    }

    /// What [`PickCx::hash_key`](super::PickCx::hash_key) has to hold; None when the method needs none.
    pub fn hash_key(&self) -> Option<&Template> {
        match &self.method {
            model::Method::Hash { key, .. } => Some(key),
            _ => None,
        }
    }

    /// The limits of its pool of idle connections, if it has one.
    pub fn keepalive(&self) -> Option<model::Keepalive> {
        self.keepalive
    }

    /// Tries under way at peer number `index`.
    pub fn conns(&self, index: usize) -> u32 {
        self.state().memory[index].conns
    }

    pub(super) fn least_time(&self) -> Option<(model::LeastTimeMode, bool)> {
        match self.method {
            model::Method::LeastTime { mode, inflight } => Some((mode, inflight)),
            _ => None,
        }
    }

    /// Indices of the primary or of the backup peers.
    pub(super) fn side(&self, backup: bool) -> Range<usize> {
        match &self.backup {
            Some(side) if backup => side.range.clone(),
            _ => self.primary.range.clone(),
        }
    }

    /// The state of the peers. Nobody may wait or allocate much while holding it.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Side {
    fn build(conf: &model::Upstream, backup: bool, peers: &mut Vec<Peer>) -> Self {
        let start = peers.len();
        peers.extend(servers(conf, backup).map(|(server, addr)| Peer {
            addr: addr.clone(),
            text: addr.to_string().into(),
            server: server.name.clone(),
            backup,
        }));
        let weights: Vec<u32> = servers(conf, backup).map(|(s, _)| s.weight).collect();
        let names: Vec<Arc<str>> = peers[start..].iter().map(|p| p.server.clone()).collect();
        let tries = servers(conf, backup).filter(|(s, _)| !s.down).count();
        Self {
            range: start..peers.len(),
            total_weight: weights.iter().map(|w| u64::from(*w)).sum(),
            weighted: weights.windows(2).any(|pair| pair[0] != pair[1]),
            tries: u32::try_from(tries).unwrap_or(u32::MAX),
            balancer: balance::balancer(&conf.method, &names, &weights),
        }
    }
}

/// Primary or backup servers, each once for every address.
fn servers(
    conf: &model::Upstream,
    backup: bool,
) -> impl Iterator<Item = (&model::UpstreamServer, &Addr)> + Clone {
    let servers = conf.servers.iter().filter(move |s| s.backup == backup);
    servers.flat_map(|server| server.addrs.iter().map(move |addr| (server, addr)))
}

/// nginx names an implicit upstream by its host alone.
fn log_name(conf: &model::Upstream) -> Arc<str> {
    match conf.name.rsplit_once(':') {
        Some((host, port))
            if !conf.explicit && !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()) =>
        {
            host.into()
        }
        _ => conf.name.clone(),
    }
}
