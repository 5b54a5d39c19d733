//! The coordinator: runs a client's gets and puts, thousands at a time.
//!
//! ```text
//!   Begin ─► running ── Get, Scan ──► nearest replica
//!              │   └─── Put ────────► all replicas, at once
//!              └─ Commit ─► waits for its puts ─► committed
//! ```
//!
//! It takes the commands that the coordinators of transactional protocols take, so that the same workloads run on it. A put of a
//! transaction is sent as soon as it is asked for: committing waits until all of them are complete, and aborting takes
//! none back. A transaction sees its own puts, and reads no key twice; that is done in the client and asks nobody.
//!
//! | file | role |
//! |---|---|
//! | `reading` | gets and scans |
//! | `puts` | puts, until they are complete |
//! | `groups` | which replicas there are, and which can be expected to answer |

mod groups;
mod puts;
mod reading;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::{Buffer, Coordinates, Transactions, finish};
use quorate_core::command::{Command, Committed, Event, Failure, Freshness, Invalid, Routes};
use quorate_core::hash::FixedMap;
use quorate_core::{
    ClockTime, Context, Epoch, Instant, Key, KeyRange, KeyspaceId, ReplicaId, ShardId, Timestamp,
    TransactionId,
};

use crate::config::CoordinatorConfig;
use crate::message::{Message, QwStore};
use groups::Groups;
use puts::Puts;
use reading::Pending;

type Out = quorate_coordinator::Out<Coordinator>;
type Ir = quorate_ir::Message<QwStore>;

/// The coordinator of everything that one client does.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    keyspaces: BTreeMap<KeyspaceId, Arc<Routes>>,
    groups: Groups,
    transactions: Transactions<Open>,
    /// The transaction of each put that is on its way.
    by_put: FixedMap<TransactionId, TransactionId>,
    /// The number of the next put.
    next_put: u64,
    /// The greatest timestamp that was given to a put, or told to be too low.
    last_timestamp: Timestamp,
    /// How far this client's clock is behind, as far as replicas have complained.
    lead: Duration,
}

/// A transaction that the coordinator has not forgotten yet.
#[derive(Debug)]
pub struct Open {
    routes: Arc<Routes>,
    /// By when the client wants an answer.
    deadline: Instant,
    buffer: Buffer,
    pending: Vec<Pending>,
    requests: u32,
    puts: Puts,
    phase: Phase,
    /// True if it only reads, and ends by itself once everything is read.
    commits_when_read: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client may ask for more.
    Running,
    /// The client waits for its puts.
    Committing,
    /// The client waits no longer; its puts are sent for some time still.
    Abandoned,
}

impl Coordinates for Coordinator {
    type Message = Message;
    type Command = Command;
    type Event = Event;
    type Config = CoordinatorConfig;
    type Open = Open;

    fn new(config: CoordinatorConfig) -> Self {
        Coordinator {
            config,
            keyspaces: BTreeMap::new(),
            groups: Groups::default(),
            transactions: Transactions::default(),
            by_put: FixedMap::default(),
            next_put: 0,
            last_timestamp: Timestamp::ZERO,
            lead: Duration::ZERO,
        }
    }

    fn epoch_of(&self, shard: ShardId) -> Epoch {
        self.groups.group(shard).map_or(Epoch::FIRST, |group| group.epoch)
    }

