//! When small pieces go out at once (`tcp_nodelay`), as the sockets themselves say.

use std::{
    io::Write as _,
    net::TcpStream,
    sync::{Arc, Barrier},
};

use rustls::{ClientConnection, version::TLS13};

use crate::support::{
    Conn, Subject, both,
    tls::{client, with_certificates},
};

const CONF: &str = "
    http {
        access_log off; client_body_temp_path {{dir}}/client_body; proxy_temp_path {{dir}}/proxy;
        ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
        server {
            listen {{listen}}; http2 on;
            location / { return 200 ok; }
            location /off { tcp_nodelay off; return 200 ok; }
            location /buffered { proxy_pass http://{{a}}; }
            location /unbuffered { proxy_pass http://{{a}}; proxy_buffering off; }
            location /upgrade {
                proxy_pass http://{{a}}; proxy_set_header Upgrade x; proxy_set_header Connection upgrade;
                location /upgrade/off { tcp_nodelay off; proxy_pass http://{{a}}; }
            }
        }
        server { listen {{listen_tls}} ssl; return 200 ok; }
        server { listen {{listen_tls_off}} ssl; tcp_nodelay off; return 200 ok; }
    }
    stream {
        ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
        server { listen {{listen_text}} ssl; return text; }
        server { listen {{listen_text_off}} ssl; tcp_nodelay off; return text; }
        server { listen {{listen_stream}}; proxy_pass {{b}}; }
        server { listen {{listen_stream_off}}; tcp_nodelay off; proxy_pass {{b}}; }
    }";

/// A socket's option in the middle of a handshake: what comes after it may be the last that is sent.
fn in_handshake(s: &Subject, name: &str) -> Option<bool> {
    let mut stream = TcpStream::connect(s.address(name)).unwrap();
    let config = client(&[&TLS13], &[]);
    let mut tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    tls.write_tls(&mut stream).unwrap();
    stream.flush().unwrap();
    stream.peek(&mut [0]).unwrap();
    s.nodelay(stream.local_addr().unwrap())
}

/// After these answers: once the last is there, all that follows the one before it is done.
fn kept(s: &Subject, targets: &[&str]) -> Option<bool> {
    let mut conn = s.connect();
    for target in targets {
        conn.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"))
            .response();
    }
    s.nodelay(conn.address())
}

/// On a side of a session, once two pieces have gone each way.
fn streamed(s: &Subject, name: &str, upstream: bool) -> Option<bool> {
    let mut conn = s.connect_to(name);
    for piece in ["one", "two"] {
        conn.send(piece);
        conn.bytes(piece.len());
    }
    s.nodelay(if upstream {
        s.address("b")
    } else {
        conn.address()
    })
}

/// What `both` programs agree on is what the names say.
fn as_named(seen: &[(&str, Option<bool>)]) {
    for &(name, is_set) in seen {
        match is_set {
            None => eprintln!("skipped: sockets of others are closed to us"),
            Some(is_set) => {
                let is_late = name == "buffered" || name.ends_with(" off");
                assert_eq!(is_set, !is_late, "{name}");
            }
        }
    }
}

#[test]
fn small_pieces_go_out_at_once() {
    let seen = both(&with_certificates(CONF), |s: &mut Subject| {
        let [asked, go_on] = [(); 2].map(|()| Arc::new(Barrier::new(2)));
        let barriers = (Arc::clone(&asked), Arc::clone(&go_on));
        s.backend("a", move |conn| {
            let request = conn.request().unwrap();
            conn.write(if request.target().starts_with("/upgrade") {
                "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"
            });
            barriers.0.wait();
            barriers.1.wait();
            conn.write("k");
        });
        // While the rest of a body, or of a tunnel, is still to come.
        let during = |target: &str, is_seen: bool| {
            let mut conn = s.connect();
            conn.send(format!(
                "GET {target} HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\n\r\n"
            ));
            asked.wait();
            if is_seen {
                conn.head();
            }
            let is_set = s.nodelay(conn.address());
            go_on.wait();
            is_set
        };
        let h2 = || {
            let mut client = s.h2();
            client.fetch("/");
            client.fetch("/");
            s.nodelay(client.address())
        };
        [
            ("kept", kept(s, &["/", "/"])),
            ("kept, but off", kept(s, &["/off", "/off"])),
            ("off at first", kept(s, &["/off", "/", "/"])),
            ("buffered", during("/buffered", false)),
            ("unbuffered", during("/unbuffered", true)),
            ("upgraded", during("/upgrade", true)),
            ("upgraded, but off", during("/upgrade/off", true)),
            ("HTTP/2", h2()),
        ]
    });
    as_named(&seen);
}

#[test]
fn sessions_and_handshakes_do_too() {
    let seen = both(&with_certificates(CONF), |s: &mut Subject| {
        s.backend("b", Conn::echo);
        [
            ("TLS", in_handshake(s, "listen_tls")),
            ("TLS, but off", in_handshake(s, "listen_tls_off")),
            ("text", in_handshake(s, "listen_text")),
            ("text, but off", in_handshake(s, "listen_text_off")),
            ("downstream", streamed(s, "listen_stream", false)),
            (
                "downstream, but off",
                streamed(s, "listen_stream_off", false),
            ),
            ("upstream", streamed(s, "listen_stream", true)),
            ("upstream, but off", streamed(s, "listen_stream_off", true)),
        ]
    });
    as_named(&seen);
}
