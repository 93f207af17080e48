//! TLS to upstreams: who is trusted, what they are told, and what connections are shared.

use std::collections::BTreeSet;

use crate::support::{
    Conn, Subject, both, ours,
    tls::{file, with_certificates},
};

/// Chains under testdata/tls/chains, and what else the proxy is told about them.
const CHAINS: [(&str, &str); 45] = [
    ("good", ""),
    ("good", "proxy_ssl_verify_depth 0;"),
    ("good", "proxy_ssl_name www.example.com:443;"),
    ("good", "proxy_ssl_name example.com;"),
    (
        "good",
        "proxy_ssl_trusted_certificate {{tls}}/chains/only_middle.pem;",
    ),
    ("deep", "proxy_ssl_verify_depth 2;"),
    ("deep", ""),
    ("deep", "proxy_ssl_verify_depth 0;"),
    ("disordered", "proxy_ssl_verify_depth 2;"),
    ("middle", ""),
    ("middle", "proxy_ssl_verify_depth 0;"),
    (
        "middle",
        "proxy_ssl_trusted_certificate {{tls}}/chains/only_middle.pem;",
    ),
    ("whole", ""),
    ("whole", "proxy_ssl_trusted_certificate {{tls}}/ca.crt;"),
    (
        "whole",
        "proxy_ssl_trusted_certificate {{tls}}/ca.crt; proxy_ssl_verify_depth 0;",
    ),
    ("missing", ""),
    (
        "missing",
        "proxy_ssl_trusted_certificate {{tls}}/chains/only_middle.pem;",
    ),
    ("cut", "proxy_ssl_verify_depth 2;"),
    ("muted", ""),
    ("unmuted", ""),
    ("inside", ""),
    ("outside", "proxy_ssl_name www.example.org;"),
    ("excluded", "proxy_ssl_name a.bad.example.com;"),
    ("aged", ""),
    ("expired", ""),
    ("expired", "proxy_ssl_trusted_certificate {{tls}}/ca.crt;"),
    ("early", ""),
    ("client", ""),
    ("any", "proxy_ssl_name any;"),
    ("usage", "proxy_ssl_name usage;"),
    ("critical", "proxy_ssl_name critical;"),
    ("address", "proxy_ssl_name 127.0.0.1;"),
    ("address", "proxy_ssl_name address;"),
    ("sha1", ""),
    ("old", ""),
    ("alone", ""),
    ("alone", "proxy_ssl_trusted_certificate {{tls}}/ca.crt;"),
    ("mimic", ""),
    ("revoked", ""),
    ("revoked", "proxy_ssl_crl {{tls}}/chains/root.crl;"),
    ("good", "proxy_ssl_crl {{tls}}/chains/root.crl;"),
    ("good", "proxy_ssl_crl {{tls}}/chains/old.crl;"),
    ("middle", "proxy_ssl_crl {{tls}}/chains/root.crl;"),
    ("middle", "proxy_ssl_crl {{tls}}/chains/both.crl;"),
    ("alone", "proxy_ssl_crl {{tls}}/chains/both.crl;"),
];

