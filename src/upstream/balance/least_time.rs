//! `least_time`: the least estimated time until a peer would be done with one more request.
//!
//! Mirrors `ngx_http_upstream_get_least_time_peer` and `ngx_http_upstream_least_time_eta`.

use super::{
    Balancer, Live, Memory, PickCx, Set,
    least::{self, Equals},
};

/// `least_time`; which average counts is known to [`State`](crate::upstream::live::State).
#[derive(Debug)]
pub(super) struct LeastTime;

/// Peers slower than this are equally bad, in milliseconds: then connections decide.
const SLOWEST: u32 = 5000;
/// Times within one such step are equal, in milliseconds.
const STEP: u32 = 20;

impl Balancer for LeastTime {
    fn pick(&self, set: &mut Set<'_>, cx: &mut PickCx<'_>) -> Option<usize> {
        let (seconds, now) = (set.now, cx.now);
        least::pick(set, Equals::First, |peer, memory| {
            if peer.inflight > 0 {
                memory.inflight.observe(peer.inflight, now);
            }
            estimate(peer, memory, seconds)
        })
    }
}

/// Estimated milliseconds until `peer` is done with what it has and one more.
#[inline]
fn estimate(peer: &Live, memory: &Memory, now: i64) -> u64 {
    let mut time = decayed(peer, now);
    if peer.inflight > 0 {
        time = time.max(memory.inflight.time.score());
    }
    let time = if time > SLOWEST {
        SLOWEST
    } else {
        time + STEP - time % STEP
    };
    u64::from(time) * (1 + u64::from(peer.conns))
}

/// The average, halved for each `fail_timeout` that the peer was not asked, so that slow peers get another chance.
#[inline]
fn decayed(peer: &Live, now: i64) -> u32 {
    let idle = now - peer.checked;
    let timeout = i64::from(peer.fail_timeout);
    if peer.time == 0 || idle <= timeout {
        return peer.time;
    }
    // DIFFERS: the shift is clamped. nginx shifts by 64 or more, that is not at all, once a peer was idle for
    // 64 * (fail_timeout + 1) seconds.
    u32::try_from(idle / (timeout + 1)).map_or(0, |shift| peer.time.checked_shr(shift).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use crate::{
        conf::model::LeastTimeMode,
        upstream::{Average, live::State, tests::server},
    };

    use super::*;

    /// A peer asked last in second 1000.
    fn peer(average: Option<u32>, conns: u32) -> State {
        let server = server("10.0.0.1:80");
        let mut state = State::new([&server].into_iter(), Some(LeastTimeMode::Header));
        if let Some(average) = average {
            state.record(0, LeastTimeMode::Header, average.into());
        }
        state.live[0].checked = 1000;
        state.live[0].conns = conns;
        state
    }

    fn estimate_of(state: &State) -> u64 {
        estimate(&state.live[0], &state.memory[0], 1000)
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
            let peer = peer(average, conns);
            assert_eq!(estimate_of(&peer), expected, "{average:?} {conns}");
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
            let peer = peer(Some(1000), 0);
            assert_eq!(decayed(&peer.live[0], now), expected, "{now}");
        }
    }

    #[test]
    fn inflight_raises_but_never_lowers() {
        let mut peer = peer(Some(100), 0);
        peer.memory[0].inflight.time = Average::from_millis(700);
        assert_eq!(estimate_of(&peer), 120);
        peer.live[0].inflight = 1;
        assert_eq!(estimate_of(&peer), 720);
        peer.memory[0].inflight.time = Average::from_millis(3);
        assert_eq!(estimate_of(&peer), 120);
    }
}
