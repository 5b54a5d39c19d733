//! At which timestamps keys and ranges have been read by committed transactions.
//!
//! A write below the read timestamp of its key would change what a committed transaction should have seen, so it is
//! sent to a higher timestamp. Three sources, and the greatest counts: reads of the key itself, scans of a range that
//! contains it, and a floor for the whole shard that a view change leaves behind.

use std::collections::BTreeMap;

use quorate_core::hash::FixedMap;
use quorate_core::{Key, KeyRange, Timestamp};

/// The read timestamps of a shard.
#[derive(Debug, Default)]
pub struct ReadTimestamps {
    keys: FixedMap<Key, Timestamp>,
    /// Keys that were read before [`ReadTimestamps::collect`] last moved them here; forgotten together.
    earlier: FixedMap<Key, Timestamp>,
    /// The greatest timestamp in `earlier`.
    earlier_greatest: Timestamp,
    /// A step function: a key's value is that of the greatest boundary not above it; none below the first boundary.
    ranges: BTreeMap<Key, Timestamp>,
    floor: Timestamp,
    greatest: Timestamp,
}

impl ReadTimestamps {
    /// Nothing has been read.
    pub fn new() -> Self {
        Self::default()
    }

    /// The greatest timestamp at which `key` was, or must be taken to have been, read.
    pub fn of(&self, key: &[u8]) -> Timestamp {
        let point = self.keys.get(key).copied().unwrap_or_default();
        let point = if self.earlier.is_empty() {
            point
        } else {
            point.max(self.earlier.get(key).copied().unwrap_or_default())
        };
        let range = if self.ranges.is_empty() { Timestamp::ZERO } else { self.step_at(key) };
        point.max(range).max(self.floor)
    }

    /// The greatest timestamp at which anything was read.
    pub fn greatest(&self) -> Timestamp {
        self.greatest.max(self.floor)
    }

    /// How many keys have been read by themselves.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if no key has been read by itself.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys, and boundaries of ranges, are remembered apart from the floor.
    pub fn remembered(&self) -> usize {
        self.keys.len() + self.earlier.len() + self.ranges.len()
    }

    /// At which timestamp everything is taken to have been read.
    pub fn floor(&self) -> Timestamp {
        self.floor
    }

    /// Notes a read of a key, which may be absent.
    pub fn read_key(&mut self, key: &Key, timestamp: Timestamp) {
        self.greatest = self.greatest.max(timestamp);
        if timestamp > self.floor {
            match self.keys.get_mut(key.as_ref()) {
                Some(known) => *known = timestamp.max(*known),
                None => {
                    self.keys.insert(key.clone(), timestamp);
                }
            }
        }
    }

    /// Notes a scan of a range.
    pub fn read_range(&mut self, range: &KeyRange, timestamp: Timestamp) {
        self.greatest = self.greatest.max(timestamp);
        if range.is_empty() || timestamp <= self.floor {
            return;
        }
        // Boundaries at both ends keep what was there; then everything between is raised.
        if let Some(to) = &range.to {
            let after = self.step_at(to);
            self.ranges.insert(to.clone(), after);
        }
        let before = self.step_at(&range.from);
        self.ranges.insert(range.from.clone(), before);
        let inside: Vec<Key> = match &range.to {
            Some(to) => self.ranges.range::<Key, _>(&range.from..to).map(|(key, _)| key.clone()).collect(),
            None => self.ranges.range::<Key, _>(&range.from..).map(|(key, _)| key.clone()).collect(),
        };
        for boundary in inside {
            let step = self.ranges.get_mut(&boundary).expect("the boundary was just listed");
            *step = timestamp.max(*step);
        }
        self.join_equal_steps(range);
    }

    /// Takes everything to have been read at `floor`: what a view change knows of reads that single replicas recorded.
    pub fn raise_floor(&mut self, floor: Timestamp) {
        if floor > self.floor {
            self.keys.retain(|_, timestamp| *timestamp > floor);
            self.earlier.retain(|_, timestamp| *timestamp > floor);
            self.raise_floor_of_ranges(floor);
        }
    }

    /// Takes everything to have been read at `floor`, and forgets in bulk what that covers: no write below it will be
    /// accepted any more. Cheap however many keys were read, because single keys are only ever forgotten together.
    pub fn collect(&mut self, floor: Timestamp) {
        if self.earlier_greatest <= floor {
            self.earlier = std::mem::take(&mut self.keys);
            self.earlier_greatest = self.greatest;
        }
        self.raise_floor_of_ranges(floor);
    }

