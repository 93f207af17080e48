//! How many connections and requests there are, for `stub_status` and `$connections_*`.
//!
//! Each thread counts for itself, so that counting takes no shared cache line; who reads adds up. Mirrors the counters
//! `ngx_stat_*` (`event/ngx_event.c`).

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Connections and requests of all threads of a generation.
// DIFFERS(counts): nginx's go on over a reload, and hold connections of older workers too.
#[derive(Debug, Default)]
pub struct Counts(Mutex<Vec<Arc<Tally>>>);

/// The numbers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Those of them that were served.
    pub handled: u64,
    /// Requests that were begun.
    pub requests: u64,
    /// Open connections.
    pub active: u64,
    /// Requests whose head is being read.
    pub reading: u64,
    /// Requests whose head is there.
    pub writing: u64,
}

/// What one thread counts; no other writes to it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Tally {
    accepted: AtomicU64,
    handled: AtomicU64,
    requests: AtomicU64,
    active: AtomicU64,
    reading: AtomicU64,
    writing: AtomicU64,
}

/// Counts a connection for as long as it lives.
#[derive(Debug)]
pub(super) struct CountedConn<'a>(&'a Tally);

/// Counts a request for as long as it lives.
#[derive(Debug)]
pub(super) struct CountedRequest<'a> {
    tally: &'a Tally,
    has_head: Cell<bool>,
}

impl Counts {
    /// A tally for one more thread.
    pub(super) fn tally(&self) -> Arc<Tally> {
        let tally = Arc::<Tally>::default();
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.push(tally.clone());
        tally
    }

    /// The numbers now.
    pub fn read(&self) -> Numbers {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tallies
            .iter()
            .fold(Numbers::default(), |sum, tally| Numbers {
                accepted: sum.accepted + get(&tally.accepted),
                handled: sum.handled + get(&tally.handled),
                requests: sum.requests + get(&tally.requests),
                active: sum.active + get(&tally.active),
                reading: sum.reading + get(&tally.reading),
                writing: sum.writing + get(&tally.writing),
            })
    }
}

impl Numbers {
    /// Connections without a request.
    pub fn waiting(&self) -> u64 {
        self.active.saturating_sub(self.reading + self.writing)
    }
}

impl Tally {
    /// A connection was accepted and is closed at once.
    pub(super) fn turned_away(&self) {
        add(&self.accepted);
    }

    /// A connection is served now.
    pub(super) fn connection(&self) -> CountedConn<'_> {
        add(&self.accepted);
        add(&self.handled);
        add(&self.active);
        CountedConn(self)
    }

    /// The head of a request is read now.
    pub(super) fn request(&self) -> CountedRequest<'_> {
        add(&self.requests);
        add(&self.reading);
        CountedRequest {
            tally: self,
            has_head: Cell::new(false),
        }
    }
}

impl CountedRequest<'_> {
    /// The head is there.
    pub(super) fn begin_writing(&self) {
        if !self.has_head.replace(true) {
            subtract(&self.tally.reading);
            add(&self.tally.writing);
        }
    }
}

impl Drop for CountedConn<'_> {
    fn drop(&mut self) {
        subtract(&self.0.active);
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        let tally = self.tally;
        subtract(if self.has_head.get() {
            &tally.writing
        } else {
            &tally.reading
        });
    }
}

/// Without a locked instruction: there is one writer.
fn add(number: &AtomicU64) {
    number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn subtract(number: &AtomicU64) {
    let less = number.load(Ordering::Relaxed).saturating_sub(1);
    number.store(less, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let counts = Counts::default();
        let (one, two) = (counts.tally(), counts.tally());
        two.turned_away();
        let conns = (one.connection(), two.connection(), two.connection());
        let reading = one.request();
        let writing = two.request();
        writing.begin_writing();
        writing.begin_writing();
        let numbers = counts.read();
        let expected = Numbers {
            accepted: 4,
            handled: 3,
            requests: 2,
            active: 3,
            reading: 1,
            writing: 1,
        };
        assert_eq!(numbers, expected);
        assert_eq!(numbers.waiting(), 1);
        drop((reading, writing, conns));
        let expected = Numbers {
            active: 0,
            reading: 0,
            writing: 0,
            ..expected
        };
        assert_eq!(counts.read(), expected);
    }
}
