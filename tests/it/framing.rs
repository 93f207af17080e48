//! Responses that are not as they should be: behaviours S3, P4 and H3.

use crate::support::{Subject, both, cases};

const CONF: &str = "
    upstream u { server {{a}}; }
    server { listen {{listen}};
        location / { proxy_pass http://u; }
        location /old { proxy_pass http://u; proxy_http_version 1.0; }
        location /large { proxy_pass http://u; proxy_buffer_size 16k; proxy_buffers 4 16k; proxy_busy_buffers_size 32k; } }";

/// Lets the backend answer with these bytes and close; the client's view of each.
fn relayed(target: &str, responses: &'static str) -> Vec<String> {
    relayed_bytes(target, &cases(responses))
}

fn relayed_bytes(target: &str, responses: &[(&'static str, Vec<u8>)]) -> Vec<String> {
    both(CONF, |s: &mut Subject| {
        let list: Vec<Vec<u8>> = responses.iter().map(|(_, bytes)| bytes.clone()).collect();
        s.backend("a", move |conn| {
            conn.request();
            conn.write(&list[conn.number]);
            conn.finish();
            conn.wait_close();
        });
        let seen = responses
            .iter()
            .map(|(name, _)| format!("{name}: {:?}", s.get(target)));
        seen.collect()
    })
}

#[test]
fn contradicting_lengths_are_502() {
    let seen = relayed(
        "/",
        r"
            both: HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n
            twice: HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc
            coding twice: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
            other coding: HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc
            bad length: HTTP/1.1 200 OK\r\nContent-Length: 3x\r\n\r\nabc
            ",
    );
    assert!(
        seen[..3]
            .iter()
            .all(|text| text.contains("502 Bad Gateway")),
        "{seen:?}"
    );
}

#[test]
fn bodies_that_end_early_are_seen_to() {
    relayed(
        "/",
        r"
            length: HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf...
            no last chunk: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n
            to the end: HTTP/1.1 200 OK\r\n\r\nall of it
            more than said: HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef
            more after chunks: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n
            nothing: 
            half a head: HTTP/1.1 200 OK\r\nContent-Le
            no body of a 204: HTTP/1.1 204 No Content\r\nX: y\r\n\r\n
            no body of a 304: HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n
            trailers: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n
            ",
    );
}

/// How much of it arrives depends on what was read at once; that it is cut off must be seen, by the client and in the log.
#[test]
fn bad_chunks_cut_the_response() {
    both(CONF, |s: &mut Subject| {
        let list = cases(
            r"
            bare LF: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n
            no number: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n
            overflow: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc
            too long: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n
            ",
        );
        s.backend("a", move |conn| {
            conn.request();
            conn.write(&list[conn.number].1);
            conn.wait_close();
        });
        let ask = |number| {
            let whole = s.get("/").whole;
            (
                whole,
                s.errors("upstream sent invalid chunked response", number),
            )
        };
        (1..=4).map(ask).collect::<Vec<_>>()
    });
}

#[test]
fn heads_that_are_none() {
    let seen = relayed(
        "/",
        r"
            bad name: HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n
            bare LF: HTTP/1.1 200 OK\nContent-Length: 2\nX: y\n\nok
            no header: just text\n
            old: HTTP/1.0 200 OK\r\n\r\nold
            no reason: HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n
            long status: HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n
            strange status: HTTP/1.1 299 Odd\r\nContent-Length: 0\r\n\r\n
            folded: HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n
            NUL: HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n
            hop by hop: HTTP/1.1 200 OK\r\nConnection: keep-alive, x\r\nKeep-Alive: 5\r\nProxy-Connection: y\r\nTE: z\r\nContent-Length: 0\r\n\r\n
            hidden: HTTP/1.1 200 OK\r\nServer: s\r\nX-Pad: p\r\nX-Accel-Foo: f\r\nX-Accel-Charset: utf-8\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n
            ",
    );
    assert!(seen[0].contains("502 Bad Gateway"), "{}", seen[0]);
}

/// P4: a head larger than `proxy_buffer_size`.
#[test]
fn a_head_that_is_too_large() {
    let head = format!(
        "HTTP/1.1 200 OK\r\nSet-Cookie: {}\r\nContent-Length: 2\r\n\r\nok",
        "c".repeat(9000)
    );
    let rows = [("nine kilobytes", head.into_bytes())];
    assert!(relayed_bytes("/", &rows)[0].contains("502 Bad Gateway"));
    assert!(relayed_bytes("/large", &rows)[0].contains("200 OK"));
}

/// P4: what the log says of it.
#[test]
fn the_log_names_what_is_wrong() {
    both(CONF, |s: &mut Subject| {
        let large = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "c".repeat(9000));
        let list = [
            ("upstream sent too big header", large),
            (
                "Content-Length\" and \"Transfer-Encoding",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                    .to_owned(),
            ),
            (
                "duplicate header line: \"Content-Length: 4",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n".to_owned(),
            ),
            (
                "invalid header",
                "HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n".to_owned(),
            ),
            ("no valid HTTP/1.0 header", "nonsense\r\n".to_owned()),
        ];
        let answers = list.clone();
        s.backend("a", move |conn| {
            conn.request();
            conn.write(&answers[conn.number].1);
        });
        let mut said = Vec::new();
        for (words, _) in list {
            let status = s.get("/").status();
            said.push((status, s.error(words)));
        }
        said
    });
}

/// The way back for old devices.
#[test]
fn http_1_0_upstreams() {
    relayed(
        "/old",
        r"
            to the end: HTTP/1.0 200 OK\r\n\r\nall
            length: HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nall
            chunked all the same: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n
            ",
    );
}

/// No byte of one response gets into another on a shared connection.
#[test]
fn stray_bytes_stay_out_of_the_next_response() {
    let conf = "
        upstream u { server {{a}}; keepalive 4; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            while let Some(request) = conn.request() {
                let text = request.target().to_owned();
                let length = text.len();
                conn.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstray!"));
            }
        });
        ["/one", "/two", "/three"].map(|target| s.get(target).text())
    });
}

/// HEAD and its answers.
#[test]
fn head_has_no_body() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.answer_all("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\n");
        });
        [s.ask("HEAD", "/", ""), s.ask("HEAD", "/old", "")]
    });
}

/// Behaviour H4.
#[test]
fn early_hints_are_skipped() {
    let seen = relayed(
        "/",
        r"
            one: HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok
            two: HTTP/1.1 103 A\r\n\r\nHTTP/1.1 103 B\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok
            ",
    );
    assert!(seen.iter().all(|row| row.contains("200 OK")), "{seen:?}");
}
