//! What configurations mean of TLS, HTTP/2 and gRPC, and what headwater alone says of them.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{
    conf::{ConfError, LoadOptions, load, model::*},
    vars::Template,
};

/// Reads `text` as `/the/directory/x.conf` would be, without a file.
fn read_text(text: &str) -> Result<Config, ConfError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.conf");
    std::fs::write(&file, format!("events {{ }}\n{text}")).unwrap();
    std::fs::write(dir.path().join("passwords"), "one\r\n\ntwo").unwrap();
    std::fs::write(dir.path().join("none"), "\n").unwrap();
    std::fs::write(dir.path().join("long"), "x".repeat(4096)).unwrap();
    load(&LoadOptions {
        file,
        prefix: "/var/empty/".into(),
        globals: Vec::new(),
        error_log: None,
    })
}

fn http(text: &str) -> Http {
    let config = read_text(&format!("http {{\n{text}\n}}")).unwrap();
    config.http.unwrap()
}

fn stream(text: &str) -> Stream {
    let config = read_text(&format!("stream {{\n{text}\n}}")).unwrap();
    config.stream.unwrap()
}

fn error(text: &str) -> String {
    read_text(text).unwrap_err().to_string()
}

/// Warnings without the directory of the file.
fn warnings(text: &str) -> Vec<String> {
    let config = read_text(text).unwrap();
    let names = config.warnings.iter().map(|warning| {
        let (text, place) = warning.rsplit_once(" in /").unwrap();
        format!("{text} {}", place.rsplit_once('/').unwrap().1)
    });
    names.collect()
}

fn literal(template: &Template) -> &str {
    std::str::from_utf8(template.as_literal().unwrap()).unwrap()
}

#[test]
fn defaults_are_nginx_s() {
    let http = http("server { listen 1; location / { proxy_pass http://127.0.0.1; } }");
    let ssl = &http.servers[0].ssl;
    assert!(!ssl.is_usable() && !http.listens[0].ssl);
    assert_eq!(ssl.protocols, Protocols::DEFAULT);
    assert_eq!(
        (&*ssl.ciphers, &*ssl.ecdh_curve),
        ("HIGH:!aNULL:!MD5", "auto")
    );
    assert_eq!(ssl.session_cache, SessionCache::None);
    assert_eq!(ssl.session_timeout, Duration::from_mins(5));
    assert!(ssl.session_tickets && !ssl.prefer_server_ciphers && !ssl.early_data);
    assert_eq!(
        (ssl.verify_client, ssl.verify_depth),
        (VerifyClient::Off, 1)
    );
    assert_eq!(ssl.buffer_size, 16384);
    let proxy = &http.servers[0].location.children.prefixes[0];
    let proxy = &proxy.inclusive.as_ref().unwrap().proxy.ssl;
    assert_eq!(&*proxy.ciphers, "DEFAULT");
    assert!(proxy.session_reuse && !proxy.verify && !proxy.server_name);
    assert_eq!((proxy.verify_depth, proxy.certificates()), (1, None));
}

#[test]
fn paths_begin_at_the_configuration_file() {
    let http = http(
        "ssl_crl x/crl; ssl_client_certificate /ca.pem; ssl_trusted_certificate '';
         ssl_session_ticket_key a; ssl_session_ticket_key b;
         server {
            ssl_certificate a.crt; ssl_certificate_key store:a;
            ssl_certificate data:x; ssl_certificate_key /k;
            ssl_certificate $host.crt; ssl_certificate_key engine:e;
         }",
    );
    let ssl = &http.servers[0].ssl;
    let directory = &*ssl.directory;
    assert_eq!(ssl.crl.as_deref(), Some(&*directory.join("x/crl")));
    assert_eq!(
        ssl.client_certificate.as_deref(),
        Some(Path::new("/ca.pem"))
    );
    assert_eq!(ssl.trusted_certificate, None);
    let keys = ["a", "b"].map(|name| directory.join(name));
    assert_eq!(ssl.session_ticket_keys, keys);
    let pairs: Vec<_> = ssl.certificates().collect();
    assert_eq!(
        literal(pairs[0].0),
        directory.join("a.crt").to_str().unwrap()
    );
    assert_eq!(literal(pairs[0].1), "store:a");
    assert_eq!((literal(pairs[1].0), literal(pairs[1].1)), ("data:x", "/k"));
    assert!(ssl.is_dynamic() && pairs[2].0.as_literal().is_none());
    assert_eq!(literal(pairs[2].1), "engine:e");
    assert_eq!(
        Pem::new(b"a.crt", directory),
        Pem::File(directory.join("a.crt"))
    );
    assert_eq!(Pem::new(b"data:x", directory), Pem::Data(b"x".to_vec()));
    assert_eq!(
        Pem::key(b"store:a", directory),
        Pem::Store(b"store:a".to_vec())
    );
    let file = directory.join("engine:e");
    assert_eq!(Pem::new(b"engine:e", directory), Pem::File(file));
}

