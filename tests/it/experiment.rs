//! The experiment of `make experiment` in small: three backends of different speed, shares with tolerances, on both
//! programs. What happens in order is compared exactly elsewhere; here shares have room, because times are measured.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::support::{Client, Conn, Subject, both};

/// One upstream over three backends.
fn conf(method: &str) -> String {
    format!(
        "upstream u {{ zone u 64k; {method} server {{{{a}}}}; server {{{{b}}}}; server {{{{c}}}}; }}
        server {{ listen {{{{listen}}}}; location / {{ proxy_pass http://u; }} }}"
    )
}

/// How many of the requests each backend got.
fn shares(s: &Subject) -> [usize; 3] {
    ["a", "b", "c"].map(|name| s.count(name))
}

/// JSON after 2, 40 and 80 ms.
const DELAYS: [(&str, u64); 3] = [("a", 2), ("b", 40), ("c", 80)];

#[test]
fn round_robin_and_idle_least_conn_share_alike() {
    for method in ["", "least_conn;"] {
        let found = both(&conf(method), |s: &mut Subject| {
            s.backends(&DELAYS);
            s.gets(9, "/");
            shares(s)
        });
        assert_eq!(found, [3, 3, 3], "{method}");
    }
}

#[test]
fn busy_least_conn_prefers_the_fast() {
    let most = both(&conf("least_conn;"), |s: &mut Subject| {
        s.backends(&DELAYS);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| s.gets(12, "/"));
            }
        });
        let [a, b, c] = shares(s);
        a > b && b >= c && a > 36
    });
    assert!(most);
}

#[test]
fn least_time_prefers_the_fast() {
    for mode in [
        "header",
        "last_byte",
        "header inflight",
        "last_byte inflight",
    ] {
        let most = both(&conf(&format!("least_time {mode};")), |s: &mut Subject| {
            s.backends(&DELAYS);
            s.gets(16, "/");
            let [a, b, c] = shares(s);
            a >= 12 && b >= 1 && c >= 1
        });
        assert!(most, "{mode}");
    }
}

/// A stream whose first and last byte come after so many milliseconds.
fn stream(first: u64, last: u64) -> impl Fn(&mut Conn) + Send + Sync + 'static {
    move |conn| {
        while conn.request().is_some() {
            conn.pause(first);
            conn.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1");
            conn.pause(last - first);
            conn.write("2");
        }
    }
}

/// Whether `winner` gets most of the streams.
fn most_streams(mode: &str, winner: &str) -> bool {
    both(&conf(&format!("least_time {mode};")), |s: &mut Subject| {
        s.backend("a", stream(2, 160));
        s.backend("b", stream(90, 92));
        s.backend("c", stream(50, 130));
        s.gets(7, "/");
        s.count(winner) >= 4
    })
}

#[test]
fn the_first_byte_decides_with_header() {
    assert!(most_streams("header", "a"));
}

#[test]
fn the_last_byte_decides_with_last_byte() {
    assert!(most_streams("last_byte", "b"));
}

/// A peer that turns slow is left within a few requests. (How it comes back takes seconds: `make experiment`.)
#[test]
fn a_peer_that_turns_slow_is_left() {
    let soon = both(&conf("least_time header;"), |s: &mut Subject| {
        let delay = Arc::new(AtomicU64::new(2));
        let current = delay.clone();
        s.backend("a", move |conn| {
            while conn.request().is_some() {
                conn.pause(current.load(Ordering::Relaxed));
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
            }
        });
        s.backends(&[("b", 30), ("c", 60)]);
        s.gets(5, "/");
        delay.store(250, Ordering::Relaxed);
        (1..=4).any(|_| s.get("/").text() != "a")
    });
    assert!(soon);
}

/// Requests at work count with `inflight`, before the peer has answered any.
#[test]
fn inflight_leaves_a_peer_that_hangs() {
    for (mode, least) in [("last_byte inflight", true), ("last_byte", false)] {
        both(&conf(&format!("least_time {mode};")), |s: &mut Subject| {
            s.backends(&[("a", 20), ("b", 20)]);
            s.backend("c", |conn| {
                conn.request();
                conn.wait_close();
            });
            let mut clients: Vec<Client> = Vec::new();
            for _ in 0..6 {
                for _ in 0..2 {
                    let mut client = s.connect();
                    client.send("GET / HTTP/1.0\r\n\r\n");
                    clients.push(client);
                }
                s.pause(40);
            }
            !least || s.count("c") <= 2
        });
    }
}
