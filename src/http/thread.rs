//! What one thread owns: its share of the connections, its pools of idle upstream connections, its logs.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt,
    rc::Rc,
    sync::Arc,
    task::Waker,
};

use super::{
    conn::Conn,
    counts::Tally,
    down::Down,
    h1::headers::Headers,
    h2::{Job, Runners, Stream},
    live::Live,
    out::Out,
    proxy::pool::Pools,
    request::Request,
    response::Response,
};
use crate::{
    common::{
        buffer::Buf,
        clock,
        prefetch::Prefetch,
        random::Random,
        recycle::{Recycler, Spares},
    },
    conf::model::Level,
    log::AccessLogs,
    net::{resolver::Resolvers, splice::Pipes},
};

/// One thread's share of the http service.
#[derive(Debug)]
pub struct Thread {
    /// What all threads share.
    pub live: Arc<Live>,
    /// The thread's access logs.
    pub access: Rc<AccessLogs>,
    /// Idle connections to upstreams.
    pub pools: Pools,
    pub(super) tally: Arc<Tally>,
    active: Cell<usize>,
    /// Requests on streams that were done.
    done: Cell<u64>,
    shutting_down: Cell<bool>,
    ending: Cell<bool>,
    /// Idle client connections, to be woken when the thread shuts down.
    idle: RefCell<HashMap<u64, Waker>>,
    /// For balancing and for `$request_id`, not for secrets.
    pub(super) random: Random,
    /// The thread's resolvers.
    pub(super) resolvers: Resolvers,
    /// Tasks for requests on streams.
    pub(super) runners: Runners<Job>,
    /// Pipes for bodies that are spliced.
    pub(super) pipes: Pipes,
    spare: Spares<Parts>,
    vecs: Spares<Vec<u8>>,
    shared: Spares<Rc<Vec<u8>>>,
    /// Connections of streams that are over.
    conns: Spares<Box<Conn>>,
    /// Streams of HTTP/2.
    pub(super) streams: Recycler<Stream>,
}

/// Parts of an exchange that are kept for the next one, with their memory.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) request: Box<Request>,
    pub(super) response: Box<Response>,
    pub(super) upstream_headers: Headers,
    pub(super) out: Out,
    pub(super) upstream_out: Out,
}

impl Prefetch for Parts {
    #[inline]
    fn prefetch(&self) {
        self.request.prefetch();
        self.response.prefetch();
    }
}

/// Vectors that have become longer than this are not kept, bytes.
const LONGEST: usize = 8192;

impl Thread {
    /// The calling thread's share of `live`.
    pub fn new(live: Arc<Live>, access: Rc<AccessLogs>) -> Rc<Self> {
        let seed = clock::now().micros() ^ (std::ptr::from_ref(&*live) as u64).rotate_left(32);
        let sink = live.main_sink();
        let complain = move |message: fmt::Arguments<'_>| sink.emit(Level::Error, None, message);
        Rc::new(Self {
            tally: live.counts.tally(),
            live,
            access,
            pools: Pools::default(),
            active: Cell::new(0),
            done: Cell::new(0),
            shutting_down: Cell::new(false),
            ending: Cell::new(false),
            idle: RefCell::default(),
            random: Random::new(seed),
            resolvers: Resolvers::new(complain),
            runners: Runners::default(),
            pipes: Pipes::default(),
            spare: Spares::new(),
            vecs: Spares::new(),
            shared: Spares::new(),
            conns: Spares::new(),
            streams: Recycler::default(),
        })
    }

    /// Open client connections.
    pub fn active(&self) -> usize {
        self.active.get()
    }

    /// How many requests on streams were done: when it has changed, the thread is busy.
    pub(super) fn done(&self) -> u64 {
        self.done.get()
    }

    /// One more was.
    pub(super) fn count_done(&self) {
        self.done.set(self.done.get() + 1);
    }

    /// A connection was accepted and is closed at once.
    pub fn turn_away(&self) {
        self.tally.turned_away();
    }

    pub(super) fn opened(&self) {
        self.active.set(self.active.get() + 1);
    }

    pub(super) fn closed(&self) {
        self.active.set(self.active.get() - 1);
    }

    /// Ends idle connections; those with a request end after it.
    pub fn shutdown(&self) {
        self.shutting_down.set(true);
        for (_, waker) in self.idle.borrow_mut().drain() {
            waker.wake();
        }
        self.pools.clear();
    }

    /// Whether no further requests are taken.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.get()
    }

    /// The time that `worker_shutdown_timeout` gives requests is over: those that are dropped from now on are logged.
    pub fn end_requests(&self) {
        self.ending.set(true);
    }

    /// Whether requests that are dropped are logged.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    /// Has the waker called when the thread shuts down.
    pub(super) fn wake_at_shutdown(&self, conn: u64, waker: &Waker) {
        match self.idle.borrow_mut().entry(conn) {
            std::collections::hash_map::Entry::Occupied(mut entry)
                if !entry.get().will_wake(waker) =>
            {
                entry.insert(waker.clone());
            }
            std::collections::hash_map::Entry::Occupied(_) => {}
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(waker.clone());
            }
        }
    }

    pub(super) fn forget_idle(&self, conn: u64) {
        self.idle.borrow_mut().remove(&conn);
    }

    /// Parts of an exchange, with memory from earlier ones.
    pub(super) fn recycled(&self) -> Parts {
        self.spare.pop().unwrap_or_default()
    }

    pub(super) fn recycle(&self, mut parts: Parts) {
        parts.request.reset();
        parts.response.reset();
        parts.upstream_headers.end();
        parts.out.clear();
        parts.upstream_out.clear();
        self.spare.keep(parts);
    }

    /// An empty vector, perhaps with memory from before.
    pub fn take_vec(&self) -> Vec<u8> {
        self.vecs.pop().unwrap_or_else(|| Vec::with_capacity(512))
    }

    /// An empty vector that may be shared, perhaps with memory from before.
    pub(super) fn take_shared(&self) -> Rc<Vec<u8>> {
        self.shared
            .pop()
            .unwrap_or_else(|| Rc::new(Vec::with_capacity(512)))
    }

    /// Gives it back, which nobody else may have any more.
    pub(super) fn give_shared(&self, mut shared: Rc<Vec<u8>>) {
        debug_assert_eq!(Rc::strong_count(&shared), 1, "its memory would be lost");
        if let Some(vec) = Rc::get_mut(&mut shared)
            && (1..=LONGEST).contains(&vec.capacity())
        {
            vec.clear();
            self.shared.keep(shared);
        }
    }

    /// A connection for a stream, that of `conn`, in memory of an earlier one.
    pub(super) fn take_conn(&self, conn: Conn) -> Box<Conn> {
        match self.conns.pop() {
            Some(mut place) => {
                *place = conn;
                place
            }
            None => Box::new(conn),
        }
    }

    /// Gives it back, without the stream.
    pub(super) fn give_conn(&self, mut conn: Box<Conn>) {
        if let Down::Stream(stream) = std::mem::replace(&mut conn.io, Down::Gone) {
            self.streams.end(stream);
        }
        conn.buf = Buf::default();
        (conn.proxied, conn.tls) = (None, None);
        self.conns.keep(conn);
    }

    /// Gives a vector back.
    pub fn give_vec(&self, mut vec: Vec<u8>) {
        if vec.capacity() <= LONGEST {
            vec.clear();
            self.vecs.keep(vec);
        }
    }
}
