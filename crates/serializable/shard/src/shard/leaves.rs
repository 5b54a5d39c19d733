//! A sorted map that can be frozen while it changes.
//!
//! ```text
//!   top ──► nodes, of some dozens of leaves each ──► leaves, of some dozens of entries each
//! ```
//!
//! Nodes and leaves are shared with the clones of the map: a clone costs a reference for each node, and
//! a shared one is copied when it is first changed afterwards. Keys lie beside each other at every level,
//! so that looking for one touches little memory.

use std::sync::Arc;

use quorate_core::Key;

use super::bounds::Bounds;

/// A leaf with more entries, or a node with more leaves, is divided.
const FANOUT_MAX: usize = 64;

/// One that has fewer is joined with its neighbour.
const FANOUT_MIN: usize = 12;

/// Two are joined only if what they lead to has room to grow.
const FANOUT_JOINED: usize = 48;

/// Entries with consecutive keys.
#[derive(Clone, Debug)]
struct Leaf<V> {
    /// A byte of each key that tells it from most others: a search for one that is there touches the
    /// memory of few others. The bytes behind the last mark mean nothing.
    marks: [u8; MARKS],
    keys: Vec<Key>,
    values: Vec<V>,
}

/// One more than there are keys, while a leaf is divided; a multiple of eight.
const MARKS: usize = FANOUT_MAX + 8;

/// Follows from the key alone.
fn mark(key: &Key) -> u8 {
    let mut mixed = key.len() as u64;
    for chunk in key.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        mixed = (mixed ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 32;
    }
    (mixed >> 24) as u8
}

/// Leaves, or nodes, each by a key that is not above any in it and above all in the one before.
#[derive(Clone, Debug)]
struct Level<C> {
    bounds: Bounds,
    values: Vec<Arc<C>>,
}

/// Leaves with consecutive keys.
type Node<V> = Level<Leaf<V>>;

/// A sorted map of keys.
#[derive(Clone, Debug)]
pub(crate) struct Leaves<V> {
    /// The first node, and the first leaf in it, are at the empty key. There always is one.
    nodes: Level<Node<V>>,
    len: usize,
}

/// Where something that has become too long is divided. Keys that ascend fill one after the other.
fn divided_at(len: usize, inserted_at: usize) -> Option<usize> {
    if len <= FANOUT_MAX {
        return None;
    }
    let is_last = inserted_at + 1 == len;
    Some(if is_last { inserted_at } else { len / 2 })
}

impl<V> Leaf<V> {
    fn new() -> Self {
        Leaf { marks: [0; MARKS], keys: Vec::new(), values: Vec::new() }
    }

