//! Heads of frames, and what can be wrong with them (RFC 9113, 4.1 and 6).
#![warn(clippy::indexing_slicing)]

use super::fault::{Code, Fault};

/// The head of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::http) struct Frame {
    /// Length of what follows it.
    pub(in crate::http) len: usize,
    /// What it is.
    pub(in crate::http) kind: u8,
    /// Its flags.
    pub(in crate::http) flags: u8,
    /// The number of its stream; 0: it is about the connection.
    pub(in crate::http) stream: u32,
}

/// A part of a body.
pub(in crate::http) const DATA: u8 = 0;
/// A head, or its first part.
pub(in crate::http) const HEADERS: u8 = 1;
/// What should come before what; means nothing.
pub(in crate::http) const PRIORITY: u8 = 2;
/// The end of a stream that broke off.
pub(in crate::http) const RST_STREAM: u8 = 3;
/// What the client can take.
pub(in crate::http) const SETTINGS: u8 = 4;
/// Not for clients.
pub(in crate::http) const PUSH_PROMISE: u8 = 5;
/// A question whether we are there.
pub(in crate::http) const PING: u8 = 6;
/// The client begins nothing more that we might answer.
pub(in crate::http) const GOAWAY: u8 = 7;
/// How much more may be sent.
pub(in crate::http) const WINDOW_UPDATE: u8 = 8;
/// A further part of a head.
pub(in crate::http) const CONTINUATION: u8 = 9;

/// `END_STREAM`, and `ACK`.
pub(in crate::http) const END: u8 = 1;
/// The head ends with the frame.
pub(in crate::http) const END_HEADERS: u8 = 4;
/// A length of padding comes first.
pub(in crate::http) const PADDED: u8 = 8;
/// Five bytes about priority come first.
pub(in crate::http) const HAS_PRIORITY: u8 = 32;

/// Bytes of a frame's head.
pub(in crate::http) const HEAD: usize = 9;
/// Frames that are looked at as a whole are no longer than this, and those that anybody takes.
pub(in crate::http) const MAX_WHOLE: usize = 16384;

impl Frame {
    /// Reads it.
    pub(in crate::http) fn of(bytes: [u8; HEAD]) -> Self {
        let [len @ .., kind, flags, _, _, _, _] = bytes;
        let [.., a, b, c, d] = bytes;
        Self {
            len: len
                .iter()
                .fold(0, |len, byte| len << 8 | usize::from(*byte)),
            kind,
            flags,
            stream: u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff,
        }
    }

    /// The head of the frame.
    pub(in crate::http) fn bytes(self) -> [u8; HEAD] {
        let [_, len @ ..] = u32::try_from(self.len).unwrap_or(u32::MAX).to_be_bytes();
        let (mut bytes, stream) = ([0; HEAD], self.stream.to_be_bytes());
        let parts = len.iter().chain([&self.kind, &self.flags]).chain(&stream);
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = *part;
        }
        bytes
    }

    /// Appends the head of the frame.
    pub(in crate::http) fn push(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    /// What can be wrong with it whatever came before.
    pub(in crate::http) fn check(self) -> Result<(), Fault> {
        let name = self.name();
        let is_ack = self.flags & END != 0;
        let size_fits = match self.kind {
            DATA => self.flags & PADDED == 0 || self.len > 0,
            PRIORITY => self.len == 5,
            RST_STREAM | WINDOW_UPDATE => self.len == 4,
            SETTINGS if is_ack => self.len == 0,
            SETTINGS => self.len.is_multiple_of(6) && self.len <= MAX_WHOLE,
            PING => self.len == 8,
            GOAWAY => self.len >= 8,
            _ => true,
        };
        if !size_fits {
            let text = match self.kind {
                DATA => "client sent padded DATA frame with incorrect length: 0".into(),
                SETTINGS if is_ack => {
                    "client sent SETTINGS frame with the ACK flag and nonzero length".into()
                }
                _ => format!(
                    "client sent {name} frame with incorrect length {}",
                    self.len
                ),
            };
            return Err(Fault::new(Code::FrameSize, text));
        }
        let stream_fits = match self.kind {
            DATA | PRIORITY | RST_STREAM => self.stream != 0,
            SETTINGS | PING | GOAWAY => self.stream == 0,
            PUSH_PROMISE => {
                return Err(Fault::new(Code::Protocol, "client sent PUSH_PROMISE frame"));
            }
            _ => true,
        };
        if !stream_fits {
            let text = format!("client sent {name} frame with incorrect identifier");
            return Err(Fault::new(Code::Protocol, text));
        }
        Ok(())
    }

    /// The name of its kind.
    pub(in crate::http) fn name(self) -> &'static str {
        const NAMES: [&str; 10] = [
            "DATA",
            "HEADERS",
            "PRIORITY",
            "RST_STREAM",
            "SETTINGS",
            "PUSH_PROMISE",
            "PING",
            "GOAWAY",
            "WINDOW_UPDATE",
            "CONTINUATION",
        ];
        NAMES.get(usize::from(self.kind)).unwrap_or(&"unknown")
    }
}

/// The number that four bytes are.
pub(in crate::http) fn number(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Values of settings that are not allowed.
pub(in crate::http) fn check_settings(payload: &[u8]) -> Result<(), Fault> {
    for setting in payload.chunks_exact(6) {
        let (id, value) = setting.split_at(2);
        let value = number(value);
        let (name, code) = match id {
            [0, 2] if value > 1 => ("ENABLE_PUSH", Code::Protocol),
            [0, 4] if value > 0x7fff_ffff => ("INITIAL_WINDOW_SIZE", Code::FlowControl),
            [0, 5] if !(16384..=0xff_ffff).contains(&value) => ("MAX_FRAME_SIZE", Code::Protocol),
            _ => continue,
        };
        let text = format!("client sent SETTINGS frame with incorrect {name} value {value}");
        return Err(Fault::new(code, text));
    }
    Ok(())
}
