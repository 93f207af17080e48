//! What the bytes from the upstream mean: where the body ends, what is framing, what are trailers; and what happens then.
//!
//! Mirrors the input filters of `ngx_http_proxy_module.c` (copy, chunked) for both ways of buffering.

use super::{End, Framing, Relay};
use crate::{
    common::buffer::Buf,
    conf::model::Level,
    http::{
        filters,
        h1::{
            chunked::Step,
            line::{self, Line},
        },
        out::Piece,
        proxy::tries,
    },
    upstream::Outcome,
};

impl Relay<'_, '_> {
    /// What came with the head.
    pub(super) fn take_preread(&mut self) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let buf = std::mem::take(&mut attempt.buf);
        self.count(buf.len(), true);
        self.feed(buf);
    }

    pub(super) fn count(&mut self, n: usize, preread: bool) {
        self.body_read += n as u64;
        if let Some(record) = self.x.attempts.current() {
            record.response_length += n as u64;
            if !preread {
                record.bytes_received += n as u64;
            }
        }
    }

    /// Takes bytes of the body.
    pub(super) fn feed(&mut self, mut buf: Buf) {
        while !buf.is_empty() && self.end.is_none() {
            match &mut self.framing {
                Framing::Close => return filters::body(self.x, Piece::Buf(buf)),
                Framing::Length(left) => {
                    let n = usize::try_from(*left).map_or(buf.len(), |left| left.min(buf.len()));
                    self.excess = buf.len() > n;
                    *left -= n as u64;
                    let done = *left == 0;
                    buf.truncate(n);
                    filters::body(self.x, Piece::Buf(buf));
                    if done {
                        self.complete();
                    }
                    return;
                }
                Framing::Chunked(decoder) => match decoder.step(buf.filled()) {
                    Step::More => return,
                    Step::Data { skip, data } => {
                        buf.consume(skip);
                        if data == buf.len() {
                            return filters::body(self.x, Piece::Buf(buf));
                        }
                        let piece = Piece::Vec(buf.filled()[..data].to_vec(), 0);
                        buf.consume(data);
                        filters::body(self.x, piece);
                    }
                    Step::End(n) => {
                        buf.consume(n);
                        if self.proxy.pass_trailers {
                            self.framing = Framing::Trailers;
                        } else {
                            self.excess = !buf.is_empty();
                            return self.complete();
                        }
                    }
                    Step::Invalid => {
                        self.x.log(
                            Level::Error,
                            format_args!("upstream sent invalid chunked response"),
                        );
                        return self.stop_reading(End::Broken);
                    }
                },
                Framing::Trailers => return self.trailers(buf),
                // Its bytes come without a buffer.
                Framing::Stream(_) => return,
            }
        }
        if matches!(self.framing, Framing::Length(0)) && self.end.is_none() {
            self.complete();
        }
    }

    /// Trailer lines; a line that is cut is kept for the next read.
    fn trailers(&mut self, mut buf: Buf) {
        loop {
            match line::line(buf.filled(), true) {
                Line::Partial => {
                    if let Some(attempt) = &mut self.attempt {
                        attempt.buf = buf;
                    }
                    return;
                }
                Line::End(n) => {
                    buf.consume(n);
                    self.excess = !buf.is_empty();
                    return self.complete();
                }
                Line::Field {
                    name, value, len, ..
                } => {
                    self.x.upstream_trailers.push_named(name, value);
                    buf.consume(len);
                }
                Line::Invalid(_) => {
                    self.x
                        .log(Level::Error, format_args!("upstream sent invalid trailer"));
                    return self.stop_reading(End::Broken);
                }
            }
        }
    }

    /// The upstream closed the connection.
    pub(super) fn eof(&mut self) {
        if matches!(self.framing, Framing::Close) {
            self.complete();
        } else {
            self.x.log(
                Level::Error,
                format_args!("upstream prematurely closed connection"),
            );
            self.stop_reading(End::Broken);
        }
    }

    /// The body is complete: the upstream is released before the client has everything.
    pub(super) fn complete(&mut self) {
        if self.excess {
            self.x.log(
                Level::Warn,
                format_args!("upstream sent more data than specified in \"Content-Length\" header"),
            );
        }
        self.pass_trailers();
        filters::finish(self.x);
        self.stop_reading(End::Complete);
    }

    pub(super) fn stop_reading(&mut self, end: End) {
        self.end = Some(end);
        if end != End::Complete {
            filters::sync(self.x);
        }
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let reusable = end == End::Complete
            && !attempt.head.close
            && !self.excess
            && attempt.request_complete
            && !matches!(self.framing, Framing::Close);
        let outcome = if end == End::Complete {
            Outcome::Ok
        } else {
            Outcome::Aborted
        };
        tries::release(self.x, self.target, attempt, outcome, reusable);
    }
}
