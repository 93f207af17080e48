//! What ends a connection of HTTP/2: the code that its client is told, and the line in the log.

use std::{borrow::Cow, fmt};

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

/// What is wrong with a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// It ends in the middle of a field.
    Truncated,
    /// A number takes too many bytes.
    LongIndex,
    /// The same of a size of the table.
    LongSize,
    /// The same of a length.
    LongLength,
    /// Index 0.
    ZeroIndex,
    /// There is no field with this index.
    Index(usize),
    /// The table cannot be that large.
    TableSize(usize),
    /// A name or value is too long.
    LargeField,
    /// All of it is.
    Large,
    /// A string is no valid Huffman code.
    Huffman,
    /// A name is empty.
    EmptyName,
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

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("client sent header block with incorrect length"),
            Self::LongIndex => {
                f.write_str("client sent header block with too long header index value")
            }
            Self::LongSize => {
                f.write_str("client sent header block with too long size update value")
            }
            Self::LongLength => f.write_str("client sent header field with too long length value"),
            Self::ZeroIndex => f.write_str("client sent invalid hpack table index 0"),
            Self::Index(index) => {
                write!(f, "client sent out of bound hpack table index: {index}")
            }
            Self::TableSize(size) => write!(f, "client sent invalid table size update: {size}"),
            Self::LargeField => f.write_str("client sent too large header field"),
            Self::Large => f.write_str("client sent too large header"),
            Self::Huffman => f.write_str("client sent invalid encoded header field"),
            Self::EmptyName => f.write_str("client sent zero header name length"),
        }
    }
}
