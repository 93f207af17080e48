//! What upstreams of HTTP/2 do wrong, and what follows: behaviour R7.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use crate::{
    h2_upstream::{CONF, GRPC, OK, call, each},
    support::{
        Subject, both,
        h2::{DATA, END_HEADERS, END_STREAM, End, H2, HEADERS, RST_STREAM, SETTINGS, block, frame},
        ours,
    },
};

type Wrong = fn(&mut H2, u32);

/// What a peer can do instead of answering.
const WRONGS: &[(&str, Wrong)] = &[
    ("nothing", |_, _| {}),
    ("refused", |server, stream| server.reset(stream, 8)),
    ("goaway", |server, _| server.leave(0, 2)),
    ("no status", |server, stream| {
        server.respond(stream, &[GRPC], true);
    }),
    ("bad status", |server, stream| {
        server.respond(stream, &[(":status", "2x0")], true);
    }),
    ("low status", |server, stream| {
        server.respond(stream, &[(":status", "099")], true);
    }),
    ("upgrade", |server, stream| {
        server.respond(stream, &[(":status", "101")], true);
    }),
    ("two", |server, stream| {
        server.respond(stream, &[OK, OK], true);
    }),
    ("pseudo", |server, stream| {
        server.respond(stream, &[OK, (":path", "/")], true);
    }),
    ("upper", |server, stream| {
        server.respond(stream, &[OK, ("Upper", "x")], true);
    }),
    ("space", |server, stream| {
        server.respond(stream, &[OK, ("a b", "x")], true);
    }),
    ("colon", |server, stream| {
        server.respond(stream, &[OK, ("a:b", "x")], true);
    }),
    ("line", |server, stream| {
        server.respond(stream, &[OK, ("a", "x\r\nb: c")], true);
    }),
    ("length", |server, stream| {
        server.respond(stream, &[OK, ("content-length", "x")], true);
    }),
    ("large", |server, stream| {
        let value = "v".repeat(5000);
        server.respond(stream, &[OK, ("x", &value)], true);
    }),
    ("index", |server, stream| {
        server.frame(1, 5, stream, &[0x80]);
    }),
    ("short", |server, stream| {
        server.respond(stream, &[OK, ("content-length", "9")], false);
        server.data(stream, "short", true);
    }),
    ("long", |server, stream| {
        server.respond(stream, &[OK, ("content-length", "3")], false);
        server.data(stream, "longer", true);
    }),
    ("broken", |server, stream| {
        server.respond(stream, &[OK], false);
        server.data(stream, "part", false);
        server.reset(stream, 2);
    }),
    ("cut", |server, stream| {
        server.respond(stream, &[OK], false);
        server.data(stream, "part", false);
        server.reset(stream, 0);
    }),
];

#[test]
fn what_is_wrong_with_a_response_is_told_alike() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            each(conn, |server, stream, request| {
                let name = request.field("x-own").unwrap_or_default();
                let wrong = WRONGS
                    .iter()
                    .find(|(own, _)| own == &name.replace('+', " "));
                (wrong.unwrap().1)(server, stream);
            });
        });
        let mut told = Vec::new();
        for (name, _) in WRONGS {
            let mut client = s.h2();
            // No call of gRPC: those are told more by us.
            let stream = client.get(&format!("/?x={}", name.replace(' ', "+")));
            let answer = client.answer(stream);
            // Why the stream ends is each library's own choice.
            let is_cut = !matches!(answer.end, End::Whole);
            told.push((*name, answer.status(), is_cut));
        }
        (told, s.log("l.log", WRONGS.len()))
    });
}

