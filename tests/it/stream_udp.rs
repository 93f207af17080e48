//! Datagrams in streams: what makes a session, what ends it, and who gets what.

use std::{collections::HashMap, net::SocketAddr, sync::mpsc, time::Duration};

use simple_dns::{CLASS, Name, Packet, Question, TYPE};

use crate::{
    resolver::reply,
    support::{Datagrams, Subject, both, ours},
};

/// A backend that sends everything back, so many times, with its name and the number of the session in front. With
/// `proxy_protocol on` a header begins one; otherwise a port does, which the system may give to two in a row.
pub(crate) fn echo(s: &mut Subject, name: &'static str, times: usize) {
    let (mut known, mut sessions) = (HashMap::new(), 0);
    s.udp_backend(name, move |socket, bytes, from| {
        let text = String::from_utf8_lossy(bytes);
        let header = text.strip_prefix("PROXY ");
        let behind = header.and_then(|header| header.split_once("\r\n"));
        if behind.is_some() || !known.contains_key(&from) {
            sessions += 1;
            known.insert(from, sessions);
        }
        let session = known[&from];
        let text = behind.map_or(&*text, |(_, text)| text);
        for _ in 0..times {
            let answer = format!("{name}{session}:{text}");
            socket.send_to(answer.as_bytes(), from).unwrap();
        }
    });
}

/// Lines of the error log that begin with `start`, as soon as there are so many.
fn notes(s: &Subject, start: &str, count: usize) -> Vec<String> {
    s.errors(start, count);
    let mut lines = s.log("error.log", 0);
    lines.retain(|line| line.contains(start));
    let from = |line: String| line[line.find(start).unwrap()..].to_owned();
    lines.into_iter().map(from).collect()
}

#[test]
fn a_session_leaves_its_numbers() {
    const CONF: &str = "stream {
        log_format exact '$remote_addr $server_addr:$server_port [$server_name] $protocol $status $bytes_sent '
            '$bytes_received $upstream_addr $upstream_bytes_sent $upstream_bytes_received '
            '[$ssl_preread_server_name] $limit_conn_status';
        log_format who '$remote_port $connection $pid $msec $upstream_connect_time $upstream_first_byte_time '
            '$upstream_session_time $session_time'; access_log {{dir}}/who.log who;
        access_log {{dir}}/exact.log exact; limit_conn_zone $binary_remote_addr zone=z:1m;
        server { listen {{udp_listen}} udp; proxy_pass {{udp_a}}; proxy_responses 2; ssl_preread on; limit_conn z 9; }
    }";
    let (lines, notes) = both(CONF, |s: &mut Subject| {
        echo(s, "udp_a", 2);
        let client = s.datagrams("udp_listen");
        assert_eq!(client.ask("hello"), "udp_a1:hello");
        assert_eq!(client.text(), "udp_a1:hello");
        let lines = s.log("exact.log", 1).join("\n");
        let who = s.log("who.log", 1).join("\n");
        assert!(who.starts_with(&client.port().to_string()), "{who}");
        assert_eq!(who.matches(" 0.0").count(), 4, "{who}");
        (lines, notes(s, "udp done", 1))
    });
    let numbers = "UDP 200 24 5 <udp_a> 5 24";
    assert_eq!(
        lines,
        format!("127.0.0.1 <udp_listen> [] {numbers} [-] PASSED")
    );
    let numbers =
        "packets from/to client:1/2, bytes from/to client:5/24, bytes from/to upstream:24/5";
    assert_eq!(notes, [format!("udp done, {numbers}")]);
}

