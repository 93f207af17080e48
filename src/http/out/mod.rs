//! What waits to be written to a socket: pieces of memory and of files, in order.
//!
//! Head and first body bytes leave in one vectored write. A piece of a file is read just before it is written.

mod piece;

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    os::unix::fs::FileExt,
    rc::Rc,
    task::{Context, Poll, ready},
};

pub(super) use self::piece::Piece;
use crate::{
    common::{
        buffer::Buf,
        prefetch::{Prefetch, prefetch},
    },
    net::Io,
};

/// A stream that takes pieces of output as its other end has room for them.
pub(super) trait Sink {
    /// Waits until some of `want` bytes may be sent; how many.
    fn poll_room(&mut self, want: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>>;

    /// Sends these bytes of `piece`, for which there is room; `is_last`: the body ends with them. How many bytes that are on
    /// the connection.
    fn send(&mut self, piece: &Rc<Piece>, range: (usize, usize), is_last: bool) -> io::Result<u64>;

    /// Sends the end of the body, if it was not sent with its last bytes.
    fn send_end(&mut self) -> io::Result<u64>;
}

/// Pieces waiting to be written.
#[derive(Debug, Default)]
pub(super) struct Out {
    pieces: VecDeque<Piece>,
    bytes: u64,
    in_memory: u64,
    /// The end of a stream's body is still to be said.
    ends: bool,
    /// A short piece that a stream had, to be used again when it has it no more.
    lent: Option<Rc<Piece>>,
}

/// Up to this length a copy is cheaper than a piece of its own, bytes.
const SHORT: usize = 1024;

/// How many pieces one vectored write takes.
const BATCH: usize = 16;

impl Prefetch for Out {
    fn prefetch(&self) {
        prefetch(self.pieces.as_slices().0.as_ptr());
        if let Some(lent) = &self.lent {
            lent.prefetch();
        }
    }
}

impl Out {
    /// Adds a piece at the end. A short one joins the bytes before it, so that a small response is one plain write.
    pub(super) fn push(&mut self, piece: Piece) {
        let len = piece.len();
        if len == 0 {
            return;
        }
        self.bytes += len;
        let Some(bytes) = piece.memory() else {
            return self.pieces.push_back(piece);
        };
        self.in_memory += len;
        match self.pieces.back_mut() {
            Some(Piece::Vec(last, _)) if bytes.len() <= SHORT => last.extend_from_slice(bytes),
            _ => self.pieces.push_back(piece),
        }
    }

    /// Adds bytes at the end.
    pub(super) fn push_vec(&mut self, bytes: Vec<u8>) {
        self.push(Piece::Vec(bytes, 0));
    }

