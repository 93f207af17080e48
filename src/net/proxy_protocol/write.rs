//! The PROXY protocol in front of a connection of ours: who the client is, said to the next one.
//!
//! Mirrors `ngx_proxy_protocol_write` and `ngx_proxy_protocol_v2_write` (`core/ngx_proxy_protocol.c`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::SIGNATURE;
use crate::common::{addr::Addr, hash::crc32c};

/// The header of version 1 for `client`, who connected to `local`.
pub fn version1(client: &Addr, local: &Addr) -> Vec<u8> {
    let Addr::Inet(source) = client else {
        return b"PROXY UNKNOWN\r\n".to_vec();
    };
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (server, server_port) = match local {
        Addr::Inet(addr) => (addr.ip().to_string(), addr.port()),
        Addr::Unix(_) => (local.to_string(), 0),
    };
    let (ip, port) = (source.ip(), source.port());
    format!("PROXY {family} {ip} {server} {port} {server_port}\r\n").into_bytes()
}

/// The header of version 2 for `client`, who connected to `local`; `datagrams` instead of a stream. It has a checksum.
pub fn version2(client: &Addr, local: &Addr, datagrams: bool) -> Vec<u8> {
    let transport = if datagrams { 2 } else { 1 };
    let (command, family, addresses) = match (client, local) {
        (Addr::Inet(client), Addr::Inet(local)) => {
            let (family, addresses) = inet(client, local);
            (PROXY, family | transport, addresses)
        }
        _ => (LOCAL, UNSPEC, Vec::new()),
    };
    let length = u16::try_from(addresses.len() + CHECKSUM.len() + 4).unwrap_or(u16::MAX);
    let mut header = SIGNATURE.to_vec();
    header.extend_from_slice(&[VERSION | command, family]);
    header.extend_from_slice(&length.to_be_bytes());
    header.extend_from_slice(&addresses);
    header.extend_from_slice(&CHECKSUM);
    // The sum is that of the header with nothing in its place.
    let sum = crc32c(&[&*header, &[0; 4]].concat());
    header.extend_from_slice(&sum.to_be_bytes());
    header
}

/// Family and addresses of two ends; the longer family is that of both.
fn inet(client: &SocketAddr, local: &SocketAddr) -> (u8, Vec<u8>) {
    let (family, mut addresses) =
        if let (Some(source), Some(server)) = (short(client), short(local)) {
            (INET, [source, server].concat())
        } else {
            let octets = [long(client).octets(), long(local).octets()];
            (INET6, octets.concat())
        };
    addresses.extend_from_slice(&client.port().to_be_bytes());
    addresses.extend_from_slice(&local.port().to_be_bytes());
    (family, addresses)
}

/// The address in four bytes, where it has that few.
fn short(addr: &SocketAddr) -> Option<[u8; 4]> {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => Some(ip.octets()),
        IpAddr::V6(_) => None,
    }
}

fn long(addr: &SocketAddr) -> Ipv6Addr {
    match addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

const VERSION: u8 = 0x20;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;
const UNSPEC: u8 = 0;
const INET: u8 = 0x10;
const INET6: u8 = 0x20;
/// Kind and length of the checksum (`PP2_TYPE_CRC32C`).
const CHECKSUM: [u8; 3] = [3, 0, 4];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::proxy_protocol::read;

    fn addr(text: &str) -> Addr {
        Addr::Inet(text.parse().unwrap())
    }

    #[test]
    fn what_is_written_can_be_read() {
        let unix = Addr::Unix(std::path::Path::new("/x").into());
        for (client, local, seen) in [
            ("192.0.2.1:123", "192.0.2.2:5678", "192.0.2.1 192.0.2.2"),
            ("[2001:db8::1]:1", "[::2]:2", "2001:db8::1 ::2"),
        ] {
            let (client, local) = (addr(client), addr(local));
            for bytes in [version1(&client, &local), version2(&client, &local, false)] {
                let (length, header) = read(&bytes).unwrap();
                let header = header.unwrap();
                assert_eq!(length, bytes.len());
                assert_eq!(format!("{} {}", header.source, header.server), seen);
                assert_eq!(Some(header.source_port), client.port());
                assert_eq!(Some(header.server_port), local.port());
            }
        }
        assert_eq!(version1(&unix, &unix), b"PROXY UNKNOWN\r\n");
        let local = version2(&unix, &addr("1.1.1.1:1"), false);
        assert_eq!(local.get(12..16), Some(&[0x20, 0, 0, 7][..]));
        assert_eq!(read(&local), Ok((23, None)));
    }

    #[test]
    fn families_meet_in_the_longer_one() {
        let mixed = version2(&addr("1.2.3.4:5"), &addr("[::1]:6"), false);
        assert_eq!(mixed.get(12..16), Some(&[0x21, 0x21, 0, 43][..]));
        assert_eq!(mixed.get(26..32), Some(&[0xff, 0xff, 1, 2, 3, 4][..]));
        let mapped = version2(
            &addr("[::ffff:1.2.3.4]:5"),
            &addr("[::ffff:1.1.1.1]:6"),
            true,
        );
        assert_eq!(
            mapped.get(12..20),
            Some(&[0x21, 0x12, 0, 19, 1, 2, 3, 4][..])
        );
    }
}
