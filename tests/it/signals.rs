//! What an operator sends: QUIT, TERM, INT, USR1 and their words for `-s`.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Subject, both, ours};

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

/// DIFFERS(broken-signal): a mistake in the configuration does not keep a server from being told to end; nginx sends
/// nothing. Where the pid file may be named behind the mistake, nothing is sent either.
#[test]
fn words_for_signals_with_a_broken_file() {
    let ended = ours(CONF, |s: &mut Subject| {
        let file = s.path("test.conf");
        let text = fs::read_to_string(&file).unwrap();
        let mut seen = Vec::new();
        fs::write(&file, format!("events {{\n{text}")).unwrap();
        seen.push(s.check(&["-s", "quit"]));
        fs::write(&file, text.replace("proxy_pass", "proxy_past")).unwrap();
        for word in ["reload", "reopen", "quit"] {
            seen.push(s.check(&["-s", word]));
        }
        for (code, words) in &seen {
            assert!(words.contains("[emerg]"), "{code:?} {words}");
        }
        let codes: Vec<_> = seen.into_iter().map(|(code, _)| code).collect();
        (
            codes,
            s.errors("reconfiguring", 0),
            s.errors("reopening logs", 3),
            s.wait_end(),
        )
    });
    assert_eq!(ended, ([1, 1, 0, 0].map(Some).to_vec(), 0, 3, Some(0)));
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
