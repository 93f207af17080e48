//! Which peer gets a request: behaviours B5, B6, B9 and B12. Hashing and `least_time` have their own files.

use std::sync::mpsc;

use crate::support::{Client, Subject, both};

#[test]
fn weights_make_a_smooth_order() {
    let conf = "
        upstream u { server {{a}} weight=5; server {{b}}; server {{c}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    let hits = both(conf, |s: &mut Subject| {
        s.backends(&[("a", 0), ("b", 0), ("c", 0)]);
        s.gets(14, "/");
        s.hits()
    });
    assert_eq!(hits, "a a b a c a a a a b a c a a");
}

#[test]
fn failures_lower_a_weight_and_picks_raise_it() {
    let conf = "
        upstream u { server {{a}} weight=4 max_fails=4; server {{b}} weight=2; server {{c}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            if conn.number > 1 {
                conn.answer_all("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            } else {
                conn.request();
            }
        });
        s.backends(&[("b", 0), ("c", 0)]);
        (s.gets(20, "/"), s.hits())
    });
}

#[test]
fn backups_serve_when_all_others_are_benched() {
    let conf = "
        upstream u { server {{refused1}}; server {{refused2}}; server {{a}} backup; server {{b}} backup; }
        log_format f '$upstream_addr $upstream_status';
        server { listen {{listen}}; access_log {{dir}}/f.log f; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&[("a", 0), ("b", 0)]);
        (s.gets(5, "/"), s.hits(), s.log("f.log", 5))
    });
}

#[test]
fn a_peer_that_is_down_gets_nothing() {
    let conf = "
        upstream u { server {{a}} down; server {{b}}; server {{c}} down; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    let hits = both(conf, |s: &mut Subject| {
        s.backends(&[("a", 0), ("b", 0), ("c", 0)]);
        s.gets(3, "/");
        s.hits()
    });
    assert_eq!(hits, "b b b");
}

/// B9: no panic mode; the address is the group's name.
#[test]
fn all_benched_is_502_at_once() {
    let conf = "
        upstream u { server {{a}}; server {{b}}; }
        log_format f '$request_method $status $upstream_addr $upstream_status';
        server { listen {{listen}}; access_log {{dir}}/f.log f; location / { proxy_pass http://u; } }";
    let log = both(conf, |s: &mut Subject| {
        for name in ["a", "b"] {
            s.backend(name, |conn| {
                let head = conn.request().is_some_and(|r| r.line.starts_with("HEAD"));
                if !head {
                    conn.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            });
        }
        let answers = (s.ask("HEAD", "/", ""), s.get("/"));
        let log = s.log("f.log", 2);
        (answers, s.error("no live upstreams"), s.hits(), log)
    });
    assert_eq!(log.3[1], "GET 502 u 502");
}

/// B12: two at a time, and no queue.
#[test]
fn max_conns_refuses_the_rest() {
    for peers in [
        "server {{a}} max_conns=2;",
        "server {{a}} max_conns=1; server {{b}} max_conns=1;",
    ] {
        let conf = format!(
            "upstream u {{ zone u 64k; {peers} }}
            log_format f '$status $upstream_addr';
            server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f;
                location / {{ proxy_pass http://u; }} }}"
        );
        let (statuses, log) = both(&conf, |s: &mut Subject| {
            s.backends(&[("a", 150)]);
            if peers.contains("{{b}}") {
                s.backends(&[("b", 150)]);
            }
            let mut clients: Vec<Client> = (0..6).map(|_| s.connect()).collect();
            for client in &mut clients {
                client.send("GET / HTTP/1.0\r\n\r\n");
            }
            let statuses = clients.iter_mut().map(|c| c.response().status());
            let mut statuses: Vec<u16> = statuses.collect();
            statuses.sort_unstable();
            let mut log = s.log("f.log", 6);
            log.sort();
            (statuses, log)
        });
        assert_eq!(statuses, [200, 200, 502, 502, 502, 502]);
        assert_eq!(log[5], "502 u");
    }
}

/// Idle connections in the pool do not count for `max_conns`.
#[test]
fn idle_connections_are_no_load() {
    let conf = "
        upstream u { server {{a}} max_conns=1; keepalive 4; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    let statuses = both(conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        s.gets(3, "/")
    });
    assert_eq!(statuses, [200, 200, 200]);
}

#[test]
fn least_conn_prefers_who_has_less_to_do() {
    let conf = "
        upstream u { zone u 64k; least_conn; server {{a}} weight=2; server {{b}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&[("a", 120), ("b", 0)]);
        let mut slow: Vec<Client> = Vec::new();
        for _ in 0..4 {
            let mut client = s.connect();
            client.send("GET / HTTP/1.0\r\n\r\n");
            slow.push(client);
            s.wait_hits(slow.len());
        }
        let statuses: Vec<u16> = slow.iter_mut().map(|c| c.response().status()).collect();
        (statuses, s.hits())
    });
}

/// B5: the upstream is released when its last byte has come, not when a slow client has taken it.
#[test]
fn a_slow_client_does_not_hold_the_upstream() {
    const SIZE: usize = 8 << 20;
    let conf = "
        upstream u { server {{a}}; keepalive 2; }
        log_format f '$upstream_response_time $request_time';
        server { listen {{listen}}; access_log {{dir}}/f.log f; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        let (written, wait) = mpsc::channel();
        s.backend("a", move |conn| {
            while let Some(request) = conn.request() {
                let size = if request.target() == "/large" {
                    SIZE
                } else {
                    3
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nX-Connection: {}\r\n\r\n",
                    conn.number
                );
                conn.write(head);
                conn.write(vec![b'x'; size]);
                written.send(()).ok();
            }
        });
        let mut slow = s.connect();
        slow.send("GET /large HTTP/1.0\r\n\r\n");
        wait.recv_timeout(std::time::Duration::from_secs(4))
            .unwrap();
        s.until(|| s.get("/small").header("x-connection") == Some("0"));
        let again = s.get("/small");
        let whole = slow.response();
        let log = s.log("f.log", 3);
        let times: Vec<&str> = log.last().unwrap().split(' ').collect();
        let released = times[0].parse::<f64>().unwrap() < times[1].parse::<f64>().unwrap();
        (again, whole.body.len(), whole.whole, released)
    });
}

/// B5: without buffering the backend waits for the client.
#[test]
fn without_buffering_there_is_back_pressure() {
    let conf = "
        upstream u { server {{a}}; }
        server { listen {{listen}}; proxy_buffering off; location / { proxy_pass http://u; } }";
    let (early, length) = both(conf, |s: &mut Subject| {
        let (written, wait) = mpsc::channel();
        s.backend("a", move |conn| {
            conn.request();
            conn.write("HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n");
            conn.write(vec![b'x'; 32 << 20]);
            written.send(()).ok();
        });
        let mut slow = s.connect();
        slow.send("GET / HTTP/1.0\r\n\r\n");
        let early = wait
            .recv_timeout(std::time::Duration::from_millis(100))
            .is_ok();
        (early, slow.response().body.len())
    });
    assert!(!early);
    assert_eq!(length, 32 << 20);
}
