//! Certificates that are chosen for each connection, what is kept of them, and of sessions.

use std::{
    fs,
    io::Read as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use data_encoding::BASE64;
use nix::sys::signal::Signal;
use rustls::{
    CertificateCompressionAlgorithm, ClientConfig,
    client::Resumption,
    compress::{CertDecompressor, DecompressionFailed},
    pki_types::{CertificateDer, pem::PemObject as _},
    version::{TLS12, TLS13},
};

use crate::support::{
    Client, Subject, both, ours,
    tls::{client, client_with, file, with_certificates},
};

/// Which of the certificates of testdata a connection has shown.
fn shown(conn: &Client) -> &'static str {
    let shown = &conn.tls().peer_certificates().unwrap()[0];
    let names = ["rsa", "ecdsa", "client"];
    let is_it = |name: &&&str| {
        CertificateDer::from_pem_file(file(&format!("{name}.crt"))).unwrap() == *shown
    };
    names.iter().find(is_it).copied().unwrap_or("another")
}

/// What `name`'s server shows and answers, or that there is no connection.
fn ask(s: &Subject, name: &'static str, config: &Arc<ClientConfig>) -> (String, String) {
    match s.connect().secure(name, config) {
        Err(_) => ("none".to_owned(), String::new()),
        Ok(mut conn) => {
            let which = shown(&conn).to_owned();
            let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
            (which, conn.send(request).response().text())
        }
    }
}

const NAMED: &str = "
    map $ssl_server_name $file { localhost rsa; example.com ecdsa; default none; }
    map $ssl_server_name $key { default other; }";

/// Names with variables are evaluated with what the greeting says, and what is missing ends the handshake.
#[test]
fn certificates_with_variables() {
    let conf = with_certificates(&format!(
        "{NAMED}
        server {{ listen {{{{listen}}}} ssl; server_name localhost example.com *.example.com;
            ssl_certificate {{{{tls}}}}/$file.crt; ssl_certificate_key {{{{tls}}}}/$file.key;
            location / {{ return 200 '$ssl_server_name $ssl_session_reused'; }} }}
        server {{ listen {{{{listen2}}}} ssl;
            ssl_certificate {{{{tls}}}}/ecdsa.crt; ssl_certificate_key {{{{tls}}}}/$key.key; }}"
    ));
    let seen = both(&conf, |s: &mut Subject| {
        let config = client(&[&TLS13, &TLS12], &[]);
        let good = [ask(s, "localhost", &config), ask(s, "example.com", &config)];
        let bad = ask(s, "a.example.com", &config);
        let line = s.error("cannot load certificate");
        // A key of somebody else.
        let other = s.connect_to("listen2").secure("example.com", &config);
        (good, bad, line, other.is_err())
    });
    let [rsa, ecdsa] = seen.0;
    assert_eq!(rsa, ("rsa".to_owned(), "localhost .".to_owned()));
    assert_eq!(ecdsa.0, "ecdsa");
    assert_eq!((&*seen.1.0, seen.3), ("none", true));
}

/// The same of streams, with the certificate itself in a variable.
#[test]
fn certificates_with_variables_of_streams() {
    let text = |name: &str| fs::read_to_string(file(name)).unwrap();
    let data = format!(
        "map $ssl_server_name $pem {{ localhost '{}'; }} map $ssl_server_name $key {{ localhost '{}'; }}",
        text("ecdsa.crt"),
        text("ecdsa.key")
    );
    let conf = with_certificates(&format!(
        "stream {{ {data} log_format f '$status $ssl_server_name'; access_log {{{{dir}}}}/f.log f;
            server {{ listen {{{{listen}}}} ssl; ssl_certificate data:$pem; ssl_certificate_key data:$key;
                return '$ssl_protocol $ssl_cipher'; }} }}"
    ));
    both(&conf, |s: &mut Subject| {
        let config = client(&[&TLS12], &[]);
        let mut conn = s.connect().secure("localhost", &config).unwrap();
        let good = (shown(&conn), conn.rest());
        let bad = s.connect().secure("example.com", &config).is_err();
        (good, bad, s.log("f.log", 2))
    });
}

