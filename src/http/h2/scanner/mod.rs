//! The frames of a client before the library sees them.
//!
//! The library knows streams and windows. What it does not do as nginx does is done here: heads are taken out of their
//! frames and put aside for `request`, whatever is in them, and the library gets the shortest head
//! there is instead; floods are counted; a frame that is wrong in itself ends the connection with nginx's code and words.
//! Mirrors the states of `http/v2/ngx_http_v2.c`. Pure: bytes in, bytes out.
#![warn(clippy::indexing_slicing)]

mod block;
mod flood;

use std::collections::VecDeque;

use super::{
    fault::{Code, Fault},
    frame::{
        self, CONTINUATION, DATA, END, END_HEADERS, Frame, HAS_PRIORITY, HEADERS, MAX_WHOLE,
        PADDED, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, check_settings,
    },
    hpack::{Decoder, Fields, Limits},
};
use flood::Floods;

/// What a client sends first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the configuration says of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Of header blocks.
    pub head: Limits,
    /// `http2_max_concurrent_streams`
    pub streams: usize,
    /// `http2_body_preread_size`
    pub window: usize,
    /// `keepalive_requests`; 0 where a connection ends after its first request.
    pub requests: u64,
}

/// A request's head as it came.
#[derive(Debug)]
pub struct Head {
    /// The stream's number.
    pub stream: u32,
    /// Its fields.
    pub fields: Fields,
    /// How many bytes they took.
    pub length: usize,
    /// No body follows.
    pub is_all: bool,
}

/// The frames of one client.
#[derive(Debug)]
pub struct Scanner {
    bounds: Bounds,
    state: State,
    /// The head of the frame at hand, as far as it has come.
    prefix: Vec<u8>,
    frame: Frame,
    /// The payload of the frame at hand, where it is looked at as a whole, or what is before a block in it.
    payload: Vec<u8>,
    block: Option<Block>,
    decoder: Decoder,
    /// The last request, by its stream.
    last: u32,
    /// No more requests are taken.
    is_going: bool,
    settings_acked: bool,
    /// What the client has said just now of how large its table is.
    table_size: Option<usize>,
    /// How long frames are that it takes.
    frame_size: usize,
    /// The stream whose head took too long; 0: none did.
    late: u32,
    /// The stream that the client has ended just now.
    reset: Option<u32>,
    /// How many requests there were.
    requests: u64,
    /// Requests that have not ended.
    open: usize,
    floods: Floods,
    heads: VecDeque<Head>,
    notes: Vec<String>,
}

#[derive(Debug)]
enum State {
    /// So many bytes of the preface have come.
    Preface(usize),
    Head,
    /// So many bytes of the frame go through.
    Pass(usize),
    /// So many are dropped.
    Skip(usize),
    /// So many are still awaited, then they are looked at.
    Whole(usize),
    /// So many of the block are still to come, and so many that mean nothing behind it.
    Block {
        left: usize,
        padding: usize,
    },
}

/// A header block that is not complete.
#[derive(Debug)]
struct Block {
    stream: u32,
    /// What has come of it, bytes.
    length: usize,
    fields: Fields,
    /// The field that has come in part.
    rest: Vec<u8>,
    is_all: bool,
    refused: bool,
}

const DEFAULT_WINDOW: usize = 65535;

/// The head that the library gets: `GET http /`.
const SHORTEST: [u8; 3] = [0x82, 0x86, 0x84];

