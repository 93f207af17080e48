//! `limit_conn`: how many at once may share a key.
//!
//! Mirrors `ngx_stream_limit_conn_module.c` and `ngx_http_limit_conn_module.c`.

use std::sync::Arc;

use crate::vars::Template;

/// `limit_conn_zone`: a table of keys and how many there are of each.
#[derive(Clone, Debug)]
pub struct LimitZone {
    /// Its name.
    pub name: Arc<str>,
    /// What is counted by; an empty key is not limited.
    pub key: Template,
    /// How much memory the table may take, bytes.
    pub size: u64,
}

/// One `limit_conn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitConn {
    /// Index of the zone among the [`LimitZone`]s of `stream` ([`Stream::limit_zones`](super::Stream::limit_zones)).
    pub zone: usize,
    /// How many may share a key, 1 to 65535.
    pub connections: u32,
}
