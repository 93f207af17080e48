//! What a client does too often.
//!
//! Mirrors the counters of `ngx_http_v2_connection_s` (`http/v2/ngx_http_v2.h`).

use super::{Code, Fault};

/// The counters of a connection.
#[derive(Debug)]
pub(super) struct Floods {
    /// `http2_max_concurrent_streams`
    streams: usize,
    /// All bytes, and those that were of use.
    total: u64,
    useful: u64,
    /// Reads while there was no request, and how many there may be.
    idle_reads: u64,
    idle_limit: u64,
    /// Requests since there was last nothing to read.
    burst: usize,
    refused: usize,
    /// How many more PRIORITY frames there may be.
    priorities: usize,
}

impl Floods {
    /// Of a connection that may have so many streams at a time, and requests in all.
    pub(super) fn new(streams: usize, requests: u64) -> Self {
        Self {
            streams,
            total: 0,
            useful: 0,
            idle_reads: 0,
            idle_limit: requests.saturating_mul(10),
            burst: 0,
            refused: 0,
            priorities: streams.max(100),
        }
    }

    /// `n` bytes were read; an error when too few of all were of any use.
    pub(super) fn read(&mut self, n: usize, is_idle: bool) -> Result<(), Fault> {
        self.total += n as u64;
        self.idle_reads += u64::from(is_idle);
        if self.total / 8 > self.useful + (1 << 20) || self.idle_reads > self.idle_limit {
            return Err(Fault::new(Code::None, "http2 flood detected"));
        }
        Ok(())
    }

    /// `n` bytes were of use.
    pub(super) fn used(&mut self, n: usize) {
        self.useful += n as u64;
    }

    /// Everything that has come was looked at.
    pub(super) fn drained(&mut self) {
        self.burst = 0;
    }

    /// Whether too many requests come at once.
    pub(super) fn is_burst(&self) -> bool {
        self.burst >= 2 * self.streams
    }

    /// A request.
    pub(super) fn request(&mut self) {
        self.burst += 1;
        self.priorities += self.streams;
    }

    /// A request is refused.
    pub(super) fn refuse(&mut self) -> Result<(), Fault> {
        self.refused += 1;
        if self.refused > self.streams.max(100) + 1 {
            return Err(Fault::new(
                Code::None,
                "client sent too many refused streams",
            ));
        }
        Ok(())
    }

    /// A frame about priorities, which mean nothing.
    pub(super) fn priority(&mut self) -> Result<(), Fault> {
        self.priorities = self.priorities.saturating_sub(1);
        if self.priorities == 0 {
            return Err(Fault::new(
                Code::Calm,
                "client sent too many PRIORITY frames",
            ));
        }
        Ok(())
    }
}
