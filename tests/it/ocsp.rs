//! OCSP: what responders say of clients' certificates, and of a server's own for its clients.

use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use crate::support::{
    Client, Conn, Subject, both, compare,
    ocsp::{Say, respond},
    ours,
    tls::{client_with, with_certificates},
};

/// A client's view of what comes with a server's certificate.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<u8>>);

impl ServerCertVerifier for Seen {
    fn verify_server_cert(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        stapled: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.0.lock().unwrap() = stapled.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::RSA_PSS_SHA256,
        ]
    }
}

/// What is stapled to the certificate of a server.
fn stapled(s: &Subject) -> Vec<u8> {
    let seen = Arc::new(Seen::default());
    let mut config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(seen.clone())
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    s.connect().secure("localhost", &Arc::new(config)).unwrap();
    seen.0.lock().unwrap().clone()
}

const STAPLING: &str = "
    ssl_certificate {{tls}}/ecdsa.crt; ssl_certificate_key {{tls}}/ecdsa.key;
    ssl_stapling on; ssl_stapling_verify on; ssl_trusted_certificate {{tls}}/ca.crt;
    ssl_stapling_responder http://{{a}}/x;";

fn http(rest: &str) -> String {
    with_certificates(&format!(
        "{rest} server {{ listen {{{{listen}}}} ssl; server_name localhost; location / {{ return 200 $ssl_client_verify; }} }}"
    ))
}

fn stream(rest: &str) -> String {
    with_certificates(&format!(
        "stream {{ log_format f '$status $ssl_client_verify'; access_log {{{{dir}}}}/f.log f;
            {rest} server {{ listen {{{{listen}}}} ssl; return good; }} }}"
    ))
}

/// The first client goes without; the answer is kept, so that nobody is asked again.
#[test]
fn answers_are_stapled() {
    for conf in [http(STAPLING), stream(STAPLING)] {
        both(&conf, |s: &mut Subject| {
            let sent = Arc::new(Mutex::new(Vec::new()));
            let kept = sent.clone();
            s.backend("a", move |conn: &mut Conn| {
                let answer = respond(conn, Say::Good).unwrap();
                *kept.lock().unwrap() = answer;
            });
            let first = stapled(s);
            s.until(|| !stapled(s).is_empty());
            let second = stapled(s);
            assert_eq!(second, *sent.lock().unwrap());
            (first.len(), s.received())
        });
    }
}

/// What a responder must not answer, and what is written about it.
#[test]
fn answers_that_are_not_stapled() {
    type Script = fn(&mut Conn);
    let scripts: [(&str, Script); 7] = [
        ("certificate status \"", |conn| {
            drop(respond(conn, Say::Revoked));
        }),
        ("certificate status \"", |conn| {
            drop(respond(conn, Say::Unknown));
        }),
        ("OCSP_check_validity", |conn| drop(respond(conn, Say::Old))),
        ("prematurely closed", |conn| drop(conn.request())),
        ("invalid \"Content-Type\"", |conn| {
            conn.request();
            conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n");
        }),
        ("invalid response", |conn| {
            conn.request();
            conn.write("garbage\r\n");
        }),
        ("not successful", |conn| {
            conn.request();
            conn.write(b"HTTP/1.1 200 OK\r\n\r\n\x30\x03\x0a\x01\x03");
        }),
    ];
    for (words, script) in scripts {
        both(&http(STAPLING), |s: &mut Subject| {
            s.backend("a", script);
            let first = stapled(s).len();
            (first, s.error(words), stapled(s).len())
        });
    }
    let conf = http(STAPLING).replace("{{a}}", "{{refused}}");
    both(&conf, |s: &mut Subject| {
        (stapled(s).len(), s.error("Connection refused"))
    });
}

/// Names of responders need a resolver, unless the configuration has found them.
#[test]
fn responders_with_names() {
    let conf = http(STAPLING).replace("http://{{a}}/x", "http://localhost:1/");
    both(&conf, |s: &mut Subject| {
        (stapled(s).len(), s.error("no resolver defined"))
    });
}

/// Statements out of a file, and everything that `-t` has to say of stapling.
#[test]
fn what_is_stapled_at_start() {
    let conf = |rest: &str| {
        let rest = format!("ssl_stapling on; {rest}");
        http(&STAPLING.replace("ssl_stapling on;", &rest))
    };
    both(&conf("ssl_stapling_file {{tls}}/rsa.ocsp;"), |s| stapled(s));
    for rest in [
        "ssl_stapling_file {{dir}}/none;",
        "ssl_stapling_file {{dir}};",
        "ssl_stapling_file {{tls}}/passwords;",
        "ssl_stapling_file /dev/null;",
    ] {
        assert_eq!(compare::check(&conf(rest)), Some(1), "{rest}");
    }
    let plain = STAPLING.replace("ssl_stapling_responder http://{{a}}/x;", "");
    let other = |url: &str| format!("{plain} ssl_stapling_responder {url};");
    for rest in [
        plain.clone(),
        plain.replace("ssl_trusted_certificate {{tls}}/ca.crt;", ""),
        other("https://localhost/"),
        other("http://localhost:0/"),
        other("http://none.invalid/"),
    ] {
        let two = format!("{rest} server {{ listen {{{{listen2}}}} ssl; }}");
        assert_eq!(compare::check(&http(&two)), Some(0), "{rest}");
    }
}

