//! Decisions are recorded in the home's log, told to the shards until they have applied them, and found again (section 6.6).
//!
//! Each machine of a home decides its own transactions. The leader of the log appends decisions for all of them, and an abort for what a
//! shard or a client asks after and nobody has decided: the first entry on a transaction counts.
//!
//! *Why no commit is recorded after an abort that is forgotten.* A client or a shard that inquires need not know the snapshot, by whose time a commit is remembered: that may lie far
//! beyond, where a clock has leapt. So the bound of what is forgotten counts. A machine tells with a decision how far that was, as it knew, when it let the commit
//! in. An abort that was appended earlier is in the log that the machine had applied then, or the bound was at least as far when it was appended; and it is
//! remembered until the bound is further by more than [`Home::forgetting_lag`]. A decision that is told when it is that much further is recorded as an abort.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::hosted::Shards;
use quorate_core::log::Log;
use quorate_core::{
    Address, ClockTime, Context, Instant, Key, ReplicaId, ReplicaIndex, ShardId, TransactionId,
};

use super::Home;
use crate::entry::{Decision, Entry};
use crate::machine::{Out, ReplicaEvent};
use crate::message::{Ending, Message};
use crate::reasons;

/// The state that only a leader of the home's log has.
#[derive(Debug)]
pub(super) struct Leading {
    /// Decisions that were appended, and the participants that have inquired.
    recording: BTreeMap<TransactionId, BTreeSet<Address>>,
    forgotten: ClockTime,
}

impl Leading {
    pub(super) fn new(forgotten: ClockTime) -> Self {
        Leading { recording: BTreeMap::new(), forgotten }
    }
}

/// A commit that is told to the shards until all have applied it.
#[derive(Debug)]
pub(super) struct Delivery {
    decision: Arc<Decision>,
    /// The shards that have not applied it, and the replica of each that this machine has told as its leader.
    missing: BTreeMap<ShardId, Option<ReplicaId>>,
    sent_at: Instant,
}

impl Home {
    /// The log's leader appends a decision of this machine.
    pub(super) fn record(&mut self, id: TransactionId, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let transaction = self.transactions.get(&id);
        let Some(decision) = transaction.and_then(|transaction| transaction.decision.clone()) else { return };
        if self.leader.is_some() {
            return self.append_decision(decision, None, log, outbox);
        }
        let ReplicaId { shard, index } = self.config.replica;
        let leader = log.leader();
        if leader == index {
            return outbox.ignored(reasons::NOT_LEADING);
        }
        let decision = Decision::clone(&decision);
        let forgotten = transaction.map(|transaction| transaction.forgotten);
        outbox.send_unordered(ReplicaId { shard, index: leader }, Message::Record { decision, forgotten });
    }

    /// A machine that leads now appends what it had decided.
    pub(super) fn record_again(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let decided = self.transactions.iter().filter(|(_, one)| one.decision.is_some());
        let decided: Vec<TransactionId> = decided.map(|(id, _)| *id).collect();
        for id in decided {
            self.record(id, log, outbox);
        }
    }

