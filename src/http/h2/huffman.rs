//! Strings of header fields in HPACK's Huffman code (RFC 7541, appendix B).
//!
//! The code is canonical: the lengths of the codes say all of it, and the tables are made of them at compile time. Codes
//! of up to ten bits, that is every character that is common, are found by one look.
#![warn(clippy::indexing_slicing)]

/// Appends what `bytes` stand for; false when they are no valid code.
pub fn decode(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = bytes;
    // The bits at hand stand at the top, zeros behind them.
    let (mut held, mut count) = (0_u64, 0_u32);
    out.reserve(bytes.len() * 8 / SHORTEST);
    loop {
        if count < 32 && !rest.is_empty() {
            (held, count, rest) = refill(held, count, rest);
        }
        if let Some((symbol, len)) = FAST.get((held >> (64 - FAST_BITS)) as usize)
            && *len > 0
            && u32::from(*len) <= count
        {
            out.push(*symbol);
            held <<= len;
            count -= u32::from(*len);
            continue;
        }
        let ones = u64::MAX.checked_shr(count).unwrap_or(0);
        // The end is padding: the beginning of the code for the end, which is of 30 ones. As in nginx it may be a byte that is
        // not needed.
        if count < END && held | ones == u64::MAX {
            return true;
        }
        let window = u32::try_from((held | ones) >> 32).unwrap_or(u32::MAX);
        let Some((symbol, len)) = symbol(window).filter(|(_, len)| *len <= count) else {
            return false;
        };
        out.push(symbol);
        held <<= len;
        count -= len;
    }
}

/// What is written for each byte: its code, and how long that is in bits; 0 for a byte that must not be there.
pub type Table = [(u32, u32); 256];

/// The table of values: whatever ends no line and no string.
pub static VALUE: Table = value();

/// The table of names (RFC 9110, 5.6.2), in lower case.
pub static NAME: Table = name();

/// How many bytes the code of `bytes` takes.
pub fn encoded_len(bytes: &[u8], table: &Table) -> usize {
    let bits = bytes.iter().map(|byte| entry(table, *byte).1 as usize);
    bits.sum::<usize>().div_ceil(8)
}

/// What came of encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// The code was appended.
    Shorter,
    /// It is no shorter than the bytes: nothing was appended.
    NotShorter,
    /// One of them must not be there.
    NotAllowed,
}

/// Appends the code of `bytes` if that is shorter.
pub fn encode(bytes: &[u8], table: &Table, out: &mut Vec<u8>) -> Encoded {
    let start = out.len();
    // Room for what is shorter, and a part that is written at once.
    out.resize(start + bytes.len() + PART, 0);
    let room = out.get_mut(start..).unwrap_or_default();
    let shorter = fill(bytes, table, room).filter(|(n, _)| *n < bytes.len());
    out.truncate(start + shorter.map_or(0, |(n, _)| n));
    let is_allowed = match shorter {
        Some((_, is_allowed)) => is_allowed,
        None => bytes.iter().all(|byte| entry(table, *byte).1 > 0),
    };
    match shorter {
        _ if !is_allowed => Encoded::NotAllowed,
        Some(_) => Encoded::Shorter,
        None => Encoded::NotShorter,
    }
}

/// How many bytes are written at once.
const PART: usize = 4;

/// Writes the code of `bytes`; how long it is, if there is room, and whether all of them may be there.
fn fill(bytes: &[u8], table: &Table, room: &mut [u8]) -> Option<(usize, bool)> {
    // The bits at hand stand at the bottom; above them are those that have gone.
    let (mut held, mut count) = (0_u64, 0);
    let mut parts = room.chunks_exact_mut(PART);
    let (mut written, mut is_allowed) = (0, true);
    for byte in bytes {
        let (code, len) = entry(table, *byte);
        is_allowed &= len > 0;
        held = held << len | u64::from(code);
        count += len;
        if count >= 32 {
            count -= 32;
            let [_, _, _, _, part @ ..] = (held >> count).to_be_bytes();
            parts.next()?.copy_from_slice(&part);
            written += PART;
        }
    }
    // Ones fill the last byte.
    let padding = count.wrapping_neg() % 8;
    held = held << padding | ((1 << padding) - 1);
    count += padding;
    let [_, _, _, _, part @ ..] = (held << (32 - count)).to_be_bytes();
    let rest = count as usize / 8;
    if rest > 0 {
        parts.next()?.copy_from_slice(&part);
    }
    Some((written + rest, is_allowed))
}

