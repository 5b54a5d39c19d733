//! The values of the keys of a shard, and those that they held before, until that is settled.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use quorate_core::attic::Memory;
use quorate_core::{Key, KeyRange, Value};
use quorate_granola::Place;

use super::leaves::Leaves;

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Where the transaction stands that wrote it.
    pub place: Place,
    /// Its value.
    pub value: Value,
}

/// Keys with their versions.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// The newest version of each key that is there.
    live: Leaves<Version>,
    /// The version that a key held until it was overwritten at a place that is not settled.
    past: BTreeMap<(Key, Place), Option<Version>>,
    /// The keys that were written at places that are not settled.
    written: BTreeSet<(Place, Key)>,
    /// The greatest place at which something was written that is settled.
    settled: Place,
    /// True if it may be read as it was before what is settled: then not everything is known.
    allows_disorder: bool,
    /// How often it was.
    disorders: Cell<u64>,
    /// The bytes of the keys that are there, and of all values.
    bytes: (usize, usize),
}

/// A version of a key, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen<'a> {
    /// Where it was written; none if by the reader itself.
    pub(crate) place: Option<Place>,
    /// Its value.
    pub(crate) value: &'a Value,
}

/// The writes of a transaction: none removes a key.
pub(crate) type Writes = BTreeMap<Key, Option<Value>>;

/// The versions that a reader sees in place of those that keys hold now.
type Patch<'a> = BTreeMap<&'a Key, Option<Seen<'a>>>;

impl<'a> Seen<'a> {
    pub(crate) fn of(version: &'a Version) -> Self {
        Seen { place: Some(version.place), value: &version.value }
    }

    pub(crate) fn written(value: &'a Value) -> Self {
        Seen { place: None, value }
    }
}

impl Versions {
    /// The number of keys that are there.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// The memory that they take, about.
    pub(crate) fn memory(&self) -> Memory {
        // Leaves are filled to two thirds and more.
        const LIVE: usize = size_of::<(Key, Version)>() * 3 / 2;
        // Of a version, and of the note where it was overwritten.
        const PAST: usize = size_of::<((Key, Place), Option<Version>, Place, Key)>() * 3 / 2;
        let (keys, values) = self.bytes;
        Memory { index: self.len() * LIVE + self.written.len() * PAST + keys, values, stowed: 0 }
    }

    /// How many writes are not settled.
    pub(crate) fn unsettled(&self) -> usize {
        self.written.len()
    }

    /// The newest version of a key.
    pub(crate) fn newest(&self, key: &Key) -> Option<&Version> {
        self.live.get(key)
    }

    /// The newest version of a key before a place.
    pub(crate) fn before(&self, key: &Key, place: Place) -> Option<&Version> {
        if self.has_past(place) {
            let overwritten = self.past.range((key.clone(), place)..).next();
            if let Some(((_, _), held)) = overwritten.filter(|((other, _), _)| other == key) {
                return held.as_ref();
            }
        }
        self.live.get(key)
    }

    /// True if something that is not settled was written at this place or above.
    pub(crate) fn has_written(&self, place: Place) -> bool {
        self.written.last().is_some_and(|(last, _)| *last >= place)
    }

    /// The same, for those that read before a place, which is not settled.
    fn has_past(&self, place: Place) -> bool {
        let is_open = self.is_open(place);
        assert!(is_open || self.allows_disorder, "{place} is read, and {} is settled", self.settled);
        self.disorders.set(self.disorders.get() + u64::from(!is_open));
        self.has_written(place)
    }