/// DIFFERS(stapling-wanted): a client that does not want the statement has it asked for all the same.
#[test]
fn everybody_has_it_asked_for() {
    ours(&http(STAPLING), |s: &mut Subject| {
        s.backend("a", |conn| drop(respond(conn, Say::Good)));
        stapled(s);
        s.wait_hits(1);
    });
}

const CLIENTS: &str = "
    ssl_certificate {{tls}}/ecdsa.crt; ssl_certificate_key {{tls}}/ecdsa.key;
    ssl_verify_client on; ssl_client_certificate {{tls}}/ca.crt; ssl_ocsp on; ssl_ocsp_responder http://{{a}};
    add_header X-Verify $ssl_client_verify always;";

/// Status and verdict of a request on a connection with a client's certificate.
fn ask(s: &Subject, certificate: &str) -> (u16, Option<String>) {
    let mut conn: Client = s
        .connect()
        .secure("localhost", &client_with(certificate))
        .unwrap();
    let response = conn
        .send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .response();
    let verdict = response.header("x-verify").map(str::to_owned);
    (response.status(), verdict)
}

/// Every kind of answer, and what a request on the connection gets.
#[test]
fn clients_are_asked_about() {
    let answers = both(&http(CLIENTS), |s: &mut Subject| {
        s.backend("a", |conn: &mut Conn| match conn.number {
            0 => drop(respond(conn, Say::Good)),
            1 => drop(respond(conn, Say::Revoked)),
            2 => drop(respond(conn, Say::Unknown)),
            3 => drop(respond(conn, Say::Old)),
            4 => {
                conn.request();
                conn.write("HTTP/1.1 404 Not Found\r\n\r\n");
            }
            _ => drop(conn.request()),
        });
        let answers: Vec<_> = (0..6).map(|_| ask(s, "client")).collect();
        let lines = ["revoked", "status unknown", "status request failed"]
            .map(|words| s.error(&format!("verify error: certificate {words}")));
        let others = [s.error("OCSP_check_validity"), s.error("prematurely")];
        (answers, lines, others, s.received())
    });
    let verdicts: Vec<_> = answers.0.iter().map(|(status, _)| *status).collect();
    assert_eq!(verdicts, [200, 400, 400, 400, 400, 400]);
}

/// The same for sessions of streams.
#[test]
fn clients_of_streams_are_asked_about() {
    let clients = CLIENTS.replace("add_header X-Verify $ssl_client_verify always;", "");
    both(&stream(&clients), |s: &mut Subject| {
        s.backend("a", |conn: &mut Conn| {
            let say = [Say::Good, Say::Revoked][conn.number.min(1)];
            respond(conn, say);
        });
        let texts = [0, 1].map(|_| {
            let conn = s.connect().secure("localhost", &client_with("client"));
            conn.map(|mut conn| conn.rest()).unwrap_or_default()
        });
        (texts, s.log("f.log", 2), s.error("verify error"))
    });
}

/// What is kept in a zone is not asked for again, also after a reload.
#[test]
fn answers_are_kept() {
    let conf = http(&format!("{CLIENTS} ssl_ocsp_cache shared:o:64k;"));
    let seen = both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| drop(respond(conn, Say::Revoked)));
        let before = [ask(s, "client"), ask(s, "client")];
        s.signal(Signal::SIGHUP);
        s.errors("exited with code 0", 1);
        (before, ask(s, "client"), s.count("a"))
    });
    assert_eq!((seen.1.0, seen.2), (400, 1));
}

/// A responder that says nothing is waited for as long as the handshake may take.
#[test]
fn responders_that_say_nothing() {
    let conf = http(&format!("{CLIENTS} client_header_timeout 400ms;"));
    both(&conf, |s: &mut Subject| {
        s.backend("a", Conn::wait_close);
        // The last of the handshake may be what the client waits for then.
        let conn = s.connect().secure("localhost", &client_with("client"));
        let is_closed = conn.map_or(true, |mut conn| conn.is_closed());
        (is_closed, s.error("client timed out"))
    });
}

/// Certificates that say nothing of a responder, and certificates that are bad anyway.
#[test]
fn who_is_not_asked_about() {
    let conf = http(&CLIENTS.replace("ssl_ocsp_responder http://{{a}};", ""));
    both(&conf, |s: &mut Subject| {
        (
            ask(s, "client"),
            s.error("no OCSP responder URL"),
            ask(s, "rsa"),
        )
    });
}
