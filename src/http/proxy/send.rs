//! The request on its way to a peer over HTTP/1.
//!
//! Mirrors `ngx_http_upstream_send_request` and `ngx_http_upstream_send_request_body`.

use std::{
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use super::{
    attempt::{Fail, wait},
    peer::PeerConn,
    request::Built,
};
use crate::{
    common::{buffer::Buf, clock},
    conf::model::{Level, Proxy},
    http::{
        body,
        conn::Conn,
        exchange::Exchange,
        h1::chunked,
        out::{Out, Piece},
    },
    tls::failure,
};

/// Sends the request; false when the peer answered before it was complete.
pub(super) async fn send(
    x: &mut Exchange<'_>,
    proxy: &Proxy,
    conn: &mut PeerConn,
    built: &Built,
) -> Result<bool, Fail> {
    let mut out = std::mem::take(&mut x.upstream_out);
    out.clear();
    out.push(Piece::Shared(Rc::clone(&built.head), 0));
    if built.with_body && !x.request.body.unbuffered {
        for piece in x.request.body.pieces() {
            out.push(piece);
        }
    }
    let mut sender = Sender {
        out,
        sent: 0,
        last_chunk: built.chunked,
    };
    if built.with_body && x.request.body.unbuffered && !x.request.body.memory.is_empty() {
        sender.push(x.request.body.memory.clone(), x.request.chunked);
    }
    let result = sender.run(x, proxy, conn, built).await;
    x.upstream_out = std::mem::take(&mut sender.out);
    if let Some(record) = x.attempts.current() {
        record.bytes_sent += sender.sent;
    }
    result
}

struct Sender {
    out: Out,
    sent: u64,
    /// The end of a chunked body is still to be sent.
    last_chunk: bool,
}

impl Sender {
    async fn run(
        &mut self,
        x: &mut Exchange<'_>,
        proxy: &Proxy,
        conn: &mut PeerConn,
        built: &Built,
    ) -> Result<bool, Fail> {
        let streaming = built.with_body && x.request.body.unbuffered;
        // Of a client whose body is awaited the read says that it is gone.
        let watch = !streaming && !proxy.ignore_client_abort;
        loop {
            if streaming {
                self.feed(x)?;
            }
            if self.out.is_empty() && (!streaming || x.request.body.is_read()) {
                if streaming {
                    x.request.body.complete = true;
                }
                return Ok(true);
            }
            let waiting_for_client = self.out.is_empty();
            let timeout = if waiting_for_client {
                x.location.core.client_body_timeout
            } else {
                proxy.send_timeout
            };
            let deadline = clock::now().after(timeout);
            let step = wait(&mut x.conn, watch, deadline, |client, cx| {
                if !waiting_for_client
                    && let Poll::Ready(result) = self.out.poll_write(&mut conn.io, u64::MAX, cx)
                {
                    return Poll::Ready(Event::Sent(result));
                }
                if !conn.is_idle(cx) {
                    return Poll::Ready(Event::Answered);
                }
                if streaming {
                    return poll_client(client, cx).map(Event::Client);
                }
                Poll::Pending
            })
            .await;
            let step = step.map_err(|fail| match fail {
                Fail::Timeout if waiting_for_client => Fail::ClientBody(408),
                fail => fail,
            })?;
            match step {
                Event::Sent(Ok(n)) => self.sent += n,
                Event::Sent(Err(error)) => {
                    let text = failure("writev()", &error);
                    x.log(Level::Error, format_args!("{text}"));
                    return Err(Fail::Error);
                }
                Event::Answered => return Ok(false),
                Event::Client(Ok(n)) if n > 0 || x.request.body.is_stream() => {}
                Event::Client(_) => return Err(Fail::ClientGone),
            }
        }
    }

    /// Moves what the client has sent of its body to the output.
    fn feed(&mut self, x: &mut Exchange<'_>) -> Result<(), Fail> {
        let mut buf = std::mem::take(&mut x.conn.buf);
        let max = x.location.core.client_max_body_size;
        let before = buf.len();
        let mut data = Vec::new();
        let taken = x
            .request
            .body
            .take((&mut buf, x.conn.eof), max, &mut |bytes| {
                data.extend_from_slice(bytes);
            });
        x.request.length += (before - buf.len()) as u64;
        x.conn.buf = buf;
        if let Err(error) = taken {
            return Err(Fail::ClientBody(body::refuse(x, error)));
        }
        if !data.is_empty() {
            self.push(data, x.request.chunked);
        }
        if x.request.body.is_read() && std::mem::take(&mut self.last_chunk) {
            self.out.push(Piece::Static(chunked::LAST));
        }
        Ok(())
    }

    /// Appends a part of the body.
    fn push(&mut self, data: Vec<u8>, chunked: bool) {
        if chunked {
            let mut line = Vec::with_capacity(20);
            chunked::begin(data.len(), &mut line);
            self.out.push_vec(line);
        }
        self.out.push_vec(data);
        if chunked {
            self.out.push(Piece::Static(b"\r\n"));
        }
    }
}

enum Event {
    Sent(io::Result<u64>),
    Answered,
    Client(io::Result<usize>),
}

pub(super) fn poll_client(conn: &mut Conn, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    if conn.buf.capacity() == 0 {
        ready!(conn.io.poll_read_ready(cx))?;
        conn.buf = Buf::large();
    }
    conn.buf.compact();
    if conn.buf.spare().is_empty() {
        return Poll::Pending;
    }
    let result = ready!(conn.io.poll_fill(&mut conn.buf, usize::MAX, cx));
    conn.eof |= matches!(result, Ok(0)) || conn.io.has_ended();
    Poll::Ready(result)
}
