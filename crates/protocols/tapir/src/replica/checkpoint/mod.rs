//! Checkpoints: how a group finds a floor, below which everything has ended, so that its record, old versions and read
//! timestamps can be collected. Why a floor is safe is told in [`quorate_ir::replica::floor`].
//!
//! ```text
//!   leader      Gather(below, from) → all        durably refuse new prepares below; answer with a page of what is
//!                                                committed and what is open
//!   leader      compare page by page             fetch what it lacks, push what the other lacks, wait for what is open
//!   leader      AreDecided → other participants  may these commits be forgotten here?
//!   leader      Complete(below) → the complete   durably
//!   leader      RaiseFloor                       once f + 1 are: raise the floor, collect
//! ```
//!
//! It all happens inside a view, while the group serves. The leader of the view does it because somebody has to; if its
//! floor does not move for too long the next replica tries as well, which does no harm: floors need no order. But nobody
//! compares what lies below the floor of either: whoever looks for one and is below another's is told that floor instead.
//!
//! | file | role |
//! |---|---|
//! | `participants` | asks other shards whether commits may be forgotten here |

mod participants;

use std::collections::BTreeSet;

use quorate_core::machine::OutboxOf;
use quorate_core::{ClientId, Context, Instant, ReplicaId, ReplicaIndex, Timestamp, TransactionId, View};
use quorate_ir::{Cursor, Status, Summary};
use quorate_store::WalkBelow;

use super::Replica;
use crate::message::{Decision, Message};
use crate::record::Record;
use crate::rules::Plant;
use participants::Question;

/// A search for a floor that is under way, and when to begin the next.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    run: Option<Run>,
    /// The floor when it was last seen to move, and when that was.
    moved: Option<(Timestamp, Instant)>,
    /// Counts questions to other shards.
    nonce: u64,
}

impl Checkpoints {
    /// Those who were asked need not be members any more.
    pub(super) fn give_up(&mut self) {
        self.run = None;
    }
}

/// A search for a floor.
#[derive(Debug)]
struct Run {
    view: View,
    /// Where the floor may come to lie.
    below: Timestamp,
    began: Instant,
    /// For each replica of the group, by its place: below here it has committed what this one has, and the other way round, and
    /// nothing is open at either. For this replica itself: below here nothing is open.
    compared: Vec<Cursor>,
    /// The replicas that have answered, and so refuse prepares below.
    refusing: Vec<bool>,
    /// Below here all commits are known to f + 1 replicas of every participant.
    confirmed: Cursor,
    question: Option<Question>,
    /// Once it is chosen: the floor, and the replicas that are complete below it.
    chosen: Option<(Timestamp, Vec<bool>)>,
}

/// The place before everything at or above a timestamp.
fn start_of(timestamp: Timestamp) -> Cursor {
    (timestamp, TransactionId::default())
}

/// Decisions to be pushed or fetched at once.
const DECISIONS_MAX: usize = 128;

/// So many transactions and keys are looked at, to collect them, with each decision that arrives: more than one, so that
/// more is dropped than comes.
pub(super) const COLLECTED_WITH_DECISION_MAX: usize = 4;

/// So many are looked at when nothing arrives.
pub(super) const COLLECTED_AT_REST_MAX: usize = 4_096;

/// Recoveries asked for at once, of transactions that hold a floor up.
const RECOVERIES_ASKED_MAX: usize = 64;

/// A search that takes longer than so many recovery time-outs is given up, and begun anew with a later floor.
const RUN_TIMEOUTS_MAX: u32 = 16;

/// So many recovery time-outs are given to slower replicas before f + 1 go on without them.
const PATIENCE_TIMEOUTS: u32 = 4;

impl Run {
    /// Something has committed here that the others may not have.
    fn step_back(&mut self, late: Timestamp) {
        let to = start_of(late);
        for compared in &mut self.compared {
            *compared = (*compared).min(to);
        }
        if self.confirmed > to {
            self.confirmed = to;
            self.question = None;
        }
    }

    /// The greatest place below which `count` replicas, `me` among them, have compared everything.
    fn compared_by(&self, me: usize, count: usize) -> Cursor {
        let own = self.compared[me];
        let mut all = self.compared.clone();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all[count - 1].min(own)
    }
}

