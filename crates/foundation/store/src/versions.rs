//! The multi-version key space of a shard.
//!
//! A version is named by the timestamp of the transaction that wrote it, so versions may be installed in any order and
//! every replica ends up with the same history (TAPIR paper, section 4.3.3). A deletion is a version without a value.
//!
//! Versions that nobody can ask for any more are collected below a *floor*: of each key the newest version below it stays,
//! and not even that if it is a deletion, because an absent key says the same. A version to collect is noted when it
//! is overwritten, so collecting costs what it frees and never a walk over all keys.
//!
//! | file | what it holds |
//! |---|---|
//! | `slab` | the entry of each key: the key and its newest version, 64 bytes |
//! | `points` | which entry a key has, by its hash |
//! | `order` | the entries in the order of their keys |
//! | `values` | the values, small ones in memory of just their size, and some in the attic |
//! | `hand` | which values go there next |
//!
//! Older versions lie aside: most keys have none.
//!
//! Keys and timestamps never leave memory, so nothing that looks at these alone waits for a disk. Values do, if there is an
//! [attic](quorate_core::attic) and they exceed what the replica may take.

mod hand;
mod order;
mod points;
mod slab;
mod values;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use quorate_core::attic::{Attic, Memory, is_exceeded};
use quorate_core::hash::{FixedHasher, FixedMap};
use quorate_core::hosted::StoredVersion;
use quorate_core::verify::{Digester, Item};
use quorate_core::{Key, KeyRange, Timestamp, Value};

use hand::Hand;
use order::Order;
use points::Points;
use slab::{Entry, Slab, Slot};
use values::{Content, Values};

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The timestamp of the transaction that wrote it.
    pub timestamp: Timestamp,
    /// The value; none if this version deleted the key.
    pub value: Option<Value>,
}

/// A version where it is kept. Its value costs something only if it is asked for.
#[derive(Clone, Copy)]
pub struct VersionRef<'a> {
    /// The timestamp of the transaction that wrote it.
    pub timestamp: Timestamp,
    content: &'a Content,
    values: &'a Values,
}

/// All versions of all keys.
#[derive(Debug, Default)]
pub struct Versions {
    slab: Slab,
    points: Points,
    order: Order,
    /// The versions of a key before its newest one, ascending by timestamp; never an empty list.
    older: FixedMap<Slot, Vec<Older>>,
    values: Values,
    /// Entries with something to collect, by the timestamp that the floor must have passed. The key of an entry may be gone, and another
    /// one have it: then whatever that one has to collect is collected.
    collectable: BTreeSet<(Timestamp, Slot)>,
    count: usize,
    /// The greatest floor below which anything may have been collected.
    collected: Timestamp,
    hasher: FixedHasher,
    hand: Hand,
    /// How many versions were installed.
    installed: u64,
    /// What [`Memory::index`] was lately: looking at it each time would take too long.
    index_bytes: usize,
}

/// The memory of the index is measured again after so many versions.
const INSTALLED: u64 = 1_024;

/// The hand goes on by so many keys at most for each version that is installed: one that is large makes room over several.
const STEPS_MAX: usize = 64;

/// A version that is not the newest of its key.
#[derive(Debug)]
struct Older {
    timestamp: Timestamp,
    content: Content,
}

impl VersionRef<'_> {
    /// True if this version deleted the key.
    pub fn is_deletion(&self) -> bool {
        self.content.is_deletion()
    }

    /// The value; none if this version deleted the key. A small value is copied.
    pub fn value(&self) -> Option<Value> {
        self.values.value(self.content)
    }

    /// The bytes of the value, which are not copied if they are in memory; none if this version deleted the key.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        self.values.bytes_of(self.content)
    }

    /// The version with its value.
    pub fn to_version(&self) -> Version {
        Version { timestamp: self.timestamp, value: self.value() }
    }
}

impl fmt::Debug for VersionRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_version().fmt(formatter)
    }
}

impl Versions {
    /// An empty key space.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty key space, which keeps some of its values in an attic if there is one.
    pub fn with_attic(attic: Option<Arc<dyn Attic>>) -> Self {
        Versions { values: Values::with_attic(attic), ..Self::default() }
    }

