//! The coordinator: runs a client's transactions, thousands at a time.
//!
//! ```text
//!   Begin ─► executing ─ Commit ─► timestamp ─► prepare ── all have prepared ──► committed, DECIDE to all
//!              │  reads,   │                       └────── one has refused ────► aborted, DECIDE to all
//!              │  writes   └─ writes nothing ─► validate ─► committed, or conflict
//!            Abort
//! ```
//!
//! Where there is a dedicated coordinator, it prepares and tells DECIDE in place of this one, which asks it to commit what more
//! than one shard takes part in. This one asks the only participant of everything else, whose answer is the outcome.
//!
//! The outcome follows from what participants have made durable, so the client hears it with the last vote. DECIDE is not
//! acknowledged: a participant that misses it finds out by itself, as it does when the coordinator dies.
//!
//! | file | role |
//! |---|---|
//! | `execution` | reads, buffered writes, scans, limits |
//! | `asking` | questions to leaders, until they are answered |
//! | `ages` | who began first |
//! | `commit` | timestamp, votes, outcome |
//! | `read_only` | read-only transactions whose keys are known beforehand |
//! | `snapshot` | read-only transactions at a timestamp |
//! | `reporting` | commit wait |
//! | `resolve` | what became of a transaction |

mod ages;
mod asking;
mod commit;
mod execution;
mod read_only;
mod reporting;
mod resolve;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::{Coordinates, Leaders, Transactions, Wants, finish};
use quorate_core::command::{Command, Event, Failure, Invalid, Outcome, Routes};
use quorate_core::{
    ClockTime, Context, Epoch, Instant, KeyspaceId, ReplicaId, ShardId, Timestamp, TransactionId,
};

use crate::config::CoordinatorConfig;
use crate::message::{Message, Wanted};
use ages::Ages;
use asking::{Asking, Question};
use execution::Execution;
use reporting::Reporting;

type Out = quorate_coordinator::Out<Coordinator>;

/// So often a question follows from one replica to the one that it names, before it waits for its time-out: while leaders
/// change, replicas may name each other.
const REDIRECTS_MAX: u32 = 4;

/// The coordinator of all transactions of one client.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    keyspaces: BTreeMap<KeyspaceId, Arc<Routes>>,
    leaders: Leaders,
    ages: Ages,
    transactions: Transactions<Open>,
    /// The greatest timestamp that was proposed so far, or told to be too low.
    last_timestamp: Timestamp,
    /// How far this client's clock is behind, as far as leaders have complained.
    lead: Duration,
}

/// A transaction that the coordinator has not forgotten yet.
#[derive(Debug)]
pub struct Open {
    phase: Phase,
    /// By when the client wants an answer.
    deadline: Instant,
    /// The answers that the client still waits for.
    wants: Wants,
    /// The reading of the clock when it began: it is proposed at no lower timestamp.
    began: ClockTime,
}

impl Open {
    /// Its client wants an answer by `deadline`.
    fn new(phase: Phase, deadline: Instant, began: ClockTime) -> Self {
        Open { phase, deadline, wants: Wants::default(), began }
    }
}

#[derive(Debug)]
enum Phase {
    Executing(Box<Execution>),
    Asking(Box<Asking>),
    Reporting(Reporting),
}

impl Coordinates for Coordinator {
    type Message = Message;
    type Command = Command;
    type Event = Event;
    type Config = CoordinatorConfig;
    type Open = Open;

    fn new(config: CoordinatorConfig) -> Self {
        let mut leaders = Leaders::default();
        if let Some((shard, size)) = config.service {
            leaders.learn(shard, size.into(), None, Epoch::FIRST);
        }
        Coordinator {
            config,
            keyspaces: BTreeMap::new(),
            leaders,
            ages: Ages::default(),
            transactions: Transactions::default(),
            last_timestamp: Timestamp::ZERO,
            lead: Duration::ZERO,
        }
    }

    fn epoch_of(&self, shard: ShardId) -> Epoch {
        self.leaders.group(shard).map_or(Epoch::FIRST, |group| group.epoch)
    }

