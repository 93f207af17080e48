//! Fields that the other end remembers (HPACK's dynamic table, RFC 7541, 2.3.2), towards clients.
//!
//! Blocks are written as they go out, one after the other: a field that was said before is a number then. nginx says each in
//! full each time.
// DIFFERS(head-bytes): logs count a head as nginx writes it.
#![warn(clippy::indexing_slicing)]

use std::{collections::VecDeque, sync::LazyLock};

use super::{block::Block, huffman, primitives, statics};
use crate::http::h1::known::Known;

/// The fields that one client remembers.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    /// How many there have been.
    count: u32,
    /// What `count` was with the field that was last found for a hash of it: most fields are looked for in every head.
    found: [u32; FOUND],
    /// As HPACK counts.
    size: usize,
    max: usize,
    /// The client is to be told how large it is, and was before: the smallest that it has been since the last block.
    smallest: Option<usize>,
    /// For strings that are taken apart.
    scratch: Vec<u8>,
}

/// A field, as it stands in a block.
#[derive(Debug)]
struct Entry {
    field: Box<[u8]>,
    size: usize,
}

/// What a client remembers unless it says otherwise, bytes; we use no more.
const SIZE: usize = 4096;
/// What a field takes besides its bytes.
const OVERHEAD: usize = 32;
/// Longer fields are not remembered, bytes as written.
const LONGEST: usize = 512;
/// How many fields are found at once; a power of two.
const FOUND: usize = 32;
/// The number of the newest field: behind those that everybody knows.
const FIRST: usize = 62;
/// A field that the client is to remember, whose name is written out.
const REMEMBERED: u8 = 0x40;

/// Fields that are another each time: `content-length`, `last-modified` and `location`.
const VARYING: [u8; 3] = [0x40 + 28, 0x40 + 44, 0x40 + 46];
/// The same of names that are written out; `set-cookie` is nobody else's business either.
static VARYING_NAMES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    [&b"set-cookie"[..], b"etag", b"age"].map(|name| {
        let mut block = Block::default();
        block.named(Known::Other, name, b"");
        let mut bytes = block.into_bytes();
        // The empty value.
        bytes.pop();
        bytes
    })
});

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            count: 0,
            found: [0; FOUND],
            size: 0,
            max: SIZE,
            smallest: None,
            scratch: Vec::new(),
        }
    }
}

impl Table {
    /// The client remembers so many bytes at most.
    pub(super) fn limit(&mut self, max: usize) {
        self.max = max.min(SIZE);
        self.evict(self.max);
        self.smallest = Some(self.smallest.unwrap_or(SIZE).min(self.max));
    }

    /// Appends a block, made shorter by what the client remembers.
    pub(super) fn write(&mut self, block: &[u8], out: &mut Vec<u8>) {
        if let Some(smallest) = self.smallest.take() {
            if smallest < self.max {
                size_update(smallest, out);
            }
            size_update(self.max, out);
        }
        if self.max == 0 {
            return out.extend_from_slice(block);
        }
        let mut rest = block;
        while !rest.is_empty() {
            let (field, value) = split(rest);
            rest = rest.get(field.len()..).unwrap_or_default();
            self.field(field, value, out);
        }
    }

    /// Appends a field whose value begins at `value`.
    fn field(&mut self, field: &[u8], value: usize, out: &mut Vec<u8>) {
        let first = field.first().copied().unwrap_or(0);
        if first >= 0x80 || field.len() > LONGEST || VARYING.contains(&first) {
            return plain(field, out);
        }
        let name = field.get(..value).unwrap_or_default();
        if first == 0 && VARYING_NAMES.iter().any(|varying| varying == name) {
            return plain(field, out);
        }
        if let Some(place) = self.place(field) {
            return primitives::push_number(0x80, 0x7f, FIRST + place, out);
        }
        self.insert(field, value);
        out.push(first | REMEMBERED);
        out.extend_from_slice(field.get(1..).unwrap_or_default());
    }

    /// Where the field stands.
    fn place(&mut self, field: &[u8]) -> Option<usize> {
        let entries = &self.entries;
        let found = self.found.get_mut(hash(field))?;
        let place = self.count.wrapping_sub(*found) as usize;
        if entries
            .get(place)
            .is_some_and(|entry| *entry.field == *field)
        {
            return Some(place);
        }
        let place = entries.iter().position(|entry| *entry.field == *field)?;
        *found = self.count.wrapping_sub(u32::try_from(place).ok()?);
        Some(place)
    }

    fn insert(&mut self, field: &[u8], value: usize) {
        let first = field.first().copied().unwrap_or(0);
        let name = if first == 0 {
            self.len(field.get(1..value).unwrap_or_default())
        } else {
            statics::name(usize::from(first & 0x3f)).len()
        };
        let size = name + self.len(field.get(value..).unwrap_or_default()) + OVERHEAD;
        self.evict(self.max.saturating_sub(size));
        if size <= self.max {
            self.size += size;
            self.count = self.count.wrapping_add(1);
            if let Some(found) = self.found.get_mut(hash(field)) {
                *found = self.count;
            }
            let field = field.into();
            self.entries.push_front(Entry { field, size });
        }
    }

    /// Forgets the oldest fields until no more than `max` bytes are left.
    fn evict(&mut self, max: usize) {
        while self.size > max
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.size;
        }
    }

    /// How long the string is that `text` stands for.
    fn len(&mut self, text: &[u8]) -> usize {
        let (length, start) = length(text);
        let text = text.get(start..).unwrap_or_default();
        if length.is_huffman {
            self.scratch.clear();
            huffman::decode(text, &mut self.scratch);
            return self.scratch.len();
        }
        text.len()
    }
}

