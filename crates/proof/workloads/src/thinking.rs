//! How long clients think.
//!
//! Workloads say how long a user thinks on average; the time itself is drawn and spent by the driver, so that a simulated client and a real one
//! spend it each in its own time.

use std::time::Duration;

use quorate_core::Random;

/// Longer than so many times the average nobody thinks (TPC-C, section 5.2.5.4).
const LONGEST: f64 = 10.0;

/// A time to think that follows an exponential distribution with this average, cut off at ten times of it.
pub fn exponential(average: Duration, random: &mut Random) -> Duration {
    // Never zero, whose logarithm is none.
    let drawn = 1.0 - random.unit();
    average.mul_f64((-drawn.ln()).clamp(0.0, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_average_and_an_end() {
        let (average, mut random) = (Duration::from_secs(12), Random::new(5));
        let times: Vec<Duration> = (0..100_000).map(|_| exponential(average, &mut random)).collect();
        let mean = times.iter().map(Duration::as_secs_f64).sum::<f64>() / times.len() as f64;
        assert!((11.8..12.2).contains(&mean), "{mean}");
        assert!(times.iter().all(|time| *time <= 10 * average));
        let short = times.iter().filter(|time| **time < average).count();
        assert!((62_000..64_500).contains(&short), "{short} are shorter than the average, not about 63.2 %");
        assert_eq!(exponential(Duration::ZERO, &mut random), Duration::ZERO);
    }
}
