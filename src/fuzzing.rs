//! What the fuzz targets call: one function for each kind of foreign bytes.
//!
//! Each takes any input and must return; it panics where a promise of the code it drives does not hold. The targets are
//! in `fuzz/`, `make fuzz-smoke` runs them, and the tests here run them over the seeds in `testdata/`.

use std::ops::Range;

use crate::{
    conf,
    http::{
        h1::{
            chunked::{Decoder, Step},
            headers::Headers,
            known::Known,
            line::{self, Line},
            request_line::{self, Parsed, RequestLine},
            status_line, uri,
        },
        h2::{
            fault::Fault,
            hpack::Limits,
            scanner::{Bounds, PREFACE, Scanner},
        },
    },
    net::proxy_protocol,
    stream::preread::client_hello::{ClientHello, Seen},
    vars::{Source, Template, VarId},
};

/// A whole configuration.
pub fn conf(text: &[u8]) {
    if let Err(error) = conf::check(text) {
        assert!(!error.to_string().is_empty());
    }
}

/// What a client sends: requests without bodies, one after the other. The first byte chooses the settings.
pub fn h1_request(input: &[u8]) {
    let Some((settings, mut rest)) = input.split_first() else {
        return;
    };
    let (underscores, merge_slashes) = (settings & 1 != 0, settings & 2 != 0);
    while let Parsed::Line(line) = request_line::parse(rest) {
        let whole = &rest[..line.len];
        assert_eq!(
            request_line::parse(whole),
            Parsed::Line(line.clone()),
            "what follows a line changes it"
        );
        let cut = request_line::parse(&whole[..line.len - 1]);
        assert!(!matches!(cut, Parsed::Line(_)), "a line without its end");
        target(whole, &line, merge_slashes);
        rest = &rest[line.len..];
        if line.version >= 1000 {
            match fields(rest, underscores) {
                Some(len) => rest = &rest[len..],
                None => return,
            }
        }
    }
}

/// Normalises the target of a request line.
fn target(bytes: &[u8], line: &RequestLine, merge_slashes: bool) {
    let ranges = [&line.line, &line.method, &line.target, &line.protocol];
    let optional = [&line.scheme, &line.host].into_iter().flatten();
    for Range { start, end } in ranges.into_iter().chain(optional) {
        assert!(start <= end && *end <= bytes.len());
    }
    let text = [b"/", &bytes[line.target.clone()]].concat();
    let mut path = Vec::new();
    if let Ok(args) = uri::normalize(&text, merge_slashes, &mut path) {
        assert!(path.starts_with(b"/"), "a path begins with a slash");
        let mut segments = path.split(|c| *c == b'/');
        assert!(
            !segments.any(|segment| matches!(segment, b"." | b"..")),
            "a path leaves its directory"
        );
        assert!(!path.contains(&0), "NUL in a path");
        if let Some(args) = args {
            let _ = uri::argument(&text[args], b"a");
        }
        let mut escaped = Vec::new();
        uri::escape(&path, uri::Escape::Uri, &mut escaped);
        let mut again = Vec::new();
        uri::unescape_into(&escaped, uri::Unescape::All, &mut again);
        assert_eq!(again, path, "escaped and decoded");
    }
}

/// Reads header lines to the end of the head; how many bytes they take, None without an end or with an error.
fn fields(bytes: &[u8], underscores: bool) -> Option<usize> {
    let mut headers = Headers::default();
    let mut at = 0;
    loop {
        match line::line(&bytes[at..], underscores) {
            Line::Partial => return None,
            Line::Invalid(good) => {
                assert!(good < bytes.len() - at, "the bad byte is one of the input");
                return None;
            }
            Line::End(len) => {
                let mut joined = Vec::new();
                headers.join_variable("x_a", b", ", &mut joined);
                headers.keep_first(Known::Cookie);
                headers.remove_named(b"X-A");
                assert!(headers.len() <= at);
                return Some(at + len);
            }
            Line::Field {
                name, value, len, ..
            } => {
                assert!(!value.contains(&b'\r') && !value.contains(&0) && len > 0);
                headers.push_named(name, value);
                let last = headers.iter().last();
                assert_eq!(last.map(|(_, n, v)| (n, v)), Some((name, value)));
                at += len;
            }
        }
    }
}

/// What an upstream sends before its body, early hints included.
pub fn h1_response(mut bytes: &[u8]) {
    while let status_line::Parsed::Line(line) = status_line::parse(bytes) {
        assert!(line.code < 1000 && line.text.len() <= line.len && line.len <= bytes.len());
        let cut = status_line::parse(&bytes[..line.len - 1]);
        assert_eq!(cut, status_line::Parsed::Partial, "a line without its end");
        bytes = &bytes[line.len..];
        match fields(bytes, true) {
            Some(len) if line.code == 103 => bytes = &bytes[len..],
            _ => return,
        }
    }
}

/// A chunked body, decoded at once and in pieces; the first byte chooses how.
pub fn chunked(input: &[u8]) {
    let Some((settings, body)) = input.split_first() else {
        return;
    };
    let decoder = if settings & 1 == 0 {
        Decoder::default()
    } else {
        Decoder::with_trailers()
    };
    let size = usize::from(settings >> 1).max(1);
    let whole = decode(decoder.clone(), body, body.len().max(1));
    assert_eq!(decode(decoder, body, size), whole, "pieces of {size}");
}

