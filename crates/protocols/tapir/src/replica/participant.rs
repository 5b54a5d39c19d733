//! The state of TAPIR at a replica, and how its operations run there: the upcalls of inconsistent replication.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::attic::Attic;
use quorate_core::command::Outcome;
use quorate_core::hash::FixedMap;
use quorate_core::{Ballot, Instant, Key, Timestamp, TransactionId};
use quorate_ir::{Bounds, ConsensusEntry, InconsistentEntry, OperationEntries, OperationId, Upcalls};
use quorate_store::{History, Prepared, ReadTimestamps, ValidatedVersions, Versions};

use super::validate::{Shelf, validate_prepare};
use super::watched::Watched;
use crate::message::{Decision, Prepare, Promise, StatePage, Supplement, Tapir, Vote};
use crate::rules::{Plant, Rules, Validation};

/// Whether promises to readers bind a prepare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promises {
    /// It is new, or surely has not succeeded.
    Bind,
    /// It may have succeeded without this replica, and then no reader has found enough replicas that promised.
    Spare,
}

/// The state of a replica beside its record.
#[derive(Debug)]
pub struct Participant {
    pub(crate) rules: Rules,
    pub(crate) versions: Versions,
    /// Which of them are retained for consumers of changes.
    pub(crate) history: History,
    /// At which timestamps keys have been read by committed transactions.
    pub(crate) reads: ReadTimestamps,
    /// Up to which timestamps quorum reads were answered. They bind new prepares, but not those that a view change finds
    /// to have succeeded: this replica may have answered a reader that then found too few others.
    pub(crate) promised_reads: ReadTimestamps,
    pub(crate) validated: ValidatedVersions,
    pub(crate) prepared: Watched,
    /// The earlier prepares of a transaction that is prepared again, ascending: if the later prepare comes to nothing, the
    /// earlier may still have succeeded.
    displaced: FixedMap<TransactionId, Vec<Prepared>>,
    /// Promises to backup coordinators of undecided transactions. Ordered, because they travel.
    pub(crate) promises: BTreeMap<TransactionId, Promise>,
    /// For each promise, as it was when it was last looked at: nothing that had been proposed then lies above this.
    pub(crate) fading: BTreeMap<TransactionId, (Ballot, Timestamp)>,
    /// Read timestamps of other replicas, not yet in force: they bind from the start of the next view, and must not
    /// speak against prepares that succeeded before it.
    pub(crate) pending_read_floor: Timestamp,
    /// From where on each page retains overwritten versions, of a state that is being taken over.
    arrived: Vec<Option<Timestamp>>,
    /// Below its floor everything has ended, and what it has left behind is here; below its refusal new prepares get no favourable
    /// vote.
    pub(crate) bounds: Bounds,
    /// The instant of the present step: when a transaction was prepared.
    pub(crate) now: Instant,
    /// Since when a transaction had been held that a view change has taken its hold from. If it gives it back, the
    /// transaction is as old as it was: recovery must not wait anew with each view.
    held_before: BTreeMap<TransactionId, Instant>,
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
}

impl Participant {
    pub(crate) fn new(rules: Rules, attic: Option<Arc<dyn Attic>>) -> Self {
        Participant {
            rules,
            versions: Versions::with_attic(attic),
            history: History::new(),
            reads: ReadTimestamps::new(),
            promised_reads: ReadTimestamps::new(),
            validated: ValidatedVersions::new(),
            prepared: Watched::default(),
            displaced: FixedMap::default(),
            promises: BTreeMap::new(),
            fading: BTreeMap::new(),
            pending_read_floor: Timestamp::ZERO,
            arrived: Vec::new(),
            bounds: Bounds::default(),
            now: Instant::START,
            held_before: BTreeMap::new(),
            committed: 0,
            aborted: 0,
        }
    }

    /// The ballot below which coordinators of a transaction are refused.
    pub(crate) fn promised(&self, transaction: TransactionId) -> Ballot {
        self.promises.get(&transaction).map_or(Ballot::ORIGINAL, |promise| promise.ballot)
    }

