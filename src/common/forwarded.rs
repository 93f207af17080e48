//! The client behind trusted proxies, out of a list such as `X-Forwarded-For`.
//!
//! Mirrors `ngx_http_get_forwarded_addr`.

use std::net::{IpAddr, SocketAddr};

use super::addr::Addr;

/// Walks `list`, from its end, for as long as the last address is trusted: one step, or with `recursive` up to the first
/// address that is not. None when `addr` itself is not trusted or the list says nothing.
pub fn client(
    addr: &Addr,
    list: &[u8],
    recursive: bool,
    is_trusted: impl Fn(&Addr) -> bool,
) -> Option<Addr> {
    let mut found: Option<Addr> = None;
    let texts = list.split(|c| matches!(c, b',' | b' ')).rev();
    for text in texts.filter(|text| !text.is_empty()) {
        if !is_trusted(found.as_ref().unwrap_or(addr)) {
            break;
        }
        let Some(next) = parse(text) else {
            break;
        };
        found = Some(next);
        if !recursive {
            break;
        }
    }
    found
}

/// An IP address with or without a port; IPv6 ones with a port are in brackets.
pub fn parse(text: &[u8]) -> Option<Addr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(Addr::Inet(SocketAddr::new(ip, 0)));
    }
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Some(Addr::Inet(addr));
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let ip = inner.parse().ok()?;
    Some(Addr::Inet(SocketAddr::new(IpAddr::V6(ip), 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(from: &str, list: &str, recursive: bool) -> Option<String> {
        let addr = parse(from.as_bytes()).unwrap();
        let trusted = |addr: &Addr| addr.to_string().starts_with("10.");
        client(&addr, list.as_bytes(), recursive, trusted).map(|addr| addr.to_string())
    }

    #[test]
    fn one_step_or_up_to_the_first_stranger() {
        for (from, list, recursive, expected) in [
            ("10.0.0.1", "1.1.1.1, 10.0.0.2", false, Some("10.0.0.2:0")),
            ("10.0.0.1", "1.1.1.1, 10.0.0.2", true, Some("1.1.1.1:0")),
            (
                "10.0.0.1",
                "2.2.2.2, 1.1.1.1,10.0.0.2 ",
                true,
                Some("1.1.1.1:0"),
            ),
            ("10.0.0.1", "junk, 10.0.0.3", true, Some("10.0.0.3:0")),
            ("9.0.0.1", "1.1.1.1", true, None),
            ("10.0.0.1", "junk", true, None),
            ("10.0.0.1", "", false, None),
            ("10.0.0.1", "[::1]:80", false, Some("[::1]:80")),
            ("10.0.0.1", "[::1]", false, Some("[::1]:0")),
            ("10.0.0.1", "1.2.3.4:5", false, Some("1.2.3.4:5")),
        ] {
            assert_eq!(
                find(from, list, recursive).as_deref(),
                expected,
                "{from} {list}"
            );
        }
    }
}
