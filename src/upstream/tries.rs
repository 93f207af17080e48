//! One request's walk over a group: which peers it has tried, how many tries it has left, and until when.
//!
//! Whether an outcome may be retried at all (`proxy_next_upstream`, idempotence, what was sent) is for the caller to
//! say. Mirrors the part of `ngx_http_upstream_next` that counts, and the walk from primary to backup peers of
//! `ngx_http_upstream_get_round_robin_peer`.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use smallvec::SmallVec;

use super::{
    Group, Lease,
    balance::{Set, Walk},
    lease::Released,
    live::State,
};

/// What a pick may look at.
pub struct PickCx<'a> {
    /// Monotonic milliseconds.
    pub now: u64,
    /// Source of random numbers.
    pub random: &'a mut dyn FnMut() -> u64,
    /// Value of [`Group::hash_key`] for this request; empty when there is none.
    pub hash_key: &'a [u8],
    /// The client's address, None for a Unix socket.
    pub client: Option<IpAddr>,
}

/// `proxy_next_upstream_tries` and `proxy_next_upstream_timeout`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// 0 = no limit.
    pub tries: u32,
    /// Zero = no limit.
    pub timeout: Duration,
}

/// No peer is usable. The display is nginx's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPeer {
    /// What stands for the address in `$upstream_addr`.
    pub name: Arc<str>,
}

impl fmt::Display for NoPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no live upstreams")
    }
}

impl std::error::Error for NoPeer {}

/// The walk of one request.
#[derive(Debug)]
pub struct Tries {
    group: Arc<Group>,
    on_backup: bool,
    walk: Walk,
    left: u32,
    start: u64,
    timeout: u64,
    /// Peers with stale connections, and how many more of those they may have.
    stale: SmallVec<[(usize, usize); 2]>,
}

impl Tries {
    /// Begins a walk.
    pub fn new(group: Arc<Group>, limits: Limits, now: u64) -> Self {
        let left = group.primary.tries + group.backup.as_ref().map_or(0, |side| side.tries);
        Self {
            left: match limits.tries {
                0 => left,
                tries => left.min(tries),
            },
            timeout: limits.timeout.as_millis().try_into().unwrap_or(u64::MAX),
            start: now,
            on_backup: false,
            walk: Walk::default(),
            stale: SmallVec::new(),
            group,
        }
    }

    /// The group that is walked over.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Picks the next peer and counts a connection to it.
    pub fn next(&mut self, cx: &mut PickCx<'_>) -> Result<Lease, NoPeer> {
        let Self {
            group,
            on_backup,
            walk,
            ..
        } = self;
        let mut state = group.state();
        let picked = if group.single {
            // Never benched, and tried as often as givebacks allow.
            state.memory[0].has_room().then_some(0)
        } else {
            pick(group, &mut state, on_backup, walk, cx)
        };
        let Some(index) = picked else {
            return Err(NoPeer {
                name: group.log_name().clone(),
            });
        };
        state.begin(index);
        let inflight = !group.single && matches!(group.least_time(), Some((_, true)));
        if inflight {
            state.begin_inflight(index, cx.now);
        }
        drop(state);
        self.left = if group.single {
            0
        } else {
            self.left.saturating_sub(1)
        };
        Ok(Lease::new(group.clone(), index, cx.now, inflight))
    }

    /// Whether the tries and the time allow one more try. To be asked while a try is under way or after it: the present
    /// one does not count any more.
    pub fn may_retry(&self, now: u64) -> bool {
        self.left > 0 && !(self.timeout > 0 && now.saturating_sub(self.start) >= self.timeout)
    }

    /// Ends a try that failed on a reused connection before any byte of a response. `idle` is how many idle connections
    /// to the same peer the pool holds now.
    ///
    /// The try is given back: it counts neither among the tries nor against the peer, which may be picked again. There are
    /// as many of those as the pool held connections when the first one failed, and one more; after that it is a failure
    /// like any other.
    pub fn give_back(&mut self, lease: Lease, idle: usize, now: u64) -> Released {
        let index = lease.index();
        let position = self.stale.iter().position(|(peer, _)| *peer == index);
        let position = position.unwrap_or_else(|| {
            // The failed connection was idle too.
            self.stale.push((index, idle.saturating_add(2)));
            self.stale.len() - 1
        });
        let more = &mut self.stale[position].1;
        if *more == 0 {
            return lease.finish(super::Outcome::Failed, now);
        }
        *more -= 1;
        // DIFFERS(giveback): nginx gives the try back without a bound, but counts a failure and does not come back to
        // the peer, so that two peers with a stale connection each end in 502.
        lease.discard(now);
        self.left += 1;
        let side = self.group.side(self.on_backup);
        if side.contains(&index) {
            self.walk.tried.remove(index - side.start);
        }
        Released::default()
    }
}

fn pick(
    group: &Group,
    state: &mut State,
    on_backup: &mut bool,
    walk: &mut Walk,
    cx: &mut PickCx<'_>,
) -> Option<usize> {
    let now = seconds(cx.now);
    loop {
        let side = match &group.backup {
            Some(backup) if *on_backup => backup,
            _ => &group.primary,
        };
        let mut set = Set {
            peers: &mut state.live[side.range.clone()],
            memory: &mut state.memory[side.range.clone()],
            total_weight: side.total_weight,
            weighted: side.weighted,
            walk,
            now,
        };
        if let Some(index) = side.balancer.pick(&mut set, cx) {
            walk.tried.insert(index);
            let index = side.range.start + index;
            state.check(index, now);
            return Some(index);
        }
        if *on_backup || group.backup.is_none() {
            return None;
        }
        *on_backup = true;
        walk.tried.clear();
    }
}

/// Whole seconds of the monotonic clock.
pub(super) fn seconds(millis: u64) -> i64 {
    i64::try_from(millis / 1000).unwrap_or(i64::MAX)
}
