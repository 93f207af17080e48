//! A program under test, headwater or nginx, with one configuration in a directory of its own.

use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid},
};
use tempfile::TempDir;

use super::{
    backend::{self, Conn, Received},
    client::{Client, Response},
    h2::H2,
    ports::{self, Place},
    udp::{self, Datagrams},
};

/// How long a program may take to start, to stop, and to write a log line.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Which program.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// The one that was built here.
    Headwater,
    /// The oracle.
    Nginx(PathBuf),
}

impl Program {
    fn path(&self) -> &Path {
        match self {
            Self::Headwater => Path::new(env!("CARGO_BIN_EXE_headwater")),
            Self::Nginx(path) => path,
        }
    }
}

/// A running program. In its configuration `{{listen}}`, `{{listen2}}` … are addresses of its own, `{{refused}}` …
/// refuse connections, `{{dir}}` is its directory, and every other name is a backend, which must be given a script with
/// [`Subject::backend`] before it is asked.
pub(crate) struct Subject {
    program: Program,
    /// A command that becomes the program, as somebody else.
    under: Vec<String>,
    pub(super) directory: TempDir,
    pub(super) places: BTreeMap<String, Place>,
    has_streams: bool,
    pub(super) received: Received,
    pub(super) child: Option<Child>,
    /// The master that has come beside the first, or taken its place.
    newer: Option<u32>,
    shell: Option<Shell>,
}

/// What a shell does before it becomes the program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shell {
    /// Commands; `{{dir}}` is the program's directory.
    pub(crate) commands: &'static str,
    /// The name of an address that listens already, on the shell's standard input.
    pub(crate) activated: Option<&'static str>,
}

impl Subject {
    /// Starts a program and waits until it accepts connections; `under` is the command in front of its own, if any.
    pub(crate) fn start(program: &Program, under: &[&str], conf: &str) -> Self {
        // Another program may take a port between the choice and the start.
        let mut last = String::new();
        for _ in 0..3 {
            let mut subject = Self::new(program.clone(), conf);
            subject.put_under(under);
            match subject.launch() {
                Ok(()) => return subject,
                Err(text) => last = text,
            }
        }
        panic!("{program:?} does not start: {last}")
    }

    /// A program that is not running, for [`Subject::check`].
    pub(crate) fn new(program: Program, conf: &str) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("headwater-test-")
            .tempdir()
            .unwrap();
        for name in ["logs", "html"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let (conf, places) = ports::fill(&whole(conf));
        let here = directory.path().to_str().unwrap();
        fs::write(
            directory.path().join("test.conf"),
            conf.replace("{{dir}}", here),
        )
        .unwrap();
        Self {
            program,
            under: Vec::new(),
            directory,
            places,
            has_streams: has_streams(&conf),
            received: Received::default(),
            child: None,
            newer: None,
            shell: None,
        }
    }

    /// Opens the directory to everybody, with a copy of the program: its own place may be ours alone.
    fn put_under(&mut self, command: &[&str]) {
        if command.is_empty() {
            return;
        }
        for name in ["", "logs", "html"] {
            let all = fs::Permissions::from_mode(0o777);
            fs::set_permissions(self.path(name), all).unwrap();
        }
        fs::copy(self.program.path(), self.path("program")).unwrap();
        let command = command.iter().map(|&word| word.to_owned());
        let copy = self.path("program").display().to_string();
        self.under = command.chain([copy]).collect();
    }

    /// Starts headwater out of a shell.
    pub(crate) fn start_in(shell: Shell, conf: &str) -> Self {
        let mut subject = Self::new(Program::Headwater, conf);
        subject.shell = Some(shell);
        subject.launch().unwrap();
        subject
    }

    /// The program, or what becomes it.
    fn program(&self) -> Command {
        if let [first, rest @ ..] = self.under.as_slice() {
            let mut command = Command::new(first);
            command.args(rest).stdin(Stdio::null());
            return command;
        }
        let Some(shell) = self.shell else {
            let mut command = Command::new(self.program.path());
            command.stdin(Stdio::null());
            return command;
        };
        let mut command = Command::new("sh");
        let here = self.directory.path().to_str().unwrap();
        let commands = shell.commands.replace("{{dir}}", here);
        command
            .args(["-c", &format!("{commands} exec \"$0\" \"$@\"")])
            .arg(self.program.path());
        command.stdin(match shell.activated {
            None => Stdio::null(),
            Some(name) => {
                OwnedFd::from(TcpListener::bind(self.places[name].address()).unwrap()).into()
            }
        });
        command
    }

