//! The slots of keys in the order of the keys.
//!
//! Runs of slots, each behind a key that is not above the first of them: a B+ tree whose upper part is a map of the standard
//! library. A slot is four bytes; its key is looked at where its entry lies, which only new keys, keys that leave and scans do.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use quorate_core::Key;

use super::slab::{Slab, Slot};

/// A run that is longer is divided.
const RUN_MAX: usize = 128;

/// A run that is shorter is joined with its neighbour,
const RUN_MIN: usize = 32;

/// if both together are no longer than this.
const RUN_JOINED: usize = 96;

/// All slots. The first run stands behind the empty key, so there is a run for every key once there is one.
#[derive(Debug, Default)]
pub(super) struct Order {
    runs: BTreeMap<Key, Vec<Slot>>,
}

impl Order {
    /// Adds the slot of a key that is not there.
    pub(super) fn insert(&mut self, slab: &Slab, slot: Slot) {
        let key = slab.key(slot);
        if let Some(mut last) = self.runs.last_entry()
            && last.get().last().is_some_and(|greatest| slab.key(*greatest) < key)
        {
            // Keys that ascend fill their runs.
            let run = last.get_mut();
            if run.len() < RUN_MAX {
                run.push(slot);
            } else {
                self.runs.insert(key.clone(), vec![slot]);
            }
            return;
        }
        if self.runs.is_empty() {
            self.runs.insert(Key::default(), Vec::new());
        }
        let run = self.run_mut(key);
        let at = run.partition_point(|other| slab.key(*other) < key);
        if run.len() < RUN_MAX {
            return run.insert(at, slot);
        }
        let mut right = run.split_off(RUN_MAX / 2);
        if at <= RUN_MAX / 2 {
            run.insert(at, slot);
        } else {
            right.insert(at - RUN_MAX / 2, slot);
        }
        self.runs.insert(slab.key(right[0]).clone(), right);
    }

    /// Removes the slot of a key that is there.
    pub(super) fn remove(&mut self, slab: &Slab, slot: Slot) {
        let key = slab.key(slot);
        let run = self.run_mut(key);
        let at = run.partition_point(|other| slab.key(*other) < key);
        assert_eq!(run.get(at), Some(&slot), "{key:?} leaves, and is not in its place");
        run.remove(at);
        if run.len() < RUN_MIN {
            self.join(key);
        }
    }

