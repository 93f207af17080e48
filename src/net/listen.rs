//! Listening sockets: opening them, keeping them over a reload, accepting.
//!
//! Mirrors `ngx_open_listening_sockets` and `ngx_configure_listening_sockets` (`core/ngx_connection.c`) and the
//! matching of old and new sockets in `ngx_init_cycle` (`core/ngx_cycle.c`): a socket whose address is still wanted
//! stays open, so that no connection in its queue is lost.

use std::{
    fmt, io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use socket2::{Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::{
    Io,
    bind::{self, Reported},
    datagrams::Datagrams,
    sockopt,
};
use crate::{
    common::{addr::Addr, errno::Errno},
    conf::model::{Config, Level, Listen, ListenOptions},
};

/// Takes the messages about sockets.
pub type Report<'a> = &'a mut dyn FnMut(Level, fmt::Arguments<'_>);

/// How often an address in use is tried, and how long the pause is.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// The sockets that `listens` need, each once, in order of appearance. The position in this list is the number by
/// which a connection's socket is known.
pub fn sockets<S>(listens: &[Listen<S>]) -> Vec<&ListenOptions> {
    let mut sockets: Vec<&ListenOptions> = Vec::new();
    for listen in listens {
        let owner = listens
            .iter()
            .find(|other| is_behind(listen, &other.options))
            .unwrap_or(listen);
        if !sockets.iter().any(|socket| is_behind(listen, socket)) {
            sockets.push(&owner.options);
        }
    }
    sockets
}

/// Whether `socket` takes in what is sent to `listen`. Connections and datagrams have sockets of their own.
fn is_behind<S>(listen: &Listen<S>, socket: &ListenOptions) -> bool {
    listen.bind_addr == socket.addr && listen.options.udp == socket.udp
}

/// The sockets of a whole configuration: those of `http`, then those of `stream`.
pub fn all(config: &Config) -> Vec<&ListenOptions> {
    let http = config.http.iter().flat_map(|http| sockets(&http.listens));
    let stream = config.stream.iter();
    http.chain(stream.flat_map(|stream| sockets(&stream.listens)))
        .collect()
}

/// For each of the [`sockets`] the listens behind it, as indices into `listens`.
pub fn behind<S>(listens: &[Listen<S>]) -> Vec<Vec<usize>> {
    let of = |socket: &ListenOptions| {
        let listens = listens.iter().enumerate();
        let shared = listens.filter(|(_, listen)| is_behind(listen, socket));
        shared.map(|(index, _)| index).collect()
    };
    sockets(listens).into_iter().map(of).collect()
}

/// The listen that a connection came in at, among those `behind` its socket. `local` is asked only when several share it.
pub fn listen<'g, S>(
    listens: &'g [Listen<S>],
    behind: &[usize],
    local: impl FnOnce() -> Addr,
) -> Option<&'g Listen<S>> {
    if let [only] = behind {
        return listens.get(*only);
    }
    let local = local();
    let several = || behind.iter().filter_map(|index| listens.get(*index));
    let exact = several().find(|listen| listen.options.addr == local);
    let wildcard = || several().find(|listen| listen.options.addr == listen.bind_addr);
    exact.or_else(wildcard).or_else(|| several().next())
}

/// All listening sockets of a configuration, in the order of [`sockets`].
#[derive(Debug, Default)]
pub struct Listeners {
    list: Vec<Listener>,
}

/// Who opened a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This program.
    Here,
    /// The binary whose place this one takes; while it runs the file of a Unix socket is its own to delete.
    OlderBinary,
    /// A service manager, which keeps it open.
    Manager,
}

/// One address and its sockets: one, or with `reuseport` one for each thread.
///
/// For datagrams there is one for each thread in any case. The system chooses among them by both addresses, so that all
/// datagrams of a client come to the same thread, which alone knows its session: no session is split, and threads neither
/// share a table nor hand anything over.
// DIFFERS(udp-threads): nginx's workers share one socket without `reuseport`, and two of them may each have a session of
// the same client.
#[derive(Debug)]
struct Listener {
    addr: Addr,
    udp: bool,
    origin: Origin,
    backlog: i32,
    deferred: bool,
    sockets: Vec<Arc<Socket>>,
}