#[test]
fn requests_and_responses_make_a_session() {
    const CONF: &str = "stream {
        proxy_protocol on; proxy_timeout 30s; log_format t '$server_port $bytes_received $bytes_sent'; access_log {{dir}}/access.log t;
        server { listen {{udp_listen_any}} udp; proxy_pass {{udp_a}}; }
        server { listen {{udp_listen_1}} udp; proxy_pass {{udp_b}}; proxy_responses 1; }
        server { listen {{udp_listen_2of2}} udp; proxy_pass {{udp_c}}; proxy_requests 2; proxy_responses 1; }
        server { listen {{udp_listen_1of1}} udp; proxy_pass {{udp_d}}; proxy_requests 1; }
        server { listen {{udp_listen_0}} udp; proxy_pass {{udp_e}}; proxy_responses 0; }
        server { listen {{udp_listen_3of0}} udp; proxy_pass {{udp_f}}; proxy_requests 3; proxy_responses 0; }
    }";
    let texts = both(CONF, |s: &mut Subject| {
        for name in ["udp_a", "udp_b", "udp_c", "udp_d", "udp_e", "udp_f"] {
            echo(s, name, 1);
        }
        let mut texts = Vec::new();
        for name in ["any", "1", "2of2", "1of1"] {
            let client = s.datagrams(&format!("udp_listen_{name}"));
            texts.push(
                (0..5)
                    .map(|n| client.ask(n.to_string()))
                    .collect::<Vec<_>>(),
            );
        }
        // Nobody waits for an answer: what comes back finds no session.
        let client = s.datagrams("udp_listen_0");
        for datagram in ["x", "y"] {
            client.send(datagram);
        }
        let done = notes(s, "udp done, packets from/to client:1/0", 2);
        // Answers go on until the last datagram.
        let last = s.datagrams("udp_listen_3of0");
        texts.push(vec![last.ask("x"), last.ask("y")]);
        last.send("z");
        texts.push(notes(s, "udp done, packets from/to client:3/2", 1));
        assert!(client.is_silent());
        texts.push(done);
        texts
    });
    assert_eq!(
        texts[0],
        ["udp_a1:0", "udp_a1:1", "udp_a1:2", "udp_a1:3", "udp_a1:4"]
    );
    assert_eq!(
        texts[1],
        ["udp_b1:0", "udp_b2:1", "udp_b3:2", "udp_b4:3", "udp_b5:4"]
    );
    assert_eq!(
        texts[2],
        ["udp_c1:0", "udp_c1:1", "udp_c2:2", "udp_c2:3", "udp_c3:4"]
    );
    assert_eq!(texts[3][4], "udp_d5:4");
    assert_eq!(texts[4], ["udp_f1:x", "udp_f1:y"]);
}

/// ST2
#[test]
fn each_session_is_balanced() {
    const CONF: &str = "stream {
        proxy_protocol on;
        upstream u { server {{udp_a}} weight=2; server {{udp_b}}; }
        upstream l { least_conn; server {{udp_c}}; server {{udp_d}}; }
        server { listen {{udp_listen}} udp; proxy_pass u; proxy_responses 1; }
        server { listen {{udp_listen_l}} udp; proxy_pass l; }
    }";
    let texts = both(CONF, |s: &mut Subject| {
        for name in ["udp_a", "udp_b", "udp_c", "udp_d"] {
            echo(s, name, 1);
        }
        let client = s.datagrams("udp_listen");
        let mut texts: Vec<String> = (0..6).map(|_| client.ask("")).collect();
        // These go on, so the next goes where there are fewer; among equals there is chance.
        let clients: Vec<_> = (0..4).map(|_| s.datagrams("udp_listen_l")).collect();
        let mut busy: Vec<String> = clients.iter().map(|client| client.ask("")).collect();
        busy.sort();
        texts.extend(busy);
        texts
    });
    let expected = ["a1", "b1", "a2", "a3", "b2", "a4", "c1", "c2", "d1", "d2"];
    assert_eq!(texts, expected.map(|text| format!("udp_{text}:")));
}

