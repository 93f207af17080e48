//! Asks an OCSP responder: one request of HTTP/1.0, one answer up to the end of the connection.
//!
//! Mirrors `ngx_ssl_ocsp_request` and what follows it (`event/ngx_event_openssl_stapling.c`): which addresses are tried,
//! what ends a try, and the messages. What the answer says is not looked at here.

use std::{fmt, future::poll_fn, io, net::Ipv4Addr, rc::Rc, time::Duration};

use data_encoding::BASE64;
use tokio::time::timeout;

use super::{
    ConnectError, ConnectOptions, Io,
    connect::{ConnectStep, connect},
    resolver::Resolver,
};
use crate::{
    common::{addr::Addr, buffer::Buf, errno::Errno},
    conf::model::{Asking, Level, Responder},
};

/// How responders are asked.
pub struct Way<'a> {
    /// Who resolves their names, and how long that may take.
    pub resolver: Option<(Rc<Resolver>, Duration)>,
    /// Bounds the exchange with one address.
    pub patience: Option<Duration>,
    /// The file of the certificate in question, for messages.
    pub certificate: Option<&'a str>,
    /// Takes messages.
    pub report: &'a dyn Fn(Level, fmt::Arguments<'_>),
}

impl fmt::Debug for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way")
            .field("patience", &self.patience)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// How much an answer may be with its head, bytes; nobody reads more.
const MOST: usize = 16384;

/// What a responder answers to `query` (an OCSP request in DER), and at which address; None when it does not, or when the
/// status of its answer is not 200. Why is reported, the status excepted, as in nginx.
pub async fn ask(responder: &Responder, query: &[u8], way: &Way<'_>) -> Option<(Vec<u8>, Addr)> {
    let addrs = addresses(responder, way).await?;
    let request = request(responder, query);
    for addr in addrs {
        let exchange = exchange(&addr, &request);
        let answer = match way.patience {
            Some(patience) => timeout(patience, exchange)
                .await
                .unwrap_or(Err(Fault::TimedOut)),
            None => exchange.await,
        };
        match answer {
            Ok((200, body)) => return Some((body, addr)),
            Ok(_) => return None,
            Err(fault) => {
                let asking = Asking {
                    peer: Some(&addr),
                    ..way.asking(responder)
                };
                (way.report)(fault.level(), format_args!("{fault}{asking}"));
                if matches!(&fault, Fault::Connect(error) if !error.is_peer()) {
                    return None;
                }
            }
        }
    }
    None
}

impl Way<'_> {
    fn asking<'a>(&'a self, responder: &'a Responder) -> Asking<'a> {
        Asking {
            responder: &responder.host,
            peer: None,
            certificate: self.certificate,
        }
    }
}

/// Where to go: names are looked up each time if there is a resolver, or else as the configuration found them.
async fn addresses(responder: &Responder, way: &Way<'_>) -> Option<Vec<Addr>> {
    let host = &responder.host;
    let is_literal = host.starts_with('[')
        || host.parse::<Ipv4Addr>().is_ok()
        || matches!(responder.addrs.first(), Some(Addr::Unix(_)));
    if is_literal {
        return Some(responder.addrs.clone());
    }
    let asking = way.asking(responder);
    let Some((resolver, patience)) = &way.resolver else {
        let is_known = !responder.addrs.is_empty();
        let level = if is_known { Level::Warn } else { Level::Error };
        (way.report)(
            level,
            format_args!("no resolver defined to resolve {host}{asking}"),
        );
        return is_known.then(|| responder.addrs.clone());
    };
    match resolver.resolve(host.as_bytes(), *patience).await {
        Ok(ips) => {
            let addrs = ips.into_iter().map(|ip| (ip, responder.port).into());
            Some(addrs.map(Addr::Inet).collect())
        }
        Err(error) => {
            (way.report)(
                Level::Error,
                format_args!("{host} could not be resolved ({error}){asking}"),
            );
            None
        }
    }
}

