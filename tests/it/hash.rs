//! Peers by hash: `hash`, `hash consistent`, `ip_hash` (behaviour B10). The ring depends on the names of the servers: where it
//! must be the same for both programs they share their backends, or have Unix sockets of the same names.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    thread,
};

use socket2::{Domain, Socket, Type};

use crate::support::{Subject, backend, both, with_hosts};

const THREE: [(&str, u64); 3] = [("a", 0), ("b", 0), ("c", 0)];

#[test]
fn hash_finds_nginx_s_peers() {
    let conf = "
        upstream u { hash $arg_k; server {{a}} weight=2; server {{b}}; server {{c}}; }
        upstream one { hash $arg_k; server {{a}}; }
        upstream failing { hash $arg_k; server {{a}}; server {{refused}}; server {{b}}; }
        server { listen {{listen}};
            location / { proxy_pass http://u; }
            location /one { proxy_pass http://one; }
            location /failing { proxy_pass http://failing; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&THREE);
        let mut statuses = Vec::new();
        for key in 0..24 {
            statuses.push(s.get(&format!("/?k=key{key}")).status());
        }
        for _ in 0..6 {
            statuses.push(s.get("/").status());
        }
        for key in 0..6 {
            statuses.push(s.get(&format!("/failing?k={key}")).status());
            statuses.push(s.get(&format!("/one?k={key}")).status());
        }
        (s.hits(), statuses)
    });
}

#[test]
fn consistent_hash_keeps_keys_where_they_are() {
    let conf = "
        upstream u { hash $arg_k consistent; server {{a}}; server {{b}}; server {{c}}; }
        upstream fewer { hash $arg_k consistent; server {{a}}; server {{c}}; }
        server { listen {{listen}};
            location / { proxy_pass http://u; }
            location /fewer { proxy_pass http://fewer; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&THREE);
        let place = |target: String| s.get(&target).text();
        let mut shares = BTreeMap::new();
        let mut moved = 0;
        for key in 0..60 {
            let first = place(format!("/?k={key}"));
            assert_eq!(
                first,
                place(format!("/?k={key}")),
                "the same key, the same peer"
            );
            let other = place(format!("/fewer?k={key}"));
            moved += usize::from(first != "b" && first != other);
            *shares.entry(first).or_insert(0) += 1;
        }
        assert!(shares.values().all(|&share| share > 4), "{shares:?}");
        s.forget();
        s.gets(6, "/");
        (moved, s.hits())
    });
}

/// The peers, as `$upstream_addr` has them, of so many keys in each of these locations.
fn peers(s: &Subject, locations: &[&str], keys: u32) -> Vec<String> {
    let mut seen = Vec::new();
    for location in locations {
        for key in 0..keys {
            let response = s.get(&format!("{location}?k=key{key}"));
            let peer = response.header("x-peer").unwrap_or("none");
            seen.push(format!("{location} {key} {} {peer}", response.status()));
        }
    }
    seen
}

/// A ring of nearly 200,000 points, a plain hash over a million. Larger rings are built no other way; but the oracle's C library
/// sorts slowly, and with a weight of 20,000 nginx needs seconds to start.
#[test]
fn huge_weights() {
    let conf = "
        upstream ring { hash $arg_k consistent; server unix:a weight=800; server unix:b weight=400; server unix:c; }
        upstream plain { hash $arg_k; server unix:a weight=20000; server unix:b weight=1000000; server unix:c weight=5000; }
        server { listen {{listen}}; add_header X-Peer $upstream_addr;
            location /ring { proxy_pass http://ring; }
            location /plain { proxy_pass http://plain; } }";
    let seen = both(conf, |s: &mut Subject| {
        for name in ["a", "b", "c"] {
            // Relative names: the program's directory is its working directory.
            let listener = UnixListener::bind(s.path(name)).unwrap();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    let lines = BufReader::new(&stream).lines();
                    lines
                        .map_while(Result::ok)
                        .take_while(|line| !line.is_empty())
                        .count();
                    stream
                        .write_all(
                            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                        )
                        .unwrap();
                }
            });
        }
        peers(s, &["/ring", "/plain"], 60)
    });
    for peer in ["200 unix:a", "200 unix:b"] {
        let hits = seen.iter().filter(|line| line.ends_with(peer)).count();
        assert!(hits > 20, "{peer}: {seen:?}");
    }
}

/// A listener at 127.0.0.`last`, or None when the port is taken there.
fn listener(last: u8, port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port)).ok()
}

/// The addresses of a name share its points of the ring by round robin, and each is one of the peers of a plain hash.
#[test]
fn names_with_several_addresses() {
    let hosts = "
127.0.0.1 localhost
127.0.0.1 three.test
127.0.0.2 three.test
127.0.0.3 three.test
127.0.0.1 partly.test
127.0.0.3 partly.test
127.0.0.4 partly.test
";
    with_hosts("hash::names_with_several_addresses", hosts, compare_several);
}

/// Backends that both programs share: one port at 127.0.0.1, 127.0.0.2 and 127.0.0.3, which refuses connections at 127.0.0.4
/// while the socket lives, and another port at 127.0.0.1.
fn shared_backends() -> (u16, u16, Socket) {
    let one_port = || {
        let first = listener(1, 0)?;
        let port = first.local_addr().unwrap().port();
        let listeners = [first, listener(2, port)?, listener(3, port)?];
        let refused = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 4], port));
        refused.bind(&address.into()).ok()?;
        Some((port, listeners, refused))
    };
    let found = (0..100).find_map(|_| one_port());
    let (port, listeners, refused) = found.expect("some port is free");
    let other = listener(1, 0).unwrap();
    let other_port = other.local_addr().unwrap().port();
    for listener in listeners.into_iter().chain([other]) {
        backend::serve("shared", listener, backend::Received::default(), |conn| {
            conn.answer_all("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        });
    }
    (port, other_port, refused)
}

fn compare_several() {
    let (port, other_port, _refused) = shared_backends();
    let conf = "
        upstream ring { hash $arg_k consistent; server three.test:PORT; server OTHER weight=2; }
        upstream plain { hash $arg_k; server three.test:PORT weight=2; server OTHER; }
        upstream partly { hash $arg_k consistent; server partly.test:PORT; server OTHER; }
        upstream partly-plain { hash $arg_k; server partly.test:PORT; server OTHER; }
        upstream huge { hash $arg_k consistent; server three.test:PORT weight=300; server OTHER weight=400; }
        server { listen {{listen}}; add_header X-Peer $upstream_addr;
            location /ring { proxy_pass http://ring; }
            location /plain { proxy_pass http://plain; }
            location /partly { proxy_pass http://partly; }
            location /partly-plain { proxy_pass http://partly-plain; }
            location /huge { proxy_pass http://huge; } }"
        .replace("OTHER", &format!("127.0.0.1:{other_port}"))
        .replace("PORT", &port.to_string());
    let locations = ["/ring", "/plain", "/partly", "/partly-plain", "/huge"];
    let seen = both(&conf, |s: &mut Subject| {
        // Each key twice: the second time it is the next address's turn.
        let twice = [peers(s, &locations, 40), peers(s, &locations, 40)].concat();
        let without_ports = twice.iter().map(|line| {
            line.replace(&format!(":{other_port}"), "/other")
                .replace(&format!(":{port}"), "")
        });
        without_ports.collect::<Vec<_>>()
    });
    let ring = |line: &&String| line.starts_with("/ring ");
    for address in [1, 2, 3] {
        let peer = format!("200 127.0.0.{address}");
        assert!(
            seen.iter().filter(ring).any(|line| line.ends_with(&peer)),
            "{seen:?}"
        );
    }
    let retried = |line: &String| line.contains("127.0.0.4, 127.0.0.");
    assert!(seen.iter().any(retried), "{seen:?}");
}

#[test]
fn ip_hash_takes_three_octets() {
    let conf = "
        upstream u { ip_hash; server {{a}}; server {{b}} weight=2; server {{c}}; }
        set_real_ip_from 127.0.0.1;
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&THREE);
        for address in [
            "10.1.2.3",
            "10.1.2.99",
            "10.1.3.3",
            "192.168.7.1",
            "172.16.0.1",
            "::1",
            "2001:db8::7",
        ] {
            let mut client = s.connect();
            client.send(format!("GET / HTTP/1.0\r\nX-Real-IP: {address}\r\n\r\n"));
            client.response();
        }
        s.hits()
    });
}

#[test]
fn random_two_takes_the_less_busy() {
    let conf = "
        upstream u { zone u 64k; random two least_conn; server {{a}}; server {{b}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    let both_asked = both(conf, |s: &mut Subject| {
        s.backends(&[("a", 100), ("b", 100)]);
        let mut first = s.connect();
        first.send("GET / HTTP/1.0\r\n\r\n");
        s.wait_hits(1);
        let second = s.get("/").text();
        first.response().text() != second
    });
    assert!(both_asked);
}
