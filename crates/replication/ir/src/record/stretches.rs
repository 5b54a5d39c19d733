//! Stretches of a record: operations that have ended, of which replicas that change views compare checksums.
//!
//! Nearly all of a tail has ended at nearly every replica. An operation that has ended is a fact, and the same wherever it is known; so a message
//! of a view change spells out only what is open and what has ended last. Of the rest it has an [`Outline`]: stretches by timestamp, each with a
//! checksum over what ended in it. A receiver that holds the same asks for nothing of it.
//!
//! A checksum leaves out what the sender's floor has passed altogether. Each replica collects that in its own time.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};

use quorate_core::verify::Checksum;
use quorate_core::{Timestamp, TransactionId, View};

use super::index::{Ended, Slice, checksum};
use super::origins::Origins;
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

/// The stretches that the last parts of a message hold, one each, ascending: a receiver that holds the same asks for none of them.
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

/// Of what has ended a message spells out this part of as much as fits into a stretch: those that ended last, which the receiver may not know yet.
const SPELLED_OUT: usize = 8;

/// Which entries are looked at: those of a scope that the floor of a sender has not passed altogether.
#[derive(Clone, Copy, Debug)]
struct Sight<'a> {
    origins: &'a Origins,
    scope: Scope,
    floor: Timestamp,
}

impl Sight<'_> {
    /// The operation that has ended a transaction, if it is one of these.
    fn of<'a, O: Operations>(&self, slot: &'a Slot<O>) -> Option<&'a InconsistentEntry<O>> {
        let known = slot.inconsistent.as_ref()?;
        let is_above = || O::inconsistent_timestamp(&known.entry.operation) >= self.floor;
        let counts = known.entry.executed && self.scope.includes(self.origins.base(known.origin));
        (counts && (is_above() || slot.outlasts(self.floor))).then_some(&known.entry)
    }
}

impl<O: Operations> Record<O> {
    /// The tail, without most of what has ended, of which there is an outline: each stretch has roughly `bytes_max` bytes. The page holds what has
    /// ended last, an eighth as many.
    pub(crate) fn outlined_tail(&self, floor: Timestamp, bytes_max: usize) -> (RecordPage<O>, Outline) {
        let outline = self.outline(Scope::Tail, floor, bytes_max);
        (self.tail_after(outline.last(), &[]), outline)
    }

    /// The entries of the base of the present view beyond the base of `since`, divided like the tail.
    pub(crate) fn outlined_beyond(
        &self,
        since: Option<View>,
        floor: Timestamp,
        bytes_max: usize,
    ) -> (RecordPage<O>, Outline) {
        let outline = self.outline(Scope::Beyond(since), floor, bytes_max);
        (self.beyond_after(since, outline.last()), outline)
    }

    /// The outline of what has ended but for the last of it.
    fn outline(&self, scope: Scope, floor: Timestamp, bytes_max: usize) -> Outline {
        let sight = Sight { origins: &self.origins, scope, floor };
        let mut slices = self.slices(Slice::FIRST..=Slice::LAST, sight);
        let mut outline = Outline { floor, stretches: Vec::new() };
        let spelled_out = bytes_max / SPELLED_OUT;
        if slices.values().map(|ended| ended.bytes).sum::<usize>() <= spelled_out {
            return outline;
        }
        let mut kept = 0;
        while let Some(last) = slices.last_entry().filter(|last| kept + last.get().bytes <= spelled_out) {
            kept += last.remove().bytes;
        }
        // The last of these is divided: what has ended last in it is spelled out, too.
        let divided = slices.last_key_value().map(|(slice, _)| *slice);
        let mut group: Option<(Stretch, usize)> = None;
        for (slice, ended) in slices {
            let is_small = ended.bytes <= bytes_max && Some(slice) != divided;
            if is_small
                && let Some((stretch, bytes)) = &mut group
                && *bytes + ended.bytes <= bytes_max
            {
                stretch.range.last = slice.last();
                stretch.ended = stretch.ended.plus(ended.checksum);
                *bytes += ended.bytes;
                continue;
            }
            outline.stretches.extend(group.take().map(|(stretch, _)| stretch));
            if is_small {
                let range = CursorRange { first: slice.first(), last: slice.last() };
                group = Some((Stretch { range, ended: ended.checksum }, ended.bytes));
                continue;
            }
            let mut entries = self.bytes_in(slice, sight);
            if Some(slice) == divided {
                while entries.pop_if(|(_, bytes)| kept + *bytes <= spelled_out).is_some_and(|(_, bytes)| {
                    kept += bytes;
                    true
                }) {}
            }
            outline.stretches.extend(divide(&entries, bytes_max));
        }
        outline.stretches.extend(group.map(|(stretch, _)| stretch));
        outline
    }

