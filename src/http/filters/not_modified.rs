//! `If-Modified-Since`, `If-None-Match` and their opposites. Mirrors `ngx_http_not_modified_filter_module.c`.

use crate::{
    common::date,
    conf::model::IfModifiedSince,
    http::{exchange::Exchange, h1::known::Known, output::Sent, phases::Next},
};

/// Turns a 200 into a 304 or a 412 where the request's conditions say so.
pub(crate) fn header<'g>(x: &mut Exchange<'g>) -> Sent<'g> {
    if x.response.status != 200 || x.response.disable_not_modified {
        return Ok(());
    }
    let request = &x.request.headers;
    let etag = x.response.headers.get(Known::ETag);
    let modified = x.response.last_modified;
    let unmodified_since = request.get(Known::IfUnmodifiedSince);
    let failed = unmodified_since.is_some_and(|since| {
        modified.is_none_or(|modified| date::parse_http(since).unwrap_or(-1) < modified)
    }) || request
        .get(Known::IfMatch)
        .is_some_and(|list| !matches(list, etag, false));
    if failed {
        x.response.clean();
        return Err(Next::Status(412));
    }
    let since = request.get(Known::IfModifiedSince);
    let none_match = request.get(Known::IfNoneMatch);
    if since.is_none() && none_match.is_none()
        || since
            .is_some_and(|since| is_modified(since, modified, x.location.core.if_modified_since))
        || none_match.is_some_and(|list| !matches(list, etag, true))
    {
        return Ok(());
    }
    let response = &mut x.response;
    response.status = 304;
    response.status_line.clear();
    response.content_type.clear();
    response.clear_content_length();
    response.clear_accept_ranges();
    response.headers.remove(Known::ContentEncoding);
    Ok(())
}

fn is_modified(since: &[u8], modified: Option<i64>, mode: IfModifiedSince) -> bool {
    let (Some(modified), false) = (modified, mode == IfModifiedSince::Off) else {
        return true;
    };
    let since = date::parse_http(since).unwrap_or(-1);
    since != modified && (mode == IfModifiedSince::Exact || since < modified)
}

/// Whether a list of entity tags has this one; weak comparison ignores `W/`.
fn matches(list: &[u8], etag: Option<&[u8]>, weak: bool) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(etag) = etag else { return false };
    let strip = |tag: &mut &[u8]| {
        if weak && let Some(rest) = tag.strip_prefix(b"W/") {
            *tag = rest;
        }
    };
    let mut etag = etag;
    strip(&mut etag);
    let mut rest = list;
    while !rest.is_empty() {
        strip(&mut rest);
        if let Some(after) = rest.strip_prefix(etag)
            && matches!(after.trim_ascii_start().first(), None | Some(b','))
        {
            return true;
        }
        let end = memchr::memchr(b',', rest).map_or(rest.len(), |comma| comma + 1);
        rest = rest[end..].trim_ascii_start();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tags() {
        assert!(matches(b"\"a\", W/\"b\"", Some(b"\"b\""), true));
        assert!(!matches(b"\"a\", W/\"b\"", Some(b"\"b\""), false));
        assert!(matches(b"\"a\" ,\"c\"", Some(b"\"c\""), false));
        assert!(matches(b"*", None, false));
        assert!(!matches(b"\"ab\"", Some(b"\"a\""), true));
        assert!(matches(b"\"a\"", Some(b"W/\"a\""), true));
    }
}
