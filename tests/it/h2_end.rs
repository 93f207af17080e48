//! What ends a connection of HTTP/2: its limits, a reload, silence, and floods (behaviour S5).

use nix::sys::signal::Signal;

use crate::support::{
    Subject, both,
    h2::{H2, HEADERS, RST_STREAM, block, frame},
    ours,
};

const CONF: &str = "
    http2 on;
    server {
        listen {{listen}};
        location / { proxy_pass http://{{a}}; }
        location /own { return 200 own; }
        location /pass { proxy_pass http://{{a}}; proxy_request_buffering off; proxy_buffering off; }
    }";

#[test]
fn the_last_request_of_a_connection_is_told() {
    both(
        "http2 on; server { listen {{listen}}; keepalive_requests 2; return 200 ok; }",
        |s: &mut Subject| {
            let mut client = s.h2();
            let first = client.fetch("/");
            let was_told = client.was_told();
            let second = client.fetch("/");
            (first, was_told, second, client.goaway(), client.is_closed())
        },
    );
}

#[test]
fn a_reload_lets_streams_end() {
    both(CONF, |s: &mut Subject| {
        s.backend("a", |conn| {
            while conn.request().is_some() {
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
                conn.pause(300);
                conn.write("lf");
            }
        });
        let mut idle = s.h2();
        idle.fetch("/own");
        let mut client = s.h2();
        let stream = client.get("/pass");
        client.until(|client| !client.seen(stream).body.is_empty());
        s.signal(Signal::SIGHUP);
        let told = (idle.goaway(), client.goaway());
        let refused = client.get("/own");
        let answer = client.answer(stream);
        let closed = (idle.is_closed(), client.is_closed());
        (told, answer, client.seen(refused).status(), closed)
    });
}

#[test]
fn silence_is_bounded() {
    both(
        "http2 on;
        server { listen {{listen}}; client_header_timeout 200ms; keepalive_timeout 300ms;
            location / { client_body_timeout 100ms; proxy_pass http://{{a}}; } }
        server { listen {{listen2}}; send_timeout 100ms; location / { alias {{dir}}/html/; } }",
        |s: &mut Subject| {
            s.backends(&[("a", 0)]);
            std::fs::write(s.path("html/file"), vec![b'x'; 100_000]).unwrap();
            let mut silent = s.h2();
            let mut head = s.h2();
            let request = frame(HEADERS, 5, 1, &block(&[(":method", "GET"), (":path", "/")]));
            head.raw(&request[..12]);
            let mut body = s.h2();
            let stream = body.ask("POST", "/", &[("content-length", "5")], false);
            let body = (body.answer(stream).end, body.is_alive());
            let mut reader = H2::new(s.address("listen2"));
            reader.opens_windows = false;
            let stream = reader.get("/file");
            let unread = reader.answer(stream);
            let unread = (unread.body.len(), unread.end, reader.is_alive());
            let head = (head.answer(1).end, head.goaway());
            (silent.goaway(), head, body, unread)
        },
    );
}

/// Behaviour S5.
#[test]
fn rapid_resets_end_the_connection() {
    let (sent, goaway, log) = ours(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut other = s.h2();
        let mut client = s.h2();
        let mut flood = Vec::new();
        let head = block(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "x"),
        ]);
        for stream in (1..20_001).step_by(2) {
            flood.extend(frame(HEADERS, 5, stream, &head));
            flood.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }
        client.raw(&flood);
        let goaway = client.goaway().map(|(code, _)| code);
        assert_eq!(other.fetch("/own").status(), 200);
        (s.received().len(), goaway, s.error("client sent too many"))
    });
    assert!(sent < 1000, "{sent}");
    assert_eq!(goaway, Some(0));
    assert!(log.contains("while processing HTTP/2 connection"), "{log}");
}

/// Behaviour S5: frames that cost nothing to send. The unit tests of the scanner have all kinds.
#[test]
fn floods_end_the_connection() {
    both(CONF, |s: &mut Subject| {
        let mut client = s.h2();
        // Two write to one socket below: what is to be acknowledged has come before that.
        assert!(client.is_alive());
        client.ask("POST", "/", &[], false);
        let many = frame(0x42, 0, 0, &[0; 16000]).repeat(600);
        let mut writer = client.another();
        let goaway = std::thread::scope(|scope| {
            scope.spawn(|| writer.raw(&many));
            client.goaway().map(|(code, _)| code)
        });
        s.error("http2 flood detected");
        goaway
    });
}
