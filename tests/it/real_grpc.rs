//! Calls of a real library, grpcio, to a server of the same, through headwater and through nginx. Without it they are
//! skipped, with a word.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::support::{
    Subject, both, ours,
    tls::{file, with_certificates},
};

/// A Python with grpcio: that of `HEADWATER_GRPCIO`, or where `scripts/grpcio` puts it.
///
/// # Panics
/// When the tests have to be whole (`HEADWATER_ORACLE_REQUIRED`) and it is missing.
fn python() -> Option<PathBuf> {
    let named = env::var_os("HEADWATER_GRPCIO").filter(|value| !value.is_empty());
    let found = named.map(PathBuf::from).or_else(installed);
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        assert!(
            env::var_os("HEADWATER_ORACLE_REQUIRED").is_none(),
            "grpcio is required and missing: run scripts/grpcio"
        );
        eprintln!("skipped: no grpcio");
    }
    found
}

/// `target/grpcio-*/bin/python`.
fn installed() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_headwater"))
        .parent()?
        .parent()?;
    let mut entries = fs::read_dir(target).ok()?.filter_map(Result::ok);
    let entry = entries.find(|entry| entry.file_name().to_string_lossy().starts_with("grpcio-"))?;
    Some(entry.path().join("bin/python"))
}

fn script(python: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(python);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grpc/calls.py");
    command.arg(script).args(words);
    command
}

/// A server, which ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(python: &Path) -> Self {
        let mut child = script(python, &["serve"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// What came of each kind of call.
fn calls(python: &Path, s: &Subject, name: &str, authority: Option<&Path>) -> Vec<String> {
    let address = s.address(name).to_string();
    let mut words = vec!["call", &*address];
    words.extend(authority.and_then(Path::to_str));
    let output = script(python, &words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn conf(port: u16) -> String {
    with_certificates(&format!(
        "upstream u {{ server 127.0.0.1:{port}; keepalive 4; }}
        http2 on;
        server {{ listen {{{{listen}}}}; location / {{ grpc_pass grpc://u; }} }}
        server {{ listen {{{{listen2}}}} ssl;
            ssl_certificate {{{{tls}}}}/rsa.crt; ssl_certificate_key {{{{tls}}}}/rsa.key;
            location / {{ grpc_pass grpc://u; }} }}"
    ))
}

#[test]
fn every_kind_of_call() {
    let Some(python) = python() else { return };
    let server = Server::start(&python);
    let authority = file("ca.crt");
    let (plain, secure) = both(&conf(server.port), |s: &mut Subject| {
        let plain = calls(&python, s, "listen", None);
        (plain, calls(&python, s, "listen2", Some(&authority)))
    });
    assert_eq!(plain, secure);
    let ok = "(5, True, [('x-early', '1'), ('x-late', '2')], 'OK')";
    assert_eq!(plain[0], format!("unary: {ok}"));
    assert_eq!(plain[9], format!("again: {ok}"));
    assert_eq!(plain[5], "both: ['ONE', 'TWO', 'THREE']");
    assert_eq!(
        plain[6],
        "deadline: DEADLINE_EXCEEDED: Deadline Exceeded []"
    );
    assert!(plain[7].starts_with("refused: NOT_FOUND: there is no such thing: 100 % sure"));
}

/// What a client is told when there is nobody to call.
#[test]
fn nobody_is_unavailable() {
    let Some(python) = python() else { return };
    let conf = conf(Server::start(&python).port);
    ours(&conf, |s: &mut Subject| {
        let told = calls(&python, s, "listen", None);
        assert_eq!(told[0], "unary: UNAVAILABLE: 502 Bad Gateway []");
        assert_eq!(told[7], "refused: UNAVAILABLE: 502 Bad Gateway []");
    });
}
