//! Addresses in directives: `host`, `host:port`, `[::1]:port`, `unix:/path`, with a URI after them where one may be.
//!
//! Mirrors `ngx_parse_url` and `ngx_parse_addr_port` (`core/ngx_inet.c`), the messages included. Names are resolved with
//! the system's resolver while the configuration is read.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    path::Path,
};

use super::value::number;
use crate::common::addr::Addr;

/// What the text may hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UrlOptions {
    /// The port when none is written.
    pub(crate) default_port: u16,
    /// `listen`: a port alone, `*` and port ranges are addresses too.
    pub(crate) listen: bool,
    /// A URI may follow.
    pub(crate) uri_part: bool,
    /// Names are not resolved.
    pub(crate) no_resolve: bool,
}

/// An address taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// Host as written, in brackets for IPv6; the path of a Unix socket.
    pub(crate) host: String,
    /// The port, the default one when none is written.
    pub(crate) port: u16,
    /// The port as written; empty when there is none.
    pub(crate) port_text: String,
    /// No port is written.
    pub(crate) no_port: bool,
    /// `unix:`
    pub(crate) unix: bool,
    /// What follows the address; empty when nothing does.
    pub(crate) uri: String,
    /// The addresses; empty when a name was not to be resolved.
    pub(crate) addrs: Vec<Addr>,
}

/// Takes `text` apart; the error is nginx's, without what was being read.
pub(crate) fn parse_url(text: &str, options: UrlOptions) -> Result<Url, &'static str> {
    if text
        .get(..5)
        .is_some_and(|head| head.eq_ignore_ascii_case("unix:"))
    {
        return unix_url(&text[5..], options);
    }
    if text.starts_with('[') {
        return inet6_url(text, options);
    }
    inet_url(text, options)
}

fn unix_url(rest: &str, options: UrlOptions) -> Result<Url, &'static str> {
    let (path, uri) = match rest.split_once(':') {
        Some((path, uri)) if options.uri_part => (path, uri),
        _ => (rest, ""),
    };
    if path.is_empty() {
        return Err("no path in the unix domain socket");
    }
    if path.len() + 1 > UNIX_PATH_MAX {
        return Err("too long path in the unix domain socket");
    }
    Ok(Url {
        host: path.to_owned(),
        port: 0,
        port_text: String::new(),
        no_port: false,
        unix: true,
        uri: uri.to_owned(),
        addrs: vec![Addr::Unix(Path::new(path).into())],
    })
}

fn inet6_url(text: &str, options: UrlOptions) -> Result<Url, &'static str> {
    let (inside, after) = text[1..].split_once(']').ok_or("invalid host")?;
    let (after, uri) = split_uri(after, after.find('/'), options)?;
    let ports = match after.strip_prefix(':') {
        Some(ports) => Some(Ports::read(ports, options)?),
        None if after.is_empty() => None,
        None => return Err("invalid host"),
    };
    if inside.is_empty() {
        return Err("no host");
    }
    let ip: Ipv6Addr = inside.parse().map_err(|_| "invalid IPv6 address")?;
    let range = Ports::range(ports.as_ref(), options);
    Ok(Url {
        host: format!("[{inside}]"),
        port: range.0,
        no_port: ports.is_none(),
        port_text: ports.map(|ports| ports.text).unwrap_or_default(),
        unix: false,
        uri: uri.to_owned(),
        addrs: each_port(ip.into(), range),
    })
}

fn inet_url(text: &str, options: UrlOptions) -> Result<Url, &'static str> {
    let (authority, uri) = split_uri(text, text.find(['/', '?']), options)?;
    let (host, ports) = match authority.split_once(':') {
        Some((host, ports)) => (host, Some(Ports::read(ports, options)?)),
        None if options.listen => match Ports::alone(authority)? {
            Some(ports) => ("", Some(ports)),
            None => (authority, None),
        },
        None => (authority, None),
    };
    let range = Ports::range(ports.as_ref(), options);
    let port_alone = host.is_empty() && !authority.contains(':') && ports.is_some();
    if host.is_empty() && !port_alone {
        return Err("no host");
    }
    let addrs = if port_alone || (options.listen && host == "*") {
        each_port(Ipv4Addr::UNSPECIFIED.into(), range)
    } else if let Ok(ip) = host.parse::<Ipv4Addr>() {
        each_port(ip.into(), range)
    } else if options.no_resolve {
        Vec::new()
    } else {
        let mut addrs: Vec<Addr> = Vec::new();
        for ip in resolve(host)? {
            addrs.extend(each_port(ip, range));
        }
        addrs
    };
    Ok(Url {
        host: host.to_owned(),
        port: range.0,
        no_port: ports.is_none(),
        port_text: ports.map(|ports| ports.text).unwrap_or_default(),
        unix: false,
        uri: uri.to_owned(),
        addrs,
    })
}

