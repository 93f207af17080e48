//! Values of variables in a request.
//!
//! Here those of the request and of the response; in files of their own those of the connection, those that are a family
//! such as `$http_NAME`, and the configuration's own. Mirrors `http/ngx_http_variables.c` and the variables of the modules.

mod connection;
mod named;
mod scope;
mod tls;

use super::{exchange::Exchange, h1::known::Known, limits::ReqStatus};
use crate::{
    common::{clock, decimal, occupancy::LimitStatus},
    vars::{Source, VarId, slots},
};
use connection::connection;

impl Source for Exchange<'_> {
    fn value(&mut self, id: &VarId, out: &mut Vec<u8>) -> bool {
        match id {
            VarId::Slot(slot) => slots::value(self, *slot, out),
            VarId::Capture(n) => put_some(out, self.slots.capture((*n).into())),
            VarId::Arg(_) | VarId::Cookie(_) | VarId::Http(_) => named::request(self, id, out),
            VarId::SentHttp(name) => named::sent(self, name, out),
            VarId::SentTrailer(name) => self.response.trailers.join_variable(name, b", ", out),
            VarId::UpstreamHttp(name) => self.upstream_headers.join_variable(name, b", ", out),
            VarId::UpstreamTrailer(name) => self.upstream_trailers.join_variable(name, b", ", out),
            VarId::UpstreamCookie(name) => named::upstream_cookie(self, name, out),
            _ => request(self, id, out)
                .or_else(|| connection(self, id, out))
                .unwrap_or_else(|| response(self, id, out)),
        }
    }
}

fn put(out: &mut Vec<u8>, text: &[u8]) -> bool {
    out.extend_from_slice(text);
    true
}

fn put_some(out: &mut Vec<u8>, text: Option<&[u8]>) -> bool {
    text.is_some_and(|text| put(out, text))
}

/// Text that is not found when it is empty.
fn put_present(out: &mut Vec<u8>, text: &[u8]) -> bool {
    !text.is_empty() && put(out, text)
}

fn put_number(out: &mut Vec<u8>, number: u64) -> bool {
    decimal::push(out, number);
    true
}

/// Seconds with three decimals.
fn put_seconds(out: &mut Vec<u8>, millis: u64) -> bool {
    decimal::push_seconds(out, millis);
    true
}

fn digit(n: u64) -> u8 {
    b'0' + u8::try_from(n % 10).unwrap_or(0)
}

/// Variables of the request; None when `id` is none of them.
fn request(x: &mut Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> Option<bool> {
    let request = &x.request;
    Some(match id {
        VarId::Args | VarId::QueryString => put_present(out, &request.args),
        VarId::IsArgs => put(out, if request.args.is_empty() { b"" } else { b"?" }),
        VarId::ContentLength => content_length(x, out),
        VarId::ContentType => request.headers.join_variable("content_type", b", ", out),
        // Empty when the target could not be decoded, not found when the request line could not be read so far.
        VarId::DocumentUri | VarId::Uri => {
            put(out, &request.uri);
            !request.target().is_empty() || request.has_absolute_target
        }
        VarId::Host => put(
            out,
            if request.host.is_empty() {
                x.server.name.as_bytes()
            } else {
                &request.host
            },
        ),
        VarId::Request => put_present(out, &request.line),
        VarId::RequestBody => request_body(x, out),
        VarId::RequestBodyFile => match &request.body.file {
            Some(file) => put(out, file.path.as_os_str().as_encoded_bytes()),
            None => false,
        },
        VarId::RequestLength => put_number(out, request.length),
        VarId::RequestMethod => put_present(out, request.method_name()),
        VarId::RequestUri => {
            put(out, request.target());
            !request.target().is_empty() || request.has_absolute_target
        }
        VarId::RequestPort => request.port != 0 && put_number(out, request.port.into()),
        VarId::IsRequestPort => request.port == 0 || put(out, b":"),
        VarId::RequestId => request_id(x, out),
        VarId::RequestTime => put_seconds(out, millis_since(x)),
        VarId::ServerProtocol => put(out, request.protocol()) && request.version != 0,
        VarId::RemoteUser => remote_user(x, out),
        VarId::DocumentRoot | VarId::RealpathRoot | VarId::RequestFilename => paths(x, id, out),
        _ => return None,
    })
}

/// The name in `Authorization: Basic`.
fn remote_user(x: &Exchange<'_>, out: &mut Vec<u8>) -> bool {
    let Some(value) = x.request.headers.get(Known::Authorization) else {
        return false;
    };
    let Some(encoded) = value
        .get(6..)
        .filter(|_| value[..6].eq_ignore_ascii_case(b"basic "))
    else {
        return false;
    };
    let Ok(decoded) = data_encoding::BASE64.decode(named::trim_start(encoded)) else {
        return false;
    };
    match memchr::memchr(b':', &decoded) {
        Some(colon) if colon > 0 => put(out, &decoded[..colon]),
        _ => false,
    }
}

fn millis_since(x: &Exchange<'_>) -> u64 {
    u64::try_from(clock::now().since(x.started).as_millis()).unwrap_or(u64::MAX)
}

fn content_length(x: &Exchange<'_>, out: &mut Vec<u8>) -> bool {
    if x.request.chunked {
        // Known once the body has been read.
        return x.request.content_length.is_some_and(|n| put_number(out, n));
    }
    put_some(out, x.request.headers.get(Known::ContentLength))
}

fn request_body(x: &Exchange<'_>, out: &mut Vec<u8>) -> bool {
    let body = &x.request.body;
    body.complete && body.file.is_none() && !body.memory.is_empty() && put(out, &body.memory)
}

fn request_id(x: &mut Exchange<'_>, out: &mut Vec<u8>) -> bool {
    let thread = x.thread;
    let id = x.request_id.get_or_insert_with(|| {
        let (high, low) = (
            thread.random.next().to_be_bytes(),
            thread.random.next().to_be_bytes(),
        );
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high);
        id[8..].copy_from_slice(&low);
        id
    });
    for byte in id {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.extend_from_slice(&[
            DIGITS[usize::from(*byte >> 4)],
            DIGITS[usize::from(*byte & 15)],
        ]);
    }
    true
}

