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
        if count < 32 {
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
        let window = u32::try_from((held | ones) >> 32).unwrap_or(u32::MAX);
        let Some((symbol, len)) = symbol(window).filter(|(_, len)| *len <= count) else {
            // What is left must be padding: the beginning of the code for the end, which is of 30 ones. As in nginx it
            // may be a byte that is not needed.
            return count < END && held | ones == u64::MAX;
        };
        out.push(symbol);
        held <<= len;
        count -= len;
    }
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

    /// What the code makes of `text`.
    fn encoded(text: &[u8]) -> Vec<u8> {
        let (mut held, mut count, mut out) = (0_u64, 0, Vec::new());
        for byte in text {
            let place = LONG.symbols.iter().position(|s| s == byte).unwrap();
            let len = usize::from(LENGTHS[usize::from(*byte)]);
            let (first, start) = LONG.firsts[len];
            let code = first + u32::try_from(place).unwrap() - u32::from(start);
            held = held << len | u64::from(code);
            count += len;
            while count >= 8 {
                count -= 8;
                out.push((held >> count & 0xff) as u8);
            }
        }
        if count > 0 {
            out.push(((held << (8 - count) | ((1 << (8 - count)) - 1)) & 0xff) as u8);
        }
        out
    }

    #[test]
    fn examples_of_the_specification() {
        let name = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decoded(&name).unwrap(), b"www.example.com");
        assert_eq!(
            decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).unwrap(),
            b"no-cache"
        );
        assert_eq!(decoded(b"").unwrap(), b"");
    }

    #[test]
    fn every_byte_comes_back() {
        let text: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        assert_eq!(decoded(&encoded(&text)).unwrap(), text);
        for byte in 0..=255 {
            assert_eq!(decoded(&encoded(&[byte])).unwrap(), [byte]);
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
