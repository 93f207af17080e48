//! What systemd and `ps` see: states over `NOTIFY_SOCKET`, sockets that are open already, titles, workers that are replaced.

use std::{fs, os::unix::net::UnixDatagram, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::support::{Program, Shell, Subject, both, ours};

const CONF: &str = "server { listen {{listen}}; location / { return 200 ok; } }";

/// A place where a service manager listens, and the words it has got.
struct Manager {
    socket: UnixDatagram,
    directory: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        Self { socket, directory }
    }

    /// Starts headwater below it.
    fn start(&self, more: &str, conf: &str) -> Subject {
        let place = self.directory.path().join("notify");
        let commands = format!("export NOTIFY_SOCKET={} {more};", place.display());
        Subject::start_in(
            Shell {
                commands: commands.leak(),
                activated: None,
            },
            conf,
        )
    }

    /// The next message, its lines joined.
    fn next(&self) -> String {
        let mut buf = [0; 4096];
        let n = self.socket.recv(&mut buf).unwrap();
        let text = String::from_utf8_lossy(&buf[..n]);
        text.trim_end().replace('\n', " ")
    }

    /// The next one that is no sign of life.
    fn state(&self) -> String {
        loop {
            let state = self.next();
            if state != "WATCHDOG=1" {
                return state;
            }
        }
    }
}

#[test]
fn a_manager_is_told() {
    let manager = Manager::new();
    let s = manager.start("", CONF);
    assert_eq!(manager.state(), "READY=1 STATUS=serving");
    s.signal(Signal::SIGHUP);
    assert!(manager.state().starts_with("RELOADING=1 MONOTONIC_USEC="));
    assert_eq!(manager.state(), "READY=1 STATUS=serving");
    let text = fs::read_to_string(s.path("test.conf")).unwrap();
    fs::write(s.path("test.conf"), text.replace("return", "retrun")).unwrap();
    s.signal(Signal::SIGHUP);
    assert!(manager.state().starts_with("RELOADING=1"));
    let failed = manager.state();
    assert!(
        failed.starts_with(
            "READY=1 STATUS=serving; the last reload failed: unknown directive \"retrun\""
        ),
        "{failed}"
    );
    assert_eq!(s.get("/").text(), "ok");
    s.signal(Signal::SIGTERM);
    assert_eq!(manager.state(), "STOPPING=1 STATUS=finishing requests");
    s.stop();
}

/// At an upgrade the service becomes the new binary when the old one ends.
#[test]
fn a_new_binary_becomes_the_service() {
    let manager = Manager::new();
    let mut s = manager.start("", CONF);
    assert_eq!(manager.state(), "READY=1 STATUS=serving");
    let new = s.upgrade();
    assert_eq!(manager.state(), "READY=1 STATUS=serving");
    s.signal(Signal::SIGQUIT);
    assert_eq!(manager.state(), format!("MAINPID={new}"));
    assert_eq!(s.wait_end(), Some(0));
    s.signal_newer(Signal::SIGQUIT);
    assert_eq!(manager.state(), "STOPPING=1 STATUS=finishing requests");
}

/// Signs of life come while the worker's threads turn, and not while they hang.
#[test]
fn a_watchdog_watches_the_worker() {
    let manager = Manager::new();
    let s = manager.start("WATCHDOG_USEC=100000", CONF);
    assert_eq!(manager.next(), "READY=1 STATUS=serving");
    for _ in 0..3 {
        assert_eq!(manager.next(), "WATCHDOG=1");
    }
    let worker = Pid::from_raw(s.workers()[0].cast_signed());
    kill(worker, Signal::SIGSTOP).unwrap();
    manager
        .socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut buf = [0; 64];
    // One may have been on its way.
    let silent = (0..3).any(|_| manager.socket.recv(&mut buf).is_err());
    kill(worker, Signal::SIGCONT).unwrap();
    assert!(silent);
    manager.socket.set_read_timeout(None).unwrap();
    assert_eq!(manager.next(), "WATCHDOG=1");
    s.stop();
}

/// A socket of the manager's is used in the place of one of our own.
#[test]
fn sockets_may_be_open_already() {
    let conf = "
        server { listen {{listen}}; location / { return 200 one; } }
        server { listen {{listen2}}; location / { return 200 two; } }";
    let shell = Shell {
        commands: "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$;",
        activated: Some("listen"),
    };
    let s = Subject::start_in(shell, conf);
    assert_eq!(s.get("/").text(), "one");
    let mut second = s.connect_to("listen2");
    second.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(second.response().text(), "two");
    s.stop();
}

#[test]
fn processes_have_titles() {
    let conf = "upstream u { server {{a}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    ours(conf, |s: &mut Subject| {
        s.backends(&[("a", 150)]);
        let master = s.title(s.process());
        assert!(
            master.starts_with("headwater: master process /") && master.contains(" -c test.conf"),
            "{master}"
        );
        let worker = s.workers()[0];
        s.until(|| s.title(worker) == "headwater: worker process");
        let mut busy = s.connect();
        busy.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        s.wait_hits(1);
        s.signal(Signal::SIGQUIT);
        s.until(|| s.title(worker) == "headwater: worker process is shutting down");
        assert_eq!(busy.response().status(), 200);
    });
}

/// A worker that ends without having been told is replaced, by nginx and by us.
#[test]
fn a_killed_worker_is_replaced() {
    both(CONF, |s: &mut Subject| {
        let worker = s.workers()[0];
        kill(Pid::from_raw(worker.cast_signed()), Signal::SIGKILL).unwrap();
        let lines = s.errors("exited on signal 9", 1);
        s.errors("start worker process ", 2);
        (lines, s.get("/"))
    });
}

/// DIFFERS(launch): when the command ends, the pid file is there and connections are accepted, or its code is 1.
#[test]
fn a_daemon_is_there_when_the_command_ends() {
    let mut s = Subject::new(Program::Headwater, CONF);
    assert_eq!(s.launch_daemon(), (Some(0), String::new()));
    let pid = s.pid("test.pid").unwrap();
    assert_eq!(s.get("/").text(), "ok");
    let (code, text) = s.check(&["-g", "daemon on; pid /dev/null/x;"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("[emerg]"), "{text}");
    assert_eq!(s.pid("test.pid"), Some(pid));
}

/// Nor is a failure that comes after going to the background taken for success.
#[test]
fn a_daemon_that_does_not_come_up_is_told() {
    let conf = "server { listen {{listen}}; location / { return 200 ok; } }";
    let mut s = Subject::new(Program::Headwater, conf);
    fs::create_dir(s.path("test.pid")).unwrap();
    let (code, text) = s.launch_daemon();
    assert_eq!(code, Some(1));
    assert!(
        text.contains("/test.pid\" failed (21: Is a directory)"),
        "{text}"
    );
}