/// Every chain has the verdict that it has from nginx, with its number and its words. Without sessions: nginx believes what
/// other settings have found out.
#[test]
fn verdicts_on_chains() {
    let known: BTreeSet<&str> = CHAINS.iter().map(|(name, _)| *name).collect();
    let servers = known.iter().map(|name| {
        format!(
            "server {{ listen unix:{{{{dir}}}}/{name} ssl; ssl_ciphers HIGH:@SECLEVEL=0;
                ssl_certificate_key {{{{tls}}}}/chains/leaf.key;
                ssl_certificate {{{{tls}}}}/chains/{name}.pem; location / {{ return 200 fine; }} }}"
        )
    });
    let servers: String = servers.collect();
    let locations = CHAINS.iter().enumerate().map(|(index, (name, more))| {
        let default = |directive: &str, value: &str| {
            let is_said = more.contains(directive);
            if is_said {
                String::new()
            } else {
                format!("{directive} {value};")
            }
        };
        let host = default("proxy_ssl_name", "www.example.com");
        let trust = default(
            "proxy_ssl_trusted_certificate",
            "{{tls}}/chains/trusted.pem",
        );
        format!(
            "location =/{index} {{ proxy_pass https://unix:{{{{dir}}}}/{name}; {host} {trust} {more} }}"
        )
    });
    let locations: String = locations.collect();
    let conf = with_certificates(&format!(
        "proxy_ssl_verify on; proxy_ssl_session_reuse off; {servers} server {{ listen {{{{listen}}}}; {locations} }}"
    ));
    let verdicts = both(&conf, |s: &mut Subject| {
        let verdict = |(index, row): (usize, &(&'static str, &'static str))| {
            let why = match s.get(&format!("/{index}")).status() {
                200 => "good".to_owned(),
                _ => s.error(&format!("request: \"GET /{index} ")),
            };
            format!("{} {}: {why}", row.0, row.1)
        };
        CHAINS.iter().enumerate().map(verdict).collect::<Vec<_>>()
    });
    let count = |words: &str| {
        verdicts
            .iter()
            .filter(|verdict| verdict.contains(words))
            .count()
    };
    assert!(
        count(": good") >= 10 && count("(23:certificate revoked)") == 1,
        "{verdicts:#?}"
    );
}

const CERTIFICATE: &str =
    "ssl_certificate {{tls}}/ecdsa.crt; ssl_certificate_key {{tls}}/ecdsa.key;";

fn conf(rest: &str) -> String {
    with_certificates(&format!("{CERTIFICATE}{rest}"))
}