fn paths(x: &mut Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    if id == &VarId::RequestFilename {
        super::content::file_name(x).is_some_and(|path| put(out, &path))
    } else {
        let root = super::content::root(x);
        if *id == VarId::RealpathRoot {
            let real = std::fs::canonicalize(super::content::path(&root));
            return real.is_ok_and(|path| put(out, path.as_os_str().as_encoded_bytes()));
        }
        put(out, &root)
    }
}

/// Variables of the response and of the upstream.
fn response(x: &mut Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    match id {
        VarId::Status => status(x, out),
        VarId::BytesSent => put_number(out, x.bytes_sent()),
        VarId::BodyBytesSent => put_number(out, x.body_bytes_sent()),
        VarId::RequestCompletion => put(out, if x.complete { b"OK" } else { b"" }),
        VarId::LimitRate => put_number(out, limit_rate(x)),
        VarId::GzipRatio => gzip_ratio(x, out),
        VarId::LimitReqStatus => {
            let status = x.limited.req.map(ReqStatus::text);
            put_some(out, status.map(str::as_bytes))
        }
        VarId::LimitConnStatus => {
            let status = x.limited.conn.map(LimitStatus::text);
            put_some(out, status.map(str::as_bytes))
        }
        VarId::ProxyHost => put(out, &x.proxy_host.0) && !x.proxy_host.0.is_empty(),
        VarId::ProxyPort => put(out, &x.proxy_host.1) && !x.proxy_host.1.is_empty(),
        VarId::ProxyAddXForwardedFor => {
            if x.request
                .headers
                .join_variable("x_forwarded_for", b", ", out)
            {
                out.extend_from_slice(b", ");
            }
            put(out, x.client.text.as_bytes())
        }
        VarId::ProxyInternalBodyLength => x.proxy_body_length.is_some_and(|n| put_number(out, n)),
        VarId::UpstreamAddr => x.attempts.addr(out),
        VarId::UpstreamStatus => x.attempts.status(out),
        VarId::UpstreamConnectTime => x.attempts.connect_time(out),
        VarId::UpstreamHeaderTime => x.attempts.header_time(out),
        VarId::UpstreamResponseTime => x.attempts.response_time(out),
        VarId::UpstreamResponseLength => x.attempts.response_length(out),
        VarId::UpstreamBytesReceived => x.attempts.bytes_received(out),
        VarId::UpstreamBytesSent => x.attempts.bytes_sent(out),
        _ => false,
    }
}

fn limit_rate(x: &mut Exchange<'_>) -> u64 {
    if let Some(rate) = x.limit_rate {
        rate
    } else {
        let template = &x.location.core.limit_rate;
        parse_size(&template.to_vec(x)).unwrap_or(0)
    }
}

fn status(x: &Exchange<'_>, out: &mut Vec<u8>) -> bool {
    let response = &x.response;
    let status = match (response.error_status, response.status) {
        (0, status) | (status, _) => status,
    };
    let status = if status == 0 && x.request.version == 9 {
        9
    } else {
        status
    };
    put(out, format!("{status:03}").as_bytes())
}

fn gzip_ratio(x: &Exchange<'_>, out: &mut Vec<u8>) -> bool {
    let Some((read, written)) = x.gzip_ratio.filter(|(_, written)| *written > 0) else {
        return false;
    };
    let hundredths = (read * 1000 / written + 5) / 10;
    decimal::push(out, hundredths / 100);
    out.extend_from_slice(&[b'.', digit(hundredths / 10), digit(hundredths)]);
    true
}

/// A size such as `10k` in the value of a variable; None when it is none.
pub(super) fn parse_size(text: &[u8]) -> Option<u64> {
    let (digits, unit) = match text {
        [digits @ .., b'k' | b'K'] => (digits, 1 << 10),
        [digits @ .., b'm' | b'M'] => (digits, 1 << 20),
        [digits @ .., b'g' | b'G'] => (digits, 1 << 30),
        digits => (digits, 1),
    };
    decimal::parse(digits)?.checked_mul(unit)
}
