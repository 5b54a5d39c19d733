//! Votes and outcomes: the participant's half of two-phase commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::log::Log;
use quorate_core::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX};
use quorate_core::{
    Address, ClockTime, Context, Instant, ReplicaId, ShardId, Timestamp, Transaction, TransactionId, View,
};

use super::state::{Proposal, commits_with_vote};
use super::{Out, Replica};
use crate::config::ReplicaConfig;
use crate::entry::{Entry, Prepared};
use crate::message::{Age, Message, Standing};
use crate::rules::{Plant, Rules};

/// A prepare, as a coordinator asks it of a participant.
#[derive(Debug)]
pub(super) struct Prepare {
    pub(super) id: TransactionId,
    pub(super) part: Arc<Transaction>,
    pub(super) proposal: Proposal,
    pub(super) locked_in: Option<View>,
}

impl From<Prepare> for Message {
    fn from(prepare: Prepare) -> Self {
        let Prepare { id, part, proposal: Proposal { proposed, age }, locked_in } = prepare;
        Message::Prepare { transaction: id, part, proposed, age, locked_in }
    }
}

/// Whether a transaction may be prepared.
#[derive(Debug)]
pub(super) enum Admission {
    /// It may. These lose their locks.
    Granted { wounded: BTreeSet<TransactionId> },
    /// Not before this one has ended.
    Waits { on: TransactionId },
    /// It may not.
    Refused,
}

impl Replica {
    pub(super) fn on_prepare(
        &mut self,
        from: Address,
        prepare: Prepare,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (id, proposed) = (prepare.id, prepare.proposal.proposed);
        // Of a dedicated coordinator it is only known that it is a replica: clients cannot be that.
        let is_entitled = match from {
            Address::Client(client) => client == id.client,
            Address::Replica(_) => self.config.system.has_coordinator(),
        };
        if !is_entitled || !is_well_formed(&prepare.part, &self.config) {
            return;
        }
        let Some(leader) = &mut self.leader else { return Self::send_not_leading(from, id, log, outbox) };
        if let Some((_, asker)) = leader.in_flight_proposals.get_mut(&id) {
            *asker = from;
            return;
        }
        if let Some(askers) = leader.refusing.get_mut(&id) {
            askers.insert(from);
            return;
        }
        if let Some(standing) = self.standing(id, Age::Proposed(proposed), context.clock)
            && !(self.config.rules.has(Plant::PrepareAfterOutcome) && self.state.ended(id).is_some())
        {
            return send_standing(&self.config, from, id, standing, outbox);
        }
        let next_floor = self.leader.as_ref().and_then(|leader| leader.next_floor);
        if next_floor.is_some_and(|floor| proposed < floor) {
            // Others would forget it while it is prepared here. That it is too old is not durable yet, a refusal will be.
            return self.append_refused(id, prepare.part.participants.clone(), proposed, from, log, outbox);
        }
        match self.admission(&prepare, context.now) {
            Admission::Granted { wounded } => {
                self.wound(&wounded, outbox);
                self.append_prepared(from, prepare, context, log, outbox);
            }
            Admission::Waits { on } => self.block(on, from, prepare.into()),
            Admission::Refused => {
                self.append_refused(id, prepare.part.participants.clone(), proposed, from, log, outbox);
            }
        }
    }

    /// Whether a transaction may be prepared now.
    fn admission(&self, prepare: &Prepare, now: Instant) -> Admission {
        if self.config.system.locks() {
            return self.admission_by_locks(prepare, now);
        }
        let Some(mut validation) = self.validation() else { return Admission::Refused };
        if self.config.rules.has(Plant::HoldsOverlooked)
            && commits_with_vote(self.config.system, &prepare.part)
        {
            validation.rules = Rules::planted(Plant::PreparedOverlooked);
        }
        match validation.admits(prepare.id, &prepare.part) {
            true => Admission::Granted { wounded: BTreeSet::new() },
            false => Admission::Refused,
        }
    }

    /// How this shard stands to a transaction, as far as that is durable; none if it is free to choose.
    pub(super) fn standing(&self, id: TransactionId, age: Age, clock: ClockTime) -> Option<Standing> {
        if let Some(ended) = self.state.ended(id) {
            return Some(Standing::Ended(ended.outcome));
        }
        if let Some(held) = self.state.prepared.entry(id) {
            return Some(Standing::Prepared(held.timestamp));
        }
        // The floor may have risen with a clock that was ahead.
        let floor = ClockTime::from_micros(self.state.floor.micros);
        let clock = clock.max(floor.saturating_add(self.config.floor_lag));
        match age {
            _ if age.not_before() < self.state.forgotten => Some(Standing::Forgotten { clock }),
            Age::Proposed(proposed) if proposed < self.state.floor => Some(Standing::TooOld { clock }),
            _ => None,
        }
    }

