//! From a request's target to an upstream's: behaviour P1.

use crate::support::{Subject, both};

const CONF: &str = "
    upstream u { server {{a}}; }
    map $arg_via $b { default u; }
    server { listen {{listen}}; merge_slashes on;
        location /uri/ { proxy_pass http://u/m/; }
        location /slash/ { proxy_pass http://u/; }
        location /no/ { proxy_pass http://u; }
        location /args/ { proxy_pass http://u/x?fixed=1; }
        location ~ ^/capture/(.*)$ { proxy_pass http://$b/v/$1; }
        location /variable { proxy_pass http://$b; }
        location /rewritten { rewrite ^/rewritten/(.*) /other/$1 break; proxy_pass http://u/ignored/; }
        location /if/ { if ($arg_x) { proxy_pass http://u; } return 404; }
        location = /exact { proxy_pass http://u/replaced; }
        location / { return 404; } }";

/// What the backend got for each target, or the status when it got nothing.
fn mapped(targets: &[&'static str]) -> Vec<String> {
    both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let mut seen = Vec::new();
        for &target in targets {
            s.forget();
            let mut client = s.connect();
            client.send(format!(
                "GET {target} HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n\r\n"
            ));
            let response = client.response();
            let received = s.received().pop();
            let outcome = match received {
                Some(request) => request.line,
                None => format!("{} {:?}", response.status(), response.header("location")),
            };
            seen.push(format!("{target} => {outcome}"));
        }
        seen
    })
}

/// The handler that an `if` brings along outlives it: the next one may have nowhere to pass the request to.
#[test]
fn what_an_if_brings_along() {
    const CONF: &str = "
        server { listen {{listen}};
            location /files { set $true 1; if ($true) { proxy_pass http://{{a}}; } if ($true) { add_header X-If 2; } }
            location /proxy { proxy_pass http://{{a}};
                if ($arg_x) { proxy_pass http://{{b}}; } if ($arg_y) { add_header X-If 2; } } }";
    let seen = both(CONF, |s: &mut Subject| {
        s.backends(&[("a", 0), ("b", 0)]);
        let targets = ["/files", "/proxy?x=1", "/proxy?x=1&y=1", "/proxy?y=1"];
        let answers = targets.map(|target| {
            let response = s.get(target);
            (
                response.status(),
                response.header("x-if").map(str::to_owned),
            )
        });
        (answers, s.hits(), s.error("no upstream configuration"))
    });
    assert_eq!(seen.0.map(|answer| answer.0), [500, 200, 200, 200]);
}

#[test]
fn a_prefix_is_replaced_in_the_normalised_path() {
    let seen = mapped(&[
        "/uri/a%2Fb%20c/../d?q=%2F1",
        "/uri//x///y",
        "/uri/%3F%23%25",
        "/uri/a;b:c@d+e",
        "/uri/%C3%A4%E2%82%AC",
        "/uri/\u{e4}",
        "/uri",
        "/uri/",
        "/uri/./a/../../uri/b",
        "/uri/a%20b?c%20d#fragment",
        "/slash/x/y?z",
        "/args/y?own=2",
        "/exact?x=1",
    ]);
    assert_eq!(
        seen[0],
        "/uri/a%2Fb%20c/../d?q=%2F1 => GET /m/a/d?q=%2F1 HTTP/1.1"
    );
    assert_eq!(seen[1], "/uri//x///y => GET /m/x/y HTTP/1.1");
}

#[test]
fn without_a_uri_the_target_stays_as_it_was_sent() {
    let seen = mapped(&[
        "/no/a%2Fb/../no/%41?q=%2F",
        "/no//x/./y",
        "/variable/a%20b/../variable?x",
        "/if/a?x=1",
        "/if/a",
    ]);
    assert_eq!(
        seen[0],
        "/no/a%2Fb/../no/%41?q=%2F => GET /no/a%2Fb/../no/%41?q=%2F HTTP/1.1"
    );
}

#[test]
fn with_variables_and_rewrites() {
    mapped(&[
        "/capture/a%20b?dropped=1",
        "/capture/x/y",
        "/rewritten/a%20b?kept=1",
        "/rewritten/a?b",
    ]);
}

#[test]
fn absolute_targets() {
    let seen = mapped(&[
        "http://other.example/no/x?y",
        "http://other.example:8080/uri/x",
        "http://other.example?q",
        "HTTP://Other.Example/no/",
    ]);
    assert_eq!(
        seen[0],
        "http://other.example/no/x?y => GET /no/x?y HTTP/1.1"
    );
}

/// The host of an absolute target is the request's host.
#[test]
fn the_host_of_an_absolute_target() {
    let conf = "server { listen {{listen}}; location / { return 200 '$host $http_host $uri $request_uri\n'; } }";
    both(conf, |s: &mut Subject| {
        let mut answers = Vec::new();
        for request in [
            "GET http://a.example:81/x HTTP/1.1\r\nHost: b.example:82\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: B.example.:82\r\n\r\n",
            "GET http://a.example/ HTTP/1.0\r\n\r\n",
        ] {
            answers.push(s.connect().send(request).response());
        }
        answers
    });
}
