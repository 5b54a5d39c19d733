//! The multi-version key space of a shard.
//!
//! A version is named by the timestamp of the transaction that wrote it, so versions may be installed in any order and
//! every replica ends up with the same history (TAPIR paper, section 4.3.3). A deletion is a version without a value.

use std::collections::BTreeSet;
use std::ops::Bound;

use quorate_core::hash::FixedMap;
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
        let version = Version { timestamp, value };
        let Some(chain) = self.chains.get_mut(key.as_slice()) else {
            self.ordered.insert(key.clone());
            self.chains.insert(key.clone(), Box::new(Chain { newest: version, older: Vec::new() }));
            return;
        };
        match timestamp.cmp(&chain.newest.timestamp) {
            std::cmp::Ordering::Greater => {
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
                    chain.older.insert(at, version);
                }
            }
        }
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
        self.ordered.iter().flat_map(|key| {
            let chain = &self.chains[key];
            let versions = chain.older.iter().chain(std::iter::once(&chain.newest));
            versions.map(move |version| (key, version))
        })
    }

    /// The number of keys that were ever written.
    pub fn len(&self) -> usize {
        self.chains.len()
    }

    /// True if no key was ever written.
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

    proptest! {
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