    /// Refuses coordinators of a transaction below this ballot from now on. Gives the promise if it is a new one, to be made durable.
    pub(super) fn promise(&mut self, transaction: TransactionId, ballot: Ballot) -> Option<Promise> {
        if ballot <= self.promised(transaction) {
            return None;
        }
        let promise = self.promises.entry(transaction).or_default();
        promise.ballot = ballot;
        Some(*promise)
    }

    /// Readers may have been promised in an earlier life that nothing is let in below this timestamp. Binds from the start
    /// of the next view, which every restart brings.
    pub(crate) fn take_over_promise(&mut self, until: Timestamp) {
        self.pending_read_floor = self.pending_read_floor.max(until);
    }

    /// A view has started: what other replicas know of reads is in force from now on.
    pub(crate) fn enter_view(&mut self) {
        if self.rules.has(Plant::ForgottenPromises) {
            self.promises.clear();
        }
        self.reads.raise_floor(self.pending_read_floor);
        self.promised_reads.raise_floor(self.pending_read_floor);
        assert!(
            self.reads.floor() >= self.pending_read_floor,
            "a view begins with reads up to {}, and writers are kept above {}",
            self.pending_read_floor,
            self.reads.floor()
        );
        self.held_before.clear();
    }

    fn promises(&self) -> Vec<(TransactionId, Promise)> {
        self.promises.iter().map(|(id, promise)| (*id, *promise)).collect()
    }

    pub(crate) fn hold(&mut self, id: TransactionId, prepare: &Prepare) {
        let (transaction, timestamp) = (prepare.transaction.clone(), prepare.timestamp);
        let since = self.held_before.get(&id).copied().unwrap_or(self.now);
        let forgets = self.rules.has(Plant::DisplacedForgotten);
        if let Some(held) = self.prepared.entry(id).filter(|held| held.timestamp < timestamp && !forgets) {
            let displaced = self.displaced.entry(id).or_default();
            assert!(
                displaced.last().is_none_or(|last| last.timestamp < held.timestamp),
                "{id} was held at {:?} before it was at {}",
                displaced.last().map(|last| last.timestamp),
                held.timestamp
            );
            displaced.push(held.clone());
        }
        assert!(since <= self.now, "{id} is held since {since:?}, and it is {:?}", self.now);
        self.prepared.insert(id, Prepared { transaction, timestamp, since });
    }

    /// The first timestamp at which a prepared transaction was voted OK on here without that having come to nothing since.
    pub(crate) fn first_hold(&self, id: TransactionId) -> Option<Timestamp> {
        let displaced = self.displaced.get(&id).and_then(|earlier| earlier.first());
        displaced.or(self.prepared.entry(id)).map(|first| first.timestamp)
    }

    /// Ends what a prepare at this timestamp holds. The prepare that it had displaced holds the keys again: it was voted OK on, and
    /// neither its vote nor what a view change has made of it has ended.
    fn end_hold_at(&mut self, id: TransactionId, timestamp: Timestamp) -> Option<Prepared> {
        let ended = self.prepared.entry(id).filter(|held| held.timestamp == timestamp).cloned();
        let mut displaced = self.displaced.remove(&id).unwrap_or_default();
        displaced.retain(|earlier| earlier.timestamp != timestamp);
        if ended.is_some() {
            self.prepared.remove(id);
            if let Some(earlier) = displaced.pop() {
                self.prepared.insert(id, earlier);
            }
        }
        if !displaced.is_empty() {
            self.displaced.insert(id, displaced);
        }
        let held = self.prepared.entry(id);
        assert!(
            held.is_none_or(|held| held.timestamp != timestamp),
            "the hold of {id} at {timestamp} has ended, and holds"
        );
        ended
    }

