//! The operations that a replica remembers.
//!
//! A record is an unordered set of operations. Each is *tentative* when a replica has recorded it and *final* when a
//! proposer or a view change has settled it. For view changes a record is split in two: the *base*, which every replica
//! that was normal in a view had from its start, and the *tail* that came since.
//!
//! Entries are also indexed by timestamp, so that replicas can compare what ended below a floor page by page, and so that
//! collecting it costs what it frees. Ended entries are summed up as they end, so that a view change looks at little of them.

mod index;
mod origins;
mod pages;
mod stretches;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use quorate_core::{Ballot, Timestamp, TransactionId, View};

use crate::Operations;
use crate::message::OperationId;
pub use index::Cursor;
use index::{Index, Mark};
use origins::{Origin, Origins};
use pages::TransactionPages;
pub(crate) use stretches::Scope;
pub use stretches::{CursorRange, Outline, Stretch};

/// How settled an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Recorded here; may be settled otherwise elsewhere.
    Tentative,
    /// Settled under this ballot.
    Finalized(Ballot),
}

impl State {
    /// True if the operation is settled.
    pub fn is_finalized(self) -> bool {
        matches!(self, State::Finalized(_))
    }

    /// True if another verdict may be made final under this ballot: nothing overrules an equal or greater one.
    fn may_yield_to(self, ballot: Ballot) -> bool {
        match self {
            State::Tentative => true,
            State::Finalized(earlier) => earlier < ballot,
        }
    }
}

/// A recorded consensus operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsensusEntry<O: Operations> {
    /// Its number within the transaction.
    pub number: u32,
    /// The operation.
    pub operation: O::Consensus,
    /// The verdict: this replica's own while tentative, the group's once final.
    pub verdict: O::Verdict,
    /// How settled the verdict is.
    pub state: State,
}

/// A recorded inconsistent operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InconsistentEntry<O: Operations> {
    /// The operation.
    pub operation: O::Inconsistent,
    /// True once it has run at this replica. In a START-VIEW: true if it belongs to the base of the view.
    pub executed: bool,
}

/// Everything that a record holds of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationEntries<O: Operations> {
    /// Its inconsistent operation.
    pub inconsistent: Option<InconsistentEntry<O>>,
    /// Its consensus operations, by ascending number.
    pub consensus: Vec<ConsensusEntry<O>>,
}

impl<O: Operations> Default for OperationEntries<O> {
    fn default() -> Self {
        OperationEntries { inconsistent: None, consensus: Vec::new() }
    }
}

/// Entries on their way between replicas or to the disk, sorted by transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPage<O: Operations> {
    /// The entries of each transaction.
    pub entries: Vec<(TransactionId, OperationEntries<O>)>,
}

impl<O: Operations> Default for RecordPage<O> {
    fn default() -> Self {
        RecordPage { entries: Vec::new() }
    }
}

impl<O: Operations> RecordPage<O> {
    /// Roughly how many bytes its operations have.
    pub fn bytes(&self) -> usize {
        let entries = self.entries.iter().map(|(_, entries)| {
            let decision = entries.inconsistent.as_ref().map_or(0, |known| O::bytes(&known.operation));
            let proposals = entries.consensus.iter().map(|known| O::consensus_bytes(&known.operation));
            decision + proposals.sum::<usize>()
        });
        entries.sum()
    }

    /// True if the page holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The record of one replica.
#[derive(Debug)]
pub struct Record<O: Operations> {
    slots: TransactionPages<Slot<O>>,
    lineage: Vec<View>,
    index: Index,
    origins: Origins,
    /// Transactions that have ended since the base of a view held them as open.
    settled: BTreeSet<TransactionId>,
}

/// A page of what a record holds below a floor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions whose inconsistent operation has run here and left something behind.
    pub executed: Vec<Cursor>,
    /// Transactions that can still take effect, as far as this record tells.
    pub open: Vec<Cursor>,
    /// Where the next page begins; none if this was the last.
    pub next: Option<Cursor>,
}

/// An entry, and where it has come from.
#[derive(Debug)]
struct Installed<T> {
    entry: T,
    origin: Origin,
}

#[derive(Debug)]
struct Slot<O: Operations> {
    inconsistent: Option<Installed<InconsistentEntry<O>>>,
    /// Ascending by number; empty once the inconsistent operation has run, which settles them all.
    consensus: Vec<Installed<ConsensusEntry<O>>>,
    /// The greatest view whose base held one of those that were dropped so.
    settled: Option<View>,
    /// How the slot stands in the index; none if it does not yet.
    mark: Option<Mark>,
}

