//! Stretches of a record: operations that have ended, of which replicas that change views compare checksums.
//!
//! Nearly all of a tail has ended at nearly every replica. What has ended is a fact, and the same wherever it is known; so a message of a view
//! change spells out only what is open and what has ended last. Of the rest it has an [`Outline`]: stretches by timestamp, each with a checksum
//! over what ended in it. A receiver that holds the same asks for nothing of it.
//!
//! A checksum leaves out what the sender's floor has passed altogether. Each replica collects that in its own time.

use quorate_core::hash::FixedSet;
use quorate_core::verify::Checksum;
use quorate_core::{Timestamp, TransactionId, View};

use super::{Cursor, InconsistentEntry, OperationEntries, Record, RecordPage, Slot};
use crate::Operations;

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorRange {
    /// Its first place.
    pub first: Cursor,
    /// Its last place, not below the first.
    pub last: Cursor,
}

/// A part of a record, and what has ended in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Which part.
    pub range: CursorRange,
    /// The sum over the operations in it that have ended.
    pub ended: Checksum,
}

/// What the last parts of a message hold, one stretch each, ascending: a receiver that holds the same asks for none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The floor of the sender: what it has passed altogether is in no stretch.
    pub floor: Timestamp,
    /// The stretches.
    pub stretches: Vec<Stretch>,
}

impl Outline {
    /// The last place that it tells of.
    fn last(&self) -> Option<Cursor> {
        self.stretches.last().map(|stretch| stretch.range.last)
    }
}

/// Which operations that have ended a message is about: by the view with whose base they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that no base holds.
    Tail,
    /// Those that the bases of later views than this hold.
    Beyond(Option<View>),
    /// Both.
    After(Option<View>),
}

impl Scope {
    fn includes(self, base: Option<View>) -> bool {
        match self {
            Scope::Tail => base.is_none(),
            Scope::Beyond(since) => base > since,
            Scope::After(since) => base.is_none() || base > since,
        }
    }
}

/// The checksum of an operation that has ended.
fn checksum<O: Operations>((timestamp, transaction): Cursor, operation: &O::Inconsistent) -> Checksum {
    let words = [timestamp.micros, timestamp.client.0, transaction.client.0, transaction.sequence];
    let words = words.map(u64::to_le_bytes);
    let attempt = transaction.attempt.to_le_bytes();
    Checksum::of(&[words.as_flattened(), &attempt, &[u8::from(O::leaves_state(operation))]])
}

impl<O: Operations> Slot<O> {
    /// The operation that has ended the transaction, if it is one of these and the floor has not passed it altogether.
    fn ended(&self, scope: Scope, floor: Timestamp) -> Option<&InconsistentEntry<O>> {
        let known = self.inconsistent.as_ref()?;
        let counts = known.entry.executed && scope.includes(known.base) && self.outlasts(floor);
        counts.then_some(&known.entry)
    }

    /// True if its operation has ended, and lies in the record up to `to`.
    fn is_left_out(&self, id: TransactionId, scope: Scope, floor: Timestamp, to: Option<Cursor>) -> bool {
        self.ended(scope, floor).is_some() && self.mark.is_some_and(|mark| Some(mark.cursor(id)) <= to)
    }
}

impl<O: Operations> Record<O> {
    /// The tail, without most of what has ended, of which there is an outline. The page holds what has ended last, roughly `bytes_max` bytes of it,
    /// and a stretch has roughly as many.
    pub(crate) fn outlined_tail(
        &self,
        floor: Timestamp,
        bytes_max: usize,
        entry_bytes: impl Fn(&OperationEntries<O>) -> usize,
    ) -> (RecordPage<O>, Outline) {
        let scope = Scope::Tail;
        let outline = self.outline(scope, floor, bytes_max, entry_bytes);
        let to = outline.last();
        (self.tail_where(|id, slot| !slot.is_left_out(id, scope, floor, to)), outline)
    }

    /// What the base of the present view holds beyond the base of `since`, divided like the tail.
    pub(crate) fn outlined_beyond(
        &self,
        since: Option<View>,
        floor: Timestamp,
        bytes_max: usize,
        entry_bytes: impl Fn(&OperationEntries<O>) -> usize,
    ) -> (RecordPage<O>, Outline) {
        let scope = Scope::Beyond(since);
        let outline = self.outline(scope, floor, bytes_max, entry_bytes);
        let to = outline.last();
        (self.beyond_where(since, |id, slot| !slot.is_left_out(id, scope, floor, to)), outline)
    }

