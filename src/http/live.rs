//! What all threads of a worker share: the configuration and the live things built from it.

use std::{collections::HashMap, path::Path, sync::Arc};

use super::counts::Counts;
use crate::{
    common::{clock, occupancy::Occupancy, rates::Rates},
    conf::model::{self, Location},
    log::{ErrorSink, Logs},
    net::{client, listen},
    tls,
    upstream::{Group, Snapshot},
};

/// What marks our groups in a snapshot.
const SCOPE: &str = "http";

/// The http part of a generation.
#[derive(Debug)]
pub struct Live {
    config: Arc<model::Config>,
    /// One group for each of [`model::Http::upstreams`].
    pub groups: Vec<Arc<Group>>,
    /// For each bound socket the listens behind it, as indices into [`model::Http::listens`].
    pub sockets: Vec<Vec<usize>>,
    /// Connections and requests.
    pub counts: Counts,
    /// One table for each of [`model::Http::limit_zones`].
    pub(super) places: Vec<Arc<Occupancy>>,
    /// One table for each of [`model::Http::rate_zones`].
    pub(super) rates: Vec<Rates>,
    /// What servers need for TLS.
    pub(super) tls: tls::Contexts,
    /// `$hostname`
    pub hostname: String,
    sinks: HashMap<u32, ErrorSink>,
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
        let http = config.http.as_ref();
        let rates = rates(http, snapshot.unwrap_or_default(), now);
        tls.statuses().read(SCOPE, snapshot.unwrap_or_default());
        let snapshot = snapshot.map(|text| Snapshot::from_text(text, SCOPE));
        let groups = http
            .iter()
            .flat_map(|http| &http.upstreams)
            .map(|u| Arc::new(Group::new(u, snapshot.as_ref(), now)))
            .collect();
        let mut sinks = HashMap::new();
        if let Some(http) = http {
            http.each_location(&mut |location| {
                if let Some(error_log) = &location.core.error_log {
                    sinks.insert(location.id, logs.sink(error_log));
                }
            });
        }
        let main_sink = logs.main();
        Arc::new(Self {
            groups,
            sockets: http
                .map(|http| listen::behind(&http.listens))
                .unwrap_or_default(),
            counts: Counts::default(),
            places: http
                .iter()
                .flat_map(|http| &http.limit_zones)
                .map(|zone| Occupancy::new(zone.size))
                .collect(),
            rates,
            tls,
            hostname: client::hostname(),
            sinks,
            main_sink,
            config,
        })
    }

    /// The `http` block.
    ///
    /// # Panics
    /// Without one, and then nothing listens.
    pub fn http(&self) -> &model::Http {
        self.config
            .http
            .as_ref()
            .expect("connections come in only where there is an http block")
    }

    /// The whole configuration.
    pub fn config(&self) -> &model::Config {
        &self.config
    }

    /// The prefix that relative paths start from.
    pub fn prefix(&self) -> &Path {
        &self.config.main.prefix
    }

    /// Where messages about requests in `location` go.
    pub fn error_sink(&self, location: &Location) -> ErrorSink {
        match &location.core.error_log {
            Some(_) => self
                .sinks
                .get(&location.id)
                .copied()
                .unwrap_or(self.main_sink),
            None => self.main_sink,
        }
    }

    /// Where messages about no request in particular go.
    pub fn main_sink(&self) -> ErrorSink {
        self.main_sink
    }

    /// What is known of all peers, of the rates of requests and of clients' certificates, as text for the next generation.
    pub fn snapshot(&self) -> String {
        let now = clock::now().millis();
        let groups = self.groups.iter().map(|group| &**group);
        let mut text = Snapshot::take(groups, now).to_text(SCOPE);
        let zones = self.config.http.iter().flat_map(|http| &http.rate_zones);
        for (zone, rates) in zones.zip(&self.rates) {
            rates.write(&rates_start(zone), now, &mut text);
        }
        self.tls.statuses().write(SCOPE, &mut text);
        text
    }
}

/// What marks the lines of a zone of `limit_req` in a snapshot. Buckets of another key mean nothing.
// DIFFERS(limit-key): nginx refuses to reload when the key of a zone has changed.
fn rates_start(zone: &model::RateZone) -> String {
    format!("limit_req\t{:?}\t{:?}", zone.zone.name, zone.key_text)
}

/// The zones of `limit_req`, with what an earlier generation knew.
fn rates(http: Option<&model::Http>, snapshot: &str, now: u64) -> Vec<Rates> {
    let zones = http.iter().flat_map(|http| &http.rate_zones);
    zones
        .map(|zone| {
            let rates = Rates::new(zone.zone.size, zone.rate);
            let start = rates_start(zone);
            let lines = snapshot
                .lines()
                .filter_map(|line| line.strip_prefix(&*start)?.strip_prefix('\t'));
            for line in lines {
                rates.read(line, now);
            }
            rates
        })
        .collect()
}
