//! The records that a replica keeps across a crash.
//!
//! Records are replayed in the order in which they were emitted. Between the first and the last record of an installed
//! view a crash may fall: an install that did not reach its [`Record::ViewInstalled`] has not happened.

use std::collections::BTreeMap;

use quorate_core::{Ballot, Groups, ReplicaIndex, Timestamp, TransactionId, View};
use quorate_ir::{CursorRange, Fact, OperationId, RecordPage, counterparts};

use crate::message::{Decision, Prepare, Promise, StatePage, Supplement, Tapir, Vote};

/// One durable fact about a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The replica was created, empty and in view 0, together with its whole group or to join it. Always the first record.
    Initialised,
    /// The replica has gone on to this epoch, and never again says anything in an earlier one.
    EpochEntered {
        /// The replicas in it.
        groups: Groups,
    },
    /// The replica has left its view for this one and never again answers in a lower one.
    ViewEntered {
        /// The view.
        view: View,
    },
    /// A replica, perhaps this one, has lost its record: what it said before this life counts no more.
    LifeNoted {
        /// The replica.
        replica: ReplicaIndex,
        /// The life.
        life: u64,
    },
    /// The verdict on a prepare; persisted before the reply leaves.
    Voted {
        /// The operation.
        id: OperationId,
        /// The prepare.
        prepare: Prepare,
        /// The verdict.
        vote: Vote,
    },
    /// A verdict was made final.
    VoteFinalized {
        /// The operation.
        id: OperationId,
        /// The final verdict.
        vote: Vote,
        /// The ballot of the coordinator.
        ballot: Ballot,
    },
    /// A COMMIT or ABORT was recorded.
    Decided {
        /// The transaction.
        transaction: TransactionId,
        /// Its fate and contents.
        decision: Decision,
        /// True if it has taken effect here, which with f > 1 it does only once f + 1 replicas hold it.
        executed: bool,
    },
    /// A COMMIT was recorded of just what was voted on, which stands in the log with the vote.
    CommittedAsPrepared {
        /// The prepare.
        id: OperationId,
        /// The last timestamp of the COMMIT.
        last: Timestamp,
        /// As [`Record::Decided`]'s.
        executed: bool,
    },
    /// A decision that was recorded earlier has taken effect.
    DecisionExecuted {
        /// The transaction.
        transaction: TransactionId,
    },
    /// A promise to a backup coordinator, or an outcome accepted from one.
    Promised {
        /// The transaction.
        transaction: TransactionId,
        /// The promise.
        promise: Promise,
    },
    /// A part of the record of a view that is about to be installed.
    ViewPage {
        /// The view.
        view: View,
        /// Entries of the merged record.
        page: RecordPage<Tapir>,
    },
    /// All parts of a view's record are persisted: from here on the replica is normal in it.
    ViewInstalled {
        /// The view.
        view: View,
        /// The view whose base was kept; what the record gained since is forgotten.
        since: Option<View>,
        /// The supplement that came with the record.
        supplement: Supplement,
        /// The floor below which the pages of state hold everything, if state came with the record.
        floor: Option<Timestamp>,
        /// Where the base of the view holds what had ended in the replica's own record.
        kept: Vec<CursorRange>,
    },
    /// New prepares below this timestamp are refused from now on.
    Refusing {
        /// The timestamp.
        below: Timestamp,
    },
    /// Everything that can ever commit below this timestamp has been executed here.
    Completed {
        /// The timestamp.
        below: Timestamp,
    },
    /// The floor was raised: what has ended below it may be dropped.
    FloorRaised {
        /// The floor.
        floor: Timestamp,
    },
    /// A log may begin here: what a restart needs of the time before, beside votes, decisions and versions.
    SnapshotBegun {
        /// The view in which the replica was normal.
        view: View,
        /// The lineage of its record.
        lineage: Vec<View>,
        /// Its floor.
        floor: Timestamp,
        /// Below this it was complete.
        complete: Timestamp,
        /// The lives of replicas that it knew of.
        lives: BTreeMap<ReplicaIndex, u64>,
    },
    /// Belongs to [`Record::SnapshotBegun`] and follows it.
    SnapshotBinds {
        /// Everything was taken to have been read here.
        read_floor: Timestamp,
        /// The supplement that the replica would have carried through a view change.
        supplement: Supplement,
    },
    /// A page of what the replica stores.
    SnapshotPage {
        /// The page.
        state: StatePage,
        /// The floor below which the pages of this snapshot hold everything. None in logs of versions that said so at the end alone.
        below: Option<Timestamp>,
    },
    /// The snapshot that was begun last is complete: its pages hold everything below this floor.
    SnapshotEnded {
        /// The floor.
        floor: Timestamp,
    },
    /// A page of state that came with the record of a view that is about to be installed.
    ViewState {
        /// The view.
        view: View,
        /// The page.
        state: StatePage,
    },
    /// Quorum reads are answered up to this timestamp: after a restart no write is let in below it. Persisted ahead, so
    /// that a read rarely waits for it.
    ReadsPromised {
        /// The timestamp.
        until: Timestamp,
    },
}

counterparts!(Fact<Tapir> = Record {
    Initialised {} = Initialised {},
    ViewEntered (view) = ViewEntered { view },
    LifeNoted { replica, life } = LifeNoted { replica, life },
    ConsensusRecorded { id, operation, verdict } = Voted { id, prepare: operation, vote: verdict },
    ConsensusFinalized { id, verdict, ballot } = VoteFinalized { id, vote: verdict, ballot },
    InconsistentRecorded { transaction, operation, executed } = Decided { transaction, decision: operation, executed },
    ProposalTookEffect { id, last, executed } = CommittedAsPrepared { id, last, executed },
    InconsistentExecuted (transaction) = DecisionExecuted { transaction },
    ViewPage { view, page } = ViewPage { view, page },
    ViewState { view, state } = ViewState { view, state },
    ViewInstalled { view, since, supplement, floor, kept } = ViewInstalled { view, since, supplement, floor, kept },
    Refusing (below) = Refusing { below },
    Completed (below) = Completed { below },
    FloorRaised (floor) = FloorRaised { floor },
    SnapshotPage { state, below } = SnapshotPage { state, below },
    SnapshotEnded (floor) = SnapshotEnded { floor },
} to own {
    // The supplement follows, in [`Record::SnapshotBinds`].
    Fact::SnapshotBegun { view, lineage, floor, complete, lives, .. } => {
        Record::SnapshotBegun { view, lineage, floor, complete, lives }
    },
} to shared {
    Record::SnapshotBegun { view, lineage, floor, complete, lives } => {
        let supplement = Supplement::default();
        Fact::SnapshotBegun { view, lineage, floor, complete, lives, supplement }
    },
} own other);