/// What a peer says of a stream behind the end of its response, in the same piece.
#[test]
fn a_reset_takes_the_response_back() {
    let resets: &[&[u32]] = &[&[], &[0], &[8], &[7], &[0, 0], &[0, 2]];
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            each(conn, |server, stream, request| {
                let number = request.field("x-own").unwrap_or("0");
                let codes = resets[number.parse::<usize>().unwrap()];
                let reset = |code: &u32| frame(RST_STREAM, 0, stream, &code.to_be_bytes());
                let mut all = frame(HEADERS, END_HEADERS, stream, &block(&[OK]));
                all.extend(frame(DATA, END_STREAM, stream, b"whole"));
                all.extend(codes.iter().flat_map(reset));
                server.raw(all);
            });
        });
        let ask = |number: usize| {
            let answer = s.h2().fetch(&format!("/?x={number}"));
            let is_cut = !matches!(answer.end, End::Whole);
            let errors = ["rejected request", "for closed stream"].map(|words| s.errors(words, 0));
            (answer.status(), answer.text(), is_cut, errors)
        };
        (0..resets.len()).map(ask).collect::<Vec<_>>()
    });
}

/// What a peer says it has not looked at is sent again, whatever its method.
#[test]
fn what_was_not_processed_is_sent_again() {
    let refusals: [Wrong; 2] = [
        |server, stream| server.reset(stream, 7),
        |server, stream| server.leave(stream - 2, 0),
    ];
    for refuse in refusals {
        ours(CONF, |s: &mut Subject| {
            let requests = AtomicUsize::new(0);
            s.backend("a", move |conn| {
                each(conn, |server, stream, request| {
                    if requests.fetch_add(1, Ordering::Relaxed) == 1 {
                        return refuse(server, stream);
                    }
                    server.respond(stream, &[OK], false);
                    server.data(stream, &request.body, true);
                });
            });
            let mut client = s.h2();
            for body in ["first", "second", "third"] {
                assert_eq!(call(&mut client, "/", body).text(), body);
            }
            let log = s.log("l.log", 3);
            let tries = |line: &String| line.split('|').nth(3).unwrap().to_owned();
            let tries: Vec<String> = log.iter().map(tries).collect();
            assert_eq!(tries, ["200", "502, 200", "200"]);
        });
    }
}

/// R7: a call whose body is there is tried on the next peer, and the failure counts.
#[test]
fn a_call_that_failed_is_tried_elsewhere() {
    let conf = CONF
        .replacen(
            "server {{a}};",
            "server {{a}} max_fails=1; server {{b}};",
            1,
        )
        .replace(
            "grpc_read_timeout",
            "grpc_next_upstream error timeout http_502 non_idempotent; grpc_read_timeout",
        );
    ours(&conf, |s: &mut Subject| {
        for (name, status) in [("a", "502"), ("b", "200")] {
            s.backend(name, move |conn| {
                each(conn, |server, stream, request| {
                    server.respond(stream, &[(":status", status)], false);
                    server.data(stream, &request.body, true);
                });
            });
        }
        let mut client = s.h2();
        for _ in 0..3 {
            // The body comes after the head, and the try begins without it.
            let stream = client.ask("POST", "/", &[GRPC], false);
            assert!(client.is_alive());
            client.data(stream, "bo", false);
            client.data(stream, "dy", true);
            assert_eq!(client.answer(stream).text(), "body");
        }
        let log = s.log("l.log", 3);
        let statuses: Vec<&str> = log
            .iter()
            .map(|line| line.split('|').nth(3).unwrap())
            .collect();
        assert_eq!(statuses, ["502, 200", "200", "200"]);
    });
}

#[test]
fn a_call_is_told_its_status() {
    ours(CONF, |s: &mut Subject| {
        let mut client = s.h2();
        let answer = call(&mut client, "/", "");
        assert_eq!((answer.status(), answer.end), (504, End::Whole));
        assert_eq!(answer.field("grpc-status"), Some("14"));
        assert_eq!(answer.field("grpc-message"), Some("504 Gateway Time-out"));
        assert_eq!(answer.field("content-type"), Some("application/grpc"));
        assert_eq!(answer.text(), "");
    });
}

