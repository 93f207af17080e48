//! HTTP/2 from clients: behaviours H1, H3 and H4, and what a stream shares with a request of HTTP/1.

use crate::support::{
    Subject, both,
    h2::{H2, SETTINGS},
    ours,
};

const CONF: &str = "
    upstream u { server {{a}}; }
    http2 on;
    log_format short '$request|$status|$server_protocol|$http2|$connection_requests|$request_completion';
    server {
        listen {{listen}};
        access_log {{dir}}/short.log short;
        location / { proxy_pass http://u; }
        location /own { return 200 \"$request_uri $http_host $http_cookie\"; }
        location /file { alias {{dir}}/html/file; }
        location /moved { return 301 /to; }
        location /page { error_page 404 /own; return 404; }
        location /pass { proxy_pass http://u; proxy_request_buffering off; proxy_buffering off; }
        location /slow { limit_rate 20k; alias {{dir}}/html/file; }
        location /small { client_max_body_size 10; proxy_pass http://u; }
        location /trailer { add_trailer X-T $request_id; add_trailer X-Sent yes; return 200 body; }
    }";

#[test]
fn a_cookie_in_crumbs_is_one_line_at_the_upstream() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut client = s.h2();
        let fields = [
            ("cookie", "a=1"),
            ("x-one", "1"),
            ("cookie", "b=2"),
            ("te", "trailers"),
        ];
        let stream = client.ask("GET", "/x?y=%20z", &fields, true);
        let answer = client.answer(stream);
        (answer.status(), s.received(), s.log("short.log", 1))
    });
}

type Fields<'a> = &'a [(&'a str, &'a str)];

/// Fields besides those of a request.
const FIELDS: &[Fields<'_>] = &[
    &[("connection", "close")],
    &[("keep-alive", "1")],
    &[("transfer-encoding", "chunked")],
    &[("upgrade", "h2c")],
    &[("te", "gzip")],
    &[("te", "trailers"), ("te", "trailers")],
    &[("host", "other")],
    &[("host", "test")],
    &[("host", "test"), ("host", "test")],
    &[("Upper", "case")],
    &[("x_y", "dropped")],
    &[("x y", "space")],
    &[("x\u{1}", "control")],
    &[("x", "a\r\nb: c")],
    &[("x", "a\0")],
    &[(":path", "/again")],
    &[(":status", "200")],
    &[("content-length", "x")],
    &[("content-length", "3")],
    &[("content-length", "0")],
    &[("proxy-connection", "close")],
    &[("expect", "100-continue")],
    &[("cookie", ""), ("cookie", "a=b")],
];

/// Heads of their own.
const HEADS: &[Fields<'_>] = &[
    &[
        (":scheme", "http"),
        (":path", "/own"),
        (":authority", "test"),
    ],
    &[
        (":method", "GET"),
        (":path", "/own"),
        (":authority", "test"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "test"),
    ],
    &[(":method", "GET"), (":scheme", "http"), (":path", "/own")],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/own"),
        ("host", "only"),
    ],
    &[
        (":method", "get"),
        (":scheme", "http"),
        (":path", "/own"),
        ("host", "x"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "1x"),
        (":path", "/own"),
        ("host", "x"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "own"),
        ("host", "x"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/a b"),
        ("host", "x"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/%zz"),
        ("host", "x"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", ""),
        ("host", "x"),
    ],
    &[
        (":method", "TRACE"),
        (":scheme", "http"),
        (":path", "/"),
        ("host", "x"),
    ],
    &[
        (":method", "CONNECT"),
        (":scheme", "http"),
        (":path", "/"),
        ("host", "x"),
    ],
    &[
        ("x", "first"),
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "ftp"),
        (":path", "/own#x"),
        ("host", "x"),
    ],
];

#[test]
fn heads_that_are_refused() {
    let usual = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/own"),
        (":authority", "test"),
    ];
    let rows = both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let with = FIELDS
            .iter()
            .map(|extra| usual.iter().chain(*extra).copied().collect());
        let heads = with.chain(HEADS.iter().map(|fields| fields.to_vec()));
        let ask = |fields: Vec<(&str, &str)>| {
            let mut client = s.h2();
            let stream = client.head(&fields, true);
            format!("{:?}: {:?}", &fields, client.answer(stream))
        };
        let rows: Vec<String> = heads.map(ask).collect();
        let mut lines = s.log("short.log", rows.len());
        lines.sort();
        (rows, lines)
    });
    let is_refused = |row: &&String| row.contains(":status: 400");
    let refused = rows.0.iter().filter(is_refused).count();
    assert_eq!(refused, 29, "{:#?}", rows.0);
}

#[test]
fn answers_of_all_kinds() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        std::fs::write(s.path("html/file"), "0123456789".repeat(3000)).unwrap();
        // The two programs' files may be written in different seconds.
        let file = std::fs::File::open(s.path("html/file")).unwrap();
        let long_ago = std::time::Duration::from_secs(1_700_000_000);
        file.set_modified(std::time::SystemTime::UNIX_EPOCH + long_ago)
            .unwrap();
        let mut client = s.h2();
        let mut rows: Vec<String> = ["/own?q=1", "/moved", "/page", "/file", "/missing"]
            .iter()
            .map(|target| format!("{:?}", client.fetch(target)))
            .collect();
        let stream = client.ask("HEAD", "/file", &[], true);
        rows.push(format!("{:?}", client.answer(stream)));
        let stream = client.ask("GET", "/file", &[("range", "bytes=5-14")], true);
        rows.push(format!("{:?}", client.answer(stream)));
        let trailer = client.fetch("/trailer");
        let names: Vec<String> = trailer
            .trailers
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        rows.push(format!("{} {} {names:?}", trailer.status(), trailer.text()));
        (rows, s.log("short.log", 8))
    });
}