    fn raise_floor_of_ranges(&mut self, floor: Timestamp) {
        if floor > self.floor {
            self.floor = floor;
            let mut previous = Timestamp::ZERO;
            self.ranges.retain(|_, step| {
                if *step <= floor {
                    *step = Timestamp::ZERO;
                }
                std::mem::replace(&mut previous, *step) != *step
            });
        }
    }

    fn step_at(&self, key: &[u8]) -> Timestamp {
        use std::ops::Bound::{Included, Unbounded};
        self.ranges
            .range::<[u8], _>((Unbounded, Included(key)))
            .next_back()
            .map_or(Timestamp::ZERO, |(_, step)| *step)
    }

    /// Drops boundaries in and beside `range` at which nothing changes.
    fn join_equal_steps(&mut self, range: &KeyRange) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let upper = range.to.as_ref().map_or(Unbounded, Included);
        let mut previous = self
            .ranges
            .range::<Key, _>((Unbounded, Excluded(&range.from)))
            .next_back()
            .map_or(Timestamp::ZERO, |(_, step)| *step);
        let mut idle = Vec::new();
        for (boundary, step) in self.ranges.range::<Key, _>((Included(&range.from), upper)) {
            if *step == previous {
                idle.push(boundary.clone());
            }
            previous = *step;
        }
        for boundary in idle {
            self.ranges.remove(&boundary);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quorate_core::ClientId;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn range(from: u8, to: Option<u8>) -> KeyRange {
        KeyRange { from: Key::copy_from_slice(&[from]), to: to.map(|to| Key::copy_from_slice(&[to])) }
    }

    #[test]
    fn the_greatest_of_key_range_and_floor_counts() {
        let mut reads = ReadTimestamps::new();
        reads.read_key(&Key::from(&[5]), at(10));
        reads.read_range(&range(3, Some(8)), at(7));
        assert_eq!(reads.of(&[5]), at(10));
        assert_eq!(reads.of(&[4]), at(7));
        assert_eq!(reads.of(&[8]), Timestamp::ZERO);
        reads.raise_floor(at(8));
        assert_eq!(reads.of(&[4]), at(8));
        assert_eq!(reads.of(&[5]), at(10));
        assert_eq!(reads.greatest(), at(10));
    }

    #[test]
    fn what_the_floor_covers_is_forgotten_in_bulk() {
        let mut reads = ReadTimestamps::new();
        reads.read_key(&Key::from(&[1]), at(10));
        reads.collect(at(5));
        reads.read_key(&Key::from(&[2]), at(20));
        reads.collect(at(6));
        assert_eq!((reads.of(&[1]), reads.of(&[2]), reads.of(&[3])), (at(10), at(20), at(6)));
        reads.collect(at(12));
        assert_eq!((reads.of(&[1]), reads.of(&[2])), (at(12), at(20)));
        assert_eq!(
            (reads.keys.len(), reads.earlier.len()),
            (0, 1),
            "only what is above the floor is kept by key"
        );
        reads.collect(at(30));
        assert_eq!(reads.earlier.len(), 0);
        assert_eq!((reads.of(&[2]), reads.greatest()), (at(30), at(30)));
    }

    #[test]
    fn repeated_scans_of_one_range_keep_one_step() {
        let mut reads = ReadTimestamps::new();
        for micros in 1..100 {
            reads.read_range(&range(3, Some(8)), at(micros));
        }
        assert!(reads.ranges.len() <= 2, "{:?}", reads.ranges);
    }

    proptest! {
        #[test]
        fn the_step_function_agrees_with_a_list(
            scans in proptest::collection::vec((0u8..20, proptest::option::of(0u8..20), 1u64..50), 0..30),
            floor in proptest::option::of(1u64..50),
        ) {
            let mut reads = ReadTimestamps::new();
            for (index, (from, to, micros)) in scans.iter().enumerate() {
                if index == scans.len() / 2 && let Some(floor) = floor {
                    reads.raise_floor(at(floor));
                }
                reads.read_range(&range(*from, *to), at(*micros));
            }
            let raised = floor.filter(|_| !scans.is_empty()).map_or(Timestamp::ZERO, at);
            for key in 0u8..25 {
                let expected = scans
                    .iter()
                    .filter(|(from, to, _)| range(*from, *to).contains(&[key]))
                    .map(|(_, _, micros)| at(*micros))
                    .max()
                    .unwrap_or_default()
                    .max(raised);
                prop_assert_eq!(reads.of(&[key]), expected, "key {}", key);
            }
        }
    }
}
