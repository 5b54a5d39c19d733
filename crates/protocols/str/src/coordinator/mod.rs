//! The coordinator of a client: it hands the client's transactions to the machine of the nearest node that answers (section 4).
//!
//! ```text
//!   Begin ─► executing ─ Commit ─► committing ─► committed, or conflict
//!              │ reads    │           └─ the node is silent ─► inquiring at its home
//!            Abort        └─ has touched nothing ─► committed
//! ```
//!
//! The node takes the snapshot with the first read, certifies and decides. A client that vanishes leaves nothing behind.
//!
//! | file | role |
//! |---|---|
//! | `execution` | reads, buffered writes, scans, limits |
//! | `commit` | commits, and finding out how they ended |
//! | `behind` | nodes that may not have heard of an abort that the client knows of |

mod behind;
mod commit;
mod execution;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::{Coordinates, Leaders, Transactions, Wants, finish};
use quorate_core::command::{Command, Event, Failure, Freshness, Invalid, Routes, Shown};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::seen::Seen;
use quorate_core::{ClockTime, Context, Epoch, Instant, KeyspaceId, ReplicaId, ShardId, TransactionId};

use crate::config::CoordinatorConfig;
use crate::message::{Ending, Message, Period, Refusal};
use crate::reasons;
use behind::Behind;
use commit::{Committing, Inquiring};
use execution::Execution;

type Out = quorate_coordinator::Out<Coordinator>;

/// A node that has been silent for so many messages is taken for dead.
const SILENT_MAX: u32 = 3;

/// So many broken promises are remembered: more than a client begins transactions before it hears of one.
const APOLOGIES_MAX: usize = 1_000;

/// The coordinator of all transactions of one client.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    keyspaces: BTreeMap<KeyspaceId, Nearest>,
    leaders: Leaders,
    transactions: Transactions<Open>,
    /// The greatest timestamp that the client has been told: its snapshots are above.
    seen: ClockTime,
    /// The periods of nodes, as far as is known.
    periods: BTreeMap<ReplicaId, Period>,
    /// Transactions that were shown and have aborted, the latest ones: nothing comes after them.
    apologies: VecDeque<TransactionId>,
    /// Nodes that may still show what the client knows to be aborted.
    behind: Behind,
}

/// A keyspace, and the node that the client speaks to.
#[derive(Debug)]
struct Nearest {
    routes: Arc<Routes>,
    /// The place of that node's machine among those of homes.
    at: usize,
    /// How often the client has turned to another node since one has committed a transaction for it. It waits twice as long each time: nodes that are further away
    /// than the time-out allows for would all be left before they can answer.
    turns: u32,
}

/// A transaction that the coordinator has not forgotten yet.
#[derive(Debug)]
pub struct Open {
    keyspace: KeyspaceId,
    /// The machine of the node that runs it.
    home: ReplicaId,
    phase: Phase,
    /// The client's clock when it was begun.
    begun: ClockTime,
    /// By when the client wants an answer.
    deadline: Instant,
    wants: Wants,
    /// How many messages the node has not answered.
    silent: u32,
    /// True if its result was shown, and is not final.
    is_shown: bool,
    /// True if it was asked to commit and has written nothing: no home keeps a record of it.
    is_read_only: bool,
}

#[derive(Debug)]
enum Phase {
    Executing(Box<Execution>),
    Committing(Box<Committing>),
    Inquiring(Inquiring),
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
            leaders: Leaders::default(),
            transactions: Transactions::default(),
            seen: ClockTime::default(),
            periods: BTreeMap::new(),
            apologies: VecDeque::new(),
            behind: Behind::default(),
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

    fn is_current(&mut self, from: ReplicaId, epoch: Epoch, outbox: &mut Out) -> bool {
        if let Some(keyspace) = self.leaders.note_epoch(from, epoch) {
            outbox.emit(Event::Outdated { keyspace });
        }
        self.leaders.group(from.shard).is_some()
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, context: &mut Context<'_>, outbox: &mut Out) {
        match message {
            Message::ReadReply { transaction, request, snapshot, found, period } => {
                self.note_period(from, period);
                self.on_read_reply(from, transaction, request, snapshot, found, context, outbox);
            }
            Message::Shown { transaction, snapshot, local, chain } => {
                self.on_shown(from, transaction, Shown { snapshot, local, chain }, outbox);
            }
            Message::UnderWay { transaction } => self.on_under_way(from, transaction, outbox),
            Message::CommitReply { transaction, ending } => self.on_ending(from, transaction, ending, outbox),
            Message::Doomed { transaction, refusal } => self.on_doomed(from, transaction, refusal, outbox),
            Message::OtherPeriod { transaction, period } => {
                self.note_period(from, period);
                self.on_other_period(from, transaction, period, context, outbox);
            }
            Message::InquireReply { transaction, outcome } => {
                self.on_inquire_reply(from, transaction, outcome, outbox);
            }
            Message::NotLeading { transaction: Some(transaction), leader } => {
                self.on_not_leading(from, transaction, leader, context, outbox);
            }
            _ => outbox.ignored(reasons::REPLICAS_ONLY),
        }
    }

