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
        if has_low(*part)
            && let Some(at) = part.iter().position(ends)
        {
            return Some(8 * number + at);
        }
    }
    let start = bytes.len() - rest.len();
    rest.iter().position(ends).map(|at| start + at)
}

/// Whether one of the bytes is below 14, as few are in text: the highest bit of each is looked at when 14 is taken off.
#[inline]
fn has_low(part: [u8; 8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let bytes = u64::from_le_bytes(part);
    bytes.wrapping_sub(14 * EACH) & !bytes & (0x80 * EACH) != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_end_of_a_line_is_found(
            text in proptest::collection::vec(prop_oneof![20 => any::<u8>(), 1 => Just(0), 1 => Just(10), 1 => Just(13)], 0..100),
        ) {
            let expected = text.iter().position(|byte| [0, 10, 13].contains(byte));
            prop_assert_eq!(line_end(&text), expected);
        }
    }
}
