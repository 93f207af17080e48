//! Sessions that the server keeps: `ssl_session_cache`, where there is no ticket, and where clients may send early data.
//!
//! All threads share a zone; its size bounds what the sessions in it take, and who has been there longest without being
//! asked for goes. A session is good where it was made (`ngx_ssl_session_id_context`), for `ssl_session_timeout`. Mirrors
//! `ngx_ssl_new_session` and its kin (`event/ngx_event_openssl.c`).

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use aws_lc_rs::digest::{self, SHA256};
use lru::LruCache;
use rustls::server::StoresServerSessions;

use super::{certificates::Own, notes};
use crate::{common::clock, conf::model::Ssl};

/// Tells where a session is good.
pub(super) type Context = [u8; 32];

/// That of a server: of its part of the configuration, its certificates, or their names when these have variables, and the
/// authorities that clients are told of.
pub(super) fn context(
    realm: &str,
    ssl: &Ssl,
    fixed: &[Own],
    told: &[rustls::DistinguishedName],
) -> Context {
    let mut digest = digest::Context::new(&SHA256);
    let mut add = |kind: u8, bytes: &[u8]| {
        digest.update(&[kind]);
        digest.update(&bytes.len().to_be_bytes());
        digest.update(bytes);
    };
    add(0, realm.as_bytes());
    for own in fixed.iter().filter_map(|own| own.certified.cert.first()) {
        add(1, own);
    }
    let named = ssl.certificate.iter().filter(|_| ssl.is_dynamic());
    for name in named {
        add(2, name.written.as_bytes());
    }
    for name in told {
        add(3, name.as_ref());
    }
    let mut context = [0; 32];
    context.copy_from_slice(digest.finish().as_ref());
    context
}

/// How much a [`Zone`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Bytes.
    Bytes(u64),
    /// Sessions.
    Sessions(usize),
}

/// Sessions of all servers that name it.
// DIFFERS(session-zone): nginx's are in memory that outlives a worker.
pub(super) struct Zone {
    room: Room,
    kept: Mutex<Kept>,
}

struct Kept {
    sessions: LruCache<Box<[u8]>, Session>,
    bytes: u64,
}

struct Session {
    /// Seconds of the day's clock.
    begun: i64,
    value: Box<[u8]>,
}

/// What a session takes besides its own bytes, about.
const OVERHEAD: usize = 128;

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zone")
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

impl Zone {
    pub(super) fn new(room: Room) -> Self {
        let kept = Kept {
            sessions: LruCache::unbounded(),
            bytes: 0,
        };
        Self {
            room,
            kept: kept.into(),
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Kept) -> T) -> T {
        look(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, key: Box<[u8]>, session: Session) -> bool {
        let needed = size(&key, &session);
        if matches!(self.room, Room::Bytes(bytes) if needed > bytes) {
            return false;
        }
        self.with(|kept| {
            kept.take(&key);
            while kept.is_full(self.room, needed) && kept.drop_oldest() {}
            kept.bytes += needed;
            kept.sessions.put(key, session);
        });
        true
    }
}

fn size(key: &[u8], session: &Session) -> u64 {
    u64::try_from(key.len() + session.value.len() + OVERHEAD).unwrap_or(u64::MAX)
}

impl Kept {
    fn is_full(&self, room: Room, needed: u64) -> bool {
        match room {
            Room::Bytes(bytes) => self.bytes + needed > bytes,
            Room::Sessions(count) => self.sessions.len() >= count,
        }
    }

    fn drop_oldest(&mut self) -> bool {
        let oldest = self.sessions.pop_lru();
        oldest.is_some_and(|(key, session)| {
            self.bytes -= size(&key, &session);
            true
        })
    }

    fn take(&mut self, key: &[u8]) -> Option<Session> {
        let session = self.sessions.pop(key)?;
        self.bytes -= size(key, &session);
        Some(session)
    }
}

/// The sessions of one server.
#[derive(Debug)]
pub(super) struct Store {
    /// None: clients are told that sessions are kept, and none is (`ssl_session_cache none`).
    pub(super) zone: Option<Arc<Zone>>,
    pub(super) context: Context,
    pub(super) lifetime: Duration,
}

impl Store {
    fn key(&self, id: &[u8]) -> Box<[u8]> {
        [&self.context[..], id].concat().into()
    }

    fn put_at(&self, id: &[u8], value: Vec<u8>, now: i64) -> bool {
        let session = Session {
            begun: now,
            value: value.into(),
        };
        let zone = self.zone.as_ref();
        zone.is_some_and(|zone| zone.put(self.key(id), session))
    }

    fn get_at(&self, id: &[u8], now: i64, takes: bool) -> Option<Vec<u8>> {
        let key = self.key(id);
        self.zone.as_ref()?.with(|kept| {
            let begun = kept.sessions.peek(&key)?.begun;
            let age = u64::try_from(now.saturating_sub(begun)).unwrap_or(0);
            if takes || age > self.lifetime.as_secs() {
                let session = kept.take(&key)?;
                return (age <= self.lifetime.as_secs()).then(|| session.value.into_vec());
            }
            kept.sessions
                .get(&key)
                .map(|session| session.value.to_vec())
        })
    }
}

impl StoresServerSessions for Store {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        notes::session(&id);
        self.put_at(&id, value, clock::wall().secs)
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let found = self.get_at(id, clock::wall().secs, false);
        if found.is_some() {
            notes::session(id);
        }
        found
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let found = self.get_at(id, clock::wall().secs, true);
        if found.is_some() {
            notes::session(id);
        }
        found
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(zone: &Arc<Zone>, context: u8) -> Store {
        Store {
            zone: Some(zone.clone()),
            context: [context; 32],
            lifetime: Duration::from_secs(10),
        }
    }

    #[test]
    fn sessions_end_and_are_good_in_one_place() {
        let zone = Arc::new(Zone::new(Room::Sessions(3)));
        let (one, other) = (store(&zone, 1), store(&zone, 2));
        assert!(one.put_at(b"id", b"value".to_vec(), 100));
        assert_eq!(other.get_at(b"id", 100, false), None);
        assert_eq!(one.get_at(b"id", 110, false).unwrap(), b"value");
        assert_eq!(one.get_at(b"id", 111, false), None);
        assert!(one.put_at(b"id", b"value".to_vec(), 100));
        assert_eq!(one.get_at(b"id", 100, true).unwrap(), b"value");
        assert_eq!(one.get_at(b"id", 100, true), None);
        let none = Store { zone: None, ..one };
        assert!(none.can_cache() && !none.put_at(b"id", Vec::new(), 100));
    }

    #[test]
    fn the_oldest_makes_room() {
        for room in [Room::Sessions(2), Room::Bytes(2 * (34 + 5 + 128))] {
            let zone = Arc::new(Zone::new(room));
            let own = store(&zone, 1);
            let put = |id: &[u8]| own.put_at(id, b"value".to_vec(), 100);
            assert!(put(b"01") && put(b"02"));
            assert!(own.get_at(b"01", 100, false).is_some());
            assert!(put(b"03") && put(b"03"));
            let there = [&b"01"[..], b"02", b"03"].map(|id| own.get_at(id, 100, false).is_some());
            assert_eq!(there, [true, false, true], "{room:?}");
        }
        let tiny = Arc::new(Zone::new(Room::Bytes(100)));
        assert!(!store(&tiny, 1).put_at(b"01", Vec::new(), 100));
    }
}