/// Puts a pair of testdata under another name.
fn put(s: &Subject, from: &str, to: &str) {
    for kind in ["crt", "key"] {
        let made = s.path("made");
        fs::copy(file(&format!("{from}.{kind}")), &made).unwrap();
        fs::rename(made, s.path(&format!("{to}.{kind}"))).unwrap();
    }
}

/// What `ssl_certificate_cache` keeps is not read again, and what it does not keep is.
#[test]
fn certificates_are_kept() {
    let conf = with_certificates("
        ssl_certificate {{dir}}/$ssl_server_name.crt; ssl_certificate_key {{dir}}/$ssl_server_name.key;
        ssl_certificate_cache max=4;
        server { listen {{listen}} ssl; server_name localhost; location / { return 200; } }
        server { listen {{listen}} ssl; server_name example.com; ssl_certificate_cache off; location / { return 200; } }");
    let seen = both(&conf, |s: &mut Subject| {
        // DIFFERS(resumed-certificate): with a session to resume nginx needs no certificate.
        let mut config = client(&[&TLS13], &[]).as_ref().clone();
        config.resumption = Resumption::disabled();
        let config = Arc::new(config);
        ["localhost", "example.com"].map(|name| {
            put(s, "rsa", name);
            let first = ask(s, name, &config).0;
            put(s, "ecdsa", name);
            let second = ask(s, name, &config).0;
            for kind in ["crt", "key"] {
                fs::remove_file(s.path(&format!("{name}.{kind}"))).unwrap();
            }
            [first, second, ask(s, name, &config).0]
        })
    });
    assert_eq!(seen, [["rsa", "rsa", "rsa"], ["rsa", "ecdsa", "none"]]);
}

/// Reloads, and waits until the old worker is gone.
fn reload(s: &Subject) {
    let gone = s.errors("exited with code 0", 0);
    s.signal(Signal::SIGHUP);
    s.errors("exited with code 0", gone + 1);
}

/// Over a reload a file that is still the same is not read again, unless that is forbidden.
#[test]
fn files_outlive_a_reload() {
    for (inheritable, expected) in [("on", "rsa"), ("off", "ecdsa")] {
        let conf = with_certificates(&format!(
            "ssl_object_cache_inheritable {inheritable};
            events {{ worker_connections 64; }}
            http {{ access_log off; server {{ listen {{{{listen}}}} ssl;
                ssl_certificate {{{{tls}}}}/client.crt; ssl_certificate_key {{{{tls}}}}/client.key;
                location / {{ return 200; }} }} }}"
        ));
        let kept = both(&conf, |s: &mut Subject| {
            put(s, "rsa", "x");
            let text = fs::read_to_string(s.path("test.conf")).unwrap();
            let own = format!("{}/x.", s.path("").display());
            let text = text.replace(&with_certificates("{{tls}}/client."), &own);
            fs::write(s.path("test.conf"), text).unwrap();
            reload(s);
            for kind in ["crt", "key"] {
                let path = s.path(&format!("x.{kind}"));
                let time = fs::metadata(&path).unwrap().modified().unwrap();
                fs::write(&path, fs::read(file(&format!("ecdsa.{kind}"))).unwrap()).unwrap();
                let written = fs::File::options().write(true).open(&path).unwrap();
                written.set_modified(time).unwrap();
            }
            reload(s);
            ask(s, "localhost", &client(&[&TLS13], &[])).0
        });
        assert_eq!(kept, expected);
    }
}

/// `BEGIN TRUSTED CERTIFICATE`: what stands behind an authority's certificate says what it is trusted for.
#[test]
fn certificates_with_trust() {
    let own = CertificateDer::from_pem_file(file("ca.crt")).unwrap();
    let trusted = |purpose: u8| {
        let behind = [0x30, 12, 0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 3, purpose];
        let text = BASE64.encode(&[&own[..], &behind].concat());
        let lines: Vec<&str> = text
            .as_bytes()
            .chunks(64)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        let label = "TRUSTED CERTIFICATE-----";
        format!(
            "-----BEGIN {label}\n{}\n-----END {label}\n",
            lines.join("\n")
        )
    };
    let conf = with_certificates("
        server { listen {{listen}} ssl; server_name localhost; ssl_verify_client optional;
            ssl_client_certificate {{tls}}/ca.crt; error_page 495 /495;
            ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
            location / { return 200 $ssl_client_verify; } location = /495 { return 200 $status; } }");
    let seen = both(&conf, |s: &mut Subject| {
        let text = fs::read_to_string(s.path("test.conf")).unwrap();
        let own = s.path("ca.crt").display().to_string();
        let text = text.replace(&with_certificates("{{tls}}/ca.crt"), &own);
        fs::write(s.path("test.conf"), text).unwrap();
        [2, 1].map(|purpose| {
            fs::write(s.path("made"), trusted(purpose)).unwrap();
            fs::rename(s.path("made"), s.path("ca.crt")).unwrap();
            reload(s);
            ask(s, "localhost", &client_with("client")).1
        })
    });
    assert_eq!(seen, ["SUCCESS", "400"]);
}

/// Keys of a store are files here.
#[test]
fn keys_of_stores() {
    let conf = with_certificates(
        "
        server { listen {{listen}} ssl;
            ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key store:file:{{tls}}/rsa.key;
            location / { return 200; } }",
    );
    let which = both(&conf, |s: &mut Subject| {
        ask(s, "localhost", &client(&[&TLS13], &[])).0
    });
    assert_eq!(which, "rsa");
}

/// Keys with a password, in the forms that OpenSSL has had.
#[test]
fn keys_with_passwords() {
    for (certificate, form) in [
        ("rsa", ""),
        ("rsa", ".des3"),
        ("rsa", ".old"),
        ("ecdsa", ".ec"),
    ] {
        let code = crate::support::compare::check(&with_certificates(&format!(
            "server {{ listen {{{{listen}}}} ssl; ssl_password_file {{{{tls}}}}/passwords;
                ssl_certificate {{{{tls}}}}/{certificate}.crt; ssl_certificate_key {{{{tls}}}}/encrypted{form}.key; }}"
        )));
        assert_eq!(code, Some(0));
    }
}

