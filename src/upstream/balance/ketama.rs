//! `hash key consistent`: a ring of 160 points per weight, compatible with Perl's `Cache::Memcached::Fast`.
//!
//! The ring is made of the `server` arguments as written, so adding or removing one moves only its own keys. Addresses
//! behind one name share its points by round robin. Mirrors `ngx_http_upstream_update_chash` and
//! `ngx_http_upstream_get_chash_peer`.

use std::sync::Arc;

use crate::common::hash::crc32;

use super::{
    Balancer, PickCx, Set,
    round_robin::{self, RoundRobin},
};

/// `hash` with `consistent`.
#[derive(Debug)]
pub(super) struct Ketama {
    /// By hash; no hash twice.
    ring: Vec<Point>,
    /// Peers of each server.
    servers: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    hash: u32,
    server: u32,
}

/// Points on the ring for each unit of weight.
const POINTS: u32 = 160;

impl Ketama {
    /// Builds the ring; peers with the same name are one server, whose points stand there once.
    pub(super) fn new(names: &[Arc<str>], weights: &[u32]) -> Self {
        let mut known: Vec<(&str, u32)> = Vec::new();
        let mut servers: Vec<Vec<usize>> = Vec::new();
        for (index, (name, &weight)) in names.iter().zip(weights).enumerate() {
            if let Some(server) = known.iter().position(|(n, _)| *n == &**name) {
                // The points of a smaller weight are the first ones of a larger.
                known[server].1 = known[server].1.max(weight);
                servers[server].push(index);
            } else {
                known.push((name, weight));
                servers.push(vec![index]);
            }
        }
        let mut ring = Vec::new();
        let points: u64 = known.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let points = usize::try_from(points.saturating_mul(POINTS.into())).unwrap_or(usize::MAX);
        // Without it the ring would grow, and be copied, by and by.
        drop(ring.try_reserve_exact(points));
        for (server, (name, weight)) in (0..).zip(known) {
            add_points(&mut ring, server, name, weight);
        }
        // Where two servers have the same point it belongs to the first.
        ring.sort_unstable_by_key(|point| u64::from(point.hash) << 32 | u64::from(point.server));
        ring.dedup_by_key(|point| point.hash);
        Self { ring, servers }
    }

    fn find(&self, key: &[u8]) -> u32 {
        let hash = crc32(&[key]);
        let index = self.ring.partition_point(|point| point.hash < hash);
        u32::try_from(index).unwrap_or(0)
    }
}

impl Balancer for Ketama {
    fn pick(&self, set: &mut Set<'_>, cx: &mut PickCx<'_>) -> Option<usize> {
        if cx.hash_key.is_empty() {
            return RoundRobin.pick(set, cx);
        }
        while !set.walk.has_given_up() {
            let at = set.walk.hash.unwrap_or_else(|| self.find(cx.hash_key));
            let point = self.ring[at as usize % self.ring.len()];
            let peers = &self.servers[point.server as usize];
            if let Some(index) = round_robin::pick_among(set, peers.iter().copied()) {
                set.walk.hash = Some(at);
                return Some(index);
            }
            set.walk.hash = Some(at.wrapping_add(1));
            set.walk.miss();
        }
        RoundRobin.pick(set, cx)
    }
}

fn add_points(ring: &mut Vec<Point>, server: u32, name: &str, weight: u32) {
    let (host, port) = host_and_port(name);
    let mut base = crc32fast::Hasher::new();
    base.update(host.as_bytes());
    base.update(b"\0");
    base.update(port.as_bytes());
    let mut previous = 0u32;
    for _ in 0..weight.saturating_mul(POINTS) {
        let mut hasher = base.clone();
        hasher.update(&previous.to_le_bytes());
        previous = hasher.finalize();
        ring.push(Point {
            hash: previous,
            server,
        });
    }
}

/// `host` and `port` as `Cache::Memcached::Fast` splits them: the port is what digits follow the last colon.
fn host_and_port(name: &str) -> (&str, &str) {
    if let Some((scheme, path)) = name.split_at_checked(5)
        && scheme.eq_ignore_ascii_case("unix:")
    {
        return (path, "");
    }
    match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|c| c.is_ascii_digit()) => (host, port),
        _ => (name, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_of_names() {
        for (name, expected) in [
            ("127.0.0.1:8080", ("127.0.0.1", "8080")),
            ("example.com", ("example.com", "")),
            ("example.com:", ("example.com", "")),
            ("unix:/run/a:1", ("/run/a:1", "")),
            ("UNIX:/x", ("/x", "")),
            ("[::1]", ("[::1]", "")),
            ("[::1]:80", ("[::1]", "80")),
        ] {
            assert_eq!(host_and_port(name), expected, "{name}");
        }
    }

    #[test]
    fn addresses_of_a_name_share_its_points() {
        let names: Vec<Arc<str>> = ["a:1", "b:1", "a:1", "a:1"].map(Arc::from).to_vec();
        let ring = Ketama::new(&names, &[1, 2, 3, 3]);
        assert_eq!(ring.servers, [vec![0, 2, 3], vec![1]]);
        assert_eq!(ring.ring.len(), 5 * POINTS as usize);
    }

    #[test]
    fn removing_a_server_moves_only_its_keys() {
        let names: Vec<Arc<str>> = ["a:1", "b:1", "c:1"].map(Arc::from).to_vec();
        let all = Ketama::new(&names, &[1, 1, 1]);
        let fewer = Ketama::new(&names[..2], &[1, 1]);
        let server = |ring: &Ketama, key: &str| {
            let at = ring.find(key.as_bytes()) as usize % ring.ring.len();
            ring.ring[at].server
        };
        for key in (0..1000).map(|n| n.to_string()) {
            let before = server(&all, &key);
            if before < 2 {
                assert_eq!(before, server(&fewer, &key), "{key}");
            }
        }
    }
}
