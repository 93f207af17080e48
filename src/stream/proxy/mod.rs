//! The proxy: a session with an upstream for a session with a client.
//!
//! ```text
//! target -> Tries { peer -> connection, perhaps TLS, or next try } -> PROXY header -> relay
//! ```
//! Mirrors `stream/ngx_stream_proxy_module.c`.

mod bulk;
pub(super) mod connect;
pub(super) mod rate;
pub(super) mod relay;
pub(super) mod target;
mod tls;
mod way;

use std::sync::Arc;

use super::session::Session;
use crate::{common::clock, net::Io};

/// Proxies the session; its status.
pub(super) async fn run(s: &mut Session<'_, Io>) -> u16 {
    let start = clock::wall().secs;
    s.upstream = Some(Arc::from(""));
    match Box::pin(peer(s)).await {
        Ok(peer) => relay::run(s, peer, start).await,
        Err(status) => status,
    }
}

/// A connection to an upstream, or the status that stands for its failure.
async fn peer(s: &mut Session<'_, Io>) -> Result<connect::Peer, u16> {
    let bind = connect::bind(s);
    let group = target::find(s).await?;
    connect::run(s, group, bind).await
}
