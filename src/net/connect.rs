//! Connections to peers.
//!
//! Mirrors `ngx_event_connect_peer` (`event/ngx_event_connect.c`): which options are set, in which order, and which
//! failure has which message and severity.

use std::{fmt, io, os::fd::OwnedFd};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::{
    io::Interest,
    net::{TcpStream, UnixStream},
};

use super::{Io, sockopt};
use crate::{
    common::{addr::Addr, errno::Errno},
    conf::model::Level,
};

/// What a connection to a peer is given before it is made.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// `proxy_bind`: address of our side.
    pub bind: Option<Addr>,
    /// `proxy_bind ... transparent`: `bind` need not be an address of this host.
    pub transparent: bool,
    /// `proxy_socket_keepalive`
    pub keepalive: bool,
    /// `proxy_socket_sndbuf`, bytes.
    pub sndbuf: Option<usize>,
    /// `proxy_socket_rcvbuf`, bytes.
    pub rcvbuf: Option<usize>,
}

/// Where a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectStep {
    /// No socket could be had.
    Socket,
    /// An option is refused; holds its name.
    Option(&'static str),
    /// Our side's address is refused.
    Bind(Addr),
    /// The system refused at once; holds the peer.
    Start(Addr),
    /// The peer refused, or the network did.
    Finish,
}

/// A connection that could not be made. The display is nginx's message.
#[derive(Debug)]
pub struct ConnectError {
    /// Where it failed.
    pub step: ConnectStep,
    /// What the system said.
    pub source: io::Error,
}

impl ConnectError {
    fn at(step: ConnectStep) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { step, source }
    }

    /// The severity of its line in the error log.
    pub fn level(&self) -> Level {
        let code = self.source.raw_os_error().unwrap_or(0);
        let common: &[i32] = match self.step {
            ConnectStep::Socket | ConnectStep::Option(_) | ConnectStep::Bind(_) => &[],
            ConnectStep::Start(_) => &START_ERRORS,
            ConnectStep::Finish => &NETWORK_ERRORS,
        };
        match self.step {
            _ if common.contains(&code) => Level::Error,
            ConnectStep::Bind(_) | ConnectStep::Start(_) => Level::Crit,
            ConnectStep::Socket | ConnectStep::Option(_) | ConnectStep::Finish => Level::Alert,
        }
    }

    /// Whether the peer is to blame; otherwise this host cannot connect to anyone (`ngx_event_connect_peer`
    /// returns an error and not a refusal).
    pub fn is_peer(&self) -> bool {
        matches!(self.step, ConnectStep::Start(_) | ConnectStep::Finish)
    }
}

/// ECONNREFUSED, EAGAIN, ECONNRESET, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH
const START_ERRORS: [i32; 7] = [111, 11, 104, 100, 101, 112, 113];
/// ECONNRESET, EPIPE, ENOTCONN, ETIMEDOUT, ECONNREFUSED, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH
const NETWORK_ERRORS: [i32; 9] = [104, 32, 107, 110, 111, 100, 101, 112, 113];

