//! The head of an upstream's response.
//!
//! Mirrors `ngx_http_proxy_process_status_line`, `ngx_http_proxy_process_header` and the handlers of
//! `ngx_http_upstream_headers_in`.

use crate::{
    common::{buffer::Buf, decimal},
    conf::model::Level,
    http::{
        exchange::{EscapeLog, Exchange},
        h1::{
            headers::{self, Headers},
            known::Known,
            line::{self, Line},
            status_line::{self, Parsed},
        },
    },
};

/// The head as far as it was read.
#[derive(Debug, Default)]
pub(super) struct ResponseHead {
    /// Status code; 0 until the status line is there.
    pub status: u16,
    /// Code and reason as sent.
    pub status_text: Vec<u8>,
    /// Version as major * 1000 + minor; 9 when the response has no head.
    pub version: u32,
    /// Fields.
    pub headers: Headers,
    /// `Content-Length`
    pub content_length: Option<u64>,
    /// `Transfer-Encoding: chunked`
    pub chunked: bool,
    /// The peer closes the connection after it.
    pub close: bool,
    /// Early hints that were not passed on yet.
    pub hints: Vec<Headers>,
    /// Some have just ended.
    hinted: bool,
    /// Bytes of the head so far.
    len: usize,
}

/// Result of [`ResponseHead::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More bytes are needed.
    Partial,
    /// The head is complete.
    Complete,
    /// It is invalid; that was logged.
    Invalid,
}

impl ResponseHead {
    /// Takes what is complete off `buf`; `limit` bounds the head's length (`proxy_buffer_size`).
    pub(super) fn parse(&mut self, x: &Exchange<'_>, buf: &mut Buf, limit: usize) -> Progress {
        let progress = loop {
            match self.lines(x, buf, limit) {
                // What came with them is the next status line.
                Progress::Partial if std::mem::take(&mut self.hinted) => {}
                progress => break progress,
            }
        };
        if progress == Progress::Partial && self.len + buf.len() >= limit {
            x.log(Level::Error, format_args!("upstream sent too big header"));
            return Progress::Invalid;
        }
        progress
    }

    fn lines(&mut self, x: &Exchange<'_>, buf: &mut Buf, limit: usize) -> Progress {
        if self.status == 0 {
            match self.status_line(x, buf) {
                Progress::Complete => {}
                other => return other,
            }
            if self.version == 9 {
                return Progress::Complete;
            }
        }
        loop {
            let (len, end) = match line::line(buf.filled(), true) {
                Line::Partial => return Progress::Partial,
                Line::End(len) => (len, true),
                Line::Field {
                    known,
                    name,
                    value,
                    len,
                    ..
                } => {
                    // Some servers send the status line twice.
                    let repeated = value.is_empty() && name.starts_with(b"HTTP/");
                    if !repeated && !self.field(x, Some(&buf.filled()[..len]), known, (name, value))
                    {
                        return Progress::Invalid;
                    }
                    (len, false)
                }
                Line::Invalid(_) if buf.filled().starts_with(b"HTTP/") => (
                    memchr::memchr(b'\n', buf.filled()).map_or(0, |n| n + 1),
                    false,
                ),
                Line::Invalid(at) => {
                    let (line, bad) = (buf.filled()[..at].escape_log(), buf.filled()[at]);
                    x.log(
                        Level::Error,
                        format_args!("upstream sent invalid header: \"{line}\\x{bad:02x}...\""),
                    );
                    return Progress::Invalid;
                }
            };
            self.len += len;
            if self.len > limit {
                x.log(Level::Error, format_args!("upstream sent too big header"));
                return Progress::Invalid;
            }
            buf.consume(len);
            if end {
                return self.finish();
            }
        }
    }

    fn status_line(&mut self, x: &Exchange<'_>, buf: &mut Buf) -> Progress {
        let len = match status_line::parse(buf.filled()) {
            Parsed::Partial => return Progress::Partial,
            Parsed::Invalid => {
                x.log(
                    Level::Error,
                    format_args!("upstream sent no valid HTTP/1.0 header"),
                );
                self.status = 200;
                self.version = 9;
                self.close = true;
                return Progress::Complete;
            }
            Parsed::Line(line) => {
                self.status = line.code;
                self.version = line.version;
                self.status_text.extend_from_slice(line.text);
                self.close = line.version < 1001;
                line.len
            }
        };
        self.len += len;
        buf.consume(len);
        Progress::Complete
    }