    /// The outline of what has ended but for the last of it, roughly `bytes_max` bytes.
    fn outline(
        &self,
        scope: Scope,
        floor: Timestamp,
        bytes_max: usize,
        entry_bytes: impl Fn(&OperationEntries<O>) -> usize,
    ) -> Outline {
        let mut outline = Outline { floor, stretches: Vec::new() };
        let mut ended = Vec::new();
        let mut bytes_in_all = 0;
        for (id, slot) in self.slots.in_any_order() {
            if let (Some(entry), Some(mark)) = (slot.ended(scope, floor), slot.mark) {
                let bytes = entry_bytes(&OperationEntries {
                    inconsistent: Some(entry.clone()),
                    consensus: Vec::new(),
                });
                bytes_in_all += bytes;
                ended.push((mark.cursor(id), bytes, entry));
            }
        }
        if bytes_in_all <= bytes_max {
            return outline;
        }
        ended.sort_unstable_by_key(|(cursor, ..)| *cursor);
        let mut kept = 0;
        while let Some((_, bytes, _)) = ended.pop_if(|(_, bytes, _)| kept + *bytes <= bytes_max) {
            kept += bytes;
        }
        let mut filled = 0;
        for (cursor, bytes, entry) in ended {
            let operation = checksum::<O>(cursor, &entry.operation);
            match outline.stretches.last_mut().filter(|_| filled + bytes <= bytes_max) {
                Some(last) => {
                    last.range.last = cursor;
                    last.ended = last.ended.plus(operation);
                    filled += bytes;
                }
                None => {
                    let range = CursorRange { first: cursor, last: cursor };
                    outline.stretches.push(Stretch { range, ended: operation });
                    filled = bytes;
                }
            }
        }
        outline
    }

    /// What has ended in a part of the record.
    fn ended_in(
        &self,
        range: CursorRange,
        scope: Scope,
        floor: Timestamp,
    ) -> impl Iterator<Item = (Cursor, &InconsistentEntry<O>)> + '_ {
        let CursorRange { first, last } = range;
        let places = (first <= last).then(|| self.index.by_timestamp.range(first..=last));
        places.into_iter().flatten().filter_map(move |cursor| {
            let entry = self.slots.get(cursor.1)?.ended(scope, floor)?;
            Some((*cursor, entry))
        })
    }

    /// What has ended in a stretch.
    pub(crate) fn stretch(&self, range: CursorRange, scope: Scope, floor: Timestamp) -> RecordPage<O> {
        let entries = self.ended_in(range, scope, floor).map(|((_, id), entry)| {
            (id, OperationEntries { inconsistent: Some(entry.clone()), consensus: Vec::new() })
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort_unstable_by_key(|(id, _)| *id);
        RecordPage { entries }
    }

    /// True if this record holds exactly what another's stretch does.
    pub(crate) fn holds_stretch(&self, stretch: &Stretch, scope: Scope, floor: Timestamp) -> bool {
        let ended = self.ended_in(stretch.range, scope, floor);
        let sum = ended.fold(Checksum::default(), |sum, (cursor, entry)| {
            sum.plus(checksum::<O>(cursor, &entry.operation))
        });
        sum == stretch.ended
    }

    /// What has ended in a part of the record belongs to the base of `view` from now on.
    pub(crate) fn settle_ended(&mut self, view: View, range: CursorRange) {
        let CursorRange { first, last } = range;
        let places = (first <= last).then(|| self.index.by_timestamp.range(first..=last));
        for (_, id) in places.into_iter().flatten() {
            let slot = self.slots.get_mut(*id).and_then(|slot| slot.inconsistent.as_mut());
            if let Some(known) = slot.filter(|known| known.entry.executed && known.base.is_none()) {
                known.base = Some(view);
            }
        }
    }

    /// Of the tail what is open, and what has ended of transactions that one of these pages names.
    pub(crate) fn tail_beside(&self, pages: &[RecordPage<O>]) -> RecordPage<O> {
        let named: FixedSet<TransactionId> =
            pages.iter().flat_map(|page| page.entries.iter().map(|(id, _)| *id)).collect();
        self.tail_where(|id, slot| !slot.is_executed() || named.contains(&id))
    }

    /// From its first place to its last.
    pub(crate) fn everything(&self) -> Option<CursorRange> {
        let last = self.last()?;
        Some(CursorRange { first: (Timestamp::ZERO, TransactionId::default()), last })
    }
}
