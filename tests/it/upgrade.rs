//! Upgrade and the tunnels after it: behaviours S2 and ST3.

use crate::support::{Conn, Subject, both, ours};

const CONF: &str = "
    upstream u { server {{a}}; }
    map $http_upgrade $connection_upgrade { default upgrade; '' close; }
    log_format f '$status $upstream_status $body_bytes_sent';
    server { listen {{listen}}; access_log {{dir}}/f.log f;
        location / { proxy_pass http://u; proxy_read_timeout 300ms;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; } }";

const UPGRADE: &str =
    "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

/// Agrees, says hello at once, and answers everything with the same in brackets.
fn echo(conn: &mut Conn) {
    conn.request();
    conn.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello!");
    while let Some(bytes) = conn.bytes() {
        conn.write([b"[", &bytes[..], b"]"].concat());
    }
}

/// S2: bytes that came with the head, from either side, are delivered.
#[test]
fn bytes_that_came_early_are_delivered() {
    let seen = both(CONF, |s: &mut Subject| {
        s.backend("a", echo);
        let mut client = s.connect();
        client.send(format!("{UPGRADE}early"));
        let head = client.head();
        let first = client.bytes(13);
        client.send("later");
        let second = client.bytes(7);
        client.finish();
        let rest = client.rest();
        (
            head,
            [first, second].map(|b| String::from_utf8(b).unwrap()),
            rest,
            s.log("f.log", 1),
        )
    });
    assert_eq!(seen.1, ["hello![early]", "[later]"]);
}

/// S2: as long as the backend has not agreed, what follows is HTTP.
#[test]
fn without_101_what_follows_is_a_request() {
    let seen = both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            while let Some(request) = conn.request() {
                let status = if request.target() == "/ws" {
                    "403 Forbidden"
                } else {
                    "200 OK"
                };
                conn.write(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok"));
            }
        });
        let mut client = s.connect();
        client.send(format!("{UPGRADE}GET /second HTTP/1.1\r\nHost: x\r\n\r\n"));
        ([client.response(), client.response()], s.received())
    });
    assert_eq!([seen.0[0].status(), seen.0[1].status()], [403, 200]);
    assert!(seen.1[1].line.starts_with("GET /second"));
}

/// S2: a body of an upgrade request is framed as any other.
#[test]
fn an_upgrade_may_have_a_body() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", echo);
        let mut client = s.connect();
        client.send("POST /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 4\r\n\r\nbodytunnel");
        let head = client.head();
        let bytes = String::from_utf8(client.bytes(14)).unwrap();
        (head, bytes, s.received())
    });
}

/// ST3: silence of `proxy_read_timeout` in both directions ends a tunnel; traffic in one keeps it.
#[test]
fn an_idle_tunnel_ends() {
    let seen = both(CONF, |s: &mut Subject| {
        s.backend("a", echo);
        let mut client = s.connect();
        client.send(UPGRADE);
        client.head();
        client.bytes(6);
        for _ in 0..3 {
            s.pause(120);
            client.send("x");
            client.bytes(3);
        }
        let rest = client.rest();
        (rest, s.log("f.log", 1)[0][..7].to_owned())
    });
    assert_eq!(seen, (String::new(), "101 101".to_owned()));
}

/// ST3: FIN of either side ends it at once.
#[test]
fn a_tunnel_ends_with_either_side() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            let target = conn.request().map(|r| r.target().to_owned());
            conn.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
            if target.as_deref() == Some("/bye") {
                conn.write("bye");
            } else {
                conn.wait_close();
            }
        });
        let mut server_ends = s.connect();
        server_ends.send(UPGRADE.replace("/ws", "/bye"));
        let first = (server_ends.head(), server_ends.rest());
        let mut client_ends = s.connect();
        client_ends.send(UPGRADE);
        let second = client_ends.head();
        client_ends.finish();
        (first, second, client_ends.rest(), s.log("f.log", 2))
    });
}

/// Without Upgrade of the client the headers say nothing of it.
#[test]
fn a_plain_request_is_no_upgrade() {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        s.get("/");
        s.received()
    });
}

/// DIFFERS(unasked-upgrade): what nobody has asked for ends with its head.
#[test]
fn an_upgrade_that_nobody_has_asked_for() {
    let seen = ours(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.request();
            conn.write(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello",
            );
            conn.wait_close();
        });
        let mut client = s.connect();
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        let head = client.head();
        let length = head.header("content-length").map(str::to_owned);
        (head.status(), length, client.rest(), s.log("f.log", 1))
    });
    let line = vec!["101 101 0".to_owned()];
    assert_eq!(seen, (101, None, String::new(), line));
}

/// What an upstream could be upgraded to is for clients of HTTP/1 to know.
#[test]
fn offers_of_an_upgrade() {
    let seen = both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.answer_all("HTTP/1.1 426 Upgrade Required\r\nUpgrade: x\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n");
        });
        let response = s.get("/");
        let offer = response.header("upgrade").map(str::to_owned);
        (response.status(), offer)
    });
    assert_eq!(seen, (426, Some("x".to_owned())));
}
