//! Headers of an upstream's response on their way to the client.
//!
//! Mirrors `ngx_http_upstream_process_headers` and the copy handlers of `ngx_http_upstream_headers_in`.

use super::{cookie, head::ResponseHead};
use crate::{
    common::{date, decimal},
    conf::model::{Expires, IgnoreHeaders, Level, Proxy},
    http::{
        exchange::{EscapeLog, Exchange},
        h1::{headers::Headers, known::Known, uri},
        phases::{self, Next},
    },
};

/// Copies what the client is to see; what `X-Accel-*` ask for is done. Err: the request goes elsewhere.
pub(super) fn copy(x: &mut Exchange<'_>, proxy: &Proxy, head: &mut ResponseHead) {
    let source = std::mem::take(&mut x.upstream_headers);
    for (known, name, value) in source.iter() {
        if is_hidden(proxy, known, name) {
            continue;
        }
        one(x, proxy, known, name, value);
    }
    x.upstream_headers = source;
    let response = &mut x.response;
    response.status = head.status;
    response.status_line = std::mem::take(&mut head.status_text);
    response.content_length = if head.chunked {
        None
    } else {
        head.content_length
    };
    response.disable_not_modified = true;
    if head.version == 9 {
        // What has no header is passed on without one.
        response.status = 0;
        x.request.version = 9;
        x.keepalive = false;
    }
    if proxy.force_ranges {
        response.allow_ranges = true;
        response.single_range = true;
    }
}

fn one(x: &mut Exchange<'_>, proxy: &Proxy, known: Known, name: &[u8], value: &[u8]) {
    match known {
        Known::ContentType => {
            x.response.content_type.clear();
            x.response.content_type.extend_from_slice(value);
        }
        Known::Status
        | Known::ContentLength
        | Known::Connection
        | Known::KeepAlive
        | Known::TransferEncoding => {}
        Known::LastModified => {
            x.response.headers.push(known, name, value);
            if needs_modified(x, proxy) {
                x.response.last_modified = date::parse_http(value);
            }
        }
        Known::AcceptRanges if proxy.force_ranges => {}
        Known::Upgrade if x.request.version >= 2000 => {}
        Known::Location => {
            let changed = cookie::redirect(x, proxy, value, 0);
            let own = changed.is_some() || !value.starts_with(b"/");
            x.response.own_location = own;
            x.response
                .headers
                .push(known, name, changed.as_deref().unwrap_or(value));
        }
        Known::Refresh => {
            let lower = value.to_ascii_lowercase();
            let changed = memchr::memmem::find(&lower, b"url=")
                .and_then(|at| cookie::redirect(x, proxy, value, at + 4));
            x.response
                .headers
                .push(known, name, changed.as_deref().unwrap_or(value));
        }
        Known::SetCookie => {
            let changed = cookie::cookie(x, proxy, value);
            x.response
                .headers
                .push(known, name, changed.as_deref().unwrap_or(value));
        }
        _ => x.response.headers.push(known, name, value),
    }
}

/// Whether anything asks when the response was last modified.
fn needs_modified(x: &Exchange<'_>, proxy: &Proxy) -> bool {
    proxy.force_ranges
        || x.location.gzip.on
        || matches!(
            x.location.headers.expires,
            Expires::Modified(_) | Expires::Template(_, true)
        )
}

/// Fields that clients do not see unless `proxy_pass_header` says so, and those of `proxy_hide_header`.
pub(super) fn is_hidden(proxy: &Proxy, known: Known, name: &[u8]) -> bool {
    let is_in = |list: &[Box<[u8]>]| list.iter().any(|own| own.eq_ignore_ascii_case(name));
    let by_default = matches!(
        known,
        Known::Date
            | Known::Server
            | Known::XPad
            | Known::XAccelExpires
            | Known::XAccelRedirect
            | Known::XAccelLimitRate
            | Known::XAccelBuffering
            | Known::XAccelCharset
    );
    is_in(&proxy.hide_header) || (by_default && !is_in(&proxy.pass_header))
}

/// What the upstream asks of us.
pub(super) struct Asked {
    /// `X-Accel-Redirect`
    pub redirect: Option<Vec<u8>>,
    /// `X-Accel-Buffering`
    pub buffering: Option<bool>,
}

/// Reads the `X-Accel-*` headers.
pub(super) fn asked(x: &mut Exchange<'_>, ignore: IgnoreHeaders) -> Asked {
    let headers = &x.upstream_headers;
    let text = |known, ignored: bool| headers.get(known).filter(|_| !ignored);
    let redirect = text(Known::XAccelRedirect, ignore.accel_redirect).map(<[u8]>::to_vec);
    let buffering = match text(Known::XAccelBuffering, ignore.accel_buffering) {
        Some(value) if value.eq_ignore_ascii_case(b"no") => Some(false),
        Some(value) if value.eq_ignore_ascii_case(b"yes") => Some(true),
        _ => None,
    };
    let rate = text(Known::XAccelLimitRate, ignore.accel_limit_rate);
    if let Some(rate) = rate.and_then(decimal::parse) {
        x.limit_rate = Some(rate);
    }
    Asked {
        redirect,
        buffering,
    }
}

/// Goes where `X-Accel-Redirect` says; some headers of the response come along.
pub(super) fn accel_redirect<'g>(x: &mut Exchange<'g>, target: &[u8]) -> Next<'g> {
    carry_over(x);
    if target.starts_with(b"@") {
        return phases::named_location(x, target);
    }
    let mut decoded = Vec::new();
    let Some(args) = unsafe_uri(target, &mut decoded) else {
        x.log(
            Level::Error,
            format_args!("unsafe URI \"{}\" was detected", target.escape_log()),
        );
        return Next::Status(404);
    };
    phases::become_get(&mut x.request);
    phases::internal_redirect(x, decoded, args)
}

fn carry_over(x: &mut Exchange<'_>) {
    let source: &Headers = &x.upstream_headers;
    x.response.content_type.clear();
    for (known, name, value) in source.iter() {
        match known {
            Known::ContentType => x.response.content_type.extend_from_slice(value),
            Known::SetCookie | Known::CacheControl | Known::Expires | Known::AcceptRanges => {
                x.response.headers.push(known, name, value);
            }
            Known::Other if name.eq_ignore_ascii_case(b"content-disposition") => {
                x.response.headers.push(known, name, value);
            }
            _ => {}
        }
    }
}

/// Decodes a URI that comes from an upstream; None when it leaves its root (`ngx_http_parse_unsafe_uri`).
fn unsafe_uri(target: &[u8], out: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    let args = target.get(end + 1..).unwrap_or_default().to_vec();
    if target.is_empty() || target[0] == b'?' {
        return None;
    }
    uri::unescape_into(&target[..end], uri::Unescape::All, out);
    let unsafe_part = out.split(|c| *c == b'/').any(|part| part == b"..") || out.contains(&0);
    (!unsafe_part).then_some(args)
}