    fn append_decision(
        &mut self,
        decision: Arc<Decision>,
        asker: Option<Address>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let id = decision.transaction;
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        if let Some(askers) = leader.recording.get_mut(&id) {
            askers.extend(asker);
            return outbox.ignored(reasons::UNDER_WAY);
        }
        match log.append(Entry::Recorded(decision)) {
            Some(_) => {
                let known = leader.recording.insert(id, asker.into_iter().collect());
                assert!(known.is_none(), "the decision on {id} is appended twice, for {known:?}");
            }
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// RECORD.
    pub(super) fn on_record(
        &mut self,
        from: ReplicaId,
        decision: Decision,
        forgotten: Option<ClockTime>,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if decision.by != from.index {
            return outbox.ignored(reasons::NOT_ITS_PLACE);
        }
        // Machines decide nothing but commits, and those have written.
        if decision.participants.is_empty() || decision.outcome == Outcome::Aborted {
            return outbox.ignored(reasons::MALFORMED);
        }
        if let Some(outcome) = self.state.outcome(decision.transaction) {
            let transaction = decision.transaction;
            return outbox.send_unordered(from, Message::Recorded { transaction, outcome });
        }
        let lag = self.forgetting_lag();
        // A commit that would be remembered is none that was forgotten. Of others nothing is entered anyway.
        let is_late = |known: ClockTime, leader: &Leading| {
            leader.forgotten > known.saturating_add(lag) && decision.remembered_until() >= leader.forgotten
        };
        let leader = self.leader.as_ref();
        let decision = match forgotten.zip(leader).is_some_and(|(known, leader)| is_late(known, leader)) {
            true => self.abort_of(decision.transaction, decision.by, decision.remembered_until(), context),
            false => decision,
        };
        self.append_decision(Arc::new(decision), None, log, outbox);
    }

    /// An abort of what nobody has decided, or too late. It is remembered for longer than a commit of it may still be on its way.
    fn abort_of(
        &self,
        transaction: TransactionId,
        by: ReplicaIndex,
        named: ClockTime,
        context: &Context<'_>,
    ) -> Decision {
        let now = self.time(context).min(context.clock.saturating_add(self.config.ahead_max));
        let bound = self.leader.as_ref().map_or(self.state.forgotten, |leader| leader.forgotten);
        Decision {
            transaction,
            by,
            snapshot: named.max(now).max(bound.saturating_add(self.forgetting_lag())),
            begun: ClockTime::default(),
            participants: Vec::new(),
            outcome: Outcome::Aborted,
            readers: Vec::new(),
        }
    }

    /// So far the bound of what is forgotten lags behind the clock: for longer than a commit takes that is not given up.
    fn forgetting_lag(&self) -> Duration {
        2 * self.config.floor_lag + self.config.certify_timeout
    }

    /// The log has a decision.
    pub(super) fn apply_recorded(
        &mut self,
        decision: &Arc<Decision>,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let id = decision.transaction;
        let outcome = self.state.record(decision);
        if let (true, Outcome::Committed(timestamp)) = (self.config.journals, outcome) {
            outbox.emit(ReplicaEvent::Finalized { transaction: id, timestamp });
        }
        if let Some(leader) = &mut self.leader {
            let askers = leader.recording.remove(&id).unwrap_or_default();
            for asker in askers {
                self.answer_inquiry(asker, id, Some(outcome), outbox);
            }
            let ReplicaId { shard, index } = self.config.replica;
            if decision.by != index {
                let by = ReplicaId { shard, index: decision.by };
                outbox.send_unordered(by, Message::Recorded { transaction: id, outcome });
                if matches!(outcome, Outcome::Committed(_)) {
                    self.deliver(Arc::clone(decision), false, context);
                }
            }
        }
        if !self.transactions.contains_key(&id) {
            return;
        }
        self.on_recorded(id, outcome, decision.snapshot, context, log, outbox);
    }

    /// INQUIRE of a client, or of the leader of a shard that holds keys for the transaction.
    pub(super) fn on_inquire(
        &mut self,
        from: Address,
        id: TransactionId,
        snapshot: ClockTime,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if let Some(outcome) = self.state.outcome(id) {
            return self.answer_inquiry(from, id, Some(outcome), outbox);
        }
        if self.transactions.contains_key(&id) {
            return outbox.ignored(reasons::UNDER_WAY);
        }
        // That this machine has aborted it says nothing: its client may have gone on with it at another one.
        if let Some((Ending::Committed { timestamp, .. }, _)) = self.endings.get(&id) {
            return self.answer_inquiry(from, id, Some(Outcome::Committed(*timestamp)), outbox);
        }
        if self.leader.is_none() {
            let leader = log.leader();
            return outbox.send_unordered(from, Message::NotLeading { transaction: Some(id), leader });
        }
        if snapshot < self.state.forgotten {
            return self.answer_inquiry(from, id, None, outbox);
        }
        if snapshot > self.time(context).saturating_add(self.config.ahead_max) {
            // Nobody has taken such a snapshot, or this clock is behind: an abort would be forgotten while the commit may still come.
            return outbox.ignored(reasons::AHEAD);
        }
        let decision = self.abort_of(id, self.config.replica.index, snapshot, context);
        self.append_decision(Arc::new(decision), Some(from), log, outbox);
    }

    fn answer_inquiry(&self, to: Address, id: TransactionId, outcome: Option<Outcome>, outbox: &mut Out) {
        match to {
            Address::Client(_) => {
                outbox.send_unordered(to, Message::InquireReply { transaction: id, outcome })
            }
            Address::Replica(ReplicaId { shard, .. }) => {
                // A commit is forgotten once every shard has applied it, and this one had not when it asked.
                let (outcome, is_forgotten) = (outcome.unwrap_or(Outcome::Aborted), outcome.is_none());
                let message = match self.state.get(id).map(|known| &known.decision) {
                    Some(decision) => Self::decide_message(decision, shard, self.config.shards),
                    None => Message::Decide { transaction: id, outcome, readers: Vec::new(), is_forgotten },
                };
                outbox.send_unordered(to, message);
            }
        }
    }

    /// DECIDE, as a shard is told.
    pub(super) fn decide_message(decision: &Decision, shard: ShardId, shards: Shards) -> Message {
        let is_there = |(key, _): &&(Key, ClockTime)| shards.holds(shard, key);
        let readers = decision.readers.iter().filter(is_there).cloned().collect();
        Message::Decide {
            transaction: decision.transaction,
            outcome: decision.outcome,
            readers,
            is_forgotten: false,
        }
    }

    /// Sees to it that every shard applies a commit, whose leaders this machine has told or not.
    pub(super) fn deliver(&mut self, decision: Arc<Decision>, is_told: bool, context: &Context<'_>) {
        let told = |shard: &ShardId| (*shard, is_told.then(|| self.leaders.leader(*shard)));
        assert!(
            matches!(decision.outcome, Outcome::Committed(_)) && !decision.participants.is_empty(),
            "nobody waits for {:?} of {} at {:?}",
            decision.outcome,
            decision.transaction,
            decision.participants
        );
        let missing = decision.participants.iter().map(told).collect();
        let delivery = Delivery { decision, missing, sent_at: context.now };
        self.deliveries.entry(delivery.decision.transaction).or_insert(delivery);
    }

    /// Tells the leader of a shard what another replica of it was told.
    pub(super) fn deliver_to(&mut self, leader: ReplicaId, outbox: &mut Out) {
        for delivery in self.deliveries.values_mut() {
            let told = delivery.missing.get_mut(&leader.shard).and_then(Option::as_mut);
            if let Some(told) = told.filter(|told| **told != leader) {
                *told = leader;
                let message = Self::decide_message(&delivery.decision, leader.shard, self.config.shards);
                outbox.send_unordered(leader, message);
            }
        }
    }

    /// A machine that leads now delivers what no shard may have heard of: the machine that has decided it may be gone.
    pub(super) fn take_over(&mut self, context: &Context<'_>) {
        let unsettled: Vec<Arc<Decision>> = self
            .state
            .iter()
            .filter(|known| !known.is_settled)
            .map(|known| Arc::clone(&known.decision))
            .collect();
        for decision in unsettled {
            self.deliver(decision, false, context);
        }
    }

    /// APPLIED.
    pub(super) fn on_applied(&mut self, shard: ShardId, id: TransactionId, outbox: &mut Out) {
        let Some(delivery) = self.deliveries.get_mut(&id) else { return outbox.ignored(reasons::KNOWN) };
        delivery.missing.remove(&shard);
        if delivery.missing.is_empty() {
            self.deliveries.remove(&id);
            self.settled.push(id);
        }
    }

    /// SETTLED.
    pub(super) fn on_settled(
        &mut self,
        transactions: Vec<TransactionId>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if self.leader.is_none() {
            return outbox.ignored(reasons::NOT_LEADING);
        }
        for id in &transactions {
            self.deliveries.remove(id);
        }
        if log.append(Entry::Settled(transactions)).is_none() {
            outbox.ignored(reasons::LOG_CLOSED);
        }
    }

    pub(super) fn attend_decisions(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (now, timeout) = (context.now, self.config.resend_timeout);
        let late: Vec<TransactionId> = self
            .deliveries
            .iter()
            .filter(|(_, delivery)| now - delivery.sent_at >= timeout)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            let Some(delivery) = self.deliveries.get_mut(&id) else { continue };
            delivery.sent_at = now;
            for (shard, told) in &mut delivery.missing {
                if let Some(silent) = *told {
                    self.leaders.suspect_asked(silent);
                }
                let leader = self.leaders.leader(*shard);
                *told = Some(leader);
                let message = Self::decide_message(&delivery.decision, *shard, self.config.shards);
                outbox.send_unordered(leader, message);
            }
        }
        self.attend_settled(log, outbox);
        self.attend_forgotten(context, log, outbox);
    }

    fn attend_settled(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        // A machine that has lost its share of the log asks the shards anew, so nothing is settled before it is known here.
        let ready = std::mem::take(&mut self.settled);
        if ready.is_empty() {
            return;
        }
        if self.leader.is_some() {
            return self.on_settled(ready, log, outbox);
        }
        let ReplicaId { shard, index } = self.config.replica;
        let leader: ReplicaIndex = log.leader();
        if leader != index {
            let message = Message::Settled { transactions: ready };
            outbox.send_unordered(ReplicaId { shard, index: leader }, message);
        }
    }

    /// Raises the bound of what is forgotten: no shard lets in what has a snapshot below, and nobody still decides it.
    fn attend_forgotten(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let lag = self.forgetting_lag();
        let micros = |duration: Duration| duration.as_micros() as u64;
        let Some(clock) = self.clock_that_others_share(context) else { return };
        let bound = ClockTime::from_micros(clock.as_micros().saturating_sub(micros(lag)));
        let Some(leader) = &mut self.leader else { return };
        assert!(
            leader.forgotten >= self.state.forgotten,
            "what is below {:?} was to be forgotten, and what is below {:?} is",
            leader.forgotten,
            self.state.forgotten
        );
        let step = leader.forgotten.as_micros().saturating_add(micros(self.config.floor_lag) / 4);
        if bound.as_micros() <= step {
            return;
        }
        match log.append(Entry::Forgotten(bound)) {
            Some(_) => leader.forgotten = bound,
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// How many commits are not known to be applied everywhere.
    pub(crate) fn undelivered(&self) -> usize {
        self.state.iter().filter(|known| !known.is_settled).count()
    }
}
