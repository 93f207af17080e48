//! One listening socket: bound, set up.
//!
//! Mirrors the inner part of `ngx_open_listening_sockets` and `ngx_configure_listening_sockets`
//! (`core/ngx_connection.c`), with their messages.

use std::{fs, io, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::{connect::sockaddr, listen::Report, sockopt as own};
use crate::{
    common::{addr::Addr, errno::Errno},
    conf::model::{Level, ListenOptions},
};

/// A message was reported and there is no way on.
pub(super) struct Reported;

/// A new listening socket; None when the address is in use. It is one of a `group` that shares the address.
pub(super) fn open(
    options: &ListenOptions,
    group: bool,
    testing: bool,
    report: Report<'_>,
) -> Result<Option<Socket>, Reported> {
    let addr = &options.addr;
    let mut fail = |what: &str, error: &io::Error| {
        report(
            Level::Emerg,
            format_args!("{what} failed ({})", Errno(error)),
        );
        Reported
    };
    let socket = create(options, group, testing).map_err(|(what, error)| fail(&what, &error))?;
    let target = sockaddr(addr).map_err(|error| fail(&format!("bind() to {addr}"), &error))?;
    for (what, result) in [
        (format!("bind() to {addr}"), socket.bind(&target)),
        (
            format!("listen() to {addr}, backlog {}", options.backlog),
            if options.udp {
                Ok(())
            } else {
                socket.listen(options.backlog)
            },
        ),
    ] {
        let Err(error) = result else {
            continue;
        };
        let in_use = error.kind() == io::ErrorKind::AddrInUse;
        if !(in_use && testing) {
            fail(&what, &error);
        }
        return if in_use { Ok(None) } else { Err(Reported) };
    }
    if let Addr::Unix(path) = addr {
        open_to_all(path, testing, report);
    }
    Ok(Some(socket))
}

/// A socket that is not bound yet. The error says what failed.
fn create(
    options: &ListenOptions,
    group: bool,
    testing: bool,
) -> Result<Socket, (String, io::Error)> {
    let addr = &options.addr;
    let at = |what: String| move |error| (what, error);
    let domain = match addr {
        Addr::Inet(addr) => Domain::for_address(*addr),
        Addr::Unix(_) => Domain::UNIX,
    };
    let protocol = options.multipath.then_some(Protocol::MPTCP);
    let kind = if options.udp {
        Type::DGRAM
    } else {
        Type::STREAM
    };
    let socket = Socket::new(domain, kind, protocol).map_err(at(format!("socket() {addr}")))?;
    // With it a test of the configuration would not notice that datagrams go to somebody else already.
    if !options.udp || !testing {
        socket
            .set_reuse_address(true)
            .map_err(at(format!("setsockopt(SO_REUSEADDR) {addr}")))?;
    }
    if group {
        socket
            .set_reuse_port(true)
            .map_err(at(format!("setsockopt(SO_REUSEPORT) {addr}")))?;
    }
    if domain == Domain::IPV6 {
        socket
            .set_only_v6(options.ipv6only)
            .map_err(at(format!("setsockopt(IPV6_V6ONLY) {addr}")))?;
    }
    socket
        .set_nonblocking(true)
        .map_err(at(format!("fcntl(O_NONBLOCK) {addr}")))?;
    Ok(socket)
}

/// Anybody may connect to a Unix socket; a test of the configuration leaves no file behind.
fn open_to_all(path: &Path, testing: bool, report: Report<'_>) {
    if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(0o666)) {
        let (path, error) = (path.display(), Errno(&error));
        report(
            Level::Emerg,
            format_args!("chmod() \"{path}\" failed ({error})"),
        );
    }
    if testing {
        delete(path, report);
    }
}

