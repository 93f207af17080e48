//! The status line of an upstream's response. Mirrors `ngx_http_parse_status_line`.

use crate::common::decimal;

/// A status line taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLine<'a> {
    /// Version as major * 1000 + minor.
    pub version: u32,
    /// The code, three digits.
    pub code: u16,
    /// Code and reason as sent, for the client's status line.
    pub text: &'a [u8],
    /// Length with the line's end.
    pub len: usize,
}

/// Result of [`parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// More bytes are needed.
    Partial,
    /// A status line.
    Line(StatusLine<'a>),
    /// Something else: a header-less HTTP/0.9 response, or an error.
    Invalid,
}

/// Parses the status line at the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed<'_> {
    let prefix = bytes.len().min(5);
    if bytes[..prefix] != b"HTTP/"[..prefix] {
        return Parsed::Invalid;
    }
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return Parsed::Partial;
    };
    let text = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    fields(text).map_or(Parsed::Invalid, |(version, code, at)| {
        Parsed::Line(StatusLine {
            version,
            code,
            text: &text[at..],
            len: end + 1,
        })
    })
}

/// Version, code and where the code begins.
fn fields(text: &[u8]) -> Option<(u32, u16, usize)> {
    if let [
        b'H',
        b'T',
        b'T',
        b'P',
        b'/',
        b'1',
        b'.',
        b'1',
        b' ',
        a @ b'0'..=b'9',
        b @ b'0'..=b'9',
        c @ b'0'..=b'9',
        b' ',
        ..,
    ] = text
    {
        // Nearly every response.
        let digit = |d: &u8| u16::from(d - b'0');
        return Some((1001, digit(a) * 100 + digit(b) * 10 + digit(c), 9));
    }
    if text.len() < 5 || text[5..].first() == Some(&b'0') {
        return None;
    }
    let (major, at) = number(text, 5)?;
    if text.get(at) != Some(&b'.') {
        return None;
    }
    let (minor, mut at) = number(text, at + 1)?;
    if text.get(at) != Some(&b' ') {
        return None;
    }
    while text.get(at) == Some(&b' ') {
        at += 1;
    }
    let digits = text
        .get(at..at + 3)
        .filter(|d| d.iter().all(u8::is_ascii_digit))?;
    let code = digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0'));
    matches!(text.get(at + 3), None | Some(b' ' | b'.')).then_some((major * 1000 + minor, code, at))
}

fn number(text: &[u8], start: usize) -> Option<(u32, usize)> {
    let digits = text[start..]
        .iter()
        .take_while(|c| c.is_ascii_digit())
        .count();
    let number = decimal::parse(&text[start..start + digits]).filter(|n| *n <= 999)?;
    Some((u32::try_from(number).ok()?, start + digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let Parsed::Line(line) = parse(b"HTTP/1.1 200 OK\r\nA") else {
            panic!("no line")
        };
        assert_eq!(
            (line.version, line.code, line.text, line.len),
            (1001, 200, &b"200 OK"[..], 17)
        );
        let Parsed::Line(line) = parse(b"HTTP/1.0 404\n") else {
            panic!("no line")
        };
        assert_eq!(
            (line.version, line.code, line.text),
            (1000, 404, &b"404"[..])
        );
        assert!(matches!(parse(b"HTTP/1.1 403.1 x\n"), Parsed::Line(line) if line.code == 403));
        assert_eq!(parse(b"HTT"), Parsed::Partial);
        for text in [
            "hello",
            "HTTP/x 200\n",
            "HTTP/1.1 20\n",
            "HTTP/1.1 2000 x\n",
            "HTTP/0.9 200 OK\n",
            "HTTP/1.1\n",
        ] {
            assert_eq!(parse(text.as_bytes()), Parsed::Invalid, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(rest in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            let _ = parse(&[b"HTTP/", &rest[..]].concat());
            let _ = parse(&rest);
        }
    }
}