/// The request; what is asked is part of the path (RFC 6960, appendix A.1).
fn request(responder: &Responder, query: &[u8]) -> Vec<u8> {
    let query = BASE64.encode(query);
    let query = query.replace('+', "%2B").replace('/', "%2F");
    let query = query.replace('=', "%3D");
    let Responder { uri, host, .. } = responder;
    let slash = if uri.ends_with('/') { "" } else { "/" };
    format!("GET {uri}{slash}{query} HTTP/1.0\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// Why one address did not answer.
#[derive(Debug)]
enum Fault {
    Connect(ConnectError),
    Io(&'static str, io::Error),
    TimedOut,
    /// It ended too early.
    Short,
    Bad(BadHead),
}

impl Fault {
    fn level(&self) -> Level {
        match self {
            Self::Connect(error) => error.level(),
            _ => Level::Error,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Io(call, error) => write!(f, "{call} failed ({})", Errno(error)),
            Self::TimedOut => f.write_str("OCSP responder timed out (110: Connection timed out)"),
            Self::Short => f.write_str("OCSP responder prematurely closed connection"),
            Self::Bad(BadHead::Invalid) => f.write_str("OCSP responder sent invalid response"),
            Self::Bad(BadHead::Type(text)) => write!(
                f,
                "OCSP responder sent invalid \"Content-Type\" header: \"{text}\""
            ),
        }
    }
}

/// Sends a request and reads the answer: its status and body.
async fn exchange(addr: &Addr, request: &[u8]) -> Result<(u16, Vec<u8>), Fault> {
    let mut io = connect(addr, &ConnectOptions::default())
        .await
        .map_err(|error| match error.step {
            // nginx learns it from its first read.
            ConnectStep::Finish => Fault::Io("recv()", error.source),
            _ => Fault::Connect(error),
        })?;
    send(&mut io, request).await?;
    let mut answer = Buf::with_capacity(MOST);
    loop {
        let head = head(answer.filled()).map_err(Fault::Bad)?;
        let n = if answer.spare().is_empty() {
            0
        } else {
            let read = poll_fn(|cx| io.poll_fill(&mut answer, usize::MAX, cx));
            read.await.map_err(|error| Fault::Io("recv()", error))?
        };
        if n == 0 {
            let (status, length) = head.ok_or(Fault::Short)?;
            return Ok((status, answer.filled()[length..].to_vec()));
        }
    }
}

async fn send(io: &mut Io, mut bytes: &[u8]) -> Result<(), Fault> {
    while !bytes.is_empty() {
        let n = poll_fn(|cx| io.poll_write(cx, bytes))
            .await
            .map_err(|error| Fault::Io("send()", error))?;
        bytes = &bytes[n..];
    }
    Ok(())
}

/// What a head cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BadHead {
    Invalid,
    /// The body is something else.
    Type(String),
}

/// The status of an answer and the length of its head; None while that is not all there.
fn head(bytes: &[u8]) -> Result<Option<(u16, usize)>, BadHead> {
    let mut status = None;
    let mut length = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = line.strip_suffix(b"\n") else {
            break;
        };
        length += line.len();
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        match status {
            None => status = Some(status_of(text).ok_or(BadHead::Invalid)?),
            Some(status) if text.is_empty() => return Ok(Some((status, length))),
            Some(_) => field(text)?,
        }
    }
    Ok(None)
}

/// The status of a line `HTTP/1.0 200 OK`.
fn status_of(line: &[u8]) -> Option<u16> {
    let version = line.strip_prefix(b"HTTP/")?;
    let space = version.iter().position(|byte| *byte == b' ')?;
    let (major, minor) = std::str::from_utf8(&version[..space])
        .ok()?
        .split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(major) || major.starts_with('0') || !is_number(minor) {
        return None;
    }
    let (digits, rest) = version[space..]
        .trim_ascii_start()
        .split_first_chunk::<3>()?;
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|text| is_number(text))?;
    if !matches!(rest.first(), None | Some(b' ' | b'.')) {
        return None;
    }
    digits.parse().ok()
}

/// Looks at a header field: its name must be one, and the body what was asked for.
fn field(line: &[u8]) -> Result<(), BadHead> {
    let (name, value) = match line.iter().position(|byte| *byte == b':') {
        Some(at) => (&line[..at], line[at + 1..].trim_ascii()),
        None => (line, &b""[..]),
    };
    let is_name = |name: &[u8]| {
        let mut rest = name.iter();
        rest.all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') && !name.starts_with(b"-")
    };
    if name.is_empty() || !is_name(name) {
        return Err(BadHead::Invalid);
    }
    if name.eq_ignore_ascii_case(b"Content-Type")
        && !value.eq_ignore_ascii_case(b"application/ocsp-response")
    {
        let text = String::from_utf8_lossy(value).into_owned();
        return Err(BadHead::Type(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_answers() {
        let bad = Err(BadHead::Invalid);
        for (bytes, expected) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Type: application/OCSP-response \r\n\r\nx",
                Ok(Some((200, 61))),
            ),
            ("HTTP/1.1 404\n\n", Ok(Some((404, 14)))),
            ("HTTP/1.1 403.1\nX\n\n", Ok(Some((403, 18)))),
            ("HTTP/1.1 200 OK\r\nA: b\r\n", Ok(None)),
            ("HTTP/1.1 200 OK", Ok(None)),
            ("", Ok(None)),
            ("200 OK\n", bad.clone()),
            ("HTTP/1 200 OK\n", bad.clone()),
            ("HTTP/0.9 200 OK\n", bad.clone()),
            ("HTTP/1.0 2000\n", bad.clone()),
            ("HTTP/1.0 20\n", bad.clone()),
            ("HTTP/1.0 200\nA B: c\n\n", bad.clone()),
            ("HTTP/1.0 200\n: c\n\n", bad),
            (
                "HTTP/1.0 200\nContent-type: text/html\n\n",
                Err(BadHead::Type("text/html".into())),
            ),
        ] {
            assert_eq!(head(bytes.as_bytes()), expected, "{bytes}");
        }
    }

    #[test]
    fn what_is_asked_is_in_the_path() {
        let responder = |url: &str| Responder::parse(url, false).unwrap();
        for (url, expected) in [
            (
                "http://example.com",
                "GET /%2B%2F8%3D HTTP/1.0\r\nHost: example.com\r\n\r\n",
            ),
            (
                "http://a:81/b",
                "GET /b/%2B%2F8%3D HTTP/1.0\r\nHost: a\r\n\r\n",
            ),
        ] {
            let text = String::from_utf8(request(&responder(url), &[0xfb, 0xff])).unwrap();
            assert_eq!(text, expected);
        }
    }
}