    /// Adds a copy of bytes at the end, to the ones before it where they are one's own.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        if let Some(Piece::Vec(last, _)) = self.pieces.back_mut() {
            last.extend_from_slice(bytes);
            self.bytes += bytes.len() as u64;
            self.in_memory += bytes.len() as u64;
        } else {
            // Others follow, up to a write.
            let mut own = Vec::with_capacity(bytes.len().max(2 * SHORT));
            own.extend_from_slice(bytes);
            self.push_vec(own);
        }
    }

    /// How many bytes in memory wait.
    pub(super) fn in_memory(&self) -> u64 {
        self.in_memory
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0 && !self.ends
    }

    /// Nothing follows: a stream says so with the last bytes.
    pub(super) fn end(&mut self) {
        self.ends = true;
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
        self.in_memory = 0;
        self.ends = false;
    }

    /// Writes once, at most `limit` bytes; how many were written. With nothing to write it is ready with 0.
    pub(super) fn poll_write(
        &mut self,
        io: &mut Io,
        limit: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        if self.is_empty() || limit == 0 {
            return Poll::Ready(Ok(0));
        }
        if let Some(Piece::File { .. }) = self.pieces.front() {
            ready!(io.poll_write_ready(cx))?;
            self.load()?;
        }
        let written = ready!(self.poll_write_memory(io, limit, cx))?;
        self.consume(written);
        Poll::Ready(Ok(written as u64))
    }

    /// Writes once of the pieces that are in memory, the first of which is.
    fn poll_write_memory(
        &self,
        io: &mut Io,
        limit: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let (Some(one), 1) = (self.pieces.front(), self.pieces.len()) {
            return io.poll_write(cx, one.beginning(limit).unwrap_or_default());
        }
        let mut slices = [IoSlice::new(&[]); BATCH];
        let (mut room, mut count) = (limit, 0);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            let Some(bytes) = piece.beginning(room).filter(|_| room > 0) else {
                break;
            };
            *slice = IoSlice::new(bytes);
            room -= bytes.len() as u64;
            count += 1;
        }
        match &slices[..count] {
            [one] => io.poll_write(cx, one),
            several => io.poll_write_vectored(cx, several),
        }
    }

    /// Gives a stream what its client takes, at most `limit` bytes; how many that are on the connection. Pieces are shared
    /// with the stream, not copied.
    pub(super) fn poll_stream(
        &mut self,
        stream: &mut impl Sink,
        limit: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        let (mut written, mut room) = (0, limit);
        while self.bytes > 0 && room > 0 {
            if let Some(Piece::File { .. }) = self.pieces.front() {
                self.load()?;
            }
            let Some((piece, at, end)) = self.share_front() else {
                break;
            };
            let len = end - at;
            let want = usize::try_from(room).map_or(len, |room| room.min(len));
            let n = match stream.poll_room(want, cx) {
                Poll::Pending if written > 0 => return Poll::Ready(Ok(written)),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(n) => n?,
            };
            let is_last = self.ends && self.bytes == n as u64;
            written += stream.send(&piece, (at, at + n), is_last)?;
            room -= n as u64;
            self.consume(n);
        }
        if self.bytes == 0 && std::mem::take(&mut self.ends) {
            written += stream.send_end()?;
        }
        Poll::Ready(Ok(written))
    }

    /// The piece at the front, to be held by others too, and which of its bytes are not gone. A large buffer with few bytes
    /// is not held for them.
    fn share_front(&mut self) -> Option<(Rc<Piece>, usize, usize)> {
        let front = self.pieces.front_mut()?;
        if let Piece::Part(piece, at, end) = front {
            return Some((Rc::clone(piece), *at, *end));
        }
        let piece = match std::mem::replace(front, Piece::Static(b"")) {
            Piece::Buf(buf) if buf.len() <= SHORT => {
                let mut piece = self.lent.take().unwrap_or_default();
                let own = Rc::get_mut(&mut piece);
                if let Some(Piece::Vec(bytes, 0)) = own {
                    bytes.clear();
                    bytes.extend_from_slice(buf.filled());
                } else {
                    piece = Rc::new(Piece::Vec(buf.filled().to_vec(), 0));
                }
                self.lent = Some(Rc::clone(&piece));
                piece
            }
            other => Rc::new(other),
        };
        let end = piece.memory().map_or(0, <[u8]>::len);
        *front = Piece::Part(Rc::clone(&piece), 0, end);
        Some((piece, 0, end))
    }

    /// Replaces all pieces in memory by what `write` makes of their bytes, in order; what came from a file goes back to it.
    pub(super) fn spill(
        &mut self,
        write: &mut dyn FnMut(&[u8]) -> io::Result<Piece>,
    ) -> io::Result<()> {
        let mut result = Ok(());
        for piece in std::mem::take(&mut self.pieces) {
            let spilled = match piece {
                Piece::Loaded { buf, file, offset } => Piece::File {
                    file,
                    offset,
                    len: buf.len() as u64,
                },
                piece => match piece.memory().filter(|_| result.is_ok()).map(&mut *write) {
                    Some(Ok(spilled)) => spilled,
                    Some(Err(error)) => {
                        result = Err(error);
                        piece
                    }
                    None => piece,
                },
            };
            self.append(spilled);
        }
        let in_memory = self.pieces.iter().filter_map(Piece::memory);
        self.in_memory = in_memory.map(|bytes| bytes.len() as u64).sum();
        result
    }

    /// Puts a piece behind the last one, or makes them one when they are neighbours in a file.
    fn append(&mut self, piece: Piece) {
        if let Piece::File { file, offset, len } = &piece
            && let Some(Piece::File {
                file: last_file,
                offset: start,
                len: last_len,
            }) = self.pieces.back_mut()
            && Rc::ptr_eq(file, last_file)
            && *start + *last_len == *offset
        {
            *last_len += len;
            return;
        }
        self.pieces.push_back(piece);
    }

    /// Replaces the piece of a file at the front by a buffer with its first bytes and the rest.
    fn load(&mut self) -> io::Result<()> {
        let Some(Piece::File { file, offset, len }) = self.pieces.front_mut() else {
            return Ok(());
        };
        let mut buf = Buf::large();
        let want = usize::try_from(*len).map_or(buf.capacity(), |len| len.min(buf.capacity()));
        let got = file.read_at(&mut buf.spare()[..want], *offset)?;
        if got == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "file truncated",
            ));
        }
        buf.advance(got);
        let loaded = Piece::Loaded {
            buf,
            file: Rc::clone(file),
            offset: *offset,
        };
        *offset += got as u64;
        *len -= got as u64;
        if *len == 0 {
            self.pieces.pop_front();
        }
        self.in_memory += got as u64;
        self.pieces.push_front(loaded);
        Ok(())
    }

    /// Drops `n` bytes from the front. With TLS they may be more than what the last write was given: those that an earlier
    /// one began with, which have gone to a file since.
    fn consume(&mut self, mut n: usize) {
        self.bytes -= n as u64;
        while let Some(piece) = self.pieces.front_mut() {
            let len = usize::try_from(piece.len()).unwrap_or(usize::MAX);
            let taken = n.min(len);
            if piece.memory().is_some() {
                self.in_memory -= taken as u64;
            }
            if n < len {
                piece.consume(n);
                return;
            }
            n -= taken;
            self.pieces.pop_front();
            if n == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Moves what is in memory to the end of a file, which is at `end`.
    fn spill(out: &mut Out, file: &Rc<File>, end: &mut u64) {
        out.spill(&mut |bytes| {
            file.write_all_at(bytes, *end)?;
            let (offset, len) = (*end, bytes.len() as u64);
            *end += len;
            let file = Rc::clone(file);
            Ok(Piece::File { file, offset, len })
        })
        .unwrap();
    }

    #[test]
    fn what_was_read_goes_back_to_its_file() {
        let file = Rc::new(tempfile::tempfile().unwrap());
        let mut end = 0;
        let mut out = Out::default();
        let mut spill = |out: &mut Out| {
            spill(out, &file, &mut end);
            (out.pieces.len(), out.in_memory(), end)
        };
        for _ in 0..3 {
            out.push_vec(vec![b'x'; 2000]);
        }
        assert_eq!(spill(&mut out), (1, 0, 6000));
        out.load().unwrap();
        out.consume(1500);
        out.push_vec(vec![b'x'; 2000]);
        assert_eq!(out.in_memory(), 6500);
        assert_eq!(spill(&mut out), (1, 0, 8000), "only what is new is written");
        assert_eq!(out.bytes, 6500);
    }

    #[test]
    fn what_was_sealed_before_it_was_spilled_is_gone() {
        let file = Rc::new(tempfile::tempfile().unwrap());
        let mut out = Out::default();
        for _ in 0..2 {
            out.push_vec(vec![b'x'; 2000]);
        }
        spill(&mut out, &file, &mut 0);
        out.push_vec(vec![b'y'; 2000]);
        out.consume(4500);
        assert_eq!((out.bytes, out.in_memory()), (1500, 1500));
        out.consume(1500);
        assert!(out.is_empty() && out.in_memory() == 0);
    }

    #[test]
    fn what_cannot_be_written_stays_in_memory() {
        let mut out = Out::default();
        out.push_vec(b"first".to_vec());
        out.push(Piece::Shared(Rc::new(vec![b'x'; 2000]), 0));
        out.spill(&mut |_| Err(io::ErrorKind::StorageFull.into()))
            .unwrap_err();
        assert_eq!(
            (out.pieces.len(), out.in_memory(), out.bytes),
            (2, 2005, 2005)
        );
    }
}
