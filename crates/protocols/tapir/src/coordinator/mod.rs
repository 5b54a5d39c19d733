//! The coordinator: runs a client's transactions, thousands at a time (TAPIR paper, sections 5.1.1 and 5.1.2).
//!
//! ```text
//!   Begin ─► executing ── Commit ─► preparing ── every shard OK ───────► telling COMMIT ─► forgotten
//!              │  reads, buffered      │  ▲ └─── a shard says no, final ─► telling ABORT ──► forgotten
//!              │  writes, scans        └──┘ RETRY: again, higher timestamp
//!            Abort                     └────── a backup coordinator took over ─► resolving
//! ```
//!
//! The client hears the outcome when preparing ends: one round trip if every shard has a fast quorum. Telling goes on
//! behind its back.
//!
//! | file | role |
//! |---|---|
//! | `execution` | reads, buffered writes, scans, limits |
//! | `deadline` | timestamps ahead of time, so that replicas agree on the order |
//! | `prepare` | the prepare phase: votes, the slow path, retries, the decision |
//! | `tell` | COMMIT and ABORT until f + 1 replicas of every shard hold them |
//! | `resolve` | what became of a transaction that others settle |
//! | `epochs` | what becomes of all that when a keyspace has other replicas |
//! | `commit_wait` | when it is reported, where clocks are bounded |
//! | `read_only` | read-only transactions: which way each goes |
//! | `reading` | quorum reads and reads of validated versions |
//! | `agreement` | what the replies to a quorum read amount to |
//! | `notices` | what stale reads have found out, for the nearest replicas |

mod agreement;
mod commit_wait;
mod deadline;
mod epochs;
mod execution;
mod notices;
mod prepare;
mod read_only;
mod reading;
mod resolve;
mod tell;

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_coordinator::{Coordinates, Transactions, Wants, finish};
use quorate_core::command::{CommitWindow, Outcome};
use quorate_core::hash::FixedSet;
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    ClockTime, Context, Epoch, GroupSize, Instant, KeyspaceId, Members, ReplicaId, ShardId, Timestamp,
    TransactionId,
};

use crate::config::CoordinatorConfig;
use crate::message::{Message, Tapir};
use commit_wait::{CommitWaits, Report};
use deadline::Deadlines;
use execution::Execution;
use notices::Notices;
use prepare::Preparing;
pub(crate) use prepare::decide_vote;
use quorate_core::command::{Command, Committed, Event, Failure, Invalid, Routes};
use read_only::Wanted;
use reading::{Reading, Reply, Scan};
use resolve::Resolving;
use tell::Telling;

type Ir = quorate_ir::Message<Tapir>;
type Out = quorate_coordinator::Out<Coordinator>;

/// The coordinator of all transactions of one client.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    keyspaces: BTreeMap<KeyspaceId, Arc<Routes>>,
    groups: BTreeMap<ShardId, Group>,
    transactions: Transactions<Open>,
    /// The greatest timestamp proposed so far: timestamps of one client rise strictly.
    last_timestamp: Timestamp,
    /// Replicas whose connection is down.
    unreachable: FixedSet<ReplicaId>,
    /// Replicas that made a fast quorum wait in vain; whatever they send clears them.
    silent: FixedSet<ReplicaId>,
    /// Replicas that have left a request for several keys unanswered, and until when they are asked for each key by itself.
    reads_apart: BTreeMap<ReplicaId, Instant>,
    notices: Notices,
    deadlines: Deadlines,
    commit_waits: CommitWaits,
}

/// The replicas of a shard, as this client knows them.
#[derive(Clone, Copy, Debug)]
struct Group {
    members: Members,
    keyspace: KeyspaceId,
    /// The membership that quorums are counted in.
    epoch: Epoch,
    /// The greatest membership that was heard of.
    newest_epoch: Epoch,
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
    /// The timestamps at which it may commit.
    window: CommitWindow,
}

impl Open {
    /// Its client wants an answer by `deadline`.
    fn new(phase: Phase, deadline: Instant, began: ClockTime) -> Self {
        Open { phase, deadline, wants: Wants::default(), began, window: CommitWindow::default() }
    }
}

#[derive(Debug)]
enum Phase {
    Executing(Box<Execution>),
    Reading(Box<Reading>),
    Preparing(Box<Preparing>),
    Resolving(Box<Resolving>),
    Telling(Box<Telling>),
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
            last_timestamp: Timestamp::ZERO,
            unreachable: FixedSet::default(),
            silent: FixedSet::default(),
            reads_apart: BTreeMap::new(),
            notices: Notices::default(),
            deadlines: Deadlines::default(),
            commit_waits: CommitWaits::default(),
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