impl<O: Operations> Slot<O> {
    /// The inconsistent operation has run. Notes it if a base held the transaction as open.
    fn settle(&mut self, id: TransactionId, origins: &Origins, settled: &mut BTreeSet<TransactionId>) {
        assert!(self.is_executed(), "{id} is settled by what has not run");
        let greatest = self.consensus.iter().filter_map(|known| origins.base(known.origin)).max();
        self.settled = self.settled.max(greatest);
        self.consensus = Vec::new();
        if self.settled.is_some() {
            settled.insert(id);
        }
    }

    /// True if something of it belongs to the tail.
    fn is_in_tail(&self, origins: &Origins) -> bool {
        let consensus = self.consensus.iter().map(|known| known.origin);
        let mut all = self.inconsistent.iter().map(|known| known.origin).chain(consensus);
        all.any(|origin| origins.base(origin).is_none())
    }

    /// The tail has become part of the base of `view`, but not what belongs to it here.
    fn stay_in_tail(&mut self, before: &BTreeSet<Origin>, origins: &Origins) {
        let consensus = self.consensus.iter_mut().map(|known| &mut known.origin);
        let all = self.inconsistent.iter_mut().map(|known| &mut known.origin).chain(consensus);
        for origin in all.filter(|origin| before.contains(origin)) {
            *origin = origins.tail();
        }
    }

    fn is_executed(&self) -> bool {
        self.inconsistent.as_ref().is_some_and(|known| known.entry.executed)
    }

    /// The smallest timestamp at which its operations can take effect, or took effect; if none can, the smallest of all.
    fn timestamp(&self) -> Option<Timestamp> {
        let timestamp = |known: &Installed<ConsensusEntry<O>>| O::consensus_timestamp(&known.entry.operation);
        let is_favourable = |known: &&Installed<ConsensusEntry<O>>| O::is_favourable(&known.entry.verdict);
        let decided = self.inconsistent.iter().map(|known| O::inconsistent_timestamp(&known.entry.operation));
        let proposed = self.consensus.iter().filter(is_favourable).map(timestamp);
        decided.chain(proposed).min().or_else(|| self.consensus.iter().map(timestamp).min())
    }

    /// Keeps the index in step after a change.
    fn index(&mut self, id: TransactionId, index: &mut Index) {
        let timestamp = self.timestamp().unwrap_or_default();
        let ended = self.inconsistent.as_ref().filter(|known| known.entry.executed).map(|known| {
            let bytes = ENTRY_BYTES + O::bytes(&known.entry.operation);
            (known.origin, u32::try_from(bytes).unwrap_or(u32::MAX))
        });
        index.update(id, &mut self.mark, timestamp, ended);
    }

    /// True if the slot tells something that a floor does not: a decision, or a proposal that can take effect or lies
    /// above the floor. A verdict against a proposal below the floor says no more than the floor.
    fn is_live(&self, floor: Timestamp) -> bool {
        let counts = |entry: &ConsensusEntry<O>| {
            O::is_favourable(&entry.verdict) || O::consensus_timestamp(&entry.operation) >= floor
        };
        self.inconsistent.is_some() || self.consensus.iter().any(|known| counts(&known.entry))
    }

    /// True if its fate is open and it could still take effect below the floor.
    fn is_open_below(&self, floor: Timestamp) -> bool {
        let could = |entry: &ConsensusEntry<O>| {
            O::is_favourable(&entry.verdict) && O::consensus_timestamp(&entry.operation) < floor
        };
        self.inconsistent.is_none() && self.consensus.iter().any(|known| could(&known.entry))
    }

    /// The timestamps of its operations.
    fn timestamps(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let decided = self.inconsistent.iter().map(|known| O::inconsistent_timestamp(&known.entry.operation));
        let proposed = self.consensus.iter().map(|known| O::consensus_timestamp(&known.entry.operation));
        decided.chain(proposed)
    }

    /// True if some of its operations lie above the floor.
    fn reaches(&self, floor: Timestamp) -> bool {
        self.timestamps().any(|timestamp| timestamp >= floor)
    }

    /// True if the slot must be kept although a floor has passed its timestamp.
    fn outlasts(&self, floor: Timestamp) -> bool {
        match &self.inconsistent {
            Some(known) => !known.entry.executed || O::last_timestamp(&known.entry.operation) >= floor,
            None => self.is_live(floor),
        }
    }
}

