//! A request and its response on a stream, in the place of a connection to a peer.

use std::{
    future::Future,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h2::{RecvStream, SendStream, client::ResponseFuture};

use super::{
    fault::Cut,
    gate::Shared,
    heads::{End, Read},
    line::Line,
    upload::Upload,
};
use crate::http::{
    h2::{
        frame::{HEAD, MAX_WHOLE},
        hpack::Fields,
    },
    out::{Piece, Sink},
};

/// A stream to a peer. Dropped before both sides have ended, it is cancelled.
#[derive(Debug)]
pub(in crate::http::proxy) struct Stream {
    line: Rc<Line>,
    number: u32,
    response: ResponseFuture,
    /// None before the head of the response.
    recv: Option<RecvStream>,
    /// What came and was not taken.
    data: Bytes,
    pub(super) sending: Sending,
    /// How often something had come on the connection when something last came on the stream.
    heard: u64,
    /// What is still to be sent.
    pub(super) upload: Option<Box<Upload>>,
    /// The connection had other requests before.
    pub(in crate::http::proxy) reused: bool,
}

/// The way to the peer.
#[derive(Debug)]
pub(super) struct Sending {
    send: SendStream<Chunk>,
    shared: Rc<Shared>,
}

/// Bytes of a request that the library holds.
#[derive(Debug)]
pub(super) struct Chunk {
    piece: Rc<Piece>,
    at: usize,
    end: usize,
    shared: Rc<Shared>,
}

impl Stream {
    /// Begins a request whose header block is `head`; `is_all`: nothing follows it.
    pub(super) fn open(line: Rc<Line>, head: &[u8], is_all: bool) -> Result<Self, h2::Error> {
        let reused = line.is_used();
        let (response, send) = line.open(head, is_all)?;
        let shared = Rc::clone(&line.shared);
        Ok(Self {
            number: response.stream_id().as_u32(),
            heard: shared.reads(),
            line,
            response,
            recv: None,
            data: Bytes::new(),
            sending: Sending { send, shared },
            upload: None,
            reused,
        })
    }

    /// Waits for the head of the response, or for one that comes before it.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Read, h2::Error>> {
        // The library does not say that there is one, but wakes.
        if let Some(hint) = self.line.shared.heads().take_early(self.number) {
            return Poll::Ready(Ok(Ok(hint)));
        }
        if self.recv.is_none() {
            let response = ready!(Pin::new(&mut self.response).poll(cx))?;
            self.heard = self.line.shared.reads();
            self.recv = Some(response.into_body());
        }
        let mut heads = self.line.shared.heads();
        let early = heads.take_early(self.number).map(Ok);
        let head = early.or_else(|| heads.take(self.number));
        // The library has seen one, so there is one.
        Poll::Ready(Ok(head.unwrap_or(Ok(Fields::default()))))
    }

    /// Nothing has come for so long that the request has failed. If that is true of the connection as well, it may lead
    /// nowhere any more, and gets no other.
    // DIFFERS(multiplexed): with a request at a time it would be closed now.
    pub(in crate::http::proxy) fn timed_out(&self) {
        if self.heard == self.line.shared.reads() {
            self.line.retire();
        }
    }

    /// Whether the client is read for what is to be sent.
    pub(super) fn is_reading_client(&self) -> bool {
        self.upload
            .as_ref()
            .is_some_and(|upload| upload.is_reading())
    }

    /// Whether nothing more comes, not even trailers.
    pub(super) fn has_ended(&self) -> bool {
        self.data.is_empty() && self.recv.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    /// Waits for more of the body, at most `limit` bytes; none is its end.
    pub(in crate::http::proxy) fn poll_data(
        &mut self,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Cut>> {
        let Some(recv) = &mut self.recv else {
            return Poll::Ready(Ok(Bytes::new()));
        };
        while self.data.is_empty() {
            // What the peer has said itself counts more than what the library makes of it; a reset also takes back what
            // waits, of which nobody could say that it is all.
            let end = self.line.shared.heads().end(self.number);
            match end {
                End::Reset(code) => return Poll::Ready(Err(Cut::Reset(code))),
                End::Again => return Poll::Ready(Err(Cut::Closed(self.number))),
                End::Open | End::Whole | End::Satisfied => {}
            }
            match ready!(recv.poll_data(cx)) {
                Some(Ok(data)) => {
                    self.data = data;
                    self.heard = self.line.shared.reads();
                }
                Some(Err(error)) if end != End::Satisfied => {
                    return Poll::Ready(Err(Cut::Library(error)));
                }
                Some(Err(_)) | None => return Poll::Ready(Ok(Bytes::new())),
            }
        }
        let data = self.data.split_to(limit.min(self.data.len()));
        // It fails for a stream that was reset, which the next read says.
        recv.flow_control().release_capacity(data.len()).ok();
        Poll::Ready(Ok(data))
    }

    /// Waits for the fields behind the body.
    pub(in crate::http::proxy) fn poll_trailers(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Read>> {
        if let Some(recv) = &mut self.recv {
            // Whatever it says: what there is was put aside.
            drop(ready!(recv.poll_trailers(cx)));
        }
        Poll::Ready(self.line.shared.heads().take(self.number))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.line.shared.heads().forget(self.number);
        self.line.ended();
    }
}

impl Sink for Sending {
    fn poll_room(&mut self, want: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let send = &mut self.send;
        if send.capacity() == 0 {
            send.reserve_capacity(want);
        }
        while send.capacity() == 0 {
            match ready!(send.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                // What the peer has said about it, the side that reads finds out.
                Some(Err(_)) | None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        Poll::Ready(Ok(send.capacity().min(want)))
    }

    fn send(
        &mut self,
        piece: &Rc<Piece>,
        (at, end): (usize, usize),
        is_last: bool,
    ) -> io::Result<u64> {
        let chunk = Chunk {
            piece: Rc::clone(piece),
            at,
            end,
            shared: Rc::clone(&self.shared),
        };
        self.send
            .send_data(chunk, is_last)
            .map_err(|_gone| io::ErrorKind::BrokenPipe)?;
        Ok((end - at) as u64 + (HEAD * (end - at).div_ceil(MAX_WHOLE).max(1)) as u64)
    }

    fn send_end(&mut self) -> io::Result<u64> {
        self.send(&Rc::new(Piece::Static(b"")), (0, 0), true)
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.end - self.at
    }

    fn chunk(&self) -> &[u8] {
        self.shared.offered.set(&self.piece, self.at);
        let bytes = self.piece.memory().unwrap_or_default();
        bytes.get(self.at..self.end).unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        self.at = (self.at + n).min(self.end);
    }
}
