//! Which committed writes a replica still retains, in the order of their timestamps: what consumers of changes are answered from.
//!
//! The values are those of [`Versions`]: nothing is kept twice. Here is the order, and the *horizon*: every version at it or above is
//! retained, however often it was overwritten since. A replica collects below its horizon and no further, and the horizon follows the
//! floor at a distance that is bounded in time and in bytes.
//!
//! A replica that is given the state of another, or comes back from its own snapshot, finds the order again in the versions; only the
//! horizon has to come with them.

use std::collections::BTreeMap;

use quorate_core::changes::{Answer, Change, PAGE_BYTES, PAGE_WRITES, Page, Request, Retention, successor};
use quorate_core::{ClientId, Key, Timestamp, Write};

use crate::versions::Versions;

/// Which versions are retained.
#[derive(Debug, Default)]
pub struct History {
    /// Every version at this timestamp or above is there.
    horizon: Timestamp,
    /// The keys that were written at each timestamp that is not below the horizon.
    written: BTreeMap<Timestamp, Written>,
    /// The bytes of all of them.
    bytes: usize,
}

/// The writes at one timestamp.
#[derive(Debug, Default)]
struct Written {
    /// Ascending.
    keys: Vec<Key>,
    bytes: usize,
}

impl Written {
    fn add(&mut self, key: &Key, value: Option<&[u8]>) {
        /// The bytes that a version takes beside its key and its value, here and among the versions.
        const OVERHEAD: usize = 96;
        self.bytes += key.len() + value.map_or(0, <[u8]>::len) + OVERHEAD;
        self.keys.push(key.clone());
    }
}

impl History {
    /// A history without versions, of which none is missing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every version at this timestamp or above is retained: below it versions may be collected.
    pub fn horizon(&self) -> Timestamp {
        self.horizon
    }

    /// The bytes of what is retained.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A transaction has committed, and its versions are installed. It makes no difference how often that is said. Several transactions may
    /// have one timestamp, if they have written other keys.
    pub fn note(&mut self, timestamp: Timestamp, writes: &[Write]) {
        if timestamp < self.horizon || writes.is_empty() {
            return;
        }
        let written = self.written.entry(timestamp).or_default();
        let known = written.keys.len();
        self.bytes -= written.bytes;
        for write in writes {
            if written.keys[..known].binary_search(&write.key).is_err() {
                written.add(&write.key, write.value.as_deref());
            }
        }
        written.keys.sort_unstable();
        self.bytes += written.bytes;
    }

    /// Lets go what is retained for too long, or is too much; at most what was written at `max` timestamps. The horizon comes no further
    /// than the floor: what lies above may still be joined by what commits between.
    pub fn retain(&mut self, floor: Timestamp, retention: Retention, max: usize) {
        let micros = floor.micros.saturating_sub(retention.time.as_micros() as u64);
        let end = if retention.time.is_zero() { floor } else { Timestamp { micros, client: ClientId(0) } };
        for _ in 0..max {
            match self.written.first_entry() {
                Some(first)
                    if *first.key() < end
                        || (self.bytes as u64 > retention.bytes && *first.key() < floor) =>
                {
                    let (timestamp, written) = first.remove_entry();
                    self.bytes -= written.bytes;
                    self.horizon = self.horizon.max(successor(timestamp));
                }
                // Where nothing is written nothing is let go, and a consumer is never too late.
                _ if !retention.time.is_zero() => break,
                _ => {
                    self.horizon = self.horizon.max(floor);
                    break;
                }
            }
        }
        assert!(
            self.written.first_key_value().is_none_or(|(first, _)| *first >= self.horizon),
            "what was written at {:?} is retained from {} on",
            self.written.first_key_value().map(|(first, _)| *first),
            self.horizon
        );
    }

    /// The versions below a floor make room for those of another replica.
    pub fn forget_below(&mut self, floor: Timestamp) {
        self.horizon = self.horizon.max(floor);
        self.written = self.written.split_off(&self.horizon);
        self.bytes = self.written.values().map(|written| written.bytes).sum();
    }

    /// Finds the order again in versions of which all are there from a timestamp on.
    pub fn rebuild(&mut self, horizon: Timestamp, versions: &Versions) {
        *self = History { horizon, ..History::default() };
        for (key, version) in versions.iter().filter(|(_, version)| version.timestamp >= horizon) {
            // Keys come in their order.
            self.written.entry(version.timestamp).or_default().add(key, version.bytes().as_deref());
        }
        self.bytes = self.written.values().map(|written| written.bytes).sum();
    }

