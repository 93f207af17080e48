//! How many there are of each key at once (`limit_conn`).
//!
//! Mirrors the shared zone of `ngx_stream_limit_conn_module.c` and `ngx_http_limit_conn_module.c`.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A table of keys.
#[derive(Debug)]
pub struct Occupancy {
    /// Clients choose the keys, so its hashes are not to be foreseen.
    counts: Mutex<HashMap<Arc<[u8]>, u32>>,
    /// How many keys it takes.
    room: usize,
}

/// What a key costs in nginx's zone at least, bytes: a slot of its slab allocator.
const KEY_COST: u64 = 64;

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub struct Place {
    table: Arc<Occupancy>,
    key: Arc<[u8]>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// As many as are allowed share the key.
    Key,
    /// There is no memory for another key.
    Table,
    /// The key is too long to be counted.
    TooLong,
}

/// `$limit_conn_status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitStatus {
    /// `PASSED`
    Passed,
    /// `REJECTED`
    Rejected,
    /// `REJECTED_DRY_RUN`
    RejectedDryRun,
}

impl LimitStatus {
    /// The variable's value.
    pub fn text(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Rejected => "REJECTED",
            Self::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// The longest key, bytes.
const MAX_KEY: usize = 255;

impl Occupancy {
    /// An empty table of `size` bytes.
    pub fn new(size: u64) -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::default(),
            room: usize::try_from(size / KEY_COST).unwrap_or(usize::MAX),
        })
    }

    /// Takes one of `limit` places of `key`.
    pub fn enter(self: &Arc<Self>, key: &[u8], limit: u32) -> Result<Place, NoPlace> {
        if key.len() > MAX_KEY {
            return Err(NoPlace::TooLong);
        }
        let mut counts = self.counts();
        let is_full = counts.len() >= self.room;
        let key = match counts.get_key_value(key) {
            Some((_, count)) if *count >= limit => return Err(NoPlace::Key),
            None if is_full => return Err(NoPlace::Table),
            Some((key, _)) => key.clone(),
            None => key.into(),
        };
        *counts.entry(key.clone()).or_default() += 1;
        drop(counts);
        Ok(Place {
            table: self.clone(),
            key,
        })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.table.counts().entry(self.key.clone()) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let table = Occupancy::new(2 * KEY_COST);
        let first = table.enter(b"a", 2).unwrap();
        let second = table.enter(b"a", 2).unwrap();
        assert_eq!(table.enter(b"a", 2).unwrap_err(), NoPlace::Key);
        let other = table.enter(b"b", 1).unwrap();
        assert_eq!(table.enter(b"c", 1).unwrap_err(), NoPlace::Table);
        drop((first, other));
        drop((table.enter(b"a", 2).unwrap(), table.enter(b"c", 1).unwrap()));
        drop(second);
        assert!(table.counts().is_empty());
    }
}