impl<O: Operations> Default for Slot<O> {
    fn default() -> Self {
        Slot { inconsistent: None, consensus: Vec::new(), settled: None, mark: None }
    }
}

/// Roughly how many bytes an entry has beside its operation.
const ENTRY_BYTES: usize = 100;

/// So many of the latest ancestors are remembered. A receiver that shares none of them is sent everything.
const LINEAGE_MAX: usize = 64;

impl<O: Operations> Default for Record<O> {
    fn default() -> Self {
        Record {
            slots: TransactionPages::default(),
            lineage: Vec::new(),
            index: Index::default(),
            origins: Origins::default(),
            settled: BTreeSet::new(),
        }
    }
}

impl<O: Operations> Record<O> {
    /// The views whose bases this record is built from, ascending; the last is the view in which the replica was last
    /// normal.
    pub fn lineage(&self) -> &[View] {
        &self.lineage
    }

    /// The last view in which the replica was normal.
    pub fn last_normal(&self) -> Option<View> {
        self.lineage.last().copied()
    }

    /// The greatest view that both lineages contain.
    pub fn common_ancestor(&self, lineage: &[View]) -> Option<View> {
        self.lineage.iter().rev().find(|view| lineage.contains(view)).copied()
    }

    /// The number of transactions of which something is recorded.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// True if something of a transaction is recorded.
    pub fn holds(&self, transaction: TransactionId) -> bool {
        self.slots.get(transaction).is_some()
    }

    /// The number of transactions that lie below a floor with everything that may ever have been proposed of them.
    pub fn overdue(&self, floor: Timestamp) -> usize {
        let is_overdue = |slot: &Slot<O>| {
            let decided = slot.inconsistent.iter().map(|known| O::last_timestamp(&known.entry.operation));
            decided.chain(slot.timestamps()).all(|timestamp| timestamp < floor)
        };
        self.slots.in_any_order().filter(|(_, slot)| is_overdue(slot)).count()
    }

    /// The inconsistent operation of a transaction.
    pub fn inconsistent(&self, transaction: TransactionId) -> Option<&InconsistentEntry<O>> {
        self.slots.get(transaction)?.inconsistent.as_ref().map(|installed| &installed.entry)
    }

    /// A consensus operation.
    pub fn consensus(&self, id: OperationId) -> Option<&ConsensusEntry<O>> {
        let slot = self.slots.get(id.transaction)?;
        slot.consensus.iter().map(|installed| &installed.entry).find(|entry| entry.number == id.number)
    }

