//! `split_clients`: one of several values, by shares of a hash.
//!
//! Mirrors `ngx_http_split_clients_variable`.

use super::Template;
use crate::common::hash::murmur2;

/// `split_clients` table.
#[derive(Debug, Default)]
pub struct SplitClients {
    key: Template,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    /// Hashes below this are its own; None when all that are left are.
    below: Option<u32>,
    value: Box<[u8]>,
}

/// The shares are more than all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

/// All, in hundredths of a percent.
const ALL: u64 = 10_000;

impl SplitClients {
    /// Divides the values of `key` among `shares`: hundredths of a percent, 0 for the rest, and values.
    pub fn new(key: Template, shares: Vec<(u64, Box<[u8]>)>) -> Result<Self, TooMuch> {
        let mut sum = 0u64;
        let mut below = 0u32;
        let mut parts = Vec::new();
        for (share, value) in shares {
            sum = if share == 0 {
                ALL
            } else {
                sum.saturating_add(share)
            };
            if sum > ALL {
                return Err(TooMuch);
            }
            if sum < ALL {
                let width = share * u64::from(u32::MAX) / ALL;
                below = below.saturating_add(u32::try_from(width).unwrap_or(u32::MAX));
            }
            parts.push(Part {
                below: (sum < ALL).then_some(below),
                value,
            });
        }
        Ok(Self { key, parts })
    }

    /// The text whose value is hashed.
    pub fn key(&self) -> &Template {
        &self.key
    }

    /// The value for `key`; None when its share is nobody's.
    pub fn lookup(&self, key: &[u8]) -> Option<&[u8]> {
        let hash = murmur2(key);
        let part = self
            .parts
            .iter()
            .find(|part| part.below.is_none_or(|below| hash < below))?;
        Some(&part.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(shares: &[(u64, &str)]) -> Result<SplitClients, TooMuch> {
        let shares = shares
            .iter()
            .map(|(share, value)| (*share, value.as_bytes().into()));
        SplitClients::new(Template::default(), shares.collect())
    }

    #[test]
    fn shares_are_kept() {
        let split = split(&[(50, "a"), (5000, "b"), (0, "c")]).unwrap();
        let mut hits = [0; 3];
        for n in 0..100_000 {
            let value = split.lookup(n.to_string().as_bytes()).unwrap();
            hits[usize::from(value[0] - b'a')] += 1;
        }
        assert!((400..600).contains(&hits[0]), "{hits:?}");
        assert!((49_000..51_000).contains(&hits[1]), "{hits:?}");
    }

    #[test]
    fn what_is_left_is_nobody_s_or_the_rest_s() {
        assert_eq!(split(&[]).unwrap().lookup(b"a"), None);
        let one = split(&[(1, "a")]).unwrap();
        assert!((0..1000).any(|n: u32| one.lookup(&n.to_le_bytes()).is_none()));
        let all = split(&[(2500, "a"), (7500, "b")]).unwrap();
        assert!((0..1000).all(|n: u32| all.lookup(&n.to_le_bytes()).is_some()));
        assert_eq!(split(&[(0, "a")]).unwrap().lookup(b""), Some(&b"a"[..]));
    }

    #[test]
    fn too_much() {
        for shares in [
            &[(10_001, "a")][..],
            &[(9_999, "a"), (2, "b")],
            &[(0, "a"), (1, "b")],
        ] {
            assert_eq!(split(shares).unwrap_err(), TooMuch);
        }
        assert!(split(&[(10_000, "a"), (0, "b")]).is_ok());
    }
}
