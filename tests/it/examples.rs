//! The examples of `conf/examples`: each is loaded and asked, here and by nginx.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use rustls::version::TLS13;

use crate::{
    stream_preread::greeting,
    support::{
        Conn, Subject, both,
        tls::{self, with_certificates},
    },
};

/// Every example; each has a test of its own below.
const ALL: [&str; 13] = [
    "api-least-time",
    "canary",
    "error-pages",
    "grpc",
    "json-logs",
    "proxy-protocol",
    "real-ip",
    "static-files",
    "sticky-hash",
    "streaming",
    "streams",
    "tls",
    "websockets",
];

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("conf/examples")
}

/// An example with the test's addresses: `listen 8080` becomes `{{listen}}`, another port `{{listen8443}}`; 192.0.2.1
/// becomes `{{peer1}}`, and for datagrams `{{udp_peer1}}`. Files are in the test's directory.
fn example(name: &str) -> String {
    let file = directory().join(format!("{name}.conf"));
    let text = fs::read_to_string(file).unwrap();
    let text = text.replace("/srv/www", "{{dir}}/www");
    let text = with_certificates(&text.replace("/etc/ssl/site", "{{tls}}"));
    let mut conf = String::new();
    for line in text.lines().filter(|line| !line.trim().starts_with('#')) {
        let line = peers(line);
        let listen = line.trim().strip_prefix("listen ");
        match listen.and_then(|rest| rest.split_once([' ', ';']).map(|(port, _)| port)) {
            Some(port) => {
                let udp = if line.contains(" udp") { "udp_" } else { "" };
                let number = if port == "8080" { "" } else { port };
                conf += &line.replacen(port, &format!("{{{{{udp}listen{number}}}}}"), 1);
            }
            None => conf += &line,
        }
        conf.push('\n');
    }
    conf
}

fn peers(line: &str) -> String {
    let mut parts = line.split("192.0.2.");
    let mut filled = parts.next().unwrap().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(':').expect("a peer has a port");
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
        let udp = if &rest[..digits] == "53" { "udp_" } else { "" };
        write!(filled, "{{{{{udp}peer{number}}}}}{}", &rest[digits..]).unwrap();
    }
    filled
}

#[test]
fn each_example_has_a_test() {
    let files = fs::read_dir(directory()).unwrap();
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let names: BTreeSet<String> = files.map(|file| name(file.unwrap().path())).collect();
    assert_eq!(names, ALL.map(str::to_owned).into());
    let tests = fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file!()));
    let tests = tests.unwrap();
    for name in ALL {
        let asked = format!("both(&example(\"{name}\")");
        assert!(tests.contains(&asked), "{name} is asked nothing");
    }
}

/// Answers everything with a status and a text.
fn answer(status: &'static str, text: &'static str) -> impl Fn(&mut Conn) {
    let length = text.len();
    move |conn| {
        conn.answer_all(format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{text}"
        ));
    }
}

fn with_cookie(s: &Subject, cookie: &str) -> String {
    let mut client = s.connect();
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n"
    ));
    client.response().text()
}

#[test]
fn api_least_time() {
    let (texts, log) = both(&example("api-least-time"), |s: &mut Subject| {
        s.backend("peer1", answer("503 Busy", ""));
        s.backends(&[("peer2", 0), ("peer3", 0), ("peer4", 0)]);
        let texts = [(); 4].map(|()| s.get("/api/x").status());
        (texts, s.log("logs/api.log", 4).len())
    });
    // The server that is busy is left for another one.
    assert_eq!((texts, log), ([200; 4], 4));
}

#[test]
fn grpc() {
    let answers = both(&example("grpc"), |s: &mut Subject| {
        for (name, status) in [("peer1", "503"), ("peer2", "200")] {
            s.backend(name, move |conn| {
                let mut server = conn.h2().unwrap();
                while let Some(stream) = server.accept() {
                    server.request(stream);
                    let head = [(":status", status), ("content-type", "application/grpc")];
                    server.respond(stream, &head, false);
                    server.respond(stream, &[("grpc-status", "0")], true);
                }
            });
        }
        let mut client = s.h2();
        let mut call = |target| {
            let fields = [("content-type", "application/grpc"), ("te", "trailers")];
            let stream = client.ask("POST", target, &fields, true);
            client.answer(stream)
        };
        [call("/shop.Orders/Get"), call("/chat.Rooms/Talk")]
    });
    // The server that is busy is left for another one.
    assert_eq!(answers.map(|answer| answer.status()), [200, 200]);
}

