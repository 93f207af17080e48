//! Datagrams in streams: many sessions at once, and what becomes of them when they expire and when workers change.

use std::{os::unix::net::UnixDatagram, sync::mpsc, time::Duration};

use nix::sys::signal::Signal;

use crate::{
    stream_udp::echo,
    support::{Subject, both, ours},
};

const MANY: &str = "worker_processes 3; worker_rlimit_nofile 30000;
    events { worker_connections 20000; }
    stream {
        server { listen {{udp_listen}} udp; proxy_pass {{udp_a}}; proxy_timeout 10s; proxy_responses 1; }
        server { listen {{udp_listen_r}} udp reuseport; proxy_pass {{udp_b}}; proxy_timeout 10s; }
        server { listen {{udp_listen_short}} udp; proxy_pass {{udp_mute}}; proxy_timeout 300ms; proxy_responses 9; }
    }";

/// Whatever thread a datagram comes to, it is the one that knows the client.
#[test]
fn threads_do_not_split_sessions() {
    ours(MANY, |s: &mut Subject| {
        echo(s, "udp_b", 1);
        let clients: Vec<_> = (0..50).map(|_| s.datagrams("udp_listen_r")).collect();
        let mut first = Vec::new();
        for client in &clients {
            first.push(client.ask("x"));
        }
        for _ in 0..4 {
            let again: Vec<String> = clients.iter().map(|client| client.ask("x")).collect();
            assert_eq!(again, first);
        }
    });
}

#[test]
fn thousands_of_sources() {
    ours(MANY, |s: &mut Subject| {
        echo(s, "udp_a", 1);
        // As many as sockets of clients fit into the test's own descriptors, again and again.
        for _ in 0..25 {
            let clients: Vec<_> = (0..200).map(|_| s.datagrams("udp_listen")).collect();
            for client in &clients {
                client.send("x");
            }
            for client in &clients {
                assert!(client.text().starts_with("udp_a"));
            }
        }
        s.errors("udp done", 5000)
    });
}

#[test]
fn what_expires_gives_everything_back() {
    fn begin(s: &Subject, rounds: usize) {
        for _ in 0..rounds {
            let clients: Vec<_> = (0..100).map(|_| s.datagrams("udp_listen_short")).collect();
            for client in &clients {
                client.send("x");
            }
            // The one thread has taken them before it takes this.
            s.datagrams("udp_listen").ask("");
        }
    }
    let one = MANY.replace("worker_processes 3", "worker_processes 1");
    ours(&one, |s: &mut Subject| {
        echo(s, "udp_a", 1);
        begin(s, 1);
        s.errors("upstream timed out", 100);
        let before = s.descriptors();
        begin(s, 99);
        // Ports of clients may be used again: then it is the same session.
        assert!(s.errors("upstream timed out", 5000) >= 5000);
        s.until(|| s.descriptors() <= before);
    });
}

/// An answer that is on its way during a reload comes; the next datagram is for the new worker.
#[test]
fn a_reload_loses_no_answer() {
    const CONF: &str = "stream {
        log_format t '$status $bytes_sent'; access_log {{dir}}/access.log t;
        server { listen {{udp_listen}} udp; proxy_pass {{udp_a}}; proxy_responses 1; }
    }";
    ours(CONF, |s: &mut Subject| {
        let (let_go, held) = mpsc::channel::<()>();
        s.udp_backend("udp_a", move |socket, bytes, from| {
            if bytes == b"slow" {
                held.recv_timeout(Duration::from_secs(5)).unwrap();
            }
            socket.send_to(bytes, from).unwrap();
        });
        let client = s.datagrams("udp_listen");
        client.send("slow");
        s.errors("udp proxy", 1);
        s.signal(Signal::SIGHUP);
        s.errors("start worker process ", 2);
        s.errors("gracefully shutting down", 1);
        let_go.send(()).unwrap();
        assert_eq!(client.text(), "slow");
        assert_eq!(client.ask("new"), "new");
        // Each worker writes its line when it can.
        let mut lines = s.log("access.log", 2);
        lines.sort();
        assert_eq!(lines, ["200 3", "200 4"]);
        s.errors("exited with code 0", 1)
    });
}

/// A Unix socket that nobody reads from has no room some day; what comes then waits, in order.
#[test]
fn an_upstream_without_room_gets_all_later() {
    const CONF: &str = "stream {
        server { listen {{udp_listen}} udp; proxy_pass unix:{{dir}}/full.sock; }
    }";
    const COUNT: usize = 700;
    both(CONF, |s: &mut Subject| {
        let backend = UnixDatagram::bind(s.path("full.sock")).unwrap();
        backend
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let client = s.datagrams("udp_listen");
        for number in 0..COUNT {
            client.send(format!("{number}"));
            if number % 50 == 0 {
                client.wait_taken();
            }
        }
        for number in 0..COUNT {
            let mut buffer = [0; 9];
            let n = backend.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..n], *number.to_string().as_bytes());
        }
        client.send("last");
        let mut buffer = [0; 9];
        assert_eq!(backend.recv(&mut buffer).unwrap(), 4);
        s.errors("[alert]", 0)
    });
}

#[test]
fn a_worker_that_has_to_end_ends_its_sessions() {
    const CONF: &str = "worker_shutdown_timeout 50ms;
    stream {
        log_format t '$status $bytes_sent'; access_log {{dir}}/access.log t;
        server { listen {{udp_listen}} udp; proxy_pass {{udp_a}}; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        echo(s, "udp_a", 1);
        let client = s.datagrams("udp_listen");
        client.ask("x");
        s.signal(Signal::SIGQUIT);
        assert_eq!(s.wait_end(), Some(0));
        let end = s.error("shutdown timeout");
        (s.log("access.log", 1), end)
    });
    assert_eq!(lines.0, ["200 8"]);
}
