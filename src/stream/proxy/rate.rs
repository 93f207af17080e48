//! `proxy_upload_rate` and `proxy_download_rate`: how fast one direction is read.
//!
//! Mirrors the part of `ngx_stream_proxy_process` that is about rates: a budget that grows every second, and after each
//! read a pause of the time that it was worth.

use std::time::Duration;

use crate::common::clock::Now;

/// A limit of one direction.
#[derive(Clone, Copy, Debug)]
pub(in crate::stream) struct Rate {
    /// Bytes a second, not 0.
    per_second: u64,
    /// Second of the day's clock in which the session began.
    start: i64,
    /// Nothing is read before this.
    until: Option<Now>,
}

impl Rate {
    /// A limit of `per_second` bytes for a session that began in second `start`; None when that is no limit.
    pub(in crate::stream) fn new(per_second: u64, start: i64) -> Option<Self> {
        (per_second > 0).then_some(Self {
            per_second,
            start,
            until: None,
        })
    }

    /// How much may be read in second `second` when `read` bytes have been; 0 means that there is a pause.
    pub(in crate::stream) fn allowance(&mut self, read: u64, second: i64, now: Now) -> u64 {
        let seconds = u64::try_from(second - self.start + 1).unwrap_or(0);
        let budget = self.per_second.saturating_mul(seconds);
        if budget > read {
            return budget - read;
        }
        self.pause(
            (read - budget).saturating_mul(1000) / self.per_second + 1,
            now,
        );
        0
    }

    /// `n` bytes were read.
    pub(in crate::stream) fn took(&mut self, n: u64, now: Now) {
        let millis = n.saturating_mul(1000) / self.per_second;
        if millis > 0 {
            self.pause(millis, now);
        }
    }

    /// The end of the present pause.
    pub(in crate::stream) fn pausing(&mut self, now: Now) -> Option<Now> {
        self.until = self.until.filter(|until| *until > now);
        self.until
    }

    fn pause(&mut self, millis: u64, now: Now) {
        self.until = Some(now.after(Duration::from_millis(millis)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_budget_and_pauses() {
        let now = Now::from_millis(5000);
        assert!(Rate::new(0, 100).is_none());
        let mut rate = Rate::new(1000, 100).unwrap();
        assert_eq!(rate.allowance(0, 100, now), 1000);
        assert_eq!(rate.pausing(now), None);
        rate.took(400, now);
        assert_eq!(rate.pausing(now), Some(Now::from_millis(5400)));
        assert_eq!(rate.pausing(Now::from_millis(5400)), None);
        assert_eq!(rate.allowance(400, 100, now), 600);
        assert_eq!(rate.allowance(1500, 100, now), 0);
        assert_eq!(rate.pausing(now), Some(Now::from_millis(5501)));
        assert_eq!(rate.allowance(1500, 102, now), 1500);
    }
}
