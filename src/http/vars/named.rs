//! Variables that are a family: a header, a cookie or an argument by its name.

use super::{put, put_number, put_some};
use crate::{
    common::date,
    http::{
        exchange::Exchange,
        h1::{known::Known, uri},
    },
    vars::VarId,
};

/// `$arg_NAME`, `$cookie_NAME` and `$http_NAME`
pub(super) fn request(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    match id {
        VarId::Arg(name) => put_some(out, uri::argument(&x.request.args, name.as_bytes())),
        VarId::Cookie(name) => cookie(x, name, out),
        VarId::Http(name) if &**name == "cookie" => {
            x.request.headers.join_variable(name, b"; ", out)
        }
        VarId::Http(name) => x.request.headers.join_variable(name, b", ", out),
        _ => false,
    }
}

/// `$cookie_NAME`: the first one with this name, any case.
fn cookie(x: &Exchange<'_>, name: &str, out: &mut Vec<u8>) -> bool {
    let found = x.request.headers.all(Known::Cookie).find_map(|line| {
        line.split(|c| *c == b';')
            .find_map(|pair| cookie_value(pair, name))
    });
    put_some(out, found)
}

/// `$upstream_cookie_NAME`: value of the first `Set-Cookie` with this name.
pub(super) fn upstream_cookie(x: &Exchange<'_>, name: &str, out: &mut Vec<u8>) -> bool {
    let found = x
        .upstream_headers
        .all(Known::SetCookie)
        .find_map(|line| cookie_value(line.split(|c| *c == b';').next()?, name));
    put_some(out, found)
}

/// The value of `name=value` if that is the name. Only spaces are trimmed: a tab belongs to a name or value.
fn cookie_value<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let equals = memchr::memchr(b'=', pair)?;
    let own = trim_end(trim_start(&pair[..equals]));
    own.eq_ignore_ascii_case(name.as_bytes())
        .then(|| trim_start(&pair[equals + 1..]))
}

pub(super) fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

/// `$sent_http_NAME`; some headers are not in the list before the response is written.
pub(super) fn sent(x: &Exchange<'_>, name: &str, out: &mut Vec<u8>) -> bool {
    let response = &x.response;
    match name {
        "content_type" if !response.content_type.is_empty() => {
            return put(out, &response.content_type);
        }
        "content_length" if !response.headers.has(Known::ContentLength) => {
            return response.content_length.is_some_and(|n| put_number(out, n));
        }
        "last_modified" if !response.headers.has(Known::LastModified) => {
            return response
                .last_modified
                .is_some_and(|secs| put(out, &date::http(secs)));
        }
        "location" if response.sent_location.is_some() => {
            return put_some(out, response.sent_location.as_deref());
        }
        "transfer_encoding" => return response.chunked && put(out, b"chunked"),
        "connection" => {
            return put(
                out,
                match (response.status, x.keepalive) {
                    (101, _) => b"upgrade",
                    (_, true) => b"keep-alive",
                    _ => b"close",
                },
            );
        }
        "keep_alive" => {
            let timeout = x.location.core.keepalive_header.filter(|_| x.keepalive);
            return timeout
                .is_some_and(|t| put(out, format!("timeout={}", t.as_secs()).as_bytes()));
        }
        _ => {}
    }
    response.headers.join_variable(name, b", ", out)
}
