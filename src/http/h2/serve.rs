//! The task of an HTTP/2 connection, and the tasks of its streams.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use h2::{
    Reason, RecvStream,
    server::{Builder, Connection, SendResponse},
};

use super::{
    fault::Code,
    gate::{Gate, Shared},
    hpack::Limits,
    request,
    runner::Turns,
    scanner::{Bounds, Head},
    stream::{Chunk, Stream},
};
use crate::{
    common::{
        clock::{self, Now},
        prefetch::Prefetch,
    },
    conf::model::{Level, LingeringClose, Listen},
    http::{
        conn::Conn,
        connection::linger,
        down::Down,
        exchange::{self, Exchange},
        log, phases,
        thread::Thread,
    },
    net::Timer,
};

/// How much of a response the library holds for a stream whose client does not read, bytes.
const SEND_BUFFER: usize = 128 << 10;

/// How long a small response waits at most for others while the thread is busy.
const PATIENCE: Duration = Duration::from_micros(300);

/// A connection of HTTP/2.
struct Served<'a> {
    thread: &'a Rc<Thread>,
    listen: &'a Listen,
    /// The number of its listen.
    number: usize,
    conn: Box<Conn>,
    shared: Rc<Shared>,
    /// Since when there has been no request.
    idle_since: Option<Now>,
    /// A stream was begun.
    has_begun: bool,
    /// Since when a head has been coming.
    head_since: Option<Now>,
    /// The connection is over when everything is written, or at this time.
    closing: Option<Now>,
    /// The client has broken the rules: requests are not waited for.
    failed: bool,
    /// Since when what is to be written waits for more, and how many requests were done when that was looked at last.
    waiting: Option<(Now, u64)>,
    /// Log lines of streams refer to it.
    requests: u64,
}

/// Serves a connection whose client speaks HTTP/2, to its end.
pub(in crate::http) async fn serve(
    thread: &Rc<Thread>,
    (listen, number): (&Listen, usize),
    mut conn: Box<Conn>,
) {
    let bounds = bounds(listen);
    // What is done with the socket itself, while it is here.
    conn.local();
    conn.nodelay(&listen.default_server.location.core);
    let input = std::mem::take(&mut conn.buf);
    let Some(io) = conn.io.take_socket() else {
        return;
    };
    let shared = Shared::new(io, input, bounds);
    let core = &listen.default_server.location.core;
    let mut served = Served {
        thread,
        listen,
        number,
        conn,
        shared,
        idle_since: Some(clock::now()),
        has_begun: false,
        head_since: None,
        closing: None,
        failed: false,
        waiting: None,
        requests: 0,
    };
    served.run(bounds).await;
    let Served {
        shared, mut conn, ..
    } = served;
    if let Some(io) = shared.take_io().filter(|_| !shared.is_eof())
        && core.lingering_close != LingeringClose::Off
    {
        conn.io = Down::Socket(io);
        linger(conn, core.lingering_time, core.lingering_timeout).await;
    }
    // What upstreams still do for streams that are gone belongs to the connection.
    poll_fn(|cx| {
        if shared.open() == 0 {
            return Poll::Ready(());
        }
        shared.wake_at_end(cx.waker());
        Poll::Pending
    })
    .await;
}

fn bounds(listen: &Listen) -> Bounds {
    let server = &listen.default_server;
    let (count, size) = server.core.large_client_header_buffers;
    let core = &server.location.core;
    Bounds {
        head: Limits {
            field: size,
            total: size.saturating_mul(count),
        },
        streams: server.http2.max_concurrent_streams as usize,
        window: server.http2.body_preread_size,
        requests: if core.keepalive_timeout.is_zero() {
            0
        } else {
            core.keepalive_requests
        },
    }
}

/// The library's settings. Its own limits of floods are out of the way of the scanner's, which are nginx's.
fn builder(bounds: Bounds) -> Builder {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut builder = Builder::new();
    builder
        // DIFFERS(body-window): nginx opens it without bound once the body is read.
        .max_concurrent_streams(small(bounds.streams))
        .initial_window_size(small(bounds.window).min(0x7fff_ffff))
        .initial_connection_window_size(0x7fff_ffff)
        .max_frame_size(0xff_ffff)
        .max_pending_accept_reset_streams(bounds.streams.saturating_mul(2).saturating_add(1))
        .max_send_buffer_size(SEND_BUFFER);
    builder
}

