//! What responders have said of clients' certificates, kept for later connections (`ssl_ocsp_cache`).
//!
//! Mirrors `ngx_ssl_ocsp_cache_lookup` and `ngx_ssl_ocsp_cache_store`. It is written into snapshots, so that it outlives a
//! reload as nginx's zone does.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Mutex, PoisonError},
};

use data_encoding::HEXLOWER;
use lru::LruCache;

use crate::{
    conf::model::SslZone,
    tls::verify::{CertStatus, Told},
};

/// The zones of a configuration; those of `http` and `stream` are apart. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Statuses(Vec<Zone>);

#[derive(Clone, Debug)]
struct Zone {
    scope: &'static str,
    name: Arc<str>,
    cache: Arc<Cache>,
}

impl Statuses {
    /// A zone, which is made when it is first asked for.
    pub(in crate::tls) fn zone(&mut self, scope: &'static str, zone: &SslZone) -> Arc<Cache> {
        let mut known = self.0.iter();
        let found = known.find(|known| known.scope == scope && known.name == zone.name);
        if let Some(known) = found {
            return known.cache.clone();
        }
        let cache = Arc::new(Cache::new(zone.size));
        self.0.push(Zone {
            scope,
            name: zone.name.clone(),
            cache: cache.clone(),
        });
        cache
    }

    /// Appends what is known for `scope` to a snapshot.
    pub fn write(&self, scope: &str, out: &mut String) {
        for zone in self.0.iter().filter(|zone| zone.scope == scope) {
            zone.cache.write(&zone.start(), out);
        }
    }

    /// Takes in what an earlier generation has written for `scope`.
    pub fn read(&self, scope: &str, snapshot: &str) {
        for zone in self.0.iter().filter(|zone| zone.scope == scope) {
            let start = zone.start();
            let lines = snapshot
                .lines()
                .filter_map(|line| line.strip_prefix(&*start));
            let entries = lines.filter_map(|line| line.strip_prefix('\t'));
            entries.for_each(|entry| zone.cache.read(entry));
        }
    }
}

impl Zone {
    /// What its lines in a snapshot begin with.
    fn start(&self) -> String {
        format!("ssl_ocsp_cache\t{}\t{:?}", self.scope, self.name)
    }
}

/// One zone.
pub(in crate::tls) struct Cache {
    most: usize,
    /// The first that came is the first to go.
    entries: Mutex<LruCache<Box<[u8]>, Entry>>,
}

#[derive(Clone, Copy)]
struct Entry {
    status: CertStatus,
    /// Until when it counts, seconds of the day's clock.
    until: i64,
}

/// How many bytes of nginx's zone an entry takes.
const ENTRY: u64 = 256;
/// How long an answer counts that does not say so itself, seconds.
const HOUR: i64 = 3600;

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// An empty one for a zone of `size` bytes.
    fn new(size: u64) -> Self {
        Self {
            most: usize::try_from(size / ENTRY).unwrap_or(usize::MAX).max(1),
            entries: LruCache::unbounded().into(),
        }
    }

    /// What is known of the certificate `key` at `now`.
    pub(super) fn find(&self, key: &[u8], now: i64) -> Option<CertStatus> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = *entries.peek(key)?;
        if entry.until > now {
            return Some(entry.status);
        }
        entries.pop(key);
        None
    }

    /// Keeps what was told of the certificate `key` at `now`.
    pub(super) fn keep(&self, key: Vec<u8>, told: Told, now: i64) {
        let until = told.until.unwrap_or(now + HOUR);
        if until >= now {
            self.put(key, told.status, until);
        }
    }

    fn put(&self, key: Vec<u8>, status: CertStatus, until: i64) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.most {
            entries.pop_lru();
        }
        entries.put(key.into(), Entry { status, until });
    }

    /// Appends a line that begins with `start` for each entry, in their order.
    fn write(&self, start: &str, out: &mut String) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, entry) in entries.iter().rev() {
            let (key, status) = (HEXLOWER.encode(key), entry.status.text());
            // A string takes any text.
            writeln!(out, "{start}\t{key}\t{status}\t{}", entry.until).ok();
        }
    }

    /// Takes in what stands behind the start of such a line; what is none is passed over.
    fn read(&self, line: &str) {
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or_default();
        let (key, status, until) = (field(), field(), field());
        let status = STATUSES.into_iter().find(|known| known.text() == status);
        let key = HEXLOWER.decode(key.as_bytes());
        if let (Ok(key), Some(status), Ok(until)) = (key, status, until.parse()) {
            self.put(key, status, until);
        }
    }
}

const STATUSES: [CertStatus; 3] = [CertStatus::Good, CertStatus::Revoked, CertStatus::Unknown];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: CertStatus, until: Option<i64>) -> Told {
        Told { status, until }
    }

    #[test]
    fn answers_count_for_their_time() {
        let cache = Cache::new(1 << 20);
        cache.keep(vec![1], told(CertStatus::Revoked, Some(20)), 10);
        cache.keep(vec![2], told(CertStatus::Good, None), 10);
        cache.keep(vec![3], told(CertStatus::Good, Some(9)), 10);
        assert_eq!(cache.find(&[1], 19), Some(CertStatus::Revoked));
        assert_eq!(cache.find(&[1], 20), None);
        assert_eq!(cache.find(&[2], 3609), Some(CertStatus::Good));
        assert_eq!(cache.find(&[2], 3610), None);
        assert_eq!(cache.find(&[3], 0), None);
    }

    /// A full zone forgets what came first, and all else is read back from a snapshot.
    #[test]
    fn full_zones_and_snapshots() {
        let cache = Cache::new(2 * ENTRY);
        for key in 1..4 {
            cache.keep(vec![key], told(CertStatus::Unknown, Some(20)), 10);
            cache.find(&[1], 10);
        }
        assert_eq!(cache.find(&[1], 10), None);
        let mut text = String::new();
        cache.write("x", &mut text);
        assert_eq!(text, "x\t02\tunknown\t20\nx\t03\tunknown\t20\n");
        let other = Cache::new(1 << 20);
        for line in ["02\tunknown\t20", "03\tgood", "z\tgood\t20", ""] {
            other.read(line);
        }
        assert_eq!(other.find(&[2], 10), Some(CertStatus::Unknown));
        assert_eq!(other.find(&[3], 10), None);
    }
}