/// What became of a chunked body.
#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    data: Vec<u8>,
    /// Bytes used with the end; None when it was not reached.
    end: Option<usize>,
    valid: bool,
}

fn decode(mut decoder: Decoder, body: &[u8], size: usize) -> Decoded {
    let mut decoded = Decoded {
        data: Vec::new(),
        end: None,
        valid: true,
    };
    let mut used = 0;
    for piece in body.chunks(size) {
        let mut rest = piece;
        loop {
            match decoder.step(rest) {
                Step::More => break,
                Step::Data { skip, data } => {
                    assert!(data > 0, "no progress");
                    decoded.data.extend_from_slice(&rest[skip..skip + data]);
                    rest = &rest[skip + data..];
                }
                Step::End(len) => {
                    assert!(decoder.is_done());
                    decoded.end = Some(used + piece.len() - rest.len() + len);
                    return decoded;
                }
                Step::Invalid => {
                    decoded.valid = false;
                    return decoded;
                }
            }
        }
        used += piece.len();
    }
    decoded
}

/// The PROXY line or header in front of a connection; what follows it is not part of it.
pub fn proxy_header(bytes: &[u8]) {
    match proxy_protocol::read(bytes) {
        Ok((len, header)) => {
            let again = proxy_protocol::read(&bytes[..len]);
            assert_eq!(again, Ok((len, header.clone())), "what follows changes it");
            for name in ["alpn", "ssl_cn", "ssl_verify", "0xea", "ssl_0x21"] {
                drop(header.as_ref().map(|header| header.fact(name)));
            }
        }
        Err(error) => drop(error.to_string()),
    }
}

/// TLS's greeting, shown at once and in pieces; the first byte is their size.
pub fn client_hello(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else {
        return;
    };
    let mut whole = ClientHello::default();
    let seen = whole.read(bytes);
    let mut pieces = ClientHello::default();
    let mut last = Seen::More;
    let ends = (0..bytes.len()).step_by(usize::from(*size).max(1));
    for end in ends.chain([bytes.len()]) {
        if last == Seen::More {
            last = pieces.read(&bytes[..end]);
        }
    }
    assert_eq!((last, &pieces), (seen, &whole), "pieces of {size}");
    assert!(whole.name().len() + whole.protocols().len() <= bytes.len());
}

/// What a client of HTTP/2 sends behind the preface, at once and in pieces; the first byte is their size.
pub fn h2_frames(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else {
        return;
    };
    let whole = library_input(bytes, bytes.len().max(1));
    let pieces = library_input(bytes, usize::from(*size).max(1));
    assert_eq!(whole, pieces, "pieces of {size}");
}

/// What the library gets of these frames, and the heads that were put aside.
fn library_input(bytes: &[u8], size: usize) -> (Vec<u8>, Vec<String>, Option<Fault>) {
    let limits = Limits {
        field: 1024,
        total: 4096,
    };
    let mut scanner = Scanner::new(Bounds {
        head: limits,
        streams: 5,
        window: 65536,
        requests: 20,
    });
    let (mut out, mut heads) = (Vec::new(), Vec::new());
    for piece in std::iter::once(PREFACE).chain(bytes.chunks(size)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let passing = scanner.passing().min(rest.len());
            let n = if passing > 0 {
                out.extend_from_slice(&rest[..passing]);
                scanner.passed(passing);
                passing
            } else {
                match scanner.step(rest, &mut out) {
                    Ok(n) => n,
                    Err(fault) => return (out, heads, Some(fault)),
                }
            };
            rest = &rest[n..];
        }
    }
    for stream in 1..50 {
        if let Some(head) = scanner.head(stream) {
            let total: usize = head
                .fields
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            assert!(total <= limits.total, "more than is allowed");
            heads.push(format!("{head:?}"));
        }
    }
    (out, heads, None)
}

/// Text with variables: compiled, written out again and compiled again.
pub fn template(text: &[u8]) {
    let mut resolve = |name: &str| {
        let known = VarId::builtin(name);
        assert!(known != Some(VarId::Capture(0)));
        VarId::Arg(name.into())
    };
    let Ok(template) = Template::compile(text, &mut resolve) else {
        return;
    };
    let written = template.to_vec(&mut Names);
    let again = Template::compile(&written, &mut resolve);
    assert_eq!(again, Ok(template), "written out and read again");
}

/// Gives every variable the text that it was compiled from.
struct Names;

impl Source for Names {
    fn value(&mut self, id: &VarId, out: &mut Vec<u8>) -> bool {
        let text = match id {
            VarId::Capture(n) => format!("${n}"),
            VarId::Arg(name) => format!("${{{name}}}"),
            other => unreachable!("{other:?} is not what names resolve to"),
        };
        out.extend_from_slice(text.as_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// Runs a target over the files of a directory.
    fn seeds(target: fn(&[u8]), directory: &str) {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
        let mut count = 0;
        for entry in fs::read_dir(testdata.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                target(&fs::read(path).unwrap());
                count += 1;
            }
        }
        assert!(count > 2, "{directory}");
    }

    #[test]
    fn seeds_pass() {
        seeds(super::conf, "conf/ok");
        seeds(super::conf, "conf/bad");
        seeds(super::template, "conf/ok");
        seeds(super::h1_request, "h1/request");
        seeds(super::h1_response, "h1/response");
        seeds(super::chunked, "h1/chunked");
        seeds(super::proxy_header, "proxy_protocol");
        seeds(super::client_hello, "client_hello");
        seeds(super::h2_frames, "h2");
    }
}
