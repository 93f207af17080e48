//! Header blocks of HTTP/2 taken apart (HPACK, RFC 7541), with nginx's limits and words.
//!
//! Fields come out as bytes, valid or not, so that requests are judged by the rules of nginx and not by a library's.
//! Mirrors `ngx_http_v2_state_header_block` and what follows it (`http/v2/ngx_http_v2.c`), `ngx_http_v2_table.c`.
#![warn(clippy::indexing_slicing)]

use std::collections::VecDeque;

use super::{fault::HpackError, primitives::Input, statics};
use crate::common::{prefetch::Prefetch, recycle::Spares};

/// Decompresses the header blocks of a connection.
#[derive(Debug)]
pub struct Decoder {
    /// The dynamic table, the newest first.
    entries: VecDeque<Entry>,
    /// Its size as HPACK counts.
    size: usize,
    max: usize,
    /// What it is at most: as much as was announced.
    limit: usize,
}

/// A field of the dynamic table.
#[derive(Debug)]
struct Entry {
    bytes: Box<[u8]>,
    name: usize,
}

/// Names and values, in order.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

thread_local! {
    static SPARE: Spares<Fields> = const { Spares::new() };
}

impl Fields {
    /// None, in memory of earlier ones.
    pub fn empty() -> Self {
        SPARE.with(Spares::pop).unwrap_or_default()
    }

    /// Nobody needs them any more.
    pub fn end(mut self) {
        if self.bytes.capacity() <= KEPT_BYTES {
            self.bytes.clear();
            self.ends.clear();
            SPARE.with(|spares| spares.keep(self));
        }
    }

    /// Name and value of each field.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(name, value)| {
            let field = self.bytes.get(start..*value).unwrap_or_default();
            let name = name - start;
            start = *value;
            field.split_at(name.min(field.len()))
        })
    }
}

impl Prefetch for Fields {
    #[inline]
    fn prefetch(&self) {
        self.bytes.prefetch();
        self.ends.prefetch();
    }
}

/// What a header block may hold (`large_client_header_buffers`).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Length of a name or value as it is sent, bytes.
    pub field: usize,
    /// Length of all names and values, bytes.
    pub total: usize,
}

/// Size of the dynamic table of who was told of no other.
const TABLE: usize = 4096;
/// What a field takes in the table besides its bytes.
const OVERHEAD: usize = 32;
/// Room that most heads have enough of: bytes of names and values, and fields.
const USUAL_BYTES: usize = 256;
const USUAL_FIELDS: usize = 12;
/// Memory of more bytes is not kept.
const KEPT_BYTES: usize = 2048;

impl Default for Decoder {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            max: TABLE,
            limit: TABLE,
        }
    }
}

impl Decoder {
    /// One with a dynamic table of at most `limit` bytes.
    pub fn with_table(limit: usize) -> Self {
        Self {
            max: limit,
            limit,
            ..Self::default()
        }
    }

    /// Appends the fields of a block, or of a part of one of which `more` follows. How much of it they are: all, if nothing
    /// follows, or else without a field that is not whole, with which the next part has to begin. What is wrong is found as
    /// soon as it is there, wherever the parts end.
    pub fn decode(
        &mut self,
        part: &[u8],
        more: bool,
        limits: Limits,
        fields: &mut Fields,
    ) -> Result<usize, HpackError> {
        let mut input = Input { rest: part, more };
        fields.bytes.reserve(USUAL_BYTES.max(part.len()));
        fields.ends.reserve(USUAL_FIELDS);
        while let Some(&first) = input.rest.first() {
            let (left, start) = (input.rest.len(), fields.bytes.len());
            match self.field(first, &mut input, limits, fields) {
                Err(HpackError::Truncated) if more => {
                    fields.bytes.truncate(start);
                    return Ok(part.len() - left);
                }
                result => result?,
            }
        }
        Ok(part.len())
    }

