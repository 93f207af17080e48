//! Heads over HTTP/2, to the byte: responses to clients, and how many bytes logs count; requests to upstreams.

use std::sync::{Arc, Mutex};

use crate::support::{
    Subject, both, cases,
    h2::{H2, SETTINGS},
    ours,
};

const CONF: &str = "
    upstream u { server {{a}}; }
    http2 on;
    log_format bytes '$request_uri $status $bytes_sent $body_bytes_sent';
    server {
        listen {{listen}};
        access_log {{dir}}/bytes.log bytes;
        proxy_pass_header Server; proxy_pass_header Date;
        add_header X-Added $arg_added always;
        location / { proxy_pass http://u; }
        location /gzip { gzip on; gzip_vary on; gzip_min_length 1; gzip_types *; gzip_proxied any; proxy_pass http://u; }
        location /trailer { add_trailer X-Sum $arg_sum; proxy_pass http://u; }
        location /hints { early_hints 1; proxy_pass http://u; }
    }";

/// Settings of a client that remembers no fields: nginx says all of them each time to anybody.
const NO_TABLE: &[u8] = &[0, 1, 0, 0, 0, 0];

/// Answers of the backend, with names by which they are asked for.
const RESPONSES: &str = r"
    usual: HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok
    typed: HTTP/1.1 206 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 2\r\n\r\nok
    dated: HTTP/1.1 200 OK\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\nETag: \x221\x22\r\nContent-Length: 0\r\n\r\n
    nothing: HTTP/1.1 204 No Content\r\n\r\n
    same: HTTP/1.1 304 Not Modified\r\nETag: \x22a\x22\r\n\r\n
    bad: HTTP/1.1 400 Bad\r\nContent-Length: 1\r\n\r\nx
    missing: HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx
    broken: HTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nx
    moved: HTTP/1.1 301 Moved\r\nLocation: http://there/x?y=1&z=~\r\nContent-Length: 0\r\n\r\n
    odd: HTTP/1.1 418 I am\r\nContent-Length: 0\r\n\r\n
    low: HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n
    high: HTTP/1.1 999 High\r\nContent-Length: 0\r\n\r\n
    names: HTTP/1.1 200 OK\r\nUPPER-Case_1: a\r\nx: b\r\nZ!#$%&'*+.^`|~9: c\r\nContent-Length: 0\r\n\r\n
    empty: HTTP/1.1 200 OK\r\nX-Empty:\r\nContent-Length: 0\r\n\r\n
    high bytes: HTTP/1.1 200 OK\r\nX-High: \xff\xfe\x80\xc3\xa4\r\nX-Tab: a\tb\r\nX-Control: a\x01b\r\nContent-Length: 0\r\n\r\n
    chunks: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive, x\r\nKeep-Alive: 1\r\n\r\n3\r\nabc\r\n0\r\n\r\n
    ";

/// Values whose lengths are where the number of a length gets a byte more, in Huffman's code and without.
fn long_values() -> Vec<(String, Vec<u8>)> {
    let lengths = [126, 127, 128, 202, 203, 204, 254, 255, 256, 3000];
    let values = lengths
        .iter()
        .flat_map(|n| [b"a", b"!", b"\x7f"].map(|c| (format!("{n}-{}", c[0]), c.repeat(*n))));
    let head = |value: &[u8]| {
        [
            b"HTTP/1.1 200 OK\r\nX-Long: ",
            value,
            b"\r\nContent-Length: 0\r\n\r\n",
        ]
        .concat()
    };
    values.map(|(name, value)| (name, head(&value))).collect()
}

fn responses() -> Vec<(String, Vec<u8>)> {
    let named = cases(RESPONSES);
    let named = named
        .into_iter()
        .map(|(name, bytes)| (name.replace(' ', "-"), bytes));
    let fixed = b"Server: s\r\nDate: Mon, 28 Sep 1970 06:00:00 GMT\r\n";
    let all = named.chain(long_values());
    // What nginx says of itself stands in none of them.
    let dated = all.map(|(name, bytes)| {
        let line = bytes.iter().position(|c| *c == b'\n').unwrap() + 1;
        (name, [&bytes[..line], fixed, &bytes[line..]].concat())
    });
    dated.collect()
}

/// The backend answers with what the target names.
fn begin(s: &mut Subject) {
    let all = responses();
    s.backend("a", move |conn| {
        while let Some(request) = conn.request() {
            let name = request.target().rsplit('/').next().unwrap();
            let name = name.split('?').next().unwrap();
            let found = all.iter().find(|(own, _)| own == name);
            let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n";
            if request.target().starts_with("/hints") {
                conn.write(hint);
            }
            conn.write(&found.unwrap().1);
        }
    });
}

/// Blocks of each response in hex, and its line in the log.
fn heads(targets: &[String], settings: &'static [u8]) -> Vec<(Vec<String>, String)> {
    both(CONF, |s: &mut Subject| {
        begin(s);
        let mut client = H2::silent(s.address("listen"));
        client.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.frame(SETTINGS, 0, 0, settings);
        let answers: Vec<Vec<_>> = targets
            .iter()
            .map(|target| client.fetch(target).blocks.iter().map(hex).collect())
            .collect();
        let lines = s.log("bytes.log", targets.len());
        answers.into_iter().zip(lines).collect::<Vec<_>>()
    })
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    data_encoding::HEXLOWER.encode(bytes.as_ref())
}

#[test]
fn heads_are_the_same_to_the_byte() {
    let names: Vec<String> = responses()
        .iter()
        .map(|(name, _)| format!("/{name}"))
        .collect();
    let seen = heads(&names, NO_TABLE);
    // The first one says that there is no table.
    let starts: Vec<_> = seen.iter().map(|(blocks, _)| &blocks[0][..2]).collect();
    assert_eq!(starts[..4], ["20", "8a", "88", "89"]);
}

#[test]
fn what_is_added_is_the_same_to_the_byte() {
    let targets = [
        "/usual?added=x",
        "/gzip/usual",
        "/gzip/chunks",
        "/trailer/chunks?sum=1",
        "/trailer/dated?sum=1",
        "/trailer/usual",
    ];
    let targets = targets.map(str::to_owned);
    let seen = heads(&targets, NO_TABLE);
    assert_eq!(seen[3].0.len(), 2);
}

/// Logs count them in another way (DIFFERS `continue`).
#[test]
fn early_hints_are_the_same_to_the_byte() {
    let seen = both(CONF, |s: &mut Subject| {
        begin(s);
        let mut client = H2::silent(s.address("listen"));
        client.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.frame(SETTINGS, 0, 0, NO_TABLE);
        ["/hints/usual", "/hints/nothing"].map(|target| {
            let blocks = client.fetch(target).blocks;
            blocks.iter().map(hex).collect::<Vec<_>>()
        })
    });
    assert!(seen.iter().all(|blocks| blocks.len() == 2), "{seen:?}");
}

/// A client that remembers fields is told them once, and the log says the same.
#[test]
fn what_was_said_is_not_said_again() {
    ours(CONF, |s: &mut Subject| {
        begin(s);
        let mut client = s.h2();
        let answers = [(); 3].map(|()| client.fetch("/typed?added=value"));
        for answer in &answers {
            assert_eq!(answer.head, answers[0].head);
        }
        let lengths = answers.map(|answer| answer.blocks[0].len());
        assert!(lengths[0] > 60 && lengths[1] < 12, "{lengths:?}");
        assert_eq!(lengths[1], lengths[2]);
        let lines = s.log("bytes.log", 3);
        assert!(lines.iter().all(|line| *line == lines[0]), "{lines:?}");
    });
}

const UPSTREAM: &str = "
    upstream u { server {{a}}; }
    upstream v { server {{a}}; }
    server {
        listen {{listen}};
        location / { grpc_pass u; grpc_set_header X-Own $arg_x; grpc_set_header Te $arg_te; }
        location /host { grpc_pass u; grpc_set_header Host own; }
        location /proxy { proxy_pass http://v/to; proxy_http_version 2; proxy_set_header Upper-Case A; }
        location /plain { proxy_pass http://v; proxy_http_version 2; proxy_pass_request_headers off; }
        location /set { proxy_pass http://v; proxy_http_version 2; proxy_set_body body; proxy_method PUT; }
    }";

/// Lines of requests, and fields.
const REQUESTS: &[(&str, &str)] = &[
    ("GET /", ""),
    (
        "POST /call?x=1",
        "Content-Length: 3\r\nTE: trailers\r\n\r\nabc",
    ),
    ("OPTIONS /x?te=gzip", "X-Upper: A\r\nCookie: a=b; c=d\r\n"),
    ("GET /host", "Accept: */*\r\n"),
    ("HEAD /proxy/a<b>`#c|d", "X-High: \u{e4}\r\n"),
    (
        "GET /proxy?a=%20\"<>",
        "Connection: keep-alive\r\nKeep-Alive: 1\r\n",
    ),
    ("DELETE /plain/x%2fy", "X-Any: 1\r\n"),
    ("GET /set", ""),
];

#[test]
fn requests_are_the_same_to_the_byte() {
    let seen = both(UPSTREAM, |s: &mut Subject| {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&heads);
        s.backend("a", move |conn| {
            let Some(mut server) = conn.h2() else { return };
            server.opens_windows = false;
            while let Some(stream) = server.accept() {
                let request = server.request(stream);
                let blocks: Vec<_> = request.blocks.iter().map(hex).collect();
                sink.lock().unwrap().push(blocks);
                server.respond(stream, &[(":status", "204")], true);
            }
        });
        let ask = |(line, rest): &(&str, &str)| {
            let end = if rest.ends_with("abc") { "" } else { "\r\n" };
            let request = format!("{line} HTTP/1.1\r\nHost: test\r\n{rest}{end}");
            s.connect().send(request).response().status()
        };
        let statuses: Vec<_> = REQUESTS.iter().map(ask).collect();
        let heads = heads.lock().unwrap().clone();
        (statuses, heads)
    });
    assert_eq!(seen.1.len(), REQUESTS.len());
}
