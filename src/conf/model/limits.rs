//! `limit_conn`: how many at once may share a key; `limit_req`: how fast requests with a key may come.
//!
//! Mirrors `ngx_stream_limit_conn_module.c`, `ngx_http_limit_conn_module.c` and `ngx_http_limit_req_module.c`.

use std::sync::Arc;

use super::Level;
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
    /// Index of the zone among the [`LimitZone`]s of `http` or `stream` ([`Stream::limit_zones`](super::Stream::limit_zones)).
    pub zone: usize,
    /// How many may share a key, 1 to 65535.
    pub connections: u32,
}

/// `limit_req_zone`: a table of keys and how fast requests of each come.
#[derive(Clone, Debug)]
pub struct RateZone {
    /// The table.
    pub zone: LimitZone,
    /// The key as written: a table is taken over from an older configuration only with the same.
    pub key_text: String,
    /// Thousandths of a request a second, 1 or more.
    pub rate: u64,
}

/// One `limit_req`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReq {
    /// Index of the zone in [`Http::rate_zones`](super::Http::rate_zones).
    pub zone: usize,
    /// How much may be in the bucket besides the request, thousandths of a request.
    pub burst: u64,
    /// How much of that makes nobody wait (`delay=`, `nodelay`).
    pub delay: u64,
}

layered! {
    /// Limits of a location.
    pub struct Limits / LimitsDraft {
        /// `limit_conn`
        conn: Arc<[LimitConn]> = Arc::from([]),
        /// `limit_conn_log_level`
        conn_log_level: Level = Level::Error,
        /// `limit_conn_status`
        conn_status: u16 = 503,
        /// `limit_conn_dry_run`
        conn_dry_run: bool = false,
        /// `limit_req`
        req: Arc<[LimitReq]> = Arc::from([]),
        /// `limit_req_log_level`
        req_log_level: Level = Level::Error,
        /// `limit_req_status`
        req_status: u16 = 503,
        /// `limit_req_dry_run`
        req_dry_run: bool = false,
    }
}
