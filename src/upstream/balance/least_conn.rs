//! `least_conn`: the fewest connections per weight.
//!
//! Mirrors `ngx_http_upstream_get_least_conn_peer`.

use super::{
    Balancer, PickCx, Set,
    least::{self, Equals, NO_CANDIDATE},
};

/// `least_conn`
#[derive(Debug)]
pub(super) struct LeastConn;

impl Balancer for LeastConn {
    fn pick(&self, set: &mut Set<'_>, _cx: &mut PickCx<'_>) -> Option<usize> {
        let now = set.now;
        least::pick(set, Equals::Leader, |peer| {
            if peer.is_usable(now) {
                peer.conns.into()
            } else {
                NO_CANDIDATE
            }
        })
    }
}
