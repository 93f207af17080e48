//! The socket of a connection to a peer as the library sees it: what comes goes through [`Heads`], and what goes is collected
//! by a [`Writer`].

use std::{
    cell::{Cell, RefCell, RefMut},
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::heads::Heads;
use crate::{
    common::buffer::Buf,
    http::h2::{
        outgoing,
        writer::{Offer, Writer},
    },
    net::Io,
};

/// What the library, the connection's task and its requests share.
#[derive(Debug)]
pub(super) struct Shared {
    inner: RefCell<Inner>,
    heads: RefCell<Heads>,
    /// What the library writes next.
    pub(super) offered: Offer,
    /// How often something has come.
    reads: Cell<u64>,
}

#[derive(Debug)]
struct Inner {
    io: Io,
    writer: Writer,
    /// What was read and not looked at.
    input: Buf,
    /// What the library gets before more of `input`.
    ready: Vec<u8>,
}

/// The library's end.
#[derive(Debug)]
pub(super) struct Gate(pub(super) Rc<Shared>);

impl Shared {
    /// A gate in front of `io`.
    pub(super) fn new(io: Io) -> Rc<Self> {
        Rc::new(Self {
            inner: RefCell::new(Inner {
                io,
                writer: Writer::of_client(),
                input: Buf::default(),
                ready: Vec::new(),
            }),
            heads: RefCell::new(Heads::new()),
            offered: Offer::default(),
            reads: Cell::new(0),
        })
    }

    /// The heads that have come.
    pub(super) fn heads(&self) -> RefMut<'_, Heads> {
        self.heads.borrow_mut()
    }

    /// How often something has come, of whatever kind.
    pub(super) fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// The library has a head for a stream: this one is to go out.
    pub(super) fn put_head(&self, stream: u32, block: &[u8]) {
        let heads = &mut self.inner.borrow_mut().writer.heads;
        let mut memory = outgoing::memory();
        memory.extend_from_slice(block);
        heads.push(stream, memory);
    }

    /// No request is on its way.
    pub(super) fn rest(&self) {
        self.inner.borrow_mut().writer.heads.rest();
    }

    /// Writes what waits. The library has to be asked again after an error, which it gets to know then.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Inner { io, writer, .. } = &mut *self.inner.borrow_mut();
        writer.poll_out(0, io, cx)
    }
}

impl Inner {
    /// Moves what is there to the library; false when more has to be read first.
    fn give(&mut self, heads: &mut Heads, buf: &mut ReadBuf<'_>) -> io::Result<bool> {
        while buf.remaining() > 0 {
            if !self.ready.is_empty() {
                let n = self.ready.len().min(buf.remaining());
                buf.put_slice(&self.ready[..n]);
                self.ready.drain(..n);
                continue;
            }
            if self.input.is_empty() {
                return Ok(!buf.filled().is_empty());
            }
            let passing = heads.passing().min(self.input.len());
            let n = if passing > 0 {
                let n = passing.min(buf.remaining());
                buf.put_slice(&self.input.filled()[..n]);
                heads.passed(n);
                n
            } else {
                let step = heads.step(self.input.filled(), &mut self.ready);
                step.map_err(|broken| io::Error::new(io::ErrorKind::InvalidData, broken.0))?
            };
            self.input.consume(n);
        }
        Ok(true)
    }

    /// Reads more; ready with false at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        // An idle connection holds no buffer.
        self.input = Buf::default();
        ready!(self.io.poll_read_ready(cx))?;
        self.input = Buf::large();
        match self.io.poll_fill(&mut self.input, usize::MAX, cx) {
            Poll::Ready(n) => Poll::Ready(n.map(|n| n > 0)),
            Poll::Pending => {
                self.input = Buf::default();
                Poll::Pending
            }
        }
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
            if inner.give(&mut self.0.heads(), buf)? || !ready!(inner.poll_fill(cx))? {
                return Poll::Ready(Ok(()));
            }
            self.0.reads.set(self.0.reads.get() + 1);
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
        let Inner { io, writer, .. } = &mut *self.0.inner.borrow_mut();
        writer.poll_take(bufs, &self.0.offered, io, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// A frame ends here; it goes out in [`Shared::poll_flush`].
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.offered.take();
        let flushed = self.0.inner.borrow_mut().writer.flushed(&mut Vec::new());
        Poll::Ready(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_flush(cx))?;
        self.0.inner.borrow_mut().io.poll_shutdown(cx)
    }
}
