//! What happens when a try fails: behaviours R1, R3, R5 and R6.

use std::sync::mpsc;

use crate::support::{Conn, Subject, both};

const FORMAT: &str = "log_format f '$request_method $status $upstream_addr $upstream_status';";

fn conf(upstream: &str, location: &str) -> String {
    format!(
        "upstream u {{ {upstream} }} {FORMAT}
        server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f; client_max_body_size 1m;
            location / {{ proxy_pass http://u; {location} }} }}"
    )
}

fn fail(conn: &mut Conn) {
    conn.answer_all("HTTP/1.1 500 Oops\r\nContent-Length: 5\r\nX-Orig: yes\r\n\r\noops\n");
}

/// R1: a response that cannot be retried is passed on as it is, and its peer has not failed.
#[test]
fn an_error_that_is_not_retried_passes() {
    let conf = conf(
        "server {{a}}; server {{b}};",
        "proxy_next_upstream error timeout http_500;",
    );
    let (answers, ..) = both(&conf, |s: &mut Subject| {
        s.backend("a", fail);
        s.backends(&[("b", 0)]);
        let mut answers = Vec::new();
        for method in ["POST", "POST", "POST", "GET", "GET"] {
            answers.push(s.ask(method, "/", if method == "POST" { "x" } else { "" }));
        }
        (answers, s.hits(), s.log("f.log", 5))
    });
    assert_eq!(answers[0].header("x-orig"), Some("yes"));
    assert_eq!(answers[0].text(), "oops\n");
}

/// R1: when all fail, the last peer's own response is delivered.
#[test]
fn the_last_error_passes() {
    let conf = conf(
        "server {{a}}; server {{b}};",
        "proxy_next_upstream error timeout http_500 http_404;",
    );
    let answers = both(&conf, |s: &mut Subject| {
        s.backend("a", fail);
        s.backend("b", fail);
        let answers = [s.get("/"), s.get("/"), s.get("/")];
        (answers, s.log("f.log", 3), s.hits())
    });
    assert_eq!(answers.0[0].text(), "oops\n");
    assert_eq!(answers.1[0], "GET 500 <a>, <b> 500, 500");
}

/// 404 is retried without counting a failure.
#[test]
fn not_found_is_no_failure() {
    let conf = conf(
        "server {{a}}; server {{b}};",
        "proxy_next_upstream http_404;",
    );
    both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.answer_all("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        });
        s.backends(&[("b", 0)]);
        (s.gets(4, "/"), s.hits(), s.log("f.log", 4))
    });
}

/// R3: a buffered body is sent again, every byte of it, also out of a temporary file; chunked becomes a length.
#[test]
fn bodies_are_replayed() {
    let conf = conf(
        "server {{a}}; server {{b}};",
        "proxy_next_upstream http_500 non_idempotent; client_body_buffer_size 8k;",
    );
    let received = both(&conf, |s: &mut Subject| {
        s.backend("a", fail);
        s.backends(&[("b", 0)]);
        let body: Vec<String> = (0..10_000).map(|n| (n * 7_919).to_string()).collect();
        let body = body.join(" ");
        let first = s.ask("POST", "/large", &body);
        let mut client = s.connect();
        client.send("POST /chunked HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
        client
            .send("5\r\nhello\r\n")
            .send("6;ext=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n");
        let second = client.response();
        drop(client);
        let received = s.received();
        assert!(
            received
                .iter()
                .filter(|r| r.line.contains("large"))
                .all(|r| r.body == body.as_bytes())
        );
        (first, second, received, s.log("f.log", 2))
    });
    let last = received.2.last().unwrap();
    assert_eq!(last.body, b"hello world");
    assert_eq!(last.header("content-length"), Some("11"));
}

/// R3: what was not buffered is not sent again.
#[test]
fn unbuffered_bodies_are_not_replayed() {
    let conf = conf(
        "server {{a}}; server {{b}};",
        "proxy_next_upstream http_500 non_idempotent; proxy_request_buffering off;",
    );
    both(&conf, |s: &mut Subject| {
        let (answered, wait) = mpsc::channel();
        s.backend("a", move |conn| {
            conn.head();
            conn.bytes();
            conn.write("HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\noops\n");
            answered.send(()).ok();
            conn.wait_close();
        });
        s.backends(&[("b", 0)]);
        let mut client = s.connect();
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello");
        wait.recv().unwrap();
        // It comes while half of the body is still to be sent.
        let response = client.response();
        // Lingering ends with the connection, and with it comes the line.
        drop(client);
        (response, s.hits(), s.log("f.log", 1))
    });
}

/// R5: a retry goes to a peer that this request has not tried, whatever the method.
#[test]
fn retries_go_elsewhere() {
    for method in [
        "",
        "least_conn;",
        "least_time header;",
        "hash $arg_k;",
        "hash $arg_k consistent;",
        "random;",
        "random two;",
    ] {
        let conf = conf(
            &format!(
                "zone u 64k; {method} server {{{{a}}}} max_fails=0; server {{{{b}}}} max_fails=0; server {{{{c}}}} max_fails=0;"
            ),
            "proxy_next_upstream http_500;",
        );
        let hits = both(&conf, |s: &mut Subject| {
            for name in ["a", "b", "c"] {
                s.backend(name, fail);
            }
            let mut all = Vec::new();
            for key in 0..4 {
                s.forget();
                s.get(&format!("/?k={key}"));
                let hits = s.hits();
                let mut names: Vec<&str> = hits.split(' ').collect();
                names.sort_unstable();
                all.push(names.concat());
            }
            all
        });
        assert_eq!(hits, ["abc"; 4], "{method}");
    }
}

/// R5: backups are tried with a fresh set; tries are bounded.
#[test]
fn backups_and_tries() {
    let upstream = "server {{a}}; server {{b}}; server {{c}} backup;";
    for location in [
        "proxy_next_upstream http_500;",
        "proxy_next_upstream http_500; proxy_next_upstream_tries 2;",
        "proxy_next_upstream off;",
        "proxy_next_upstream error;",
    ] {
        both(&conf(upstream, location), |s: &mut Subject| {
            for name in ["a", "b", "c"] {
                s.backend(name, fail);
            }
            (s.gets(3, "/"), s.hits(), s.log("f.log", 3))
        });
    }
}

/// A connection that is refused, one that closes, one that says nonsense.
#[test]
fn errors_and_invalid_headers() {
    for condition in ["error", "invalid_header", "error invalid_header"] {
        let conf = conf(
            "server {{refused}}; server {{a}}; server {{b}}; server {{c}};",
            &format!("proxy_next_upstream {condition};"),
        );
        both(&conf, |s: &mut Subject| {
            s.backend("a", |conn| {
                conn.request();
            });
            s.backend("b", |conn| {
                conn.request();
                conn.write("HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n");
            });
            s.backends(&[("c", 0)]);
            (s.gets(5, "/"), s.hits(), s.log("f.log", 5))
        });
    }
}

/// R6: once the header is sent on nothing is retried; the client sees that the response is cut off.
#[test]
fn failure_after_the_header_is_final() {
    let conf = conf("server {{a}}; server {{b}};", "");
    let (response, ..) = both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.request();
            conn.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf!");
            conn.pause(20);
            conn.reset();
        });
        s.backends(&[("b", 0)]);
        // How much of the body arrives depends on when the reset does.
        let response = s.get("/");
        let answer = (response.status(), response.whole);
        let error = s.error("Connection reset by peer").replace("readv", "recv");
        s.gets(3, "/");
        (answer, error, s.hits(), s.log("f.log", 4))
    });
    assert_eq!(response, (200, false));
}
