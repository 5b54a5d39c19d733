//! The coordinator: runs a client's transactions on the configuration, as on any other keyspace.
//!
//! ```text
//!   Begin ─► executing ─ Commit ─► one conditional write ─► committed, or conflict
//!              │  reads,   │
//!              │  writes   └─ writes nothing ─► one check ─► committed, or conflict
//!            Abort
//! ```
//!
//! Reads may be stale: a transaction relies on the revision of each key that it has read, and on the number of keys in each range,
//! and commits only if all of that still holds at one instant.
//!
//! | file | role |
//! |---|---|
//! | `execution` | reads, buffered writes, scans |
//! | `asking` | the one question that decides, until it is answered |
//! | `group` | who leads, as far as this client knows |

mod asking;
mod execution;
mod group;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_coordinator::{Coordinates, Transactions, Wants, finish};
use quorate_core::command::{Command, Committed, Event, Failure, Invalid, Outcome, Routes};
use quorate_core::hash::FixedMap;
use quorate_core::log::Position;
use quorate_core::{Context, Epoch, Instant, KeyspaceId, ReplicaId, ShardId, Timestamp, TransactionId};

use crate::config::CoordinatorConfig;
use crate::message::{Message, Refusal};
use asking::{Asking, Question};
use execution::Execution;
use group::Group;

type Out = quorate_coordinator::Out<Coordinator>;

/// The coordinator of all transactions of one client.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    keyspaces: BTreeMap<KeyspaceId, Arc<Routes>>,
    groups: BTreeMap<ShardId, Group>,
    transactions: Transactions<Open>,
    /// Questions are counted, and each is of one transaction.
    last_request: u64,
    requests: FixedMap<u64, TransactionId>,
}

/// A transaction that the coordinator has not forgotten yet.
#[derive(Debug)]
pub struct Open {
    shard: ShardId,
    phase: Phase,
    /// By when the client wants an answer.
    deadline: Instant,
    /// The answers that the client still waits for.
    wants: Wants,
}

#[derive(Debug)]
enum Phase {
    Executing(Box<Execution>),
    Asking(Box<Asking>),
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
            groups: BTreeMap::new(),
            transactions: Transactions::default(),
            last_request: 0,
            requests: FixedMap::default(),
        }
    }

    fn epoch_of(&self, shard: ShardId) -> Epoch {
        self.groups.get(&shard).map_or(Epoch::FIRST, |group| group.epoch)
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
        let Some(group) = self.groups.get_mut(&from.shard) else { return false };
        if epoch > group.newest_epoch {
            group.newest_epoch = epoch;
            outbox.emit(Event::Outdated { keyspace: group.keyspace });
        }
        true
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, context: &mut Context<'_>, outbox: &mut Out) {
        let request = message.request();
        let Some(id) = self.requests.get(&request).copied() else {
            return outbox.ignored("nothing waits under this number");
        };
        match message {
            Message::GetReply { revision, position, found, .. } => {
                self.note_position(from.shard, position);
                self.on_get_reply(request, id, revision, found, outbox);
            }
            Message::ScanReply { revision, position, found, next, .. } => {
                self.note_position(from.shard, position);
                self.on_scan_reply(request, id, revision, found, next, outbox);
            }
            Message::CheckReply { revision, position, holds, .. } => {
                self.note_position(from.shard, position);
                self.on_check_reply(id, revision, holds, outbox);
            }
            Message::WriteReply { position, result, .. } => {
                self.note_position(from.shard, position);
                self.on_write_reply(id, result, outbox);
            }
            Message::NotLeading { leader, .. } => {
                if let Some(group) = self.groups.get_mut(&from.shard) {
                    group.redirect(from, leader);
                }
                self.ask_elsewhere(request, id, from, context, outbox);
            }
            Message::Refused { refusal, .. } => self.on_refused(id, refusal, outbox),
            Message::Get { .. }
            | Message::Scan { .. }
            | Message::Check { .. }
            | Message::Write { .. }
            | Message::Settle { .. }
            | Message::Grant { .. }
            | Message::Renew { .. }
            | Message::Renewed { .. }
            | Message::Release { .. }
            | Message::NoSuchLease { .. }
            | Message::Watch { .. }
            | Message::Unwatch { .. }
            | Message::Changes { .. }
            | Message::Forgotten { .. } => outbox.ignored("only replicas and subscribers are told so"),
        }
    }

    fn on_command(&mut self, command: Command, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            Command::Route(routes) => self.on_route(routes),
            Command::Reachable { replica, reachable } => self.on_reachable(replica, reachable, context),
            Command::Begin { transaction, keyspace, patience } => {
                self.open(transaction, keyspace, context.now + patience, outbox);
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
                let (question, deadline) = (Question::Get { keys }, context.now + patience);
                self.on_read_only(transaction, keyspace, question, freshness, deadline, context, outbox);
            }
            Command::ReadOnlyScan { transaction, keyspace, range, limit, freshness, patience } => {
                let limit = limit.min(self.config.scan_page_max);
                let (question, deadline) = (Question::Scan { range, limit }, context.now + patience);
                self.on_read_only(transaction, keyspace, question, freshness, deadline, context, outbox);
            }
            Command::Abort { transaction } => self.end_open(transaction, Failure::Aborted, outbox),
            Command::Set { transaction, .. } => {
                self.end_open(transaction, Failure::Invalid(Invalid::Unsupported), outbox);
            }
            Command::Resolve { transaction, participants, patience, .. } => {
                self.on_resolve(transaction, &participants, context.now + patience, context, outbox);
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
                Phase::Asking(asking) if asking.may_commit() => self.on_late(id, context, outbox),
                Phase::Executing(_) | Phase::Asking(_) => {
                    let missing = self.unanswering(id);
                    self.fail(id, Failure::Unavailable { missing }, outbox);
                }
            }
        }
        match &self.transactions.get(&id)?.phase {
            Phase::Executing(_) => self.attend_execution(id, context, outbox),
            Phase::Asking(_) => self.attend_asking(id, context, outbox),
        }
    }
}

