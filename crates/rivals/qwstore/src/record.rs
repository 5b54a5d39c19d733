//! What a replica keeps across a crash.
//!
//! Records are replayed in the order in which they were emitted. Between the first and the last record of an installed
//! view a crash may fall: an install that did not reach its [`Record::ViewInstalled`] has not happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::{ReplicaIndex, Timestamp, TransactionId, View};
use quorate_ir::{Mark, RecordPage};

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
        /// What came with it.
        supplement: Supplement,
        /// The floor below which the pages of state hold everything, if there were any.
        floor: Option<Timestamp>,
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
        /// What it owed to others.
        supplement: Supplement,
    },
    /// A page of a snapshot.
    SnapshotPage {
        /// The page.
        state: StatePage,
    },
    /// A snapshot is complete; its pages hold everything below this floor.
    SnapshotEnded {
        /// The floor.
        floor: Timestamp,
    },
}

impl Record {
    /// The part that the record plays in a snapshot; none if it belongs to no snapshot.
    pub(crate) fn mark(&self) -> Option<Mark> {
        match self {
            Record::SnapshotBegun { .. } => Some(Mark::Begun),
            Record::SnapshotPage { .. } => Some(Mark::Within),
            Record::SnapshotEnded { .. } => Some(Mark::Ended),
            _ => None,
        }
    }
}
