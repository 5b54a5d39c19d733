//! The replica: one member of one shard's group.
//!
//! It records puts through inconsistent replication and lets them take effect at once; of each key the version with the latest
//! timestamp counts. It answers reads from what it has.
//!
//! A put reaches every replica that is up, and is acknowledged once f + 1 have it. What a replica misses all the same, because
//! it was cut off or because the client died, it is told by the others: see `floor`.
//!
//! | file | role |
//! |---|---|
//! | `store` | what is kept, and how puts run: the upcalls of inconsistent replication |
//! | `reads` | gets and scans |
//! | `floor` | comparing, and finding a floor, below which records and old versions are collected |
//! | `desk` | how inconsistent replication sends and persists through this machine |

mod desk;
mod floor;
mod reads;
mod store;

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::hosted::{Boot, Status};
use quorate_core::machine::OutboxOf;
use quorate_core::{
    Address, Context, Effect, Epoch, Input, Machine, Random, ReplicaIndex, Timestamp, TransactionId, View,
};
use quorate_ir::{Fact, OperationId, Upcalls};
use quorate_store::Versions;

use crate::config::ReplicaConfig;
use crate::message::{Message, Put, QwStore};
use crate::record::Record;
use crate::rules::{Plant, mistake};
use desk::Desk;
use floor::{COLLECTED_AT_REST_MAX, COLLECTED_WITH_PUT_MAX, Floors};
use store::Store;

type Ir = quorate_ir::Message<QwStore>;

/// What a replica asks to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaTimer {
    /// A view change has taken too long.
    ViewChange,
    /// Time to look whether there is something to compare, to collect or to write down again.
    Sweep,
}

/// What a replica tells its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// It serves in this view.
    Normal {
        /// The view.
        view: View,
    },
    /// It is silent until this view, or a later one, has started.
    ViewChanging {
        /// The view.
        view: View,
    },
    /// Somebody speaks under a later membership: whoever hosts this replica should learn of it.
    Outdated {
        /// That membership.
        epoch: Epoch,
    },
    /// So many replicas of the group have lost their records that the group cannot recover by itself: an operator must
    /// bring back the disk of one of them.
    Lost {
        /// How many have lost their records, this one included.
        lost: usize,
    },
}

/// What a replica keeps although nothing may ask for it any more, in entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Puts in its record that lie below the floor.
    pub recorded: usize,
    /// Versions that are below the floor and not the newest there, and deletions below it.
    pub versions: usize,
}

impl Remains {
    /// Each kind of thing that is left, with its number.
    pub fn left(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let all = [("recorded puts", self.recorded), ("versions", self.versions)];
        all.into_iter().filter(|(_, number)| *number > 0)
    }
}

/// A replica of a shard.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    ir: quorate_ir::Replica<QwStore>,
    store: Store,
    floors: Floors,
    /// True if the replica's creation is not on disk yet.
    newborn: bool,
    /// The greatest membership that it has heard of.
    newest_epoch: Epoch,
}

impl Machine for Replica {
    type Message = Message;
    type Timer = ReplicaTimer;
    type Record = Record;
    type Command = Infallible;
    type Event = ReplicaEvent;
    type Config = ReplicaConfig;

    fn restore(config: ReplicaConfig, records: impl IntoIterator<Item = Record>) -> Self {
        let records: Vec<Record> = records.into_iter().collect();
        let restarted = !records.is_empty();
        let created = matches!(records.first(), Some(Record::Initialised));
        let creates = config.boot == Boot::Initialise || config.rules.has(Plant::EmptyDiskBeginsAnew);
        let newborn = !restarted && creates;
        let (group, me) = (config.group, config.replica.index);
        let build =
            if created || newborn { quorate_ir::Replica::initialise } else { quorate_ir::Replica::lost };
        let ir = build(group, me, config.view_change_timeout, config.page_bytes_max);
        let mut replica = Replica {
            ir: ir.with_mistake(mistake(config.rules)),
            store: Store::default(),
            floors: Floors::default(),
            newborn,
            newest_epoch: config.epoch,
            config,
        };
        for record in quorate_ir::since_last_snapshot(records, Record::mark) {
            replica.ir.note_written(1);
            replica.replay(record);
        }
        if restarted {
            replica.ir.finish_restore();
            while replica.collect(COLLECTED_AT_REST_MAX) {}
        }
        replica
    }

    fn epoch(&self, _: Address) -> Epoch {
        self.config.epoch
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, ReplicaTimer, Infallible>,
        outbox: &mut OutboxOf<Self>,
    ) {
        let emitted_before = outbox.effects().len();
        match input {
            Input::Start => self.on_start(context, outbox),
            Input::Message { from, epoch, message } if epoch == self.config.epoch => {
                self.on_message(from, message, context, outbox);
            }
            Input::Message { from, epoch, .. } => self.on_other_epoch(from, epoch, outbox),
            Input::Timer(ReplicaTimer::ViewChange) => {
                self.with_desk(context.random, outbox, |ir, desk| ir.on_view_change_timeout(desk));
            }
            Input::Timer(ReplicaTimer::Sweep) => self.on_sweep_timeout(context, outbox),
            Input::Persisted(_) => {}
            Input::Command(never) => match never {},
        }
        let emitted = &outbox.effects()[emitted_before..];
        let written = emitted.iter().filter(|effect| matches!(effect, Effect::Persist { .. })).count();
        self.ir.note_written(written);
    }
}

