//! A piece of output: bytes in memory, whoever they belong to, or a part of a file.

use std::{fs::File, rc::Rc};

use bytes::{Buf as _, Bytes};

use crate::common::buffer::Buf;

/// A piece of output.
#[derive(Debug)]
pub(in crate::http) enum Piece {
    /// Bytes of one's own; the offset says how many are gone.
    Vec(Vec<u8>, usize),
    /// A pooled buffer.
    Buf(Buf),
    /// Bytes that others hold too.
    Shared(Rc<Vec<u8>>, usize),
    /// Another piece from an offset on and to another one; others hold it too.
    Part(Rc<Self>, usize, usize),
    /// Bytes that came on a stream.
    Bytes(Bytes),
    /// Fixed text.
    Static(&'static [u8]),
    /// `len` bytes of a file from `offset`.
    File {
        /// The file.
        file: Rc<File>,
        /// Where the piece begins.
        offset: u64,
        /// How long it is.
        len: u64,
    },
    /// The beginning of such a piece, read.
    Loaded {
        /// Its bytes.
        buf: Buf,
        /// The file.
        file: Rc<File>,
        /// Where they stand in it.
        offset: u64,
    },
}

impl Default for Piece {
    fn default() -> Self {
        Self::Static(b"")
    }
}

impl Piece {
    /// Its length in bytes.
    pub(in crate::http) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            _ => self.memory().map_or(0, <[u8]>::len) as u64,
        }
    }

    /// Its bytes, unless they are in a file.
    pub(in crate::http) fn memory(&self) -> Option<&[u8]> {
        match self {
            Self::Vec(bytes, at) => Some(&bytes[*at..]),
            Self::Buf(buf) | Self::Loaded { buf, .. } => Some(buf.filled()),
            Self::Shared(bytes, at) => Some(&bytes[*at..]),
            Self::Part(piece, at, end) => piece.memory().map(|bytes| &bytes[*at..*end]),
            Self::Bytes(bytes) => Some(bytes),
            Self::Static(bytes) => Some(bytes),
            Self::File { .. } => None,
        }
    }

    /// At most `limit` of its bytes, unless they are in a file.
    pub(super) fn beginning(&self, limit: u64) -> Option<&[u8]> {
        let bytes = self.memory()?;
        let n = usize::try_from(limit).map_or(bytes.len(), |limit| bytes.len().min(limit));
        Some(&bytes[..n])
    }

    /// Drops `n` bytes from the front.
    pub(in crate::http) fn consume(&mut self, n: usize) {
        match self {
            Self::Vec(_, at) | Self::Shared(_, at) | Self::Part(_, at, _) => *at += n,
            Self::Buf(buf) => buf.consume(n),
            Self::Bytes(bytes) => bytes.advance(n),
            Self::Static(bytes) => *bytes = &bytes[n..],
            Self::File { offset, len, .. } => {
                *offset += n as u64;
                *len -= n as u64;
            }
            Self::Loaded { buf, offset, .. } => {
                buf.consume(n);
                *offset += n as u64;
            }
        }
    }

    /// Splits it after `n` bytes: the first part is returned, the rest stays.
    pub(in crate::http) fn split_to(&mut self, n: u64) -> Self {
        if let Self::File { file, offset, .. } = self {
            let first = Self::File {
                file: Rc::clone(file),
                offset: *offset,
                len: n,
            };
            *offset += n;
            if let Self::File { len, .. } = self {
                *len -= n;
            }
            return first;
        }
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let first = self.memory().unwrap_or_default()[..n].to_vec();
        self.consume(n);
        Self::Vec(first, 0)
    }
}
