//! One try: a connection, the request, the head of the response.
//!
//! Mirrors `ngx_http_upstream_connect` and `ngx_http_upstream_process_header`.

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    task::{Context, Poll, ready},
};

use super::{
    h2,
    head::{Progress, ResponseHead},
    hints,
    peer::PeerConn,
    pool::{self, Key},
    request::Built,
    send::send,
    target::Target,
    tls::Tls,
    tries,
};
use crate::{
    common::{
        addr::Addr,
        buffer::Buf,
        clock::{self, Now},
        prefetch::{Prefetch, prefetch},
    },
    conf::model::{Level, Proxy, ProxyVersion},
    http::{
        conn::Conn,
        exchange::{Action, Exchange},
    },
    net::{
        Io,
        connect::{ConnectOptions, connect},
    },
    upstream::Lease,
};

/// Why a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fail {
    /// Connecting, sending or receiving failed.
    Error,
    /// A timeout.
    Timeout,
    /// The head is no valid one.
    InvalidHeader,
    /// A status that `proxy_next_upstream` names.
    Status(u16),
    /// The client is gone.
    ClientGone,
    /// The client's body is bad or late; the status for that.
    ClientBody(u16),
    /// The peer has done nothing about the request, and says so: it may be sent again.
    Unprocessed,
    /// Our own side cannot: 500.
    Internal,
}

/// What a try goes over.
#[derive(Debug)]
pub(super) enum Link {
    /// A connection of its own.
    Socket(PeerConn),
    /// A stream on one that others use too.
    Stream(Box<h2::Stream>),
}

/// A try under way.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The peer.
    pub lease: Lease,
    /// When it began, monotonic milliseconds.
    pub start: u64,
    /// The connection, once there is one.
    pub conn: Option<Link>,
    /// What the connection is kept as.
    pub key: Key,
    /// The head of the response.
    pub head: ResponseHead,
    /// What was read behind the head.
    pub buf: Buf,
    /// Some of the request may have been sent.
    pub request_sent: bool,
    /// Something of the response has come.
    pub response_received: bool,
    /// All of the request was sent.
    pub request_complete: bool,
    /// Bytes of early hints.
    hinted: usize,
}

impl Attempt {
    /// A try at the peer of `lease`.
    pub(super) fn new(lease: Lease, bind: Option<Addr>) -> Self {
        let key = Key {
            addr: lease.peer().addr.clone(),
            bind,
            tls: None,
        };
        Self {
            start: lease.start(),
            lease,
            conn: None,
            key,
            head: ResponseHead::default(),
            buf: Buf::default(),
            request_sent: false,
            response_received: false,
            request_complete: false,
            hinted: 0,
        }
    }

    /// Whether the connection came from a pool.
    pub(super) fn is_reused(&self) -> bool {
        match &self.conn {
            Some(Link::Socket(conn)) => conn.reused,
            Some(Link::Stream(stream)) => stream.reused,
            None => false,
        }
    }

    /// Connects, sends the request and reads the head.
    pub(super) async fn run(
        &mut self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        target: &Target,
        built: &Built,
    ) -> Result<(), Fail> {
        if proxy.http_version == ProxyVersion::Http2 {
            // In memory of its own: it is larger than all else that a task needs for a try.
            return Box::pin(self.run_h2(x, proxy, target, built)).await;
        }
        x.action = Action::Connecting;
        let tls = Tls::of(x, proxy, target)?;
        self.key.tls = tls.as_ref().map(Tls::key);
        let mut conn = self.connect(x, proxy, target, tls.as_ref()).await?;
        conn.requests += 1;
        self.connected(x);
        self.request_sent = true;
        x.action = Action::SendingRequest;
        let sent = send(x, proxy, &mut conn, built).await;
        self.conn = Some(Link::Socket(conn));
        self.request_complete = sent?;
        x.action = Action::ReadingHeader;
        self.read_head(x, proxy).await?;
        self.got_header(x);
        Ok(())
    }

    /// The connection is there.
    pub(super) fn connected(&mut self, x: &mut Exchange<'_>) {
        let now = clock::now().millis();
        self.lease.connected(now);
        if let Some(record) = x.attempts.current() {
            record.connect_time = Some(now.saturating_sub(self.start));
        }
    }

    /// The head of the response is there.
    pub(super) fn got_header(&mut self, x: &mut Exchange<'_>) {
        let now = clock::now().millis();
        self.lease.header(now);
        if let Some(record) = x.attempts.current() {
            record.header_time = Some(now.saturating_sub(self.start));
            record.status = Some(self.head.status);
        }
    }

    async fn connect(
        &self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        target: &Target,
        tls: Option<&Tls>,
    ) -> Result<PeerConn, Fail> {
        if let Some(place) = pool::place(&target.group, target.index, x.location.id) {
            let pools = &x.thread.pools;
            let pooled = poll_fn(|cx| Poll::Ready(pools.take(place, &self.key, cx))).await;
            if let Some(mut conn) = pooled {
                conn.reused = true;
                return Ok(conn);
            }
        }
        let deadline = clock::now().after(proxy.connect_timeout);
        let io = self.dial(x, proxy, target, (tls, b""), deadline).await?;
        Ok(PeerConn::new(io, clock::now()))
    }

