//! `hash key`: compatible with Perl's `Cache::Memcached`.
//!
//! Mirrors `ngx_http_upstream_get_hash_peer`.

use crate::common::hash::crc32;

use super::{Balancer, PickCx, Set, round_robin::RoundRobin};

/// `hash` without `consistent`.
#[derive(Debug)]
pub(super) struct Hash;

impl Balancer for Hash {
    fn pick(&self, set: &mut Set<'_>, cx: &mut PickCx<'_>) -> Option<usize> {
        if cx.hash_key.is_empty() {
            return RoundRobin.pick(set, cx);
        }
        while !set.walk.has_given_up() {
            let hash = set
                .walk
                .hash
                .unwrap_or(0)
                .wrapping_add(step(set.walk.draws, cx.hash_key));
            set.walk.hash = Some(hash);
            set.walk.draws += 1;
            let index = set.at_weight(u64::from(hash) % set.total_weight);
            if set.is_candidate(index) {
                return Some(index);
            }
            set.walk.miss();
        }
        RoundRobin.pick(set, cx)
    }
}

/// What draw number `draw` adds; the first one leaves its number out.
fn step(draw: u32, key: &[u8]) -> u32 {
    let crc = if draw == 0 {
        crc32(&[key])
    } else {
        crc32(&[draw.to_string().as_bytes(), key])
    };
    crc >> 16 & 0x7fff
}
