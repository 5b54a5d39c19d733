//! Properties that hold between any two steps of a replica, and between the replicas of all shards. The simulator asserts them after every step.
//!
//! | id | property | TAPIR paper |
//! |---|---|---|
//! | TAP1 | votes go by the bounds of the record | 5.1.2 |
//! | TAP2 | what is held prepared was voted OK on at that timestamp | 5.1.2 |
//! | TAP3 | a normal replica promises nothing to backup coordinators of what has ended | 5.2.2 |
//! | TAP4 | a transaction has one outcome at all replicas of all its participants | 5.2.1 |
//! | TAP5 | no two transactions commit at one timestamp | 5.1.1 |
//! | TAP6 | a committed transaction writes the same at every replica of a shard | 5.1.3 |
//! | TAP7 | a commit was prepared at f + 1 replicas of every participant | 5.1.2 |
//! | TAP8 | what a committed transaction has read is the newest below its timestamp | 5.1.2, I2 |
//!
//! The promises of inconsistent replication come first: see `IR1` to `IR8` in [`quorate_ir::replica::invariants`]. TAP1 is asserted after
//! every step, TAP2 and TAP3 after every so many, because they look at all that is held. The others a [`Witness`] finds out, to which
//! all that replicas keep is shown: a decision is a fact wherever it is known, and a vote that is not durable counts for more than it
//! is worth, which only makes the witness milder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::hosted::Status;
use quorate_core::invariant::Violation;
use quorate_core::reserved::is_index_list;
use quorate_core::{Key, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId};
use quorate_ir::{Fact, OperationEntries, OperationId, Operations, Word};

use super::Replica;
use super::participant::outcome_of;
use crate::message::{Decision, Message, Prepare, Tapir, Vote};
use crate::record::Record;

impl Replica {
    /// TAP1, and what inconsistent replication promises between two steps.
    ///
    /// # Panics
    /// If something of it does not hold.
    pub fn assert_invariants(&self) {
        self.ir.assert_invariants();
        self.votes_go_by_the_bounds_of_the_record();
    }

    /// TAP2, TAP3 and the record. Looks at all that the replica holds.
    ///
    /// # Panics
    /// If something of it does not hold.
    pub fn assert_whole(&self) {
        self.ir.assert_record();
        self.what_is_held_was_voted_on();
        self.promises_are_of_open_transactions();
    }

    fn votes_go_by_the_bounds_of_the_record(&self) {
        let bounds = &self.participant.bounds;
        assert!(
            bounds.floor == self.ir.floor()
                && bounds.floor <= bounds.complete
                && bounds.floor <= bounds.refusal,
            "TAP1: votes go by {bounds:?}, and the floor is {}",
            self.ir.floor()
        );
    }

    fn what_is_held_was_voted_on(&self) {
        let (prepared, record) = (&self.participant.prepared, self.ir.record());
        for id in prepared.ids() {
            let Some(held) = prepared.entry(id) else { continue };
            let mut votes = record.consensus_of(id);
            assert!(
                votes.any(|known| known.verdict == Vote::Ok && known.operation.timestamp == held.timestamp),
                "TAP2: {id} is held at {}, and the record has {:?}",
                held.timestamp,
                record.consensus_of(id).collect::<Vec<_>>()
            );
        }
    }

    fn promises_are_of_open_transactions(&self) {
        // Promises come back from the disk, and from others, before the view starts that clears them.
        if self.ir.status() != Status::Normal {
            return;
        }
        let record = self.ir.record();
        for (id, promise) in &self.participant.promises {
            assert!(!record.is_executed(*id), "TAP3: {id} has ended, and {promise:?} is promised");
        }
    }
}

/// The messages and records of all replicas of a keyspace.
#[derive(Debug, Default)]
pub struct Witness {
    groups: BTreeMap<ShardId, quorate_ir::Witness<Tapir>>,
    outcomes: BTreeMap<(TransactionId, ShardId), (Outcome, ReplicaId)>,
    commits: BTreeMap<TransactionId, (Timestamp, ReplicaId, Vec<ShardId>)>,
    aborts: BTreeMap<TransactionId, BTreeMap<ShardId, ReplicaId>>,
    committed_at: BTreeMap<Timestamp, TransactionId>,
    contents: BTreeMap<(TransactionId, ShardId), Arc<Transaction>>,
    proposed: BTreeMap<(ShardId, OperationId), Prepare>,
    held: BTreeMap<(ShardId, TransactionId, Timestamp), BTreeSet<ReplicaIndex>>,
    keys: BTreeMap<Key, History>,
    /// Transactions that had begun when a group had lost more than it survives: nothing is promised of them, and they prove nothing.
    void: BTreeSet<TransactionId>,
}