impl Replica {
    /// Drops some of what the floor makes superfluous; looks at `max` transactions and keys at most. True if more is left
    /// to do.
    pub(super) fn collect(&mut self, max: usize) -> bool {
        if self.config.rules.has(Plant::CollectNothing) {
            return false;
        }
        let collectable = WalkBelow::collectable(&self.verification, self.participant.floor);
        let more_versions = self.participant.versions.collect(collectable, max);
        self.ir.collect(max) || more_versions
    }

    /// Begins, repeats or gives up the search for a floor.
    pub(super) fn sweep_checkpoint(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.collect(COLLECTED_AT_REST_MAX);
        self.collect_promises(context.clock);
        let now = context.now;
        let floor = self.ir.floor();
        let moved = self.checkpoints.moved.filter(|(known, _)| *known == floor);
        let (_, moved_at) = *self.checkpoints.moved.insert(moved.unwrap_or((floor, now)));
        let limit = self.config.recovery_timeout * RUN_TIMEOUTS_MAX;
        let view = self.ir.view();
        let allowed = context.clock.saturating_add(self.config.timestamp_ahead_max / 2).as_micros();
        let was_wild =
            |run: &Run| run.below.micros > allowed && !self.config.rules.has(Plant::WildFloorSought);
        let is_over = |run: &Run| run.view != view || now - run.began >= limit || was_wild(run);
        if self.checkpoints.run.as_ref().is_some_and(is_over) {
            self.checkpoints.run = None;
        }
        if self.checkpoints.run.is_none() {
            let n = self.ir.group().replicas() as u64;
            let turn = (self.own_place() as u64 + n - view.0 % n) % n;
            let wait = self.config.checkpoint_interval * (turn as u32 + 1);
            if now - moved_at >= wait {
                self.begin_checkpoint(context, outbox);
            }
        }
        self.send_gathers(outbox);
        if self.checkpoints.run.as_ref().is_some_and(|run| run.chosen.is_some()) {
            self.send_complete(outbox);
        }
        self.ask_participants_again(now, outbox);
        self.advance_checkpoint(context, outbox);
    }

    fn begin_checkpoint(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        let lag = self.config.checkpoint_lag.as_micros() as u64;
        let micros = context.clock.as_micros().saturating_sub(lag);
        let below = Timestamp { micros, client: ClientId(0) };
        let floor = self.ir.floor();
        if below <= floor {
            return;
        }
        if self.config.rules.has(Plant::CollectAlone) {
            self.with_desk(context.random, outbox, |ir, desk| ir.raise_floor(below, desk));
            return;
        }
        let n = self.ir.group().replicas();
        self.participant.committed_late = None;
        self.participant.looked_for = below;
        self.checkpoints.run = Some(Run {
            view: self.ir.view(),
            below,
            began: context.now,
            compared: vec![start_of(floor); n],
            refusing: vec![false; n],
            confirmed: start_of(floor),
            question: None,
            chosen: None,
        });
    }

    fn send_gathers(&self, outbox: &mut OutboxOf<Self>) {
        let Some(run) = self.checkpoints.run.as_ref().filter(|run| run.chosen.is_none()) else { return };
        for (place, index) in self.ir.group().iter().enumerate() {
            let is_other = index != self.config.replica.index;
            if is_other && (run.compared[place] < start_of(run.below) || !run.refusing[place]) {
                self.send_gather(run, index, outbox);
            }
        }
    }

    fn send_gather(&self, run: &Run, to: ReplicaIndex, outbox: &mut OutboxOf<Self>) {
        let Some(place) = self.ir.group().position(to) else { return };
        let from = run.compared[place];
        let (view, floor, below) = (run.view, self.ir.floor(), run.below);
        self.send_to_peer(to, Message::Gather { view, floor, below, from }, outbox);
    }

    /// The place of this replica in its group, whose views it takes part in.
    fn own_place(&self) -> usize {
        self.ir.group().position(self.config.replica.index).expect("only members are normal")
    }