    /// The consensus operations of a transaction, by ascending number.
    pub fn consensus_of(&self, transaction: TransactionId) -> impl Iterator<Item = &ConsensusEntry<O>> + '_ {
        self.slots
            .get(transaction)
            .into_iter()
            .flat_map(|slot| slot.consensus.iter().map(|installed| &installed.entry))
    }

    /// The transactions whose inconsistent operation is recorded, ascending, with the operation.
    pub fn all_inconsistent(&self) -> Vec<(TransactionId, &InconsistentEntry<O>)> {
        let mut all: Vec<_> = self
            .slots
            .in_any_order()
            .filter_map(|(id, slot)| slot.inconsistent.as_ref().map(|installed| (id, &installed.entry)))
            .collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Records an inconsistent operation in the tail. Once it has run, the consensus operations of its transaction
    /// are settled by it and dropped.
    pub fn record_inconsistent(
        &mut self,
        transaction: TransactionId,
        operation: O::Inconsistent,
        executed: bool,
    ) {
        let (slot, origin) = (self.slots.get_or_default(transaction), self.origins.tail());
        if let Some(Installed { entry: known, .. }) = &slot.inconsistent {
            let effect = |operation: &O::Inconsistent| {
                O::leaves_state(operation).then(|| O::inconsistent_timestamp(operation))
            };
            // A restart meets what was collected and told once more, in other words perhaps.
            assert!(
                effect(&known.operation) == effect(&operation),
                "{transaction} ends as {operation:?} and as {known:?}"
            );
            assert!(executed || !known.executed, "{transaction} has run, and is recorded as if it had not");
        }
        slot.inconsistent = Some(Installed { entry: InconsistentEntry { operation, executed }, origin });
        if executed {
            slot.settle(transaction, &self.origins, &mut self.settled);
        }
        slot.index(transaction, &mut self.index);
        self.assert_indexed();
    }

    /// Every recorded operation stands in the index, and nothing else does.
    fn assert_indexed(&self) {
        let (slots, places) = (self.slots.len(), self.index.by_timestamp.len());
        assert!(slots == places, "{slots} transactions are recorded, and {places} are in the index");
        let (open, settled) = (self.index.open.len(), self.settled.len());
        assert!(open + settled <= slots, "of {slots} transactions {open} are open and {settled} have ended");
    }

    /// Every transaction that is recorded stands in the index, as open or as ended, and none other does. Looks at all of them.
    ///
    /// # Panics
    /// If it is not so.
    pub(crate) fn assert_sound(&self) {
        self.assert_indexed();
        for cursor in &self.index.by_timestamp {
            let (timestamp, id) = *cursor;
            let Some(slot) = self.slots.get(id) else {
                panic!("IR5: {id} stands in the index, and is not recorded")
            };
            let stands_at = slot.timestamp().unwrap_or_default();
            assert!(
                timestamp == stands_at,
                "IR5: {id} stands at {timestamp}, and takes effect at {stands_at}"
            );
            let (is_open, has_ended) = (self.index.open.contains(&id), slot.is_executed());
            assert!(is_open != has_ended, "IR5: {id} is open: {is_open}, and has ended: {has_ended}");
            assert!(
                !has_ended || slot.consensus.is_empty(),
                "IR5: {id} has ended, and verdicts on it are kept"
            );
        }
    }

    /// The index forgets an operation that it has, or has one that is not recorded.
    #[cfg(test)]
    pub(crate) fn break_index(&mut self, id: TransactionId) {
        self.index.by_timestamp.insert((Timestamp::ZERO, id));
        _ = self.slots.get_or_default(TransactionId { sequence: id.sequence + 1, ..id });
    }

    /// Notes that a recorded inconsistent operation has run.
    pub fn mark_executed(&mut self, transaction: TransactionId) {
        if let Some(slot) = self.slots.get_mut(transaction)
            && let Some(installed) = &mut slot.inconsistent
        {
            installed.entry.executed = true;
            slot.settle(transaction, &self.origins, &mut self.settled);
            slot.index(transaction, &mut self.index);
        }
    }

    /// Records the verdict on a consensus operation in the tail, in place of what was there.
    pub fn record_consensus(&mut self, transaction: TransactionId, entry: ConsensusEntry<O>) {
        self.put_consensus(transaction, entry, self.origins.tail());
    }

    fn put_consensus(&mut self, transaction: TransactionId, entry: ConsensusEntry<O>, origin: Origin) {
        let slot = self.slots.get_or_default(transaction);
        let consensus = &mut slot.consensus;
        let installed = Installed { entry, origin };
        match consensus.binary_search_by_key(&installed.entry.number, |known| known.entry.number) {
            Ok(at) => {
                let (known, entry) = (&consensus[at].entry, &installed.entry);
                // A restart meets what was settled, collected, and refused when it was proposed once more.
                let is_refused = !O::is_favourable(&entry.verdict);
                assert!(
                    entry.state.is_finalized() || !known.state.is_finalized() || is_refused,
                    "{id}#{} is final as {:?} and recorded as {:?}, tentatively",
                    entry.number,
                    known.verdict,
                    entry.verdict,
                    id = transaction
                );
                consensus[at] = installed;
            }
            Err(at) => {
                // Nearly always the only one.
                consensus.reserve_exact(1);
                consensus.insert(at, installed);
            }
        }
        slot.index(transaction, &mut self.index);
    }

    /// Makes a recorded verdict final. The entry belongs to the tail afterwards.
    pub fn finalize_consensus(&mut self, id: OperationId, verdict: O::Verdict, ballot: Ballot) {
        let Some(slot) = self.slots.get_mut(id.transaction) else { return };
        if let Some(known) = slot.consensus.iter_mut().find(|known| known.entry.number == id.number) {
            assert!(
                known.entry.verdict == verdict || known.entry.state.may_yield_to(ballot),
                "{id} is {:?} as {:?}, and is made final by {ballot:?} as {verdict:?}",
                known.entry.state,
                known.entry.verdict
            );
            known.entry.verdict = verdict;
            known.entry.state = State::Finalized(ballot);
            known.origin = self.origins.tail();
        }
        slot.index(id.transaction, &mut self.index);
    }

    /// The entries that the record gained since the replica was last made normal by a view change.
    pub fn tail(&self) -> RecordPage<O> {
        self.tail_after(None, &[])
    }

    /// The same, without what has ended up to `after`, but for these.
    fn tail_after(&self, after: Option<Cursor>, besides: &[TransactionId]) -> RecordPage<O> {
        let is_tail = |known: &Origin| self.origins.base(*known).is_none();
        self.page_of(
            self.places(after, besides),
            |slot| slot.inconsistent.as_ref().is_some_and(|known| is_tail(&known.origin)),
            is_tail,
        )
    }

    /// The entries of the base of the present view beyond the base of `since`; all of it if there is no such view.
    ///
    /// Of operations that the base held as open and that were settled since, it gives the inconsistent operation that
    /// settled them, marked as not executed: to the receiver it is news, and not part of the base.
    pub fn beyond(&self, since: Option<View>) -> RecordPage<O> {
        self.beyond_after(since, None)
    }

    /// The same, without what had ended up to `after`.
    fn beyond_after(&self, since: Option<View>, after: Option<Cursor>) -> RecordPage<O> {
        let settled = self.settled.iter().copied().filter(|id| {
            let slot = self.slots.get(*id);
            slot.and_then(|slot| slot.inconsistent.as_ref())
                .is_some_and(|known| self.origins.base(known.origin).is_none())
        });
        let settled: Vec<TransactionId> = settled.collect();
        let is_beyond = |known: &Origin| self.origins.base(*known) > since;
        let mut page = self.page_of(
            self.places(after, &settled),
            |slot| {
                slot.inconsistent
                    .as_ref()
                    .is_some_and(|known| is_beyond(&known.origin) || slot.settled > since)
            },
            is_beyond,
        );
        for (id, entries) in &mut page.entries {
            if let Some(entry) = &mut entries.inconsistent {
                let installed = self.slots.get(*id).and_then(|slot| slot.inconsistent.as_ref());
                entry.executed = installed.is_some_and(|known| self.origins.base(known.origin).is_some());
            }
        }
        page
    }

    /// The transactions that are open, those that have ended after `after`, and these; ascending.
    fn places(&self, after: Option<Cursor>, besides: &[TransactionId]) -> Vec<TransactionId> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let recent = self.index.by_timestamp.range((after, Bound::Unbounded)).map(|(_, id)| *id);
        let mut places: Vec<_> = self.index.open.iter().chain(besides).copied().chain(recent).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn page_of(
        &self,
        places: Vec<TransactionId>,
        wanted_inconsistent: impl Fn(&Slot<O>) -> bool,
        wanted_consensus: impl Fn(&Origin) -> bool,
    ) -> RecordPage<O> {
        let mut entries = Vec::new();
        for id in places {
            let Some(slot) = self.slots.get(id) else { continue };
            let inconsistent = if wanted_inconsistent(slot) { slot.inconsistent.as_ref() } else { None };
            let inconsistent = inconsistent.map(|known| known.entry.clone());
            let consensus: Vec<_> = slot
                .consensus
                .iter()
                .filter(|known| wanted_consensus(&known.origin))
                .map(|known| known.entry.clone())
                .collect();
            if inconsistent.is_some() || !consensus.is_empty() {
                entries.push((id, OperationEntries { inconsistent, consensus }));
            }
        }
        RecordPage { entries }
    }

    /// Forgets the consensus operations that came after the base of `since`, and gives them, ascending: the new view
    /// settles them anew. Inconsistent operations stay, because they are facts whichever replica knows them, and go to the tail,
    /// because others may not.
    pub fn forget_consensus_beyond(&mut self, since: Option<View>) -> Vec<(OperationId, O::Consensus)> {
        self.origins.forget_beyond(since);
        let origins = &self.origins;
        let is_kept = |known: &Installed<ConsensusEntry<O>>| origins.base(known.origin).is_some();
        let mut forgotten = Vec::new();
        // Where an operation has ended none of these is left.
        for transaction in self.index.open.clone() {
            let Some(slot) = self.slots.get_mut(transaction) else { continue };
            if slot.consensus.iter().all(is_kept) {
                continue;
            }
            let (kept, gone) = std::mem::take(&mut slot.consensus).into_iter().partition(is_kept);
            slot.consensus = kept;
            let id = |number| OperationId { transaction, number };
            forgotten.extend(
                gone.into_iter().map(|known: Installed<_>| (id(known.entry.number), known.entry.operation)),
            );
            if slot.inconsistent.is_some() || !slot.consensus.is_empty() {
                slot.index(transaction, &mut self.index);
            } else {
                self.index.remove(transaction, &mut slot.mark);
                self.slots.remove(transaction);
            }
        }
        self.assert_indexed();
        forgotten
    }

    /// Adds entries to the base of `view`; inconsistent operations that are marked as not executed are news and go to
    /// the tail. All of them count as run: the caller runs them.
    pub fn install(&mut self, view: View, page: &RecordPage<O>) {
        let base = self.origins.of(view);
        for (id, entries) in &page.entries {
            if self.is_executed(*id) {
                self.note_settled(*id, view, &entries.consensus);
            } else {
                entries.consensus.iter().for_each(|entry| self.put_consensus(*id, entry.clone(), base));
            }
            if let Some(known) = &entries.inconsistent {
                let slot = self.slots.get_or_default(*id);
                let entry = InconsistentEntry { operation: known.operation.clone(), executed: true };
                let origin = if known.executed { base } else { self.origins.tail() };
                slot.inconsistent = Some(Installed { entry, origin });
                slot.settle(*id, &self.origins, &mut self.settled);
                slot.index(*id, &mut self.index);
            }
        }
        self.assert_indexed();
    }

    /// The base of a view holds a transaction as open that has ended here.
    fn note_settled(&mut self, id: TransactionId, view: View, open: &[ConsensusEntry<O>]) {
        if let Some(slot) = self.slots.get_mut(id).filter(|_| !open.is_empty()) {
            slot.settled = slot.settled.max(Some(view));
            self.settled.insert(id);
        }
    }

    /// The operations in the record from `from` on and below `to`, at most `max` transactions of it. Verdicts against a
    /// proposal are left out: below a floor they say nothing that the floor does not.
    pub fn summary(&self, from: Cursor, to: Cursor, max: usize) -> Summary {
        let mut summary = Summary::default();
        if from >= to {
            return summary;
        }
        let range = self.index.by_timestamp.range(from..to);
        for (walked, cursor) in range.enumerate() {
            if walked == max {
                summary.next = Some(*cursor);
                break;
            }
            let Some(slot) = self.slots.get(cursor.1) else { continue };
            let votes = || slot.consensus.iter().any(|known| O::is_favourable(&known.entry.verdict));
            match &slot.inconsistent {
                Some(known) if !known.entry.executed => summary.open.push(*cursor),
                Some(known) if O::leaves_state(&known.entry.operation) => summary.executed.push(*cursor),
                None if votes() => summary.open.push(*cursor),
                Some(_) | None => {}
            }
        }
        summary
    }

    /// True if something is known of the transaction that a floor does not tell.
    pub fn is_live(&self, transaction: TransactionId, floor: Timestamp) -> bool {
        self.slots.get(transaction).is_some_and(|slot| slot.is_live(floor))
    }

    /// True if the inconsistent operation of the transaction has run here.
    pub fn is_executed(&self, transaction: TransactionId) -> bool {
        self.slots.get(transaction).is_some_and(Slot::is_executed)
    }

    /// Drops what a floor makes superfluous, beginning after `after`; at most `max` transactions are looked at. Gives
    /// where to go on; none if there is nothing left to look at.
    pub fn collect(&mut self, after: Option<Cursor>, floor: Timestamp, max: usize) -> Option<Cursor> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let to = Bound::Excluded((floor, TransactionId::default()));
        if after.is_some_and(|(timestamp, _)| timestamp >= floor) {
            return None;
        }
        let passed: Vec<Cursor> = self.index.by_timestamp.range((from, to)).take(max).copied().collect();
        for cursor in &passed {
            let Some(slot) = self.slots.get(cursor.1) else { continue };
            assert!(!slot.is_open_below(floor), "{} can still take effect below the floor {floor}", cursor.1);
            if !slot.outlasts(floor) {
                self.drop_slot(cursor.1);
            }
        }
        self.assert_indexed();
        if passed.len() == max { passed.last().copied() } else { None }
    }

    /// Drops everything that took or would take effect below `floor`: the state that takes its place holds it.
    pub fn forget_below(&mut self, floor: Timestamp) {
        let passed: Vec<Cursor> =
            self.index.by_timestamp.range(..(floor, TransactionId::default())).copied().collect();
        for (_, transaction) in passed {
            let Some(slot) = self.slots.get(transaction) else { continue };
            if !slot.reaches(floor) {
                self.drop_slot(transaction);
            }
        }
        self.assert_indexed();
    }

    /// Drops the end of one transaction, if a floor makes it superfluous.
    pub fn collect_one(&mut self, transaction: TransactionId, floor: Timestamp) {
        if self.slots.get(transaction).is_some_and(|slot| slot.is_executed() && !slot.outlasts(floor)) {
            self.drop_slot(transaction);
            self.assert_indexed();
        }
    }

    fn drop_slot(&mut self, transaction: TransactionId) {
        let Some(slot) = self.slots.get_mut(transaction) else { return };
        self.index.remove(transaction, &mut slot.mark);
        self.settled.remove(&transaction);
        self.slots.remove(transaction);
    }

    /// Sets the lineage to what it was when the record was written down.
    pub fn restore_lineage(&mut self, lineage: Vec<View>) {
        self.lineage = lineage;
    }

    /// The log begins anew: from now on it is counted what is older.
    pub fn start_generation(&mut self) {
        self.index.start_generation();
    }

    /// How many transactions are older than the log.
    pub fn older(&self) -> usize {
        self.index.older()
    }

    /// True if something of a transaction is recorded that is older than the log.
    pub fn is_older(&self, transaction: TransactionId) -> bool {
        self.slots.get(transaction).is_some_and(|slot| self.index.is_older(slot.mark.as_ref()))
    }

    /// How many of these have not ended here.
    pub fn older_open(&self) -> usize {
        self.index.older_open()
    }

    /// Roughly how many bytes those have that are older than the log and have ended.
    pub fn older_bytes(&self) -> usize {
        self.index.older_bytes()
    }

    /// Roughly how many bytes what has ended has.
    pub fn ended_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// A timestamp from which on what has ended has roughly so many bytes at most.
    pub fn latest(&self, bytes_max: usize) -> Timestamp {
        self.index.latest(bytes_max).0
    }

    /// The last transaction by timestamp.
    pub fn last(&self) -> Option<Cursor> {
        self.index.by_timestamp.last().copied()
    }

    /// The transactions after `after` and up to `to` that are older than the log and have ended, with what ended them, of
    /// `max` that are looked at; and where to go on, if there is more.
    pub fn older_ended(
        &self,
        after: Option<Cursor>,
        to: Cursor,
        max: usize,
    ) -> (Vec<(TransactionId, &O::Inconsistent)>, Option<Cursor>) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut ended, mut walked, mut last) = (Vec::new(), 0, None);
        let passed = after.is_some_and(|after| after >= to);
        let places = (!passed).then(|| self.index.by_timestamp.range((from, Bound::Included(to))));
        for cursor in places.into_iter().flatten().take(max) {
            (walked, last) = (walked + 1, Some(*cursor));
            let Some(slot) = self.slots.get(cursor.1) else { continue };
            if let Some(known) = &slot.inconsistent
                && known.entry.executed
                && self.index.is_older(slot.mark.as_ref())
            {
                ended.push((cursor.1, &known.entry.operation));
            }
        }
        (ended, last.filter(|_| walked == max))
    }

    /// Notes that the record now is the base of `since` and, on top of it, the base of `view`.
    ///
    /// Ancestors of `view` that came between are not claimed, although the sender of the record has them: here, all that
    /// they brought is known only to have come with `view`.
    pub fn enter_lineage(&mut self, since: Option<View>, view: View) {
        self.lineage.retain(|ancestor| Some(*ancestor) <= since);
        assert!(
            self.lineage.last() < Some(&view),
            "the base of {view:?} is built on that of {:?}",
            self.lineage.last()
        );
        self.lineage.push(view);
        let surplus = self.lineage.len().saturating_sub(LINEAGE_MAX);
        self.lineage.drain(..surplus);
    }
}

