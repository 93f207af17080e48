//! TLS of clients: handshakes, the server that is asked for, and everything of HTTP over it.

use std::sync::Arc;

use rustls::{
    ClientConfig, HandshakeKind,
    version::{TLS12, TLS13},
};

use crate::support::{
    Client, Program, Subject, both, ours,
    tls::{client, client_with, with_certificates},
};

const CERTIFICATE: &str = "
    ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
    ssl_certificate {{tls}}/ecdsa.crt; ssl_certificate_key {{tls}}/ecdsa.key;";

fn conf(rest: &str) -> String {
    with_certificates(&format!("{CERTIFICATE}{rest}"))
}

/// The title of an error page, whose signature is each program's own; other texts whole.
fn title(page: &str) -> String {
    let title = page
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    title.map_or(page, |(title, _)| title).to_owned()
}

/// A connection with everything that this side can do.
fn connect(s: &Subject, name: &'static str) -> Result<Client, String> {
    s.connect().secure(name, &client(&[&TLS13, &TLS12], &[]))
}

/// Versions, and what variables say of them.
#[test]
fn handshakes_and_their_variables() {
    let conf = conf("
        server { listen {{listen}} ssl; server_name localhost;
            location / { return 200 '$scheme $https $ssl_protocol $ssl_cipher $ssl_server_name $ssl_session_reused'; } }");
    both(&conf, |s: &mut Subject| {
        let texts = [&TLS13, &TLS12].map(|version| {
            let mut conn = s
                .connect()
                .secure("localhost", &client(&[version], &[]))
                .unwrap();
            conn.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .response()
                .text()
        });
        // The cipher of 1.3 is each library's own choice.
        let [new, old] = texts;
        (
            new.replace("CHACHA20_POLY1305_SHA256", "AES_256_GCM_SHA384"),
            old,
        )
    });
}

/// The greeting's name chooses the certificate's server, Host the one that answers; unknown names get the first.
#[test]
fn names_choose_the_server() {
    let conf = conf("
        server { listen {{listen}} ssl default_server; server_name localhost; location / { return 200 first; } }
        server { listen {{listen}} ssl; server_name example.com *.example.com; ssl_protocols TLSv1.2;
            location / { return 200 $server_name$ssl_protocol; } }
        server { listen {{listen}} ssl; server_name no.example.com; ssl_reject_handshake on; }");
    let texts = both(&conf, |s: &mut Subject| {
        let ask = |name: &'static str, host: &str| {
            let Ok(mut conn) = connect(s, name) else {
                return "refused".to_owned();
            };
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            conn.send(request).response().text()
        };
        [
            ask("localhost", "localhost"),
            ask("example.com", "example.com"),
            ask("a.example.com", "localhost"),
            ask("localhost", "a.example.com"),
            ask("no.example.com", "x"),
        ]
    });
    let expected = [
        "first",
        "example.comTLSv1.2",
        "first",
        "example.comTLSv1.3",
        "refused",
    ];
    assert_eq!(texts, expected);
}

/// What is no TLS gets an answer that says so, or none.
#[test]
fn plain_requests_and_garbage() {
    let conf = conf(
        "
        server { listen {{listen}} ssl; server_name localhost; error_page 497 /497;
            location / { return 200; } location = /497 { internal; return 200 'plain $status'; } }
        server { listen {{listen2}} ssl; server_name localhost; location / { return 200; } }",
    );
    both(&conf, |s: &mut Subject| {
        let page = s.get("/");
        let mut plain = s.connect_to("listen2");
        let answer = plain.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").response();
        let closed = plain.is_closed();
        let mut garbage = s.connect();
        garbage.send([&b"\x16\x03\x01\x00\x05"[..], b"hello"].concat());
        let end = garbage.rest().len() <= 7;
        // A greeting that stops in the middle is ended by its client.
        let mut half = s.connect();
        half.send([0x16, 3, 1, 2, 0, 1]).finish();
        (
            page.status(),
            page.text(),
            answer.status(),
            title(&answer.text()),
            closed,
            end,
            half.is_closed(),
        )
    });
}

/// Sessions are resumed by tickets, also after a reload.
#[test]
fn sessions_are_resumed() {
    let conf = conf("
        server { listen {{listen}} ssl; server_name localhost; location / { return 200 $ssl_session_reused; } }");
    for version in [&TLS13, &TLS12] {
        let kinds = ours(&conf, |s: &mut Subject| {
            let config = client(&[version], &[]);
            let ask = || {
                let mut conn = s.connect().secure("localhost", &config).unwrap();
                let text = conn
                    .send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    .response()
                    .text();
                (
                    text,
                    conn.tls().handshake_kind() == Some(HandshakeKind::Resumed),
                )
            };
            let (first, second) = (ask(), ask());
            s.signal(nix::sys::signal::Signal::SIGHUP);
            s.errors("exited with code 0", 1);
            (first, second, ask())
        });
        let expected = |text: &str, resumed| (text.to_owned(), resumed);
        assert_eq!(
            kinds,
            (
                expected(".", false),
                expected("r", true),
                expected("r", true)
            )
        );
    }
}

/// Requests are kept alive, bodies go both ways, and much of them.
#[test]
fn requests_over_tls() {
    let conf = conf(
        "
        upstream u { server {{a}}; }
        server { listen {{listen}} ssl; server_name localhost; client_max_body_size 8m;
            location / { proxy_pass http://u; proxy_set_header X-Scheme $scheme; }
            location /redirect { return 302 /x; } }",
    );
    both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            while let Some(request) = conn.request() {
                let body = [&request.body[..], &vec![b'x'; 300_000]].concat();
                conn.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                ));
                conn.write(&body);
            }
        });
        let mut conn = connect(s, "localhost").unwrap();
        let lengths = [0, 1, 20_000, 2_000_000].map(|length| {
            let head =
                format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
            conn.send(head).send(vec![b'y'; length]);
            conn.response().text().len()
        });
        let redirect = conn
            .send("GET /redirect HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .response();
        let location = redirect.header("location").map(str::to_owned);
        let scheme = s.received()[0].header("x-scheme").map(str::to_owned);
        (lengths, location, scheme)
    });
}