/// The number of a session: its own where it is kept, the client's with a ticket, and always the connection's with 1.3.
#[test]
fn numbers_of_sessions() {
    for tickets in ["on", "off"] {
        let conf = with_certificates(&format!("
            ssl_certificate {{{{tls}}}}/rsa.crt; ssl_certificate_key {{{{tls}}}}/rsa.key;
            ssl_session_cache shared:s:1m; ssl_session_tickets {tickets};
            server {{ listen {{{{listen}}}} ssl; location / {{ return 200 '$ssl_session_reused$ssl_session_id'; }} }}
            server {{ listen {{{{listen2}}}} ssl; ssl_session_timeout 1d; location / {{ return 200 '$ssl_session_reused'; }} }}
            server {{ listen {{{{listen3}}}} ssl; ssl_certificate {{{{tls}}}}/ecdsa.crt; ssl_certificate_key {{{{tls}}}}/ecdsa.key;
                location / {{ return 200 '$ssl_session_reused'; }} }}"));
        both(&conf, |s: &mut Subject| {
            [&TLS12, &TLS13].map(|version| {
                let config = client(&[version], &[]);
                let answer = |place: &str| {
                    let mut conn = s.connect_to(place).secure("localhost", &config).unwrap();
                    let request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
                    let first = conn.send(request).response().text();
                    assert_eq!(conn.send(request).response().text(), first);
                    first
                };
                let texts = [answer("listen"), answer("listen"), answer("listen")];
                let same = version == &TLS12 && texts[1] == texts[2];
                // Where the certificates are the same a session is good, and nowhere else.
                let others = ["listen2", "listen3"].map(answer);
                let shapes = texts.map(|text| (text[..1].to_owned(), text.len()));
                (shapes, same, others)
            })
        });
    }
}

/// What a client offers, by OpenSSL's names and numbers, also when nothing comes of it.
#[test]
fn lists_of_greetings() {
    let conf = with_certificates("
        stream { ssl_certificate {{tls}}/ecdsa.crt; ssl_certificate_key {{tls}}/ecdsa.key;
            log_format f '$ssl_ciphers|$ssl_curves|$ssl_sigalgs|$ssl_server_name'; access_log {{dir}}/f.log f;
            server { listen {{listen}} ssl; return x; } }");
    let lines = both(&conf, |s: &mut Subject| {
        let mut conn = s.connect();
        let codes = |codes: &[u16]| -> Vec<u8> {
            codes.iter().flat_map(|code| code.to_be_bytes()).collect()
        };
        let list = |bytes: &[u8]| {
            let length = u16::try_from(bytes.len()).unwrap();
            [&length.to_be_bytes()[..], bytes].concat()
        };
        let suites = [
            0x0a0a, 0x1301, 0xc02b, 0x002f, 0xc0ac, 0x0088, 0xcca9, 0x00ff,
        ];
        let groups = list(&codes(&[0x1a1a, 29, 23, 24, 0x100, 0x0102, 30]));
        let schemes = list(&codes(&[0x0403, 0x0804, 0x2a2a, 0x0203]));
        let extensions = [
            &[0, 10][..],
            &list(&groups),
            &[0, 13],
            &list(&schemes),
            &[0, 11, 0, 2, 1, 0],
        ]
        .concat();
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &list(&codes(&suites)),
            &[1, 0],
            &list(&extensions),
        ]
        .concat();
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        let message = [&[1, 0][..], &length, &body].concat();
        conn.send([&[22, 3, 1][..], &list(&message)].concat());
        // The server's answer, and the end.
        conn.bytes(100);
        conn.finish();
        conn.rest();
        s.log("f.log", 1)
    });
    assert!(lines[0].starts_with("0x0a0a:TLS_AES_128_GCM_SHA256:ECDHE-ECDSA-AES128"));
}

/// With what both sides have signed. The oracle's OpenSSL does not say.
#[test]
fn signatures() {
    let conf = with_certificates("
        server { listen {{listen}} ssl; ssl_verify_client optional; ssl_client_certificate {{tls}}/ca.crt;
            ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
            location / { return 200 '$ssl_sigalg $ssl_client_sigalg'; } }");
    let text = ours(&conf, |s: &mut Subject| {
        ask(s, "localhost", &client_with("client")).1
    });
    assert_eq!(text, "rsa_pss_rsae_sha512 ecdsa_secp256r1_sha256");
}

/// Requests that come before the handshake is over are answered before it is.
#[test]
fn early_data() {
    let conf = with_certificates(
        "
        ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
        ssl_session_cache shared:s:1m; ssl_early_data on;
        server { listen {{listen}} ssl; client_max_body_size 1m;
            location / { proxy_pass http://{{a}}; proxy_set_header Early-Data $ssl_early_data; } }",
    );
    let seen = both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            while let Some(request) = conn.request() {
                let early = request.header("early-data").unwrap_or("none");
                let text = format!("{early} {}", request.body.len());
                let length = text.len();
                conn.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}"
                ));
            }
        });
        let mut config = client(&[&TLS13], &[]).as_ref().clone();
        config.enable_early_data = true;
        let config = Arc::new(config);
        let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let first = ask(s, "localhost", &config).1;
        let mut conn = s
            .connect()
            .secure_early("localhost", &config, get.as_bytes());
        let early = conn.response().text();
        let later = conn.send(get).response().text();
        // The rest of a body comes after the handshake.
        let post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nbegin";
        let mut conn = s
            .connect()
            .secure_early("localhost", &config, post.as_bytes());
        conn.finish_handshake();
        let whole = conn.send(vec![b'x'; 99_995]).response().text();
        let close = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut conn = s
            .connect()
            .secure_early("localhost", &config, close.as_bytes());
        let last = conn.response().text();
        (first, early, later, whole.ends_with(" 100000"), last)
    });
    let texts = [seen.0, seen.1, seen.2, seen.4];
    assert_eq!(texts, ["none 0", "1 0", "none 0", "1 0"]);
}

