//! The access log: the grammar of lists (behaviour L1) and escaping (L3).

use crate::support::{Subject, both};

const FORMAT: &str = "log_format f '$upstream_addr | $upstream_status | $upstream_connect_time | $upstream_header_time | \
     $upstream_response_time | $upstream_bytes_sent | $upstream_bytes_received | $upstream_response_length';";

/// Makes measured times comparable; a missing one stays `-`.
fn without_times(lines: &[String]) -> Vec<String> {
    let word = |word: &str| {
        let number = word.trim_end_matches(',');
        let is_time =
            number.len() == 5 && number.as_bytes()[1] == b'.' && number.parse::<f64>().is_ok();
        if is_time {
            word.replace(number, "T")
        } else {
            word.to_owned()
        }
    };
    lines
        .iter()
        .map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" "))
        .collect()
}

/// L1: tries by comma, groups by colon, a dash for what is not there.
#[test]
fn lists_of_upstreams() {
    let conf = format!(
        "{FORMAT}
        upstream retried {{ server {{{{refused}}}}; server {{{{a}}}}; }}
        upstream benched {{ server {{{{refused1}}}}; server {{{{refused2}}}}; }}
        upstream half {{ server {{{{b}}}}; server {{{{a}}}} down; server {{{{refused3}}}} down; }}
        upstream last {{ server {{{{c}}}}; server {{{{refused4}}}} max_fails=1; }}
        server {{ listen {{{{listen}}}}; access_log {{{{dir}}}}/f.log f;
            location /retried {{ proxy_pass http://retried; }}
            location /benched {{ proxy_pass http://benched; }}
            location /again {{ proxy_pass http://benched; error_page 502 = /retried; }}
            location /pass {{ proxy_pass http://half; error_page 503 = @other; proxy_intercept_errors on; }}
            location @other {{ proxy_pass http://retried; }}
            location /last {{ proxy_pass http://last; proxy_next_upstream error http_503; }}
            location /static {{ return 204; }}
            location /variable {{ set $nobody 'nobody.invalid:80'; resolver 127.0.0.1:1; resolver_timeout 1ms;
                proxy_pass http://$nobody; }} }}"
    );
    let log = both(&conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        for name in ["b", "c"] {
            s.backend(name, |conn| {
                conn.answer_all("HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nno\n");
            });
        }
        let mut statuses = Vec::new();
        for (number, target) in [
            "/retried",
            "/benched",
            "/benched",
            "/again",
            "/pass",
            "/last",
            "/last",
            "/static",
            "/variable",
        ]
        .iter()
        .enumerate()
        {
            statuses.push(s.get(target).status());
            s.log("f.log", number + 1);
        }
        (statuses, without_times(&s.log("f.log", 9)))
    });
    assert!(log.1[0].starts_with("<refused>, <a> | 502, 200 | -, T | -, T | T, T | 0, "));
    assert!(log.1[2].starts_with("benched | 502 | - | - | T"));
    assert!(log.1[3].starts_with("benched : <a> | 502 : 200 | - : T"));
    assert_eq!(log.1[7], "- | - | - | - | - | - | - | -");
}

/// L3: what clients send is escaped, in three ways.
#[test]
fn escaping() {
    let conf = r#"
        log_format default_way '$request|$http_user_agent|$http_absent|$request_method|$uri|$status';
        log_format json_way escape=json '{"r":"$request","a":"$http_user_agent","n":"$http_absent"}';
        log_format none_way escape=none '$request|$http_user_agent|$http_absent|';
        server { listen {{listen}};
            access_log {{dir}}/default.log default_way;
            access_log {{dir}}/json.log json_way;
            access_log {{dir}}/none.log none_way;
            location / { return 204; } }"#;
    let logs = both(conf, |s: &mut Subject| {
        for (number, request) in [
            "GET /a\"b HTTP/1.1\r\nHost: x\r\nUser-Agent: q\" b\\ t\tx \u{e4} end\r\n\r\n",
            "GET /?x=%22\\ HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: \u{7f} / <>&'\r\n\r\n",
        ]
        .iter()
        .enumerate()
        {
            s.connect().send(request).response();
            s.log("default.log", number + 1);
        }
        ["default.log", "json.log", "none.log"].map(|name| s.log(name, 3))
    });
    assert_eq!(
        logs[0][0],
        r"GET /a\x22b HTTP/1.1|q\x22 b\x5C t\x09x \xC3\xA4 end|-|GET|/a\x22b|204"
    );
}

/// L3: a request that cannot be read is 400 and has no method and no URI.
#[test]
fn unreadable_requests() {
    let conf = "
        log_format f '$request|$request_method|$uri|$status|$request_uri|$args|$host';
        map $status $loggable { ~^2 0; default 1; }
        server { listen {{listen}}; server_name name.example;
            access_log {{dir}}/f.log f; access_log {{dir}}/some.log f if=$loggable;
            location / { return 204; } }";
    both(conf, |s: &mut Subject| {
        for (number, request) in [
            "get / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "\u{1}\u{2}\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
        ]
        .iter()
        .enumerate()
        {
            s.connect().send(request).response();
            s.log("f.log", number + 1);
        }
        (s.log("f.log", 5), s.log("some.log", 4))
    });
}

/// The combined format, as everybody's tools read it.
#[test]
fn the_combined_format() {
    let conf = "server { listen {{listen}}; access_log {{dir}}/combined.log; location / { return 200 hello; } }";
    let line = both(conf, |s: &mut Subject| {
        let mut client = s.connect();
        client.send("GET /x?y HTTP/1.1\r\nHost: x\r\nReferer: http://r/\r\nUser-Agent: me\r\nAuthorization: Basic dTpw\r\n\r\n");
        client.response();
        let line = s.log("combined.log", 1)[0].clone();
        let (start, rest) = line.split_once('[').unwrap();
        let (_, end) = rest.split_once(']').unwrap();
        format!("{start}[]{end}")
    });
    assert_eq!(
        line,
        "127.0.0.1 - u [] \"GET /x?y HTTP/1.1\" 200 5 \"http://r/\" \"me\""
    );
}