#[test]
fn tls() {
    let seen = both(&example("tls"), |s: &mut Subject| {
        s.backend("peer1", |conn| {
            while let Some(request) = conn.request() {
                let proto = request.header("x-forwarded-proto").unwrap_or("none");
                conn.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{proto}",
                    proto.len()
                ));
            }
        });
        let plain = s.get("/path?x");
        let mut client = s.connect();
        client.send("GET /path HTTP/1.1\r\nHost: site.example\r\n\r\n");
        let moved = client.response().header("location").map(str::to_owned);
        let config = tls::client(&[&TLS13], &["http/1.1"]);
        let client = s.connect_to("listen8443");
        let mut client = client.secure("localhost", &config).unwrap();
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        (plain.status(), moved, client.response().text())
    });
    let moved = Some("https://site.example/path".to_owned());
    assert_eq!(seen, (301, moved, "https".to_owned()));
}

#[test]
fn streaming() {
    let seen = both(&example("streaming"), |s: &mut Subject| {
        for name in ["peer1", "peer2"] {
            s.backend(name, |conn| {
                conn.request();
                conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
                conn.wait_close();
                conn.note("gone");
            });
        }
        let mut client = s.connect();
        client.send("GET / HTTP/1.0\r\nHost: x\r\n\r\n");
        let head = client.head().status();
        // The answer has not ended: this piece was passed on at once.
        let piece = String::from_utf8(client.bytes(9)).unwrap();
        drop(client);
        s.wait_hits(2);
        (head, piece)
    });
    assert_eq!(seen, (200, "data: 1\n\n".to_owned()));
}

#[test]
fn streams() {
    let (texts, log) = both(&example("streams"), |s: &mut Subject| {
        for name in ["peer1", "peer2"] {
            s.backend(name, Conn::echo);
        }
        for name in ["peer4", "peer5"] {
            s.backend(name, move |conn| {
                conn.bytes();
                conn.write(name);
            });
        }
        s.udp_backend("udp_peer3", |socket, bytes, from| {
            socket.send_to(&[b"<", bytes, b">"].concat(), from).unwrap();
        });
        let mut database = s.connect_to("listen5432");
        let query = String::from_utf8(database.send("query").bytes(5)).unwrap();
        let dns = s.datagrams("udp_listen5353").ask("name?");
        let tls = |bytes: Vec<u8>| s.connect_to("listen8443").send(bytes).rest();
        let named = tls(greeting("tls13.raw"));
        let other = tls(greeting("no_name.raw"));
        (
            [query, dns, named, other],
            s.log("logs/streams.log", 3).len(),
        )
    });
    assert_eq!(texts, ["query", "<name?>", "peer4", "peer5"]);
    assert_eq!(log, 3);
}

#[test]
fn json_logs() {
    let lines = both(&example("json-logs"), |s: &mut Subject| {
        s.backends(&[("peer1", 0)]);
        let mut client = s.connect();
        client
            .send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            .response();
        client.send("GET /a HTTP/1.1\r\nHost: x\r\nUser-Agent: a \"b\"\r\n\r\n");
        client.response();
        let lines = s.log("logs/access.json", 1);
        let value: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        let id = value["id"].as_str().unwrap();
        let passed = s.received()[1].header("x-request-id").map(str::to_owned);
        assert_eq!(passed.as_deref(), Some(id));
        ["uri", "status", "agent", "upstream_status"].map(|key| value[key].clone())
    });
    let expected = serde_json::json!(["/a", 200, "a \"b\"", "200"]);
    assert_eq!(serde_json::json!(lines), expected);
}

