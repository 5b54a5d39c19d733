//! A machine that is a member of a group of inconsistent replication.
//!
//! ```text
//!   message, timer ──► Member ── proposals, view changes ──► Replica ── operations ──► Upcalls of the protocol
//!                        │  ▲                                  │
//!                        │  └─ hooks: what a protocol adds     └─ Desk: sends, records, events ──► outbox
//!                        └─ search for a floor, shortening of the log
//! ```
//!
//! A replica of a protocol owns three things and lends them to each call: its [`Replica`], the state on which operations run
//! ([`Upcalls`]), and a [`MemberState`]. [`Member`] brings all that is the same whatever the operations mean: how the machine begins,
//! is rebuilt and speaks, view changes, other memberships, floors and snapshots. A difference between protocols is a required
//! item, or a hook with a default.
//!
//! | file | role |
//! |---|---|
//! | `desk` | how the replica sends and persists |
//! | `event` | what a host is told |
//! | `state` | what a member keeps of all this, and what it begins with |
//! | [`search`] | how the group finds a floor, below which everything has ended and is collected |
//! | `postponed` | what clients ask of a silent replica |
//! | `differences` | how pages of two records differ |
//! | `shortening` | how the log is shortened |
//! | [`counterparts!`](crate::counterparts) | the table between shared messages and records and those of a protocol |

mod counterparts;
mod desk;
mod differences;
mod event;
mod postponed;
pub mod search;
mod shortening;
mod state;

use quorate_core::machine::{Effect, EffectOf, OutboxOf};
use quorate_core::{Address, Context, Epoch, Instant, Machine, Random, ReplicaId, ReplicaIndex};

use crate::{
    Cursor, Fact, FloorMessage, Message, Mistake, OperationId, Operations, Replica, Status, Upcalls,
};
pub use desk::Desk;
pub use event::MemberEvent;
pub use postponed::Postponed;
use search::Searching;
pub use search::{Reached, SearchSettings};
pub use state::{Beginning, Kept, MemberSettings, MemberState, Parts};

/// So many transactions and keys are looked at, to collect them, with each operation that arrives: more than one, so that
/// more is dropped than comes.
const COLLECTED_WITH_OPERATION_MAX: usize = 4;

/// So many are looked at when nothing arrives.
const COLLECTED_AT_REST_MAX: usize = 4_096;

