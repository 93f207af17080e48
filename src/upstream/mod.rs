//! The balancing core: which peer serves a request, what is remembered of it, which idle connection is reused.
//!
//! Pure: no socket, no clock, no global source of random numbers. `now` is always a monotonic count of milliseconds
//! that the caller brings; whole seconds, where nginx counts those, are derived from it. Used by http and by stream.
//!
//! ```text
//! Tries::new(group) -> next() -> Lease -> connected / header / first_byte -> finish
//!                        ^                                                      |
//!                        +---- may_retry, or give_back of a stale connection ---+
//! ```
//! A [`Group`] is shared by all threads. Its peers' state is behind one mutex that is held for a pick or for a few
//! additions, never across anything that waits. A [`Lease`] that is dropped gives back what it took.
//!
//! Mirrors `ngx_http_upstream_round_robin.c` and its sisters, and `ngx_http_upstream_next` of nginx 1.31.5.

mod attempts;
mod average;
pub mod balance;
mod group;
pub mod keepalive;
mod lease;
mod live;
mod snapshot;
mod tries;

pub use attempts::{Attempt, Attempts};
pub use average::Average;
pub use group::{Group, Peer};
pub use lease::{Lease, Outcome, Released};
pub use snapshot::Snapshot;
pub use tries::{Limits, NoPeer, PickCx, Tries};

#[cfg(test)]
mod tests;
