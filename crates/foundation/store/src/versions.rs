//! The multi-version key space of a shard.
//!
//! A version is named by the timestamp of the transaction that wrote it, so versions may be installed in any order and
//! every replica ends up with the same history (TAPIR paper, section 4.3.3). A deletion is a version without a value.
//!
//! Versions that nobody can ask for any more are collected below a *floor*: of each key the newest version below it stays,
//! and not even that if it is a deletion, because an absent key says the same. A version to collect is noted when it
//! is overwritten, so collecting costs what it frees and never a walk over all keys.

use std::collections::BTreeSet;
use std::ops::Bound;

use quorate_core::hash::FixedMap;
use quorate_core::hosted::StoredVersion;
use quorate_core::verify::{Digester, Item};
use quorate_core::{Key, KeyRange, Timestamp, Value};

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The timestamp of the transaction that wrote it.
    pub timestamp: Timestamp,
    /// The value; none if this version deleted the key.
    pub value: Option<Value>,
}

/// All versions of all keys.
#[derive(Debug, Default)]
pub struct Versions {
    /// Boxed, so that the table itself stays small: growing it copies every entry.
    chains: FixedMap<Key, Box<Chain>>,
    ordered: BTreeSet<Key>,
    /// Keys with something to collect, by the timestamp that the floor must have passed.
    collectable: BTreeSet<(Timestamp, Key)>,
    count: usize,
    /// The greatest floor below which anything may have been collected.
    collected: Timestamp,
}

/// The versions of one key; the newest is kept apart because nearly every access wants it.
#[derive(Debug)]
struct Chain {
    newest: Version,
    /// Ascending by timestamp.
    older: Vec<Version>,
}

impl Versions {
    /// An empty key space.
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest version of a key, a deletion included; none if the key was never written.
    pub fn newest(&self, key: &[u8]) -> Option<&Version> {
        self.chains.get(key).map(|chain| &chain.newest)
    }

    /// The value of a key, and since when it has it: none since [`Timestamp::ZERO`] if it was never written.
    pub fn held(&self, key: &[u8]) -> (Timestamp, Option<Value>) {
        self.newest(key).map_or((Timestamp::ZERO, None), |newest| (newest.timestamp, newest.value.clone()))
    }

    /// The timestamp of the newest version; [`Timestamp::ZERO`] if the key was never written.
    pub fn newest_timestamp(&self, key: &[u8]) -> Timestamp {
        self.newest(key).map_or(Timestamp::ZERO, |version| version.timestamp)
    }

    /// The newest version not above `timestamp`.
    pub fn at(&self, key: &[u8], timestamp: Timestamp) -> Option<&Version> {
        let chain = self.chains.get(key)?;
        if chain.newest.timestamp <= timestamp {
            return Some(&chain.newest);
        }
        let above = chain.older.partition_point(|version| version.timestamp <= timestamp);
        above.checked_sub(1).map(|last| &chain.older[last])
    }

    /// Adds a version, in any order. A version that exists already is left as it is: one transaction installs one
    /// value.
    pub fn install(&mut self, key: &Key, timestamp: Timestamp, value: Option<Value>) {
        if self.add(key, Version { timestamp, value }) {
            self.ordered.insert(key.clone());
        }
    }

    /// Makes room for so many further keys.
    pub(crate) fn reserve(&mut self, keys: usize) {
        self.chains.reserve(keys);
    }

    /// Puts keys that were new to [`Versions::add`] in order.
    pub(crate) fn order(&mut self, new: Vec<Key>) {
        // A set that is built from keys in order costs a fraction of as many insertions.
        if new.len() < self.ordered.len() / 8 {
            self.ordered.extend(new);
        } else {
            self.ordered.append(&mut new.into_iter().collect());
        }
    }

