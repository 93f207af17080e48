//! Random numbers that nobody needs to be unable to guess: xorshift64*.

use std::cell::Cell;

/// A source of random numbers of one thread.
#[derive(Debug)]
pub struct Random(Cell<u64>);

impl Random {
    /// A source whose numbers follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed | 1))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let mut n = self.0.get();
        n ^= n >> 12;
        n ^= n << 25;
        n ^= n >> 27;
        self.0.set(n);
        n.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
