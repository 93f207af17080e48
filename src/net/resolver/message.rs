//! DNS messages: queries for addresses, and as much of responses as answers those.
//!
//! Bytes only. Authority and additional records are not looked at, a malformed one does no harm. The messages of
//! [`BadMessage`] are those of `ngx_resolver_process_response` and `ngx_resolver_process_a` (`core/ngx_resolver.c`).

#![warn(clippy::indexing_slicing)]

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use nom::{
    IResult, Parser,
    multi::length_data,
    number::complete::{be_u16, be_u32, u8},
};

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// IPv4.
    A,
    /// IPv6.
    Aaaa,
}

impl Kind {
    /// Both, in the order in which their addresses are used.
    pub(super) const ALL: [Self; 2] = [Self::A, Self::Aaaa];

    fn number(self) -> u16 {
        match self {
            Self::A => TYPE_A,
            Self::Aaaa => TYPE_AAAA,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
        })
    }
}

/// The query for `name`; None when that cannot be asked for.
pub(super) fn query(id: u16, name: &[u8], kind: Kind) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(HEADER + name.len() + 6);
    // Flags: recursion desired. One question.
    for field in [id, 0x0100, 1, 0, 0, 0] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    for label in name.split(|byte| *byte == b'.') {
        let len = u8::try_from(label.len()).ok()?;
        if !(1..=MAX_LABEL).contains(&len) {
            return None;
        }
        out.push(len);
        out.extend_from_slice(label);
    }
    out.push(0);
    out.extend_from_slice(&kind.number().to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    Some(out)
}

/// A response, read as far as the end of its question.
#[derive(Debug)]
pub(super) struct Response<'a> {
    /// The query's number.
    pub(super) id: u16,
    /// The rest is to be had over TCP.
    pub(super) truncated: bool,
    /// 0 is success.
    pub(super) code: u8,
    /// What was asked for, in lower case.
    pub(super) name: Vec<u8>,
    /// Which addresses were asked for.
    pub(super) kind: Kind,
    /// Number of answers.
    pub(super) count: u16,
    packet: &'a [u8],
    rest: &'a [u8],
}

/// What the answers say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answers {
    /// Addresses, in order.
    pub(super) addrs: Vec<IpAddr>,
    /// The last CNAME, in lower case.
    pub(super) alias: Option<Vec<u8>>,
    /// Seconds that all of it is valid for.
    pub(super) ttl: u32,
    /// Types of records that do not belong here.
    pub(super) strange: Vec<u16>,
}

/// Why a message is not used. The display is nginx's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadMessage {
    Short,
    NotResponse { tcp: bool, id: u16, flags: u16 },
    Error { code: u8, id: u16 },
    Questions,
    Pointer,
    NoName,
    QueryClass(u16),
    QueryType(u16),
    LabelType,
    NameOut,
    NameLoop,
    Name,
    RecordClass(u16),
    Unexpected(Kind),
    Invalid(Kind),
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("short DNS response"),
            Self::NotResponse { tcp, id, flags } => {
                let over = if *tcp { "TCP" } else { "UDP" };
                write!(f, "invalid {over} DNS response {id} fl:{flags:04X}")
            }
            Self::Error { code, id } => {
                write!(f, "DNS error ({code}: {}), query id:{id}", code_text(*code))
            }
            Self::Questions => f.write_str("invalid number of questions in DNS response"),
            Self::Pointer => f.write_str("unexpected compression pointer in DNS response"),
            Self::NoName => f.write_str("zero-length domain name in DNS response"),
            Self::QueryClass(class) => write!(f, "unknown query class {class} in DNS response"),
            Self::QueryType(kind) => write!(f, "unknown query type {kind} in DNS response"),
            Self::LabelType => f.write_str("invalid label type in DNS response"),
            Self::NameOut => f.write_str("name is out of DNS response"),
            Self::NameLoop => f.write_str("compression pointers loop in DNS response"),
            Self::Name => f.write_str("invalid name in DNS response"),
            Self::RecordClass(class) => {
                write!(f, "unexpected RR class {class} in DNS response")
            }
            Self::Unexpected(kind) => write!(f, "unexpected {kind} record in DNS response"),
            Self::Invalid(kind) => write!(f, "invalid {kind} record in DNS response"),
        }
    }
}

/// What a response's code means, in nginx's words.
pub(super) fn code_text(code: u8) -> &'static str {
    match code {
        FORMAT_ERROR => "Format error",
        2 => "Server failure",
        HOST_NOT_FOUND => "Host not found",
        4 => "Unimplemented",
        REFUSED => "Operation refused",
        _ => "Unknown error",
    }
}

impl<'a> Response<'a> {
    /// Reads a message up to its answers.
    pub(super) fn parse(packet: &'a [u8], tcp: bool) -> Result<Self, BadMessage> {
        let (rest, (id, flags, questions, count, ..)) =
            short((be_u16, be_u16, be_u16, be_u16, be_u16, be_u16).parse(packet))?;
        let truncated = flags & TRUNCATED != 0;
        // A response to a standard query, with no reserved bit set.
        if flags & 0xf870 != 0x8000 || truncated && tcp {
            return Err(BadMessage::NotResponse { tcp, id, flags });
        }
        let code = (flags & 0xf) as u8;
        if code == FORMAT_ERROR || code > REFUSED {
            return Err(BadMessage::Error { code, id });
        }
        if questions != 1 {
            return Err(BadMessage::Questions);
        }
        let (rest, name) = question(rest)?;
        let (rest, (kind, class)) = short((be_u16, be_u16).parse(rest))?;
        if rest.len() < usize::from(count) * 12 {
            return Err(BadMessage::Short);
        }
        if class != CLASS_IN {
            return Err(BadMessage::QueryClass(class));
        }
        let kind = match kind {
            TYPE_A => Kind::A,
            TYPE_AAAA => Kind::Aaaa,
            other => return Err(BadMessage::QueryType(other)),
        };
        Ok(Self {
            id,
            truncated,
            code,
            name,
            kind,
            count,
            packet,
            rest,
        })
    }

