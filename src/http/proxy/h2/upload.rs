//! The body of a request on its way to a peer, while the response may be coming already.

use std::{
    rc::Rc,
    task::{Context, Poll, ready},
};

use super::stream::Sending;
use crate::{
    common::clock::{self, Now},
    conf::model::Proxy,
    http::{
        body,
        exchange::Exchange,
        out::{Out, Piece},
        proxy::{attempt::Fail, request::Built, send::poll_client},
    },
};

/// What is still to be sent of a request.
#[derive(Debug)]
pub(super) struct Upload {
    out: Out,
    /// The client is still sending.
    streaming: bool,
    /// The client is waited for, and not the peer.
    for_client: bool,
    /// Until when.
    deadline: Option<Now>,
}

/// How an upload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it is with the peer.
    All,
    /// The peer takes no more.
    Refused,
}

impl Upload {
    /// The body of `built`; None when there is none.
    pub(super) fn new(x: &mut Exchange<'_>, built: &Built) -> Option<Self> {
        let body = &x.request.body;
        let streaming = built.with_body && body.unbuffered && !body.is_read();
        let mut out = std::mem::take(&mut x.upstream_out);
        out.clear();
        if let Some(own) = &built.own_body {
            out.push(Piece::Shared(Rc::clone(own), 0));
        } else if built.with_body {
            for piece in body.pieces() {
                out.push(piece);
            }
        }
        if out.is_empty() && !streaming {
            x.upstream_out = out;
            return None;
        }
        if !streaming {
            out.end();
        }
        Some(Self {
            out,
            streaming,
            for_client: false,
            deadline: None,
        })
    }

    /// Moves what it can. Ready when nothing is left to be done.
    pub(super) fn poll(
        &mut self,
        x: &mut Exchange<'_>,
        sending: &mut Sending,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Sent, Fail>> {
        loop {
            if self.streaming {
                self.feed(x)?;
            }
            if !self.out.is_empty() {
                self.wait_for(false);
                let Ok(n) = ready!(self.out.poll_stream(sending, u64::MAX, cx)) else {
                    return Poll::Ready(Ok(Sent::Refused));
                };
                self.deadline = None;
                if let Some(record) = x.attempts.current() {
                    record.bytes_sent += n;
                }
                continue;
            }
            if !self.streaming {
                return Poll::Ready(Ok(Sent::All));
            }
            self.wait_for(true);
            match ready!(poll_client(&mut x.conn, cx)) {
                Ok(n) if n > 0 || x.request.body.is_stream() => self.deadline = None,
                _ => return Poll::Ready(Err(Fail::ClientGone)),
            }
        }
    }

    /// Whether what is being read of the client says that it is gone.
    pub(super) fn is_reading(&self) -> bool {
        self.streaming
    }

    /// Until when something has to have moved.
    pub(super) fn deadline(&mut self, x: &Exchange<'_>, proxy: &Proxy) -> Now {
        let timeout = if self.for_client {
            x.location.core.client_body_timeout
        } else {
            proxy.send_timeout
        };
        *self
            .deadline
            .get_or_insert_with(|| clock::now().after(timeout))
    }

    /// What it means that nothing has.
    pub(super) fn late(&self) -> Fail {
        if self.for_client {
            Fail::ClientBody(408)
        } else {
            Fail::Timeout
        }
    }

    /// Gives its memory back.
    pub(super) fn finish(self, x: &mut Exchange<'_>) {
        x.upstream_out = self.out;
    }

    fn wait_for(&mut self, client: bool) {
        if self.for_client != client {
            self.for_client = client;
            self.deadline = None;
        }
    }

    /// Moves what the client has sent to the output. It is kept too while that is little, so that it can be sent again.
    // DIFFERS(kept-body): nginx sends a body that was not buffered to one peer only.
    fn feed(&mut self, x: &mut Exchange<'_>) -> Result<(), Fail> {
        let mut buf = std::mem::take(&mut x.conn.buf);
        let max = x.location.core.client_max_body_size;
        let before = buf.len();
        let mut data = Vec::new();
        let body = &mut x.request.body;
        let taken = body.take((&mut buf, x.conn.eof), max, &mut |bytes| {
            data.extend_from_slice(bytes);
        });
        x.request.length += (before - buf.len()) as u64;
        x.conn.buf = buf;
        if let Err(error) = taken {
            return Err(Fail::ClientBody(body::refuse(x, error)));
        }
        body.keep(&data, x.location.core.client_body_buffer_size);
        if !data.is_empty() {
            self.out.push_vec(data);
        }
        if body.is_read() {
            self.streaming = false;
            body.complete = true;
            self.out.end();
        }
        Ok(())
    }
}