/// Upstreams are told a host's name when they are to be told, and never an address or a port.
#[test]
fn names_that_upstreams_are_told() {
    let conf = conf("
        upstream group_1 { server {{listen_tls}}; }
        server { listen {{listen_tls}} ssl; return 200 '$ssl_server_name $http_host'; }
        server { listen {{listen}};
            location /off { proxy_pass https://{{listen_tls}}; proxy_ssl_server_name off; proxy_ssl_name example.com; }
            proxy_ssl_server_name on;
            location /group { proxy_pass https://group_1; }
            location /address { proxy_pass https://{{listen_tls}}; }
            location /fixed { proxy_pass https://{{listen_tls}}; proxy_ssl_name example.com; }
            location /port { proxy_pass https://{{listen_tls}}; proxy_ssl_name example.com:443; }
            location /six { proxy_pass https://{{listen_tls}}; proxy_ssl_name [::1]:443; }
            location /variable { proxy_pass https://{{listen_tls}}; proxy_ssl_name $arg_name; }
            location /host { proxy_pass https://group_1; proxy_ssl_name $proxy_host; proxy_set_header Host $proxy_host:$proxy_port; }
            location /any { proxy_pass https://$arg_to; } }");
    let told = both(&conf, |s: &mut Subject| {
        let to = s.address("listen_tls");
        [
            "/off",
            "/group",
            "/address",
            "/fixed",
            "/port",
            "/six",
            "/variable?name=a_b.example",
            "/variable",
            "/host",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain(["/any?to=group_1".to_owned(), format!("/any?to={to}/x")])
        .map(|target| s.get(&target).text())
        .collect::<Vec<_>>()
    });
    assert!(told[0].starts_with(" 127.0.0.1:"), "{told:?}");
    assert_eq!(told[1], "group_1 group_1");
}

fn plain(conn: &mut Conn) {
    conn.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    conn.wait_close();
}

fn silent(conn: &mut Conn) {
    conn.wait_close();
}

/// A peer that does not shake hands has failed: what it says is no response, and the next one is asked.
#[test]
fn peers_that_do_not_shake_hands() {
    let conf = conf(
        "
        upstream u { server {{plain}}; server {{close}}; server {{listen_tls}} backup; }
        server { listen {{listen_tls}} ssl; return 200 good; }
        log_format f '$status $upstream_status $upstream_addr';
        server { listen {{listen}}; proxy_connect_timeout 300ms; access_log {{dir}}/f.log f;
            location /next { proxy_pass https://u; }
            location /plain { proxy_pass https://{{plain}}; }
            location /close { proxy_pass https://{{close}}; }
            location /silent { proxy_pass https://{{silent}}; } }",
    );
    let seen = both(&conf, |s: &mut Subject| {
        s.backend("plain", plain);
        s.backend("close", Conn::finish);
        s.backend("silent", silent);
        let answers = ["/next", "/plain", "/close", "/silent"].map(|target| s.get(target).status());
        // What nginx says of the others depends on whether they were faster than the handshake.
        let words = s.error("request: \"GET /silent ");
        (answers, words, s.log("f.log", 4))
    });
    assert_eq!(seen.0, [200, 502, 502, 504]);
}

/// Sessions are resumed with the peer that they are of, unless that is off.
#[test]
fn sessions_are_resumed() {
    let conf = conf("
        upstream u { server {{listen_tls}}; keepalive 0; }
        server { listen {{listen_tls}} ssl; ssl_session_cache shared:s:1m; return 200 $ssl_session_reused$ssl_protocol; }
        server { listen {{listen}};
            location /new { proxy_pass https://u; }
            location /old { proxy_pass https://u; proxy_ssl_protocols TLSv1.2; }
            location /off { proxy_pass https://u; proxy_ssl_session_reuse off; } }");
    let seen = ours(&conf, |s: &mut Subject| {
        ["/new", "/old", "/off"].map(|target| [0; 3].map(|_| s.get(target).text()))
    });
    assert_eq!(seen[0], [".TLSv1.3", "rTLSv1.3", "rTLSv1.3"]);
    assert_eq!(seen[1], [".TLSv1.2", "rTLSv1.2", "rTLSv1.2"]);
    assert_eq!(seen[2], [".TLSv1.3"; 3]);
}

/// K4: a connection is shared only by what would have made the same one.
#[test]
fn connections_are_shared_by_what_is_alike() {
    let conf = conf(
        "
        upstream u { server {{listen_tls}}; keepalive 8; }
        server { listen {{listen_tls}} ssl; return 200 '$connection_requests $ssl_server_name'; }
        server { listen {{listen}}; proxy_ssl_server_name on;
            location /a { proxy_pass https://u; proxy_ssl_name $arg_n; }
            location /b { proxy_pass https://u; proxy_ssl_name $arg_n; }
            location /verify { proxy_pass https://u; proxy_ssl_name $arg_n; proxy_ssl_verify on;
                proxy_ssl_trusted_certificate {{tls}}/chains/root.pem; } }",
    );
    let seen = ours(&conf, |s: &mut Subject| {
        let one = ["/a?n=a", "/a?n=a", "/b?n=a", "/a?n=b", "/a?n=b", "/a?n=a"]
            .map(|target| s.get(target).text());
        (one, s.get("/verify?n=a").status())
    });
    assert_eq!(seen.0, ["1 a", "2 a", "3 a", "1 b", "2 b", "4 a"]);
    assert_eq!(seen.1, 502);
}

/// Bodies of any length pass both ways, and the connection is used again.
#[test]
fn bodies_pass_both_ways() {
    let conf = conf("
        server { listen {{listen_tls}} ssl; root {{dir}};
            location /sent { client_max_body_size 9m; proxy_pass http://{{b}}; }
            location / { } }
        server { listen {{listen}}; client_max_body_size 9m;
            location / { proxy_pass https://{{listen_tls}}; }
            location /unbuffered/ { proxy_pass https://{{listen_tls}}/; proxy_buffering off; proxy_request_buffering off; } }");
    both(&conf, |s: &mut Subject| {
        s.backend("b", |conn| {
            while let Some(request) = conn.request() {
                let length = request.body.len().to_string();
                conn.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{length}",
                    length.len()
                ));
            }
        });
        let body: Vec<u8> = (0..3_000_000u32)
            .map(|n| n.to_be_bytes()[3 - (n % 3) as usize])
            .collect();
        std::fs::write(s.path("long"), &body).unwrap();
        let received = ["/long", "/unbuffered/long"].map(|target| s.get(target).body == body);
        let text = "x".repeat(2_000_000);
        let sent = ["/sent", "/unbuffered/sent"].map(|target| s.ask("POST", target, &text).text());
        (received, sent)
    });
}

/// Addresses in answers, and times of connections.
#[test]
fn redirects_and_times() {
    let conf = conf("
        upstream u { server {{listen_tls}}; }
        log_format f '$upstream_connect_time $upstream_header_time'; access_log off;
        server { listen {{listen_tls}} ssl; location / { return 302 https://u/x; } location /b { return 302 $scheme://u/b/x; } location /p { return 302 http://u/x; } }
        server { listen {{listen}}; access_log {{dir}}/f.log f;
            location /r/ { proxy_pass https://u; }
            location /b/ { proxy_pass https://u/b/; }
            location /p { proxy_pass https://u; } }");
    both(&conf, |s: &mut Subject| {
        let moved = ["/r/", "/b/", "/p"]
            .map(|target| s.get(target).header("Location").map(|to| s.mask(to)));
        (moved, s.log("f.log", 3).len())
    });
}

/// A configuration of `stream`, with a server of `http` that speaks TLS.
fn stream_conf(http: &str, stream: &str) -> String {
    with_certificates(&format!(
        "http {{ {CERTIFICATE} {http} }} stream {{ {CERTIFICATE} {stream} }}"
    ))
}

/// What one client gets for `text`.
fn talk(s: &Subject, name: &str, text: &str) -> String {
    let mut client = s.connect_to(name);
    client.send(text);
    client.rest()
}

/// Streams over TLS: names, verification, protocols, and the PROXY header in front of it all.
#[test]
fn streams_over_tls() {
    let conf = stream_conf(
        "server { listen {{listen_tls}} ssl; return 200 $ssl_server_name; }",
        "upstream u { server {{plain}}; server {{listen_tls}} backup; }
        log_format f '$status $upstream_addr'; access_log {{dir}}/f.log f;
        proxy_ssl on; proxy_ssl_session_reuse off; proxy_connect_timeout 300ms;
        server { listen {{listen}}; proxy_pass {{listen_tls}}; }
        server { listen {{listen_name}}; proxy_pass u; proxy_ssl_server_name on; proxy_ssl_name example.com:1; }
        server { listen {{listen_good}}; proxy_pass {{listen_tls}}; proxy_ssl_name example.com; proxy_ssl_verify on;
            proxy_ssl_trusted_certificate {{tls}}/ca.crt; }
        server { listen {{listen_bad}}; proxy_pass {{listen_tls}}; proxy_ssl_name example.org; proxy_ssl_verify on;
            proxy_ssl_trusted_certificate {{tls}}/ca.crt; }
        server { listen {{listen_silent}}; proxy_pass {{silent}}; }
        server { listen {{listen_proxied}}; proxy_pass {{listen_door}}; proxy_protocol on; }
        server { listen {{listen_door}} ssl proxy_protocol; ssl_alpn one two; return '$proxy_protocol_addr $ssl_alpn_protocol'; }
        server { listen {{listen_alpn}}; proxy_pass {{listen_door_alpn}}; proxy_ssl_alpn two $hostname one; }
        server { listen {{listen_door_alpn}} ssl; ssl_alpn one two; return '$ssl_alpn_protocol'; }",
    );
    let seen = both(&conf, |s: &mut Subject| {
        s.backend("plain", plain);
        s.backend("silent", silent);
        let get = "GET / HTTP/1.0\r\n\r\n";
        let mut texts = Vec::new();
        for name in [
            "listen",
            "listen_name",
            "listen_good",
            "listen_bad",
            "listen_silent",
        ] {
            let text = talk(s, name, get);
            texts.push(text.rsplit("\r\n").next().unwrap_or_default().to_owned());
        }
        for name in ["listen_proxied", "listen_alpn"] {
            texts.push(talk(s, name, ""));
        }
        let mut log = s.log("f.log", 9);
        log.sort();
        (texts, s.error("does not match"), log)
    });
    assert_eq!(seen.0, ["", "example.com", "", "", "", "127.0.0.1 ", "one"]);
}

/// Much passes both ways, and the end of one direction leaves the other open.
#[test]
fn long_streams_and_their_ends() {
    let conf = stream_conf(
        "",
        "server { listen {{listen}}; proxy_pass {{listen_tls}}; proxy_ssl on; proxy_half_close on; }
        server { listen {{listen_tls}} ssl; proxy_pass {{a}}; proxy_half_close on; }",
    );
    ours(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            let all = conn.rest();
            conn.write(all.len().to_string());
            conn.write(all);
        });
        let text = "0123456789".repeat(300_000);
        let mut client = s.connect();
        let mut sender = client.another();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(&text).finish());
            let answer = client.rest();
            assert!(
                answer == format!("{}{text}", text.len()),
                "{} bytes",
                answer.len()
            );
        });
    });
}

/// Upstreams that ask for a certificate get the one that is meant, with either version.
#[test]
fn certificates_for_upstreams() {
    let conf = conf("
        server { listen {{listen_tls}} ssl; ssl_verify_client optional; ssl_client_certificate {{tls}}/ca.crt; ssl_crl {{tls}}/ca.crl;
            error_page 495 =200 /bad; location /bad { return 200 $ssl_client_verify; }
            location / { return 200 '$ssl_client_verify $ssl_client_s_dn $ssl_protocol'; } }
        server { listen {{listen}}; proxy_ssl_session_reuse off;
            location /none { proxy_pass https://{{listen_tls}}; }
            proxy_ssl_certificate {{tls}}/client.crt; proxy_ssl_certificate_key {{tls}}/client.key;
            location /fixed { proxy_pass https://{{listen_tls}}; }
            location /old { proxy_pass https://{{listen_tls}}; proxy_ssl_protocols TLSv1.2; }
            location /empty { proxy_pass https://{{listen_tls}}; proxy_ssl_certificate ''; }
            location /variable { proxy_pass https://{{listen_tls}}; proxy_ssl_certificate $arg_c; proxy_ssl_certificate_key $arg_k; }
            location /locked { proxy_pass https://{{listen_tls}}; proxy_ssl_certificate {{tls}}/rsa.crt;
                proxy_ssl_certificate_key $arg_k; proxy_ssl_password_file {{tls}}/passwords; } }");
    let told = both(&conf, |s: &mut Subject| {
        let file = |name: &str| file(name).to_string_lossy().into_owned();
        let with = |place: &str, certificate: &str, key: &str| {
            format!("/{place}?c={}&k={}", file(certificate), file(key))
        };
        let targets = [
            "/none".to_owned(),
            "/fixed".to_owned(),
            "/old".to_owned(),
            "/empty".to_owned(),
            "/variable?c=".to_owned(),
            with("variable", "client.crt", "client.key"),
            with("variable", "revoked.crt", "revoked.key"),
            with("variable", "client.crt", "revoked.key"),
            with("variable", "nothing", "client.key"),
            with("locked", "", "encrypted.key"),
        ];
        targets.map(|target| {
            let answer = s.get(&target);
            match answer.status() {
                200 => answer.text(),
                status => status.to_string(),
            }
        })
    });
    assert!(told[1].starts_with("SUCCESS CN=client,"), "{told:?}");
    assert_eq!(told[7..9], ["500", "500"]);
}

/// A tunnel that an upgrade has opened leads through TLS.
#[test]
fn tunnels_over_tls() {
    let conf = conf("
        server { listen {{listen_tls}} ssl; location / { proxy_pass http://{{a}}; proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } }
        server { listen {{listen}}; location / { proxy_pass https://{{listen_tls}};
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } }");
    let echoed = both(&conf, |s: &mut Subject| {
        s.backend("a", |conn| {
            conn.head();
            conn.write(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n",
            );
            conn.echo();
        });
        let mut client = s.connect();
        client.send("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n");
        let status = client.head().status();
        let text = "ping".repeat(5000);
        client.send(&text);
        (status, client.bytes(text.len()) == text.as_bytes())
    });
    assert_eq!(echoed, (101, true));
}
