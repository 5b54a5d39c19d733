//! The replica's side of inconsistent replication.
//!
//! A replica is *normal* and serves, or it is *changing views* and silent, or it is *recovering*: it lost its record, so
//! it neither leads nor contributes to a view change, and serves only after one (T6, T7, T23). One that is no member any
//! more is *retired*.
//!
//! A [`Replica`] is a part of a protocol's machine and not a machine by itself: the protocol lends it a [`Host`] through
//! which it sends and persists, and which runs the operations.

mod change;
mod dispatch;
pub mod floor;
pub mod invariants;
mod operations;
mod parts;
mod recovery;
pub mod snapshot;
mod start_view;
mod view_change;

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::hosted::Status;
use quorate_core::{
    Address, Ballot, Epoch, Key, Members, ReplicaIndex, Succession, Timestamp, TransactionId, View,
};

use crate::message::{Message, OperationId};
use crate::record::{
    ConsensusEntry, Cursor, CursorRange, InconsistentEntry, OperationEntries, Record, RecordPage, State,
};
use crate::{Bounds, Mistake, Operations};
pub use operations::Answer;
use parts::Received;
use view_change::ViewChange;

/// Something that a replica must keep across a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<O: Operations> {
    /// It was created, empty and in view 0, together with its whole group or to join it. Always the first.
    Initialised,
    /// It has left its view for this one.
    ViewEntered(View),
    /// A replica, perhaps itself, has lost its record: what it said before this life counts no more.
    LifeNoted {
        /// The replica.
        replica: ReplicaIndex,
        /// The life.
        life: u64,
    },
    /// It has recorded a verdict.
    ConsensusRecorded {
        /// The operation's id.
        id: OperationId,
        /// The operation.
        operation: O::Consensus,
        /// The verdict.
        verdict: O::Verdict,
    },
    /// A verdict is final.
    ConsensusFinalized {
        /// The operation's id.
        id: OperationId,
        /// The verdict.
        verdict: O::Verdict,
        /// Under which ballot.
        ballot: Ballot,
    },
    /// It has recorded an inconsistent operation.
    InconsistentRecorded {
        /// The transaction.
        transaction: TransactionId,
        /// The operation.
        operation: O::Inconsistent,
        /// True if it has run as well.
        executed: bool,
    },
    /// It has recorded the inconsistent operation that makes a consensus operation take effect, whose verdict stands in the same log.
    ProposalTookEffect {
        /// The consensus operation.
        id: OperationId,
        /// The last timestamp of the inconsistent operation.
        last: Timestamp,
        /// True if it has run as well.
        executed: bool,
    },
    /// A recorded inconsistent operation has run.
    InconsistentExecuted(TransactionId),
    /// A part of a view's record.
    ViewPage {
        /// The view.
        view: View,
        /// The part.
        page: RecordPage<O>,
    },
    /// A page of the state that takes the place of what the others have collected.
    ViewState {
        /// The view whose record follows.
        view: View,
        /// The page.
        state: O::State,
    },
    /// It lets in no new operation below.
    Refusing(Timestamp),
    /// Everything that can ever take effect below this has been executed here.
    Completed(Timestamp),
    /// The floor was raised.
    FloorRaised(Timestamp),
    /// The state of the time before that a restart needs, beside what the record held: a log may begin here.
    SnapshotBegun {
        /// The view in which the replica was normal.
        view: View,
        /// The lineage of its record.
        lineage: Vec<View>,
        /// Its floor.
        floor: Timestamp,
        /// Below this it was complete.
        complete: Timestamp,
        /// The lives that it knew of.
        lives: BTreeMap<ReplicaIndex, u64>,
        /// The supplement that it would have handed over in a view change.
        supplement: O::Supplement,
    },
    /// A page of a snapshot.
    SnapshotPage {
        /// The page.
        state: O::State,
        /// The floor below which the pages of this snapshot hold everything. None in logs of versions that said so at the end alone.
        below: Option<Timestamp>,
    },
    /// The snapshot that was begun last is complete: its pages hold everything below this floor.
    SnapshotEnded(Timestamp),
    /// The view's record is complete.
    ViewInstalled {
        /// The view.
        view: View,
        /// The view whose base was kept.
        since: Option<View>,
        /// The supplement that came with it.
        supplement: O::Supplement,
        /// The floor below which the pages of state hold everything, if there were any.
        floor: Option<Timestamp>,
        /// Where the base of the view holds what had ended in the replica's own record.
        kept: Vec<CursorRange>,
    },
}

