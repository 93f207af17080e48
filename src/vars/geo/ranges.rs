//! Ranges of IPv4 addresses with values.
//!
//! nginx keeps them by the upper 16 bits, and what it says of a range that is doubled or overlaps is said for each such part:
//! so are they kept here. A range within another splits it. Mirrors `ngx_http_geo_add_range` and
//! `ngx_http_geo_delete_range`.

use std::{collections::BTreeMap, fmt, net::Ipv4Addr};

use super::Values;

/// Ranges as the configuration lists them.
#[derive(Debug, Default)]
pub struct Ranges {
    parts: BTreeMap<u16, Vec<Range>>,
    default: Option<u32>,
    values: Values,
}

/// Lower 16 bits of the first and the last address.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u16,
    last: u16,
    value: u32,
}

/// The range that another one overlaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    first: Ipv4Addr,
    last: Ipv4Addr,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl Ranges {
    /// Sets the default; returns the old one.
    pub fn set_default(&mut self, value: &[u8]) -> Option<Vec<u8>> {
        let number = self.values.number(value);
        let old = self.default.replace(number);
        old.map(|old| self.values.get(old).to_vec())
    }

    /// Adds a range. Where it is a range that was there, its value replaces the old ones, which are returned.
    pub fn add(
        &mut self,
        first: Ipv4Addr,
        last: Ipv4Addr,
        value: &[u8],
    ) -> Result<Vec<Vec<u8>>, Overlap> {
        let value = self.values.number(value);
        let mut doubled = Vec::new();
        for (upper, first, last) in parts(first, last) {
            let part = self.parts.entry(upper).or_default();
            let range = Range { first, last, value };
            let old = insert(part, range).map_err(|other| Overlap {
                first: joined(upper, other.first),
                last: joined(upper, other.last),
            })?;
            doubled.extend(old.map(|old| self.values.get(old).to_vec()));
        }
        Ok(doubled)
    }

    /// Deletes a range; false when a part of it is none.
    pub fn delete(&mut self, first: Ipv4Addr, last: Ipv4Addr) -> bool {
        let mut complete = true;
        for (upper, first, last) in parts(first, last) {
            let part = self.parts.entry(upper).or_default();
            let same = part.iter().position(|r| r.first == first && r.last == last);
            match same {
                Some(index) => drop(part.remove(index)),
                None => complete = false,
            }
        }
        complete
    }

    /// The table for lookups.
    pub fn build(mut self) -> Lookup {
        let default = self.default.unwrap_or_else(|| self.values.number(b""));
        let mut ranges: Vec<(u32, u32, u32)> = Vec::new();
        for (upper, part) in self.parts {
            for range in part {
                let first = joined(upper, range.first).into();
                let last = joined(upper, range.last).into();
                match ranges.last_mut() {
                    Some(before)
                        if before.1.checked_add(1) == Some(first) && before.2 == range.value =>
                    {
                        before.1 = last;
                    }
                    _ => ranges.push((first, last, range.value)),
                }
            }
        }
        Lookup {
            ranges,
            default,
            values: self.values.freeze(),
        }
    }
}

/// Ranges for lookups.
#[derive(Debug)]
pub struct Lookup {
    /// First address, last address, value; in order.
    ranges: Vec<(u32, u32, u32)>,
    default: u32,
    values: Values,
}

impl Lookup {
    /// The value of the range with `ip`, or the default.
    pub fn find(&self, ip: Ipv4Addr) -> &[u8] {
        let ip = u32::from(ip);
        let after = self.ranges.partition_point(|range| range.0 <= ip);
        let range = after
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index));
        let value = range
            .filter(|range| ip <= range.1)
            .map_or(self.default, |range| range.2);
        self.values.get(value)
    }
}

/// The range by upper 16 bits: these, and the first and last lower ones.
fn parts(first: Ipv4Addr, last: Ipv4Addr) -> impl Iterator<Item = (u16, u16, u16)> {
    let ((low, start), (high, end)) = (halves(first), halves(last));
    (low..=high).map(move |upper| {
        let first = if upper == low { start } else { 0 };
        let last = if upper == high { end } else { u16::MAX };
        (upper, first, last)
    })
}

fn halves(ip: Ipv4Addr) -> (u16, u16) {
    let [a, b, c, d] = ip.octets();
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

fn joined(upper: u16, lower: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(upper) << 16 | u32::from(lower))
}

