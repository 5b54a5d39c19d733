//! Everything that is said in TAPIR. A reader who knows only this file knows the protocol.
//!
//! PREPARE, COMMIT and ABORT are operations of inconsistent replication, so they travel as [`Message::Ir`]:
//!
//! | paper | here |
//! |---|---|
//! | Prepare(txn, ts) and its reply | `ProposeConsensus` of a [`Prepare`], `ConsensusReply` with a [`Vote`] |
//! | the slow path | `FinalizeConsensus`, `Confirm` |
//! | Commit(txn, ts), Abort(txn) | `ProposeInconsistent` of a [`Decision`], `InconsistentReply`, `FinalizeInconsistent` |

use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    Ballot, ClockTime, Key, KeyRange, ReadVersion, ShardId, Timestamp, Transaction, TransactionId, Value,
    View,
};
use quorate_ir::{Cursor, FloorMessage, Operations, Summary, counterparts};
use quorate_store::VersionRef;

/// The operations that TAPIR invokes through inconsistent replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tapir;

impl Operations for Tapir {
    type Inconsistent = Decision;
    type Consensus = Prepare;
    type Verdict = Vote;
    type Supplement = Supplement;
    type State = StatePage;

    fn consensus_timestamp(prepare: &Prepare) -> Timestamp {
        prepare.timestamp
    }

    fn inconsistent_timestamp(decision: &Decision) -> Timestamp {
        match decision {
            Decision::Commit { timestamp, .. } => *timestamp,
            Decision::Abort { last } => *last,
        }
    }

    fn last_timestamp(decision: &Decision) -> Timestamp {
        match decision {
            Decision::Commit { timestamp, last, .. } => *last.max(timestamp),
            Decision::Abort { last } => *last,
        }
    }

    fn leaves_state(decision: &Decision) -> bool {
        matches!(decision, Decision::Commit { .. })
    }

    fn as_proposed(decision: &Decision, prepare: &Prepare) -> Option<Timestamp> {
        match decision {
            Decision::Commit { transaction, timestamp, last }
                if *timestamp == prepare.timestamp && *transaction == prepare.transaction =>
            {
                Some(*last)
            }
            Decision::Commit { .. } | Decision::Abort { .. } => None,
        }
    }

    fn of_proposed(prepare: &Prepare, last: Timestamp) -> Decision {
        let Prepare { transaction, timestamp, .. } = prepare;
        Decision::Commit { transaction: Arc::clone(transaction), timestamp: *timestamp, last }
    }

    fn bytes(decision: &Decision) -> usize {
        match decision {
            Decision::Commit { transaction, .. } => transaction.bytes(),
            Decision::Abort { .. } => 0,
        }
    }

    fn consensus_bytes(prepare: &Prepare) -> usize {
        prepare.transaction.bytes()
    }

    fn state_bytes(page: &StatePage) -> usize {
        page.versions.iter().map(KeyVersion::bytes).sum()
    }

    fn is_favourable(vote: &Vote) -> bool {
        *vote == Vote::Ok
    }
}

/// The consensus operation: may this part of a transaction commit at this timestamp?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The reads and writes of the transaction at this shard.
    pub transaction: Arc<Transaction>,
    /// The proposed timestamp.
    pub timestamp: Timestamp,
    /// At which timestamp the transaction was proposed first, if this is a further prepare of it. Far above that its earlier
    /// prepare may have been settled by others and forgotten: it must not be taken for a new transaction.
    pub first: Option<Timestamp>,
}

impl Prepare {
    /// The timestamp at which the transaction was proposed first.
    pub fn first_timestamp(&self) -> Timestamp {
        self.first.unwrap_or(self.timestamp)
    }
}

/// The answer of a replica to a [`Prepare`] (TAPIR paper, section 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vote {
    /// PREPARE-OK: nothing conflicts; the replica holds the transaction's keys until it is told the outcome.
    Ok,
    /// ABSTAIN: a prepared transaction is in the way, and its outcome is not known here.
    Abstain,
    /// ABORT: a committed transaction has overwritten what was read.
    Abort,
    /// RETRY: a committed transaction is in the way of a write; a timestamp above this one may do.
    Retry(Timestamp),
}

