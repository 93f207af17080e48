//! What `least_conn` and `least_time` share: the least load per weight, and smooth round robin among equals.

use super::{Live, Memory, Set};

/// What an equal peer is compared with once round robin among equals has moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Equals {
    /// The load of the peer that leads now.
    Leader,
    /// The load that was the least at first, with the weight of the peer that leads now. So does nginx's `least_time`:
    /// among equals of different weight it skips some once a heavier or lighter one leads.
    First,
}

/// A load that no candidate has.
const NO_CANDIDATE: u64 = u64::MAX;

/// The candidate with the least `load / weight`, compared crosswise without division.
#[inline]
pub(super) fn pick(
    set: &mut Set<'_>,
    equals: Equals,
    load: impl FnMut(&mut Live, &mut Memory) -> u64,
) -> Option<usize> {
    // The first pick of a request, that is nearly every one, has nothing to look up in the tried-set.
    let (first, many) = if set.walk.tried.is_empty() {
        least(set, |_| true, load)?
    } else {
        let tried = std::mem::take(&mut set.walk.tried);
        let least = least(set, |index| !tried.contains(index), load);
        set.walk.tried = tried;
        least?
    };
    Some(if many {
        round_robin(&mut set.peers[first..], equals) + first
    } else {
        first
    })
}

/// The first peer with the least load, and whether there are others.
#[inline]
fn least(
    set: &mut Set<'_>,
    is_new: impl Fn(usize) -> bool,
    mut load: impl FnMut(&mut Live, &mut Memory) -> u64,
) -> Option<(usize, bool)> {
    let mut best = None;
    let mut many = false;
    let (mut least, mut best_weight) = (0u64, 0);
    for (index, (peer, memory)) in set.peers.iter_mut().zip(&mut *set.memory).enumerate() {
        if !is_new(index) || !peer.is_usable(set.now) {
            peer.load = NO_CANDIDATE;
            continue;
        }
        peer.load = load(peer, memory);
        let weight = u64::from(peer.weight);
        let (ours, theirs) = (
            peer.load.wrapping_mul(best_weight),
            least.wrapping_mul(weight),
        );
        if best.is_none() || ours < theirs {
            best = Some(index);
            (least, best_weight) = (peer.load, weight);
            many = false;
        } else if ours == theirs {
            many = true;
        }
    }
    best.map(|index| (index, many))
}

/// Smooth round robin among the peers that are equal to the first.
fn round_robin(peers: &mut [Live], equals: Equals) -> usize {
    let mut best = 0;
    let mut best_weight = u64::from(peers[0].weight);
    let mut best_current = peers[0].current_weight;
    let mut least = peers[0].load;
    let mut total = 0;
    for (index, peer) in peers.iter_mut().enumerate() {
        if peer.load == NO_CANDIDATE
            || peer.load.wrapping_mul(best_weight) != least.wrapping_mul(peer.weight.into())
        {
            continue;
        }
        total += peer.bid();
        if index == 0 {
            best_current = peer.current_weight;
        } else if peer.current_weight > best_current {
            best = index;
            best_current = peer.current_weight;
            best_weight = peer.weight.into();
            if equals == Equals::Leader {
                least = peer.load;
            }
        }
    }
    peers[best].current_weight -= total;
    best
}
