//! Values of variables in a request.
//!
//! Mirrors `http/ngx_http_variables.c` and the variables of the modules.

use std::net::IpAddr;

use super::{
    exchange::Exchange,
    h1::{known::Known, uri},
    output::push_number,
};
use crate::{
    common::{addr::Addr, clock},
    conf::model::{Level, SlotSource},
    net::proxy_protocol::FactError,
    vars::{SlotId, Source, VarId},
};

impl Source for Exchange<'_> {
    fn value(&mut self, id: &VarId, out: &mut Vec<u8>) -> bool {
        match id {
            VarId::Slot(slot) => slot_value(self, *slot, out),
            VarId::Capture(n) => put_some(out, self.capture((*n).into())),
            VarId::Arg(_) | VarId::Cookie(_) | VarId::Http(_) => request_named(self, id, out),
            VarId::SentHttp(name) => sent_http(self, name, out),
            VarId::SentTrailer(name) => self.response.trailers.join_variable(name, b", ", out),
            VarId::UpstreamHttp(name) => self.upstream_headers.join_variable(name, b", ", out),
            VarId::UpstreamTrailer(name) => self.upstream_trailers.join_variable(name, b", ", out),
            VarId::UpstreamCookie(name) => upstream_cookie(self, name, out),
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
    push_number(out, number);
    true
}

/// Seconds with three decimals.
fn put_seconds(out: &mut Vec<u8>, millis: u64) -> bool {
    push_number(out, millis / 1000);
    out.extend_from_slice(&[b'.', digit(millis / 100), digit(millis / 10), digit(millis)]);
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
    let Ok(decoded) = data_encoding::BASE64.decode(trim_start(encoded)) else {
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
        let (high, low) = (thread.random().to_be_bytes(), thread.random().to_be_bytes());
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

/// Variables of the connection, the worker and the clock; None when `id` is none of them.
fn connection(x: &mut Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> Option<bool> {
    Some(match id {
        VarId::BinaryRemoteAddr => match x.client.addr.ip() {
            Some(IpAddr::V4(ip)) => put(out, &ip.octets()),
            Some(IpAddr::V6(ip)) => put(out, &ip.octets()),
            None => put(out, b"unix:"),
        },
        VarId::RemoteAddr => put(out, x.client.text.as_bytes()),
        VarId::RemotePort => put_port(out, x.client.addr.port()),
        VarId::RealipRemoteAddr => put(out, addr_without_port(&x.conn.peer).as_bytes()),
        VarId::RealipRemotePort => put_port(out, x.conn.peer.port()),
        VarId::ServerAddr => put(out, addr_without_port(x.conn.local()).as_bytes()),
        VarId::ServerPort => put_port(out, x.conn.local().port()),
        VarId::ServerName => put(out, x.server.name.as_bytes()),
        VarId::Scheme => put(out, b"http"),
        VarId::Https => put(out, b""),
        VarId::Connection => put_number(out, x.conn.id),
        VarId::ConnectionRequests => put_number(out, x.conn.requests),
        VarId::ConnectionTime => put_seconds(
            out,
            u64::try_from(clock::now().since(x.conn.started).as_millis()).unwrap_or(0),
        ),
        VarId::Pipe => put(out, if x.pipelined { b"p" } else { b"." }),
        VarId::Hostname => put(out, x.live.hostname.as_bytes()),
        // Scripts and configurations compare it: it is the version whose behaviour we have.
        VarId::NginxVersion => put(out, b"1.31.5"),
        VarId::Pid => put_number(out, std::process::id().into()),
        VarId::Msec => {
            clock::msec(out);
            true
        }
        VarId::TimeIso8601 => put(out, &clock::time_iso8601()),
        VarId::TimeLocal => put(out, &clock::time_local()),
        VarId::TcpinfoRtt
        | VarId::TcpinfoRttvar
        | VarId::TcpinfoSndCwnd
        | VarId::TcpinfoRcvSpace => tcp_info(x, id, out),
        VarId::ConnectionsActive
        | VarId::ConnectionsReading
        | VarId::ConnectionsWriting
        | VarId::ConnectionsWaiting => {
            let counts = x.live.counts.read();
            put_number(
                out,
                match id {
                    VarId::ConnectionsActive => counts.active,
                    VarId::ConnectionsReading => counts.reading,
                    VarId::ConnectionsWriting => counts.writing,
                    _ => counts.waiting(),
                },
            )
        }
        VarId::ProxyProtocolAddr
        | VarId::ProxyProtocolPort
        | VarId::ProxyProtocolServerAddr
        | VarId::ProxyProtocolServerPort
        | VarId::ProxyProtocolTlv(_) => proxy_protocol(x, id, out),
        VarId::InvalidReferer => false,
        _ => return None,
    })
}

/// `$proxy_protocol_*`
fn proxy_protocol(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    let Some(header) = &x.conn.proxied else {
        return false;
    };
    match id {
        VarId::ProxyProtocolAddr => put(out, header.source.as_bytes()),
        VarId::ProxyProtocolPort => put_port(out, Some(header.source_port)),
        VarId::ProxyProtocolServerAddr => put(out, header.server.as_bytes()),
        VarId::ProxyProtocolServerPort => put_port(out, Some(header.server_port)),
        VarId::ProxyProtocolTlv(name) => match header.fact(name) {
            Ok(value) => put_some(out, value.as_deref()),
            Err(FactError::Silent) => false,
            Err(error) => {
                x.log(Level::Error, format_args!("{error}"));
                false
            }
        },
        _ => false,
    }
}

/// `$tcpinfo_*`: the system's own account of the connection; not found where it has none.
fn tcp_info(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    x.conn.io.tcp_info().is_some_and(|info| {
        let number = match id {
            VarId::TcpinfoRtt => info.rtt,
            VarId::TcpinfoRttvar => info.rttvar,
            VarId::TcpinfoSndCwnd => info.snd_cwnd,
            _ => info.rcv_space,
        };
        put_number(out, number.into())
    })
}

fn put_port(out: &mut Vec<u8>, port: Option<u16>) -> bool {
    match port {
        Some(port) if port > 0 => put_number(out, port.into()),
        _ => put(out, b""),
    }
}

/// Variables of the response and of the upstream.
fn response(x: &mut Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
    match id {
        VarId::Status => status(x, out),
        VarId::BytesSent => put_number(out, x.bytes_sent()),
        VarId::BodyBytesSent => {
            put_number(out, x.bytes_sent().saturating_sub(x.response.header_size))
        }
        VarId::RequestCompletion => put(out, if x.complete { b"OK" } else { b"" }),
        VarId::LimitRate => put_number(out, limit_rate(x)),
        VarId::GzipRatio => gzip_ratio(x, out),
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
    push_number(out, hundredths / 100);
    out.extend_from_slice(&[b'.', digit(hundredths / 10), digit(hundredths)]);
    true
}

fn request_named(x: &Exchange<'_>, id: &VarId, out: &mut Vec<u8>) -> bool {
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
fn upstream_cookie(x: &Exchange<'_>, name: &str, out: &mut Vec<u8>) -> bool {
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

fn trim_start(mut text: &[u8]) -> &[u8] {
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
fn sent_http(x: &Exchange<'_>, name: &str, out: &mut Vec<u8>) -> bool {
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
                .is_some_and(|secs| put(out, &crate::common::date::http(secs)));
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

fn slot_value(x: &mut Exchange<'_>, slot: SlotId, out: &mut Vec<u8>) -> bool {
    let live = x.live;
    let Some(definition) = live.http().slots.get(slot.0 as usize) else {
        return false;
    };
    match &definition.source {
        SlotSource::Assigned => {
            if let Some(value) = x.slot(slot, |_| None) {
                put(out, value)
            } else {
                if x.location.uninitialized_variable_warn {
                    let name = &definition.name;
                    x.log(
                        Level::Warn,
                        format_args!("using uninitialized \"{name}\" variable"),
                    );
                }
                x.assign(slot, Some(Vec::new()));
                true
            }
        }
        SlotSource::Map(map) => {
            let value = x.slot(slot, |x| Some(map_value(x, map)));
            let found = put_some(out, value);
            if map.is_volatile() {
                x.forget_computed(slot);
            }
            found
        }
        SlotSource::Geo(geo) => {
            let value = x.slot(slot, |x| Some(geo_value(x, geo)));
            let found = put_some(out, value);
            if geo.is_volatile() {
                x.forget_computed(slot);
            }
            found
        }
        SlotSource::SplitClients(split) => {
            let value = x.slot(slot, |x| {
                let key = split.key().to_vec(x);
                split.lookup(&key).map(<[u8]>::to_vec)
            });
            put_some(out, value)
        }
    }
}

fn map_value(x: &mut Exchange<'_>, map: &crate::vars::map::Map) -> Vec<u8> {
    let key = map.key().to_vec(x);
    let hit = map.lookup(&key);
    if let Some((pattern, captures)) = hit.captures {
        x.set_captures(pattern, &key, captures);
    }
    hit.value.to_vec(x)
}

fn geo_value(x: &mut Exchange<'_>, geo: &crate::vars::geo::Geo) -> Vec<u8> {
    let source = match geo.variable() {
        Some(template) => {
            let text = template.to_vec(x);
            std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse::<IpAddr>().ok())
                .map(|ip| Addr::Inet((ip, 0u16).into()))
        }
        None => Some(x.client.addr.clone()),
    };
    let mut forwarded = Vec::new();
    x.request
        .headers
        .join_variable("x_forwarded_for", b", ", &mut forwarded);
    geo.lookup(source.as_ref(), &forwarded).to_vec()
}

/// An address as `$remote_addr` shows it.
pub(super) fn addr_without_port(addr: &Addr) -> String {
    match addr {
        Addr::Inet(addr) => addr.ip().to_string(),
        Addr::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// A size such as `10k` in the value of a variable; None when it is none.
pub(super) fn parse_size(text: &[u8]) -> Option<u64> {
    let (digits, unit) = match text {
        [digits @ .., b'k' | b'K'] => (digits, 1 << 10),
        [digits @ .., b'm' | b'M'] => (digits, 1 << 20),
        [digits @ .., b'g' | b'G'] => (digits, 1 << 30),
        digits => (digits, 1),
    };
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    number.checked_mul(unit)
}