    /// Where a key stands, if it is there.
    fn find(&self, key: &Key) -> Option<usize> {
        const LOWEST: u64 = 0x0101_0101_0101_0101;
        let wanted = u64::from(mark(key)) * LOWEST;
        for (group, marks) in self.marks[..self.keys.len().next_multiple_of(8)].chunks_exact(8).enumerate() {
            let differing = u64::from_le_bytes(marks.try_into().ok()?) ^ wanted;
            // The highest bit of each byte that is zero, and sometimes of the one above it.
            let mut equal = differing.wrapping_sub(LOWEST) & !differing & (LOWEST << 7);
            while equal != 0 {
                let at = group * 8 + equal.trailing_zeros() as usize / 8;
                if self.keys.get(at) == Some(key) {
                    return Some(at);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    /// Where a key belongs that is not there.
    fn place(&self, key: &Key) -> usize {
        self.keys.partition_point(|held| held < key)
    }

    fn insert(&mut self, at: usize, key: Key, value: V) {
        self.marks.copy_within(at..self.keys.len(), at + 1);
        self.marks[at] = mark(&key);
        self.keys.insert(at, key);
        self.values.insert(at, value);
    }

    fn remove(&mut self, at: usize) -> V {
        self.marks.copy_within(at + 1..self.keys.len(), at);
        self.keys.remove(at);
        self.values.remove(at)
    }

    /// The second part of it, if it has become too long.
    fn divide(&mut self, inserted_at: usize) -> Option<Leaf<V>> {
        let at = divided_at(self.keys.len(), inserted_at)?;
        let (keys, values) = (self.keys.split_off(at), self.values.split_off(at));
        let mut marks = [0; MARKS];
        marks[..keys.len()].copy_from_slice(&self.marks[at..at + keys.len()]);
        Some(Leaf { marks, keys, values })
    }
}

/// A node or a leaf, which can be joined with its neighbour.
trait Child: Clone {
    fn len(&self) -> usize;

    fn append(&mut self, other: Self);
}

impl<V: Clone> Child for Leaf<V> {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn append(&mut self, mut other: Self) {
        let (own, more) = (self.len(), other.len());
        self.marks[own..own + more].copy_from_slice(&other.marks[..more]);
        self.keys.append(&mut other.keys);
        self.values.append(&mut other.values);
    }
}

impl<V: Clone> Child for Node<V> {
    fn len(&self) -> usize {
        self.values.len()
    }

    fn append(&mut self, mut other: Self) {
        self.bounds.append(other.bounds);
        self.values.append(&mut other.values);
    }
}

impl<C> Level<C> {
    fn one(key: Key, value: Arc<C>) -> Self {
        Level { bounds: Bounds::one(key), values: vec![value] }
    }

    fn insert(&mut self, at: usize, key: Key, value: Arc<C>) {
        self.bounds.insert(at, key);
        self.values.insert(at, value);
    }

    fn remove(&mut self, at: usize) -> Arc<C> {
        self.bounds.remove(at);
        self.values.remove(at)
    }

    /// The second part of it, if it has become too long.
    fn divide(&mut self, inserted_at: usize) -> Option<Level<C>> {
        let at = divided_at(self.values.len(), inserted_at)?;
        Some(Level { bounds: self.bounds.split_off(at), values: self.values.split_off(at) })
    }

    /// Which children may have keys of a range: the first, and the first behind them.
    fn children(&self, from: &Key, to: Option<&Key>) -> (usize, usize) {
        let first = self.bounds.child(from);
        let end = to.map_or(self.values.len(), |to| self.bounds.below(to));
        (first, end.max(first))
    }
}

impl<C: Child> Level<C> {
    /// Joins a child that has become short with the one before it or after it, if both have room in one.
    fn join(&mut self, at: usize) {
        let len = |at: usize| self.values[at].len();
        if len(at) >= FANOUT_MIN {
            return;
        }
        let fits = |left: usize| {
            let (one, other) = (len(left), len(left + 1));
            one == 0 || other == 0 || one + other <= FANOUT_JOINED
        };
        let left = match at {
            _ if at > 0 && fits(at - 1) => at - 1,
            _ if at + 1 < self.values.len() && fits(at) => at,
            _ => return,
        };
        let right = Arc::unwrap_or_clone(self.remove(left + 1));
        Arc::make_mut(&mut self.values[left]).append(right);
    }
}

impl<V: Clone> Default for Leaves<V> {
    fn default() -> Self {
        let leaf = Arc::new(Leaf::new());
        let node = Arc::new(Node::one(Key::default(), leaf));
        Leaves { nodes: Level::one(Key::default(), node), len: 0 }
    }
}

impl<V: Clone> Leaves<V> {
    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        let node = &self.nodes.values[self.nodes.bounds.child(key)];
        let leaf = &node.values[node.bounds.child(key)];
        leaf.find(key).map(|at| &leaf.values[at])
    }

    /// Sets what a key holds, and gives back what it held.
    pub(crate) fn insert(&mut self, key: &Key, value: V) -> Option<V> {
        let node_at = self.nodes.bounds.child(key);
        let node = Arc::make_mut(&mut self.nodes.values[node_at]);
        let leaf_at = node.bounds.child(key);
        let leaf = Arc::make_mut(&mut node.values[leaf_at]);
        if let Some(at) = leaf.find(key) {
            return Some(std::mem::replace(&mut leaf.values[at], value));
        }
        let at = leaf.place(key);
        self.len += 1;
        // A long key may share the memory of the message that it came in.
        leaf.insert(at, Key::copy_from_slice(key), value);
        if let Some(right) = leaf.divide(at) {
            node.insert(leaf_at + 1, right.keys[0].clone(), Arc::new(right));
            if let Some(right) = node.divide(leaf_at + 1) {
                self.nodes.insert(node_at + 1, right.bounds.first().clone(), Arc::new(right));
            }
        }
        None
    }

    /// Removes a key, and gives back what it held.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<V> {
        // A key that is not there copies nothing.
        self.get(key)?;
        let node_at = self.nodes.bounds.child(key);
        let node = Arc::make_mut(&mut self.nodes.values[node_at]);
        let leaf_at = node.bounds.child(key);
        let leaf = Arc::make_mut(&mut node.values[leaf_at]);
        let at = leaf.find(key)?;
        let removed = leaf.remove(at);
        let is_empty = leaf.len() == 0 && node.values.len() == 1;
        node.join(leaf_at);
        self.len -= 1;
        if is_empty && self.nodes.values.len() > 1 {
            self.nodes.remove(node_at);
            // The first one begins before everything.
            self.nodes.bounds.set_first(Key::default());
            Arc::make_mut(&mut self.nodes.values[0]).bounds.set_first(Key::default());
        } else {
            self.nodes.join(node_at);
        }
        Some(removed)
    }

    /// The entries from one key up to, and without, another, in the order of keys.
    pub(crate) fn range<'a>(
        &'a self,
        from: &Key,
        to: Option<&Key>,
    ) -> impl DoubleEndedIterator<Item = (&'a Key, &'a V)> + use<'a, V> {
        let (from, to) = (from.clone(), to.cloned());
        let (first, end) = self.nodes.children(&from, to.as_ref());
        let nodes = self.nodes.values[first..end].iter();
        let bounds = (from.clone(), to.clone());
        let leaves = nodes.flat_map(move |node| {
            let (first, end) = node.children(&bounds.0, bounds.1.as_ref());
            node.values[first..end].iter()
        });
        leaves.flat_map(move |leaf| {
            let begin = leaf.keys.partition_point(|key| *key < from);
            let end = to.as_ref().map_or(leaf.keys.len(), |to| leaf.keys.partition_point(|key| key < to));
            let end = end.max(begin);
            leaf.keys[begin..end].iter().zip(&leaf.values[begin..end])
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl<V: Clone> Leaves<V> {
        fn leaves(&self) -> impl Iterator<Item = (&Key, &Arc<Leaf<V>>)> {
            self.nodes.values.iter().flat_map(|node| node.bounds.iter().zip(&node.values))
        }

        /// After any change: everything is in order, and nothing but the first leaf is empty.
        fn check(&self) {
            let mut last: Option<&Key> = None;
            assert!(self.nodes.bounds.first().is_empty() && self.nodes.values[0].bounds.first().is_empty());
            assert_eq!(self.nodes.bounds.len(), self.nodes.values.len());
            self.nodes.bounds.check();
            for (bound, node) in self.nodes.bounds.iter().zip(&self.nodes.values) {
                assert!(bound <= node.bounds.first() && (1..=FANOUT_MAX).contains(&node.values.len()));
                assert_eq!(node.bounds.len(), node.values.len());
                node.bounds.check();
            }
            for (bound, leaf) in self.leaves() {
                let marks = &leaf.marks;
                assert_eq!(leaf.keys.len(), leaf.values.len());
                assert_eq!(marks[..leaf.keys.len()], leaf.keys.iter().map(mark).collect::<Vec<u8>>());
                assert!(leaf.keys.len() <= FANOUT_MAX);
                assert!(!leaf.keys.is_empty() || bound.is_empty());
                for key in &leaf.keys {
                    assert!(bound <= key && last.is_none_or(|last| last < key), "{last:?} {bound:?} {key:?}");
                    last = Some(key);
                }
            }
            assert_eq!(self.len, self.leaves().map(|(_, leaf)| leaf.len()).sum::<usize>());
        }
    }

    fn key(number: u16) -> Key {
        Key::from(number.to_be_bytes().to_vec())
    }

    #[test]
    fn keys_that_ascend_fill_their_leaves_and_those_that_leave_are_joined() {
        let mut leaves = Leaves::default();
        for number in 0..10_000 {
            leaves.insert(&key(number), number);
        }
        leaves.check();
        assert_eq!(leaves.leaves().count(), 10_000_usize.div_ceil(FANOUT_MAX));
        assert_eq!(leaves.nodes.values.len(), 10_000_usize.div_ceil(FANOUT_MAX * FANOUT_MAX));
        for number in (0..10_000).filter(|number| number % 500 != 0) {
            assert_eq!(leaves.remove(&key(number)), Some(number));
        }
        leaves.check();
        assert_eq!((leaves.len(), leaves.leaves().count(), leaves.nodes.values.len()), (20, 1, 1));
    }

    #[test]
    fn what_lay_first_may_leave() {
        let mut leaves = Leaves::default();
        for number in 0..10_000 {
            leaves.insert(&key(number), number);
        }
        for number in 0..10_000 {
            assert_eq!(leaves.remove(&key(number)), Some(number));
            if number % 97 == 0 {
                leaves.check();
            }
        }
        leaves.check();
        leaves.insert(&key(7), 7);
        assert_eq!((leaves.get(&key(7)), leaves.nodes.values.len()), (Some(&7), 1));
    }

    #[test]
    fn a_node_leaves_with_its_last_key_whatever_stands_beside_it() {
        for gone in 0..3 {
            let mut leaves = Leaves::default();
            for number in 0..12_288 {
                leaves.insert(&key(number), number);
            }
            assert_eq!(leaves.nodes.values.len(), 3);
            for number in gone * 4_096..(gone + 1) * 4_096 {
                leaves.remove(&key(number));
            }
            leaves.check();
            assert_eq!((leaves.len(), leaves.nodes.values.len()), (8_192, 2));
        }
    }

    #[test]
    fn any_number_of_nodes_is_found_again() {
        let mut leaves = Leaves::default();
        let key = |number: u32| Key::from(number.to_be_bytes().to_vec());
        for number in 0..500_000 {
            leaves.insert(&key(number), number);
        }
        leaves.check();
        assert!(leaves.nodes.values.len() > MARKS, "the top is as long as it has to be");
        assert!((0..500_000).step_by(1_234).all(|number| leaves.get(&key(number)) == Some(&number)));
        assert_eq!(leaves.get(&key(500_000)), None);
    }

    #[test]
    fn a_clone_shares_what_has_not_changed_since() {
        let mut leaves = Leaves::default();
        for number in 0..10_000 {
            leaves.insert(&key(number), number);
        }
        let frozen = leaves.clone();
        leaves.insert(&key(500), 7);
        let pairs = leaves.leaves().zip(frozen.leaves());
        assert_eq!(pairs.filter(|((_, one), (_, other))| !Arc::ptr_eq(one, other)).count(), 1);
        let pairs = leaves.nodes.values.iter().zip(&frozen.nodes.values);
        assert_eq!(pairs.filter(|(one, other)| !Arc::ptr_eq(one, other)).count(), 1);
        assert_eq!((leaves.get(&key(500)), frozen.get(&key(500))), (Some(&7), Some(&500)));
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(
            changes in proptest::collection::vec((0u16..6_000, 0u16..400, 0u8..3), 0..60),
            ranges in proptest::collection::vec((0u16..6_200, proptest::option::of(0u16..6_200)), 1..8),
        ) {
            let (mut leaves, mut model) = (Leaves::default(), std::collections::BTreeMap::new());
            let mut frozen = None;
            for (at, (first, count, kind)) in changes.into_iter().enumerate() {
                // Runs of keys come and go, and some of a run.
                for number in (first..first + count).step_by(1 + at % 3) {
                    let key = key(number);
                    if kind == 0 {
                        prop_assert_eq!(leaves.remove(&key), model.remove(&key));
                    } else {
                        prop_assert_eq!(leaves.insert(&key, at), model.insert(key.clone(), at));
                    }
                    prop_assert_eq!(leaves.get(&key), model.get(&key));
                }
                leaves.check();
                if at == 30 {
                    frozen = Some((leaves.clone(), model.clone()));
                }
            }
            for (leaves, model) in frozen.iter().chain([&(leaves, model)]) {
                leaves.check();
                for (from, to) in &ranges {
                    let (from, to) = (key(*from), to.map(key));
                    let in_range = |held: &Key| *held >= from && to.as_ref().is_none_or(|to| held < to);
                    let expected: Vec<_> = model.iter().filter(|(held, _)| in_range(held)).collect();
                    let found: Vec<_> = leaves.range(&from, to.as_ref()).collect();
                    prop_assert_eq!(&found, &expected);
                    let back: Vec<_> = leaves.range(&from, to.as_ref()).rev().collect();
                    prop_assert_eq!(back, expected.into_iter().rev().collect::<Vec<_>>());
                }
            }
        }
    }
}
