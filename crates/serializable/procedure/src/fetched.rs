//! A store of what was fetched: a procedure outside its shard, over what a transaction has read.
//!
//! A procedure does not wait, and a transaction over a network does. So the procedure is called over what has been read so far. Where it asks for
//! something else, the call has *missed*; that is fetched, and the procedure is called again, until it has missed nothing:
//!
//! ```text
//!   named by the arguments ──► fetch ──► call ──► missed nothing: its answer and its writes
//!                                ▲         │
//!                                └─────────┘ missed: fetch that too
//! ```
//!
//! Nothing is written before the last call, and each call finds what the ones before have found, so the last one has done what it would have done at a
//! shard that holds what was read. It is for the transaction to see to it that what it has read is still so when it commits; a refusal, too, is worth no
//! more than what it has read.
//!
//! A call ends at its first miss in most procedures. One that asks for several keys before it looks at the first answer misses all of them at once, and
//! they are fetched together.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use crate::store::{Direction, Pair, Stop, Store};
use crate::{Answer, Procedure};

/// Keys and ranges that are to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Single keys, each once, ascending.
    pub keys: Vec<Vec<u8>>,
    /// Ranges, each once.
    pub ranges: Vec<NeededRange>,
}

/// A range that is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededRange {
    /// The first key.
    pub from: Vec<u8>,
    /// The first key behind it.
    pub to: Vec<u8>,
    /// So many keys from that end are enough. A reader that can only begin at the least end reads the whole range where the greatest are needed.
    pub limit: usize,
    /// From which end.
    pub direction: Direction,
}

impl Needs {
    /// True if nothing is to be read.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    /// Adds a key.
    pub fn key(&mut self, key: &[u8]) {
        if let Err(at) = self.keys.binary_search_by(|known| known.as_slice().cmp(key)) {
            self.keys.insert(at, key.to_vec());
        }
    }

    /// Adds a range, of which so many keys from one end are enough.
    pub fn range(&mut self, (from, to): (Vec<u8>, Vec<u8>), limit: usize, direction: Direction) {
        let range = NeededRange { from, to, limit, direction };
        if !self.ranges.contains(&range) {
            self.ranges.push(range);
        }
    }
}

/// The keys and ranges that a transaction has read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The values of keys; none if they were found absent.
    keys: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Ranges of which every key that is there is known, by their first key up to the first one behind them. They neither touch nor overlap.
    ranges: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The time that calls are told.
    timestamp: Option<u64>,
}

impl Fetched {
    /// A key holds this; none if it is absent. The value that was found first stays, so that all calls see the same.
    pub fn found(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        if self.known(&key).is_none() {
            self.keys.insert(key, value);
        }
    }

    /// These are all keys from `from` up to, and without, `to`.
    ///
    /// # Panics
    /// If one of them lies outside.
    pub fn found_range(&mut self, from: Vec<u8>, to: Vec<u8>, pairs: impl IntoIterator<Item = Pair>) {
        for (key, value) in pairs {
            assert!(from <= key && key < to, "a key was found outside the range that was read");
            self.found(key, Some(value));
        }
        if from < to {
            self.cover(from, to);
        }
    }

    fn found_all(&mut self, found: Found) {
        for (key, value) in found.keys {
            self.found(key, value);
        }
        for (from, to, pairs) in found.ranges {
            self.found_range(from, to, pairs);
        }
    }

    /// Notes a range, and makes one of all that touch it.
    fn cover(&mut self, mut from: Vec<u8>, mut to: Vec<u8>) {
        if let Some((before, end)) = self.ranges.range(..=from.clone()).next_back()
            && *end >= from
        {
            to = to.max(end.clone());
            from = before.clone();
        }
        let touched: Vec<Vec<u8>> =
            self.ranges.range(from.clone()..=to.clone()).map(|(start, _)| start.clone()).collect();
        for start in touched {
            if let Some(end) = self.ranges.remove(&start) {
                to = to.max(end);
            }
        }
        self.ranges.insert(from, to);
    }

    /// The value of a key, if that is known; a known key may be absent.
    fn known(&self, key: &[u8]) -> Option<Option<&Vec<u8>>> {
        match self.keys.get(key) {
            Some(value) => Some(value.as_ref()),
            None => self.around(key).map(|_| None),
        }
    }

    /// The range that was read around a key.
    fn around(&self, key: &[u8]) -> Option<(&Vec<u8>, &Vec<u8>)> {
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.filter(|(_, end)| end.as_slice() > key)
    }

    /// The range that was read up to an end, which does not belong to it.
    fn before(&self, end: &[u8]) -> Option<(&Vec<u8>, &Vec<u8>)> {
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(end))).next_back();
        before.filter(|(_, reached)| reached.as_slice() >= end)
    }
}

