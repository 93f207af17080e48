//! The response to the client, as handlers and header filters fill it.

use super::h1::{headers::Headers, known::Known};

/// A response before it is written.
#[derive(Debug, Default)]
pub(super) struct Response {
    /// Status; 0 until one is known.
    pub status: u16,
    /// Overrides [`status`](Self::status) when the header is sent (`err_status`, set by error pages); 0 = not.
    pub error_status: u16,
    /// Status line of an upstream, e.g. `200 OK`; empty = the standard one.
    pub status_line: Vec<u8>,
    /// `Content-Type`; empty = none.
    pub content_type: Vec<u8>,
    /// Whether `Content-Type` is just the type, so that a charset may be added.
    pub plain_type: bool,
    /// Length of the body, where it is known.
    pub content_length: Option<u64>,
    /// Seconds since 1970.
    pub last_modified: Option<i64>,
    /// Other header fields, in order.
    pub headers: Headers,
    /// Trailer fields.
    pub trailers: Headers,
    /// Whether ranges of the body may be sent.
    pub allow_ranges: bool,
    /// Whether only one range may be.
    pub single_range: bool,
    /// Whether `If-Modified-Since` and its kin were answered by somebody else (an upstream).
    pub disable_not_modified: bool,
    /// No body is sent.
    pub header_only: bool,
    /// The body is chunked.
    pub chunked: bool,
    /// Trailers are sent after the last chunk.
    pub expect_trailers: bool,
    /// `Vary: Accept-Encoding` belongs in.
    pub gzip_vary: bool,
    /// The header went to the output.
    pub header_sent: bool,
    /// Length of the header in bytes.
    pub header_size: u64,
    /// `Location` is written with scheme and host when it begins with `/`.
    pub own_location: bool,
    /// The absolute address that was made of it.
    pub sent_location: Option<Vec<u8>>,
    /// What the body goes through.
    pub filters: super::filters::BodyFilters,
}

impl Response {
    /// Makes it as new but keeps the memory.
    pub(super) fn reset(&mut self) {
        self.headers.end();
        self.trailers.end();
        let mut content_type = std::mem::take(&mut self.content_type);
        content_type.clear();
        let mut status_line = std::mem::take(&mut self.status_line);
        status_line.clear();
        *self = Self {
            status_line,
            content_type,
            ..Self::default()
        };
    }

    /// Forgets what a handler said before an internal redirect (`ngx_http_clean_header`).
    pub(super) fn clean(&mut self) {
        let error_status = self.error_status;
        self.reset();
        self.error_status = error_status;
    }

    /// Forgets the type that an earlier handler set.
    pub(super) fn clean_for_upstream(&mut self) {
        self.content_type.clear();
        self.plain_type = false;
    }

    /// Forgets the length (`ngx_http_clear_content_length`).
    pub(super) fn clear_content_length(&mut self) {
        self.content_length = None;
        self.headers.remove(Known::ContentLength);
    }

    /// Forbids ranges (`ngx_http_clear_accept_ranges`).
    pub(super) fn clear_accept_ranges(&mut self) {
        self.allow_ranges = false;
        self.headers.remove(Known::AcceptRanges);
    }

    /// Makes an `ETag` weak, or drops one that is no valid tag (`ngx_http_weak_etag`).
    pub(super) fn weaken_etag(&mut self) {
        let Some(etag) = self.headers.get(Known::ETag) else {
            return;
        };
        if etag.starts_with(b"W/") {
            return;
        }
        if etag.first() != Some(&b'"') {
            self.headers.remove(Known::ETag);
            return;
        }
        let weak = [b"W/", etag].concat();
        self.headers.set(Known::ETag, b"ETag", &weak);
    }

    /// Sets `Location` for a redirect of our own.
    pub(super) fn set_location(&mut self, address: &[u8]) {
        self.headers.remove(Known::Location);
        self.headers.push(Known::Location, b"Location", address);
        self.own_location = true;
    }

    /// `Content-Type` without parameters, for lists such as `gzip_types`.
    pub(super) fn media_type(&self) -> &[u8] {
        let text = &self.content_type[..];
        let end = memchr::memchr(b';', text).unwrap_or(text.len());
        text[..end].trim_ascii_end()
    }
}
