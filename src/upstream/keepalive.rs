//! Idle connections to peers, for reuse: last in, first out; when full, the least recently used goes.
//!
//! One pool a thread and upstream, without locks and without I/O: closing what comes out, and noticing that an idle
//! connection turned readable, is the caller's part. Mirrors `ngx_http_upstream_keepalive_module.c`.
//!
//! DIFFERS(pool-key): the key is the caller's and holds everything that makes a connection what it is; nginx compares addresses.

use std::collections::VecDeque;

use crate::{common::prefetch::prefetch, conf::model};

/// Idle connections `C`, found by key `K`.
#[derive(Debug)]
pub struct Pool<K, C> {
    /// The most recently used last.
    idle: VecDeque<Idle<K, C>>,
    limits: model::Keepalive,
}

#[derive(Debug)]
struct Idle<K, C> {
    key: K,
    conn: C,
    since: u64,
}

impl<K: Eq, C> Pool<K, C> {
    /// An empty pool.
    pub fn new(limits: model::Keepalive) -> Self {
        Self {
            idle: VecDeque::new(),
            limits,
        }
    }

    /// Whether a connection that has served `requests` and was opened `age` milliseconds ago may be kept
    /// (`keepalive_requests`, `keepalive_time`).
    pub fn admits(&self, requests: u64, age: u64) -> bool {
        requests < self.limits.requests && u128::from(age) <= self.limits.time.as_millis()
    }

    /// Takes out the most recently used connection of this key, unless it was idle for too long.
    pub fn take(&mut self, key: &K, now: u64) -> Option<C> {
        let index = self.idle.iter().rposition(|idle| idle.key == *key)?;
        if self.is_expired(&self.idle[index], now) {
            return None;
        }
        let taken = self.idle.remove(index);
        if let Some(next) = index.checked_sub(1).and_then(|index| self.idle.get(index)) {
            // Another request may come at once.
            prefetch(next);
        }
        taken.map(|idle| idle.conn)
    }

    /// Keeps a connection. Returns the one that had to go for it, or this one when nothing can be kept.
    pub fn put(&mut self, key: K, conn: C, now: u64) -> Option<C> {
        if self.limits.connections == 0 {
            return Some(conn);
        }
        let full = self.idle.len() >= self.limits.connections;
        let evicted = if full { self.idle.pop_front() } else { None };
        self.idle.push_back(Idle {
            key,
            conn,
            since: now,
        });
        evicted.map(|idle| idle.conn)
    }

    /// Takes out a connection that was idle for `keepalive_timeout`; None when there is none (any more).
    pub fn pop_expired(&mut self, now: u64) -> Option<C> {
        let oldest = self.idle.front()?;
        if !self.is_expired(oldest, now) {
            return None;
        }
        self.idle.pop_front().map(|idle| idle.conn)
    }

    /// When the next connection will have been idle for too long.
    pub fn next_expiry(&self) -> Option<u64> {
        let oldest = self.idle.front()?;
        Some(oldest.since.saturating_add(self.timeout()))
    }

    /// How many connections of this key there are.
    pub fn count(&self, key: &K) -> usize {
        self.idle.iter().filter(|idle| idle.key == *key).count()
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.idle.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.idle.is_empty()
    }

    /// Drops the connections for which `keep` is false; one that turned readable has to go.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut C) -> bool) {
        self.idle.retain_mut(|idle| keep(&idle.key, &mut idle.conn));
    }

    /// Drops all connections.
    pub fn clear(&mut self) {
        self.idle.clear();
    }

    fn timeout(&self) -> u64 {
        self.limits
            .timeout
            .as_millis()
            .try_into()
            .unwrap_or(u64::MAX)
    }

    fn is_expired(&self, idle: &Idle<K, C>, now: u64) -> bool {
        now.saturating_sub(idle.since) >= self.timeout()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pool(connections: usize) -> Pool<&'static str, u32> {
        Pool::new(model::Keepalive {
            connections,
            local: false,
            requests: 1000,
            time: Duration::from_hours(1),
            timeout: Duration::from_mins(1),
        })
    }

    #[test]
    fn last_in_first_out_among_equal_keys() {
        let mut pool = pool(8);
        for (key, conn) in [("a", 1), ("b", 2), ("a", 3)] {
            assert_eq!(pool.put(key, conn, 0), None);
        }
        assert_eq!(pool.count(&"a"), 2);
        assert_eq!(pool.take(&"a", 1), Some(3));
        assert_eq!(pool.take(&"a", 1), Some(1));
        assert_eq!(pool.take(&"a", 1), None);
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn full_evicts_the_least_recently_used() {
        let mut pool = pool(2);
        pool.put("a", 1, 0);
        pool.put("b", 2, 1);
        let used = pool.take(&"a", 2).unwrap();
        pool.put("a", used, 2);
        assert_eq!(pool.put("c", 3, 3), Some(2));
        assert_eq!(pool.take(&"a", 4), Some(1));
    }

    #[test]
    fn nothing_is_kept_without_room() {
        assert_eq!(pool(0).put("a", 1, 0), Some(1));
    }

    #[test]
    fn limits_of_time_and_requests() {
        let mut pool = pool(8);
        assert!(pool.admits(999, 3_600_000));
        assert!(!pool.admits(1000, 0));
        assert!(!pool.admits(1, 3_600_001));
        pool.put("a", 1, 1000);
        pool.put("a", 2, 2000);
        assert_eq!(pool.next_expiry(), Some(61_000));
        assert_eq!(pool.pop_expired(60_999), None);
        assert_eq!(pool.pop_expired(61_000), Some(1));
        assert_eq!(pool.pop_expired(61_000), None);
        assert_eq!(pool.take(&"a", 62_000), None);
        assert_eq!(pool.pop_expired(62_000), Some(2));
        assert!(pool.is_empty() && pool.next_expiry().is_none());
    }

    #[test]
    fn readable_ones_go() {
        let mut pool = pool(8);
        pool.put("a", 1, 0);
        pool.put("b", 2, 0);
        pool.retain(|_, conn| *conn != 1);
        assert_eq!((pool.count(&"a"), pool.count(&"b")), (0, 1));
        pool.clear();
        assert!(pool.is_empty());
    }
}