    /// True if a replica speaks under the membership that this coordinator counts quorums in. If it speaks under a later
    /// one, the client is told that it has to learn of that.
    fn is_current(&mut self, from: ReplicaId, epoch: Epoch, outbox: &mut Out) -> bool {
        let Some(group) = self.groups.get_mut(&from.shard) else { return false };
        if epoch > group.newest_epoch {
            group.newest_epoch = epoch;
            outbox.emit(Event::Outdated { keyspace: group.keyspace });
        }
        epoch == group.epoch
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, context: &mut Context<'_>, outbox: &mut Out) {
        self.silent.remove(&from);
        match message {
            Message::ReadReply { transaction, key, version, value } => {
                let found = KeyVersion { key, version, value };
                self.on_read_reply(from, transaction, found, context, outbox);
            }
            Message::ReadManyReply { transaction, request, found, waiting } => {
                self.on_read_many_reply(from, transaction, request, found, &waiting, context, outbox);
            }
            Message::ScanReply { transaction, request, keys, next } => {
                self.on_scan_reply(from, transaction, request, keys, next, context, outbox);
            }
            Message::Ir(Ir::ConsensusReply { id, view, verdict, finalized }) => {
                self.on_prepare_reply(from, id, view, verdict, finalized, Vec::new(), context, outbox);
            }
            Message::HeldReads { id, view, vote, finalized, found } => {
                self.on_prepare_reply(from, id, view, vote, finalized, found, context, outbox);
            }
            Message::QuorumReadReply { transaction, round, view, found } => {
                let reply = Reply::Versions(found);
                self.on_quorum_read_reply(from, transaction, round, view, reply, context, outbox);
            }
            Message::QuorumScanReply { transaction, round, view, page } => {
                let reply = Reply::Page(page);
                self.on_quorum_read_reply(from, transaction, round, view, reply, context, outbox);
            }
            Message::SnapshotTooOld { transaction, oldest } => {
                self.on_snapshot_too_old(transaction, oldest, context, outbox);
            }
            Message::ReadValidatedReply { transaction, found } => {
                self.on_read_validated_reply(from, transaction, found, context, outbox);
            }
            Message::Ir(Ir::Confirm { id, view, verdict, finalized }) => {
                self.on_confirm(from, id, view, verdict, finalized, context, outbox);
            }
            Message::Ir(Ir::InconsistentReply { id, view }) => {
                self.on_decision_reply(from, id.transaction, view, outbox);
            }
            Message::Recorded { view, transactions } => {
                for transaction in transactions {
                    self.on_decision_reply(from, transaction, view, outbox);
                }
            }
            Message::Superseded { transaction, .. } => self.on_superseded(transaction, None, context, outbox),
            Message::ClockAhead { transaction, ahead_micros, ahead_max_micros } => {
                let invalid = Invalid::ClockAhead { ahead_micros, ahead_max_micros };
                // Each takes it of its own phase, and a read begins no other.
                self.on_clock_ahead(from, transaction, invalid.clone(), context, outbox);
                self.on_reading_clock_ahead(from, transaction, invalid, context, outbox);
            }
            Message::RecoverReply { transaction, outcome } => {
                self.on_recover_reply(transaction, outcome, context, outbox)
            }
            Message::Forgotten { transaction } => self.on_forgotten(transaction, outbox),
            Message::ClockProbeReply { sent, arrived } => {
                self.deadlines.on_answer(from, sent, arrived, context.now);
            }
            Message::ReadWaits { transaction, key } => {
                self.on_read_waits(from, transaction, &key, context.now);
                self.on_quorum_read_waits(from, transaction, context.now);
            }
            // The envelope has said it already; the rest is what only replicas are asked, and say to each other.
            Message::Outdated
            | Message::Gather { .. }
            | Message::GatherReply { .. }
            | Message::FetchDecisions { .. }
            | Message::Decisions { .. }
            | Message::AreDecided { .. }
            | Message::AreDecidedReply { .. }
            | Message::Complete { .. }
            | Message::CompleteReply { .. }
            | Message::RaiseFloor { .. }
            | Message::Read { .. }
            | Message::ReadMany { .. }
            | Message::ReadInTurn { .. }
            | Message::ClockProbe { .. }
            | Message::Scan { .. }
            | Message::QuorumRead { .. }
            | Message::QuorumScan { .. }
            | Message::ReadValidated { .. }
            | Message::Validated { .. }
            | Message::Ir(_)
            | Message::CommitPrepared { .. }
            | Message::Recover { .. }
            | Message::CoordinatorChange { .. }
            | Message::CoordinatorChangeReply { .. }
            | Message::RecordOutcome { .. }
            | Message::RecordOutcomeReply { .. } => {}
        }
    }

