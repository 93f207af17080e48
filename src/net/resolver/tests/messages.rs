//! Bytes in, meaning out.

use std::{cell::RefCell, fmt, net::IpAddr};

use proptest::prelude::*;

use super::{
    super::{
        lookup::{Found, Lookup, Outcome, Step},
        message::{BadMessage, Kind, Response, query},
    },
    Answer, asked, ip, response,
};

/// A look-up, and what it complained about.
struct Trial {
    lookup: Lookup,
    complaints: RefCell<Vec<String>>,
}

const A: usize = 0;
const AAAA: usize = 1;

impl Trial {
    fn new(name: &str) -> Self {
        Self {
            lookup: Lookup::new(name.as_bytes(), [Some(7), Some(8)]).unwrap(),
            complaints: RefCell::default(),
        }
    }

    fn query(&self, side: usize) -> Vec<u8> {
        let kind = Kind::ALL[side];
        let query = self.lookup.queries().find(|(open, ..)| *open == kind);
        query.expect("still open").1.to_vec()
    }

    fn take(&mut self, packet: &[u8]) -> Step {
        let complain = |message: fmt::Arguments<'_>| {
            self.complaints.borrow_mut().push(message.to_string());
        };
        self.lookup.take(packet, false, &complain)
    }

    fn answer(&mut self, side: usize, code: u16, answers: &[(&str, u32, Answer<'_>)]) -> Step {
        let query = self.query(side);
        self.take(&response(&query, code, answers))
    }

    fn complained(&self) -> String {
        self.complaints.take().join("\n")
    }
}

fn end(addrs: &[&str], ttl: u32) -> Step {
    let addrs = addrs.iter().map(|addr| ip(addr)).collect();
    Step::End(Outcome::Found(Found::Addrs(addrs), ttl))
}

fn v4(last: u8) -> Answer<'static> {
    Answer::Ip(IpAddr::from([10, 0, 0, last]))
}

#[test]
fn queries_are_read_by_others() {
    let bytes = query(0x1234, b"a.example.com", Kind::Aaaa).unwrap();
    assert_eq!(asked(&bytes), ("a.example.com".to_owned(), Kind::Aaaa));
    for bad in ["", ".", "a..b", ".a", &"a".repeat(64)] {
        assert_eq!(query(1, bad.as_bytes(), Kind::A), None, "{bad}");
    }
}

#[test]
fn both_kinds_in_order_with_the_shortest_ttl() {
    let mut trial = Trial::new("x.test");
    let six = Answer::Ip(ip("fe80::1"));
    assert_eq!(trial.answer(AAAA, 0, &[("x.test", 5, six)]), Step::Wait);
    let four = [("x.test", 9, v4(1)), ("x.test", 7, v4(2))];
    let expected = end(&["10.0.0.1", "10.0.0.2", "fe80::1"], 5);
    assert_eq!(trial.answer(A, 0, &four), expected);
    assert_eq!(trial.complained(), "");
}

#[test]
fn an_error_of_either_kind_is_the_result() {
    for (first, second) in [(2, 0), (0, 2)] {
        let mut trial = Trial::new("x.test");
        let four = [("x.test", 9, v4(1))];
        assert_eq!(trial.answer(A, first, &four), Step::Wait);
        let six = [("x.test", 9, Answer::Ip(ip("::1")))];
        let failed = Step::End(Outcome::Failed(2));
        assert_eq!(trial.answer(AAAA, second, &six), failed);
    }
}

#[test]
fn a_kind_without_addresses_is_no_error() {
    let mut trial = Trial::new("x.test");
    assert_eq!(trial.answer(AAAA, 0, &[]), Step::Wait);
    let four = [("x.test", 9, v4(1))];
    assert_eq!(trial.answer(A, 0, &four), end(&["10.0.0.1"], 9));

    let mut trial = Trial::new("x.test");
    assert_eq!(trial.answer(A, 0, &[]), Step::Wait);
    assert_eq!(trial.answer(AAAA, 0, &[]), Step::End(Outcome::Failed(3)));
}

#[test]
fn aliases() {
    let mut trial = Trial::new("x.test");
    let alias = [("x.test", 9, Answer::Alias("Y.test"))];
    assert_eq!(trial.answer(A, 0, &alias), Step::Wait);
    let found = Found::Alias(b"y.test".to_vec());
    let expected = Step::End(Outcome::Found(found, 9));
    assert_eq!(trial.answer(AAAA, 0, &alias), expected);

    // With addresses behind it, an alias only bounds the time.
    let mut trial = Trial::new("x.test");
    assert_eq!(trial.answer(AAAA, 0, &[]), Step::Wait);
    let answers = [alias[0], ("y.test", 20, v4(1))];
    assert_eq!(trial.answer(A, 0, &answers), end(&["10.0.0.1"], 9));
}

