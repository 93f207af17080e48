//! `random`: a weighted draw; `random two`: the better of two draws by connections per weight.
//!
//! Mirrors `ngx_http_upstream_get_random_peer` and `ngx_http_upstream_get_random2_peer`.

use super::{Balancer, PickCx, Set, round_robin::RoundRobin};

/// `random`
#[derive(Debug)]
pub(super) struct Random {
    /// Sum of the weights up to and with each peer.
    ends: Vec<u64>,
    two: bool,
}

impl Random {
    pub(super) fn new(weights: &[u32], two: bool) -> Self {
        let ends = weights
            .iter()
            .scan(0, |sum, weight| {
                *sum += u64::from(*weight);
                Some(*sum)
            })
            .collect();
        Self { ends, two }
    }

    fn draw(&self, set: &Set<'_>, cx: &mut PickCx<'_>) -> usize {
        let point = (cx.random)() % set.total_weight;
        self.ends.partition_point(|end| *end <= point)
    }
}

impl Balancer for Random {
    fn pick(&self, set: &mut Set<'_>, cx: &mut PickCx<'_>) -> Option<usize> {
        let mut first = None;
        while !set.walk.has_given_up() {
            let index = self.draw(set, cx);
            if first == Some(index) || !set.is_candidate(index) {
                set.walk.miss();
                continue;
            }
            match first {
                Some(first) => return Some(fewer_conns(set, first, index)),
                None if self.two => first = Some(index),
                None => return Some(index),
            }
        }
        RoundRobin.pick(set, cx)
    }
}

/// The one with fewer connections per weight; the second draw when they are equal.
fn fewer_conns(set: &Set<'_>, first: usize, second: usize) -> usize {
    let (a, b) = (&set.memory[first], &set.memory[second]);
    let weight = |index: usize| u64::from(set.peers[index].weight);
    let more = u64::from(b.conns) * weight(first) > u64::from(a.conns) * weight(second);
    if more { first } else { second }
}
