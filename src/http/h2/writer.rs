//! What the library writes, on its way to a socket, towards clients and towards upstreams.
//!
//! The library writes a frame at a time, and says after each that it has to go out. Here frames wait until the library has
//! no more, or there are many bytes, so that they leave in one write; the bytes of bodies are not copied for it.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    rc::Rc,
    task::{Context, Poll, ready},
};

use super::outgoing::{Outgoing, Part, Unknown};
use crate::{
    http::out::{Out, Piece},
    net::Io,
};

/// From so many bytes on a frame's payload is not copied.
const SHARED: usize = 512;
/// More bytes than this are not waited with, whatever follows: with one frame more they are a large write.
const FULL: u64 = 52 << 10;

/// Frames that wait to be written.
#[derive(Debug, Default)]
pub(in crate::http) struct Writer {
    /// Heads, and where they go.
    pub(in crate::http) heads: Outgoing,
    out: Out,
    /// The socket takes no more.
    broken: Option<io::ErrorKind>,
}

/// What the library writes next, and from where on: it tells only where the bytes are.
#[derive(Debug, Default)]
pub(in crate::http) struct Offer(RefCell<Option<(Rc<Piece>, usize)>>);

impl Offer {
    /// The library is about to write bytes of `piece` from `at` on.
    pub(in crate::http) fn set(&self, piece: &Rc<Piece>, at: usize) {
        self.0.replace(Some((Rc::clone(piece), at)));
    }

    /// It has written them.
    pub(in crate::http) fn take(&self) -> Option<(Rc<Piece>, usize)> {
        self.0.take()
    }
}

impl Writer {
    /// One towards a client.
    pub(super) fn of_server() -> Self {
        Self {
            heads: Outgoing::with_table(),
            ..Self::default()
        }
    }

    /// One whose first bytes are the preface of a client.
    pub(in crate::http) fn of_client() -> Self {
        Self {
            heads: Outgoing::after(super::scanner::PREFACE.len()),
            ..Self::default()
        }
    }

    /// Takes the library's bytes over, some of which may be what is `offered`; how many.
    pub(in crate::http) fn poll_take(
        &mut self,
        bufs: &[IoSlice<'_>],
        offered: &Offer,
        io: &mut Io,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_out(FULL, io, cx))?;
        self.check()?;
        let offered = offered.take();
        let mut taken = 0;
        for buf in bufs.iter().filter(|buf| !buf.is_empty()) {
            self.take(buf, offered.as_ref());
            taken += buf.len();
        }
        Poll::Ready(self.check().map(|()| taken))
    }

    fn take(&mut self, bytes: &[u8], offered: Option<&(Rc<Piece>, usize)>) {
        let Self { heads, out, .. } = self;
        let taken = heads.take(bytes, &mut |part| match part {
            Part::Other(bytes) => out.copy(bytes),
            Part::Payload(bytes) => match offered.and_then(|offered| shared(bytes, offered)) {
                Some(piece) => out.push(piece),
                None => out.copy(bytes),
            },
        });
        if let Err(Unknown) = taken {
            self.broken = Some(io::ErrorKind::Other);
        }
    }

    /// The library has nothing in hand; `own` are frames of ours.
    pub(in crate::http) fn flushed(&mut self, own: &mut Vec<u8>) -> io::Result<()> {
        self.check()?;
        if !own.is_empty() {
            self.out.copy(own);
            own.clear();
        }
        self.heads.flushed();
        Ok(())
    }

    /// Writes until at most `left` bytes wait.
    pub(in crate::http) fn poll_out(
        &mut self,
        left: u64,
        io: &mut Io,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.out.in_memory() > left {
            self.check()?;
            if let Err(error) = ready!(self.out.poll_write(io, u64::MAX, cx)) {
                self.broken = Some(error.kind());
                self.out.clear();
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether something waits, and it is no large write.
    pub(in crate::http) fn is_little(&self) -> bool {
        (1..FULL).contains(&self.out.in_memory())
    }

    /// Whether nothing waits.
    pub(in crate::http) fn is_out(&self) -> bool {
        self.out.is_empty()
    }

    fn check(&self) -> io::Result<()> {
        self.broken.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

/// Bytes that are not worth a copy, where they are.
fn shared(bytes: &[u8], (piece, at): &(Rc<Piece>, usize)) -> Option<Piece> {
    let rest = piece.memory()?.get(*at..)?;
    let is_there = std::ptr::eq(rest.as_ptr(), bytes.as_ptr()) && bytes.len() <= rest.len();
    (is_there && bytes.len() >= SHARED)
        .then(|| Piece::Part(Rc::clone(piece), *at, at + bytes.len()))
}
