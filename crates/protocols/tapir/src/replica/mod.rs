//! The replica: one member of one shard's group.
//!
//! It stores versions, votes on prepares and takes in outcomes, all through inconsistent replication; it serves reads;
//! and it plays its part, as acceptor or as backup coordinator, when a coordinator has died.
//!
//! | file | role |
//! |---|---|
//! | `authority` | whose word counts |
//! | `validate` | the votes, as pure functions |
//! | `acknowledged` | decisions that are acknowledged together |
//! | `agenda` | prepares and reads that wait, for their time or for earlier ones |
//! | `participant` | what is kept, and how operations run: the upcalls of inconsistent replication |
//! | `reads` | reads and scans |
//! | `holds` | what read-only transactions read and hold at once |
//! | `snapshots` | quorum reads at a timestamp, and validated versions |
//! | `turns` | reads of contended keys, one after the other |
//! | `watched` | which transactions were prepared or have ended, for the requests that wait |
//! | `schedule` | when keys are to be looked at |
//! | `promises` | what is promised to backup coordinators |
//! | `currency` | whether commits were missed |
//! | `member` | its own part in being a member of a group |
//! | `checkpoint` | what else has to be settled before everything below a floor is collected |
//! | `remains` | what it still remembers of what has ended |
//! | `handover` | what it owes to others, in a view change and after a restart |
//! | `epochs` | how it goes on with other replicas |
//! | `changes` | what it tells consumers of changes |
//! | `verifying` | what it holds, compared with others |

mod acknowledged;
mod agenda;
mod authority;
mod changes;
mod checkpoint;
mod currency;
mod epochs;
mod handover;
mod holds;
pub(crate) mod invariants;
mod member;
mod participant;
mod postponed;
mod promises;
mod reads;
mod remains;
mod schedule;
mod snapshots;
mod turns;
mod validate;
mod verifying;
mod watched;

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::changes::PRESENT;
use quorate_core::command::Outcome;
use quorate_core::hosted::Status;
use quorate_core::machine::OutboxOf;
use quorate_core::replay::SnapshotPart;
use quorate_core::verify::{Request as Verify, Verification};
use quorate_core::{
    Address, ClientId, Context, Epoch, Groups, Input, Instant, Machine, Timestamp, Transaction,
    TransactionId, View,
};
use quorate_ir::member::Beginning;
use quorate_ir::{FloorMessage, Member, MemberEvent, MemberState, OperationId, Postponed};
use quorate_store::{PreparedSet, Versions, WalkBelow};

use crate::config::ReplicaConfig;
use crate::message::{Decision, Message, Prepare, Tapir, Validation};
use crate::record::Record;
use crate::recovery::Recoveries;
use crate::rules::Plant;
use acknowledged::Acknowledgements;
use agenda::{Agenda, Request, Wants};
use checkpoint::Confirmation;
use currency::Currency;
pub use handover::Handover;
use participant::{Participant, outcome_of};
pub use remains::Remains;
use snapshots::ReadPromise;
use turns::Turns;

type Ir = quorate_ir::Message<Tapir>;

/// The timers of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaTimer {
    /// A view change has taken too long.
    ViewChange,
    /// The time of a prepare that waits has come, or it has waited long enough.
    Agenda,
    /// A read may have its turn.
    Turn,
    /// Time to look for transactions whose coordinator may have died.
    Sweep,
    /// The content of the replica is being compared: it walks on.
    Verification,
    /// Acknowledgements have waited for others.
    Acknowledgement,
}

/// The commands of the host to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaCommand {
    /// The groups of the keyspace from now on. The rules of such a change are told at [`Groups::next`]; an epoch that is no
    /// later than the present one is known already.
    ChangeGroups(Groups),
    /// An operator compares what replicas hold: see [`quorate_core::verify`]. [`Replica::verified`] has the answer.
    Verify(Verify),
    /// A consumer asks for changes: see [`quorate_core::changes`]. [`Replica::changes`] has the answer.
    Follow,
}

