//! `limit_req` and `limit_conn` beside nginx.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Subject, both, ours};

/// Beyond the burst requests are refused, and what is logged is nginx's.
#[test]
fn a_burst_and_no_more() {
    let conf = "
        limit_req_zone $arg_k zone=one:1m rate=1r/m;
        log_format f '$status $limit_req_status';
        server { listen {{listen}}; access_log {{dir}}/f.log f;
            location / { limit_req zone=one burst=2 nodelay; limit_req_status 429; limit_req_log_level warn; empty_gif; }
            location /none { empty_gif; }
            location /dry { limit_req zone=one; limit_req_dry_run on; empty_gif; } }";
    both(conf, |s: &mut Subject| {
        let statuses = s.gets(5, "/?k=a");
        let others = [s.gets(1, "/?k=b"), s.gets(2, "/"), s.gets(1, "/none?k=a")];
        let dry = s.gets(1, "/dry?k=a");
        let log = s.log("f.log", 10);
        (
            statuses,
            others,
            dry,
            log,
            s.error("limiting requests, excess"),
            s.error("dry run"),
        )
    });
}

/// Requests of a burst wait for their turn.
#[test]
fn a_burst_waits() {
    let conf = "
        limit_req_zone $server_port zone=one:1m rate=20r/s;
        limit_req_zone $binary_remote_addr zone=two:1m rate=1000r/s;
        log_format f '$status $limit_req_status';
        server { listen {{listen}}; access_log {{dir}}/f.log f;
            location / { limit_req zone=one burst=5; limit_req zone=two burst=5; empty_gif; }
            location /delay { limit_req zone=one burst=8 delay=1; empty_gif; } }";
    both(conf, |s: &mut Subject| {
        let begun = std::time::Instant::now();
        let statuses = s.gets(4, "/");
        let waited = begun.elapsed().as_millis();
        let log = s.log("f.log", 4);
        // Who goes away while waiting is not answered.
        let mut gone = s.connect();
        gone.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").finish();
        let lines = s.log("f.log", 5);
        (
            statuses,
            (130..400).contains(&waited),
            log,
            lines.last().cloned(),
        )
    });
}

/// Places are given back when a request is over, whatever became of it.
#[test]
fn places_come_back() {
    let conf = "
        limit_conn_zone $server_addr zone=one:1m;
        limit_conn_zone $arg_k zone=two:1m;
        upstream u { server {{a}}; }
        log_format f '$status $limit_conn_status';
        server { listen {{listen}}; access_log {{dir}}/f.log f; limit_conn_log_level notice; limit_conn two 1;
            location / { limit_conn one 1; limit_conn two 5; limit_conn_status 429; proxy_pass http://u; }
            location /two { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&[("a", 100)]);
        let mut busy = s.connect();
        busy.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        s.wait_hits(1);
        let refused = s.get("/").status();
        let other = s.get("/two?k=1").status();
        let first = busy.response().status();
        let again = busy
            .send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .response()
            .status();
        (
            refused,
            other,
            first,
            again,
            s.log("f.log", 4),
            s.error("limiting connections"),
        )
    });
}

/// What a key has used up stays so over a reload.
#[test]
fn rates_outlive_a_reload() {
    let conf = "
        limit_req_zone $arg_k zone=one:1m rate=1r/m;
        server { listen {{listen}}; location / { limit_req zone=one; empty_gif; } }";
    both(conf, |s: &mut Subject| {
        let before = s.gets(2, "/?k=a%20\t");
        s.signal(Signal::SIGHUP);
        s.errors("exited with code 0", 1);
        (before, s.gets(1, "/?k=a%20\t"), s.gets(1, "/?k=b"))
    });
}

/// DIFFERS(limit-key): another key begins anew, where nginx keeps its old configuration.
#[test]
fn a_zone_may_change_its_key() {
    let conf = "
        limit_req_zone $arg_k zone=one:1m rate=1r/m;
        server { listen {{listen}}; location / { limit_req zone=one; empty_gif; } }";
    let statuses = ours(conf, |s: &mut Subject| {
        let before = s.gets(2, "/?k=a&l=a");
        let text = fs::read_to_string(s.path("test.conf")).unwrap();
        fs::write(s.path("test.conf"), text.replace("$arg_k", "$arg_l")).unwrap();
        s.signal(Signal::SIGHUP);
        s.errors("exited with code 0", 1);
        [before, s.gets(2, "/?k=a&l=a")]
    });
    assert_eq!(statuses, [[200, 503], [200, 503]]);
}
