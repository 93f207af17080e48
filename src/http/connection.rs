//! A client's connection from accept to close: request after request, idle time between, the end.
//!
//! Mirrors `ngx_http_wait_request_handler`, `ngx_http_finalize_connection`, `ngx_http_set_keepalive` and
//! `ngx_http_lingering_close_handler` (`http/ngx_http_request.c`).

use std::{
    future::poll_fn,
    rc::Rc,
    task::{Poll, ready},
    time::Duration,
};

use super::{
    body,
    conn::Conn,
    exchange::{self, Exchange},
    h2,
    head::{self, Head},
    log, phases,
    thread::Thread,
    tls,
};
use crate::{
    common::{
        buffer::{Buf, SMALL},
        clock,
    },
    conf::model::{Level, LingeringClose, Listen},
    net::{
        self, Arrival, Io, TlsIo,
        proxy_protocol::{self, HeaderError},
    },
};

/// What happens to a connection after a request.
enum After {
    /// The next request, within this time; when the worker ends, within `grace` of it.
    Keep { idle: Duration, grace: Duration },
    /// The client may still be sending: read on for a while, then close.
    Linger { time: Duration, timeout: Duration },
    /// Close at once.
    Close,
    /// Close with RST (`reset_timedout_connection`).
    Reset,
}

/// When the worker ends, a connection that has been idle for so long is closed, and no other: a client that is busy is
/// about to send, or has sent already. What it sends is answered with `Connection: close`.
// DIFFERS(idle-close): nginx closes all that have no request at the moment.
const GRACE: Duration = Duration::from_millis(500);

impl Thread {
    /// Serves a connection that was accepted at socket number `socket`, to its end.
    pub async fn serve(self: Rc<Self>, arrival: Arrival, socket: usize) {
        self.opened();
        let _count = self.tally.connection();
        let conn = Box::new(Conn::new(arrival, clock::now()));
        let id = conn.id;
        serve(&self, conn, socket).await;
        self.forget_idle(id);
        self.closed();
    }
}

async fn serve(thread: &Rc<Thread>, mut conn: Box<Conn>, socket: usize) {
    let listens = &thread.live.http().listens;
    let behind = thread.live.sockets.get(socket);
    let Some(listen) =
        behind.and_then(|behind| net::listen::listen(listens, behind, || conn.local().clone()))
    else {
        return;
    };
    let mut timeout = listen.default_server.core.client_header_timeout;
    let mut at_quit = GRACE;
    if listen.proxy_protocol
        && !(wait(thread, &mut conn, timeout, at_quit).await
            && take_proxy_header(thread, listen, &mut conn))
    {
        return;
    }
    if listen.ssl && conn.io.is_plain() {
        if conn.buf.is_empty() && !wait(thread, &mut conn, timeout, at_quit).await {
            return;
        }
        if tls::is_greeting(&conn) {
            let deadline = clock::now().after(timeout);
            let shaken = Box::pin(tls::shake(thread, listen, conn, deadline)).await;
            let Some(shaken) = shaken else { return };
            conn = shaken;
            if tls::has_h2(&conn) {
                return serve_h2(thread, listen, conn).await;
            }
        }
    }
    loop {
        let pipelined = !conn.buf.is_empty() && conn.requests > 0;
        if conn.buf.is_empty() && !wait(thread, &mut conn, timeout, at_quit).await {
            return;
        }
        if conn.requests == 0 && speaks_h2(listen) && begins_h2(&mut conn, timeout).await {
            return serve_h2(thread, listen, conn).await;
        }
        let (returned, after) = Box::pin(request(thread, (listen, pipelined), conn)).await;
        conn = returned;
        match after {
            After::Keep { idle, grace } => (timeout, at_quit) = (idle, grace),
            After::Linger { time, timeout } => return linger(conn, time, timeout).await,
            After::Close => return,
            After::Reset => {
                // Without the option the close is an ordinary one.
                drop(conn.io.with_socket(Io::reset_on_close));
                return;
            }
        }
    }
}

/// Serves a connection of HTTP/2.
async fn serve_h2(thread: &Rc<Thread>, listen: &Listen, conn: Box<Conn>) {
    let listens = &thread.live.http().listens;
    let number = listens.iter().position(|other| std::ptr::eq(other, listen));
    // Rare enough to be boxed: other connections are smaller for it.
    Box::pin(h2::serve(thread, (listen, number.unwrap_or(0)), conn)).await;
}

/// Whether clients may begin with HTTP/2 here; with TLS it is agreed on in the handshake.
fn speaks_h2(listen: &Listen) -> bool {
    !listen.ssl && (listen.http2 || listen.default_server.http2.enabled)
}

/// Whether the client begins as one of HTTP/2 does; more is read until that is known.
async fn begins_h2(conn: &mut Conn, timeout: Duration) -> bool {
    let deadline = Some(clock::now().after(timeout));
    loop {
        let came = conn.buf.filled();
        if came.len() >= h2::scanner::PREFACE.len() || !h2::scanner::PREFACE.starts_with(came) {
            return came.starts_with(h2::scanner::PREFACE);
        }
        match conn.read(deadline).await {
            Ok(n) if n > 0 => {}
            // The request line that it could still become is judged elsewhere.
            _ => return false,
        }
    }
}