#[test]
fn what_is_about_a_connection_stays_there() {
    let head = ours(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.answer_all(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\
                 Proxy-Connection: keep-alive\r\nTE: gzip\r\nUpgrade: h2c\r\nX-Mine: Yes\r\nX-Mine: two\r\n\r\nok",
            );
        });
        let answer = s.h2().fetch("/");
        let names = answer.head.iter().map(|(name, _)| name.clone());
        names.collect::<Vec<String>>()
    });
    let expected = [
        ":status",
        "server",
        "date",
        "content-length",
        "x-mine",
        "x-mine",
    ];
    assert_eq!(head, expected);
}

#[test]
fn a_response_that_breaks_off_is_seen_to() {
    let rows = both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            while let Some(request) = conn.request() {
                conn.write(match request.target() {
                    "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npartial",
                    "/chunks" => {
                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\npartial\r\n"
                    }
                    _ => "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npartial",
                });
                conn.finish();
            }
        });
        let mut client = s.h2();
        let rows: Vec<_> = ["/length", "/chunks", "/close"]
            .iter()
            .map(|target| format!("{:?}", client.fetch(target)))
            .collect();
        // Whether that counts as complete is another matter in nginx.
        let log = s.log("short.log", 3);
        let log: Vec<_> = log
            .iter()
            .map(|line| line.trim_end_matches("OK").to_owned())
            .collect();
        (rows, client.is_alive(), log)
    });
    assert!(
        rows.0[0].contains("partial") && rows.0[0].ends_with("Reset(2)"),
        "{}",
        rows.0[0]
    );
    assert!(rows.0[2].ends_with("Whole"), "{}", rows.0[2]);
}

#[test]
fn interim_responses_are_skipped() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.answer_all(
                "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nConnection: x\r\n\r\n\
                 HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            );
        });
        let mut client = s.h2();
        let stream = client.ask("POST", "/", &[("expect", "100-continue")], false);
        client.data(stream, "body", true);
        (client.answer(stream), s.received())
    });
}

#[test]
fn bodies_come_whole_and_in_pieces() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut client = s.h2();
        let mut rows = Vec::new();
        for target in ["/", "/pass", "/small"] {
            for fields in [&[][..], &[("content-length", "26")]] {
                let stream = client.ask("POST", target, fields, false);
                client.data(stream, "abcdefghijklm", false);
                client.data(stream, "", false);
                client.data(stream, "nopqrstuvwxyz", true);
                rows.push(format!("{:?}", client.answer(stream)));
            }
        }
        for (fields, body) in [("3", "four"), ("5", "four"), ("0", "")] {
            let stream = client.ask("POST", "/", &[("content-length", fields)], false);
            client.data(stream, body, true);
            rows.push(format!("{:?}", client.answer(stream)));
        }
        // How a body is framed depends on how much of it has come when the request is sent on.
        let received = s.received().into_iter();
        let received = received.map(|request| (request.line, request.body));
        (rows, client.is_alive(), received.collect::<Vec<_>>())
    });
}

#[test]
fn large_bodies_wait_for_their_windows() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            while let Some(request) = conn.request() {
                let len = request.body.len();
                conn.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"));
                conn.write(request.body);
            }
        });
        let mut client = s.h2();
        client.opens_windows = false;
        // One that nobody reads does not hold the other up.
        let body: Vec<u8> = (0..150_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let streams = ["/", "/pass"].map(|target| {
            let stream = client.ask("POST", target, &[], false);
            for part in body.chunks(16000) {
                let is_last = part.as_ptr_range().end == body.as_ptr_range().end;
                client.data(stream, part, is_last);
                // Windows that are open already are not waited for.
                client.is_alive();
            }
            stream
        });
        client.open_window(0, 1 << 20);
        client.open_window(streams[1], 1 << 20);
        let second = client.answer(streams[1]);
        let first = client.seen(streams[0]).body.len();
        client.open_window(streams[0], 1 << 20);
        (second, first <= 65535, client.answer(streams[0]))
    });
}

#[test]
fn a_client_that_resets_a_stream_ends_that_one() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            while let Some(request) = conn.request() {
                if request.target() == "/hang" {
                    conn.wait_close();
                    conn.note("closed");
                } else {
                    conn.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            }
        });
        let mut client = s.h2();
        let stream = client.get("/hang");
        s.wait_hits(1);
        client.reset(stream, 8);
        s.wait_hits(2);
        let answer = client.fetch("/after");
        s.error("client canceled stream 1");
        (answer, s.log("short.log", 2))
    });
}

#[test]
fn http1_is_spoken_on_the_same_port() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut rows = vec![format!("{:?}", s.get("/own"))];
        let mut client = H2::silent(s.address("listen"));
        client.raw("PRI * HTTP/2.0\r\n\r\n");
        s.pause(20);
        client.raw("SM\r\n\r\n");
        client.frame(SETTINGS, 0, 0, b"");
        rows.push(format!("{:?}", client.fetch("/own")));
        let mut other = s.connect();
        other.send("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
        rows.push(other.response().line);
        rows
    });
}
