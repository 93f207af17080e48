//! The connection of a client: its socket, what was read and not used yet, its timer and counters.

use std::{
    cell::OnceCell,
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use super::{down::Down, h2::Stream, out::Out};
use crate::{
    common::{
        addr::Addr,
        buffer::Buf,
        clock::{self, Now},
        prefetch::prefetch,
        recycle::Recycled,
    },
    conf::model::Core,
    net::{Arrival, Io, Timer, TlsIo, client::Client, proxy_protocol::Header},
    tls::{Facts, Greeting},
};

/// A client's connection.
#[derive(Debug)]
pub(super) struct Conn {
    /// What it came over.
    pub io: Down,
    /// Bytes read from it that no request has used yet; without memory while idle.
    pub buf: Buf,
    /// Its timer.
    pub timer: Timer,
    /// `$connection`
    pub id: u64,
    /// Who connected.
    pub peer: Addr,
    /// The same as requests begin with.
    pub client: Client,
    /// Who connected, as a proxy said in front of the first request.
    pub proxied: Option<Box<Header>>,
    /// When it was accepted.
    pub started: Now,
    /// `$connection_requests`
    pub requests: u64,
    /// Bytes written to it.
    pub sent: u64,
    /// Whether reading saw the end of the stream.
    pub eof: bool,
    /// `TCP_NODELAY` is set.
    is_nodelay: bool,
    /// The thread wakes its task when it shuts down.
    pub wakes_at_shutdown: bool,
    /// When silence in a tunnel is too long.
    pub tunnel_deadline: Option<Now>,
    /// What the client has said in TLS, and with whose settings it is spoken.
    pub tls: Option<Rc<Greeting>>,
    local: OnceCell<Addr>,
}

/// Why an operation on a connection ended early.
#[derive(Debug)]
pub(super) enum ConnError {
    /// The deadline passed.
    Timeout,
    /// The client is gone.
    Gone,
    /// The socket failed.
    Io(io::Error),
}

impl From<io::Error> for ConnError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Conn {
    /// A connection that was accepted at `now`.
    pub(super) fn new(arrival: Arrival, now: Now) -> Self {
        let Arrival {
            io,
            number: id,
            peer,
            local,
            proxied,
        } = arrival;
        Self {
            io: Down::Socket(io),
            buf: Buf::default(),
            timer: Timer::default(),
            id,
            client: Client::of(&peer),
            peer,
            proxied,
            started: now,
            requests: 0,
            sent: 0,
            eof: false,
            is_nodelay: false,
            wakes_at_shutdown: false,
            tunnel_deadline: None,
            tls: None,
            local: local.map_or_else(OnceCell::new, OnceCell::from),
        }
    }

    /// Looks at what there is to know of the client's TLS; None where it speaks none.
    pub(super) fn with_tls<T>(&self, look: impl FnOnce(&Facts<'_>) -> T) -> Option<T> {
        let greeting = self.tls.as_deref()?;
        let look = |io: &Io| {
            look(&Facts {
                session: io.tls().map(TlsIo::session),
                greeting: Some(greeting),
                now: clock::wall().secs,
            })
        };
        self.io.with_socket(look)
    }

    /// One of its streams, as a connection that serves one request.
    pub(super) fn of_stream(&self, stream: Recycled<Stream>, requests: u64) -> Self {
        Self {
            io: Down::Stream(stream),
            buf: Buf::default(),
            timer: Timer::default(),
            id: self.id,
            client: self.client.clone(),
            peer: self.peer.clone(),
            proxied: self.proxied.clone(),
            started: self.started,
            requests,
            sent: 0,
            eof: false,
            // Its connection has been asked.
            is_nodelay: true,
            wakes_at_shutdown: false,
            tunnel_deadline: None,
            tls: self.tls.clone(),
            local: OnceCell::from(self.local().clone()),
        }
    }

    /// Asks for its memory, which will be used.
    pub(super) fn prefetch(&self) {
        prefetch(self);
        if let Down::Stream(stream) = &self.io {
            stream.prefetch();
        }
    }

    /// The address that the client connected to; asked of the system once.
    pub(super) fn local(&self) -> &Addr {
        self.local.get_or_init(|| {
            self.io
                .local_addr()
                .unwrap_or(Addr::Unix(std::path::Path::new("").into()))
        })
    }

    /// Sends small pieces at once from now on, if `core` says so (`ngx_tcp_nodelay`).
    pub(super) fn nodelay(&mut self, core: &Core) {
        if core.tcp_nodelay && !self.is_nodelay {
            self.is_nodelay = true;
            // It is an optimisation: without it they are later, not lost.
            drop(self.io.with_socket(|io| io.set_nodelay(true)));
        }
    }

    /// Waits until there is something to read, holding no buffer meanwhile.
    pub(super) async fn readable(&mut self, deadline: Option<Now>) -> Result<(), ConnError> {
        poll_fn(|cx| {
            if let Poll::Ready(result) = self.io.poll_read_ready(cx) {
                return Poll::Ready(result.map_err(ConnError::from));
            }
            ready!(self.timer.poll(cx, deadline));
            Poll::Ready(Err(ConnError::Timeout))
        })
        .await
    }

    /// Reads once into the spare part of [`buf`](Self::buf), which must have some; 0 is the end of the stream.
    pub(super) async fn read(&mut self, deadline: Option<Now>) -> Result<usize, ConnError> {
        poll_fn(|cx| {
            if let Poll::Ready(result) = self.io.poll_fill(&mut self.buf, usize::MAX, cx) {
                self.eof |= matches!(result, Ok(0)) || self.io.has_ended();
                return Poll::Ready(result.map_err(ConnError::from));
            }
            ready!(self.timer.poll(cx, deadline));
            Poll::Ready(Err(ConnError::Timeout))
        })
        .await
    }

    /// Writes everything in `out`. The deadline is `timeout` after the last write that got bytes out.
    pub(super) async fn flush(
        &mut self,
        out: &mut Out,
        timeout: std::time::Duration,
    ) -> Result<(), ConnError> {
        while !out.is_empty() {
            let mut deadline = None;
            poll_fn(|cx| {
                if let Poll::Ready(result) = self.poll_write(out, u64::MAX, cx) {
                    return Poll::Ready(result.map(drop).map_err(ConnError::from));
                }
                let deadline = *deadline.get_or_insert_with(|| clock::now().after(timeout));
                ready!(self.timer.poll(cx, Some(deadline)));
                Poll::Ready(Err(ConnError::Timeout))
            })
            .await?;
        }
        Ok(())
    }

    /// Writes what it can of `out`, at most `limit` bytes; how many went out.
    pub(super) fn poll_write(
        &mut self,
        out: &mut Out,
        limit: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        let n = ready!(match &mut self.io {
            Down::Socket(io) => out.poll_write(io, limit, cx),
            Down::Stream(stream) => out.poll_stream(&mut **stream, limit, cx),
            Down::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        })?;
        self.sent += n;
        Poll::Ready(Ok(n))
    }

    /// Ready once the client has closed the connection or it failed; what it sends stays unread. Once the client has
    /// sent more than was asked for, this is never ready.
    pub(super) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Down::Stream(stream) = &mut self.io {
            return stream.poll_reset(cx);
        }
        loop {
            if self.eof {
                return Poll::Ready(());
            }
            if let Err(_error) = ready!(self.io.poll_read_ready(cx)) {
                return Poll::Ready(());
            }
            if self.buf.capacity() == 0 {
                self.buf = Buf::small();
            }
            if self.buf.spare().is_empty() {
                // A full buffer of pipelined bytes: nothing more is read before the next request.
                return Poll::Pending;
            }
            match ready!(self.io.poll_fill(&mut self.buf, usize::MAX, cx)) {
                Ok(0) | Err(_) => self.eof = true,
                Ok(_) => {}
            }
        }
    }
}
