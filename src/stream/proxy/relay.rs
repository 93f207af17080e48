//! Both directions of a session until one side ends it, or both with `proxy_half_close`.
//!
//! Mirrors `ngx_stream_proxy_init_upstream`, `ngx_stream_proxy_process_connection`, `ngx_stream_proxy_test_finalize` and
//! `ngx_stream_proxy_finalize`.

use std::{
    future::poll_fn,
    io,
    task::{Context, Poll, ready},
};

use super::{connect::Peer, rate::Rate, tls, way::Way};
use crate::{
    common::clock::{self, Now},
    conf::{model::Level, value},
    net::{Io, connect::is_network_error},
    stream::session::{Action, Downstream, Session},
    tls::failure,
    upstream::Outcome,
    vars::Template,
};

/// Two sockets and what is between them.
#[derive(Debug)]
struct Relay {
    peer: Peer,
    /// From the client.
    up: Way,
    /// From the upstream.
    down: Way,
    /// When it has been idle for too long; None while a rate makes it wait.
    deadline: Option<Now>,
    /// The first byte of the peer, or its end, has been seen.
    has_begun: bool,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// One side has closed its end and everything is passed on that has to be.
    Client,
    Upstream,
    /// Nothing moved for `proxy_timeout`.
    Idle,
    /// A side takes no more.
    Broken,
    /// Sessions have to end.
    Ending,
    /// The end could not be passed on.
    Failed,
}

/// Passes bytes both ways until the end; the session's status. The session began in second `start` of the day's clock.
pub(super) async fn run(s: &mut Session<'_, Io>, peer: Peer, start: i64) -> u16 {
    let conf = &*s.server.proxy;
    let header = tls::header(s);
    let (is_plain, nodelay) = (peer.io.is_plain(), s.server.core.tcp_nodelay);
    // It has gone before the handshake otherwise.
    let first = if is_plain { &*header } else { b"" };
    let mut relay = Relay {
        peer,
        up: Way::new(
            rate(s, &conf.upload_rate, start),
            nodelay && is_plain,
            first,
        ),
        down: Way::new(
            rate(s, &conf.download_rate, start),
            nodelay && !s.is_nodelay,
            b"",
        ),
        deadline: None,
        has_begun: false,
    };
    if !is_plain {
        relay.up.written = header.len() as u64;
    }
    drop(header);
    let end = poll_fn(|cx| relay.poll(s, cx)).await;
    relay.finish(s, end)
}

/// A rate as it is for this session.
pub(in crate::stream) fn rate<D: Downstream>(
    s: &mut Session<'_, D>,
    template: &Template,
    start: i64,
) -> Option<Rate> {
    if template.is_empty() {
        return None;
    }
    let text = template.to_vec(s);
    if text.is_empty() {
        return None;
    }
    let size = value::size(&text);
    if size.is_none() {
        let text = String::from_utf8_lossy(&text);
        s.log(Level::Error, format_args!("invalid size \"{text}\""));
    }
    Rate::new(size?, start)
}

impl Relay {
    fn poll(&mut self, s: &mut Session<'_, Io>, cx: &mut Context<'_>) -> Poll<End> {
        let timeout = s.server.proxy.timeout;
        loop {
            if s.thread.is_ending() {
                return Poll::Ready(End::Ending);
            }
            let (moved, end) = self.turn(s, cx);
            if let Some(end) = end {
                return Poll::Ready(end);
            }
            let now = clock::now();
            let pauses = self
                .up
                .pausing(now)
                .into_iter()
                .chain(self.down.pausing(now));
            if let Some(until) = pauses.min() {
                self.deadline = None;
                ready!(s.timer.poll(cx, Some(until)));
            } else {
                if moved || self.deadline.is_none() {
                    self.deadline = Some(now.after(timeout));
                }
                ready!(s.timer.poll(cx, self.deadline));
                return Poll::Ready(End::Idle);
            }
        }
    }

    /// Lets both directions move what they can: whether anything happened, and whether that was the end.
    fn turn(&mut self, s: &mut Session<'_, Io>, cx: &mut Context<'_>) -> (bool, Option<End>) {
        let (size, pipes) = (s.server.proxy.buffer_size, &s.thread.pipes);
        let (near, far) = (&mut s.downstream, &mut self.peer.io);
        let down = self.down.poll((&mut *far, &mut *near), size, pipes, cx);
        if (down || self.down.is_ending())
            && let Some(end) = self.after_down(s, cx)
        {
            return (true, Some(end));
        }
        let (near, far) = (&mut s.downstream, &mut self.peer.io);
        let up = self.up.poll((near, far), size, pipes, cx);
        if (up || self.up.is_ending())
            && let Some(end) = self.after_up(s, cx)
        {
            return (true, Some(end));
        }
        (down || up, None)
    }

