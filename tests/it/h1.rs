//! Requests that are not as they should be: behaviour S1, and what is around it in the protocol.

use crate::support::{Subject, both, cases};

const CONF: &str = "
    upstream u { server {{a}}; }
    server { listen {{listen}}; location / { proxy_pass http://u; } }";

/// Sends each request on a connection of its own and says what came of it: the status line, whether the connection is
/// open afterwards, and what reached the backend.
fn outcomes(conf: &str, requests: &'static str) -> Vec<String> {
    let requests = cases(requests);
    both(conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut rows = Vec::new();
        for (name, request) in &requests {
            s.forget();
            let mut client = s.connect();
            client.send(request);
            if client.is_silent_for(200) {
                rows.push(format!("{name}: silence"));
                continue;
            }
            let response = client.response();
            let after = if client.is_idle() { "open" } else { "closed" };
            let line = match &*response.line {
                "" => format!("{:?}", response.text()),
                line => line.to_owned(),
            };
            let received = s.received();
            let sent: Vec<String> = received
                .iter()
                .map(|r| format!("{} + {:?}", r.line, String::from_utf8_lossy(&r.body)))
                .collect();
            rows.push(format!("{name}: {line}, {after}, {sent:?}"));
        }
        rows
    })
}

/// The statuses of rows, which must be alike; nothing may have reached the backend, and the connection is closed.
fn all_refused(rows: &[String], status: u16) {
    for row in rows {
        assert!(row.contains(&format!("HTTP/1.1 {status} ")), "{row}");
        assert!(row.ends_with("closed, []"), "{row}");
    }
}

#[test]
fn lengths_that_contradict_are_400() {
    let rows = outcomes(
        CONF,
        r"
            both: POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
            twice: POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc
            twice the same: POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc
            list: POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 0\r\n\r\n
            plus: POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc
            minus: POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\nabc
            huge: POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nabc
            empty: POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\nabc
            hex: POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x3\r\n\r\nabc
            coding twice: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
            coding in 1.0: POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
            ",
    );
    all_refused(&rows, 400);
}

#[test]
fn codings_that_nobody_knows_are_501() {
    let rows = outcomes(
        CONF,
        r"
            list: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n
            identity: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n
            other: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n
            gzip: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n
            ",
    );
    all_refused(&rows, 501);
}

#[test]
fn header_lines_that_are_none_are_400() {
    outcomes(
        CONF,
        r"
            space before the colon: GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n
            folded: GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n
            bare CR: GET / HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n
            NUL in a value: GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n
            NUL in a name: GET / HTTP/1.1\r\nHost: x\r\nX\x00: a\r\n\r\n
            no colon: GET / HTTP/1.1\r\nHost: x\r\nnothing\r\n\r\n
            empty name: GET / HTTP/1.1\r\nHost: x\r\n: x\r\n\r\n
            control in a name: GET / HTTP/1.1\r\nHost: x\r\nX\x01: a\r\n\r\n
            underscore: GET / HTTP/1.1\r\nHost: x\r\nX_y: a\r\n\r\n
            odd name: GET / HTTP/1.1\r\nHost: x\r\nX!#$%: a\r\n\r\n
            UTF-8: GET / HTTP/1.1\r\nHost: x\r\nX: \xc3\xa4\r\n\r\n
            ",
    );
}

#[test]
fn hosts() {
    outcomes(
        CONF,
        r"
            two: GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n
            none: GET / HTTP/1.1\r\n\r\n
            none in 1.0: GET / HTTP/1.0\r\n\r\n
            slash: GET / HTTP/1.1\r\nHost: a/b\r\n\r\n
            space: GET / HTTP/1.1\r\nHost: a b\r\n\r\n
            two dots: GET / HTTP/1.1\r\nHost: a..b\r\n\r\n
            empty: GET / HTTP/1.1\r\nHost:\r\n\r\n
            port: GET / HTTP/1.1\r\nHost: a:80\r\n\r\n
            no port: GET / HTTP/1.1\r\nHost: a:\r\n\r\n
            odd port: GET / HTTP/1.1\r\nHost: a:8o\r\n\r\n
            v6: GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n
            half v6: GET / HTTP/1.1\r\nHost: [::1\r\n\r\n
            control: GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n
            dot: GET / HTTP/1.1\r\nHost: .\r\n\r\n
            ",
    );
}

#[test]
fn request_lines() {
    outcomes(
        CONF,
        r"
            lower case: get / HTTP/1.1\r\nHost: x\r\n\r\n
            space in the target: GET /a b HTTP/1.1\r\nHost: x\r\n\r\n
            above the root: GET /../x HTTP/1.1\r\nHost: x\r\n\r\n
            above the root, encoded: GET /a/%2e%2e/%2e%2e/x HTTP/1.1\r\nHost: x\r\n\r\n
            bad escape: GET /%4 HTTP/1.1\r\nHost: x\r\n\r\n
            NUL escape: GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n
            no slash: GET x HTTP/1.1\r\nHost: x\r\n\r\n
            asterisk: OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n
            HTTP/2.0: GET / HTTP/2.0\r\nHost: x\r\n\r\n
            HTTP/1.2: GET / HTTP/1.2\r\nHost: x\r\n\r\n
            HTTP/1.10: GET / HTTP/1.10\r\nHost: x\r\n\r\n
            HTTP/0.9: GET /\r\n
            HTTP/x: GET / HTTP/x\r\nHost: x\r\n\r\n
            trailing space: GET / HTTP/1.1 \r\nHost: x\r\n\r\n
            two spaces: GET  / HTTP/1.1\r\nHost: x\r\n\r\n
            empty lines before: \r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n
            a fragment: GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n
            TRACE: TRACE / HTTP/1.1\r\nHost: x\r\n\r\n
            CONNECT: CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n
            unknown: BREW / HTTP/1.1\r\nHost: x\r\n\r\n
            underscores: A_B / HTTP/1.1\r\nHost: x\r\n\r\n
            h2 preface: PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n
            TLS: \x16\x03\x01\r\n\r\n
            tab: GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n
            upper half: GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n
            control: GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n
            ",
    );
}

#[test]
fn chunks() {
    outcomes(
        CONF,
        r"
            fine: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n
            extensions and trailers: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0;c\r\nX: y\r\n\r\n
            bare LF: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n
            overflow: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc
            too large: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\nabc
            no number: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n
            longer than said: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n
            upper case: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: CHUNKED\r\n\r\n0003\r\nabc\r\n0\r\n\r\n
            space before the size: POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n
            ",
    );
}

#[test]
fn what_is_accepted() {
    let rows = outcomes(
        CONF,
        r"
            bare LF: GET / HTTP/1.1\nHost: x\n\n
            GET with a body: GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc
            unknown method: FOO / HTTP/1.1\r\nHost: x\r\n\r\n
            1.0 keep-alive: GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n
            1.0: GET / HTTP/1.0\r\n\r\n
            close: GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n
            no body of a POST: POST / HTTP/1.1\r\nHost: x\r\n\r\n
            ",
    );
    assert!(
        rows.iter().all(|row| row.contains("HTTP/1.1 200 OK")),
        "{rows:?}"
    );
}

/// Heads that are too large, for the line and for the headers.
#[test]
fn sizes() {
    let conf = "
        upstream u { server {{a}}; }
        client_header_buffer_size 256; large_client_header_buffers 2 512; max_headers 8; client_max_body_size 4;
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut rows = Vec::new();
        for (line, header, count, body) in [
            (0, 0, 1, 0),
            (300, 0, 1, 0),
            (600, 0, 1, 0),
            (0, 300, 1, 0),
            (0, 600, 1, 0),
            (0, 300, 3, 0),
            (0, 1, 20, 0),
            (0, 0, 1, 4),
            (0, 0, 1, 5),
        ] {
            let headers = format!("X: {}\r\n", "y".repeat(header)).repeat(count);
            let request = format!(
                "POST /{} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {body}\r\n\r\n{}",
                "x".repeat(line),
                "z".repeat(body)
            );
            let mut client = s.connect();
            client.send(request);
            rows.push((
                line,
                header,
                count,
                body,
                client.response().status(),
                client.is_idle(),
            ));
        }
        rows
    });
}