    /// The ended entries, by slice of time. Those below the floor are looked at one by one: they are about to be collected.
    fn slices(&self, slices: RangeInclusive<Slice>, sight: Sight<'_>) -> BTreeMap<Slice, Ended> {
        let mut sums = self.index.ended(slices, |origin| sight.scope.includes(sight.origins.base(origin)));
        for (slice, sum) in sums.range_mut(..=Slice::of(sight.floor)) {
            *sum = Ended::default();
            for (cursor, bytes) in self.bytes_in(*slice, sight) {
                *sum = sum.plus(Ended { checksum: checksum(cursor), entries: 1, bytes });
            }
        }
        sums.retain(|_, sum| sum.entries > 0);
        sums
    }

    /// The entries that have ended in a slice of time, and roughly how many bytes each has.
    fn bytes_in(&self, slice: Slice, sight: Sight<'_>) -> Vec<(Cursor, usize)> {
        let range = (Bound::Included(slice.first()), Bound::Included(slice.last()));
        let ended = self.ended_in(range, sight);
        ended.map(|(cursor, slot, _)| (cursor, slot.mark.map_or(0, |mark| mark.bytes()))).collect()
    }

    /// The entries that have ended in a part of the record.
    fn ended_in<'a>(
        &'a self,
        range: (Bound<Cursor>, Bound<Cursor>),
        sight: Sight<'a>,
    ) -> impl Iterator<Item = (Cursor, &'a Slot<O>, &'a InconsistentEntry<O>)> + 'a {
        self.index.by_timestamp.range(range).filter_map(move |cursor| {
            let slot = self.slots.get(cursor.1)?;
            Some((*cursor, slot, sight.of(slot)?))
        })
    }

    /// The entries that have ended in a stretch.
    pub(crate) fn stretch(&self, range: CursorRange, scope: Scope, floor: Timestamp) -> RecordPage<O> {
        let sight = Sight { origins: &self.origins, scope, floor };
        let entries = range.bounds().map(|bounds| self.ended_in(bounds, sight)).into_iter().flatten();
        let mut entries: Vec<_> = entries
            .map(|((_, id), _, entry)| {
                (id, OperationEntries { inconsistent: Some(entry.clone()), consensus: Vec::new() })
            })
            .collect();
        entries.sort_unstable_by_key(|(id, _)| *id);
        RecordPage { entries }
    }

    /// True if this record holds exactly what another's stretch does.
    pub(crate) fn holds_stretch(&self, stretch: &Stretch, scope: Scope, floor: Timestamp) -> bool {
        let Some((first, last)) = stretch.range.bounds() else { return false };
        let sight = Sight { origins: &self.origins, scope, floor };
        let CursorRange { first: from, last: to } = stretch.range;
        let one_by_one = |bounds| {
            self.ended_in(bounds, sight)
                .fold(Checksum::default(), |sum, (cursor, ..)| sum.plus(checksum(cursor)))
        };
        // Slices that lie within the stretch are summed up already.
        let (mut first_slice, mut last_slice) = (Slice::of(from.0), Slice::of(to.0));
        if first_slice.first() < from {
            first_slice = first_slice.next();
        }
        if last_slice.last() > to {
            last_slice = last_slice.before();
        }
        if first_slice > last_slice || first_slice.first() > to || last_slice.last() < from {
            return one_by_one((first, last)) == stretch.ended;
        }
        let before = one_by_one((first, Bound::Excluded(first_slice.first())));
        let within = self.slices(first_slice..=last_slice, sight);
        let sum = within.values().fold(before, |sum, ended| sum.plus(ended.checksum));
        let after = if last_slice.last() < to {
            one_by_one((Bound::Excluded(last_slice.last()), last))
        } else {
            Checksum::default()
        };
        sum.plus(after) == stretch.ended
    }

    /// Entries that have ended in these parts of the record belong to the base of `view` from now on. The rest of the tail is a tail still.
    pub(crate) fn settle_ended(&mut self, view: View, kept: &[CursorRange]) {
        if kept.is_empty() {
            return;
        }
        let mut kept: Vec<CursorRange> = kept.to_vec();
        kept.sort_unstable_by_key(|range| range.first);
        let mut rest: Vec<TransactionId> = self.index.open.iter().copied().collect();
        let (by_timestamp, mut reached) = (&self.index.by_timestamp, Bound::Unbounded);
        for CursorRange { first, last } in kept {
            let is_gap = match reached {
                Bound::Excluded(reached) => reached < first,
                _ => true,
            };
            if is_gap {
                rest.extend(by_timestamp.range((reached, Bound::Excluded(first))).map(|(_, id)| *id));
            }
            if let Bound::Excluded(before) = reached
                && before >= last
            {
                continue;
            }
            reached = Bound::Excluded(last);
        }
        rest.extend(by_timestamp.range((reached, Bound::Unbounded)).map(|(_, id)| *id));
        rest.retain(|id| self.slots.get(*id).is_some_and(|slot| slot.is_in_tail(&self.origins)));
        let before = self.origins.settle_tail(view);
        for id in rest {
            if let Some(slot) = self.slots.get_mut(id) {
                slot.stay_in_tail(&before, &self.origins);
                slot.index(id, &mut self.index);
            }
        }
    }

    /// Of the tail what is open, and what has ended of transactions that one of these pages names.
    pub(crate) fn tail_beside(&self, pages: &[RecordPage<O>]) -> RecordPage<O> {
        let named = pages.iter().flat_map(|page| page.entries.iter().map(|(id, _)| *id));
        let named: Vec<TransactionId> = named.collect();
        self.tail_after(self.last(), &named)
    }

    /// From its first place to its last.
    pub(crate) fn everything(&self) -> Option<CursorRange> {
        let last = self.last()?;
        Some(CursorRange { first: (Timestamp::ZERO, TransactionId::default()), last })
    }
}

