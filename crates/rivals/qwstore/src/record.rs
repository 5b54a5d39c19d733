//! The records that a replica keeps across a crash.
//!
//! Records are replayed in the order in which they were emitted. Between the first and the last record of an installed
//! view a crash may fall: an install that did not reach its [`Record::ViewInstalled`] has not happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::{ReplicaIndex, Timestamp, TransactionId, View};
use quorate_ir::{CursorRange, Fact, RecordPage, counterparts};

use crate::message::{Put, QwStore, StatePage, Supplement};

/// One durable fact about a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The replica was created, empty and in view 0, together with its whole group. Always the first record.
    Initialised,
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
    /// A put was recorded and has taken effect; persisted before the reply leaves.
    PutRecorded {
        /// The put's id.
        put: TransactionId,
        /// The put.
        operation: Arc<Put>,
    },
    /// A part of the record of a view that is about to be installed.
    ViewPage {
        /// The view.
        view: View,
        /// The part.
        page: RecordPage<QwStore>,
    },
    /// A page of the state that takes the place of what the others have collected.
    ViewState {
        /// The view whose record follows.
        view: View,
        /// The page.
        state: StatePage,
    },
    /// The record of the view is complete, and the replica serves in it.
    ViewInstalled {
        /// The view.
        view: View,
        /// The view whose base was kept.
        since: Option<View>,
        /// The supplement that came with it.
        supplement: Supplement,
        /// The floor below which the pages of state hold everything, if there were any.
        floor: Option<Timestamp>,
        /// Where the base of the view holds what had ended in the replica's own record.
        kept: Vec<CursorRange>,
    },
    /// New puts below are refused.
    Refusing {
        /// Below this.
        below: Timestamp,
    },
    /// Below this the replica holds every put that was acknowledged.
    Completed {
        /// Below this.
        below: Timestamp,
    },
    /// The floor was raised.
    FloorRaised {
        /// The floor.
        floor: Timestamp,
    },
    /// A snapshot begins: what a restart from here needs of the time before.
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
        /// The supplement that it owed to others.
        supplement: Supplement,
    },
    /// A page of a snapshot.
    SnapshotPage {
        /// The page.
        state: StatePage,
        /// The floor below which the pages of this snapshot hold everything. None in logs of versions that said so at the end alone.
        below: Option<Timestamp>,
    },
    /// A snapshot is complete; its pages hold everything below this floor.
    SnapshotEnded {
        /// The floor.
        floor: Timestamp,
    },
}

counterparts!(Fact<QwStore> = Record {
    Initialised {} = Initialised {},
    ViewEntered (view) = ViewEntered { view },
    LifeNoted { replica, life } = LifeNoted { replica, life },
    ViewPage { view, page } = ViewPage { view, page },
    ViewState { view, state } = ViewState { view, state },
    ViewInstalled { view, since, supplement, floor, kept } = ViewInstalled { view, since, supplement, floor, kept },
    Refusing (below) = Refusing { below },
    Completed (below) = Completed { below },
    FloorRaised (floor) = FloorRaised { floor },
    SnapshotBegun { view, lineage, floor, complete, lives, supplement }
        = SnapshotBegun { view, lineage, floor, complete, lives, supplement },
    SnapshotPage { state, below } = SnapshotPage { state, below },
    SnapshotEnded (floor) = SnapshotEnded { floor },
} to own {
    Fact::InconsistentRecorded { transaction, operation, .. } => Record::PutRecorded { put: transaction, operation },
    Fact::InconsistentExecuted(put) => {
        unreachable!("{put} has taken effect when it was recorded, as every put does")
    },
    Fact::ProposalTookEffect { id, .. } => unreachable!("no put is proposed first, as {id:?} was"),
    Fact::ConsensusRecorded { operation, .. } => match operation {},
    Fact::ConsensusFinalized { verdict, .. } => match verdict {},
} to shared {
    Record::PutRecorded { put, operation } => {
        Fact::InconsistentRecorded { transaction: put, operation, executed: true }
    },
});
