//! TLS's greeting in front of streams: what is read of it, whom it chooses, and what ends a session that waits for it.

use std::{fs, path::Path};

use rustls::version::TLS13;

use crate::support::{
    Subject, both,
    tls::{client, with_certificates},
};

const CONF: &str = "stream {
    log_format t '$status $bytes_received $server_name [$ssl_preread_server_name] [$ssl_preread_protocol] '
        '[$ssl_preread_alpn_protocols]';
    access_log {{dir}}/access.log t; ssl_preread on; preread_buffer_size 1k;
    server { listen {{listen}}; server_name any; proxy_pass {{a}}; }
    server { listen {{listen}}; server_name www.example.com; proxy_pass {{b}}; }
    server { listen {{listen_text}}; server_name any; return no; }
    server { listen {{listen_text}}; server_name *.example.com; return $ssl_preread_server_name; }
    server { listen {{listen_late}}; preread_timeout 50ms; proxy_pass {{a}}; }
    server { listen {{listen_off}}; ssl_preread off; proxy_pass {{a}}; }
    map $ssl_preread_server_name $to { www.example.com {{b}}; default {{a}}; }
    server { listen {{listen_map}}; proxy_pass $to; }
}";

/// A greeting of the test data: what a client with OpenSSL sends.
pub(crate) fn greeting(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/client_hello");
    // The first byte is for the fuzz target.
    fs::read(directory.join(name)).unwrap()[1..].to_vec()
}

/// Sends bytes in pieces of so many, and gives what the client gets, or what the backend has got.
fn send(s: &Subject, name: &str, bytes: &[u8], size: usize) -> String {
    s.forget();
    let mut client = s.connect_to(name);
    for piece in bytes.chunks(size) {
        client.send(piece);
    }
    let end = format!(" {}", bytes.len());
    let last = || s.received().last().map(|note| note.line.clone());
    let is_there = || last().is_some_and(|line| line.ends_with(&end));
    if name == "listen_text" {
        return client.rest();
    }
    s.until(is_there);
    client.finish();
    client.rest();
    last().unwrap()
}

fn backends(s: &mut Subject) {
    for name in ["a", "b"] {
        s.backend(name, move |conn| {
            let mut count = 0;
            while let Some(bytes) = conn.bytes() {
                count += bytes.len();
                conn.note(format!("{name} {count}"));
            }
        });
    }
}

#[test]
fn greetings_choose_the_server() {
    let (lines, backends) = both(CONF, |s: &mut Subject| {
        backends(s);
        let mut texts = Vec::new();
        let list = [
            ("listen", "tls13.raw", 9999),
            ("listen", "tls13.raw", 50),
            ("listen", "records.raw", 9999),
            ("listen_text", "tls12.raw", 9999),
            ("listen", "no_name.raw", 9999),
            ("listen", "ssl2.raw", 9999),
            ("listen", "http.raw", 9999),
            ("listen_off", "tls13.raw", 9999),
            ("listen_map", "tls13.raw", 9999),
            ("listen_map", "http.raw", 9999),
        ];
        for (count, (name, file, size)) in list.into_iter().enumerate() {
            texts.push(send(s, name, &greeting(file), size));
            s.log("access.log", count + 1);
        }
        (s.log("access.log", list.len()), texts)
    });
    let whole = "[www.example.com] [TLSv1.3] [h2,http/1.1]";
    for (index, line) in [
        format!("200 517 www.example.com {whole}"),
        format!("200 517 www.example.com {whole}"),
        format!("200 567 www.example.com {whole}"),
        "200 0 *.example.com [a.example.com] [TLSv1.2] []".to_owned(),
        "200 236 any [] [TLSv1.3] [imap]".to_owned(),
        "200 48 any [] [TLSv1] []".to_owned(),
        "200 18 any [-] [-] [-]".to_owned(),
        "200 517  [-] [-] [-]".to_owned(),
        format!("200 517  {whole}"),
        "200 18  [-] [-] [-]".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(lines[index], line);
    }
    let got = "b 517,b 517,b 567,a.example.com,a 236,a 48,a 18,a 517,b 517,a 18";
    assert_eq!(backends.join(","), got);
}