    fn command(&self) -> Command {
        let mut command = self.program();
        command
            .arg("-p")
            .arg(format!("{}/", self.directory.path().display()))
            .args(["-c", "test.conf", "-e", "error.log"])
            .current_dir(self.directory.path());
        command
    }

    fn launch(&mut self) -> Result<(), String> {
        let stderr = fs::File::create(self.path("stderr")).unwrap();
        let mut child = self
            .command()
            .args(["-g", "daemon off;"])
            .stdout(stderr.try_clone().unwrap())
            .stderr(stderr)
            .spawn()
            .map_err(|error| error.to_string())?;
        let deadline = Instant::now() + PATIENCE;
        while !self.accepts() {
            let ended = child.try_wait().unwrap().is_some();
            if ended || Instant::now() > deadline {
                child.kill().ok();
                child.wait().ok();
                return Err(self.read("stderr"));
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.child = Some(child);
        // Signals are for a program that has come this far.
        self.errors("start worker process ", 1);
        Ok(())
    }

    /// Whether the program accepts connections. To streams a connection would be a session: there its word counts.
    fn accepts(&self) -> bool {
        if self.has_streams {
            return self.read("error.log").contains("start worker process ");
        }
        let mut addresses = self.places.values().filter_map(|place| match place {
            Place::Listen(address, _) => Some(address),
            _ => None,
        });
        addresses.all(|address| TcpStream::connect(address).is_ok())
    }

    /// Ends the program as an operator would.
    ///
    /// # Panics
    /// When it does not end, fails, or has panicked.
    pub(crate) fn stop(mut self) {
        // A script may have ended it already.
        let status = self.child.is_some().then(|| self.end());
        let words = self.read("stderr");
        assert!(!words.contains("panicked"), "{words}");
        let failed = status.is_some_and(|code| code != Some(0));
        assert!(!failed, "{status:?} {words}{}", self.read("error.log"));
    }

    /// Sends a signal to the master.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process().cast_signed()), signal).unwrap();
    }

    /// USR2: the number of the new master, once it serves; [`Self::signal`] still goes to the old one.
    pub(crate) fn upgrade(&mut self) -> u32 {
        let started = self.errors("start worker process ", 0);
        let old = self.pid("test.pid");
        self.signal(Signal::SIGUSR2);
        self.until(|| self.pid("test.pid").is_some_and(|pid| Some(pid) != old));
        self.errors("start worker process ", started + 1);
        self.newer = self.pid("test.pid");
        self.newer.unwrap()
    }

    /// Sends a signal to the new master.
    pub(crate) fn signal_newer(&self, signal: Signal) {
        let pid = self.newer.expect("there is a newer one");
        kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
    }

    /// The number in a pid file.
    pub(crate) fn pid(&self, name: &str) -> Option<u32> {
        self.read(name).trim().parse().ok()
    }

    /// Waits for the end that a signal asked for: the exit code; None when it does not come.
    pub(crate) fn wait_end(&mut self) -> Option<i32> {
        let child = self.child.as_mut()?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = child.try_wait() {
                self.child = None;
                return status.code();
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// TERM, and the exit code; None when it had to be killed.
    fn end(&mut self) -> Option<i32> {
        let pid = self.child.as_ref()?.id();
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM).ok();
        let code = self.wait_end();
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
        code
    }

    /// Runs the program with more arguments (`-t`): its exit code and its words.
    pub(crate) fn check(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command().args(arguments).output().unwrap();
        let words = [stdout, stderr].concat();
        (status.code(), self.mask(&String::from_utf8_lossy(&words)))
    }

    /// Starts the program with `daemon on`: what the command said, and that a service is left behind.
    pub(crate) fn launch_daemon(&mut self) -> (Option<i32>, String) {
        let ended = self.check(&["-g", "daemon on;"]);
        self.newer = self.pid("test.pid");
        ended
    }

    /// A file in the program's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The number of the master's process.
    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Whether it is the oracle.
    pub(crate) fn is_nginx(&self) -> bool {
        matches!(self.program, Program::Nginx(_))
    }

    /// Takes all places in a backend's queue, so that connecting to it gets no answer.
    pub(crate) fn fill_backlog(&self, name: &str) -> Vec<TcpStream> {
        let Place::Backend(address, listener) = &self.places[name] else {
            panic!("{name} is no backend");
        };
        nix::sys::socket::listen(listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
        let moment = Duration::from_millis(20);
        let connect = || TcpStream::connect_timeout(address, moment).ok();
        std::iter::from_fn(connect).collect()
    }

    /// The address behind a name of the configuration.
    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        self.places[name].address()
    }

    /// Gives a backend its behaviour, a thread per connection.
    pub(crate) fn backend(
        &mut self,
        name: &str,
        script: impl Fn(&mut Conn) + Send + Sync + 'static,
    ) {
        let Place::Backend(_, listener) = &self.places[name] else {
            panic!("{name} is no backend");
        };
        let listener = listener.try_clone().unwrap();
        backend::serve(name, listener, self.received.clone(), script);
    }

    /// Gives a backend for datagrams its behaviour.
    pub(crate) fn udp_backend(
        &mut self,
        name: &str,
        script: impl FnMut(&UdpSocket, &[u8], SocketAddr) + Send + 'static,
    ) {
        let Place::UdpBackend(_, socket) = &self.places[name] else {
            panic!("{name} is no backend for datagrams");
        };
        udp::serve(socket.try_clone().unwrap(), script);
    }

    /// A socket of a client for an address of the configuration.
    pub(crate) fn datagrams(&self, name: &str) -> Datagrams {
        Datagrams::new(self.address(name))
    }

    /// Lets backends answer 200 with their names, after so many milliseconds.
    pub(crate) fn backends(&mut self, list: &[(&str, u64)]) {
        for &(name, delay) in list {
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Backend: {name}\r\n\r\n{name}",
                name.len()
            );
            self.backend(name, move |conn| {
                while conn.request().is_some() {
                    conn.pause(delay);
                    conn.write(&answer);
                }
            });
        }
    }

    /// A new connection to `{{listen}}`.
    pub(crate) fn connect(&self) -> Client {
        self.connect_to("listen")
    }

    /// A new connection to an address of the configuration.
    pub(crate) fn connect_to(&self, name: &str) -> Client {
        Client::new(self.address(name))
    }

    /// A new connection to `{{listen}}` that speaks HTTP/2.
    pub(crate) fn h2(&self) -> H2 {
        H2::new(self.address("listen"))
    }

    /// GET on a connection of its own.
    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask("GET", target, "")
    }

