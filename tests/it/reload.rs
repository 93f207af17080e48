//! HUP: the new configuration is used, nothing is lost, and what is known of the peers stays.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Client, Subject, both, ours};

/// Reloads, and waits until the new worker serves and the old one is gone.
fn reload(s: &Subject) {
    let started = s.errors("start worker process ", 0);
    let gone = s.errors("exited with code 0", 0);
    s.signal(Signal::SIGHUP);
    assert!(s.errors("start worker process ", started + 1) > started);
    assert!(s.errors("exited with code 0", gone + 1) > gone);
}

/// DIFFERS(reload): averages outlive a reload, so that the split does not change.
#[test]
fn averages_outlive_a_reload() {
    let conf = "
        upstream u { zone u 64k; least_time header; server {{a}}; server {{b}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    let hits = ours(conf, |s: &mut Subject| {
        s.backends(&[("a", 2), ("b", 80)]);
        s.gets(4, "/");
        reload(s);
        s.gets(4, "/");
        s.hits()
    });
    assert_eq!(hits, "a b a a a a a a");
}

#[test]
fn a_new_configuration_is_used_and_a_bad_one_is_not() {
    let conf = "server { listen {{listen}}; location / { return 200 before; } }";
    let texts = both(conf, |s: &mut Subject| {
        let file = s.path("test.conf");
        let text = fs::read_to_string(&file).unwrap();
        let mut seen = vec![s.get("/").text()];
        fs::write(&file, text.replace("before", "after")).unwrap();
        reload(s);
        seen.push(s.get("/").text());
        fs::write(&file, text.replace("return", "retrun")).unwrap();
        s.signal(Signal::SIGHUP);
        seen.push(s.error("unknown directive"));
        seen.push(s.get("/").text());
        seen
    });
    assert_eq!(
        [&*texts[0], &texts[1], &texts[3]],
        ["before", "after", "after"]
    );
}

/// A request that is being answered is answered to its end, and idle connections are closed.
#[test]
fn requests_survive_a_reload() {
    let conf = "
        upstream u { server {{a}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    both(conf, |s: &mut Subject| {
        s.backends(&[("a", 250)]);
        let mut idle = s.connect();
        idle.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").response();
        let mut busy = s.connect();
        busy.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        s.wait_hits(2);
        reload(s);
        let response = busy.response();
        (response, idle.is_closed(), busy.is_closed())
    });
}

/// The pid file is where the configuration has it, in another directory after a reload too.
#[test]
fn the_pid_file_moves() {
    both(NAMED, |s: &mut Subject| {
        fs::create_dir(s.path("run")).unwrap();
        let number = fs::read_to_string(s.path("test.pid")).unwrap();
        rewrite(s, "test.pid", "run/other.pid");
        reload(s);
        let moved = fs::read_to_string(s.path("run/other.pid")).unwrap();
        let gone = !s.path("test.pid").exists();
        // Where no file can be written, all stays as it was.
        rewrite(s, "run/other.pid", "none/test.pid");
        s.signal(Signal::SIGHUP);
        let why = s.error("[emerg]");
        let stayed = fs::read_to_string(s.path("run/other.pid")).unwrap();
        (moved == number, gone, why, stayed == number, s.get("/"))
    });
}

/// DIFFERS(pid-alias): a pid file that gets another name of the same place stays; nginx writes it and removes it.
#[test]
fn a_pid_file_with_two_names_stays() {
    let stays = ours(NAMED, |s: &mut Subject| {
        std::os::unix::fs::symlink(s.path(""), s.path("run")).unwrap();
        let number = fs::read_to_string(s.path("test.pid")).unwrap();
        let mut seen = Vec::new();
        for (from, to) in [("test.pid", "run/test.pid"), ("run/test.pid", "test.pid")] {
            rewrite(s, from, to);
            reload(s);
            seen.push(fs::read_to_string(s.path("test.pid")).ok() == Some(number.clone()));
        }
        seen
    });
    assert_eq!(stays, [true, true]);
}

const NAMED: &str = "server { listen {{listen}}; location / { return 200 ok; } }";

/// Gives the pid file another name in the configuration.
fn rewrite(s: &Subject, from: &str, to: &str) {
    let file = s.path("test.conf");
    let text = fs::read_to_string(&file).unwrap();
    let (from, to) = (s.path(from), s.path(to));
    let [from, to] = [from, to].map(|path| format!("pid {};", path.display()));
    assert!(text.contains(&from), "{from}");
    fs::write(file, text.replace(&from, &to)).unwrap();
}

/// However often it is reloaded, workers that still have a request are gone in time.
#[test]
fn old_workers_do_not_pile_up() {
    let conf = "
        worker_shutdown_timeout 200ms;
        events { }
        http {
            access_log off; client_body_temp_path {{dir}}/body; proxy_temp_path {{dir}}/proxy;
            upstream u { server {{a}}; }
            server { listen {{listen}}; location / { proxy_pass http://u; } location = /ok { return 200 ok; } }
        }";
    both(conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.request();
            conn.wait_close();
        });
        let mut busy = Vec::new();
        for number in 1..=4 {
            let mut client = s.connect();
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            s.wait_hits(number);
            busy.push(client);
            let started = s.errors("start worker process ", 0);
            s.signal(Signal::SIGHUP);
            s.errors("start worker process ", started + 1);
            s.errors("gracefully shutting down", number);
        }
        s.until(|| s.workers().len() == 1);
        let closed: Vec<_> = busy.iter_mut().map(Client::is_closed).collect();
        (closed, s.errors("exited with code 0", 4), s.get("/ok"))
    });
}

/// Requests whose time is over with the worker's are in the log, with what is known of them until then.
#[test]
fn requests_that_are_cut_off_are_logged() {
    let conf = "
        worker_shutdown_timeout 50ms;
        events { }
        http {
            client_body_temp_path {{dir}}/body; proxy_temp_path {{dir}}/proxy;
            log_format f '$request_uri $server_protocol $status $upstream_addr $upstream_status $upstream_bytes_received';
            access_log {{dir}}/f.log f;
            server { listen {{listen}}; http2 on; location / { proxy_pass http://{{a}}; proxy_buffering off; } }
        }";
    let seen = both(conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            let request = conn.request();
            if request.is_some_and(|request| request.target() == "/half") {
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
            }
            conn.wait_close();
        });
        let mut streams = s.h2();
        streams.get("/wait");
        s.wait_hits(1);
        let mut clients: Vec<Client> = ["/wait", "/half"]
            .into_iter()
            .map(|target| {
                let mut client = s.connect();
                client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
                client
            })
            .collect();
        let mut body = s.connect();
        body.send("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab");
        clients[1].head();
        s.wait_hits(3);
        s.signal(Signal::SIGQUIT);
        let code = s.wait_end();
        let mut lines = s.log("f.log", 4);
        lines.sort();
        (code, lines)
    });
    let expected = [
        "/body HTTP/1.1 000 - - -",
        "/half HTTP/1.1 200 <a> 200 42",
        "/wait HTTP/1.1 000 <a> - 0",
        "/wait HTTP/2.0 499 <a> - 0",
    ];
    assert_eq!(seen.1, expected);
}

/// DIFFERS(idle-close): who has just had an answer is about to ask again, and gets that answered too, with the word that
/// the connection ends. nginx closes it under their feet.
#[test]
fn a_busy_client_is_told_that_its_connection_ends() {
    let conf = "
        keepalive_min_timeout {{min}};
        server { listen {{listen}}; location / { return 200 ok; } }";
    for (min, pause) in [("0", 50), ("900ms", 550)] {
        let closes = ours(&conf.replace("{{min}}", min), |s: &mut Subject| {
            let mut client = s.connect();
            let ask = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
            let before = client.send(ask).response();
            s.signal(Signal::SIGHUP);
            s.errors("gracefully shutting down", 1);
            s.pause(pause);
            let after = client.send(ask).response();
            assert_eq!([before.status(), after.status()], [200, 200]);
            assert!(client.is_closed());
            [before, after].map(|r| r.header("connection").map(str::to_owned))
        });
        assert_eq!(
            closes,
            [Some("keep-alive"), Some("close")].map(|c| c.map(str::to_owned))
        );
    }
}

/// No connection is refused and no request lost while configurations come and go.
#[test]
fn nothing_is_lost_under_load() {
    let conf = "server { listen {{listen}}; location / { return 200 ok; } }";
    let failed = both(conf, |s: &mut Subject| {
        let statuses = std::thread::scope(|scope| {
            let load = scope.spawn(|| s.gets(300, "/"));
            for _ in 0..3 {
                reload(s);
            }
            load.join().unwrap()
        });
        statuses.iter().filter(|status| **status != 200).count()
    });
    assert_eq!(failed, 0);
}
