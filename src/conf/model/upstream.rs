//! `upstream` blocks and the implicit ones of `proxy_pass http://address`.

use std::{sync::Arc, time::Duration};

use crate::{common::addr::Addr, vars::Template};

/// A group of servers.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Its name, as written; for an implicit one the host and port of `proxy_pass`.
    pub name: Arc<str>,
    /// Its port; 0 for an `upstream` block or a Unix socket.
    pub port: u16,
    /// Whether there is an `upstream` block.
    pub explicit: bool,
    /// The servers, in order.
    pub servers: Vec<UpstreamServer>,
    /// How a peer is picked.
    pub method: Method,
    /// `zone`: its name and size in bytes.
    pub zone: Option<(Arc<str>, u64)>,
    /// The pool of idle connections; None when there is none.
    pub keepalive: Option<Keepalive>,
}

impl Upstream {
    /// Whether an address that is known at run time only means this group.
    pub fn is_named(&self, host: &[u8], port: u16, has_port: bool) -> bool {
        self.name.as_bytes().eq_ignore_ascii_case(host)
            && ((self.port == 0 && !has_port) || self.port == port)
    }
}

/// One `server` of a group; it has a peer for each address.
#[derive(Clone, Debug)]
pub struct UpstreamServer {
    /// The argument as written, e.g. `127.0.0.1:8080` or `unix:/run/a.sock`; consistent hashing uses it.
    pub name: Arc<str>,
    /// What the name resolved to when the configuration was read.
    pub addrs: Vec<Addr>,
    /// `weight`, 1 or more.
    pub weight: u32,
    /// `max_fails`, 1 by default, 0 = never benched.
    pub max_fails: u32,
    /// `fail_timeout`, whole seconds, 10 by default.
    pub fail_timeout: Duration,
    /// `max_conns`, 0 = no limit.
    pub max_conns: u32,
    /// `down`
    pub down: bool,
    /// `backup`
    pub backup: bool,
}

impl UpstreamServer {
    /// A server without parameters.
    pub fn new(name: Arc<str>, addrs: Vec<Addr>) -> Self {
        Self {
            name,
            addrs,
            weight: 1,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            max_conns: 0,
            down: false,
            backup: false,
        }
    }
}

/// Balancing method.
#[derive(Clone, Debug)]
pub enum Method {
    /// Smooth weighted round robin.
    RoundRobin,
    /// `least_conn`
    LeastConn,
    /// `least_time`
    LeastTime {
        /// Which time counts.
        mode: LeastTimeMode,
        /// Whether unfinished requests count too.
        inflight: bool,
    },
    /// `hash`
    Hash {
        /// What is hashed.
        key: Template,
        /// ketama
        consistent: bool,
    },
    /// `ip_hash`
    IpHash,
    /// `random`
    Random {
        /// `two`: the better of two.
        two: bool,
    },
}

/// First argument of `least_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeastTimeMode {
    /// `header` (http)
    Header,
    /// `connect` (stream)
    Connect,
    /// `first_byte` (stream)
    FirstByte,
    /// `last_byte`
    LastByte,
}

/// `keepalive N [local]` and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle connections a thread keeps.
    pub connections: usize,
    /// Whether locations do not share connections.
    pub local: bool,
    /// `keepalive_requests`
    pub requests: u64,
    /// `keepalive_time`
    pub time: Duration,
    /// `keepalive_timeout`
    pub timeout: Duration,
}
