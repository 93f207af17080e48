//! The request line.
//!
//! Mirrors `ngx_http_parse_request_line`: methods are capital letters, `_` and `-`; one or more spaces separate the
//! parts; a line without a version is HTTP/0.9; absolute targets are split into scheme, host and path.

use std::ops::Range;

use crate::common::decimal;

/// Methods that nginx knows by name; the numbers are bits of [`Methods`](crate::conf::model::Methods).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are the methods")]
pub enum Method {
    Unknown = 0x1,
    Get = 0x2,
    Head = 0x4,
    Post = 0x8,
    Put = 0x10,
    Delete = 0x20,
    Mkcol = 0x40,
    Copy = 0x80,
    Move = 0x100,
    Options = 0x200,
    Propfind = 0x400,
    Proppatch = 0x800,
    Lock = 0x1000,
    Unlock = 0x2000,
    Patch = 0x4000,
    Trace = 0x8000,
    Connect = 0x10000,
}

impl Method {
    /// The method with this name.
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"MKCOL" => Self::Mkcol,
            b"COPY" => Self::Copy,
            b"MOVE" => Self::Move,
            b"OPTIONS" => Self::Options,
            b"PROPFIND" => Self::Propfind,
            b"PROPPATCH" => Self::Proppatch,
            b"LOCK" => Self::Lock,
            b"UNLOCK" => Self::Unlock,
            b"PATCH" => Self::Patch,
            b"TRACE" => Self::Trace,
            b"CONNECT" => Self::Connect,
            _ => Self::Unknown,
        }
    }
}

/// A request line taken apart; ranges are offsets into the parsed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The line without leading empty lines and without its end.
    pub line: Range<usize>,
    /// The method's name.
    pub method: Range<usize>,
    /// The target from its path on, with arguments; empty when an absolute target has no path.
    pub target: Range<usize>,
    /// `http` of an absolute target.
    pub scheme: Option<Range<usize>>,
    /// Host and port of an absolute target.
    pub host: Option<Range<usize>>,
    /// Where arguments begin, after the `?`.
    pub args: Option<usize>,
    /// Whether the path must be normalised ([`normalize`](super::uri::normalize)).
    pub complex: bool,
    /// Version as major * 1000 + minor; 9 is HTTP/0.9.
    pub version: u32,
    /// The version as written, empty for HTTP/0.9.
    pub protocol: Range<usize>,
    /// How many bytes it takes in all, with leading empty lines and the line's end.
    pub len: usize,
}

/// Result of [`parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed.
    Partial,
    /// A whole line.
    Line(RequestLine),
    /// An error.
    Invalid(LineError),
}

/// What is wrong with a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// `client sent invalid method`
    Method,
    /// `client sent invalid request`
    Request,
    /// `client sent invalid version`: a major version above 1.
    Version,
}

impl LineError {
    /// nginx's log line for it, without the action that follows.
    pub fn message(self) -> &'static str {
        match self {
            Self::Method => "client sent invalid method",
            Self::Request => "client sent invalid request",
            Self::Version => "client sent invalid version",
        }
    }
}

/// Parses the request line at the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let start = bytes
        .iter()
        .take_while(|c| matches!(c, b'\r' | b'\n'))
        .count();
    let text = bytes.get(start..).unwrap_or_default();
    let Some(newline) = memchr::memchr(b'\n', text) else {
        let method_ok = text
            .iter()
            .take_while(|c| **c != b' ')
            .all(|c| is_method(*c))
            && text.first() != Some(&b' ');
        return if method_ok {
            Parsed::Partial
        } else {
            Parsed::Invalid(LineError::Method)
        };
    };
    let end = start + newline;
    let line_end = if end > start && bytes[end - 1] == b'\r' {
        end - 1
    } else {
        end
    };
    match (Scanner {
        bytes: &bytes[..line_end],
        at: start,
    })
    .line()
    {
        Ok(mut line) => {
            line.len = end + 1;
            Parsed::Line(line)
        }
        Err(error) => Parsed::Invalid(error),
    }
}

