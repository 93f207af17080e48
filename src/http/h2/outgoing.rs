//! The library's frames on their way out: where it has a head, there goes ours.
//!
//! The library gets the shortest head there is, whose frame stands for the block that was made here. It takes valid heads
//! only, and compresses them with a table, which costs more than all else that it does for a small response. Pure: bytes in,
//! bytes out.
#![warn(clippy::indexing_slicing)]

use std::collections::VecDeque;

use super::{
    frame::{CONTINUATION, END, END_HEADERS, Frame, HEAD, HEADERS, MAX_WHOLE, RST_STREAM},
    table::Table,
};
use crate::common::recycle::Spares;

/// The frames towards one peer.
#[derive(Debug, Default)]
pub(in crate::http) struct Outgoing {
    /// Header blocks that the library has not come for, and their streams.
    blocks: VecDeque<(u32, Vec<u8>)>,
    /// Streams that the other end has ended. The library may or may not have their heads in hand.
    ended: Vec<u32>,
    /// What the other end remembers of heads, where it is asked to.
    table: Option<Table>,
    /// A block on its way out.
    written: Vec<u8>,
    /// How long its frames are; 0: as anybody takes them.
    frame_size: usize,
    /// The head of the frame at hand, as far as it has come.
    prefix: Vec<u8>,
    /// How much of its payload is to come.
    left: usize,
    /// It goes nowhere.
    is_replaced: bool,
}

