//! Networks with values: the longest prefix that holds an address counts.
//!
//! While the configuration is read they are a set; for lookups they become sorted bounds, between which one value holds.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

use super::Values;

/// Networks as the configuration lists them.
#[derive(Debug, Default)]
pub struct Networks {
    nets: HashMap<IpNet, u32>,
    values: Values,
}

impl Networks {
    /// Adds a network; if it was there, its new value replaces the old one, and the value that its first address had is
    /// returned.
    pub fn add(&mut self, net: IpNet, value: &[u8]) -> Option<Vec<u8>> {
        let net = net.trunc();
        // nginx names the value that is found for the address, which may be that of a smaller network.
        let old = self
            .nets
            .contains_key(&net)
            .then(|| self.find(net.network()).to_vec());
        let number = self.values.number(value);
        self.nets.insert(net, number);
        old
    }

    /// Deletes a network; false when there is none.
    pub fn delete(&mut self, net: IpNet) -> bool {
        self.nets.remove(&net.trunc()).is_some()
    }

    fn find(&self, ip: IpAddr) -> &[u8] {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        (0..=most)
            .rev()
            .find_map(|bits| self.nets.get(&IpNet::new(ip, bits).ok()?.trunc()))
            .map_or(&[], |number| self.values.get(*number))
    }

    /// The table for lookups.
    pub fn build(mut self) -> Lookup {
        let nothing = self.values.number(b"");
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (net, value) in self.nets {
            match net {
                IpNet::V4(net) => v4.push(Block {
                    first: u32::from(net.network()).into(),
                    last: u32::from(net.broadcast()).into(),
                    value,
                }),
                IpNet::V6(net) => v6.push(Block {
                    first: net.network().into(),
                    last: net.broadcast().into(),
                    value,
                }),
            }
        }
        Lookup {
            v4: bounds(v4, nothing),
            v6: bounds(v6, nothing),
            nothing,
            values: self.values.freeze(),
        }
    }
}

/// Networks for lookups.
#[derive(Debug)]
pub struct Lookup {
    v4: Bounds<u32>,
    v6: Bounds<u128>,
    nothing: u32,
    values: Values,
}

/// First addresses in order, and the value from each on.
type Bounds<K> = Vec<(K, u32)>;

impl Lookup {
    /// The value of the smallest network with `ip`; empty when there is none.
    pub fn find(&self, ip: IpAddr) -> &[u8] {
        let number = match ip {
            IpAddr::V4(ip) => self.find_in(&self.v4, Ipv4Addr::into(ip)),
            IpAddr::V6(ip) => self.find_in(&self.v6, Ipv6Addr::into(ip)),
        };
        self.values.get(number)
    }

    fn find_in<K: Ord + Copy>(&self, bounds: &Bounds<K>, ip: K) -> u32 {
        let after = bounds.partition_point(|(first, _)| *first <= ip);
        let bound = after.checked_sub(1).and_then(|index| bounds.get(index));
        bound.map_or(self.nothing, |(_, value)| *value)
    }
}

struct Block {
    first: u128,
    last: u128,
    value: u32,
}

/// Turns nested blocks into bounds: after an inner one, the value of the one around it holds again.
fn bounds<K: TryFrom<u128>>(mut blocks: Vec<Block>, nothing: u32) -> Bounds<K> {
    blocks.sort_by_key(|block| (block.first, std::cmp::Reverse(block.last)));
    let mut found: Vec<(u128, u32)> = Vec::with_capacity(blocks.len() + 1);
    let mut open: Vec<Block> = Vec::new();
    for block in blocks {
        close(&mut open, &mut found, Some(block.first), nothing);
        push(&mut found, block.first, block.value);
        open.push(block);
    }
    close(&mut open, &mut found, None, nothing);
    let keys = found
        .into_iter()
        .map(|(first, value)| (K::try_from(first).ok(), value));
    keys.filter_map(|(first, value)| Some((first?, value)))
        .collect()
}

/// Ends the open blocks that end before `next`.
fn close(open: &mut Vec<Block>, found: &mut Vec<(u128, u32)>, next: Option<u128>, nothing: u32) {
    while let Some(inner) = open.pop_if(|block| next.is_none_or(|next| block.last < next)) {
        let value = open.last().map_or(nothing, |outer| outer.value);
        // Past the last address of all there is nothing (32-bit keys drop out at the conversion).
        if let Some(after) = inner.last.checked_add(1) {
            push(found, after, value);
        }
    }
}

fn push(found: &mut Vec<(u128, u32)>, first: u128, value: u32) {
    match found.last_mut() {
        Some(last) if last.0 == first => last.1 = value,
        Some(last) if last.1 == value => {}
        _ => found.push((first, value)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn networks(list: &[(&str, &str)]) -> Networks {
        let mut networks = Networks::default();
        for (net, value) in list {
            assert_eq!(networks.add(net.parse().unwrap(), value.as_bytes()), None);
        }
        networks
    }

    #[test]
    fn the_longest_prefix_counts() {
        let table = networks(&[
            ("0.0.0.0/0", "default"),
            ("10.0.0.0/8", "ten"),
            ("10.1.0.0/16", "ten-one"),
            ("10.1.0.0/24", "ten-one-zero"),
            ("255.255.255.255/32", "last"),
            ("2001:db8::/32", "doc"),
            ("ffff::/16", "end"),
        ])
        .build();
        for (ip, expected) in [
            ("9.255.255.255", "default"),
            ("10.0.0.0", "ten"),
            ("10.1.0.255", "ten-one-zero"),
            ("10.1.1.0", "ten-one"),
            ("10.2.0.0", "ten"),
            ("11.0.0.0", "default"),
            ("255.255.255.254", "default"),
            ("255.255.255.255", "last"),
            ("2001:db7:ffff::", ""),
            ("2001:db8::1", "doc"),
            ("2001:db9::", ""),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "end"),
        ] {
            assert_eq!(table.find(ip.parse().unwrap()), expected.as_bytes(), "{ip}");
        }
    }

    #[test]
    fn doubled_and_deleted() {
        let mut networks = networks(&[("10.0.0.0/8", "a"), ("10.0.0.0/16", "b")]);
        let net = "10.0.0.0/8".parse().unwrap();
        assert_eq!(networks.add(net, b"c").as_deref(), Some(&b"b"[..]));
        assert!(networks.delete(net));
        assert!(!networks.delete(net));
        let table = networks.build();
        assert_eq!(table.find([10, 0, 0, 1].into()), b"b");
        assert_eq!(table.find([10, 1, 0, 1].into()), b"");
    }

    proptest! {
        #[test]
        fn bounds_agree_with_the_set(
            nets in prop::collection::vec((any::<bool>(), any::<u8>(), 0..=8u8, 0..4u8), 0..20),
            probes in prop::collection::vec((any::<bool>(), any::<u8>()), 1..40),
        ) {
            let ip = |v6: bool, byte: u8| -> IpAddr {
                if v6 {
                    Ipv6Addr::from(u128::from(byte) << 120).into()
                } else {
                    Ipv4Addr::from(u32::from(byte) << 24).into()
                }
            };
            let mut networks = Networks::default();
            for (v6, byte, bits, value) in nets {
                networks.add(IpNet::new(ip(v6, byte), bits).unwrap(), &[value]);
            }
            let expected: Vec<Vec<u8>> =
                probes.iter().map(|(v6, byte)| networks.find(ip(*v6, *byte)).to_vec()).collect();
            let table = networks.build();
            for ((v6, byte), expected) in probes.into_iter().zip(expected) {
                prop_assert_eq!(table.find(ip(v6, byte)), expected);
            }
        }
    }
}