    /// The same as [`Versions::install`], but for the order of keys. True if the key was not there.
    pub(crate) fn add(&mut self, key: &Key, version: Version) -> bool {
        let (timestamp, is_deletion) = (version.timestamp, version.value.is_none());
        let Some(chain) = self.chains.get_mut(key.as_slice()) else {
            self.chains.insert(key.clone(), Box::new(Chain { newest: version, older: Vec::new() }));
            self.count += 1;
            if is_deletion {
                self.collectable.insert((timestamp, key.clone()));
            }
            return true;
        };
        match timestamp.cmp(&chain.newest.timestamp) {
            std::cmp::Ordering::Greater => {
                self.collectable.insert((timestamp, key.clone()));
                self.count += 1;
                let previous = std::mem::replace(&mut chain.newest, version);
                if chain.older.is_empty() {
                    // Most keys are overwritten seldom; room for four versions at once would be most of their memory.
                    chain.older.reserve_exact(1);
                }
                chain.older.push(previous);
            }
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Less => {
                if let Err(at) = chain.older.binary_search_by_key(&timestamp, |version| version.timestamp) {
                    let successor = chain.older.get(at).unwrap_or(&chain.newest).timestamp;
                    chain.older.insert(at, version);
                    self.count += 1;
                    self.collectable.insert((successor, key.clone()));
                    if is_deletion || at > 0 {
                        self.collectable.insert((timestamp, key.clone()));
                    }
                }
            }
        }
        false
    }

    /// Drops versions that are not the newest of their key below `floor`, and deletions below it; at most those of
    /// `keys_max` keys. True if more is left to do.
    pub fn collect(&mut self, floor: Timestamp, keys_max: usize) -> bool {
        self.collected = self.collected.max(floor);
        for _ in 0..keys_max {
            match self.collectable.first() {
                Some((timestamp, _)) if *timestamp < floor => {}
                _ => return false,
            }
            let (_, key) = self.collectable.pop_first().expect("it was just looked at");
            self.collect_key(&key, floor);
        }
        self.collectable.first().is_some_and(|(timestamp, _)| *timestamp < floor)
    }

    fn collect_key(&mut self, key: &Key, floor: Timestamp) {
        let Some(chain) = self.chains.get_mut(key.as_slice()) else { return };
        if chain.newest.timestamp < floor {
            self.count -= chain.older.len();
            chain.older = Vec::new();
            if chain.newest.value.is_none() {
                self.count -= 1;
                self.chains.remove(key.as_slice());
                self.ordered.remove(key);
            }
            return;
        }
        let below = chain.older.partition_point(|version| version.timestamp < floor);
        let Some(last) = below.checked_sub(1) else { return };
        let dropped = if chain.older[last].value.is_none() { below } else { last };
        chain.older.drain(..dropped);
        self.count -= dropped;
    }

    /// Drops every version below `floor`, to make room for those of another replica.
    pub fn forget_below(&mut self, floor: Timestamp) {
        let kept: Vec<(Key, Version)> = self
            .iter()
            .filter(|(_, version)| version.timestamp >= floor)
            .map(|(key, version)| (key.clone(), version.clone()))
            .collect();
        *self = Versions { collected: self.collected.max(floor), ..Versions::new() };
        for (key, version) in kept {
            self.install(&key, version.timestamp, version.value);
        }
    }

    /// The keys after `after` with all their versions, ascending by key and then by timestamp; from the first key if
    /// there is none.
    pub fn after<'a>(&'a self, after: Option<&'a Key>) -> impl Iterator<Item = (&'a Key, &'a Version)> + 'a {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ordered.range::<Key, _>((from, Bound::Unbounded)).flat_map(|key| self.versions_of(key))
    }

    /// The greatest floor below which anything may have been collected: what was the newest below an earlier one may be gone.
    pub fn collected(&self) -> Timestamp {
        self.collected
    }