impl Served<'_> {
    async fn run(&mut self, bounds: Bounds) {
        let gate = Gate(Rc::clone(&self.shared));
        let mut handshake = pin!(builder(bounds).handshake(gate));
        let h2 = poll_fn(|cx| {
            if let Poll::Ready(result) = handshake.as_mut().poll(cx) {
                return Poll::Ready(result.ok());
            }
            if let Poll::Ready(Err(_)) = self.shared.poll_flush(cx) {
                return Poll::Ready(None);
            }
            if let Some(fault) = self.shared.take_fault() {
                self.log(&fault.text);
                return Poll::Ready(None);
            }
            let timeout = self.listen.default_server.core.client_header_timeout;
            let deadline = self.idle_since.map(|since| since.after(timeout));
            self.conn.timer.poll(cx, deadline).map(|()| None)
        })
        .await;
        if let Some(mut h2) = h2 {
            poll_fn(|cx| self.poll(&mut h2, cx)).await;
        }
    }

    fn log(&self, text: &str) {
        let sink = self
            .thread
            .live
            .error_sink(&self.listen.default_server.location);
        let (client, server) = (&self.conn.client.text, &self.listen.bind_addr);
        sink.emit(
            Level::Info,
            Some(self.conn.id),
            format_args!(
                "{text} while processing HTTP/2 connection, client: {client}, server: {server}"
            ),
        );
    }

    /// Ready when the connection is over.
    fn poll(&mut self, h2: &mut Connection<Gate, Chunk>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.watch_end(cx);
            let accepted = h2.poll_accept(cx);
            for note in self.shared.take_notes() {
                self.log(&note);
            }
            match accepted {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.begin(respond, request.into_body());
                    continue;
                }
                Poll::Ready(_) => {
                    if self.shared.is_eof() && self.shared.open() > 0 {
                        self.log("client prematurely closed connection");
                    }
                    return Poll::Ready(());
                }
                Poll::Pending => {}
            }
            // The library has written all that it can.
            if self.waits_for_more(cx) {
                return Poll::Pending;
            }
            if let Poll::Ready(Err(_)) = self.shared.poll_flush(cx) {
                continue;
            }
            if let Some(fault) = self.shared.take_fault() {
                self.log(&fault.text);
                self.failed = true;
                self.close(fault.code);
            } else if self.is_over(cx) {
                return Poll::Ready(());
            } else {
                ready!(self.poll_time(cx));
            }
        }
    }

    /// Whether responses wait for others that are about to come: until the thread has looked at its sockets again, and then
    /// on while it is busy. A write costs as much as all else that is done for a small response.
    fn waits_for_more(&mut self, cx: &mut Context<'_>) -> bool {
        let (now, done) = (clock::now(), self.thread.done());
        self.waiting = match self.waiting {
            _ if !self.shared.may_wait() => None,
            None => Some((now, done)),
            Some((since, before)) if done != before && now < since.after(PATIENCE) => {
                Some((since, done))
            }
            Some(_) => None,
        };
        // It wakes when the thread has looked.
        self.waiting.is_some() && pin!(tokio::task::yield_now()).poll(cx).is_pending()
    }

    /// `keepalive_time`, and the end of the worker.
    fn watch_end(&mut self, cx: &Context<'_>) {
        let core = &self.listen.default_server.location.core;
        if clock::now().since(self.conn.started) > core.keepalive_time {
            self.shared.expire();
        }
        if self.thread.is_shutting_down() {
            self.shared.say_goaway(Code::None);
        } else if !self.conn.wakes_at_shutdown {
            // The task's waker stays the same.
            self.conn.wakes_at_shutdown = true;
            self.thread.wake_at_shutdown(self.conn.id, cx.waker());
        }
    }

    /// Whether all is done: no request is served and none is taken, or they end with the connection, and everything is
    /// written.
    fn is_over(&mut self, cx: &Context<'_>) -> bool {
        let is_idle = self.shared.open() == 0;
        self.idle_since = match self.idle_since {
            _ if !is_idle => None,
            None => Some(clock::now()),
            since => since,
        };
        self.head_since = match self.head_since {
            _ if !self.shared.is_in_head() => None,
            None => Some(clock::now()),
            since => since,
        };
        if let Some(deadline) = self.closing
            && (clock::now() >= deadline || (self.failed && self.shared.has_said()))
        {
            return true;
        }
        if !is_idle {
            self.shared.wake_at_end(cx.waker());
            return false;
        }
        if self.closing.is_none() && self.shared.is_going() {
            let timeout = self.listen.default_server.location.core.send_timeout;
            self.closing = Some(clock::now().after(timeout));
        }
        self.closing.is_some() && self.shared.is_flushed()
    }

    /// Tells the client that the connection ends, and why.
    fn close(&mut self, code: Code) {
        let timeout = self.listen.default_server.location.core.send_timeout;
        self.closing = Some(clock::now().after(timeout));
        self.shared.say_goaway(code);
    }

    /// Ready when a time has come, and something has to be looked at again.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let server = &self.listen.default_server;
        self.has_begun |= self.shared.requests() > 0;
        let patience = if self.has_begun {
            server.location.core.keepalive_timeout
        } else {
            server.core.client_header_timeout
        };
        let head = self
            .head_since
            .map(|since| since.after(server.core.client_header_timeout));
        let idle = self.idle_since.map(|since| since.after(patience));
        let deadline = match self.closing {
            None => head.or(idle),
            closing => closing,
        };
        ready!(self.conn.timer.poll(cx, deadline));
        if self.closing.is_none() && head.is_some() {
            self.log("client timed out (110: Connection timed out)");
            self.shared.give_up_head();
            self.head_since = None;
            self.idle_since = self.idle_since.map(|_| clock::now());
            self.has_begun = true;
        } else if self.closing.is_none() && self.shared.is_partial() {
            self.log("client timed out (110: Connection timed out)");
            self.close(Code::Protocol);
        } else if self.closing.is_none() {
            self.close(Code::None);
        }
        Poll::Ready(())
    }

    /// Begins a request.
    fn begin(&mut self, mut respond: SendResponse<Chunk>, body: RecvStream) {
        let Some(head) = self.shared.head(respond.stream_id().as_u32()) else {
            respond.send_reset(if self.shared.was_late(respond.stream_id().as_u32()) {
                Reason::PROTOCOL_ERROR
            } else {
                Reason::REFUSED_STREAM
            });
            return;
        };
        self.requests += 1;
        self.shared.enter();
        let stream = || Stream::new(Rc::clone(&self.shared), respond, body);
        let stream = self.thread.streams.put(stream);
        let conn = self.conn.of_stream(stream, self.requests);
        let conn = self.thread.take_conn(conn);
        let job = Job {
            number: self.number,
            conn,
            head,
            open: Open(Rc::clone(&self.shared)),
        };
        let thread = Rc::clone(self.thread);
        let run = |turns| run(thread, turns);
        self.thread.runners.start(job, run);
    }
}