#[test]
fn servers_share_what_they_do_not_say() {
    let http = http(
        "ssl_certificate a.crt; ssl_certificate_key a.key; ssl_session_cache shared:s:64k; ssl_protocols TLSv1.3;
         server { listen 1 ssl; }
         server { listen 2; }
         server { listen 3 ssl; ssl_session_cache builtin; ssl_protocols TLSv1.2; }
         server { listen 4 ssl; ssl_certificate b.crt; ssl_certificate_key b.key; ssl_session_cache off; }",
    );
    let [one, two, three, four] = http.servers.as_slice() else {
        panic!("four servers");
    };
    assert!(Arc::ptr_eq(&one.ssl, &two.ssl));
    let ssl: Vec<bool> = http.listens.iter().map(|listen| listen.ssl).collect();
    assert_eq!(ssl, [true, false, true, true]);
    assert_eq!(one.ssl.session_cache, SessionCache::ZoneOnly);
    let zone = SslZone {
        name: "s".into(),
        size: 65536,
    };
    assert_eq!(one.ssl.session_zone, Some(zone.clone()));
    assert_eq!(three.ssl.session_cache, SessionCache::Builtin(20480));
    assert_eq!(three.ssl.session_zone, Some(zone));
    assert!(three.ssl.protocols.tls12 && !three.ssl.protocols.tls13);
    assert_eq!(three.ssl.certificates().len(), 1);
    assert_eq!(four.ssl.session_cache, SessionCache::Off);
    assert!(literal(four.ssl.certificates().next().unwrap().0).ends_with("/b.crt"));
}

