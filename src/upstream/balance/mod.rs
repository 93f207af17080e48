//! Balancing methods, one file each, behind one trait.
//!
//! A method sees the peers of one side (primary or backup) and says which one is next. What all methods share after
//! that (counting the connection, the tried-set, `checked`) is done by [`Tries::next`](super::Tries::next).

mod hash;
mod ip_hash;
mod ketama;
mod least;
mod least_conn;
mod least_time;
mod random;
mod round_robin;

use std::{fmt, sync::Arc};

use smallvec::SmallVec;

use crate::conf::model;

use super::{
    live::{Live, Memory},
    tries::PickCx,
};

/// A way to choose among peers.
pub(super) trait Balancer: fmt::Debug + Send + Sync {
    /// Index of the chosen peer; None when no peer is usable.
    fn pick(&self, set: &mut Set<'_>, cx: &mut PickCx<'_>) -> Option<usize>;
}

/// The peers of one side as one request sees them, and its progress through them.
pub(super) struct Set<'a> {
    /// State of the peers, in the configuration's order.
    pub(super) peers: &'a mut [Live],
    /// The rest of what is known of them.
    pub(super) memory: &'a mut [Memory],
    /// Sum of their weights.
    pub(super) total_weight: u64,
    /// Whether one weighs more than another.
    pub(super) weighted: bool,
    /// This request's progress.
    pub(super) walk: &'a mut Walk,
    /// Whole seconds.
    pub(super) now: i64,
}

impl Set<'_> {
    /// Whether this request may go to the peer.
    #[inline]
    pub(super) fn is_candidate(&self, index: usize) -> bool {
        !self.walk.tried.contains(index) && self.is_usable(index)
    }

    #[inline]
    fn is_usable(&self, index: usize) -> bool {
        self.peers[index].settled_until >= self.now || self.memory[index].is_usable(self.now)
    }

    /// The peer that a point within the total weight falls on.
    pub(super) fn at_weight(&self, mut point: u64) -> usize {
        for (index, peer) in self.peers.iter().enumerate() {
            let weight = u64::from(peer.weight);
            if point < weight {
                return index;
            }
            point -= weight;
        }
        self.peers.len() - 1
    }
}

/// Progress of one request through one group.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) tried: Tried,
    /// Draws that fell on a peer that was not usable.
    pub(super) misses: u32,
    /// `hash`: the sum so far, or the point on the ring; `ip_hash`: the state of its generator.
    pub(super) hash: Option<u32>,
    /// `hash`: draws so far.
    pub(super) draws: u32,
}

/// Draws of `hash`, `ip_hash` and `random` that may miss before round robin decides.
pub(super) const MAX_MISSES: u32 = 20;

impl Walk {
    /// Counts a draw that missed; true when round robin has to decide from here on.
    pub(super) fn miss(&mut self) -> bool {
        self.misses += 1;
        self.has_given_up()
    }

    pub(super) fn has_given_up(&self) -> bool {
        self.misses > MAX_MISSES
    }
}

/// A set of peers by index.
#[derive(Debug, Default)]
pub(super) struct Tried(SmallVec<[u64; 2]>);

impl Tried {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn contains(&self, index: usize) -> bool {
        self.0
            .get(index / 64)
            .is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub(super) fn insert(&mut self, index: usize) {
        if self.0.len() <= index / 64 {
            self.0.resize(index / 64 + 1, 0);
        }
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(super) fn remove(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The balancer of `method` over these peers. `servers` has, for each peer, the `server` argument as written.
pub(super) fn balancer(
    method: &model::Method,
    servers: &[Arc<str>],
    weights: &[u32],
) -> Box<dyn Balancer> {
    if servers.len() < 2 {
        return Box::new(round_robin::RoundRobin);
    }
    match method {
        model::Method::RoundRobin => Box::new(round_robin::RoundRobin),
        model::Method::LeastConn => Box::new(least_conn::LeastConn),
        model::Method::LeastTime { mode, .. } => Box::new(least_time::LeastTime { mode: *mode }),
        model::Method::Hash {
            consistent: false, ..
        } => Box::new(hash::Hash),
        model::Method::Hash {
            consistent: true, ..
        } => Box::new(ketama::Ketama::new(servers, weights)),
        model::Method::IpHash => Box::new(ip_hash::IpHash),
        model::Method::Random { two } => Box::new(random::Random::new(weights, *two)),
    }
}
