//! Long bodies that nothing looks at: from socket to socket inside the kernel.
//!
//! It begins whenever a body of known length has much left and the client has taken what was read so far. A client that
//! falls behind ends it: what is in the pipe comes into memory, and buffering goes on as for any other body.

use std::task::{Context, Poll};

use super::{End, Framing, Relay, Stop};
use crate::{
    common::{
        buffer::{Buf, LARGE},
        clock,
    },
    http::{
        out::Piece,
        proxy::{attempt::Link, tries},
    },
    net::splice::Pipe,
};

/// What must be left of a body so that a pipe is worth its system calls, bytes.
const WORTH: u64 = 2 * LARGE as u64;

impl Relay<'_, '_> {
    /// Whether the body goes to the client as it comes: no filter, no chunks, no limit, no TLS.
    pub(super) fn is_plain(&self) -> bool {
        let response = &self.x.response;
        let conn = self
            .attempt
            .as_ref()
            .and_then(|attempt| attempt.conn.as_ref());
        self.x.conn.io.is_plain()
            && !self.x.conn.io.is_stream()
            && matches!(conn, Some(Link::Socket(conn)) if conn.io.is_plain())
            && !response.chunked
            && response.filters.range.is_none()
            && response.filters.gzip.is_none()
            && self.write_limit.is_none()
            && self.read_limit.is_none()
    }

    /// Moves what it can through the pipe; true when something moved.
    pub(super) fn poll_splice(&mut self, cx: &mut Context<'_>) -> Result<bool, Stop> {
        let mut pipe = match self.pipe.take() {
            Some(pipe) => pipe,
            None => match self.begin() {
                Some(pipe) => pipe,
                None => return Ok(false),
            },
        };
        let mut moved = false;
        loop {
            let dry =
                pipe.is_empty() && (self.end.is_some() || !self.fill(&mut pipe, cx, &mut moved));
            if dry {
                break;
            }
            let Some(io) = self.x.conn.io.socket() else {
                self.fall_back(pipe);
                return Ok(true);
            };
            match pipe.poll_drain(io, cx) {
                Poll::Ready(Ok(n)) => {
                    self.x.conn.sent += n as u64;
                    self.write_deadline = None;
                    moved = true;
                }
                Poll::Ready(Err(error)) => return Err(Stop::Gone(Some(error))),
                Poll::Pending => {
                    self.fall_back(pipe);
                    return Ok(true);
                }
            }
        }
        if self.end.is_some() || !self.may_splice {
            self.x.thread.pipes.give(pipe);
        } else {
            self.pipe = Some(pipe);
        }
        Ok(moved)
    }

    /// A pipe, if one is worth it now.
    fn begin(&self) -> Option<Pipe> {
        let long = matches!(self.framing, Framing::Length(left) if left >= WORTH);
        (self.may_splice && long && self.end.is_none()).then(|| self.x.thread.pipes.take())?
    }

    /// Takes more of the body into the empty pipe; false when there is none now or no more.
    fn fill(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>, moved: &mut bool) -> bool {
        let Framing::Length(left) = self.framing else {
            return false;
        };
        let link = self.attempt.as_ref().and_then(|own| own.conn.as_ref());
        let Some(Link::Socket(conn)) = link else {
            self.end = Some(End::Broken);
            return false;
        };
        match pipe.poll_fill(&conn.io, left, cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(0)) => self.eof(),
            Poll::Ready(Ok(n)) => {
                self.read_deadline = clock::now().after(self.proxy.read_timeout);
                self.count(n, false);
                self.framing = Framing::Length(left - n as u64);
                if left == n as u64 {
                    self.complete();
                }
            }
            // A kind of socket that cannot: the ordinary way.
            Poll::Ready(Err(error)) if error.kind() == std::io::ErrorKind::InvalidInput => {
                self.may_splice = false;
                *moved = true;
                return false;
            }
            Poll::Ready(Err(error)) => {
                tries::log_recv(self.x, &error);
                self.stop_reading(End::Broken);
            }
        }
        *moved = true;
        !pipe.is_empty()
    }

    /// The client does not keep up: what is in the pipe waits in memory until it does.
    fn fall_back(&mut self, mut pipe: Pipe) {
        while !pipe.is_empty() {
            let mut buf = Buf::large();
            match pipe.read(buf.spare()) {
                Ok(n) if n > 0 => {
                    buf.advance(n);
                    self.x.out.push(Piece::Buf(buf));
                }
                // The pipe holds what it was given.
                _ => break,
            }
        }
        self.x.thread.pipes.give(pipe);
    }
}