    /// Adds to a digest what the first `keys_max` keys after `after` hold below a timestamp: of each the newest version, unless
    /// it is a deletion. Gives the last of these keys; none if there are no more.
    ///
    /// That depends on nothing but the versions below that were ever installed, as long as none was collected below a later floor.
    pub fn digest_below(
        &self,
        below: Timestamp,
        after: Option<&Key>,
        keys_max: usize,
        digester: &mut Digester,
    ) -> Option<Key> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        for key in self.ordered.range::<Key, _>((from, Bound::Unbounded)).take(keys_max) {
            last = Some(key);
            let chain = &self.chains[key];
            let newest = if chain.newest.timestamp < below {
                Some(&chain.newest)
            } else {
                let above = chain.older.partition_point(|version| version.timestamp < below);
                above.checked_sub(1).map(|at| &chain.older[at])
            };
            match newest {
                Some(Version { timestamp, value: Some(value) }) => {
                    let stamps = [timestamp.micros, timestamp.client.0];
                    digester.add(Item { space: Item::DATA, key, stamps: &stamps, value: Some(value) });
                }
                Some(Version { value: None, .. }) | None => digester.skip(),
            }
        }
        last.cloned()
    }

    fn versions_of<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = (&'a Key, &'a Version)> + 'a {
        let chain = &self.chains[key];
        chain.older.iter().chain(std::iter::once(&chain.newest)).map(move |version| (key, version))
    }

    /// The keys of a range with their newest versions, ascending, deletions included.
    pub fn range(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &Version)> + '_ {
        let from = Bound::Included(range.from.as_ref());
        let to = range.to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(to.as_ref()));
        // The index would not take the bounds of a range that ends before it starts.
        let keys = (!range.is_empty()).then(|| self.ordered.range::<[u8], _>((from, to)));
        keys.into_iter().flatten().map(|key| (key, &self.chains[key].newest))
    }

    /// Every key with all its versions, ascending by key and then by timestamp.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Version)> + '_ {
        self.ordered.iter().flat_map(|key| self.versions_of(key))
    }

    /// Every key with all its versions, as [`Versions::iter`] gives them; no value for a deletion.
    pub fn stored(&self) -> Vec<StoredVersion> {
        let stored =
            |(key, version): (&Key, &Version)| (key.clone(), version.timestamp, version.value.clone());
        self.iter().map(stored).collect()
    }

    /// The number of keys that have a version.
    pub fn len(&self) -> usize {
        self.chains.len()
    }

    /// The number of versions that a floor makes superfluous: below it, and either a deletion or followed by another version
    /// below it. Looks at everything.
    pub fn superfluous(&self, floor: Timestamp) -> usize {
        let mut versions = self.iter().peekable();
        let mut superfluous = 0;
        while let Some((key, version)) = versions.next() {
            let is_followed =
                versions.peek().is_some_and(|(other, next)| *other == key && next.timestamp < floor);
            superfluous += usize::from(version.timestamp < floor && (is_followed || version.value.is_none()));
        }
        superfluous
    }

    /// The number of versions of all keys.
    pub fn count(&self) -> usize {
        self.count
    }

    /// True if no key has a version.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use quorate_core::ClientId;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn key(name: &'static str) -> Key {
        Key::from(name.as_bytes())
    }

    #[test]
    fn versions_installed_out_of_order_are_read_in_order() {
        let mut versions = Versions::new();
        for micros in [20, 10, 30, 20] {
            versions.install(&key("k"), at(micros), Some(Bytes::from(micros.to_string())));
        }
        assert_eq!(versions.newest_timestamp(b"k"), at(30));
        assert_eq!(versions.at(b"k", at(9)), None);
        assert_eq!(versions.at(b"k", at(10)).unwrap().timestamp, at(10));
        assert_eq!(versions.at(b"k", at(29)).unwrap().timestamp, at(20));
        assert_eq!(versions.iter().count(), 3);
    }

    #[test]
    fn a_version_is_never_overwritten() {
        let mut versions = Versions::new();
        versions.install(&key("k"), at(10), Some(Bytes::from("first")));
        versions.install(&key("k"), at(10), Some(Bytes::from("second")));
        assert_eq!(versions.newest(b"k").unwrap().value, Some(Bytes::from("first")));
    }

    #[test]
    fn a_scan_sees_deletions_and_respects_its_bounds() {
        let mut versions = Versions::new();
        for name in ["a", "b", "c", "d"] {
            versions.install(&key(name), at(1), Some(Bytes::from("x")));
        }
        versions.install(&key("c"), at(2), None);
        let range = KeyRange { from: key("b"), to: Some(key("d")) };
        let found: Vec<_> =
            versions.range(&range).map(|(key, version)| (key.clone(), version.value.is_some())).collect();
        assert_eq!(found, [(key("b"), true), (key("c"), false)]);
        let backwards = KeyRange { from: key("d"), to: Some(key("b")) };
        assert_eq!(versions.range(&backwards).count(), 0);
        assert_eq!(versions.range(&KeyRange { from: key("c"), to: None }).count(), 2);
    }

    #[test]
    fn collecting_keeps_what_can_still_be_asked_for() {
        let table = [
            // versions, a deletion marked with -; floor; what stays
            (vec![10, 20, 30], 5, vec![10, 20, 30]),
            (vec![10, 20, 30], 20, vec![10, 20, 30]),
            (vec![10, 20, 30], 21, vec![20, 30]),
            (vec![10, 20, 30], 40, vec![30]),
            (vec![10, -20, 30], 25, vec![30]),
            (vec![10, -20], 15, vec![10, -20]),
            (vec![10, -20], 25, vec![]),
            (vec![-10], 11, vec![]),
            (vec![-10, 20], 15, vec![20]),
        ];
        for (written, floor, expected) in table {
            let mut versions = Versions::new();
            for micros in &written {
                let value = (*micros > 0).then(|| Bytes::from("x"));
                versions.install(&key("k"), at(i64::unsigned_abs(*micros)), value);
            }
            let surplus = written.len() - expected.len();
            assert_eq!(versions.superfluous(at(floor)), surplus, "{written:?} below {floor}");
            while versions.collect(at(floor), 1) {}
            assert_eq!(versions.superfluous(at(floor)), 0);
            let left: Vec<i64> = versions
                .iter()
                .map(|(_, version)| {
                    let micros = version.timestamp.micros as i64;
                    if version.value.is_some() { micros } else { -micros }
                })
                .collect();
            assert_eq!(left, expected, "{written:?} below {floor}");
            assert_eq!(versions.count(), expected.len(), "{written:?} below {floor}");
        }
    }

    #[test]
    fn collecting_leaves_nothing_behind_that_would_have_to_be_looked_for() {
        let mut versions = Versions::new();
        for micros in 1..100 {
            versions.install(&key("k"), at(micros), Some(Bytes::from("x")));
            versions.install(&key("gone"), at(micros), None);
        }
        assert!(versions.collect(at(1_000), 3), "it stops where it was told to");
        while versions.collect(at(1_000), 3) {}
        assert_eq!((versions.len(), versions.count()), (1, 1));
        assert!(versions.collectable.is_empty());
    }

    #[test]
    fn versions_below_a_floor_make_room_for_those_of_another_replica() {
        let mut versions = Versions::new();
        versions.install(&key("a"), at(10), Some(Bytes::from("x")));
        versions.install(&key("b"), at(10), None);
        versions.install(&key("b"), at(30), Some(Bytes::from("y")));
        versions.forget_below(at(20));
        assert_eq!(
            versions.iter().map(|(key, v)| (key.clone(), v.timestamp)).collect::<Vec<_>>(),
            [(key("b"), at(30))]
        );
        let after: Vec<_> = versions.after(Some(&key("a"))).map(|(key, _)| key.clone()).collect();
        assert_eq!(after, [key("b")]);
        assert_eq!(versions.after(Some(&key("b"))).count(), 0);
    }

    /// The digest of the versions below a timestamp, a few keys at a time.
    fn digest_below(versions: &Versions, below: Timestamp, keys: usize) -> quorate_core::verify::Digest {
        let (mut digester, mut after) = (Digester::new(&[]), None);
        while let Some(last) = versions.digest_below(below, after.as_ref(), keys, &mut digester) {
            after = Some(last);
        }
        digester.finish()
    }

    #[test]
    fn a_digest_below_a_timestamp_sees_every_kind_of_difference() {
        let base = [
            ("a", 10, Some("x")),
            ("b", 10, Some("x")),
            ("b", 20, Some("y")),
            ("c", 5, Some("x")),
            ("c", 9, None),
        ];
        let of = |writes: &[(&'static str, u64, Option<&'static str>)]| {
            let mut versions = Versions::new();
            for (name, micros, value) in writes {
                versions.install(&key(name), at(*micros), value.map(Bytes::from));
            }
            digest_below(&versions, at(30), 2)
        };
        let (whole, with) = (of(&base), |at: usize, other| {
            let mut writes = base;
            writes[at] = other;
            of(&writes)
        });
        assert!(!whole.agrees_with(&of(&base[1..])), "a key is missing");
        assert!(!whole.agrees_with(&of(&[base[0], base[1], base[3], base[4]])), "an older version");
        assert!(!whole.agrees_with(&with(2, ("b", 20, Some("z")))), "another value");
        assert!(!whole.agrees_with(&with(2, ("b", 21, Some("y")))), "another timestamp");
        assert!(!whole.agrees_with(&of(&base[..4])), "a deletion that was missed");
        assert!(
            whole.agrees_with(&with(1, ("b", 11, Some("w")))),
            "what was overwritten may be collected or not"
        );
        assert!(
            whole.agrees_with(&with(3, ("c", 30, Some("w")))),
            "what lies above the point is not compared"
        );
        assert_eq!(whole.items, 2);
    }

    proptest! {
        /// Replicas install in any order, and collect below any floor that is no later than the point.
        #[test]
        fn equal_histories_have_equal_digests_in_whatever_order_they_came(
            writes in proptest::collection::vec((0u8..6, 1u64..30, any::<bool>()), 0..40),
            floors in proptest::collection::vec(1u64..20, 0..4),
            seed in any::<u64>(),
        ) {
            // One transaction installs one value.
            let writes: std::collections::BTreeMap<_, _> =
                writes.into_iter().map(|(name, micros, lives)| ((name, micros), lives)).collect();
            let install = |versions: &mut Versions, ((name, micros), lives): (&(u8, u64), &bool)| {
                let value = lives.then(|| Bytes::from(format!("{name}-{micros}")));
                versions.install(&Key::copy_from_slice(&[*name]), at(*micros), value);
            };
            let (mut one, mut other) = (Versions::new(), Versions::new());
            writes.iter().for_each(|write| install(&mut one, write));
            let mut shuffled: Vec<_> = writes.iter().collect();
            shuffled.sort_by_key(|((name, micros), _)| (u64::from(*name) * 31 + micros).wrapping_mul(seed | 1));
            shuffled.into_iter().for_each(|write| install(&mut other, write));
            for floor in floors {
                while other.collect(at(floor), 2) {}
            }
            prop_assert!(digest_below(&one, at(20), 3).agrees_with(&digest_below(&other, at(20), 100)));
        }

        #[test]
        fn collecting_changes_no_read_at_or_above_the_floor(
            writes in proptest::collection::vec((1u64..30, any::<bool>()), 0..20),
            floor in 1u64..35,
        ) {
            let mut versions = Versions::new();
            for (micros, lives) in &writes {
                versions.install(&key("k"), at(*micros), lives.then(|| Bytes::from(micros.to_string())));
            }
            let read = |versions: &Versions, micros| {
                versions.at(b"k", at(micros)).and_then(|version| version.value.clone())
            };
            let before: Vec<_> = (floor..40).map(|micros| read(&versions, micros)).collect();
            while versions.collect(at(floor), 2) {}
            let after: Vec<_> = (floor..40).map(|micros| read(&versions, micros)).collect();
            prop_assert_eq!(before, after);
            prop_assert_eq!(versions.count(), versions.iter().count());
            let below = versions.iter().filter(|(_, version)| version.timestamp < at(floor)).count();
            prop_assert!(below <= 1, "only the newest below the floor stays");
        }

        #[test]
        fn installs_commute(mut micros in proptest::collection::vec(1u64..50, 1..20), seed in any::<u64>()) {
            let mut one = Versions::new();
            for m in &micros {
                one.install(&key("k"), at(*m), Some(Bytes::from(m.to_string())));
            }
            quorate_core::Random::new(seed).shuffle(&mut micros);
            let mut other = Versions::new();
            for m in &micros {
                other.install(&key("k"), at(*m), Some(Bytes::from(m.to_string())));
            }
            prop_assert_eq!(one.iter().collect::<Vec<_>>(), other.iter().collect::<Vec<_>>());
        }
    }
}
