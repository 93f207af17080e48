//! What is known of the peers at this moment: connections, failures, weights, times. Always behind the group's mutex.
//!
//! Mirrors the moving part of `ngx_http_upstream_rr_peer_t`. What a pick reads of a peer is one cache line, so that a walk
//! over a thousand peers takes microseconds; the rest is beside it.

use crate::conf::model::{LeastTimeMode, UpstreamServer};

use super::Average;

/// Long ago: before any second of the monotonic clock, as nginx's 0 is to the time of day.
const NEVER: i64 = i64::MIN / 4;

/// State of all peers of a group.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) live: Box<[Live]>,
    pub(super) memory: Box<[Memory]>,
    /// The average that picks compare.
    mode: Option<LeastTimeMode>,
}

/// What a pick reads and writes of a peer.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Live {
    pub(super) current_weight: i64,
    /// Second of the last failure or of the pick that may end a bench.
    pub(super) checked: i64,
    /// Scratch of one pick: the load that the method compares.
    pub(super) load: u64,
    /// Tries under way.
    pub(super) conns: u32,
    /// As many tries may be under way: `max_conns`, nothing when it is down.
    room: u32,
    /// Failures that count against `max_fails`.
    pub(super) fails: u32,
    /// With as many failures it is benched: `max_fails`.
    bench_at: u32,
    pub(super) weight: u32,
    pub(super) effective_weight: u32,
    /// Seconds.
    pub(super) fail_timeout: u32,
    /// The average of the method's mode in milliseconds, 0 without a sample.
    pub(super) time: u32,
    /// Requests that have not reached the mode's event yet.
    pub(super) inflight: u32,
}

/// What picks need not look at for every peer.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Second of the last failure.
    pub(super) accessed: i64,
    pub(super) times: Times,
    pub(super) inflight: Inflight,
    max_fails: u32,
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

/// Ages of the requests that have not reached the mode's event yet; how many there are is in [`Live::inflight`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inflight {
    /// Sum of their ages at `changed`, in milliseconds.
    pub(super) ages: u64,
    pub(super) changed: u64,
    /// Average of their mean age, as picks saw it.
    pub(super) time: Average,
}

impl Inflight {
    /// Folds the mean age of `reqs` requests, at least one, into the average; before each pick, for each candidate.
    pub(super) fn observe(&mut self, reqs: u32, now: u64) {
        // DIFFERS: one monotonic clock and saturating arithmetic. nginx subtracts one worker's cached clock from
        // another's as unsigned numbers, and the peer goes to the cap for some 640 samples.
        let age = self.ages / u64::from(reqs) + now.saturating_sub(self.changed);
        self.time.record(age);
    }

    /// One more than `reqs`.
    fn begin(&mut self, reqs: u32, now: u64) {
        if reqs == 0 {
            self.changed = now;
        }
        self.grow(reqs, now);
    }

    /// One less than `reqs`; it was under way for `own` milliseconds.
    fn end(&mut self, reqs: u32, now: u64, own: u64) {
        if reqs <= 1 {
            self.ages = 0;
        } else {
            self.grow(reqs, now);
            self.ages = self.ages.saturating_sub(own);
        }
    }

    fn grow(&mut self, reqs: u32, now: u64) {
        self.ages += now.saturating_sub(self.changed) * u64::from(reqs);
        self.changed = self.changed.max(now);
    }
}