impl Replica {
    fn replay(&mut self, record: Record) {
        let fact = match record {
            Record::Initialised => return,
            Record::ViewEntered { view } => Fact::ViewEntered(view),
            Record::LifeNoted { replica, life } => Fact::LifeNoted { replica, life },
            Record::PutRecorded { put, operation } => {
                Fact::InconsistentRecorded { transaction: put, operation, executed: true }
            }
            Record::ViewPage { view, page } => Fact::ViewPage { view, page },
            Record::ViewState { view, state } => Fact::ViewState { view, state },
            Record::ViewInstalled { view, since, supplement, floor } => {
                Fact::ViewInstalled { view, since, supplement, floor }
            }
            Record::Refusing { below } => return self.store.refuse_below(below),
            Record::Completed { below } => {
                self.store.complete = self.store.complete.max(below);
                Fact::Completed(below)
            }
            Record::FloorRaised { floor } => Fact::FloorRaised(floor),
            Record::SnapshotBegun { view, lineage, floor, complete, supplement, lives } => {
                self.store.adopt_supplement(&supplement);
                Fact::SnapshotBegun { view, lineage, floor, complete, lives }
            }
            Record::SnapshotPage { state } => Fact::SnapshotPage(state),
            Record::SnapshotEnded { floor } => Fact::SnapshotEnded { floor },
        };
        self.ir.restore(fact, &mut self.store);
    }

    fn on_start(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        if self.newborn {
            outbox.persist(Record::Initialised);
            self.newborn = false;
        }
        outbox.set_timer(ReplicaTimer::Sweep, self.config.sweep_interval);
        self.with_desk(context.random, outbox, |ir, desk| ir.start(desk));
    }