/// A machine whose replica is a member of a group.
pub trait Member<O: Operations>:
    Machine<Message: From<Message<O>> + From<FloorMessage<O>>, Record: From<Fact<O>>, Event = MemberEvent>
{
    /// The state on which operations run.
    type Protocol: Upcalls<O>;

    /// The timer of view changes.
    const VIEW_CHANGE: Self::Timer;

    /// True if no operation is ever open: there are no consensus operations, and every other runs where it arrives.
    const NOTHING_IS_OPEN: bool = false;

    /// True if a search is given up as soon as the floor of another member has passed its goal; else it goes on until its time is over,
    /// and makes the others refuse what they refuse already.
    const ENDS_WHEN_PASSED: bool = false;

    /// True if a search is given up as soon as the clock here does not reach its goal any more: the clock was wild when it began (T49).
    /// Else it goes on until its time is over, and a second wild clock may make a replica refuse everything below that goal.
    const ENDS_WHEN_WILD: bool = true;

    /// Which replica it is.
    fn id(&self) -> ReplicaId;

    /// Its part in inconsistent replication.
    fn ir(&self) -> &Replica<O>;

    /// All its parts.
    fn parts(&mut self) -> Parts<'_, O, Self::Protocol>;

    /// The fact that a record stands for, or the record if it is the protocol's own.
    ///
    /// # Errors
    /// The record is the protocol's own.
    fn fact(record: Self::Record) -> Kept<O, Self::Record>;

    /// The answer to a sender that speaks under an earlier membership.
    fn outdated() -> Self::Message;

    /// How many keys there are.
    fn keys(protocol: &Self::Protocol) -> usize;

    /// Drops versions that the floor makes superfluous; looks at `max` keys at most. True if more is left to do.
    fn collect_versions(&mut self, max: usize) -> bool;

    /// The others have collected something that this replica does not have.
    fn note_behind(&mut self);

    /// True if a message need not wait for the disk: never, but for a planted bug.
    fn overtakes_disk(_: &Self::Protocol, _: &Message<O>) -> bool {
        false
    }

    /// The record of a new view is complete: what travels beside it is in force.
    fn on_installing(_: &mut Self::Protocol) {}

    /// A view has started, or has been restored.
    fn on_serving(&mut self) {}

    /// Takes back, while the machine is rebuilt, a record of the protocol's own.
    fn restore_own(&mut self, _: Self::Record) {}

    /// A record has been taken back.
    fn on_restored(&mut self) {}

    /// Every record has been taken back.
    fn on_rebuilt(&mut self) {}

    /// A snapshot begins: what else a restart needs of the time before is written down.
    fn on_snapshot_begun(&mut self, _: &mut OutboxOf<Self>) {}

    /// True if it may remember something that a higher floor lets it forget. While no member does, no floor is searched for.
    fn remembers(&self) -> bool {
        true
    }

    /// True if somebody waits for the floor: then this member searches for one at every sweep, and nearer to the clock.
    fn hurries(&self) -> bool {
        false
    }

    /// A search for a floor begins at this place.
    fn on_search(&mut self, _: Cursor) {}

    /// Something has run here late, so that the search goes back to this place.
    fn on_stepped_back(&mut self, _: Cursor) {}

    /// Has transactions settled that hold a floor up.
    fn have_settled(&self, _: &[Cursor], _: Instant, _: &mut OutboxOf<Self>) {}

    /// The place below which the protocol agrees to a floor; none if it would rather wait.
    fn confirm(&mut self, reached: Reached, _: &mut OutboxOf<Self>) -> Option<Cursor> {
        Some(reached.to)
    }

    /// Repeats what has been asked to confirm a floor.
    fn ask_again(&mut self, _: Instant, _: &mut OutboxOf<Self>) {}

    /// True if an operation that another member has run is taken over.
    fn learns(&self, _: &O::Inconsistent) -> bool {
        true
    }

    /// Rebuilds the member from its records.
    ///
    /// A floor drops transactions from the record where it was raised: else everything that has ended since the last snapshot would be in
    /// memory at once. Before the restart they may have been dropped later; nothing that was written down meanwhile needs them, because a
    /// transaction that has ended below the floor is settled from then on. Versions wait for the end: pages of a snapshot may still come, which
    /// say from where on versions are retained.
    fn rebuild(&mut self, beginning: Beginning<impl Iterator<Item = Kept<O, Self::Record>>>) {
        let restarted = beginning.restarted;
        for record in beginning.records {
            self.parts().state.shortening.note_restored(record.as_ref().ok());
            let raises_floor = matches!(record, Ok(Fact::FloorRaised(_)));
            match record {
                Ok(fact) => self.restore_fact(fact),
                Err(own) => self.restore_own(own),
            }
            self.on_restored();
            let forgets = raises_floor && !self.ir().makes(Mistake::CollectsNothing);
            while forgets && self.parts().ir.collect(COLLECTED_AT_REST_MAX) {}
        }
        self.on_rebuilt();
        if restarted {
            self.parts().ir.finish_restore();
            while self.collect(COLLECTED_AT_REST_MAX) {}
        }
    }

    /// Takes back, while the machine is rebuilt, a fact.
    fn restore_fact(&mut self, fact: Fact<O>) {
        let installs = matches!(fact, Fact::ViewInstalled { .. });
        let Parts { ir, protocol, .. } = self.parts();
        ir.restore(fact, protocol);
        if installs {
            Self::on_installing(protocol);
            self.on_serving();
        }
    }

    /// Writes down that the replica was created, if it has just been.
    fn write_creation(&mut self, outbox: &mut OutboxOf<Self>) {
        if std::mem::take(&mut self.parts().state.newborn) {
            outbox.persist(Fact::Initialised.into());
        }
    }

    /// Lends inconsistent replication what it needs of this machine.
    fn with_desk(
        &mut self,
        random: &mut Random,
        outbox: &mut OutboxOf<Self>,
        act: impl FnOnce(&mut Replica<O>, &mut Desk<'_, O, Self>),
    ) {
        let shard = self.id().shard;
        let Parts { ir, protocol, state } = self.parts();
        let before = (ir.status(), ir.view());
        act(ir, &mut Desk { shard, protocol, random, outbox, shortening: &mut state.shortening });
        let now = (ir.status(), ir.view());
        if before != now && now.0 == Status::Normal {
            self.on_serving();
        }
    }

    /// The sender, if it takes part in the view changes of this group.
    fn peer(&self, from: Address) -> Option<ReplicaIndex> {
        match from {
            Address::Replica(replica)
                if replica.shard == self.id().shard && self.ir().is_peer(replica.index) =>
            {
                Some(replica.index)
            }
            _ => None,
        }
    }

    /// Something was said under another membership. It counts for nothing here: quorums of two memberships need not share
    /// a replica.
    fn on_other_epoch(&mut self, from: Address, epoch: Epoch, outbox: &mut OutboxOf<Self>) {
        if epoch < self.epoch(from) {
            // Reveals nothing but the configuration, which this replica cannot forget.
            outbox.send_unordered(from, Self::outdated());
        } else if self.parts().state.note_epoch(epoch) {
            outbox.emit(MemberEvent::Outdated { epoch });
        }
    }

    /// A message of a view change, which only members say, or the hint that there has been one. Proposals, and replies to them, are
    /// the protocol's to deal with.
    fn on_view_message(
        &mut self,
        from: Address,
        message: Message<O>,
        random: &mut Random,
        outbox: &mut OutboxOf<Self>,
    ) {
        if let Message::HigherView { view } = message {
            self.with_desk(random, outbox, |ir, desk| ir.on_higher_view(from, view, desk));
        } else if let Some(peer) = self.peer(from) {
            self.with_desk(random, outbox, |ir, desk| ir.on_view_message(peer, message, desk));
        }
    }

    /// A message of the search for a floor, which only members say.
    fn on_floor_message(
        &mut self,
        from: Address,
        message: FloorMessage<O>,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if let Some(peer) = self.peer(from) {
            Searching::new(self, context, outbox).on_message(peer, message);
        }
    }

    /// An inconsistent operation is proposed.
    fn on_inconsistent(
        &mut self,
        from: Address,
        id: OperationId,
        operation: O::Inconsistent,
        random: &mut Random,
        outbox: &mut OutboxOf<Self>,
    ) {
        self.with_desk(random, outbox, |ir, desk| ir.on_propose_inconsistent(from, id, operation, desk));
        self.collect(COLLECTED_WITH_OPERATION_MAX);
    }

    /// The same, if the protocol tells the proposer itself that it is recorded. False if it is not to be told.
    fn record_inconsistent(
        &mut self,
        id: OperationId,
        operation: O::Inconsistent,
        random: &mut Random,
        outbox: &mut OutboxOf<Self>,
    ) -> bool {
        let mut is_recorded = false;
        self.with_desk(random, outbox, |ir, desk| is_recorded = ir.record_inconsistent(id, operation, desk));
        self.collect(COLLECTED_WITH_OPERATION_MAX);
        is_recorded
    }

    /// Drops some of what the floor makes superfluous; looks at `max` transactions and keys at most. True if more is left
    /// to do.
    fn collect(&mut self, max: usize) -> bool {
        if self.ir().makes(Mistake::CollectsNothing) {
            return false;
        }
        if self.ir().is_read_from() {
            // Another replica is given what is there.
            return false;
        }
        let more_versions = self.collect_versions(max);
        self.parts().ir.collect(max) || more_versions
    }

    /// Drops what has become superfluous while nothing arrived.
    fn collect_at_rest(&mut self) {
        self.collect(COLLECTED_AT_REST_MAX);
    }

    /// Begins, repeats or gives up the search for a floor.
    fn sweep_search(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        Searching::new(self, context, outbox).sweep();
    }

    /// Goes on with the search for a floor, because an answer has come.
    fn advance_search(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        Searching::new(self, context, outbox).advance();
    }

    /// Begins a snapshot, or writes a page of it.
    fn sweep_snapshot(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        shortening::sweep(self, context, outbox);
    }

    /// Counts the records that a step has emitted: the log is shortened after so many.
    fn count_records(&mut self, effects: &[EffectOf<Self>]) {
        let written = effects.iter().filter(|effect| matches!(effect, Effect::Persist { .. })).count();
        self.parts().state.shortening.note_written(written);
    }
}
