//! HTTP/2 to upstreams, and gRPC: what passes, and what requests on one connection do to each other.

use std::sync::{
    Arc, Barrier, Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use crate::support::{
    Conn, Subject, both,
    h2::{Answer, End, H2, SETTINGS},
    ours,
};

pub(crate) const CONF: &str = "
    upstream u { server {{a}}; keepalive 4; }
    # nginx mistakes a connection that gRPC has left for a new one.
    upstream v { server {{a}}; keepalive 4; }
    http2 on;
    log_format l '$request|$status|$upstream_addr|$upstream_status|$upstream_trailer_grpc_status';
    server {
        listen {{listen}};
        access_log {{dir}}/l.log l;
        location / { grpc_pass u; grpc_read_timeout 200ms; grpc_set_header X-Own $arg_x; }
        location /host { grpc_pass u; grpc_set_header Host own; }
        location /proxy { proxy_pass http://v/to; proxy_http_version 2; proxy_read_timeout 200ms; }
        location /set {
            proxy_pass http://v; proxy_http_version 2;
            proxy_set_body body; proxy_method PUT;
        }
        location /pass { proxy_pass http://v; proxy_http_version 2; proxy_pass_trailers on; }
    }";

pub(crate) const OK: (&str, &str) = (":status", "200");
pub(crate) const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// Answers each request of a connection when it is whole.
pub(crate) fn each(conn: &mut Conn, answer: impl Fn(&mut H2, u32, &Answer)) {
    let Some(mut server) = conn.h2() else { return };
    // nginx takes what comes for the last request for a fault of the next one.
    server.opens_windows = false;
    while let Some(stream) = server.accept() {
        let request = server.request(stream);
        answer(&mut server, stream, &request);
    }
}

pub(crate) fn call(client: &mut H2, target: &str, body: &str) -> Answer {
    let stream = client.ask("POST", target, &[GRPC, ("te", "trailers")], false);
    client.data(stream, body, true);
    client.answer(stream)
}

/// What a peer was asked, with its fields in an order of their own.
fn shown(request: &Answer) -> String {
    let mut request = request.clone();
    request.head.sort();
    format!("{request:?}")
}

#[test]
fn requests_and_responses_pass() {
    both(CONF, |s: &mut Subject| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        s.backend("a", move |conn| {
            each(conn, |server, stream, request| {
                sink.lock().unwrap().push(shown(request));
                let fields = [OK, GRPC, ("x-a", "1"), ("server", "other")];
                server.respond(stream, &fields, false);
                server.data(stream, "answer", false);
                server.respond(stream, &[("grpc-status", "0"), ("x-t", "2")], true);
            });
        });
        let mut client = s.h2();
        let mut answers = vec![
            call(&mut client, "/a/b?c=%20d&x=1", "hello"),
            call(&mut client, "/host", ""),
            client.fetch("/nothing?x=2"),
        ];
        for target in ["/proxy/x?y", "/set", "/pass"] {
            answers.push(call(&mut client, target, "hello"));
        }
        let plain = [
            s.get("/proxy/a"),
            s.ask("POST", "/proxy/b", "body"),
            s.get("/x"),
        ];
        let seen = seen.lock().unwrap().clone();
        (answers, plain, seen, s.log("l.log", 9))
    });
}

#[test]
fn early_hints_pass() {
    let conf = "
        http2 on;
        early_hints $arg_hints;
        server { listen {{listen}};
            location /2 { proxy_pass http://{{a}}; proxy_http_version 2; proxy_hide_header X-Hidden; }
            location /1 { proxy_pass http://{{b}}; proxy_hide_header X-Hidden; }
        }";
    both(conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            each(conn, |server, stream, _| {
                for value in ["</a>", "</b>"] {
                    let fields = [(":status", "103"), ("link", value), ("x-hidden", "x")];
                    server.respond(stream, &fields, false);
                }
                server.respond(stream, &[OK, ("x-a", "1")], false);
                server.data(stream, "answer", true);
            });
        });
        s.backend("b", |conn| {
            let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Hidden: x\r\n\r\n";
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            conn.answer_all(format!("{hint}{hint}{answer}"));
        });
        let mut answers = Vec::new();
        let mut plain = Vec::new();
        for target in ["/2?hints=1", "/1?hints=1", "/2?hints=0", "/1"] {
            answers.push(s.h2().fetch(target));
            for version in ["1.0", "1.1"] {
                let head = format!("HTTP/{version}\r\nHost: test\r\nConnection: close\r\n\r\n");
                let answer = s.connect().send(format!("GET {target} {head}")).rest();
                let is_own = |line: &&str| line.starts_with("Server:") || line.starts_with("Date:");
                let lines = answer.lines().filter(|line| !is_own(line));
                plain.push(lines.map(str::to_owned).collect::<Vec<_>>());
            }
        }
        (answers, plain)
    });
}

#[test]
fn a_response_may_come_before_the_request_ends() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            let mut server = conn.h2().unwrap();
            let stream = server.accept().unwrap();
            server.respond(stream, &[OK, GRPC], false);
            for n in 1..=3 {
                server.until(|server| server.seen(stream).body.len() >= n);
                let text = server.seen(stream).text();
                server.data(stream, &text[n - 1..n], false);
            }
            server.request(stream);
            server.respond(stream, &[("grpc-status", "0")], true);
        });
        let mut client = s.h2();
        let stream = client.ask("POST", "/", &[GRPC], false);
        for (n, piece) in ["a", "b", "c"].into_iter().enumerate() {
            client.data(stream, piece, false);
            assert!(client.until(|client| client.seen(stream).body.len() > n));
        }
        client.data(stream, "", true);
        client.answer(stream)
    });
}