    fn on_command(&mut self, command: Command, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            Command::Route(routes) => self.on_route(routes, context, outbox),
            Command::Reachable { replica, reachable } => self.on_reachable(replica, reachable, context),
            Command::Begin { transaction, keyspace, patience } => {
                self.on_begin(transaction, keyspace, context.now + patience, context, outbox);
            }
            Command::Get { transaction, key } => self.on_get(transaction, vec![key], context, outbox),
            Command::GetMany { transaction, keys } => self.on_get(transaction, keys, context, outbox),
            Command::Scan { transaction, range, limit } => {
                self.on_scan(transaction, range, limit, context, outbox)
            }
            Command::Put { transaction, key, value } => self.on_put(transaction, key, value, outbox),
            Command::Confine { transaction, window } => self.on_confine(transaction, window, outbox),
            Command::Commit { transaction } => self.on_commit(transaction, context, outbox),
            Command::ReadOnly { transaction, keyspace, keys, freshness, patience } => {
                let (wanted, deadline) = (Wanted::Keys(keys.into_iter().collect()), context.now + patience);
                self.on_read_only(transaction, keyspace, wanted, freshness, deadline, context, outbox);
            }
            Command::ReadOnlyScan { transaction, keyspace, range, limit, freshness, patience } => {
                let limit = limit.min(self.config.scan_page_max);
                let (wanted, deadline) = (Wanted::Range(Scan { range, limit }), context.now + patience);
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
            | Command::CommitSpeculatively { .. }
            | Command::Await { .. }) => {
                command.refused(Invalid::Unsupported).into_iter().for_each(|event| outbox.emit(event));
            }
        }
    }

    /// Looks after one transaction; gives when to look again.
    fn attend(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) -> Option<Instant> {
        let open = self.transactions.get_mut(&id)?;
        if context.now >= open.deadline {
            let abandoned = context.now >= open.deadline + self.config.abandon_after;
            match &open.phase {
                Phase::Executing(execution) => {
                    let failure = execution.failure();
                    self.fail(id, failure, outbox);
                }
                Phase::Reading(reading) => {
                    let failure = reading.failure();
                    self.fail(id, failure, outbox);
                }
                Phase::Preparing(preparing) => {
                    let participants = preparing.participants();
                    open.wants.give_up(id, participants, outbox);
                }
                Phase::Resolving(resolving) => {
                    let participants = resolving.participants.clone();
                    open.wants.give_up(id, participants, outbox);
                }
                Phase::Telling(_) => {}
            }
            if abandoned {
                // The replicas' own recovery looks after what is left.
                self.transactions.remove(&id);
                return None;
            }
        }
        match &self.transactions.get(&id)?.phase {
            Phase::Executing(_) => self.attend_execution(id, context, outbox),
            Phase::Reading(_) => self.attend_reading(id, context, outbox),
            Phase::Preparing(_) => self.attend_preparing(id, context, outbox),
            Phase::Resolving(_) => self.attend_resolving(id, context, outbox),
            Phase::Telling(_) => self.attend_telling(id, context, outbox),
        }
    }

    fn attend_others(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        self.attend_commit_waits(context, outbox);
    }

    fn others_wake_at(&self) -> Option<Instant> {
        self.commit_waits.wakes_at()
    }
}

quorate_coordinator::coordinator!(Coordinator);

impl Coordinator {
    fn on_reachable(&mut self, replica: ReplicaId, reachable: bool, context: &mut Context<'_>) {
        if reachable {
            // It may have come back with another version.
            self.reads_apart.remove(&replica);
            self.unreachable.remove(&replica);
            return;
        }
        if self.unreachable.insert(replica) {
            // A transaction that waits for it need not wait any longer.
            self.transactions.wake_all(context.now);
        }
    }

