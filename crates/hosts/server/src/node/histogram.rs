//! How long things take, in buckets: eight to each doubling, so that a quantile is at most an eighth too high.

use std::time::Duration;

/// The buckets, up to eighteen minutes.
const BUCKETS: usize = 216;

/// Buckets to a doubling, as a power of two.
const PER_DOUBLING_LOG2: u32 = 3;

/// Counts of durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    sum_micros: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Box::new([0; BUCKETS]), total: 0, sum_micros: 0 }
    }
}

impl Histogram {
    /// Counts one.
    pub(super) fn record(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket_of(micros)] += 1;
        self.total += 1;
        self.sum_micros = self.sum_micros.saturating_add(micros);
    }

    /// How many there are.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Their sum, in seconds.
    pub(super) fn sum_seconds(&self) -> f64 {
        self.sum_micros as f64 / 1e6
    }

    /// Adds what another one has counted.
    pub(super) fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(count, more)| *count += more);
        self.total += other.total;
        self.sum_micros = self.sum_micros.saturating_add(other.sum_micros);
    }

    /// The duration that this share of all does not exceed, rounded up to the end of its bucket; none if there are none.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        if self.total == 0 {
            return None;
        }
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let is_there = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        let bucket = self.counts.iter().position(is_there).unwrap_or(BUCKETS - 1);
        Some(Duration::from_micros(end_of(bucket)))
    }

    /// The buckets that hold any, each with its end in seconds, ascending.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (end_of(bucket) as f64 / 1e6, *count)).collect()
    }
}

fn bucket_of(micros: u64) -> usize {
    let micros = micros.max(1 << PER_DOUBLING_LOG2);
    let doubling = micros.ilog2() - PER_DOUBLING_LOG2;
    let within = (micros >> doubling) & ((1 << PER_DOUBLING_LOG2) - 1);
    (((doubling as usize) << PER_DOUBLING_LOG2) + within as usize).min(BUCKETS - 1)
}

/// The end of a bucket, in microseconds; the next one begins there.
fn end_of(bucket: usize) -> u64 {
    let (doubling, within) = (bucket >> PER_DOUBLING_LOG2, bucket as u64 & ((1 << PER_DOUBLING_LOG2) - 1));
    ((1 << PER_DOUBLING_LOG2) + within + 1) << doubling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_before_the_end_of_its_bucket_and_behind_that_of_the_one_before() {
        for micros in (0..5_000).chain((1..30).map(|doubling| (1 << doubling) + 1)) {
            let bucket = bucket_of(micros);
            assert!(micros < end_of(bucket), "{micros}");
            assert!(bucket == 0 || micros >= end_of(bucket - 1), "{micros}");
            assert!(micros < 8 || end_of(bucket) as f64 <= micros as f64 * 1.125 + 1.0, "{micros}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_the_ends_of_buckets() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..99).for_each(|_| histogram.record(Duration::from_micros(100)));
        histogram.record(Duration::from_millis(40));
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_micros(104)));
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_micros(104)));
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_micros(40_960)));
        assert_eq!(histogram.buckets(), [(0.000_104, 99), (0.040_96, 1)]);
        let mut sum = histogram.clone();
        sum.add(&histogram);
        assert_eq!((sum.total(), sum.quantile(1.0)), (200, histogram.quantile(1.0)));
        assert!((sum.sum_seconds() - 0.0998).abs() < 1e-9, "{}", sum.sum_seconds());
    }
}
