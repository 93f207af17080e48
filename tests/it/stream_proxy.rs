//! Streams: how a session is proxied.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::support::{Conn, Subject, both, ours};

/// What a new session with `{{listen}}` is told, until the program closes.
fn ask(s: &Subject, bytes: &str) -> String {
    let mut client = s.connect();
    client.send(bytes);
    client.rest()
}

/// Backends that say their names and close.
fn name_each(s: &mut Subject, names: &[&'static str]) {
    for &name in names {
        s.backend(name, move |conn| conn.write(name));
    }
}

#[test]
fn much_goes_through_both_ways() {
    const CONF: &str = "stream {
        log_format a '$status $bytes_sent $bytes_received $upstream_bytes_sent $upstream_bytes_received';
        access_log {{dir}}/access.log a;
        server { listen {{listen}}; proxy_pass {{a}}; }
    }";
    let (sum, log) = both(CONF, |s: &mut Subject| {
        s.backend("a", Conn::echo);
        let much: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
        let mut client = s.connect();
        let mut sender = client.another();
        let bytes = much.clone();
        let sending = thread::spawn(move || {
            sender.send(bytes);
        });
        let back = client.bytes(much.len());
        sending.join().unwrap();
        drop(client);
        (back == much, s.log("access.log", 1))
    });
    assert!(sum);
    assert_eq!(log, ["200 12000000 12000000 12000000 12000000"]);
}

/// B5, as far as streams have it: what a client does not read is not read from its upstream either, and no memory holds it.
#[test]
fn a_stalled_client_holds_its_upstream_back() {
    /// More than the sockets on the way take.
    const PIECES: usize = 512;
    const PIECE: usize = 64 << 10;
    let conf = "stream { server { listen {{listen}} sndbuf=64k; proxy_pass {{a}}; proxy_buffer_size 64k; } }";
    let seen = both(conf, |s: &mut Subject| {
        let written = Arc::new(AtomicUsize::new(0));
        let counter = written.clone();
        s.backend("a", move |conn| {
            let piece = vec![b'x'; PIECE];
            for _ in 0..PIECES {
                conn.write(&piece);
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        // What the first session needs once and for all.
        let first = s.connect().rest().len();
        let before = s.memory();
        written.store(0, Ordering::Relaxed);
        let mut client = s.connect();
        let mut last = 0;
        let stalled = loop {
            s.pause(60);
            let now = written.load(Ordering::Relaxed);
            if now > 0 && now == last {
                break now;
            }
            last = now;
        };
        let held = s.memory().saturating_sub(before);
        let second = client.rest().len();
        (first, stalled < PIECES, held < 512 << 10, second)
    });
    assert_eq!(seen, (PIECES * PIECE, true, true, PIECES * PIECE));
}

/// ST1: an end of the client's is the session's, and with `proxy_half_close` it is that direction's.
#[test]
fn the_client_s_end() {
    for (half_close, expected) in [("off", ""), ("on", "late")] {
        let conf = format!(
            "stream {{ server {{ listen {{{{listen}}}}; proxy_pass {{{{a}}}}; proxy_half_close {half_close}; }} }}"
        );
        let seen = both(&conf, |s: &mut Subject| {
            s.backend("a", |conn| {
                let all = conn.rest();
                conn.note(all);
                conn.write("late");
            });
            let mut client = s.connect();
            let answer = client.send("hi").finish().rest();
            s.wait_hits(1);
            let error = s.error("disconnected");
            (answer, s.received()[0].line.clone(), error)
        });
        assert_eq!((&*seen.0, &*seen.1), (expected, "hi"), "{half_close}");
    }
}

/// ST1, the other way round.
#[test]
fn the_upstream_s_end() {
    for (half_close, expected) in [("off", ""), ("on", "more")] {
        let conf = format!(
            "stream {{ server {{ listen {{{{listen}}}}; proxy_pass {{{{a}}}}; proxy_half_close {half_close}; }} }}"
        );
        let seen = both(&conf, |s: &mut Subject| {
            s.backend("a", |conn| {
                conn.write("hi");
                conn.finish();
                let all = conn.rest();
                conn.note(all);
            });
            let mut client = s.connect();
            let answer = client.rest();
            client.send("more").finish();
            s.wait_hits(1);
            (
                answer,
                s.received()[0].line.clone(),
                s.error("disconnected"),
            )
        });
        assert_eq!((&*seen.0, &*seen.1), ("hi", expected), "{half_close}");
    }
}

#[test]
fn another_peer_only_when_one_cannot_be_reached() {
    const CONF: &str = "stream {
        log_format a '$status $upstream_addr $upstream_bytes_received'; access_log {{dir}}/access.log a;
        upstream u { server {{refused}} max_fails=0; server {{a}} max_fails=0; }
        server { listen {{listen}}; proxy_pass u; }
        server { listen {{listen_once}}; proxy_pass u; proxy_next_upstream off; }
        server { listen {{listen_tries}}; proxy_pass u; proxy_next_upstream_tries 1; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            let first = conn.bytes();
            conn.note(first.unwrap_or_default());
        });
        let mut lines = Vec::new();
        for (count, name) in [
            "listen",
            "listen",
            "listen_once",
            "listen_tries",
            "listen_tries",
        ]
        .into_iter()
        .enumerate()
        {
            let mut client = s.connect_to(name);
            lines.push(client.send("x").rest());
            lines.extend(s.log("access.log", count + 1).pop());
        }
        lines.push(s.error("connect() failed"));
        lines
    });
    assert_eq!(lines[1], "200 <refused>, <a> 0, 0");
    assert_eq!(lines[3], "200 <a> 0");
}