    fn append_prepared(
        &mut self,
        asker: Address,
        prepare: Prepare,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Prepare { id, part, proposal, .. } = prepare;
        let Proposal { proposed, age } = proposal;
        let Some(leader) = &mut self.leader else { return };
        // Above everything that was read, written or given away here: so timestamps follow the order of conflicts. A
        // timestamp that is ahead of this clock has no need to be: no client drags all others along.
        let own = Timestamp { micros: proposed.micros.min(context.clock.as_micros()), ..proposed };
        let timestamp = match own > leader.last {
            true => own,
            false => leader.last.successor(ClockTime::default(), id.client),
        };
        let prepared = Prepared { transaction: id, part: part.clone(), proposed, age, timestamp };
        if log.append(Entry::Prepared(prepared)).is_none() {
            return;
        }
        leader.last = timestamp;
        leader.note_neighbours(&part.participants);
        leader.in_flight_proposals.insert(id, (proposal, asker));
        let commits = commits_with_vote(self.config.system, &part);
        let held = quorate_store::Prepared { transaction: part, timestamp, since: context.now };
        if commits { &mut leader.committing } else { &mut leader.in_flight }.insert(id, held);
        // Its locks are held by the prepared transaction from now on.
        leader.locks.release(id);
        if self.config.rules.has(Plant::VoteBeforeStable) {
            send_standing(&self.config, asker, id, vote(commits, timestamp), outbox);
        }
    }

    /// Makes it final that this shard does not prepare a transaction, and lets `asker` know once it is.
    pub(super) fn append_refused(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        until: Timestamp,
        asker: Address,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        leader.locks.release(id);
        if self.config.rules.has(Plant::RefusalNotDurable) {
            return send_standing(&self.config, asker, id, Standing::Ended(Outcome::Aborted), outbox);
        }
        leader.note_neighbours(&participants);
        if log.append(Entry::Refused { transaction: id, participants, until }).is_some() {
            leader.refusing.insert(id, BTreeSet::from([asker]));
        }
    }

    /// PREPARED is stable: the vote is final.
    pub(super) fn on_prepared(&mut self, prepared: &Prepared, outbox: &mut Out) {
        let id = prepared.transaction;
        let Some(leader) = &mut self.leader else { return };
        let Some((_, asker)) = leader.in_flight_proposals.remove(&id) else { return };
        let commits = commits_with_vote(self.config.system, &prepared.part);
        if commits { &mut leader.committing } else { &mut leader.in_flight }.remove(id);
        if !leader.deciding.contains(&id) && !self.config.rules.has(Plant::VoteBeforeStable) {
            send_standing(&self.config, asker, id, vote(commits, prepared.timestamp), outbox);
        }
    }

    /// REFUSED is stable.
    pub(super) fn on_refused(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        for asker in leader.refusing.remove(&id).unwrap_or_default() {
            send_standing(&self.config, asker, id, Standing::Ended(Outcome::Aborted), outbox);
        }
    }

    /// The outcome is known, from any sender.
    pub(super) fn on_decide(
        &mut self,
        from: Address,
        id: TransactionId,
        outcome: Outcome,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        // No client can lift the timestamps of a whole shard out of reach.
        let ahead_max = context.clock.saturating_add(self.config.timestamp_ahead_max).as_micros();
        let is_ahead = matches!(outcome, Outcome::Committed(timestamp) if timestamp.micros > ahead_max);
        let is_own = from == Address::Client(id.client) && !is_ahead;
        if !is_own && !matches!(from, Address::Replica(_)) {
            return;
        }
        let leader = ReplicaId { index: log.leader(), ..self.config.replica };
        if self.leader.is_some() {
            self.append_decided(id, outcome, log);
        } else if is_own && leader != self.config.replica {
            // Nobody waits for an answer, so the coordinator would not learn who leads. Once only: what comes from a replica
            // goes no further.
            outbox.send(leader, Message::Decide { transaction: id, outcome });
        }
    }

