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
    /// `udp` (stream): datagrams instead of connections.
    pub udp: bool,
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

/// One address and port, and the servers that answer there: those of `http`, or those of `stream`.
#[derive(Debug)]
pub struct Listen<S = Server> {
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
    pub default_server: Arc<S>,
    /// Names of the servers here; empty when there is one server without names to choose by.
    pub names: ServerNames<S>,
}

/// Server names in the order that nginx tries them: exact, longest leading wildcard, longest trailing wildcard, first regex.
#[derive(Debug)]
pub struct ServerNames<S = Server> {
    /// Lower-case names; `.example.com` stands here too.
    pub exact: std::collections::HashMap<Box<[u8]>, Arc<S>>,
    /// `*.example.com` as `.example.com`, longest first.
    pub leading: Vec<(Box<[u8]>, Arc<S>)>,
    /// `www.example.*` as `www.example.`, longest first.
    pub trailing: Vec<(Box<[u8]>, Arc<S>)>,
    /// `~pattern`, in order of appearance; matched against the lower-case host.
    pub regex: Vec<(BoundPattern, Arc<S>)>,
}

impl<S> ServerNames<S> {
    /// The server for `host` (lower case), with the pattern that matched if it was one; None when no name matches.
    pub fn find(&self, host: &[u8]) -> Option<(&Arc<S>, Option<&BoundPattern>)> {
        if let Some(server) = self.exact.get(host) {
            return Some((server, None));
        }
        let leading = self
            .leading
            .iter()
            .find(|(suffix, _)| host.len() > suffix.len() && host.ends_with(suffix));
        let wildcard = leading.or_else(|| {
            self.trailing
                .iter()
                .find(|(prefix, _)| host.len() > prefix.len() && host.starts_with(prefix))
        });
        if let Some((_, server)) = wildcard {
            return Some((server, None));
        }
        self.regex
            .iter()
            .find(|(bound, _)| bound.pattern.is_match(host))
            .map(|(bound, server)| (server, Some(bound)))
    }
}

impl<S> Default for ServerNames<S> {
    /// No names: there is nothing to choose by.
    fn default() -> Self {
        Self {
            exact: std::collections::HashMap::new(),
            leading: Vec::new(),
            trailing: Vec::new(),
            regex: Vec::new(),
        }
    }
}