    /// The keys of a range as a reader sees them: before a place, if one is given, and with what it has
    /// written itself.
    pub(crate) fn scan<'a>(
        &'a self,
        range: &KeyRange,
        before: Option<Place>,
        writes: &'a Writes,
        descending: bool,
    ) -> Box<dyn Iterator<Item = (&'a Key, Seen<'a>)> + 'a> {
        if range.is_empty() {
            return Box::new(std::iter::empty());
        }
        let mut patch = before.map(|place| self.patch(range, place)).unwrap_or_default();
        if !writes.is_empty() {
            let written = writes.iter().filter(|(key, _)| range.contains(key));
            patch.extend(written.map(|(key, value)| (key, value.as_ref().map(Seen::written))));
        }
        let live = self.live.range(&range.from, range.to.as_ref());
        let live = live.map(|(key, version)| (key, Seen::of(version)));
        match (patch.is_empty(), descending) {
            (true, false) => Box::new(live),
            (true, true) => Box::new(live.rev()),
            (false, false) => Box::new(Merged::new(live, patch.into_iter(), false)),
            (false, true) => Box::new(Merged::new(live.rev(), patch.into_iter().rev(), true)),
        }
    }

    /// The versions that keys of a range held before a place, of the keys that were overwritten there or above.
    fn patch(&self, range: &KeyRange, place: Place) -> Patch<'_> {
        let mut patch = Patch::new();
        if !self.has_past(place) {
            return patch;
        }
        let from = (range.from.clone(), Place::default());
        for ((key, until), held) in self.past.range(from..).take_while(|((key, _), _)| range.contains(key)) {
            if *until >= place {
                patch.entry(key).or_insert_with(|| held.as_ref().map(Seen::of));
            }
        }
        patch
    }

    /// Writes at a place. False if that is not above everything that was written to the key, and above all
    /// that is settled: then the state is wrong.
    pub(crate) fn write(&mut self, place: Place, key: &Key, value: Option<Value>) -> bool {
        let held = match value {
            Some(value) => {
                self.bytes.1 += value.len();
                let held = self.live.insert(key, Version { place, value });
                self.bytes.0 += if held.is_some() { 0 } else { key.len() };
                held
            }
            None => match self.live.remove(key) {
                Some(held) => {
                    self.bytes.0 -= key.len();
                    Some(held)
                }
                // Nothing changes.
                None => return true,
            },
        };
        let is_next = match &held {
            Some(held) => held.place < place,
            None => !self.is_removed_above(key, place),
        };
        let is_in_order = is_next && place > self.settled;
        let known = self.past.insert((key.clone(), place), held);
        let is_known = known.is_some();
        self.bytes.1 -= known.flatten().map_or(0, |known| known.value.len());
        let is_new = self.written.insert((place, key.clone()));
        // A transaction writes a key once, at the one place where it runs.
        assert!(is_new != is_known, "{key:?} has a past at {place} without having been written there");
        assert!(is_new || self.allows_disorder, "{key:?} is written twice at {place}");
        is_in_order
    }

    /// True if a key that is not there was removed at this place or above.
    fn is_removed_above(&self, key: &Key, place: Place) -> bool {
        let above = self.past.range((key.clone(), place)..).next();
        above.is_some_and(|((other, _), _)| other == key)
    }

    /// True if a key holds what was written at this place, or held it before something that is not settled.
    pub(crate) fn holds(&self, key: &Key, place: Place) -> bool {
        let mut past =
            self.past.range((key.clone(), Place::default())..).take_while(|((other, _), _)| other == key);
        self.live.get(key).is_some_and(|held| held.place == place)
            || past.any(|(_, held)| held.as_ref().is_some_and(|held| held.place == place))
    }

    /// The writes below this place, or all, are not undone any more, and the versions before them are not read
    /// any more.
    pub(crate) fn settle(&mut self, below: Option<Place>) {
        while let Some((place, _)) = self.written.first()
            && below.is_none_or(|below| *place < below)
            && let Some((place, key)) = self.written.pop_first()
        {
            self.settled = self.settled.max(place);
            let past = self.past.remove(&(key, place));
            assert!(past.is_some(), "what is written at {place} has a past until it is settled");
            self.bytes.1 -= past.flatten().map_or(0, |held| held.value.len());
        }
    }

    /// From now on it may be read as it was before what is settled.
    pub(crate) fn allow_disorder(&mut self) {
        self.allows_disorder = true;
    }

    /// How often it was read as it was before what is settled.
    pub(crate) fn disorders(&self) -> u64 {
        self.disorders.get()
    }

    /// True if nothing at this place or above is settled.
    pub(crate) fn is_open(&self, place: Place) -> bool {
        place > self.settled
    }

    /// Undoes what was written at this place and above, and tells the keys.
    pub(crate) fn rewind(&mut self, to: Place) -> Vec<Key> {
        let mut undone = Vec::new();
        while self.written.last().is_some_and(|(place, _)| *place >= to)
            && let Some((place, key)) = self.written.pop_last()
        {
            let held = self
                .past
                .remove(&(key.clone(), place))
                .expect("what is written has a past until it is settled");
            let is_held = held.is_some();
            let undone_version = match held {
                Some(held) => self.live.insert(&key, held),
                None => self.live.remove(&key),
            };
            self.bytes.0 += if is_held { key.len() } else { 0 };
            self.bytes.0 -= if undone_version.is_some() { key.len() } else { 0 };
            self.bytes.1 -= undone_version.map_or(0, |version| version.value.len());
            undone.push(key);
        }
        undone
    }

    /// The versions that the keys held before a place, or hold now: to be read while more is written.
    pub(crate) fn freeze(&self, below: Option<Place>) -> Frozen {
        let all = KeyRange { from: Key::default(), to: None };
        let patch = below.map(|place| self.patch(&all, place)).unwrap_or_default();
        let owned =
            |seen: Seen<'_>| Version { place: seen.place.unwrap_or_default(), value: seen.value.clone() };
        let patch = patch.into_iter().map(|(key, seen)| (key.clone(), seen.map(owned)));
        Frozen { live: self.live.clone(), patch: patch.collect(), after: Key::default() }
    }

    /// Takes over a key from a page, in which everything is settled.
    pub(crate) fn restore(&mut self, key: &Key, version: Version) {
        // Readers could see none of what was undone, or will be.
        assert!(self.written.is_empty(), "{key:?} is taken over, and something is not settled");
        self.settled = self.settled.max(version.place);
        self.bytes = (self.bytes.0 + key.len(), self.bytes.1 + version.value.len());
        assert!(self.live.insert(key, version).is_none(), "{key:?} is taken over twice");
    }
}

