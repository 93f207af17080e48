//! The lines of a head, read by nginx's rules.
//!
//! Mirrors `ngx_http_parse_header_line`: lines may end in a bare LF; only spaces are trimmed; a name with characters
//! outside letters, digits and `-` is invalid but not an error; NUL, a bare CR and control characters in a name are.

use super::known::Known;
use crate::common::bytes::{byte_table, line_end, near};

/// What stands at the start of some bytes of a head.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// No line end yet.
    Partial,
    /// The empty line that ends a head; how long it is.
    End(usize),
    /// A field.
    Field {
        /// Which name it is.
        known: Known,
        /// Its name, as sent.
        name: &'a [u8],
        /// Its value, without spaces around it.
        value: &'a [u8],
        /// Length of the line with its end.
        len: usize,
        /// Whether the name has only letters, digits, `-` (and `_` where allowed).
        valid: bool,
    },
    /// A line that is an error; how many bytes of it were good.
    Invalid(usize),
}

/// Letters, digits and `-` are 1, `_` is 2, what may not stand in a name is 3, the rest (invalid, ignored) is 0.
const NAME: [u8; 256] = byte_table!(|byte| match byte {
    b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' => 1,
    b'_' => 2,
    0..=0x20 | 0x7f => 3,
    _ => 0,
});

/// Reads one line of a head; `underscores` makes `_` a valid character of names.
#[inline]
pub fn line(bytes: &[u8], underscores: bool) -> Line<'_> {
    if bytes.starts_with(b"\r\n") {
        return Line::End(2);
    }
    match plain(bytes) {
        Some(field) => field,
        None => any_line(bytes, underscores),
    }
}

/// A line as nearly all are: letters, digits and `-`, a colon, a value without anything to complain of. None for every
/// other one, which [`any_line`] reads. Few looks at each byte: heads are parsed on the hot path.
#[inline]
fn plain(bytes: &[u8]) -> Option<Line<'_>> {
    /// Names are not longer.
    const USUAL: usize = 64;
    let colon = near(b':', &bytes[..bytes.len().min(USUAL)])?;
    let name = &bytes[..colon];
    let known = Known::of(name);
    let is_valid = || !name.is_empty() && name.iter().all(|c| NAME[usize::from(*c)] == 1);
    if known == Known::Other && !is_valid() {
        return None;
    }
    let value = &bytes[colon + 1..];
    let spaces = value.iter().position(|c| *c != b' ')?;
    let value = &value[spaces..];
    let end = line_end(value)?;
    let line_end = match value[end..] {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => return None,
    };
    let mut text = &value[..end];
    while let [rest @ .., b' '] = text {
        text = rest;
    }
    Some(Line::Field {
        known,
        name,
        value: text,
        len: colon + 1 + spaces + end + line_end,
        valid: true,
    })
}

/// [`line()`] for any line.
#[inline(never)]
fn any_line(bytes: &[u8], underscores: bool) -> Line<'_> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return Line::Partial;
    };
    let (text, len) = (&bytes[..end], end + 1);
    match text {
        [] | [b'\r'] => return Line::End(len),
        [b'\r' | b':', ..] => return Line::Invalid(usize::from(text[0] == b'\r')),
        _ => {}
    }
    let mut valid = true;
    let mut name_end = text.len();
    for (i, c) in text.iter().enumerate() {
        match NAME[usize::from(*c)] {
            1 => {}
            _ if *c == b':' => {
                name_end = i;
                break;
            }
            2 => valid &= underscores,
            3 if *c == b'\r' && i > 0 && text[i..].iter().all(|c| *c == b'\r') => {
                name_end = i;
                break;
            }
            3 => return Line::Invalid(i),
            _ => valid = false,
        }
    }
    let name = &text[..name_end];
    let rest = text.get(name_end + 1..).unwrap_or_default();
    match value(rest) {
        Ok(value) => Line::Field {
            known: Known::of(name),
            name,
            value,
            len,
            valid,
        },
        Err(at) => Line::Invalid(name_end + 1 + at),
    }
}

/// A field's value out of what follows the colon; the offset of a byte that may not be there otherwise.
fn value(mut text: &[u8]) -> Result<&[u8], usize> {
    while let [rest @ .., b'\r'] = text {
        text = rest;
    }
    if let Some(at) = memchr::memchr2(b'\r', 0, text) {
        return Err(at);
    }
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' '] = text {
        text = rest;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field<'a>(name: &'a [u8], value: &'a [u8], len: usize, valid: bool) -> Line<'a> {
        Line::Field {
            known: Known::of(name),
            name,
            value,
            len,
            valid,
        }
    }

    #[test]
    fn lines_as_nginx_reads_them() {
        assert_eq!(
            line(b"Host: a \r\nx", false),
            field(b"Host", b"a", 10, true)
        );
        assert_eq!(line(b"Host:a\n", false), field(b"Host", b"a", 7, true));
        assert_eq!(line(b"Empty:\r\n", false), field(b"Empty", b"", 8, true));
        assert_eq!(line(b"NoColon\r\n", false), field(b"NoColon", b"", 9, true));
        assert_eq!(line(b"A_b: 1\n", false), field(b"A_b", b"1", 7, false));
        assert_eq!(line(b"A_b: 1\n", true), field(b"A_b", b"1", 7, true));
        assert_eq!(line(b"A@b: 1\n", true), field(b"A@b", b"1", 7, false));
        assert_eq!(line(b"\r\n", false), Line::End(2));
        assert_eq!(line(b"\n", false), Line::End(1));
        assert_eq!(line(b"Host: a", false), Line::Partial);
        assert_eq!(line(b"Ho st: a\n", false), Line::Invalid(2));
        assert_eq!(line(b" folded\n", false), Line::Invalid(0));
        assert_eq!(line(b"A: b\rc\n", false), Line::Invalid(4));
        assert_eq!(line(b"A: b\0c\n", false), Line::Invalid(4));
        assert_eq!(line(b":x\n", false), Line::Invalid(0));
    }

    proptest! {
        /// The same of names that are known, or nearly so.
        #[test]
        fn readers_agree(parts in proptest::collection::vec(
            prop_oneof![
                Just("Host"), Just("content-length"), Just("ETag"), Just("X-Other"), Just(":"), Just(" "), Just("\r"),
                Just("\n"), Just("\r\n"), Just("\0"), Just("_"), Just("\t"), Just("value"), Just("\u{e9}"),
            ], 0..9,
        )) {
            let text = parts.concat().into_bytes();
            for underscores in [false, true] {
                if let Some(quick) = plain(&text) {
                    prop_assert_eq!(quick, any_line(&text, underscores));
                }
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80), underscores: bool) {
            if let Line::Field { name, value, len, .. } = line(&bytes, underscores) {
                assert!(len <= bytes.len());
                assert!(!name.contains(&b' ') && !value.contains(&0) && !value.contains(&b'\r'));
            }
        }

        /// The short way says nothing else than the long one.
        #[test]
        fn plain_lines_are_read_as_any(bytes in "[A-b_\r\n\0]{0,3}[A-Za-c-]{0,9}:? {0,2}[ -c\0\r]{0,9} {0,2}\r{0,2}\n.{0,3}", underscores: bool) {
            if let Some(field) = plain(bytes.as_bytes()) {
                prop_assert_eq!(field, any_line(bytes.as_bytes(), underscores));
            }
        }
    }
}
