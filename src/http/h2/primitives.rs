//! The numbers and strings of header blocks (RFC 7541, 5).
#![warn(clippy::indexing_slicing)]

use super::{fault::HpackError, huffman};

/// How many bytes a number may take.
const INT_OCTETS: usize = 4;

/// What is still to be read of a block.
pub(super) struct Input<'b> {
    /// It.
    pub(super) rest: &'b [u8],
    /// It is not all.
    pub(super) more: bool,
}

/// A string as it was sent.
pub(super) struct Text<'b> {
    bytes: &'b [u8],
    is_huffman: bool,
}

impl<'b> Input<'b> {
    /// Takes a number whose first byte has the bits of `prefix` for it.
    pub(super) fn number(&mut self, prefix: u8, too_long: HpackError) -> Result<usize, HpackError> {
        let (first, mut tail) = self.rest.split_first().ok_or(HpackError::Truncated)?;
        let mut value = usize::from(first & prefix);
        if value == usize::from(prefix) {
            let mut shift = 0;
            loop {
                let (byte, behind) = tail.split_first().ok_or(HpackError::Truncated)?;
                tail = behind;
                value += usize::from(byte & 0x7f) << shift;
                if *byte < 0x80 {
                    break;
                }
                shift += 7;
                if self.rest.len() - tail.len() == INT_OCTETS {
                    let is_last = tail.is_empty() && !self.more;
                    return Err(if is_last {
                        HpackError::Truncated
                    } else {
                        too_long
                    });
                }
            }
        }
        self.rest = tail;
        Ok(value)
    }

    /// Takes a string.
    pub(super) fn string(&mut self, limit: usize) -> Result<Text<'b>, HpackError> {
        let is_huffman = self.rest.first().is_some_and(|byte| *byte >= 0x80);
        let len = self.number(0x7f, HpackError::LongLength)?;
        if len > limit {
            return Err(HpackError::LargeField);
        }
        let (bytes, tail) = self
            .rest
            .split_at_checked(len)
            .ok_or(HpackError::Truncated)?;
        self.rest = tail;
        Ok(Text { bytes, is_huffman })
    }
}

impl Text<'_> {
    /// Appends what it stands for.
    pub(super) fn push(&self, out: &mut Vec<u8>) -> Result<(), HpackError> {
        if !self.is_huffman {
            out.extend_from_slice(self.bytes);
        } else if !huffman::decode(self.bytes, out) {
            return Err(HpackError::Huffman);
        }
        Ok(())
    }
}

/// Appends a number behind the bits of `kind`, whose first part is up to `prefix` (RFC 7541, 5.1).
pub(super) fn push_number(kind: u8, prefix: u8, number: usize, out: &mut Vec<u8>) {
    let byte = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
    let Some(mut rest) = number.checked_sub(usize::from(prefix)) else {
        return out.push(kind | byte(number));
    };
    out.push(kind | prefix);
    while rest >= 0x80 {
        out.push(0x80 | byte(rest & 0x7f));
        rest >>= 7;
    }
    out.push(byte(rest));
}
