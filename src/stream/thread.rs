//! What one thread owns: its share of the sessions, its logs, its pipes.

use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt,
    rc::Rc,
    sync::Arc,
    task::Waker,
};

use super::live::Live;
use crate::{
    common::{clock, hash::FnvMap, random::Random},
    conf::model::Level,
    log::AccessLogs,
    net::{datagrams::Room, resolver::Resolvers, splice::Pipes},
};

/// One thread's share of the stream service.
#[derive(Debug)]
pub struct Thread {
    /// What all threads share.
    pub live: Arc<Live>,
    /// The thread's access logs.
    pub access: Rc<AccessLogs>,
    /// For balancing.
    pub(super) random: Random,
    /// The thread's resolvers.
    pub(super) resolvers: Resolvers,
    /// Pipes for sessions that move much.
    pub(super) pipes: Pipes,
    /// Sessions under way, to be woken when they have to end.
    sessions: RefCell<FnvMap<u64, Waker>>,
    ending: Cell<bool>,
    leaving: Cell<bool>,
    /// For datagrams; taken when there is the first socket for them.
    pub(super) room: OnceCell<RefCell<Room>>,
}

impl Thread {
    /// The calling thread's share of `live`.
    pub fn new(live: Arc<Live>, access: Rc<AccessLogs>) -> Rc<Self> {
        let seed = clock::now().micros() ^ (std::ptr::from_ref(&*live) as u64).rotate_left(16);
        let sink = live.main_sink();
        let complain = move |message: fmt::Arguments<'_>| sink.emit(Level::Error, None, message);
        Rc::new(Self {
            live,
            access,
            random: Random::new(seed),
            resolvers: Resolvers::new(complain),
            pipes: Pipes::default(),
            sessions: RefCell::default(),
            ending: Cell::new(false),
            leaving: Cell::new(false),
            room: OnceCell::new(),
        })
    }

    /// Takes no more datagrams; the sessions that they have made go on. Connections are for the runtime to accept or not.
    pub fn quit(&self) {
        self.leaving.set(true);
        self.wake();
    }

    /// Whether no more datagrams are taken.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    fn wake(&self) {
        for waker in self.sessions.borrow().values() {
            waker.wake_by_ref();
        }
    }

    /// Ends all sessions: the time that `worker_shutdown_timeout` gives them is over. Until then they go on, as in nginx.
    pub async fn end_sessions(&self) {
        self.ending.set(true);
        self.wake();
        // Not all of them run before the runtime comes back here.
        let most = self.sessions.borrow().len();
        for _ in 0..most {
            tokio::task::yield_now().await;
            if self.sessions.borrow().is_empty() {
                break;
            }
        }
    }

    /// Whether sessions have to end now.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    /// A session begins; its task never changes.
    pub(super) fn enter(&self, session: u64, waker: &Waker) {
        self.sessions.borrow_mut().insert(session, waker.clone());
    }

    /// A session has ended.
    pub(super) fn leave(&self, session: u64) {
        self.sessions.borrow_mut().remove(&session);
    }
}