impl<O: Operations> Fact<O> {
    /// Roughly how many bytes it has in a log beside what every record has.
    pub fn bytes(&self) -> usize {
        match self {
            Fact::ConsensusRecorded { operation, .. } => O::consensus_bytes(operation),
            Fact::InconsistentRecorded { operation, .. } => O::bytes(operation),
            Fact::ViewPage { page, .. } => page.bytes(),
            Fact::ViewState { state, .. } | Fact::SnapshotPage { state, .. } => O::state_bytes(state),
            _ => 0,
        }
    }
}

/// The operations of the protocol on top, as inconsistent replication calls them.
pub trait Upcalls<O: Operations> {
    /// Runs a consensus operation and gives this replica's verdict.
    fn execute_consensus(&mut self, id: OperationId, operation: &O::Consensus) -> O::Verdict;

    /// Takes back, while the machine is rebuilt, the effect of a verdict that was given.
    fn restore_consensus(&mut self, _: OperationId, _: &O::Consensus, _: &O::Verdict) {}

    /// The verdict on a consensus operation whose transaction's inconsistent operation is recorded already: what that
    /// implies, or none if the operation is to run all the same.
    fn verdict_after(
        &mut self,
        id: OperationId,
        operation: &O::Consensus,
        recorded: &InconsistentEntry<O>,
    ) -> Option<O::Verdict>;

    /// The verdict that the inconsistent operation of a transaction implies for its consensus operations as a whole.
    fn implied_verdict(recorded: &O::Inconsistent) -> O::Verdict;

    /// The verdict, not a favourable one, on an operation whose proposer has given it up for a later one.
    fn superseded_verdict() -> O::Verdict;

    /// Runs an inconsistent operation, once. One below the floor has left its effects behind already.
    fn execute_inconsistent(&mut self, transaction: TransactionId, operation: &O::Inconsistent);

    /// A verdict has become final, by a coordinator or a view change, and may differ from what
    /// [`Upcalls::execute_consensus`] gave here. `by_view_change` tells which: only a view change makes its effect be
    /// installed here (the paper's *sync*).
    fn finalize_consensus(
        &mut self,
        id: OperationId,
        operation: &O::Consensus,
        verdict: &O::Verdict,
        by_view_change: bool,
    );

    /// A new view has dropped this replica's verdict from its record: whatever kept the verdict true here ends with it,
    /// and if the operation is proposed again it runs again. (Dropping one without the other would break promises: a
    /// verdict without its effect, T12; an effect without its verdict would stand in the way of operations that have
    /// succeeded without this replica.)
    fn forget_consensus(&mut self, id: OperationId, operation: &O::Consensus);

    /// In the leader of a view change, after everything final has been installed: settles the operations whose fate is
    /// open. `decided` may have succeeded with the verdict they carry, `undecided` surely have not. Gives the verdicts
    /// of all, `decided` first, in the order given.
    fn merge(
        &mut self,
        decided: &[(TransactionId, ConsensusEntry<O>)],
        undecided: &[(TransactionId, ConsensusEntry<O>)],
    ) -> Vec<O::Verdict>;

    /// The supplement that this replica hands over in a view change beside its record.
    fn contribution(&self) -> O::Supplement;

    /// The supplement that binds every replica of the present view from its start, for one that joins it.
    fn supplement(&self) -> O::Supplement;

    /// Takes over what another replica carries.
    fn adopt_supplement(&mut self, supplement: &O::Supplement);

    /// The bounds that operations go by. Below its refusal [`Upcalls::execute_consensus`] gives no favourable verdict any more.
    fn bounds(&self) -> &Bounds;

    /// The same, to be raised.
    fn bounds_mut(&mut self) -> &mut Bounds;

    /// The floor has been raised, or is known again.
    fn on_floor(&mut self, _: Timestamp) {}

    /// A page of what executed operations below a timestamp have left behind, from the key after `after` on, of
    /// roughly `bytes_max` bytes; and the last key that it covers, if there are more.
    fn state_after(&self, after: Option<&Key>, below: Timestamp, bytes_max: usize)
    -> (O::State, Option<Key>);

    /// Forgets what operations below `floor` have left behind, to make room for the pages of another replica.
    fn forget_state_below(&mut self, floor: Timestamp);

