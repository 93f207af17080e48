//! USR2: a new binary takes over, or the old one goes on.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Subject, ours};

const CONF: &str = "
    upstream u { zone u 64k; least_time header; server {{a}}; server {{b}}; }
    server { listen {{listen}}; location / { proxy_pass http://u; } }
    server { listen unix:{{dir}}/s.sock; location / { return 200 ok; } }";

/// The new binary has the sockets, and what was known of the peers; the old one finishes what it has.
#[test]
fn a_new_binary_takes_over() {
    ours(CONF, |s: &mut Subject| {
        s.backends(&[("a", 2), ("b", 200)]);
        s.gets(2, "/");
        let mut busy = s.connect();
        let old = s.process();
        let new = s.upgrade();
        assert_eq!(s.pid("test.pid.oldbin"), Some(old));
        assert_eq!(s.pid("test.pid"), Some(new));
        busy.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        s.wait_hits(3);
        s.signal(Signal::SIGQUIT);
        assert_eq!(busy.response().status(), 200);
        assert_eq!(s.wait_end(), Some(0));
        s.gets(4, "/");
        let hits = s.hits();
        // The old one has left the pid file and the Unix socket alone.
        assert_eq!(s.pid("test.pid"), Some(new));
        assert!(!s.path("test.pid.oldbin").exists());
        assert!(s.path("s.sock").exists());
        s.signal_newer(Signal::SIGQUIT);
        s.until(|| !s.path("test.pid").exists() && !s.path("s.sock").exists());
        assert_eq!(hits, "a b a a a a a");
    });
}

/// WINCH sends the old workers away, HUP brings them back as they were, and the new binary ends.
#[test]
fn the_old_binary_takes_back() {
    ours(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0), ("b", 0)]);
        let old = s.process();
        s.upgrade();
        s.signal(Signal::SIGWINCH);
        s.errors("exited with code 0", 1);
        assert_eq!(s.get("/").status(), 200);
        let started = s.errors("start worker process ", 0);
        // What is in the file now is not read.
        fs::write(s.path("test.conf"), "nonsense").unwrap();
        s.signal(Signal::SIGHUP);
        s.errors("start worker process ", started + 1);
        s.signal_newer(Signal::SIGQUIT);
        s.errors("new binary process", 2);
        s.until(|| s.pid("test.pid") == Some(old));
        assert!(!s.path("test.pid.oldbin").exists());
        assert!(s.path("s.sock").exists());
        assert_eq!(s.get("/").status(), 200);
    });
}

/// The new binary ends while the old one has no workers: it starts them again by itself.
#[test]
fn the_new_binary_ends_alone() {
    ours(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0), ("b", 0)]);
        let old = s.process();
        s.upgrade();
        s.signal(Signal::SIGWINCH);
        s.errors("exited with code 0", 1);
        let started = s.errors("start worker process ", 0);
        s.signal_newer(Signal::SIGTERM);
        s.errors("start worker process ", started + 1);
        assert_eq!(s.pid("test.pid"), Some(old));
        assert_eq!(s.get("/").status(), 200);
    });
}

/// A new binary that does not come up leaves everything as it was.
#[test]
fn a_bad_configuration_is_no_end() {
    ours(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0), ("b", 0)]);
        fs::write(s.path("test.conf"), "nonsense;").unwrap();
        s.signal(Signal::SIGUSR2);
        s.errors("new binary process", 2);
        s.until(|| s.pid("test.pid") == Some(s.process()));
        assert!(s.error("exited with code 1").contains("new binary process"));
        assert!(s.path("s.sock").exists());
        assert_eq!(s.get("/").status(), 200);
    });
}

/// While two binaries run neither starts a third one.
#[test]
fn one_upgrade_at_a_time() {
    ours(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0), ("b", 0)]);
        s.upgrade();
        s.signal(Signal::SIGUSR2);
        s.errors("the changing binary signal is ignored", 1);
        s.signal_newer(Signal::SIGUSR2);
        s.errors("the changing binary signal is ignored", 2);
        assert_eq!(s.errors("start new binary process", 0), 1);
    });
}
