//! `least_time` over real sockets: behaviours B1 to B4, and the experiment of three backends in small. The arithmetic
//! itself has unit tests with a clock of their own.

use crate::support::{Conn, Subject, both, ours};

const FORMAT: &str = "log_format f '$upstream_addr $upstream_status';";

fn conf(peers: &str, location: &str) -> String {
    format!(
        "upstream u {{ zone u 64k; {peers} }} {FORMAT}
        server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f;
            location / {{ proxy_pass http://u; {location} }} }}"
    )
}

/// A backend that is quick to fail.
fn fail(conn: &mut Conn) {
    conn.answer_all("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 1\r\n\r\n!");
}

/// B1: failed tries are no samples, so a peer that only ever fails is tried first.
#[test]
fn a_failing_peer_looks_fast() {
    let conf = conf(
        "least_time header; server {{a}}; server {{b}} max_fails=0;",
        "proxy_next_upstream error timeout http_500;",
    );
    let log = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 30)]);
        s.backend("b", fail);
        s.gets(10, "/");
        s.log("f.log", 10)
    });
    assert_eq!(log[9], "<b>, <a> 500, 200");
}

/// B1: with the default `max_fails` it is benched after its first failure.
#[test]
fn a_failing_peer_is_benched() {
    let conf = conf(
        "least_time header; server {{a}}; server {{b}};",
        "proxy_next_upstream error timeout http_500;",
    );
    let log = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 30)]);
        s.backend("b", fail);
        s.gets(6, "/");
        s.log("f.log", 6)
    });
    assert_eq!(log[5], "<a> 200");
}

/// B2: an answer is an answer, also an error that nobody asked to retry.
#[test]
fn quick_errors_attract() {
    let conf = conf("least_time header; server {{a}}; server {{b}};", "");
    let hits = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 40)]);
        s.backend("b", fail);
        s.gets(8, "/");
        s.hits()
    });
    assert_eq!(hits, "a b b b b b b b");
}

/// B3: a weight divides the time.
#[test]
fn weights_divide_the_time() {
    let conf = conf(
        "least_time header; server {{a}} weight=10; server {{b}};",
        "",
    );
    let hits = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 50), ("b", 5)]);
        s.gets(5, "/");
        s.hits()
    });
    assert_eq!(hits, "a a a a a");
}

/// B3: 3 ms and 45 ms are not alike.
#[test]
fn distant_times_do_not_tie() {
    let conf = conf("least_time last_byte; server {{a}}; server {{b}};", "");
    let hits = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 250), ("b", 3)]);
        s.gets(8, "/");
        s.hits()
    });
    assert_eq!(hits, "a b b b b b b b");
}

/// B4: a quick header with a slow body, and the other way round.
#[test]
fn header_and_last_byte_prefer_different_peers() {
    for (mode, expected) in [("header", "a b a a a"), ("last_byte", "a b b b b")] {
        let conf = conf(
            &format!("least_time {mode}; server {{{{a}}}}; server {{{{b}}}};"),
            "",
        );
        let hits = both(&conf, |s: &mut Subject| {
            s.backend("a", |conn| {
                while conn.request().is_some() {
                    conn.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
                    conn.pause(90);
                    conn.write("a");
                }
            });
            s.backends(&[("b", 50)]);
            s.gets(5, "/");
            s.hits()
        });
        assert_eq!(hits, expected, "{mode}");
    }
}

/// B4: requests that hang raise a peer's time with `inflight`, before there is any sample.
#[test]
fn inflight_sees_a_peer_that_hangs() {
    for (mode, expected) in [("header inflight", "a b b b"), ("header", "a b b a")] {
        let conf = conf(
            &format!("least_time {mode}; server {{{{a}}}}; server {{{{b}}}};"),
            "",
        );
        let hits = both(&conf, |s: &mut Subject| {
            s.backend("a", |conn| {
                conn.request();
                conn.wait_close();
            });
            s.backends(&[("b", 200)]);
            let mut clients = Vec::new();
            for number in 0..4 {
                let mut client = s.connect();
                client.send("GET / HTTP/1.0\r\n\r\n");
                s.wait_hits(number + 1);
                if number == 0 {
                    s.pause(100);
                }
                clients.push(client);
            }
            s.hits()
        });
        assert_eq!(hits, expected, "{mode}");
    }
}

/// Another word is refused with nginx's words.
#[test]
fn unknown_words_are_refused() {
    for method in [
        "least_time first_byte",
        "least_time header foo",
        "random two least_time=header",
        "least_time",
    ] {
        let conf = format!("upstream u {{ {method}; server 127.0.0.1:1; server 127.0.0.1:2; }}");
        let code = crate::support::compare::check(&conf);
        assert_eq!(code, Some(1), "{method}");
    }
}

/// DIFFERS(early-sample): a header is sampled when it arrives, so that long streams do not hide slow headers.
#[test]
fn long_streams_do_not_hide_slow_headers() {
    let conf = conf("least_time header; server {{a}}; server {{b}};", "");
    let hits = ours(&conf, |s: &mut Subject| {
        for (name, delay) in [("a", 10), ("b", 120)] {
            s.backend(name, move |conn| {
                conn.request();
                conn.pause(delay);
                conn.write("HTTP/1.1 200 OK\r\n\r\nx");
                conn.wait_close();
            });
        }
        // Streams that stay open: the first two are samples, then headers decide; a has to be more than 4 times as busy.
        let mut clients = Vec::new();
        for _ in 0..6 {
            let mut client = s.connect();
            client.send("GET / HTTP/1.0\r\n\r\n");
            assert!(client.bytes(12).starts_with(b"HTTP/1.1 200"));
            clients.push(client);
        }
        s.hits()
    });
    assert_eq!(hits, "a b a a a a");
}