/// The writes and reads of one key by committed transactions.
#[derive(Debug, Default)]
struct History {
    /// At which timestamps, and whether there is a value.
    writes: BTreeMap<Timestamp, bool>,
    /// By the timestamp of the reader: which version it has read, and who it is.
    reads: BTreeMap<Timestamp, (Timestamp, TransactionId)>,
}

impl History {
    /// The version that overwrote what was read below `by`, if one did. An absent key may have been deleted.
    fn overwritten(&self, read: Timestamp, by: Timestamp) -> Option<Timestamp> {
        let (newest, lives) = self.writes.range(..by).next_back()?;
        let is_same = read == Timestamp::ZERO && !lives;
        (*newest > read && !is_same).then_some(*newest)
    }
}

impl Witness {
    fn group(&mut self, shard: ShardId) -> &mut quorate_ir::Witness<Tapir> {
        self.groups.entry(shard).or_insert_with(|| quorate_ir::Witness::new(shard))
    }

    /// A replica goes on asleep, because its group has lost more than it survives. All that is known was begun before, as was what is `void`.
    pub fn begin_anew(&mut self, replica: ReplicaId, void: &BTreeSet<TransactionId>) {
        self.group(replica.shard).begin_anew(replica.index);
        self.void.extend(void);
        (self.outcomes, self.commits, self.aborts) = Default::default();
        (self.committed_at, self.contents, self.keys) = Default::default();
    }

    /// A replica has taken a step.
    pub fn see(&mut self, replica: &Replica) {
        let majority = replica.ir.group().majority();
        self.group(replica.config.replica.shard).note_majority(majority);
    }

    /// A replica says something.
    pub fn hear(&mut self, from: ReplicaId, message: &Message, found: &mut Vec<Violation>) {
        let group = self.group(from.shard);
        let mut hear = |word| group.hear(from.index, word, found);
        match message {
            Message::Gather { floor, .. } | Message::RaiseFloor { floor } => hear(Word::RaisesFloor(*floor)),
            Message::GatherReply { below, .. } => hear(Word::Refuses(*below)),
            // A member asks nobody to be complete before it is itself, durably.
            Message::Complete { below, .. } | Message::CompleteReply { below, .. } => {
                hear(Word::Complete(*below));
            }
            Message::Ir(quorate_ir::Message::DoViewChange { floor, complete, .. }) => {
                hear(Word::Complete(*complete));
                hear(Word::RaisesFloor(*floor));
            }
            Message::Ir(quorate_ir::Message::StartView { view, page, floor, .. }) => {
                hear(Word::StartsView(*view, page));
                if let Some(floor) = floor {
                    hear(Word::RaisesFloor(*floor));
                }
            }
            _ => {}
        }
    }

    /// A replica keeps a record.
    pub fn keep(&mut self, from: ReplicaId, record: &Record, found: &mut Vec<Violation>) {
        match record {
            Record::Voted { id, prepare, vote } => {
                let fact = Fact::ConsensusRecorded { id: *id, operation: prepare.clone(), verdict: *vote };
                self.group(from.shard).keep(from.index, &fact, found);
                self.proposed.insert((from.shard, *id), prepare.clone());
                self.note_vote(from, id.transaction, prepare.timestamp, *vote);
            }
            Record::LifeNoted { replica, life } => {
                let fact = Fact::LifeNoted { replica: *replica, life: *life };
                self.group(from.shard).keep(from.index, &fact, found);
            }
            Record::VoteFinalized { id, vote, .. } => {
                if let Some(prepare) = self.proposed.get(&(from.shard, *id)) {
                    self.note_vote(from, id.transaction, prepare.timestamp, *vote);
                }
            }
            Record::Decided { transaction, decision, .. } => self.decide(from, *transaction, decision, found),
            Record::CommittedAsPrepared { id, last, .. } => {
                if let Some(prepare) = self.proposed.get(&(from.shard, *id)) {
                    let decision = Tapir::of_proposed(prepare, *last);
                    self.decide(from, id.transaction, &decision, found);
                }
            }
            Record::ViewPage { page, .. } => {
                for (transaction, entries) in &page.entries {
                    self.keep_entries(from, *transaction, entries, found);
                }
            }
            _ => {}
        }
    }

    fn keep_entries(
        &mut self,
        from: ReplicaId,
        transaction: TransactionId,
        entries: &OperationEntries<Tapir>,
        found: &mut Vec<Violation>,
    ) {
        for entry in &entries.consensus {
            let (at, id) = (entry.operation.timestamp, OperationId { transaction, number: entry.number });
            self.proposed.insert((from.shard, id), entry.operation.clone());
            self.note_vote(from, transaction, at, entry.verdict);
        }
        if let Some(entry) = &entries.inconsistent {
            self.decide(from, transaction, &entry.operation, found);
        }
    }

    /// A vote, also one that was made final or that a view change has brought.
    fn note_vote(&mut self, from: ReplicaId, id: TransactionId, at: Timestamp, vote: Vote) {
        if vote == Vote::Ok {
            self.held.entry((from.shard, id, at)).or_default().insert(from.index);
        }
    }

