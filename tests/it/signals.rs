//! What an operator sends: QUIT, TERM, INT, USR1 and their words for `-s`.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Subject, both};

const CONF: &str = "
    upstream u { server {{a}}; }
    log_format f '$status';
    server { listen {{listen}}; access_log {{dir}}/f.log f; location / { proxy_pass http://u; } }";

/// QUIT finishes what is there and takes nothing new.
#[test]
fn quit_finishes_requests() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 150)]);
        let mut busy = s.connect();
        busy.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        s.wait_hits(1);
        s.signal(Signal::SIGQUIT);
        (busy.response(), s.wait_end(), s.log("f.log", 1))
    });
}

/// TERM and INT end at once, with what is there.
#[test]
fn term_and_int_are_fast() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        both(CONF, |s: &mut Subject| {
            s.backend("a", |conn| {
                conn.request();
                conn.wait_close();
            });
            let mut busy = s.connect();
            busy.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            s.wait_hits(1);
            s.signal(signal);
            (busy.is_closed(), s.wait_end())
        });
    }
}

/// USR1 opens the logs again: lines go to a file of the old name.
#[test]
fn usr1_reopens_logs() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        s.get("/");
        s.log("f.log", 1);
        fs::rename(s.path("f.log"), s.path("f.log.1")).unwrap();
        s.signal(Signal::SIGUSR1);
        // The signal, the master and the worker.
        s.errors("reopening logs", 3);
        s.get("/");
        (s.log("f.log", 1), s.log("f.log.1", 1))
    });
}

/// `-s` reads the pid file; without a process it says so.
#[test]
fn words_for_signals() {
    both(CONF, |s: &mut Subject| {
        let wrong = s.check(&["-s", "halt"]);
        let reopen = s.check(&["-s", "reopen"]);
        let quit = s.check(&["-s", "quit"]);
        let ended = s.wait_end();
        let nobody = s.check(&["-s", "stop"]).0;
        (
            wrong,
            reopen.0,
            quit.0,
            ended,
            nobody,
            s.path("test.pid").exists(),
        )
    });
}
