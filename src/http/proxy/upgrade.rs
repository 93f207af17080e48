//! A connection that became a tunnel after `101 Switching Protocols`.
//!
//! Mirrors `ngx_http_upstream_upgrade` and `ngx_http_upstream_process_upgraded`: bytes that were read already are passed
//! on; `proxy_read_timeout` bounds silence; the end of either side ends both.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use super::{
    attempt::{Attempt, Link},
    peer::PeerConn,
    tries,
};
use crate::{
    common::{
        buffer::{self, Buf},
        clock,
        recycle::Recycled,
    },
    conf::model::{Level, Proxy},
    http::{
        conn::Conn,
        exchange::{Action, Exchange},
        output,
        phases::Next,
    },
    net::Io,
    upstream::Outcome,
};

/// One direction.
#[derive(Debug, Default)]
struct Way {
    buf: Buf,
    eof: bool,
    moved: u64,
}

/// Passes bytes both ways until one side ends.
pub(super) async fn tunnel<'g>(
    x: &mut Exchange<'g>,
    proxy: &Proxy,
    attempt: Recycled<Attempt>,
) -> Next<'g> {
    let mut attempt = x.thread.pools.attempts.take(attempt);
    x.action = Action::Upgraded;
    x.keepalive = false;
    // Both ends want small messages at once; the upstream has had its share when it was connected.
    x.conn.nodelay(&x.location.core);
    if let Err(next) = output::write(x).await {
        let released = attempt
            .lease
            .finish(Outcome::Aborted, clock::now().millis());
        tries::log_disabled(x, released);
        return next;
    }
    let Some(Link::Socket(mut upstream)) = attempt.conn.take() else {
        return Next::Done;
    };
    let mut down = Way {
        buf: std::mem::take(&mut attempt.buf),
        ..Way::default()
    };
    let mut up = Way {
        buf: std::mem::take(&mut x.conn.buf),
        ..Way::default()
    };
    let result =
        poll_fn(|cx| poll(&mut x.conn, &mut upstream, &mut down, &mut up, (proxy, cx))).await;
    finish(x, attempt, (&down, &up));
    if result.is_err() {
        x.log(
            Level::Info,
            format_args!("upstream timed out (110: Connection timed out)"),
        );
    } else {
        x.complete = true;
    }
    x.broken = true;
    Next::Done
}

fn poll(
    conn: &mut Conn,
    upstream: &mut PeerConn,
    down: &mut Way,
    up: &mut Way,
    (proxy, cx): (&Proxy, &mut Context<'_>),
) -> Poll<Result<(), ()>> {
    let mut moved = false;
    // A stream's request asks for no upgrade.
    let Some(io) = conn.io.socket() else {
        return Poll::Ready(Ok(()));
    };
    loop {
        let before = down.moved;
        let a = down.pump(&mut upstream.io, io, proxy.buffer_size, cx);
        conn.sent += down.moved - before;
        let b = up.pump(io, &mut upstream.io, proxy.buffer_size, cx);
        if (down.eof && down.buf.is_empty())
            || (up.eof && up.buf.is_empty())
            || (down.eof && up.eof)
        {
            return Poll::Ready(Ok(()));
        }
        if !a && !b {
            break;
        }
        moved = true;
    }
    if moved || conn.tunnel_deadline.is_none() {
        conn.tunnel_deadline = Some(clock::now().after(proxy.read_timeout));
    }
    conn.timer.poll(cx, conn.tunnel_deadline).map(|()| Err(()))
}

impl Way {
    /// Moves what it can from `from` to `to`; true when something moved.
    fn pump(&mut self, from: &mut Io, to: &mut Io, size: usize, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        if !self.buf.is_empty()
            && let Poll::Ready(result) = to.poll_write(cx, self.buf.filled())
        {
            match result {
                Ok(n) => {
                    self.buf.consume(n);
                    self.moved += n as u64;
                }
                Err(_closed) => {
                    self.eof = true;
                    self.buf = Buf::default();
                }
            }
            progress = true;
        }
        if self.buf.is_empty() && !self.eof {
            if self.buf.capacity() == 0 {
                if from.poll_read_ready(cx).is_pending() {
                    return progress;
                }
                self.buf = if size <= buffer::SMALL {
                    Buf::small()
                } else {
                    Buf::large()
                };
            }
            match from.poll_fill(&mut self.buf, usize::MAX, cx) {
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.eof = true;
                    progress = true;
                }
                Poll::Ready(Ok(_)) => progress = true,
                // An idle tunnel holds no memory.
                Poll::Pending => self.buf = Buf::default(),
            }
        }
        progress
    }
}

fn finish(x: &mut Exchange<'_>, attempt: Attempt, (down, up): (&Way, &Way)) {
    let now = clock::now().millis();
    if let Some(record) = x.attempts.current() {
        record.response_time = Some(now.saturating_sub(attempt.start));
        record.bytes_received += down.moved;
        record.bytes_sent += up.moved;
        record.response_length += down.moved;
    }
    x.request.length += up.moved;
    let released = attempt.lease.finish(Outcome::Ok, now);
    tries::log_disabled(x, released);
}