    fn transactions(&self) -> &Transactions<Open> {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions<Open> {
        &mut self.transactions
    }

    /// If a replica speaks under a later membership than this coordinator knows, the client is told that it has to learn of that.
    /// False if its group is none of those that are spoken to.
    fn is_current(&mut self, from: ReplicaId, epoch: Epoch, outbox: &mut Out) -> bool {
        if let Some(keyspace) = self.leaders.note_epoch(from, epoch) {
            outbox.emit(Event::Outdated { keyspace });
        }
        self.leaders.group(from.shard).is_some()
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, context: &mut Context<'_>, outbox: &mut Out) {
        match message {
            Message::ReadReply { transaction, key, version, value, locked_in } => {
                self.on_read_reply(from, transaction, key, version, value, locked_in, context, outbox);
            }
            Message::ScanReply { transaction, request, keys, next, locked_in } => {
                self.on_scan_reply(from, transaction, request, keys, next, locked_in, context, outbox);
            }
            Message::Wounded { transaction } => self.on_wounded(transaction, outbox),
            Message::NextTimestampReply { transaction, timestamp } => {
                self.on_next_timestamp_reply(transaction, timestamp, context, outbox);
            }
            Message::CoordinateReply { transaction, standing }
            | Message::PrepareReply { transaction, standing }
            | Message::InquireReply { transaction, standing } => {
                self.on_standing(from, transaction, standing, context, outbox);
            }
            Message::ValidateReply { transaction, is_valid } => {
                self.on_validate_reply(from, transaction, is_valid, context, outbox);
            }
            Message::ReadCurrentReply { transaction, found, timestamp } => {
                self.on_read_current_reply(from, transaction, found, timestamp, context, outbox);
            }
            Message::ReadAtReply { transaction, found, next } => {
                self.on_read_at_reply(from, transaction, found, next, context, outbox);
            }
            Message::SnapshotTooOld { transaction, oldest } => {
                self.on_snapshot_too_old(transaction, oldest, outbox);
            }
            Message::NotLeading { transaction, leader } => {
                self.on_not_leading(from, transaction, leader, context, outbox);
            }
            // Messages that only replicas are told.
            Message::Read { .. }
            | Message::Scan { .. }
            | Message::Release { .. }
            | Message::NextTimestamp { .. }
            | Message::Coordinate { .. }
            | Message::Prepare { .. }
            | Message::Validate { .. }
            | Message::ReadCurrent { .. }
            | Message::ReadAt { .. }
            | Message::Decide { .. }
            | Message::Inquire { .. }
            | Message::AskFloor
            | Message::AskFloorReply { .. } => {}
        }
    }

    fn on_command(&mut self, command: Command, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            Command::Route(routes) => self.on_route(routes),
            Command::Reachable { replica, reachable } => self.on_reachable(replica, reachable, context),
            Command::Begin { transaction, keyspace, patience } => {
                self.open(transaction, keyspace, context.now + patience, context, outbox);
            }
            Command::Get { transaction, key } => self.on_get(transaction, key, context, outbox),
            Command::GetMany { transaction, keys } => {
                keys.into_iter().for_each(|key| self.on_get(transaction, key, context, outbox));
            }
            Command::Scan { transaction, range, limit } => {
                self.on_scan(transaction, range, limit, context, outbox);
            }
            Command::Put { transaction, key, value } => self.on_put(transaction, key, value, outbox),
            Command::Commit { transaction } => self.on_commit(transaction, context, outbox),
            Command::ReadOnly { transaction, keyspace, keys, freshness, patience } => {
                let (wanted, deadline) = (Wanted::Keys(keys), context.now + patience);
                self.on_read_only(transaction, keyspace, wanted, freshness, deadline, context, outbox);
            }
            Command::ReadOnlyScan { transaction, keyspace, range, limit, freshness, patience } => {
                let (wanted, deadline) = (Wanted::Range(range, limit), context.now + patience);
                self.on_read_only(transaction, keyspace, wanted, freshness, deadline, context, outbox);
            }
            Command::Abort { transaction } => self.end_open(transaction, Failure::Aborted, outbox),
            Command::Resolve { transaction, participants, timestamp, patience } => {
                let deadline = context.now + patience;
                self.on_resolve(transaction, participants, timestamp, deadline, context, outbox);
            }
            Command::Set { transaction, .. } => {
                self.end_open(transaction, Failure::Invalid(Invalid::Unsupported), outbox);
            }
            command @ (Command::Container { .. }
            | Command::GetMarked { .. }
            | Command::Execute { .. }
            | Command::Recall { .. }
            | Command::Observe { .. }
            | Command::CatchUp { .. }
            | Command::After { .. }
            | Command::Confine { .. }
            | Command::CommitSpeculatively { .. }
            | Command::Await { .. }) => {
                command.refused(Invalid::Unsupported).into_iter().for_each(|event| outbox.emit(event));
            }
        }
    }

    /// Looks after one transaction; gives when to look again.
    fn attend(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) -> Option<Instant> {
        let open = self.transactions.get(&id)?;
        if context.now >= open.deadline {
            match &open.phase {
                Phase::Executing(execution) => {
                    let missing = execution.unanswered(&self.leaders);
                    self.fail(id, Failure::Unavailable { missing }, outbox);
                    return None;
                }
                Phase::Asking(asking) => self.on_late(id, self.is_surely_aborted(asking), context, outbox),
                Phase::Reporting(reporting) if reporting.participants.is_empty() => {
                    self.fail(id, Failure::Unavailable { missing: Vec::new() }, outbox);
                }
                // It has committed, and cannot be said to have.
                Phase::Reporting(_) => self.on_late(id, None, context, outbox),
            }
        }
        match &self.transactions.get(&id)?.phase {
            Phase::Executing(_) => self.attend_execution(id, context, outbox),
            Phase::Asking(_) => self.attend_asking(id, context, outbox),
            Phase::Reporting(_) => self.attend_reporting(id, context, outbox),
        }
    }
}