    /// Of how many transactions something was displaced by what is not held any more.
    pub(crate) fn displaced_in_vain(&self) -> usize {
        self.displaced.keys().filter(|id| self.prepared.entry(**id).is_none()).count()
    }

    /// Gives up the hold of a transaction if it is at this timestamp: a hold at a later one belongs to a later prepare.
    fn release_at(&mut self, id: TransactionId, timestamp: Timestamp) {
        self.end_hold_at(id, timestamp);
    }

    /// The same in a view change, which may give it back.
    fn take_hold_at(&mut self, id: TransactionId, timestamp: Timestamp) {
        if let Some(held) = self.end_hold_at(id, timestamp) {
            self.held_before.insert(id, held.since);
        }
    }

    /// Votes on a prepare, and holds what it votes OK on.
    fn prepare(&mut self, id: TransactionId, prepare: &Prepare) -> Vote {
        if let Some(held) = self.prepared.entry(id) {
            if held.timestamp == prepare.timestamp {
                return Vote::Ok;
            }
            if prepare.timestamp < held.timestamp && !self.rules.has(Plant::OlderPrepareDisplaces) {
                // A late message from before a retry; the coordinator has moved on (T9).
                return Vote::Abstain;
            }
        }
        if prepare.timestamp < self.bounds.refusal {
            return Vote::Retry(self.bounds.refusal);
        }
        self.validate(id, prepare, Promises::Bind)
    }

    /// Below what floor a key that is absent has been deleted, as far as is told.
    pub(crate) fn deleted_below(&self) -> Timestamp {
        if self.rules.has(Plant::CollectedDeletionUnseen) { Timestamp::ZERO } else { self.bounds.floor }
    }

    /// Votes on a prepare as if nothing were refused.
    fn validate(&mut self, id: TransactionId, prepare: &Prepare, promises: Promises) -> Vote {
        let shelf = Shelf {
            versions: &self.versions,
            reads: &self.reads,
            promised_reads: (promises == Promises::Bind).then_some(&self.promised_reads),
            prepared: &self.prepared,
            deletions: self.bounds.refusal,
            floor: self.bounds.floor,
            index_lists_bind: promises == Promises::Bind,
        };
        let vote = validate_prepare(&shelf, id, &prepare.transaction, prepare.timestamp, self.rules);
        if vote == Vote::Ok {
            self.hold(id, prepare);
        }
        vote
    }
}

impl Upcalls<Tapir> for Participant {
    fn execute_consensus(&mut self, id: OperationId, operation: &Prepare) -> Vote {
        let vote = self.prepare(id.transaction, operation);
        let held = self.prepared.entry(id.transaction).map(|held| held.timestamp);
        assert!(
            vote != Vote::Ok || held == Some(operation.timestamp),
            "{id} gets OK at {}, and is held at {held:?}",
            operation.timestamp
        );
        vote
    }

    fn restore_consensus(&mut self, id: OperationId, operation: &Prepare, vote: &Vote) {
        if *vote == Vote::Ok {
            self.hold(id.transaction, operation);
        }
    }

    fn verdict_after(
        &mut self,
        _: OperationId,
        operation: &Prepare,
        recorded: &InconsistentEntry<Tapir>,
    ) -> Option<Vote> {
        if self.rules.has(Plant::PrepareAfterOutcome) {
            return None;
        }
        // The outcome overtook the prepare, or the prepare was repeated after it (T11).
        match &recorded.operation {
            Decision::Commit { timestamp, .. } if *timestamp == operation.timestamp => Some(Vote::Ok),
            Decision::Commit { .. } | Decision::Abort { .. } => Some(Vote::Abort),
        }
    }

    fn superseded_verdict() -> Vote {
        Vote::Abstain
    }

    fn implied_verdict(recorded: &Decision) -> Vote {
        match recorded {
            Decision::Commit { .. } => Vote::Ok,
            Decision::Abort { .. } => Vote::Abort,
        }
    }