/// The inconsistent operation: the fate of a transaction. It is a fact once it is sent: one transaction never has both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Install the writes at the timestamp. Self-contained, because a replica may never have seen the prepare.
    Commit {
        /// The reads and writes of the transaction at this shard.
        transaction: Arc<Transaction>,
        /// The timestamp at which it commits at every shard.
        timestamp: Timestamp,
        /// As [`Decision::Abort`]'s; never below `timestamp`, to which zero stands for.
        last: Timestamp,
    },
    /// Forget the transaction, and never prepare it again.
    Abort {
        /// The greatest timestamp at which the transaction may have been proposed, as far as the sender can tell. Until
        /// this lies below the floor the decision is kept, lest a late prepare be taken for a new one.
        last: Timestamp,
    },
}

/// The promise of a replica to the coordinators of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The greatest ballot that was promised: coordinators of a lower one are refused.
    pub ballot: Ballot,
    /// At the backup shard: the outcome that a backup coordinator recorded here, and its ballot.
    pub accepted: Option<(Ballot, Outcome)>,
}

/// The state that a replica carries through a view change beside its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supplement {
    /// Promises to backup coordinators of undecided transactions, sorted by transaction. Merged by their maximum before
    /// prepares are merged (T26).
    pub promises: Vec<(TransactionId, Promise)>,
    /// The greatest timestamp at which anything was read: after the view change no replica of the new view accepts a
    /// write below it, whatever it knew of single keys.
    pub read_floor: Timestamp,
    /// Below this the sender gives no favourable vote on a new prepare. That binds the sender alone: it is here for its own restart.
    pub refusal: Timestamp,
    /// Below this everything that can ever commit has been executed by f + 1 replicas, one of which at least is in any
    /// majority: what a merge finds below it and not executed has not succeeded.
    pub complete: Timestamp,
}

/// A page of what a replica stores, for one that lacks what the others have collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatePage {
    /// Versions, ascending by key and then by timestamp.
    pub versions: Vec<KeyVersion>,
    /// The sender retains every version from here on: see [`quorate_store::History`]. None of a sender that knows nothing of that: then nothing
    /// below its floor counts as retained.
    pub retained_from: Option<Timestamp>,
}

/// A prepare that a replica has recorded for a transaction, as told to a backup coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedVote {
    /// The number of the prepare operation.
    pub number: u32,
    /// The prepare.
    pub prepare: Prepare,
    /// The verdict in the record.
    pub vote: Vote,
    /// Under which ballot the verdict was made final, if it was.
    pub finalized: Option<Ballot>,
    /// True if the replica holds the transaction prepared at this very timestamp, by its own validation or a view
    /// change: only such replicas keep conflicting transactions out.
    pub held: bool,
}

/// The version of a key that a replica has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundVersion {
    /// The version: [`Timestamp::ZERO`] if none was there.
    pub version: Timestamp,
    /// Its value; none if the key was absent or deleted.
    pub value: Option<Value>,
    /// If no version was there: the replica's floor, if it has one. A version below it that another replica still has was
    /// deleted, and the deletion collected.
    pub absent_below: Option<Timestamp>,
}

impl FoundVersion {
    /// The finding of a replica with this floor.
    pub(crate) fn new(version: Option<VersionRef<'_>>, floor: Timestamp) -> Self {
        match version {
            Some(version) => {
                FoundVersion { version: version.timestamp, value: version.value(), absent_below: None }
            }
            None => FoundVersion {
                version: Timestamp::ZERO,
                value: None,
                absent_below: (floor > Timestamp::ZERO).then_some(floor),
            },
        }
    }

    /// True if of two replicas that have found this and `other` of one key, it is this that the key holds.
    pub(crate) fn supersedes(&self, other: &FoundVersion) -> bool {
        // Of a version at the floor and absence below it, the version is the later.
        let age = |found: &FoundVersion| match found.absent_below {
            Some(floor) => (floor, false),
            None => (found.version, true),
        };
        age(self) > age(other)
    }
}

/// The version of a key that a replica has found at the timestamp of a [`Message::QuorumRead`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotVersion {
    /// The newest version that is not above the timestamp.
    pub found: FoundVersion,
    /// The newest version of all.
    pub newest: Timestamp,
    /// The smallest timestamp at which a prepared transaction is about to write the key.
    pub pending: Option<Timestamp>,
}