impl Listeners {
    /// Opens what `wanted` asks for; sockets of `previous` with the same address are used again. With `testing`
    /// (`-t`) an address in use is no error. None when it failed; why was reported.
    pub fn open(
        wanted: &[&ListenOptions],
        threads: usize,
        previous: &Self,
        testing: bool,
        report: Report<'_>,
    ) -> Option<Self> {
        let mut list: Vec<_> = wanted
            .iter()
            .map(|options| Listener::inherit(options, threads, previous, report))
            .collect();
        for _ in 0..TRIES {
            let mut failed = false;
            for (listener, options) in list.iter_mut().zip(wanted) {
                failed |= !listener.fill(options, threads, testing, report).ok()?;
            }
            if !failed {
                if !testing {
                    for (listener, options) in list.iter_mut().zip(wanted) {
                        listener.configure(options, report);
                    }
                }
                return Some(Self { list });
            }
            report(
                Level::Notice,
                format_args!("try again to bind() after 500ms"),
            );
            thread::sleep(PAUSE);
        }
        report(Level::Emerg, format_args!("still could not bind()"));
        None
    }

    /// Sockets that a process before this one left open, to be used by [`Self::open`].
    pub fn inherited(fds: Vec<OwnedFd>, origin: Origin, report: Report<'_>) -> Self {
        let mut listeners = Self::default();
        listeners.add(fds, origin, report);
        listeners
    }

    /// Adds more of them.
    pub fn add(&mut self, fds: Vec<OwnedFd>, origin: Origin, report: Report<'_>) {
        for fd in fds {
            let number = fd.as_raw_fd();
            match Listener::inherited(fd, origin) {
                Ok(new) => self.join(new),
                Err(error) => report(
                    Level::Crit,
                    format_args!(
                        "getsockname() of the inherited socket #{number} failed ({})",
                        Errno(&error)
                    ),
                ),
            }
        }
    }

    fn join(&mut self, new: Listener) {
        let same = |l: &&mut Listener| l.addr == new.addr && l.udp == new.udp;
        match self.list.iter_mut().find(same) {
            Some(listener) => listener.sockets.extend(new.sockets),
            None => self.list.push(new),
        }
    }

    /// The descriptors, for a new binary.
    pub fn fds(&self) -> Vec<RawFd> {
        let sockets = self.list.iter().flat_map(|listener| &listener.sockets);
        sockets.map(AsRawFd::as_raw_fd).collect()
    }

    /// Whether programs that are executed keep the sockets open.
    pub fn set_inheritable(&self, on: bool) -> io::Result<()> {
        let mut sockets = self.list.iter().flat_map(|listener| &listener.sockets);
        sockets.try_for_each(|socket| socket.set_cloexec(!on))
    }

    /// Thread number `thread`'s share of each socket. Needs tokio's context.
    pub fn acceptors(&self, thread: usize, threads: usize) -> io::Result<Vec<Vec<Acceptor>>> {
        self.list
            .iter()
            .map(|listener| {
                let count = listener.sockets.len();
                let shared = count == 1 && !listener.udp;
                listener
                    .sockets
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| shared || index % threads == thread)
                    .map(|(_, socket)| Acceptor::new(listener, socket))
                    .collect()
            })
            .collect()
    }

    /// Removes the files of Unix sockets that `kept` does not have; before this is dropped after a reload.
    pub fn retire(&self, kept: &Self, report: Report<'_>) {
        for Listener { addr, origin, .. } in &self.list {
            let gone = !kept.list.iter().any(|listener| listener.addr == *addr);
            if let (Addr::Unix(path), true) = (addr, gone && *origin != Origin::Manager) {
                report(
                    Level::Warn,
                    format_args!("deleting socket {}", path.display()),
                );
                bind::delete(path, report);
            }
        }
    }

    /// Removes the files of Unix sockets; before this is dropped at the end of the program. `has_older`: the binary whose
    /// sockets these were still runs.
    pub fn close(&self, has_older: bool, report: Report<'_>) {
        for Listener { addr, origin, .. } in &self.list {
            let is_ours = match origin {
                Origin::Here => true,
                Origin::OlderBinary => !has_older,
                Origin::Manager => false,
            };
            if let (Addr::Unix(path), true) = (addr, is_ours) {
                bind::delete(path, report);
            }
        }
    }
}

fn local_addr(socket: &Socket) -> io::Result<Addr> {
    let name = socket.local_addr()?;
    match name.as_socket() {
        Some(addr) => Ok(Addr::Inet(addr)),
        None => Ok(Addr::Unix(
            name.as_pathname().unwrap_or(Path::new("")).into(),
        )),
    }
}