    fn execute_inconsistent(&mut self, transaction: TransactionId, operation: &Decision) {
        self.prepared.remove(transaction);
        self.displaced.remove(&transaction);
        self.promises.remove(&transaction);
        let Decision::Commit { transaction: contents, timestamp, .. } = operation else {
            self.aborted += 1;
            return;
        };
        if *timestamp < self.bounds.floor {
            return;
        }
        assert!(
            self.prepared.entry(transaction).is_none() && !self.displaced.contains_key(&transaction),
            "{transaction} takes effect at {timestamp}, and still holds its keys"
        );
        self.committed += 1;
        self.bounds.note_effect(*timestamp);
        for write in &contents.writes {
            self.versions.install(&write.key, *timestamp, write.value.clone());
        }
        self.history.note(*timestamp, &contents.writes);
        if self.rules.has(Plant::ForgetCommittedReads) {
            return;
        }
        for read in &contents.reads {
            let writes_it = contents.writes_key(&read.key);
            // Of a key that it writes as well, its own version keeps later writers above it, unless they may go below
            // versions.
            if !writes_it || self.rules.validation() == Validation::Serializable {
                self.reads.read_key(&read.key, *timestamp);
            }
            // And what it has read ends with its own version.
            if !writes_it && !contents.reads_when_prepared {
                self.validated.validate(&read.key, read.version, *timestamp);
            }
        }
        for range in &contents.ranges {
            self.reads.read_range(range, *timestamp);
        }
    }

    fn finalize_consensus(
        &mut self,
        id: OperationId,
        operation: &Prepare,
        verdict: &Vote,
        by_view_change: bool,
    ) {
        if *verdict != Vote::Ok {
            self.release_at(id.transaction, operation.timestamp);
        } else if by_view_change
            && self.prepared.entry(id.transaction).is_none_or(|held| held.timestamp < operation.timestamp)
        {
            // A coordinator's FINALIZE only marks the record: its holds are where OK was validated. A view change
            // spreads them.
            self.hold(id.transaction, operation);
        }
    }

    fn forget_consensus(&mut self, id: OperationId, operation: &Prepare) {
        self.take_hold_at(id.transaction, operation.timestamp);
    }

    fn merge(
        &mut self,
        decided: &[(TransactionId, ConsensusEntry<Tapir>)],
        undecided: &[(TransactionId, ConsensusEntry<Tapir>)],
    ) -> Vec<Vote> {
        for (id, entry) in decided.iter().chain(undecided) {
            self.take_hold_at(*id, entry.operation.timestamp);
        }
        // Transactions that may have committed come first, in timestamp order, so that no other can take their place.
        let mut order: Vec<usize> = (0..decided.len()).collect();
        order.sort_unstable_by_key(|at| decided[*at].1.operation.timestamp);
        let mut votes = vec![Vote::Abstain; decided.len()];
        for at in order {
            let (id, entry) = &decided[at];
            votes[at] = match entry.verdict {
                // Had it succeeded, a replica that is complete would have executed it.
                Vote::Ok if entry.operation.timestamp < self.bounds.complete => {
                    Vote::Retry(self.bounds.refusal)
                }
                Vote::Ok => self.validate(*id, &entry.operation, Promises::Spare),
                vote => vote,
            };
        }
        // Promises of others to readers bind the rest at once, and everything from the start of the view.
        self.promised_reads.raise_floor(self.pending_read_floor);
        votes.extend(undecided.iter().map(|(id, entry)| self.prepare(*id, &entry.operation)));
        assert!(
            self.promised_reads.floor() >= self.pending_read_floor,
            "readers were promised {}, and writers are kept above {}",
            self.pending_read_floor,
            self.promised_reads.floor()
        );
        votes
    }

    fn contribution(&self) -> Supplement {
        let read_floor =
            self.reads.greatest().max(self.promised_reads.greatest()).max(self.pending_read_floor);
        assert!(
            read_floor >= self.reads.floor() && read_floor >= self.promised_reads.floor(),
            "{read_floor} is handed over, and {} and {} are in force",
            self.reads.floor(),
            self.promised_reads.floor()
        );
        Supplement {
            promises: self.promises(),
            read_floor,
            refusal: self.bounds.refusal,
            complete: self.bounds.complete,
        }
    }