    fn after_down(&mut self, s: &mut Session<'_, Io>, cx: &mut Context<'_>) -> Option<End> {
        s.bytes.from_upstream = self.down.read;
        s.bytes.to_client = self.down.written;
        if !self.has_begun && (self.down.read > 0 || self.down.eof) {
            self.has_begun = true;
            let now = clock::now().millis();
            self.peer.lease.first_byte(now);
            if let Some(record) = s.attempts.current() {
                record.first_byte_time = Some(now.saturating_sub(self.peer.lease.start()));
            }
        }
        if let Some(error) = self.down.read_error.take() {
            report(s, Action::ReadingFromUpstream, "recv()", &error);
        }
        if let Some(error) = self.down.write_error.take() {
            report(s, Action::SendingToClient, "writev()", &error);
            return Some(End::Broken);
        }
        s.action = Action::Proxying;
        if self.is_over(s.server.proxy.half_close) {
            return Some(End::Upstream);
        }
        pass_end_on(
            s.server.proxy.half_close,
            &mut self.down,
            &mut s.downstream,
            cx,
        )
    }

    fn after_up(&mut self, s: &mut Session<'_, Io>, cx: &mut Context<'_>) -> Option<End> {
        s.bytes.from_client = self.up.read;
        s.bytes.to_upstream = self.up.written;
        if let Some(error) = self.up.read_error.take() {
            report(s, Action::ReadingFromClient, "recv()", &error);
        }
        if let Some(error) = self.up.write_error.take() {
            report(s, Action::SendingToUpstream, "writev()", &error);
            return Some(End::Broken);
        }
        s.action = Action::Proxying;
        if self.is_over(s.server.proxy.half_close) {
            return Some(End::Client);
        }
        pass_end_on(
            s.server.proxy.half_close,
            &mut self.up,
            &mut self.peer.io,
            cx,
        )
    }

    /// Whether nothing is left to do.
    fn is_over(&self, half_close: bool) -> bool {
        let (up, down) = (&self.up, &self.down);
        if half_close {
            return up.eof && down.eof && !up.holds() && !down.holds();
        }
        // A side that has closed its end is sent nothing more.
        match (up.eof, down.eof) {
            (false, false) => false,
            (true, false) => !up.holds(),
            (false, true) => !down.holds(),
            (true, true) => true,
        }
    }

    /// Ends the session; its status.
    fn finish(self, s: &mut Session<'_, Io>, end: End) -> u16 {
        match end {
            End::Client => disconnected(s, "client"),
            End::Upstream => disconnected(s, "upstream"),
            End::Idle => s.log(
                Level::Info,
                format_args!("connection timed out (110: Connection timed out)"),
            ),
            End::Ending => s.log(Level::Info, format_args!("shutdown timeout")),
            End::Broken | End::Failed => {}
        }
        let now = clock::now().millis();
        let bytes = s.bytes;
        if let Some(record) = s.attempts.current() {
            record.response_time = Some(now.saturating_sub(self.peer.lease.start()));
            record.bytes_received = bytes.from_upstream;
            record.bytes_sent = bytes.to_upstream;
        }
        // A peer that took the connection has not failed.
        let _never_disabled = self.peer.lease.finish(Outcome::Ok, now);
        if end == End::Failed { 500 } else { 200 }
    }
}

/// `proxy_half_close`: the end of one direction is the end of that direction alone.
fn pass_end_on(half_close: bool, way: &mut Way, to: &mut Io, cx: &mut Context<'_>) -> Option<End> {
    if !half_close || !way.eof || way.is_shut || way.holds() {
        return None;
    }
    match to.poll_shutdown(cx) {
        Poll::Ready(Err(_)) => return Some(End::Failed),
        Poll::Ready(Ok(())) => way.is_shut = true,
        // The good-bye of TLS waits for room.
        Poll::Pending => {}
    }
    None
}

fn disconnected(s: &Session<'_, Io>, side: &str) {
    let bytes = &s.bytes;
    s.log_plain(Level::Info, format_args!("{side} disconnected, {bytes}"));
}

/// Logs a failed system call on one of the sockets.
pub(in crate::stream) fn report<D: Downstream>(
    s: &mut Session<'_, D>,
    action: Action,
    call: &str,
    error: &io::Error,
) {
    let of_client = matches!(action, Action::ReadingFromClient | Action::SendingToClient);
    // What is none of the system's comes from the other side too: a fault of TLS.
    let is_network = error.raw_os_error().is_none() || is_network_error(error);
    let level = match (is_network, of_client) {
        (true, true) => Level::Info,
        (true, false) => Level::Error,
        (false, _) => Level::Alert,
    };
    s.action = action;
    s.log(level, format_args!("{}", failure(call, error)));
}