#[test]
fn websockets() {
    let seen = both(&example("websockets"), |s: &mut Subject| {
        for name in ["peer1", "peer2"] {
            s.backend(name, |conn| {
                let request = conn.request().unwrap();
                if request.header("upgrade").is_none() {
                    return conn.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain");
                }
                conn.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
                conn.echo();
            });
        }
        let plain = s.get("/").text();
        let mut client = s.connect();
        client
            .send("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
        let head = client.head().status();
        let text = String::from_utf8(client.send("hello").bytes(5)).unwrap();
        (plain, head, text)
    });
    assert_eq!(seen, ("plain".to_owned(), 101, "hello".to_owned()));
}

#[test]
fn static_files() {
    let seen = both(&example("static-files"), |s: &mut Subject| {
        s.backends(&[("peer1", 0)]);
        let www = s.path("www");
        fs::create_dir_all(www.join("assets")).unwrap();
        fs::create_dir_all(www.join("docs")).unwrap();
        fs::write(www.join("assets/a.css"), "a".repeat(1000)).unwrap();
        fs::write(www.join("docs/index.html"), "docs").unwrap();
        let mut client = s.connect();
        client.send("GET /assets/a.css HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
        let css = client.response();
        let encoding = css.header("content-encoding").map(str::to_owned);
        let cached = css
            .headers
            .iter()
            .filter(|line| line.contains("Cache-Control"))
            .count();
        let texts = ["/docs", "/app"].map(|target| s.get(target).text());
        let statuses = ["/assets/none", "/.git/config"].map(|target| s.get(target).status());
        (encoding, cached, texts, statuses)
    });
    assert_eq!(seen.0.as_deref(), Some("gzip"));
    assert_eq!(seen.1, 2);
    assert_eq!(seen.2, ["docs", "peer1"]);
    assert_eq!(seen.3, [404, 404]);
}

#[test]
fn canary() {
    let texts = both(&example("canary"), |s: &mut Subject| {
        s.backends(&[("peer1", 0), ("peer2", 0), ("peer3", 0)]);
        let share = s.get("/").header("x-version").map(str::to_owned);
        let chosen = ["version=canary", "version=stable", "version=stable"];
        (share, chosen.map(|cookie| with_cookie(s, cookie)))
    });
    assert_eq!(texts.1[0], "peer3");
    assert!(
        texts.1[1..]
            .iter()
            .all(|name| ["peer1", "peer2"].contains(&&**name))
    );
}

#[test]
fn sticky_hash() {
    both(&example("sticky-hash"), |s: &mut Subject| {
        s.backends(&[("peer1", 0), ("peer2", 0), ("peer3", 0)]);
        let users: BTreeSet<String> = (0..24)
            .map(|n| {
                let cookie = format!("session=user{n}");
                let name = with_cookie(s, &cookie);
                assert_eq!(with_cookie(s, &cookie), name, "{cookie}");
                name
            })
            .collect();
        users.len() > 1
    });
}

#[test]
fn proxy_protocol() {
    let (seen, line) = both(&example("proxy-protocol"), |s: &mut Subject| {
        s.backends(&[("peer1", 0)]);
        s.backend("peer2", |conn| {
            let bytes = conn.bytes().unwrap();
            conn.write(bytes);
        });
        let proxied = "PROXY TCP4 203.0.113.9 203.0.113.10 1234 80\r\n";
        let mut client = s.connect();
        client.send(format!("{proxied}GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        let text = client.response().text();
        let received = s.received();
        let names = ["x-real-ip", "x-forwarded-for"];
        let headers = names.map(|name| received[0].header(name).map(str::to_owned));
        let mut client = s.connect_to("listen5432");
        let line = client.send(proxied).bytes(25);
        (
            (text, headers, s.log("logs/clients.log", 1)),
            String::from_utf8(line).unwrap(),
        )
    });
    let client = Some("203.0.113.9".to_owned());
    assert_eq!(seen.1, [client.clone(), client]);
    assert!(seen.2[0].starts_with("203.0.113.9 via 127.0.0.1 "));
    assert!(line.starts_with("PROXY TCP4 203.0.113.9 "), "{line}");
}

#[test]
fn real_ip() {
    let seen = both(&example("real-ip"), |s: &mut Subject| {
        s.backends(&[("peer1", 0)]);
        let from = |target: &str, list: &str| {
            let mut client = s.connect();
            client.send(format!(
                "GET {target} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {list}\r\n\r\n"
            ));
            client.response().status()
        };
        let statuses = [
            from("/", "203.0.113.9, 10.1.1.1"),
            from("/admin/", "203.0.113.9"),
            from("/admin/", "203.0.113.9, 198.51.100.7"),
        ];
        let client = s.received()[0].header("x-real-ip").map(str::to_owned);
        (statuses, client, s.log("logs/clients.log", 3))
    });
    assert_eq!(seen.0, [200, 403, 200]);
    assert_eq!(seen.1.as_deref(), Some("203.0.113.9"));
    assert!(seen.2[2].starts_with("198.51.100.7 via 127.0.0.1 "));
}

#[test]
fn error_pages() {
    let seen = both(&example("error-pages"), |s: &mut Subject| {
        for name in ["peer1", "peer2"] {
            s.backend(name, answer("404 Not Found", "no"));
        }
        s.backends(&[("peer3", 0)]);
        let errors = s.path("www/errors");
        fs::create_dir_all(&errors).unwrap();
        fs::write(errors.join("404.html"), "sorry").unwrap();
        let page = s.get("/x");
        let archived = s.get("/blog/old");
        let direct = s.get("/errors/404.html");
        let all = [page, archived, direct];
        all.map(|response| (response.status(), response.text()))
    });
    let expected = [(404, "sorry"), (200, "peer3"), (404, "sorry")];
    assert_eq!(
        seen,
        expected.map(|(status, text)| (status, text.to_owned()))
    );
}
