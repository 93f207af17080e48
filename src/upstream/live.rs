//! What is known of the peers at this moment: connections, failures, weights, times. Always behind the group's mutex.
//!
//! Mirrors the moving part of `ngx_http_upstream_rr_peer_t`. What a pick reads of every peer is half a cache line, so that a
//! walk over a thousand peers takes microseconds; the rest is beside it. And what a pick compares is computed when it changes, not
//! when it is compared: [`State::refresh`] keeps that so, hence all changes are methods of [`State`].

use crate::conf::model::{LeastTimeMode, UpstreamServer};

use super::Average;

/// Long ago: before any second of the monotonic clock, as nginx's 0 is to the time of day.
pub(super) const NEVER: i64 = i64::MIN / 4;

/// State of all peers of a group.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) live: Box<[Live]>,
    pub(super) memory: Box<[Memory]>,
    compared: Compared,
}

/// What picks compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// Nothing: the method goes by weights or hashes.
    Nothing,
    /// Connections.
    Conns,
    /// The average of a time, and connections.
    Time(LeastTimeMode),
}

/// What a pick reads and writes of every peer.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) current_weight: i64,
    /// What the method compares, if the peer is usable; a pick that looked at one which was not settled wrote it.
    pub(super) load: u64,
    /// Up to this second it is usable and `load` is right.
    pub(super) settled_until: i64,
    pub(super) weight: u32,
    pub(super) effective_weight: u32,
}

/// What picks need not look at for every peer.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Tries under way.
    pub(super) conns: u32,
    /// As many tries may be under way: `max_conns`, nothing when it is down.
    room: u32,
    /// Failures that count against `max_fails`.
    pub(super) fails: u32,
    max_fails: u32,
    /// Seconds.
    pub(super) fail_timeout: u32,
    /// Second of the last failure or of the pick that may end a bench.
    pub(super) checked: i64,
    /// Second of the last failure.
    pub(super) accessed: i64,
    pub(super) times: Times,
    pub(super) inflight: Inflight,
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
    /// The average that `mode` compares, in milliseconds.
    pub(super) fn score(&self, mode: LeastTimeMode) -> u32 {
        let average = match mode {
            LeastTimeMode::Header => self.header,
            LeastTimeMode::Connect => self.connect,
            LeastTimeMode::FirstByte => self.first_byte,
            LeastTimeMode::LastByte => self.response,
        };
        average.score()
    }

    fn of(&mut self, mode: LeastTimeMode) -> &mut Average {
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
    /// Folds their mean age into the average; before each pick, for each candidate that has some.
    pub(super) fn observe(&mut self, now: u64) {
        // DIFFERS(one-clock): one monotonic clock and saturating arithmetic. nginx subtracts one worker's cached clock from
        // another's as unsigned numbers, and the peer goes to the cap for some 640 samples.
        let age = self.ages / u64::from(self.reqs.max(1)) + now.saturating_sub(self.changed);
        self.time.record(age);
    }

    /// One more.
    fn begin(&mut self, now: u64) {
        if self.reqs == 0 {
            self.changed = now;
        }
        self.grow(now);
        self.reqs += 1;
    }

    /// One less; it was under way for `own` milliseconds.
    fn end(&mut self, now: u64, own: u64) {
        if self.reqs <= 1 {
            self.ages = 0;
        } else {
            self.grow(now);
            self.ages = self.ages.saturating_sub(own);
        }
        self.reqs = self.reqs.saturating_sub(1);
    }

    fn grow(&mut self, now: u64) {
        self.ages += now.saturating_sub(self.changed) * u64::from(self.reqs);
        self.changed = self.changed.max(now);
    }
}

