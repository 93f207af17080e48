//! What all threads of a worker share: the configuration and the live things built from it.

use std::sync::Arc;

use crate::{
    common::{addr::Addr, clock, hash::FnvMap, occupancy::Occupancy},
    conf::model::{self, StreamServer},
    log::{ErrorSink, Logs},
    net::{client, listen},
    tls,
    upstream::{Group, Snapshot},
};

/// What marks our groups in a snapshot.
const SCOPE: &str = "stream";

/// The stream part of a generation.
#[derive(Debug)]
pub struct Live {
    config: Arc<model::Config>,
    /// One group for each of [`model::Stream::upstreams`].
    pub groups: Vec<Arc<Group>>,
    /// For each bound socket the listens behind it, as indices into [`model::Stream::listens`].
    pub sockets: Vec<Vec<usize>>,
    /// Addresses of all listening sockets of the generation, for `pass`; a socket's number there is its index. None where
    /// it is for datagrams.
    pub doors: Vec<Option<Addr>>,
    /// One table for each of [`model::Stream::limit_zones`].
    pub(super) zones: Vec<Arc<Occupancy>>,
    /// What servers and proxies need for TLS.
    pub(super) tls: tls::Contexts,
    /// `$hostname`
    pub hostname: String,
    /// By address of the server, which outlives this.
    sinks: FnvMap<usize, ErrorSink>,
    main_sink: ErrorSink,
}

impl Live {
    /// Builds it. `snapshot` is what an earlier generation knew of its peers.
    pub fn new(
        config: Arc<model::Config>,
        logs: &Logs,
        tls: tls::Contexts,
        snapshot: Option<&str>,
    ) -> Arc<Self> {
        let now = clock::now().millis();
        let stream = config.stream.as_ref();
        tls.statuses().read(SCOPE, snapshot.unwrap_or_default());
        let snapshot = snapshot.map(|text| Snapshot::from_text(text, SCOPE));
        let groups = stream
            .iter()
            .flat_map(|stream| &stream.upstreams)
            .map(|upstream| Arc::new(Group::new(upstream, snapshot.as_ref(), now)))
            .collect();
        let zones = stream
            .iter()
            .flat_map(|stream| &stream.limit_zones)
            .map(|zone| Occupancy::new(zone.size))
            .collect();
        let servers = stream.iter().flat_map(|stream| &stream.servers);
        let sinks = servers
            .filter_map(|server| Some((server, server.core.error_log.as_ref()?)))
            .map(|(server, logs_of)| (address(server), logs.sink(logs_of)))
            .collect();
        Arc::new(Self {
            groups,
            sockets: stream
                .map(|stream| listen::behind(&stream.listens))
                .unwrap_or_default(),
            doors: listen::all(&config)
                .into_iter()
                .map(|options| (!options.udp).then(|| options.addr.clone()))
                .collect(),
            zones,
            tls,
            hostname: client::hostname(),
            sinks,
            main_sink: logs.main(),
            config,
        })
    }

    /// The `stream` block.
    ///
    /// # Panics
    /// Without one, and then nothing listens.
    pub fn stream(&self) -> &model::Stream {
        self.config
            .stream
            .as_ref()
            .expect("sessions come in only where there is a stream block")
    }

    /// Where messages about sessions of `server` go.
    pub(super) fn error_sink(&self, server: &StreamServer) -> ErrorSink {
        match &server.core.error_log {
            Some(_) => self.sinks.get(&address(server)).copied(),
            None => None,
        }
        .unwrap_or(self.main_sink)
    }

    /// Where messages about no session in particular go.
    pub(super) fn main_sink(&self) -> ErrorSink {
        self.main_sink
    }

    /// What is known of all peers and of clients' certificates, as text for the next generation.
    pub fn snapshot(&self) -> String {
        let groups = self.groups.iter().map(|group| &**group);
        let mut text = Snapshot::take(groups, clock::now().millis()).to_text(SCOPE);
        self.tls.statuses().write(SCOPE, &mut text);
        text
    }
}

fn address(server: &StreamServer) -> usize {
    std::ptr::from_ref(server).addr()
}