#[test]
fn nobody_is_left() {
    const CONF: &str = "stream {
        log_format a '$status [$upstream_addr] [$upstream_connect_time] $upstream_bytes_sent';
        access_log {{dir}}/access.log a;
        upstream u { server {{refused}}; server {{refused2}}; }
        server { listen {{listen}}; proxy_pass u; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        let texts = [ask(s, ""), ask(s, "")];
        let mut lines = s.log("access.log", 2);
        lines.extend(texts);
        lines.push(s.error("temporarily disabled"));
        lines.push(s.error("no live upstreams"));
        lines
    });
    assert_eq!(lines[0], "502 [<refused>, <refused2>] [-, -] 0, 0");
    assert_eq!(lines[1], "502 [u] [-] 0");
    assert_eq!(
        lines[5],
        "[error] no live upstreams while connecting to upstream, client: 127.0.0.1, server: <listen>, \
         upstream: \"u\", bytes from/to client:0/0, bytes from/to upstream:0/0"
    );
}

#[test]
fn a_peer_that_does_not_answer() {
    const CONF: &str = "stream {
        log_format a '$status $upstream_addr'; access_log {{dir}}/access.log a;
        upstream u { server {{slow}}; server {{a}}; }
        server { listen {{listen}}; proxy_pass u; proxy_connect_timeout 50ms; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        name_each(s, &["a"]);
        let full = s.fill_backlog("slow");
        let mut lines = vec![ask(s, "")];
        drop(full);
        lines.extend(s.log("access.log", 1));
        lines.push(s.error("upstream timed out"));
        lines
    });
    assert_eq!(lines[..2], ["a", "200 <slow>, <a>"]);
}

#[test]
fn silence_ends_a_session() {
    const CONF: &str = "stream {
        log_format a '$status $bytes_received'; access_log {{dir}}/access.log a;
        server { listen {{listen}}; proxy_pass {{a}}; proxy_timeout 60ms; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        s.backend("a", Conn::echo);
        let mut lines = vec![ask(s, "x")];
        lines.extend(s.log("access.log", 1));
        lines.push(s.error("connection timed out"));
        lines
    });
    assert_eq!(lines[..2], ["x", "200 1"]);
}

/// nginx moves a timer only when it moves by 300 ms or more.
#[test]
fn a_byte_puts_the_end_off() {
    const CONF: &str =
        "stream { server { listen {{listen}}; proxy_pass {{a}}; proxy_timeout 300ms; } }";
    let text = ours(CONF, |s: &mut Subject| {
        s.backend("a", Conn::echo);
        let mut client = s.connect();
        for _ in 0..4 {
            s.pause(90);
            client.send("x");
        }
        client.rest()
    });
    assert_eq!(text, "xxxx");
}