/// A connection on which nothing has come while a request timed out may lead nowhere any more.
#[test]
fn a_connection_that_has_gone_silent_gets_no_more() {
    let statuses = ours(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            let is_first = conn.number == 0;
            let answered = AtomicUsize::new(0);
            each(conn, |server, stream, _| {
                if !is_first || answered.fetch_add(1, Ordering::Relaxed) == 0 {
                    server.respond(stream, &[OK], true);
                }
            });
        });
        let mut client = s.h2();
        ["/first", "/lost", "/next", "/after"].map(|target| client.fetch(target).status())
    });
    assert_eq!(statuses, [200, 504, 200, 200]);
}

/// One that is slow with a request and answers others is in use as before.
#[test]
fn a_connection_that_answers_others_is_kept() {
    // As many as there is time for.
    let all = "keepalive_requests 1000000;";
    let conf = CONF
        .replacen("keepalive 4;", &format!("keepalive 4; {all}"), 1)
        .replacen("http2 on;", &format!("http2 on; {all}"), 1);
    ours(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            assert_eq!(conn.number, 0, "one connection is enough");
            each(conn, |server, stream, request| {
                if request.field(":path") != Some("/slow") {
                    server.respond(stream, &[OK], true);
                }
            });
        });
        let mut client = s.h2();
        assert_eq!(client.fetch("/first").status(), 200);
        let slow = client.get("/slow");
        let mut other = s.h2();
        while client.is_alive() && client.seen(slow).end == End::Open {
            assert_eq!(other.fetch("/quick").status(), 200);
        }
        assert_eq!(client.answer(slow).status(), 504);
        assert_eq!(client.fetch("/after").status(), 200);
    });
}

/// What cannot be written any more keeps no connection either.
#[test]
fn a_peer_that_takes_nothing_holds_no_connection() {
    let conf = "
        upstream u { server {{a}}; keepalive 4; keepalive_timeout 300ms; }
        http2 on; client_max_body_size 0; client_body_buffer_size 8m;
        server {
            listen {{listen}};
            location / { grpc_pass u; grpc_send_timeout 200ms; grpc_read_timeout 200ms; }
            location /alone { grpc_pass {{a}}; grpc_send_timeout 200ms; grpc_read_timeout 200ms; }
        }";
    both(conf, |s: &mut Subject| {
        let (done, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        s.backend("a", move |conn| {
            let mut server = conn.h2().unwrap();
            // INITIAL_WINDOW_SIZE
            server.frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
            server.open_window(0, 0x7000_0000);
            server.accept();
            wait.lock().unwrap().recv().ok();
        });
        let body = vec![b'x'; 8 << 20];
        let statuses = ["/", "/alone"].map(|target| {
            let length = body.len().to_string();
            let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            let mut client = s.connect();
            client.send(head).send(&body);
            client.response().status()
        });
        let upstream = s.address("a");
        s.until(|| s.sockets(upstream).is_none_or(|sockets| sockets.is_empty()));
        drop(done);
        statuses
    });
}

/// A peer that says that it is leaving gets nothing new, and finishes what it has.
#[test]
fn a_peer_that_is_leaving_finishes() {
    ours(CONF, |s: &mut Subject| {
        let (leave, wait) = mpsc::channel::<()>();
        let (told, leaving) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        s.backend("a", move |conn| {
            let mut server = conn.h2().unwrap();
            let first = server.accept().unwrap();
            if conn.number == 0 {
                for last in [0x7fff_ffff, first] {
                    server.leave(last, 0);
                    assert!(server.is_alive());
                    told.send(()).unwrap();
                    wait.lock().unwrap().recv().unwrap();
                }
            }
            server.respond(first, &[OK], false);
            server.data(first, conn.number.to_string(), true);
            while let Some(stream) = server.accept() {
                server.respond(stream, &[OK], false);
                server.data(stream, conn.number.to_string(), true);
            }
        });
        let mut client = s.h2();
        let first = client.get("/");
        for _ in 0..2 {
            leaving.recv().unwrap();
            assert_eq!(client.fetch("/").text(), "1");
            leave.send(()).unwrap();
        }
        assert_eq!(client.answer(first).text(), "0");
        assert_eq!(client.fetch("/").text(), "1");
    });
}
