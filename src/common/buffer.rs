//! Byte buffers, pooled per thread.
//!
//! A buffer is taken when a socket is readable and given back when its bytes have gone out, so that an idle connection
//! holds none. Two sizes: small ones for request heads, large ones for bodies.

use std::cell::RefCell;

/// Size of a [`Buf::small`], bytes.
pub const SMALL: usize = 4096;
/// Size of a [`Buf::large`], bytes: what a relay reads and writes at once. More than 64 KiB by a head, so that a body of
/// that size leaves room: a read that fills the buffer says nothing of what else there is, and costs one more.
pub const LARGE: usize = 65536 + 4096;

/// Bytes of a large buffer come so far behind its beginning. Who copies them into memory of a page of its own, a few bytes
/// behind its beginning as encryption does, must not begin at the same place of a page: many processors copy at a third of
/// their speed then.
const LEAD: usize = 256;

/// How many free buffers a thread keeps, small and large ones: those of many requests that come at once.
const KEPT_SMALL: usize = 512;
const KEPT_LARGE: usize = 128;

thread_local! {
    static FREE_SMALL: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
    static FREE_LARGE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer with a filled part `start..end`.
#[derive(Debug, Default)]
pub struct Buf {
    data: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buf {
    /// A pooled buffer of [`SMALL`] bytes.
    pub fn small() -> Self {
        Self::pooled(&FREE_SMALL, SMALL)
    }

    /// A pooled buffer of [`LARGE`] bytes.
    pub fn large() -> Self {
        Self::pooled(&FREE_LARGE, WHOLE)
    }

    /// A buffer of `size` bytes, pooled when that is a pooled size.
    pub fn with_capacity(size: usize) -> Self {
        match size {
            SMALL => Self::small(),
            LARGE => Self::large(),
            // By its length a large one is known.
            _ => Self {
                data: vec![0; size + usize::from(size == WHOLE)].into_boxed_slice(),
                start: 0,
                end: 0,
            },
        }
    }

    fn pooled(free: &'static std::thread::LocalKey<RefCell<Vec<Box<[u8]>>>>, size: usize) -> Self {
        let data = free
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| vec![0; size].into_boxed_slice());
        Self {
            start: lead(&data),
            end: lead(&data),
            data,
        }
    }

    /// The bytes in it.
    pub fn filled(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// How many bytes are in it.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How many bytes it can hold in all; 0 for one that was never taken from the pool.
    pub fn capacity(&self) -> usize {
        self.data.len() - lead(&self.data)
    }

    /// The free part behind the filled one.
    pub fn spare(&mut self) -> &mut [u8] {
        &mut self.data[self.end..]
    }

    /// Says that `n` bytes of [`spare`](Self::spare) were filled.
    pub fn advance(&mut self, n: usize) {
        debug_assert!(self.end + n <= self.data.len());
        self.end += n;
    }

    /// Drops `n` bytes from the front.
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.len());
        self.start += n;
        if self.start == self.end {
            self.start = lead(&self.data);
            self.end = self.start;
        }
    }

    /// Keeps the first `n` bytes only.
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start + n);
    }

    /// Moves the filled part to the front.
    pub fn compact(&mut self) {
        let front = lead(&self.data);
        if self.start > front {
            self.data.copy_within(self.start..self.end, front);
            self.end -= self.start - front;
            self.start = front;
        }
    }

    /// Makes room for `total` bytes in all, keeping what is in it.
    pub fn grow(&mut self, total: usize) {
        if total <= self.capacity() {
            return;
        }
        let mut larger = Self::with_capacity(if total <= LARGE {
            LARGE.min(total.next_power_of_two())
        } else {
            total.next_power_of_two()
        });
        larger.extend(self.filled());
        *self = larger;
    }

    /// Copies as much of `bytes` as fits behind the filled part; returns how much.
    pub fn extend(&mut self, bytes: &[u8]) -> usize {
        let spare = self.spare();
        let n = bytes.len().min(spare.len());
        spare[..n].copy_from_slice(&bytes[..n]);
        self.advance(n);
        n
    }
}

/// A large buffer with what is in front of its bytes.
const WHOLE: usize = LEAD + LARGE;

/// Where the bytes of a buffer begin.
fn lead(data: &[u8]) -> usize {
    if data.len() == WHOLE { LEAD } else { 0 }
}

impl Drop for Buf {
    fn drop(&mut self) {
        let (free, kept) = match self.data.len() {
            SMALL => (&FREE_SMALL, KEPT_SMALL),
            WHOLE => (&FREE_LARGE, KEPT_LARGE),
            _ => return,
        };
        let data = std::mem::take(&mut self.data);
        // At thread end the pool may be gone; then the memory is simply freed.
        let _kept = free.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < kept {
                free.push(data);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back() {
        let mut buf = Buf::small();
        assert_eq!(buf.extend(b"hello"), 5);
        buf.consume(2);
        buf.compact();
        assert_eq!(buf.filled(), b"llo");
        buf.grow(LARGE);
        assert_eq!((buf.filled(), buf.capacity()), (&b"llo"[..], LARGE));
        drop(buf);
        assert!(FREE_SMALL.with_borrow(Vec::len) > 0);
        assert!(FREE_LARGE.with_borrow(Vec::len) > 0);
        assert!(Buf::large().is_empty());
    }
}
