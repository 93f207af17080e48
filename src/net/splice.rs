//! Moving bytes from one socket to another inside the kernel, through a pipe: no copy into this process and none out.
//!
//! `splice(2)` says EAGAIN both for an empty socket and for a full pipe, so the pipe is always emptied before it is
//! filled again: then EAGAIN is about the socket.

use std::{
    cell::RefCell,
    io,
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
};

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use tokio::io::Interest;

use super::Io;

/// What a pipe may hold, bytes.
const CAPACITY: usize = 256 << 10;

/// A pipe between two sockets.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: usize,
}

impl Pipe {
    /// An empty pipe.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let size = i32::try_from(CAPACITY).unwrap_or(i32::MAX);
        // A smaller pipe moves less at once; that is all.
        fcntl(&writer, FcntlArg::F_SETPIPE_SZ(size)).ok();
        Ok(Self {
            reader,
            writer,
            held: 0,
        })
    }

    /// How many bytes are in it.
    pub fn len(&self) -> usize {
        self.held
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Fills the pipe, which must be empty, with at most `limit` bytes from `io`; 0 is the end of the stream.
    pub fn poll_fill(
        &mut self,
        io: &Io,
        limit: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        debug_assert!(self.is_empty());
        let len = usize::try_from(limit).map_or(CAPACITY, |limit| limit.min(CAPACITY));
        loop {
            ready!(io.poll_read_ready(cx))?;
            let moved = io.try_io(Interest::READABLE, || {
                splice(io, None, &self.writer, None, len, FLAGS).map_err(io::Error::from)
            });
            match moved {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(n) => {
                    self.held += n;
                    return Poll::Ready(Ok(n));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Empties the pipe into `io` as far as that takes it; how many bytes went.
    pub fn poll_drain(&mut self, io: &Io, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            ready!(io.poll_write_ready(cx))?;
            let moved = io.try_io(Interest::WRITABLE, || {
                splice(&self.reader, None, io, None, self.held, FLAGS).map_err(io::Error::from)
            });
            match moved {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(n) => {
                    self.held -= n;
                    return Poll::Ready(Ok(n));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Reads what is in the pipe into memory.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = nix::unistd::read(&self.reader, buf)?;
        self.held -= n;
        Ok(n)
    }
}

/// The empty pipes of a thread.
#[derive(Debug, Default)]
pub struct Pipes(RefCell<Vec<Pipe>>);

/// How many a thread keeps.
const KEPT: usize = 64;

impl Pipes {
    /// An empty pipe, perhaps one from before; None when there are no descriptors for one.
    pub fn take(&self) -> Option<Pipe> {
        let spare = self.0.borrow_mut().pop();
        spare.or_else(|| Pipe::new().ok())
    }

    /// Gives a pipe back; one with something in it is of no more use.
    pub fn give(&self, pipe: Pipe) {
        let mut pipes = self.0.borrow_mut();
        if pipe.is_empty() && pipes.len() < KEPT {
            pipes.push(pipe);
        }
    }
}

/// Pages move where they can, and nobody waits.
const FLAGS: SpliceFFlags = SpliceFFlags::SPLICE_F_MOVE.union(SpliceFFlags::SPLICE_F_NONBLOCK);

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, io::Read as _};

    use super::*;

    #[test]
    fn bytes_go_through() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let pair = async || {
                let near = tokio::net::TcpStream::connect(addr).await.unwrap();
                (Io::Tcp(near), listener.accept().await.unwrap().0)
            };
            let (from, sender) = pair().await;
            let (to, receiver) = pair().await;
            sender.writable().await.unwrap();
            assert_eq!(sender.try_write(b"hello").unwrap(), 5);
            let mut pipe = Pipe::new().unwrap();
            let filled = poll_fn(|cx| pipe.poll_fill(&from, 4, cx)).await.unwrap();
            assert_eq!((filled, pipe.len()), (4, 4));
            let drained = poll_fn(|cx| pipe.poll_drain(&to, cx)).await.unwrap();
            assert_eq!((drained, pipe.is_empty()), (4, true));
            drop(to);
            let mut receiver = receiver.into_std().unwrap();
            receiver.set_nonblocking(false).unwrap();
            let mut got = String::new();
            receiver.read_to_string(&mut got).unwrap();
            assert_eq!(got, "hell");
            poll_fn(|cx| pipe.poll_fill(&from, 9, cx)).await.unwrap();
            let mut rest = [0; 9];
            assert_eq!(pipe.read(&mut rest).unwrap(), 1);
            drop(sender);
            assert_eq!(poll_fn(|cx| pipe.poll_fill(&from, 9, cx)).await.unwrap(), 0);
        });
    }
}