fn split_uri(
    text: &str,
    at: Option<usize>,
    options: UrlOptions,
) -> Result<(&str, &str), &'static str> {
    match at {
        None => Ok((text, "")),
        Some(_) if options.listen || !options.uri_part => Err("invalid host"),
        Some(at) => Ok(text.split_at(at)),
    }
}

/// The addresses of a name; duplicates stay, as the system gives them. Those of a family that no interface has are left
/// out (`AI_ADDRCONFIG`).
fn resolve(host: &str) -> Result<Vec<IpAddr>, &'static str> {
    let found = (host, 0).to_socket_addrs().map_err(|_| "host not found")?;
    let (v4, v6) = families();
    let addrs: Vec<IpAddr> = found
        .map(|addr| addr.ip())
        .filter(|ip| v4 == v6 || ip.is_ipv4() == v4)
        .collect();
    if addrs.is_empty() {
        return Err("host not found");
    }
    Ok(addrs)
}

/// Whether any interface has an IPv4 and an IPv6 address that is no loopback address.
fn families() -> (bool, bool) {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else {
        return (true, true);
    };
    let (mut v4, mut v6) = (false, false);
    for address in interfaces.filter_map(|interface| interface.address) {
        v4 |= address
            .as_sockaddr_in()
            .is_some_and(|address| !address.ip().is_loopback());
        v6 |= address
            .as_sockaddr_in6()
            .is_some_and(|address| !address.ip().is_loopback());
    }
    (v4, v6)
}

fn each_port(ip: IpAddr, (first, last): (u16, u16)) -> Vec<Addr> {
    (first..=last)
        .map(|port| Addr::Inet(SocketAddr::new(ip, port)))
        .collect()
}

/// A port or, for `listen`, a range of them.
struct Ports {
    first: u16,
    last: u16,
    text: String,
}

impl Ports {
    fn read(text: &str, options: UrlOptions) -> Result<Self, &'static str> {
        let (first, last) = match text.split_once('-') {
            Some((first, last)) if options.listen => {
                let last = port(last).ok_or("invalid port")?;
                (port(first).ok_or("invalid port")?, last)
            }
            _ => {
                let port = port(text).ok_or("invalid port")?;
                (port, port)
            }
        };
        if first > last {
            return Err("invalid port range");
        }
        Ok(Self {
            first,
            last,
            text: text.to_owned(),
        })
    }

    /// A whole address that is a port or a range: None when it is something else, such as a name.
    fn alone(text: &str) -> Result<Option<Self>, &'static str> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        if number(first.as_bytes()).is_none() || number(last.as_bytes()).is_none() {
            return Ok(None);
        }
        let options = UrlOptions {
            listen: true,
            ..UrlOptions::default()
        };
        Self::read(text, options).map(Some)
    }

    fn range(ports: Option<&Self>, options: UrlOptions) -> (u16, u16) {
        ports.map_or((options.default_port, options.default_port), |ports| {
            (ports.first, ports.last)
        })
    }
}

fn port(text: &str) -> Option<u16> {
    number(text.as_bytes())
        .and_then(|port| u16::try_from(port).ok())
        .filter(|port| *port > 0)
}

