//! One look-up of a name: its queries, and what their responses make of it.
//!
//! Pure. Mirrors `ngx_resolver_process_a` (`core/ngx_resolver.c`): both kinds of addresses are asked for at once, an error
//! of either is the result, and an alias counts when there are no addresses.

use std::{fmt, net::IpAddr};

use super::message::{self, Answers, HOST_NOT_FOUND, Kind, Response};

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Its addresses: IPv4, then IPv6.
    Addrs(Vec<IpAddr>),
    /// It stands for another name.
    Alias(Vec<u8>),
}

/// How a look-up ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Something was found, valid for so many seconds.
    Found(Found, u32),
    /// The servers say no, with this code.
    Failed(u8),
}

/// What is to be done after a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait for more.
    Wait,
    /// Ask again over TCP.
    OverTcp(Kind),
    /// It is over.
    End(Outcome),
}

/// One kind of addresses.
#[derive(Debug)]
enum Side {
    /// Asked for, not answered.
    Asked { id: u16, query: Vec<u8>, tcp: bool },
    /// Answered, or not asked for.
    Known(Vec<IpAddr>),
}

/// A look-up under way.
#[derive(Debug)]
pub(super) struct Lookup {
    name: Box<[u8]>,
    sides: [Side; 2],
    /// An error for the kind that was answered first.
    code: u8,
    ttl: u32,
}

impl Lookup {
    /// Begins one for a name in lower case, with the kinds that are not None, and random numbers for their queries. None
    /// when the name cannot be asked for.
    pub(super) fn new(name: &[u8], ids: [Option<u16>; 2]) -> Option<Self> {
        let side = |kind: Kind| match ids[kind as usize] {
            Some(id) => message::query(id, name, kind).map(|query| Side::Asked {
                id,
                query,
                tcp: false,
            }),
            None => Some(Side::Known(Vec::new())),
        };
        Some(Self {
            name: name.into(),
            sides: [side(Kind::A)?, side(Kind::Aaaa)?],
            code: 0,
            ttl: u32::MAX,
        })
    }

    /// The name.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The queries that were not answered yet, and whether they go over TCP.
    pub(super) fn queries(&self) -> impl Iterator<Item = (Kind, &[u8], bool)> {
        Kind::ALL
            .into_iter()
            .filter_map(|kind| match &self.sides[kind as usize] {
                Side::Asked { query, tcp, .. } => Some((kind, &**query, *tcp)),
                Side::Known(_) => None,
            })
    }

    /// Takes a message; what is wrong with it goes to `complain`.
    pub(super) fn take(
        &mut self,
        packet: &[u8],
        over_tcp: bool,
        complain: &dyn Fn(fmt::Arguments<'_>),
    ) -> Step {
        let response = match Response::parse(packet, over_tcp) {
            Ok(response) => response,
            Err(message::BadMessage::Error { code: 1, id }) if self.has_id(id) => {
                complain(format_args!(
                    "DNS error (1: Format error), query id:{id}, name:\"{}\"",
                    String::from_utf8_lossy(&self.name)
                ));
                return Step::Wait;
            }
            Err(error) => {
                complain(format_args!("{error}"));
                return Step::Wait;
            }
        };
        if !self.is_mine(&response, complain) {
            return Step::Wait;
        }
        if response.truncated {
            if let Side::Asked { tcp, .. } = &mut self.sides[response.kind as usize] {
                *tcp = true;
            }
            return Step::OverTcp(response.kind);
        }
        let code = if response.code == 0 {
            self.code
        } else {
            response.code
        };
        if code != 0 || response.count == 0 {
            return self.take_nothing(response.kind, code);
        }
        let answers = match response.answers() {
            Ok(answers) => answers,
            Err(error) => {
                complain(format_args!("{error}"));
                return Step::Wait;
            }
        };
        for kind in &answers.strange {
            complain(format_args!("unexpected RR type {kind} in DNS response"));
        }
        self.take_answers(response.kind, answers, complain)
    }

    fn has_id(&self, wanted: u16) -> bool {
        self.sides
            .iter()
            .any(|side| matches!(side, Side::Asked { id, .. } if *id == wanted))
    }

    /// Whether it answers an open question.
    fn is_mine(&self, response: &Response<'_>, complain: &dyn Fn(fmt::Arguments<'_>)) -> bool {
        let name = String::from_utf8_lossy(&response.name);
        match &self.sides[response.kind as usize] {
            Side::Asked { id, tcp, .. } if *response.name == *self.name => {
                if response.truncated && *tcp {
                    return false;
                }
                if *id != response.id {
                    complain(format_args!(
                        "wrong ident {} in DNS response for {name}, expect {id}",
                        response.id
                    ));
                    return false;
                }
                true
            }
            _ => {
                complain(format_args!("unexpected DNS response for {name}"));
                false
            }
        }
    }

    /// An error, or a name without addresses of that kind.
    fn take_nothing(&mut self, kind: Kind, code: u8) -> Step {
        self.sides[kind as usize] = Side::Known(Vec::new());
        if self.is_open() {
            self.code = code;
            return Step::Wait;
        }
        if code == 0
            && let Some(found) = self.addresses()
        {
            return self.found(found);
        }
        Step::End(Outcome::Failed(if code == 0 {
            HOST_NOT_FOUND
        } else {
            code
        }))
    }

    fn take_answers(
        &mut self,
        kind: Kind,
        answers: Answers,
        complain: &dyn Fn(fmt::Arguments<'_>),
    ) -> Step {
        self.ttl = self.ttl.min(answers.ttl);
        let none = answers.addrs.is_empty();
        self.sides[kind as usize] = Side::Known(answers.addrs);
        if none && answers.alias.is_none() {
            complain(format_args!("no A or CNAME types in DNS response"));
        }
        if self.is_open() {
            return Step::Wait;
        }
        match (self.addresses(), answers.alias) {
            (Some(found), _) => self.found(found),
            (None, Some(alias)) => self.found(Found::Alias(alias)),
            (None, None) => Step::Wait,
        }
    }

    fn is_open(&self) -> bool {
        self.queries().next().is_some()
    }

    fn addresses(&self) -> Option<Found> {
        let known = self.sides.iter().flat_map(|side| match side {
            Side::Known(addrs) => &**addrs,
            Side::Asked { .. } => &[],
        });
        let addrs: Vec<IpAddr> = known.copied().collect();
        (!addrs.is_empty()).then_some(Found::Addrs(addrs))
    }

    fn found(&self, found: Found) -> Step {
        Step::End(Outcome::Found(found, self.ttl))
    }
}
