//! Socket addresses as nginx writes them: `127.0.0.1:80`, `[::1]:80`, `unix:/run/app.sock`.
//!
//! Mirrors `ngx_sock_ntop` (`core/ngx_inet.c`): the text is what `$upstream_addr` and error lines show.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
};

/// A place to connect to or to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Addr {
    /// IPv4 or IPv6 with its port.
    Inet(SocketAddr),
    /// A Unix domain socket by path; an empty path is an unnamed (client) socket.
    Unix(Arc<Path>),
}

impl Addr {
    /// The IP address, if it has one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Inet(addr) => Some(addr.ip()),
            Self::Unix(_) => None,
        }
    }

    /// The port, if it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Inet(addr) => Some(addr.port()),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for Addr {
    fn from(addr: SocketAddr) -> Self {
        Self::Inet(addr)
    }
}