fn entry(table: &Table, byte: u8) -> (u32, u32) {
    table.get(usize::from(byte)).copied().unwrap_or_default()
}

/// Takes as many bytes as there is room for.
fn refill(mut held: u64, mut count: u32, rest: &[u8]) -> (u64, u32, &[u8]) {
    if let Some((four, behind)) = rest.split_first_chunk() {
        let four = u64::from(u32::from_be_bytes(*four));
        return (held | four << (32 - count), count + 32, behind);
    }
    for byte in rest {
        held |= u64::from(*byte) << (56 - count);
        count += 8;
    }
    (held, count, &[])
}

/// The symbol that these bits begin with, and the length of its code.
fn symbol(window: u32) -> Option<(u8, u32)> {
    let entry = FAST.get((window >> (32 - FAST_BITS)) as usize)?;
    if entry.1 > 0 {
        return Some((entry.0, u32::from(entry.1)));
    }
    for (len, (first, index)) in (0_u32..).zip(&LONG.firsts).skip(FAST_BITS as usize + 1) {
        let code = window >> (32 - len);
        let end = LONG.firsts.get(len as usize + 1)?.1;
        let at = u32::from(*index) + code.checked_sub(*first)?;
        if at < u32::from(end) {
            return LONG.symbols.get(at as usize).map(|symbol| (*symbol, len));
        }
    }
    None
}

const FAST_BITS: u32 = 10;

/// Length of the shortest codes, bits.
const SHORTEST: usize = 5;

/// Length of the code for the end.
const END: u32 = 30;

/// Symbol and length of the code by the first ten bits; length 0 where the code is longer.
static FAST: [(u8, u8); 1 << FAST_BITS] = fast();

static LONG: Codes = codes();

/// The canonical code.
struct Codes {
    /// By length: the first code, and the place of its symbol in `symbols`.
    firsts: [(u32, u16); 32],
    /// Symbols in the order of their codes.
    symbols: [u8; 256],
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "made at compile time, where either would be an error"
)]
const fn codes() -> Codes {
    let mut codes = Codes {
        firsts: [(0, 0); 32],
        symbols: [0; 256],
    };
    let (mut code, mut at, mut len) = (0_u32, 0, 1);
    while len < 32 {
        code <<= 1;
        codes.firsts[len] = (code, at as u16);
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == len {
                codes.symbols[at] = symbol as u8;
                at += 1;
                code += 1;
            }
            symbol += 1;
        }
        len += 1;
    }
    codes
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "made at compile time, where either would be an error"
)]
const fn all() -> Table {
    let mut table = [(0, 0); 256];
    let codes = codes();
    let mut len = 1;
    while len < 32 {
        let (first, start) = codes.firsts[len];
        let end = if len < 31 {
            codes.firsts[len + 1].1
        } else {
            256
        };
        let mut at = start;
        while at < end {
            let symbol = codes.symbols[at as usize] as usize;
            table[symbol] = (first + (at - start) as u32, len as u32);
            at += 1;
        }
        len += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, reason = "made at compile time")]
const fn value() -> Table {
    let mut table = all();
    table[0] = (0, 0);
    table[b'\r' as usize] = (0, 0);
    table[b'\n' as usize] = (0, 0);
    table
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "made at compile time, where either would be an error"
)]
const fn name() -> Table {
    let all = all();
    let mut table = [(0, 0); 256];
    let mut byte = 0;
    while byte < 128 {
        let c = byte as u8;
        if c.is_ascii_graphic() && !is_delimiter(c) {
            table[byte] = all[c.to_ascii_lowercase() as usize];
        }
        byte += 1;
    }
    table
}