    fn on_command(&mut self, command: Command, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            Command::Route(routes) => self.learn(&routes),
            Command::Reachable { replica, reachable } => {
                match self.leaders.set_reachable(replica, reachable) {
                    true if reachable => self.come_back(replica),
                    true => self.transactions.wake_all(context.now),
                    false => {}
                }
            }
            Command::Begin { transaction, keyspace, patience } => {
                self.begin(transaction, keyspace, patience, context, outbox);
            }
            Command::Get { transaction, key } => self.on_get(transaction, vec![key], context, outbox),
            Command::GetMany { transaction, keys } => self.on_get(transaction, keys, context, outbox),
            Command::Scan { transaction, range, limit } => {
                self.on_scan(transaction, range, limit, context, outbox);
            }
            Command::Put { transaction, key, value } => self.on_put(transaction, key, value, outbox),
            Command::Commit { transaction } => self.on_commit(transaction, false, context, outbox),
            Command::CommitSpeculatively { transaction } => {
                self.on_commit(transaction, true, context, outbox)
            }
            Command::Abort { transaction } => self.on_abort(transaction, outbox),
            Command::ReadOnly { transaction, keyspace, keys, freshness: Freshness::Strict, patience } => {
                if self.begin(transaction, keyspace, patience, context, outbox) {
                    self.read_only(transaction, keys, context, outbox);
                }
            }
            Command::ReadOnlyScan {
                transaction,
                keyspace,
                range,
                limit,
                freshness: Freshness::Strict,
                patience,
            } => {
                if self.begin(transaction, keyspace, patience, context, outbox) {
                    self.read_only_scan(transaction, range, limit, context, outbox);
                }
            }
            Command::Resolve { transaction, participants, timestamp, patience } => {
                let begun = ClockTime::from_micros(timestamp.micros);
                self.on_resolve(transaction, &participants, begun, context.now + patience, context, outbox);
            }
            Command::After { transaction, earlier } => self.follow(transaction, earlier, outbox),
            Command::Observe { timestamp } => self.seen = self.seen.max(timestamp),
            Command::GetMarked { .. }
            | Command::Set { .. }
            | Command::Container { .. }
            | Command::Await { .. }
            | Command::CatchUp { .. }
            | Command::ReadOnly { .. }
            | Command::ReadOnlyScan { .. }
            | Command::Confine { .. }
            | Command::Execute { .. }
            | Command::Recall { .. } => {
                if let Some(event) = command.refused(Invalid::Unsupported) {
                    outbox.emit(event);
                }
            }
        }
    }

    fn attend(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) -> Option<Instant> {
        let open = self.transactions.get(&id)?;
        if context.now >= open.deadline {
            self.give_up(id, outbox);
            return None;
        }
        let (home, deadline, keyspace) = (open.home, open.deadline, open.keyspace);
        let waits = match &open.phase {
            Phase::Executing(execution) => execution.waits_since(),
            Phase::Committing(committing) => Some(committing.asked_at),
            Phase::Inquiring(inquiring) => Some(inquiring.asked_at),
        };
        let Some(since) = waits else { return Some(deadline) };
        let timeout = self.resend_timeout(keyspace);
        let is_silent = context.now - since >= timeout;
        if is_silent || !self.leaders.is_reachable(home) {
            self.on_silence(id, context, outbox);
            return Some(deadline.min(context.now + timeout));
        }
        Some(deadline.min(since + timeout))
    }
}

quorate_coordinator::coordinator!(inner Coordinator);

impl HostedCoordinator for Coordinator {
    fn is_idle(&self) -> bool {
        self.transactions.is_empty()
    }

    fn seen(&self) -> Seen {
        Seen::at(self.seen)
    }

    fn home_of(&self, transaction: TransactionId) -> Option<ShardId> {
        self.transactions.get(&transaction).map(|open| open.home.shard)
    }
}

