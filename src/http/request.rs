//! A client's request: the head as parsed, what it means, and the URI that rewriting changes.

use std::ops::Range;

use super::{
    body::RequestBody,
    h1::{headers::Headers, known::Known, request_line::Method},
};

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    /// The request line as sent, without its end; empty when it could not be read.
    pub line: Vec<u8>,
    /// Method.
    pub method: Method,
    method_name: Range<usize>,
    /// Replaces the method's name after an internal redirect.
    method_changed: Option<&'static [u8]>,
    target: Range<usize>,
    protocol: Range<usize>,
    /// Version as major * 1000 + minor; 9 is HTTP/0.9.
    pub version: u32,
    /// Decoded, normalised path; changed by rewriting.
    pub uri: Vec<u8>,
    /// Arguments; changed by rewriting.
    pub args: Vec<u8>,
    /// Whether the target had `%` escapes or needed normalising (`quoted_uri`).
    pub quoted_uri: bool,
    /// Whether the target as sent still stands for the URI (`valid_unparsed_uri`).
    pub valid_target: bool,
    /// Whether the URI still begins with the name of the location (`valid_location`).
    pub valid_location: bool,
    /// Header fields.
    pub headers: Headers,
    /// Host of the target or of the `Host` header: lower case, without port and trailing dot. Empty when there is none.
    pub host: Vec<u8>,
    /// Port that came with it; 0 when there was none.
    pub port: u16,
    /// Scheme of an absolute target.
    pub has_absolute_target: bool,
    /// `Content-Length`
    pub content_length: Option<u64>,
    /// `Transfer-Encoding: chunked`
    pub chunked: bool,
    /// `Connection: close` (Some(false)) or `keep-alive` (Some(true)).
    pub connection: Option<bool>,
    /// `$request_length`: bytes of head and body read so far.
    pub length: u64,
    /// Its body.
    pub body: RequestBody,
    /// Whether `Expect: 100-continue` was dealt with.
    pub expect_tested: bool,
}

/// Old browsers with quirks (`ngx_http_process_user_agent`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agent {
    /// MSIE of any version.
    pub msie: bool,
    /// MSIE up to 6 without SV1.
    pub msie6: bool,
    /// Safari on macOS.
    pub safari: bool,
    /// Chrome.
    pub chrome: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            line: Vec::new(),
            method: Method::Unknown,
            method_name: 0..0,
            method_changed: None,
            target: 0..0,
            protocol: 0..0,
            version: 1000,
            uri: Vec::new(),
            args: Vec::new(),
            quoted_uri: false,
            valid_target: false,
            valid_location: false,
            headers: Headers::default(),
            host: Vec::new(),
            port: 0,
            has_absolute_target: false,
            content_length: None,
            chunked: false,
            connection: None,
            length: 0,
            body: RequestBody::default(),
            expect_tested: false,
        }
    }
}

impl Request {
    /// Makes it as new but keeps the memory of its vectors.
    pub(super) fn reset(&mut self) {
        let keep = |vec: &mut Vec<u8>| {
            vec.clear();
            std::mem::take(vec)
        };
        let line = keep(&mut self.line);
        let uri = keep(&mut self.uri);
        let args = keep(&mut self.args);
        let host = keep(&mut self.host);
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        *self = Self {
            line,
            uri,
            args,
            headers,
            host,
            ..Self::default()
        };
    }

    /// Takes a request line over; the ranges are offsets into `bytes`.
    pub(super) fn set_line(&mut self, bytes: &[u8], line: &super::h1::request_line::RequestLine) {
        let start = line.line.start;
        let shift = |range: &Range<usize>| {
            range.start.saturating_sub(start)..range.end.saturating_sub(start)
        };
        self.line.extend_from_slice(&bytes[line.line.clone()]);
        self.method_name = shift(&line.method);
        self.method = Method::of(&self.line[self.method_name.clone()]);
        self.target = shift(&line.target);
        self.protocol = shift(&line.protocol);
        self.version = line.version;
    }

    /// Makes up the request line that one of HTTP/2 would have.
    pub(super) fn set_stream_line(&mut self, method: &[u8], target: &[u8]) {
        const PROTOCOL: &[u8] = b"HTTP/2.0";
        self.line
            .reserve(method.len() + target.len() + PROTOCOL.len() + 2);
        self.line.extend_from_slice(method);
        self.line.push(b' ');
        self.line.extend_from_slice(target);
        self.line.push(b' ');
        self.line.extend_from_slice(PROTOCOL);
        let start = method.len() + 1;
        let end = start + target.len();
        self.method_name = 0..method.len();
        self.method = Method::of(method);
        self.target = start..end;
        self.protocol = end + 1..self.line.len();
        self.version = 2000;
    }

    /// The method's name.
    pub(super) fn method_name(&self) -> &[u8] {
        self.method_changed
            .unwrap_or(&self.line[self.method_name.clone()])
    }

    /// Makes it a GET, as internal redirects do.
    pub(super) fn become_get(&mut self) {
        self.method = Method::Get;
        self.method_changed = Some(b"GET");
    }

    /// `$request_uri`: the target as sent, without scheme and host.
    pub(super) fn target(&self) -> &[u8] {
        &self.line[self.target.clone()]
    }

    /// `$server_protocol`
    pub(super) fn protocol(&self) -> &[u8] {
        match self.version {
            9 => b"HTTP/0.9",
            2000 => b"HTTP/2.0",
            _ => &self.line[self.protocol.clone()],
        }
    }

    /// File extension of the URI, without its dot.
    pub(super) fn extension(&self) -> Option<&[u8]> {
        let name = self.uri.rsplit(|c| *c == b'/').next()?;
        let dot = memchr::memrchr(b'.', name)?;
        Some(&name[dot + 1..])
    }

    /// Whether it is a HEAD request.
    pub(super) fn is_head(&self) -> bool {
        self.method == Method::Head
    }

    /// Whether a body comes with it.
    pub(super) fn has_body(&self) -> bool {
        self.chunked || self.content_length.is_some_and(|n| n > 0) || self.body.is_stream()
    }

    /// Whether [`Self::agent`] is MSIE up to 6; asked for with each POST, so that a letter that few names have comes first.
    pub(super) fn is_msie6(&self) -> bool {
        let agent = self.headers.get(Known::UserAgent);
        agent.is_some_and(|text| memchr::memchr(b'E', text).is_some()) && self.agent().msie6
    }

    /// What the `User-Agent` is known for; asked for rarely, so looked at when it is.
    pub(super) fn agent(&self) -> Agent {
        let Some(text) = self.headers.get(Known::UserAgent) else {
            return Agent::default();
        };
        let find = |needle: &str| memchr::memmem::find(text, needle.as_bytes());
        let mut agent = Agent::default();
        if let Some(at) = find("MSIE ").filter(|at| at + 7 < text.len()) {
            agent.msie = true;
            agent.msie6 = text[at + 6] == b'.'
                && match text[at + 5] {
                    b'4' | b'5' => true,
                    b'6' => {
                        memchr::memmem::find(&text[(at + 8).min(text.len())..], b"SV1").is_none()
                    }
                    _ => false,
                };
        }
        let opera = find("Opera").is_some();
        if opera {
            agent = Agent::default();
        }
        if !agent.msie && !opera && find("Gecko/").is_none() {
            agent.chrome = find("Chrome/").is_some();
            agent.safari = !agent.chrome && find("Safari/").is_some() && find("Mac OS X").is_some();
        }
        agent
    }
}