/// The events that a replica tells its host.
pub type ReplicaEvent = MemberEvent;

/// A replica of a shard.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    ir: quorate_ir::Replica<Tapir>,
    participant: Participant,
    recoveries: Recoveries,
    /// For each transaction that outstays its time: how many time-outs ago it was prepared when its recovery was last
    /// asked for.
    asked: BTreeMap<TransactionId, u64>,
    currency: Currency,
    member: MemberState,
    confirmation: Confirmation,
    promise: ReadPromise,
    /// The timestamp up to which readers may have been promised something before a restart.
    promised: Timestamp,
    /// When to look next for promises to backup coordinators that no longer fence anybody off.
    next_collection: Instant,
    agenda: Agenda,
    /// When the timer of the agenda fires.
    agenda_timer: Option<Instant>,
    turns: Turns,
    /// When the timer of the turns fires.
    turns_timer: Option<Instant>,
    /// Requests of clients that have arrived since the replica left its last view.
    postponed: Postponed<Message>,
    /// The replicas of the keyspace.
    groups: Groups,
    /// The epoch of which the disk knows.
    recorded_epoch: Epoch,
    /// The comparison by an operator.
    verification: Verification<WalkBelow>,
    /// The acknowledgements that wait for others.
    acknowledgements: Acknowledgements,
    /// When a consumer of changes has asked last, if one is there.
    followed: Option<Instant>,
}

impl Machine for Replica {
    type Message = Message;
    type Timer = ReplicaTimer;
    type Record = Record;
    type Command = ReplicaCommand;
    type Event = ReplicaEvent;
    type Config = ReplicaConfig;

    fn snapshot_part(_: &ReplicaConfig, record: &Record) -> Option<SnapshotPart> {
        match record {
            Record::SnapshotBegun { .. } => Some(SnapshotPart::Begin),
            Record::SnapshotPage { .. } | Record::SnapshotBinds { .. } => Some(SnapshotPart::Page),
            Record::SnapshotEnded { .. } => Some(SnapshotPart::End),
            _ => None,
        }
    }

    fn restore(config: ReplicaConfig, records: impl IntoIterator<Item = Record>) -> Self {
        let begins_anew = config.rules.has(Plant::EmptyDiskBeginsAnew);
        let records = records.into_iter().map(Self::fact);
        let mut beginning = Beginning::new(records, config.boot, begins_anew);
        let groups = config.groups.clone();
        let (succession, me) = (groups.succession(config.replica.shard), config.replica.index);
        let ir = beginning.replica(succession, me, config.view_change_timeout, config.page_bytes_max);
        let mut replica = Replica {
            ir: ir.with_mistake(config.rules.mistake()),
            participant: Participant::new(config.rules, config.attic.clone()),
            recoveries: Recoveries::new(
                config.replica,
                groups.clone(),
                config.recovery_timeout,
                config.timestamp_ahead_max + config.retry_span,
                config.rules,
            ),
            member: beginning.state(groups.epoch, member::settings(&config)),
            confirmation: Confirmation::default(),
            asked: BTreeMap::new(),
            currency: Currency::default(),
            promise: ReadPromise::default(),
            promised: Timestamp::ZERO,
            next_collection: Instant::START,
            // A prepare that waits for its time for longer than a recovery time-out would be aborted wherever it has arrived.
            agenda: Agenda::new(
                config.deadline_ahead_max.min(config.recovery_timeout / 2),
                config.prepare_wait_max,
            ),
            agenda_timer: None,
            turns: Turns::default(),
            turns_timer: None,
            postponed: Postponed::default(),
            recorded_epoch: Epoch::FIRST,
            groups,
            verification: Verification::new(config.pace),
            acknowledgements: Acknowledgements::default(),
            followed: None,
            config,
        };
        replica.rebuild(beginning);
        replica
    }

