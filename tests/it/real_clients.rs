//! Clients that others have written, over TLS and HTTP/2: curl, openssl, nghttp, h2load and Chromium. Whose program is not
//! there is skipped, and says so.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
    time::Duration,
};

use crate::support::{
    Subject, both, ours,
    tls::{file, with_certificates},
};

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A page with fifty scripts, each of which counts, and one that says how many came over HTTP/2.
const SCRIPTS: usize = 50;

/// Whether there is such a program.
fn is_there(program: &str) -> bool {
    let found = Command::new(program)
        .arg(if program == "openssl" {
            "version"
        } else {
            "--version"
        })
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: no {program}");
    }
    found
}

/// Runs a program with these words on its standard input; it is ended when it takes too long.
fn run(program: &str, args: &[&str], input: &str) -> Output {
    // timeout(1) is of coreutils.
    let mut child = Command::new("timeout")
        .args([&PATIENCE.as_secs().to_string(), program])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Who has ended already does not read.
    stdin.write_all(input.as_bytes()).ok();
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A server of `localhost` with TLS, HTTP/2 and certificates of clients, in front of a plain one.
fn conf() -> String {
    with_certificates("
        ssl_certificate {{tls}}/rsa.crt; ssl_certificate_key {{tls}}/rsa.key;
        ssl_certificate {{tls}}/ecdsa.crt; ssl_certificate_key {{tls}}/ecdsa.key;
        ssl_client_certificate {{tls}}/ca.crt; ssl_verify_client optional;
        log_format f '$server_protocol $status $ssl_client_verify';
        server { listen {{listen}} ssl; http2 on; server_name localhost; access_log {{dir}}/f.log f;
            location / { return 200 '$server_protocol $ssl_client_verify $ssl_client_s_dn $ssl_session_reused '; }
            location /big { proxy_pass http://{{listen2}}; } location /page/ { proxy_pass http://{{listen2}}/; } }
        server { listen {{listen}} ssl; server_name other.example.com; http2 on;
            ssl_certificate {{tls}}/ecdsa.crt; ssl_certificate_key {{tls}}/ecdsa.key; ssl_protocols TLSv1.2;
            location / { return 200 other; } }
        server { listen {{listen2}}; http2 on; root {{dir}}; default_type text/html;
            location ~ js$ { default_type application/javascript; return 200 'n++;'; } }")
}

/// curl with these arguments before its address: what it printed, and how it ended.
fn curl(s: &Subject, args: &[&str]) -> (Option<i32>, String) {
    let port = s.address("listen").port();
    let (resolve, url) = (
        format!("localhost:{port}:127.0.0.1"),
        format!("https://localhost:{port}"),
    );
    let authority = file("ca.crt");
    let common = [
        "-sS",
        "--resolve",
        &resolve,
        "--cacert",
        authority.to_str().unwrap(),
    ];
    let (path, args) = args.split_last().unwrap();
    let url = format!("{url}{path}");
    let all: Vec<&str> = common
        .into_iter()
        .chain(args.iter().copied())
        .chain([&*url])
        .collect();
    let output = run("curl", &all, "");
    (output.status.code(), text(&output))
}

/// Both versions of HTTP, a body of some length in each direction, and a client that shows who it is.
#[test]
fn curl_over_tls() {
    if !is_there("curl") {
        return;
    }
    let seen = both(&conf(), |s: &mut Subject| {
        std::fs::write(s.path("big"), vec![b'x'; 300_000]).unwrap();
        let (certificate, key) = (file("client.crt"), file("client.key"));
        let shown = [
            "--cert",
            certificate.to_str().unwrap(),
            "--key",
            key.to_str().unwrap(),
        ];
        let length = ["-o", "/dev/null", "-w", "%{http_version} %{size_download}"];
        [
            curl(s, &["--http1.1", "/"]),
            curl(s, &["--http2", "/"]),
            curl(s, &[&shown[..], &["--http1.1", "/"]].concat()),
            curl(s, &[&shown[..], &["--http2", "/"]].concat()),
            curl(s, &[&length[..], &["--http1.1", "/big"]].concat()),
            curl(s, &[&length[..], &["--http2", "/big"]].concat()),
            curl(s, &["--http2", "--tls-max", "1.2", "/"]),
        ]
    });
    let expected = [
        "HTTP/1.1 NONE  . ",
        "HTTP/2.0 NONE  . ",
        "HTTP/1.1 SUCCESS CN=client,O=headwater tests . ",
        "HTTP/2.0 SUCCESS CN=client,O=headwater tests . ",
        "1.1 300000",
        "2 300000",
        "HTTP/2.0 NONE  . ",
    ];
    assert_eq!(seen, expected.map(|text| (Some(0), text.to_owned())));
}

/// `openssl s_client`, with one request.
fn s_client(s: &Subject, args: &[&str]) -> String {
    let address = s.address("listen").to_string();
    let authority = file("ca.crt");
    let common = [
        "s_client",
        "-connect",
        &address,
        "-ign_eof",
        "-CAfile",
        authority.to_str().unwrap(),
    ];
    let request = "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n";
    text(&run("openssl", &[&common[..], args].concat(), request))
}

/// A session that openssl has kept is resumed, with either version of TLS.
#[test]
fn openssl_resumes_sessions() {
    if !is_there("openssl") {
        return;
    }
    let seen = both(&conf(), |s: &mut Subject| {
        ["-tls1_3", "-tls1_2"].map(|version| {
            let kept = s.path("session");
            let kept = kept.to_str().unwrap();
            let first = s_client(s, &[version, "-servername", "localhost", "-sess_out", kept]);
            let second = s_client(s, &[version, "-servername", "localhost", "-sess_in", kept]);
            [first, second].map(|text| {
                let is_reused = text.contains("\nReused, TLS");
                (
                    is_reused,
                    text.contains("HTTP/1.0 NONE  r "),
                    text.contains("Verify return code: 0 (ok)"),
                )
            })
        })
    });
    let expected = [(false, false, true), (true, true, true)];
    assert_eq!(seen, [expected, expected]);
}

/// The name that openssl asks for decides who answers, and in which version.
#[test]
fn openssl_asks_for_names() {
    if !is_there("openssl") {
        return;
    }
    let seen = both(&conf(), |s: &mut Subject| {
        let names = ["localhost", "other.example.com", "nobody.example.org"];
        names.map(|name| {
            let text = s_client(
                s,
                &[
                    "-servername",
                    name,
                    "-alpn",
                    "h2,http/1.1",
                    "-sigalgs",
                    "ECDSA+SHA256",
                ],
            );
            let version =
                ["TLSv1.3", "TLSv1.2"].map(|version| text.contains(&format!("\nNew, {version}, ")));
            (
                version,
                text.contains("ALPN protocol: h2"),
                text.contains("Peer signature type: ECDSA"),
            )
        })
    });
    let new = ([true, false], true, true);
    assert_eq!(seen, [new, ([false, true], true, true), new]);
}

/// nghttp gets a page and all that belongs to it on one connection, with TLS and without.
#[test]
fn nghttp_gets_a_page() {
    if !is_there("nghttp") {
        return;
    }
    let seen = both(&conf(), |s: &mut Subject| {
        write_page(s);
        let urls = [
            ("https", "listen", "/page/index.html"),
            ("http", "listen2", "/index.html"),
        ];
        urls.map(|(scheme, place, path)| {
            let url = format!("{scheme}://{}{path}", s.address(place));
            let text = text(&run("nghttp", &["-ansy", &url], ""));
            text.lines().filter(|line| line.contains(" 200 ")).count()
        })
    });
    assert_eq!(seen, [SCRIPTS + 1; 2]);
}

/// h2load has as many streams as it likes, and each ends well.
#[test]
fn h2load_has_no_failures() {
    if !is_there("h2load") {
        return;
    }
    let seen = both(&conf(), |s: &mut Subject| {
        std::fs::write(s.path("big"), vec![b'x'; 100_000]).unwrap();
        ["/", "/big"].map(|path| {
            let url = format!("https://{}{path}", s.address("listen"));
            let text = text(&run(
                "h2load",
                &["-n", "200", "-c", "4", "-m", "16", &url],
                "",
            ));
            let line = text.lines().find(|line| line.starts_with("requests:"));
            line.unwrap_or(&text).to_owned()
        })
    });
    let all =
        "requests: 200 total, 200 started, 200 done, 200 succeeded, 0 failed, 0 errored, 0 timeout";
    assert_eq!(seen, [all; 2]);
}

/// The page, in a file.
fn write_page(s: &Subject) {
    let script = |n: usize| format!("<script src=\"r{n}.js\"></script>\n");
    let scripts: String = (0..SCRIPTS).map(script).collect();
    let page = format!(
        "<!doctype html><html><head><title></title><script>n = 0</script>\n{scripts}</head><body><script>
        const kinds = performance.getEntriesByType('resource').map(entry => entry.nextHopProtocol);
        document.title = n + ' of ' + kinds.filter(kind => kind === 'h2').length;
        </script></body></html>"
    );
    std::fs::write(s.path("index.html"), page).unwrap();
}

/// A browser loads a page of fifty resources over HTTP/2.
#[test]
fn chromium_loads_a_page() {
    if !is_there("chromium") {
        return;
    }
    ours(&conf(), |s: &mut Subject| {
        write_page(s);
        let profile = format!("--user-data-dir={}", s.path("profile").display());
        let url = format!(
            "https://localhost:{}/page/index.html",
            s.address("listen").port()
        );
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            "--ignore-certificate-errors",
            "--dump-dom",
            &profile,
            &url,
        ];
        let output = run("chromium", &args, "");
        let (dom, words) = (text(&output), String::from_utf8_lossy(&output.stderr));
        let title = format!("<title>{SCRIPTS} of {SCRIPTS}</title>");
        assert!(dom.contains(&title), "{dom}{words}");
        let log = s.log("f.log", SCRIPTS + 1);
        assert!(
            log.iter().all(|line| line == "HTTP/2.0 200 NONE"),
            "{log:?}"
        );
    });
}