/// The result of a call over the keys that were fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// This is missing: fetch it, and call again.
    Misses(Needs),
    /// It has done its work.
    Done {
        /// The answer.
        answer: Vec<u8>,
        /// The keys that it writes, ascending, with their values; none deletes.
        writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    },
    /// It refuses, for this reason, and writes nothing.
    Refused(Vec<u8>),
    /// It cannot go on.
    Stopped(Stop),
}

/// The writes; none deletes.
type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Calls a procedure over what was fetched.
pub fn call(procedure: &dyn Procedure, arguments: &[u8], fetched: &Fetched) -> Called {
    call_behind(procedure, arguments, fetched, &Writes::new())
}

/// Calls a procedure over what was fetched, and over what calls before it have written.
fn call_behind(procedure: &dyn Procedure, arguments: &[u8], fetched: &Fetched, before: &Writes) -> Called {
    let mut view = View { fetched, before, writes: Writes::new(), misses: Needs::default() };
    let result = procedure.call(&mut view, arguments);
    if !view.misses.is_empty() {
        return Called::Misses(view.misses);
    }
    match result {
        Ok(Answer::Done(answer)) => Called::Done { answer, writes: view.writes.into_iter().collect() },
        Ok(Answer::Refused(reason)) => Called::Refused(reason),
        Err(stop) => Called::Stopped(stop),
    }
}

/// A transaction of several procedures, each called once those before it are done: it sees what they have written, and reads only what none of them has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    fetched: Fetched,
    writes: Writes,
    bytes: usize,
}

impl Sequence {
    /// A transaction whose calls are told this timestamp, as by [`Attempt::at`].
    pub fn at(timestamp: u64) -> Self {
        let fetched = Fetched { timestamp: Some(timestamp), ..Fetched::default() };
        Sequence { fetched, writes: Writes::new(), bytes: 0 }
    }

    /// The records to fetch next for a call, or its answer. Its writes are kept for the calls behind it, so the answer alone is told.
    pub fn next(&mut self, procedure: &dyn Procedure, arguments: &[u8]) -> Called {
        match call_behind(procedure, arguments, &self.fetched, &self.writes) {
            Called::Done { answer, writes } => {
                let size = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
                for (key, value) in writes {
                    self.bytes += key.len() + size(&value);
                    if let Some((before, replaced)) = self.writes.remove_entry(&key) {
                        self.bytes -= before.len() + size(&replaced);
                    }
                    self.writes.insert(key, value);
                }
                Called::Done { answer, writes: Vec::new() }
            }
            other => other,
        }
    }

    /// Takes in the keys and ranges that were missing.
    ///
    /// # Panics
    /// If a range holds a key that lies outside of it.
    pub fn found(&mut self, found: Found) {
        let of_pair = |(key, value): &Pair| key.len() + value.len();
        let of_keys = found.keys.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
        let of_ranges = found.ranges.iter().flat_map(|(_, _, pairs)| pairs.iter().map(of_pair));
        self.bytes += of_keys.sum::<usize>() + of_ranges.sum::<usize>();
        self.fetched.found_all(found);
    }

    /// How many bytes have been read and written so far, keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The keys that all calls have written, ascending, with their values; none deletes.
    pub fn into_writes(self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        self.writes.into_iter().collect()
    }
}

/// The keys and ranges that have been read because they were missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Single keys with their values; none if one is absent.
    pub keys: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Ranges: the first key, the first one behind it, and all that are there.
    pub ranges: Vec<(Vec<u8>, Vec<u8>, Vec<Pair>)>,
}

/// A transaction that is one procedure: says what to fetch next, is told, and comes to an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    fetched: Fetched,
    has_begun: bool,
}

impl Attempt {
    /// An attempt whose calls are told this timestamp, as [`Store::timestamp`]. An interactive transaction gets its own when it commits; so
    /// this is a reading of a clock, which the caller answers for.
    pub fn at(timestamp: u64) -> Self {
        Attempt { fetched: Fetched { timestamp: Some(timestamp), ..Fetched::default() }, has_begun: false }
    }

    /// The records to fetch next, or the result. Records that the arguments name come first.
    pub fn next(&mut self, procedure: &dyn Procedure, arguments: &[u8]) -> Called {
        if !core::mem::replace(&mut self.has_begun, true) {
            let named = procedure.named(arguments);
            if !named.is_empty() {
                return Called::Misses(named);
            }
        }
        call(procedure, arguments, &self.fetched)
    }

    /// Takes in the keys and ranges that were missing.
    ///
    /// # Panics
    /// If a range holds a key that lies outside of it.
    pub fn found_all(&mut self, found: Found) {
        self.fetched.found_all(found);
    }

