//! What configurations mean: inheritance, locations, addresses, groups.

use std::{sync::Arc, time::Duration};

use crate::{
    conf::{LoadOptions, load, model::*},
    vars::{Part, Template, VarId},
};

/// The model of a file with this text and `events`.
pub(super) fn model_of(text: &str) -> Config {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.conf");
    std::fs::write(&file, format!("events {{ }}\n{text}\n")).unwrap();
    let options = LoadOptions {
        file,
        prefix: "/p".into(),
        globals: Vec::new(),
        error_log: None,
    };
    load(&options).unwrap_or_else(|error| panic!("{error}"))
}

fn config(http: &str) -> Config {
    model_of(&format!("http {{\n{http}\n}}"))
}

fn http(text: &str) -> Http {
    config(text).http.unwrap()
}

/// The location of this name in the first server, wherever it is.
fn location(http: &Http, name: &str) -> Arc<Location> {
    fn find(locations: &Locations, name: &str) -> Option<Arc<Location>> {
        let prefixes = locations
            .prefixes
            .iter()
            .flat_map(|p| p.exact.iter().chain(&p.inclusive));
        for location in prefixes.chain(&locations.regexes) {
            if &*location.name == name.as_bytes() {
                return Some(location.clone());
            }
            if let Some(found) = find(&location.children, name) {
                return Some(found);
            }
        }
        None
    }
    let server = &http.servers[0];
    let named = server.named.iter().find(|(n, _)| &**n == name.as_bytes());
    named.map_or_else(
        || find(&server.location.children, name).unwrap_or_else(|| panic!("no location {name}")),
        |(_, location)| location.clone(),
    )
}

fn names(headers: &[AddHeader]) -> Vec<String> {
    let name = |h: &AddHeader| String::from_utf8_lossy(&h.name).into_owned();
    headers.iter().map(name).collect()
}

#[test]
fn settings_come_from_outside_in() {
    let http = http(
        "keepalive_timeout 5s; root /a; error_page 404 /x; proxy_set_header A 1; add_header H1 1;
         server {
            proxy_set_header B $host; proxy_set_header C 3;
            location /a { keepalive_timeout 6s; proxy_set_header D 4; add_header H2 2; }
            location /b { add_header_inherit merge; add_header H2 2; error_page 500 /y; root rel/; }
            location /c { add_header_inherit off; location /c/d { client_max_body_size 2m; } }
         }",
    );
    let (a, b, c) = (
        location(&http, "/a"),
        location(&http, "/b"),
        location(&http, "/c"),
    );
    assert_eq!(a.core.keepalive_timeout, Duration::from_secs(6));
    assert_eq!(b.core.keepalive_timeout, Duration::from_secs(5));
    let set = |l: &Location| -> Vec<Arc<[u8]>> {
        l.proxy
            .set_header
            .iter()
            .map(|(name, _)| name.clone())
            .collect()
    };
    assert_eq!(set(&a), [Arc::from(&b"D"[..])]);
    assert_eq!(set(&b), [Arc::from(&b"B"[..]), Arc::from(&b"C"[..])]);
    assert_eq!(names(&a.headers.add), ["H2"]);
    assert_eq!(names(&b.headers.add), ["H2", "H1"]);
    assert_eq!(names(&c.headers.add), [""; 0]);
    assert_eq!(a.core.error_pages[0].status, 404);
    assert_eq!(b.core.error_pages.len(), 1);
    assert_eq!(a.core.root.path, Template::literal(b"/a"));
    assert_eq!(b.core.root.path, Template::literal(b"/p/rel"));
    assert_eq!(location(&http, "/c/d").core.client_max_body_size, 2 << 20);
    assert_eq!(http.servers[0].location.core.client_max_body_size, 1 << 20);
}

