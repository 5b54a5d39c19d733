//! The entries of a record by timestamp: which are open, what has ended when, and how many are older than a log that is being shortened.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use quorate_core::verify::Checksum;
use quorate_core::{ClientId, Timestamp, TransactionId};

use super::origins::Origin;

/// A place in a record that is walked by timestamp.
pub type Cursor = (Timestamp, TransactionId);

/// Ended transactions are summed up by slices of time of 2^17 microseconds, an eighth of a second.
const SLICE_BITS: u32 = 17;

/// A slice of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slice(u64);

impl Slice {
    /// No slice is earlier.
    pub(super) const FIRST: Slice = Slice(0);
    /// No slice is later.
    pub(super) const LAST: Slice = Slice(u64::MAX >> SLICE_BITS);

    /// The one in which a timestamp lies.
    pub(super) fn of(timestamp: Timestamp) -> Slice {
        Slice(timestamp.micros >> SLICE_BITS)
    }

    /// The one after it, or itself if there is none.
    pub(super) fn next(self) -> Slice {
        Slice(self.0 + 1).min(Slice::LAST)
    }

    /// The one before it, or itself if there is none.
    pub(super) fn before(self) -> Slice {
        Slice(self.0.saturating_sub(1))
    }

    /// Its first place.
    pub(super) fn first(self) -> Cursor {
        let micros = self.0 << SLICE_BITS;
        (Timestamp { micros, ..Timestamp::ZERO }, TransactionId::default())
    }

    /// Its last place.
    pub(super) fn last(self) -> Cursor {
        let micros = self.0 << SLICE_BITS | ((1 << SLICE_BITS) - 1);
        let client = ClientId(u64::MAX);
        let id = TransactionId { client, sequence: u64::MAX, attempt: u32::MAX };
        (Timestamp { micros, client }, id)
    }
}

/// How much has ended in a slice of time, of one origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// The sum over the entries.
    pub(super) checksum: Checksum,
    /// How many there are.
    pub(super) entries: usize,
    /// Roughly how many bytes they have.
    pub(super) bytes: usize,
}

impl Ended {
    /// One entry.
    fn one(cursor: Cursor, bytes: u32) -> Self {
        Ended { checksum: checksum(cursor), entries: 1, bytes: bytes as usize }
    }

    /// With another.
    pub(super) fn plus(self, other: Ended) -> Self {
        Ended {
            checksum: self.checksum.plus(other.checksum),
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
        }
    }

    fn minus(self, other: Ended) -> Self {
        assert!(self.entries >= other.entries && self.bytes >= other.bytes, "what goes was there");
        Ended {
            checksum: self.checksum.minus(other.checksum),
            entries: self.entries - other.entries,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// The checksum of an operation that has ended: that it has is all that there is to say of it, for nothing else can have ended the transaction.
pub(super) fn checksum((timestamp, transaction): Cursor) -> Checksum {
    let words = [timestamp.micros, timestamp.client.0, transaction.client.0, transaction.sequence];
    let words = words.map(u64::to_le_bytes);
    Checksum::of(&[words.as_flattened(), &transaction.attempt.to_le_bytes()])
}

/// How an entry stands in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    timestamp: Timestamp,
    generation: u32,
    /// Once it has ended: where it has come from, and how many bytes it has.
    ended: Option<(Origin, u32)>,
}

impl Mark {
    /// Where the entry stands.
    pub(super) fn cursor(self, id: TransactionId) -> Cursor {
        (self.timestamp, id)
    }

    /// Roughly how many bytes it has, once it has ended.
    pub(super) fn bytes(self) -> usize {
        self.ended.map_or(0, |(_, bytes)| bytes as usize)
    }
}

/// The index of a record.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) by_timestamp: BTreeSet<Cursor>,
    /// The entries that are open.
    pub(super) open: BTreeSet<TransactionId>,
    /// The entries that have ended.
    ended: BTreeMap<(Slice, Origin), Ended>,
    /// Counts the beginnings of a log.
    generation: u32,
    /// How many entries are of earlier generations, and how many of these are open.
    older: usize,
    older_open: usize,
    /// How many bytes what has ended has, and how many of these are of earlier generations.
    bytes: usize,
    older_bytes: usize,
}

impl Index {
    /// An entry is new, or has changed. `ended` tells where it has come from and how many bytes it has, if it has ended.
    pub(super) fn update(
        &mut self,
        id: TransactionId,
        mark: &mut Option<Mark>,
        timestamp: Timestamp,
        ended: Option<(Origin, u32)>,
    ) {
        let Some(known) = mark else {
            let is_new = self.by_timestamp.insert((timestamp, id));
            assert!(is_new, "{id} stands at {timestamp} already, and has no mark");
            *mark = Some(Mark { timestamp, generation: self.generation, ended });
            match ended {
                Some(ended) => self.count((timestamp, id), ended, self.generation),
                None => drop(self.open.insert(id)),
            }
            return;
        };
        if known.timestamp == timestamp && known.ended == ended {
            return;
        }
        assert!(known.ended.is_none() || ended.is_some(), "{id} has ended, and is open again");
        match known.ended {
            Some(before) => self.discount(known.cursor(id), before, known.generation),
            None if ended.is_some() => self.close(id, *known),
            None => {}
        }
        if known.timestamp != timestamp {
            let was_there = self.by_timestamp.remove(&known.cursor(id));
            assert!(was_there, "{id} moves from {} to {timestamp}, and was not there", known.timestamp);
            self.by_timestamp.insert((timestamp, id));
        }
        if let Some(ended) = ended {
            self.count((timestamp, id), ended, known.generation);
        }
        (known.timestamp, known.ended) = (timestamp, ended);
    }