    fn transactions(&self) -> &Transactions<Open> {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions<Open> {
        &mut self.transactions
    }

    /// True if a replica speaks under the membership that this client knows. Of a later one the client is told, once.
    fn is_current(&mut self, from: ReplicaId, epoch: Epoch, outbox: &mut Out) -> bool {
        let Some(group) = self.groups.group_mut(from.shard) else { return false };
        if epoch > group.newest_epoch {
            group.newest_epoch = epoch;
            outbox.emit(Event::Outdated { keyspace: group.keyspace });
        }
        epoch == group.epoch
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, context: &mut Context<'_>, outbox: &mut Out) {
        self.groups.note_heard(from);
        match message {
            Message::ReadReply { transaction, key, version, value } => {
                self.on_read_reply(from, transaction, key, version, value, context, outbox);
            }
            Message::ScanReply { transaction, request, keys, next } => {
                self.on_scan_reply(from, transaction, request, keys, next, context, outbox);
            }
            Message::Ir(Ir::InconsistentReply { id, view }) => {
                self.on_recorded(from, id.transaction, view, context, outbox);
            }
            Message::Late { put, refusal, clock } => {
                self.on_late(from, put, refusal, clock, context, outbox);
            }
            Message::ClockAhead { put, ahead_micros, ahead_max_micros } => {
                if let Some(id) = self.on_clock_ahead(from, put) {
                    let invalid = Invalid::ClockAhead { ahead_micros, ahead_max_micros };
                    self.fail(id, Failure::Invalid(invalid), outbox);
                }
            }
            // Messages that only replicas are told.
            Message::Read { .. }
            | Message::Scan { .. }
            | Message::Ir(_)
            | Message::Gather { .. }
            | Message::GatherReply { .. }
            | Message::FetchPuts { .. }
            | Message::Puts { .. }
            | Message::Complete { .. }
            | Message::CompleteReply { .. }
            | Message::RaiseFloor { .. }
            | Message::Outdated => {}
        }
    }

    fn on_command(&mut self, command: Command, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            Command::Route(routes) => self.on_route(routes),
            Command::Reachable { replica, reachable } => self.on_reachable(replica, reachable, context),
            Command::Begin { transaction, keyspace, patience } => {
                self.open(transaction, keyspace, patience, context, outbox);
            }
            Command::Get { transaction, key } => self.on_get(transaction, key, context, outbox),
            Command::GetMany { transaction, keys } => {
                keys.into_iter().for_each(|key| self.on_get(transaction, key, context, outbox));
            }
            Command::Scan { transaction, range, limit } => {
                self.on_scan(transaction, range, limit, context, outbox);
            }
            Command::Put { transaction, key, value } => {
                self.on_put(transaction, key, value, context, outbox);
            }
            Command::Commit { transaction } => self.on_commit(transaction, context, outbox),
            Command::ReadOnly { transaction, keyspace, keys, freshness, patience } => {
                if self.open_to_read(transaction, keyspace, freshness, patience, context, outbox) {
                    self.read_keys(transaction, keys, context, outbox);
                }
            }
            Command::ReadOnlyScan { transaction, keyspace, range, limit, freshness, patience } => {
                if self.open_to_read(transaction, keyspace, freshness, patience, context, outbox) {
                    self.read_range(transaction, range, limit, context, outbox);
                }
            }
            Command::Abort { transaction } => self.end_open(transaction, Failure::Aborted, outbox),
            // Replicas know puts, and not which transaction they belong to.
            Command::Resolve { transaction, .. } => outbox.emit(Event::Forgotten { transaction }),
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
        let open = self.transactions.get_mut(&id)?;
        if context.now >= open.deadline + self.config.abandon_after {
            self.fail(id, Failure::Unknown { participants: Vec::new() }, outbox);
            return None;
        }
        if context.now >= open.deadline && open.phase != Phase::Abandoned {
            if open.puts.shards.is_empty() {
                let missing = open.unanswered();
                self.fail(id, Failure::Unavailable { missing }, outbox);
                return None;
            }
            // Others may see what it has put, whatever becomes of the rest.
            open.phase = Phase::Abandoned;
            open.pending.clear();
            finish(outbox, id, Err(Failure::Unknown { participants: open.puts.shards.clone() }));
            self.finish_if_complete(id, context.clock, outbox);
        }
        let reads = self.attend_reads(id, context.now, outbox);
        let puts = self.attend_puts(id, context, outbox);
        let open = self.transactions.get(&id)?;
        let end = match open.phase {
            Phase::Abandoned => open.deadline + self.config.abandon_after,
            Phase::Running | Phase::Committing => open.deadline,
        };
        [reads, puts, Some(end)].into_iter().flatten().min()
    }
}

quorate_coordinator::coordinator!(Coordinator);

impl Coordinator {
    fn on_route(&mut self, routes: Arc<Routes>) {
        let keyspace = &routes.keyspace;
        for shard in &keyspace.shards {
            self.groups.learn(shard.id, shard.group_size(), keyspace.id, keyspace.epoch);
        }
        self.keyspaces.insert(keyspace.id, routes);
    }

    fn on_reachable(&mut self, replica: ReplicaId, reachable: bool, context: &Context<'_>) {
        if self.groups.set_reachable(replica, reachable) && !reachable {
            // A transaction that waits for it need not wait any longer.
            self.transactions.wake_all(context.now);
        }
    }

