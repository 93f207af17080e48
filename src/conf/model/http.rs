//! `http` and `server`.

use std::{path::Path, sync::Arc, time::Duration};

use super::{Http2, LimitZone, Listen, Location, Op, RateZone, Ssl, Upstream};
use crate::vars::BoundPattern;
pub use crate::vars::{Slot, SlotSource};

/// `http { }`
#[derive(Debug)]
pub struct Http {
    /// All servers, in order.
    pub servers: Vec<Arc<Server>>,
    /// All addresses to listen on, each with its servers.
    pub listens: Vec<Listen>,
    /// Explicit and implicit groups; `proxy_pass` refers to them by index.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Variables of the configuration; [`SlotId`](crate::vars::SlotId) is the index.
    pub slots: Vec<Slot>,
    /// Every `limit_conn_zone`; [`LimitConn::zone`](super::LimitConn::zone) is the index.
    pub limit_zones: Vec<LimitZone>,
    /// Every `limit_req_zone`; [`LimitReq::zone`](super::LimitReq::zone) is the index.
    pub rate_zones: Vec<RateZone>,
    /// The settings of the `http` block itself.
    pub location: Arc<Location>,
}

layered! {
    /// Directives of the core module that stop at `server`.
    pub struct ServerCore / ServerCoreDraft {
        /// `connection_pool_size`, bytes; no meaning here.
        connection_pool_size: usize = 512,
        /// `request_pool_size`, bytes; no meaning here.
        request_pool_size: usize = 4096,
        /// `client_header_timeout`
        client_header_timeout: Duration = Duration::from_mins(1),
        /// `client_header_buffer_size`, bytes.
        client_header_buffer_size: usize = 1024,
        /// `large_client_header_buffers`: number and size.
        large_client_header_buffers: (usize, usize) = (4, 8192),
        /// `max_headers`
        max_headers: usize = 1000,
        /// `ignore_invalid_headers`
        ignore_invalid_headers: bool = true,
        /// `merge_slashes`
        merge_slashes: bool = true,
        /// `underscores_in_headers`
        underscores_in_headers: bool = false,
    }
}

/// `server { }`
#[derive(Debug)]
pub struct Server {
    /// First `server_name` (`$server_name`); empty when there is none.
    pub name: Arc<str>,
    /// All names.
    pub names: Vec<ServerName>,
    /// Core settings.
    pub core: ServerCore,
    /// `ssl_*`
    pub ssl: Arc<Ssl>,
    /// `http2`
    pub http2: Http2,
    /// Settings that hold where no location does, with the location tree in `children`.
    pub location: Arc<Location>,
    /// Rewrite directives of the server itself.
    pub rewrite: Vec<Op>,
    /// Named locations: `@name` with the `@`.
    pub named: Vec<(Box<[u8]>, Arc<Location>)>,
    /// File and line of the block, for messages.
    pub origin: (Arc<Path>, usize),
}

/// One name of `server_name`.
#[derive(Clone, Debug)]
pub enum ServerName {
    /// A name, lower case; may be empty; `*.x`, `x.*` and `.x` as written.
    Name(Box<str>),
    /// `~pattern`
    Regex(Box<BoundPattern>),
}