/// The operations in the tails of one view, merged.
#[derive(Debug)]
pub struct MergedTails<O: Operations> {
    /// Inconsistent operations: facts.
    pub inconsistent: Vec<(TransactionId, O::Inconsistent)>,
    /// Consensus operations that a proposer had made final.
    pub finalized: Vec<(TransactionId, ConsensusEntry<O>)>,
    /// Consensus operations that may have succeeded on the fast path with this verdict (the paper's *d*).
    pub decided: Vec<(TransactionId, ConsensusEntry<O>)>,
    /// Consensus operations that surely have not succeeded (the paper's *u*).
    pub undecided: Vec<(TransactionId, ConsensusEntry<O>)>,
    /// Consensus operations that do not count any more, whatever verdicts they had, final or not: their proposer had given
    /// them up for a later one of the same transaction, or a backup coordinator has settled it by another. Replicas that
    /// went on need not stand by them any more: settled as favourable, they would stand in the way of what succeeded since.
    pub superseded: Vec<(TransactionId, ConsensusEntry<O>)>,
}

/// The operations of one transaction in several tails.
type TailsOf<'a, O> = (Option<<O as Operations>::Inconsistent>, BTreeMap<u32, Vec<&'a ConsensusEntry<O>>>);

/// Which operation of an open transaction counts: the one that a backup coordinator has made final, for it may have told
/// somebody so, whatever the first coordinator proposed since; without one, the latest.
fn operation_that_counts<O: Operations>(consensus: &BTreeMap<u32, Vec<&ConsensusEntry<O>>>) -> Option<u32> {
    let ballot = |entry: &&ConsensusEntry<O>| match entry.state {
        State::Finalized(ballot) if ballot > Ballot::ORIGINAL => Some(ballot),
        State::Finalized(_) | State::Tentative => None,
    };
    let settled = consensus
        .iter()
        .filter_map(|(number, entries)| Some((entries.iter().filter_map(ballot).max()?, *number)))
        .max();
    settled.map(|(_, number)| number).or_else(|| consensus.keys().next_back().copied())
}