    fn epoch(&self, _: Address) -> Epoch {
        self.groups.epoch
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, ReplicaTimer, ReplicaCommand>,
        outbox: &mut OutboxOf<Self>,
    ) {
        self.participant.now = context.now;
        self.recoveries.clock = context.clock;
        let emitted_before = outbox.effects().len();
        match input {
            Input::Start => self.on_start(context, outbox),
            Input::Message { from, epoch, message } if epoch == self.groups.epoch => {
                if self.postpones(from, &message) {
                    self.postpone(from, message, context.now, outbox);
                } else {
                    self.on_message(from, message, context, outbox);
                }
            }
            Input::Message { from, epoch, .. } => self.on_other_epoch(from, epoch, outbox),
            Input::Timer(ReplicaTimer::ViewChange) => {
                self.with_desk(context.random, outbox, |ir, desk| ir.on_view_change_timeout(desk));
            }
            Input::Timer(ReplicaTimer::Sweep) => self.on_sweep_timeout(context, outbox),
            Input::Timer(ReplicaTimer::Agenda) => self.agenda_timer = None,
            Input::Timer(ReplicaTimer::Turn) => self.turns_timer = None,
            Input::Timer(ReplicaTimer::Verification) => self.on_verification_timeout(context.now, outbox),
            Input::Timer(ReplicaTimer::Acknowledgement) => self.on_acknowledgement_timeout(outbox),
            Input::Persisted(token) => self.promise.on_persisted(token),
            Input::Command(ReplicaCommand::ChangeGroups(groups)) => {
                self.on_change_groups(groups, context, outbox);
            }
            Input::Command(ReplicaCommand::Verify(request)) => self.on_verify(&request, context.now, outbox),
            Input::Command(ReplicaCommand::Follow) => self.followed = Some(context.now),
        }
        self.attend_postponed(context, outbox);
        self.attend_agenda(context, outbox);
        self.attend_turns(context, outbox);
        self.hold_elections(outbox);
        self.count_records(&outbox.effects()[emitted_before..]);
        self.assert_parts_agree();
    }
}

impl Replica {
    /// The parts of the replica agree on the present.
    fn assert_parts_agree(&self) {
        let (floor, bounds) = (self.ir.floor(), &self.participant.bounds);
        assert!(bounds.floor == floor, "votes go by the floor {}, and the record by {floor}", bounds.floor);
        assert!(
            self.ir.since() <= self.groups.epoch,
            "the group is as it is since {:?}, in epoch {:?}",
            self.ir.since(),
            self.groups.epoch
        );
        assert!(
            self.agenda.len() == 0 || self.agenda_timer.is_some(),
            "{} requests wait, and nothing wakes them",
            self.agenda.len()
        );
    }

