//! A connection to a peer.

use std::task::Context;

use crate::{common::clock::Now, net::Io};

/// A connection to a peer, new or from a pool.
#[derive(Debug)]
pub struct PeerConn {
    /// The socket.
    pub io: Io,
    /// When it was made.
    pub opened: Now,
    /// Requests that were sent over it.
    pub requests: u64,
    /// It comes from a pool.
    pub reused: bool,
}

impl PeerConn {
    /// A new connection.
    pub fn new(io: Io, now: Now) -> Self {
        Self {
            io,
            opened: now,
            requests: 0,
            reused: false,
        }
    }

    /// Whether nothing has arrived and the peer has not closed it; the context is woken when that changes.
    pub fn is_idle(&mut self, cx: &mut Context<'_>) -> bool {
        self.io.poll_arrived(cx).is_pending()
    }
}
