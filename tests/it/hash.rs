//! Peers by hash: `hash`, `hash consistent`, `ip_hash` (behaviour B10). The exact ring is a matter of unit tests, because
//! it depends on the ports; what does not depend on them is compared here.

use std::collections::BTreeMap;

use crate::support::{Subject, both};

const THREE: [(&str, u64); 3] = [("a", 0), ("b", 0), ("c", 0)];

#[test]
fn hash_finds_nginx_s_peers() {
    let conf = "
        upstream u { hash $arg_k; server {{a}} weight=2; server {{b}}; server {{c}}; }
        upstream one { hash $arg_k; server {{a}}; }
        upstream failing { hash $arg_k; server {{a}}; server {{refused}}; server {{b}}; }
        server { listen {{listen}};
            location / { proxy_pass http://u; }
            location /one { proxy_pass http://one; }
            location /failing { proxy_pass http://failing; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&THREE);
        let mut statuses = Vec::new();
        for key in 0..24 {
            statuses.push(s.get(&format!("/?k=key{key}")).status());
        }
        for _ in 0..6 {
            statuses.push(s.get("/").status());
        }
        for key in 0..6 {
            statuses.push(s.get(&format!("/failing?k={key}")).status());
            statuses.push(s.get(&format!("/one?k={key}")).status());
        }
        (s.hits(), statuses)
    });
}

#[test]
fn consistent_hash_keeps_keys_where_they_are() {
    let conf = "
        upstream u { hash $arg_k consistent; server {{a}}; server {{b}}; server {{c}}; }
        upstream fewer { hash $arg_k consistent; server {{a}}; server {{c}}; }
        server { listen {{listen}};
            location / { proxy_pass http://u; }
            location /fewer { proxy_pass http://fewer; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&THREE);
        let place = |target: String| s.get(&target).text();
        let mut shares = BTreeMap::new();
        let mut moved = 0;
        for key in 0..60 {
            let first = place(format!("/?k={key}"));
            assert_eq!(
                first,
                place(format!("/?k={key}")),
                "the same key, the same peer"
            );
            let other = place(format!("/fewer?k={key}"));
            moved += usize::from(first != "b" && first != other);
            *shares.entry(first).or_insert(0) += 1;
        }
        assert!(shares.values().all(|&share| share > 4), "{shares:?}");
        s.forget();
        s.gets(6, "/");
        (moved, s.hits())
    });
}

#[test]
fn ip_hash_takes_three_octets() {
    let conf = "
        upstream u { ip_hash; server {{a}}; server {{b}} weight=2; server {{c}}; }
        set_real_ip_from 127.0.0.1;
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&THREE);
        for address in [
            "10.1.2.3",
            "10.1.2.99",
            "10.1.3.3",
            "192.168.7.1",
            "172.16.0.1",
            "::1",
            "2001:db8::7",
        ] {
            let mut client = s.connect();
            client.send(format!("GET / HTTP/1.0\r\nX-Real-IP: {address}\r\n\r\n"));
            client.response();
        }
        s.hits()
    });
}

#[test]
fn random_two_takes_the_less_busy() {
    let conf = "
        upstream u { zone u 64k; random two least_conn; server {{a}}; server {{b}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    let both_asked = both(conf, |s: &mut Subject| {
        s.backends(&[("a", 100), ("b", 100)]);
        let mut first = s.connect();
        first.send("GET / HTTP/1.0\r\n\r\n");
        s.wait_hits(1);
        let second = s.get("/").text();
        first.response().text() != second
    });
    assert!(both_asked);
}