quorate_coordinator::coordinator!(Coordinator);

impl Coordinator {
    fn on_route(&mut self, routes: Arc<Routes>) {
        // All of the configuration is one group.
        if let Some(shard) = routes.keyspace.shards.first() {
            let (keyspace, epoch) = (routes.keyspace.id, routes.keyspace.epoch);
            let group = self.groups.remove(&shard.id);
            let group = Group::learn(group, shard.id, routes.members(0), keyspace, epoch);
            self.groups.insert(shard.id, group);
        }
        for open in self.transactions.values_mut() {
            // Any order: each goes on by itself.
            if let Phase::Executing(execution) = &mut open.phase {
                execution.change_routes(&routes);
            }
        }
        self.keyspaces.insert(routes.keyspace.id, routes);
    }

    fn on_reachable(&mut self, replica: ReplicaId, reachable: bool, context: &Context<'_>) {
        let Some(group) = self.groups.get_mut(&replica.shard) else { return };
        if group.set_reachable(replica.index, reachable) && !reachable {
            // A question that waits for it need not wait any longer.
            self.transactions.wake_all(context.now);
        }
    }

    fn note_position(&mut self, shard: ShardId, position: Position) {
        if let Some(group) = self.groups.get_mut(&shard) {
            group.position = group.position.max(position);
        }
    }

    /// Opens a transaction, if that can be.
    fn open(&mut self, id: TransactionId, keyspace: KeyspaceId, deadline: Instant, outbox: &mut Out) -> bool {
        let routes = self.keyspaces.get(&keyspace).cloned();
        let Some((routes, shard)) = routes.and_then(|routes| {
            let shard = routes.keyspace.shards.first()?.id;
            Some((routes, shard))
        }) else {
            finish(outbox, id, Err(Failure::Invalid(Invalid::UnknownKeyspace(keyspace))));
            return false;
        };
        if self.transactions.contains_key(&id) {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
            return false;
        }
        let phase = Phase::Executing(Box::new(Execution::new(routes, id.attempt)));
        let open = Open { shard, phase, deadline, wants: Wants::default() };
        self.transactions.insert(id, open);
        self.transactions.wake_at(id, deadline);
        true
    }

    fn next_request(&mut self, id: TransactionId) -> u64 {
        self.last_request += 1;
        let before = self.requests.insert(self.last_request, id);
        assert!(before.is_none(), "{id} asks as {before:?} does, by number {}", self.last_request);
        self.last_request
    }

    /// Forgets a transaction and what it has asked.
    fn forget(&mut self, id: TransactionId) -> Option<Open> {
        let open = self.transactions.remove(&id)?;
        let asked = match &open.phase {
            Phase::Executing(execution) => execution.requests(),
            Phase::Asking(asking) => asking.requests.clone(),
        };
        for request in asked {
            let of = self.requests.remove(&request);
            assert!(of == Some(id), "{id} has asked {request}, which is of {of:?}");
        }
        Some(open)
    }

    /// Ends a transaction that was not asked to commit, for this reason.
    fn end_open(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        match self.execution(id) {
            Some(_) => self.fail(id, failure, outbox),
            None => finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id)))),
        }
    }

    /// Ends a transaction that surely has not committed.
    fn fail(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        self.end(id, Err(failure), outbox);
    }

    /// Ends a transaction, and tells of it everybody who still wants to know.
    fn end(&mut self, id: TransactionId, result: Result<Timestamp, Failure>, outbox: &mut Out) {
        let Some(open) = self.forget(id) else { return };
        if open.wants.resolve_wanted {
            let outcome = Some(result.as_ref().map_or(Outcome::Aborted, |at| Outcome::Committed(*at)));
            outbox.emit(Event::Resolved { transaction: id, outcome });
        }
        if !open.wants.answered {
            finish(outbox, id, result.map(Committed::at));
        }
    }

    /// The replica that was asked last and has not answered.
    fn unanswering(&self, id: TransactionId) -> Vec<ReplicaId> {
        let Some(open) = self.transactions.get(&id) else { return Vec::new() };
        let Some(group) = self.groups.get(&open.shard) else { return Vec::new() };
        match &open.phase {
            Phase::Executing(execution) => execution.unanswering(),
            Phase::Asking(_) => vec![group.leader()],
        }
    }

    /// The client has waited long enough for what may have committed.
    fn on_late(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        open.wants.give_up(id, vec![open.shard], outbox);
        let resolves = matches!(&open.phase, Phase::Asking(asking) if asking.question == Question::Settle);
        if resolves || context.now >= open.deadline + self.config.abandon_after {
            self.forget(id);
        }
    }

    fn on_refused(&mut self, id: TransactionId, refusal: Refusal, outbox: &mut Out) {
        match refusal {
            // An overloaded replica may serve it a little later.
            Refusal::TooMany => {}
            // It may have been done, and nobody knows any more.
            Refusal::TooOld => {
                let Some(mut open) = self.forget(id) else { return };
                if std::mem::take(&mut open.wants.resolve_wanted) {
                    outbox.emit(Event::Forgotten { transaction: id });
                }
                open.wants.give_up(id, vec![open.shard], outbox);
            }
            // No replica has ever taken it, nor will one.
            Refusal::Malformed | Refusal::TooLarge | Refusal::Duration => {
                self.fail(id, Failure::Unavailable { missing: Vec::new() }, outbox);
            }
        }
    }
}
