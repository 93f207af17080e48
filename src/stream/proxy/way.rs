//! One direction of a relay: from one socket to the other, with what waits between them.
//!
//! One system call a read and one a write, no memory while nothing waits. Mirrors the loop of `ngx_stream_proxy_process`.

use std::{
    io,
    task::{Context, Poll, ready},
};

use super::{bulk::Bulk, rate::Rate};
use crate::{
    common::{
        buffer::{Buf, LARGE, SMALL},
        clock::{self, Now},
    },
    net::{Io, splice::Pipes},
};

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Way {
    buf: Buf,
    bulk: Bulk,
    rate: Option<Box<Rate>>,
    /// `TCP_NODELAY` is still to be set where it goes to.
    nodelay: bool,
    /// Reading saw the end.
    pub eof: bool,
    /// The end was passed on.
    pub is_shut: bool,
    /// Bytes that were read.
    pub read: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Why reading ended before the end of the stream.
    pub read_error: Option<io::Error>,
    /// Why nothing can be written any more.
    pub write_error: Option<io::Error>,
}

impl Way {
    /// A direction with a limit, if it has one; `first` goes out before anything that is read. `nodelay`: `tcp_nodelay`.
    pub(super) fn new(rate: Option<Rate>, nodelay: bool, first: &[u8]) -> Self {
        let mut way = Self {
            rate: rate.map(Box::new),
            nodelay,
            ..Self::default()
        };
        if !first.is_empty() {
            way.buf = Buf::with_capacity(first.len().max(SMALL));
            way.buf.extend(first);
        }
        way
    }

    /// Whether something was read that is not written yet.
    pub(super) fn holds(&self) -> bool {
        !self.buf.is_empty() || self.bulk.holds()
    }

    /// The end is still to be passed on, if it is to be at all.
    pub(super) fn is_ending(&self) -> bool {
        self.eof && !self.is_shut && !self.holds()
    }

    /// Nothing is read before this moment, because of a limit.
    pub(super) fn pausing(&mut self, now: Now) -> Option<Now> {
        self.rate.as_mut()?.pausing(now)
    }

    /// Moves what it can from `from` to `to`, at most `size` bytes at once as long as they are few; true when something
    /// happened.
    pub(super) fn poll(
        &mut self,
        (from, to): (&mut Io, &mut Io),
        size: usize,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> bool {
        let mut moved = false;
        if !(from.is_plain() && to.is_plain()) {
            self.bulk.forbid();
        }
        loop {
            let step = if self.holds() {
                self.poll_write(to, cx)
            } else if self.eof {
                break;
            } else {
                self.poll_read(from, size, pipes, cx)
            };
            if step.is_pending() {
                break;
            }
            moved = true;
            if self.write_error.is_some() {
                break;
            }
        }
        if self.buf.is_empty() {
            self.buf = Buf::default();
        }
        self.bulk.rest(pipes);
        moved
    }

    fn poll_write(&mut self, to: &mut Io, cx: &mut Context<'_>) -> Poll<()> {
        if self.nodelay && (self.written > 0 || !to.is_plain()) {
            self.nodelay = false;
            // Without it small pieces are later, not lost. Nothing holds back the first, so that a session of one question
            // and one answer does without.
            drop(to.set_nodelay(true));
        }
        let written = if self.bulk.holds() {
            self.bulk.poll_drain(to, cx)
        } else {
            to.poll_write(cx, self.buf.filled())
        };
        match ready!(written) {
            Ok(n) => {
                if !self.bulk.holds() && !self.buf.is_empty() {
                    self.buf.consume(n);
                }
                self.written += n as u64;
            }
            Err(error) => self.write_error = Some(error),
        }
        Poll::Ready(())
    }

    fn poll_read(
        &mut self,
        from: &mut Io,
        size: usize,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let spliced = if self.bulk.is_on() {
            self.bulk.poll_fill(from, pipes, cx)
        } else {
            None
        };
        let read = match spliced {
            Some(read) => ready!(read),
            None => ready!(self.poll_copy(from, size, cx)),
        };
        match read {
            Ok(0) => self.eof = true,
            Ok(n) => self.read += n as u64,
            Err(error) => {
                self.eof = true;
                self.read_error = Some(error);
            }
        }
        Poll::Ready(())
    }

    /// Reads once into memory.
    fn poll_copy(
        &mut self,
        from: &mut Io,
        size: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut most = size.min(LARGE);
        if let Some(rate) = &mut self.rate {
            let now = clock::now();
            if rate.pausing(now).is_some() {
                return Poll::Pending;
            }
            let allowance = rate.allowance(self.read, clock::wall().secs, now);
            if allowance == 0 {
                return Poll::Pending;
            }
            most = usize::try_from(allowance).map_or(most, |allowance| most.min(allowance));
        }
        if self.buf.capacity() == 0 {
            ready!(from.poll_read_ready(cx))?;
            self.buf = if most <= SMALL {
                Buf::small()
            } else {
                Buf::large()
            };
        }
        let n = ready!(from.poll_fill(&mut self.buf, most, cx))?;
        match &mut self.rate {
            Some(rate) => rate.took(n as u64, clock::now()),
            None => self.bulk.note_read(n == most),
        }
        Poll::Ready(Ok(n))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Whether the receiving side sends at once after each of two pieces.
    fn nodelay_after(way: &mut Way) -> [bool; 2] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        runtime.unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let pair = async || {
                let near = TcpStream::connect(addr).await.unwrap();
                (Io::Tcp(near), listener.accept().await.unwrap().0)
            };
            let ((mut from, sender), (mut to, _receiver)) = (pair().await, pair().await);
            let (pipes, mut after) = (Pipes::default(), [false; 2]);
            for is_set in &mut after {
                sender.writable().await.unwrap();
                assert_eq!(sender.try_write(b"piece").unwrap(), 5);
                let before = way.read;
                poll_fn(|cx| {
                    way.poll((&mut from, &mut to), SMALL, &pipes, cx);
                    if way.read == before || way.holds() {
                        return Poll::Pending;
                    }
                    Poll::Ready(())
                })
                .await;
                *is_set = to.socket().tcp_nodelay().unwrap();
            }
            after
        })
    }

    #[test]
    fn only_a_second_piece_could_be_held_back() {
        let way = |nodelay, first| Way::new(None, nodelay, first);
        assert_eq!(nodelay_after(&mut way(true, b"")), [false, true]);
        assert_eq!(nodelay_after(&mut way(false, b"")), [false, false]);
        let header = b"PROXY UNKNOWN\r\n";
        assert_eq!(nodelay_after(&mut way(true, header)), [true, true]);
    }
}