    /// A request with a body (may be empty) on a connection of its own.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> Response {
        let length = match body.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}\r\n{body}"
        );
        let mut client = self.connect();
        client.send(request);
        if method == "HEAD" {
            client.head()
        } else {
            client.response()
        }
    }

    /// So many GETs one after the other; their statuses.
    pub(crate) fn gets(&self, count: usize, target: &str) -> Vec<u16> {
        (0..count).map(|_| self.get(target).status()).collect()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.end();
        // It removes its pid file when it ends by itself.
        if self.newer.is_some() && self.pid("test.pid") == self.newer {
            self.signal_newer(Signal::SIGTERM);
            let deadline = Instant::now() + PATIENCE;
            while self.path("test.pid").exists() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Whether there is a `stream` block.
fn has_streams(conf: &str) -> bool {
    conf.contains("stream {")
}

/// Puts a configuration of `http` alone, or one with a `stream` block, into a whole file.
fn whole(conf: &str) -> String {
    let user = if Uid::effective().is_root() {
        "user root;"
    } else {
        ""
    };
    let main = format!("{user} pid {{{{dir}}}}/test.pid; error_log {{{{dir}}}}/error.log info;");
    if conf.contains("\npid ") {
        return conf.to_owned();
    }
    if conf.contains("events {") {
        return format!("{main}\n{conf}");
    }
    if has_streams(conf) {
        return format!("{main}\nevents {{ worker_connections 1024; }}\n{conf}");
    }
    let temp = "client_body_temp_path {{dir}}/client_body; proxy_temp_path {{dir}}/proxy;";
    format!(
        "{main}\nevents {{ worker_connections 1024; }}\nhttp {{\naccess_log off; {temp}\n{conf}\n}}\n"
    )
}