    fn decide(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        decision: &Decision,
        found: &mut Vec<Violation>,
    ) {
        if self.void.contains(&id) {
            return;
        }
        self.note_outcome(from, id, decision, found);
        let Decision::Commit { transaction, timestamp, .. } = decision else { return };
        match self.contents.get(&(id, from.shard)) {
            Some(known) => {
                if known.writes != transaction.writes {
                    let explain = format!(
                        "{id} writes {:?} at {from}, and {:?} at another replica",
                        transaction.writes, known.writes
                    );
                    found.push(Violation::new("TAP6", from.shard, explain).of(id));
                }
            }
            None => {
                self.contents.insert((id, from.shard), transaction.clone());
                self.commit(from, id, transaction, *timestamp, found);
            }
        }
    }

    /// TAP4. A shard that does not participate may take a transaction for aborted: it was asked to end what it does not hold.
    fn note_outcome(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        decision: &Decision,
        found: &mut Vec<Violation>,
    ) {
        let outcome = outcome_of(decision);
        let (known, first) = *self.outcomes.entry((id, from.shard)).or_insert((outcome, from));
        if known != outcome {
            return found.push(contradiction(id, (outcome, from), (known, first)));
        }
        let Decision::Commit { transaction, timestamp, .. } = decision else {
            self.aborts.entry(id).or_default().entry(from.shard).or_insert(from);
            if let Some((at, first, participants)) = self.commits.get(&id)
                && participants.contains(&from.shard)
            {
                found.push(contradiction(id, (outcome, from), (Outcome::Committed(*at), *first)));
            }
            return;
        };
        let new = || (*timestamp, from, transaction.participants.clone());
        let (at, first, participants) = self.commits.entry(id).or_insert_with(new);
        if at != timestamp {
            found.push(contradiction(id, (outcome, from), (Outcome::Committed(*at), *first)));
        }
        let aborts = self.aborts.get(&id);
        for other in participants.iter().filter_map(|shard| aborts?.get(shard)) {
            found.push(contradiction(id, (outcome, from), (Outcome::Aborted, *other)));
        }
    }

    /// A shard has its first replica that knows of a commit.
    fn commit(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        transaction: &Transaction,
        at: Timestamp,
        found: &mut Vec<Violation>,
    ) {
        let first = *self.committed_at.entry(at).or_insert(id);
        if first != id {
            let explain = format!("{id} commits at {at}, and {first} does");
            found.push(Violation::new("TAP5", from.shard, explain).of(id));
        }
        for shard in &transaction.participants {
            let held = self.held.get(&(*shard, id, at)).map_or(0, BTreeSet::len);
            let majority = self.groups.get(shard).map_or(usize::MAX, quorate_ir::Witness::majority);
            if held < majority && majority != usize::MAX {
                let explain = format!(
                    "{id} commits at {at}, where {held} replicas of {shard} have held it, of {majority}"
                );
                found.push(Violation::new("TAP7", *shard, explain).of(id));
            }
        }
        let mut stale = |key: &Key, (reader, read, by): (TransactionId, Timestamp, Timestamp), newest| {
            let explain = format!("{reader} has read {key:?} of {read} at {by}, and {newest} lies between");
            found.push(Violation::new("TAP8", from.shard, explain).of(reader));
        };
        for write in &transaction.writes {
            let history = self.keys.entry(write.key.clone()).or_default();
            history.writes.insert(at, write.value.is_some());
            // A transaction that reads above the next version has read that, or is found out by it.
            let next = history.writes.range(at..).nth(1).map(|(next, _)| *next);
            let above = history.reads.range(at..).filter(|(by, _)| **by > at);
            for (by, (read, reader)) in above.take_while(|(by, _)| next.is_none_or(|next| **by <= next)) {
                if let Some(newest) = history.overwritten(*read, *by) {
                    stale(&write.key, (*reader, *read, *by), newest);
                }
            }
        }
        if transaction.reads_when_prepared {
            return;
        }
        // A list that is only read keeps no writer of it off, so timestamps say nothing of their order.
        for read in transaction.reads.iter().filter(|read| !is_index_list(&read.key)) {
            let history = self.keys.entry(read.key.clone()).or_default();
            history.reads.insert(at, (read.version, id));
            if let Some(newest) = history.overwritten(read.version, at) {
                stale(&read.key, (id, read.version, at), newest);
            }
        }
    }
}

fn contradiction(id: TransactionId, one: (Outcome, ReplicaId), other: (Outcome, ReplicaId)) -> Violation {
    let ((outcome, at), (known, first)) = (one, other);
    let explain = format!("{id} is {outcome:?} at {at}, and {known:?} at {first}");
    Violation::new("TAP4", at.shard, explain).of(id)
}

#[cfg(test)]
mod tests;
