//! One connected socket, whatever its kind.
//!
//! The poll methods are inherent, so that the engine's own reads and writes need no trait; the traits of tokio are
//! there for libraries. Reads go through tokio's `AsyncRead`, which forgets the socket's readiness after a short
//! read: the next read waits for an event and no call is wasted on EAGAIN.

use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

use nix::sys::socket::{MsgFlags, recv};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

use super::{TlsIo, proxy_protocol::Header, sockopt};
use crate::common::{addr::Addr, buffer::Buf};

/// What `$tcpinfo_*` show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip time, microseconds.
    pub rtt: u32,
    /// Its variation, microseconds.
    pub rttvar: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Advertised receive space, bytes.
    pub rcv_space: u32,
}

/// A connection that came in.
#[derive(Debug)]
pub struct Arrival {
    /// The socket.
    pub io: Io,
    /// `$connection`
    pub number: u64,
    /// Who is at its other end.
    pub peer: Addr,
    /// The address that it counts as having come in at; None: the socket's own.
    pub local: Option<Addr>,
    /// Who connected, as a proxy said; known already when another listener took the header off.
    pub proxied: Option<Box<Header>>,
}

/// Serial numbers of connections in this process.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// The next of them.
pub fn serial() -> u64 {
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

impl Arrival {
    /// A connection from `peer`.
    pub fn new(io: Io, peer: Addr) -> Self {
        Self {
            io,
            number: serial(),
            peer,
            local: None,
            proxied: None,
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub enum Io {
    /// TCP over IPv4 or IPv6.
    Tcp(TcpStream),
    /// A Unix domain stream socket.
    Unix(UnixStream),
    /// TLS on one of them.
    Tls(Box<TlsIo>),
}

macro_rules! each {
    ($io:expr, $stream:ident => $do:expr, $tls:ident => $other:expr) => {
        match $io {
            Io::Tcp($stream) => $do,
            Io::Unix($stream) => $do,
            Io::Tls($tls) => $other,
        }
    };
}

impl Io {
    /// Reads into the free part of `buf`; nothing added means the end of the stream.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buf), tls => tls.poll_read(cx, buf))
    }

    /// Reads once, at most `limit` bytes, into the spare part of `buf`, which must have some; 0 is the end of the stream.
    pub fn poll_fill(
        &mut self,
        buf: &mut Buf,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let spare = buf.spare();
        let room = spare.len().min(limit);
        let mut read = ReadBuf::new(&mut spare[..room]);
        ready!(self.poll_read(cx, &mut read))?;
        let n = read.filled().len();
        buf.advance(n);
        Poll::Ready(Ok(n))
    }

    /// Writes some of `buf`.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, buf), tls => tls.poll_write(cx, &[IoSlice::new(buf)]))
    }

    /// Writes some of `bufs`, in order, in one call.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs), tls => tls.poll_write(cx, bufs))
    }

    /// Sends FIN, and before it the good-bye of TLS; the other direction stays open.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx), tls => tls.poll_close(cx))
    }

    /// Waits until there is something to read, or the end, or an error. With TLS it may turn out to be none of the
    /// reader's business.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read_ready(cx), tls => {
            if tls.has_plain() {
                return Poll::Ready(Ok(()));
            }
            tls.socket().poll_read_ready(cx)
        })
    }

    /// Waits until something has arrived, or the end, or an error, and leaves it there.
    pub fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if ready!(self.poll_read_ready(cx)).is_err() {
                return Poll::Ready(());
            }
            let arrived = match &mut *self {
                Self::Tls(tls) => tls.look(),
                plain => {
                    let peek = || plain.peek_socket();
                    match plain.try_io(Interest::READABLE, peek) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                        _ => Ok(true),
                    }
                }
            };
            if !matches!(arrived, Ok(false)) {
                return Poll::Ready(());
            }
        }
    }

    /// Looks at what has arrived, at most `limit` bytes, without taking it, in an empty `buf`; it gets memory only when
    /// there is something. 0 is the end of the stream.
    pub fn poll_peek(
        &mut self,
        buf: &mut Buf,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_peek_beyond(0, buf, limit, cx)
    }

    /// As [`poll_peek`](Self::poll_peek), once more than `seen` bytes have arrived, or the end after them.
    pub fn poll_peek_beyond(
        &mut self,
        seen: usize,
        buf: &mut Buf,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Self::Tls(tls) = self {
            return tls.poll_peek((seen, limit), buf, cx);
        }
        let mut is_old = false;
        loop {
            ready!(self.poll_read_ready(cx))?;
            if buf.capacity() < limit {
                *buf = Buf::with_capacity(limit);
            }
            let room = &mut buf.spare()[..limit];
            let peeked = self.try_io(Interest::READABLE, || {
                let n = recv(self.as_fd().as_raw_fd(), room, MsgFlags::MSG_PEEK)?;
                if n == 0 || n > seen {
                    return Ok(n);
                }
                // The next event is about bytes behind these; one that does not go away is about the end.
                if std::mem::replace(&mut is_old, true) {
                    return Ok(0);
                }
                Err(io::ErrorKind::WouldBlock.into())
            });
            match peeked {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(n) => {
                    buf.advance(n);
                    return Poll::Ready(Ok(n));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Waits until there is room to write.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_write_ready(cx), tls => tls.socket().poll_write_ready(cx))
    }

    /// Whether something has arrived, or the end. Asks the system each time: this is the test of a connection whose next
    /// bytes the runtime may not know of.
    pub fn has_arrived(&mut self) -> bool {
        match self {
            Self::Tls(tls) => !matches!(tls.look(), Ok(false)),
            plain => plain.peek_socket().is_ok(),
        }
    }

    fn peek_socket(&self) -> io::Result<usize> {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        self.socket().peek(&mut byte)
    }

    /// Does `operation` on the socket; when it says `WouldBlock`, the socket counts as not ready.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        each!(self, stream => stream.try_io(interest, operation), tls => tls.socket().try_io(interest, operation))
    }

    /// Address of the other side.
    pub fn peer_addr(&self) -> io::Result<Addr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map(Addr::Inet),
            Self::Unix(stream) => stream.peer_addr().map(|addr| unix(addr.as_pathname())),
            Self::Tls(tls) => tls.socket().peer_addr(),
        }
    }

    /// Address of this side.
    pub fn local_addr(&self) -> io::Result<Addr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().map(Addr::Inet),
            Self::Unix(stream) => stream.local_addr().map(|addr| unix(addr.as_pathname())),
            Self::Tls(tls) => tls.socket().local_addr(),
        }
    }

    /// `TCP_NODELAY`; nothing to do for other sockets.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(on),
            Self::Unix(_) => Ok(()),
            Self::Tls(tls) => tls.socket().set_nodelay(on),
        }
    }

    /// `TCP_CORK` (`tcp_nopush`); nothing to do for other sockets.
    pub fn set_nopush(&self, on: bool) -> io::Result<()> {
        match self {
            Self::Tcp(_) => self.socket().set_tcp_cork(on),
            Self::Unix(_) => Ok(()),
            Self::Tls(tls) => tls.socket().set_nopush(on),
        }
    }

    /// Makes the coming close send RST instead of FIN (`reset_timedout_connection`).
    pub fn reset_on_close(&self) -> io::Result<()> {
        self.socket().set_linger(Some(Duration::ZERO))
    }

    /// The error that the socket holds, if any; asking clears it.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket().take_error()
    }

    /// What the kernel knows of the connection; None where it is not TCP.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Unix(_) => return None,
            Self::Tls(tls) => return tls.socket().tcp_info(),
        };
        let info = nix::sys::socket::getsockopt(stream, sockopt::TcpInfo).ok()?;
        Some(TcpInfo {
            rtt: info.tcpi_rtt,
            rttvar: info.tcpi_rttvar,
            snd_cwnd: info.tcpi_snd_cwnd,
            rcv_space: info.tcpi_rcv_space,
        })
    }

    /// All further options.
    pub fn socket(&self) -> socket2::SockRef<'_> {
        each!(self, stream => socket2::SockRef::from(stream), tls => tls.socket().socket())
    }

    /// What TLS has agreed on, where it is spoken.
    pub fn tls(&self) -> Option<&TlsIo> {
        match self {
            Self::Tls(tls) => Some(tls),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Whether bytes may go past this process, from socket to socket.
    pub fn is_plain(&self) -> bool {
        self.tls().is_none()
    }
}

/// A Unix socket's name; a client's socket has none.
fn unix(path: Option<&Path>) -> Addr {
    Addr::Unix(path.unwrap_or(Path::new("")).into())
}

impl AsFd for Io {
    fn as_fd(&self) -> BorrowedFd<'_> {
        each!(self, stream => stream.as_fd(), tls => tls.socket().as_fd())
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Self::poll_read(self.get_mut(), cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(self.get_mut(), cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write_vectored(self.get_mut(), cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_shutdown(self.get_mut(), cx)
    }
}
