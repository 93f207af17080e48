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
pub(super) const NO_CANDIDATE: u64 = u64::MAX;

/// The candidate with the least `load / weight`, compared crosswise without division. `unsettled` computes the load of a
/// peer of which it depends on the time, [`NO_CANDIDATE`] when it is not usable.
#[inline]
pub(super) fn pick(
    set: &mut Set<'_>,
    equals: Equals,
    unsettled: impl FnMut(&mut Memory) -> u64,
) -> Option<usize> {
    // The first pick of a request, that is nearly every one, has nothing to look up in the tried-set, and in most groups
    // no peer weighs more than another: a walk without either takes half the time.
    if set.walk.tried.is_empty() {
        return if set.weighted {
            walk::<true>(set, equals, |_| true, unsettled)
        } else {
            walk::<false>(set, equals, |_| true, unsettled)
        };
    }
    let tried = std::mem::take(&mut set.walk.tried);
    let picked = walk::<true>(set, equals, |index| !tried.contains(index), unsettled);
    set.walk.tried = tried;
    picked
}

#[inline]
fn walk<const WEIGHTED: bool>(
    set: &mut Set<'_>,
    equals: Equals,
    is_new: impl Fn(usize) -> bool,
    mut unsettled: impl FnMut(&mut Memory) -> u64,
) -> Option<usize> {
    let mut best = usize::MAX;
    let mut many = false;
    // Every candidate has less than this.
    let (mut least, mut best_weight) = (NO_CANDIDATE, 1);
    for (index, (peer, memory)) in set.peers.iter_mut().zip(&mut *set.memory).enumerate() {
        if !is_new(index) {
            continue;
        }
        if peer.settled_until < set.now {
            peer.load = unsettled(memory);
            if peer.load == NO_CANDIDATE {
                continue;
            }
        }
        let (ours, theirs) = cross::<WEIGHTED>(peer, least, best_weight);
        if ours < theirs {
            best = index;
            (least, best_weight) = (peer.load, peer.weight);
            many = false;
        } else {
            many |= ours == theirs;
        }
    }
    if best == usize::MAX {
        return None;
    }
    if many {
        let is_new = |index| is_new(best + index);
        best += round_robin::<WEIGHTED>(&mut set.peers[best..], equals, is_new);
    }
    Some(best)
}

/// The loads of a peer and of the leader, to be compared; each times the other's weight.
#[inline]
fn cross<const WEIGHTED: bool>(peer: &Live, least: u64, best_weight: u32) -> (u64, u64) {
    if WEIGHTED {
        (
            peer.load.saturating_mul(best_weight.into()),
            least.saturating_mul(peer.weight.into()),
        )
    } else {
        (peer.load, least)
    }
}

/// Smooth round robin among the peers that are equal to the first.
#[inline]
fn round_robin<const WEIGHTED: bool>(
    peers: &mut [Live],
    equals: Equals,
    is_new: impl Fn(usize) -> bool,
) -> usize {
    let mut best = 0;
    let mut best_weight = peers[0].weight;
    let mut best_current = i64::MIN;
    let mut least = peers[0].load;
    let mut total = 0;
    for (index, peer) in peers.iter_mut().enumerate() {
        let (ours, theirs) = cross::<WEIGHTED>(peer, least, best_weight);
        if ours != theirs || !is_new(index) {
            continue;
        }
        total += peer.bid();
        if peer.current_weight > best_current {
            best = index;
            best_current = peer.current_weight;
            if WEIGHTED {
                best_weight = peer.weight;
                if equals == Equals::Leader {
                    least = peer.load;
                }
            }
        }
    }
    peers[best].current_weight -= total;
    best
}
