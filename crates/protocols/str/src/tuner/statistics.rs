//! The statistics of windows: means, noise, medians and changes.
//!
//! Floating-point numbers are added, multiplied, divided and rooted, nothing else: these operations give the same results everywhere.

use std::time::Duration;

/// The rates of several windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) windows: u32,
    /// Events per second.
    pub(super) mean: f64,
    /// The sum of squared deviations from the mean.
    squares: f64,
    /// How many events were counted.
    events: u64,
}

impl Sample {
    /// Takes in a window (Welford's method).
    pub(super) fn add(&mut self, rate: f64, events: u64) {
        self.windows += 1;
        let before = rate - self.mean;
        self.mean += before / f64::from(self.windows);
        self.squares += before * (rate - self.mean);
        self.events += events;
    }

    /// The windows of both.
    pub(super) fn with(&self, other: &Sample) -> Sample {
        let windows = self.windows + other.windows;
        if windows == 0 {
            return Sample::default();
        }
        let share = f64::from(other.windows) / f64::from(windows);
        let apart = other.mean - self.mean;
        Sample {
            windows,
            mean: self.mean + apart * share,
            squares: self.squares + other.squares + apart * apart * share * f64::from(self.windows),
            events: self.events + other.events,
        }
    }

    /// The square of the relative noise of windows with so many events that come independently of one another.
    fn independent_variance(&self) -> f64 {
        if self.events == 0 { 0.0 } else { f64::from(self.windows) / self.events as f64 }
    }
}

/// The square of the relative noise of a window, as all samples together say. Before they say much it is `expected`, or that of events which
/// come independently of one another if that is more: both weigh as much as four windows. Samples that have collapsed say nothing of the others, nor does one
/// without windows, whose mean is zero.
pub(super) fn variance<'a>(samples: impl Iterator<Item = &'a Sample> + Clone, expected: f64) -> f64 {
    const WEIGHT: f64 = 4.0;
    let greatest = samples.clone().map(|sample| sample.mean).fold(0.0, f64::max);
    let samples = samples.filter(|sample| sample.mean > greatest / 2.0);
    let independent = samples.clone().map(Sample::independent_variance).fold(0.0, f64::max);
    let (mut squares, mut weight) = (WEIGHT * independent.max(expected * expected), WEIGHT);
    for sample in samples {
        squares += sample.squares / (sample.mean * sample.mean);
        weight += f64::from(sample.windows - 1);
    }
    squares / weight
}

/// How far one rate is above another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// The difference, as a share of the greater one.
    pub(super) difference: f64,
    /// Its standard error.
    pub(super) error: f64,
}

impl Comparison {
    /// Compares one sample with another, where windows have this relative variance. Samples without windows say nothing.
    pub(super) fn of(one: &Sample, other: &Sample, variance: f64) -> Self {
        let greater = one.mean.max(other.mean);
        let difference = if greater > 0.0 { (one.mean - other.mean) / greater } else { 0.0 };
        let parts = [one, other].map(|sample| match sample.windows {
            0 => f64::INFINITY,
            windows => variance / f64::from(windows),
        });
        Comparison { difference, error: (parts[0] + parts[1]).sqrt() }
    }
}

/// The median of final latencies. Older ones count less: half for each window that has ended since.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    /// How many fell into each bucket; a bucket is an eighth of a power of two of microseconds wide.
    buckets: Vec<u32>,
    total: u64,
}

impl Latencies {
    const PER_POWER: u32 = 8;

    pub(super) fn new() -> Self {
        Latencies { buckets: vec![0; 64 * Self::PER_POWER as usize], total: 0 }
    }

    pub(super) fn add(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(u64::from(Self::PER_POWER));
        let power = micros.ilog2();
        let within = (micros >> (power - Self::PER_POWER.ilog2())) as u32 % Self::PER_POWER;
        self.buckets[(power * Self::PER_POWER + within) as usize] += 1;
        self.total += 1;
    }