impl Scanner {
    /// Before the first byte.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: State::Preface(0),
            prefix: Vec::with_capacity(9),
            frame: Frame::default(),
            payload: Vec::new(),
            block: None,
            decoder: Decoder::default(),
            last: 0,
            is_going: false,
            settings_acked: false,
            table_size: None,
            frame_size: MAX_WHOLE,
            late: 0,
            reset: None,
            requests: 0,
            open: 0,
            floods: Floods::new(bounds.streams, bounds.requests),
            heads: VecDeque::new(),
            notes: Vec::new(),
        }
    }

    /// Takes some of `input`, which is not empty; what is for the library is appended to `out`. How many bytes were
    /// taken; none when [`passing`](Self::passing) says that those that follow go through as they are.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Fault> {
        match self.state {
            State::Preface(seen) => self.preface(seen, input, out),
            State::Head => {
                let n = input.len().min(9 - self.prefix.len());
                self.prefix
                    .extend_from_slice(input.get(..n).unwrap_or_default());
                if let Ok(bytes) = <[u8; 9]>::try_from(&*self.prefix) {
                    self.prefix.clear();
                    self.frame = Frame::of(bytes);
                    self.state = State::Head;
                    self.begin(bytes, out)?;
                }
                Ok(n)
            }
            State::Pass(_) => Ok(0),
            State::Skip(left) => {
                let n = input.len().min(left);
                self.state = State::after(left - n, State::Skip);
                Ok(n)
            }
            State::Whole(left) => {
                let n = input.len().min(left);
                self.payload
                    .extend_from_slice(input.get(..n).unwrap_or_default());
                self.state = State::after(left - n, State::Whole);
                if n == left {
                    self.whole(out)?;
                }
                Ok(n)
            }
            State::Block { left, padding } => {
                let n = input.len().min(left);
                self.state = State::in_block(left - n, padding);
                self.fragment(input.get(..n).unwrap_or_default(), n == left, out)?;
                Ok(n)
            }
        }
    }

    /// How many bytes go through next.
    pub fn passing(&self) -> usize {
        match self.state {
            State::Pass(left) => left,
            _ => 0,
        }
    }

    /// Says that `n` of them did.
    pub fn passed(&mut self, n: usize) {
        if let State::Pass(left) = self.state {
            self.state = State::after(left.saturating_sub(n), State::Pass);
        }
    }

    /// `n` bytes were read; an error when too few of all were of any use.
    pub fn count(&mut self, n: usize) -> Result<(), Fault> {
        let is_idle = self.open == 0 && self.requests > 0;
        self.floods.read(n, is_idle)
    }

    /// Payload that went to the client.
    pub fn sent(&mut self, n: usize) {
        self.floods.used(n);
    }

    /// Everything that has come was looked at.
    pub fn drained(&mut self) {
        self.floods.drained();
    }

    /// The head of a stream that the library has accepted; None refuses it.
    pub fn head(&mut self, stream: u32) -> Option<Head> {
        while let Some(head) = self.heads.pop_front() {
            if head.stream == stream {
                return Some(head);
            }
            // One that the library has refused.
            self.open = self.open.saturating_sub(1);
            if head.stream > stream {
                return None;
            }
        }
        None
    }

    /// A request has ended.
    pub fn ended(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// No further requests are taken; the last one that was.
    pub fn stop(&mut self) -> u32 {
        self.is_going = true;
        self.last.max(self.late)
    }

    /// The next request is the last one.
    pub fn expire(&mut self) {
        self.bounds.requests = 0;
    }

    /// Whether no further requests are taken.
    pub fn is_going(&self) -> bool {
        self.is_going
    }

    /// The stream whose head has come in part, unless it is late already.
    pub fn in_head(&self) -> Option<u32> {
        let stream = match (&self.block, &self.state) {
            (Some(block), _) => block.stream,
            (None, State::Whole(_)) if self.frame.kind == HEADERS => self.frame.stream,
            _ => return None,
        };
        (stream != self.late).then_some(stream)
    }

    /// The head that is coming takes too long: nobody waits for it. Its stream.
    pub fn give_up_head(&mut self) -> Option<u32> {
        let stream = self.in_head()?;
        self.late = stream;
        Some(stream)
    }

    /// Whether a frame has come in part.
    pub fn is_partial(&self) -> bool {
        let is_between = matches!(self.state, State::Head) && self.prefix.is_empty();
        self.block.is_some() || !is_between
    }

    /// Whether a stream's head was late.
    pub fn was_late(&self, stream: u32) -> bool {
        self.late == stream
    }

    /// What the client has said with the step before of how large its table is, bytes.
    pub fn take_table_size(&mut self) -> Option<usize> {
        self.table_size.take()
    }

    /// How long frames are that the client takes, bytes.
    pub fn frame_size(&self) -> usize {
        self.frame_size
    }

    /// The stream that the client has ended with the step before.
    pub fn take_reset(&mut self) -> Option<u32> {
        self.reset.take()
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Lines for the log.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn preface(&mut self, seen: usize, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Fault> {
        let expected = PREFACE.get(seen..).unwrap_or_default();
        let n = input.len().min(expected.len());
        let came = input.get(..n).unwrap_or_default();
        if expected.get(..n) != Some(came) {
            let came = String::from_utf8_lossy(came);
            let text = format!("invalid http2 connection preface: \"{came}\"");
            return Err(Fault::new(Code::Protocol, text));
        }
        out.extend_from_slice(came);
        self.state = match seen + n {
            seen if seen < PREFACE.len() => State::Preface(seen),
            _ => State::Head,
        };
        Ok(n)
    }

    /// Decides what becomes of the frame whose head has come.
    fn begin(&mut self, bytes: [u8; 9], out: &mut Vec<u8>) -> Result<(), Fault> {
        let Frame {
            len, kind, stream, ..
        } = self.frame;
        self.check()?;
        let unknown = stream > self.last || stream % 2 == 0;
        self.state = match kind {
            DATA if unknown => State::after(len, State::Skip),
            DATA => {
                self.floods.used(len);
                out.extend_from_slice(&bytes);
                State::after(len, State::Pass)
            }
            HEADERS if self.is_going => State::after(len, State::Skip),
            CONTINUATION if self.is_going && self.block.is_none() => State::after(len, State::Skip),
            RST_STREAM if unknown => State::Skip(len),
            WINDOW_UPDATE if unknown && stream > 0 => State::Skip(len),
            HEADERS => return self.before_block(out),
            CONTINUATION => return self.in_block(len, 0, out),
            PRIORITY | RST_STREAM | SETTINGS | PING | WINDOW_UPDATE => {
                self.payload.clear();
                if len == 0 {
                    self.whole(out)?;
                }
                State::after(len, State::Whole)
            }
            _ => {
                if kind > CONTINUATION {
                    self.note(format!("client sent frame with unknown type {kind}"));
                }
                State::after(len, State::Skip)
            }
        };
        Ok(())
    }

    fn note(&mut self, text: String) {
        // One read brings no more lines than anybody would look at.
        if self.notes.len() < 16 {
            self.notes.push(text);
        }
    }

    /// What can be wrong with the head of a frame.
    fn check(&self) -> Result<(), Fault> {
        let Frame {
            len, kind, stream, ..
        } = self.frame;
        self.frame.check()?;
        // The library collects a frame before it looks at the window.
        let window = self.bounds.window.max(DEFAULT_WINDOW);
        let text = match (&self.block, kind) {
            (Some(_), kind) if kind != CONTINUATION => {
                "client sent inappropriate frame while CONTINUATION was expected"
            }
            (Some(block), _) if block.stream != stream => {
                "client sent CONTINUATION frame with incorrect identifier"
            }
            (None, CONTINUATION) if !self.is_going => "client sent unexpected CONTINUATION frame",
            (None, DATA) if len > window => {
                let text = format!(
                    "client violated connection flow control: received DATA frame length {len}, \
                     available window {window}"
                );
                return Err(Fault::new(Code::FlowControl, text));
            }
            _ => return Ok(()),
        };
        Err(Fault::new(Code::Protocol, text))
    }

    /// Deals with a frame that has come as a whole.
    fn whole(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let payload = std::mem::take(&mut self.payload);
        let result = match self.frame.kind {
            HEADERS => self.headers(&payload, out),
            // DIFFERS(stream-priority): nginx keeps a tree of what depends on what.
            PRIORITY => {
                self.floods.priority()?;
                self.check_dependency(&payload)
            }
            _ => {
                if self.frame.kind == SETTINGS {
                    self.settings_acked |= self.frame.flags & END != 0;
                    check_settings(&payload)?;
                    // The smallest that is allowed on the way (RFC 7541, 4.2).
                    let table = setting(&payload, 1).min();
                    self.table_size = table.or(self.table_size);
                    self.frame_size = setting(&payload, 5).last().unwrap_or(self.frame_size);
                }
                if self.frame.kind == RST_STREAM {
                    self.reset = Some(self.frame.stream);
                }
                self.frame.push(out);
                out.extend_from_slice(&payload);
                Ok(())
            }
        };
        self.payload = payload;
        result
    }
}

/// The values of a setting, in order.
fn setting(payload: &[u8], id: u8) -> impl Iterator<Item = usize> {
    let settings = payload.chunks_exact(6);
    let values = settings.filter_map(move |setting| setting.strip_prefix(&[0, id]));
    values.map(|value| frame::number(value) as usize)
}

impl State {
    /// The next state when `left` bytes of a frame are still to come.
    fn after(left: usize, state: impl FnOnce(usize) -> Self) -> Self {
        if left == 0 { Self::Head } else { state(left) }
    }

    /// The next one when `left` bytes of a block are still to come, and padding.
    fn in_block(left: usize, padding: usize) -> Self {
        if left == 0 {
            Self::after(padding, Self::Skip)
        } else {
            Self::Block { left, padding }
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests;