quorate_coordinator::coordinator!(Coordinator);

impl Coordinator {
    fn on_route(&mut self, routes: Arc<Routes>) {
        let keyspace = &routes.keyspace;
        for (position, group) in keyspace.groups().enumerate() {
            self.leaders.learn(group.id, routes.members(position), Some(keyspace.id), keyspace.epoch);
        }
        for open in self.transactions.values_mut() {
            // Any order: each goes on by itself.
            if let Phase::Executing(execution) = &mut open.phase {
                execution.change_routes(&routes);
            }
        }
        self.keyspaces.insert(keyspace.id, routes);
    }

    fn on_reachable(&mut self, replica: ReplicaId, reachable: bool, context: &Context<'_>) {
        if self.leaders.set_reachable(replica, reachable) && !reachable {
            // A question that waits for it need not wait any longer.
            self.transactions.wake_all(context.now);
        }
    }

    /// Opens a transaction, if that can be.
    fn open(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        deadline: Instant,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Arc<Routes>> {
        let Some(routes) = self.keyspaces.get(&keyspace).cloned() else {
            finish(outbox, id, Err(Failure::Invalid(Invalid::UnknownKeyspace(keyspace))));
            return None;
        };
        if self.transactions.contains_key(&id) {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
            return None;
        }
        let lock = self.config.system.locks().then(|| {
            let age = self.ages.take(id);
            age.unwrap_or_else(|| self.next_timestamp(context.clock, Timestamp::ZERO))
        });
        let phase = Phase::Executing(Box::new(Execution::new(routes.clone(), id.attempt, lock)));
        self.transactions.insert(id, Open::new(phase, deadline, context.clock));
        self.transactions.wake_at(id, deadline.min(context.now + self.config.read_timeout));
        Some(routes)
    }

    /// Ends a transaction that was not asked to commit, for this reason.
    fn end_open(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        match self.transactions.get(&id) {
            Some(Open { phase: Phase::Executing(_), .. }) => self.fail(id, failure, outbox),
            _ => finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id)))),
        }
    }

    /// Ends a transaction of which no prepare has left this client: it has surely not committed.
    fn fail(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        let phase = self.close(id, Outcome::Aborted, outbox).map(|open| open.phase);
        let (locked, age) = match phase {
            Some(Phase::Executing(execution)) => (execution.locked().clone(), execution.age()),
            Some(Phase::Asking(asking)) => (asking.locked, asking.age),
            Some(Phase::Reporting(_)) | None => (BTreeMap::new(), None),
        };
        for shard in locked.into_keys() {
            outbox.send(self.leaders.leader(shard), Message::Release { transaction: id });
        }
        if let (Some(age), Failure::Conflict) = (age, &failure) {
            self.ages.keep(id, age);
        }
        finish(outbox, id, Err(failure));
    }

    /// Forgets a transaction, and tells what became of it if that has been asked: the servers could not.
    fn close(&mut self, id: TransactionId, outcome: Outcome, outbox: &mut Out) -> Option<Open> {
        let open = self.transactions.remove(&id)?;
        if open.wants.resolve_wanted {
            outbox.emit(Event::Resolved { transaction: id, outcome: Some(outcome) });
        }
        Some(open)
    }

    /// The replicas that are missing, if a transaction cannot commit as long as no prepare has left; none if one has.
    fn is_surely_aborted(&self, asking: &Asking) -> Option<Failure> {
        match asking.question {
            Question::Timestamp
            | Question::Validate { .. }
            | Question::ReadCurrent { .. }
            | Question::ReadAt(_) => Some(Failure::Unavailable { missing: self.unanswering(asking) }),
            Question::Prepare { .. } | Question::Resolve { .. } => None,
        }
    }

    /// The client has waited long enough.
    fn on_late(
        &mut self,
        id: TransactionId,
        surely: Option<Failure>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if let Some(failure) = surely {
            return self.fail(id, failure, outbox);
        }
        let Some(open) = self.transactions.get_mut(&id) else { return };
        give_up(open, id, outbox);
        let resolves = matches!(&open.phase, Phase::Asking(asking) if asking.parts.is_empty());
        if resolves || context.now >= open.deadline + self.config.abandon_after {
            // The participants settle what is left by themselves.
            self.transactions.remove(&id);
        }
    }
}

/// Nobody can tell the client, for now, what became of a transaction.
fn give_up(open: &mut Open, id: TransactionId, outbox: &mut Out) {
    let participants = match &open.phase {
        Phase::Executing(_) => return,
        Phase::Asking(asking) => asking.participants(),
        Phase::Reporting(reporting) => reporting.participants.clone(),
    };
    open.wants.give_up(id, participants, outbox);
}