/// A key that a replica found in the range of a [`Message::QuorumScan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKey {
    /// The key.
    pub key: Key,
    /// The version that was found of it.
    pub version: SnapshotVersion,
}

/// The keys that a replica has found in the first part of the range of a [`Message::QuorumScan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundPage {
    /// The keys, ascending: all that have a version, or are about to be written. Every other key is absent.
    pub keys: Vec<FoundKey>,
    /// The first key that the page does not cover; none if it covers the range.
    pub next: Option<Key>,
    /// The replica's floor, if it has one: for the keys that are not listed it says what
    /// [`FoundVersion::absent_below`] says.
    pub absent_below: Option<Timestamp>,
}

/// A version of a key of which a replica knows for how long it was the newest, without asking the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedVersion {
    /// The version.
    pub found: FoundVersion,
    /// No version will ever lie between `found` and this timestamp.
    pub until: Timestamp,
}

/// The coordinator's alternative to a [`Message::ReadValidated`], for a replica that has not validated all keys recently enough: the answer to a
/// [`Message::QuorumRead`], which is the first of a quorum then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Otherwise {
    /// All keys must have been validated at this timestamp at least.
    pub oldest: Timestamp,
    /// As in the quorum read.
    pub round: u32,
    /// As in the quorum read: the timestamp of the snapshot.
    pub timestamp: Timestamp,
}

/// At a timestamp, these were the versions: a quorum read has found that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// The timestamp.
    pub timestamp: Timestamp,
    /// The keys and their versions.
    pub reads: Vec<ReadVersion>,
}

