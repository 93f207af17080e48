//! One connection to a peer, and the task that moves its frames.

use std::{
    cell::{Cell, OnceCell},
    future::{Future, poll_fn},
    pin::pin,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::{Request, Uri};

use super::{
    gate::{Gate, Shared},
    heads::LARGEST,
    mux::{Mux, Place},
    stream::Chunk,
};
use crate::{
    common::clock::{self, Now},
    conf::model::Keepalive,
    net::{Io, Timer},
};

/// How much of a response the library takes for a stream whose client does not read, bytes.
// DIFFERS(upstream-window): nginx opens the window without bound, and reads no more from the socket instead.
const WINDOW: u32 = 512 << 10;
/// The same for all streams of a connection: without bound, so that none holds up another.
const ALL_WINDOWS: u32 = 0x7fff_ffff;
/// How much of a request it holds for a stream that the peer does not take, bytes.
const SEND_BUFFER: usize = 128 << 10;
/// How many streams we have ended it remembers, so that what is on its way for them is no error.
const ENDED: usize = 1000;

/// How long the last bytes on a connection that is not kept may take to be written.
const GOODBYE: Duration = Duration::from_millis(100);

/// A connection that requests share.
#[derive(Debug)]
pub(super) struct Line {
    send: SendRequest<Chunk>,
    pub(super) shared: Rc<Shared>,
    state: Rc<State>,
    home: Option<Home>,
}

/// Where a connection is kept between requests.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) mux: Weak<Mux>,
    pub(super) place: Place,
    pub(super) limits: Keepalive,
}

#[derive(Debug)]
struct State {
    opened: Now,
    requests: Cell<u64>,
    streams: Cell<usize>,
    /// When the last of them ended.
    idle_since: Cell<Now>,
    /// More requests may come.
    is_kept: Cell<bool>,
    /// Its task, which stays the same.
    task: OnceCell<Waker>,
    /// It has ended.
    is_over: Cell<bool>,
}

/// What a new stream is made of.
pub(super) type Opened = (ResponseFuture, h2::SendStream<Chunk>);

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(WINDOW)
        .initial_connection_window_size(ALL_WINDOWS)
        .max_header_list_size(LARGEST)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(ENDED)
        .max_local_error_reset_streams(None)
        // As nginx: nothing is remembered of one head for the next.
        .header_table_size(0)
        .enable_push(false);
    builder
}

impl Line {
    /// Begins to speak HTTP/2 on `io`.
    pub(super) async fn begin(io: Io, home: Option<Home>) -> Result<Rc<Self>, h2::Error> {
        let shared = Shared::new(io);
        let gate = Gate(Rc::clone(&shared));
        let (send, connection) = builder().handshake(gate).await?;
        let now = clock::now();
        let state = Rc::new(State {
            opened: now,
            requests: Cell::new(0),
            streams: Cell::new(0),
            idle_since: Cell::new(now),
            is_kept: Cell::new(home.is_some()),
            task: OnceCell::new(),
            is_over: Cell::new(false),
        });
        let gate = Rc::clone(&shared);
        let task = drive(connection, gate, Rc::clone(&state), home.clone());
        tokio::task::spawn_local(Box::pin(task));
        Ok(Rc::new(Self {
            send,
            shared,
            state,
            home,
        }))
    }

    /// Whether it takes one more request.
    pub(super) fn has_room(&self, cx: &mut Context<'_>) -> bool {
        let state = &self.state;
        let is_young = self.home.as_ref().is_none_or(|home| {
            state.requests.get() < home.limits.requests
                && clock::now().since(state.opened) <= home.limits.time
        });
        is_young
            && !state.is_over.get()
            && state.streams.get() < self.send.current_max_send_streams()
            && matches!(self.send.clone().poll_ready(cx), Poll::Ready(Ok(())))
    }

    /// Whether a request can never again be sent over it.
    pub(super) fn is_over(&self) -> bool {
        self.state.is_over.get()
    }