impl CursorRange {
    fn bounds(self) -> Option<(Bound<Cursor>, Bound<Cursor>)> {
        (self.first <= self.last).then_some((Bound::Included(self.first), Bound::Included(self.last)))
    }
}

/// Stretches of roughly `bytes_max` bytes each.
fn divide(entries: &[(Cursor, usize)], bytes_max: usize) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut filled = 0;
    for (cursor, bytes) in entries {
        let ended = checksum(*cursor);
        match stretches.last_mut().filter(|_| filled + bytes <= bytes_max) {
            Some(last) => {
                last.range.last = *cursor;
                last.ended = last.ended.plus(ended);
                filled += bytes;
            }
            None => {
                let range = CursorRange { first: *cursor, last: *cursor };
                stretches.push(Stretch { range, ended });
                filled = *bytes;
            }
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quorate_core::{Ballot, ClientId, Random};

    use super::*;
    use crate::record::{ConsensusEntry, State};

    /// Operations are the times at which they take effect, in microseconds.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Times;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(0) }
    }

    impl Operations for Times {
        type Inconsistent = u64;
        type Consensus = u64;
        type Verdict = bool;
        type Supplement = ();
        type State = ();

        fn consensus_timestamp(time: &u64) -> Timestamp {
            at(*time)
        }

        fn inconsistent_timestamp(time: &u64) -> Timestamp {
            at(*time)
        }

        /// Half of the transactions may have been proposed long after.
        fn last_timestamp(time: &u64) -> Timestamp {
            at(time + time % 2 * 1_000_000)
        }

        fn leaves_state(_: &u64) -> bool {
            true
        }

        fn as_proposed(_: &u64, _: &u64) -> Option<Timestamp> {
            None
        }

        fn of_proposed(time: &u64, _: Timestamp) -> u64 {
            *time
        }

        fn bytes(time: &u64) -> usize {
            (time % 7) as usize * 100
        }

        fn consensus_bytes(_: &u64) -> usize {
            1
        }

        fn state_bytes((): &()) -> usize {
            1
        }

        fn is_favourable(verdict: &bool) -> bool {
            *verdict
        }
    }

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    /// Something happens to a record, as it does to that of a replica.
    fn happens(record: &mut Record<Times>, view: &mut u64, random: &mut Random) {
        let (sequence, time) = (random.below(300), 1 + random.below(3_000_000));
        let known = record.inconsistent(id(sequence)).map(|known| known.executed);
        match random.below(100) {
            0..30 if known.is_none() => {
                let number = 1 + random.below(2) as u32;
                let entry =
                    ConsensusEntry { number, operation: time, verdict: true, state: State::Tentative };
                record.record_consensus(id(sequence), entry);
            }
            30..60 if known.is_none() => record.record_inconsistent(id(sequence), time, random.chance(0.8)),
            60..90 if known == Some(false) => record.mark_executed(id(sequence)),
            // A view starts: what is open is settled, and what has ended in some parts of the record is in its base.
            97 => {
                let since = record.last_normal();
                *view += 1;
                let mut page = record.tail_beside(&[]);
                page.entries.retain(|_| random.chance(0.9));
                record.forget_consensus_beyond(since);
                record.install(View(*view), &page);
                let mut kept: Vec<CursorRange> = Vec::new();
                for _ in 0..random.below(3) {
                    let first = random.below(3_000_000);
                    let last = first + random.below(1_000_000);
                    kept.push(CursorRange { first: (at(first), id(0)), last: (at(last), id(300)) });
                }
                kept.extend(record.everything().filter(|_| random.chance(0.3)));
                let expected = settled_one_by_one(record, *view, &kept);
                record.settle_ended(View(*view), &kept);
                assert_eq!(bases(record), expected, "{kept:?}");
                record.enter_lineage(since, View(*view));
            }
            // A view that this replica was in turns out to be none of the others'.
            98 => {
                let lineage = record.lineage().to_vec();
                let since = lineage.get(random.index(lineage.len().max(1))).copied();
                record.forget_consensus_beyond(since);
                record.enter_lineage(
                    since,
                    View({
                        *view += 1;
                        *view
                    }),
                );
            }
            99 => {
                let floor = at(random.below(1_000_000));
                for (_, slot) in record.slots.in_any_order().filter(|(_, slot)| slot.is_open_below(floor)) {
                    assert!(!slot.is_executed());
                }
                if record.slots.in_any_order().all(|(_, slot)| !slot.is_open_below(floor)) {
                    record.collect(None, floor, random.index(50));
                }
            }
            _ => {}
        }
    }

    /// The base of each entry that has ended.
    fn bases(record: &Record<Times>) -> BTreeMap<TransactionId, Option<View>> {
        let ended = record.slots.in_any_order().filter(|(_, slot)| slot.is_executed());
        let base =
            |slot: &Slot<Times>| slot.inconsistent.as_ref().map(|known| record.origins.base(known.origin));
        ended.filter_map(|(id, slot)| Some((id, base(slot)?))).collect()
    }

    fn settled_one_by_one(
        record: &Record<Times>,
        view: u64,
        kept: &[CursorRange],
    ) -> BTreeMap<TransactionId, Option<View>> {
        let mut bases = bases(record);
        for (id, base) in bases.iter_mut().filter(|(_, base)| base.is_none()) {
            let cursor = record.slots.get(*id).and_then(|slot| Some(slot.mark?.cursor(*id))).unwrap();
            if kept.iter().any(|range| range.first <= cursor && cursor <= range.last) {
                *base = Some(View(view));
            }
        }
        bases
    }

    /// In all cases the page and the stretches together are what there is, each once, and a record holds its own stretches.
    #[test]
    fn a_page_and_its_outline_are_the_whole_and_hold_nothing_twice() {
        let mut outlined = 0;
        for seed in 1..=60 {
            let (mut record, mut view, mut random) = (Record::<Times>::default(), 0, Random::new(seed));
            record.enter_lineage(None, View(0));
            for _ in 0..1_500 {
                happens(&mut record, &mut view, &mut random);
            }
            let bytes_max = [1, 1_000, 10_000, 1_000_000][random.index(4)];
            let floor = at([0, 500_000][random.index(2)]);
            let since = [None, record.last_normal()][random.index(2)];
            let tail = (record.outlined_tail(floor, bytes_max), record.tail(), Scope::Tail);
            let beyond =
                (record.outlined_beyond(since, floor, bytes_max), record.beyond(since), Scope::Beyond(since));
            for ((page, outline), whole, scope) in [tail, beyond] {
                let mut entries = page.entries;
                let spelled_out = entries.len();
                for stretch in &outline.stretches {
                    assert!(record.holds_stretch(stretch, scope, floor), "seed {seed}: {stretch:?}");
                    let part = record.stretch(stretch.range, scope, floor);
                    assert!(!part.is_empty(), "seed {seed}");
                    let other = Stretch { ended: stretch.ended.plus(checksum((at(1), id(999)))), ..*stretch };
                    assert!(!record.holds_stretch(&other, scope, floor), "seed {seed}");
                    entries.extend(part.entries);
                }
                outlined += entries.len() - spelled_out;
                entries.sort_unstable_by_key(|(id, _)| *id);
                // Transactions that the floor has passed altogether are left out once there is an outline.
                let passed = |(id, known): &(TransactionId, OperationEntries<Times>)| {
                    let has_ended = known.inconsistent.as_ref().is_some_and(|known| known.executed);
                    let slot = record.slots.get(*id).unwrap();
                    has_ended && slot.timestamps().all(|time| time < floor) && !slot.outlasts(floor)
                };
                let mut expected = whole.entries;
                if !outline.stretches.is_empty() {
                    expected.retain(|entry| !passed(entry));
                    entries.retain(|entry| !passed(entry));
                }
                assert_eq!(entries, expected, "seed {seed}, {scope:?}");
                let ascend =
                    outline.stretches.windows(2).all(|pair| pair[0].range.last < pair[1].range.first);
                assert!(ascend, "seed {seed}");
            }
        }
        assert!(outlined > 1_000, "{outlined}");
    }

    /// The first and last operation of each stretch, and which are spelled out, of those that have ended at these times.
    fn outlined(times: &[u64], bytes_max: usize) -> (Vec<(u64, u64)>, Vec<u64>) {
        let mut record = Record::<Times>::default();
        for time in times {
            record.record_inconsistent(id(*time), *time, true);
        }
        let (page, outline) = record.outlined_tail(at(0), bytes_max);
        let range = |stretch: &Stretch| {
            let within = |time: &&u64| {
                let cursor = (at(**time), id(**time));
                stretch.range.first <= cursor && cursor <= stretch.range.last
            };
            let mut within = times.iter().filter(within);
            let first = *within.next().expect("no stretch is empty");
            (first, within.next_back().copied().unwrap_or(first))
        };
        let spelled_out = page.entries.iter().map(|(id, _)| id.sequence).collect();
        (outline.stretches.iter().map(range).collect(), spelled_out)
    }

    /// Slices of time are put together as long as they fit, and what is larger is divided.
    #[test]
    fn what_has_ended_is_divided_into_stretches_of_the_size_that_is_wanted() {
        // Each in a slice of its own, and of one size.
        let apart: Vec<u64> = (1..=8).map(|slice| slice * 7_000_000).collect();
        let mut record = Record::<Times>::default();
        record.record_inconsistent(id(apart[0]), apart[0], true);
        let bytes = record.slots.get(id(apart[0])).and_then(|slot| slot.mark).map_or(0, |mark| mark.bytes());
        assert!(bytes > 0);
        let [a, b, c, d, e, f, g, h] = apart[..] else { panic!("{apart:?}") };
        assert_eq!(outlined(&apart, 64 * bytes), (vec![], apart.clone()), "an eighth of that is all");
        let of_seven = outlined(&apart, 64 * bytes - 1);
        assert_eq!(of_seven.1, [b, c, d, e, f, g, h], "what ended last is spelled out");
        assert_eq!(of_seven.0, [(a, a)]);
        let (stretches, spelled_out) = outlined(&apart, 8 * bytes);
        assert_eq!((stretches, spelled_out), (vec![(a, f), (g, g)], vec![h]), "the last is divided");
        let (stretches, spelled_out) = outlined(&apart, 4 * bytes);
        assert_eq!((stretches, spelled_out), (vec![(a, d), (e, g), (h, h)], vec![]));
        let (stretches, _) = outlined(&apart, 4 * bytes - 1);
        assert_eq!(stretches, [(a, c), (d, f), (g, g), (h, h)], "a fourth would be too much");
        let single: Vec<(u64, u64)> = apart.iter().map(|time| (*time, *time)).collect();
        assert_eq!(outlined(&apart, bytes).0, single);
        // All in one slice.
        let together: Vec<u64> = (1..=8).map(|number| number * 7).collect();
        let (stretches, spelled_out) = outlined(&together, 8 * bytes);
        assert_eq!((stretches.as_slice(), spelled_out.as_slice()), (&[(7, 49)][..], &[56][..]));
        let (stretches, spelled_out) = outlined(&together, 3 * bytes);
        assert_eq!((stretches, spelled_out), (vec![(7, 21), (28, 42), (49, 56)], vec![]));
    }

    #[test]
    #[should_panic(expected = "ends as")]
    fn one_transaction_never_ends_in_two_ways() {
        let mut record = Record::<Times>::default();
        record.record_inconsistent(id(1), 100, true);
        record.record_inconsistent(id(1), 101, true);
    }

    #[test]
    fn a_stretch_is_held_only_if_nothing_more_and_nothing_less_has_ended_in_it() {
        let record_of = |times: &[u64]| {
            let mut record = Record::<Times>::default();
            for time in times {
                record.record_inconsistent(id(*time), *time, true);
            }
            record
        };
        let times = [100, 200, 140_000, 500_000, 2_000_000];
        let holds = |record: &Record<Times>, first: u64, last: u64, ended: &[u64]| {
            let sum = ended
                .iter()
                .fold(Checksum::default(), |sum, time| sum.plus(checksum((at(*time), id(*time)))));
            let range = CursorRange { first: (at(first), id(0)), last: (at(last), id(u64::MAX)) };
            record.holds_stretch(&Stretch { range, ended: sum }, Scope::Tail, at(0))
        };
        let record = record_of(&times);
        assert!(holds(&record, 0, 3_000_000, &times));
        assert!(holds(&record, 150, 600_000, &times[1..4]));
        assert!(holds(&record, 150, 250, &times[1..2]));
        assert!(holds(&record, 300, 400, &[]));
        assert!(!holds(&record, 0, 3_000_000, &times[1..]), "it has more");
        assert!(!holds(&record_of(&times[1..]), 0, 3_000_000, &times), "it has less");
        let crowded = record_of(&[100, 140_000, 200_000]);
        assert!(holds(&crowded, 0, 150_000, &[100, 140_000]), "what lies behind it in a slice is none of it");
        let mut open = record_of(&times[1..]);
        open.record_inconsistent(id(100), 100, false);
        assert!(!holds(&open, 0, 3_000_000, &times), "one has not run here");
        open.mark_executed(id(100));
        assert!(holds(&open, 0, 3_000_000, &times));
        let entry = ConsensusEntry {
            number: 1,
            operation: 300,
            verdict: true,
            state: State::Finalized(Ballot::ORIGINAL),
        };
        open.record_consensus(id(300), entry);
        assert!(holds(&open, 0, 3_000_000, &times), "what is open counts for nothing");
        let nothing = CursorRange { first: (at(9), id(0)), last: (at(8), id(0)) };
        let stretch = Stretch { range: nothing, ended: Checksum::default() };
        assert!(
            !record.holds_stretch(&stretch, Scope::Tail, at(0))
                && record.stretch(nothing, Scope::Tail, at(0)).is_empty()
        );
    }
}
