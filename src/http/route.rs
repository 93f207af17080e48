//! Which server and which location serve a request.
//!
//! Mirrors `ngx_http_find_virtual_server` (`http/ngx_http_request.c`) and `ngx_http_core_find_location`
//! (`http/ngx_http_core_module.c`).

use std::sync::Arc;

use super::{exchange::Exchange, h1::uri};
use crate::conf::model::{Location, LocationKind, Locations, PrefixLocation, Server};

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
