//! Which server and which location serve a request.
//!
//! Mirrors `ngx_http_find_virtual_server` (`http/ngx_http_request.c`) and `ngx_http_core_find_location`
//! (`http/ngx_http_core_module.c`).

use std::sync::Arc;

use super::{exchange::Exchange, h1::uri};
use crate::conf::model::{Location, LocationKind, Locations, PrefixLocation, Server};

/// A host that is fit for comparison: lower case, without port and trailing dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// The name or address.
    pub name: Vec<u8>,
    /// The port; 0 when there is none.
    pub port: u16,
}

/// Reads a host with an optional port as `ngx_http_validate_host` does; None is invalid.
pub(super) fn validate_host(text: &[u8]) -> Option<Host> {
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
    Some(Host {
        name: name.to_ascii_lowercase(),
        port,
    })
}

/// What may stand in a host: 1 always, 2 not after its like, 3 in an IP literal, 4 outside of one.
const HOST: [u8; 256] = {
    let mut table = [0; 256];
    let mut c = 0;
    while c < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "c < 256")]
        let byte = c as u8;
        table[c] = match byte {
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
        };
        c += 1;
    }
    table
};

fn port(digits: &[u8]) -> Option<u16> {
    match digits {
        [] => Some(0),
        _ if digits.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(digits).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// Makes the server for `host` the exchange's; the present one stays when no name matches.
pub(super) fn set_server(x: &mut Exchange<'_>, host: &[u8]) {
    let Some((server, pattern)) = x.listen.names.find(host) else {
        return;
    };
    if let Some(pattern) = pattern {
        x.slots.matches(pattern, host);
    }
    x.server = server;
    x.location = &server.location;
}

/// Result of [`find_location`].
#[derive(Debug)]
pub(super) enum Match {
    /// The location is set.
    Found,
    /// The URI lacks its final slash: a redirect.
    AddSlash(Vec<u8>),
}

/// Makes the location for the URI the exchange's; without one it is the server itself.
pub(super) fn find_location(x: &mut Exchange<'_>) -> Match {
    x.location = &x.server.location;
    search(x, &x.server.location.children);
    let location = x.location;
    if location.auto_redirect
        && location.name.len() == x.request.uri.len() + 1
        && location.name.last() == Some(&b'/')
    {
        let mut address = Vec::new();
        uri::escape(&location.name, uri::Escape::Uri, &mut address);
        return Match::AddSlash(address);
    }
    Match::Found
}

/// Searches one level and the levels inside what it finds. True when the search is over: an exact match or a pattern.
fn search<'g>(x: &mut Exchange<'g>, locations: &'g Locations) -> bool {
    let mut no_regex = false;
    match prefix(&locations.prefixes, &x.request.uri) {
        Some(Prefix::Exact(location) | Prefix::Slash(location)) => {
            x.location = location;
            return true;
        }
        Some(Prefix::Inclusive(location)) => {
            x.location = location;
            no_regex = matches!(location.kind, LocationKind::PrefixNoRegex);
            if search(x, &location.children) {
                return true;
            }
        }
        None => {}
    }
    if no_regex || locations.regexes.is_empty() {
        return false;
    }
    let uri = std::mem::take(&mut x.request.uri);
    let found = locations
        .regexes
        .iter()
        .find(|location| match &location.kind {
            LocationKind::Regex(pattern) => x.slots.matches(pattern, &uri),
            _ => false,
        });
    x.request.uri = uri;
    match found {
        Some(location) => {
            x.location = location;
            search(x, &location.children);
            true
        }
        None => false,
    }
}

enum Prefix<'g> {
    Exact(&'g Location),
    /// A location that ends in a slash which the URI lacks.
    Slash(&'g Location),
    Inclusive(&'g Location),
}

/// The exact location or the longest prefix for `uri`.
fn prefix<'g>(names: &'g [PrefixLocation], uri: &[u8]) -> Option<Prefix<'g>> {
    let after = names.partition_point(|entry| *entry.name <= *uri);
    let slash = names.binary_search_by(|entry| entry.name.iter().cmp(uri.iter().chain(b"/")));
    if let Ok(index) = slash
        && names
            .get(after.wrapping_sub(1))
            .is_none_or(|e| *e.name != *uri)
        && let Some(location) = names[index]
            .exact
            .iter()
            .chain(&names[index].inclusive)
            .find(|location| location.auto_redirect)
    {
        return Some(Prefix::Slash(location));
    }
    let mut at = after.checked_sub(1);
    while let Some(index) = at {
        let entry = &names[index];
        if uri.starts_with(&entry.name) {
            let exact = entry
                .exact
                .as_ref()
                .filter(|_| entry.name.len() == uri.len());
            if let Some(location) = exact {
                return Some(Prefix::Exact(location));
            }
            if let Some(location) = &entry.inclusive {
                return Some(Prefix::Inclusive(location));
            }
        }
        at = entry.parent;
    }
    None
}

/// The named location `name` (with its `@`) of the server.
pub(super) fn named<'g>(server: &'g Server, name: &[u8]) -> Option<&'g Arc<Location>> {
    server
        .named
        .iter()
        .find(|(own, _)| **own == *name)
        .map(|(_, location)| location)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let ok = |text: &str| {
            validate_host(text.as_bytes()).map(|h| (String::from_utf8(h.name).unwrap(), h.port))
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