/// What was read out of TLS cannot be handed on.
#[test]
fn first_bytes_that_were_decrypted() {
    let conf = with_certificates(
        "stream { ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
            log_format t $status; access_log {{dir}}/access.log t;
            server { listen {{listen}} ssl; ssl_preread on; pass {{listen_text}}; }
            server { listen {{listen2}} ssl; pass {{listen_text}}; }
            server { listen {{listen_text}}; return text; } }",
    );
    let seen = both(&conf, |s: &mut Subject| {
        let texts = ["listen", "listen2"].map(|name| {
            let mut conn = s
                .connect_to(name)
                .secure("localhost", &client(&[&TLS13], &[]))
                .unwrap();
            conn.send("GET / HTTP/1.0\r\n\r\n").rest()
        });
        (texts, s.log("access.log", 2), s.error("preread data"))
    });
    assert_eq!(seen.0, ["", "text"]);
}

/// Inside TLS too the first bytes choose the server, in pieces as well, and then go where the others go.
#[test]
fn greetings_inside_tls() {
    let conf = with_certificates(
        "stream { ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key; ssl_preread on;
            server { listen {{listen}} ssl; server_name any; proxy_pass {{a}}; }
            server { listen {{listen}} ssl; server_name www.example.com; proxy_pass {{b}}; } }",
    );
    both(&conf, |s: &mut Subject| {
        for name in ["a", "b"] {
            s.backend(name, move |conn| {
                let bytes = conn.rest();
                conn.write(format!(
                    "{name} {} {:08x}",
                    bytes.len(),
                    crc32fast::hash(&bytes)
                ));
            });
        }
        let hello = greeting("tls13.raw");
        [
            (&hello[..], 7),
            (&hello[..], 9000),
            (b"GET / HTTP/1.0\r\n\r\n", 9000),
        ]
        .map(|(bytes, size)| {
            let tls = client(&[&TLS13], &[]);
            let mut conn = s.connect().secure("localhost", &tls).unwrap();
            for piece in bytes.chunks(size) {
                conn.send(piece);
            }
            conn.finish().rest()
        })
    });
}

#[test]
fn what_is_no_whole_greeting() {
    let big = [&b"\x16\x03\x01\x40\0\x01\0\x3f\xf0\x03\x03"[..], &[7; 2000]].concat();
    let wrong = b"\x16\x03\x01\0\x06\x01\0\0\x02\x03\x03";
    let (lines, errors) = both(CONF, |s: &mut Subject| {
        backends(s);
        let hello = greeting("tls13.raw");
        // The end before the end of the greeting; no byte at all.
        for (count, bytes) in [&hello[..100], b""].into_iter().enumerate() {
            let mut client = s.connect();
            client.send(bytes).finish();
            client.rest();
            s.log("access.log", count + 1);
        }
        // Late ones wait on both sides.
        let mut late = s.connect_to("listen_late");
        late.send(&hello[..100]);
        let mut texts = vec![late.rest()];
        texts.push(s.connect_to("listen_late").rest());
        s.log("access.log", 4);
        let mut big_one = s.connect();
        texts.push(big_one.send(&big).rest());
        s.log("access.log", 5);
        send(s, "listen", wrong, 9999);
        texts.push(s.error("preread buffer full"));
        (s.log("access.log", 6), texts)
    });
    assert_eq!(
        lines,
        [
            "200 0 any [] [] []",
            "200 0 any [-] [-] [-]",
            "200 0  [] [] []",
            "200 0  [-] [-] [-]",
            "400 0 any [] [] []",
            "200 11 any [-] [-] [-]",
        ]
    );
    assert_eq!(errors[..3], ["", "", ""]);
}
