//! The frames of a peer before the library sees them.
//!
//! Heads are taken out of their frames and put aside for the streams that they belong to, and the library gets the
//! shortest one there is instead: what is wrong with one response is then no fault of its connection, names keep their
//! order, and Huffman codes are read as nginx reads them. Pure: bytes in, bytes out.
#![warn(clippy::indexing_slicing)]

use smallvec::SmallVec;

use crate::{
    common::hash::FnvMap,
    http::h2::{
        fault::HpackError,
        frame::{
            CONTINUATION, DATA, END, END_HEADERS, Frame, HAS_PRIORITY, HEADERS, MAX_WHOLE, PADDED,
            RST_STREAM,
        },
        hpack::{Decoder, Fields, Limits},
    },
};

/// How long a head may be, bytes; `proxy_buffer_size` bounds it afterwards.
pub(super) const LARGEST: u32 = 1 << 20;

/// A head, or what is wrong with it.
pub(super) type Read = Result<Fields, HpackError>;

/// The frames of one peer.
#[derive(Debug)]
pub(super) struct Heads {
    state: State,
    /// The head of the frame at hand, as far as it has come.
    prefix: Vec<u8>,
    frame: Frame,
    /// The payload of a frame that is looked at as a whole.
    payload: Vec<u8>,
    block: Option<Block>,
    decoder: Decoder,
    streams: FnvMap<u32, Waiting>,
}

/// What came for a stream.
#[derive(Debug, Default)]
struct Waiting {
    /// The head of the response, which later ones are the trailers of.
    has_head: bool,
    /// A head and trailers, as a rule.
    heads: SmallVec<[Read; 2]>,
    end: End,
}

/// How the peer has ended a stream. The library takes no notice of a reset when both sides have ended before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// More may come.
    #[default]
    Open,
    /// With `END_STREAM`.
    Whole,
    /// With `END_STREAM`, and it wants no more of the request (RFC 9113, 8.1).
    Satisfied,
    /// It was reset with this code, which takes back what came before.
    Reset(u32),
    /// A frame came for what had ended twice already.
    Again,
}

impl End {
    /// As nginx sees it: one reset without an error may follow the end.
    fn reset(self, code: u32) -> Self {
        match (self, code) {
            (Self::Whole, 0) => Self::Satisfied,
            (Self::Satisfied | Self::Again, 0) => Self::Again,
            _ => Self::Reset(code),
        }
    }
}

#[derive(Debug)]
struct Block {
    stream: u32,
    is_all: bool,
    bytes: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Head,
    /// So many bytes of the frame go through.
    Pass(usize),
    /// So many are still awaited, then the frame is looked at.
    Whole(usize),
}

/// Frames that cannot be: the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) &'static str);

/// `:status: 200`
const FINAL: &[u8] = &[0x88];

impl Heads {
    /// Before the first byte.
    pub(super) fn new() -> Self {
        Self {
            state: State::Head,
            prefix: Vec::with_capacity(9),
            frame: Frame::default(),
            payload: Vec::new(),
            block: None,
            decoder: Decoder::with_table(0),
            streams: FnvMap::default(),
        }
    }

    /// A request begins.
    pub(super) fn expect(&mut self, stream: u32) {
        self.streams.insert(stream, Waiting::default());
    }

    /// Nobody is interested any more.
    pub(super) fn forget(&mut self, stream: u32) {
        self.streams.remove(&stream);
    }

    /// The next head of a stream, if it is no final one.
    pub(super) fn take_early(&mut self, stream: u32) -> Option<Fields> {
        let heads = &mut self.streams.get_mut(&stream)?.heads;
        let is_early = |read: &Read| {
            read.as_ref()
                .is_ok_and(|head| informational(head).is_some())
        };
        heads.first().filter(|read| is_early(read))?;
        heads.remove(0).ok()
    }

    /// The next head of a stream, or its trailers.
    pub(super) fn take(&mut self, stream: u32) -> Option<Read> {
        let heads = &mut self.streams.get_mut(&stream)?.heads;
        (!heads.is_empty()).then(|| heads.remove(0))
    }

    /// How far a stream has come to its end.
    pub(super) fn end(&self, stream: u32) -> End {
        let waiting = self.streams.get(&stream);
        waiting.map(|waiting| waiting.end).unwrap_or_default()
    }

    /// How many bytes go through next.
    pub(super) fn passing(&self) -> usize {
        match self.state {
            State::Pass(left) => left,
            State::Head | State::Whole(_) => 0,
        }
    }

    /// Says that `n` of them did.
    pub(super) fn passed(&mut self, n: usize) {
        if let State::Pass(left) = self.state {
            self.state = State::after(left.saturating_sub(n), State::Pass);
        }
    }

    /// Takes some of `input`; what is for the library is appended to `out`. How many bytes were taken; none when those that
    /// follow go [through](Self::passing) as they are.
    pub(super) fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Broken> {
        match self.state {
            State::Pass(_) => Ok(0),
            State::Head => {
                let n = input.len().min(9 - self.prefix.len());
                let came = input.get(..n).unwrap_or_default();
                self.prefix.extend_from_slice(came);
                if let Ok(bytes) = <[u8; 9]>::try_from(&*self.prefix) {
                    self.prefix.clear();
                    self.frame = Frame::of(bytes);
                    self.begin(bytes, out)?;
                }
                Ok(n)
            }
            State::Whole(left) => {
                let n = input.len().min(left);
                let came = input.get(..n).unwrap_or_default();
                self.payload.extend_from_slice(came);
                self.state = State::after(left - n, State::Whole);
                if n == left {
                    self.whole(out)?;
                }
                Ok(n)
            }
        }
    }

