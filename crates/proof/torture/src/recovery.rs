//! How long clients and nodes were without service.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::fault::Fault;

/// How long there was no service, by the faults that struck alone.
#[derive(Debug, Default)]
pub struct Recoveries {
    of: BTreeMap<Fault, Measured>,
}

#[derive(Debug, Default)]
struct Measured {
    gaps: Vec<Duration>,
    restarts: Vec<Duration>,
}

/// The median and the greatest of some durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Half of them are not longer.
    pub median_ms: u64,
    /// None is longer.
    pub max_ms: u64,
}

impl Recoveries {
    /// A fault has struck alone, and for so long no client committed anything.
    pub(crate) fn add_gap(&mut self, fault: Fault, gap: Duration) {
        self.of.entry(fault).or_default().gaps.push(gap);
    }

    /// A process that the fault had ended served again so long after it was started.
    pub(crate) fn add_restart(&mut self, fault: Fault, took: Duration) {
        self.of.entry(fault).or_default().restarts.push(took);
    }

    /// How long clients were without service.
    pub fn gap(&self, fault: Fault) -> Option<Spread> {
        spread(&self.of.get(&fault)?.gaps)
    }

    /// How long processes took from their start until all their replicas served.
    pub fn restart(&self, fault: Fault) -> Option<Spread> {
        spread(&self.of.get(&fault)?.restarts)
    }
}

fn spread(durations: &[Duration]) -> Option<Spread> {
    let mut millis: Vec<u64> = durations.iter().map(|duration| duration.as_millis() as u64).collect();
    millis.sort_unstable();
    let max_ms = *millis.last()?;
    Some(Spread { median_ms: millis[(millis.len() - 1) / 2], max_ms })
}

/// The longest time without a commit that touches the time between `from` and `to`. The commits ascend; before the
/// first and after the last there is none, so both should lie outside.
pub(crate) fn longest_gap(commits: &[Instant], from: Instant, to: Instant) -> Duration {
    let first = commits.partition_point(|commit| *commit < from).saturating_sub(1);
    let gaps = commits[first..].windows(2).take_while(|pair| pair[0] <= to);
    gaps.map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_if_it_touches_the_time_of_the_fault() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let commits = [0, 500, 510, 700, 710, 720, 1_500, 1_510].map(at);
        let gap = |from, to| longest_gap(&commits, at(from), at(to)).as_millis();
        assert_eq!(gap(600, 705), 190, "between 510 and 700, which the time begins in");
        assert_eq!(gap(505, 715), 190);
        assert_eq!(gap(505, 720), 780, "the time ends as the longest begins");
        assert_eq!(gap(100, 200), 500);
        assert_eq!(longest_gap(&[], at(0), at(1)), Duration::ZERO);
    }

    #[test]
    fn medians_and_maxima() {
        let mut recoveries = Recoveries::default();
        for millis in [30, 10, 20, 1_000] {
            recoveries.add_gap(Fault::Pauses, Duration::from_millis(millis));
        }
        assert_eq!(recoveries.gap(Fault::Pauses), Some(Spread { median_ms: 20, max_ms: 1_000 }));
        assert_eq!((recoveries.restart(Fault::Pauses), recoveries.gap(Fault::PowerLoss)), (None, None));
    }
}