#[test]
fn silence_ends_a_session() {
    const CONF: &str = "stream {
        proxy_protocol on; proxy_timeout 200ms; log_format t '$status $upstream_addr $bytes_sent'; access_log {{dir}}/access.log t;
        upstream u { server {{udp_mute}} fail_timeout=9s; server {{udp_b}}; }
        server { listen {{udp_listen}} udp; proxy_pass {{udp_a}}; }
        server { listen {{udp_listen_mute}} udp; proxy_pass u; proxy_responses 1; }
    }";
    let (lines, notes) = both(CONF, |s: &mut Subject| {
        echo(s, "udp_a", 1);
        echo(s, "udp_b", 1);
        let client = s.datagrams("udp_listen");
        assert_eq!(client.ask("x"), "udp_a1:x");
        let mut notes = notes(s, "udp timed out", 1);
        assert_eq!(client.ask("y"), "udp_a2:y");
        // Who was silent is left out.
        let client = s.datagrams("udp_listen_mute");
        client.send("z");
        notes.push(s.error("upstream timed out"));
        notes.push(s.error("temporarily disabled"));
        assert_eq!([client.ask("z"), client.ask("z")], ["udp_b1:z", "udp_b2:z"]);
        let mut lines = s.log("access.log", 5);
        lines.sort();
        (lines, notes)
    });
    let line = "200 <udp_a> 8";
    assert_eq!(
        lines,
        [
            line,
            line,
            "200 <udp_b> 8",
            "200 <udp_b> 8",
            "502 <udp_mute> 0"
        ]
    );
    assert!(notes[1].starts_with(
        "[error] upstream timed out (110: Connection timed out) while proxying connection, udp client: 127.0.0.1"
    ));
}

#[test]
fn a_peer_that_refuses_is_left_out() {
    const CONF: &str = "stream {
        log_format t '$status $upstream_addr $upstream_bytes_sent'; access_log {{dir}}/access.log t;
        upstream u { server {{udp_refused}} fail_timeout=9s; server {{udp_a}}; }
        upstream one { server {{udp_refused}}; }
        server { listen {{udp_listen}} udp; proxy_pass u; proxy_responses 1; }
        server { listen {{udp_listen_one}} udp; proxy_pass one; }
        server { listen {{udp_listen_none}} udp; proxy_pass none; }
        upstream none { server {{udp_a}} down; }
    }";
    let (lines, notes) = both(CONF, |s: &mut Subject| {
        echo(s, "udp_a", 1);
        let client = s.datagrams("udp_listen");
        client.send("x");
        let mut lines = s.log("access.log", 1);
        lines.extend((0..3).map(|_| client.ask("x")));
        let mut notes = vec![s.error("recv() failed"), s.error("temporarily disabled")];
        // A session that awaits no number of answers hears of it, and goes on.
        let client = s.datagrams("udp_listen_one");
        client.send("y");
        s.errors("recv() failed", 2);
        client.send("z");
        s.errors("recv() failed", 3);
        s.datagrams("udp_listen_none").send("w");
        notes.push(s.error("no live upstreams"));
        lines.push(s.log("access.log", 5)[4].clone());
        (lines, notes)
    });
    let answers = ["udp_a1:x", "udp_a2:x", "udp_a3:x"];
    assert_eq!(lines[0], "200 <udp_refused> 1");
    assert_eq!(lines[1..4], answers);
    assert!(notes[0].starts_with(
        "[error] recv() failed (111: Connection refused) while proxying and reading from upstream, udp client"
    ));
}

