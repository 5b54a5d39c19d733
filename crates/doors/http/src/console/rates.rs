//! Rates: the differences between two statuses of a node, by the time between them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// Rates are those of so long.
const SPAN: Duration = Duration::from_secs(4);

/// Counts of several things that only rise, at one moment.
pub(super) type Counts = Vec<u64>;

/// The latest counts of each of several sources.
#[derive(Debug)]
pub(super) struct Rates<K>(BTreeMap<K, VecDeque<(Instant, Counts)>>);

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Rates(BTreeMap::new())
    }
}

impl<K: Ord> Rates<K> {
    /// Notes what a source has counted, and gives by how much it has risen and in how many seconds; nothing as long as there is one moment alone.
    pub(super) fn note(&mut self, source: K, now: Instant, counts: Counts) -> Option<(Counts, f64)> {
        let known = self.0.entry(source).or_default();
        let has_begun_anew =
            |(_, before): &(Instant, Counts)| before.iter().zip(&counts).any(|(before, now)| now < before);
        if known.back().is_some_and(has_begun_anew) {
            known.clear();
        }
        known.push_back((now, counts));
        // One moment stays that is as old as the span.
        while known.len() > 2 && known.get(1).is_some_and(|(at, _)| now - *at >= SPAN) {
            known.pop_front();
        }
        let ((since, before), (until, latest)) = (known.front()?, known.back()?);
        let seconds = (*until - *since).as_secs_f64();
        let risen = before.iter().zip(latest).map(|(before, latest)| latest - before).collect();
        (seconds > 0.0).then_some((risen, seconds))
    }

    /// Forgets the sources that have not counted anything lately.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.0.retain(|_, known| known.back().is_some_and(|(at, _)| now - *at < 4 * SPAN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_seconds_and_of_one_life() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(rates.note(1, at(0), vec![5, 0]), None, "one moment alone says nothing");
        assert_eq!(rates.note(1, at(1), vec![15, 0]), Some((vec![10, 0], 1.0)));
        for second in 2..=20 {
            assert!(rates.note(1, at(second), vec![15, second]).is_some());
        }
        assert_eq!(rates.note(1, at(21), vec![15, 21]), Some((vec![0, 4], 4.0)));
        assert_eq!(rates.note(2, at(21), vec![7, 7]), None);
        assert_eq!(rates.note(1, at(22), vec![0, 1]), None, "the node has begun anew");
        assert_eq!(rates.note(1, at(23), vec![2, 1]), Some((vec![2, 0], 1.0)));
        rates.forget_old(at(60));
        assert_eq!(rates.note(1, at(61), vec![9, 9]), None);
    }
}
