//! Smooth weighted round robin: weights 5, 1, 1 give A A B A C A A.
//!
//! Mirrors `ngx_http_upstream_get_peer`.

use super::{Balancer, PickCx, Set};

/// The default method, and what other methods fall back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundRobin;

impl Balancer for RoundRobin {
    fn pick(&self, set: &mut Set<'_>, _cx: &mut PickCx<'_>) -> Option<usize> {
        // The first pick of a request, that is nearly every one, has nothing to look up in the tried-set.
        if set.walk.tried.is_empty() {
            pick_all(set, |_| true)
        } else {
            let tried = std::mem::take(&mut set.walk.tried);
            let picked = pick_all(set, |index| !tried.contains(index));
            set.walk.tried = tried;
            picked
        }
    }
}

#[inline]
fn pick_all(set: &mut Set<'_>, is_new: impl Fn(usize) -> bool) -> Option<usize> {
    let mut best: Option<usize> = None;
    let mut best_weight = i64::MIN;
    let mut total = 0;
    for (index, (peer, memory)) in set.peers.iter_mut().zip(&*set.memory).enumerate() {
        let usable = peer.settled_until >= set.now || memory.is_usable(set.now);
        if !usable || !is_new(index) {
            continue;
        }
        total += peer.bid();
        if peer.current_weight > best_weight {
            best = Some(index);
            best_weight = peer.current_weight;
        }
    }
    let index = best?;
    set.peers[index].current_weight -= total;
    Some(index)
}

/// Round robin among the candidates of `indices`.
pub(super) fn pick_among(set: &mut Set<'_>, indices: impl Iterator<Item = usize>) -> Option<usize> {
    let mut best: Option<(usize, i64)> = None;
    let mut total = 0;
    for index in indices {
        if !set.is_candidate(index) {
            continue;
        }
        let peer = &mut set.peers[index];
        total += peer.bid();
        if best.is_none_or(|(_, weight)| peer.current_weight > weight) {
            best = Some((index, peer.current_weight));
        }
    }
    let (index, _) = best?;
    set.peers[index].current_weight -= total;
    Some(index)
}
