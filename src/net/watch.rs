//! Many sockets that one task waits for.
//!
//! A session of datagrams is often two packets long. To register each socket with the runtime costs memory and an event
//! whenever there is room to write; a task for each costs more. So they have a set of their own, which is registered
//! once: an epoll instance within the runtime's. Events come once for what is new (`EPOLLET`).

use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    task::{Context, Poll, ready},
};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use tokio::io::{Interest, unix::AsyncFd};

/// A set of sockets, each with a number that its events bear. A socket that is closed leaves it.
#[derive(Debug)]
pub struct Watch {
    epoll: AsyncFd<Instance>,
    events: Box<[EpollEvent]>,
}

#[derive(Debug)]
struct Instance(Epoll);

impl AsRawFd for Instance {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// What happened at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The socket's number.
    pub number: u64,
    /// There is room to write; otherwise something has come, or there is an error to be read.
    pub is_writable: bool,
}

/// How many events are taken at once.
const EVENTS: usize = 256;

impl Watch {
    /// An empty set. Needs tokio's context.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self {
            epoll: register(epoll)?,
            events: vec![EpollEvent::empty(); EVENTS].into(),
        })
    }

    /// Waits from now on for something to read from a socket.
    pub fn add(&self, socket: impl AsFd, number: u64) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, number);
        Ok(self.epoll.get_ref().0.add(socket, event)?)
    }

    /// Waits from now on for room to write too, or no longer.
    pub fn set_writing(&self, socket: impl AsFd, number: u64, writing: bool) -> io::Result<()> {
        let mut flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        flags.set(EpollFlags::EPOLLOUT, writing);
        let mut event = EpollEvent::new(flags, number);
        Ok(self.epoll.get_ref().0.modify(socket, &mut event)?)
    }

    /// Takes what has happened into `out`, which is empty.
    pub fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vec<Event>) -> Poll<io::Result<()>> {
        let Self { epoll, events } = self;
        loop {
            let mut guard = ready!(epoll.poll_read_ready(cx))?;
            let n = epoll.get_ref().0.wait(events, EpollTimeout::ZERO)?;
            if n < events.len() {
                // What happens from here on makes it ready again.
                guard.clear_ready();
            }
            if n > 0 {
                out.extend(events[..n].iter().map(|event| Event {
                    number: event.data(),
                    is_writable: event.events().contains(EpollFlags::EPOLLOUT),
                }));
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types whose descriptor changes; this one keeps its own to its end"
)]
fn register(epoll: Epoll) -> io::Result<AsyncFd<Instance>> {
    AsyncFd::with_interest(Instance(epoll), Interest::READABLE)
}