    /// The newest version of a key, a deletion included; none if the key was never written.
    pub fn newest(&self, key: &[u8]) -> Option<VersionRef<'_>> {
        self.find(key).map(|slot| self.newest_in(slot))
    }

    /// The value of a key, and since when it has it: none since [`Timestamp::ZERO`] if it was never written.
    pub fn held(&self, key: &[u8]) -> (Timestamp, Option<Value>) {
        self.newest(key).map_or((Timestamp::ZERO, None), |newest| (newest.timestamp, newest.value()))
    }

    /// The timestamp of the newest version; [`Timestamp::ZERO`] if the key was never written.
    pub fn newest_timestamp(&self, key: &[u8]) -> Timestamp {
        self.newest(key).map_or(Timestamp::ZERO, |version| version.timestamp)
    }

    /// The newest version not above `timestamp`.
    pub fn at(&self, key: &[u8], timestamp: Timestamp) -> Option<VersionRef<'_>> {
        self.newest_where(self.find(key)?, |version| version <= timestamp)
    }

    /// Adds a version, in any order. A version that exists already is left as it is: one transaction installs one
    /// value.
    pub fn install(&mut self, key: &Key, timestamp: Timestamp, value: Option<Value>) {
        self.add(key, timestamp, value);
        self.stow_some();
    }

    fn add(&mut self, key: &Key, timestamp: Timestamp, value: Option<Value>) {
        let is_deletion = value.is_none();
        let Some(slot) = self.find(key) else {
            let content = self.values.keep(value);
            let slot = self.add_key(key, timestamp, content);
            if is_deletion {
                self.collectable.insert((timestamp, slot));
            }
            return;
        };
        let entry = self.slab.entry_mut(slot);
        match timestamp.cmp(&entry.timestamp) {
            std::cmp::Ordering::Greater => {
                let content = std::mem::replace(&mut entry.content, self.values.keep(value));
                let previous =
                    Older { timestamp: std::mem::replace(&mut entry.timestamp, timestamp), content };
                self.older.entry(slot).or_insert_with(|| Vec::with_capacity(1)).push(previous);
                self.collectable.insert((timestamp, slot));
                self.count += 1;
            }
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Less => {
                // Most keys are overwritten seldom; room for four versions at once would be most of their memory.
                let older = self.older.entry(slot).or_insert_with(|| Vec::with_capacity(1));
                if let Err(at) = older.binary_search_by_key(&timestamp, |version| version.timestamp) {
                    let successor = older.get(at).map_or(entry.timestamp, |version| version.timestamp);
                    older.insert(at, Older { timestamp, content: self.values.keep(value) });
                    self.count += 1;
                    self.collectable.insert((successor, slot));
                    if is_deletion || at > 0 {
                        self.collectable.insert((timestamp, slot));
                    }
                }
            }
        }
    }

    /// Adds a key that is not there.
    fn add_key(&mut self, key: &Key, timestamp: Timestamp, content: Content) -> Slot {
        // A long key may share the memory of the message that it came in.
        let key = Key::copy_from_slice(key);
        let hash = self.hash(&key);
        let slot = self.slab.insert(Entry { key, timestamp, content });
        let (slab, hasher) = (&self.slab, &self.hasher);
        self.points.insert(hash, slot, |slot| hasher.hash_one(slab.key(slot).as_slice()));
        self.order.insert(&self.slab, slot);
        self.count += 1;
        slot
    }

    /// Removes a key whose versions, but for the newest, are gone already.
    fn remove(&mut self, slot: Slot) {
        assert!(!self.older.contains_key(&slot), "{slot:?} is given up, and its key has older versions");
        self.points.remove(self.hash(self.slab.key(slot)), slot);
        self.order.remove(&self.slab, slot);
        let entry = self.slab.remove(slot);
        self.values.release(entry.content);
        self.count -= 1;
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn find(&self, key: &[u8]) -> Option<Slot> {
        let slot = self.points.find(self.hash(key), |slot| self.slab.key(slot).as_slice() == key)?;
        self.hand.touch(slot);
        Some(slot)
    }

    fn newest_in(&self, slot: Slot) -> VersionRef<'_> {
        let Entry { timestamp, content, .. } = self.slab.entry(slot);
        VersionRef { timestamp: *timestamp, content, values: &self.values }
    }

    /// The versions of a key before its newest one, ascending.
    fn older_in(&self, slot: Slot) -> &[Older] {
        self.older.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// The newest version of a key with a timestamp for which something holds that holds for all smaller ones, too.
    fn newest_where(&self, slot: Slot, holds: impl Fn(Timestamp) -> bool) -> Option<VersionRef<'_>> {
        let newest = self.newest_in(slot);
        if holds(newest.timestamp) {
            return Some(newest);
        }
        let older = self.older_in(slot);
        let above = older.partition_point(|version| holds(version.timestamp));
        above.checked_sub(1).map(|last| self.referred(&older[last]))
    }

    fn referred<'a>(&'a self, Older { timestamp, content }: &'a Older) -> VersionRef<'a> {
        VersionRef { timestamp: *timestamp, content, values: &self.values }
    }

    /// Moves values to the attic while there are too many in memory, as far as one call should.
    fn stow_some(&mut self) {
        let Some(attic) = self.values.attic() else { return };
        let memory_bytes = attic.memory_bytes();
        self.installed += 1;
        // At first more often: then it grows by a large part of itself.
        if self.installed.is_multiple_of(INSTALLED) || self.installed.is_power_of_two() {
            self.index_bytes = self.memory().index;
        }
        let slots = self.slab.slots();
        self.hand.cover(slots);
        for _ in 0..STEPS_MAX {
            if self.values.kept() == 0 || self.index_bytes + self.values.bytes() <= memory_bytes {
                return;
            }
            let (slot, was_touched) = self.hand.advance(slots);
            let older = self.older.get_mut(&slot).into_iter().flatten().map(|version| &mut version.content);
            let newest = (!was_touched).then(|| &mut self.slab.entry_mut(slot).content);
            let values = &mut self.values;
            // Overwritten versions go whether the key was looked up or not. If the attic takes none, all stay, and a later call tries again.
            if !older.chain(newest).all(|content| values.stow(content)) {
                return;
            }
        }
    }

    /// True if the key space takes an eighth more memory than it may, because keys alone do or because the attic takes no values.
    pub fn exceeds_memory(&self) -> bool {
        let taken = self.index_bytes + self.values.bytes();
        let is_more = |attic: &Arc<dyn Attic>| is_exceeded(taken, attic.memory_bytes());
        self.values.attic().is_some_and(is_more)
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
            let (_, slot) = self.collectable.pop_first().expect("it was just looked at");
            self.collect_in(slot, floor);
        }
        self.collectable.first().is_some_and(|(timestamp, _)| *timestamp < floor)
    }

    fn collect_in(&mut self, slot: Slot, floor: Timestamp) {
        if !self.slab.is_occupied(slot) {
            return;
        }
        let newest = self.newest_in(slot);
        let (is_below, is_deletion) = (newest.timestamp < floor, newest.is_deletion());
        let older = self.older_in(slot);
        let below = older.partition_point(|version| version.timestamp < floor);
        let dropped = match below.checked_sub(1) {
            _ if is_below => older.len(),
            Some(last) if !older[last].content.is_deletion() => last,
            _ => below,
        };
        self.drop_older(slot, dropped);
        if is_below && is_deletion {
            self.remove(slot);
        }
    }

    /// Drops the first versions of a key that are not its newest.
    fn drop_older(&mut self, slot: Slot, dropped: usize) {
        if dropped == 0 {
            return;
        }
        let Some(older) = self.older.get_mut(&slot) else { return };
        for gone in older.drain(..dropped) {
            self.values.release(gone.content);
        }
        if older.is_empty() {
            self.older.remove(&slot);
        }
        self.count -= dropped;
    }

    /// Drops every version below `floor`, to make room for those of another replica.
    pub fn forget_below(&mut self, floor: Timestamp) {
        self.collected = self.collected.max(floor);
        // Versions that were to be collected below are dropped with the rest.
        self.collectable = self.collectable.split_off(&(floor, Slot::FIRST));
        let all: Vec<Slot> = self.slab.occupied().collect();
        for slot in all {
            let dropped = self.older_in(slot).partition_point(|version| version.timestamp < floor);
            self.drop_older(slot, dropped);
            if self.slab.entry(slot).timestamp < floor {
                self.remove(slot);
            }
        }
    }

    /// The keys after `after` with all their versions, ascending by key and then by timestamp; from the first key if
    /// there is none.
    pub fn after<'a>(
        &'a self,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, VersionRef<'a>)> + use<'a> {
        self.slots_after(after).flat_map(|slot| self.versions_in(slot))
    }

    fn slots_after(&self, after: Option<&Key>) -> impl Iterator<Item = Slot> + use<'_> {
        self.order.from(&self.slab, after.map_or(&[], Key::as_slice), after.is_none())
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
        let mut last = None;
        for slot in self.slots_after(after).take(keys_max) {
            let key = self.slab.key(slot);
            last = Some(key);
            let newest = self.newest_where(slot, |timestamp| timestamp < below);
            match newest.as_ref().and_then(|newest| Some((newest.timestamp, newest.bytes()?))) {
                Some((timestamp, value)) => {
                    let stamps = [timestamp.micros, timestamp.client.0];
                    digester.add(Item { space: Item::DATA, key, stamps: &stamps, value: Some(&value) });
                }
                None => digester.skip(),
            }
        }
        last.cloned()
    }

    fn versions_in(&self, slot: Slot) -> impl Iterator<Item = (&Key, VersionRef<'_>)> {
        let older = self.older_in(slot).iter().map(|version| self.referred(version));
        let key = self.slab.key(slot);
        older.chain(std::iter::once(self.newest_in(slot))).map(move |version| (key, version))
    }

    /// The keys of a range with their newest versions, ascending, deletions included.
    pub fn range<'a>(
        &'a self,
        range: &KeyRange,
    ) -> impl Iterator<Item = (&'a Key, VersionRef<'a>)> + use<'a> {
        // Each vote asks for the index list, which would stand above all keys of users, and mostly there is none: no search for that.
        let is_above_all = self.order.last().is_none_or(|last| *self.slab.key(last) < range.from);
        let (to, is_empty) = (range.to.clone(), range.is_empty() || is_above_all);
        let slots = (!is_empty).then(|| self.order.from(&self.slab, &range.from, true));
        let keys = slots.into_iter().flatten().map(|slot| (self.slab.key(slot), self.newest_in(slot)));
        keys.take_while(move |(key, _)| to.as_ref().is_none_or(|to| *key < to))
    }

    /// Every key with all its versions, ascending by key and then by timestamp.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, VersionRef<'_>)> {
        self.order.iter().flat_map(|slot| self.versions_in(slot))
    }

    /// Every key with all its versions, as [`Versions::iter`] gives them; no value for a deletion.
    pub fn stored(&self) -> Vec<StoredVersion> {
        self.iter().map(|(key, version)| (key.clone(), version.timestamp, version.value())).collect()
    }

    /// The number of keys that have a version.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// The number of versions that a floor makes superfluous: below it, and either a deletion or followed by another version
    /// below it. Looks at everything.
    pub fn superfluous(&self, floor: Timestamp) -> usize {
        let mut versions = self.iter().peekable();
        let mut superfluous = 0;
        while let Some((key, version)) = versions.next() {
            let is_followed =
                versions.peek().is_some_and(|(other, next)| *other == key && next.timestamp < floor);
            superfluous += usize::from(version.timestamp < floor && (is_followed || version.is_deletion()));
        }
        superfluous
    }

    /// The number of versions of all keys.
    pub fn count(&self) -> usize {
        self.count
    }

    /// True if no key has a version.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of memory that all this takes, about. Looks at a few thousand keys together, and at no single one.
    pub fn memory(&self) -> Memory {
        /// Of a timestamp in a set, or of a list in a table, with the room that either keeps.
        const NOTE: usize = size_of::<(Timestamp, Slot)>() * 3 / 2;
        const LIST: usize = size_of::<(Slot, Vec<Older>)>() * 3 / 2;
        let older = (self.count - self.len()) * size_of::<Older>() + self.older.len() * LIST;
        let notes = self.collectable.len() * NOTE;
        let found_by = self.points.bytes() + self.order.bytes() + self.hand.bytes();
        let index = self.slab.bytes() + found_by + older + notes;
        Memory { index, values: self.values.bytes(), stowed: self.values.stowed() }
    }
}