/// Whether an error of a connection is the network's or the other side's, and no surprise (`ngx_connection_error`).
pub fn is_network_error(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|code| NETWORK_ERRORS.contains(&code))
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = Errno(&self.source);
        match &self.step {
            ConnectStep::Socket => write!(f, "socket() failed ({source})"),
            ConnectStep::Option(name) => write!(f, "setsockopt({name}) failed ({source})"),
            ConnectStep::Bind(addr) => write!(f, "bind({addr}) failed ({source})"),
            ConnectStep::Start(addr) => write!(f, "connect() to {addr} failed ({source})"),
            ConnectStep::Finish => write!(f, "connect() failed ({source})"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Connects to `addr`. There is no time limit here.
pub async fn connect(addr: &Addr, options: &ConnectOptions) -> Result<Io, ConnectError> {
    let socket = prepare(addr, options, Type::STREAM)?;
    let target = sockaddr(addr).map_err(ConnectError::at(ConnectStep::Start(addr.clone())))?;
    let pending = match socket.connect(&target) {
        Ok(()) => false,
        Err(error) if in_progress(&error) => true,
        Err(error) => return Err(ConnectError::at(ConnectStep::Start(addr.clone()))(error)),
    };
    let io = register(addr, socket).map_err(ConnectError::at(ConnectStep::Socket))?;
    if pending {
        std::future::poll_fn(|cx| io.poll_write_ready(cx))
            .await
            .map_err(ConnectError::at(ConnectStep::Finish))?;
        // A connection that failed comes with EPOLLERR: where no event tells of one, the system need not be asked.
        let failed = match io.try_io(Interest::ERROR, || io.take_error()) {
            Ok(failed) => failed,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            return Err(ConnectError::at(ConnectStep::Finish)(error));
        }
    }
    Ok(io)
}

/// A socket whose datagrams go to `addr`, and which takes none from anyone else. Nobody is asked, so nobody can refuse.
pub fn connect_datagrams(addr: &Addr, options: &ConnectOptions) -> Result<Socket, ConnectError> {
    let socket = prepare(addr, options, Type::DGRAM)?;
    sockaddr(addr)
        .and_then(|target| socket.connect(&target))
        .map_err(ConnectError::at(ConnectStep::Start(addr.clone())))?;
    Ok(socket)
}

fn in_progress(error: &io::Error) -> bool {
    // EINPROGRESS. Unix sockets say EAGAIN when the listener's queue is full: that is a refusal.
    error.raw_os_error() == Some(115)
}

/// A non-blocking socket with its options set and its own address bound.
fn prepare(addr: &Addr, options: &ConnectOptions, kind: Type) -> Result<Socket, ConnectError> {
    let domain = match addr {
        Addr::Inet(addr) => Domain::for_address(*addr),
        Addr::Unix(_) => Domain::UNIX,
    };
    let socket = Socket::new(domain, kind.nonblocking(), None)
        .map_err(ConnectError::at(ConnectStep::Socket))?;
    let option = |name| ConnectError::at(ConnectStep::Option(name));
    if let Some(size) = options.rcvbuf {
        socket
            .set_recv_buffer_size(size)
            .map_err(option("SO_RCVBUF"))?;
    }
    if let Some(size) = options.sndbuf {
        socket
            .set_send_buffer_size(size)
            .map_err(option("SO_SNDBUF"))?;
    }
    if options.keepalive {
        socket.set_keepalive(true).map_err(option("SO_KEEPALIVE"))?;
    }
    if let Some(local) = &options.bind {
        bind_local(&socket, local, options.transparent, kind)?;
    }
    Ok(socket)
}

fn bind_local(
    socket: &Socket,
    local: &Addr,
    transparent: bool,
    kind: Type,
) -> Result<(), ConnectError> {
    if let Addr::Inet(addr) = local {
        if transparent {
            let set = if addr.is_ipv4() {
                socket.set_ip_transparent_v4(true)
            } else {
                socket.set_ip_transparent_v6(true)
            };
            set.map_err(ConnectError::at(ConnectStep::Option("IP_TRANSPARENT")))?;
        }
        if kind == Type::DGRAM && addr.port() != 0 {
            // Sessions with different peers may share it.
            socket
                .set_reuse_address(true)
                .map_err(ConnectError::at(ConnectStep::Option("SO_REUSEADDR")))?;
        }
        if kind == Type::STREAM && addr.port() == 0 {
            // The port is chosen at connect(), where it need only be unique for the peer.
            let _ignored = nix::sys::socket::setsockopt(&socket, sockopt::BindAddressNoPort, &true);
        }
    }
    sockaddr(local)
        .and_then(|addr| socket.bind(&addr))
        .map_err(ConnectError::at(ConnectStep::Bind(local.clone())))
}

/// Hands the socket over to tokio.
fn register(addr: &Addr, socket: Socket) -> io::Result<Io> {
    let fd = OwnedFd::from(socket);
    match addr {
        Addr::Inet(_) => TcpStream::from_std(fd.into()).map(Io::Tcp),
        Addr::Unix(_) => UnixStream::from_std(fd.into()).map(Io::Unix),
    }
}

/// The address for the system.
pub(super) fn sockaddr(addr: &Addr) -> io::Result<SockAddr> {
    match addr {
        Addr::Inet(addr) => Ok((*addr).into()),
        Addr::Unix(path) => SockAddr::unix(path),
    }
}