    fn on_start(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.write_creation(outbox);
        if self.groups.epoch > self.recorded_epoch {
            self.write_epoch(outbox);
        }
        outbox.set_timer(ReplicaTimer::Sweep, self.config.recovery_timeout / 4);
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
            Message::Read { transaction, key } => self.on_read(from, transaction, key, outbox),
            Message::ReadInTurn { transaction, key } => {
                self.on_read_in_turn(from, transaction, key, context, outbox);
            }
            Message::ReadMany { transaction, request, keys, in_turn } => {
                self.on_read_many(from, transaction, request, keys, in_turn, context, outbox);
            }
            Message::Scan { transaction, request, range, limit } => {
                self.on_scan(from, transaction, request, range, limit, outbox);
            }
            Message::QuorumRead { transaction, round, timestamp, keys, in_turn } => {
                if !in_turn || !self.reader_waits(from, transaction, round, timestamp, &keys, context, outbox)
                {
                    self.on_quorum_read(from, transaction, round, timestamp, keys, context, outbox);
                }
            }
            Message::QuorumScan { transaction, round, timestamp, range, limit } => {
                self.on_quorum_scan(from, transaction, round, timestamp, &range, limit, context, outbox);
            }
            Message::ReadValidated { transaction, keys, otherwise, validated } => {
                for Validation { timestamp, reads } in validated {
                    self.on_validated(timestamp, &reads, context.clock);
                }
                self.on_read_validated(from, transaction, keys, otherwise, context, outbox);
            }
            Message::Validated { timestamp, reads } => self.on_validated(timestamp, &reads, context.clock),
            Message::Ir(message) => self.on_ir(from, message, context, outbox),
            Message::CommitPrepared { id, timestamp, together } => {
                self.on_commit_prepared(from, id, timestamp, together, context, outbox)
            }
            Message::Recover { transaction, participants, timestamp } => {
                self.on_recover(from, transaction, participants, timestamp, context, outbox);
            }
            Message::CoordinatorChange { transaction, ballot, timestamp } => {
                self.on_coordinator_change(from, transaction, ballot, timestamp, outbox);
            }
            Message::Forgotten { transaction } => {
                if matches!(from, Address::Replica(_)) {
                    self.on_forgotten(transaction);
                }
            }
            Message::AreDecided { nonce, transactions } => {
                self.on_are_decided(from, nonce, transactions, outbox)
            }
            Message::AreDecidedReply { nonce, view, missing } => {
                if let Address::Replica(replica) = from {
                    self.on_are_decided_reply(replica, nonce, view, missing, context, outbox);
                }
            }
            Message::Gather { .. }
            | Message::GatherReply { .. }
            | Message::FetchDecisions { .. }
            | Message::Decisions { .. }
            | Message::Complete { .. }
            | Message::CompleteReply { .. }
            | Message::RaiseFloor { .. } => {
                if let Ok(message) = FloorMessage::try_from(message) {
                    self.on_floor_message(from, message, context, outbox);
                }
            }
            Message::RecordOutcome { transaction, ballot, outcome } => {
                self.on_record_outcome(from, transaction, ballot, outcome, outbox);
            }
            Message::CoordinatorChangeReply { .. }
            | Message::RecordOutcomeReply { .. }
            | Message::Superseded { .. } => {
                if let Address::Replica(replica) = from {
                    self.recoveries.on_message(replica, message, context.now, outbox);
                }
            }
            Message::ClockProbe { sent, deadlines } => {
                if let Address::Client(client) = from {
                    self.agenda.note_client(client, deadlines, context.now);
                }
                // About the clock and nothing else, so it need not wait for the disk.
                outbox.send_unordered(from, Message::ClockProbeReply { sent, arrived: context.clock });
            }
            // Answers that only coordinators in clients ask for; and a replica of this membership is not outdated by another.
            Message::Outdated
            | Message::Recorded { .. }
            | Message::ReadReply { .. }
            | Message::ReadManyReply { .. }
            | Message::ReadWaits { .. }
            | Message::ClockProbeReply { .. }
            | Message::ScanReply { .. }
            | Message::RecoverReply { .. }
            | Message::ClockAhead { .. }
            | Message::HeldReads { .. }
            | Message::QuorumReadReply { .. }
            | Message::QuorumScanReply { .. }
            | Message::SnapshotTooOld { .. }
            | Message::ReadValidatedReply { .. } => {}
        }
    }

    fn on_ir(&mut self, from: Address, message: Ir, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        if let Address::Client(client) = from
            && !self.may_say(client, &message, context.clock)
        {
            return;
        }
        match message {
            Ir::ProposeInconsistent { id, operation } => {
                self.agenda.remove(id.transaction);
                self.on_inconsistent(from, id, operation, context.random, outbox);
            }
            Ir::ProposeConsensus { id, operation } => {
                self.on_prepare(from, id, operation, context, outbox);
            }
            Ir::FinalizeInconsistent { id } => {
                self.with_desk(context.random, outbox, |ir, desk| {
                    ir.on_finalize_inconsistent(from, id, desk)
                });
            }
            Ir::FinalizeConsensus { id, verdict, view, ballot } => {
                if self.refuses_finalize(from, id, ballot, outbox) {
                    return;
                }
                self.with_desk(context.random, outbox, |ir, desk| {
                    ir.on_finalize_consensus(from, id, verdict, view, ballot, desk);
                });
            }
            Ir::InconsistentReply { .. } | Ir::Confirm { .. } | Ir::ConsensusReply { .. } => {
                if let Address::Replica(replica) = from {
                    self.recoveries.on_message(replica, Message::Ir(message), context.now, outbox);
                }
            }
            message => self.on_view_message(from, message, context.random, outbox),
        }
    }

    /// A prepare gets its vote, now or when its time has come and nothing earlier is in its way.
    fn on_prepare(
        &mut self,
        from: Address,
        id: OperationId,
        prepare: Prepare,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.refuses_prepare(from, id, &prepare, context, outbox) {
            return;
        }
        let decided = self.decision(id.transaction).is_some();
        let answered = decided || self.ir.record().consensus(id).is_some();
        if !prepare.transaction.reads_when_prepared {
            self.note_reads(id.transaction, &prepare.transaction, answered, context.now);
        }
        let request = Request { from, id, prepare, wants: Wants::Vote };
        let now = if answered {
            Some(request)
        } else {
            self.agenda.admit(request, &self.participant.prepared, context)
        };
        if let Some(request) = now {
            self.answer(request, context, outbox);
        }
    }

    /// The reads of a transaction say whether this replica lags behind, and whose turn is over.
    fn note_reads(&mut self, id: TransactionId, transaction: &Transaction, answered: bool, now: Instant) {
        let floor = self.participant.bounds.floor;
        self.currency.note(transaction, &self.participant.versions, floor, now);
        if !answered && self.agenda.keys().entry(id).is_none() {
            for read in &transaction.reads {
                self.turns.on_prepare(id, &read.key, transaction.writes_key(&read.key), now);
            }
        }
    }

    /// Answers what has waited long enough.
    fn answer(&mut self, request: Request, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        let Request { from, id, prepare, wants } = request;
        match wants {
            Wants::Vote if prepare.transaction.reads_when_prepared => {
                self.on_hold_reads(from, id, prepare, context, outbox);
            }
            Wants::Vote => self.with_desk(context.random, outbox, |ir, desk| {
                ir.on_propose_consensus(from, id, prepare, desk);
            }),
            Wants::Versions => {
                let keys = prepare.transaction.reads.iter().map(|read| read.key.clone()).collect();
                self.on_quorum_read(
                    from,
                    id.transaction,
                    id.number,
                    prepare.timestamp,
                    keys,
                    context,
                    outbox,
                );
            }
        }
    }

    /// Answers what has waited, and asks to be woken for the rest.
    fn attend_agenda(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        if self.agenda.len() == 0 {
            return;
        }
        if self.ir.status() != Status::Normal {
            return self.agenda.clear();
        }
        while let Some(request) = self.next_of_agenda(context.now) {
            // A backup coordinator may have come meanwhile.
            let Request { from, id, ref prepare, wants } = request;
            if wants != Wants::Vote || !self.refuses_prepare(from, id, prepare, context, outbox) {
                self.answer(request, context, outbox);
            }
        }
        if let Some(at) = self.agenda.wakes_at()
            && self.agenda_timer.is_none_or(|planned| at < planned)
        {
            self.agenda_timer = Some(at);
            outbox.set_timer(ReplicaTimer::Agenda, at - context.now);
        }
        let wakes_at = self.agenda.wakes_at();
        assert!(
            wakes_at.is_none_or(|at| self.agenda_timer.is_some_and(|planned| planned <= at)),
            "something waits until {wakes_at:?}, and is looked at {:?}",
            self.agenda_timer
        );
    }

    fn next_of_agenda(&mut self, now: Instant) -> Option<Request> {
        self.pass_on_changes();
        self.agenda.next(&self.participant.prepared, now)
    }

    /// Tells the requests that wait which transactions were prepared, have ended, wait, or wait no longer.
    fn pass_on_changes(&mut self) {
        for (id, transaction) in self.participant.prepared.take_changes() {
            self.agenda.note_change(id, &self.participant.prepared);
            self.turns.note_change(&transaction);
        }
        for (_, transaction) in self.agenda.take_changes() {
            self.turns.note_change(&transaction);
        }
    }

    /// A COMMIT that leaves the contents out, because this replica has them.
    fn on_commit_prepared(
        &mut self,
        from: Address,
        id: OperationId,
        timestamp: Timestamp,
        together: bool,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        let record = self.ir.record();
        let last = Timestamp::ZERO;
        let operation = match (record.inconsistent(id.transaction), record.consensus(id)) {
            // It is known here, from the client or from a backup coordinator; the answer is all that is missing.
            (Some(known), _) => known.operation.clone(),
            (None, Some(known)) if known.operation.timestamp == timestamp => {
                Decision::Commit { transaction: known.operation.transaction.clone(), timestamp, last }
            }
            // If it ended below the floor, it is told once more with its contents, and that is acknowledged.
            _ => return,
        };
        let id = OperationId { number: OperationId::INCONSISTENT, ..id };
        match from {
            Address::Client(client) if together => {
                self.on_commit_together(client, id, operation, context, outbox)
            }
            _ => self.on_ir(from, Ir::ProposeInconsistent { id, operation }, context, outbox),
        }
    }

    /// The same, of a client that is told of many at once.
    fn on_commit_together(
        &mut self,
        client: ClientId,
        id: OperationId,
        operation: Decision,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        let message = Ir::ProposeInconsistent { id, operation };
        if !self.may_say(client, &message, context.clock) {
            return;
        }
        let Ir::ProposeInconsistent { id, operation } = message else { return };
        self.agenda.remove(id.transaction);
        if !self.record_inconsistent(id, operation, context.random, outbox) {
            return;
        }
        if let Some(message) = self.acknowledgements.note(client, id.transaction, self.ir.view()) {
            outbox.send(client, message);
        }
        assert!(self.ir.is_answering(), "{id} is acknowledged by a replica that is {:?}", self.ir.status());
        if self.acknowledgements.wants_timer() {
            outbox.set_timer(ReplicaTimer::Acknowledgement, acknowledged::WAIT);
        }
    }

    fn on_acknowledgement_timeout(&mut self, outbox: &mut OutboxOf<Self>) {
        // A replica that has left its view answers nobody.
        let view = self.ir.view();
        for (client, message) in self.acknowledgements.say(view) {
            if self.ir.is_answering() {
                outbox.send(client, message);
            }
        }
    }

    /// Looks for transactions that are held for so long that their coordinator may have died, and has them recovered.
    fn on_sweep_timeout(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        /// Asking for more at once would only pile up at the backup coordinators.
        const ASKED_AT_ONCE_MAX: usize = 256;

        outbox.set_timer(ReplicaTimer::Sweep, self.config.recovery_timeout / 4);
        self.turns.sweep(context.now);
        self.recoveries.sweep(context.now, context.random, outbox);
        if self.ir.status() != Status::Normal {
            return;
        }
        self.collect_at_rest();
        self.collect_promises(context);
        self.followed = self.followed.filter(|asked| context.now - *asked < PRESENT);
        self.sweep_search(context, outbox);
        self.sweep_snapshot(context, outbox);
        let (versions, floor) = (&self.participant.versions, self.participant.bounds.floor);
        if self.currency.lags(versions, floor, context.now, self.config.recovery_timeout) {
            self.with_desk(context.random, outbox, |ir, desk| ir.become_current(desk));
            return;
        }
        if self.config.rules.has(Plant::NoRecovery) {
            return;
        }
        let prepared = &self.participant.prepared;
        self.asked.retain(|id, _| prepared.entry(*id).is_some());
        assert!(
            self.asked.len() <= prepared.len(),
            "recoveries are asked for of {} transactions, and {} are prepared",
            self.asked.len(),
            prepared.len()
        );
        let timeout = self.config.recovery_timeout.as_nanos() as u64;
        let cutoff = Instant::from_nanos(context.now.as_nanos().saturating_sub(timeout));
        if cutoff == Instant::START {
            return;
        }
        let mut asked = 0;
        for id in prepared.older_than(cutoff) {
            let held = prepared.entry(id).expect("it was just listed");
            assert!(held.since <= cutoff, "{id} is held since {:?}, after {cutoff:?}", held.since);
            let timeouts = self.recovery_timeouts_in(context.now - held.since);
            if self.asked.get(&id) == Some(&timeouts) {
                continue;
            }
            self.asked.insert(id, timeouts);
            let participants = held.transaction.participants.clone();
            let timestamp = self.first_timestamp(id).unwrap_or(held.timestamp);
            if let Some(backup) = self.backup_replica(id, &participants, timeouts) {
                outbox.send(backup, Message::Recover { transaction: id, participants, timestamp });
            }
            asked += 1;
            if asked == ASKED_AT_ONCE_MAX {
                return;
            }
        }
    }

    /// How often a recovery takes too long within such a time.
    fn recovery_timeouts_in(&self, time: Duration) -> u64 {
        (time.as_nanos() / self.config.recovery_timeout.as_nanos()) as u64
    }

    /// The status of the replica.
    pub fn status(&self) -> Status {
        self.ir.status()
    }

    /// Its view.
    pub fn view(&self) -> View {
        self.ir.view()
    }

    /// The transactions that it holds prepared, ascending.
    pub fn prepared(&self) -> &PreparedSet {
        &self.participant.prepared
    }

    /// How many prepares wait for their time or for others.
    pub fn waiting(&self) -> usize {
        self.agenda.len()
    }

    /// The versions that it stores.
    pub fn versions(&self) -> &Versions {
        &self.participant.versions
    }

    /// How many transactions have committed here since the machine was built, those it was rebuilt from included.
    pub fn committed(&self) -> u64 {
        self.participant.committed
    }

    /// How many transactions have been aborted here since the machine was built.
    pub fn aborted(&self) -> u64 {
        self.participant.aborted
    }

    /// How many recoveries it leads as a backup coordinator.
    pub fn recoveries(&self) -> usize {
        self.recoveries.len()
    }

    /// How many promises to backup coordinators it keeps.
    pub fn promises(&self) -> usize {
        self.participant.promises.len()
    }

    /// The floor: everything below it has ended, and is being collected.
    pub fn floor(&self) -> Timestamp {
        self.ir.floor()
    }

    /// How many transactions its record holds.
    pub fn record_len(&self) -> usize {
        self.ir.record().len()
    }

    /// The transactions whose outcome it knows, ascending.
    pub fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        self.ir
            .record()
            .all_inconsistent()
            .into_iter()
            .map(|(id, entry)| (id, outcome_of(&entry.operation)))
            .collect()
    }

    /// The outcome of one transaction, if it is known here.
    pub fn outcome(&self, transaction: TransactionId) -> Option<Outcome> {
        self.ir.record().inconsistent(transaction).map(|entry| outcome_of(&entry.operation))
    }

    /// The lowest timestamp at which an open transaction is known to have been proposed.
    fn first_timestamp(&self, transaction: TransactionId) -> Option<Timestamp> {
        self.ir.record().consensus_of(transaction).map(|entry| entry.operation.first_timestamp()).min()
    }

    fn decision(&self, transaction: TransactionId) -> Option<&Decision> {
        self.ir.record().inconsistent(transaction).map(|entry| &entry.operation)
    }
}
