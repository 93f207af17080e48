//! `proxy_pass` to names that are resolved while running.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use simple_dns::{
    CLASS, Name, Packet, PacketFlag, RCODE, ResourceRecord, TYPE,
    rdata::{A, CNAME, RData},
};

use crate::support::{Subject, both};

/// A name server: `n.test` has the addresses 127.0.0.1 to n, `alias.test` stands for `1.test`, `bad.test` fails, of
/// `silent.test` nothing is said, others do not exist.
pub(crate) fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buf = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut buf) {
            if let Some(reply) = reply(&buf[..n]) {
                socket.send_to(&reply, from).unwrap();
            }
        }
    });
    address
}

pub(crate) fn reply(query: &[u8]) -> Option<Vec<u8>> {
    let query = Packet::parse(query).unwrap();
    let question = query.questions[0].clone();
    let name = question.qname.clone();
    let text = name.to_string();
    let mut reply = Packet::new_reply(query.id());
    reply.set_flags(PacketFlag::RECURSION_DESIRED | PacketFlag::RECURSION_AVAILABLE);
    reply.questions.push(question.clone());
    let count = text
        .strip_suffix(".test")
        .and_then(|n| n.parse::<u8>().ok());
    let mut answer = |data| {
        let record = ResourceRecord::new(name.clone(), CLASS::IN, 60, data);
        reply.answers.push(record);
    };
    match count {
        Some(count) if question.qtype == TYPE::A.into() => {
            for last in 1..=count {
                answer(RData::A(A::from(Ipv4Addr::new(127, 0, 0, last))));
            }
        }
        Some(_) => {}
        None if text == "alias.test" => answer(RData::CNAME(CNAME(Name::new("1.test").unwrap()))),
        None if text == "bad.test" => *reply.rcode_mut() = RCODE::ServerFailure,
        None if text == "silent.test" => return None,
        None => *reply.rcode_mut() = RCODE::NameError,
    }
    Some(reply.build_bytes_vec().unwrap())
}

/// A `proxy_pass` to the name in the path, at the port of backend `a`.
fn conf(location: &str) -> String {
    format!(
        "resolver {}; log_format f '$status $upstream_addr $upstream_status $proxy_host';
        map {{{{a}}}} $port {{ ~:(?<digits>.*)$ $digits; }}
        server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f;
            location ~ ^/(?<name>.*)$ {{
                proxy_pass http://$name:$port; {location} }} }}",
        name_server()
    )
}

#[test]
fn names_are_resolved() {
    let conf = conf("");
    let (statuses, ..) = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let statuses: Vec<u16> = ["1.test", "alias.test.", "1.test", "127.0.0.1"]
            .iter()
            .map(|name| s.get(&format!("/{name}")).status())
            .collect();
        (statuses, s.log("f.log", 4))
    });
    assert_eq!(statuses, [200; 4]);
}

#[test]
fn what_cannot_be_resolved_is_502() {
    let conf = conf("resolver_timeout 300ms;");
    let (statuses, ..) = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut statuses = Vec::new();
        let mut lines = Vec::new();
        for name in ["none.test", "bad.test", "silent.test", "x..test"] {
            statuses.push(s.get(&format!("/{name}")).status());
            lines.push(s.error(&format!("{name} could not be resolved")));
        }
        (statuses, lines, s.log("f.log", 4))
    });
    assert_eq!(statuses, [502; 4]);
}

#[test]
fn without_a_resolver_it_is_502() {
    let conf =
        "server { listen {{listen}}; location ~ ^/(?<name>.*)$ { proxy_pass http://$name; } }";
    let (status, _) = both(conf, |s: &mut Subject| {
        let status = s.get("/1.test").status();
        (status, s.error("no resolver defined"))
    });
    assert_eq!(status, 502);
}

/// All addresses are tried; those of this host's loopback network refuse where nobody listens.
#[test]
fn all_addresses_are_tried() {
    let conf = conf("");
    let answers = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let statuses = s.gets(6, "/3.test");
        let lines = s.log("f.log", 6);
        // Refused ones come first, the one that listens last.
        let ends = lines.iter().all(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let tried = (words.len() - 2) / 2;
            words[tried] == "<a>" && words[1..tried].iter().all(|word| word.ends_with(":<a>,"))
        });
        (statuses, ends)
    });
    assert_eq!(answers, (vec![200; 6], true));
}

/// A client that leaves while its name is looked up leaves 499 in the log.
#[test]
fn clients_may_leave_meanwhile() {
    let conf = conf("");
    both(&conf, |s: &mut Subject| {
        let mut client = s.connect();
        client.send("GET /silent.test HTTP/1.1\r\nHost: x\r\n\r\n");
        thread::sleep(Duration::from_millis(100));
        drop(client);
        s.log("f.log", 1)
    });
}
