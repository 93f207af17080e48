//! Idle connections to upstreams, one pool a thread and group, or a thread and location.
//!
//! An idle connection that turns readable (the peer closed it, or sent something unasked) is closed at once: one task a
//! thread is woken by all of them.

use std::{
    cell::RefCell,
    future::poll_fn,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
};

use super::{attempt::Attempt, h2::Mux, peer::PeerConn, tls::TlsKey};
use crate::{
    common::{addr::Addr, clock, hash::FnvMap, recycle::Recycler},
    http::thread::Thread,
    net::Timer,
    upstream::{Group, keepalive::Pool},
};

/// What makes a connection what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The peer.
    pub addr: Addr,
    /// `proxy_bind`
    pub bind: Option<Addr>,
    /// What is spoken: the settings of TLS, the name, the certificate.
    pub tls: Option<TlsKey>,
}

/// Which pool: a group's index, and the location when it is not shared.
pub(super) type Place = (usize, Option<u32>);

/// The pools of a thread.
#[derive(Debug, Default)]
pub struct Pools {
    idle: RefCell<FnvMap<Place, Pool<Key, PeerConn>>>,
    watcher: RefCell<Option<Waker>>,
    mux: Rc<Mux>,
    /// Tries under way.
    pub(super) attempts: Recycler<Attempt>,
}

/// The pool of a group as one location sees it.
pub(crate) fn place(group: &Group, index: Option<usize>, location: u32) -> Option<Place> {
    let keepalive = group.keepalive()?;
    Some((index?, keepalive.local.then_some(location)))
}

impl Pools {
    /// Takes out an idle connection that is still good.
    pub fn take(&self, place: Place, key: &Key, cx: &mut Context<'_>) -> Option<PeerConn> {
        let mut pools = self.idle.borrow_mut();
        let pool = pools.get_mut(&place)?;
        let now = clock::now().millis();
        loop {
            let mut conn = pool.take(key, now)?;
            if conn.is_idle(cx) {
                return Some(conn);
            }
        }
    }

    /// Connections that requests share.
    pub(super) fn mux(&self) -> Rc<Mux> {
        Rc::clone(&self.mux)
    }

    /// How many idle connections there are to the same peer.
    pub fn count(&self, place: Place, key: &Key) -> usize {
        let pools = self.idle.borrow();
        pools.get(&place).map_or(0, |pool| pool.count(key)) + self.mux.count(place, key)
    }

    /// Keeps a connection, if it may be kept.
    pub fn put(&self, place: Place, group: &Group, key: &Key, mut conn: PeerConn) {
        let Some(limits) = group.keepalive() else {
            return;
        };
        let waker = self.watcher.borrow();
        let Some(waker) = &*waker else { return };
        if !conn.is_idle(&mut Context::from_waker(waker)) {
            return;
        }
        let mut pools = self.idle.borrow_mut();
        let pool = pools.entry(place).or_insert_with(|| Pool::new(limits));
        let now = clock::now();
        let age = u64::try_from(now.since(conn.opened).as_millis()).unwrap_or(u64::MAX);
        if !pool.admits(conn.requests, age) {
            return;
        }
        if pool.is_empty() {
            // The watcher has no timer for this pool yet.
            waker.wake_by_ref();
        }
        drop(pool.put(key.clone(), conn, now.millis()));
    }

    /// Closes all idle connections.
    pub fn clear(&self) {
        self.mux.clear();
        self.idle.borrow_mut().clear();
    }

    /// Closes what became readable or was idle for too long; when the next one will have been.
    fn sweep(&self, cx: &mut Context<'_>) -> Option<u64> {
        let now = clock::now().millis();
        let mut pools = self.idle.borrow_mut();
        let mut next = None;
        for pool in pools.values_mut() {
            while pool.pop_expired(now).is_some() {}
            pool.retain(|_, conn| conn.is_idle(cx));
            next = pool.next_expiry().into_iter().chain(next).min();
        }
        next
    }
}

/// Watches the idle connections of a thread for as long as it lives.
pub async fn watch(thread: Weak<Thread>) {
    let mut timer = Timer::default();
    poll_fn(|cx| {
        let Some(thread) = thread.upgrade() else {
            return Poll::Ready(());
        };
        {
            let mut watcher = thread.pools.watcher.borrow_mut();
            if !watcher.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                *watcher = Some(cx.waker().clone());
            }
        }
        loop {
            let deadline = thread.pools.sweep(cx).map(clock::Now::from_millis);
            if timer.poll(cx, deadline).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
}