    /// Takes over one field; false is an error that was logged.
    /// `line` is the field as it came, where it came as one.
    pub(super) fn field(
        &mut self,
        x: &Exchange<'_>,
        line: Option<&[u8]>,
        known: Known,
        (name, value): (&[u8], &[u8]),
    ) -> bool {
        let previous = match known {
            Known::Other => None,
            known => self.headers.get(known),
        };
        match (known, previous) {
            (Known::ContentLength | Known::TransferEncoding, Some(previous)) => {
                log_duplicate(x, Level::Error, (name, value), previous, "");
                return false;
            }
            (Known::ContentLength, None) => return self.content_length(x, name, value),
            (Known::TransferEncoding, None) => return self.transfer_encoding(x, name, value),
            (Known::Connection, _) => {
                self.close |= headers::contains(value, b"close");
            }
            (known, Some(previous)) if is_single(known) => {
                log_duplicate(x, Level::Warn, (name, value), previous, ", ignored");
                return true;
            }
            _ => {}
        }
        match line {
            Some(line) => self.headers.push_line(known, line, name, value),
            None => self.headers.push(known, name, value),
        }
        true
    }

    fn content_length(&mut self, x: &Exchange<'_>, name: &[u8], value: &[u8]) -> bool {
        if self.headers.has(Known::TransferEncoding) {
            return both(x);
        }
        self.content_length = decimal::parse(value);
        if self.content_length.is_none() {
            let (name, value) = (name.escape_log(), value.escape_log());
            x.log(
                Level::Error,
                format_args!(
                    "upstream sent invalid \"Content-Length\" header: \"{name}: {value}\""
                ),
            );
            return false;
        }
        self.headers.push(Known::ContentLength, name, value);
        true
    }

    fn transfer_encoding(&mut self, x: &Exchange<'_>, name: &[u8], value: &[u8]) -> bool {
        if self.headers.has(Known::ContentLength) {
            return both(x);
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            let value = value.escape_log();
            x.log(
                Level::Error,
                format_args!("upstream sent unknown \"Transfer-Encoding\": \"{value}\""),
            );
            return false;
        }
        self.chunked = true;
        self.headers.push(Known::TransferEncoding, name, value);
        true
    }

    fn finish(&mut self) -> Progress {
        if self.status == 103 {
            // Early hints are no final response: on with the next status line.
            // DIFFERS(early-hints): `$upstream_status` is that of the final response; in nginx it stays 103.
            let mut hints = std::mem::take(&mut self.hints);
            hints.push(std::mem::take(&mut self.headers));
            *self = Self {
                hints,
                hinted: true,
                len: self.len,
                ..Self::default()
            };
            return Progress::Partial;
        }
        // What comes after it is another protocol.
        self.close |= self.status == 101;
        Progress::Complete
    }

    /// Whether a response to this request has no body.
    pub(super) fn is_bodiless(&self, is_head: bool) -> bool {
        is_head
            || matches!(self.status, 101 | 204 | 304)
            || (!self.chunked && self.content_length == Some(0))
    }
}

fn both(x: &Exchange<'_>) -> bool {
    x.log(
        Level::Error,
        format_args!(
            "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
        ),
    );
    false
}

fn log_duplicate(
    x: &Exchange<'_>,
    level: Level,
    (name, value): (&[u8], &[u8]),
    previous: &[u8],
    what: &str,
) {
    let (name, value, previous) = (name.escape_log(), value.escape_log(), previous.escape_log());
    x.log(
        level,
        format_args!(
            "upstream sent duplicate header line: \"{name}: {value}\", previous value: \"{name}: {previous}\"{what}"
        ),
    );
}

/// Fields of which only the first counts.
fn is_single(known: Known) -> bool {
    matches!(
        known,
        Known::Status
            | Known::ContentType
            | Known::Date
            | Known::LastModified
            | Known::ETag
            | Known::Server
            | Known::Location
            | Known::Refresh
            | Known::Expires
            | Known::XAccelExpires
            | Known::XAccelRedirect
            | Known::XAccelLimitRate
    )
}
