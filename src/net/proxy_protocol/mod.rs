//! The PROXY protocol in front of a connection: who the client is, said by a proxy before us.
//!
//! Bytes only. Mirrors the reading part of `core/ngx_proxy_protocol.c`: both versions, the messages, and what is taken for
//! granted: the header comes in one piece.

#![warn(clippy::indexing_slicing)]

pub mod write;

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

use nom::{
    IResult, Parser,
    bytes::complete::{tag, take, take_till, take_until, take_while},
    character::complete::one_of,
    combinator::map_opt,
    multi::length_data,
    number::complete::{be_u16, be_u32, be_u128, u8},
    sequence::terminated,
};

/// What a header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Address of the client, as it was written in version 1.
    pub source: Box<str>,
    /// Its port.
    pub source_port: u16,
    /// Address that it connected to.
    pub server: Box<str>,
    /// Its port.
    pub server_port: u16,
    /// Further facts (version 2), as they came.
    facts: Box<[u8]>,
}

/// Why a header cannot be read. The display is nginx's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// No header, or a malformed one; holds its first line.
    Broken(Vec<u8>),
    /// A version that nobody knows.
    Version(u8),
    /// Longer than what has come.
    TooLarge,
    /// Too short for its addresses; nginx says nothing.
    Silent,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(line) => {
                write!(f, "broken header: \"{}\"", String::from_utf8_lossy(line))
            }
            Self::Version(version) => write!(f, "unknown PROXY protocol version: {version}"),
            Self::TooLarge => f.write_str("header is too large"),
            Self::Silent => Ok(()),
        }
    }
}

/// Reads the header in front of `bytes`: its length, and what it says when it speaks of a TCP client.
pub fn read(bytes: &[u8]) -> Result<(usize, Option<Header>), HeaderError> {
    let parsed = if bytes.len() >= 16 && bytes.starts_with(SIGNATURE) {
        version2(bytes)
    } else {
        version1(bytes).map_err(|_| {
            let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next();
            HeaderError::Broken(line.unwrap_or_default().to_vec())
        })
    };
    parsed.map(|(rest, header)| (bytes.len() - rest.len(), header))
}

type Read<'a, T> = IResult<&'a [u8], T, ()>;

fn version1(bytes: &[u8]) -> Read<'_, Option<Header>> {
    let (rest, _) = tag("PROXY ").parse(bytes)?;
    if rest.starts_with(b"UNKNOWN") {
        let (rest, _) = (take_until("\r\n"), tag("\r\n")).parse(rest)?;
        return Ok((rest, None));
    }
    let (rest, _) = (tag("TCP"), one_of("46"), tag(" ")).parse(rest)?;
    let (rest, (source, server, source_port, server_port)) =
        (address, address, port(b' '), port(b'\r')).parse(rest)?;
    let (rest, _) = tag("\n").parse(rest)?;
    let header = Header {
        source,
        source_port,
        server,
        server_port,
        facts: Box::default(),
    };
    Ok((rest, Some(header)))
}

fn address(bytes: &[u8]) -> Read<'_, Box<str>> {
    let allowed = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let text = map_opt(take_while(allowed), |text| std::str::from_utf8(text).ok());
    let (rest, text) = terminated(text, tag(" ")).parse(bytes)?;
    Ok((rest, text.into()))
}

/// A port and the byte after it.
fn port<'a>(end: u8) -> impl Parser<&'a [u8], Output = u16, Error = ()> {
    let digits = take_till(move |byte| byte == end);
    let number = |text: &[u8]| {
        let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
        text.parse().ok()
    };
    terminated(map_opt(digits, number), u8)
}

fn version2(bytes: &[u8]) -> Result<(&[u8], Option<Header>), HeaderError> {
    let too_large = |_: nom::Err<()>| HeaderError::TooLarge;
    let (rest, (_, version)) = (take(SIGNATURE.len()), u8)
        .parse(bytes)
        .map_err(too_large)?;
    if version >> 4 != 2 {
        return Err(HeaderError::Version(version >> 4));
    }
    let (rest, (family, body)) = (u8, length_data(be_u16)).parse(rest).map_err(too_large)?;
    // Only the command PROXY about a stream says anything.
    if version & 15 != 1 || family & 15 != 1 {
        return Ok((rest, None));
    }
    let addrs: Read<'_, (String, String)> = match family >> 4 {
        1 => (ipv4, ipv4).parse(body),
        2 => (ipv6, ipv6).parse(body),
        _ => return Ok((rest, None)),
    };
    let silent = |_: nom::Err<()>| HeaderError::Silent;
    let (body, (source, server)) = addrs.map_err(silent)?;
    let ports: Read<'_, (u16, u16)> = (be_u16, be_u16).parse(body);
    let (facts, (source_port, server_port)) = ports.map_err(silent)?;
    let header = Header {
        source: source.into(),
        source_port,
        server: server.into(),
        server_port,
        facts: facts.into(),
    };
    Ok((rest, Some(header)))
}