/// A request to be served.
pub(in crate::http) struct Job {
    /// The number of its listen.
    number: usize,
    conn: Box<Conn>,
    head: Head,
    open: Open,
}

/// Serves requests as long as there is a use for the task.
async fn run(thread: Rc<Thread>, turns: Turns<Job>) {
    let mut next = turns.first();
    // It is set already more often than not.
    let mut timer = Timer::default();
    while let Some(job) = next {
        let Job {
            number,
            mut conn,
            head,
            open,
        } = job;
        conn.prefetch();
        head.fields.prefetch();
        timer.prefetch();
        if let Some(listen) = thread.live.http().listens.get(number) {
            conn.timer = timer;
            let mut conn = exchange(&thread, listen, conn, head).await;
            turns.prefetch();
            timer = std::mem::take(&mut conn.timer);
            thread.give_conn(conn);
        }
        thread.count_done();
        drop(open);
        next = turns.next(&thread.runners).await;
    }
}

/// A stream whose task has not ended.
struct Open(Rc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Serves the request of a stream.
async fn exchange(thread: &Thread, listen: &Listen, conn: Box<Conn>, head: Head) -> Box<Conn> {
    let count = thread.tally.request();
    let mut x = Exchange::new(thread, listen, conn);
    match request::read(&mut x, &head) {
        Ok(()) => {
            head.fields.end();
            count.begin_writing();
            let mut served = log::Served::new(&mut x);
            phases::run(&mut served).await;
            served.end();
        }
        Err(status) => {
            x.request.body.discarded = true;
            phases::refuse(&mut x, status).await;
        }
    }
    finish(&mut x).await;
    log::request(&mut x);
    exchange::end!(x)
}

/// Ends the stream of a response that broke off, when what there is of it has gone out.
async fn finish(x: &mut Exchange<'_>) {
    let timeout = x.location.core.send_timeout;
    let reason = if x.timed_out {
        Reason::PROTOCOL_ERROR
    } else {
        Reason::INTERNAL_ERROR
    };
    let Some(stream) = x.conn.io.stream() else {
        return;
    };
    let reset = stream.reset();
    if let Some(reason) = reset {
        let number = stream.number;
        match reason {
            Reason::CANCEL => x.log(Level::Info, format_args!("client canceled stream {number}")),
            Reason::INTERNAL_ERROR => x.log(
                Level::Info,
                format_args!("client terminated stream {number} due to internal error"),
            ),
            reason => x.log(
                Level::Info,
                format_args!(
                    "client terminated stream {number} with status {}",
                    u32::from(reason)
                ),
            ),
        }
        return;
    }
    if stream.has_ended() {
        return;
    }
    tokio::task::yield_now().await;
    sent(&mut x.conn, timeout).await;
    if let Some(stream) = x.conn.io.stream() {
        stream.abort(reason);
    }
}

/// Waits until the library has written what it has of the response.
async fn sent(conn: &mut Conn, timeout: Duration) {
    let deadline = clock::now().after(timeout);
    poll_fn(|cx| {
        if let Some(stream) = conn.io.stream()
            && stream.poll_sent(cx).is_pending()
            && stream.poll_reset(cx).is_pending()
        {
            return conn.timer.poll(cx, Some(deadline));
        }
        Poll::Ready(())
    })
    .await;
}
