//! Everything that is said in inconsistent replication.

use std::collections::BTreeMap;
use std::fmt;

use quorate_core::{Ballot, Key, ReplicaIndex, Timestamp, TransactionId, View};

use crate::Operations;
use crate::record::{Cursor, Outline, RecordPage, Summary};

/// Names one operation: the transaction that invokes it, and a number within it.
///
/// Ids must never be used again, also not by a later life of the same client (T15); that is why a
/// [`ClientId`](quorate_core::ClientId) is a random incarnation.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    /// The transaction (to IR: any invocation) that the operation belongs to.
    pub transaction: TransactionId,
    /// Zero for the inconsistent operation of the transaction, from one upwards for its consensus operations.
    pub number: u32,
}

impl OperationId {
    /// The number of a transaction's inconsistent operation.
    pub const INCONSISTENT: u32 = 0;
}

impl fmt::Display for OperationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}#{}", self.transaction, self.number)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// One of `count` parts of a message that is too large for one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Tells the parts of this message from those of every other: no other message has the number.
    pub series: u64,
    /// Which part, from zero.
    pub index: u32,
    /// How many parts there are, at least one.
    pub count: u32,
}

impl Part {
    /// The only part of a message that fits into one frame.
    pub const WHOLE: Part = Part { series: 0, index: 0, count: 1 };
}

/// Consecutive parts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRange {
    /// The first of them.
    pub first: u32,
    /// The last of them, not below the first.
    pub last: u32,
}

/// The messages between proposers and replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<O: Operations> {
    /// Proposer → every replica: record this operation and, when f + 1 have done so, run it. Repeated until enough
    /// replicas of one view have answered.
    ProposeInconsistent {
        /// The operation's id.
        id: OperationId,
        /// The operation.
        operation: O::Inconsistent,
    },
    /// Proposer → every replica: run this operation, record your verdict and tell me.
    ProposeConsensus {
        /// The operation's id.
        id: OperationId,
        /// The operation.
        operation: O::Consensus,
    },
    /// Replica → proposer: the inconsistent operation is in my record. From f + 1 of one view: it will not be lost.
    InconsistentReply {
        /// The operation's id.
        id: OperationId,
        /// The view in which the replica recorded it or holds it.
        view: View,
    },
    /// Replica → proposer: my verdict, which I shall repeat whenever asked in this view. From ⌈3f/2⌉ + 1 of one view
    /// and alike: the verdict is final.
    ConsensusReply {
        /// The operation's id.
        id: OperationId,
        /// The view of the replica.
        view: View,
        /// Its verdict.
        verdict: O::Verdict,
        /// True if a coordinator or a view change has already made this verdict final: the proposer must follow it.
        finalized: bool,
    },
    /// Proposer → every replica, once f + 1 hold the inconsistent operation: run it now.
    FinalizeInconsistent {
        /// The operation's id.
        id: OperationId,
    },
    /// Proposer → every replica: this is the verdict that was decided from the replies of `view`. Makes the slow path
    /// final once f + 1 replicas of that view confirm it; on the fast path it only spares later view changes the work.
    FinalizeConsensus {
        /// The operation's id.
        id: OperationId,
        /// The decided verdict.
        verdict: O::Verdict,
        /// The view whose replies it was decided from; replicas in another view refuse it by confirming their own.
        view: View,
        /// The authority of the proposer.
        ballot: Ballot,
    },
    /// Replica → proposer: what my record holds after your FINALIZE. It confirms the FINALIZE only if view and verdict
    /// are those of the FINALIZE. Sent also for what is final already, and for consensus operations that are unknown (T8).
    Confirm {
        /// The operation's id.
        id: OperationId,
        /// The view of the replica.
        view: View,
        /// The verdict in the record; none for an inconsistent operation, and for one that the record does not hold.
        verdict: Option<O::Verdict>,
        /// True if that verdict is final: if it is not the one of the FINALIZE, the proposer must follow it.
        finalized: bool,
    },
    /// Proposer → a replica that answered in a view below another's: join at least this view (T22). Leader → a replica that
    /// still waits for its view: it has started.
    HigherView {
        /// The greatest view seen.
        view: View,
    },
    /// Replica → every replica: I have left my view for this one and answer nobody until it has started.
    StartViewChange {
        /// The new view.
        view: View,
    },
    /// Replica → leader of `view` (replica `view mod n`), repeated, ever more seldom, until START-VIEW arrives: what I know. Of one in
    /// parts only the first is repeated. The view is durable before this leaves, so the sender never again answers in a lower one.
    DoViewChange {
        /// The new view.
        view: View,
        /// The last view in which the sender was normal; none if the sender lost its record, so that it must be told
        /// everything and must not count (T6).
        last_normal: Option<View>,
        /// In the first part: the views whose bases the sender's record is built from, ascending; ends with `last_normal`.
        lineage: Vec<View>,
        /// Which part of the message this is.
        part: Part,
        /// The entries that the sender recorded since it was last normal from the start of a view.
        page: RecordPage<O>,
        /// In the first part: what the last parts hold, which the leader asks for only if it does not hold the same.
        outline: Outline,
        /// In the first part: what travels beside the record.
        supplement: O::Supplement,
        /// The sender's floor: its record no longer holds what ended below.
        floor: Timestamp,
        /// Below this the sender has executed everything that can ever take effect; never below its floor.
        complete: Timestamp,
        /// The lives of replicas that have lost their records, as far as the sender knows; its own among them.
        lives: BTreeMap<ReplicaIndex, u64>,
    },
    /// Leader → replica: the merged record of the new view; adopt it and be normal.
    StartView {
        /// The new view.
        view: View,
        /// The view whose base the sender and the receiver share: `page` holds what came later. The receiver forgets
        /// what its record gained since.
        since: Option<View>,
        /// Which part of the message this is.
        part: Part,
        /// The entries of the base of `view` beyond the base of `since`; every verdict in it is final.
        page: RecordPage<O>,
        /// In the first part: what the last parts hold, which the receiver asks for only if it does not hold the same.
        outline: Outline,
        /// In the first part: the merged supplement.
        supplement: O::Supplement,
        /// The leader's floor, if the receiver lacks something below it, so that it must be given state; the same in
        /// every part. The receiver's state below the floor is replaced.
        floor: Option<Timestamp>,
        /// The first page of the state, in the first part.
        state: Option<O::State>,
        /// The last key of that page, if there are more.
        state_to: Option<Key>,
    },
    /// Receiver of a DO-VIEW-CHANGE or START-VIEW in parts → its sender, as others arrive, and again whenever nothing more does: send these
    /// parts next. The first few of those that no outline tells of are sent unasked.
    PartsMissing {
        /// The new view.
        view: View,
        /// Of which message: the number of its series.
        series: u64,
        /// Parts that have not arrived, ascending.
        missing: Vec<PartRange>,
    },
    /// Receiver of a START-VIEW with state → leader, whenever the pages that it has asked for have arrived: what stands behind this key?
    StateWanted {
        /// The new view.
        view: View,
        /// Of which message: the number of its series.
        series: u64,
        /// The last key of the page before.
        after: Key,
    },
    /// The answer, several times: a page of the state. Nothing of what the leader's floor had passed when it cut the START-VIEW is collected meanwhile.
    StatePage {
        /// The new view.
        view: View,
        /// As asked.
        series: u64,
        /// As asked.
        after: Key,
        /// The page.
        state: O::State,
        /// The last key of the page, if there are more.
        to: Option<Key>,
    },
    /// Receiver of a START-VIEW in parts → leader, and member → a replica that was one before the last change, whenever that one goes on with view
    /// changes: I have, durably, the record of a view of this epoch. The records kept for me are not needed any more; and from f + 1 members: nobody
    /// needs the records from before the change any more.
    Arrived,
    /// A replica without its record → every other replica: in which view are you? (T23) Note, durably, that this is my life: what
    /// I have said in earlier ones counts no more.
    ViewQuery {
        /// Tells the answers to this query from those to an earlier one.
        nonce: u64,
        /// The life; zero from who does not know yet how many it has had.
        life: u64,
    },
    /// The answer to [`Message::ViewQuery`]. From f + 1 others that have noted the life: nothing counts that the asker may have
    /// said in a view above the greatest.
    ViewQueryReply {
        /// The query's nonce.
        nonce: u64,
        /// The view of the replica.
        view: View,
        /// True if the replica has lost its record as well, so that it notes nothing: if more than f have, the group cannot
        /// recover by itself.
        lost: bool,
        /// The latest life of the asker that the replica knows of.
        life: u64,
    },
}