/// Merges the tails of replicas whose records share one base. A verdict that is recorded at `witnesses` replicas or more
/// may have reached a fast quorum.
pub fn merge_tails<O: Operations>(tails: &[RecordPage<O>], witnesses: usize) -> MergedTails<O> {
    merge_tails_by(tails, witnesses, operation_that_counts)
}

/// [`Mistake::LatestOperationCounts`](crate::Mistake::LatestOperationCounts): the same, by the latest operation of each
/// transaction.
pub(crate) fn merge_tails_by_latest<O: Operations>(
    tails: &[RecordPage<O>],
    witnesses: usize,
) -> MergedTails<O> {
    merge_tails_by(tails, witnesses, |consensus| consensus.keys().next_back().copied())
}

fn merge_tails_by<O: Operations>(
    tails: &[RecordPage<O>],
    witnesses: usize,
    operation_that_counts: impl Fn(&BTreeMap<u32, Vec<&ConsensusEntry<O>>>) -> Option<u32>,
) -> MergedTails<O> {
    let mut union: BTreeMap<TransactionId, TailsOf<'_, O>> = BTreeMap::new();
    for (id, entries) in tails.iter().flat_map(|tail| &tail.entries) {
        let (inconsistent, consensus) = union.entry(*id).or_default();
        if let Some(entry) = &entries.inconsistent {
            inconsistent.get_or_insert_with(|| entry.operation.clone());
        }
        for entry in &entries.consensus {
            consensus.entry(entry.number).or_default().push(entry);
        }
    }
    let mut merged = MergedTails {
        inconsistent: Vec::new(),
        finalized: Vec::new(),
        decided: Vec::new(),
        undecided: Vec::new(),
        superseded: Vec::new(),
    };
    for (id, (inconsistent, consensus)) in union {
        if let Some(operation) = inconsistent {
            // The fate of the transaction is known, so what was said on the way to it no longer matters.
            merged.inconsistent.push((id, operation));
            continue;
        }
        let counts = operation_that_counts(&consensus);
        for (number, entries) in consensus {
            if Some(number) != counts {
                merged.superseded.push((id, entries[0].clone()));
                continue;
            }
            let finalized = entries
                .iter()
                .filter_map(|entry| match entry.state {
                    State::Finalized(ballot) => Some((ballot, *entry)),
                    State::Tentative => None,
                })
                .max_by_key(|(ballot, _)| *ballot);
            if let Some((_, entry)) = finalized {
                merged.finalized.push((id, entry.clone()));
                continue;
            }
            let agreed = entries.iter().find(|entry| {
                entries.iter().filter(|other| other.verdict == entry.verdict).count() >= witnesses
            });
            match agreed {
                Some(entry) => merged.decided.push((id, (*entry).clone())),
                None => merged.undecided.push((id, entries[0].clone())),
            }
        }
    }
    merged
}

/// Splits a page into parts of roughly `bytes_max` bytes each, at least one.
pub fn split_page<O: Operations>(
    page: RecordPage<O>,
    bytes_max: usize,
    entry_bytes: impl Fn(&OperationEntries<O>) -> usize,
) -> Vec<RecordPage<O>> {
    let mut parts = vec![RecordPage::default()];
    let mut bytes = 0;
    for (id, entries) in page.entries {
        let size = entry_bytes(&entries);
        if bytes > 0 && bytes + size > bytes_max {
            parts.push(RecordPage::default());
            bytes = 0;
        }
        bytes += size;
        parts.last_mut().expect("there is at least one part").entries.push((id, entries));
    }
    parts
}
