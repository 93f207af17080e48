//! Header blocks: where they begin and end, which are refused, and what the library gets in their place.
#![warn(clippy::indexing_slicing)]

use super::{
    Block, Code, DEFAULT_WINDOW, END, END_HEADERS, Fault, Fields, Frame, HAS_PRIORITY, HEADERS,
    Head, PADDED, SHORTEST, Scanner, State, frame::number,
};

impl Scanner {
    pub(super) fn check_dependency(&self, payload: &[u8]) -> Result<(), Fault> {
        let Frame { stream, .. } = self.frame;
        if number(payload) & 0x7fff_ffff != stream {
            return Ok(());
        }
        let name = self.frame.name();
        let text =
            format!("client sent {name} frame for stream {stream} with incorrect dependency");
        Err(Fault::new(Code::Protocol, text))
    }

    /// A HEADERS frame begins: what is in front of its block is awaited.
    pub(super) fn before_block(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Frame { len, flags, .. } = self.frame;
        let before = before(flags);
        if len < before {
            let text = format!("client sent HEADERS frame with incorrect length {len}");
            return Err(Fault::new(Code::FrameSize, text));
        }
        if len == before {
            let text = "client sent HEADERS frame with empty header block";
            return Err(Fault::new(Code::FrameSize, text));
        }
        if before == 0 {
            return self.headers(&[], out);
        }
        self.payload.clear();
        self.state = State::Whole(before);
        Ok(())
    }

    /// What is in front of the block has come.
    pub(super) fn headers(&mut self, before: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let Frame {
            len, flags, stream, ..
        } = self.frame;
        let rest = len - before.len();
        if self.is_going {
            // The client was told so while this was on its way.
            self.state = State::after(rest, State::Skip);
            return Ok(());
        }
        let (padding, dependency) = match before.split_first() {
            Some((padding, dependency)) if flags & PADDED != 0 => {
                (usize::from(*padding), dependency)
            }
            _ => (0, before),
        };
        let Some(left) = rest.checked_sub(padding) else {
            let text = format!(
                "client sent padded HEADERS frame with incorrect length: {rest}, padding: {padding}"
            );
            return Err(Fault::new(Code::Protocol, text));
        };
        if stream % 2 == 0 || stream <= self.last {
            let last = self.last;
            let text = format!(
                "client sent HEADERS frame with incorrect identifier {stream}, the last was {last}"
            );
            return Err(Fault::new(Code::Protocol, text));
        }
        if flags & HAS_PRIORITY != 0 {
            self.check_dependency(dependency)?;
        }
        self.last = stream;
        self.block = Some(Block {
            stream,
            length: 0,
            fields: Fields::empty(),
            rest: Vec::new(),
            is_all: flags & END != 0,
            refused: self.refuses()?,
        });
        self.in_block(left, padding, out)
    }

    /// So many bytes of the block follow in this frame, and padding.
    pub(super) fn in_block(
        &mut self,
        left: usize,
        padding: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        self.state = State::in_block(left, padding);
        if left == 0 {
            self.fragment(&[], true, out)?;
        }
        Ok(())
    }

    /// Whether the stream that begins is refused; counts it if not.
    pub(super) fn refuses(&mut self) -> Result<bool, Fault> {
        let (streams, open) = (self.bounds.streams, self.open);
        let is_burst = self.floods.is_burst();
        let is_early = !self.settings_acked
            && self.frame.flags & END == 0
            && self.bounds.window < DEFAULT_WINDOW;
        if open < streams && !is_burst && !is_early {
            self.floods.request();
            self.open += 1;
            self.requests += 1;
            self.is_going |= self.requests >= self.bounds.requests;
            return Ok(false);
        }
        self.note(if open >= streams {
            format!("concurrent streams exceeded {open}")
        } else if is_burst {
            "client sent too many streams at once".to_owned()
        } else {
            "client sent stream with data before settings were acknowledged".to_owned()
        });
        self.floods.refuse()?;
        Ok(true)
    }

    /// Takes a part of a header block, which `ends` the frame or does not.
    pub(super) fn fragment(
        &mut self,
        part: &[u8],
        ends: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let Some(mut block) = self.block.take() else {
            return Ok(());
        };
        block.length += part.len();
        let more = !(ends && self.frame.flags & END_HEADERS != 0);
        let limits = self.bounds.head;
        if block.rest.is_empty() {
            let taken = self.decoder.decode(part, more, limits, &mut block.fields)?;
            let rest = part.get(taken..).unwrap_or_default();
            block.rest.extend_from_slice(rest);
        } else {
            block.rest.extend_from_slice(part);
            let taken = self
                .decoder
                .decode(&block.rest, more, limits, &mut block.fields)?;
            block.rest.drain(..taken);
        }
        if more {
            self.block = Some(block);
        } else {
            self.complete(block, out);
        }
        Ok(())
    }

    /// A block is complete.
    fn complete(&mut self, block: Block, out: &mut Vec<u8>) {
        let Block {
            stream,
            length,
            fields,
            is_all,
            refused,
            ..
        } = block;
        let flags = END_HEADERS | if is_all { END } else { 0 };
        // Also of one that is refused: the library has to know its number.
        Frame {
            len: SHORTEST.len(),
            kind: HEADERS,
            flags,
            stream,
        }
        .push(out);
        out.extend_from_slice(&SHORTEST);
        if !refused && stream == self.late {
            self.ended();
        } else if !refused {
            self.floods.used(length);
            self.heads.push_back(Head {
                stream,
                fields,
                length,
                is_all,
            });
        }
    }
}

/// How much stands in front of the block in a HEADERS frame with these flags, bytes.
fn before(flags: u8) -> usize {
    usize::from(flags & PADDED != 0) + if flags & HAS_PRIORITY != 0 { 5 } else { 0 }
}