/// A number below [`FOUND`]. What differs between two dates of a response does not matter: the older one is not asked for.
fn hash(field: &[u8]) -> usize {
    let first = field.first_chunk().copied().map_or(0, u64::from_le_bytes);
    let hash = (first ^ field.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(hash >> (64 - FOUND.ilog2())).unwrap_or(0)
}

/// The length of a string, as it is written.
struct Length {
    bytes: usize,
    is_huffman: bool,
}

/// The length of the string that `text` begins with, and where its bytes begin.
fn length(text: &[u8]) -> (Length, usize) {
    let first = text.first().copied().unwrap_or(0);
    let is_huffman = first >= 0x80;
    let (mut bytes, mut start) = (usize::from(first & 0x7f), 1);
    if bytes == 0x7f {
        let (mut shift, mut more) = (0, true);
        while more && let Some(byte) = text.get(start) {
            bytes += usize::from(byte & 0x7f) << shift;
            more = *byte >= 0x80;
            (shift, start) = (shift + 7, start + 1);
        }
    }
    (Length { bytes, is_huffman }, start)
}

/// The field that a block of ours begins with, and where its value does.
fn split(block: &[u8]) -> (&[u8], usize) {
    let first = block.first().copied().unwrap_or(0);
    if first >= 0x80 {
        return (block.get(..1).unwrap_or_default(), 1);
    }
    let end = |at: usize| {
        let (length, start) = length(block.get(at..).unwrap_or_default());
        at + start + length.bytes
    };
    let value = if first == 0 { end(1) } else { 1 };
    (block.get(..end(value)).unwrap_or(block), value)
}

/// Appends a field that the client does not remember.
fn plain(field: &[u8], out: &mut Vec<u8>) {
    match field.split_first() {
        // The same number, in a form that adds nothing to the table.
        Some((first, rest)) if (0x40..0x80).contains(first) => {
            primitives::push_number(0, 0x0f, usize::from(first & 0x3f), out);
            out.extend_from_slice(rest);
        }
        _ => out.extend_from_slice(field),
    }
}

/// Tells how large the table is from now on.
fn size_update(max: usize, out: &mut Vec<u8>) {
    primitives::push_number(0x20, 0x1f, max, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::block::Name, *};
    use crate::http::h2::hpack::{Decoder, Fields, Limits};

    const LIMITS: Limits = Limits {
        field: 1 << 20,
        total: 1 << 20,
    };

    fn read(decoder: &mut Decoder, block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut fields = Fields::default();
        decoder.decode(block, false, LIMITS, &mut fields).unwrap();
        let owned = fields
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()));
        owned.collect()
    }

    fn head(date: &[u8], fields: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut block = Block::default();
        block.status(if date.len() > 3 { 200 } else { 418 });
        block.field(Name::Server, b"headwater");
        block.field(Name::Date, date);
        block.length(fields.len() as u64);
        for (name, value) in fields {
            block.text(name.as_bytes(), value);
        }
        block.into_bytes()
    }

    #[test]
    fn what_was_said_is_a_number() {
        let (mut table, mut out) = (Table::default(), Vec::new());
        let fields = [("x-a".to_owned(), b"1".to_vec())];
        let block = head(b"today", &fields);
        table.write(&block, &mut out);
        assert!(out.len() >= block.len());
        out.clear();
        table.write(&block, &mut out);
        // The status, three numbers, and a length.
        assert_eq!(out, [0x88, 0xc0, 0xbf, 0x0f, 0x0d, 0x01, b'1', 0xbe]);
    }

    #[test]
    fn cookies_are_not_remembered() {
        let (mut table, mut out) = (Table::default(), Vec::new());
        for name in ["set-cookie", "etag", "age"] {
            let mut block = Block::default();
            block.text(name.as_bytes(), b"1");
            let block = block.into_bytes();
            out.clear();
            table.write(&block, &mut out);
            assert_eq!(out, block);
        }
        assert!(table.entries.is_empty());
    }

    #[test]
    fn a_client_without_a_table_gets_all() {
        let (mut table, mut out) = (Table::default(), Vec::new());
        table.write(&head(b"today", &[]), &mut Vec::new());
        table.limit(0);
        table.write(&head(b"today", &[]), &mut out);
        assert_eq!(out, [&[0x20], &*head(b"today", &[])].concat());
        // One that has had none in between hears of both.
        table.limit(SIZE);
        table.limit(0);
        table.limit(SIZE);
        out.clear();
        table.write(&[], &mut out);
        assert_eq!(out, [0x20, 0x3f, 0xe1, 0x1f]);
    }

    proptest! {
        /// Whatever is said, in whatever order, with tables of any size: a client reads what was written.
        #[test]
        fn clients_read_what_was_written(
            heads in proptest::collection::vec(
                (0..6_u8, proptest::collection::vec(("[a-d]{1,2}", "[x-z]{0,140}"), 0..6)),
                1..30,
            ),
            limits in proptest::collection::vec(proptest::option::of(0..5000_usize), 1..30),
        ) {
            let (mut table, mut decoder, mut out) = (Table::default(), Decoder::default(), Vec::new());
            for ((date, fields), limit) in heads.iter().zip(limits.iter().cycle()) {
                if let Some(limit) = limit {
                    table.limit(*limit);
                }
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
                    .collect();
                let block = head(&vec![b'0' + date; usize::from(*date)], &fields);
                out.clear();
                table.write(&block, &mut out);
                let whole = read(&mut Decoder::default(), &block);
                prop_assert_eq!(read(&mut decoder, &out), whole);
                prop_assert!(table.size <= table.max);
            }
        }
    }
}