    /// Opens a connection, with TLS if `tls` says so, which offers `alpn`. It is in memory of its own: most requests find a
    /// connection, and their tasks need no room for this.
    pub(super) async fn dial(
        &self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        target: &Target,
        tls: (Option<&Tls>, &[u8]),
        deadline: Now,
    ) -> Result<Io, Fail> {
        Box::pin(self.reach(x, proxy, target, tls, deadline)).await
    }

    async fn reach(
        &self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        target: &Target,
        (tls, alpn): (Option<&Tls>, &[u8]),
        deadline: Now,
    ) -> Result<Io, Fail> {
        let options = ConnectOptions {
            bind: self.key.bind.clone(),
            transparent: proxy.bind.as_ref().is_some_and(|bind| bind.transparent),
            keepalive: proxy.socket_keepalive,
            sndbuf: proxy.socket_sndbuf,
            rcvbuf: proxy.socket_rcvbuf,
        };
        let mut connecting = pin!(connect(&self.key.addr, &options));
        let watch = !proxy.ignore_client_abort;
        let result = wait(&mut x.conn, watch, deadline, |_, cx| {
            connecting.as_mut().poll(cx)
        })
        .await?;
        let io = result.map_err(|error| {
            x.log(error.level(), format_args!("{error}"));
            if error.is_peer() {
                Fail::Error
            } else {
                Fail::Internal
            }
        })?;
        if x.location.core.tcp_nodelay {
            // Without it the request is a little later, not lost.
            drop(io.set_nodelay(true));
        }
        let Some(tls) = tls else { return Ok(io) };
        let peer = format!("{} {}", target.group.name(), self.lease.peer().text);
        tls.handshake(x, proxy, (peer, io, alpn), deadline).await
    }

    /// Passes on what has come of early hints.
    pub(super) async fn pass_hints(&mut self, x: &mut Exchange<'_>, proxy: &Proxy) {
        for hints in std::mem::take(&mut self.head.hints) {
            // In memory of its own: few have any.
            Box::pin(hints::send(x, proxy, &hints, &mut self.hinted)).await;
        }
    }

    async fn read_head(&mut self, x: &mut Exchange<'_>, proxy: &Proxy) -> Result<(), Fail> {
        let watch = !proxy.ignore_client_abort;
        // What is read here counts against `proxy_limit_rate` only afterwards.
        let room = if proxy.limit_rate.is_empty() {
            usize::MAX
        } else {
            proxy.buffer_size
        };
        loop {
            if self.response_received {
                let progress = self.head.parse(x, &mut self.buf, proxy.buffer_size);
                self.pass_hints(x, proxy).await;
                match progress {
                    Progress::Complete => return Ok(()),
                    Progress::Invalid => return Err(Fail::InvalidHeader),
                    Progress::Partial => {}
                }
            }
            let own = &raw const *self;
            let (request, response, out) = (&x.request, &x.response, &x.out);
            let Some(Link::Socket(conn)) = &mut self.conn else {
                return Err(Fail::Error);
            };
            let deadline = clock::now().after(proxy.read_timeout);
            let buf = &mut self.buf;
            let mut has_waited = false;
            let read = wait(&mut x.conn, watch, deadline, |client, cx| {
                if std::mem::replace(&mut has_waited, true) {
                    // What answers the client has been out of use for long.
                    prefetch(own);
                    request.prefetch();
                    response.prefetch();
                    out.prefetch();
                    client.prefetch();
                }
                poll_read(conn, buf, room, cx)
            })
            .await?;
            match read {
                Ok(0) => {
                    x.log(
                        Level::Error,
                        format_args!("upstream prematurely closed connection"),
                    );
                    return Err(Fail::Error);
                }
                Ok(n) => {
                    self.response_received = true;
                    if let Some(record) = x.attempts.current() {
                        record.bytes_received += n as u64;
                    }
                }
                Err(error) => {
                    tries::log_recv(x, &error);
                    return Err(Fail::Error);
                }
            }
        }
    }
}

/// Waits for `io`, which may also look at the client: until `deadline` and, with `watch`, while the client is there.
pub(super) fn wait<T>(
    client: &mut Conn,
    watch: bool,
    deadline: Now,
    mut io: impl FnMut(&mut Conn, &mut Context<'_>) -> Poll<T>,
) -> impl Future<Output = Result<T, Fail>> {
    poll_fn(move |cx| {
        if let Poll::Ready(result) = io(client, cx) {
            return Poll::Ready(Ok(result));
        }
        if watch && client.poll_closed(cx).is_ready() {
            return Poll::Ready(Err(Fail::ClientGone));
        }
        ready!(client.timer.poll(cx, Some(deadline)));
        Poll::Ready(Err(Fail::Timeout))
    })
}

/// Reads once, at most `limit` bytes, taking a buffer only when there is something to read.
pub(super) fn poll_read(
    conn: &mut PeerConn,
    buf: &mut Buf,
    limit: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if buf.capacity() == 0 {
        ready!(conn.io.poll_read_ready(cx))?;
        *buf = Buf::large();
    }
    if buf.spare().is_empty() {
        buf.compact();
    }
    let result = conn.io.poll_fill(buf, limit, cx);
    if result.is_pending() && buf.is_empty() {
        *buf = Buf::default();
    }
    result
}
