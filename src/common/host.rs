//! Names of hosts as clients give them: in a `Host` header, in a target, in TLS's greeting.
//!
//! Mirrors `ngx_http_validate_host` and `ngx_stream_validate_host`, which are the same.

use std::borrow::Cow;

use super::{bytes::byte_table, decimal};

/// A host that is fit for comparison: lower case, without port and trailing dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host<'t> {
    /// The name or address.
    pub name: Cow<'t, [u8]>,
    /// The port; 0 when there is none.
    pub port: u16,
}

/// Reads a host with an optional port as `ngx_http_validate_host` does; None is invalid.
pub fn validate(text: &[u8]) -> Option<Host<'_>> {
    let is_literal = text.starts_with(b"[");
    let (mut end, mut previous, mut has_upper) = (usize::from(is_literal), 0, false);
    // One look at each byte: this is on the way of every request.
    while let Some(&c) = text.get(end) {
        match HOST[usize::from(c)] {
            1 => {}
            2 => has_upper = true,
            3 if previous != b'.' => {}
            4 if is_literal => {}
            4 => break,
            5 if !is_literal => {}
            6 if is_literal => break,
            _ => return None,
        }
        previous = c;
        end += 1;
    }
    if is_literal {
        // With its bracket, which it must have.
        text.get(end)?;
        end += 1;
    }
    let (name, rest) = text.split_at(end);
    let port = match rest {
        [] => 0,
        [b':', digits @ ..] => port(digits)?,
        _ => return None,
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    let name = if has_upper {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    Some(Host { name, port })
}

/// What may stand in a host: 1 and 2, an upper-case letter, always, 3 not after its like, 4 in an IP literal, outside of which
/// it ends the name, 5 outside of one; 6 ends one.
const HOST: [u8; 256] = byte_table!(|byte| match byte {
    b'a'..=b'z'
    | b'0'..=b'9'
    | b'-'
    | b'_'
    | b'~'
    | b'!'
    | b'$'
    | b'&'
    | b'\''
    | b'('
    | b')'
    | b'*'
    | b'+'
    | b','
    | b';'
    | b'=' => 1,
    b'A'..=b'Z' => 2,
    b'.' => 3,
    b':' => 4,
    b'%' => 5,
    b']' => 6,
    _ => 0,
});

fn port(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() {
        return Some(0);
    }
    u16::try_from(decimal::parse(digits)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let ok = |text: &str| {
            validate(text.as_bytes())
                .map(|h| (String::from_utf8(h.name.into_owned()).unwrap(), h.port))
        };
        assert_eq!(ok("Example.COM."), Some(("example.com".into(), 0)));
        assert_eq!(ok("a:8080"), Some(("a".into(), 8080)));
        assert_eq!(ok("a:"), Some(("a".into(), 0)));
        assert_eq!(ok("[::1]:80"), Some(("[::1]".into(), 80)));
        assert_eq!(ok("[::A]"), Some(("[::a]".into(), 0)));
        assert_eq!(ok("a%20b"), Some(("a%20b".into(), 0)));
        for text in [
            "", ".", "a..b", "a]", "[", "[:%]", "a b", "a/b", "[::1", "[::1]x", "a:65536", "a:8x",
            "a@b", ":80",
        ] {
            assert_eq!(ok(text), None, "{text}");
        }
    }
}