/// Sets what may change at each reload.
pub(super) fn set_options(socket: &Socket, options: &ListenOptions, report: Report<'_>) {
    set_buffers(socket, options, report);
    set_keepalive(socket, options, report);
    set_packet_info(socket, options, report);
    if let Some(queue) = options.fastopen {
        let what = format!("setsockopt(TCP_FASTOPEN, {queue}) {}", options.addr);
        let set = setsockopt(socket, own::FastOpen, &queue);
        ignored(&what, set.map_err(io::Error::from), report);
    }
}

/// Changes the length of the queue.
pub(super) fn set_backlog(socket: &Socket, options: &ListenOptions, report: Report<'_>) {
    let what = format!("listen() to {}, backlog {}", options.addr, options.backlog);
    ignored(&what, socket.listen(options.backlog), report);
}

/// Turns `deferred` on or off. There is no way to know how long a connection has waited, so the time is short.
pub(super) fn set_deferred(socket: &Socket, options: &ListenOptions, report: Report<'_>) {
    let value = i32::from(options.deferred);
    let what = format!("setsockopt(TCP_DEFER_ACCEPT, {value}) for {}", options.addr);
    let set = setsockopt(socket, own::DeferAccept, &value);
    ignored(&what, set.map_err(io::Error::from), report);
}

fn ignored(what: &str, result: io::Result<()>, report: Report<'_>) {
    if let Err(error) = result {
        report(
            Level::Alert,
            format_args!("{what} failed, ignored ({})", Errno(&error)),
        );
    }
}

fn set_buffers(socket: &Socket, options: &ListenOptions, report: Report<'_>) {
    let addr = &options.addr;
    if let Some(size) = options.rcvbuf {
        let what = format!("setsockopt(SO_RCVBUF, {size}) {addr}");
        ignored(&what, socket.set_recv_buffer_size(size), report);
    }
    if let Some(size) = options.sndbuf {
        let what = format!("setsockopt(SO_SNDBUF, {size}) {addr}");
        ignored(&what, socket.set_send_buffer_size(size), report);
    }
}

/// Lets datagrams to a wildcard address tell which address they were sent to.
fn set_packet_info(socket: &Socket, options: &ListenOptions, report: Report<'_>) {
    let addr = &options.addr;
    let (name, set) = match addr {
        Addr::Inet(inet) if !options.udp || !inet.ip().is_unspecified() => return,
        Addr::Inet(SocketAddr::V4(_)) => (
            "IP_PKTINFO",
            setsockopt(socket, sockopt::Ipv4PacketInfo, &true),
        ),
        Addr::Inet(SocketAddr::V6(_)) => (
            "IPV6_RECVPKTINFO",
            setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true),
        ),
        Addr::Unix(_) => return,
    };
    let what = format!("setsockopt({name}) for {addr}");
    ignored(&what, set.map_err(io::Error::from), report);
}

fn set_keepalive(socket: &Socket, options: &ListenOptions, report: Report<'_>) {
    let Some(keepalive) = options.so_keepalive else {
        return;
    };
    let addr = &options.addr;
    let what = format!(
        "setsockopt(SO_KEEPALIVE, {}) {addr}",
        i32::from(keepalive.on)
    );
    ignored(&what, socket.set_keepalive(keepalive.on), report);
    let mut times = TcpKeepalive::new();
    if let Some(idle) = keepalive.idle {
        times = times.with_time(idle);
    }
    if let Some(interval) = keepalive.interval {
        times = times.with_interval(interval);
    }
    if let Some(count) = keepalive.count {
        times = times.with_retries(count);
    }
    if keepalive.on {
        let what = format!("setsockopt(TCP_KEEPIDLE) {addr}");
        ignored(&what, socket.set_tcp_keepalive(&times), report);
    }
}

/// Removes the file of a Unix socket.
pub(super) fn delete(path: &Path, report: Report<'_>) {
    if let Err(error) = fs::remove_file(path) {
        let (path, error) = (path.display(), Errno(&error));
        report(
            Level::Emerg,
            format_args!("unlink() {path} failed ({error})"),
        );
    }
}