    /// Appends the outcome of a transaction that is prepared here, or about to be.
    pub(super) fn append_decided(&mut self, id: TransactionId, outcome: Outcome, log: &mut impl Log<Entry>) {
        let Some(leader) = &mut self.leader else { return };
        // If it is not here, it has at most locked something or waits to be prepared, which it will not be: nobody would be left
        // to decide it, and what it holds would be held until that is noticed.
        leader.locks.release(id);
        let is_here = self.state.prepared.entry(id).is_some() || leader.in_flight.entry(id).is_some();
        if !is_here {
            leader.unblock(id);
        }
        if is_here
            && !leader.deciding.contains(&id)
            && log.append(Entry::Decided { transaction: id, outcome }).is_some()
        {
            leader.deciding.insert(id);
            if let Outcome::Committed(timestamp) = outcome {
                // Timestamps ascend along the log.
                leader.last = leader.last.max(timestamp);
            }
        }
    }

    /// DECIDED is stable, and has been followed: requests that have waited for it go on.
    pub(super) fn on_decided(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        leader.deciding.remove(&id);
        leader.inquiries.remove(&id);
        for (from, message) in leader.blocked.remove(&id).unwrap_or_default() {
            self.on_message(from, message, context, log, outbox);
        }
    }
}

/// Tells an asker the standing of this shard to a transaction: a coordinator, as the answer to its prepare.
pub(super) fn send_standing(
    config: &ReplicaConfig,
    to: Address,
    id: TransactionId,
    standing: Standing,
    outbox: &mut Out,
) {
    let coordinates = match to {
        Address::Client(client) => client == id.client,
        Address::Replica(replica) => !config.is_shard(replica.shard),
    };
    let message = match coordinates {
        true => Message::PrepareReply { transaction: id, standing },
        false => Message::InquireReply { transaction: id, standing },
    };
    outbox.send(to, message);
}

/// How a shard stands to what it has prepared.
fn vote(commits: bool, timestamp: Timestamp) -> Standing {
    if commits { Standing::Ended(Outcome::Committed(timestamp)) } else { Standing::Prepared(timestamp) }
}

/// True if a part of a transaction is as coordinators make them for a replica: the stores rely on it.
pub(super) fn is_well_formed(part: &Transaction, config: &ReplicaConfig) -> bool {
    is_sound(part) && config.are_participants(&part.participants)
}

/// True if a part of a transaction is as coordinators make them for some replica.
pub(super) fn is_sound(part: &Transaction) -> bool {
    part.reads.is_sorted_by(|one, other| one.key < other.key)
        && part.writes.is_sorted_by(|one, other| one.key < other.key)
        && part.reads.len() + part.writes.len() + part.ranges.len() <= TRANSACTION_ENTRIES_MAX
        && part.bytes() <= TRANSACTION_BYTES_MAX
        && !part.reads_when_prepared
}

#[cfg(test)]
mod tests {
    use quorate_core::hosted::Shards;
    use quorate_core::{GroupSize, Key, ReplicaId, ReplicaIndex, Write};

    use super::*;
    use crate::config::System;

    #[test]
    fn what_is_not_well_formed_is_found_out() {
        let shards = |ids: &[u32]| ids.iter().copied().map(ShardId).collect::<Vec<_>>();
        let write = |key: &str| Write { key: Key::from(key), value: None };
        let part = |participants: &[u32], keys: &[&str]| Transaction {
            writes: keys.iter().map(|key| write(key)).collect(),
            participants: shards(participants),
            ..Transaction::default()
        };
        let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        let group = GroupSize::new(3).unwrap();
        let config =
            ReplicaConfig::new(replica, group, Shards { first: ShardId(1), count: 3 }, System::TxnOcc);
        let table = [
            (part(&[1, 2], &["a", "b"]), true),
            (part(&[1, 2, 3], &["a"]), true),
            (part(&[1, 4], &["a"]), false),
            (part(&[0, 1], &["a"]), false),
            (part(&[1], &[]), true),
            (part(&[1, 2], &["b", "a"]), false),
            (part(&[1, 2], &["a", "a"]), false),
            (part(&[2, 3], &["a"]), false),
            (part(&[2, 1], &["a"]), false),
            (part(&[1, 1], &["a"]), false),
            (part(&[], &["a"]), false),
            (Transaction { reads_when_prepared: true, ..part(&[1], &[]) }, false),
        ];
        for (part, expected) in table {
            assert_eq!(is_well_formed(&part, &config), expected, "{part:?}");
        }
    }
}
