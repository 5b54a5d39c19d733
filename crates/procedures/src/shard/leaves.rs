//! A sorted map that can be frozen while it changes.
//!
//! Entries lie in leaves of some dozens, and leaves are shared with whoever has cloned the map: a clone costs one reference for
//! each leaf, and a leaf is copied when it is first changed afterwards.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use quorate_core::Key;

/// A leaf that would have more is divided.
const LEAF_KEYS_MAX: usize = 64;

/// A leaf that has fewer is joined with its neighbour.
const LEAF_KEYS_MIN: usize = 12;

/// Two leaves are joined only if what they lead to has room to grow.
const LEAF_KEYS_JOINED: usize = 48;

/// Entries with consecutive keys. Keys lie beside each other, so that looking for one touches little memory.
#[derive(Clone, Debug)]
struct Leaf<V> {
    keys: Vec<Key>,
    values: Vec<V>,
}

impl<V> Default for Leaf<V> {
    fn default() -> Self {
        Leaf { keys: Vec::new(), values: Vec::new() }
    }
}

/// A sorted map of keys.
#[derive(Clone, Debug)]
pub(crate) struct Leaves<V> {
    /// By a key that is not above any in the leaf, and above all in the leaf before. The first is empty.
    leaves: BTreeMap<Key, Arc<Leaf<V>>>,
    len: usize,
}

impl<V> Default for Leaves<V> {
    fn default() -> Self {
        Leaves { leaves: BTreeMap::from([(Key::default(), Arc::default())]), len: 0 }
    }
}

impl<V: Clone> Leaf<V> {
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.keys.binary_search_by(|held| held.as_slice().cmp(key))
    }

    fn append(&mut self, mut other: Leaf<V>) {
        self.keys.append(&mut other.keys);
        self.values.append(&mut other.values);
    }

    fn split_off(&mut self, at: usize) -> Leaf<V> {
        Leaf { keys: self.keys.split_off(at), values: self.values.split_off(at) }
    }
}

