//! The moving average behind `least_time`: 5 % of each new sample, in whole milliseconds.
//!
//! Mirrors `ngx_http_upstream_response_time_avg`.

/// A moving average of milliseconds; empty until its first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Average(Option<u32>);

impl Average {
    /// An average that goes on from `millis`.
    pub fn from_millis(millis: u32) -> Self {
        Self(Some(millis))
    }

    /// The value; None before the first sample.
    pub fn millis(self) -> Option<u32> {
        self.0
    }

    /// Adds a sample. The first one counts as it is.
    pub fn record(&mut self, sample: u64) {
        // DIFFERS(no-sample): "no sample" is not 0 ms. For nginx an average of 0 is none, so that one outlier at a peer that
        // answers within the millisecond becomes its average unsmoothed.
        let sample = u32::try_from(sample).unwrap_or(u32::MAX);
        self.0 = Some(match self.0 {
            None => sample,
            Some(average) => smooth(sample, average),
        });
    }

    /// The value for a comparison: 0 without a sample.
    pub(super) fn score(self) -> u32 {
        self.0.unwrap_or(0)
    }
}

/// In floating point, in nginx's order: rounding at the edges is part of the recorded sequences.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between two u32, and 0.5 is dropped"
)]
fn smooth(sample: u32, average: u32) -> u32 {
    (0.5 + (f64::from(sample) * 0.05 + f64::from(average) * 0.95)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_then_a_twentieth() {
        let mut average = Average::default();
        assert_eq!(average.score(), 0);
        average.record(100);
        assert_eq!(average.millis(), Some(100));
        average.record(0);
        assert_eq!(average.millis(), Some(95));
        average.record(105);
        assert_eq!(average.millis(), Some(96), "95.5 + 0.5 rounds up");
    }

    #[test]
    fn zero_is_a_sample() {
        let mut average = Average::default();
        average.record(0);
        average.record(1000);
        assert_eq!(average.millis(), Some(50));
    }

    #[test]
    fn stays_within_its_samples() {
        let mut average = Average::default();
        average.record(u64::MAX);
        average.record(u64::MAX);
        assert_eq!(average.millis(), Some(u32::MAX));
    }
}