/// `address`, `address:port`, `[v6]` or `[v6]:port`, numbers only (`ngx_parse_addr_port`); port 0 when there is none.
pub(crate) fn parse_addr_port(text: &str) -> Option<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, 0));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let ip: Ipv6Addr = inside.parse().ok()?;
        let port = match after {
            "" => 0,
            _ => port(after.strip_prefix(':')?)?,
        };
        return Some(SocketAddr::new(ip.into(), port));
    }
    let (ip, text) = text.split_once(':')?;
    Some(SocketAddr::new(ip.parse().ok()?, port(text)?))
}

/// `sizeof(sun_path)`
const UNIX_PATH_MAX: usize = 108;

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str, options: UrlOptions) -> Result<Url, &'static str> {
        parse_url(text, options)
    }

    fn shown(text: &str, options: UrlOptions) -> String {
        match url(text, options) {
            Ok(url) => url
                .addrs
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" "),
            Err(message) => message.to_owned(),
        }
    }

    #[test]
    fn listen() {
        let options = UrlOptions {
            default_port: 80,
            listen: true,
            ..UrlOptions::default()
        };
        for (text, expected) in [
            ("8080", "0.0.0.0:8080"),
            ("8080-8081", "0.0.0.0:8080 0.0.0.0:8081"),
            ("*", "0.0.0.0:80"),
            ("*:81", "0.0.0.0:81"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("127.0.0.1:1-2", "127.0.0.1:1 127.0.0.1:2"),
            ("[::]:80", "[::]:80"),
            ("[::1]", "[::1]:80"),
            ("unix:/a/b", "unix:/a/b"),
            ("unix:", "no path in the unix domain socket"),
            ("0", "invalid port"),
            ("65536", "invalid port"),
            ("10-5", "invalid port range"),
            ("127.0.0.1:0", "invalid port"),
            ("127.0.0.1:x", "invalid port"),
            ("127.0.0.1:80/x", "invalid host"),
            (":80", "no host"),
            ("", "no host"),
            ("[::1", "invalid host"),
            ("[::1]80", "invalid host"),
            ("[]:80", "no host"),
            ("[zz]:80", "invalid IPv6 address"),
        ] {
            assert_eq!(shown(text, options), expected, "{text}");
        }
    }

    #[test]
    fn proxied() {
        let options = UrlOptions {
            default_port: 80,
            uri_part: true,
            no_resolve: true,
            ..UrlOptions::default()
        };
        let read = url("a.example:8080/x?y", options).unwrap();
        assert_eq!((read.host.as_str(), read.port), ("a.example", 8080));
        assert_eq!(
            (read.port_text.as_str(), read.uri.as_str()),
            ("8080", "/x?y")
        );
        let read = url("u?x:1", options).unwrap();
        assert_eq!(
            (read.host.as_str(), read.no_port, read.uri.as_str()),
            ("u", true, "?x:1")
        );
        let read = url("unix:/a:/b", options).unwrap();
        assert_eq!((read.host.as_str(), read.uri.as_str()), ("/a", "/b"));
        let read = url("[::1]:1/z", options).unwrap();
        assert_eq!((read.host.as_str(), read.uri.as_str()), ("[::1]", "/z"));
        assert_eq!(url("a:/x", options), Err("invalid port"));
        assert_eq!(url("/x", options), Err("no host"));
        let plain = UrlOptions {
            no_resolve: true,
            ..UrlOptions::default()
        };
        assert_eq!(url("a/x", plain), Err("invalid host"));
    }

    #[test]
    fn addresses_with_ports() {
        assert_eq!(parse_addr_port("1.2.3.4"), "1.2.3.4:0".parse().ok());
        assert_eq!(parse_addr_port("1.2.3.4:5"), "1.2.3.4:5".parse().ok());
        assert_eq!(parse_addr_port("[::1]:5"), "[::1]:5".parse().ok());
        assert_eq!(parse_addr_port("::1"), "[::1]:0".parse().ok());
        assert_eq!(parse_addr_port("1.2.3.4:0"), None);
        assert_eq!(parse_addr_port("a:5"), None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[a-c0-9.:/?*\\[\\]-]{0,20}|unix:[a-z:/]{0,9}", listen: bool) {
            let options = UrlOptions { listen, uri_part: !listen, no_resolve: true, default_port: 80 };
            drop(parse_url(&text, options));
            parse_addr_port(&text);
        }
    }
}
