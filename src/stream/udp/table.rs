//! The sessions of one socket: by number, by client, and by when something is due.
//!
//! No clock and no socket. A session costs its place here from its begin to its end: what is due is one entry, taken out
//! with the session, and moved only when it comes up, so that a datagram moves nothing.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
};

use crate::common::clock::Now;

/// Whose datagrams make a session: those of an address and port, to one of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Who sends.
    pub(super) from: SocketAddr,
    /// To which address, where the socket has several.
    pub(super) to: Option<IpAddr>,
}

/// Number of a session; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id {
    serial: u32,
    place: u32,
}

/// The sessions.
#[derive(Debug)]
pub(super) struct Table<T> {
    places: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    // Clients choose their ports, and may write whatever address: the hash must not be one they can foresee.
    known: HashMap<Key, u32>,
    due: BTreeSet<(Now, u32)>,
    serial: u32,
}

#[derive(Debug)]
struct Entry<T> {
    serial: u32,
    key: Key,
    due: Option<Now>,
    item: T,
}

/// Memory for this many sessions stays when all have ended.
const KEPT: usize = 256;

impl Id {
    /// The number for an event.
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.place)
    }

    /// The number that an event has brought.
    pub(super) fn from_bits(bits: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "two halves")]
        let (serial, place) = ((bits >> 32) as u32, bits as u32);
        Self { serial, place }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            known: HashMap::new(),
            due: BTreeSet::new(),
            serial: 0,
        }
    }
}

impl<T> Table<T> {
    /// Adds a session, to which its client's datagrams come from now on.
    pub(super) fn insert(&mut self, key: Key, item: T) -> Id {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let entry = Some(Entry {
            serial,
            key,
            due: None,
            item,
        });
        let place = if let Some(place) = self.free.pop() {
            self.places[place as usize] = entry;
            place
        } else {
            self.places.push(entry);
            u32::try_from(self.places.len() - 1).expect("there are fewer ports and addresses")
        };
        self.known.insert(key, place);
        Id { serial, place }
    }

    /// The session that a client's datagrams come to.
    pub(super) fn find(&self, key: &Key) -> Option<Id> {
        let place = *self.known.get(key)?;
        let serial = self.places[place as usize].as_ref()?.serial;
        Some(Id { serial, place })
    }

    /// A session, if it has not ended.
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.entry(id).map(|entry| &mut entry.item)
    }

    /// The next datagram of the session's client makes another one.
    pub(super) fn detach(&mut self, id: Id) {
        let Some(key) = self.entry(id).map(|entry| entry.key) else {
            return;
        };
        if self.known.get(&key) == Some(&id.place) {
            self.known.remove(&key);
        }
    }

    /// Takes a session out.
    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        self.detach(id);
        let due = self.entry(id)?.due;
        let entry = self.places[id.place as usize].take()?;
        if let Some(due) = due {
            self.due.remove(&(due, id.place));
        }
        self.free.push(id.place);
        if self.is_empty() && self.places.len() > KEPT {
            let serial = self.serial;
            *self = Self::default();
            self.serial = serial;
        }
        Some(entry.item)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// All of them.
    pub(super) fn ids(&self) -> Vec<Id> {
        let places = self.places.iter().zip(0..);
        let id = |(entry, place): (&Option<Entry<T>>, u32)| {
            let serial = entry.as_ref()?.serial;
            Some(Id { serial, place })
        };
        places.filter_map(id).collect()
    }

    /// The session is to come up no later than `when`. It may come up earlier, and is then to be put off.
    pub(super) fn set_due(&mut self, id: Id, when: Now) {
        let Some(entry) = self.entry(id) else {
            return;
        };
        if entry.due.is_some_and(|due| due <= when) {
            return;
        }
        if let Some(before) = entry.due.replace(when) {
            self.due.remove(&(before, id.place));
        }
        self.due.insert((when, id.place));
    }

    /// When the next session comes up.
    pub(super) fn next_due(&self) -> Option<Now> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A session that has come up; it does not come up again unless it is told to.
    pub(super) fn pop_due(&mut self, now: Now) -> Option<Id> {
        let (due, place) = *self.due.first()?;
        if due > now {
            return None;
        }
        self.due.pop_first();
        let entry = self.places[place as usize].as_mut()?;
        entry.due = None;
        let serial = entry.serial;
        Some(Id { serial, place })
    }

    fn entry(&mut self, id: Id) -> Option<&mut Entry<T>> {
        let entry = self.places.get_mut(id.place as usize)?.as_mut()?;
        (entry.serial == id.serial).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> Key {
        Key {
            from: ([192, 0, 2, 1], port).into(),
            to: None,
        }
    }

    #[test]
    fn sessions_are_found_until_they_end() {
        let mut table = Table::default();
        let (a, b) = (table.insert(key(1), 'a'), table.insert(key(2), 'b'));
        assert_eq!(Id::from_bits(b.to_bits()), b);
        assert_eq!(table.find(&key(2)), Some(b));
        let elsewhere = Key {
            to: Some([127, 0, 0, 1].into()),
            ..key(2)
        };
        assert_eq!(table.find(&elsewhere), None);
        assert_eq!(table.remove(a), Some('a'));
        assert_eq!((table.find(&key(1)), table.get_mut(a)), (None, None));
        // Its place is used again, its number is not.
        let c = table.insert(key(1), 'c');
        assert_eq!((c.place, table.get_mut(a)), (a.place, None));
        // One that is detached goes on beside its successor, and its end is its own.
        table.detach(c);
        let d = table.insert(key(1), 'd');
        assert_eq!(table.get_mut(c), Some(&mut 'c'));
        table.remove(c);
        assert_eq!(table.find(&key(1)), Some(d));
        assert_eq!(table.ids(), [b, d]);
        table.remove(b);
        table.remove(d);
        assert!(table.is_empty());
    }

    #[test]
    fn what_is_due_comes_up_once() {
        let now = Now::from_millis;
        let mut table = Table::default();
        let ids: Vec<Id> = (0..3).map(|n| table.insert(key(n), n)).collect();
        table.set_due(ids[0], now(30));
        table.set_due(ids[1], now(10));
        table.set_due(ids[2], now(20));
        // Later changes nothing, earlier does; what has ended does not come up.
        table.set_due(ids[1], now(99));
        table.set_due(ids[0], now(15));
        table.remove(ids[2]);
        assert_eq!(
            (table.next_due(), table.pop_due(now(9))),
            (Some(now(10)), None)
        );
        assert_eq!(table.pop_due(now(20)), Some(ids[1]));
        assert_eq!(table.pop_due(now(20)), Some(ids[0]));
        assert_eq!((table.pop_due(now(99)), table.next_due()), (None, None));
    }

    #[test]
    fn memory_comes_back() {
        let mut table = Table::default();
        for port in 0..5000 {
            table.insert(key(port), port);
        }
        for id in table.ids() {
            table.set_due(id, Now::from_millis(1));
            table.remove(id);
        }
        assert_eq!((table.places.capacity(), table.known.capacity()), (0, 0));
        assert!(table.due.is_empty());
    }
}
