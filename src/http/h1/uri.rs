//! Request targets: decoding and normalising a path, escaping it again, arguments.
//!
//! Mirrors `ngx_http_parse_complex_uri` (`http/ngx_http_parse.c`), `ngx_escape_uri` and `ngx_unescape_uri`
//! (`core/ngx_string.c`), `ngx_http_arg`.

use std::ops::Range;

/// A target that is no valid URI: a bad `%` escape, NUL, or more `..` than directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidUri;

/// Decodes and normalises the path of `target` into `uri` (`.`, `..`, `//`, `%XX`); returns where in `target` the
/// arguments stand, if there are any. What follows `#` is dropped.
pub fn normalize(
    target: &[u8],
    merge_slashes: bool,
    uri: &mut Vec<u8>,
) -> Result<Option<Range<usize>>, InvalidUri> {
    let mut state = State::Usual;
    let mut at = 0;
    while let Some(&byte) = target.get(at) {
        at += 1;
        let (byte, literal) = if byte == b'%' {
            (unescape(target, &mut at)?, true)
        } else {
            (byte, false)
        };
        match byte {
            b'?' | b'#' if !literal => {
                finish(state, uri)?;
                return Ok(if byte == b'?' {
                    Some(arguments(target, at))
                } else {
                    None
                });
            }
            // An escaped `%`, `#` or `?` is an ordinary character whatever stands before it.
            b'%' | b'#' | b'?' => {
                uri.push(byte);
                state = State::Usual;
            }
            _ => state = push(state, byte, merge_slashes, uri)?,
        }
    }
    finish(state, uri)?;
    Ok(None)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Usual,
    Slash,
    Dot,
    DotDot,
}

fn push(
    state: State,
    byte: u8,
    merge_slashes: bool,
    uri: &mut Vec<u8>,
) -> Result<State, InvalidUri> {
    match (state, byte) {
        (State::Slash, b'/') => {
            if !merge_slashes {
                uri.push(b'/');
            }
            Ok(State::Slash)
        }
        (State::Dot, b'/') => {
            uri.pop();
            Ok(State::Slash)
        }
        (State::DotDot, b'/') => {
            parent(uri)?;
            Ok(State::Slash)
        }
        _ => {
            uri.push(byte);
            Ok(match (state, byte) {
                (_, b'/') => State::Slash,
                (State::Slash, b'.') => State::Dot,
                (State::Dot, b'.') => State::DotDot,
                _ => State::Usual,
            })
        }
    }
}

fn finish(state: State, uri: &mut Vec<u8>) -> Result<(), InvalidUri> {
    match state {
        State::Dot => {
            uri.pop();
            Ok(())
        }
        State::DotDot => parent(uri),
        State::Usual | State::Slash => Ok(()),
    }
}

/// Takes `name/..` off the end of `uri`, leaving the slash before the name.
fn parent(uri: &mut Vec<u8>) -> Result<(), InvalidUri> {
    // The `..` and the slash before it are the last three bytes.
    let before = uri.len().checked_sub(3).ok_or(InvalidUri)?;
    let slash = memchr::memrchr(b'/', &uri[..before]).ok_or(InvalidUri)?;
    uri.truncate(slash + 1);
    Ok(())
}

/// The byte that the two digits at `at` stand for; NUL is refused.
fn unescape(target: &[u8], at: &mut usize) -> Result<u8, InvalidUri> {
    let digits = target.get(*at..*at + 2).ok_or(InvalidUri)?;
    let high = hex(digits[0]).ok_or(InvalidUri)?;
    let low = hex(digits[1]).ok_or(InvalidUri)?;
    *at += 2;
    match high << 4 | low {
        0 => Err(InvalidUri),
        byte => Ok(byte),
    }
}

fn hex(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        b'A'..=b'F' => Some(c - b'A' + 10),
        _ => None,
    }
}

fn arguments(target: &[u8], start: usize) -> Range<usize> {
    let end = memchr::memchr(b'#', &target[start..]).map_or(target.len(), |n| start + n);
    start..end
}

/// Which characters [`escape`] escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// For a path in a request to an upstream or in a redirect: ` # % ?` and bytes outside printable ASCII.
    Uri,
    /// For an argument: also `& + ;`.
    Args,
    /// For an address within an attribute of a page.
    Refresh,
}

const fn table(also: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut c = 0;
    while c < 256 {
        table[c] = c <= 0x20 || c >= 0x7f;
        c += 1;
    }
    let mut i = 0;
    while i < also.len() {
        table[also[i] as usize] = true;
        i += 1;
    }
    table
}

const URI: [bool; 256] = table(b"\"#%<>?\\^`{|}");
const REFRESH: [bool; 256] = table(b"\"'<>\\^`{|~");
const ARGS: [bool; 256] = table(b"\"#%<>?\\^`{|}&+;");

