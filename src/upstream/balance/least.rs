//! What `least_conn` and `least_time` share: the least load per weight, and smooth round robin among equals.

use super::{Live, Set};

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
pub(super) fn pick(
    set: &mut Set<'_>,
    equals: Equals,
    mut load: impl FnMut(&mut Live) -> u64,
) -> Option<usize> {
    let mut best: Option<(usize, u64, u64)> = None;
    let mut many = false;
    for (index, peer) in set.peers.iter_mut().enumerate() {
        if set.walk.tried.contains(index) || !peer.is_usable(set.now) {
            peer.load = NO_CANDIDATE;
            continue;
        }
        peer.load = load(peer);
        let weight = u64::from(peer.weight);
        match best {
            Some((_, least, best_weight)) => {
                let (ours, theirs) = (
                    peer.load.wrapping_mul(best_weight),
                    least.wrapping_mul(weight),
                );
                if ours < theirs {
                    best = Some((index, peer.load, weight));
                    many = false;
                } else if ours == theirs {
                    many = true;
                }
            }
            None => best = Some((index, peer.load, weight)),
        }
    }
    let (first, ..) = best?;
    Some(if many {
        round_robin(&mut set.peers[first..], equals) + first
    } else {
        first
    })
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
