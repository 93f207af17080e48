//! The connections of a thread that requests share, by peer.
//!
//! A request takes the connection that was used last and has room; when there is none but one is being opened, it waits for
//! that one. `keepalive` bounds how many are kept without a request.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Poll, Waker},
};

use super::line::{Home, Line};
use crate::{
    common::hash::FnvMap,
    conf::model::Keepalive,
    http::proxy::pool::{Key, Place as PoolPlace},
};

pub(super) type Place = PoolPlace;

/// How many requests wait for a connection that is being opened: as many streams as a peer is taken to bear before it says.
const WAITING: usize = 100;

/// The connections of a thread.
#[derive(Debug, Default)]
pub(in crate::http::proxy) struct Mux {
    lines: RefCell<FnvMap<Place, Vec<(Key, Entry)>>>,
}

#[derive(Debug)]
enum Entry {
    Open(Rc<Line>),
    Opening(Rc<Opening>),
}

/// What there is for a request.
pub(super) enum Found {
    /// A connection with room.
    Line(Rc<Line>),
    /// One that is being opened.
    Opening(Rc<Opening>),
    /// Nothing.
    None,
}

/// A connection that is being opened.
#[derive(Debug, Default)]
pub(super) struct Opening {
    waiting: Cell<usize>,
    wakers: RefCell<Vec<Waker>>,
    outcome: RefCell<Outcome>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) enum Outcome {
    /// Nothing yet.
    #[default]
    Open,
    /// It is there.
    Line(Rc<Line>),
    /// It failed: whoever waits tries on his own.
    Failed,
    /// Whoever opened it has gone away: somebody else has to.
    Left,
}

impl Opening {
    /// Waits until it is there or not.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Outcome> {
        match &*self.outcome.borrow() {
            Outcome::Open => {}
            outcome => return Poll::Ready(outcome.clone()),
        }
        self.wakers.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    fn end(&self, outcome: Outcome) {
        self.outcome.replace(outcome);
        for waker in self.wakers.take() {
            waker.wake();
        }
    }
}

/// The duty to say what came of a connection that is being opened.
#[derive(Debug)]
pub(super) struct Duty {
    home: Home,
    key: Key,
    opening: Rc<Opening>,
}

impl Duty {
    /// It is there: others may use it.
    pub(super) fn done(self, line: &Rc<Line>) {
        self.end(Outcome::Line(Rc::clone(line)));
        if let Some(mux) = self.home.mux.upgrade() {
            mux.add(self.home.place, self.key.clone(), line);
        }
    }

    /// It could not be opened.
    pub(super) fn failed(self) {
        self.end(Outcome::Failed);
    }

    fn end(&self, outcome: Outcome) {
        if let Some(mux) = self.home.mux.upgrade() {
            mux.ended(self.home.place, &self.opening);
        }
        self.opening.end(outcome);
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if matches!(*self.opening.outcome.borrow(), Outcome::Open) {
            self.end(Outcome::Left);
        }
    }
}

impl Mux {
    /// Where connections of `place` are kept.
    pub(super) fn home(self: &Rc<Self>, place: Place, limits: Keepalive) -> Home {
        Home {
            mux: Rc::downgrade(self),
            place,
            limits,
        }
    }

    /// What there is for one more request.
    pub(super) fn find(&self, place: Place, key: &Key, cx: &mut Context<'_>) -> Found {
        let lines = self.lines.borrow();
        let Some(lines) = lines.get(&place) else {
            return Found::None;
        };
        let mut opening = None;
        for (_, entry) in lines.iter().rev().filter(|(own, _)| own == key) {
            match entry {
                Entry::Open(line) if line.has_room(cx) => return Found::Line(Rc::clone(line)),
                Entry::Opening(other) if other.waiting.get() < WAITING => opening = Some(other),
                _ => {}
            }
        }
        opening.map_or(Found::None, |opening| {
            opening.waiting.set(opening.waiting.get() + 1);
            Found::Opening(Rc::clone(opening))
        })
    }

    /// A connection is going to be opened.
    pub(super) fn begin(&self, home: &Home, key: &Key) -> Duty {
        let opening = Rc::new(Opening::default());
        let entry = (key.clone(), Entry::Opening(Rc::clone(&opening)));
        self.lines
            .borrow_mut()
            .entry(home.place)
            .or_default()
            .push(entry);
        Duty {
            home: home.clone(),
            key: key.clone(),
            opening,
        }
    }

    /// How many connections to the same peer there are.
    pub(in crate::http::proxy) fn count(&self, place: Place, key: &Key) -> usize {
        let lines = self.lines.borrow();
        let lines = lines.get(&place).into_iter().flatten();
        lines.filter(|(own, _)| own == key).count()
    }

    /// Closes connections that are idle.
    pub(in crate::http::proxy) fn clear(&self) {
        let gone = self.lines.take();
        removed(gone.values().flatten());
        // Only now: what is dropped may come back here.
        drop(gone);
    }

    fn add(&self, place: Place, key: Key, line: &Rc<Line>) {
        let entry = (key, Entry::Open(Rc::clone(line)));
        self.lines
            .borrow_mut()
            .entry(place)
            .or_default()
            .push(entry);
    }

    fn ended(&self, place: Place, opening: &Rc<Opening>) {
        if let Some(lines) = self.lines.borrow_mut().get_mut(&place) {
            lines.retain(
                |(_, entry)| !matches!(entry, Entry::Opening(own) if Rc::ptr_eq(own, opening)),
            );
        }
    }

    /// Closes what is idle beyond the limit, the longest idle first, and what is worn out.
    pub(super) fn trim(&self, home: &Home, worn: Option<&Rc<Line>>) {
        if let Some(worn) = worn {
            self.remove(home.place, |line| std::ptr::eq(line, &raw const **worn));
        }
        let mut idle: Vec<_> = {
            let lines = self.lines.borrow();
            let lines = lines.get(&home.place).into_iter().flatten();
            let open = lines.filter_map(|(_, entry)| match entry {
                Entry::Open(line) if line.is_idle() => Some(line),
                _ => None,
            });
            if open.clone().count() <= home.limits.connections {
                return;
            }
            open.cloned().collect()
        };
        idle.sort_by_key(|line| line.idle_since());
        let excess = idle.len() - home.limits.connections;
        for gone in &idle[..excess] {
            self.remove(home.place, |line| std::ptr::eq(line, &raw const **gone));
        }
    }

    /// Takes a connection out: it closes when its last request has ended.
    pub(super) fn remove(&self, place: Place, is_meant: impl Fn(&Line) -> bool) {
        let gone: Vec<_> = {
            let mut lines = self.lines.borrow_mut();
            let Some(lines) = lines.get_mut(&place) else {
                return;
            };
            let is_gone = |entry: &Entry| matches!(entry, Entry::Open(line) if line.is_over() || is_meant(line));
            lines.extract_if(.., |(_, entry)| is_gone(entry)).collect()
        };
        removed(&gone);
        // Only now: what the library wakes must not find the list in use.
        drop(gone);
    }
}

/// Tells connections that no more requests will come.
fn removed<'e>(entries: impl IntoIterator<Item = &'e (Key, Entry)>) {
    for (_, entry) in entries {
        if let Entry::Open(line) = entry {
            line.removed();
        }
    }
}