    /// Reads the answers.
    pub(super) fn answers(&self) -> Result<Answers, BadMessage> {
        let mut answers = Answers {
            addrs: Vec::new(),
            alias: None,
            ttl: u32::MAX,
            strange: Vec::new(),
        };
        let mut alias = None;
        let mut rest = self.rest;
        for _ in 0..self.count {
            let (after, ()) = skip_name(rest)?;
            if after.len() <= 10 {
                return Err(BadMessage::Short);
            }
            let (after, (kind, class, ttl, data)) =
                short((be_u16, be_u16, be_u32, length_data(be_u16)).parse(after))?;
            rest = after;
            if class != CLASS_IN {
                return Err(BadMessage::RecordClass(class));
            }
            answers.ttl = answers.ttl.min(if ttl > i32::MAX as u32 { 0 } else { ttl });
            match kind {
                TYPE_A => answers.addrs.push(self.address(Kind::A, data)?),
                TYPE_AAAA => answers.addrs.push(self.address(Kind::Aaaa, data)?),
                TYPE_CNAME => alias = Some(data),
                TYPE_DNAME => {}
                other => answers.strange.push(other),
            }
        }
        if answers.addrs.is_empty() {
            answers.alias = alias.map(|at| self.name_at(at)).transpose()?;
        }
        Ok(answers)
    }

    fn address(&self, kind: Kind, data: &[u8]) -> Result<IpAddr, BadMessage> {
        if kind != self.kind {
            return Err(BadMessage::Unexpected(kind));
        }
        match kind {
            Kind::A => <[u8; 4]>::try_from(data).map(IpAddr::from).ok(),
            Kind::Aaaa => <[u8; 16]>::try_from(data)
                .map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))
                .ok(),
        }
        .ok_or(BadMessage::Invalid(kind))
    }

    /// The name that begins with `labels`, following compression pointers.
    fn name_at(&self, mut labels: &'a [u8]) -> Result<Vec<u8>, BadMessage> {
        let mut name = Vec::new();
        // A name of 255 bytes has fewer parts: more of them are a loop.
        for _ in 0..128 {
            let out = |_: nom::Err<()>| BadMessage::NameOut;
            let (rest, len) = u8::<_, ()>(labels).map_err(out)?;
            match len & POINTER {
                0 if len == 0 => {
                    name.pop();
                    return Ok(name);
                }
                0 => {
                    let (label, rest) = rest
                        .split_at_checked(len.into())
                        .ok_or(BadMessage::NameOut)?;
                    push_label(&mut name, label);
                    labels = rest;
                }
                POINTER => {
                    let (_, low) = u8::<_, ()>(rest).map_err(out)?;
                    let at = usize::from(len & !POINTER) << 8 | usize::from(low);
                    labels = self.packet.get(at..).ok_or(BadMessage::NameOut)?;
                }
                _ => return Err(BadMessage::LabelType),
            }
        }
        Err(BadMessage::NameLoop)
    }
}

/// The name that was asked for: it must be written out.
fn question(mut rest: &[u8]) -> Result<(&[u8], Vec<u8>), BadMessage> {
    let mut name = Vec::new();
    loop {
        let (after, len) = short(u8(rest))?;
        if len & POINTER != 0 {
            return Err(BadMessage::Pointer);
        }
        if len == 0 {
            if name.pop().is_none() {
                return Err(BadMessage::NoName);
            }
            return Ok((after, name));
        }
        let (label, after) = after
            .split_at_checked(len.into())
            .ok_or(BadMessage::Short)?;
        push_label(&mut name, label);
        rest = after;
    }
}

fn push_label(name: &mut Vec<u8>, label: &[u8]) {
    name.extend(label.iter().map(u8::to_ascii_lowercase));
    name.push(b'.');
}

/// Skips the name in front of a record.
fn skip_name(start: &[u8]) -> Result<(&[u8], ()), BadMessage> {
    let mut rest = start;
    loop {
        let (after, len) = short(u8(rest))?;
        let skip = match len {
            0 if start.len() - after.len() < 2 => return Err(BadMessage::Name),
            0 => return Ok((after, ())),
            _ if len & POINTER != 0 => {
                return match after.get(1..) {
                    Some(after) => Ok((after, ())),
                    None => Err(BadMessage::Short),
                };
            }
            len => usize::from(len),
        };
        rest = after.get(skip..).ok_or(BadMessage::Short)?;
    }
}

fn short<T>(read: IResult<&[u8], T, ()>) -> Result<(&[u8], T), BadMessage> {
    read.map_err(|_| BadMessage::Short)
}

const HEADER: usize = 12;
const MAX_LABEL: u8 = 63;
const POINTER: u8 = 0xc0;
const TRUNCATED: u16 = 0x0200;
const CLASS_IN: u16 = 1;
const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = 28;
const TYPE_DNAME: u16 = 39;
const FORMAT_ERROR: u8 = 1;
const REFUSED: u8 = 5;
/// The code of a name that does not exist.
pub(super) const HOST_NOT_FOUND: u8 = 3;