#[test]
fn rules_limits_and_texts() {
    const CONF: &str = "stream {
        log_format t ':$server_port $status $bytes_sent $limit_conn_status'; access_log {{dir}}/access.log t;
        limit_conn_zone $binary_remote_addr zone=z:1m;
        server { listen {{udp_listen_text}} udp; return '$protocol $bytes_received'; }
        server { listen {{udp_listen_empty}} udp; return ''; }
        server { listen {{udp_listen_no}} udp; deny all; return no; }
        server { listen {{udp_listen_one}} udp; limit_conn z 1; proxy_pass {{udp_a}}; }
        server { listen {{udp_listen_pass}} udp; pass {{listen}}; }
        server { listen {{listen}}; return tcp; }
        server { listen {{udp_listen_word}} udp; proxy_pass $protocol; }
        server { listen {{udp_listen_name}} udp; proxy_pass $protocol.example:1; }
    }";
    let (texts, lines) = both(CONF, |s: &mut Subject| {
        echo(s, "udp_a", 1);
        let mut texts = vec![s.datagrams("udp_listen_text").ask("hello")];
        let client = s.datagrams("udp_listen_one");
        texts.push(client.ask("x"));
        let other = s.datagrams("udp_listen_one");
        other.send("x");
        texts.push(s.error("limiting connections"));
        texts.push(client.ask("y"));
        for (name, words) in [
            ("empty", "connected to <udp_listen_empty>"),
            ("no", "access forbidden"),
            ("pass", "cannot pass"),
            ("word", "no port in upstream"),
            ("name", "no resolver defined"),
        ] {
            s.datagrams(&format!("udp_listen_{name}")).send("x");
            let line = s.error(words);
            if name != "empty" {
                texts.push(line);
            }
        }
        (texts, s.log("access.log", 7))
    });
    assert_eq!(texts[..2], ["UDP 5", "udp_a1:x"]);
    assert_eq!(texts[3], "udp_a1:y");
    assert_eq!(lines[0], ":<udp_listen_text> 200 5 -");
}

/// A query as `dig` sends it.
fn query(id: u16, name: &str) -> Vec<u8> {
    let mut packet = Packet::new_query(id);
    let name = Name::new(name).unwrap().into_owned();
    let question = Question::new(name, TYPE::A.into(), CLASS::IN.into(), false);
    packet.questions.push(question);
    packet.build_bytes_vec().unwrap()
}

#[test]
fn names_are_asked_for_through_it() {
    const CONF: &str = "stream {
        upstream dns { least_conn; server {{udp_a}}; server {{udp_b}}; }
        server { listen {{udp_listen}} udp; proxy_pass dns; proxy_responses 1; }
        server { listen {{udp_listen_other}} udp; proxy_pass {{udp_d}}; access_log off; }
        resolver {{udp_a}} ipv6=off;
        map {{udp_c}} $port { ~:([0-9]+)$ $1; }
        server { listen {{udp_listen_name}} udp; proxy_pass $name:$port; proxy_responses 2; set $name 1.test; }
        server { listen {{udp_listen_bad}} udp; proxy_pass $name:$port; set $name bad.test; }
        log_format t '$status $upstream_addr $bytes_received $upstream_bytes_sent'; access_log {{dir}}/access.log t;
    }";
    let texts = both(CONF, |s: &mut Subject| {
        let (let_go, held) = mpsc::channel::<()>();
        s.udp_backend("udp_a", move |socket, bytes, from| {
            let query = Packet::parse(bytes).unwrap();
            if query.questions[0].qname.to_string() == "1.test" {
                held.recv_timeout(Duration::from_secs(5)).unwrap();
            }
            socket.send_to(&reply(bytes).unwrap(), from).unwrap();
        });
        s.udp_backend("udp_b", |socket, bytes, from| {
            socket.send_to(&reply(bytes).unwrap(), from).unwrap();
        });
        echo(s, "udp_c", 2);
        echo(s, "udp_d", 1);
        let client = s.datagrams("udp_listen");
        let mut texts = Vec::new();
        for id in 0..20 {
            let bytes = client.send(query(id, "2.test")).bytes();
            let answer = Packet::parse(&bytes).unwrap();
            assert_eq!(answer.id(), id);
            texts.push(format!("{:?}", answer.answers[1].rdata));
        }
        s.log("access.log", 20);
        // What comes while a name is being asked for waits.
        let client = s.datagrams("udp_listen_name");
        client.send("one").send("two");
        s.datagrams("udp_listen_other").ask("");
        let_go.send(()).unwrap();
        for _ in 0..4 {
            texts.push(client.text());
        }
        s.datagrams("udp_listen_bad").send("three");
        texts.push(s.error("could not be resolved"));
        texts.extend(s.log("access.log", 22).split_off(20));
        texts
    });
    assert!(
        texts[0].contains("A(A { address: 2130706434 })"),
        "{}",
        texts[0]
    );
    assert_eq!(
        texts[20..24],
        ["udp_c1:one", "udp_c1:one", "udp_c1:two", "udp_c1:two"]
    );
    assert_eq!(texts[25..], ["200 <udp_c> 6 6", "500 - 5 -"]);
}

