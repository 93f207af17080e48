//! What a client's request came over: a socket of its own, or a stream of HTTP/2.

use std::{
    io,
    task::{Context, Poll},
};

use super::h2::Stream;
use crate::{
    common::{addr::Addr, buffer::Buf, recycle::Recycled},
    net::{Io, TcpInfo},
};

/// The way to a client.
#[derive(Debug)]
pub(super) enum Down {
    /// A socket, for one request at a time.
    Socket(Io),
    /// A stream.
    Stream(Recycled<Stream>),
    /// Nothing: the socket is where streams share it.
    Gone,
}

impl Down {
    /// Waits until there is something to read, or the end, or an error.
    pub(super) fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            // What only TLS has to know is nothing to read.
            Self::Socket(io) if !io.is_plain() => io.poll_arrived(cx).map(Ok),
            Self::Socket(io) => io.poll_read_ready(cx),
            Self::Stream(stream) => stream.poll_read_ready(cx),
            Self::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Reads once, at most `limit` bytes, into the spare part of `buf`, which must have some; 0 is the end.
    pub(super) fn poll_fill(
        &mut self,
        buf: &mut Buf,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(io) => io.poll_fill(buf, limit, cx),
            Self::Stream(stream) => stream.poll_fill(buf, limit, cx),
            Self::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Whether nothing comes after what was read: a stream knows it with its last bytes.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.is_read(),
            Self::Socket(_) | Self::Gone => false,
        }
    }

    /// The socket, where the request has one.
    pub(super) fn socket(&mut self) -> Option<&mut Io> {
        match self {
            Self::Socket(io) => Some(io),
            Self::Stream(_) | Self::Gone => None,
        }
    }

    /// The stream, where the request has one.
    pub(super) fn stream(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Socket(_) | Self::Gone => None,
            Self::Stream(stream) => Some(stream),
        }
    }

    /// Takes the socket, which leaves nothing.
    pub(super) fn take_socket(&mut self) -> Option<Io> {
        match std::mem::replace(self, Self::Gone) {
            Self::Socket(io) => Some(io),
            Self::Stream(_) | Self::Gone => None,
        }
    }

    /// Whether it is a stream.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Does something with the socket, which a stream shares with others.
    pub(super) fn with_socket<T>(&self, look: impl FnOnce(&Io) -> T) -> Option<T> {
        match self {
            Self::Socket(io) => Some(look(io)),
            Self::Stream(stream) => stream.with_socket(look),
            Self::Gone => None,
        }
    }

    /// Whether the client speaks no TLS.
    pub(super) fn is_plain(&self) -> bool {
        self.with_socket(Io::is_plain).unwrap_or(true)
    }

    /// The address that the client connected to.
    pub(super) fn local_addr(&self) -> io::Result<Addr> {
        self.with_socket(Io::local_addr)
            .unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
    }

    /// What the kernel knows of the connection; None where it is not TCP.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        self.with_socket(Io::tcp_info).flatten()
    }
}