/// A message between the members of a group while one of them searches for a floor: see [`crate::member::search`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FloorMessage<O: Operations> {
    /// The member that searches → each other one: refuse new operations below, and tell me which have run at yours and which are open
    /// there.
    Gather {
        /// Its view; in another one this means nothing.
        view: View,
        /// Its floor: what lies below has been compared.
        floor: Timestamp,
        /// Where the next floor may come to lie.
        below: Timestamp,
        /// Where the answer is to begin.
        from: Cursor,
    },
    /// The answer: I refuse new operations below from now on, durably, and this is a page of what I have.
    GatherReply {
        /// The view.
        view: View,
        /// As asked.
        below: Timestamp,
        /// As asked.
        from: Cursor,
        /// The page.
        summary: Summary,
    },
    /// Member → member: send me the inconsistent operations of these transactions.
    Fetch {
        /// The transactions.
        transactions: Vec<TransactionId>,
    },
    /// Member → member: operations that have run here, and not at yours.
    Learn {
        /// The transactions, with their operations.
        operations: Vec<(TransactionId, O::Inconsistent)>,
    },
    /// The member that searches → those that have run what it has: make it durable that you have.
    Complete {
        /// The view.
        view: View,
        /// Below this they have run the same.
        below: Timestamp,
    },
    /// The answer, once that is durable. From f + 1 of the view: `below` is a floor.
    CompleteReply {
        /// The view.
        view: View,
        /// As asked.
        below: Timestamp,
    },
    /// Member → member: f + 1 are complete below this, so it is a floor.
    RaiseFloor {
        /// The floor.
        floor: Timestamp,
    },
}
