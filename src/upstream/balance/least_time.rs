//! `least_time`: the least estimated time until a peer would be done with one more request.
//!
//! Mirrors `ngx_http_upstream_get_least_time_peer` and `ngx_http_upstream_least_time_eta`.

use crate::conf::model::LeastTimeMode;

use super::{
    Balancer, Memory, PickCx, Set,
    least::{self, Equals, NO_CANDIDATE},
};

/// `least_time`
#[derive(Debug)]
pub(super) struct LeastTime {
    /// Which average counts.
    pub(super) mode: LeastTimeMode,
}

impl Balancer for LeastTime {
    fn pick(&self, set: &mut Set<'_>, cx: &mut PickCx<'_>) -> Option<usize> {
        let (seconds, now) = (set.now, cx.now);
        least::pick(set, Equals::First, |peer| {
            if peer.is_usable(seconds) {
                self.estimate(peer, seconds, now)
            } else {
                NO_CANDIDATE
            }
        })
    }
}

impl LeastTime {
    /// Estimated milliseconds until `peer` is done with what it has and one more, in second `seconds`, millisecond `now`.
    /// Apart, to keep the walk tight: few peers need it.
    #[inline(never)]
    fn estimate(&self, peer: &mut Memory, seconds: i64, now: u64) -> u64 {
        let mut time = decayed(peer.times.score(self.mode), peer, seconds);
        if peer.inflight.reqs > 0 {
            peer.inflight.observe(now);
            time = time.max(peer.inflight.time.score());
        }
        peer.estimate(time)
    }
}

/// The average, halved for each `fail_timeout` that the peer was not asked, so that slow peers get another chance.
fn decayed(average: u32, peer: &Memory, now: i64) -> u32 {
    let idle = now - peer.checked;
    let timeout = i64::from(peer.fail_timeout);
    if average == 0 || idle <= timeout {
        return average;
    }
    // DIFFERS(long-idle): the shift is clamped. nginx shifts by 64 or more, that is not at all, once a peer was idle for
    // 64 * (fail_timeout + 1) seconds.
    u32::try_from(idle / (timeout + 1)).map_or(0, |shift| average.checked_shr(shift).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use crate::upstream::{
        Average,
        live::{Compared, State},
        tests::server,
    };

    use super::*;

    const HEADER: LeastTime = LeastTime {
        mode: LeastTimeMode::Header,
    };

    /// A peer asked last in second 1000.
    fn peer(average: Option<u32>, conns: u32) -> State {
        let server = server("10.0.0.1:80");
        let mut state = State::new([&server].into_iter(), Compared::Time(HEADER.mode));
        if let Some(average) = average {
            state.record(0, HEADER.mode, average.into());
        }
        state.memory[0].checked = 1000;
        state.memory[0].conns = conns;
        state.refresh(0);
        state
    }

    fn estimate_of(state: &mut State) -> u64 {
        let live = &state.live[0];
        let memory = &mut state.memory[0];
        let load = HEADER.estimate(memory, 1000, 1_000_000);
        assert!(memory.inflight.reqs > 0 || live.settled_until >= 1000 && live.load == load);
        load
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
            assert_eq!(estimate_of(&mut peer), expected, "{average:?} {conns}");
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
            assert_eq!(
                decayed(1000, &peer(None, 0).memory[0], now),
                expected,
                "{now}"
            );
        }
    }

    #[test]
    fn inflight_raises_but_never_lowers() {
        let mut peer = peer(Some(100), 0);
        peer.begin_inflight(0, 1_000_000 - 700);
        assert_eq!(estimate_of(&mut peer), 720);
        peer.memory[0].inflight.time = Average::default();
        peer.memory[0].inflight.changed = 1_000_000 - 3;
        assert_eq!(estimate_of(&mut peer), 120);
        peer.end_inflight(0, 1_000_000, 3);
        assert_eq!(estimate_of(&mut peer), 120);
    }
}
