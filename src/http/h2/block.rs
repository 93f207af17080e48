//! The header block of a response, or of a request to an upstream, as nginx writes it (HPACK, RFC 7541).
//!
//! Blocks do not depend on each other: one may be thrown away with its stream. Mirrors `ngx_http_v2_header_filter`
//! (`http/v2/ngx_http_v2_filter_module.c`) and `ngx_http_grpc_create_request`.
#![warn(clippy::indexing_slicing)]

use super::{
    codes,
    frame::{HEAD, MAX_WHOLE},
    huffman::{self, Encoded, NAME, VALUE},
    primitives,
};
use crate::{common::decimal, http::h1::known::Known};

/// A header block.
#[derive(Debug, Default)]
pub(in crate::http) struct Block {
    bytes: Vec<u8>,
    /// How long frames are that the other end takes.
    frame_size: usize,
    /// It goes out behind the byte with which nginx answers the size of a table.
    is_answer: bool,
}

/// Names that have a number in the static table.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) enum Name {
    /// `:authority`
    Authority = 1,
    /// `:method`
    Method = 2,
    /// `:path`
    Path = 4,
    /// `content-length`
    ContentLength = 28,
    /// `content-type`
    ContentType = 31,
    /// `date`
    Date = 33,
    /// `last-modified`
    LastModified = 44,
    /// `location`
    Location = 46,
    /// `server`
    Server = 54,
    /// `vary`
    Vary = 59,
}

/// The number of `:status`.
const STATUS: u8 = 8;
/// A field that may go to the table; its name's number is added.
const INDEXED_NAME: u8 = 0x40;
/// A field that stands in the table.
const INDEXED: u8 = 0x80;
/// A field whose name is written out.
const NEW_NAME: u8 = 0;
/// The string is in Huffman's code.
const HUFFMAN: u8 = 0x80;
/// From this one on a length takes more than a byte.
const LENGTH: u8 = 0x7f;

impl Block {
    /// An empty one, in memory of an earlier one, for frames of this length.
    pub(in crate::http) fn new(mut memory: Vec<u8>, frame_size: usize) -> Self {
        memory.clear();
        Self {
            bytes: memory,
            frame_size,
            is_answer: false,
        }
    }

    /// It is the first one since the client has said how large its table is.
    pub(super) fn answer_table(&mut self) {
        self.is_answer = true;
    }

    /// Adds the status, three digits of it.
    pub(in crate::http) fn status(&mut self, status: u16) {
        let number = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let digit = |n: u16| b'0' + u8::try_from(n % 10).unwrap_or(0);
                let digits = [status / 100, status / 10, status].map(digit);
                self.bytes.extend_from_slice(&[INDEXED_NAME | STATUS, 3]);
                return self.bytes.extend_from_slice(&digits);
            }
        };
        self.bytes.push(INDEXED | number);
    }

    /// Begins a request; false when method or path cannot be said.
    pub(in crate::http) fn request(&mut self, method: &[u8], tls: bool, path: &[u8]) -> bool {
        match method {
            b"GET" => self.bytes.push(INDEXED | 2),
            b"POST" => self.bytes.push(INDEXED | 3),
            _ if !self.field(Name::Method, method) => return false,
            _ => {}
        }
        self.bytes.push(INDEXED | if tls { 7 } else { 6 });
        if path == b"/" {
            self.bytes.push(INDEXED | Name::Path as u8);
            return true;
        }
        self.field(Name::Path, path)
    }

    /// Adds a field. A value that would end a line is left out, as the other end would end the stream for it; false then.
    pub(in crate::http) fn field(&mut self, name: Name, value: &[u8]) -> bool {
        self.strings(INDEXED_NAME | name as u8, b"", value)
    }

    /// Adds `content-length`.
    pub(in crate::http) fn length(&mut self, length: u64) {
        self.bytes.push(INDEXED_NAME | Name::ContentLength as u8);
        let at = self.bytes.len();
        self.bytes.push(0);
        decimal::push(&mut self.bytes, length);
        let digits = u8::try_from(self.bytes.len() - at - 1).unwrap_or(0);
        if let Some(length) = self.bytes.get_mut(at) {
            *length = digits;
        }
    }

    /// Adds a field by its name as text. What is about a connection of HTTP/1 is left out, and so is what no field may be
    /// called or have in it, for which clients would end the stream.
    pub(in crate::http) fn named(&mut self, known: Known, name: &[u8], value: &[u8]) {
        if !name.is_empty() && !is_of_connection(known, name) {
            self.text(name, value);
        }
    }

    /// The same, whatever the field is about; it has a name.
    pub(in crate::http) fn text(&mut self, name: &[u8], value: &[u8]) {
        self.strings(NEW_NAME, name, value);
    }

    /// Adds a field that begins with `first`, and whose name is written out unless it is empty; false when something is in
    /// it that must not be.
    fn strings(&mut self, first: u8, name: &[u8], value: &[u8]) -> bool {
        let before = self.bytes.len();
        self.bytes.push(first);
        if codes::recall(name, value, &mut self.bytes) {
            return true;
        }
        if !(name.is_empty() || self.string(name, true)) || !self.string(value, false) {
            self.bytes.truncate(before);
            return false;
        }
        let code = self.bytes.get(before + 1..).unwrap_or_default();
        codes::remember(name, value, code);
        true
    }

    /// Whether there is nothing in it.
    pub(in crate::http) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes its frames are as nginx writes them.
    pub(in crate::http) fn size(&self) -> u64 {
        let length = self.bytes.len() + usize::from(self.is_answer);
        (length + HEAD * length.div_ceil(self.frame_size.max(MAX_WHOLE)).max(1)) as u64
    }

    /// What it is made of.
    pub(in crate::http) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Adds a string, in Huffman's code where that is shorter; false when something is in it that must not be.
    fn string(&mut self, bytes: &[u8], is_name: bool) -> bool {
        let table = if is_name { &NAME } else { &VALUE };
        let at = self.bytes.len();
        // The length of most is one byte.
        let length = if bytes.len() < usize::from(LENGTH) {
            0
        } else {
            huffman::encoded_len(bytes, table)
        };
        primitives::push_number(HUFFMAN, LENGTH, length, &mut self.bytes);
        let start = self.bytes.len();
        match huffman::encode(bytes, table, &mut self.bytes) {
            Encoded::NotAllowed => return false,
            Encoded::NotShorter => {
                self.bytes.truncate(at);
                primitives::push_number(0, LENGTH, bytes.len(), &mut self.bytes);
                let case = |c: &u8| if is_name { c.to_ascii_lowercase() } else { *c };
                self.bytes.extend(bytes.iter().map(case));
            }
            Encoded::Shorter => {
                let length = self.bytes.len() - start;
                if let Some(first) = self.bytes.get_mut(at)
                    && start == at + 1
                {
                    *first = HUFFMAN | u8::try_from(length).unwrap_or(LENGTH);
                }
            }
        }
        true
    }
}