    fn count(&mut self, cursor: Cursor, (origin, bytes): (Origin, u32), generation: u32) {
        self.bytes += bytes as usize;
        if generation != self.generation {
            self.older_bytes += bytes as usize;
        }
        let slice = self.ended.entry((Slice::of(cursor.0), origin)).or_default();
        *slice = slice.plus(Ended::one(cursor, bytes));
    }

    fn discount(&mut self, cursor: Cursor, (origin, bytes): (Origin, u32), generation: u32) {
        self.bytes -= bytes as usize;
        if generation != self.generation {
            self.older_bytes -= bytes as usize;
        }
        let key = (Slice::of(cursor.0), origin);
        let slice = self.ended.get_mut(&key).expect("what has ended was counted");
        *slice = slice.minus(Ended::one(cursor, bytes));
        if slice.entries == 0 {
            self.ended.remove(&key);
        }
    }

    fn close(&mut self, id: TransactionId, mark: Mark) {
        let was_open = self.open.remove(&id);
        assert!(was_open, "{id} ends, and was not open");
        if mark.generation != self.generation {
            assert!(self.older_open > 0, "{id} is older than the log, and nothing older is open");
            self.older_open -= 1;
        }
    }

    /// An entry is dropped.
    pub(super) fn remove(&mut self, id: TransactionId, mark: &mut Option<Mark>) {
        let Some(known) = mark.take() else { return };
        let was_there = self.by_timestamp.remove(&known.cursor(id));
        assert!(was_there, "{id} goes from {}, and was not there", known.timestamp);
        match known.ended {
            Some(ended) => self.discount(known.cursor(id), ended, known.generation),
            None => self.close(id, known),
        }
        if known.generation != self.generation {
            assert!(
                self.older > self.older_open,
                "of {} older entries {} are open",
                self.older,
                self.older_open
            );
            self.older -= 1;
        }
    }

    /// The entries that have ended, by slice of time, of the origins for which `counts` says so.
    pub(super) fn ended(
        &self,
        slices: RangeInclusive<Slice>,
        counts: impl Fn(Origin) -> bool,
    ) -> BTreeMap<Slice, Ended> {
        let (first, last) = (*slices.start(), *slices.end());
        let mut sums: BTreeMap<Slice, Ended> = BTreeMap::new();
        if first > last {
            return sums;
        }
        let range = self.ended.range((first, Origin::FIRST)..=(last, Origin::LAST));
        for ((slice, origin), ended) in range {
            if counts(*origin) {
                let sum = sums.entry(*slice).or_default();
                *sum = sum.plus(*ended);
            }
        }
        sums
    }

    /// A log begins anew: what is there now is older.
    pub(super) fn start_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.older = self.by_timestamp.len();
        self.older_open = self.open.len();
        self.older_bytes = self.bytes;
    }

    /// How many bytes what has ended has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first place from which on what has ended has at most so many bytes, by slices of time.
    pub(super) fn latest(&self, bytes_max: usize) -> Cursor {
        let mut bytes = 0;
        for ((slice, _), ended) in self.ended.iter().rev() {
            bytes += ended.bytes;
            if bytes > bytes_max {
                return slice.next().first();
            }
        }
        Slice::FIRST.first()
    }

