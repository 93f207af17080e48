//! The socket of an HTTP/2 connection as the library sees it: what comes goes through a [`Scanner`], and what goes is
//! collected.
//!
//! The library writes a frame at a time, and says after each that it has to go out. Here frames wait until the library has
//! no more, or there are many bytes, so that they leave in one write; the bytes of responses are not copied for it. GOAWAY
//! is put between two frames of the library, because the library's own either ends every request at once or names no last
//! one.

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    fault::{Code, Fault},
    scanner::{Bounds, Head, Scanner},
};
use crate::{
    common::buffer::Buf,
    http::out::{Out, Piece},
    net::Io,
};

/// From so many bytes on a frame's payload is not copied.
const SHARED: usize = 512;
/// More bytes than this are not waited with, whatever follows: with one frame more they are a large write.
const FULL: u64 = 52 << 10;

/// What the library, the connection's task and the tasks of its streams share.
#[derive(Debug)]
pub(super) struct Shared {
    inner: RefCell<Inner>,
    /// Streams whose task has not ended.
    open: Cell<usize>,
    /// Pieces of responses that the library holds.
    queued: Cell<usize>,
    /// What the library writes next, and from where on: it tells only where the bytes are.
    offered: RefCell<Option<(Rc<Piece>, usize)>>,
    /// The task of the connection, to be woken when a stream ends.
    task: RefCell<Option<Waker>>,
}

#[derive(Debug)]
struct Inner {
    /// None once the connection was taken back.
    io: Option<Io>,
    scanner: Scanner,
    /// What was read and not looked at.
    input: Buf,
    /// What the library gets before more of `input`.
    ready: Vec<u8>,
    /// Our own frames.
    own: Vec<u8>,
    /// What waits to be written.
    out: Out,
    /// GOAWAY was put there.
    said_goaway: bool,
    /// The library has written everything that it has.
    is_flushed: bool,
    /// The socket takes no more.
    broken: Option<io::ErrorKind>,
    fault: Option<Fault>,
    eof: bool,
    /// Nothing more is read.
    is_stopped: bool,
}

/// The library's end.
#[derive(Debug)]
pub(super) struct Gate(pub(super) Rc<Shared>);

impl Shared {
    /// A gate in front of `io`, from which `input` was read.
    pub(super) fn new(io: Io, input: Buf, bounds: Bounds) -> Rc<Self> {
        let mut scanner = Scanner::new(bounds);
        let fault = scanner.count(input.len()).err();
        Rc::new(Self {
            inner: RefCell::new(Inner {
                io: Some(io),
                scanner,
                input,
                ready: Vec::new(),
                own: Vec::new(),
                out: Out::default(),
                said_goaway: false,
                is_flushed: false,
                broken: None,
                fault,
                eof: false,
                is_stopped: false,
            }),
            open: Cell::new(0),
            queued: Cell::new(0),
            offered: RefCell::new(None),
            task: RefCell::new(None),
        })
    }

    /// What is wrong, once.
    pub(super) fn take_fault(&self) -> Option<Fault> {
        self.inner.borrow_mut().fault.take()
    }

    /// Lines for the log.
    pub(super) fn take_notes(&self) -> Vec<String> {
        self.inner.borrow_mut().scanner.take_notes()
    }

    /// The head of a stream that the library has accepted.
    pub(super) fn head(&self, stream: u32) -> Option<Head> {
        self.inner.borrow_mut().scanner.head(stream)
    }

    /// Tells the client that no more requests are taken, once.
    pub(super) fn say_goaway(&self, code: Code) {
        self.inner.borrow_mut().say_goaway(code);
    }

    /// The next request is the last one.
    pub(super) fn expire(&self) {
        self.inner.borrow_mut().scanner.expire();
    }

    /// Whether no more requests are taken.
    pub(super) fn is_going(&self) -> bool {
        self.inner.borrow().scanner.is_going()
    }