impl State {
    /// The state of peers that nobody has asked yet.
    pub(super) fn new<'a>(
        servers: impl Iterator<Item = &'a UpstreamServer> + Clone,
        compared: Compared,
    ) -> Self {
        let mut state = Self {
            live: servers.clone().map(Live::new).collect(),
            memory: servers.map(Memory::new).collect(),
            compared,
        };
        for index in 0..state.live.len() {
            state.refresh(index);
        }
        state
    }

    /// A try begins.
    pub(super) fn begin(&mut self, index: usize) {
        self.memory[index].conns += 1;
        self.refresh(index);
    }

    /// A try ends.
    pub(super) fn end(&mut self, index: usize) {
        let memory = &mut self.memory[index];
        memory.conns = memory.conns.saturating_sub(1);
        self.refresh(index);
    }

    /// It was chosen among several in second `now`.
    pub(super) fn check(&mut self, index: usize, now: i64) {
        let memory = &mut self.memory[index];
        if now - memory.checked > i64::from(memory.fail_timeout) {
            memory.checked = now;
            self.refresh(index);
        }
    }

    /// A try failed; true when the peer is out of the game now.
    pub(super) fn fail(&mut self, index: usize, now: i64) -> bool {
        let (live, memory) = (&mut self.live[index], &mut self.memory[index]);
        memory.fails = memory.fails.saturating_add(1);
        memory.accessed = now;
        memory.checked = now;
        let loss = live.weight.checked_div(memory.max_fails).unwrap_or(0);
        live.effective_weight = live.effective_weight.saturating_sub(loss);
        let disabled = memory.has_failed();
        self.refresh(index);
        disabled
    }

    /// A try did not fail: an earlier bench is over once the peer was checked since.
    pub(super) fn succeed(&mut self, index: usize) {
        let memory = &self.memory[index];
        if memory.fails > 0 && memory.accessed < memory.checked {
            self.forgive(index);
        }
    }

    /// Its failures are forgotten.
    pub(super) fn forgive(&mut self, index: usize) {
        self.memory[index].fails = 0;
        self.refresh(index);
    }

    /// Adds a sample to one of a peer's averages.
    pub(super) fn record(&mut self, index: usize, event: LeastTimeMode, sample: u64) {
        self.memory[index].times.of(event).record(sample);
        self.refresh(index);
    }

    /// One more request counts as unfinished.
    pub(super) fn begin_inflight(&mut self, index: usize, now: u64) {
        self.memory[index].inflight.begin(now);
        self.refresh(index);
    }

    /// One less; it was under way for `own` milliseconds.
    pub(super) fn end_inflight(&mut self, index: usize, now: u64, own: u64) {
        self.memory[index].inflight.end(now, own);
        self.refresh(index);
    }

    /// Computes what picks compare; after every change.
    pub(super) fn refresh(&mut self, index: usize) {
        let (live, memory) = (&mut self.live[index], &self.memory[index]);
        let mut until = i64::MAX;
        match self.compared {
            Compared::Nothing => {}
            Compared::Conns => live.load = memory.conns.into(),
            Compared::Time(mode) => {
                live.load = memory.estimate(memory.times.score(mode));
                until = memory.checked.saturating_add(memory.fail_timeout.into());
                if memory.inflight.reqs > 0 {
                    until = i64::MIN;
                }
            }
        }
        let usable = memory.has_room() && !memory.has_failed();
        live.settled_until = if usable { until } else { i64::MIN };
    }
}

impl Live {
    fn new(server: &UpstreamServer) -> Self {
        Self {
            current_weight: 0,
            load: 0,
            settled_until: i64::MIN,
            weight: server.weight,
            effective_weight: server.weight,
        }
    }

    /// Its step of smooth weighted round robin; the weight that it put in.
    #[inline]
    pub(super) fn bid(&mut self) -> i64 {
        let bid = i64::from(self.effective_weight);
        self.current_weight += bid;
        if self.effective_weight < self.weight {
            self.effective_weight += 1;
        }
        bid
    }
}

/// Peers slower than this are equally bad, in milliseconds: then connections decide.
const SLOWEST: u32 = 5000;
/// Times within one such step are equal, in milliseconds.
const STEP: u32 = 20;

impl Memory {
    fn new(server: &UpstreamServer) -> Self {
        let room = match server.max_conns {
            _ if server.down => 0,
            0 => u32::MAX,
            max_conns => max_conns,
        };
        Self {
            conns: 0,
            room,
            fails: 0,
            max_fails: server.max_fails,
            fail_timeout: server.fail_timeout.as_secs().try_into().unwrap_or(u32::MAX),
            checked: NEVER,
            accessed: NEVER,
            times: Times::default(),
            inflight: Inflight::default(),
        }
    }

    /// Whether a pick may choose it in second `now`.
    pub(super) fn is_usable(&self, now: i64) -> bool {
        self.has_room() && !self.is_benched(now)
    }

    /// Whether it is not down and not at `max_conns`.
    pub(super) fn has_room(&self) -> bool {
        self.conns < self.room
    }

    /// Whether it failed too often of late.
    pub(super) fn is_benched(&self, now: i64) -> bool {
        self.has_failed() && now - self.checked <= i64::from(self.fail_timeout)
    }

    fn has_failed(&self) -> bool {
        self.max_fails > 0 && self.fails >= self.max_fails
    }

    /// Estimated milliseconds until it is done with what it has and one more, if one takes `time`.
    pub(super) fn estimate(&self, time: u32) -> u64 {
        let time = if time > SLOWEST {
            SLOWEST
        } else {
            time + STEP - time % STEP
        };
        u64::from(time) * (1 + u64::from(self.conns))
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
        assert_eq!(inflight.ages, 10);
        inflight.observe(1030);
        assert_eq!(inflight.time.millis(), Some(25), "(30 + 20) / 2");
        inflight.end(1030, 30);
        assert_eq!((inflight.ages, inflight.changed), (20, 1030));
        inflight.end(1100, 90);
        assert_eq!(inflight.ages, 0);
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

    #[test]
    fn what_a_pick_reads_is_half_a_cache_line() {
        assert_eq!(size_of::<Live>(), 32);
    }
}
