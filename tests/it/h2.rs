//! HTTP/2 from clients: behaviours H1, H3, H4 and S5, and what a stream shares with a request of HTTP/1.

use crate::support::{
    Subject, both,
    h2::{H2, HEADERS, RST_STREAM, SETTINGS, block, frame},
    ours,
};
use nix::sys::signal::Signal;

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

fn h2(s: &Subject) -> H2 {
    H2::new(s.address("listen"))
}

#[test]
fn a_cookie_in_crumbs_is_one_line_at_the_upstream() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut client = h2(s);
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
            let mut client = h2(s);
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
        let mut client = h2(s);
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
        let answer = h2(s).fetch("/");
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
        let mut client = h2(s);
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
        let mut client = h2(s);
        let stream = client.ask("POST", "/", &[("expect", "100-continue")], false);
        client.data(stream, "body", true);
        (client.answer(stream), s.received())
    });
}

#[test]
fn bodies_come_whole_and_in_pieces() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut client = h2(s);
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
        let mut client = h2(s);
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
        let mut client = h2(s);
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

#[test]
fn the_last_request_of_a_connection_is_told() {
    both(
        "http2 on; server { listen {{listen}}; keepalive_requests 2; return 200 ok; }",
        |s: &mut Subject| {
            let mut client = h2(s);
            let first = client.fetch("/");
            let was_told = client.was_told();
            let second = client.fetch("/");
            (first, was_told, second, client.goaway(), client.is_closed())
        },
    );
}

#[test]
fn a_reload_lets_streams_end() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            while conn.request().is_some() {
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
                conn.pause(300);
                conn.write("lf");
            }
        });
        let mut idle = h2(s);
        idle.fetch("/own");
        let mut client = h2(s);
        let stream = client.get("/pass");
        client.until(|client| !client.seen(stream).body.is_empty());
        s.signal(Signal::SIGHUP);
        let told = (idle.goaway(), client.goaway());
        let refused = client.get("/own");
        let answer = client.answer(stream);
        let closed = (idle.is_closed(), client.is_closed());
        (told, answer, client.seen(refused).status(), closed)
    });
}

#[test]
fn silence_is_bounded() {
    both(
        "http2 on;
        server { listen {{listen}}; client_header_timeout 200ms; keepalive_timeout 300ms;
            location / { client_body_timeout 100ms; proxy_pass http://{{a}}; } }
        server { listen {{listen2}}; send_timeout 100ms; location / { alias {{dir}}/html/; } }",
        |s: &mut Subject| {
            s.backends(&[("a", 0)]);
            std::fs::write(s.path("html/file"), vec![b'x'; 100_000]).unwrap();
            let mut silent = h2(s);
            let mut head = h2(s);
            let request = frame(HEADERS, 5, 1, &block(&[(":method", "GET"), (":path", "/")]));
            head.raw(&request[..12]);
            let mut body = h2(s);
            let stream = body.ask("POST", "/", &[("content-length", "5")], false);
            let body = (body.answer(stream).end, body.is_alive());
            let mut reader = H2::new(s.address("listen2"));
            reader.opens_windows = false;
            let stream = reader.get("/file");
            let unread = reader.answer(stream);
            let unread = (unread.body.len(), unread.end, reader.is_alive());
            let head = (head.answer(1).end, head.goaway());
            (silent.goaway(), head, body, unread)
        },
    );
}

/// Behaviour S5.
#[test]
fn rapid_resets_end_the_connection() {
    let (sent, goaway, log) = ours(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut other = h2(s);
        let mut client = h2(s);
        let mut flood = Vec::new();
        let head = block(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "x"),
        ]);
        for stream in (1..20_001).step_by(2) {
            flood.extend(frame(HEADERS, 5, stream, &head));
            flood.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }
        client.raw(&flood);
        let goaway = client.goaway().map(|(code, _)| code);
        assert_eq!(other.fetch("/own").status(), 200);
        (s.received().len(), goaway, s.error("client sent too many"))
    });
    assert!(sent < 1000, "{sent}");
    assert_eq!(goaway, Some(0));
    assert!(log.contains("while processing HTTP/2 connection"), "{log}");
}

/// Behaviour S5: frames that cost nothing to send. The unit tests of the scanner have all kinds.
#[test]
fn floods_end_the_connection() {
    both(CONF, |s: &mut Subject| {
        let mut client = h2(s);
        // Two write to one socket below: what is to be acknowledged has come before that.
        assert!(client.is_alive());
        client.ask("POST", "/", &[], false);
        let many = frame(0x42, 0, 0, &[0; 16000]).repeat(600);
        let mut writer = client.another();
        let goaway = std::thread::scope(|scope| {
            scope.spawn(|| writer.raw(&many));
            client.goaway().map(|(code, _)| code)
        });
        s.error("http2 flood detected");
        goaway
    });
}
