//! The socket of an HTTP/2 connection as the library sees it: what comes goes through a [`Scanner`], and what goes is
//! collected by a [`Writer`].
//!
//! GOAWAY is put between two frames of the library, because the library's own either ends every request at once or names no
//! last one.

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    block::Block,
    fault::{Code, Fault},
    outgoing,
    scanner::{Bounds, Head, Scanner},
    writer::{Offer, Writer},
};
use crate::{common::buffer::Buf, http::out::Piece, net::Io};

/// What the library, the connection's task and the tasks of its streams share.
#[derive(Debug)]
pub(super) struct Shared {
    inner: RefCell<Inner>,
    /// Streams whose task has not ended.
    open: Cell<usize>,
    /// Pieces of responses that the library holds.
    queued: Cell<usize>,
    /// What the library writes next.
    offered: Offer,
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
    writer: Writer,
    /// The client has said how large its table is, and no head was made since.
    has_table_size: bool,
    /// GOAWAY was put there.
    said_goaway: bool,
    /// The library has written everything that it has.
    is_flushed: bool,
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
                writer: Writer::of_server(),
                has_table_size: false,
                said_goaway: false,
                is_flushed: false,
                fault,
                eof: false,
                is_stopped: false,
            }),
            open: Cell::new(0),
            queued: Cell::new(0),
            offered: Offer::default(),
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
        if self.open.get() == 0 {
            let inner = &mut *self.inner.borrow_mut();
            inner.writer.heads.rest();
            if let Some(task) = self.task.take() {
                task.wake();
            }
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

    /// A header block that is empty.
    pub(super) fn block(&self) -> Block {
        let inner = &mut *self.inner.borrow_mut();
        let mut block = Block::new(outgoing::memory(), inner.scanner.frame_size());
        if std::mem::take(&mut inner.has_table_size) {
            block.answer_table();
        }
        block
    }

    /// The library has a head for a stream: this one is to go out.
    pub(super) fn put_head(&self, stream: u32, block: Block) {
        let inner = &mut *self.inner.borrow_mut();
        inner.writer.heads.push(stream, block.into_bytes());
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

    /// Whether a little is to be written, and other requests are on their way.
    pub(super) fn may_wait(&self) -> bool {
        self.open.get() > 0 && self.inner.borrow().writer.is_little()
    }

    /// Whether GOAWAY is written.
    pub(super) fn has_said(&self) -> bool {
        let inner = self.inner.borrow();
        inner.said_goaway && inner.is_out()
    }

    /// The library is about to write bytes of `piece` from `at` on.
    pub(super) fn offer(&self, piece: &Rc<Piece>, at: usize) {
        self.offered.set(piece, at);
    }

    /// Writes what waits. The library has to be asked again after an error, which it gets to know then.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.borrow_mut().poll_out(cx)
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
            if let Some(stream) = self.scanner.take_reset() {
                self.writer.heads.end(stream);
            }
            self.writer.heads.limit_frames(self.scanner.frame_size());
            if let Some(max) = self.scanner.take_table_size() {
                self.writer.heads.limit_table(max);
                self.has_table_size = true;
            }
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
        self.own.is_empty() && self.writer.is_out()
    }

    /// Writes all that waits.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, writer, .. } = self;
        let io = io.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        writer.poll_out(0, io, cx)
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
        let Inner { io, writer, .. } = inner;
        let io = io.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        writer.poll_take(bufs, &self.0.offered, io, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// A frame ends here; it goes out in [`Shared::poll_flush`].
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = &mut *self.0.inner.borrow_mut();
        self.0.offered.take();
        inner.writer.flushed(&mut inner.own)?;
        inner.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection's task does this.
        Poll::Ready(Ok(()))
    }
}