    /// How many entries are older than the log.
    pub(super) fn older(&self) -> usize {
        self.older
    }

    /// How many of these are open.
    pub(super) fn older_open(&self) -> usize {
        self.older_open
    }

    /// How many bytes those have that are older than the log and have ended.
    pub(super) fn older_bytes(&self) -> usize {
        self.older_bytes
    }

    /// True if the entry is older than the log.
    pub(super) fn is_older(&self, mark: Option<&Mark>) -> bool {
        mark.is_some_and(|mark| mark.generation != self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_is_counted_until_it_is_gone() {
        let id = |sequence| TransactionId { sequence, ..TransactionId::default() };
        let at = |micros| Timestamp { micros, ..Timestamp::ZERO };
        let mut index = Index::default();
        let mut marks = [None; 4];
        let ended = Some((Origin::FIRST, 1));
        index.update(id(0), &mut marks[0], at(1), None);
        index.update(id(1), &mut marks[1], at(2), None);
        index.update(id(2), &mut marks[2], at(3), ended);
        index.start_generation();
        index.update(id(3), &mut marks[3], at(4), None);
        assert_eq!((index.older(), index.older_open()), (3, 2));
        index.update(id(0), &mut marks[0], at(9), ended);
        index.update(id(3), &mut marks[3], at(4), Some((Origin::FIRST, 5)));
        assert_eq!((index.older(), index.older_open()), (3, 1));
        assert!(index.is_older(marks[0].as_ref()) && !index.is_older(marks[3].as_ref()));
        assert_eq!((index.older_bytes(), index.bytes()), (2, 7), "of the first and the third");
        index.remove(id(1), &mut marks[1]);
        index.remove(id(2), &mut marks[2]);
        assert_eq!((index.older(), index.older_open(), index.older_bytes()), (1, 0, 1));
        assert_eq!(index.by_timestamp.len(), 2);
        index.start_generation();
        assert_eq!((index.older(), index.older_open(), index.older_bytes()), (2, 0, 6));
    }

    #[test]
    fn what_has_ended_is_summed_up_by_slice_and_origin() {
        let id = |sequence| TransactionId { sequence, ..TransactionId::default() };
        let at = |micros| Timestamp { micros, ..Timestamp::ZERO };
        let (tail, base) = (Origin::FIRST, Origin::LAST);
        let mut index = Index::default();
        let mut marks = [None; 4];
        let second = 1 << SLICE_BITS;
        index.update(id(0), &mut marks[0], at(1), Some((tail, 10)));
        index.update(id(1), &mut marks[1], at(second - 1), Some((base, 20)));
        index.update(id(2), &mut marks[2], at(second), Some((tail, 40)));
        index.update(id(3), &mut marks[3], at(2), None);
        let all = Slice::FIRST..=Slice::LAST;
        let bytes = |index: &Index, counts: &dyn Fn(Origin) -> bool| -> Vec<usize> {
            index.ended(all.clone(), counts).into_values().map(|ended| ended.bytes).collect()
        };
        assert_eq!(bytes(&index, &|_| true), [30, 40]);
        assert_eq!(bytes(&index, &|origin| origin == base), [20]);
        assert_eq!(index.open, BTreeSet::from([id(3)]));
        let sum = |index: &Index| index.ended(Slice(0)..=Slice(0), |_| true)[&Slice(0)].checksum;
        assert_eq!(sum(&index), checksum((at(1), id(0))).plus(checksum((at(second - 1), id(1)))));
        index.update(id(3), &mut marks[3], at(3), Some((tail, 5)));
        index.remove(id(0), &mut marks[0]);
        assert_eq!((bytes(&index, &|_| true), index.open.len()), (vec![25, 40], 0));
        index.update(id(1), &mut marks[1], at(second + 7), Some((tail, 20)));
        assert_eq!(bytes(&index, &|_| true), [5, 60], "it stands elsewhere now");
        let slice = |slice| Slice(slice).first();
        for (bytes_max, expected) in
            [(65, slice(0)), (64, slice(1)), (60, slice(1)), (59, slice(2)), (0, slice(2))]
        {
            assert_eq!(index.latest(bytes_max), expected, "{bytes_max}");
        }
        for (place, mark) in marks.iter_mut().enumerate() {
            index.remove(id(place as u64), mark);
        }
        assert_eq!(index.bytes(), 0);
        assert!(index.ended.is_empty() && index.by_timestamp.is_empty());
    }
}