/// Characters that stand between tokens (RFC 9110, 5.6.2).
const fn is_delimiter(c: u8) -> bool {
    matches!(
        c,
        b'"' | b'(' | b')' | b',' | b'/' | b':'..=b'@' | b'['..=b']' | b'{' | b'}'
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "made at compile time, where either would be an error"
)]
const fn fast() -> [(u8, u8); 1 << FAST_BITS] {
    let mut table = [(0, 0); 1 << FAST_BITS];
    let codes = codes();
    let mut len = 1;
    while len <= FAST_BITS {
        let (first, start) = codes.firsts[len as usize];
        let end = codes.firsts[len as usize + 1].1;
        let mut at = start;
        while at < end {
            let shift = FAST_BITS - len;
            let begin = (first + (at - start) as u32) << shift;
            let mut i = begin;
            while i < begin + (1 << shift) {
                table[i as usize] = (codes.symbols[at as usize], len as u8);
                i += 1;
            }
            at += 1;
        }
        len += 1;
    }
    table
}

/// Lengths of the codes of all bytes.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11,
    10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8,
    15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5,
    6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
    23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21,
    23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25,
    26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(bytes, &mut out).then_some(out)
    }

    /// What the code makes of `text`, if that is shorter.
    fn encoded(text: &[u8], table: &Table) -> Result<Vec<u8>, Encoded> {
        let mut out = b"before".to_vec();
        let encoded = encode(text, table, &mut out);
        let code = out.strip_prefix(b"before").unwrap().to_vec();
        if encoded == Encoded::Shorter {
            assert_eq!(code.len(), encoded_len(text, table));
            return Ok(code);
        }
        Err(encoded)
    }

    #[test]
    fn what_must_not_be_there_is_seen() {
        for byte in 0..=255 {
            for text in [
                [byte; 3].to_vec(),
                [b"aaaaa", &[byte][..], &[b'b'; 30]].concat(),
            ] {
                let is_value = encoded(&text, &VALUE) != Err(Encoded::NotAllowed);
                assert_eq!(is_value, !b"\0\r\n".contains(&byte), "{byte}");
                let name = encoded(&text, &NAME);
                let is_token = http::HeaderName::from_bytes(&text).is_ok();
                assert_eq!(name != Err(Encoded::NotAllowed), is_token, "{byte}");
                if let Ok(code) = name {
                    assert_eq!(decoded(&code).unwrap(), text.to_ascii_lowercase());
                }
            }
        }
    }

    #[test]
    fn what_is_no_shorter_is_left_alone() {
        for text in [&b""[..], b"x", b"aZ", b"!", b"!!!!!!!", &[0x7f; 200]] {
            assert_eq!(encoded(text, &VALUE), Err(Encoded::NotShorter), "{text:?}");
        }
        assert_eq!(encoded(b"aaa", &VALUE), Ok(vec![0x18, 0xc7]));
    }

    #[test]
    fn examples_of_the_specification() {
        let name = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        let value = [0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf];
        for (text, code) in [(&b"www.example.com"[..], &name[..]), (b"no-cache", &value)] {
            assert_eq!(decoded(code).unwrap(), text);
            assert_eq!(encoded(text, &VALUE).unwrap(), code);
        }
    }

    #[test]
    fn every_byte_comes_back() {
        for byte in 0..=255 {
            for place in [0, 7, 30, 59] {
                let mut text = [b'a'; 60];
                text[place] = byte;
                assert_eq!(decoded(&encoded(&text, &all()).unwrap()).unwrap(), text);
            }
        }
    }

    #[test]
    fn bad_padding_is_refused() {
        assert_eq!(decoded(&[0x1f, 0xff]).unwrap(), b"a");
        // Padding of zeros, the code for the end.
        for bytes in [&[0x18][..], &[0x1f, 0xfe], &[0xff; 4]] {
            assert_eq!(decoded(bytes), None, "{bytes:x?}");
        }
    }
}