/// Opens certificates, and counts how many.
#[derive(Debug, Default)]
struct Opener(AtomicUsize);

impl CertDecompressor for Opener {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let mut decoder = flate2::read::ZlibDecoder::new(input);
        decoder.read_exact(output).map_err(|_| DecompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}

/// Certificates are compressed for clients that know how, where that is wanted. The oracle's OpenSSL does not do it.
#[test]
fn certificates_are_compressed() {
    let conf = with_certificates(
        "
        ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
        server { listen {{listen}} ssl; ssl_certificate_compression on; location / { return 200; } }
        server { listen {{listen2}} ssl; location / { return 200; } }",
    );
    let counts = ours(&conf, |s: &mut Subject| {
        ["listen", "listen2"].map(|place| {
            let opener: &'static Opener = Box::leak(Box::default());
            let mut config = client(&[&TLS13], &[]).as_ref().clone();
            config.cert_decompressors = vec![opener];
            let conn = s.connect_to(place).secure("localhost", &Arc::new(config));
            assert_eq!(shown(&conn.unwrap()), "rsa");
            opener.0.load(Ordering::Relaxed)
        })
    });
    assert_eq!(counts, [1, 0]);
}

/// What was looked at inside TLS is still to be read, and is not passed on to another listener.
#[test]
fn prereading_inside_tls() {
    let conf = with_certificates("
        stream { ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key; ssl_preread on;
            log_format f '$status $ssl_preread_protocol'; access_log {{dir}}/f.log f;
            server { listen {{listen}} ssl; proxy_pass {{a}}; proxy_half_close on; }
            server { listen {{listen2}} ssl; pass {{listen3}}; }
            server { listen {{listen3}}; ssl_preread off; return passed; } }");
    both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            let text = conn.rest();
            conn.write(text);
        });
        let config = client(&[&TLS13], &[]);
        let texts = ["listen", "listen2"].map(|place| {
            let mut conn = s.connect_to(place).secure("localhost", &config).unwrap();
            conn.send("no greeting").finish();
            conn.rest()
        });
        let line = s.error("preread data");
        (texts, line, s.log("f.log", 2))
    });
}

/// A connection that only waits is at most 12 KiB.
#[test]
fn idle_connections_are_small() {
    const COUNT: u64 = 200;
    let conf = with_certificates(
        "
        ssl_certificate {{tls}}/ecdsa.crt; ssl_certificate_key {{tls}}/ecdsa.key;
        server { listen {{listen}} ssl; location / { return 200; } }",
    );
    let each = ours(&conf, |s: &mut Subject| {
        let config = client(&[&TLS13], &[]);
        let open = || {
            let mut conn = s.connect().secure("localhost", &config).unwrap();
            let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
            assert_eq!(conn.send(request).response().status(), 200);
            conn
        };
        let _first: Vec<Client> = (0..COUNT / 2).map(|_| open()).collect();
        let before = s.memory();
        let _more: Vec<Client> = (0..COUNT).map(|_| open()).collect();
        s.memory().saturating_sub(before) / COUNT
    });
    assert!(each <= 12 << 10, "{each}");
}
