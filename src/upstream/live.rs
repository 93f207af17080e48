//! What is known of one peer at this moment: connections, failures, weights, times.
//!
//! Mirrors the moving part of `ngx_http_upstream_rr_peer_t`. Fixed limits that a pick reads stand beside it, so that a
//! walk over a large group stays within few cache lines. Always behind the group's mutex.

use crate::conf::model::{LeastTimeMode, UpstreamServer};

use super::Average;

/// Long ago: before any second of the monotonic clock, as nginx's 0 is to the time of day.
const NEVER: i64 = i64::MIN / 4;

/// State of a peer.
#[derive(Clone, Debug)]
pub(super) struct Live {
    /// Tries under way.
    pub(super) conns: u32,
    /// Failures that count against `max_fails`.
    pub(super) fails: u32,
    pub(super) weight: u32,
    pub(super) max_fails: u32,
    pub(super) max_conns: u32,
    pub(super) down: bool,
    /// Seconds.
    pub(super) fail_timeout: i64,
    /// Second of the last failure.
    pub(super) accessed: i64,
    /// Second of the last failure or of the pick that may end a bench.
    pub(super) checked: i64,
    pub(super) effective_weight: i64,
    pub(super) current_weight: i64,
    pub(super) times: Times,
    pub(super) inflight: Inflight,
    /// Scratch of one pick: the load that the method compares.
    pub(super) load: u64,
}

/// Averages of a peer's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) connect: Average,
    pub(super) header: Average,
    pub(super) first_byte: Average,
    pub(super) response: Average,
}

impl Times {
    /// The average that `mode` compares.
    pub(super) fn of(&mut self, mode: LeastTimeMode) -> &mut Average {
        match mode {
            LeastTimeMode::Header => &mut self.header,
            LeastTimeMode::Connect => &mut self.connect,
            LeastTimeMode::FirstByte => &mut self.first_byte,
            LeastTimeMode::LastByte => &mut self.response,
        }
    }
}

/// Requests that have not reached the mode's event yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inflight {
    pub(super) reqs: u32,
    /// Sum of their ages at `changed`, in milliseconds.
    pub(super) ages: u64,
    pub(super) changed: u64,
    /// Average of their mean age, as picks saw it.
    pub(super) time: Average,
}

impl Inflight {
    /// Folds the present mean age into the average; before each pick, for each candidate.
    pub(super) fn observe(&mut self, now: u64) {
        if self.reqs > 0 {
            // DIFFERS: one monotonic clock and saturating arithmetic. nginx subtracts one worker's cached clock from
            // another's as unsigned numbers, and the peer goes to the cap for some 640 samples.
            let age = self.ages / u64::from(self.reqs) + now.saturating_sub(self.changed);
            self.time.record(age);
        }
    }

    /// One more.
    pub(super) fn begin(&mut self, now: u64) {
        self.grow(now);
        self.changed = self.changed.max(now);
        self.reqs += 1;
    }

    /// One less; it was under way for `own` milliseconds.
    pub(super) fn end(&mut self, now: u64, own: u64) {
        if self.reqs <= 1 {
            self.ages = 0;
        } else {
            self.grow(now);
            self.ages = self.ages.saturating_sub(own);
            self.changed = self.changed.max(now);
        }
        self.reqs = self.reqs.saturating_sub(1);
    }

    fn grow(&mut self, now: u64) {
        if self.reqs == 0 {
            self.changed = now;
        }
        self.ages += now.saturating_sub(self.changed) * u64::from(self.reqs);
    }
}

impl Live {
    pub(super) fn new(server: &UpstreamServer) -> Self {
        Self {
            conns: 0,
            fails: 0,
            weight: server.weight,
            max_fails: server.max_fails,
            max_conns: server.max_conns,
            down: server.down,
            fail_timeout: server
                .fail_timeout
                .as_secs()
                .try_into()
                .unwrap_or(NEVER / -2),
            accessed: NEVER,
            checked: NEVER,
            effective_weight: server.weight.into(),
            current_weight: 0,
            times: Times::default(),
            inflight: Inflight::default(),
            load: 0,
        }
    }

    /// Whether a pick may choose it in second `now`.
    #[inline]
    pub(super) fn is_usable(&self, now: i64) -> bool {
        !self.down && !self.is_benched(now) && !self.is_full()
    }

    #[inline]
    pub(super) fn is_benched(&self, now: i64) -> bool {
        self.max_fails > 0
            && self.fails >= self.max_fails
            && now - self.checked <= self.fail_timeout
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.max_conns > 0 && self.conns >= self.max_conns
    }

    /// Its step of smooth weighted round robin; the weight that it put in.
    #[inline]
    pub(super) fn bid(&mut self) -> i64 {
        let bid = self.effective_weight;
        self.current_weight += bid;
        if bid < i64::from(self.weight) {
            self.effective_weight += 1;
        }
        bid
    }

    /// It was chosen among several in second `now`.
    pub(super) fn check(&mut self, now: i64) {
        if now - self.checked > self.fail_timeout {
            self.checked = now;
        }
    }

    /// A try failed; true when the peer is out of the game now.
    pub(super) fn fail(&mut self, now: i64) -> bool {
        self.fails = self.fails.saturating_add(1);
        self.accessed = now;
        self.checked = now;
        if self.max_fails == 0 {
            return false;
        }
        self.effective_weight =
            (self.effective_weight - i64::from(self.weight / self.max_fails)).max(0);
        self.fails >= self.max_fails
    }

    /// A try did not fail: an earlier bench is over once it was checked since.
    pub(super) fn succeed(&mut self) {
        if self.accessed < self.checked {
            self.fails = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflight_keeps_the_sum_of_ages() {
        let mut inflight = Inflight::default();
        inflight.begin(1000);
        inflight.begin(1010);
        assert_eq!((inflight.reqs, inflight.ages), (2, 10));
        inflight.observe(1030);
        assert_eq!(inflight.time.millis(), Some(25), "(30 + 20) / 2");
        inflight.end(1030, 30);
        assert_eq!(
            (inflight.reqs, inflight.ages, inflight.changed),
            (1, 20, 1030)
        );
        inflight.end(1100, 90);
        assert_eq!((inflight.reqs, inflight.ages), (0, 0));
        inflight.begin(9000);
        assert_eq!((inflight.ages, inflight.changed), (0, 9000));
    }

    #[test]
    fn a_clock_behind_another_thread_s_changes_nothing() {
        let mut inflight = Inflight::default();
        inflight.begin(1000);
        inflight.begin(990);
        inflight.observe(980);
        assert_eq!(inflight.time.millis(), Some(0));
        inflight.end(985, 40);
        assert_eq!((inflight.ages, inflight.changed), (0, 1000));
    }
}