/// The versions that keys held at one time, page by page.
#[derive(Debug)]
pub(crate) struct Frozen {
    live: Leaves<Version>,
    patch: BTreeMap<Key, Option<Version>>,
    /// Keys up to here have been given.
    after: Key,
}

impl Frozen {
    /// The keys behind one, with about so many bytes, and at most so many.
    pub(crate) fn page_after(
        &mut self,
        after: &Key,
        bytes_max: usize,
        keys_max: usize,
    ) -> Vec<(Key, Version)> {
        self.after = after.clone();
        let mut page = self.next_page(bytes_max);
        page.truncate(keys_max);
        page
    }

    /// The next keys with about so many bytes: as many as stand before the first with which it is as much,
    /// and that one.
    pub(crate) fn next_page(&mut self, bytes_max: usize) -> Vec<(Key, Version)> {
        const ENTRY_BYTES: usize = 64;
        let from =
            Key::from([self.after.as_slice(), if self.after.is_empty() { b"" } else { b"\0" }].concat());
        let live = self.live.range(&from, None).map(|(key, version)| (key, Seen::of(version)));
        let patch = self.patch.range(from..);
        let patch = patch.map(|(key, version)| (key, version.as_ref().map(Seen::of)));
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (key, seen) in Merged::new(live, patch, false) {
            if bytes >= bytes_max && !page.is_empty() {
                break;
            }
            bytes += ENTRY_BYTES + key.len() + seen.value.len();
            let version = Version { place: seen.place.unwrap_or_default(), value: seen.value.clone() };
            page.push((key.clone(), version));
        }
        if let Some((last, _)) = page.last() {
            self.after = last.clone();
        }
        page
    }
}

/// The versions that keys hold, with some of them replaced.
struct Merged<L: Iterator, P: Iterator> {
    live: Peekable<L>,
    patch: Peekable<P>,
    descending: bool,
}

impl<'a, L, P> Merged<L, P>
where
    L: Iterator<Item = (&'a Key, Seen<'a>)>,
    P: Iterator<Item = (&'a Key, Option<Seen<'a>>)>,
{
    fn new(live: L, patch: P, descending: bool) -> Self {
        Merged { live: live.peekable(), patch: patch.peekable(), descending }
    }
}

impl<'a, L, P> Iterator for Merged<L, P>
where
    L: Iterator<Item = (&'a Key, Seen<'a>)>,
    P: Iterator<Item = (&'a Key, Option<Seen<'a>>)>,
{
    type Item = (&'a Key, Seen<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.live.peek(), self.patch.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((live, _)), Some((patch, _))) if self.descending => patch.cmp(live),
                (Some((live, _)), Some((patch, _))) => live.cmp(patch),
            };
            if order == Ordering::Less {
                return self.live.next();
            }
            if order == Ordering::Equal {
                self.live.next();
            }
            if let Some((key, Some(seen))) = self.patch.next() {
                return Some((key, seen));
            }
        }
    }
}
