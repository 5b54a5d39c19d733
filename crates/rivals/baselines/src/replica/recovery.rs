//! How a transaction ends whose coordinator is silent.
//!
//! The leader of a participant asks the others how they stand to it. A participant that has not heard of the transaction
//! refuses it before answering, so the conclusion from the answers is final, and the same for everybody who asks: two
//! leaders that recover one transaction at once, or its coordinator that comes to life again, come to one outcome.

use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::log::Log;
use quorate_core::{Address, ClientId, Context, Instant, ReplicaId, ShardId, Timestamp, TransactionId};

use super::prepare::send_standing;
use super::{Out, Replica, ReplicaTimer};
use crate::decision::{Standings, Verdict};
use crate::entry::Entry;
use crate::message::{Age, Message, Standing};
use crate::rules::Plant;

/// A transaction whose participants are being asked.
#[derive(Debug)]
pub(super) struct Inquiry {
    standings: Standings,
    proposed: Timestamp,
}

impl Replica {
    pub(super) fn on_attention_timeout(
        &mut self,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if self.leader.is_none() {
            return;
        }
        if !self.config.rules.has(Plant::NoRecovery) {
            self.recover_overdue(context, log, outbox);
        }
        self.release_idle(context);
        self.leave_idle(context);
        self.attend_floor(context, log, outbox);
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
    }

    /// Asks, again if need be, about what has been prepared for too long.
    fn recover_overdue(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(cutoff) = before(context.now, self.config.recovery_timeout) else { return };
        for id in self.state.prepared.older_than(cutoff) {
            if self.config.rules.has(Plant::AbortsAlone) {
                self.append_decided(id, Outcome::Aborted, log);
                continue;
            }
            self.begin_inquiry(id);
            self.conclude(id, log, outbox);
            self.send_inquire(id, outbox);
        }
    }

    fn begin_inquiry(&mut self, id: TransactionId) {
        let (Some(leader), Some(held)) = (&mut self.leader, self.state.prepared.entry(id)) else { return };
        if leader.deciding.contains(&id) || leader.inquiries.contains_key(&id) {
            return;
        }
        let mut standings = Standings::new(&held.transaction.participants);
        standings.note(self.config.replica.shard, Standing::Prepared(held.timestamp));
        let proposed = self.state.proposals.get(&id).map_or(held.timestamp, |proposal| proposal.proposed);
        leader.inquiries.insert(id, Inquiry { standings, proposed });
    }

    /// Asks every replica of the shards that have not answered: their leaders are not known here.
    fn send_inquire(&self, id: TransactionId, outbox: &mut Out) {
        let Some(inquiry) = self.leader.as_ref().and_then(|leader| leader.inquiries.get(&id)) else { return };
        let participants: Vec<ShardId> = inquiry.standings.participants().collect();
        for shard in inquiry.standings.missing() {
            for replica in self.replicas(shard) {
                let (participants, age) = (participants.clone(), Age::Proposed(inquiry.proposed));
                outbox.send(replica, Message::Inquire { transaction: id, participants, age });
            }
        }
    }

    fn replicas(&self, shard: ShardId) -> impl Iterator<Item = ReplicaId> + use<> {
        self.config.groups.members(shard).iter().map(move |index| ReplicaId { shard, index })
    }

    /// Somebody wants to know what becomes of a transaction.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_inquire(
        &mut self,
        from: Address,
        id: TransactionId,
        participants: Vec<ShardId>,
        age: Age,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if !self.config.are_participants(&participants) {
            return;
        }
        // It is asked of every replica, so somebody else answers.
        let Some(leader) = &mut self.leader else { return };
        if leader.is_in_flight(id) {
            // The vote comes soon, and the asker will ask again.
            return;
        }
        if let Some(askers) = leader.refusing.get_mut(&id) {
            askers.insert(from);
            return;
        }
        if let Some(standing) = self.standing(id, age, context.clock) {
            return send_standing(&self.config, from, id, standing, outbox);
        }
        let until = match age {
            Age::Proposed(proposed) => proposed,
            Age::NotBefore(timestamp) => {
                let clock = Timestamp::new(context.clock, ClientId(0)).max(timestamp);
                let span = self.config.refusal_span.as_micros() as u64;
                Timestamp { micros: clock.micros.saturating_add(span), client: ClientId(u64::MAX) }
            }
        };
        self.append_refused(id, participants, until, from, log, outbox);
    }

    pub(super) fn on_inquire_reply(
        &mut self,
        from: Address,
        id: TransactionId,
        standing: Standing,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Address::Replica(replica) = from else { return };
        let Some(inquiry) = self.leader.as_mut().and_then(|leader| leader.inquiries.get_mut(&id)) else {
            return;
        };
        // A shard forgets what it knew of a transaction only once that lies below the floors of all that took part, and the
        // floor of this one stays below what it holds. So a shard that says that it may have forgotten never knew.
        let standing = match standing {
            Standing::Forgotten { clock } => Standing::TooOld { clock },
            standing => standing,
        };
        if inquiry.standings.note(replica.shard, standing) {
            self.conclude(id, log, outbox);
        }
    }

    /// Follows what was heard, once it suffices, and tells the others.
    fn conclude(&mut self, id: TransactionId, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        let Some(inquiry) = leader.inquiries.get(&id) else { return };
        let Some(Verdict::Outcome(outcome)) = inquiry.standings.verdict() else { return };
        let holders: Vec<ShardId> = inquiry.standings.holders().collect();
        leader.inquiries.remove(&id);
        self.append_decided(id, outcome, log);
        for shard in holders.into_iter().filter(|shard| *shard != self.config.replica.shard) {
            for replica in self.replicas(shard) {
                outbox.send(replica, Message::Decide { transaction: id, outcome });
            }
        }
    }
}

/// The instant that lies so long before `now`; none if that was before the start.
pub(super) fn before(now: Instant, since: Duration) -> Option<Instant> {
    let since = u64::try_from(since.as_nanos()).ok()?;
    now.as_nanos().checked_sub(since).map(Instant::from_nanos)
}