    /// Whether no request is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.state.streams.get() == 0
    }

    /// Since when there is none.
    pub(super) fn idle_since(&self) -> Now {
        self.state.idle_since.get()
    }

    /// Whether a request was sent before.
    pub(super) fn is_used(&self) -> bool {
        self.state.requests.get() > 0
    }

    /// Begins a request whose header block is `head`; `is_all`: nothing follows it.
    pub(super) fn open(&self, head: &[u8], is_all: bool) -> Result<Opened, h2::Error> {
        // The shortest one there is, in whose place ours goes.
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from_static("http://u");
        let opened = self.send.clone().send_request(request, is_all)?;
        let stream = opened.0.stream_id().as_u32();
        self.shared.put_head(stream, head);
        self.shared.heads().expect(stream);
        self.state.requests.set(self.state.requests.get() + 1);
        self.state.streams.set(self.state.streams.get() + 1);
        Ok(opened)
    }

    /// A request has ended, whichever way.
    pub(super) fn ended(self: &Rc<Self>) {
        let left = self.state.streams.get() - 1;
        self.state.streams.set(left);
        if left > 0 {
            return;
        }
        self.shared.rest();
        self.state.idle_since.set(clock::now());
        if !self.state.is_kept.get()
            && let Some(task) = self.state.task.get()
        {
            // The library does not say it in any case.
            task.wake_by_ref();
        }
        if let Some(home) = &self.home
            && let Some(mux) = home.mux.upgrade()
        {
            let is_worn = self.state.requests.get() >= home.limits.requests
                || clock::now().since(self.state.opened) > home.limits.time;
            mux.trim(home, is_worn.then_some(self));
        }
    }

    /// It gets no more requests, and closes when those that it has are over.
    pub(super) fn retire(&self) {
        forget(&self.state, self.home.as_ref());
    }

    /// It is in nobody's list any more.
    pub(super) fn removed(&self) {
        self.state.is_kept.set(false);
    }

    /// Whether this is the connection of `state`.
    fn is_of(&self, state: &Rc<State>) -> bool {
        Rc::ptr_eq(&self.state, state)
    }
}

/// Moves frames until the connection ends: by the peer, or when nobody has a use for it.
async fn drive(
    connection: Connection<Gate, Chunk>,
    gate: Rc<Shared>,
    state: Rc<State>,
    home: Option<Home>,
) {
    let mut connection = pin!(connection);
    let mut timer = Timer::default();
    poll_fn(|cx| {
        state.task.get_or_init(|| cx.waker().clone());
        loop {
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            // The library has written all that it can.
            if let Poll::Ready(Err(_)) = gate.poll_flush(cx) {
                continue;
            }
            if timer.poll(cx, deadline(&state, home.as_ref())).is_pending() {
                return Poll::Pending;
            }
            if state.streams.get() == 0 {
                forget(&state, home.as_ref());
                // The library says goodbye when nobody holds its other end. A peer that does not take it is left without.
                if connection.as_mut().poll(cx).is_ready() || gate.poll_flush(cx).is_pending() {
                    return Poll::Ready(());
                }
                return Poll::Pending;
            }
        }
    })
    .await;
    state.is_over.set(true);
    forget(&state, home.as_ref());
}

/// When to look whether a connection has been without requests for too long.
fn deadline(state: &State, home: Option<&Home>) -> Option<Now> {
    let idle_since = state.idle_since.get();
    match home.filter(|_| state.is_kept.get()) {
        Some(home) if state.streams.get() == 0 => Some(idle_since.after(home.limits.timeout)),
        // Nobody says when the last request ends: that would cost more than a look now and then.
        Some(home) => Some(clock::now().after(home.limits.timeout)),
        None if state.streams.get() == 0 => Some(idle_since.after(GOODBYE)),
        None => None,
    }
}

fn forget(state: &Rc<State>, home: Option<&Home>) {
    if let Some(home) = home
        && let Some(mux) = home.mux.upgrade()
    {
        mux.remove(home.place, |line| line.is_of(state));
    }
}