    /// Lends inconsistent replication what it needs of this machine.
    fn with_desk<T>(
        &mut self,
        random: &mut Random,
        outbox: &mut OutboxOf<Self>,
        act: impl FnOnce(&mut quorate_ir::Replica<QwStore>, &mut Desk<'_>) -> T,
    ) -> T {
        let (shard, rules) = (self.config.replica.shard, self.config.rules);
        act(&mut self.ir, &mut Desk { shard, rules, store: &mut self.store, random, outbox })
    }

    /// Something was said under another membership. It counts for nothing here: quorums of two memberships need not share
    /// a replica.
    fn on_other_epoch(&mut self, from: Address, epoch: Epoch, outbox: &mut OutboxOf<Self>) {
        if epoch < self.config.epoch {
            // Reveals nothing but the configuration, which this replica cannot forget.
            outbox.send_unordered(from, Message::Outdated);
        } else if epoch > self.newest_epoch {
            self.newest_epoch = epoch;
            outbox.emit(ReplicaEvent::Outdated { epoch });
        }
    }

    fn on_message(
        &mut self,
        from: Address,
        message: Message,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        match message {
            Message::Read { transaction, key } => self.on_read(from, transaction, key, outbox),
            Message::Scan { transaction, request, range, limit } => {
                self.on_scan(from, transaction, request, &range, limit, outbox);
            }
            Message::Ir(Ir::ProposeInconsistent { id, operation }) => {
                self.on_put(from, id, operation, context, outbox);
            }
            Message::Ir(Ir::HigherView { view }) => {
                self.with_desk(context.random, outbox, |ir, desk| ir.on_higher_view(from, view, desk));
            }
            Message::Ir(message) => {
                if let Some(peer) = self.peer(from) {
                    self.on_view_change(peer, message, context, outbox);
                }
            }
            Message::Gather { .. }
            | Message::GatherReply { .. }
            | Message::FetchPuts { .. }
            | Message::Puts { .. }
            | Message::Complete { .. }
            | Message::CompleteReply { .. }
            | Message::RaiseFloor { .. } => {
                if let Some(peer) = self.peer(from) {
                    self.on_floor_message(peer, message, context, outbox);
                }
            }
            // Answers that only coordinators ask for; and a replica of this membership is not outdated by another.
            Message::ReadReply { .. }
            | Message::ScanReply { .. }
            | Message::Late { .. }
            | Message::ClockAhead { .. }
            | Message::Outdated => {}
        }
    }

    /// A put is recorded and takes effect, if its timestamp may be taken.
    fn on_put(
        &mut self,
        from: Address,
        id: OperationId,
        operation: Arc<Put>,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        // Nobody puts in another's name: two puts with one id or one timestamp would be taken for one.
        let (put, timestamp) = (id.transaction, operation.timestamp);
        let is_own = from == Address::Client(put.client) && timestamp.client == put.client;
        if !is_own || id.number != OperationId::INCONSISTENT || self.ir.status() != Status::Normal {
            return;
        }
        if self.ir.record().inconsistent(put).is_none() {
            let allowed = context.clock.saturating_add(self.config.timestamp_ahead_max);
            if timestamp.micros > allowed.as_micros() {
                let ahead_micros = timestamp.micros - context.clock.as_micros();
                let ahead_max_micros = self.config.timestamp_ahead_max.as_micros() as u64;
                // About the clock and nothing else, so it need not wait for the disk.
                outbox.send_unordered(from, Message::ClockAhead { put, ahead_micros, ahead_max_micros });
                return;
            }
            if timestamp < self.store.refusal && !self.config.rules.has(Plant::LatePutsTaken) {
                // Whoever hears it twice puts twice, which does no harm.
                let (refusal, clock) = (self.store.refusal, context.clock);
                outbox.send_unordered(from, Message::Late { put, refusal, clock });
                return;
            }
        }
        self.with_desk(context.random, outbox, |ir, desk| {
            ir.on_propose_inconsistent(from, id, operation, desk);
        });
        self.collect(COLLECTED_WITH_PUT_MAX);
    }

    /// A message of a view change, from another replica of the group.
    fn on_view_change(
        &mut self,
        peer: ReplicaIndex,
        message: Ir,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        self.with_desk(context.random, outbox, |ir, desk| match message {
            Ir::StartViewChange { view } => ir.on_start_view_change(peer, view, desk),
            Ir::DoViewChange {
                view,
                last_normal,
                lineage,
                part,
                page,
                supplement,
                floor,
                complete,
                lives,
            } => {
                ir.on_do_view_change(
                    peer,
                    view,
                    last_normal,
                    lineage,
                    part,
                    page,
                    supplement,
                    floor,
                    complete,
                    &lives,
                    desk,
                );
            }
            Ir::StartView { view, since, part, page, supplement, floor, state } => {
                ir.on_start_view(view, since, part, page, supplement, floor, state, desk);
            }
            Ir::PartsMissing { view, series, missing } => {
                ir.on_parts_missing(peer, view, series, &missing, desk);
            }
            Ir::ViewQuery { nonce, life } => ir.on_view_query(peer, nonce, life, desk),
            Ir::ViewQueryReply { nonce, view, lost, life } => {
                ir.on_view_query_reply(peer, nonce, view, lost, life, desk);
            }
            // Its groups never change. Puts have been dealt with; they need no FINALIZE, and there is nothing else to agree on.
            Ir::ProposeInconsistent { .. }
            | Ir::ProposeConsensus { .. }
            | Ir::InconsistentReply { .. }
            | Ir::ConsensusReply { .. }
            | Ir::FinalizeInconsistent { .. }
            | Ir::FinalizeConsensus { .. }
            | Ir::Confirm { .. }
            | Ir::Arrived
            | Ir::HigherView { .. } => {}
        });
    }

    /// The sender, if it is another member of this group: only those take part in view changes.
    fn peer(&self, from: Address) -> Option<ReplicaIndex> {
        match from {
            Address::Replica(replica)
                if replica.shard == self.config.replica.shard
                    && replica != self.config.replica
                    && usize::from(replica.index.0) < self.config.group.replicas() =>
            {
                Some(replica.index)
            }
            _ => None,
        }
    }

    fn on_sweep_timeout(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        outbox.set_timer(ReplicaTimer::Sweep, self.config.sweep_interval);
        if self.ir.status() != Status::Normal {
            return;
        }
        self.sweep_floor(context, outbox);
        let (records_min, page_max) = (self.config.snapshot_records_min, self.config.floor_page_max);
        self.with_desk(context.random, outbox, |ir, desk| ir.shorten(records_min, page_max, desk));
        if self.floors.is_behind(context.now, self.config.view_change_timeout) {
            self.with_desk(context.random, outbox, |ir, desk| ir.become_current(desk));
        }
    }

    /// What the replica is doing.
    pub fn status(&self) -> Status {
        self.ir.status()
    }

    /// Its view.
    pub fn view(&self) -> View {
        self.ir.view()
    }

    /// The versions that it stores.
    pub fn versions(&self) -> &Versions {
        &self.store.versions
    }

    /// The floor: everything below it has been compared, and is being collected.
    pub fn floor(&self) -> Timestamp {
        self.ir.floor()
    }

    /// How many puts its record holds.
    pub fn record_len(&self) -> usize {
        self.ir.record().len()
    }

    /// True if its record holds this put.
    pub fn holds(&self, put: TransactionId) -> bool {
        self.ir.record().holds(put)
    }

    /// What it remembers of what has ended. Looks at everything that it keeps.
    pub fn remains(&self) -> Remains {
        let floor = self.ir.floor();
        Remains {
            recorded: self.ir.record().overdue(floor),
            versions: self.store.versions.superfluous(floor),
        }
    }
}
