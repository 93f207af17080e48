//! Messages and look-ups as bytes, the client against small servers.

mod client;
mod messages;

use std::net::IpAddr;

use simple_dns::{
    CLASS, Name, Packet, PacketFlag, Question, RCODE, ResourceRecord, TYPE,
    rdata::{A, AAAA, CNAME, RData},
};

use super::message::Kind;

/// A response to `query` as another implementation of DNS writes it.
fn response(query: &[u8], code: u16, answers: &[(&str, u32, Answer<'_>)]) -> Vec<u8> {
    let query = Packet::parse(query).unwrap();
    let mut reply = Packet::new_reply(query.id());
    reply.set_flags(PacketFlag::RECURSION_DESIRED | PacketFlag::RECURSION_AVAILABLE);
    *reply.rcode_mut() = RCODE::from(code);
    reply.questions = query.questions.clone();
    for (name, ttl, answer) in answers {
        let data = match answer {
            Answer::Ip(IpAddr::V4(ip)) => RData::A(A::from(*ip)),
            Answer::Ip(IpAddr::V6(ip)) => RData::AAAA(AAAA::from(*ip)),
            Answer::Alias(name) => RData::CNAME(CNAME(Name::new(name).unwrap())),
        };
        reply.answers.push(ResourceRecord::new(
            Name::new(name).unwrap(),
            CLASS::IN,
            *ttl,
            data,
        ));
    }
    reply.build_bytes_vec_compressed().unwrap()
}

/// An answer of a response.
#[derive(Clone, Copy, Debug)]
enum Answer<'a> {
    Ip(IpAddr),
    Alias(&'a str),
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// What a query asks for, as another implementation of DNS reads it.
fn asked(query: &[u8]) -> (String, Kind) {
    let query = Packet::parse(query).unwrap();
    let [Question { qname, qtype, .. }] = &*query.questions else {
        panic!("one question");
    };
    let kind = if *qtype == TYPE::A.into() {
        Kind::A
    } else {
        assert_eq!(*qtype, TYPE::AAAA.into());
        Kind::Aaaa
    };
    (qname.to_string(), kind)
}