/// Clients that do not come to an end with their handshake are closed, and leave nothing.
#[test]
fn slow_handshakes_end() {
    let conf = conf("
        server { listen {{listen}} ssl; server_name localhost; client_header_timeout 400ms; location / { return 200; } }");
    both(&conf, |s: &mut Subject| {
        connect(s, "localhost").unwrap();
        let before = s.descriptors();
        let mut silent: Vec<Client> = (0..5).map(|_| s.connect()).collect();
        for (n, conn) in silent.iter_mut().enumerate() {
            conn.send(&[0x16, 3, 1, 0, 200, 1][..=n]);
        }
        let closed = silent.iter_mut().all(Client::is_closed);
        s.until(|| s.descriptors() <= before);
        closed
    });
}

/// Certificates that cannot be used are errors with nginx's words.
#[test]
fn bad_files() {
    for pair in [
        "none.crt; ssl_certificate_key {{tls}}/rsa.key",
        "rsa.key; ssl_certificate_key {{tls}}/rsa.key",
        "rsa.crt; ssl_certificate_key {{tls}}/none.key",
        "rsa.crt; ssl_certificate_key {{tls}}/rsa.crt",
        "ecdsa.crt; ssl_certificate_key {{tls}}/other.key",
        "expired.crt; ssl_certificate_key {{tls}}/expired.key",
    ] {
        let conf = with_certificates(&format!(
            "server {{ listen {{{{listen}}}} ssl; ssl_certificate {{{{tls}}}}/{pair}; }}"
        ));
        crate::support::compare::check(&conf);
    }
}

/// DIFFERS(key-kind): a key that cannot be the certificate's is an error before any client comes.
#[test]
fn a_key_of_another_kind() {
    let conf = with_certificates(
        "server { listen {{listen}} ssl;
            ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/other.key; }",
    );
    let (code, text) = Subject::new(Program::Headwater, &conf).check(&["-t"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("key values mismatch"), "{text}");
}

/// The PROXY protocol comes before TLS, in one packet with the greeting or alone.
#[test]
fn behind_a_proxy() {
    let conf = conf("
        server { listen {{listen}} ssl proxy_protocol; server_name localhost; location / { return 200 $proxy_protocol_addr; } }");
    both(&conf, |s: &mut Subject| {
        let mut conn = s.connect();
        conn.send("PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n");
        let mut conn = conn.secure("localhost", &client(&[&TLS13], &[])).unwrap();
        conn.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .response()
            .text()
    });
}

/// Sessions of streams: the greeting's name chooses the server, bytes go both ways, and ends are passed on.
#[test]
fn sessions_of_streams() {
    let conf = with_certificates(&format!("
        stream {{ {CERTIFICATE}
            log_format f '$status $ssl_protocol $ssl_server_name $ssl_alpn_protocol $server_name $bytes_sent';
            access_log {{{{dir}}}}/f.log f;
            server {{ listen {{{{listen}}}} ssl; server_name localhost; proxy_pass {{{{a}}}}; proxy_half_close on; }}
            server {{ listen {{{{listen}}}} ssl; server_name example.com; ssl_alpn first second; return other; }}
            server {{ listen {{{{listen}}}} ssl; server_name no.example.com; ssl_reject_handshake on; return no; }} }}"));
    let seen = both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            let text = conn.rest();
            conn.write(text.len().to_string());
        });
        let mut conn = connect(s, "localhost").unwrap();
        conn.send(vec![b'x'; 700_000]).finish();
        let echoed = conn.rest();
        let other = s
            .connect()
            .secure("example.com", &client(&[&TLS12], &["second"]))
            .unwrap()
            .rest();
        let wrong = s
            .connect()
            .secure("example.com", &client(&[&TLS12], &["third"]))
            .is_err();
        let refused = connect(s, "no.example.com").is_err();
        (
            echoed,
            other,
            wrong,
            refused,
            s.log("f.log", 4)[..2].to_vec(),
        )
    });
    assert_eq!(
        (&*seen.0, &*seen.1, seen.2, seen.3),
        ("700000", "other", true, true)
    );
}

