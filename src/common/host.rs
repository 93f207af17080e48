//! Names of hosts as clients give them: in a `Host` header, in a target, in TLS's greeting.
//!
//! Mirrors `ngx_http_validate_host` and `ngx_stream_validate_host`, which are the same.

use std::borrow::Cow;

use super::bytes::byte_table;

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
    let literal_end = match text {
        [b'[', ..] => Some(memchr::memchr(b']', text)?),
        _ => None,
    };
    let name_end = match literal_end {
        Some(end) => end + 1,
        None => memchr::memchr(b':', text).unwrap_or(text.len()),
    };
    let (name, rest) = text.split_at(name_end);
    let inner = literal_end.map_or(name, |end| &text[1..end]);
    let mut previous = 0;
    for &c in inner {
        let ok = match HOST[usize::from(c)] {
            1 => true,
            2 => previous != b'.',
            3 => literal_end.is_some(),
            4 => literal_end.is_none(),
            _ => false,
        };
        if !ok {
            return None;
        }
        previous = c;
    }
    let port = match rest {
        [] => 0,
        [b':', digits @ ..] => port(digits)?,
        _ => return None,
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    let name = if name.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    Some(Host { name, port })
}

/// What may stand in a host: 1 always, 2 not after its like, 3 in an IP literal, 4 outside of one.
const HOST: [u8; 256] = byte_table!(|byte| match byte {
    b'a'..=b'z'
    | b'A'..=b'Z'
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
    b'.' => 2,
    b':' => 3,
    b'%' => 4,
    _ => 0,
});

fn port(digits: &[u8]) -> Option<u16> {
    match digits {
        [] => Some(0),
        _ if digits.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(digits).ok()?.parse().ok()
        }
        _ => None,
    }
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
        assert_eq!(ok("a%20b"), Some(("a%20b".into(), 0)));
        for text in [
            "", ".", "a..b", "a b", "a/b", "[::1", "[::1]x", "a:65536", "a:8x", "a@b", ":80",
        ] {
            assert_eq!(ok(text), None, "{text}");
        }
    }
}