/// Appends `text` with `%XX` for what `what` says.
pub fn escape(text: &[u8], what: Escape, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let table = match what {
        Escape::Uri => &URI,
        Escape::Args => &ARGS,
        Escape::Refresh => &REFRESH,
    };
    for &byte in text {
        if table[usize::from(byte)] {
            out.extend_from_slice(&[
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        } else {
            out.push(byte);
        }
    }
}

/// Whether [`escape`] would change `text`.
pub fn needs_escape(text: &[u8]) -> bool {
    text.iter().any(|c| URI[usize::from(*c)])
}

/// What [`unescape_into`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unescape {
    /// Everything is decoded.
    All,
    /// A redirect's address: a `?` ends decoding, the rest is copied; what must stay escaped does.
    Redirect,
}

/// Appends `text` with `%XX` decoded. A `%` without two digits is dropped, as nginx does.
pub fn unescape_into(text: &[u8], what: Unescape, out: &mut Vec<u8>) {
    let redirect = what == Unescape::Redirect;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'?' if redirect => return out.extend_from_slice(&text[at - 1..]),
            b'%' => {}
            _ => {
                out.push(byte);
                continue;
            }
        }
        let (Some(&first), second) = (text.get(at), text.get(at + 1)) else {
            return;
        };
        at += 1;
        let Some(high) = hex(first) else {
            out.push(first);
            continue;
        };
        let Some(&second) = second else { return };
        at += 1;
        let Some(low) = hex(second) else { continue };
        match high << 4 | low {
            b'?' if redirect => {
                out.push(b'?');
                return out.extend_from_slice(&text[at..]);
            }
            decoded if redirect && !(b'&'..0x7f).contains(&decoded) => {
                out.extend_from_slice(&[b'%', first, second]);
            }
            decoded => out.push(decoded),
        }
    }
}

/// Value of the argument `name` (any case) in a query string.
pub fn argument<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    args.split(|c| *c == b'&').find_map(|pair| {
        let rest = pair.get(name.len()..)?;
        (pair[..name.len()].eq_ignore_ascii_case(name)).then_some(())?;
        rest.strip_prefix(b"=")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(target: &str) -> Result<(String, String), InvalidUri> {
        let mut uri = Vec::new();
        let args = normalize(target.as_bytes(), true, &mut uri)?;
        let args = args.map_or("", |r| &target[r]);
        Ok((String::from_utf8_lossy(&uri).into_owned(), args.to_owned()))
    }

    #[test]
    fn paths_are_normalised_as_in_nginx() {
        for (target, uri, args) in [
            ("/a/b", "/a/b", ""),
            ("/a//b///c", "/a/b/c", ""),
            ("/a/./b/../c?x=/../y#z", "/a/c", "x=/../y"),
            ("/a/..", "/", ""),
            ("/a/.", "/a/", ""),
            ("/a%2Fb%20c/../d?q=%2F1", "/a/d", "q=%2F1"),
            ("/%3F%23%25", "/?#%", ""),
            ("/a/%2e%2e/b", "/b", ""),
            ("/a%2e", "/a.", ""),
            ("/a#b?c", "/a", ""),
            ("/.a/..b/...", "/.a/..b/...", ""),
            ("/a/..?b", "/", "b"),
        ] {
            assert_eq!(
                path(target),
                Ok((uri.to_owned(), args.to_owned())),
                "{target}"
            );
        }
        for target in ["/..", "/a/../..", "/%", "/%4", "/%zz", "/%00", "/../a"] {
            assert_eq!(path(target), Err(InvalidUri), "{target}");
        }
    }

    #[test]
    fn slashes_stay_when_asked() {
        let mut uri = Vec::new();
        normalize(b"/a//b", false, &mut uri).unwrap();
        assert_eq!(uri, b"/a//b");
    }

    #[test]
    fn escapes() {
        let mut out = Vec::new();
        escape(b"/a b?#%;:@+\xc3", Escape::Uri, &mut out);
        assert_eq!(out, b"/a%20b%3F%23%25;:@+%C3");
        let mut back = Vec::new();
        unescape_into(&out, Unescape::All, &mut back);
        assert_eq!(back, b"/a b?#%;:@+\xc3");
        for (text, redirect, decoded) in [
            ("%zz%4z%4", false, "zz"),
            ("a%20b%41?%41", true, "a%20bA?%41"),
            ("%3f%41", true, "?%41"),
            ("x%", false, "x"),
        ] {
            let mut out = Vec::new();
            unescape_into(
                text.as_bytes(),
                if redirect {
                    Unescape::Redirect
                } else {
                    Unescape::All
                },
                &mut out,
            );
            assert_eq!(String::from_utf8_lossy(&out), decoded, "{text}");
        }
    }

    #[test]
    fn arguments_by_name() {
        assert_eq!(argument(b"a=1&ab=2&B=3", b"ab"), Some(&b"2"[..]));
        assert_eq!(argument(b"a=1&ab=2&B=3", b"b"), Some(&b"3"[..]));
        assert_eq!(argument(b"a&b", b"a"), None);
        assert_eq!(argument(b"", b"a"), None);
    }

    proptest::proptest! {
        #[test]
        fn a_path_never_leaves_the_root(target in "/[a./%?#0-9]{0,40}") {
            let mut uri = Vec::new();
            if normalize(target.as_bytes(), true, &mut uri).is_ok() {
                assert_eq!(uri.first(), Some(&b'/'));
                assert!(!uri.windows(4).any(|w| w == b"/../"));
            }
        }

        #[test]
        fn escaping_is_undone(text in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            let mut escaped = Vec::new();
            escape(&text, Escape::Args, &mut escaped);
            let mut back = Vec::new();
            unescape_into(&escaped, Unescape::All, &mut back);
            assert_eq!(back, text);
        }
    }
}