/// Puts a range into its part; returns the old value of the same range, or the range that it overlaps.
fn insert(part: &mut Vec<Range>, new: Range) -> Result<Option<u32>, Range> {
    // The first one that does not end before the new one begins.
    let index = part.partition_point(|range| range.last < new.first);
    let Some(old) = part.get_mut(index).filter(|old| old.first <= new.last) else {
        part.insert(index, new);
        return Ok(None);
    };
    let range = *old;
    if (range.first, range.last) == (new.first, new.last) {
        old.value = new.value;
        return Ok(Some(range.value));
    }
    if new.first < range.first || new.last > range.last {
        // nginx comes from the end, and names the last one that is in the way.
        let other = part.partition_point(|range| range.first <= new.last);
        return Err(part[other - 1]);
    }
    let before = (new.first > range.first).then(|| Range {
        last: new.first - 1,
        ..range
    });
    let after = (new.last < range.last).then(|| Range {
        first: new.last + 1,
        ..range
    });
    let pieces = before.into_iter().chain([new]).chain(after);
    part.splice(index..=index, pieces);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    fn add(ranges: &mut Ranges, range: &str, value: &str) -> Result<Vec<Vec<u8>>, Overlap> {
        let (first, last) = range.split_once('-').unwrap();
        ranges.add(ip(first), ip(last), value.as_bytes())
    }

    #[test]
    fn a_range_within_another_splits_it() {
        let mut ranges = Ranges::default();
        for (range, value) in [
            ("10.0.0.0-10.2.255.255", "a"),
            ("10.1.0.0-10.1.0.9", "b"),
            ("10.1.255.250-10.1.255.255", "c"),
            ("10.2.0.5-10.2.0.6", "d"),
            ("9.0.0.0-9.0.0.0", "e"),
        ] {
            assert_eq!(add(&mut ranges, range, value), Ok(Vec::new()), "{range}");
        }
        let table = ranges.build();
        for (address, expected) in [
            ("10.0.255.255", "a"),
            ("10.1.0.0", "b"),
            ("10.1.0.10", "a"),
            ("10.1.255.250", "c"),
            ("10.2.0.4", "a"),
            ("10.2.0.6", "d"),
            ("10.2.0.7", "a"),
            ("10.3.0.0", ""),
            ("9.0.0.0", "e"),
            ("0.0.0.0", ""),
            ("255.255.255.255", ""),
        ] {
            assert_eq!(table.find(ip(address)), expected.as_bytes(), "{address}");
        }
    }

    #[test]
    fn doubled_overlapping_and_deleted() {
        let mut ranges = Ranges::default();
        add(&mut ranges, "10.0.0.0-10.1.0.9", "a").unwrap();
        let old = vec![b"a".to_vec(), b"a".to_vec()];
        assert_eq!(add(&mut ranges, "10.0.0.0-10.1.0.9", "b"), Ok(old));
        let overlap = add(&mut ranges, "10.1.0.5-10.1.0.15", "c").unwrap_err();
        assert_eq!(overlap.to_string(), "10.1.0.0-10.1.0.9");
        assert!(!ranges.delete(ip("10.1.0.0"), ip("10.1.0.8")));
        assert!(ranges.delete(ip("10.1.0.0"), ip("10.1.0.9")));
        let table = ranges.build();
        assert_eq!(table.find(ip("10.0.0.1")), b"b");
        assert_eq!(table.find(ip("10.1.0.1")), b"");
    }

    proptest! {
        #[test]
        fn the_last_word_counts(list in prop::collection::vec((0..100u32, 0..100u32, any::<u8>()), 0..30)) {
            let mut ranges = Ranges::default();
            let mut expected = vec![Vec::new(); 100];
            for (first, last, value) in list {
                // Two addresses a part: the upper 16 bits change in the middle.
                let at = |n: u32| Ipv4Addr::from((9 << 16 | 0xffce) + n);
                if first <= last && ranges.add(at(first), at(last), &[value]).is_ok() {
                    expected[first as usize..=last as usize].fill(vec![value]);
                } else {
                    // An overlap is an error of the whole configuration: half of the range may be in.
                    if first <= last {
                        return Ok(());
                    }
                }
            }
            let table = ranges.build();
            for (n, expected) in (0u32..).zip(expected) {
                prop_assert_eq!(table.find(Ipv4Addr::from((9 << 16 | 0xffce) + n)), expected);
            }
        }
    }
}