/// Several requests at once, answered in order; after an error nothing more.
#[test]
fn pipelining() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            while let Some(request) = conn.request() {
                let target = request.target().to_owned();
                conn.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}",
                    target.len()
                ));
            }
        });
        let get = |n: usize| format!("GET /{n} HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut client = s.connect();
        client.send(
            get(1)
                + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                + &get(3)
                + "bad\r\n\r\n"
                + &get(4),
        );
        let answers = [
            client.response(),
            client.response(),
            client.response(),
            client.response(),
        ];
        (answers, client.is_closed(), s.hits())
    });
}

/// 100-continue is answered here and not by the upstream; other expectations are none.
#[test]
fn expectations() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut client = s.connect();
        client.send(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        );
        let interim = client.head();
        client.send("abc");
        let answer = client.response();
        let mut other = s.connect();
        other.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: tea\r\n\r\nabc");
        (interim, answer, other.response(), s.received())
    });
}

/// A connection's end: how many requests, how long.
#[test]
fn keep_alive_has_limits() {
    let conf = "
        server { listen {{listen}}; keepalive_requests 2; location / { return 200 ok; }
            location /timeout { keepalive_timeout 5s 4s; return 200 ok; }
            location /off { keepalive_timeout 0; return 200 ok; } }";
    both(conf, |s: &mut Subject| {
        let mut seen = Vec::new();
        for targets in [["/", "/"], ["/timeout", "/"], ["/off", "/"]] {
            let mut client = s.connect();
            for target in targets {
                client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
                seen.push(client.response());
                if client.is_closed_now() {
                    break;
                }
            }
        }
        seen
    });
}