#[test]
fn addresses_from_variables() {
    const CONF: &str = "stream {
        log_format a '$status $upstream_addr'; access_log {{dir}}/access.log a;
        upstream u { server {{a}}; }
        map $server_port $to { default u; }
        server { listen {{listen}}; proxy_pass $to; }
        server { listen {{listen_addr}}; set $where {{a}}; proxy_pass $where; }
        server { listen {{listen_port}}; set $where 127.0.0.1; proxy_pass $where; }
        server { listen {{listen_name}}; set $where name.invalid:1; proxy_pass $where; }
        server { listen {{listen_bad}}; set $where 127.0.0.1:x; proxy_pass $where; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        name_each(s, &["a"]);
        let mut lines = Vec::new();
        for (count, name) in ["", "_addr", "_port", "_name", "_bad"].iter().enumerate() {
            lines.push(s.connect_to(&format!("listen{name}")).rest());
            lines.extend(s.log("access.log", count + 1).pop());
        }
        for words in ["no port in", "no resolver", "invalid port"] {
            lines.push(s.error(words));
        }
        lines
    });
    assert_eq!(lines[..4], ["a", "200 <a>", "a", "200 <a>"]);
    assert_eq!(lines[5], "500 -");
}

/// Sessions with other peers never notice, new ones go elsewhere, and come back.
#[test]
fn a_backend_dies_and_comes_back() {
    const CONF: &str = "stream {
        upstream u { server {{refused}} max_fails=0; server {{a}} max_fails=0; }
        server { listen {{listen}}; proxy_pass u; }
    }";
    let names = both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.write("a");
            conn.echo();
        });
        let listen = || {
            let listener = TcpListener::bind(s.address("refused")).unwrap();
            let accepting = listener.try_clone().unwrap();
            let sessions = thread::spawn(move || {
                let mut stream = accepting.accept().unwrap().0;
                std::io::Write::write_all(&mut stream, b"b").unwrap();
                stream
            });
            (listener, sessions)
        };
        let mut names = Vec::new();
        let name =
            |client: &mut crate::support::Client| String::from_utf8(client.bytes(1)).unwrap();
        let (listener, session) = listen();
        let mut dying = s.connect();
        names.push(name(&mut dying));
        let mut living = s.connect();
        names.push(name(&mut living));
        drop((listener, session.join().unwrap()));
        names.push(dying.rest());
        for _ in 0..2 {
            names.push(name(&mut s.connect()));
        }
        let (_listener, session) = listen();
        let mut back = [s.connect(), s.connect()];
        let mut two = back.each_mut().map(name);
        two.sort();
        names.extend(two);
        drop(session.join());
        living.send("!");
        names.push(name(&mut living));
        names
    });
    assert_eq!(names.join(" "), "b a  a a a b !");
}

#[test]
fn weights_hold() {
    const CONF: &str = "stream {
        log_format a '$status'; access_log {{dir}}/access.log a;
        upstream u { server {{a}} weight=5; server {{b}}; server {{c}}; }
        server { listen {{listen}}; proxy_pass u; }
    }";
    let names = both(CONF, |s: &mut Subject| {
        name_each(s, &["a", "b", "c"]);
        (0..7).map(|_| ask(s, "")).collect::<String>()
    });
    assert_eq!(names, "aabacaa");
}

/// B3, B4: each mode prefers another peer.
#[test]
fn least_time_goes_by_its_mode() {
    for (mode, expected) in [("first_byte", "abaaa"), ("last_byte", "abbbb")] {
        let conf = format!(
            "stream {{
                log_format a '$status'; access_log {{{{dir}}}}/access.log a;
                upstream u {{ least_time {mode}; server {{{{a}}}}; server {{{{b}}}}; }}
                server {{ listen {{{{listen}}}}; proxy_pass u; }}
            }}"
        );
        let names = both(&conf, |s: &mut Subject| {
            for (name, first, last) in [("a", 5, 100), ("b", 50, 0)] {
                s.backend(name, move |conn| {
                    conn.pause(first);
                    conn.write(name);
                    conn.pause(last);
                });
            }
            let ask = |count: usize| {
                let name = ask(s, "");
                s.log("access.log", count + 1);
                name
            };
            (0..5).map(ask).collect::<String>()
        });
        assert_eq!(names, expected, "{mode}");
    }
}

#[test]
fn rates_are_kept() {
    const CONF: &str = "stream {
        log_format a '$status $bytes_sent'; access_log {{dir}}/access.log a;
        server { listen {{listen}}; proxy_pass {{a}}; proxy_download_rate 20000; proxy_buffer_size 1000; }
    }";
    let (length, log, slow) = both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| conn.write(vec![b'x'; 8000]));
        let start = std::time::Instant::now();
        let length = ask(s, "").len();
        let slow = start.elapsed().as_millis() >= 300;
        (length, s.log("access.log", 1), slow)
    });
    assert_eq!(
        (length, log, slow),
        (8000, vec!["200 8000".to_owned()], true)
    );
}
