//! Streams: what is decided before a session is proxied, what ends it, and what is logged.

use nix::sys::signal::Signal;

use crate::support::{Client, Conn, Subject, both, ours};

/// Everything that comes until the program closes.
fn answer(s: &Subject, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let mut client = s.connect_to(name);
    client.send(bytes);
    client.rest()
}

/// A backend `a` that sends everything back.
fn echo(s: &mut Subject) {
    s.backend("a", Conn::echo);
}

/// Sends bytes and waits until as many have come back.
fn exchange(client: &mut Client, bytes: &str) -> String {
    client.send(bytes);
    String::from_utf8(client.bytes(bytes.len())).unwrap()
}

#[test]
fn a_session_leaves_its_numbers() {
    const CONF: &str = "stream {
        log_format exact '$remote_addr $binary_remote_addr $server_addr:$server_port [$server_name] $protocol $status '
            '$bytes_sent $bytes_received $realip_remote_addr [$proxy_protocol_addr] $upstream_addr $upstream_bytes_sent '
            '$upstream_bytes_received $nginx_version.';
        log_format times '$remote_port $connection $pid $msec $time_iso8601 $session_time $upstream_connect_time '
            '$upstream_first_byte_time $upstream_session_time $realip_remote_port';
        access_log {{dir}}/exact.log exact; access_log {{dir}}/times.log times;
        server { listen {{listen}}; proxy_pass {{a}}; }
    }";
    let (exact, _times) = both(CONF, |s: &mut Subject| {
        echo(s);
        let mut client = s.connect();
        let mut texts = vec![exchange(&mut client, "hello"), exchange(&mut client, "you")];
        client.finish();
        texts.push(client.rest());
        let exact = s.log("exact.log", 1).join("\n");
        let times = s.log("times.log", 1).join("\n");
        let words = times.split(' ').map(|word| {
            let is_time = word.contains('.') && word.len() < 8;
            if is_time {
                "0.000"
            } else {
                word.trim_matches(char::is_numeric)
            }
        });
        let times: Vec<String> = words
            .map(|word| word.replace(char::is_numeric, "0"))
            .collect();
        let known = exact.replace("1.31.3.", "1.31.5.");
        ((texts, known), times)
    });
    assert_eq!(exact.0, ["hello", "you", ""]);
    let expected = "\\x7F\\x00\\x00\\x01 <listen> [] TCP 200 8 8 127.0.0.1 [-] <a> 8 8 1.31.5.";
    assert_eq!(exact.1, format!("127.0.0.1 {expected}"));
}

#[test]
fn texts_rules_and_other_listeners() {
    const CONF: &str = "
    http {
        access_log off; client_body_temp_path {{dir}}/client_body; proxy_temp_path {{dir}}/proxy;
        server { listen {{listen_web}}; return 200 ':$server_port $remote_addr'; }
    }
    stream {
        log_format a ':$server_port $status $bytes_sent $who'; access_log {{dir}}/access.log a;
        map $remote_addr $who { default x; 127.0.0.1 local; }
        server { listen {{listen_text}}; return 'hello $who'; }
        server { listen {{listen_empty}}; return ''; }
        server { listen {{listen_denied}}; allow 10.0.0.0/8; deny all; return no; }
        server { listen {{listen_set}}; set $who :$server_port; return $who; }
        server { listen {{listen_pass}}; pass {{listen_text}}; }
        server { listen {{listen_web2}}; pass {{listen_web}}; }
        server { listen {{listen_cycle}}; pass {{listen_cycle}}; }
        server { listen {{listen_lost}}; pass 127.0.0.1:1; }
        server { listen {{listen_word}}; pass $who; }
    }";
    let texts = both(CONF, |s: &mut Subject| {
        let mut texts = Vec::new();
        for (count, name) in [
            "text", "empty", "denied", "set", "pass", "cycle", "lost", "word",
        ]
        .iter()
        .enumerate()
        {
            texts.push(answer(s, &format!("listen_{name}"), ""));
            s.log("access.log", count + 1);
        }
        texts.push(answer(
            s,
            "listen_web2",
            "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        ));
        let body = texts
            .pop()
            .unwrap()
            .split("\r\n\r\n")
            .last()
            .map(str::to_owned);
        texts.extend(body);
        texts.extend(s.log("access.log", 8));
        for words in [
            "access forbidden",
            "stream pass cycle",
            "port not found",
            "in pass",
        ] {
            texts.push(s.error(words));
        }
        texts
    });
    assert_eq!(texts[0], "hello local");
    assert_eq!(texts[4], "hello local");
    assert!(texts[8].ends_with(" 127.0.0.1"));
    assert!(texts[11].ends_with(" 403 0 local"), "{}", texts[11]);
}

#[test]
fn keys_are_limited() {
    const CONF: &str = "stream {
        limit_conn_zone $remote_addr zone=z:1m;
        log_format a '$status $limit_conn_status'; access_log {{dir}}/access.log a;
        server { listen {{listen}}; limit_conn z 1; proxy_pass {{a}}; }
        server { listen {{listen_dry}}; limit_conn z 1; limit_conn_dry_run on; return dry; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        echo(s);
        let mut first = s.connect();
        exchange(&mut first, "x");
        let mut texts = vec![answer(s, "listen", ""), answer(s, "listen_dry", "")];
        drop(first);
        s.log("access.log", 3);
        texts.push(exchange(&mut s.connect(), "y"));
        texts.extend(s.log("access.log", 4));
        texts.push(s.error("limiting connections by"));
        texts.push(s.error("limiting connections, dry run,"));
        texts
    });
    assert_eq!(lines[..3], ["", "dry", "y"]);
    assert_eq!(
        lines[3..6],
        ["503 REJECTED", "200 REJECTED_DRY_RUN", "200 PASSED"]
    );
}

#[test]
fn the_proxy_protocol_comes_in_and_goes_out() {
    const CONF: &str = "stream {
        log_format a '$remote_addr:$remote_port $realip_remote_addr $proxy_protocol_addr:$proxy_protocol_port '
            '$proxy_protocol_server_addr:$proxy_protocol_server_port $status $bytes_received $upstream_bytes_sent';
        access_log {{dir}}/access.log a;
        server { listen {{listen}} proxy_protocol; set_real_ip_from 127.0.0.0/8; proxy_pass {{a}}; proxy_protocol on; }
        server { listen {{listen_plain}} proxy_protocol; proxy_pass {{a}}; }
        server { listen {{listen_late}} proxy_protocol; proxy_protocol_timeout 50ms; proxy_pass {{a}}; }
    }";
    let lines = both(CONF, |s: &mut Subject| {
        echo(s);
        let mut lines = Vec::new();
        for (name, line) in [
            ("listen", "PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\n"),
            ("listen", "PROXY TCP6 2001:db8::1 ::2 1 2\r\n"),
            (
                "listen_plain",
                "PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\n",
            ),
            ("listen_plain", "PROXY UNKNOWN\r\n"),
        ] {
            let mut client = s.connect_to(name);
            client.send(format!("{line}text"));
            let mut all = String::new();
            while !all.ends_with("text") {
                all.push_str(&String::from_utf8(client.bytes(1)).unwrap());
            }
            let port = s.address(name).port().to_string();
            lines.push(all.replace(&port, "<port>"));
            drop(client);
            s.log("access.log", lines.len());
        }
        lines.push(answer(s, "listen", "GET / HTTP/1.0\r\n\r\n"));
        lines.push(answer(s, "listen_late", ""));
        // Ports of clients that no proxy named are their own.
        let log = s.log("access.log", 6).into_iter();
        lines.extend(log.map(|line| match line.split_once(':') {
            Some(("127.0.0.1", rest)) => rest.trim_start_matches(char::is_numeric).to_owned(),
            _ => line,
        }));
        lines.push(s.error("broken header"));
        lines.push(s.error("client timed out"));
        lines
    });
    assert_eq!(
        lines[0],
        "PROXY TCP4 192.0.2.1 127.0.0.1 123 <port>\r\ntext"
    );
    assert_eq!(
        lines[1],
        "PROXY TCP6 2001:db8::1 127.0.0.1 1 <port>\r\ntext"
    );
    assert_eq!(lines[2], "text");
}

