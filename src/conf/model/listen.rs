//! `listen` and which server answers there.

use std::{sync::Arc, time::Duration};

use super::Server;
use crate::{common::addr::Addr, vars::BoundPattern};

/// Options of a listening socket (`listen`'s parameters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Address to bind.
    pub addr: Addr,
    /// `backlog`; 511 by default.
    pub backlog: i32,
    /// `rcvbuf`, bytes.
    pub rcvbuf: Option<usize>,
    /// `sndbuf`, bytes.
    pub sndbuf: Option<usize>,
    /// `ipv6only`; on by default.
    pub ipv6only: bool,
    /// `reuseport`: a socket of its own for each thread.
    pub reuseport: bool,
    /// `deferred`
    pub deferred: bool,
    /// `fastopen`
    pub fastopen: Option<i32>,
    /// `setfib`, FreeBSD only; `accept_filter` likewise is refused on Linux.
    pub bind: bool,
    /// `so_keepalive`
    pub so_keepalive: Option<SoKeepalive>,
    /// `multipath`
    pub multipath: bool,
}

/// `so_keepalive=on|off|[keepidle]:[keepintvl]:[keepcnt]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoKeepalive {
    /// On or off.
    pub on: bool,
    /// `TCP_KEEPIDLE`
    pub idle: Option<Duration>,
    /// `TCP_KEEPINTVL`
    pub interval: Option<Duration>,
    /// `TCP_KEEPCNT`
    pub count: Option<u32>,
}

/// One address and port, and the servers that answer there.
#[derive(Clone, Debug)]
pub struct Listen {
    /// The socket. Several `Listen` may share a wildcard socket of the same port: then [`Listen::bind_addr`] differs
    /// from the address asked for and the local address of a connection decides (`ngx_http_add_addrs`).
    pub options: ListenOptions,
    /// The address whose socket accepts for this one; equals `options.addr` unless a wildcard covers it.
    pub bind_addr: Addr,
    /// `ssl`
    pub ssl: bool,
    /// `http2` on the listen line.
    pub http2: bool,
    /// `quic`
    pub quic: bool,
    /// `proxy_protocol`
    pub proxy_protocol: bool,
    /// The server for a host that no name matches.
    pub default_server: Arc<Server>,
    /// Names of the servers here; empty when there is one server without names to choose by.
    pub names: ServerNames,
}

/// Server names in the order that nginx tries them: exact, longest leading wildcard, longest trailing wildcard, first regex.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    /// Lower-case names; `.example.com` stands here too.
    pub exact: std::collections::HashMap<Box<[u8]>, Arc<Server>>,
    /// `*.example.com` as `.example.com`, longest first.
    pub leading: Vec<(Box<[u8]>, Arc<Server>)>,
    /// `www.example.*` as `www.example.`, longest first.
    pub trailing: Vec<(Box<[u8]>, Arc<Server>)>,
    /// `~pattern`, in order of appearance; matched against the lower-case host.
    pub regex: Vec<(BoundPattern, Arc<Server>)>,
}
