//! The counts of a load.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Counts and latencies.
#[derive(Clone, Debug)]
pub struct Tally {
    /// User transactions that committed.
    pub committed: u64,
    /// Attempts that did not.
    pub aborted: u64,
    /// Transactions whose outcome could not be found out in time.
    pub unknown: u64,
    /// Transactions that were refused: unavailable or overloaded.
    pub refused: u64,
    /// Commits that were decided within one round trip.
    pub fast: u64,
    /// Results that were shown before they were final.
    pub shown: u64,
    /// Those of them that were taken back. They are aborted attempts, too.
    pub apologies: u64,
    /// How often a committed transaction has read what the workload promises not to be.
    pub breaches: u64,
    /// The first of them, for people.
    pub breach: Option<String>,
    /// The latest error of another kind, for people.
    pub trouble: Option<String>,
    /// From the beginning of a transaction to its outcome, all attempts included, in nanoseconds.
    latency: Histogram<u64>,
    /// From the beginning of a transaction until its result was shown, in nanoseconds.
    perceived: Histogram<u64>,
    /// From the commit call of the successful attempt to the outcome, in thousandths of a round trip.
    round_trips: Histogram<u64>,
}

/// Latencies up to a minute, to three digits.
const LATENCY_NANOS_MAX: u64 = 60_000_000_000;

impl Default for Tally {
    fn default() -> Self {
        let histogram = |max| Histogram::new_with_bounds(1, max, 3).expect("the bounds are valid");
        Tally {
            committed: 0,
            aborted: 0,
            unknown: 0,
            refused: 0,
            fast: 0,
            shown: 0,
            apologies: 0,
            breaches: 0,
            breach: None,
            trouble: None,
            perceived: histogram(LATENCY_NANOS_MAX),
            latency: histogram(LATENCY_NANOS_MAX),
            round_trips: histogram(1_000_000),
        }
    }
}

impl Tally {
    /// Counts a transaction that has committed.
    pub fn on_commit(
        &mut self,
        latency: Duration,
        commit: Duration,
        round_trip: Option<Duration>,
        fast: bool,
    ) {
        self.committed += 1;
        self.fast += u64::from(fast);
        self.latency.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        if let Some(round_trip) = round_trip
            && !round_trip.is_zero()
        {
            let thousandths = commit.as_secs_f64() / round_trip.as_secs_f64() * 1_000.0;
            self.round_trips.saturating_record(thousandths.round() as u64);
        }
    }

    /// Counts a result that was shown.
    pub fn on_shown(&mut self, latency: Duration) {
        self.shown += 1;
        self.perceived.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The time in microseconds within which this share of the shown results was shown.
    pub fn perceived_us(&self, quantile: f64) -> u64 {
        self.perceived.value_at_quantile(quantile).div_ceil(1_000)
    }

    /// Notes what a transaction has read that the workload promises not to be.
    pub fn note_breaches(&mut self, breaches: &[String]) {
        self.breaches += breaches.len() as u64;
        self.breach = self.breach.take().or_else(|| breaches.first().cloned());
    }

    /// The latency in microseconds that this share of the transactions stays below.
    pub fn latency_us(&self, quantile: f64) -> u64 {
        self.latency.value_at_quantile(quantile).div_ceil(1_000)
    }

    /// The median of round trips per commit; zero if none was measured.
    pub fn rtts_per_commit(&self) -> f64 {
        if self.round_trips.is_empty() {
            0.0
        } else {
            self.round_trips.value_at_quantile(0.5) as f64 / 1_000.0
        }
    }

    /// Aborted attempts out of all attempts that ended.
    pub fn abort_rate(&self) -> f64 {
        let ended = self.committed + self.aborted;
        if ended == 0 { 0.0 } else { self.aborted as f64 / ended as f64 }
    }

    /// Adds the counts of another load.
    pub fn add(&mut self, other: &Tally) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.fast += other.fast;
        self.shown += other.shown;
        self.apologies += other.apologies;
        self.perceived += &other.perceived;
        self.breaches += other.breaches;
        self.breach = self.breach.take().or_else(|| other.breach.clone());
        self.trouble = self.trouble.take().or_else(|| other.trouble.clone());
        self.latency += &other.latency;
        self.round_trips += &other.round_trips;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_knows_its_medians_and_rates() {
        let mut tally = Tally::default();
        let round_trip = Some(Duration::from_millis(100));
        for millis in [101, 103, 300] {
            let took = Duration::from_millis(millis);
            tally.on_commit(took * 2, took, round_trip, millis < 200);
        }
        tally.aborted = 1;
        (0..3).for_each(|_| tally.on_shown(Duration::from_millis(2)));
        tally.apologies = 2;
        assert!((2_000..2_010).contains(&tally.perceived_us(0.5)), "{}", tally.perceived_us(0.5));
        assert_eq!(tally.abort_rate(), 0.25);
        assert!((1.02..1.04).contains(&tally.rtts_per_commit()), "{}", tally.rtts_per_commit());
        assert!((205_000..207_000).contains(&tally.latency_us(0.5)), "{}", tally.latency_us(0.5));
        let mut sum = Tally::default();
        assert_eq!((sum.rtts_per_commit(), sum.abort_rate()), (0.0, 0.0));
        sum.add(&tally);
        assert_eq!((sum.committed, sum.aborted, sum.fast), (3, 1, 2));
        assert_eq!((sum.shown, sum.apologies, sum.perceived_us(0.5)), (3, 2, tally.perceived_us(0.5)));
        assert_eq!(sum.latency_us(0.5), tally.latency_us(0.5));
    }
}
