//! What can be seen of a program from outside: its processes, its files, and what reached its backends.

use std::{
    fs,
    net::SocketAddr,
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::SockRef;

use super::{
    backend::Request,
    subject::{PATIENCE, Subject},
};

impl Subject {
    /// What `ps` shows of a process.
    pub(crate) fn title(&self, process: u32) -> String {
        let bytes = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let title = String::from_utf8_lossy(&bytes);
        self.mask(title.trim_end_matches('\0'))
    }

    /// How many bytes of memory its processes have for themselves: what is resident and not a page of a file.
    pub(crate) fn memory(&self) -> u64 {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        let page = u64::try_from(page.unwrap().unwrap()).unwrap();
        let own = |process: u32| {
            let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
            let pages: Vec<u64> = text.split(' ').flat_map(str::parse).collect();
            Some((pages[1] - pages[2]) * page)
        };
        let all = self.workers().into_iter().chain([self.process()]);
        all.filter_map(own).sum()
    }

    /// How many descriptors its workers have.
    pub(crate) fn descriptors(&self) -> usize {
        let count = |worker: u32| {
            let list = fs::read_dir(format!("/proc/{worker}/fd"));
            list.map_or(0, Iterator::count)
        };
        self.workers().into_iter().map(count).sum()
    }

    /// The workers' sockets with this address at the other end; None where the system lets nobody look.
    pub(crate) fn sockets(&self, other: SocketAddr) -> Option<Vec<OwnedFd>> {
        let mut found = Vec::new();
        for worker in self.workers() {
            let process = Pid::from_raw(worker.cast_signed()).unwrap();
            let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
            for entry in fs::read_dir(format!("/proc/{worker}/fd")).unwrap() {
                let number = entry.unwrap().file_name().into_string().unwrap();
                let number = number.parse().unwrap();
                let socket = match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
                    Ok(socket) => socket,
                    Err(rustix::io::Errno::BADF) => continue,
                    Err(_) => return None,
                };
                let peer = SockRef::from(&socket).peer_addr().ok();
                if peer.and_then(|peer| peer.as_socket()) == Some(other) {
                    found.push(socket);
                }
            }
        }
        Some(found)
    }

    /// `TCP_NODELAY` of the socket with this address at the other end, as [`Self::sockets`].
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn nodelay(&self, other: SocketAddr) -> Option<bool> {
        let sockets = self.sockets(other)?;
        let socket = sockets.first().expect("there is a connection");
        Some(SockRef::from(socket).tcp_nodelay().unwrap())
    }

    /// The processes that the master has started, in that order.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let master = self.process();
        let text = fs::read_to_string(format!("/proc/{master}/task/{master}/children"));
        let workers = text.unwrap();
        workers.split_whitespace().flat_map(str::parse).collect()
    }

    /// The backends that were asked, in order.
    pub(crate) fn hits(&self) -> String {
        let received = self.received.lock().unwrap();
        let names: Vec<&str> = received.iter().map(|request| &*request.to).collect();
        names.join(" ")
    }

    /// How many requests a backend got.
    pub(crate) fn count(&self, name: &str) -> usize {
        let received = self.received.lock().unwrap();
        received.iter().filter(|request| request.to == name).count()
    }

    /// What the backends got.
    pub(crate) fn received(&self) -> Vec<Request> {
        self.received.lock().unwrap().clone()
    }

    /// Forgets what the backends got.
    pub(crate) fn forget(&self) {
        self.received.lock().unwrap().clear();
    }

    pub(super) fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The lines of a log, as soon as there are so many.
    ///
    /// # Panics
    /// When there are never so many.
    pub(crate) fn log(&self, name: &str, lines: usize) -> Vec<String> {
        let text = self.wait_for(name, |text| text.lines().count() >= lines);
        assert!(
            text.lines().count() >= lines,
            "{name} has not {lines} lines: {text}"
        );
        text.lines().map(|line| self.mask(line)).collect()
    }

    /// What the error log says from `words` on, once it says so.
    ///
    /// # Panics
    /// When it never does.
    pub(crate) fn error(&self, words: &str) -> String {
        let text = self.wait_for("error.log", |text| {
            self.mask(text).lines().any(|line| line.contains(words))
        });
        let text = self.mask(&text);
        let line = text.lines().find(|line| line.contains(words));
        let Some(line) = line else {
            panic!("no '{words}' in the error log: {text}");
        };
        message(line)
    }

    /// How many lines of the error log say `words`, as soon as there are so many.
    ///
    /// # Panics
    /// When there are never so many.
    pub(crate) fn errors(&self, words: &str, lines: usize) -> usize {
        let count = |text: &str| text.lines().filter(|line| line.contains(words)).count();
        let found = count(&self.wait_for("error.log", |text| count(text) >= lines));
        assert!(found >= lines, "{found} times '{words}' in the error log");
        found
    }

    /// Waits until the backends have got so many requests.
    pub(crate) fn wait_hits(&self, count: usize) {
        self.until(|| self.received.lock().unwrap().len() >= count);
    }

    /// Waits until something holds.
    ///
    /// # Panics
    /// When it never does.
    #[expect(clippy::unused_self, reason = "it reads as part of the script")]
    pub(crate) fn until(&self, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "it never comes");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Lets time pass, where that is what a test is about.
    #[expect(clippy::unused_self, reason = "it reads as part of the script")]
    pub(crate) fn pause(&self, milliseconds: u64) {
        thread::sleep(Duration::from_millis(milliseconds));
    }

    fn wait_for(&self, name: &str, is_there: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.read(name);
            if is_there(&text) || Instant::now() > deadline {
                return text;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Puts names in the place of addresses and of the directory.
    pub(crate) fn mask(&self, text: &str) -> String {
        let text = text.replace(&*self.directory.path().to_string_lossy(), "<dir>");
        // The C library that nginx is linked with has other words.
        let mut text = text.replace("110: Operation timed out", "110: Connection timed out");
        for (name, place) in &self.places {
            let address = place.address();
            text = text
                .replace(&address.to_string(), &format!("<{name}>"))
                .replace(&format!(":{}", address.port()), &format!(":<{name}>"));
        }
        text
    }
}

/// The level and the message of a line of the error log, without time, process and connection.
fn message(line: &str) -> String {
    let Some((start, rest)) = line.split_once("] ") else {
        return line.to_owned();
    };
    let level = start.rsplit_once('[').map_or("", |(_, level)| level);
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit() || c == '*');
    let words = rest.split(' ').skip_while(|word| is_number(word));
    format!("[{level}] {}", words.collect::<Vec<_>>().join(" "))
}
