//! A try at a peer: what it takes from the peer's state, it gives back, whichever way it ends.
//!
//! Mirrors `ngx_http_upstream_free_round_robin_peer`, and the notify and free functions of `least_time`.

use std::sync::Arc;

use crate::conf::model::LeastTimeMode;

use super::{Group, Peer, live::State, tries::seconds};

/// One try. Dropped without [`finish`](Self::finish), it gives its connection back and leaves no other trace.
#[derive(Debug)]
pub struct Lease {
    group: Arc<Group>,
    index: usize,
    start: u64,
    /// Whether it still counts among the peer's unfinished requests.
    inflight: bool,
    connect: Option<u64>,
    header: Option<u64>,
    first_byte: Option<u64>,
    settled: bool,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The response (the session) came to its end. Also one with a status of `proxy_next_upstream` that goes to the client.
    Ok,
    /// It broke off for a reason that does not count against the peer: the client left, or the header had arrived.
    Aborted,
    /// It counts against the peer: connecting, sending or the header failed, or the request goes to the next peer.
    Failed,
    /// The request goes to the next peer, and that does not count: 403 and 404.
    Next,
}

/// What came of the end of a try.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// The peer has reached `max_fails`: `upstream server temporarily disabled`, at level warn.
    pub disabled: bool,
}

impl Lease {
    pub(super) fn new(group: Arc<Group>, index: usize, start: u64, inflight: bool) -> Self {
        Self {
            group,
            index,
            start,
            inflight,
            connect: None,
            header: None,
            first_byte: None,
            settled: false,
        }
    }

    /// The group.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The peer.
    pub fn peer(&self) -> &Peer {
        &self.group.peers()[self.index]
    }

    /// Number of the peer in [`Group::peers`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// When the try began.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The connection is there, with TLS if there is any; not called for a reused one.
    pub fn connected(&mut self, now: u64) {
        self.reach(LeastTimeMode::Connect, now);
    }

    /// The peer took the connection, and in a session that is all that it is checked for: an earlier bench is over, for
    /// other sessions too (stream over TCP; `ngx_stream_upstream_notify_round_robin_peer`).
    pub fn alive(&self) {
        if !self.group.single {
            self.group.state().succeed(self.index);
        }
    }

    /// The final header is there, and the response goes to the client: the request is not handed on.
    pub fn header(&mut self, now: u64) {
        self.reach(LeastTimeMode::Header, now);
    }

    /// The first byte from the peer is there (stream).
    pub fn first_byte(&mut self, now: u64) {
        self.reach(LeastTimeMode::FirstByte, now);
    }

    /// Ends the try, at the last byte from the peer: not later, when the client has taken it all.
    pub fn finish(mut self, outcome: Outcome, now: u64) -> Released {
        self.end(outcome, now)
    }

    /// The same, of one that is dropped where it is. It ends once: what comes after that changes nothing.
    pub fn end(&mut self, outcome: Outcome, now: u64) -> Released {
        if self.settled {
            return Released::default();
        }
        let single = self.group.single;
        self.settle(now, |lease, state| {
            if outcome == Outcome::Ok || outcome == Outcome::Aborted && lease.header.is_some() {
                lease.sample(state, now.saturating_sub(lease.start));
            }
            let mut disabled = false;
            if single {
                state.forgive(lease.index);
            } else if outcome == Outcome::Failed {
                disabled = state.fail(lease.index, seconds(now));
            } else {
                state.succeed(lease.index);
            }
            Released { disabled }
        })
    }

    /// Ends the try as if it had not been.
    pub(super) fn discard(mut self, now: u64) {
        self.settle(now, |_, _| ());
    }

    fn reach(&mut self, event: LeastTimeMode, now: u64) {
        let own = now.saturating_sub(self.start);
        let seen = match event {
            LeastTimeMode::Connect => &mut self.connect,
            LeastTimeMode::Header => &mut self.header,
            LeastTimeMode::FirstByte => &mut self.first_byte,
            LeastTimeMode::LastByte => return,
        };
        if seen.replace(own).is_some() {
            return;
        }
        let Some((mode, _)) = self.group.least_time() else {
            return;
        };
        if mode != event {
            return;
        }
        // DIFFERS(early-sample): sampled when it happens, also without `inflight`. nginx waits for the end of the
        // response, so that on long streams a peer with slow headers keeps getting requests.
        let mut state = self.group.state();
        state.record(self.index, event, own);
        if std::mem::take(&mut self.inflight) {
            state.end_inflight(self.index, now, own);
        }
    }

    /// Records the times that are sampled at the end.
    fn sample(&self, state: &mut State, response: u64) {
        let Some((mode, _)) = self.group.least_time() else {
            return;
        };
        state.record(self.index, LeastTimeMode::LastByte, response);
        for (event, time) in [
            // DIFFERS(connect-sample): a connect that never happened is no sample; nginx averages -1.
            (LeastTimeMode::Connect, self.connect),
            (LeastTimeMode::Header, self.header),
            (LeastTimeMode::FirstByte, self.first_byte),
        ] {
            if let Some(time) = time.filter(|_| event != mode) {
                state.record(self.index, event, time);
            }
        }
    }

    /// Gives back what the try took, then lets `end` judge.
    fn settle<T>(&mut self, now: u64, end: impl FnOnce(&Self, &mut State) -> T) -> T {
        self.settled = true;
        let inflight = std::mem::take(&mut self.inflight);
        let mut state = self.group.state();
        state.end(self.index);
        if inflight {
            state.end_inflight(self.index, now, now.saturating_sub(self.start));
        }
        end(self, &mut state)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        // There is no clock here: the last time that the peer's unfinished requests were looked at will do.
        let changed = self.group.state().memory[self.index].inflight.changed;
        self.settle(changed.max(self.start), |_, _| ());
    }
}