/// The messages between coordinators and replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Coordinator → one replica, the nearest first: the newest version of a key. Validated at prepare, so it may be
    /// stale and needs neither quorum nor disk.
    Read {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The key.
        key: Key,
    },
    /// Replica → coordinator: the newest version that I have.
    ReadReply {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The key.
        key: Key,
        /// The version: [`Timestamp::ZERO`] if I know no version.
        version: Timestamp,
        /// The value; none if the key is absent or deleted.
        value: Option<Value>,
    },
    /// Coordinator → one replica, the nearest first: READ, or READ-IN-TURN, of several keys at once. Keys that are not answered are
    /// asked for one by one, since a replica of an earlier version passes this over.
    ReadMany {
        /// The transaction that reads.
        transaction: TransactionId,
        /// Counts the requests for several keys of the transaction.
        request: u32,
        /// The keys.
        keys: Vec<Key>,
        /// True if they are read as by READ-IN-TURN.
        in_turn: bool,
    },
    /// Replica → coordinator: the newest versions that I have, as many as fit into a message. The keys of the request that are
    /// not mentioned are to be asked for again.
    ReadManyReply {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The request.
        request: u32,
        /// The versions: [`Timestamp::ZERO`] where I know no version.
        found: Vec<KeyVersion>,
        /// The keys that wait for their turn, as with [`Message::ReadWaits`]. Each is answered by a [`Message::ReadReply`].
        waiting: Vec<Key>,
    },
    /// Coordinator → one replica: the keys of your shard in a range.
    Scan {
        /// The transaction that scans.
        transaction: TransactionId,
        /// Counts the scan requests of the transaction, to tell replies apart.
        request: u32,
        /// The range.
        range: KeyRange,
        /// How many live keys are wanted at most.
        limit: u32,
    },
    /// Replica → coordinator: a page of the range.
    ScanReply {
        /// The transaction that scans.
        transaction: TransactionId,
        /// The request.
        request: u32,
        /// The keys found, ascending, with the deleted ones.
        keys: Vec<KeyVersion>,
        /// The first key that the page does not cover; none if it covers the range.
        next: Option<Key>,
    },
    /// Replica → the sender of a message under an earlier membership: that counts no more; learn who the replicas are now.
    /// The envelope says which membership is in force.
    Outdated,
    /// An operation of inconsistent replication.
    Ir(quorate_ir::Message<Tapir>),
    /// Coordinator → a replica that voted OK on this very prepare: COMMIT, without the contents that the replica has. It
    /// counts as the COMMIT if the replica still has the prepare in its record, and as lost otherwise: repetitions are
    /// self-contained.
    CommitPrepared {
        /// The prepare operation.
        id: quorate_ir::OperationId,
        /// The timestamp at which it was prepared and commits.
        timestamp: Timestamp,
        /// True if it may be acknowledged together with others, by [`Message::Recorded`]: clients of earlier versions do not know that.
        together: bool,
    },
    /// Replica → coordinator: the decisions of these transactions are in my record, as an `InconsistentReply` for each would say. From f + 1 of one
    /// view: they will not be lost.
    Recorded {
        /// The view in which the replica has recorded them.
        view: View,
        /// The transactions, all of this coordinator.
        transactions: Vec<TransactionId>,
    },
    /// Replica with an old prepared entry, or client that lost track of a transaction → a replica of its backup shard:
    /// find out or settle its fate. Repeated, to the next replica each time, until the outcome is known.
    Recover {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that takes part in it, sorted.
        participants: Vec<ShardId>,
        /// Where it was proposed first, as far as the sender knows: it has not been at a lower timestamp.
        timestamp: Timestamp,
    },
    /// Backup coordinator → every replica of every participant: follow me from now on and tell me what you know. From
    /// f + 1 replicas of a shard: no earlier coordinator can reach a verdict there any more.
    CoordinatorChange {
        /// The transaction.
        transaction: TransactionId,
        /// The ballot that the sender wants to act under.
        ballot: Ballot,
        /// Where it was proposed first, as far as the sender knows: if that is below a floor, it may be settled.
        timestamp: Timestamp,
    },
    /// Replica → backup coordinator: I have promised your ballot, durably. This is all I know.
    CoordinatorChangeReply {
        /// The transaction.
        transaction: TransactionId,
        /// The promised ballot.
        ballot: Ballot,
        /// The view of the replica: replies count only within one.
        view: View,
        /// The transaction's fate, if a COMMIT or ABORT has arrived: it must be followed.
        outcome: Option<Outcome>,
        /// The contents at this shard, if a COMMIT has arrived.
        committed: Option<Arc<Transaction>>,
        /// The prepares that I have recorded; none at all is a vote against, now that I have promised.
        votes: Vec<RecordedVote>,
        /// The outcome that an earlier backup coordinator recorded here.
        accepted: Option<(Ballot, Outcome)>,
        /// True if nothing is known of the transaction and its timestamp lies below the floor: it will never commit,
        /// unless it has, and then every other participant still knows that or has collected it as well.
        settled: bool,
    },
    /// Backup coordinator → every replica of the backup shard: this is the outcome. Decided once f + 1 of one view
    /// accept it.
    RecordOutcome {
        /// The transaction.
        transaction: TransactionId,
        /// The ballot of the sender.
        ballot: Ballot,
        /// The outcome.
        outcome: Outcome,
    },
    /// Replica of the backup shard → backup coordinator: recorded, durably.
    RecordOutcomeReply {
        /// The transaction.
        transaction: TransactionId,
        /// The accepted ballot.
        ballot: Ballot,
        /// The view of the replica.
        view: View,
    },
    /// Replica → coordinator: I have promised a greater ballot; another coordinator settles this transaction.
    Superseded {
        /// The transaction.
        transaction: TransactionId,
        /// The promised ballot.
        promised: Ballot,
    },
    /// Backup coordinator → the machine that asked it to recover a transaction: this is its fate.
    RecoverReply {
        /// The transaction.
        transaction: TransactionId,
        /// Its fate.
        outcome: Outcome,
    },
    /// Coordinator → the nearest replica: like READ, but if others are about to write the key, answer when they have, and
    /// answer the readers that ask you one after the other.
    ReadInTurn {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The key.
        key: Key,
    },
    /// Replica → coordinator: your read waits for its turn. Ask again now and then to show that you wait too.
    ReadWaits {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The key; the first, if there are several.
        key: Key,
    },
    /// Coordinator → replica, along with a prepare now and then: this is what my clock shows.
    ClockProbe {
        /// The coordinator's clock when the probe left.
        sent: ClockTime,
        /// True if my timestamps are deadlines: let my prepares wait for them.
        deadlines: bool,
    },
    /// Replica → coordinator: and that is what mine showed when the probe arrived. The difference contains the delay and
    /// the skew of both clocks, which is what a deadline has to allow for.
    ClockProbeReply {
        /// The coordinator's clock when the probe left.
        sent: ClockTime,
        /// The replica's clock when it arrived.
        arrived: ClockTime,
    },
    /// Replica → coordinator: I cast no vote, because the proposed timestamp lies too far ahead of my clock.
    ClockAhead {
        /// The transaction.
        transaction: TransactionId,
        /// How far ahead of the replica's clock the timestamp is, in microseconds.
        ahead_micros: u64,
        /// How far it may be, in microseconds.
        ahead_max_micros: u64,
    },
    /// Replica that looks for a new floor → every other replica of its group: from now on refuse new prepares below
    /// `below`, durably, and tell what you hold below it, beginning at `from`.
    Gather {
        /// The view of the sender; only replicas of this view answer.
        view: View,
        /// The sender's floor. A receiver that is complete below it raises its own; one that is not is behind.
        floor: Timestamp,
        /// Where the new floor may come to lie.
        below: Timestamp,
        /// Where the page begins.
        from: Cursor,
    },
    /// The answer to [`Message::Gather`]: one page, ascending by timestamp.
    GatherReply {
        /// The view.
        view: View,
        /// As in the question.
        below: Timestamp,
        /// As in the question.
        from: Cursor,
        /// Transactions that I have committed.
        executed: Vec<Cursor>,
        /// Transactions that could still commit, as far as I know.
        open: Vec<Cursor>,
        /// Where the next page begins; none if this was the last.
        next: Option<Cursor>,
    },
    /// Replica → another of its group: tell me what was decided of these transactions.
    FetchDecisions {
        /// The transactions.
        transactions: Vec<TransactionId>,
    },
    /// Replica → another of its group: these decisions I have executed, so f + 1 replicas hold them.
    Decisions {
        /// The decisions.
        decisions: Vec<(TransactionId, Decision)>,
    },
    /// Replica that looks for a new floor → every replica of another shard: of which of these committed transactions do
    /// you hold the decision? Once f + 1 of each participant do, no recovery will ever have to ask the sender's shard.
    AreDecided {
        /// Tells the answers to this question from those to an earlier one.
        nonce: u64,
        /// The transactions, with the timestamps at which they committed.
        transactions: Vec<Cursor>,
    },
    /// The answer to [`Message::AreDecided`].
    AreDecidedReply {
        /// The question's nonce.
        nonce: u64,
        /// The view of the replica: answers count only within one.
        view: View,
        /// Those of which I do not know the decision.
        missing: Vec<TransactionId>,
    },
    /// Replica that looks for a new floor → replica that has executed everything below `below` that it has: say so,
    /// durably.
    Complete {
        /// The view of the sender; only replicas of this view answer.
        view: View,
        /// The timestamp.
        below: Timestamp,
    },
    /// The answer to [`Message::Complete`]. From f + 1 of the view: `below` is a floor.
    CompleteReply {
        /// The view.
        view: View,
        /// The timestamp.
        below: Timestamp,
    },
    /// Replica → another that is complete below `floor`: raise your floor, and drop what has ended below.
    RaiseFloor {
        /// The floor.
        floor: Timestamp,
    },
    /// Backup coordinator → the machine that asked it to recover a transaction: it ended so long ago that every participant has
    /// collected its outcome. A replica that still holds it prepared is behind.
    Forgotten {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Replica → coordinator, in place of the `ConsensusReply` to the [`Prepare`] of a transaction that reads when it is
    /// prepared: my vote and, if I hold the keys from this moment on, what I found. From a quorum for the vote, and f + 1
    /// of it with what they found: the newest version of each key is what the transaction reads.
    HeldReads {
        /// The prepare operation.
        id: quorate_ir::OperationId,
        /// The view of the replica.
        view: View,
        /// Its vote.
        vote: Vote,
        /// True if the vote is final.
        finalized: bool,
        /// For each key of the prepare, in its order, the newest version. Empty unless the hold began with this very
        /// answer: what is there later may belong to a transaction that others let in.
        found: Vec<FoundVersion>,
    },
    /// Coordinator → replicas of a shard: what do these keys hold at this timestamp? A replica that answers never again votes OK
    /// on a write to them that is not above it.
    QuorumRead {
        /// The transaction that reads.
        transaction: TransactionId,
        /// Counts the rounds of the transaction: replies of different rounds do not count together.
        round: u32,
        /// The timestamp of the snapshot.
        timestamp: Timestamp,
        /// The keys.
        keys: Vec<Key>,
        /// True if the answer is to wait as a prepare at this timestamp would: for its time, and for what is about to be
        /// written below it.
        in_turn: bool,
    },
    /// Replica → coordinator: what I have. From enough replicas of one view, none of which has a write pending that
    /// matters, the newest version of each key is what it holds at the timestamp, for ever.
    QuorumReadReply {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The round.
        round: u32,
        /// The view of the replica.
        view: View,
        /// For each key, in the order of the request.
        found: Vec<SnapshotVersion>,
    },
    /// Coordinator → replicas of a shard: what does this range hold at this timestamp? A replica that answers never again votes OK
    /// on a write that is not above it to any key that the answer covers, whether or not the key exists.
    QuorumScan {
        /// The transaction that reads.
        transaction: TransactionId,
        /// As in [`Message::QuorumRead`].
        round: u32,
        /// The timestamp of the snapshot.
        timestamp: Timestamp,
        /// The range.
        range: KeyRange,
        /// How many live keys are wanted at most.
        limit: u32,
    },
    /// Replica → coordinator: what I have in the first part of the range. The keys that enough replicas of one view cover count, as
    /// with [`Message::QuorumReadReply`].
    QuorumScanReply {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The round.
        round: u32,
        /// The view of the replica.
        view: View,
        /// The page that I have.
        page: FoundPage,
    },
    /// Replica → coordinator: versions that old are not kept.
    SnapshotTooOld {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The oldest timestamp at which I can be read.
        oldest: Timestamp,
    },
    /// Coordinator → one replica, the nearest: which versions of these keys have you validated, and until when?
    ReadValidated {
        /// The transaction that reads.
        transaction: TransactionId,
        /// The keys.
        keys: Vec<Key>,
        /// The wish of the coordinator if that is not recent enough. A replica of an earlier version passes it over, and answers in any
        /// case.
        otherwise: Option<Otherwise>,
        /// The validations by earlier reads, as with [`Message::Validated`].
        validated: Vec<Validation>,
    },
    /// Replica → coordinator: these. True whatever I have missed, so one replica is enough.
    ReadValidatedReply {
        /// The transaction that reads.
        transaction: TransactionId,
        /// For each key, in the order of the request; empty unless all are validated.
        found: Vec<ValidatedVersion>,
    },
    /// Coordinator → the nearest replica, after a quorum read: at this timestamp, these are the versions. Nothing breaks if
    /// it is lost.
    Validated {
        /// The timestamp.
        timestamp: Timestamp,
        /// The keys and their versions.
        reads: Vec<ReadVersion>,
    },
}