/// Version 2 goes out since nginx 1.31.5 only: what one listener says, another understands.
#[test]
fn version_2_of_the_proxy_protocol_goes_out() {
    const CONF: &str = "stream {
        server { listen {{listen}}; proxy_pass {{listen_inner}}; proxy_protocol v2; }
        server { listen {{listen_inner}} proxy_protocol; return '$proxy_protocol_addr:$proxy_protocol_port'; }
    }";
    ours(CONF, |s: &mut Subject| {
        let mut client = s.connect();
        let own = client.address().to_string();
        assert_eq!(client.rest(), own);
    });
}

#[test]
fn sessions_outlive_a_quitting_worker() {
    const CONF: &str = "stream {
        log_format a '$status $bytes_received'; access_log {{dir}}/access.log a;
        server { listen {{listen}}; proxy_pass {{a}}; }
    }";
    both(CONF, |s: &mut Subject| {
        echo(s);
        let mut client = s.connect();
        exchange(&mut client, "one");
        s.signal(Signal::SIGQUIT);
        s.errors("gracefully shutting down", 1);
        let text = exchange(&mut client, "two");
        drop(client);
        (text, s.wait_end(), s.log("access.log", 1))
    });
}

#[test]
fn sessions_end_when_a_worker_s_time_is_over() {
    const CONF: &str = "worker_shutdown_timeout 50ms;
    stream {
        log_format a '$status $bytes_received'; access_log {{dir}}/access.log a;
        server { listen {{listen}}; proxy_pass {{a}}; }
    }";
    const MANY: usize = 100;
    let (ends, _code, lines, _error) = both(CONF, |s: &mut Subject| {
        echo(s);
        let mut clients: Vec<_> = (0..MANY).map(|_| s.connect()).collect();
        for client in &mut clients {
            exchange(client, "one");
        }
        s.signal(Signal::SIGQUIT);
        let ends: String = clients
            .into_iter()
            .map(|mut client| client.rest())
            .collect();
        let code = s.wait_end();
        (
            ends,
            code,
            s.log("access.log", MANY),
            s.error("shutdown timeout"),
        )
    });
    assert_eq!(
        (ends, lines),
        (String::new(), vec!["200 3".to_owned(); MANY])
    );
}

#[test]
fn sessions_outlive_a_reload() {
    const CONF: &str = "stream { server { listen {{listen}}; proxy_pass {{a}}; } }";
    both(CONF, |s: &mut Subject| {
        echo(s);
        let mut old = s.connect();
        let mut texts = vec![exchange(&mut old, "before")];
        s.signal(Signal::SIGHUP);
        s.errors("gracefully shutting down", 1);
        let mut new = s.connect();
        texts.push(exchange(&mut new, "new"));
        texts.push(exchange(&mut old, "after"));
        texts
    });
}