/// Fields that mean something to the other end of a connection of HTTP/1 only. A client ends a stream that has one.
// DIFFERS(hop-fields): nginx passes on what an upstream says in `Proxy-Connection` and `TE`.
pub(in crate::http) fn is_of_connection(known: Known, name: &[u8]) -> bool {
    matches!(
        known,
        Known::Connection | Known::KeepAlive | Known::TransferEncoding | Known::Upgrade | Known::Te
    ) || name.eq_ignore_ascii_case(b"proxy-connection")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::h2::hpack::{Decoder, Fields, Limits};

    /// What a client reads.
    fn read(block: Block) -> Vec<(String, Vec<u8>)> {
        let limits = Limits {
            field: 1 << 20,
            total: 1 << 20,
        };
        let mut fields = Fields::default();
        let bytes = block.into_bytes();
        Decoder::default()
            .decode(&bytes, false, limits, &mut fields)
            .unwrap();
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        let owned = fields
            .iter()
            .map(|(name, value)| (text(name), value.to_vec()));
        owned.collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let mut block = Block::default();
        assert!(block.request(b"PATCH", true, b"/x"));
        block.field(Name::Authority, b"host:1");
        block.status(200);
        block.status(99);
        block.length(u64::MAX);
        block.named(Known::Other, b"X-Upper", b"A");
        let expected = [
            (":method", "PATCH"),
            (":scheme", "https"),
            (":path", "/x"),
            (":authority", "host:1"),
            (":status", "200"),
            (":status", "099"),
            ("content-length", "18446744073709551615"),
            ("x-upper", "A"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.into()));
        assert_eq!(read(block), expected);
    }

    #[test]
    fn what_cannot_be_said_is_left_out() {
        let mut block = Block::default();
        assert!(!block.request(b"A\nB", false, b"/"));
        assert!(!block.request(b"GET", false, b"/\0"));
        let before = block.size();
        assert!(!block.field(Name::Location, b"/\r\nX: y"));
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:", "x"),
            ("a", "x\ny"),
            ("Proxy-Connection", "x"),
        ] {
            block.named(
                Known::of(name.as_bytes()),
                name.as_bytes(),
                value.as_bytes(),
            );
        }
        block.named(Known::Connection, b"Connection", b"close");
        assert_eq!(block.size(), before);
    }

    proptest! {
        #[test]
        fn any_field_is_read_as_it_was(
            name in "[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,300}",
            value in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut block = Block::default();
            block.text(name.as_bytes(), &value);
            let is_value = !value.iter().any(|c| b"\0\r\n".contains(c));
            let expected = is_value.then(|| (name.to_ascii_lowercase(), value));
            prop_assert_eq!(read(block), Vec::from_iter(expected));
        }
    }
}
