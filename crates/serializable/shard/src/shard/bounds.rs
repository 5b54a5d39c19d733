//! Where the children of a level of a sorted map begin.
//!
//! A search compares a few bytes of each bound, which lie beside each other, before it compares the bound itself: a long key lies in memory of its own,
//! and to look at one costs more than to look at all of these bytes.

use std::cmp::Ordering;

use quorate_core::Key;

/// The bytes of a bound that lie beside those of its neighbours.
const HEAD_BYTES: usize = 8;

/// Keys in their order. The first one is below whatever is looked for.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    keys: Vec<Key>,
    /// The bytes that all keys begin with, but for the first.
    prefix: Key,
    /// The bytes behind these in each, but for the first: zeros stand behind its end. So heads are in the order of their keys, and two of them may
    /// be equal although their keys are not.
    heads: Vec<u64>,
}

impl Bounds {
    /// The bound of one child.
    pub(super) fn one(key: Key) -> Self {
        Bounds { keys: vec![key], prefix: Key::default(), heads: Vec::new() }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The first one, below which nothing is looked for.
    pub(super) fn first(&self) -> &Key {
        &self.keys[0]
    }

    pub(super) fn set_first(&mut self, key: Key) {
        self.keys[0] = key;
    }

    /// The child that a key lies in: the last that does not begin above it.
    pub(super) fn child(&self, key: &Key) -> usize {
        self.count(key, |bound| bound <= key)
    }

    /// How many children begin below a key, if the first does.
    pub(super) fn below(&self, key: &Key) -> usize {
        1 + self.count(key, |bound| bound < key)
    }

    /// How many bounds behind the first one are low, which depends on how they compare with a key.
    fn count(&self, key: &Key, is_low: impl Fn(&Key) -> bool) -> usize {
        let shared = self.prefix.len();
        match key[..key.len().min(shared)].cmp(&self.prefix[..]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.heads.len(),
            Ordering::Equal => {}
        }
        let head = head(key, shared);
        let from = self.heads.partition_point(|held| *held < head);
        let alike = self.heads[from..].partition_point(|held| *held == head);
        from + self.keys[1 + from..1 + from + alike].partition_point(is_low)
    }

    /// Inserts a bound behind the first.
    pub(super) fn insert(&mut self, at: usize, key: Key) {
        assert!(at > 0, "nothing begins before the first bound");
        let is_alike = !self.heads.is_empty() && key.starts_with(&self.prefix);
        if is_alike {
            self.heads.insert(at - 1, head(&key, self.prefix.len()));
        }
        self.keys.insert(at, key);
        if !is_alike {
            self.renew();
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.keys.remove(at);
        if !self.heads.is_empty() {
            self.heads.remove(at.saturating_sub(1));
        }
    }

    /// The bounds from here on.
    pub(super) fn split_off(&mut self, at: usize) -> Bounds {
        let mut other = Bounds { keys: self.keys.split_off(at), prefix: Key::default(), heads: Vec::new() };
        other.renew();
        self.renew();
        other
    }

    pub(super) fn append(&mut self, mut other: Bounds) {
        self.keys.append(&mut other.keys);
        self.renew();
    }

    fn renew(&mut self) {
        let keys = self.keys.get(1..).unwrap_or_default();
        let (first, last) = (keys.first().cloned().unwrap_or_default(), keys.last());
        // A key between two others begins with the bytes that both begin with.
        let alike = last
            .map_or(0, |last| first.iter().zip(last.iter()).take_while(|(one, other)| one == other).count());
        self.prefix = Key::copy_from_slice(&first[..alike]);
        self.heads = keys.iter().map(|key| head(key, alike)).collect();
    }

    /// After any change: heads are those of the keys.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.keys.is_sorted_by(|one, next| one < next), "{self:?}");
        let behind = self.keys.get(1..).unwrap_or_default();
        assert!(behind.iter().all(|key| key.starts_with(&self.prefix)), "{self:?}");
        let heads: Vec<u64> = behind.iter().map(|key| head(key, self.prefix.len())).collect();
        assert_eq!(self.heads, heads);
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }
}

/// The bytes of a key behind its first ones, as a number that is in the order of keys which share these.
fn head(key: &Key, shared: usize) -> u64 {
    let rest = key.get(shared..).unwrap_or_default();
    let mut bytes = [0; HEAD_BYTES];
    let taken = rest.len().min(HEAD_BYTES);
    bytes[..taken].copy_from_slice(&rest[..taken]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_whose_heads_are_equal_are_told_apart() {
        let mut bounds = Bounds::one(Key::default());
        for key in ["same-head-1", "same-head-2", "same-head-2\0", "same-head-3", "same-heae"] {
            bounds.insert(bounds.len(), Key::from(key));
        }
        bounds.check();
        let table = [
            ("", 0, 1),
            ("same", 0, 1),
            ("same-head-1", 1, 1),
            ("same-head-2", 2, 2),
            ("same-head-2\0", 3, 3),
            ("same-head-2\0\0", 3, 4),
            ("same-head-9", 4, 5),
            ("same-heae", 5, 5),
            ("t", 5, 6),
        ];
        for (key, child, below) in table {
            let key = Key::from(key);
            assert_eq!((bounds.child(&key), bounds.below(&key)), (child, below), "{key:?}");
        }
    }

    fn key() -> impl Strategy<Value = Key> {
        // Few letters and many that are alike, short and long ones.
        let tail = proptest::collection::vec(0u8..3, 0..12);
        (0usize..4, tail)
            .prop_map(|(prefix, tail)| Key::from([&b"a-prefix-of-some-length"[..prefix * 7], &tail].concat()))
    }

    proptest! {
        #[test]
        fn a_search_finds_as_many_as_a_walk(
            inserted in proptest::collection::btree_set(key(), 0..40),
            removed in proptest::collection::vec(0usize..40, 0..10),
            split in 0usize..40,
            wanted in proptest::collection::vec(key(), 1..20),
            order in any::<u64>(),
        ) {
            let mut bounds = Bounds::one(Key::default());
            let mut left: Vec<Key> = inserted.into_iter().filter(|key| !key.is_empty()).collect();
            let mut order = order;
            while !left.is_empty() {
                order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let key = left.remove((order >> 33) as usize % left.len());
                bounds.insert(bounds.below(&key), key);
                bounds.check();
            }
            for at in removed {
                if at > 0 && at < bounds.len() {
                    bounds.remove(at);
                    bounds.check();
                }
            }
            let other = bounds.split_off(split.clamp(1, bounds.len()));
            for half in [&bounds, &other] {
                half.check();
                for key in wanted.iter().filter(|key| half.len() > 0 && half.first() <= *key) {
                    prop_assert_eq!(half.child(key), half.iter().filter(|bound| *bound <= key).count() - 1);
                    let below = half.iter().filter(|bound| *bound < key).count();
                    prop_assert_eq!(half.below(key), below.max(1));
                }
            }
            bounds.append(other);
            bounds.check();
        }
    }
}