fn ipv4(bytes: &[u8]) -> Read<'_, String> {
    be_u32
        .map(|bits| Ipv4Addr::from(bits).to_string())
        .parse(bytes)
}

fn ipv6(bytes: &[u8]) -> Read<'_, String> {
    be_u128
        .map(|bits| Ipv6Addr::from(bits).to_string())
        .parse(bytes)
}

/// A fact that cannot be told. The display is nginx's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactError<'a> {
    /// No fact has this name.
    Unknown(&'a str),
    /// The number is none.
    Invalid(&'a str),
    /// The facts are malformed.
    Broken,
    /// What is said of TLS is too short; nginx says nothing.
    Silent,
}

impl fmt::Display for FactError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "unknown PROXY protocol TLV \"{name}\""),
            Self::Invalid(name) => write!(f, "invalid PROXY protocol TLV \"{name}\""),
            Self::Broken => f.write_str("broken PROXY protocol TLV"),
            Self::Silent => Ok(()),
        }
    }
}

impl Header {
    /// The fact that `$proxy_protocol_tlv_NAME` stands for; None when the proxy did not say it.
    pub fn fact<'n>(&self, name: &'n str) -> Result<Option<Vec<u8>>, FactError<'n>> {
        let Some(of_tls) = name.strip_prefix("ssl_") else {
            return look_up(&self.facts, number(name, name, &FACTS)?)
                .map(|found| found.map(<[u8]>::to_vec));
        };
        let Some(tls) = look_up(&self.facts, TLS)? else {
            return Ok(None);
        };
        let parts: Read<'_, (u8, u32)> = (u8, be_u32).parse(tls);
        let (facts, (_, verify)) = parts.map_err(|_| FactError::Silent)?;
        if of_tls == "verify" {
            return Ok(Some(verify.to_string().into_bytes()));
        }
        look_up(facts, number(name, of_tls, &TLS_FACTS)?).map(|found| found.map(<[u8]>::to_vec))
    }
}

/// The number of a fact: `0x..`, or one with a name.
fn number<'n>(name: &'n str, short: &str, known: &[(&str, u32)]) -> Result<u32, FactError<'n>> {
    if let Some(digits) = short.strip_prefix("0x") {
        let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        return u32::from_str_radix(digits, 16)
            .ok()
            .filter(|_| hex)
            .ok_or(FactError::Invalid(name));
    }
    known
        .iter()
        .find(|(own, _)| *own == short)
        .map(|(_, number)| *number)
        .ok_or(FactError::Unknown(name))
}