    /// Takes over a page of another replica's state, or of an earlier one of its own.
    fn install_state(&mut self, state: O::State);

    /// All pages of a state have been taken over.
    fn on_state_installed(&mut self) {}

    /// Roughly how many bytes these entries take in a message.
    fn entry_bytes(entries: &OperationEntries<O>) -> usize;
}

/// The machine that a replica is a part of, as far as the replica needs it.
pub trait Host<O: Operations> {
    /// The protocol on top.
    type Protocol: Upcalls<O>;

    /// The protocol on top, whose operations are run.
    fn protocol(&mut self) -> &mut Self::Protocol;

    /// Sends a message once everything persisted before is durable.
    fn send(&mut self, to: Address, message: Message<O>);

    /// Sends a message to another replica of the group.
    fn send_to_replica(&mut self, to: ReplicaIndex, message: Message<O>);

    /// Makes a fact durable.
    fn persist(&mut self, fact: Fact<O>);

    /// Marks the place of the next fact: the log may come to begin there.
    fn anchor(&mut self);

    /// Sets the timer that ends in [`Replica::on_view_change_timeout`].
    fn set_view_change_timer(&mut self, after: Duration);

    /// Forgets that timer.
    fn cancel_view_change_timer(&mut self);

    /// The record of a new view is complete and about to be made durable: what travels beside it is in force.
    fn on_installing(&mut self);

    /// The replica has begun to serve in a view.
    fn on_normal(&mut self, view: View);

    /// The replica has fallen silent to change views.
    fn on_view_changing(&mut self, view: View);

    /// The replica is no member any more, and nobody needs it.
    fn on_retired(&mut self);

    /// So many replicas have lost their records that the group cannot recover by itself.
    fn on_lost(&mut self, lost: usize);

    /// A number that no earlier life of this replica has used.
    fn nonce(&mut self) -> u64;

    /// Why a message is dropped.
    fn ignored(&mut self, reason: &'static str);
}

/// The replica's part in inconsistent replication.
#[derive(Debug)]
pub struct Replica<O: Operations> {
    succession: Succession,
    /// The members of the group.
    group: Members,
    /// These, and those before them.
    everybody: Vec<ReplicaIndex>,
    me: ReplicaIndex,
    status: Status,
    view: View,
    record: Record<O>,
    change: ViewChange<O>,
    /// Which life it is of those replicas that have lost their records; of the others it is the first, zero.
    lives: BTreeMap<ReplicaIndex, u64>,
    /// True from a restart until the replica is normal again.
    restarted: bool,
    view_change_timeout: Duration,
    page_bytes_max: usize,
    /// Below this everything has ended, everywhere, and may be collected.
    floor: Timestamp,
    /// Below this everything that can ever take effect has been executed here.
    complete: Timestamp,
    /// Pages of a snapshot, while the replica is rebuilt, of whose end nothing is known yet.
    snapshot: Vec<O::State>,
    /// The floor of the snapshot of which pages are being read back one by one.
    snapshot_below: Option<Timestamp>,
    /// How far the record has been collected below the present floor; none once all of it has.
    collecting: Option<Option<Cursor>>,
    mistake: Option<Mistake>,
}

impl<O: Operations> Replica<O> {
    /// A new replica, empty. In a group that is being created it is normal in view 0. In one that exists it is as one that was
    /// there then and has heard of nothing since: what view 0 began with, which is nothing, it has.
    pub fn initialise(
        group: impl Into<Succession>,
        me: ReplicaIndex,
        view_change_timeout: Duration,
        page_bytes_max: usize,
    ) -> Self {
        let succession = group.into();
        let mut record = Record::default();
        record.enter_lineage(None, View(0));
        let is_first = succession.present.since == Epoch::FIRST;
        Replica {
            succession,
            group: succession.present.members,
            everybody: succession.everybody(),
            me,
            status: if is_first { Status::Normal } else { Status::ViewChanging },
            view: View(0),
            record,
            change: ViewChange::default(),
            lives: BTreeMap::new(),
            restarted: false,
            view_change_timeout,
            page_bytes_max,
            floor: Timestamp::ZERO,
            complete: Timestamp::ZERO,
            snapshot: Vec::new(),
            snapshot_below: None,
            collecting: None,
            mistake: None,
        }
    }

