//! Inconsistent replication (IR): fault-tolerant operations without an order between them.
//!
//! *Source*: "Building Consistent Transactions with Inconsistent Replication" (TAPIR), section 3, completed by its later
//! published versions, which replaced the early recovery by FINALIZE, CONFIRM, `decide`, `merge` and `sync`.
//!
//! Two kinds of operation. An **inconsistent** operation is never lost once f + 1 replicas have recorded it, and runs at
//! every replica in any order. A **consensus** operation also gives *one* verdict: on the fast path, when ⌈3f/2⌉ + 1
//! replicas gave it alike, after one round trip; otherwise on the slow path, when the proposer's `decide` has picked
//! one and f + 1 replicas have confirmed it. Both survive f failures through view changes.
//!
//! | file | role |
//! |---|---|
//! | [`message`] | everything that is said, who says it and what may be concluded from it |
//! | [`record`] | what a replica remembers of operations, and how records of a view are merged |
//! | [`call`] | the proposer's side of one operation: counts replies, knows when they suffice |
//! | [`replica`] | the replica's side: operations in normal views, and view changes |
//! | [`bounds`] | by which timestamps a replica tells what is over |
//! | [`member`] | what is the same for all machines that are members of a group: beginning, view changes, floors, snapshots |
//! | [`mistake`] | what can be planted to see that it is caught |
//! | [`wire`] | the field numbers, the same for every protocol that stands on it |
//!
//! # Where this deviates from the papers, and why
//! * A record is a *base*, which every replica that was normal in a view shares, and a *tail*. View changes carry tails
//!   and only as much of the base as the receiver lacks, in parts of bounded size, so a restart costs what was missed
//!   and not what was ever done. A record names the views whose bases it is built from (its *lineage*).
//! * A leader that is itself behind starts the next view instead of fetching what it lacks.
//! * START-VIEW is pulled: a replica repeats DO-VIEW-CHANGE until it is answered.
//! * FINALIZE carries a [`Ballot`](quorate_core::Ballot), so that a coordinator that was elected later overrules what
//!   an earlier one finalized at fewer than f + 1 replicas, and never the other way round. Nothing overrules an equal
//!   or greater ballot.
//! * Records are collected below a *floor*, and a replica that lacks what was collected is given state in its place: see
//!   [`replica::floor`].
//! * A group may go on with other members: a change of the group is a view change over the members before and after it.
//! * Replicas are silent unless they are normal, and confirm every FINALIZE, also of what they know already.

pub mod bounds;
pub mod call;
pub mod member;
pub mod message;
pub mod mistake;
pub mod record;
pub mod replica;
pub mod wire;

pub use bounds::Bounds;
pub use call::{ConsensusCall, ConsensusProgress, InconsistentCall};
pub use member::{Member, MemberEvent, MemberSettings, MemberState, Postponed, SearchSettings};
pub use message::{FloorMessage, Message, OperationId, Part, PartRange};
pub use mistake::Mistake;
pub use quorate_core::hosted::Status;
pub use record::{
    ConsensusEntry, Cursor, CursorRange, InconsistentEntry, OperationEntries, Outline, Record, RecordPage,
    State, Stretch, Summary,
};
pub use replica::invariants::{Witness, Word};
pub use replica::{Answer, Fact, Host, Replica, Upcalls};

#[cfg(test)]
mod tests;

use std::fmt::Debug;

use quorate_core::Timestamp;

/// The operations that a protocol on top of IR invokes.
pub trait Operations: Clone + Debug + PartialEq + Eq + 'static {
    /// An operation whose effect does not depend on order.
    type Inconsistent: Clone + Debug + PartialEq + Eq;
    /// An operation whose verdict replicas must agree on.
    type Consensus: Clone + Debug + PartialEq + Eq;
    /// The answer of replicas to a consensus operation.
    type Verdict: Clone + Debug + PartialEq + Eq;
    /// The state that a replica carries through a view change beside its record, such as promises to coordinators.
    type Supplement: Clone + Debug + Default + PartialEq + Eq;
    /// A page of what executed operations have left behind: what a replica is given in place of operations that the
    /// others have collected.
    type State: Clone + Debug + PartialEq + Eq;

    /// Where a consensus operation stands in relation to floors.
    fn consensus_timestamp(operation: &Self::Consensus) -> Timestamp;

    /// Where the effects of an inconsistent operation stand in relation to floors.
    fn inconsistent_timestamp(operation: &Self::Inconsistent) -> Timestamp;

    /// The greatest timestamp at which a consensus operation of the same transaction may have been proposed: the
    /// operation must not be collected before a floor has passed it, or a late proposal would be taken for a new one.
    fn last_timestamp(operation: &Self::Inconsistent) -> Timestamp;

    /// True if an inconsistent operation leaves something behind when it runs: one that does not need not have run
    /// everywhere before it is collected.
    fn leaves_state(operation: &Self::Inconsistent) -> bool;

    /// True of an inconsistent operation that makes a consensus operation take effect, and says nothing beside it but the last timestamp, which
    /// this gives: in a log it need not be written down once more.
    fn as_proposed(operation: &Self::Inconsistent, proposed: &Self::Consensus) -> Option<Timestamp>;

    /// The inconsistent operation that makes a consensus operation take effect.
    fn of_proposed(proposed: &Self::Consensus, last: Timestamp) -> Self::Inconsistent;

    /// Roughly how many bytes an inconsistent operation has.
    fn bytes(operation: &Self::Inconsistent) -> usize;

    /// Roughly how many bytes a consensus operation has.
    fn consensus_bytes(operation: &Self::Consensus) -> usize;

    /// Roughly how many bytes a page of state has.
    fn state_bytes(state: &Self::State) -> usize;

    /// True if an inconsistent operation may run as soon as it arrives, in groups of any size: nothing that others could still
    /// need is let go of by it (T24).
    fn runs_on_arrival(operation: &Self::Inconsistent) -> bool {
        let _ = operation;
        false
    }

    /// True if an operation with this verdict can take effect.
    fn is_favourable(verdict: &Self::Verdict) -> bool;
}
