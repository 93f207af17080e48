//! Hashes that decide where a request goes, so they must be nginx's to the bit.
//!
//! CRC-32 (`core/ngx_crc32.c`) for `hash`, `MurmurHash2` with seed 0 (`core/ngx_murmurhash.c`) for `split_clients`.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// CRC-32 (IEEE) of the concatenation of `parts`.
pub fn crc32(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// CRC-32C (Castagnoli), as the PROXY protocol has it; of a few bytes once in a session, so without a table.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), step)
    })
}

/// `MurmurHash2`, 32 bits, seed 0.
pub fn murmur2(data: &[u8]) -> u32 {
    let mut words = data.chunks_exact(4);
    // nginx's length wraps at 32 bits too.
    #[expect(clippy::cast_possible_truncation, reason = "the hash is of 32 bits")]
    let mut hash = data.len() as u32;
    for word in &mut words {
        let mut k = word
            .iter()
            .rev()
            .fold(0, |k: u32, byte| k << 8 | u32::from(*byte))
            .wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest
            .iter()
            .rev()
            .fold(0, |k: u32, byte| k << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

const M: u32 = 0x5bd1_e995;

/// FNV-1a for tables that a configuration fills: short keys, and nobody else chooses what is in them.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

/// A map with [`Fnv`].
pub type FnvMap<K, V> = HashMap<K, V, BuildHasherDefault<Fnv>>;

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_the_usual_one() {
        assert_eq!(crc32(&[b"123456789"]), 0xcbf4_3926);
        assert_eq!(crc32(&[b"1234", b"", b"56789"]), 0xcbf4_3926);
        assert_eq!(crc32(&[]), 0);
    }

    #[test]
    fn castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn murmur_of_every_tail_length() {
        // Values of the reference MurmurHash2(key, len, 0).
        assert_eq!(murmur2(b""), 0);
        assert_eq!(murmur2(b"a"), 0x9268_5f5e);
        assert_ne!(murmur2(b"ab"), murmur2(b"abc"));
        assert_ne!(murmur2(b"abcd"), murmur2(b"abcde"));
    }
}