    /// Opens a transaction, if that can be.
    fn open(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        patience: Duration,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        let Some(routes) = self.keyspaces.get(&keyspace).cloned() else {
            finish(outbox, id, Err(Failure::Invalid(Invalid::UnknownKeyspace(keyspace))));
            return false;
        };
        if self.transactions.contains_key(&id) {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
            return false;
        }
        let deadline = context.now + patience;
        let open = Open {
            routes,
            deadline,
            buffer: Buffer::default(),
            pending: Vec::new(),
            requests: 0,
            puts: Puts::default(),
            phase: Phase::Running,
            commits_when_read: false,
        };
        self.transactions.insert(id, open);
        self.transactions.wake_at(id, deadline);
        true
    }

    /// Opens a transaction that reads all at once. However fresh it should be, it is told what the nearest replicas have; but
    /// what there was at some instant nobody can tell.
    fn open_to_read(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        freshness: Freshness,
        patience: Duration,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        if !self.open(id, keyspace, patience, context, outbox) {
            return false;
        }
        if let Freshness::At(_) = freshness {
            let oldest = Timestamp::new(context.clock, self.config.client);
            self.fail(id, Failure::TooOld { oldest }, outbox);
            return false;
        }
        if let Some(open) = self.transactions.get_mut(&id) {
            open.commits_when_read = true;
        }
        true
    }

    fn read_keys(&mut self, id: TransactionId, mut keys: Vec<Key>, context: &Context<'_>, outbox: &mut Out) {
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return self.on_commit(id, context, outbox);
        }
        for key in keys {
            if self.transactions.contains_key(&id) {
                self.on_get(id, key, context, outbox);
            }
        }
    }

    fn read_range(
        &mut self,
        id: TransactionId,
        range: KeyRange,
        limit: u32,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        self.on_scan(id, range, limit, context, outbox);
        // An empty range has been answered at once.
        self.commit_if_read(id, context, outbox);
    }

    fn commit_if_read(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        if self.transactions.get(&id).is_some_and(|open| open.commits_when_read && open.pending.is_empty()) {
            self.on_commit(id, context, outbox);
        }
    }

    /// The transaction, if the client may ask for more; else the client is told that it may not.
    fn running_or_invalid(&mut self, id: TransactionId, outbox: &mut Out) -> Option<&mut Open> {
        let open = self.transactions.get_mut(&id).filter(|open| open.phase == Phase::Running);
        if open.is_none() {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        open
    }

    fn on_commit(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.running_or_invalid(id, outbox) else { return };
        open.phase = Phase::Committing;
        self.finish_if_complete(id, context.clock, outbox);
    }

    /// Ends a transaction whose puts are complete, once the client wants it ended.
    fn finish_if_complete(&mut self, id: TransactionId, clock: ClockTime, outbox: &mut Out) {
        let Some(open) = self.transactions.get(&id) else { return };
        if open.phase == Phase::Running || !open.puts.are_complete() {
            return;
        }
        // No put of it lies below; what only reads has no timestamp of its own.
        assert!(
            open.puts.earliest.is_none_or(|earliest| earliest <= self.last_timestamp),
            "{id} has put at {:?}, and the last timestamp is {:?}",
            open.puts.earliest,
            self.last_timestamp
        );
        let timestamp = open.puts.earliest.unwrap_or(Timestamp::new(clock, self.config.client));
        assert!(
            open.puts.earliest.is_some() || open.puts.shards.is_empty(),
            "{id} has put to {:?}, and nothing is complete",
            open.puts.shards
        );
        let (fast, retries) = (!open.puts.is_slow, open.puts.retries);
        if open.phase == Phase::Committing {
            finish(outbox, id, Ok(Committed { fast, retries, ..Committed::at(timestamp) }));
        }
        self.transactions.remove(&id);
    }

    /// Ends a transaction that was not asked to commit, for this reason.
    fn end_open(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        match self.transactions.get(&id) {
            Some(open) if open.phase == Phase::Running => self.fail(id, failure, outbox),
            _ => finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id)))),
        }
    }

    /// Ends a transaction. Its puts stay put, and those that are on their way may still arrive.
    fn fail(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        let Some(open) = self.transactions.remove(&id) else { return };
        self.forget_puts(&open);
        if open.phase != Phase::Abandoned {
            finish(outbox, id, Err(failure));
        }
    }
}