    fn supplement(&self) -> Supplement {
        // Not the greatest read so far: a replica that joins late and later leads must not find prepares wrong that
        // succeeded in this view without it.
        Supplement {
            promises: self.promises(),
            read_floor: self.reads.floor(),
            refusal: self.bounds.refusal,
            complete: self.bounds.complete,
        }
    }

    fn adopt_supplement(&mut self, supplement: &Supplement) {
        if self.rules.has(Plant::SyncDropsPrepares) {
            self.prepared.clear();
        }
        for (id, theirs) in &supplement.promises {
            let ours = self.promises.entry(*id).or_default();
            ours.ballot = ours.ballot.max(theirs.ballot);
            ours.accepted = ours.accepted.max(theirs.accepted);
        }
        self.pending_read_floor = self.pending_read_floor.max(supplement.read_floor);
        // In force at once: an operation that may have succeeded is not asked again whether it is refused. Another replica has told its
        // further refusals to the leader of its view, whose search for a floor ends with the view. A clock that was wild for a moment may have made
        // it refuse hours ahead, and must not make all others refuse that.
        self.bounds.refuse_below(supplement.complete);
        self.bounds.complete_below(supplement.complete);
        assert!(
            self.bounds.refusal >= supplement.complete,
            "others are complete below {}, and only what is below {} is refused",
            supplement.complete,
            self.bounds.refusal
        );
    }

    fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    fn bounds_mut(&mut self) -> &mut Bounds {
        &mut self.bounds
    }

    fn on_floor(&mut self, floor: Timestamp) {
        self.reads.collect(floor);
        self.promised_reads.collect(floor);
    }

    fn state_after(
        &self,
        after: Option<&Key>,
        below: Timestamp,
        bytes_max: usize,
    ) -> (StatePage, Option<Key>) {
        let (versions, to) = self.versions.page_after(after, below, bytes_max);
        (StatePage { versions, retained_from: Some(self.history.horizon()) }, to)
    }

    fn forget_state_below(&mut self, floor: Timestamp) {
        self.versions.forget_below(floor);
        self.history.forget_below(floor);
    }

    fn install_state(&mut self, StatePage { versions, retained_from }: StatePage) {
        self.versions.install_page(versions);
        self.arrived.push(retained_from);
    }

    fn on_state_installed(&mut self) {
        // Pages are cut while the sender lets go of more: what the last of them retains, all do.
        let all: Option<Vec<Timestamp>> = self.arrived.drain(..).collect();
        let last = all.and_then(|all| all.into_iter().max());
        let horizon = match self.rules.has(Plant::HorizonForgotten) {
            false => last.unwrap_or_else(|| self.history.horizon()),
            true => Timestamp::ZERO,
        };
        self.history.rebuild(horizon, &self.versions);
    }

    fn entry_bytes(entries: &OperationEntries<Tapir>) -> usize {
        const OVERHEAD: usize = 96;
        let decision = entries.inconsistent.as_ref().map_or(0, |entry| match &entry.operation {
            Decision::Commit { transaction, .. } => transaction.bytes() + OVERHEAD,
            Decision::Abort { .. } => OVERHEAD,
        });
        let prepares: usize =
            entries.consensus.iter().map(|entry| entry.operation.transaction.bytes() + OVERHEAD).sum();
        decision + prepares + OVERHEAD
    }
}

/// The fate that a decision stands for.
pub(crate) fn outcome_of(decision: &Decision) -> Outcome {
    match decision {
        Decision::Commit { timestamp, .. } => Outcome::Committed(*timestamp),
        Decision::Abort { .. } => Outcome::Aborted,
    }
}

#[cfg(test)]
mod tests;