    fn begin(&mut self, bytes: [u8; 9], out: &mut Vec<u8>) -> Result<(), Broken> {
        let Frame {
            len,
            kind,
            flags,
            stream,
        } = self.frame;
        let is_next = match &self.block {
            Some(block) => kind == CONTINUATION && block.stream == stream,
            None => kind != CONTINUATION,
        };
        if !is_next {
            return Err(Broken("unexpected http2 frame"));
        }
        if kind == DATA && flags & END != 0 {
            self.ended(stream);
        }
        // What is no reset after all, the library refuses.
        let is_looked_at = match kind {
            HEADERS | CONTINUATION => true,
            RST_STREAM => len == 4,
            _ => false,
        };
        if !is_looked_at {
            out.extend_from_slice(&bytes);
            self.state = State::after(len, State::Pass);
            return Ok(());
        }
        if len > LARGEST as usize {
            return Err(Broken("too large http2 frame"));
        }
        self.payload.clear();
        self.state = State::after(len, State::Whole);
        if len == 0 { self.whole(out) } else { Ok(()) }
    }

    /// The peer has said all that it has to say.
    fn ended(&mut self, stream: u32) {
        if let Some(waiting) = self.streams.get_mut(&stream)
            && waiting.end == End::Open
        {
            waiting.end = End::Whole;
        }
    }

    /// Takes a reset, or a part of a head.
    fn whole(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let Frame {
            kind,
            flags,
            stream,
            ..
        } = self.frame;
        if kind == RST_STREAM {
            self.reset(stream, out);
            return Ok(());
        }
        let payload = std::mem::take(&mut self.payload);
        let part = if kind == HEADERS {
            fragment(flags, &payload).ok_or(Broken("http2 frame with too long padding"))?
        } else {
            &payload
        };
        self.part(part, out)?;
        if payload.capacity() <= MAX_WHOLE {
            // Its memory serves the next frame.
            self.payload = payload;
        }
        Ok(())
    }

    /// Takes a part of a head out of the frame at hand.
    fn part(&mut self, part: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let Frame { flags, stream, .. } = self.frame;
        let is_all = flags & END != 0;
        if flags & END_HEADERS != 0 && self.block.is_none() {
            self.head((stream, is_all), part, out);
            return Ok(());
        }
        let block = self.block.get_or_insert_with(|| Block {
            stream,
            is_all,
            bytes: Vec::new(),
        });
        if block.bytes.len() + part.len() > LARGEST as usize {
            return Err(Broken("too big header"));
        }
        block.bytes.extend_from_slice(part);
        if flags & END_HEADERS != 0
            && let Some(block) = self.block.take()
        {
            self.head((block.stream, block.is_all), &block.bytes, out);
        }
        Ok(())
    }

    /// A stream was reset, which the library is to know too.
    fn reset(&mut self, stream: u32, out: &mut Vec<u8>) {
        if let Some(waiting) = self.streams.get_mut(&stream)
            && let Ok(code) = <[u8; 4]>::try_from(&*self.payload)
        {
            waiting.end = waiting.end.reset(u32::from_be_bytes(code));
        }
        self.frame.push(out);
        out.extend_from_slice(&self.payload);
    }

    /// A head is complete.
    fn head(&mut self, (stream, is_all): (u32, bool), block: &[u8], out: &mut Vec<u8>) {
        let mut shortest = FINAL;
        let hint;
        if let Some(waiting) = self.streams.get_mut(&stream) {
            let limits = Limits {
                field: LARGEST as usize,
                total: LARGEST as usize,
            };
            let mut fields = Fields::empty();
            let read = self.decoder.decode(block, false, limits, &mut fields);
            let read = read.map(|_all| fields);
            if waiting.has_head {
                shortest = &[];
            } else if let Some(status) = read.as_ref().ok().and_then(informational) {
                // A literal: the name is that of entry 8, the value has three characters.
                let [a, b, c] = status;
                hint = [0x08, 0x03, a, b, c];
                shortest = &hint;
            } else {
                waiting.has_head = true;
            }
            waiting.heads.push(read);
        }
        if is_all {
            self.ended(stream);
        }
        Frame {
            len: shortest.len(),
            kind: HEADERS,
            flags: END_HEADERS | if is_all { END } else { 0 },
            stream,
        }
        .push(out);
        out.extend_from_slice(shortest);
    }
}

/// The status of a head that is no final one; 101 cannot be on a stream.
pub(super) fn informational(fields: &Fields) -> Option<[u8; 3]> {
    let (name, value) = fields.iter().next()?;
    match value {
        [b'1', b, c] if name == b":status" && value != b"101" => Some([b'1', *b, *c]),
        _ => None,
    }
}

/// The part of a header block that a HEADERS frame holds.
fn fragment(flags: u8, payload: &[u8]) -> Option<&[u8]> {
    let (padding, rest) = if flags & PADDED != 0 {
        let (padding, rest) = payload.split_first()?;
        (usize::from(*padding), rest)
    } else {
        (0, payload)
    };
    let rest = if flags & HAS_PRIORITY != 0 {
        rest.get(5..)?
    } else {
        rest
    };
    rest.get(..rest.len().checked_sub(padding)?)
}

impl State {
    /// The next state when `left` bytes of a frame are still to come.
    fn after(left: usize, state: impl FnOnce(usize) -> Self) -> Self {
        if left == 0 { Self::Head } else { state(left) }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests;