fn look_up(mut facts: &[u8], wanted: u32) -> Result<Option<&[u8]>, FactError<'static>> {
    while !facts.is_empty() {
        let fact: Read<'_, (u8, &[u8])> = (u8, length_data(be_u16)).parse(facts);
        let (rest, (kind, value)) = fact.map_err(|_| FactError::Broken)?;
        if u32::from(kind) == wanted {
            return Ok(Some(value));
        }
        facts = rest;
    }
    Ok(None)
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const TLS: u32 = 0x20;
const FACTS: [(&str, u32); 5] = [
    ("alpn", 1),
    ("authority", 2),
    ("unique_id", 5),
    ("ssl", TLS),
    ("netns", 0x30),
];
const TLS_FACTS: [(&str, u32); 5] = [
    ("version", 0x21),
    ("cn", 0x22),
    ("cipher", 0x23),
    ("sig_alg", 0x24),
    ("key_alg", 0x25),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(addrs: [&str; 2], ports: [u16; 2], facts: &[u8]) -> Header {
        Header {
            source: addrs[0].into(),
            source_port: ports[0],
            server: addrs[1].into(),
            server_port: ports[1],
            facts: facts.into(),
        }
    }

    #[test]
    fn version_1() {
        let line = b"PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\nGET";
        let expected = header(["192.0.2.1", "192.0.2.2"], [123, 5678], &[]);
        assert_eq!(read(line), Ok((41, Some(expected))));
        let line = b"PROXY TCP6 2001:Db8::1 ::2 1 65535\r\n";
        let expected = header(["2001:Db8::1", "::2"], [1, 65535], &[]);
        assert_eq!(read(line), Ok((36, Some(expected))));
        assert_eq!(read(b"PROXY UNKNOWN\r\nx"), Ok((15, None)));
        assert_eq!(read(b"PROXY UNKNOWN 1 2 3\r\n"), Ok((21, None)));
    }

    #[test]
    fn broken_version_1() {
        for line in [
            "GET / HTTP/1.0",
            "PROXY",
            "PROXY TCP5 1.1.1.1 1.1.1.1 1 1",
            "PROXY TCP4 host 1.1.1.1 1 1",
            "PROXY TCP4 1.1.1.1 1.1.1.1 1 65536",
            "PROXY TCP4 1.1.1.1 1.1.1.1 -1 1",
            "PROXY TCP4 1.1.1.1 1.1.1.1 1 ",
            "PROXY TCP4 1.1.1.1 1.1.1.1 1",
        ] {
            let error = read(format!("{line}\r\n").as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), format!("broken header: \"{line}\""));
        }
        assert!(read(b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r").is_err());
    }

    fn version_2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut out = SIGNATURE.to_vec();
        out.extend_from_slice(&[command, family]);
        out.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn version_2_with_facts() {
        let facts = b"\x01\0\x02h2\x20\0\x0d\x01\0\0\0\xff\x22\0\x05a.com";
        let body = [&[192, 0, 2, 1, 192, 0, 2, 2, 0, 123, 22, 46], &facts[..]].concat();
        let bytes = version_2(0x21, 0x11, &body);
        let expected = header(["192.0.2.1", "192.0.2.2"], [123, 5678], facts);
        assert_eq!(read(&bytes), Ok((bytes.len(), Some(expected.clone()))));
        for (name, value) in [
            ("alpn", Some(&b"h2"[..])),
            ("0x1", Some(b"h2")),
            ("0x0001", Some(b"h2")),
            ("ssl_verify", Some(b"255")),
            ("ssl_cn", Some(b"a.com")),
            ("ssl_0x22", Some(b"a.com")),
            ("ssl_version", None),
            ("netns", None),
        ] {
            assert_eq!(expected.fact(name), Ok(value.map(<[u8]>::to_vec)), "{name}");
        }
        let words = |name| expected.fact(name).unwrap_err().to_string();
        assert_eq!(words("x"), "unknown PROXY protocol TLV \"x\"");
        assert_eq!(words("0xg"), "invalid PROXY protocol TLV \"0xg\"");
        let broken = header(["", ""], [0, 0], b"\x02\0\x09x");
        let error = broken.fact("alpn").unwrap_err();
        assert_eq!(error.to_string(), "broken PROXY protocol TLV");
    }

    #[test]
    fn version_2_without_a_client() {
        for (command, family) in [(0x20, 0x11), (0x21, 0x12), (0x21, 0x31), (0x21, 0)] {
            let bytes = version_2(command, family, &[0; 20]);
            assert_eq!(read(&bytes), Ok((36, None)));
        }
        let error = read(&version_2(0x31, 0x11, &[0; 12])).unwrap_err();
        assert_eq!(error.to_string(), "unknown PROXY protocol version: 3");
        assert_eq!(
            read(&version_2(0x21, 0x21, &[0; 35])),
            Err(HeaderError::Silent)
        );
        let mut bytes = version_2(0x21, 0x11, &[0; 12]);
        bytes.pop();
        assert_eq!(read(&bytes), Err(HeaderError::TooLarge));
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_no_harm(
            bytes: Vec<u8>,
            start in prop::sample::select(vec![
                &b""[..],
                b"PROXY TCP4 ",
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0",
            ]),
        ) {
            let bytes = [start, &bytes].concat();
            if let Ok((len, header)) = read(&bytes) {
                prop_assert!(len <= bytes.len());
                for name in ["alpn", "ssl_cn", "ssl_verify"] {
                    let _ = header.as_ref().map(|header| header.fact(name));
                }
            }
        }
    }
}