#[test]
fn lists_that_are_one_list_in_nginx_are_inherited_as_one() {
    let http = http(
        "set_real_ip_from 10.0.0.0/8; set_real_ip_from unix:; deny all; index a b;
         access_log off; expires 1h;
         server {
            location /a { set_real_ip_from 127.0.0.1; allow 1.2.3.4; index c; expires off; }
            location /b { access_log /l.log; }
         }",
    );
    let (a, b) = (location(&http, "/a"), location(&http, "/b"));
    assert_eq!((a.realip.from.len(), a.realip.from_unix), (1, false));
    assert_eq!((b.realip.from.len(), b.realip.from_unix), (1, true));
    assert_eq!((a.access.len(), b.access.len()), (1, 1));
    assert_eq!((a.index.len(), b.index.len()), (1, 2));
    assert!(matches!(a.headers.expires, Expires::Off));
    assert!(matches!(b.headers.expires, Expires::Access(3600)));
    assert_eq!((a.access_log.len(), b.access_log.len()), (0, 1));
    let plain = self::http("server { }");
    let target = &plain.servers[0].location.access_log[0].target;
    assert_eq!(
        *target,
        LogTarget::File(std::path::Path::new("/p/logs/access.log").into())
    );
}

#[test]
fn proxying_reaches_if_and_limit_except_only() {
    let http = http(
        "server {
            location /a/ {
                proxy_pass http://127.0.0.1:1/b/;
                if ($arg_x) { set $y 1; }
                limit_except GET { deny all; }
                location /a/in { }
            }
            location /n { proxy_pass http://127.0.0.1:1; proxy_redirect off; }
            location ~ ^/r { proxy_pass http://127.0.0.1:1; }
         }",
    );
    let a = location(&http, "/a/");
    let (methods, limited) = a.limit_except.as_ref().unwrap();
    assert_eq!(*methods, Methods(Methods::GET.0 | Methods::HEAD.0));
    let Op::If(block) = &a.rewrite[0] else {
        panic!("no if");
    };
    for inner in [limited, &block.location] {
        assert!(matches!(inner.handler, Handler::Proxy));
        assert_eq!(inner.proxy.pass.as_ref().unwrap().location_len, 3);
    }
    assert!(a.auto_redirect);
    let nested = location(&http, "/a/in");
    assert!(matches!(nested.handler, Handler::Static) && nested.proxy.pass.is_none());
    let Redirects::List(list) = &a.proxy.redirect else {
        panic!("no default");
    };
    assert!(
        matches!(&list[0].from, RewritingFrom::Text(t) if *t == Template::literal(b"http://127.0.0.1:1/b/"))
    );
    assert_eq!(list[0].to, Template::literal(b"/a/"));
    assert!(matches!(
        location(&http, "/n").proxy.redirect,
        Redirects::Off
    ));
    let Redirects::List(list) = &location(&http, "^/r").proxy.redirect else {
        panic!("no default");
    };
    assert_eq!(list[0].to, Template::literal(b"/"));
    assert_eq!(http.upstreams.len(), 1, "one group for one address");
}

#[test]
fn locations_are_sorted_and_linked() {
    let http = http(
        "server {
            location /images { } location / { } location = /images { } location ^~ /images/big { }
            location ~ a { } location ~* b { } location /im { } location @n { }
         }",
    );
    let locations = &http.servers[0].location.children;
    let shown: Vec<_> = locations
        .prefixes
        .iter()
        .map(|p| {
            let name = String::from_utf8_lossy(&p.name).into_owned();
            (name, p.exact.is_some(), p.inclusive.is_some(), p.parent)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("/".to_owned(), false, true, None),
            ("/im".to_owned(), false, true, Some(0)),
            ("/images".to_owned(), true, true, Some(1)),
            ("/images/big".to_owned(), false, true, Some(2)),
        ]
    );
    let regexes: Vec<_> = locations.regexes.iter().map(|r| &*r.name).collect();
    assert_eq!(regexes, [b"a", b"b"]);
    assert_eq!(http.servers[0].named.len(), 1);
}