    /// Whether the head of a request has come in part.
    pub(super) fn is_in_head(&self) -> bool {
        self.inner.borrow().scanner.in_head().is_some()
    }

    /// It takes too long: its stream is reset.
    pub(super) fn give_up_head(&self) {
        const HEAD: [u8; 5] = [0, 0, 4, 3, 0];
        let inner = &mut *self.inner.borrow_mut();
        if let Some(stream) = inner.scanner.give_up_head() {
            inner.own.extend_from_slice(&HEAD);
            inner.own.extend_from_slice(&stream.to_be_bytes());
            inner
                .own
                .extend_from_slice(&(Code::Protocol as u32).to_be_bytes());
        }
    }

    /// Whether a frame has come in part.
    pub(super) fn is_partial(&self) -> bool {
        self.inner.borrow().scanner.is_partial()
    }

    /// Whether a stream's head was late.
    pub(super) fn was_late(&self, stream: u32) -> bool {
        self.inner.borrow().scanner.was_late(stream)
    }

    /// How many requests there were.
    pub(super) fn requests(&self) -> u64 {
        self.inner.borrow().scanner.requests()
    }

    /// Whether the client sends no more.
    pub(super) fn is_eof(&self) -> bool {
        self.inner.borrow().eof
    }

    /// A stream's task begins.
    pub(super) fn enter(&self) {
        self.open.set(self.open.get() + 1);
    }

    /// It ends.
    pub(super) fn leave(&self) {
        self.open.set(self.open.get() - 1);
        self.inner.borrow_mut().scanner.ended();
        if self.open.get() == 0
            && let Some(task) = self.task.take()
        {
            task.wake();
        }
    }

    /// Streams whose task has not ended.
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }

    /// Has the task woken when the last stream ends.
    pub(super) fn wake_at_end(&self, waker: &Waker) {
        self.task.replace(Some(waker.clone()));
    }

    /// `n` bytes of a response are the library's now.
    pub(super) fn queue(&self, n: usize) {
        self.queued.set(self.queued.get() + 1);
        self.inner.borrow_mut().scanner.sent(n);
    }

    /// It has written them, or thrown them away.
    pub(super) fn unqueue(&self) {
        self.queued.set(self.queued.get() - 1);
    }

    /// Whether everything that was to be written is.
    pub(super) fn is_flushed(&self) -> bool {
        let inner = self.inner.borrow();
        self.queued.get() == 0 && inner.is_flushed && inner.is_out()
    }

    /// Whether GOAWAY is written.
    pub(super) fn has_said(&self) -> bool {
        let inner = self.inner.borrow();
        inner.said_goaway && inner.is_out()
    }

    /// The library is about to write bytes of `piece` from `at` on.
    pub(super) fn offer(&self, piece: &Rc<Piece>, at: usize) {
        self.offered.replace(Some((Rc::clone(piece), at)));
    }

    /// Writes what waits. The library has to be asked again after an error, which it gets to know then.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.borrow_mut().poll_out(0, cx)
    }

    /// Takes the socket back.
    pub(super) fn take_io(&self) -> Option<Io> {
        self.inner.borrow_mut().io.take()
    }

    /// Looks at the socket.
    pub(super) fn with_io<T>(&self, look: impl FnOnce(&Io) -> T) -> Option<T> {
        self.inner.borrow().io.as_ref().map(look)
    }
}

impl Inner {
    fn say_goaway(&mut self, code: Code) {
        const HEAD: [u8; 9] = [0, 0, 8, 7, 0, 0, 0, 0, 0];
        let last = self.scanner.stop();
        if std::mem::replace(&mut self.said_goaway, true) {
            return;
        }
        self.own.extend_from_slice(&HEAD);
        self.own.extend_from_slice(&last.to_be_bytes());
        self.own.extend_from_slice(&(code as u32).to_be_bytes());
    }