    pub(super) fn median(&self) -> Option<Duration> {
        let mut left = self.total / 2;
        for (at, &count) in (0_u32..).zip(&self.buckets) {
            if u64::from(count) > left {
                let (power, within) = (at / Self::PER_POWER, at % Self::PER_POWER);
                let micros = u64::from(Self::PER_POWER + within) << (power - Self::PER_POWER.ilog2());
                return Some(Duration::from_micros(micros));
            }
            left -= u64::from(count);
        }
        None
    }

    /// A window has ended.
    pub(super) fn age(&mut self) {
        self.buckets.iter_mut().for_each(|count| *count /= 2);
        self.total = self.buckets.iter().map(|&count| u64::from(count)).sum();
    }
}

/// Notices that a rate has changed, in either direction: cumulative sums (Page, 1954) of how far windows lie from the mean.
///
/// A sum grows by what exceeds the *allowance*, half the shift that is to be noticed or half the noise, and on top of it twice the standard error of
/// the mean itself. It gives the alarm at a threshold of `20 * variance / (2 * allowance)`, or the shift. While nothing changes, a sum comes to `h` with odds of about
/// `exp(-2 * allowance * h / variance)` for each time that it leaves zero: e^-20, one in 500 million.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cusum {
    shift: f64,
    baseline: Sample,
    up: f64,
    down: f64,
}

impl Cusum {
    /// The mean is known well enough to be compared with after so many windows,
    const BASELINE_MIN: u32 = 4;
    /// and is learned from no more than these: what changes slowly is noticed, too.
    const BASELINE_MAX: u32 = 256;
    const ODDS: f64 = 20.0;

    /// Notices changes by this share of a rate of which something is known already.
    pub(super) fn new(shift: f64, baseline: Sample) -> Self {
        Cusum { shift, baseline, up: 0.0, down: 0.0 }
    }

