//! `limit_rate` and `limit_rate_after`. Mirrors the limit in `ngx_http_write_filter_module.c`: a second's worth may go out at
//! once, counted in whole seconds of the clock.

use std::{
    future::poll_fn,
    task::{Poll, ready},
    time::Duration,
};

use crate::{
    common::clock::{self, Now},
    http::{
        conn::{Conn, ConnError},
        exchange::Exchange,
        out::Out,
        vars,
    },
};

/// The limit of one response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    /// Bytes per second.
    rate: u64,
    /// Bytes that go out unlimited.
    after: u64,
    start: i64,
}

impl Limiter {
    /// The limit that holds for the response, if there is one.
    pub(crate) fn new(x: &mut Exchange<'_>) -> Option<Self> {
        let core = &x.location.core;
        if x.limit_rate.is_none() && core.limit_rate.is_empty() {
            return None;
        }
        let rate = if let Some(rate) = x.limit_rate {
            rate
        } else {
            let rate = vars::parse_size(&core.limit_rate.to_vec(x)).unwrap_or(0);
            x.limit_rate = Some(rate);
            rate
        };
        if rate == 0 {
            return None;
        }
        let after = vars::parse_size(&core.limit_rate_after.to_vec(x)).unwrap_or(0);
        Some(Self {
            rate,
            after,
            start: x.started_wall.secs,
        })
    }

    /// A limit of `rate` bytes per second from now on.
    pub(crate) fn of_rate(rate: u64) -> Self {
        Self {
            rate,
            after: 0,
            start: clock::wall().secs,
        }
    }

    /// How many bytes may go out now when `sent` have, or when some may again.
    pub(crate) fn allowed(&self, sent: u64) -> Result<u64, Now> {
        let elapsed = u64::try_from(clock::wall().secs - self.start).unwrap_or(0) + 1;
        let budget = self.rate.saturating_mul(elapsed).saturating_add(self.after);
        match budget.checked_sub(sent) {
            Some(room) if room > 0 => Ok(room),
            _ => {
                let over = sent - budget;
                Err(clock::now().after(Duration::from_millis(over * 1000 / self.rate + 1)))
            }
        }
    }

    /// How long to wait after `moved` bytes, when `total` have been moved with them.
    pub(crate) fn pause(&self, moved: u64, total: u64) -> Duration {
        let excess = total.saturating_sub(self.after).min(moved);
        Duration::from_millis(excess * 1000 / self.rate)
    }

    /// Writes everything in `out`, in time.
    pub(crate) async fn flush(&self, x: &mut Exchange<'_>, out: &mut Out) -> Result<(), ConnError> {
        let timeout = x.location.core.send_timeout;
        while !out.is_empty() {
            let room = match self.allowed(x.bytes_sent()) {
                Ok(room) => room,
                Err(at) => {
                    wait(&mut x.conn, at).await?;
                    continue;
                }
            };
            let deadline = clock::now().after(timeout);
            let written = write_some(x, out, room, deadline).await?;
            if !out.is_empty() {
                let pause = self.pause(written, x.bytes_sent());
                if pause > Duration::ZERO {
                    wait(&mut x.conn, clock::now().after(pause)).await?;
                }
            }
        }
        Ok(())
    }
}

/// Waits until `end`, or until the client is gone (`ngx_http_test_reading`).
async fn wait(conn: &mut Conn, end: Now) -> Result<(), ConnError> {
    poll_fn(|cx| {
        if conn.poll_closed(cx).is_ready() {
            return Poll::Ready(Err(ConnError::Gone));
        }
        conn.timer.poll(cx, Some(end)).map(Ok)
    })
    .await
}

async fn write_some(
    x: &mut Exchange<'_>,
    out: &mut Out,
    room: u64,
    deadline: Now,
) -> Result<u64, ConnError> {
    poll_fn(|cx| {
        if let Poll::Ready(result) = x.conn.poll_write(out, room, cx) {
            return Poll::Ready(result.map_err(ConnError::Io));
        }
        ready!(x.conn.timer.poll(cx, Some(deadline)));
        Poll::Ready(Err(ConnError::Timeout))
    })
    .await
}