/// A session that is cut off by a slow client of the handshake ends as an error of ours.
#[test]
fn slow_handshakes_of_streams_end() {
    let conf = with_certificates(&format!("
        stream {{ {CERTIFICATE} ssl_handshake_timeout 100ms; log_format f $status; access_log {{{{dir}}}}/f.log f;
            server {{ listen {{{{listen}}}} ssl; return x; }} }}"));
    both(&conf, |s: &mut Subject| {
        let mut silent = s.connect();
        (silent.is_closed(), s.log("f.log", 1))
    });
}

/// Certificates of clients: what requests get, and what variables say.
#[test]
fn certificates_of_clients() {
    for mode in ["on", "optional", "optional_no_ca"] {
        let conf = with_certificates(&format!("{CERTIFICATE}
            server {{ listen {{{{listen}}}} ssl; server_name localhost; ssl_verify_client {mode};
                ssl_client_certificate {{{{tls}}}}/ca.crt; ssl_crl {{{{tls}}}}/ca.crl;
                location / {{ return 200 '$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_s_dn_legacy|$ssl_client_serial|$ssl_client_fingerprint|$ssl_client_v_start|$ssl_client_v_end|$ssl_client_v_remain|$ssl_client_escaped_cert|$ssl_client_raw_cert|$ssl_client_cert'; }} }}
            server {{ listen {{{{listen}}}} ssl; server_name example.com; location / {{ return 200 open; }} }}"));
        both(&conf, |s: &mut Subject| {
            let ask = |config: &Arc<ClientConfig>| {
                let mut conn = s.connect().secure("localhost", config).unwrap();
                let response = conn
                    .send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    .response();
                (response.status(), title(&response.text()))
            };
            let answers = ["client", "revoked", "rsa"].map(|name| ask(&client_with(name)));
            let none = ask(&client(&[&TLS12], &[]));
            // Another name's server is not asked on a connection that did not show a certificate for it.
            let mut conn = connect(s, "example.com").unwrap();
            let open = conn
                .send("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
                .response()
                .status();
            let foreign = conn
                .send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .response()
                .status();
            (answers, none, open, foreign)
        });
    }
}

/// The same of sessions of streams.
#[test]
fn certificates_of_clients_of_streams() {
    let conf = with_certificates(&format!(
        "
        stream {{ {CERTIFICATE} ssl_verify_client on; ssl_client_certificate {{{{tls}}}}/ca.crt;
            log_format f '$status $ssl_client_verify'; access_log {{{{dir}}}}/f.log f;
            server {{ listen {{{{listen}}}} ssl; return $ssl_client_s_dn; }} }}"
    ));
    both(&conf, |s: &mut Subject| {
        let good = s
            .connect()
            .secure("localhost", &client_with("client"))
            .unwrap()
            .rest();
        let none = s
            .connect()
            .secure("localhost", &client(&[&TLS12], &[]))
            .map(|mut conn| conn.rest());
        (good, none.unwrap_or_default(), s.log("f.log", 2))
    });
}

/// A server that wants certificates gets them over HTTP/2 too, and where the greeting named nobody.
#[test]
fn nobody_gets_round_certificates() {
    let conf = with_certificates(&format!("{CERTIFICATE}
        server {{ listen {{{{listen}}}} ssl; http2 on; server_name open.example.com; location / {{ return 200 open; }} }}
        server {{ listen {{{{listen}}}} ssl; http2 on; server_name localhost; ssl_verify_client on;
            ssl_client_certificate {{{{tls}}}}/ca.crt; location / {{ return 200 secret; }} }}"));
    let seen = both(&conf, |s: &mut Subject| {
        let mut streams = s
            .connect()
            .secure("localhost", &client(&[&TLS13], &["h2"]))
            .unwrap();
        let head = b"\x82\x87\x84\x41\x09localhost";
        let length = u8::try_from(head.len()).unwrap();
        streams.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        streams.send([&[0, 0, length, 1, 5, 0, 0, 0, 1][..], &head[..]].concat());
        // The first byte of the response's head is its status in the static table.
        let status = loop {
            let frame = streams.bytes(9);
            let payload = streams.bytes(usize::from(frame[1]) << 8 | usize::from(frame[2]));
            if frame[3] == 1 {
                break payload[0];
            }
        };
        let mut silent = client(&[&TLS13], &[]).as_ref().clone();
        silent.enable_sni = false;
        let mut conn = s.connect().secure("localhost", &Arc::new(silent)).unwrap();
        let response = conn
            .send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .response();
        (status, response.status(), title(&response.text()))
    });
    assert_eq!((seen.0, seen.1), (0x8c, 400));
}