#[test]
fn proxies_share_what_they_do_not_say() {
    let http = http(
        "proxy_ssl_session_reuse off;
         server {
            location /a { proxy_pass https://127.0.0.1; }
            location /b {
                proxy_ssl_name b; proxy_ssl_certificate b.crt; proxy_ssl_certificate_key b.key;
                proxy_pass https://127.0.0.1:8443/x;
                location /b/c { proxy_ssl_certificate ''; proxy_pass http://127.0.0.1; }
                if ($arg_x) { set $x 1; }
            }
         }",
    );
    let server = &http.servers[0].location;
    let location = |at: &Location, index: usize| {
        let prefix = &at.children.prefixes[index];
        Arc::clone(prefix.inclusive.as_ref().unwrap())
    };
    let (a, b) = (location(server, 0), location(server, 1));
    let c = location(&b, 0);
    assert!(Arc::ptr_eq(&a.proxy.ssl, &http.location.proxy.ssl));
    assert!(!a.proxy.ssl.session_reuse && !b.proxy.ssl.session_reuse);
    let pass = a.proxy.pass.as_ref().unwrap();
    assert!(pass.tls && pass.may_be_tls());
    assert_eq!((&*pass.host_header, &*pass.port), ("127.0.0.1", "443"));
    let pass = b.proxy.pass.as_ref().unwrap();
    assert_eq!(
        (&*pass.host_header, &*pass.port),
        ("127.0.0.1:8443", "8443")
    );
    assert_eq!(
        http.upstreams[0].servers[0].addrs[0].to_string(),
        "127.0.0.1:443"
    );
    let (certificate, key) = b.proxy.ssl.certificates().unwrap();
    assert!(literal(certificate).ends_with("/b.crt") && literal(key).ends_with("/b.key"));
    assert_eq!(b.proxy.ssl.name.as_ref().map(literal), Some("b"));
    assert_eq!(c.proxy.ssl.certificates(), None);
    assert!(!c.proxy.pass.as_ref().unwrap().may_be_tls());
    let Op::If(inner) = &b.rewrite[0] else {
        panic!("an if");
    };
    assert!(Arc::ptr_eq(&inner.location.proxy.ssl, &b.proxy.ssl));
}

#[test]
fn streams_have_what_http_has() {
    let stream = stream(
        "ssl_handshake_timeout 5s; ssl_alpn h2 http/1.1; proxy_ssl_alpn a $protocol;
         server { listen 1 ssl; ssl_certificate a; ssl_certificate_key b; proxy_pass 127.0.0.1:1; proxy_ssl on; }
         server { listen 2; proxy_ssl_verify_depth 3; proxy_pass 127.0.0.1:1; }",
    );
    let [one, two] = stream.servers.as_slice() else {
        panic!("two servers");
    };
    assert_eq!(one.ssl.handshake_timeout, Duration::from_secs(5));
    let protocols: Vec<&[u8]> = one.ssl.alpn.iter().map(|name| &**name).collect();
    assert_eq!(protocols, [&b"h2"[..], b"http/1.1"]);
    assert!(stream.listens[0].ssl && one.ssl.is_usable() && !two.ssl.is_usable());
    assert!(one.proxy.ssl.enabled && !two.proxy.ssl.enabled);
    assert_eq!((one.proxy.ssl.alpn.len(), two.proxy.ssl.alpn.len()), (2, 2));
    assert_eq!(two.proxy.ssl.verify_depth, 3);
}

#[test]
fn password_files_are_read() {
    let http = http(
        "ssl_password_file passwords; proxy_ssl_password_file none; server { location / { } }",
    );
    let lines: Vec<&[u8]> = http.servers[0]
        .ssl
        .passwords
        .0
        .iter()
        .map(|line| &**line)
        .collect();
    assert_eq!(lines, [&b"one"[..], b"two"]);
    assert_eq!(
        format!("{:?}", http.servers[0].ssl.passwords),
        "Passwords(2)"
    );
    let none = &http.location.proxy.ssl.passwords;
    assert_eq!(&*none.0, [Box::<[u8]>::default()]);
    let error = error("http { ssl_password_file long; }");
    assert!(error.starts_with("too long line in \"/"), "{error}");
}

#[test]
fn old_versions_are_warned_about() {
    let text = "http { ssl_protocols SSLv3 TLSv1 tlsv1.2; server { proxy_ssl_protocols TLSv1.1 TLSv1.3; } }";
    let expected = [
        "\"SSLv3\" of \"ssl_protocols\" is not supported, ignored x.conf:2",
        "\"TLSv1\" of \"ssl_protocols\" is not supported, ignored x.conf:2",
        "\"TLSv1.1\" of \"proxy_ssl_protocols\" is not supported, ignored x.conf:2",
    ];
    assert_eq!(warnings(text), expected);
    for text in [
        "http { ssl_protocols TLSv1; server { ssl_reject_handshake on; } }",
        "stream { ssl_conf_command MaxProtocol TLSv1.1; server { listen 1; ssl_reject_handshake on; } }",
    ] {
        assert_eq!(
            error(text),
            "\"ssl_protocols\" must enable TLSv1.2 or TLSv1.3"
        );
    }
    assert_eq!(
        error(
            "http { proxy_ssl_protocols TLSv1.1; server { location / { proxy_pass https://127.0.0.1; } } }"
        ),
        "\"proxy_ssl_protocols\" must enable TLSv1.2 or TLSv1.3"
    );
    let unused = "http { ssl_protocols TLSv1; server { } }";
    assert!(read_text(unused).is_ok(), "nobody speaks it");
}

#[test]
fn what_openssl_alone_has_is_named() {
    let text = "ssl_engine x; http { ssl_dhparam nowhere; ssl_conf_command Options PrioritizeChaCha,KTLS; }";
    let expected = [
        "\"ssl_engine\" is not supported, ignored x.conf:2",
        "\"ssl_dhparam\" is not supported, ignored x.conf:2",
        "\"PrioritizeChaCha\" of \"ssl_conf_command\" is not supported, ignored x.conf:2",
    ];
    assert_eq!(warnings(text), expected);
    let error = error("stream { proxy_ssl_conf_command VerifyMode Request; }");
    let expected =
        "headwater does not support \"proxy_ssl_conf_command VerifyMode Request\" yet in /";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn variables_of_tls_are_known_and_may_be_replaced() {
    let http =
        http("map $uri $ssl_cipher { default x; } server { return 200 $ssl_cipher$ssl_protocol; }");
    let slots: Vec<&str> = http.slots.iter().map(|slot| &*slot.name).collect();
    assert_eq!(slots, ["ssl_cipher"]);
}

#[test]
fn http2_is_of_servers_and_of_addresses() {
    let http = http(
        "http2_max_concurrent_streams 9; http2_chunk_size 100m;
         server { listen 1; http2 on; http2_body_preread_size 1k; }
         server { listen 2 http2; location / { http2_chunk_size 1k; } }",
    );
    let [one, two] = http.servers.as_slice() else {
        panic!("two servers");
    };
    assert!(one.http2.enabled && !two.http2.enabled);
    let streams = [one, two].map(|server| server.http2.max_concurrent_streams);
    assert_eq!(streams, [9, 9]);
    let preread = [one, two].map(|server| server.http2.body_preread_size);
    assert_eq!(preread, [1024, 65536]);
    let listens: Vec<bool> = http.listens.iter().map(|listen| listen.http2).collect();
    assert_eq!(listens, [false, true]);
    assert_eq!(one.location.core.http2_chunk_size, (1 << 24) - 1);
    let inner = two.location.children.prefixes[0].inclusive.as_ref();
    assert_eq!(inner.unwrap().core.http2_chunk_size, 1024);
}

#[test]
fn grpc_is_a_proxy_of_its_own() {
    let http = http(
        "grpc_read_timeout 1h; proxy_read_timeout 1s; grpc_ssl_verify_depth 3;
         server {
            location /a { grpc_pass 127.0.0.1:1; limit_except GET { deny all; } }
            location /b { grpc_pass GRPCS://localhost:2; proxy_http_version 2; }
            location /c { grpc_pass grpc://$host; location /c/d { } }
            location /e { grpc_pass unix:/s; }
         }",
    );
    let server = &http.servers[0].location;
    let location = |index: usize| {
        let prefix = &server.children.prefixes[index];
        Arc::clone(prefix.inclusive.as_ref().unwrap())
    };
    let pass = |location: &Location| {
        let grpc = location.grpc.as_ref().unwrap();
        let pass = Arc::clone(grpc.pass.as_ref().unwrap());
        (pass.tls, pass.may_be_tls(), pass.host_header.to_string())
    };
    let [a, b, c, e] = [0, 1, 2, 3].map(location);
    assert_eq!(pass(&a), (false, false, "127.0.0.1:1".to_owned()));
    assert_eq!(pass(&b), (true, true, "localhost:2".to_owned()));
    assert_eq!(pass(&c), (false, true, String::new()));
    assert_eq!(pass(&e), (false, false, "localhost".to_owned()));
    let grpc = a.grpc.as_ref().unwrap();
    assert_eq!(grpc.read_timeout, Duration::from_hours(1));
    assert_eq!(grpc.http_version, ProxyVersion::Http2);
    assert!(!grpc.buffering && grpc.pass_trailers && a.proxy.buffering);
    assert_eq!(b.grpc.as_ref().unwrap().ssl.verify_depth, 3);
    assert_eq!(
        (b.proxy.ssl.verify_depth, a.proxy.read_timeout.as_secs()),
        (1, 1)
    );
    assert_eq!(b.proxy.http_version, ProxyVersion::Http2);
    let (_, limited) = a.limit_except.as_ref().unwrap();
    assert!(matches!(limited.handler, Handler::Grpc) && limited.grpc.is_some());
    let inner = c.children.prefixes[0].inclusive.as_ref().unwrap();
    assert!(matches!(inner.handler, Handler::Static) && inner.grpc.is_none());
}
