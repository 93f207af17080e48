//! Header blocks: where they begin and end, which are refused, and what the library gets in their place.
#![warn(clippy::indexing_slicing)]

use super::{
    Block, Code, DEFAULT_WINDOW, END, END_HEADERS, Fault, Frame, HAS_PRIORITY, HEADERS, Head,
    MAX_WHOLE, PADDED, SHORTEST, SPARE_LEN, Scanner,
    frame::number,
    hpack::{self, Fields},
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

    pub(super) fn headers(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let Frame {
            len, flags, stream, ..
        } = self.frame;
        let extra =
            usize::from(flags & PADDED != 0) + if flags & HAS_PRIORITY != 0 { 5 } else { 0 };
        if len < extra {
            let text = format!("client sent HEADERS frame with incorrect length {len}");
            return Err(Fault::new(Code::FrameSize, text));
        }
        if len == extra {
            let text = "client sent HEADERS frame with empty header block";
            return Err(Fault::new(Code::FrameSize, text));
        }
        let (before, rest) = payload.split_at(extra);
        let mut before = before.iter();
        let padding = if flags & PADDED != 0 {
            before.next().map_or(0, |n| usize::from(*n))
        } else {
            0
        };
        let Some(end) = rest.len().checked_sub(padding) else {
            let text = format!(
                "client sent padded HEADERS frame with incorrect length: {}, padding: {padding}",
                rest.len()
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
            self.check_dependency(before.as_slice())?;
        }
        self.last = stream;
        self.block = Some(Block {
            stream,
            bytes: std::mem::take(&mut self.spare_block),
            is_all: flags & END != 0,
            refused: self.refuses()?,
        });
        self.fragment(rest.get(..end).unwrap_or_default(), out)
    }

    /// Looks at what has come of a HEADERS frame: some mistakes are answered before the rest is there, as nginx does.
    pub(super) fn look_ahead(&mut self) -> Result<(), Fault> {
        let Frame {
            len, flags, stream, ..
        } = self.frame;
        let (extra, padding) = match self.payload.first() {
            Some(padding) if flags & PADDED != 0 => (1, usize::from(*padding)),
            _ => (0, 0),
        };
        let start = extra + if flags & HAS_PRIORITY != 0 { 5 } else { 0 };
        let end = self.payload.len().min(len.saturating_sub(padding));
        // What else can be wrong with the frame comes first.
        if stream % 2 == 0 || stream <= self.last {
            return Ok(());
        }
        let start = start.max(self.looked);
        if let Some(part) = self.payload.get(start..end) {
            self.looked = start + hpack::look(part, self.bounds.head)?;
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

    /// Takes a part of a header block.
    pub(super) fn fragment(&mut self, part: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let limits = self.bounds.head;
        let Some(mut block) = self.block.take() else {
            return Ok(());
        };
        if block.bytes.len() + part.len() > 2 * limits.total + MAX_WHOLE {
            return Err(Fault::new(Code::Calm, "client sent too large header"));
        }
        block.bytes.extend_from_slice(part);
        if self.frame.flags & END_HEADERS == 0 {
            self.block = Some(block);
            return Ok(());
        }
        let (stream, is_all, length) = (block.stream, block.is_all, block.bytes.len());
        let mut fields = Fields::empty();
        let decoded = self.decoder.decode(&block.bytes, limits, &mut fields);
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
        if block.bytes.capacity() <= SPARE_LEN {
            block.bytes.clear();
            self.spare_block = block.bytes;
        }
        decoded?;
        if !block.refused && stream == self.late {
            self.ended();
        } else if !block.refused {
            self.floods.used(length);
            self.heads.push_back(Head {
                stream,
                fields,
                length,
                is_all,
            });
        }
        Ok(())
    }
}