/// Takes the header of the PROXY protocol off what has come; false when there is none.
fn take_proxy_header(thread: &Thread, listen: &Listen, conn: &mut Conn) -> bool {
    match proxy_protocol::read(conn.buf.filled()) {
        Ok((len, header)) => {
            conn.buf.consume(len);
            conn.proxied = header.map(Box::new);
            true
        }
        Err(HeaderError::Silent) => false,
        Err(error) => {
            let sink = thread.live.error_sink(&listen.default_server.location);
            let (client, server) = (&conn.client.text, &listen.bind_addr);
            sink.emit(
                Level::Error,
                Some(conn.id),
                format_args!(
                    "{error} while reading PROXY protocol, client: {client}, server: {server}"
                ),
            );
            false
        }
    }
}

/// Waits for the first byte of a request without holding a buffer; false when the connection is to be closed. A connection
/// that had a request before waits only for `grace` when the worker ends.
async fn wait(thread: &Thread, conn: &mut Conn, timeout: Duration, grace: Duration) -> bool {
    conn.buf = Buf::default();
    let begun = clock::now();
    let readable = poll_fn(|cx| {
        if let Poll::Ready(result) = conn.io.poll_read_ready(cx) {
            return Poll::Ready(result.is_ok());
        }
        let is_ending = conn.requests > 0 && thread.is_shutting_down();
        let patience = if is_ending {
            timeout.min(grace)
        } else {
            timeout
        };
        if conn.requests > 0 && !is_ending && !conn.wakes_at_shutdown {
            // The task's waker stays the same.
            conn.wakes_at_shutdown = true;
            thread.wake_at_shutdown(conn.id, cx.waker());
        }
        ready!(conn.timer.poll(cx, Some(begun.after(patience))));
        // The runtime may not know yet what has come while it was busy; closing would answer it with a reset.
        Poll::Ready(is_ending && conn.io.socket().is_some_and(Io::has_arrived))
    })
    .await;
    if !readable {
        return false;
    }
    conn.buf = Buf::small();
    let deadline = Some(clock::now().after(timeout));
    matches!(conn.read(deadline).await, Ok(n) if n > 0)
}

/// Serves one request.
async fn request(
    thread: &Thread,
    (listen, pipelined): (&Listen, bool),
    mut conn: Box<Conn>,
) -> (Box<Conn>, After) {
    conn.requests += 1;
    let count = thread.tally.request();
    let mut x = Exchange::new(thread, listen, conn);
    x.pipelined = pipelined;
    let deadline = Some(x.started.after(x.server.core.client_header_timeout));
    match head::read(&mut x, deadline).await {
        Head::Ready => {
            count.begin_writing();
            let mut served = log::Served::new(&mut x);
            phases::run(&mut served).await;
            served.end();
        }
        Head::Refused(status) => {
            x.request.body.discarded = true;
            phases::refuse(&mut x, status).await;
        }
        Head::Gone(status) => {
            x.response.status = status;
            x.broken = true;
        }
    }
    log::request(&mut x);
    let after = after(&mut x).await;
    if !matches!(after, After::Keep { .. }) {
        // Who sees the connection end finds the line in the log.
        thread.access.flush_lines();
    }
    (exchange::end!(x), after)
}

/// Decides what happens to the connection (`ngx_http_finalize_connection`).
async fn after(x: &mut Exchange<'_>) -> After {
    let core = &x.location.core;
    if x.timed_out && core.reset_timedout_connection {
        return After::Reset;
    }
    if x.broken || x.timed_out {
        return After::Close;
    }
    if x.keepalive && !x.request.body.is_read() {
        x.keepalive = body::drain(x).await;
    }
    if x.conn.eof {
        return After::Close;
    }
    if x.keepalive {
        // The client was told so, also when the worker has begun to end since.
        x.conn.nodelay(core);
        return After::Keep {
            idle: core.keepalive_timeout,
            grace: core.keepalive_min_timeout.max(GRACE),
        };
    }
    // The end of a handshake, after a request that came before it, is still to come too.
    let is_early = |io: &Io| io.tls().is_some_and(TlsIo::is_early);
    let unread = !x.request.body.is_read()
        || !x.conn.buf.is_empty()
        || x.conn.io.with_socket(is_early).unwrap_or(false);
    match core.lingering_close {
        LingeringClose::Always => {}
        LingeringClose::On if x.lingering_close || unread => {}
        _ => return After::Close,
    }
    After::Linger {
        time: core.lingering_time,
        timeout: core.lingering_timeout,
    }
}

/// Sends FIN and reads what the client still sends, so that it sees the response before a reset.
pub(super) async fn linger(mut conn: Box<Conn>, time: Duration, timeout: Duration) {
    let Some(io) = conn.io.socket() else {
        return;
    };
    if poll_fn(|cx| io.poll_shutdown(cx)).await.is_err() {
        return;
    }
    let end = clock::now().after(time);
    loop {
        let deadline = Some(clock::now().after(timeout).min(end));
        if clock::now() >= end || conn.readable(deadline).await.is_err() {
            return;
        }
        conn.buf = Buf::with_capacity(SMALL);
        match conn.read(deadline).await {
            Ok(n) if n > 0 => {}
            _ => return,
        }
    }
}