impl<V: Clone> Leaves<V> {
    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What a key holds.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        let (_, leaf) = self.leaves.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        leaf.find(key).ok().map(|at| &leaf.values[at])
    }

    /// Sets what a key holds, and gives back what it held.
    pub(crate) fn insert(&mut self, key: &Key, value: V) -> Option<V> {
        let (_, shared) = self.leaf_mut(key);
        let leaf = Arc::make_mut(shared);
        let at = match leaf.find(key) {
            Ok(at) => return Some(std::mem::replace(&mut leaf.values[at], value)),
            Err(at) => at,
        };
        // A long key may share the memory of the message that it came in.
        leaf.keys.insert(at, Key::copy_from_slice(key));
        leaf.values.insert(at, value);
        if leaf.keys.len() > LEAF_KEYS_MAX {
            // Keys that ascend fill their leaves.
            let is_last = at + 1 == leaf.keys.len();
            let right = leaf.split_off(if is_last { at } else { leaf.keys.len() / 2 });
            self.leaves.insert(right.keys[0].clone(), Arc::new(right));
        }
        self.len += 1;
        None
    }

    /// Removes a key, and gives back what it held.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        self.get(key)?;
        let (bound, shared) = self.leaf_mut(key);
        let leaf = Arc::make_mut(shared);
        let at = leaf.find(key).ok()?;
        leaf.keys.remove(at);
        let removed = leaf.values.remove(at);
        let small = (leaf.keys.len() < LEAF_KEYS_MIN).then(|| bound.clone());
        self.len -= 1;
        if let Some(bound) = small {
            self.join(&bound);
        }
        Some(removed)
    }

    fn leaf_mut(&mut self, key: &[u8]) -> (&Key, &mut Arc<Leaf<V>>) {
        let mut upto = self.leaves.range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(key)));
        upto.next_back().expect("the first leaf begins before all keys")
    }

    /// Joins a leaf with the one before, or the one after, if both have room in one.
    fn join(&mut self, bound: &Key) {
        let len = |leaf: &Arc<Leaf<V>>| leaf.keys.len();
        let own = self.leaves.get(bound).map_or(0, len);
        let fits = |(_, leaf): &(&Key, &Arc<Leaf<V>>)| own == 0 || len(leaf) + own <= LEAF_KEYS_JOINED;
        let before = self.leaves.range::<Key, _>(..bound).next_back().filter(fits);
        let after =
            self.leaves.range::<Key, _>((Bound::Excluded(bound), Bound::Unbounded)).next().filter(fits);
        let (left, right) = match (before, after) {
            (Some((left, _)), _) => (left.clone(), bound.clone()),
            (None, Some((right, _))) => (bound.clone(), right.clone()),
            (None, None) => return,
        };
        let Some(right) = self.leaves.remove(&right) else { return };
        let right = Arc::unwrap_or_clone(right);
        if let Some(left) = self.leaves.get_mut(&left) {
            Arc::make_mut(left).append(right);
        }
    }

    /// The entries from one key up to, and without, another, in the order of keys.
    pub(crate) fn range<'a>(
        &'a self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a Key, &'a V)> + use<'a, V> {
        let is_empty = to.is_some_and(|to| to <= from);
        let first = self.leaves.range::<[u8], _>((Bound::Unbounded, Bound::Included(from))).next_back();
        let first = first.map_or(Bound::Unbounded, |(bound, _)| Bound::Included(bound.as_slice()));
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        let leaves = (!is_empty).then(|| self.leaves.range::<[u8], _>((first, end)));
        let from = from.to_vec();
        let to = to.map(<[u8]>::to_vec);
        leaves.into_iter().flatten().flat_map(move |(_, leaf)| {
            let begin = leaf.find(&from).unwrap_or_else(|at| at);
            let end = to.as_ref().map_or(leaf.keys.len(), |to| leaf.find(to).unwrap_or_else(|at| at));
            leaf.keys[begin..end].iter().zip(&leaf.values[begin..end])
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl<V: Clone> Leaves<V> {
        /// Whatever was done: leaves are in order, and none but the first is empty.
        fn check(&self) {
            let mut last: Option<&Key> = None;
            for (bound, leaf) in &self.leaves {
                assert_eq!(leaf.keys.len(), leaf.values.len());
                assert!(leaf.keys.len() <= LEAF_KEYS_MAX);
                assert!(!leaf.keys.is_empty() || bound.is_empty());
                for key in &leaf.keys {
                    assert!(bound <= key && last.is_none_or(|last| last < key), "{last:?} {bound:?} {key:?}");
                    last = Some(key);
                }
            }
            assert_eq!(self.len, self.leaves.values().map(|leaf| leaf.keys.len()).sum::<usize>());
        }
    }

    fn key(number: u16) -> Key {
        Key::from(number.to_be_bytes().to_vec())
    }

    #[test]
    fn keys_that_ascend_fill_their_leaves_and_those_that_leave_are_joined() {
        let mut leaves = Leaves::default();
        for number in 0..1_000 {
            leaves.insert(&key(number), number);
        }
        leaves.check();
        assert!(leaves.leaves.len() <= 1_000 / LEAF_KEYS_MAX + 1);
        for number in (0..1_000).filter(|number| number % 50 != 0) {
            assert_eq!(leaves.remove(&key(number)), Some(number));
        }
        leaves.check();
        assert_eq!((leaves.len(), leaves.leaves.len()), (20, 1));
    }

    #[test]
    fn a_clone_shares_what_has_not_changed_since() {
        let mut leaves = Leaves::default();
        for number in 0..1_000 {
            leaves.insert(&key(number), number);
        }
        let frozen = leaves.clone();
        leaves.insert(&key(500), 7);
        let shared = leaves.leaves.iter().filter(|(bound, leaf)| Arc::ptr_eq(leaf, &frozen.leaves[*bound]));
        assert_eq!(shared.count(), leaves.leaves.len() - 1);
        assert_eq!((leaves.get(&key(500)), frozen.get(&key(500))), (Some(&7), Some(&500)));
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(
            changes in proptest::collection::vec((0u16..400, 0u8..4), 0..1_500),
            ranges in proptest::collection::vec((0u16..420, proptest::option::of(0u16..420)), 1..8),
        ) {
            let (mut leaves, mut model) = (Leaves::default(), BTreeMap::new());
            let mut frozen = None;
            for (at, (number, kind)) in changes.into_iter().enumerate() {
                let key = key(number);
                if kind == 0 {
                    prop_assert_eq!(leaves.remove(&key), model.remove(&key));
                } else {
                    prop_assert_eq!(leaves.insert(&key, at), model.insert(key.clone(), at));
                }
                if at == 700 {
                    frozen = Some((leaves.clone(), model.clone()));
                }
                prop_assert_eq!(leaves.get(&key), model.get(&key));
            }
            for (leaves, model) in frozen.iter().chain([&(leaves, model)]) {
                leaves.check();
                for (from, to) in &ranges {
                    let (from, to) = (key(*from), to.map(key));
                    let in_range = |(held, _): &(&Key, &usize)| **held >= from && to.as_ref().is_none_or(|to| *held < to);
                    let expected: Vec<_> = model.iter().filter(in_range).collect();
                    let found: Vec<_> = leaves.range(&from, to.as_deref()).collect();
                    prop_assert_eq!(&found, &expected);
                    let back: Vec<_> = leaves.range(&from, to.as_deref()).rev().collect();
                    prop_assert_eq!(back, expected.into_iter().rev().collect::<Vec<_>>());
                }
            }
        }
    }
}