#[test]
fn wildcard_addresses_cover_others() {
    let http = http(
        "server { listen 127.0.0.1:81; listen 81; server_name a .b; }
         server { listen 127.0.0.1:81 default_server; server_name c *.d e.* ~^(?<x>f)$; }
         server { listen 127.0.0.2:81 backlog=9; listen unix:/s; listen [::]:81 ipv6only=off; }",
    );
    let shown: Vec<_> = http
        .listens
        .iter()
        .map(|l| {
            format!(
                "{}<-{} {}",
                l.bind_addr, l.options.addr, l.default_server.name
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "127.0.0.2:81<-127.0.0.2:81 ",
            "0.0.0.0:81<-127.0.0.1:81 c",
            "0.0.0.0:81<-0.0.0.0:81 a",
            "unix:/s<-unix:/s ",
            "[::]:81<-[::]:81 ",
        ]
    );
    let names = &http.listens[1].names;
    assert_eq!(names.exact[&b"b"[..]].name, "a".into());
    assert_eq!(names.exact[&b"c"[..]].name, "c".into());
    let leading: Vec<_> = names.leading.iter().map(|(n, _)| &**n).collect();
    assert_eq!(leading, [b".b", b".d"]);
    assert_eq!(&*names.trailing[0].0, b"e.");
    assert_eq!(names.regex.len(), 1);
    assert!(
        http.listens[2].names.exact.is_empty(),
        "one server needs no names"
    );
}

#[test]
fn groups_and_their_defaults() {
    let http = http(
        "upstream U { server 127.0.0.1; server 127.0.0.1:2 weight=5 down; }
         upstream off { keepalive 0; server 127.0.0.1; least_conn; }
         server {
            location /a { proxy_pass http://u; }
            location /b { proxy_pass http://127.0.0.1:8080/x?y; }
            location /c { proxy_pass http://later; }
            location /d { proxy_pass http://unix:/s:/x; }
            location /e { proxy_pass http://127.0.0.1; }
         }
         upstream later { hash $uri consistent; server 127.0.0.1:3; keepalive 4; }",
    );
    let group = |name: &str| {
        let pass = location(&http, name).proxy.pass.clone().unwrap();
        match pass.target {
            PassTarget::Upstream(index) => (pass, http.upstreams[index].clone()),
            PassTarget::Variable => panic!("variable"),
        }
    };
    let (_, u) = group("/a");
    assert_eq!(
        (&*u.name, u.servers[1].weight, u.servers[1].down),
        ("U", 5, true)
    );
    assert_eq!(u.servers[0].addrs[0].to_string(), "127.0.0.1:80");
    let keepalive = u.keepalive.unwrap();
    assert_eq!((keepalive.connections, keepalive.local), (32, true));
    let (pass, implicit) = group("/b");
    assert_eq!(
        (&*pass.host_header, &*pass.port),
        ("127.0.0.1:8080", "8080")
    );
    assert_eq!(pass.uri.as_deref(), Some(&b"/x?y"[..]));
    assert!(!implicit.explicit && implicit.keepalive.is_none());
    let (_, later) = group("/c");
    assert!(matches!(
        &later.method,
        Method::Hash {
            consistent: true,
            ..
        }
    ));
    assert!(!later.keepalive.unwrap().local);
    let (pass, unix) = group("/d");
    assert_eq!((&*pass.host_header, &*pass.port), ("localhost", ""));
    assert_eq!(unix.servers[0].addrs[0].to_string(), "unix:/s");
    assert_eq!(&*group("/e").0.host_header, "127.0.0.1");
    assert!(http.upstreams[1].keepalive.is_none());
}

#[test]
fn variables_may_be_used_before_they_are_set() {
    let http = http(
        "log_format x '$later $http_mine $http_other $arg_a';
         server {
            set $LATER 1; set $http_mine 2;
            location ~ ^/(?<arg_a>x) { return 200 $later$ssl_cipher; }
         }",
    );
    let slots: Vec<_> = http.slots.iter().map(|slot| &*slot.name).collect();
    assert_eq!(slots, ["later", "http_mine", "arg_a"]);
    let location = location(&http, "^/(?<arg_a>x)");
    let Op::Return {
        text: Some(text), ..
    } = &location.rewrite[0]
    else {
        panic!("no return");
    };
    assert!(matches!(&text.parts()[0], Part::Var(VarId::Slot(slot)) if slot.0 == 0));
}

#[test]
fn rewrite_flags() {
    let http = http(
        "server { location / {
            rewrite a http://b? last; rewrite a $scheme://b permanent; rewrite a /b?; rewrite a /b break;
            return https://x;
         } }",
    );
    let ops = &location(&http, "/").rewrite;
    let flags: Vec<_> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Rewrite(rewrite) => Some((rewrite.flag, rewrite.add_args)),
            _ => None,
        })
        .collect();
    assert_eq!(
        flags,
        [
            (RewriteFlag::Redirect, false),
            (RewriteFlag::Permanent, true),
            (RewriteFlag::Next, false),
            (RewriteFlag::Break, true),
        ]
    );
    assert!(matches!(
        &ops[4],
        Op::Return {
            status: 302,
            text: Some(_)
        }
    ));
}

proptest::proptest! {
    #[test]
    fn words_of_the_language_in_any_order_never_panic(
        words in proptest::collection::vec(
            proptest::sample::select(&WORDS[..]), 0..40
        )
    ) {
drop(crate::conf::check(words.join(" ").as_bytes()));
    }
}

const WORDS: [&str; 52] = [
    "events { }",
    "http {",
    "stream {",
    "server {",
    "listen 127.0.0.1:1-3 udp;",
    "pass",
    "limit_conn z 1;",
    "limit_conn_zone $status zone=z:1m;",
    "proxy_pass u;",
    "location",
    "upstream u {",
    "if",
    "}",
    "}",
    "{",
    ";",
    ";",
    "(",
    ")",
    "$host",
    "$",
    "=",
    "~",
    "/",
    "/a",
    "@n",
    "\"",
    "'",
    "\\",
    "on",
    "off",
    "1",
    "10k",
    "1s",
    "-1",
    "127.0.0.1",
    ":80",
    "listen 80;",
    "server_name",
    "return 200;",
    "proxy_pass http://u;",
    "proxy_pass http://127.0.0.1/;",
    "rewrite",
    "set $a",
    "root",
    "add_header a b;",
    "error_page 404",
    "access_log",
    "try_files a",
    "expires",
    "limit_except GET {",
    "types {",
];

/// `off` wins over all other words, in whichever order they come.
#[test]
fn next_upstream_off_is_off() {
    let http = http("server { location / {
        proxy_pass http://127.0.0.1; proxy_next_upstream off; proxy_next_upstream error http_500; } }");
    let next = location(&http, "/").proxy.next_upstream;
    assert!(next.off && !next.error && !next.timeout && !next.http_500);
}

/// Blocks that inherit a resolver share it, so that they share what it knows.
#[test]
fn resolvers_are_shared() {
    let http = http(
        "resolver 127.0.0.1 [::1]:5353 valid=10s ipv6=off status_zone=z; resolver_timeout 0;
        server { location /a { } location /b { resolver 127.0.0.2 valid=0; } }",
    );
    let (a, b) = (location(&http, "/a"), location(&http, "/b"));
    let outer = http.location.core.resolver.as_ref().unwrap();
    assert!(Arc::ptr_eq(outer, a.core.resolver.as_ref().unwrap()));
    let servers = ["127.0.0.1:53", "[::1]:5353"].map(|addr| addr.parse().unwrap());
    assert_eq!(outer.servers, servers);
    assert_eq!(outer.valid, Some(Duration::from_secs(10)));
    assert!(outer.ipv4 && !outer.ipv6);
    let inner = b.core.resolver.as_ref().unwrap();
    assert_eq!((inner.valid, inner.ipv6), (None, true));
    assert_eq!(b.core.resolver_timeout, Duration::ZERO);
}
