//! The replica: one member of one shard's group.
//!
//! It records puts through inconsistent replication and lets them take effect at once; of each key the version with the latest
//! timestamp counts. It answers reads from what it has.
//!
//! A put reaches every replica that is up, and is acknowledged once f + 1 have it. A put that a replica misses all the same, because
//! it was cut off or because the client died, it is told by the others, as they search for a floor below which records and old
//! versions can be collected: see [`quorate_ir::member::search`]. A put that was acknowledged is held by f + 1 replicas, and f + 1
//! have refused new ones below the floor before they said what they hold: one of them holds it, so all that are complete do. A put
//! that only a few hold spreads in the same way.
//!
//! | file | role |
//! |---|---|
//! | `store` | what is kept, and how puts run: the upcalls of inconsistent replication |
//! | `member` | its own part in being a member of a group |

mod member;
mod store;

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::hosted::Status;
use quorate_core::machine::OutboxOf;
use quorate_core::replay::SnapshotPart;
use quorate_core::{Address, Context, Epoch, Input, Machine, Timestamp, TransactionId, View};
use quorate_ir::member::Beginning;
use quorate_ir::{
    FloorMessage, Member, MemberEvent, MemberSettings, MemberState, OperationId, SearchSettings,
};
use quorate_store::{PageLimits, Versions};

use crate::config::ReplicaConfig;
use crate::message::{Message, Put, QwStore};
use crate::record::Record;
use crate::rules::{Plant, mistake};
use member::Lag;
use store::Store;

type Ir = quorate_ir::Message<QwStore>;

/// The reason why a replica asks to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaTimer {
    /// A view change has taken too long.
    ViewChange,
    /// Time to look whether there is something to compare, to collect or to write down again.
    Sweep,
}

/// A message of a replica to its host.
pub type ReplicaEvent = MemberEvent;

/// The entries that a replica keeps although nothing may ask for them any more.
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
    member: MemberState,
    lag: Lag,
}

impl Machine for Replica {
    type Message = Message;
    type Timer = ReplicaTimer;
    type Record = Record;
    type Command = Infallible;
    type Event = ReplicaEvent;
    type Config = ReplicaConfig;

    fn snapshot_part(_: &ReplicaConfig, record: &Record) -> Option<SnapshotPart> {
        match record {
            Record::SnapshotBegun { .. } => Some(SnapshotPart::Begin),
            Record::SnapshotPage { .. } => Some(SnapshotPart::Page),
            Record::SnapshotEnded { .. } => Some(SnapshotPart::End),
            _ => None,
        }
    }

    fn restore(config: ReplicaConfig, records: impl IntoIterator<Item = Record>) -> Self {
        let begins_anew = config.rules.has(Plant::EmptyDiskBeginsAnew);
        let records = records.into_iter().map(Self::fact);
        let mut beginning = Beginning::new(records, config.boot, begins_anew);
        let (group, me) = (config.group, config.replica.index);
        let ir = beginning.replica(group, me, config.view_change_timeout, config.page_bytes_max);
        let mut replica = Replica {
            ir: ir.with_mistake(mistake(config.rules)),
            store: Store::new(config.rules),
            member: beginning.state(config.epoch, settings(&config)),
            lag: Lag::default(),
            config,
        };
        replica.rebuild(beginning);
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
        self.count_records(&outbox.effects()[emitted_before..]);
        assert_eq!(
            self.ir.floor(),
            self.store.bounds.floor,
            "{} collects its record and its versions up to one floor",
            self.config.replica
        );
    }
}

/// The sizes and times that a replica goes by as a member of its group.
fn settings(config: &ReplicaConfig) -> MemberSettings {
    MemberSettings {
        page_bytes_max: config.page_bytes_max,
        snapshot_records_min: config.snapshot_records_min,
        search: SearchSettings {
            interval: config.floor_interval,
            lag: config.floor_lag,
            bytes_max: config.floor_bytes_max,
            lag_min: config.floor_lag_min,
            lag_hurried: config.floor_lag,
            patience: config.floor_patience,
            limit: config.floor_patience * PATIENCES_MAX,
            ahead_max: config.timestamp_ahead_max / 2,
            page_max: config.floor_page_max,
        },
    }
}

/// A search that takes so many times the patience is given up, and begun anew with a later floor.
const PATIENCES_MAX: u32 = 4;

impl Replica {
    fn on_start(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.write_creation(outbox);
        outbox.set_timer(ReplicaTimer::Sweep, self.config.sweep_interval);
        self.with_desk(context.random, outbox, |ir, desk| ir.start(desk));
    }

    fn on_message(
        &mut self,
        from: Address,
        message: Message,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        match message {
            Message::Read { .. } | Message::Scan { .. } if self.ir.status() != Status::Normal => {}
            // Gets and scans are answered by what this replica has, whether or not others have something newer. It may be forgotten
            // again in a crash, as may happen to a client that asks a replica that lags behind: nothing is promised of it. So
            // replies leave without waiting for the disk.
            Message::Read { transaction, key } => {
                let (version, value) = self.store.versions.held(&key);
                outbox.send_unordered(from, Message::ReadReply { transaction, key, version, value });
            }
            Message::Scan { transaction, request, range, limit } => {
                let limits = PageLimits::of_scan(limit, self.config.scan_page_max);
                let (keys, next) = self.store.versions.scan(&range, limits);
                outbox.send_unordered(from, Message::ScanReply { transaction, request, keys, next });
            }
            Message::Ir(Ir::ProposeInconsistent { id, operation }) => {
                self.on_put(from, id, operation, context, outbox);
            }
            // There is nothing else to propose, and puts need no FINALIZE.
            Message::Ir(message) => self.on_view_message(from, message, context.random, outbox),
            Message::Gather { .. }
            | Message::GatherReply { .. }
            | Message::FetchPuts { .. }
            | Message::Puts { .. }
            | Message::Complete { .. }
            | Message::CompleteReply { .. }
            | Message::RaiseFloor { .. } => {
                if let Ok(message) = FloorMessage::try_from(message) {
                    self.on_floor_message(from, message, context, outbox);
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
            if timestamp < self.store.bounds.refusal && !self.config.rules.has(Plant::LatePutsTaken) {
                // A client that hears it twice puts twice, which does no harm.
                let (refusal, clock) = (self.store.bounds.refusal, context.clock);
                outbox.send_unordered(from, Message::Late { put, refusal, clock });
                return;
            }
        }
        self.on_inconsistent(from, id, operation, context.random, outbox);
        let is_held = self.ir.record().holds(put) || timestamp < self.store.bounds.floor;
        assert!(
            is_held || self.ir.status() != Status::Normal,
            "{put} was taken at {timestamp}, and is not recorded"
        );
    }

    fn on_sweep_timeout(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        outbox.set_timer(ReplicaTimer::Sweep, self.config.sweep_interval);
        if self.ir.status() != Status::Normal {
            return;
        }
        self.collect_at_rest();
        self.sweep_search(context, outbox);
        self.sweep_snapshot(context, outbox);
        if self.lag.is_over(context.now, self.config.view_change_timeout) {
            self.with_desk(context.random, outbox, |ir, desk| ir.become_current(desk));
        }
    }

    /// The status of the replica.
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

    /// The entries of ended puts that it remembers. Looks at everything that it keeps.
    pub fn remains(&self) -> Remains {
        let floor = self.ir.floor();
        Remains {
            recorded: self.ir.record().overdue(floor),
            versions: self.store.versions.superfluous(floor),
        }
    }
}