    /// Takes a field, which begins with `first`, or what stands in place of one.
    fn field(
        &mut self,
        first: u8,
        input: &mut Input<'_>,
        limits: Limits,
        fields: &mut Fields,
    ) -> Result<(), HpackError> {
        let (prefix, too_long) = match first {
            0x80.. => (0x7f, HpackError::LongIndex),
            0x40.. => (0x3f, HpackError::LongIndex),
            0x20.. => (0x1f, HpackError::LongSize),
            _ => (0x0f, HpackError::LongIndex),
        };
        let number = input.number(prefix, too_long)?;
        if (0x20..0x40).contains(&first) {
            return self.resize(number);
        }
        let start = fields.bytes.len();
        let name = if first >= 0x80 {
            let (field, name) = self.find(number)?;
            fields.bytes.extend_from_slice(field);
            name
        } else {
            self.literal(input, number, limits.field, &mut fields.bytes)?
        };
        if fields.bytes.len() > limits.total {
            return Err(HpackError::Large);
        }
        if (0x40..0x80).contains(&first) {
            self.insert(fields.bytes.get(start..).unwrap_or_default(), name);
        }
        fields.ends.push((start + name, fields.bytes.len()));
        Ok(())
    }

    /// Appends a field whose value, and perhaps its name, is written out; how long its name is.
    fn literal(
        &self,
        input: &mut Input<'_>,
        index: usize,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, HpackError> {
        let start = out.len();
        let value = if index > 0 {
            let (field, name) = self.find(index)?;
            out.extend_from_slice(field.get(..name).unwrap_or_default());
            input.string(limit)
        } else {
            let name = input.string(limit)?;
            let value = input.string(limit);
            // A name is not decoded again with each part of its value.
            if input.more && matches!(value, Err(HpackError::Truncated)) {
                return Err(HpackError::Truncated);
            }
            name.push(out)?;
            if out.len() == start {
                return Err(HpackError::EmptyName);
            }
            value
        };
        let name = out.len() - start;
        value?.push(out)?;
        Ok(name)
    }

    /// A field of the tables, and how long its name is.
    fn find(&self, index: usize) -> Result<(&[u8], usize), HpackError> {
        let place = index.checked_sub(1).ok_or(HpackError::ZeroIndex)?;
        if let Some(field) = statics::field(place) {
            return Ok(field);
        }
        self.entries
            .get(place - statics::COUNT)
            .map(|entry| (&*entry.bytes, entry.name))
            .ok_or(HpackError::Index(index))
    }

    fn insert(&mut self, field: &[u8], name: usize) {
        let size = field.len() + OVERHEAD;
        self.evict(self.max.saturating_sub(size));
        if size <= self.max {
            self.size += size;
            self.entries.push_front(Entry {
                bytes: field.into(),
                name,
            });
        }
    }

    fn resize(&mut self, max: usize) -> Result<(), HpackError> {
        if max > self.limit {
            return Err(HpackError::TableSize(max));
        }
        self.max = max;
        self.evict(max);
        Ok(())
    }

    /// Drops the oldest fields until the table is no larger than `size`.
    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.bytes.len() + OVERHEAD;
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        field: 100,
        total: 300,
    };

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
        let mut fields = Fields::default();
        decoder.decode(block, false, LIMITS, &mut fields)?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(fields
            .iter()
            .map(|(name, value)| text(name) + "=" + &text(value))
            .collect())
    }

    #[test]
    fn requests_of_the_specification() {
        let mut decoder = Decoder::default();
        let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        let expected = [
            ":method=GET",
            ":scheme=http",
            ":path=/",
            ":authority=www.example.com",
        ];
        assert_eq!(decode(&mut decoder, first).unwrap(), expected);
        let second = decode(&mut decoder, b"\x82\x86\x84\xbe\x58\x08no-cache").unwrap();
        assert_eq!(
            second[3..],
            [":authority=www.example.com", "cache-control=no-cache"]
        );
        let third = decode(
            &mut decoder,
            b"\x82\x87\x85\xbf\x40\x0acustom-key\x0ccustom-value",
        );
        let third = third.unwrap();
        assert_eq!(
            third[3..],
            [":authority=www.example.com", "custom-key=custom-value"]
        );
        assert_eq!(decoder.size, 164);
        // A smaller table forgets the oldest.
        assert_eq!(
            decode(&mut decoder, b"\x3f\x38\xbe").unwrap(),
            ["custom-key=custom-value"]
        );
        assert_eq!(decode(&mut decoder, b"\xbf"), Err(HpackError::Index(63)));
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        for (block, error) in [
            (&b"\x80"[..], HpackError::ZeroIndex),
            (b"\xff", HpackError::Truncated),
            (b"\x42\xff", HpackError::Truncated),
            (b"\xff\xff\xff\xff\xff", HpackError::LongIndex),
            (b"\x3f\xff\xff\xff\xff", HpackError::LongSize),
            (b"\x42\xff\xff\xff\xff\xff", HpackError::LongLength),
            (b"\x3f\xe2\x1f", HpackError::TableSize(4097)),
            (b"\x00\x00\x00", HpackError::EmptyName),
            (b"\x42\x81\x18", HpackError::Huffman),
            (b"\x42\x65", HpackError::LargeField),
        ] {
            assert_eq!(
                decode(&mut Decoder::default(), block),
                Err(error),
                "{block:x?}"
            );
        }
        let long = [b"\x40\x01a\x64".to_vec(), vec![b'x'; 100], vec![0xbe; 2]].concat();
        assert_eq!(
            decode(&mut Decoder::default(), &long),
            Err(HpackError::Large)
        );
    }

    /// What has come of a block is taken field by field.
    #[test]
    fn parts_of_blocks() {
        let taken = |part: &[u8]| {
            let mut fields = Fields::default();
            Decoder::default().decode(part, true, LIMITS, &mut fields)
        };
        for (part, whole) in [
            (&b""[..], 0),
            (b"\x82\x86", 2),
            (b"\x82\x41\x03ab", 1),
            (b"\x82\x41\x02ab\x00\x01x", 5),
            (b"\x3f\xff\xff", 0),
            (b"\x42\xff\xff\xff", 0),
            (b"\x00\x81\x18", 0),
        ] {
            assert_eq!(taken(part), Ok(whole), "{part:x?}");
        }
        for (part, error) in [
            (&b"\x82\xff\xff\xff\xff"[..], HpackError::LongIndex),
            (b"\x3f\xff\xff\xff", HpackError::LongSize),
            (b"\x42\xff\xff\xff\xff", HpackError::LongLength),
            (b"\x42\x65", HpackError::LargeField),
            (b"\xff\x00\x42\x65", HpackError::Index(127)),
            (b"\x00\x81\x18\x65", HpackError::Huffman),
        ] {
            assert_eq!(taken(part), Err(error), "{part:x?}");
        }
    }

    /// What comes of a block that is cut there.
    fn in_parts(block: &[u8], cuts: &[usize]) -> (Result<(), HpackError>, String) {
        let (mut decoder, mut fields, mut held) =
            (Decoder::default(), Fields::default(), Vec::new());
        let mut rest = block;
        for cut in cuts {
            let (part, behind) = rest.split_at((*cut).min(rest.len()));
            held.extend_from_slice(part);
            rest = behind;
            match decoder.decode(&held, !rest.is_empty(), LIMITS, &mut fields) {
                Ok(taken) => drop(held.drain(..taken)),
                Err(error) => return (Err(error), format!("{:?}", decoder.entries)),
            }
        }
        (Ok(()), format!("{fields:?} {decoder:?}"))
    }

    const PARTS: [&[u8]; 12] = [
        b"\x82",
        b"\xff\x00",
        b"\xbe",
        b"\x41\x03abc",
        b"\x00\x01a\x01\xff",
        b"\x40\x81\x1f\x81\x1f",
        b"\x0f\x10\x00",
        b"\x3f\xe1\x1f",
        b"\x20",
        b"\x00\x81\x18\x01a",
        b"\x42\x65",
        b"\x3f\xff\xff\xff",
    ];

    proptest! {
        /// However a block is cut, the same comes of it.
        #[test]
        fn parts_are_as_good_as_all(
            fields in proptest::collection::vec(0..PARTS.len(), 0..9),
            end in proptest::collection::vec(any::<u8>(), 0..4),
            cuts in proptest::collection::vec(0..6_usize, 0..12),
        ) {
            let mut block: Vec<u8> = fields.iter().flat_map(|field| PARTS[*field].to_vec()).collect();
            block.extend(end);
            let cuts = [cuts, vec![usize::MAX]].concat();
            prop_assert_eq!(in_parts(&block, &cuts), in_parts(&block, &[usize::MAX]));
        }

        #[test]
        fn any_bytes_are_survived(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..5)) {
            let mut decoder = Decoder::default();
            for block in blocks {
                let mut fields = Fields::default();
                if decoder.decode(&block, false, LIMITS, &mut fields).is_err() {
                    break;
                }
                prop_assert!(fields.bytes.len() <= LIMITS.total);
                prop_assert!(decoder.size <= decoder.max);
            }
        }
    }
}
