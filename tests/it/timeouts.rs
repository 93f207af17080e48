//! Timeouts and clients that go away: behaviours T1 to T3.

use std::{fs, sync::mpsc, time::Duration};

use crate::support::{Subject, both};

const FORMAT: &str = "log_format f '$status $upstream_status $upstream_header_time';";

fn conf(server: &str, location: &str) -> String {
    format!(
        "upstream u {{ server {{{{a}}}} max_fails=0; server {{{{b}}}} backup; }} {FORMAT}
        server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f; {server}
            location / {{ proxy_pass http://u; {location} }} }}"
    )
}

/// T1: a read timeout is the time between two reads. (nginx moves a timer by 300 ms at least.)
#[test]
fn a_dripping_upstream_is_alive() {
    let conf = conf("", "proxy_read_timeout 500ms; proxy_buffering off;");
    let response = both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.request();
            conn.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            for _ in 0..5 {
                conn.pause(160);
                conn.write("x");
            }
            conn.wait_close();
        });
        s.get("/")
    });
    assert!(response.whole);
}

/// T1: silence before the header is 504, after it the response is cut off.
#[test]
fn a_silent_upstream_times_out() {
    let conf = conf("", "proxy_read_timeout 60ms; proxy_next_upstream off;");
    let (before, after, ..) = both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            let request = conn.request();
            if request.is_some_and(|r| r.target() == "/late") {
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nxy");
            }
            conn.wait_close();
        });
        let before = s.get("/");
        let first =
            s.error("upstream timed out (110: Connection timed out) while reading response");
        let after = s.get("/late");
        let second =
            s.error("upstream timed out (110: Connection timed out) while reading upstream");
        // How much of the body comes is a matter of buffers.
        (before, (after.status(), after.whole), first, second)
    });
    assert_eq!((before.status(), after.0, after.1), (504, 200, false));
}

/// A timeout is a failed try: it goes to the next peer, and the time of all tries is bounded.
#[test]
fn a_timeout_is_retried() {
    let conf = conf("", "proxy_read_timeout 60ms;");
    both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.request();
            conn.wait_close();
        });
        s.backends(&[("b", 0)]);
        let answers = (s.get("/"), s.get("/"));
        let statuses = s.log("f.log", 2);
        let statuses: Vec<&str> = statuses
            .iter()
            .map(|line| line.rsplit_once(' ').unwrap().0)
            .collect();
        (answers, s.hits(), format!("{statuses:?}"))
    });
}

/// T2: the upstream connection is closed when the client goes; nobody has failed.
#[test]
fn a_client_that_leaves_is_499() {
    for half in [false, true] {
        let log = both(&conf("", ""), |s: &mut Subject| {
            let (closed, wait) = mpsc::channel();
            s.backend("a", move |conn| {
                if conn.request().is_some_and(|r| r.target() == "/slow") {
                    conn.wait_close();
                    closed.send(()).ok();
                } else {
                    conn.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            });
            let mut client = s.connect();
            client.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
            s.wait_hits(1);
            if half {
                client.finish();
            } else {
                drop(client);
            }
            let noticed = wait.recv_timeout(Duration::from_secs(1)).is_ok();
            let after = s.get("/").status();
            (noticed, after, s.hits(), s.log("f.log", 1)[0].clone())
        });
        assert_eq!(log.3, "499 - -");
    }
}

/// T2: unless the client's going is ignored.
#[test]
fn a_client_that_leaves_can_be_ignored() {
    let conf = conf("", "proxy_ignore_client_abort on;");
    let log = both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.request();
            conn.pause(80);
            conn.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            conn.wait_close();
        });
        let mut client = s.connect();
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        s.wait_hits(1);
        drop(client);
        let line = s.log("f.log", 1)[0].clone();
        line.rsplit_once(' ').unwrap().0.to_owned()
    });
    assert_eq!(log, "200 200");
}

/// How many sockets the workers of a subject hold.
fn sockets(s: &Subject) -> usize {
    let master = s.process();
    let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
    let descriptors = children
        .split_whitespace()
        .flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).unwrap());
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count()
}

/// T3: every phase of a client that is too slow ends, and leaves nothing open.
#[test]
fn slow_clients_are_dropped() {
    let conf = conf(
        "client_header_timeout 80ms; client_body_timeout 80ms; keepalive_timeout 80ms;",
        "",
    );
    let seen = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        s.get("/");
        let before = sockets(s);
        let mut silent = s.connect();
        let mut partial = s.connect();
        partial.send("GET / HTTP/1.1\r\nHo");
        let mut idle = s.connect();
        idle.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut stalled = s.connect();
        stalled.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello");
        let mut dripping = s.connect();
        for byte in "GET / HTTP".bytes() {
            dripping.send([byte]);
            s.pause(15);
        }
        let answers = [
            silent.rest(),
            partial.rest(),
            idle.rest(),
            stalled.rest(),
            dripping.rest(),
        ];
        let empty: Vec<bool> = answers.iter().map(String::is_empty).collect();
        s.until(|| sockets(s) <= before);
        let mut log = s.log("f.log", 5);
        log.sort();
        let log: Vec<String> = log.iter().map(|line| line[..3].to_owned()).collect();
        (empty, log)
    });
    assert_eq!(seen.0, [true, true, false, true, true]);
    assert_eq!(seen.1, ["200", "200", "408", "408", "408"]);
}

/// T3: a body may take its time as long as some of it keeps coming.
#[test]
fn a_dripping_body_is_alive() {
    let conf = conf("client_body_timeout 500ms;", "");
    let status = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut client = s.connect();
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
        for _ in 0..5 {
            s.pause(160);
            client.send("x");
        }
        client.response().status()
    });
    assert_eq!(status, 200);
}

/// Nobody answers to a connection attempt.
#[test]
fn connecting_times_out() {
    let conf = "
        log_format f '$status $upstream_status $upstream_connect_time';
        server { listen {{listen}}; access_log {{dir}}/f.log f;
            location / { proxy_pass http://{{full}}; proxy_connect_timeout 80ms; } }";
    let seen = both(conf, |s: &mut Subject| {
        let _fill = s.fill_backlog("full");
        (s.get("/"), s.log("f.log", 1), s.error("upstream timed out"))
    });
    assert_eq!(seen.1, ["504 504 -"]);
}
