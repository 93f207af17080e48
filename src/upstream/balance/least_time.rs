//! `least_time`: the least estimated time until a peer would be done with one more request.
//!
//! Mirrors `ngx_http_upstream_get_least_time_peer` and `ngx_http_upstream_least_time_eta`.

use crate::conf::model::LeastTimeMode;

use super::{
    Balancer, Live, PickCx, Set,
    least::{self, Equals},
};

/// `least_time`
#[derive(Debug)]
pub(super) struct LeastTime {
    /// Which average counts.
    pub(super) mode: LeastTimeMode,
}

/// Peers slower than this are equally bad, in milliseconds: then connections decide.
const SLOWEST: u64 = 5000;
/// Times within one such step are equal, in milliseconds.
const STEP: u64 = 20;

impl Balancer for LeastTime {
    fn pick(&self, set: &mut Set<'_>, cx: &mut PickCx<'_>) -> Option<usize> {
        let (seconds, now) = (set.now, cx.now);
        least::pick(set, Equals::First, |peer| {
            peer.inflight.observe(now);
            estimate(peer, self.mode, seconds)
        })
    }
}

/// Estimated milliseconds until `peer` is done with what it has and one more.
#[inline]
fn estimate(peer: &mut Live, mode: LeastTimeMode, now: i64) -> u64 {
    let mut time = decayed(peer, mode, now);
    if peer.inflight.reqs > 0 {
        time = time.max(peer.inflight.time.score().into());
    }
    let time = if time > SLOWEST {
        SLOWEST
    } else {
        time + STEP - time % STEP
    };
    time * (1 + u64::from(peer.conns))
}

/// The average, halved for each `fail_timeout` that the peer was not asked, so that slow peers get another chance.
#[inline]
fn decayed(peer: &mut Live, mode: LeastTimeMode, now: i64) -> u64 {
    let average = u64::from(peer.times.of(mode).score());
    let idle = now - peer.checked;
    if idle <= peer.fail_timeout {
        return average;
    }
    // DIFFERS: the shift is clamped. nginx shifts by 64 or more, that is not at all, once a peer was idle for
    // 64 * (fail_timeout + 1) seconds.
    let shift = idle / (peer.fail_timeout + 1);
    if shift > 63 { 0 } else { average >> shift }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{conf::model::UpstreamServer, upstream::Average};

    fn peer(average: Option<u32>, conns: u32) -> Live {
        let mut live = Live::new(&UpstreamServer {
            name: "a".into(),
            addrs: Vec::new(),
            weight: 1,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            max_conns: 0,
            down: false,
            backup: false,
        });
        live.checked = 1000;
        live.conns = conns;
        live.times.header = average.map_or_else(Average::default, Average::from_millis);
        live
    }

    #[test]
    fn steps_cap_and_connections() {
        for (average, conns, expected) in [
            (None, 0, 20),
            (Some(0), 0, 20),
            (Some(19), 0, 20),
            (Some(20), 0, 40),
            (Some(39), 0, 40),
            (Some(39), 2, 120),
            (Some(4999), 0, 5000),
            (Some(5000), 0, 5020),
            (Some(5001), 0, 5000),
            (Some(u32::MAX), 1, 10000),
        ] {
            let mut peer = peer(average, conns);
            assert_eq!(
                estimate(&mut peer, LeastTimeMode::Header, 1000),
                expected,
                "{average:?} {conns}"
            );
        }
    }

    #[test]
    fn halved_each_fail_timeout() {
        for (now, expected) in [
            (1010, 1000),
            (1011, 500),
            (1021, 500),
            (1022, 250),
            (1000 + 11 * 9, 1),
            (1000 + 11 * 63, 0),
            (1000 + 11 * 64, 0),
            (1000 + 11 * 66, 0),
            (i64::MAX / 8, 0),
        ] {
            let mut peer = peer(Some(1000), 0);
            assert_eq!(
                decayed(&mut peer, LeastTimeMode::Header, now),
                expected,
                "{now}"
            );
        }
    }

    #[test]
    fn inflight_raises_but_never_lowers() {
        let mut peer = peer(Some(100), 0);
        peer.inflight.time = Average::from_millis(700);
        assert_eq!(estimate(&mut peer, LeastTimeMode::Header, 1000), 120);
        peer.inflight.reqs = 1;
        assert_eq!(estimate(&mut peer, LeastTimeMode::Header, 1000), 720);
        peer.inflight.time = Average::from_millis(3);
        assert_eq!(estimate(&mut peer, LeastTimeMode::Header, 1000), 120);
    }
}