#[test]
fn datagrams_of_all_sizes_go_through() {
    const CONF: &str = "stream {
        server { listen {{udp_listen}} udp; proxy_pass {{udp_a}}; proxy_buffer_size 64k; }
        server { listen {{udp_listen_small}} udp; proxy_pass {{udp_a}}; proxy_buffer_size 1k; proxy_responses 1; }
    }";
    let same = |socket: &std::net::UdpSocket, bytes: &[u8], from: SocketAddr| {
        socket.send_to(bytes, from).unwrap();
    };
    both(CONF, |s: &mut Subject| {
        s.udp_backend("udp_a", same);
        let client = s.datagrams("udp_listen");
        let lengths = [0, 1, 1500, 65507, 0, 65507, 9000];
        let lengths = lengths.map(|length| {
            let bytes = vec![b'x'; length];
            assert!(client.send(&bytes).bytes() == bytes);
            length
        });
        lengths.len()
    });
    // nginx cuts them to the size of its buffer.
    ours(CONF, |s: &mut Subject| {
        s.udp_backend("udp_a", same);
        let client = s.datagrams("udp_listen_small");
        let bytes = vec![b'x'; 60000];
        assert!(client.send(&bytes).bytes() == bytes);
    });
}

#[test]
fn the_upstream_hears_who_the_client_is() {
    const CONF: &str = "stream {
        server { listen {{udp_listen}} udp; proxy_pass {{udp_a}}; proxy_protocol on; }
    }";
    fn spell(s: &mut Subject) {
        s.udp_backend("udp_a", |socket, bytes, from| {
            let text = bytes.escape_ascii().to_string();
            socket.send_to(text.as_bytes(), from).unwrap();
        });
    }
    let texts = both(CONF, |s: &mut Subject| {
        spell(s);
        let client = s.datagrams("udp_listen");
        let port = format!(" {} ", client.port());
        let first = client.ask("hi").replace(&port, " PORT ");
        let port = s.address("udp_listen").port().to_string();
        [first.replace(&port, "SERVER"), client.ask("you")]
    });
    let header = "PROXY TCP4 127.0.0.1 127.0.0.1 PORT SERVER\\r\\n";
    assert_eq!(texts, [format!("{header}hi"), "you".to_owned()]);
    // The oracle is older than version 2 here.
    let texts = ours(
        &CONF.replace("proxy_protocol on", "proxy_protocol v2"),
        |s: &mut Subject| {
            spell(s);
            let client = s.datagrams("udp_listen");
            [client.ask("hi"), client.ask("you")]
        },
    );
    let header = r"\r\n\r\n\x00\r\nQUIT\n!\x12\x00\x13\x7f\x00\x00\x01\x7f\x00\x00\x01";
    assert!(texts[0].starts_with(header) && texts[0].ends_with("hi"));
    assert_eq!(texts[1], "you");
}

#[test]
fn answers_come_from_the_address_that_was_asked() {
    const CONF: &str = "stream {
        log_format t '$server_addr $bytes_received'; access_log {{dir}}/access.log t;
        server { listen {{udp_wildcard}} udp; proxy_pass {{udp_a}}; proxy_requests 2; proxy_responses 1; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        echo(s, "udp_a", 1);
        let client = Datagrams::open();
        let mut at = s.address("udp_wildcard");
        for (host, expected) in [(1, 1), (2, 2), (2, 2), (1, 1), (3, 3)] {
            at.set_ip([127, 0, 0, host].into());
            let (text, from) = client.ask_at(at, "x");
            assert_eq!((&*text, from), (&*format!("udp_a{expected}:x"), at));
        }
        s.log("access.log", 2)
    });
    assert_eq!(lines, ["127.0.0.2 2", "127.0.0.1 2"]);
}
