//! A stream of HTTP/2 in the place of a client's socket: reads are its DATA, writes become DATA.
//!
//! A window is given back to the client as its bytes are taken; what is written waits for the client's window, so that a
//! stream that does not move holds no other up. Mirrors `ngx_http_v2_filter_module.c`.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Buf as _, Bytes};
use h2::{Reason, RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, Response, StatusCode};

use super::{
    block::Block,
    frame::{HEAD, MAX_WHOLE},
    gate::Shared,
};
use crate::{
    common::{buffer::Buf, prefetch::prefetch, recycle::Spares},
    http::out::{Piece, Sink},
    net::Io,
};

/// A stream.
#[derive(Debug)]
pub(in crate::http) struct Stream {
    /// Its number.
    pub(super) number: u32,
    shared: Rc<Shared>,
    held: Rc<Held>,
    respond: SendResponse<Chunk>,
    /// None until the head of the response is sent.
    send: Option<SendStream<Chunk>>,
    recv: RecvStream,
    /// What came and was not taken.
    data: Bytes,
    /// The head of a response was the last frame, or the end of the body was sent.
    ended: bool,
    /// Fields behind the body.
    trailers: Option<Block>,
    /// What a frame holds at most; 0: as much as the client takes.
    chunk: usize,
    /// Why the client has ended it.
    reset: Option<Reason>,
    /// Bytes of the heads of its DATA frames, and of trailers.
    framing: u64,
}

/// Bytes of a response that the library holds.
#[derive(Debug)]
pub(in crate::http) struct Chunk {
    piece: Rc<Piece>,
    at: usize,
    end: usize,
    shared: Rc<Shared>,
    held: Rc<Held>,
}

/// How much of a stream the library holds.
#[derive(Debug, Default)]
struct Held {
    chunks: Cell<usize>,
    /// Waits until there are none.
    task: RefCell<Option<Waker>>,
}

thread_local! {
    static HELD: Spares<Rc<Held>> = const { Spares::new() };
}

/// Keeps it for the next stream, if only the caller has it still.
fn keep(held: &Rc<Held>) {
    if Rc::strong_count(held) == 1 {
        // At thread end the spares may be gone; then its memory is simply freed.
        let _kept = HELD.try_with(|spares| spares.keep(Rc::clone(held)));
    }
}

impl Stream {
    /// A stream that the client has begun.
    pub(super) fn new(shared: Rc<Shared>, respond: SendResponse<Chunk>, recv: RecvStream) -> Self {
        Self {
            number: respond.stream_id().as_u32(),
            held: HELD.with(Spares::pop).unwrap_or_default(),
            shared,
            respond,
            send: None,
            recv,
            data: Bytes::new(),
            ended: false,
            trailers: None,
            chunk: 0,
            reset: None,
            framing: 0,
        }
    }

    /// Asks for its memory, which will be used.
    pub(in crate::http) fn prefetch(&self) {
        prefetch(self);
        prefetch(&raw const *self.held);
    }

    /// Looks at the socket that it shares with others.
    pub(in crate::http) fn with_socket<T>(&self, look: impl FnOnce(&Io) -> T) -> Option<T> {
        self.shared.with_io(look)
    }

    /// A header block that is empty.
    pub(super) fn block(&self) -> Block {
        self.shared.block()
    }

    /// Sends the head of the response; `is_all`: nothing follows.
    pub(super) fn send_head(&mut self, head: Block, is_all: bool) {
        // A stream that was reset takes no head: the next write says so.
        if let Ok(send) = self.respond.send_response(Response::new(()), is_all) {
            self.send = Some(send);
            self.shared.put_head(self.number, head);
        }
        self.ended = is_all;
    }

    /// Bytes that were sent and are neither heads nor body: `$body_bytes_sent` is without them.
    pub(in crate::http) fn framing(&self) -> u64 {
        self.framing
    }