    fn send_to_peer(&self, to: ReplicaIndex, message: Message, outbox: &mut OutboxOf<Self>) {
        outbox.send(ReplicaId { shard: self.config.replica.shard, index: to }, message);
    }

    /// A message of the search for a floor, from another replica of the group.
    pub(super) fn on_checkpoint_message(
        &mut self,
        from: ReplicaIndex,
        message: Message,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        match message {
            Message::Gather { view, floor, below, from: cursor } => {
                self.on_gather(from, view, floor, below, cursor, context, outbox);
            }
            Message::GatherReply { view, below, from: cursor, executed, open, next } => {
                let summary = Summary { executed, open, next };
                self.on_gather_reply(from, view, below, cursor, summary, context, outbox);
            }
            Message::FetchDecisions { transactions } => self.send_decisions(from, &transactions, outbox),
            Message::Decisions { decisions } => {
                for (transaction, decision) in decisions {
                    self.with_desk(context.random, outbox, |ir, desk| {
                        ir.learn(transaction, decision, desk);
                    });
                }
                self.advance_checkpoint(context, outbox);
            }
            Message::Complete { view, below } if view == self.ir.view() => {
                self.complete_below(below, context, outbox);
                self.send_to_peer(from, Message::CompleteReply { view, below }, outbox);
            }
            Message::CompleteReply { view, below } => {
                self.on_complete_reply(from, view, below, context, outbox)
            }
            Message::RaiseFloor { floor } => self.raise_floor(floor, context, outbox),
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    fn on_gather(
        &mut self,
        from: ReplicaIndex,
        view: View,
        floor: Timestamp,
        below: Timestamp,
        cursor: Cursor,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if view != self.ir.view() {
            return;
        }
        self.raise_floor(floor, context, outbox);
        if self.ir.complete() < floor {
            return;
        }
        let own = self.ir.floor();
        if floor < own && !self.config.rules.has(Plant::FloorBelowAnother) {
            // What lies below its own floor may have been collected here, and would look as if it had never been.
            self.send_to_peer(from, Message::RaiseFloor { floor: own }, outbox);
            return;
        }
        // A clock far ahead of this one must not drag the group along (and the leader gives up what its own clock led it to once
        // that is right again).
        let allowed = context.clock.saturating_add(self.config.timestamp_ahead_max / 2);
        if below.micros > allowed.as_micros() {
            return;
        }
        self.refuse_below(below, outbox);
        let summary = self.ir.record().summary(cursor, start_of(below), self.config.checkpoint_page_max);
        self.have_recovered(summary.open.iter().map(|(_, transaction)| *transaction), context.now, outbox);
        let Summary { executed, open, next } = summary;
        self.send_to_peer(
            from,
            Message::GatherReply { view, below, from: cursor, executed, open, next },
            outbox,
        );
    }

    /// From now on refuses new prepares below, durably, before anything is said of what is held below (T28).
    fn refuse_below(&mut self, below: Timestamp, outbox: &mut OutboxOf<Self>) {
        if self.config.rules.has(Plant::GatherBeforeRefusing) {
            return;
        }
        if below > self.participant.refusal {
            self.participant.refuse_below(below);
            outbox.persist(Record::Refusing { below });
        }
    }

    /// Asks for the recovery of open transactions that are not held prepared: of those that are, the sweep takes care.
    fn have_recovered(
        &self,
        open: impl Iterator<Item = TransactionId>,
        now: Instant,
        outbox: &mut OutboxOf<Self>,
    ) {
        let attempt = now.as_nanos() / (self.config.recovery_timeout.as_nanos().max(1) as u64);
        let unheld = open.filter(|id| self.participant.prepared.entry(*id).is_none());
        for transaction in unheld.take(RECOVERIES_ASKED_MAX) {
            let record = self.ir.record();
            let prepared = record.consensus_of(transaction).map(|entry| &entry.operation);
            let prepared = prepared.map(|prepare| (&prepare.transaction, prepare.first_timestamp()));
            let prepared = prepared.min_by_key(|(_, first)| *first);
            let decided = match self.decision(transaction) {
                Some(Decision::Commit { transaction, timestamp, .. }) => Some((transaction, *timestamp)),
                _ => None,
            };
            let Some((contents, timestamp)) = prepared.or(decided) else { continue };
            let participants = contents.participants.clone();
            if let Some(backup) = self.backup_replica(transaction, &participants, attempt) {
                outbox.send(backup, Message::Recover { transaction, participants, timestamp });
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    fn on_gather_reply(
        &mut self,
        from: ReplicaIndex,
        view: View,
        below: Timestamp,
        cursor: Cursor,
        theirs: Summary,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        self.step_back_checkpoint();
        let Some(run) = &mut self.checkpoints.run else { return };
        let Some(index) = self.ir.group().position(from) else { return };
        if run.view != view || run.below != below || run.chosen.is_some() {
            return;
        }
        run.refusing[index] = true;
        if run.compared[index] != cursor {
            return;
        }
        let record = self.ir.record();
        let end = theirs.next.unwrap_or(start_of(below));
        let ours = record.summary(cursor, end, self.config.checkpoint_page_max);
        let end = ours.next.unwrap_or(end);
        let lacking: Vec<Cursor> =
            theirs.executed.iter().filter(|known| !record.is_executed(known.1)).copied().collect();
        let known: BTreeSet<&Cursor> = theirs.executed.iter().collect();
        let pushed = ours.executed.iter().filter(|ours| !known.contains(ours));
        let ended = theirs.open.iter().filter(|open| record.is_executed(open.1));
        let pushed: Vec<Cursor> = pushed.chain(ended).copied().collect();
        let differences = lacking.iter().chain(&pushed).chain(&theirs.open);
        let agreed = differences.copied().min().unwrap_or(end).min(end);
        run.compared[index] = agreed;
        let goes_on = agreed == end && end < start_of(below);
        for page in pushed.chunks(DECISIONS_MAX) {
            let transactions: Vec<TransactionId> = page.iter().map(|(_, transaction)| *transaction).collect();
            self.send_decisions(from, &transactions, outbox);
        }
        for page in lacking.chunks(DECISIONS_MAX) {
            let transactions = page.iter().map(|(_, transaction)| *transaction).collect();
            self.send_to_peer(from, Message::FetchDecisions { transactions }, outbox);
        }
        if goes_on && let Some(run) = &self.checkpoints.run {
            self.send_gather(run, from, outbox);
        }
        self.advance_checkpoint(context, outbox);
    }

    /// Tells another replica what was decided, as far as it has been executed here.
    fn send_decisions(&self, to: ReplicaIndex, transactions: &[TransactionId], outbox: &mut OutboxOf<Self>) {
        let (mut decisions, mut bytes) = (Vec::new(), 0);
        for transaction in transactions.iter().take(DECISIONS_MAX) {
            let known = self.ir.record().inconsistent(*transaction).filter(|known| known.executed);
            let Some(known) = known else { continue };
            bytes += match &known.operation {
                Decision::Commit { transaction, .. } => transaction.bytes(),
                Decision::Abort { .. } => 0,
            };
            // What does not fit is asked for again, or pushed again.
            if !decisions.is_empty() && bytes > self.config.page_bytes_max {
                break;
            }
            decisions.push((*transaction, known.operation.clone()));
        }
        if !decisions.is_empty() {
            self.send_to_peer(to, Message::Decisions { decisions }, outbox);
        }
    }

    /// Takes note of what has committed here late, so that it is compared once more.
    fn step_back_checkpoint(&mut self) {
        if let Some(late) = self.participant.committed_late.take()
            && let Some(run) = &mut self.checkpoints.run
        {
            run.step_back(late);
        }
    }

    /// Goes on with the search as far as the answers allow.
    fn advance_checkpoint(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.step_back_checkpoint();
        let (group, me) = (self.ir.group(), self.own_place());
        let Some(run) = &mut self.checkpoints.run else { return };
        if run.view != self.ir.view() || run.chosen.is_some() {
            return;
        }
        let below = run.below;
        // Its own clock may be the wild one, so this replica follows f others.
        if run.refusing.iter().filter(|refusing| **refusing).count() < group.failures() {
            return;
        }
        self.refuse_below(below, outbox);
        let Some(run) = &mut self.checkpoints.run else { return };
        let own = run.compared[me];
        let page = self.ir.record().summary(own, start_of(below), self.config.checkpoint_page_max);
        let end = page.next.unwrap_or(start_of(below));
        run.compared[me] = page.open.first().copied().unwrap_or(end);
        let patience = self.config.recovery_timeout * PATIENCE_TIMEOUTS;
        let everybody = run.compared_by(me, group.replicas());
        let is_patient = context.now - run.began < patience;
        let reached = if is_patient { everybody } else { run.compared_by(me, group.majority()) };
        let is_whole = reached == start_of(below);
        let open: Vec<TransactionId> = page.open.iter().map(|(_, transaction)| *transaction).collect();
        if is_patient && !is_whole {
            self.have_recovered(open.into_iter(), context.now, outbox);
            return;
        }
        if run.confirmed < reached {
            self.ask_participants(reached, outbox);
        }
        let Some(run) = &mut self.checkpoints.run else { return };
        let reached = reached.min(run.confirmed);
        let is_patient = context.now - run.began < 2 * patience;
        if reached.0 <= self.ir.floor() || (is_patient && reached != start_of(below)) {
            return;
        }
        let floor = reached.0;
        let mut complete = vec![false; group.replicas()];
        complete[me] = true;
        run.chosen = Some((floor, complete));
        self.complete_below(floor, context, outbox);
        self.send_complete(outbox);
        self.raise_if_complete(context, outbox);
    }

    fn send_complete(&self, outbox: &mut OutboxOf<Self>) {
        let Some(run) = &self.checkpoints.run else { return };
        let Some((floor, complete)) = &run.chosen else { return };
        for (place, compared) in run.compared.iter().enumerate() {
            if !complete[place] && *compared >= start_of(*floor) {
                let message = Message::Complete { view: run.view, below: *floor };
                self.send_to_peer(self.ir.group().at(place), message, outbox);
            }
        }
    }

    /// Notes, durably, that everything that can ever commit below has been executed here.
    fn complete_below(&mut self, below: Timestamp, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.participant.complete = self.participant.complete.max(below);
        self.with_desk(context.random, outbox, |ir, desk| ir.complete_below(below, desk));
    }

    fn on_complete_reply(
        &mut self,
        from: ReplicaIndex,
        view: View,
        below: Timestamp,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if below <= self.ir.floor() {
            self.send_to_peer(from, Message::RaiseFloor { floor: below }, outbox);
            return;
        }
        let Some(run) = self.checkpoints.run.as_mut().filter(|run| run.view == view) else { return };
        let Some((floor, complete)) = &mut run.chosen else { return };
        if *floor == below
            && let Some(place) = self.ir.group().position(from)
        {
            complete[place] = true;
            self.raise_if_complete(context, outbox);
        }
    }

    fn raise_if_complete(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        let Some(run) = &self.checkpoints.run else { return };
        let Some((floor, complete)) = run.chosen.clone() else { return };
        if complete.iter().filter(|complete| **complete).count() < self.ir.group().majority() {
            return;
        }
        self.checkpoints.run = None;
        self.raise_floor(floor, context, outbox);
        let me = self.own_place();
        for (place, _) in complete.iter().enumerate().filter(|(place, complete)| **complete && *place != me) {
            self.send_to_peer(self.ir.group().at(place), Message::RaiseFloor { floor }, outbox);
        }
    }

    /// Raises the floor if this replica is complete below it; else it is behind those who sent it.
    fn raise_floor(&mut self, floor: Timestamp, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        if self.ir.complete() >= floor {
            self.with_desk(context.random, outbox, |ir, desk| ir.raise_floor(floor, desk));
        } else {
            self.currency.note_behind();
        }
    }

    /// A transaction that this replica had asked to be recovered ended below the floor of every participant, its own
    /// shard included: if it is still held here, this replica has missed that.
    pub(super) fn on_forgotten(&mut self, transaction: TransactionId) {
        if self.participant.prepared.entry(transaction).is_some() {
            self.currency.note_behind();
        }
    }
}