    /// The slots of the keys behind a key, or from it on.
    pub(super) fn from<'a>(
        &'a self,
        slab: &'a Slab,
        key: &[u8],
        with_it: bool,
    ) -> impl Iterator<Item = Slot> + use<'a> {
        let first = self.runs.range::<[u8], _>((Unbounded, Included(key))).next_back();
        let first = first.map_or(&[][..], |(_, run)| {
            let is_before = |slot: &Slot| {
                let other = slab.key(*slot).as_slice();
                other < key || !with_it && other == key
            };
            &run[run.partition_point(is_before)..]
        });
        let later = self.runs.range::<[u8], _>((Excluded(key), Unbounded)).flat_map(|(_, run)| run);
        first.iter().chain(later).copied()
    }

    /// The slot of the greatest key.
    pub(super) fn last(&self) -> Option<Slot> {
        self.runs.last_key_value().and_then(|(_, run)| run.last().copied())
    }

    /// All slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.runs.values().flatten().copied()
    }

    /// The bytes of memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        /// Of a run in the map: maps of the standard library are filled to two thirds at least.
        const RUN: usize = size_of::<(Key, Vec<Slot>)>() * 3 / 2;
        // Runs grow to their greatest length by doubling, so most have room for it.
        self.runs.len() * (RUN + RUN_MAX * size_of::<Slot>())
    }

    fn run_mut(&mut self, key: &Key) -> &mut Vec<Slot> {
        let run = self.runs.range_mut::<[u8], _>((Unbounded, Included(key.as_slice()))).next_back();
        run.map(|(_, run)| run).expect("the first run stands behind the empty key")
    }

    /// Joins the run of a key with the one before it, or else the one behind it.
    fn join(&mut self, key: &Key) {
        let upto = (Unbounded, Included(key.as_slice()));
        let mut upto = self.runs.range::<[u8], _>(upto).rev();
        let Some((bound, run)) = upto.next() else { return };
        let fits = |other: &Vec<Slot>| run.is_empty() || run.len() + other.len() <= RUN_JOINED;
        let right = match upto.next() {
            Some((_, before)) if fits(before) => bound.clone(),
            Some(_) => return,
            None => match self.runs.range::<[u8], _>((Excluded(bound.as_slice()), Unbounded)).next() {
                Some((behind, other)) if fits(other) => behind.clone(),
                _ => return,
            },
        };
        let joined = self.runs.remove(&right).expect("it was just seen");
        self.run_mut(&right).extend(joined);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use quorate_core::Timestamp;

    use super::super::slab::Entry;
    use super::super::values::Content;
    use super::*;

    impl Order {
        fn check(&self, slab: &Slab) {
            assert!(self.runs.first_key_value().is_none_or(|(bound, _)| bound.is_empty()));
            let mut last: Option<&Key> = None;
            for (bound, run) in &self.runs {
                assert!(run.len() <= RUN_MAX && (!run.is_empty() || self.runs.len() == 1));
                for slot in run {
                    let key = slab.key(*slot);
                    assert!(bound <= key && last.is_none_or(|last| last < key), "{last:?} {bound:?} {key:?}");
                    last = Some(key);
                }
            }
        }
    }

    fn insert(slab: &mut Slab, order: &mut Order, key: &Key) -> Slot {
        let entry = Entry { key: key.clone(), timestamp: Timestamp::ZERO, content: Content::DELETED };
        let slot = slab.insert(entry);
        order.insert(slab, slot);
        slot
    }

    fn key(number: u16) -> Key {
        Key::from(number.to_be_bytes().to_vec())
    }

    #[test]
    fn keys_that_ascend_fill_their_runs_and_those_that_leave_are_joined() {
        let (mut slab, mut order) = (Slab::default(), Order::default());
        let slots: Vec<Slot> =
            (0..10_000).map(|number| insert(&mut slab, &mut order, &key(number))).collect();
        order.check(&slab);
        assert_eq!(order.runs.len(), 10_000_usize.div_ceil(RUN_MAX));
        for (number, slot) in slots.iter().enumerate() {
            if number % 500 != 0 {
                order.remove(&slab, *slot);
                slab.remove(*slot);
            }
        }
        order.check(&slab);
        assert_eq!((order.iter().count(), order.runs.len()), (20, 1));
    }

    #[test]
    fn the_empty_key_is_a_key() {
        let (mut slab, mut order) = (Slab::default(), Order::default());
        let empty = insert(&mut slab, &mut order, &Key::default());
        let other = insert(&mut slab, &mut order, &key(0));
        let from = |with_it| order.from(&slab, &[], with_it).collect::<Vec<_>>();
        assert_eq!((from(true), from(false)), (vec![empty, other], vec![other]));
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_set(
            changes in proptest::collection::vec((0u16..2_000, 0u16..400, 0u8..3), 0..40),
            bounds in proptest::collection::vec((0u16..2_500, any::<bool>()), 1..8),
        ) {
            let (mut slab, mut order) = (Slab::default(), Order::default());
            let mut model = BTreeMap::new();
            for (at, (first, count, kind)) in changes.into_iter().enumerate() {
                // Runs of keys come and go, and some of a run, from either end.
                let numbers = (first..first + count).step_by(1 + at % 3);
                let numbers: Vec<u16> =
                    if at % 2 == 0 { numbers.collect() } else { numbers.rev().collect() };
                for number in numbers {
                    let key = key(number);
                    if kind == 0 {
                        if let Some(slot) = model.remove(&key) {
                            order.remove(&slab, slot);
                            slab.remove(slot);
                        }
                    } else if !model.contains_key(&key) {
                        model.insert(key.clone(), insert(&mut slab, &mut order, &key));
                    }
                }
                order.check(&slab);
            }
            prop_assert_eq!(order.iter().collect::<Vec<_>>(), model.values().copied().collect::<Vec<_>>());
            for (from, with_it) in bounds {
                let from = key(from);
                let is_in = |key: &Key| *key > from || with_it && *key == from;
                let expected: Vec<Slot> =
                    model.iter().filter(|(key, _)| is_in(key)).map(|(_, slot)| *slot).collect();
                prop_assert_eq!(order.from(&slab, &from, with_it).collect::<Vec<_>>(), expected);
            }
        }
    }
}