    /// A replica without its record.
    pub fn lost(
        group: impl Into<Succession>,
        me: ReplicaIndex,
        view_change_timeout: Duration,
        page_bytes_max: usize,
    ) -> Self {
        let initial = Self::initialise(group, me, view_change_timeout, page_bytes_max);
        Replica { status: Status::Recovering, record: Record::default(), ..initial }
    }

    /// The same replica with a planted mistake. For tests and the simulator only.
    pub fn with_mistake(self, mistake: Option<Mistake>) -> Self {
        Replica { mistake, ..self }
    }

    pub(crate) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The status of the replica.
    pub fn status(&self) -> Status {
        self.status
    }

    /// True if the replica answers proposals: only in a view that has started (T7).
    pub fn is_answering(&self) -> bool {
        let changing = self.status == Status::ViewChanging && self.makes(Mistake::AnswersWhileChanging);
        self.status == Status::Normal || changing
    }

    /// Its view: the one it serves in, or the one it wants to enter.
    pub fn view(&self) -> View {
        self.view
    }

    /// Its record.
    pub fn record(&self) -> &Record<O> {
        &self.record
    }

    /// The members of its group.
    pub fn group(&self) -> Members {
        self.group
    }

    /// True if operations take effect on arrival. With f = 1 the hold of a prepare that released on arrival still
    /// cannot be lost: a fast quorum is the whole group, so two holds remain, and one of them is in every majority.
    /// With f > 1 it could be (T24), so operations run only once f + 1 replicas have recorded them. So do those that only let go
    /// (T48): ⌈f/2⌉ + 1 replicas may vote for a successor because they have let go, and a majority without them still holds what was
    /// made final, which outweighs the successor's votes in a view change.
    fn executes_on_arrival(&self) -> bool {
        self.group.failures() <= 1 || self.makes(Mistake::RunsOnArrival)
    }

    /// The other replicas of the group; and those before them, as long as they are needed.
    fn others(&self) -> impl Iterator<Item = ReplicaIndex> + use<O> {
        let me = self.me;
        let others = if self.has_arrived() { self.group.as_slice().to_vec() } else { self.everybody.clone() };
        others.into_iter().filter(move |index| *index != me)
    }

    /// Takes back, while the machine is rebuilt, one fact that had been persisted, with the effects of its operation. Acts of the replica then do not
    /// matter: see [`Replica::finish_restore`].
    pub fn restore<P: Upcalls<O>>(&mut self, fact: Fact<O>, protocol: &mut P) {
        match fact {
            Fact::Initialised => {}
            Fact::ViewEntered(view) => self.view = view,
            Fact::LifeNoted { replica, life } => drop(self.lives.insert(replica, life)),
            Fact::ConsensusRecorded { id, operation, verdict } => {
                protocol.restore_consensus(id, &operation, &verdict);
                // An end that a floor had made superfluous was collected before this was recorded: a log does not tell when.
                // A client that lies says of a transaction that has ended that it goes on, at a later timestamp.
                self.record.collect_one(id.transaction, self.floor);
                let entry = ConsensusEntry { number: id.number, operation, verdict, state: State::Tentative };
                self.record.record_consensus(id.transaction, entry);
            }
            Fact::ConsensusFinalized { id, verdict, ballot } => {
                if let Some(known) = self.record.consensus(id) {
                    protocol.finalize_consensus(id, &known.operation, &verdict, false);
                    self.record.finalize_consensus(id, verdict, ballot);
                }
            }
            Fact::InconsistentRecorded { transaction, operation, executed } => {
                self.restore_inconsistent(transaction, operation, executed, protocol);
            }
            Fact::ProposalTookEffect { id, last, executed } => {
                let proposed = self.record.consensus(id);
                let proposed = proposed.unwrap_or_else(|| panic!("the log lacks the verdict on {id:?}"));
                let operation = O::of_proposed(&proposed.operation, last);
                self.restore_inconsistent(id.transaction, operation, executed, protocol);
            }
            Fact::InconsistentExecuted(transaction) => {
                if let Some(entry) = self.record.inconsistent(transaction) {
                    protocol.execute_inconsistent(transaction, &entry.operation);
                    self.record.mark_executed(transaction);
                }
            }
            Fact::ViewPage { view, page } => self.change.restored(view).pages.push(page),
            Fact::ViewState { view, state } => self.change.restored(view).states.push(state),
            Fact::Refusing(below) => protocol.bounds_mut().refuse_below(below),
            Fact::Completed(below) => {
                protocol.bounds_mut().complete_below(below);
                self.complete = self.complete.max(below);
            }
            Fact::FloorRaised(floor) => self.set_floor(floor, protocol),
            Fact::SnapshotBegun { view, lineage, floor, complete, lives, supplement } => {
                protocol.adopt_supplement(&supplement);
                self.lives = lives;
                self.record.restore_lineage(lineage);
                self.view = view;
                self.complete = self.complete.max(complete);
                self.set_floor(floor, protocol);
            }
            Fact::SnapshotPage { state, below: Some(below) } => {
                // Operations that have run before left below the floor what the pages say; those in between ran in this order when the pages were written.
                if self.snapshot_below.replace(below).is_none() {
                    protocol.forget_state_below(below);
                }
                protocol.install_state(state);
            }
            Fact::SnapshotPage { state, below: None } => self.snapshot.push(state),
            Fact::SnapshotEnded(floor) => {
                let said = self.snapshot_below.take();
                assert!(said.is_none_or(|said| said == floor), "pages from below {said:?} end below {floor}");
                if said.is_none() {
                    protocol.forget_state_below(floor);
                }
                for state in std::mem::take(&mut self.snapshot) {
                    protocol.install_state(state);
                }
                protocol.on_state_installed();
            }
            Fact::ViewInstalled { view, since, supplement, floor, kept } => {
                let mut received = Received { kept, ..self.change.take_restored(view) };
                protocol.adopt_supplement(&supplement);
                let states = std::mem::take(&mut received.states);
                self.adopt(view, since, floor.map(|floor| (floor, states)), &received, protocol);
                self.view = view;
            }
        }
    }