impl Listener {
    /// A socket that was open before; its length of queue is unknown.
    fn inherited(fd: OwnedFd, origin: Origin) -> io::Result<Self> {
        let socket = Socket::from(fd);
        let addr = local_addr(&socket)?;
        socket.set_nonblocking(true)?;
        let udp = socket.r#type()? == Type::DGRAM;
        let deferred = !udp
            && nix::sys::socket::getsockopt(&socket, sockopt::DeferAccept)
                .is_ok_and(|seconds| seconds > 0);
        Ok(Self {
            addr,
            udp,
            origin,
            backlog: -1,
            deferred,
            sockets: vec![Arc::new(socket)],
        })
    }

    /// The sockets of `previous` for the address of `options`, if it has any.
    fn inherit(
        options: &ListenOptions,
        threads: usize,
        previous: &Listeners,
        report: Report<'_>,
    ) -> Self {
        let old = previous
            .list
            .iter()
            .find(|listener| listener.addr == options.addr && listener.udp == options.udp);
        let sockets = old.map_or(Vec::new(), |old| old.sockets.clone());
        if has_group(options, threads) {
            // Without it on the first socket no other can be bound beside it.
            for socket in &sockets {
                if let Err(error) = socket.set_reuse_port(true) {
                    report(
                        Level::Alert,
                        format_args!(
                            "setsockopt(SO_REUSEPORT) {} failed, ignored ({})",
                            options.addr,
                            Errno(&error)
                        ),
                    );
                }
            }
        }
        Self {
            addr: options.addr.clone(),
            udp: options.udp,
            origin: old.map_or(Origin::Here, |old| old.origin),
            backlog: old.map_or(options.backlog, |old| old.backlog),
            deferred: old.is_some_and(|old| old.deferred),
            sockets,
        }
    }

    /// Opens the sockets that are missing; false when the address is in use.
    fn fill(
        &mut self,
        options: &ListenOptions,
        threads: usize,
        testing: bool,
        report: Report<'_>,
    ) -> Result<bool, Reported> {
        let group = has_group(options, threads) && !testing;
        let wanted = if group { threads } else { 1 };
        while self.sockets.len() < wanted {
            match bind::open(options, group, testing, report)? {
                Some(socket) => self.sockets.push(Arc::new(socket)),
                None => return Ok(testing),
            }
        }
        Ok(true)
    }

    /// Sets what may change at each reload.
    fn configure(&mut self, options: &ListenOptions, report: Report<'_>) {
        for socket in &self.sockets {
            bind::set_options(socket, options, report);
            if self.backlog != options.backlog && !self.udp {
                bind::set_backlog(socket, options, report);
            }
            if self.deferred != options.deferred {
                bind::set_deferred(socket, options, report);
            }
        }
        self.backlog = options.backlog;
        self.deferred = options.deferred;
    }
}

/// Whether each thread has a socket of its own for an address.
fn has_group(options: &ListenOptions, threads: usize) -> bool {
    options.reuseport || options.udp && threads > 1
}

/// A thread's end of a listening socket.
#[derive(Debug)]
pub enum Acceptor {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix domain socket.
    Unix(UnixListener),
    /// UDP: nothing is accepted there.
    Udp(Datagrams),
}

impl Acceptor {
    fn new(listener: &Listener, socket: &Socket) -> io::Result<Self> {
        let fd = OwnedFd::from(socket.try_clone()?);
        match listener.addr {
            Addr::Inet(addr) if listener.udp => Datagrams::new(fd, addr).map(Self::Udp),
            Addr::Inet(_) => TcpListener::from_std(fd.into()).map(Self::Tcp),
            Addr::Unix(_) => UnixListener::from_std(fd.into()).map(Self::Unix),
        }
    }

    /// Whether there are datagrams and no connections.
    pub fn is_udp(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    /// The next connection, and who is at its other end; never one where there are datagrams.
    pub async fn accept(&self) -> io::Result<(Io, Addr)> {
        match self {
            Self::Udp(_) => std::future::pending().await,
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Io::Tcp(stream), Addr::Inet(peer)))
            }
            Self::Unix(listener) => {
                let (stream, peer) = listener.accept().await?;
                let path = peer.as_pathname().unwrap_or(Path::new(""));
                Ok((Io::Unix(stream), Addr::Unix(path.into())))
            }
        }
    }
}