impl State {
    /// The state of peers that nobody has asked yet.
    pub(super) fn new<'a>(
        servers: impl Iterator<Item = &'a UpstreamServer> + Clone,
        mode: Option<LeastTimeMode>,
    ) -> Self {
        Self {
            live: servers.clone().map(Live::new).collect(),
            memory: servers.map(Memory::new).collect(),
            mode,
        }
    }

    /// Adds a sample to one of a peer's averages.
    pub(super) fn record(&mut self, index: usize, event: LeastTimeMode, sample: u64) {
        let average = self.memory[index].times.of(event);
        average.record(sample);
        if self.mode == Some(event) {
            self.live[index].time = average.score();
        }
    }

    /// Replaces a peer's averages.
    pub(super) fn set_times(&mut self, index: usize, times: Times) {
        let memory = &mut self.memory[index];
        memory.times = times;
        if let Some(mode) = self.mode {
            self.live[index].time = memory.times.of(mode).score();
        }
    }

    /// One more request counts as unfinished.
    pub(super) fn begin_inflight(&mut self, index: usize, now: u64) {
        let live = &mut self.live[index];
        self.memory[index].inflight.begin(live.inflight, now);
        live.inflight += 1;
    }

    /// One less; it was under way for `own` milliseconds.
    pub(super) fn end_inflight(&mut self, index: usize, now: u64, own: u64) {
        let live = &mut self.live[index];
        self.memory[index].inflight.end(live.inflight, now, own);
        live.inflight = live.inflight.saturating_sub(1);
    }

    /// A try failed; true when the peer is out of the game now.
    pub(super) fn fail(&mut self, index: usize, now: i64) -> bool {
        let (live, memory) = (&mut self.live[index], &mut self.memory[index]);
        live.fails = live.fails.saturating_add(1);
        live.checked = now;
        memory.accessed = now;
        if memory.max_fails == 0 {
            return false;
        }
        let loss = live.weight / memory.max_fails;
        live.effective_weight = live.effective_weight.saturating_sub(loss);
        live.fails >= memory.max_fails
    }

    /// A try did not fail: an earlier bench is over once the peer was checked since.
    pub(super) fn succeed(&mut self, index: usize) {
        if self.memory[index].accessed < self.live[index].checked {
            self.live[index].fails = 0;
        }
    }
}

impl Live {
    pub(super) fn new(server: &UpstreamServer) -> Self {
        let limit = |value: u32| if value == 0 { u32::MAX } else { value };
        Self {
            current_weight: 0,
            checked: NEVER,
            load: 0,
            conns: 0,
            room: if server.down {
                0
            } else {
                limit(server.max_conns)
            },
            fails: 0,
            bench_at: limit(server.max_fails),
            weight: server.weight,
            effective_weight: server.weight,
            fail_timeout: server.fail_timeout.as_secs().try_into().unwrap_or(u32::MAX),
            time: 0,
            inflight: 0,
        }
    }

    /// Whether a pick may choose it in second `now`.
    #[inline]
    pub(super) fn is_usable(&self, now: i64) -> bool {
        self.has_room() && !self.is_benched(now)
    }

    /// Whether it is not down and not at `max_conns`.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.conns < self.room
    }

    /// Whether it failed too often of late.
    #[inline]
    pub(super) fn is_benched(&self, now: i64) -> bool {
        self.fails >= self.bench_at && now - self.checked <= i64::from(self.fail_timeout)
    }

    /// Its step of smooth weighted round robin; the weight that it put in.
    #[inline]
    pub(super) fn bid(&mut self) -> i64 {
        let bid = i64::from(self.effective_weight);
        self.current_weight += bid;
        self.effective_weight += u32::from(self.effective_weight < self.weight);
        bid
    }

    /// It was chosen among several in second `now`.
    pub(super) fn check(&mut self, now: i64) {
        if now - self.checked > i64::from(self.fail_timeout) {
            self.checked = now;
        }
    }
}

impl Memory {
    fn new(server: &UpstreamServer) -> Self {
        Self {
            accessed: NEVER,
            times: Times::default(),
            inflight: Inflight::default(),
            max_fails: server.max_fails,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflight_keeps_the_sum_of_ages() {
        let mut inflight = Inflight::default();
        inflight.begin(0, 1000);
        inflight.begin(1, 1010);
        assert_eq!(inflight.ages, 10);
        inflight.observe(2, 1030);
        assert_eq!(inflight.time.millis(), Some(25), "(30 + 20) / 2");
        inflight.end(2, 1030, 30);
        assert_eq!((inflight.ages, inflight.changed), (20, 1030));
        inflight.end(1, 1100, 90);
        assert_eq!(inflight.ages, 0);
        inflight.begin(0, 9000);
        assert_eq!((inflight.ages, inflight.changed), (0, 9000));
    }

    #[test]
    fn a_clock_behind_another_thread_s_changes_nothing() {
        let mut inflight = Inflight::default();
        inflight.begin(0, 1000);
        inflight.begin(1, 990);
        inflight.observe(2, 980);
        assert_eq!(inflight.time.millis(), Some(0));
        inflight.end(2, 985, 40);
        assert_eq!((inflight.ages, inflight.changed), (0, 1000));
    }

    #[test]
    fn what_a_pick_reads_is_one_cache_line() {
        assert_eq!(size_of::<Live>(), 64);
    }
}