impl From<quorate_ir::Message<Tapir>> for Message {
    fn from(message: quorate_ir::Message<Tapir>) -> Self {
        Message::Ir(message)
    }
}

counterparts!(FloorMessage<Tapir> = Message {
    Gather { view, floor, below, from } = Gather { view, floor, below, from },
    GatherReply { view, below, from, summary: Summary { executed, open, next } }
        = GatherReply { view, below, from, executed, open, next },
    Fetch { transactions } = FetchDecisions { transactions },
    Learn { operations } = Decisions { decisions: operations },
    Complete { view, below } = Complete { view, below },
    CompleteReply { view, below } = CompleteReply { view, below },
    RaiseFloor { floor } = RaiseFloor { floor },
} own other);

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Write};

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn contents(key: &str) -> Arc<Transaction> {
        let value = Some(Value::from(vec![b'x'; 3_000]));
        let writes = vec![Write { key: Key::from(key.to_owned()), value }];
        Arc::new(Transaction { writes, ..Transaction::default() })
    }

    fn prepare(key: &str, micros: u64, first: Option<u64>) -> Prepare {
        Prepare { transaction: contents(key), timestamp: at(micros), first: first.map(at) }
    }

    fn commit(key: &str, micros: u64, last: u64) -> Decision {
        Decision::Commit { transaction: contents(key), timestamp: at(micros), last: at(last) }
    }

    #[test]
    fn operations_have_the_timestamps_that_floors_go_by() {
        assert_eq!(Tapir::consensus_timestamp(&prepare("a", 7, Some(5))), at(7));
        assert_eq!(
            (prepare("a", 7, Some(5)).first_timestamp(), prepare("a", 7, None).first_timestamp()),
            (at(5), at(7))
        );
        let abort = Decision::Abort { last: at(9) };
        // The timestamp at which it is found, and the greatest at which it may have been proposed.
        for (decision, timestamp, last) in
            [(commit("a", 5, 8), 5, 8), (commit("a", 5, 0), 5, 5), (commit("a", 5, 4), 5, 5), (abort, 9, 9)]
        {
            assert_eq!(Tapir::inconsistent_timestamp(&decision), at(timestamp), "{decision:?}");
            assert_eq!(Tapir::last_timestamp(&decision), at(last), "{decision:?}");
            assert_eq!(Tapir::leaves_state(&decision), timestamp == 5);
        }
    }

    #[test]
    fn a_commit_is_as_proposed_if_it_is_of_the_same_contents_at_the_same_timestamp() {
        let proposed = prepare("a", 5, None);
        assert_eq!(Tapir::as_proposed(&commit("a", 5, 8), &proposed), Some(at(8)));
        assert_eq!(Tapir::as_proposed(&commit("a", 6, 8), &proposed), None);
        assert_eq!(Tapir::as_proposed(&commit("b", 5, 8), &proposed), None);
        assert_eq!(Tapir::as_proposed(&Decision::Abort { last: at(5) }, &proposed), None);
        assert_eq!(Tapir::of_proposed(&proposed, at(8)), commit("a", 5, 8));
    }

    #[test]
    fn what_is_carried_counts_with_its_contents() {
        let bytes = contents("a").bytes();
        assert!(bytes > 3_000);
        assert_eq!(Tapir::bytes(&commit("a", 5, 8)), bytes);
        assert_eq!(Tapir::bytes(&Decision::Abort { last: at(5) }), 0, "it has none");
        assert_eq!(Tapir::consensus_bytes(&prepare("a", 5, None)), bytes);
        let version = |length: usize| KeyVersion {
            key: Key::from("k"),
            version: at(1),
            value: Some(Value::from(vec![b'x'; length])),
        };
        let versions = vec![version(10), version(500)];
        let all = versions.iter().map(KeyVersion::bytes).sum::<usize>();
        assert!(all > 510);
        assert_eq!(Tapir::state_bytes(&StatePage { versions, retained_from: None }), all);
        assert_eq!(Tapir::state_bytes(&StatePage::default()), 0);
    }

    #[test]
    fn only_ok_is_favourable() {
        let votes = [Vote::Ok, Vote::Abstain, Vote::Abort, Vote::Retry(at(5))];
        assert_eq!(votes.map(|vote| Tapir::is_favourable(&vote)), [true, false, false, false]);
    }

    /// Of an absent key the floor of the replica tells that a deletion there may have been collected.
    #[test]
    fn a_version_supersedes_those_that_are_older_and_were_not_deleted_since() {
        let found = |micros: u64, below: Option<u64>| FoundVersion {
            version: if micros == 0 { Timestamp::ZERO } else { at(micros) },
            value: None,
            absent_below: below.map(at),
        };
        assert!(found(7, None).supersedes(&found(5, None)));
        assert!(!found(5, None).supersedes(&found(7, None)) && !found(5, None).supersedes(&found(5, None)));
        assert!(found(5, None).supersedes(&found(0, None)) && found(5, None).supersedes(&found(0, Some(5))));
        assert!(!found(5, None).supersedes(&found(0, Some(6))), "it was deleted, and the deletion collected");
        assert!(found(0, Some(6)).supersedes(&found(5, None)));
        assert!(
            !found(0, Some(5)).supersedes(&found(5, None)) && !found(0, None).supersedes(&found(5, None))
        );
    }
}
