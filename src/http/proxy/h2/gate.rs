//! The socket of a connection to a peer as the library sees it: what comes goes through [`Heads`].

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::heads::Heads;
use crate::{common::buffer::Buf, net::Io};

/// The library's end.
#[derive(Debug)]
pub(super) struct Gate {
    io: Io,
    heads: Rc<RefCell<Heads>>,
    /// What was read and not looked at.
    input: Buf,
    /// What the library gets before more of `input`.
    ready: Vec<u8>,
}

impl Gate {
    /// A gate in front of `io`, which puts heads into `heads`.
    pub(super) fn new(io: Io, heads: Rc<RefCell<Heads>>) -> Self {
        Self {
            io,
            heads,
            input: Buf::default(),
            ready: Vec::new(),
        }
    }

    /// Moves what is there to the library; false when more has to be read first.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<bool> {
        let heads = &mut *self.heads.borrow_mut();
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
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.give(buf)? || !ready!(self.poll_fill(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Gate {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_shutdown(cx)
    }
}