/// Parses a target that stands alone: where its arguments begin and whether its path must be normalised. None is invalid.
pub fn target(bytes: &[u8]) -> Option<(Option<usize>, bool)> {
    let mut line = RequestLine {
        line: 0..bytes.len(),
        method: 0..0,
        target: 0..0,
        scheme: None,
        host: None,
        args: None,
        complex: false,
        version: 0,
        protocol: 0..0,
        len: 0,
    };
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.target(&mut line).ok()?;
    let is_whole = scanner.at == bytes.len() && bytes.first() == Some(&b'/');
    is_whole.then_some((line.args, line.complex))
}

/// Whether a byte may stand in the name of a method.
pub fn is_method(c: u8) -> bool {
    matches!(c, b'A'..=b'Z' | b'_' | b'-')
}

/// Walks over the bytes of one line (without its end).
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip(&mut self, accept: impl Fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        while self.peek().is_some_and(&accept) {
            self.at += 1;
        }
        start..self.at
    }

    fn line(&mut self) -> Result<RequestLine, LineError> {
        let start = self.at;
        let method = self.skip(is_method);
        if method.is_empty() || self.peek() != Some(b' ') {
            return Err(LineError::Method);
        }
        self.skip(|c| c == b' ');
        let mut line = RequestLine {
            line: start..self.bytes.len(),
            method,
            target: 0..0,
            scheme: None,
            host: None,
            args: None,
            complex: false,
            version: 9,
            protocol: 0..0,
            len: 0,
        };
        if &self.bytes[line.method.clone()] == b"CONNECT" {
            self.authority(&mut line)?;
        } else {
            if self.peek() != Some(b'/') {
                self.absolute(&mut line)?;
            }
            self.target(&mut line)?;
        }
        self.version(&mut line)?;
        Ok(line)
    }

    /// `host:port` of CONNECT.
    fn authority(&mut self, line: &mut RequestLine) -> Result<(), LineError> {
        let host = self.host();
        if self.peek() != Some(b':') {
            return Err(LineError::Request);
        }
        self.at += 1;
        let port = self.skip(|c| c.is_ascii_digit());
        if port.is_empty() || self.peek() != Some(b' ') {
            return Err(LineError::Request);
        }
        line.host = Some(host.start..port.end);
        line.target = self.at..self.at;
        Ok(())
    }

    fn host(&mut self) -> Range<usize> {
        let start = self.at;
        if self.peek() == Some(b'[') {
            self.skip(|c| c.is_ascii_alphanumeric() || b"[:-._~!$&'()*+,;=".contains(&c));
            if self.peek() == Some(b']') {
                self.at += 1;
            }
        } else {
            self.skip(|c| c.is_ascii_alphanumeric() || c == b'.' || c == b'-');
        }
        start..self.at
    }

    /// `http://host:port` before the path.
    fn absolute(&mut self, line: &mut RequestLine) -> Result<(), LineError> {
        if !self.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
            return Err(LineError::Request);
        }
        let scheme = self.skip(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
        if !self.bytes[self.at..].starts_with(b"://") {
            return Err(LineError::Request);
        }
        self.at += 3;
        let start = self.host().start;
        if self.peek() == Some(b':') {
            self.at += 1;
            self.skip(|c| c.is_ascii_digit());
        }
        if !matches!(self.peek(), Some(b'/' | b'?' | b' ')) {
            return Err(LineError::Request);
        }
        line.scheme = Some(scheme);
        line.host = Some(start..self.at);
        Ok(())
    }

    /// The path and arguments up to a space or the end.
    fn target(&mut self, line: &mut RequestLine) -> Result<(), LineError> {
        let start = self.at;
        let mut previous = 0;
        while let Some(c) = self.peek() {
            match c {
                b' ' => break,
                0..=0x1f | 0x7f => return Err(LineError::Request),
                b'?' if line.args.is_none() => line.args = Some(self.at + 1),
                b'#' => line.complex = true,
                b'%' if line.args.is_none() => line.complex = true,
                b'.' | b'/' if previous == b'/' && line.args.is_none() => line.complex = true,
                _ => {}
            }
            previous = c;
            self.at += 1;
        }
        line.target = start..self.at;
        // An absolute target without a path stands for "/".
        line.complex |= line.scheme.is_some() && self.bytes.get(start) != Some(&b'/');
        Ok(())
    }

    fn version(&mut self, line: &mut RequestLine) -> Result<(), LineError> {
        self.skip(|c| c == b' ');
        if self.at == self.bytes.len() {
            return Ok(());
        }
        let start = self.at;
        if &self.bytes[start..] == b"HTTP/1.1" {
            // Nearly every request.
            line.protocol = start..self.bytes.len();
            line.version = 1001;
            return Ok(());
        }
        if !self.bytes[start..].starts_with(b"HTTP/") {
            return Err(LineError::Request);
        }
        self.at += 5;
        let major = self.number(99)?;
        if self.bytes[start + 5] == b'0' {
            return Err(LineError::Request);
        }
        if self.peek() != Some(b'.') {
            return Err(LineError::Request);
        }
        if major > 1 {
            return Err(LineError::Version);
        }
        self.at += 1;
        let minor = self.number(999)?;
        line.protocol = start..self.at;
        line.line.end = self.at;
        self.skip(|c| c == b' ');
        if self.at < self.bytes.len() {
            return Err(LineError::Request);
        }
        line.version = major * 1000 + minor;
        Ok(())
    }

    fn number(&mut self, max: u32) -> Result<u32, LineError> {
        let digits = self.skip(|c| c.is_ascii_digit());
        decimal::parse(&self.bytes[digits])
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number <= max)
            .ok_or(LineError::Request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> RequestLine {
        match parse(text.as_bytes()) {
            Parsed::Line(line) => line,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn error(text: &str) -> LineError {
        match parse(text.as_bytes()) {
            Parsed::Invalid(error) => error,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn forms_of_targets() {
        let text = "\r\nGET /a/b?c=d HTTP/1.1\r\n";
        let got = line(text);
        assert_eq!(
            (&text[got.method.clone()], &text[got.target.clone()]),
            ("GET", "/a/b?c=d")
        );
        assert_eq!(
            (got.version, got.complex, got.len),
            (1001, false, text.len())
        );
        assert_eq!(&text[got.args.unwrap()..got.target.end], "c=d");
        let text = "GET http://Host:81?x HTTP/1.0\n";
        let got = line(text);
        assert_eq!(
            (&text[got.host.unwrap()], &text[got.target]),
            ("Host:81", "?x")
        );
        assert!(got.complex);
        let got = line("GET http://host HTTP/1.0\n");
        assert!(got.target.is_empty() && got.complex);
        assert_eq!(line("GET /\r\n").version, 9);
        assert!(line("GET /a%20b HTTP/1.1\r\n").complex);
        assert!(line("GET /a/../b HTTP/1.1\r\n").complex);
        assert!(!line("GET /a?%20/../ HTTP/1.1\r\n").complex);
        assert!(line("GET /a?b#c HTTP/1.1\r\n").complex);
    }

    #[test]
    fn errors() {
        for text in [
            "get / HTTP/1.1\r\n",
            " / HTTP/1.1\r\n",
            "G\r\n",
            "\x16\x03\x01",
        ] {
            assert_eq!(error(text), LineError::Method, "{text:?}");
        }
        for text in [
            "GET a HTTP/1.1\n",
            "GET /a b HTTP/1.1\n",
            "GET / HTTP/0.9\n",
            "GET / HTTX/1.1\n",
            "GET /\x01 HTTP/1.1\n",
        ] {
            assert_eq!(error(text), LineError::Request, "{text:?}");
        }
        assert_eq!(error("GET / HTTP/2.0\r\n"), LineError::Version);
        assert_eq!(parse(b"GET / HTT"), Parsed::Partial);
        assert_eq!(parse(b"\r\n"), Parsed::Partial);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = parse(&bytes);
        }
    }
}
