//! Where a `proxy_pass` sends a request: a group of peers and the host to name.
//!
//! Mirrors `ngx_http_proxy_eval`, the look-up of upstreams in `ngx_http_upstream_init_request` and
//! `ngx_http_upstream_resolve_handler`.

use std::{
    borrow::Cow,
    future::{Future, poll_fn},
    net::IpAddr,
    pin::pin,
    sync::Arc,
    task::Poll,
};

use crate::{
    common::{addr::Addr, clock},
    conf::model::{Handler, Level, PassTarget, ProxyPass},
    http::{
        exchange::{EscapeLog, Exchange},
        phases::{CLIENT_CLOSED, Next},
    },
    net::resolver,
    upstream::Group,
};

/// What is to be asked for.
#[derive(Debug)]
pub(super) struct Destination<'g> {
    /// `$proxy_host`
    pub host: Cow<'g, [u8]>,
    /// `$proxy_port`
    pub port: Cow<'g, [u8]>,
    /// `https://`
    pub tls: bool,
    /// The URI of a `proxy_pass` with variables, when it has one.
    pub uri: Option<Vec<u8>>,
}

/// Who is to be asked.
#[derive(Debug)]
pub(super) enum Whom {
    /// A group of the configuration, or one that was made for an address.
    Group(Target),
    /// A host by name, which is not resolved yet, and the port.
    Name(Vec<u8>, u16),
}

/// The peers that a request goes to.
#[derive(Debug)]
pub(super) struct Target {
    /// The peers.
    pub group: Arc<Group>,
    /// Index of the group in the configuration; None when it was made for this request.
    pub index: Option<usize>,
    /// They are spoken to over TLS.
    pub tls: bool,
}

/// Finds out where a request goes; None when the address makes no sense.
pub(super) fn find<'g>(
    x: &mut Exchange<'g>,
    pass: &'g ProxyPass,
) -> Option<(Destination<'g>, Whom)> {
    match pass.target {
        PassTarget::Upstream(index) => {
            let destination = Destination {
                host: Cow::Borrowed(pass.host_header.as_bytes()),
                port: Cow::Borrowed(pass.port.as_bytes()),
                tls: pass.tls,
                uri: None,
            };
            Some((destination, Whom::Group(Target::of(x, index)?)))
        }
        PassTarget::Variable => variable(x, pass),
    }
}

fn variable<'g>(x: &mut Exchange<'g>, pass: &ProxyPass) -> Option<(Destination<'g>, Whom)> {
    let text = pass.url.to_vec(x);
    let is_grpc = matches!(x.location.handler, Handler::Grpc);
    let split = if is_grpc {
        without_grpc_scheme(&text)
    } else {
        without_scheme(&text)
    };
    let Some((url, tls)) = split else {
        x.log(
            Level::Error,
            format_args!("invalid URL prefix in \"{}\"", text.escape_log()),
        );
        return None;
    };
    let usual = match (is_grpc, tls) {
        (true, _) => 0,
        (false, true) => 443,
        (false, false) => 80,
    };
    let url = match parse(url, usual) {
        Ok(url) => url,
        Err(what) => {
            x.log(
                Level::Error,
                format_args!("{what} in upstream \"{}\"", url.escape_log()),
            );
            return None;
        }
    };
    let whom = match (known(x, &url), url.addr) {
        (Some(index), _) => Whom::Group(Target::of(x, index)?),
        (None, Some(addr)) => Whom::Group(Target::made(&url.host, vec![addr])),
        (None, None) if url.port == 0 => {
            let host = url.host.escape_log();
            x.log(Level::Error, format_args!("no port in upstream \"{host}\""));
            return None;
        }
        (None, None) => Whom::Name(url.host, url.port),
    };
    let destination = Destination {
        host: Cow::Owned(url.host_header),
        port: Cow::Owned(url.port_text),
        tls,
        uri: url.uri,
    };
    Some((destination, whom))
}

/// What follows `http://` or `https://`, and whether it was the latter.
fn without_scheme(text: &[u8]) -> Option<(&[u8], bool)> {
    let plain = after(text, b"http://").map(|rest| (rest, false));
    plain.or_else(|| Some((after(text, b"https://")?, true)))
}

/// What follows `grpc://`, which may be missing, or `grpcs://`, and whether it was the latter.
fn without_grpc_scheme(text: &[u8]) -> Option<(&[u8], bool)> {
    let tls = after(text, b"grpcs://").map(|rest| (rest, true));
    tls.or_else(|| Some((after(text, b"grpc://").unwrap_or(text), false)))
}

/// What follows `scheme`, in whatever case.
fn after<'t>(text: &'t [u8], scheme: &[u8]) -> Option<&'t [u8]> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

impl Whom {
    /// The peers; a name is resolved now.
    pub(super) async fn resolve<'g>(self, x: &mut Exchange<'g>) -> Result<Target, Next<'g>> {
        let (host, port) = match self {
            Self::Group(target) => return Ok(target),
            Self::Name(host, port) => (resolver::normal(&host), port),
        };
        let Some(conf) = &x.location.core.resolver else {
            x.log(
                Level::Error,
                format_args!("no resolver defined to resolve {}", host.escape_log()),
            );
            return Err(Next::Status(502));
        };
        let resolver = x.thread.resolvers.get(conf);
        let mut resolved = pin!(resolver.resolve(&host, x.location.core.resolver_timeout));
        let watch = !x.location.proxy.ignore_client_abort;
        let result = poll_fn(|cx| match resolved.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if watch => x.conn.poll_closed(cx).map(|()| None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        match result {
            Some(Ok(ips)) => {
                let addrs = ips.into_iter().map(|ip| Addr::Inet((ip, port).into()));
                Ok(Target::made(&host, addrs.collect()))
            }
            Some(Err(error)) => {
                let host = host.escape_log();
                x.log(
                    Level::Error,
                    format_args!("{host} could not be resolved ({error})"),
                );
                Err(Next::Status(502))
            }
            None => {
                x.log(
                    Level::Info,
                    format_args!("client prematurely closed connection"),
                );
                x.broken = true;
                Err(Next::Terminate(CLIENT_CLOSED))
            }
        }
    }
}

impl Target {
    /// A group of the configuration.
    fn of(x: &Exchange<'_>, index: usize) -> Option<Self> {
        Some(Self {
            group: Arc::clone(x.live.groups.get(index)?),
            index: Some(index),
            tls: false,
        })
    }

    /// A group for one request (`ngx_http_upstream_create_round_robin_peer`).
    fn made(host: &[u8], addrs: Vec<Addr>) -> Self {
        let name: Arc<str> = String::from_utf8_lossy(host).into();
        Self {
            group: Arc::new(Group::made(name, addrs, clock::now().millis())),
            index: None,
            tls: false,
        }
    }
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

/// Takes an address apart; without a port it has the usual one of its scheme.
fn parse(url: &[u8], usual: u16) -> Result<Url, &'static str> {
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
        None => usual,
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
        host_header: if port.is_some() && number != usual {
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

/// Index of the group of the configuration that the address names.
fn known(x: &Exchange<'_>, url: &Url) -> Option<usize> {
    let upstreams = &x.live.http().upstreams;
    upstreams
        .iter()
        .position(|upstream| upstream.is_named(&url.host, url.port, url.has_port))
}
