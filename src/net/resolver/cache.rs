//! What was found, for as long as it is valid.
//!
//! Pure; times are seconds. Mirrors the name tree of `core/ngx_resolver.c`: what was found is good until the second of its end
//! has passed, and is forgotten when nobody has asked for it for half a minute. Failures are not kept.

use std::{collections::HashMap, net::IpAddr};

use super::lookup::Found;

/// The names of one resolver.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: HashMap<Box<[u8]>, Entry>,
    /// With that many entries those that nobody uses are looked for.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry {
    found: Found,
    /// Last second that it is good in.
    valid: u64,
    /// Last second that it was used in.
    used: u64,
}

/// Seconds that an unused entry is kept for.
const UNUSED: u64 = 30;
const SWEEP: usize = 64;

impl Cache {
    /// What is known of `name`. Addresses are rotated by the three random numbers.
    pub(super) fn find(
        &mut self,
        name: &[u8],
        now: u64,
        random: impl FnMut() -> u64,
    ) -> Option<Found> {
        let entry = self.entries.get_mut(name)?;
        if entry.valid < now {
            self.entries.remove(name);
            return None;
        }
        entry.used = now;
        Some(match &entry.found {
            Found::Addrs(addrs) => Found::Addrs(rotated(addrs, random)),
            alias @ Found::Alias(_) => alias.clone(),
        })
    }

    /// Keeps what was found.
    pub(super) fn put(&mut self, name: &[u8], found: Found, valid: u64, now: u64) {
        if self.entries.len() >= self.sweep_at.max(SWEEP) {
            self.entries.retain(|_, entry| entry.used + UNUSED >= now);
            self.sweep_at = self.entries.len() * 2;
        }
        let used = now;
        self.entries
            .insert(name.into(), Entry { found, valid, used });
    }
}

/// Addresses of each family from a random one on, the whole from a random place on (`ngx_resolver_export`).
fn rotated(addrs: &[IpAddr], mut random: impl FnMut() -> u64) -> Vec<IpAddr> {
    let mut below = |n: usize| usize::try_from(random() % n.max(1) as u64).unwrap_or(0);
    let start = below(addrs.len());
    let v4 = addrs.iter().take_while(|addr| addr.is_ipv4()).count();
    let mut out = addrs.to_vec();
    let (first, second) = out.split_at_mut(v4);
    first.rotate_left(below(v4));
    second.rotate_left(below(addrs.len() - v4));
    out.rotate_right(start);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    #[test]
    fn good_through_its_last_second() {
        let mut cache = Cache::default();
        let found = Found::Addrs(ips(&["10.0.0.1"]));
        cache.put(b"a", found.clone(), 100, 99);
        assert_eq!(cache.find(b"a", 100, || 0), Some(found));
        assert_eq!(cache.find(b"b", 100, || 0), None);
        assert_eq!(cache.find(b"a", 101, || 0), None);
        assert!(cache.entries.is_empty());
    }

    #[test]
    fn unused_names_are_forgotten() {
        let mut cache = Cache::default();
        for n in 0..1000u64 {
            cache.put(&n.to_be_bytes(), Found::Alias(Vec::new()), 1 << 40, n);
        }
        assert!(cache.entries.len() <= 128, "{}", cache.entries.len());
        assert!(cache.find(&999u64.to_be_bytes(), 1000, || 0).is_some());
    }

    #[test]
    fn families_stay_together() {
        let addrs = ips(&["10.0.0.1", "10.0.0.2", "::1", "::2", "::3"]);
        let mut numbers = [3, 1, 2].into_iter();
        assert_eq!(
            rotated(&addrs, || numbers.next().unwrap()),
            ips(&["::3", "::1", "::2", "10.0.0.2", "10.0.0.1"])
        );
        assert!(rotated(&[], || 7).is_empty());
    }
}