impl Coordinator {
    fn learn(&mut self, routes: &Arc<Routes>) {
        let keyspace = &routes.keyspace;
        for (position, group) in keyspace.groups().enumerate() {
            self.leaders.learn(group.id, routes.members(position), Some(keyspace.id), keyspace.epoch);
        }
        let (at, turns) = match self.keyspaces.get(&keyspace.id) {
            Some(known) => {
                let present = known.routes.homes.get(known.at);
                let at = routes.homes.iter().position(|home| Some(home) == present).unwrap_or_default();
                (at, known.turns)
            }
            None => (0, 0),
        };
        self.keyspaces.insert(keyspace.id, Nearest { routes: Arc::clone(routes), at, turns });
        let is_home =
            |machine| self.keyspaces.values().any(|nearest| nearest.routes.homes.contains(&machine));
        self.behind.retain(is_home);
    }

    /// The machine that a transaction is handed to; none if the keyspace has no home. One that may not have heard of an abort is passed over, and
    /// asked whether it has, as long as another can be reached.
    fn home(&mut self, keyspace: KeyspaceId, now: Instant, outbox: &mut Out) -> Option<ReplicaId> {
        let interval = self.resend_timeout(keyspace);
        let nearest = self.keyspaces.get(&keyspace)?;
        let homes = &nearest.routes.homes;
        let in_turn = (0..homes.len()).map(|step| homes[(nearest.at + step) % homes.len()]);
        let mut first = None;
        for home in in_turn.filter(|home| self.leaders.is_reachable(*home)) {
            if !self.behind.contains(home) {
                return Some(home);
            }
            first = first.or(Some(home));
            self.behind.ask(home, now, interval, outbox);
        }
        first.or_else(|| homes.get(nearest.at).copied())
    }

    /// A node is silent: the client turns to the next one.
    fn leave(&mut self, keyspace: KeyspaceId, home: ReplicaId) {
        if let Some(nearest) = self.keyspaces.get_mut(&keyspace)
            && nearest.routes.homes.get(nearest.at) == Some(&home)
        {
            nearest.at = (nearest.at + 1) % nearest.routes.homes.len();
            nearest.turns = nearest.turns.saturating_add(1);
        }
    }

    /// A node can be reached again: what begins from here on runs there, if it is nearer than the one that the client has turned to.
    fn come_back(&mut self, home: ReplicaId) {
        for nearest in self.keyspaces.values_mut() {
            let position = nearest.routes.homes.iter().position(|known| *known == home);
            nearest.at = position.map_or(nearest.at, |position| position.min(nearest.at));
        }
    }

    /// A node of a keyspace has committed a transaction.
    fn note_answer(&mut self, keyspace: KeyspaceId) {
        if let Some(nearest) = self.keyspaces.get_mut(&keyspace) {
            nearest.turns = 0;
        }
    }

    /// So long the client waits for a node of a keyspace before it sends a message again.
    fn resend_timeout(&self, keyspace: KeyspaceId) -> Duration {
        const TURNS_MAX: u32 = 3;
        let turns = self.keyspaces.get(&keyspace).map_or(0, |nearest| nearest.turns);
        self.config.resend_timeout * (1 << turns.min(TURNS_MAX))
    }

    /// True if the transaction has begun.
    fn begin(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        patience: Duration,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        if self.transactions.contains_key(&id) {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
            return false;
        }
        let known = self.keyspaces.get(&keyspace).map(|nearest| Arc::clone(&nearest.routes));
        let (Some(routes), Some(home)) = (known, self.home(keyspace, context.now, outbox)) else {
            finish(outbox, id, Err(Failure::Invalid(Invalid::UnknownKeyspace(keyspace))));
            return false;
        };
        let deadline = context.now + patience;
        let open = Open {
            keyspace,
            home,
            phase: Phase::Executing(Box::new(Execution::new(routes, self.seen))),
            begun: context.clock,
            deadline,
            wants: Wants::default(),
            silent: 0,
            is_shown: false,
            is_read_only: false,
        };
        self.transactions.insert(id, open);
        self.transactions.wake_at(id, deadline);
        true
    }

    fn note_period(&mut self, from: ReplicaId, period: Period) {
        let known = self.periods.entry(from).or_default();
        *known = match known.life == period.life {
            true => (*known).max(period),
            false => period,
        };
    }

