//! Where a `proxy_pass` sends a request: a group of peers and the host to name.
//!
//! Mirrors `ngx_http_proxy_eval` and the look-up of upstreams in `ngx_http_upstream_init_request`.

use std::{borrow::Cow, net::IpAddr, sync::Arc, time::Duration};

use crate::{
    common::{addr::Addr, clock},
    conf::model::{Level, Method, PassTarget, ProxyPass, Upstream, UpstreamServer},
    http::{
        exchange::{EscapeLog, Exchange},
        phases::Next,
    },
    upstream::Group,
};

/// A place to send a request to.
#[derive(Debug)]
pub(super) struct Target<'g> {
    /// The peers.
    pub group: Arc<Group>,
    /// Index of the group in the configuration; None when it was made for this request.
    pub index: Option<usize>,
    /// `$proxy_host`
    pub host: Cow<'g, [u8]>,
    /// `$proxy_port`
    pub port: Cow<'g, [u8]>,
    /// The URI of a `proxy_pass` with variables, when it has one.
    pub uri: Option<Vec<u8>>,
}

/// Why there is no target.
#[derive(Debug)]
pub(super) enum Failure {
    /// The address makes no sense, or there is no port: 500.
    Internal,
    /// The name cannot be resolved: 502, and the log shows the try.
    Unresolved,
}

impl Failure {
    /// The answer to the client.
    pub(super) fn into_next<'g>(self, x: &mut Exchange<'g>) -> Next<'g> {
        match self {
            Self::Internal => Next::Status(500),
            Self::Unresolved => {
                x.attempts.begin();
                Next::Status(502)
            }
        }
    }
}

/// Finds the target.
pub(super) fn resolve<'g>(
    x: &mut Exchange<'g>,
    pass: &'g ProxyPass,
) -> Result<Target<'g>, Failure> {
    match pass.target {
        PassTarget::Upstream(index) => {
            let group = x.live.groups.get(index).ok_or(Failure::Internal)?;
            Ok(Target {
                group: Arc::clone(group),
                index: Some(index),
                host: Cow::Borrowed(pass.host_header.as_bytes()),
                port: Cow::Borrowed(pass.port.as_bytes()),
                uri: None,
            })
        }
        PassTarget::Variable => variable(x, pass),
    }
}

fn variable<'g>(x: &mut Exchange<'g>, pass: &ProxyPass) -> Result<Target<'g>, Failure> {
    let text = pass.url.to_vec(x);
    let Some(url) = text
        .get(7..)
        .filter(|_| text[..7].eq_ignore_ascii_case(b"http://"))
    else {
        x.log(
            Level::Error,
            format_args!("invalid URL prefix in \"{}\"", text.escape_log()),
        );
        return Err(Failure::Internal);
    };
    let parsed = match parse(url) {
        Ok(parsed) => parsed,
        Err(what) => {
            x.log(
                Level::Error,
                format_args!("{what} in upstream \"{}\"", url.escape_log()),
            );
            return Err(Failure::Internal);
        }
    };
    let (index, group) = match known(x, &parsed) {
        Some((index, group)) => (Some(index), group),
        None => (None, made(x, &parsed)?),
    };
    Ok(Target {
        group,
        index,
        host: Cow::Owned(parsed.host_header),
        port: Cow::Owned(parsed.port_text),
        uri: parsed.uri,
    })
}

/// An address of `proxy_pass` taken apart.
struct Url {
    /// Host without port.
    host: Vec<u8>,
    port: u16,
    /// Whether the port was written.
    has_port: bool,
    addr: Option<Addr>,
    host_header: Vec<u8>,
    port_text: Vec<u8>,
    uri: Option<Vec<u8>>,
}

fn parse(url: &[u8]) -> Result<Url, &'static str> {
    if let Some(rest) = url.strip_prefix(b"unix:") {
        return unix(rest);
    }
    let skip = if url.starts_with(b"[") {
        memchr::memchr(b']', url).ok_or("invalid host")?
    } else {
        0
    };
    let end = url[skip..]
        .iter()
        .position(|c| matches!(c, b'/' | b'?'))
        .map_or(url.len(), |n| skip + n);
    let (authority, uri) = url.split_at(end);
    let (host, port) = match memchr::memchr(b':', &authority[skip..]) {
        Some(colon) => (
            &authority[..skip + colon],
            Some(&authority[skip + colon + 1..]),
        ),
        None => (authority, None),
    };
    if host.is_empty() {
        return Err("no host");
    }
    let number = match port {
        None => 80,
        Some(digits) => match std::str::from_utf8(digits)
            .ok()
            .and_then(|d| d.parse().ok())
        {
            Some(port) if port != 0u16 => port,
            _ => return Err("invalid port"),
        },
    };
    let addr = ip(host).map(|ip| Addr::Inet((ip, number).into()));
    let uri = match uri {
        [] => None,
        [b'?', ..] => Some([b"/", uri].concat()),
        _ => Some(uri.to_vec()),
    };
    Ok(Url {
        host: host.to_vec(),
        port: number,
        has_port: port.is_some(),
        addr,
        host_header: if port.is_some() && number != 80 {
            authority.to_vec()
        } else {
            host.to_vec()
        },
        port_text: number.to_string().into_bytes(),
        uri,
    })
}

fn unix(rest: &[u8]) -> Result<Url, &'static str> {
    let (path, uri) = match memchr::memchr(b':', rest) {
        Some(colon) => (
            &rest[..colon],
            Some(rest[colon + 1..].to_vec()).filter(|uri| !uri.is_empty()),
        ),
        None => (rest, None),
    };
    if path.is_empty() {
        return Err("no path in the unix domain socket");
    }
    let host = [b"unix:", path].concat();
    Ok(Url {
        host,
        port: 0,
        has_port: false,
        addr: Some(Addr::Unix(crate::http::content::path(path).into())),
        host_header: b"localhost".to_vec(),
        port_text: Vec::new(),
        uri,
    })
}

fn ip(host: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(host).ok()?;
    let text = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(text);
    text.parse().ok()
}

/// The group of the configuration that the address names.
fn known(x: &Exchange<'_>, url: &Url) -> Option<(usize, Arc<Group>)> {
    let upstreams = &x.live.http().upstreams;
    let index = upstreams.iter().position(|upstream| {
        upstream.name.as_bytes().eq_ignore_ascii_case(&url.host)
            && ((upstream.port == 0 && !url.has_port) || upstream.port == url.port)
    })?;
    Some((index, Arc::clone(x.live.groups.get(index)?)))
}

/// A group of one peer for an address.
fn made(x: &mut Exchange<'_>, url: &Url) -> Result<Arc<Group>, Failure> {
    let name: Arc<str> = String::from_utf8_lossy(&url.host).into();
    let Some(addr) = url.addr.clone() else {
        x.log(
            Level::Error,
            format_args!("no resolver defined to resolve {name}"),
        );
        return Err(Failure::Unresolved);
    };
    let server = UpstreamServer {
        name: Arc::clone(&name),
        addrs: vec![addr],
        weight: 1,
        max_fails: 1,
        fail_timeout: Duration::from_secs(10),
        max_conns: 0,
        down: false,
        backup: false,
    };
    let upstream = Upstream {
        name,
        port: url.port,
        explicit: false,
        servers: vec![server],
        method: Method::RoundRobin,
        zone: None,
        keepalive: None,
    };
    Ok(Arc::new(Group::new(&upstream, None, clock::now().millis())))
}