/// Bytes that go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The payload of a frame of the library's, or some of it, where the library has it.
    Payload(&'a [u8]),
    /// Others.
    Other(&'a [u8]),
}

/// The library has a head of which nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

/// Memory of longer blocks is not kept, bytes.
const KEPT_BYTES: usize = 2048;

thread_local! {
    /// Memory of blocks that are gone.
    static SPARE: Spares<Vec<u8>> = const { Spares::new() };
}

/// Memory for a block.
pub(in crate::http) fn memory() -> Vec<u8> {
    let spare = SPARE.with(Spares::pop);
    spare.unwrap_or_else(|| Vec::with_capacity(256))
}

/// Keeps that of one that is gone.
fn keep(mut block: Vec<u8>) {
    if block.capacity() <= KEPT_BYTES {
        block.clear();
        SPARE.with(|spares| spares.keep(block));
    }
}

impl Outgoing {
    /// One towards a client, which remembers fields.
    pub(super) fn with_table() -> Self {
        Self {
            table: Some(Table::default()),
            ..Self::default()
        }
    }

    /// The client takes frames of so many bytes.
    pub(super) fn limit_frames(&mut self, size: usize) {
        self.frame_size = size;
    }

    /// The client remembers so many bytes at most.
    pub(super) fn limit_table(&mut self, max: usize) {
        if let Some(table) = &mut self.table {
            table.limit(max);
        }
    }

    /// One that lets so many bytes through before the first frame.
    pub(super) fn after(n: usize) -> Self {
        Self {
            left: n,
            ..Self::default()
        }
    }

    /// Gives memory back that is not needed while there are no requests.
    pub(in crate::http) fn rest(&mut self) {
        self.written = Vec::new();
    }

    /// The block for the next head of a stream.
    pub(in crate::http) fn push(&mut self, stream: u32, block: Vec<u8>) {
        self.blocks.push_back((stream, block));
    }

    /// The other end has ended a stream.
    pub(super) fn end(&mut self, stream: u32) {
        if self.blocks.iter().any(|(other, _)| *other == stream) {
            self.ended.push(stream);
        }
    }

    /// The library has nothing in hand: it has forgotten heads of streams that were ended.
    pub(super) fn flushed(&mut self) {
        for stream in std::mem::take(&mut self.ended) {
            self.forget(stream);
        }
    }

    /// Takes what the library writes; what becomes of it is given to `put`.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        put: &mut impl FnMut(Part<'_>),
    ) -> Result<(), Unknown> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (payload, rest) = bytes.split_at(self.left.min(bytes.len()));
                if !self.is_replaced {
                    put(Part::Payload(payload));
                }
                self.left -= payload.len();
                bytes = rest;
                continue;
            }
            let head = if self.prefix.is_empty() {
                bytes.split_first_chunk()
            } else {
                None
            };
            if let Some((head, rest)) = head {
                self.begin(*head, put)?;
                bytes = rest;
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(HEAD - self.prefix.len()));
            self.prefix.extend_from_slice(part);
            if let Ok(head) = <[u8; HEAD]>::try_from(&*self.prefix) {
                self.prefix.clear();
                self.begin(head, put)?;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// A frame begins.
    fn begin(&mut self, head: [u8; HEAD], put: &mut impl FnMut(Part<'_>)) -> Result<(), Unknown> {
        let frame = Frame::of(head);
        self.left = frame.len;
        self.is_replaced = frame.kind == HEADERS;
        if self.is_replaced {
            return self.replace(frame, put);
        }
        if frame.kind == RST_STREAM {
            self.forget(frame.stream);
        }
        put(Part::Other(&head));
        Ok(())
    }

    /// Puts our block where `frame` begins.
    fn replace(&mut self, frame: Frame, put: &mut impl FnMut(Part<'_>)) -> Result<(), Unknown> {
        let mut blocks = self.blocks.iter();
        let place = blocks.position(|(stream, _)| *stream == frame.stream);
        let (stream, block) = place
            .and_then(|place| self.blocks.remove(place))
            .ok_or(Unknown)?;
        self.written.clear();
        let written = match &mut self.table {
            Some(table) => {
                table.write(&block, &mut self.written);
                &*self.written
            }
            None => &*block,
        };
        let (mut rest, mut kind, mut flags) = (written, HEADERS, frame.flags & END);
        let frame_size = self.frame_size.max(MAX_WHOLE);
        loop {
            let (part, behind) = rest.split_at(rest.len().min(frame_size));
            if behind.is_empty() {
                flags |= END_HEADERS;
            }
            let len = part.len();
            put(Part::Other(
                &Frame {
                    len,
                    kind,
                    flags,
                    stream,
                }
                .bytes(),
            ));
            put(Part::Other(part));
            if behind.is_empty() {
                break;
            }
            (rest, kind, flags) = (behind, CONTINUATION, 0);
        }
        keep(block);
        Ok(())
    }

    fn forget(&mut self, stream: u32) {
        while let Some(place) = self.blocks.iter().position(|(other, _)| *other == stream)
            && let Some((_, block)) = self.blocks.remove(place)
        {
            keep(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS_1: [u8; 10] = [0, 0, 1, HEADERS, END_HEADERS, 0, 0, 0, 1, 0x88];
    const LAST_3: [u8; 10] = [0, 0, 1, HEADERS, END_HEADERS | END, 0, 0, 0, 3, 0x88];
    const DATA_1: [u8; 12] = [0, 0, 3, 0, END, 0, 0, 0, 1, 7, 8, 9];
    const RESET_1: [u8; 13] = [0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0, 2];

    /// What comes of `parts`, written one after the other.
    fn written(outgoing: &mut Outgoing, parts: &[&[u8]]) -> Result<Vec<u8>, Unknown> {
        let mut out = Vec::new();
        for part in parts {
            outgoing.take(part, &mut |part| {
                let (Part::Payload(bytes) | Part::Other(bytes)) = part;
                out.extend_from_slice(bytes);
            })?;
        }
        Ok(out)
    }

    #[test]
    fn heads_are_put_in_however_the_bytes_come() {
        let all = [&HEADERS_1[..], &DATA_1, &LAST_3].concat();
        let expected = [
            &[0, 0, 2, HEADERS, END_HEADERS, 0, 0, 0, 1, b'a', b'b'][..],
            &DATA_1,
            &[0, 0, 1, HEADERS, END_HEADERS | END, 0, 0, 0, 3, b'c'],
        ];
        for step in 1..=all.len() {
            let mut outgoing = Outgoing::default();
            outgoing.push(3, b"c".to_vec());
            outgoing.push(1, b"ab".to_vec());
            let parts: Vec<_> = all.chunks(step).collect();
            assert_eq!(
                written(&mut outgoing, &parts),
                Ok(expected.concat()),
                "{step}"
            );
        }
    }

    #[test]
    fn a_long_head_goes_on_in_a_second_frame() {
        let mut outgoing = Outgoing::default();
        outgoing.push(3, vec![b'x'; MAX_WHOLE + 1]);
        let out = written(&mut outgoing, &[&LAST_3]).unwrap();
        let (first, second) = out.split_at(HEAD + MAX_WHOLE);
        assert_eq!(
            first.first_chunk(),
            Some(&[0, 0x40, 0, HEADERS, END, 0, 0, 0, 3])
        );
        assert_eq!(
            second,
            [0, 0, 1, CONTINUATION, END_HEADERS, 0, 0, 0, 3, b'x']
        );
    }

    #[test]
    fn a_client_takes_longer_frames() {
        let mut outgoing = Outgoing::default();
        outgoing.limit_frames(MAX_WHOLE + 1);
        outgoing.push(3, vec![b'x'; MAX_WHOLE + 1]);
        let out = written(&mut outgoing, &[&LAST_3]).unwrap();
        assert_eq!(out.len(), HEAD + MAX_WHOLE + 1);
    }

    #[test]
    fn heads_of_one_stream_keep_their_order() {
        let mut outgoing = Outgoing::default();
        for block in [b"a", b"b", b"c"] {
            outgoing.push(1, block.to_vec());
        }
        let out = written(&mut outgoing, &[&HEADERS_1, &HEADERS_1, &HEADERS_1]).unwrap();
        let blocks: Vec<_> = out.iter().filter(|c| c.is_ascii_lowercase()).collect();
        assert_eq!(blocks, [&b'a', &b'b', &b'c']);
    }

    #[test]
    fn streams_that_are_over_leave_nothing() {
        // We have ended it.
        let mut outgoing = Outgoing::default();
        outgoing.push(1, b"a".to_vec());
        assert_eq!(written(&mut outgoing, &[&RESET_1]), Ok(RESET_1.to_vec()));
        assert!(outgoing.blocks.is_empty());
        // The other end has, while the library had the head in hand, and while it had not.
        outgoing.push(1, b"a".to_vec());
        outgoing.end(1);
        assert!(written(&mut outgoing, &[&HEADERS_1]).is_ok());
        outgoing.push(1, b"a".to_vec());
        outgoing.push(3, b"b".to_vec());
        outgoing.end(1);
        outgoing.flushed();
        assert_eq!(outgoing.blocks.len(), 1);
        assert_eq!(written(&mut outgoing, &[&HEADERS_1]), Err(Unknown));
    }
}