    /// Moves what is there to the library; false when more has to be read first.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        while buf.remaining() > 0 {
            if !self.ready.is_empty() {
                let n = self.ready.len().min(buf.remaining());
                buf.put_slice(&self.ready[..n]);
                self.ready.drain(..n);
                continue;
            }
            if self.input.is_empty() {
                return !buf.filled().is_empty();
            }
            let passing = self.scanner.passing().min(self.input.len());
            let n = if passing > 0 {
                let n = passing.min(buf.remaining());
                buf.put_slice(&self.input.filled()[..n]);
                self.scanner.passed(n);
                n
            } else {
                match self.scanner.step(self.input.filled(), &mut self.ready) {
                    Ok(n) => n,
                    Err(fault) => {
                        self.fault = Some(fault);
                        self.input = Buf::default();
                        return false;
                    }
                }
            };
            self.input.consume(n);
            if self.scanner.is_going() {
                self.say_goaway(Code::None);
            }
        }
        true
    }

    /// Reads more; ready with false at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.input = Buf::default();
        let Self { io, input, .. } = self;
        let io = io.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        if io.poll_read_ready(cx).is_pending() {
            self.scanner.drained();
            return Poll::Pending;
        }
        *input = Buf::large();
        let Poll::Ready(read) = io.poll_fill(input, usize::MAX, cx) else {
            self.input = Buf::default();
            self.scanner.drained();
            return Poll::Pending;
        };
        let n = read?;
        self.eof |= n == 0;
        self.fault = self.scanner.count(n).err();
        Poll::Ready(Ok(n > 0))
    }

    /// Whether nothing waits to be written.
    fn is_out(&self) -> bool {
        self.own.is_empty() && self.out.is_empty()
    }

    /// Writes until at most `left` bytes wait.
    fn poll_out(&mut self, left: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.out.in_memory() > left {
            if let Some(kind) = self.broken {
                return Poll::Ready(Err(kind.into()));
            }
            let io = self.io.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            if let Err(error) = ready!(self.out.poll_write(io, u64::MAX, cx)) {
                self.broken = Some(error.kind());
                self.out.clear();
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes bytes of the library's over; `offered` may be where they are.
    fn take(&mut self, bytes: &[u8], offered: Option<&(Rc<Piece>, usize)>) {
        if let Some((piece, at)) = offered.filter(|_| bytes.len() >= SHARED)
            && let Some(rest) = piece.memory().and_then(|all| all.get(*at..))
            && std::ptr::eq(rest.as_ptr(), bytes.as_ptr())
            && bytes.len() <= rest.len()
        {
            let part = Piece::Part(Rc::clone(piece), *at, at + bytes.len());
            return self.out.push(part);
        }
        self.out.copy(bytes);
    }
}

impl AsyncRead for Gate {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let inner = &mut *self.0.inner.borrow_mut();
        loop {
            if inner.is_stopped || inner.fault.is_some() {
                inner.is_stopped = true;
                // Nothing more is read: the connection ends.
                return Poll::Pending;
            }
            if inner.give(buf) {
                return Poll::Ready(Ok(()));
            }
            if inner.fault.is_none() && !ready!(inner.poll_fill(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Gate {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = &mut *self.0.inner.borrow_mut();
        inner.is_flushed = false;
        ready!(inner.poll_out(FULL, cx))?;
        if let Some(kind) = inner.broken {
            return Poll::Ready(Err(kind.into()));
        }
        let offered = self.0.offered.take();
        let mut taken = 0;
        for buf in bufs.iter().filter(|buf| !buf.is_empty()) {
            inner.take(buf, offered.as_ref());
            taken += buf.len();
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// A frame ends here; it goes out in [`Shared::poll_flush`].
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = &mut *self.0.inner.borrow_mut();
        self.0.offered.take();
        if let Some(kind) = inner.broken {
            return Poll::Ready(Err(kind.into()));
        }
        let own = std::mem::take(&mut inner.own);
        if !own.is_empty() {
            inner.out.copy(&own);
        }
        inner.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection's task does this.
        Poll::Ready(Ok(()))
    }
}
