//! The pool of connections to upstreams: behaviours K1 to K4.

use crate::support::{Client, Conn, Subject, both, ours};

const FORMAT: &str = "log_format f '$request_method $status $upstream_addr $upstream_status';";

/// Answers the first request of a connection and closes at the second.
fn once(conn: &mut Conn) {
    conn.request();
    conn.pause(30);
    conn.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    conn.request();
}

/// Fills the pool with so many connections.
fn warm(s: &Subject, count: usize) {
    let mut clients: Vec<Client> = (0..count).map(|_| s.connect()).collect();
    for client in &mut clients {
        client.send("GET /warm HTTP/1.0\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.response().status(), 200);
    }
}

/// K1: all stale connections are used up until a fresh one works, with one peer and one try.
#[test]
fn stale_connections_do_not_cost_a_try() {
    let conf = format!(
        "upstream u {{ server {{{{a}}}}; keepalive 8; }} {FORMAT}
        server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f;
            location / {{ proxy_pass http://u; proxy_next_upstream_tries 1; }}
            location /off {{ proxy_pass http://u; proxy_next_upstream off; }} }}"
    );
    let log = both(&conf, |s: &mut Subject| {
        s.backend("a", once);
        warm(s, 4);
        let first = s.get("/");
        warm(s, 2);
        let second = s.get("/off");
        let mut log = s.log("f.log", 8);
        log.sort();
        (first, second, log)
    });
    let line = "GET 200 <a>, <a>, <a>, <a>, <a> 502, 502, 502, 502, 200";
    assert!(log.2.iter().any(|found| found == line), "{:?}", log.2);
}

/// DIFFERS(giveback): a stale connection is no failure of its peer, so two peers with one each do not end in a 502.
#[test]
fn stale_connections_to_two_peers_are_no_502() {
    let conf = format!(
        "upstream u {{ server {{{{a}}}}; server {{{{b}}}}; keepalive 8; }} {FORMAT}
        server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f; location / {{ proxy_pass http://u; }} }}"
    );
    let log = ours(&conf, |s: &mut Subject| {
        s.backend("a", once);
        s.backend("b", once);
        warm(s, 2);
        s.get("/");
        s.log("f.log", 3).pop().unwrap()
    });
    assert!(log.starts_with("GET 200 "), "{log}");
}

/// K2: a request that may have been served is not sent again unless it is idempotent.
#[test]
fn what_is_sent_again_after_a_stale_connection() {
    let conf = format!(
        "upstream u {{ server {{{{a}}}}; keepalive 8; }} {FORMAT}
        server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f;
            location / {{ proxy_pass http://u; }}
            location /any {{ proxy_pass http://u; proxy_next_upstream error non_idempotent; }} }}"
    );
    let statuses = both(&conf, |s: &mut Subject| {
        s.backend("a", once);
        let mut statuses = Vec::new();
        for (method, target) in [
            ("POST", "/"),
            ("PUT", "/"),
            ("DELETE", "/"),
            ("PATCH", "/"),
            ("POST", "/any"),
        ] {
            warm(s, 1);
            let status = s.ask(method, target, "body").status();
            let line = s.log("f.log", 2 * statuses.len() + 2).pop();
            statuses.push((method, target, status, line));
        }
        statuses
    });
    let found: Vec<u16> = statuses.iter().map(|row| row.2).collect();
    assert_eq!(found, [502, 200, 200, 502, 200]);
}

/// K3: the defaults of 1.29.7 and later, and the old idioms.
#[test]
fn the_pool_is_on_by_default() {
    let conf = "
        upstream u { server {{a}}; }
        upstream off { server {{a}}; keepalive 0; }
        server { listen {{listen}};
            location /default { proxy_pass http://u; }
            location /off { proxy_pass http://off; }
            location /address { proxy_pass http://{{a}}; }
            location /old { proxy_pass http://u; proxy_http_version 1.0; }
            location /header { proxy_pass http://u; proxy_set_header Connection ''; }
            location /close { proxy_pass http://u; proxy_set_header Connection close; } }";
    let seen = both(conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            while conn.request().is_some() {
                let number = conn.number.to_string();
                conn.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{number}",
                    number.len()
                ));
            }
        });
        let mut connections = Vec::new();
        for target in ["/default", "/off", "/address", "/old", "/header", "/close"] {
            let numbers = [s.get(target).text(), s.get(target).text()];
            connections.push((target, numbers[0] == numbers[1]));
        }
        (connections, s.received())
    });
    let reused: Vec<bool> = seen.0.iter().map(|row| row.1).collect();
    assert_eq!(reused, [true, false, false, true, true, true]);
}

/// Which connections served requests to these targets in turn.
fn connections(s: &mut Subject, targets: &[&str]) -> Vec<String> {
    s.backend("a", |conn| {
        while conn.request().is_some() {
            let number = conn.number;
            conn.write(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}"
            ));
        }
    });
    targets.iter().map(|target| s.get(target).text()).collect()
}

/// K4: without `keepalive` each location has its own pool, with it they share one.
#[test]
fn locations_share_a_pool_that_is_asked_for() {
    for (keepalive, expected) in [
        ("", "0101"),
        ("keepalive 4;", "0000"),
        ("keepalive 4 local;", "0101"),
    ] {
        let conf = format!(
            "upstream u {{ server {{{{a}}}}; {keepalive} }}
            server {{ listen {{{{listen}}}};
                location /one {{ proxy_pass http://u; }}
                location /two {{ proxy_pass http://u; }} }}"
        );
        let numbers = both(&conf, |s: &mut Subject| {
            connections(s, &["/one", "/two", "/one", "/two"])
        });
        assert_eq!(numbers.concat(), expected, "{keepalive}");
    }
}

/// K4. DIFFERS(pool-key): a connection with another local address is another connection; nginx compares peers' addresses only.
#[test]
fn a_pooled_connection_keeps_what_it_is() {
    let conf = "
        upstream u { server {{a}}; keepalive 4; }
        server { listen {{listen}};
            location /one { proxy_pass http://u; proxy_bind 127.0.0.1; }
            location /two { proxy_pass http://u; proxy_bind 127.0.0.2; } }";
    let numbers = ours(conf, |s: &mut Subject| {
        connections(s, &["/one", "/two", "/one", "/two"])
    });
    assert_eq!(numbers.concat(), "0101");
}

/// The limits of the pool: idle connections, requests a connection, time idle.
#[test]
fn the_pool_has_limits() {
    let conf = "
        upstream few { server {{a}}; keepalive 1; }
        upstream requests { server {{a}}; keepalive 4; keepalive_requests 2; }
        upstream idle { server {{a}}; keepalive 4; keepalive_timeout 50ms; }
        server { listen {{listen}};
            location /few { proxy_pass http://few; }
            location /requests { proxy_pass http://requests; }
            location /idle { proxy_pass http://idle; } }";
    let seen = both(conf, |s: &mut Subject| {
        let mut numbers = connections(
            s,
            &["/requests", "/requests", "/requests", "/idle", "/idle"],
        );
        s.pause(120);
        numbers.push(s.get("/idle").text());
        numbers
    });
    assert_eq!(seen.concat(), "001223");
}

/// An idle connection that turns readable is not used.
#[test]
fn a_connection_that_spoke_out_of_turn_is_dropped() {
    let conf = "
        upstream u { server {{a}}; keepalive 4; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    let answers = both(conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            while conn.request().is_some() {
                let number = conn.number;
                conn.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}"
                ));
                conn.pause(10);
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nunused");
            }
        });
        let first = s.get("/").text();
        s.pause(60);
        (first, s.get("/").text())
    });
    assert_eq!(answers, ("0".to_owned(), "1".to_owned()));
}
