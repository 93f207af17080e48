//! What ends a connection of HTTP/2: the code that its client is told, and the line in the log.

use std::borrow::Cow;

use super::hpack::HpackError;

/// Codes of GOAWAY (RFC 9113, 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// Nothing is wrong, or the client need not know.
    None = 0,
    /// A rule was broken.
    Protocol = 1,
    /// A window was.
    FlowControl = 3,
    /// A frame has a length that it cannot have.
    FrameSize = 6,
    /// A header block cannot be decompressed.
    Compression = 9,
    /// Too much of something.
    Calm = 11,
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// For the client.
    pub code: Code,
    /// For the log.
    pub text: Cow<'static, str>,
}

impl Fault {
    /// A fault with these words.
    pub fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self { code, text }
    }
}

impl From<HpackError> for Fault {
    fn from(error: HpackError) -> Self {
        let code = match error {
            HpackError::Truncated => Code::FrameSize,
            HpackError::LargeField | HpackError::Large => Code::Calm,
            HpackError::EmptyName => Code::Protocol,
            _ => Code::Compression,
        };
        Self::new(code, error.to_string())
    }
}
