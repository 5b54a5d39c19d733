//! Hash tables with a fixed seed: the same keys in the same order give the same table on every run.
//!
//! Iteration order is still an accident of the hash function, so deterministic code looks keys up and never walks these
//! tables without sorting what it found.

use std::collections::{HashMap, HashSet};

/// A hash function with a fixed seed.
pub type FixedHasher = foldhash::fast::FixedState;

/// A hash map with a fixed seed.
pub type FixedMap<K, V> = HashMap<K, V, FixedHasher>;

/// A hash set with a fixed seed.
pub type FixedSet<K> = HashSet<K, FixedHasher>;