    fn on_begin(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        deadline: Instant,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(routes) = self.keyspaces.get(&keyspace) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::UnknownKeyspace(keyspace))));
        };
        if self.is_in_use(id) {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        let phase = Phase::Executing(Box::new(Execution::new(routes.clone(), id.attempt)));
        self.transactions.insert(id, Open::new(phase, deadline, context.clock));
        let first = deadline.min(context.now + self.config.read_timeout);
        self.transactions.wake_at(id, first);
    }

    /// Ends a transaction that was not asked to commit, for this reason.
    fn end_open(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        match self.transactions.get(&id) {
            Some(Open { phase: Phase::Executing(_), .. }) => self.fail(id, failure, outbox),
            _ => finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id)))),
        }
    }

    /// Ends a transaction of which nothing has left this client but reads: it has surely not committed.
    fn fail(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        self.close(id, Outcome::Aborted, outbox);
        finish(outbox, id, Err(failure));
    }

    /// Forgets a transaction of which the replicas know nothing. Only here can be told what became of it, if that has been
    /// asked.
    fn close(&mut self, id: TransactionId, outcome: Outcome, outbox: &mut Out) {
        let Some(open) = self.transactions.remove(&id) else { return };
        if open.wants.resolve_wanted {
            outbox.emit(Event::Resolved { transaction: id, outcome: Some(outcome) });
        }
    }

    /// True if the coordinator has not forgotten a transaction of this name.
    fn is_in_use(&self, id: TransactionId) -> bool {
        self.transactions.contains_key(&id) || self.commit_waits.contains(id)
    }

    /// The outcome of a transaction is known: tells the client, unless it gave up, and each machine that has asked for it since.
    fn answer(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        result: Result<Committed, Failure>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let resolves = std::mem::take(&mut open.wants.resolve_wanted);
        let finishes = !std::mem::replace(&mut open.wants.answered, true);
        let deadline = open.deadline;
        match result {
            Ok(committed) => {
                let mut report = Report::new(committed, participants, deadline);
                (report.resolves, report.finishes) = (resolves, finishes);
                self.report(id, report, context, outbox);
            }
            Err(failure) => {
                if resolves {
                    let outcome = Some(Outcome::Aborted);
                    outbox.emit(Event::Resolved { transaction: id, outcome });
                }
                if finishes {
                    finish(outbox, id, Err(failure));
                }
            }
        }
    }

    /// Measures how far ahead a timestamp has to be to reach a replica before its time, unless that is known.
    fn probe(&mut self, replica: ReplicaId, context: &Context<'_>, outbox: &mut Out) {
        if (self.config.deadlines || self.config.reads_in_turn)
            && self.deadlines.begin_probe(replica, context.now)
        {
            let shard = [(replica.shard, self.groups[&replica.shard].members)].into_iter();
            let deadlines =
                self.config.deadlines && self.deadlines.is_far(shard, |_| true, self.config.far_round_trip);
            outbox.send(replica, Message::ClockProbe { sent: context.clock, deadlines });
        }
    }

    /// A new timestamp: not below the clock, above everything that was read, and above every earlier one of this client.
    fn next_timestamp(&mut self, clock: ClockTime, above: Timestamp) -> Timestamp {
        let last = self.last_timestamp;
        self.last_timestamp = last.max(above).successor(clock, self.config.client);
        assert!(
            self.last_timestamp > last.max(above) || self.last_timestamp.micros == u64::MAX,
            "{} is proposed after {last}, above {above}",
            self.last_timestamp
        );
        self.last_timestamp
    }

    /// The same for what a quorum of each of these shards is to be told: a deadline where that is of use.
    fn next_deadline(
        &mut self,
        clock: ClockTime,
        above: Timestamp,
        shards: impl Iterator<Item = ShardId>,
        quorum: fn(GroupSize) -> usize,
    ) -> Timestamp {
        let far = self.config.far_round_trip;
        let clock = if self.config.deadlines {
            let groups = shards.map(|shard| (shard, self.groups[&shard].members));
            self.deadlines.clock(clock, groups, |replica| self.is_expected(replica), quorum, far)
        } else {
            clock
        };
        self.next_timestamp(clock, above)
    }

    /// True if reads of a shard had rather wait for their turn than find something halfway written.
    fn reads_in_turn(&self, shard: ShardId) -> bool {
        let group = [(shard, self.groups[&shard].members)].into_iter();
        self.config.reads_in_turn && self.deadlines.is_far(group, |_| true, self.config.far_round_trip)
    }

    /// True if messages can be expected from a replica soon.
    fn is_expected(&self, replica: ReplicaId) -> bool {
        !self.unreachable.contains(&replica) && !self.silent.contains(&replica)
    }
}

/// The replicas of a shard.
fn replicas(shard: ShardId, group: Members) -> impl Iterator<Item = ReplicaId> {
    group.iter().map(move |index| ReplicaId { shard, index })
}
