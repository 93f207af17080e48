//! Memory that is about to be used, asked for in time.
//!
//! A thread with hundreds of requests under way comes back to one when the others have driven its memory out of the caches.
//! Lines that are touched one after the other are then waited for one after the other, each for as long as hundreds of
//! instructions take; asked for together, they come together.

use std::{
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

/// Bytes of a line of the caches, of all processors that matter.
const LINE: usize = 64;

/// How much is asked for of a vector's memory, bytes: as much as is mostly used of it.
const HEAD: usize = 256;

/// Asks for the memory at `value`, not for what it refers to. Costs an instruction a line where it is here already.
#[inline]
pub fn prefetch<T>(value: *const T) {
    bytes(value.cast(), size_of::<T>());
}

#[inline]
fn bytes(start: *const u8, count: usize) {
    let mut at = 0;
    while at < count {
        line(start.wrapping_add(at));
        at += LINE;
    }
}

/// A value with memory of its own that can be asked for.
pub trait Prefetch {
    /// Asks for it.
    fn prefetch(&self);
}

impl<T> Prefetch for Box<T> {
    #[inline]
    fn prefetch(&self) {
        prefetch(&raw const **self);
    }
}

impl<T> Prefetch for Rc<T> {
    #[inline]
    fn prefetch(&self) {
        prefetch(&raw const **self);
    }
}

impl<T> Prefetch for Vec<T> {
    #[inline]
    fn prefetch(&self) {
        bytes(
            self.as_ptr().cast(),
            (self.capacity() * size_of::<T>()).min(HEAD),
        );
    }
}

impl<A: Prefetch, B: Prefetch> Prefetch for (A, B) {
    #[inline]
    fn prefetch(&self) {
        self.0.prefetch();
        self.1.prefetch();
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(
    unsafe_code,
    reason = "what the library has for it that is safe is unstable"
)]
fn line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint: it reads and writes nothing, whatever the address. The instruction is part of SSE, which every x86_64 has.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// What others have for it is unstable; they wait.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn line(_at: *const u8) {}

/// A future in memory of its own, which is asked for at each poll.
#[derive(Debug)]
pub struct Prefetched<F>(Pin<Box<F>>);

impl<F> Prefetched<F> {
    /// Moves `future` there.
    pub fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Prefetched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        prefetch(&raw const *self.0);
        self.0.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Waker};

    use super::*;

    #[test]
    fn nothing_is_read() {
        prefetch::<[u8; 4096]>(std::ptr::null());
        prefetch::<[u64; 100]>(std::ptr::without_provenance(usize::MAX - 8));
        prefetch::<()>(std::ptr::null());
        (Box::new(()), (Rc::new([0; 99]), vec![0_u64; 99])).prefetch();
        (Vec::<u8>::new(), Vec::<()>::new()).prefetch();
    }

    #[test]
    fn a_prefetched_future_is_polled_to_its_end() {
        let mut waits = true;
        let mut future = Prefetched::new(async move {
            let large = [7_u8; 1000];
            poll_fn(|_| {
                if std::mem::take(&mut waits) {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
            large.iter().map(|n| u32::from(*n)).sum::<u32>()
        });
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = || Pin::new(&mut future).poll(&mut cx);
        assert_eq!(poll(), Poll::Pending);
        assert_eq!(poll(), Poll::Ready(7000));
    }
}