#[test]
fn what_is_wrong_is_told_and_waited_out() {
    let mut trial = Trial::new("x.test");
    let query = trial.query(A);
    let good = response(&query, 0, &[("x.test", 9, v4(1))]);
    let mut spoilt = |at: usize, byte: u8, words: &str| {
        let mut packet = good.clone();
        packet[at] = byte;
        assert_eq!(trial.take(&packet), Step::Wait);
        assert_eq!(trial.complained(), words);
    };
    spoilt(1, 9, "wrong ident 9 in DNS response for x.test, expect 7");
    spoilt(2, 1, "invalid UDP DNS response 7 fl:0180");
    spoilt(
        3,
        0x81,
        "DNS error (1: Format error), query id:7, name:\"x.test\"",
    );
    spoilt(3, 0x86, "DNS error (6: Unknown error), query id:7");
    spoilt(5, 2, "invalid number of questions in DNS response");
    spoilt(7, 9, "short DNS response");
    spoilt(13, b'y', "unexpected DNS response for y.test");
    spoilt(12, 0xc0, "unexpected compression pointer in DNS response");
    spoilt(21, 5, "unknown query type 5 in DNS response");
    spoilt(23, 3, "unknown query class 3 in DNS response");
    spoilt(
        27,
        2,
        "unexpected RR type 2 in DNS response\nno A or CNAME types in DNS response",
    );
    let short = &good[..good.len() - 1];
    let mut trial = Trial::new("x.test");
    assert_eq!(trial.take(short), Step::Wait);
    assert_eq!(trial.complained(), "short DNS response");
}

#[test]
fn truncation_asks_over_tcp_once() {
    let mut trial = Trial::new("x.test");
    let mut packet = response(&trial.query(A), 0, &[]);
    packet[2] |= 2;
    assert_eq!(trial.take(&packet), Step::OverTcp(Kind::A));
    assert_eq!(trial.take(&packet), Step::Wait);
    let tcp: Vec<bool> = trial.lookup.queries().map(|(.., tcp)| tcp).collect();
    assert_eq!(tcp, [true, false]);
    let error = Response::parse(&packet, true).unwrap_err();
    assert!(matches!(error, BadMessage::NotResponse { tcp: true, .. }));
}

#[test]
fn pointers_may_loop() {
    let alias = [("x.test", 9, Answer::Alias("y.test"))];
    let query = Trial::new("x.test").query(A);
    let mut packet = response(&query, 0, &alias);
    // The alias's data: a pointer to itself.
    let at = packet.len() - 4;
    packet.truncate(at);
    packet[at - 1] = 2;
    packet.extend_from_slice(&[0xc0, u8::try_from(at).unwrap()]);
    let answers = Response::parse(&packet, false).unwrap().answers();
    assert_eq!(answers, Err(BadMessage::NameLoop));
}

proptest! {
    #[test]
    fn foreign_bytes_do_no_harm(mut bytes: Vec<u8>, question: bool) {
        if question {
            let mut packet = response(&query(7, b"x.test", Kind::A).unwrap(), 0, &[]);
            packet[7] = bytes.first().copied().unwrap_or(0) % 8;
            packet.append(&mut bytes);
            bytes = packet;
        }
        Trial::new("x.test").take(&bytes);
    }

    #[test]
    fn any_answer_is_read(
        labels in prop::collection::vec("[a-z0-9-]{1,20}", 1..6),
        addrs in prop::collection::vec(any::<std::net::Ipv4Addr>(), 1..20),
        ttl in 0u32..=i32::MAX as u32,
    ) {
        let name = labels.join(".");
        let mut trial = Trial::new(&name);
        let answers: Vec<_> = addrs
            .iter()
            .map(|addr| (&*name, ttl, Answer::Ip((*addr).into())))
            .collect();
        prop_assert_eq!(trial.answer(AAAA, 0, &[]), Step::Wait);
        let addrs = addrs.into_iter().map(IpAddr::V4).collect();
        let expected = Step::End(Outcome::Found(Found::Addrs(addrs), ttl));
        prop_assert_eq!(trial.answer(A, 0, &answers), expected);
    }
}