    /// The answer to a consumer, of a replica that holds everything below its floor, where nothing can commit any more.
    ///
    /// # Panics
    /// If a version that is retained is not there.
    pub fn answer(&self, request: &Request, floor: Timestamp, versions: &Versions) -> Answer {
        let from = request.from.unwrap_or(floor);
        if from < self.horizon {
            return Answer::TooOld { retained_from: self.horizon };
        }
        let (mut changes, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        let bytes_max = request.bytes_max.min(PAGE_BYTES);
        // Another replica may be further than this one, which then knows nothing.
        let to = floor.max(from);
        for (timestamp, written) in self.written.range(from..to) {
            looked_at += written.keys.len();
            let wanted = written.keys.iter().filter(|key| request.keys.contains(key));
            let writes: Vec<Write> = wanted.map(|key| write_at(versions, key, *timestamp)).collect();
            if !writes.is_empty() {
                let change = Change::of_writes(*timestamp, writes);
                bytes += change.bytes();
                changes.push(change);
            }
            if bytes >= bytes_max || looked_at >= PAGE_WRITES {
                let page = Page { from, to: successor(*timestamp), changes, is_last: false };
                return Answer::Page(page);
            }
        }
        Answer::Page(Page { from, to, changes, is_last: true })
    }
}

fn write_at(versions: &Versions, key: &Key, timestamp: Timestamp) -> Write {
    let version = versions.at(key, timestamp).filter(|version| version.timestamp == timestamp);
    assert!(version.is_some(), "{key:?} was written at {timestamp}, and that version is not retained");
    Write { key: key.clone(), value: version.and_then(|version| version.value()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use quorate_core::{KeyRange, Value};

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn floor(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(0) }
    }

    fn key(number: u64) -> Key {
        Key::from(format!("{number:03}"))
    }

    /// A shard that is written to: at each timestamp the key that is named, with the timestamp as its value.
    #[derive(Default)]
    struct Shard {
        versions: Versions,
        history: History,
    }

    impl Shard {
        fn write(&mut self, micros: u64, keys: &[u64]) {
            let value = |key: &u64| (key % 7 != 6).then(|| Value::from(micros.to_string()));
            let writes: Vec<Write> =
                keys.iter().map(|number| Write { key: key(*number), value: value(number) }).collect();
            for write in &writes {
                self.versions.install(&write.key, at(micros), write.value.clone());
            }
            self.history.note(at(micros), &writes);
        }

        fn retain(&mut self, below: u64, time: u64, bytes: u64) {
            let retention = Retention { time: Duration::from_micros(time), bytes };
            self.history.retain(floor(below), retention, usize::MAX);
            self.versions.collect(self.history.horizon(), usize::MAX);
        }

        fn page(&self, from: u64, below: u64) -> Page {
            match self.history.answer(&Request::all(Some(floor(from))), floor(below), &self.versions) {
                Answer::Page(page) => page,
                other => panic!("{other:?}"),
            }
        }
    }

    fn told(page: &Page) -> Vec<(u64, Vec<Key>)> {
        let keys = |change: &Change| change.writes.iter().map(|write| write.key.clone()).collect();
        page.changes.iter().map(|change| (change.timestamp.micros, keys(change))).collect()
    }

    #[test]
    fn what_lies_below_the_floor_is_told_in_the_order_of_timestamps_and_overwritten_values_too() {
        let mut shard = Shard::default();
        for (micros, keys) in [(30, vec![1]), (10, vec![2, 1]), (20, vec![1]), (40, vec![1]), (20, vec![1])] {
            shard.write(micros, &keys);
        }
        shard.retain(40, 100, u64::MAX);
        let page = shard.page(0, 40);
        assert_eq!(told(&page), [(10, vec![key(1), key(2)]), (20, vec![key(1)]), (30, vec![key(1)])]);
        assert_eq!((page.from, page.to, page.is_last), (floor(0), floor(40), true));
        assert_eq!(page.changes[1].writes[0].value, Some(Value::from("20")));
        assert_eq!(told(&shard.page(20, 40)).len(), 2, "it begins at the timestamp itself");
        let ahead = shard.page(50, 40);
        assert_eq!(
            (ahead.from, ahead.to, ahead.changes),
            (floor(50), floor(50), vec![]),
            "others are further"
        );
        let Answer::Page(now) = shard.history.answer(&Request::all(None), floor(40), &shard.versions) else {
            panic!()
        };
        assert_eq!((now.from, now.to, now.changes), (floor(40), floor(40), vec![]));
    }

    #[test]
    fn what_was_written_at_one_timestamp_is_told_together_and_once() {
        let mut shard = Shard::default();
        for keys in [vec![1, 3], vec![2], vec![1, 3]] {
            shard.write(10, &keys);
        }
        assert_eq!(told(&shard.page(0, 40)), [(10, vec![key(1), key(2), key(3)])]);
        let mut other = Shard::default();
        other.versions.install_page(shard.versions.pages(1_000).into_iter().flatten());
        other.history.rebuild(floor(0), &other.versions);
        assert_eq!(other.history.bytes(), shard.history.bytes());
    }

    #[test]
    fn only_the_keys_that_are_wanted_are_told() {
        let mut shard = Shard::default();
        shard.write(10, &[1, 2]);
        shard.write(20, &[3]);
        let keys = KeyRange { from: key(2), to: Some(key(3)) };
        let request = Request { keys, ..Request::all(Some(floor(0))) };
        let Answer::Page(page) = shard.history.answer(&request, floor(30), &shard.versions) else { panic!() };
        assert_eq!((told(&page), page.to), (vec![(10, vec![key(2)])], floor(30)));
    }

    #[test]
    fn what_is_let_go_is_bounded_by_time_and_by_bytes_and_lies_below_the_floor() {
        let shard = || {
            let mut shard = Shard::default();
            (1..=9).for_each(|number| shard.write(number * 10, &[1]));
            shard
        };
        let each = shard().history.bytes() as u64 / 9;
        let table = [
            // floor, time, bytes; from where on it is retained
            (0, 0, 0, floor(0)),
            (55, 0, u64::MAX, floor(55)),
            (55, 20, u64::MAX, successor(at(30))),
            (55, 100, u64::MAX, floor(0)),
            (55, 100, 8 * each, successor(at(10))),
            (55, 100, 2 * each, successor(at(50))),
            (200, 150, 0, successor(at(90))),
        ];
        for (below, time, bytes, horizon) in table {
            let mut shard = shard();
            shard.retain(below, time, bytes);
            assert_eq!(shard.history.horizon(), horizon, "{below} {time} {bytes}");
            let answer = |from| shard.history.answer(&Request::all(Some(from)), floor(200), &shard.versions);
            assert!(matches!(answer(horizon), Answer::Page(_)));
            if horizon > floor(0) {
                assert_eq!(answer(floor(0)), Answer::TooOld { retained_from: horizon });
            }
        }
    }

    #[test]
    fn pages_end_between_transactions_and_follow_each_other() {
        let mut shard = Shard::default();
        let (transactions, keys) = (40, (0..1_000).collect::<Vec<u64>>());
        (1..=transactions).for_each(|micros| shard.write(micros, &keys));
        let (mut from, mut found, mut pages) = (Some(floor(0)), Vec::new(), 0);
        loop {
            let request = Request::all(from);
            let Answer::Page(page) = shard.history.answer(&request, floor(100), &shard.versions) else {
                panic!()
            };
            assert!(page.changes.iter().all(|change| change.writes.len() == 1_000), "none is divided");
            found.extend(page.changes.iter().map(|change| change.timestamp.micros));
            pages += 1;
            from = Some(page.to);
            if page.is_last {
                break;
            }
        }
        assert_eq!(found, (1..=transactions).collect::<Vec<u64>>());
        assert!(pages > 1 && from == Some(floor(100)), "{pages} pages, up to {from:?}");
    }

    #[test]
    fn the_order_is_found_again_in_versions() {
        let mut shard = Shard::default();
        (1..=10).for_each(|number| shard.write(number * 10, &[number, 0, 20]));
        shard.retain(100, 55, u64::MAX);
        let before = shard.page(45, 90);
        let mut other = Shard::default();
        other.versions.install_page(shard.versions.pages(1_000).into_iter().flatten());
        other.history.rebuild(shard.history.horizon(), &other.versions);
        assert_eq!((other.page(45, 90), other.history.bytes()), (before, shard.history.bytes()));
        other.history.forget_below(floor(70));
        assert_eq!(told(&other.page(70, 90)).len(), 2);
        let request = Request::all(Some(floor(60)));
        let too_old = Answer::TooOld { retained_from: floor(70) };
        assert_eq!(other.history.answer(&request, floor(90), &other.versions), too_old);
    }

    proptest! {
        #[test]
        fn every_write_is_told_once_however_the_floor_rises_and_in_whatever_order_writes_come(
            mut writes in proptest::collection::btree_map(1u64..200, 0u64..10, 1..50),
            steps in proptest::collection::vec(1u64..60, 1..10),
            seed in any::<u64>(),
        ) {
            let mut shard = Shard::default();
            let (mut below, mut from, mut found) = (0, floor(0), Vec::new());
            let all: Vec<(u64, Vec<Key>)> = writes.iter().map(|(micros, number)| (*micros, vec![key(*number)])).collect();
            for step in steps.into_iter().chain([1_000]) {
                below += step;
                // The writes below the floor have come by now, and perhaps some of the rest.
                let come: Vec<u64> = writes.keys().copied()
                    .filter(|micros| *micros < below || (micros.wrapping_mul(seed) >> 13) % 2 == 0)
                    .rev().collect();
                for micros in come {
                    let number = writes.remove(&micros).unwrap();
                    shard.write(micros, &[number]);
                }
                shard.retain(below, 1_000_000, u64::MAX);
                let Answer::Page(page) = shard.history.answer(&Request::all(Some(from)), floor(below), &shard.versions) else {
                    panic!("it retains everything")
                };
                found.extend(told(&page));
                from = page.to;
            }
            prop_assert_eq!(found, all);
        }
    }
}