    /// A node, or its home, does not answer.
    fn on_silence(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        open.silent += 1;
        let (is_dead, keyspace, home) = (open.silent >= SILENT_MAX, open.keyspace, open.home);
        match &mut open.phase {
            Phase::Executing(execution) if is_dead => {
                // Nothing of it is left at a node that has lost it, and nobody else was told anything. It does not move: its home is part
                // of its name.
                self.leave(keyspace, home);
                self.fail(id, Failure::Conflict, outbox);
            }
            Phase::Executing(_) => self.send_reads(id, context, outbox),
            Phase::Committing(_) if is_dead => {
                self.leave(keyspace, home);
                self.inquire(id, context, outbox);
            }
            Phase::Committing(_) => self.send_commit(id, context, outbox),
            Phase::Inquiring(_) => self.inquire(id, context, outbox),
        }
    }

    /// Ends a transaction that cannot commit.
    fn fail(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        if self.transactions.remove(&id).is_some() {
            finish(outbox, id, Err(failure));
        }
    }

    fn on_abort(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(open) = self.transactions.get(&id) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        let Phase::Executing(execution) = &open.phase else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        if execution.is_known() {
            outbox.send_unordered(open.home, Message::Abort { transaction: id });
        }
        self.fail(id, Failure::Aborted, outbox);
    }

    /// The client has waited long enough.
    fn give_up(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(mut open) = self.transactions.remove(&id) else { return };
        match open.phase {
            Phase::Executing(execution) => {
                if execution.is_known() {
                    outbox.send_unordered(open.home, Message::Abort { transaction: id });
                }
                finish(outbox, id, Err(Failure::Unavailable { missing: vec![open.home] }));
            }
            Phase::Committing(_) | Phase::Inquiring(_) => {
                // Nobody can be asked later what became of one that has only read.
                let participants = if open.is_read_only { Vec::new() } else { vec![open.home.shard] };
                open.wants.give_up(id, participants, outbox);
            }
        }
    }

    /// Remembers a transaction that was shown and has aborted. The client may not have heard of it when it begins the next one.
    fn note_apology(&mut self, id: TransactionId, was_shown: bool) {
        if was_shown {
            self.apologies.truncate(APOLOGIES_MAX - 1);
            self.apologies.push_front(id);
            assert!(self.apologies.len() <= APOLOGIES_MAX, "{} apologies are kept", self.apologies.len());
        }
    }

    /// The failure that the client is told for a refusal.
    fn failure(&self, refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Conflict
            | Refusal::Overwritten(_)
            | Refusal::Misspeculated
            | Refusal::Lost
            | Refusal::Overloaded => Failure::Conflict,
            Refusal::TooOld(floor) => {
                let oldest = quorate_core::Timestamp { micros: floor.as_micros(), ..Default::default() };
                Failure::TooOld { oldest }
            }
            Refusal::Ahead(clock) if self.seen > clock => {
                let ahead_micros = self.seen.as_micros() - clock.as_micros();
                Failure::Invalid(Invalid::SeenAhead { ahead_micros })
            }
            Refusal::Ahead(_) => Failure::Conflict,
            Refusal::ClientAhead { ahead_micros, ahead_max_micros } => {
                Failure::Invalid(Invalid::ClockAhead { ahead_micros, ahead_max_micros })
            }
            Refusal::Unavailable(shard) => {
                Failure::Unavailable { missing: self.leaders.replicas(shard).collect() }
            }
        }
    }

    /// COMMIT-REPLY: a transaction is over.
    fn on_ending(&mut self, from: ReplicaId, id: TransactionId, ending: Ending, outbox: &mut Out) {
        let Some(open) = self.transactions.get(&id).filter(|open| open.home == from) else {
            return outbox.ignored(reasons::ANSWERED);
        };
        match &open.phase {
            Phase::Executing(_) => outbox.ignored(reasons::ANSWERED),
            Phase::Committing(_) | Phase::Inquiring(_) => self.end(id, ending, outbox),
        }
    }

    /// DOOMED: a transaction that the client has not asked to commit cannot.
    fn on_doomed(&mut self, from: ReplicaId, id: TransactionId, refusal: Refusal, outbox: &mut Out) {
        let open = self.transactions.get(&id).filter(|open| open.home == from);
        match open.map(|open| &open.phase) {
            Some(Phase::Executing(_)) => {
                let failure = self.failure(refusal);
                self.fail(id, failure, outbox);
            }
            Some(Phase::Committing(_) | Phase::Inquiring(_)) | None => outbox.ignored(reasons::ANSWERED),
        }
    }
}
