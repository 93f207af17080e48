//! Looking at bytes: tables over all of them, made when the program is compiled, and the end of a line.

/// The table of what `match` says of each byte: `byte_table!(|byte| match byte { … })`.
///
/// A macro, because a function that is evaluated at compile time can neither take a closure nor call a function pointer.
macro_rules! byte_table {
    (|$byte:ident| $class:expr) => {{
        let mut table = [0; 256];
        let mut index = 0;
        while index < table.len() {
            #[expect(clippy::cast_possible_truncation, reason = "there are 256 bytes")]
            let $byte = index as u8;
            table[index] = $class;
            index += 1;
        }
        table
    }};
}

pub(crate) use byte_table;

/// Where the first byte is that ends a line or a string: line feed, carriage return or NUL.
#[inline]
pub(crate) fn line_end(bytes: &[u8]) -> Option<usize> {
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
    let (parts, rest) = bytes.as_chunks::<8>();
    for (number, part) in parts.iter().enumerate() {
        // Few bytes of text are as low.
        let Some(at) = first_below(14, u64::from_le_bytes(*part)) else {
            continue;
        };
        // A tab is low too.
        let at = match part.get(at) {
            Some(byte) if ends(byte) => Some(at),
            _ => part.iter().position(ends),
        };
        if let Some(at) = at {
            return Some(8 * number + at);
        }
    }
    let start = bytes.len() - rest.len();
    rest.iter().position(ends).map(|at| start + at)
}

/// Where the first `byte` is that is near: a call to look for it costs more than a few steps.
#[inline]
pub(crate) fn near(byte: u8, bytes: &[u8]) -> Option<usize> {
    let wanted = u64::from(byte) * EACH;
    let (parts, rest) = bytes.as_chunks::<8>();
    for (number, part) in parts.iter().enumerate() {
        if let Some(at) = first_below(1, u64::from_le_bytes(*part) ^ wanted) {
            return Some(8 * number + at);
        }
    }
    let start = bytes.len() - rest.len();
    rest.iter()
        .position(|other| *other == byte)
        .map(|at| start + at)
}

/// A one in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// Where the first of eight bytes is that is below `limit`, at most 128: the highest bit of each is looked at when that is
/// taken off. What is borrowed for it changes only bytes behind one that is below.
#[inline]
fn first_below(limit: u8, bytes: u64) -> Option<usize> {
    let low = bytes.wrapping_sub(u64::from(limit) * EACH) & !bytes & (0x80 * EACH);
    (low != 0).then(|| low.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_end_of_a_line_is_found(
            text in proptest::collection::vec(prop_oneof![20 => any::<u8>(), 1 => Just(0), 1 => Just(9), 1 => Just(10), 1 => Just(13)], 0..100),
        ) {
            let expected = text.iter().position(|byte| [0, 10, 13].contains(byte));
            prop_assert_eq!(line_end(&text), expected);
        }

        #[test]
        fn what_is_near_is_found(
            text in proptest::collection::vec(prop_oneof![9 => any::<u8>(), 1 => 0x39..0x3c_u8, 1 => Just(0xba)], 0..40),
        ) {
            let expected = text.iter().position(|byte| *byte == b':');
            prop_assert_eq!(near(b':', &text), expected);
        }
    }
}
