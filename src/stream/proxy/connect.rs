//! The walk over the peers of a group until one takes the connection. One that fails later is not followed by another.
//!
//! Mirrors `ngx_stream_proxy_connect`, `ngx_stream_proxy_connect_handler` and `ngx_stream_proxy_next_upstream`.

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::tls::Tls;
use crate::{
    common::{
        addr::Addr,
        clock::{self, Now},
    },
    conf::{address::parse_addr_port, model::Level},
    net::{
        Io,
        connect::{ConnectError, ConnectOptions, connect},
    },
    stream::session::{Action, Downstream, Session},
    upstream::{Group, Lease, Limits, Outcome, PickCx, Tries},
};

/// A connection to a peer.
#[derive(Debug)]
pub(super) struct Peer {
    /// The socket.
    pub io: Io,
    /// What it counts as at the peer.
    pub lease: Lease,
}

/// Why a try failed.
pub(in crate::stream) enum Fail {
    /// The peer is to blame.
    Peer,
    /// Our own side cannot connect.
    Internal,
    /// Sessions have to end.
    Ending,
}

/// `proxy_bind`
pub(in crate::stream) fn bind<D: Downstream>(s: &mut Session<'_, D>) -> Option<Addr> {
    let bind = s.server.proxy.bind.as_ref()?;
    if bind.fixed.is_some() {
        return bind.fixed.clone();
    }
    let text = bind.addr.to_vec(s);
    if text.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(&text);
    let addr = parse_addr_port(&text);
    if addr.is_none() {
        s.log(
            Level::Error,
            format_args!("invalid local address \"{text}\""),
        );
    }
    addr.map(Addr::Inet)
}

/// Tries peers until one takes the connection; otherwise the status that the session ends with.
pub(super) async fn run<D: Downstream>(
    s: &mut Session<'_, D>,
    group: Arc<Group>,
    bind: Option<Addr>,
) -> Result<Peer, u16> {
    let options = options(s, bind);
    let tls = Tls::of(s, group.name())?;
    let (mut tries, hash_key) = walk(s, group);
    loop {
        let mut lease = pick(s, &mut tries, &hash_key)?;
        match attempt(s, &lease, &options, tls.as_ref()).await {
            Ok(io) => {
                connected(s, || io.local_addr(), &mut lease);
                lease.alive();
                return Ok(Peer { io, lease });
            }
            Err(fail) => failed(s, lease, &fail, &tries)?,
        }
    }
}

/// What a connection to a peer is given before it is made.
pub(in crate::stream) fn options<D: Downstream>(
    s: &Session<'_, D>,
    bind: Option<Addr>,
) -> ConnectOptions {
    let conf = &*s.server.proxy;
    ConnectOptions {
        bind,
        transparent: conf.bind.as_ref().is_some_and(|bind| bind.transparent),
        keepalive: conf.socket_keepalive,
        sndbuf: conf.socket_sndbuf.filter(|size| *size > 0),
        rcvbuf: conf.socket_rcvbuf.filter(|size| *size > 0),
    }
}

/// A walk over the peers of a group that begins now, and the session's key among them.
pub(in crate::stream) fn walk<D: Downstream>(
    s: &mut Session<'_, D>,
    group: Arc<Group>,
) -> (Tries, Vec<u8>) {
    let limits = Limits {
        tries: s.server.proxy.next_upstream_tries,
        timeout: s.server.proxy.next_upstream_timeout,
    };
    let hash_key = group.hash_key().map(|key| key.to_vec(s));
    let tries = Tries::new(group, limits, clock::now().millis());
    (tries, hash_key.unwrap_or_default())
}

/// The next peer, or the status that the session ends with.
pub(in crate::stream) fn pick<D: Downstream>(
    s: &mut Session<'_, D>,
    tries: &mut Tries,
    hash_key: &[u8],
) -> Result<Lease, u16> {
    s.action = Action::Connecting;
    let thread = s.thread;
    let mut random = || thread.random.next();
    let mut cx = PickCx {
        now: clock::now().millis(),
        random: &mut random,
        hash_key,
        client: s.client.addr.ip(),
    };
    let picked = tries.next(&mut cx);
    let name = match &picked {
        Ok(lease) => lease.peer().text.clone(),
        Err(none) => none.name.clone(),
    };
    s.upstream = Some(name.clone());
    s.attempts.start(name);
    picked.map_err(|none| {
        if let Some(record) = s.attempts.current() {
            record.response_time = Some(0);
        }
        s.log(Level::Error, format_args!("{none}"));
        502
    })
}