    /// Sends a head before that of the response.
    pub(super) fn send_early(&mut self, head: Block) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::EARLY_HINTS;
        // A stream that was reset takes none: the next write says so.
        if self.respond.send_informational(response).is_ok() {
            self.shared.put_head(self.number, head);
        }
    }

    /// Sets how long frames are (`http2_chunk_size`).
    pub(super) fn set_chunk(&mut self, chunk: usize) {
        self.chunk = chunk;
    }

    /// Sets what follows the body.
    pub(super) fn set_trailers(&mut self, trailers: Block) {
        self.trailers = Some(trailers);
    }

    /// Whether all that the client sends was taken.
    pub(in crate::http) fn is_read(&self) -> bool {
        self.data.is_empty() && self.recv.is_end_stream()
    }

    /// Whether the whole response was handed over.
    pub(in crate::http) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends it before the response is complete.
    pub(super) fn abort(&mut self, reason: Reason) {
        match &mut self.send {
            _ if self.ended || self.reset.is_some() => {}
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    /// Ready when the library has written, or thrown away, all that it was given.
    pub(super) fn poll_sent(&self, cx: &Context<'_>) -> Poll<()> {
        if self.held.chunks.get() == 0 {
            return Poll::Ready(());
        }
        self.held.task.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Why the client has ended it.
    pub(super) fn reset(&self) -> Option<Reason> {
        self.reset
    }

    /// Ready when there is something to read, or the end, or an error.
    pub(in crate::http) fn poll_read_ready(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.data.is_empty() {
            match ready!(self.recv.poll_data(cx)) {
                None => break,
                Some(Ok(data)) => self.data = data,
                Some(Err(error)) => return Poll::Ready(Err(self.failed(&error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads into the spare part of `buf`, at most `limit` bytes; 0 is the end.
    pub(in crate::http) fn poll_fill(
        &mut self,
        buf: &mut Buf,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        loop {
            match self.poll_read_ready(cx) {
                Poll::Ready(Ok(())) => {}
                // What came before is of use still.
                _ if taken > 0 => break,
                other => ready!(other)?,
            }
            let n = self.data.len().min(limit - taken);
            let n = buf.extend(&self.data[..n]);
            self.data.advance(n);
            taken += n;
            if n == 0 {
                break;
            }
        }
        if taken > 0 {
            // It fails for a stream that was reset, which the next read says.
            self.recv.flow_control().release_capacity(taken).ok();
        }
        Poll::Ready(Ok(taken))
    }

    /// Ready when the client has ended the stream, or its connection.
    pub(in crate::http) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.reset.is_some() {
            return Poll::Ready(());
        }
        let reset = match &mut self.send {
            Some(send) => send.poll_reset(cx),
            None => self.respond.poll_reset(cx),
        };
        if let Ok(reason) = ready!(reset) {
            self.reset = Some(reason);
        }
        Poll::Ready(())
    }

    fn push(
        &mut self,
        piece: Rc<Piece>,
        (at, end): (usize, usize),
        is_last: bool,
    ) -> io::Result<()> {
        let Some(send) = &mut self.send else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        self.shared.queue(end - at);
        self.held.chunks.set(self.held.chunks.get() + 1);
        let chunk = Chunk {
            piece,
            at,
            end,
            shared: Rc::clone(&self.shared),
            held: Rc::clone(&self.held),
        };
        send.send_data(chunk, is_last)
            .map_err(|_gone| io::ErrorKind::BrokenPipe)?;
        self.ended |= is_last;
        Ok(())
    }

    fn failed(&mut self, error: &h2::Error) -> io::Error {
        if error.is_reset() && error.is_remote() {
            self.reset = error.reason();
        }
        io::ErrorKind::ConnectionReset.into()
    }
}

impl Sink for Stream {
    fn poll_room(&mut self, want: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(send) = &mut self.send else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        if send.capacity() == 0 {
            send.reserve_capacity(want);
        }
        while send.capacity() == 0 {
            match ready!(send.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(self.failed(&error))),
                None => {
                    if let Poll::Ready(Ok(reason)) = send.poll_reset(cx) {
                        self.reset = Some(reason);
                    }
                    return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                }
            }
        }
        Poll::Ready(Ok(send.capacity().min(want)))
    }

    fn send(
        &mut self,
        piece: &Rc<Piece>,
        (mut at, end): (usize, usize),
        is_last: bool,
    ) -> io::Result<u64> {
        let (frame, mut sent) = (
            if self.chunk == 0 {
                MAX_WHOLE
            } else {
                self.chunk
            },
            0,
        );
        let is_last = is_last && self.trailers.is_none();
        loop {
            let stop = if self.chunk == 0 {
                end
            } else {
                end.min(at + frame)
            };
            self.push(Rc::clone(piece), (at, stop), is_last && stop == end)?;
            let framing = (HEAD * (stop - at).div_ceil(frame).max(1)) as u64;
            self.framing += framing;
            sent += (stop - at) as u64 + framing;
            at = stop;
            if at == end {
                return Ok(sent);
            }
        }
    }

    fn send_end(&mut self) -> io::Result<u64> {
        if self.ended {
            return Ok(0);
        }
        if let Some(trailers) = self.trailers.take()
            && let Some(send) = &mut self.send
        {
            self.ended = true;
            let length = trailers.size();
            self.framing += length;
            send.send_trailers(HeaderMap::new())
                .map_err(|_gone| io::ErrorKind::BrokenPipe)?;
            self.shared.put_head(self.number, trailers);
            return Ok(length);
        }
        self.push(Rc::new(Piece::Static(b"")), (0, 0), true)?;
        self.framing += HEAD as u64;
        Ok(HEAD as u64)
    }
}

impl bytes::Buf for Chunk {
    fn remaining(&self) -> usize {
        self.end - self.at
    }

    fn chunk(&self) -> &[u8] {
        self.shared.offer(&self.piece, self.at);
        let bytes = self.piece.memory().unwrap_or_default();
        bytes.get(self.at..self.end).unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        self.at = (self.at + n).min(self.end);
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let held = &self.held;
        self.shared.unqueue();
        held.chunks.set(held.chunks.get() - 1);
        if held.chunks.get() == 0
            && let Some(task) = held.task.take()
        {
            task.wake();
        }
        keep(held);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        keep(&self.held);
    }
}
