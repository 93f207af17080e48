//! `set_real_ip_from`, `real_ip_header`, `real_ip_recursive`. Mirrors `ngx_http_realip_module.c`.

use super::exchange::Exchange;
use crate::{
    common::{addr::Addr, forwarded},
    conf::model::{Realip, RealipHeader},
    net::client::Client,
};

/// Puts the client that a trusted proxy names in place of the proxy; once per request.
pub(super) fn apply(x: &mut Exchange<'_>) {
    let conf = &x.location.realip;
    if x.realip_done || (conf.from.is_empty() && !conf.from_unix) {
        return;
    }
    let name = match &conf.header {
        RealipHeader::XRealIp => "x_real_ip".to_owned(),
        RealipHeader::XForwardedFor => "x_forwarded_for".to_owned(),
        RealipHeader::Name(name) => name.replace('-', "_"),
        RealipHeader::ProxyProtocol => return by_proxy_protocol(x),
    };
    let mut value = Vec::new();
    if !x.request.headers.join_variable(&name, b", ", &mut value) {
        return;
    }
    // Only X-Forwarded-For and headers by name are lists; X-Real-IP is one address.
    if let Some(addr) = client(&x.client.addr, &value, conf) {
        x.realip_done = true;
        x.client = Client::of(&addr);
    }
}

/// `real_ip_header proxy_protocol`
fn by_proxy_protocol(x: &mut Exchange<'_>) {
    let Some(header) = &x.conn.proxied else {
        return;
    };
    let found = client(&x.client.addr, header.source.as_bytes(), &x.location.realip);
    if let Some(Addr::Inet(mut addr)) = found {
        addr.set_port(header.source_port);
        x.realip_done = true;
        x.client = Client::of(&Addr::Inet(addr));
    }
}

/// The client's address out of a list of proxies, seen from `addr`; None when `addr` is not trusted or nothing is said.
fn client(addr: &Addr, list: &[u8], conf: &Realip) -> Option<Addr> {
    forwarded::client(addr, list, conf.recursive, |addr| conf.trusts(addr))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(recursive: bool) -> Realip {
        Realip {
            from: vec!["10.0.0.0/8".parse().unwrap()],
            from_unix: true,
            header: RealipHeader::XForwardedFor,
            recursive,
        }
    }

    fn find(from: &str, list: &str, recursive: bool) -> Option<String> {
        let addr = Addr::Inet(format!("{from}:1").parse().unwrap());
        client(&addr, list.as_bytes(), &conf(recursive)).map(|a| a.to_string())
    }

    #[test]
    fn proxies_name_clients() {
        assert_eq!(
            find("10.0.0.1", "1.1.1.1, 10.0.0.2", false).as_deref(),
            Some("10.0.0.2:0")
        );
        assert_eq!(
            find("10.0.0.1", "1.1.1.1, 10.0.0.2", true).as_deref(),
            Some("1.1.1.1:0")
        );
        assert_eq!(
            find("10.0.0.1", "2.2.2.2, 1.1.1.1, 10.0.0.2", true).as_deref(),
            Some("1.1.1.1:0")
        );
        assert_eq!(find("9.0.0.1", "1.1.1.1", true), None);
        assert_eq!(find("10.0.0.1", "junk", true), None);
        assert_eq!(
            find("10.0.0.1", "[::1]:80", false).as_deref(),
            Some("[::1]:80")
        );
    }
}