/// Connects to one peer, with the handshake if there is to be one.
async fn attempt<D: Downstream>(
    s: &mut Session<'_, D>,
    lease: &Lease,
    options: &ConnectOptions,
    tls: Option<&Tls>,
) -> Result<Io, Fail> {
    let deadline = clock::now().after(s.server.proxy.connect_timeout);
    let mut connecting = pin!(connect(&lease.peer().addr, options));
    let result = within(s, deadline, |cx| connecting.as_mut().poll(cx)).await?;
    let io = result.map_err(|error| refused(s, &error))?;
    match tls {
        None => Ok(io),
        Some(tls) => {
            if s.server.core.tcp_nodelay {
                // Without it the greeting behind a PROXY header is later, not lost. Plain text: see `Way`.
                drop(io.set_nodelay(true));
            }
            tls.handshake(s, (&lease.peer().text, io), deadline).await
        }
    }
}

/// Waits for a step on the way to a peer until `deadline`.
pub(super) async fn within<D: Downstream, T>(
    s: &mut Session<'_, D>,
    deadline: Now,
    mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, Fail> {
    let done = poll_fn(|cx| {
        if let Poll::Ready(result) = step(cx) {
            return Poll::Ready(Ok(Some(result)));
        }
        if s.thread.is_ending() {
            return Poll::Ready(Err(Fail::Ending));
        }
        ready!(s.timer.poll(cx, Some(deadline)));
        Poll::Ready(Ok(None))
    })
    .await?;
    done.ok_or_else(|| {
        s.log(
            Level::Error,
            format_args!("upstream timed out (110: Connection timed out)"),
        );
        Fail::Peer
    })
}

/// The try has its connection; `local` is our side's address.
pub(in crate::stream) fn connected<D: Downstream>(
    s: &mut Session<'_, D>,
    local: impl FnOnce() -> io::Result<Addr>,
    lease: &mut Lease,
) {
    if s.sink().enabled(Level::Info)
        && let Ok(local) = local()
    {
        let (kind, peer) = (D::KIND, &lease.peer().text);
        s.log_plain(
            Level::Info,
            format_args!("{kind}proxy {local} connected to {peer}"),
        );
    }
    let now = clock::now().millis();
    lease.connected(now);
    if let Some(record) = s.attempts.current() {
        record.connect_time = Some(now.saturating_sub(lease.start()));
    }
}

/// Says why there is no connection.
pub(in crate::stream) fn refused<D: Downstream>(s: &Session<'_, D>, error: &ConnectError) -> Fail {
    s.log(error.level(), format_args!("{error}"));
    if error.is_peer() {
        Fail::Peer
    } else {
        Fail::Internal
    }
}

/// Ends a failed try; an error when no other is to follow.
pub(in crate::stream) fn failed<D: Downstream>(
    s: &mut Session<'_, D>,
    lease: Lease,
    fail: &Fail,
    tries: &Tries,
) -> Result<(), u16> {
    let now = clock::now().millis();
    if let Some(record) = s.attempts.current() {
        record.response_time = Some(now.saturating_sub(lease.start()));
    }
    let outcome = match fail {
        Fail::Peer => Outcome::Failed,
        Fail::Internal | Fail::Ending => Outcome::Aborted,
    };
    if lease.finish(outcome, now).disabled {
        s.log(
            Level::Warn,
            format_args!("upstream server temporarily disabled"),
        );
    }
    match fail {
        Fail::Peer if s.server.proxy.next_upstream && tries.may_retry(now) => Ok(()),
        Fail::Peer => Err(502),
        Fail::Internal => Err(500),
        Fail::Ending => {
            s.log(Level::Info, format_args!("shutdown timeout"));
            Err(200)
        }
    }
}
