//! `ip_hash`: clients of one IPv4 /24, or of one IPv6 address, stay with one peer.
//!
//! Mirrors `ngx_http_upstream_get_ip_hash_peer`.

use std::net::IpAddr;

use super::{Balancer, PickCx, Set, round_robin::RoundRobin};

/// `ip_hash`
#[derive(Debug)]
pub(super) struct IpHash;

impl Balancer for IpHash {
    fn pick(&self, set: &mut Set<'_>, cx: &mut PickCx<'_>) -> Option<usize> {
        while !set.walk.has_given_up() {
            let hash = step(set.walk.hash.unwrap_or(89), cx.client);
            set.walk.hash = Some(hash);
            let index = set.at_weight(u64::from(hash) % set.total_weight);
            if set.is_candidate(index) {
                return Some(index);
            }
            set.walk.miss();
        }
        RoundRobin.pick(set, cx)
    }
}

/// A client without an IP address counts as 0.0.0.
fn step(hash: u32, client: Option<IpAddr>) -> u32 {
    let fold = |octets: &[u8]| {
        octets
            .iter()
            .fold(hash, |hash, octet| (hash * 113 + u32::from(*octet)) % 6271)
    };
    match client {
        Some(IpAddr::V4(ip)) => fold(&ip.octets()[..3]),
        Some(IpAddr::V6(ip)) => fold(&ip.octets()),
        None => fold(&[0; 3]),
    }
}
