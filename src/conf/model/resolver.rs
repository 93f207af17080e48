//! `resolver`

use std::{net::SocketAddr, time::Duration};

/// Servers that resolve names while running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// The servers, at least one.
    pub servers: Vec<SocketAddr>,
    /// How long answers are good for, whatever they say themselves.
    pub valid: Option<Duration>,
    /// Whether IPv4 addresses are asked for.
    pub ipv4: bool,
    /// Whether IPv6 addresses are asked for.
    pub ipv6: bool,
}
