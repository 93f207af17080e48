//! Memory of values that come and go with each request.
//!
//! An allocator hands freed memory out again late, when it has left the caches: each part of a request would begin by waiting
//! for it. Here the memory that was given back last is the next to be used.

use std::{
    cell::RefCell,
    fmt,
    ops::{Deref, DerefMut},
};

use super::prefetch::Prefetch;

/// How many are kept: streams of HTTP/2 come many at once.
const KEPT: usize = 512;

/// Values that are kept for the memory that they hold.
pub struct Spares<T>(RefCell<Vec<T>>);

/// Places for values of one type, of one thread.
#[derive(Debug)]
pub struct Recycler<T> {
    spare: Spares<Recycled<T>>,
}

/// A value in memory of its own, as in a box; empty while it is spare.
pub struct Recycled<T>(Box<Option<T>>);

impl<T> Spares<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// Keeps one, unless there are enough.
    pub fn keep(&self, value: T) {
        let mut spare = self.0.borrow_mut();
        if spare.len() < KEPT {
            spare.push(value);
        }
    }
}

impl<T: Prefetch> Spares<T> {
    /// The last one that was kept. The memory of the next is asked for: of many requests that come at once, each finds it
    /// there.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut spare = self.0.borrow_mut();
        let last = spare.pop();
        if let Some(next) = spare.last() {
            next.prefetch();
        }
        last
    }
}

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Default for Recycler<T> {
    fn default() -> Self {
        Self {
            spare: Spares::new(),
        }
    }
}

impl<T> fmt::Debug for Spares<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spares").finish_non_exhaustive()
    }
}

impl<T> Recycler<T> {
    /// Makes a value in memory of an earlier one, or new memory.
    #[inline]
    pub fn put(&self, make: impl FnOnce() -> T) -> Recycled<T> {
        let mut place = self.spare.pop().unwrap_or_else(|| Recycled(Box::new(None)));
        if place.0.is_none() {
            // Nothing is dropped here, so the value need not be made elsewhere first.
            *place.0 = Some(make());
        }
        place
    }

    /// Moves the value out and keeps its memory.
    ///
    /// # Panics
    ///
    /// Never: what is handed out holds a value.
    pub fn take(&self, mut place: Recycled<T>) -> T {
        let value = place.0.take();
        self.spare.keep(place);
        value.expect(HELD)
    }

    /// Drops the value and keeps its memory.
    pub fn end(&self, mut place: Recycled<T>) {
        *place.0 = None;
        self.spare.keep(place);
    }
}

const HELD: &str = "a value stays until its place is given back";

impl<T> Prefetch for Recycled<T> {
    #[inline]
    fn prefetch(&self) {
        self.0.prefetch();
    }
}

impl<T> Deref for Recycled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().as_ref().expect(HELD)
    }
}

impl<T> DerefMut for Recycled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().as_mut().expect(HELD)
    }
}

impl<T: fmt::Debug> fmt::Debug for Recycled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn the_last_place_is_the_next() {
        let places = Recycler::default();
        let (one, two) = (
            places.put(|| String::from("one")),
            places.put(|| String::from("two")),
        );
        let at = |place: &Recycled<String>| std::ptr::from_ref(&**place);
        let (first, second) = (at(&one), at(&two));
        assert_eq!(places.take(one), "one");
        places.end(two);
        let (three, four) = (
            places.put(|| String::from("three")),
            places.put(|| String::from("four")),
        );
        assert_eq!((at(&three), at(&four)), (second, first));
        assert_eq!((three.as_str(), four.as_str()), ("three", "four"));
    }

    #[test]
    fn values_are_dropped_once() {
        let places = Recycler::default();
        let value = Rc::new(());
        let held: Vec<_> = (0..KEPT + 5)
            .map(|_| places.put(|| Rc::clone(&value)))
            .collect();
        assert_eq!(Rc::strong_count(&value), KEPT + 6);
        for place in held {
            places.end(place);
        }
        assert_eq!(Rc::strong_count(&value), 1);
        assert_eq!(places.spare.0.borrow().len(), KEPT);
        drop(places.put(|| Rc::clone(&value)));
        assert_eq!(Rc::strong_count(&value), 1);
        let taken = places.take(places.put(|| Rc::clone(&value)));
        assert_eq!(Rc::strong_count(&taken), 2);
    }
}