/// A peer that holds its answers until so many requests are there, and counts connections.
fn held(s: &mut Subject, name: &str, count: usize) -> Arc<AtomicUsize> {
    let conns = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&conns);
    s.backend(name, move |conn| {
        counter.fetch_add(1, Ordering::Relaxed);
        let Some(mut server) = conn.h2() else { return };
        loop {
            let mut streams = Vec::new();
            while streams.len() < count {
                match server.accept() {
                    Some(stream) => streams.push(stream),
                    None => return,
                }
            }
            for stream in streams {
                server.respond(stream, &[OK, GRPC], true);
            }
        }
    });
    conns
}

#[test]
fn requests_share_a_connection() {
    ours(CONF, |s: &mut Subject| {
        let conns = held(s, "a", 10);
        let mut client = s.h2();
        for _ in 0..2 {
            let streams: Vec<u32> = (0..10).map(|_| client.get("/")).collect();
            for stream in streams {
                assert_eq!(client.answer(stream).status(), 200);
            }
        }
        assert_eq!(conns.load(Ordering::Relaxed), 1);
    });
}

/// A peer that says how many streams it takes gets no more on a connection; `keepalive` bounds what is kept.
#[test]
fn connections_are_opened_and_kept_as_needed() {
    let conf = CONF.replacen("keepalive 4;", "keepalive 1; keepalive_requests 3;", 1);
    ours(&conf, |s: &mut Subject| {
        let (opened, conns) = mpsc::channel();
        let (closed, ends) = mpsc::channel();
        let gate = Arc::new(Barrier::new(2));
        let wait = Arc::clone(&gate);
        s.backend("a", move |conn| {
            let number = conn.number;
            let mut server = conn.h2().unwrap();
            // MAX_CONCURRENT_STREAMS
            server.frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]);
            opened.send(number).unwrap();
            while let Some(stream) = server.accept() {
                if server.seen(stream).field(":path") == Some("/both") {
                    wait.wait();
                }
                server.respond(stream, &[OK, GRPC], true);
            }
            closed.send(number).unwrap();
        });
        let mut client = s.h2();
        assert_eq!(client.fetch("/first").status(), 200);
        let streams = [client.get("/both"), client.get("/both")];
        for stream in streams {
            assert_eq!(client.answer(stream).status(), 200);
        }
        // One of the two is kept.
        assert_eq!([conns.recv().unwrap(), conns.recv().unwrap()], [0, 1]);
        let first = ends.recv().unwrap();
        for _ in 0..4 {
            assert_eq!(client.fetch("/more").status(), 200);
        }
        // The other has had its three requests then.
        assert_eq!(ends.recv().unwrap(), 1 - first);
        assert_eq!(conns.recv().unwrap(), 2);
    });
}

/// Requests are what `least_conn` counts, and not connections.
#[test]
fn balancing_counts_requests() {
    let conf = CONF.replacen(
        "server {{a}};",
        "least_conn; server {{a}}; server {{b}};",
        1,
    );
    ours(&conf, |s: &mut Subject| {
        let conns = [held(s, "a", 5), held(s, "b", 5)];
        let mut client = s.h2();
        let streams: Vec<u32> = (0..10).map(|_| client.get("/")).collect();
        for stream in streams {
            assert_eq!(client.answer(stream).status(), 200);
        }
        assert_eq!(conns.map(|conns| conns.load(Ordering::Relaxed)), [1, 1]);
    });
}

#[test]
fn a_slow_client_holds_up_no_other() {
    ours(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            let mut server = conn.h2().unwrap();
            let large = server.accept().unwrap();
            server.respond(large, &[OK], false);
            // As much as the window takes, and more than the client's.
            for _ in 0..16 {
                server.data(large, [b'x'; 16384], false);
            }
            while let Some(stream) = server.accept() {
                server.respond(stream, &[OK], false);
                server.data(stream, "small", true);
            }
        });
        let mut client = s.h2();
        client.opens_windows = false;
        let stream = client.get("/large");
        assert!(client.until(|client| client.seen(stream).body.len() == 65535));
        client.open_window(0, 1000);
        let mut other = s.h2();
        for _ in 0..3 {
            assert_eq!(client.fetch("/small").text(), "small");
            assert_eq!(other.fetch("/small").text(), "small");
        }
        assert_eq!(client.seen(stream).end, End::Open);
    });
}

#[test]
fn a_client_that_leaves_ends_its_stream_alone() {
    ours(CONF, |s: &mut Subject| {
        let (told, ends) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        s.backend("a", move |conn| {
            let mut server = conn.h2().unwrap();
            let first = server.accept().unwrap();
            let second = server.accept().unwrap();
            told.send(End::Open).unwrap();
            server.until(|server| matches!(server.seen(first).end, End::Reset(_)));
            told.send(server.seen(first).end).unwrap();
            wait.lock().unwrap().recv().unwrap();
            server.respond(second, &[OK], true);
        });
        let mut client = s.h2();
        // Neither has ended: a reset is then seen as such.
        let first = client.ask("POST", "/", &[GRPC], false);
        let second = client.ask("POST", "/", &[GRPC], false);
        assert_eq!(ends.recv().unwrap(), End::Open);
        client.reset(first, 8);
        assert_eq!(ends.recv().unwrap(), End::Reset(8));
        go.send(()).unwrap();
        client.data(second, "", true);
        assert_eq!(client.answer(second).status(), 200);
    });
}