    /// A key holds this; none if it is absent.
    pub fn found(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.fetched.found(key, value);
    }

    /// These are all keys from `from` up to, and without, `to`.
    ///
    /// # Panics
    /// If one of them lies outside.
    pub fn found_range(&mut self, from: Vec<u8>, to: Vec<u8>, pairs: impl IntoIterator<Item = Pair>) {
        self.fetched.found_range(from, to, pairs);
    }
}

/// Runs a transaction over a store that has everything, and tells how often it had to fetch. Nothing is written.
///
/// # Errors
/// The store stops it.
pub fn over(
    store: &mut dyn Store,
    procedure: &dyn Procedure,
    arguments: &[u8],
) -> Result<(Called, usize), Stop> {
    let (mut attempt, mut fetches) = (Attempt::default(), 0);
    loop {
        let needs = match attempt.next(procedure, arguments) {
            Called::Misses(needs) => needs,
            ended => return Ok((ended, fetches)),
        };
        fetches += 1;
        attempt.found_all(read(store, needs)?);
    }
}

/// Reads what is missing from a store that has everything.
///
/// # Errors
/// The store stops it.
pub fn read(store: &mut dyn Store, needs: Needs) -> Result<Found, Stop> {
    let mut all = Found::default();
    for key in needs.keys {
        let value = store.get(&key)?;
        all.keys.push((key, value));
    }
    for NeededRange { from, to, limit, direction } in needs.ranges {
        let found = store.scan(&from, &to, limit, direction)?;
        let last = found.last().filter(|_| found.len() == limit).map(|(last, _)| last.clone());
        let (from, to) = match (last, direction) {
            (None, _) => (from, to),
            // The first key behind it.
            (Some(last), Direction::Ascending) => (from, [last.as_slice(), &[0]].concat()),
            (Some(last), Direction::Descending) => (last, to),
        };
        all.ranges.push((from, to, found));
    }
    Ok(all)
}

/// The fetched keys, with those that the call has written.
struct View<'a> {
    fetched: &'a Fetched,
    /// The writes of earlier calls of the same transaction.
    before: &'a Writes,
    writes: Writes,
    misses: Needs,
}

/// How a call ends that misses something: as where it has to wait for another transaction. The caller looks at what it has missed first.
const MISSED: Stop = Stop::Locked;

impl Store for View<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        if let Some(written) = self.writes.get(key).or_else(|| self.before.get(key)) {
            return Ok(written.clone());
        }
        match self.fetched.known(key) {
            Some(value) => Ok(value.cloned()),
            None => {
                self.misses.key(key);
                Err(MISSED)
            }
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.writes.insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        self.writes.insert(key.to_vec(), None);
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>, Stop> {
        if limit == 0 || from >= to {
            return Ok(Vec::new());
        }
        // As far as the range was read from the end at which the scan begins.
        let known = match direction {
            Direction::Ascending => self.fetched.around(from).map(|(_, end)| (from, end.as_slice().min(to))),
            Direction::Descending => {
                self.fetched.before(to).map(|(start, _)| (start.as_slice().max(from), to))
            }
        };
        let found = known.map_or(Vec::new(), |(from, to)| self.pairs(from, to, limit, direction));
        let is_known = known.is_some_and(|(start, end)| start <= from && end >= to);
        if is_known || found.len() >= limit {
            return Ok(found);
        }
        let rest = match (known, direction) {
            (None, _) => (from.to_vec(), to.to_vec()),
            (Some((_, end)), Direction::Ascending) => (end.to_vec(), to.to_vec()),
            (Some((start, _)), Direction::Descending) => (from.to_vec(), start.to_vec()),
        };
        self.misses.range(rest, limit - found.len(), direction);
        Err(MISSED)
    }

    fn timestamp(&self) -> Option<u64> {
        self.fetched.timestamp
    }
}

impl View<'_> {
    /// The keys of a range that was read, at most so many, from one end.
    fn pairs(&self, from: &[u8], to: &[u8], limit: usize, direction: Direction) -> Vec<Pair> {
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let mut keys: BTreeMap<&Vec<u8>, &Option<Vec<u8>>> =
            self.fetched.keys.range::<[u8], _>(bounds).collect();
        keys.extend(self.before.range::<[u8], _>(bounds));
        keys.extend(self.writes.range::<[u8], _>(bounds));
        let pair = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| Some((key.clone(), value.clone()?));
        let there = keys.into_iter().filter_map(pair);
        match direction {
            Direction::Ascending => there.take(limit).collect(),
            Direction::Descending => there.rev().take(limit).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