    fn restore_inconsistent<P: Upcalls<O>>(
        &mut self,
        transaction: TransactionId,
        operation: O::Inconsistent,
        executed: bool,
        protocol: &mut P,
    ) {
        if executed {
            protocol.execute_inconsistent(transaction, &operation);
        }
        // As above: the transaction ended below the floor, and is said to end once more, above it.
        self.record.collect_one(transaction, self.floor);
        self.record.record_inconsistent(transaction, operation, executed);
    }

    /// Ends a restore: whatever the replica did before, it has missed something since, so it must change views before it
    /// serves again. One that never had a record is still without.
    pub fn finish_restore(&mut self) {
        self.restarted = true;
        self.status =
            if self.record.last_normal().is_some() { Status::ViewChanging } else { Status::Recovering };
    }

    /// Installs the record of a view and repeats its effects, with the state that takes the place of what lies below a floor, if that came with it.
    fn adopt<P: Upcalls<O>>(
        &mut self,
        view: View,
        since: Option<View>,
        state: Option<(Timestamp, impl IntoIterator<Item = O::State>)>,
        received: &Received<O>,
        protocol: &mut P,
    ) {
        for (id, operation) in self.record.forget_consensus_beyond(since) {
            protocol.forget_consensus(id, &operation);
        }
        if let Some((floor, states)) = state {
            self.replace_state(floor, states, protocol);
        }
        // Before the pages: what they tell as news has ended since the view began, and is in no base, wherever it lies.
        self.record.settle_ended(view, &received.kept);
        for page in &received.pages {
            let page = &self.without_settled(page);
            for (transaction, entries) in &page.entries {
                if let Some(entry) = &entries.inconsistent {
                    self.execute_if_new(*transaction, &entry.operation, protocol);
                } else if self.record.inconsistent(*transaction).is_none_or(|known| !known.executed) {
                    // A transaction that has run here needs no verdicts any more, even if the leader had not heard of it.
                    for entry in &entries.consensus {
                        let id = OperationId { transaction: *transaction, number: entry.number };
                        protocol.finalize_consensus(id, &entry.operation, &entry.verdict, true);
                    }
                }
            }
            self.record.install(view, page);
        }
        self.record.enter_lineage(since, view);
    }

    fn execute_if_new<P: Upcalls<O>>(
        &mut self,
        transaction: TransactionId,
        operation: &O::Inconsistent,
        protocol: &mut P,
    ) {
        if !self.record.inconsistent(transaction).is_some_and(|known| known.executed) {
            protocol.execute_inconsistent(transaction, operation);
        }
    }
}