    /// Takes in a window; true if the rate has changed.
    pub(super) fn observe(&mut self, rate: f64, events: u64) -> bool {
        let mut has_changed = false;
        if self.baseline.windows >= Self::BASELINE_MIN {
            let variance = variance(std::iter::once(&self.baseline), self.shift / 20.0);
            let doubt = 2.0 * (variance / f64::from(self.baseline.windows)).sqrt();
            let allowance = (self.shift / 2.0).max(variance.sqrt() / 2.0);
            let threshold = (Self::ODDS * variance / (2.0 * allowance)).max(self.shift);
            let allowance = allowance + doubt;
            let mean = self.baseline.mean;
            let deviation = if mean > 0.0 { rate / mean - 1.0 } else { f64::from(u8::from(rate > 0.0)) };
            self.up = (self.up + deviation - allowance).max(0.0);
            self.down = (self.down - deviation - allowance).max(0.0);
            assert!(threshold > 0.0, "the threshold {threshold} gives the alarm at once");
            has_changed = self.up > threshold || self.down > threshold;
        }
        if self.baseline.windows < Self::BASELINE_MAX {
            self.baseline.add(rate, events);
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of so many events each that their noise is the least that is expected.
    fn sample(rates: &[f64]) -> Sample {
        let mut sample = Sample::default();
        rates.iter().for_each(|&rate| sample.add(rate, 1_000_000));
        sample
    }

    #[test]
    fn nothing_is_the_same_as_nothing() {
        let nothing = Sample::default();
        let both = nothing.with(&nothing);
        assert_eq!((both.windows, both.mean, both.events), (0, 0.0, 0));
        let idle = sample(&[0.0, 0.0]);
        let compared = Comparison::of(&idle, &idle, 0.01);
        assert_eq!((compared.difference, compared.error), (0.0, 0.1));
        let (one, other) = (sample(&[90.0, 110.0]), Sample::default());
        for both in [one.with(&other), other.with(&one)] {
            assert_eq!((both.windows, both.mean, both.squares, both.events), (2, 100.0, 200.0, 2_000_000));
        }
        // A sample without windows has no say, not even beside one in which nothing happens.
        let alone = variance([&nothing, &idle].into_iter(), 0.1);
        assert!((alone - 0.01).abs() < 1e-12, "{alone}");
        let beside = variance([&nothing, &sample(&[100.0; 5])].into_iter(), 0.1);
        assert!((beside - 0.04 / 8.0).abs() < 1e-12, "{beside}");
    }

    /// Of four windows at 100 the noise is taken for 0.76 %, and twice the standard error of their mean for as much. A tenth is allowed beside that, and a fifth
    /// is the threshold.
    #[test]
    fn a_shift_gives_the_alarm_beyond_the_threshold() {
        for (rate, has_changed) in [(130.0, false), (131.0, true), (70.0, false), (69.0, true)] {
            let mut cusum = Cusum::new(0.2, sample(&[100.0; 4]));
            assert_eq!(cusum.observe(rate, 1_000_000), has_changed, "{rate}");
        }
    }

    /// Of 256 windows the mean is known well.
    #[test]
    fn shifts_beyond_the_allowance_add_up() {
        for (rates, alarm) in [
            (vec![125.0, 125.0], Some(1)),
            (vec![75.0, 75.0], Some(1)),
            // A lesser shift is taken off.
            (vec![125.0, 100.0, 125.0], None),
            (vec![75.0, 100.0, 75.0], None),
            // Neither sum falls below zero, nor counts for the other one.
            (vec![95.0, 95.0, 95.0, 131.0], Some(3)),
            (vec![105.0, 105.0, 105.0, 69.0], Some(3)),
            (vec![125.0, 75.0], None),
        ] {
            let mut cusum = Cusum::new(0.2, sample(&[100.0; 256]));
            let told = rates.iter().position(|rate| cusum.observe(*rate, 1_000_000));
            assert_eq!(told, alarm, "{rates:?}");
        }
    }

    /// Half the noise is allowed where that is more than half of the shift, and the threshold grows with it.
    #[test]
    fn noise_is_no_shift() {
        let noisy = [50.0, 150.0, 50.0, 150.0, 50.0, 150.0, 50.0, 150.0];
        // The variance is (4 * 0.0001 + 2) / 11: the noise is 42.6 %, 21.3 % and twice 15.1 % are allowed, and 853 % is the threshold.
        for (rate, has_changed) in [(1_004.0, false), (1_005.0, true)] {
            let mut cusum = Cusum::new(0.2, sample(&noisy));
            assert_eq!(cusum.observe(rate, 1_000_000), has_changed, "{rate}");
        }
    }

    #[test]
    fn a_mean_is_learned_from_four_windows_to_256() {
        for known in 0..=4 {
            let mut cusum = Cusum::new(0.2, Sample::default());
            (0..known).for_each(|_| assert!(!cusum.observe(100.0, 1_000_000)));
            assert_eq!(cusum.observe(1_000.0, 1_000_000), known == 4, "{known}");
        }
        let mut cusum = Cusum::new(0.2, sample(&[100.0; 255]));
        cusum.observe(100.0, 1_000_000);
        assert_eq!(cusum.baseline.windows, 256);
        // A slow change is a change all the same.
        let noticed = (0..200).position(|step| cusum.observe(100.0 + f64::from(step), 1_000_000));
        assert_eq!((cusum.baseline.windows, cusum.baseline.mean), (256, 100.0));
        assert!(noticed.is_some_and(|step| step < 20), "{noticed:?}");
    }

    #[test]
    fn a_rate_that_was_zero_and_is_not_has_changed() {
        let mut cusum = Cusum::new(0.2, sample(&[0.0; 256]));
        assert!((0..10).all(|_| !cusum.observe(0.0, 0)));
        assert!(cusum.observe(5.0, 5));
        assert!(cusum.observe(0.0, 0), "the sum does not come down at once");
        assert!((0..10).any(|_| !cusum.observe(0.0, 0)), "but it does");
    }
}
