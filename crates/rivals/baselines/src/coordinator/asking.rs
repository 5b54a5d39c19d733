//! Questions to the leaders of shards, until they are answered: for a timestamp, for votes, for what is current.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::{
    ClockTime, Context, Instant, Key, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction,
    TransactionId, View,
};

use super::snapshot::Snapshot;
use super::{Coordinator, Out, Phase};
use crate::decision::Standings;
use crate::message::{Age, Message};

/// A question to leaders.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) question: Question,
    /// The parts of the transaction, where it has any.
    pub(super) parts: BTreeMap<ShardId, Arc<Transaction>>,
    /// The view in which it has locked what it has read, by shard.
    pub(super) locked: BTreeMap<ShardId, Option<View>>,
    /// When the first attempt at it began, where that counts.
    pub(super) age: Option<Timestamp>,
    /// The shards that have not answered.
    pub(super) missing: BTreeSet<ShardId>,
    pub(super) asked_at: Instant,
    /// How often it followed, since it was asked, to a replica that was named.
    pub(super) redirects: u32,
}

/// A question to shards.
#[derive(Debug)]
pub(super) enum Question {
    /// The timestamp server is asked for a timestamp.
    Timestamp,
    /// The participants are asked for their votes, or a dedicated coordinator is asked to do so.
    Prepare {
        /// The timestamp that is proposed.
        proposed: Timestamp,
        /// The reading of this client's clock then.
        clock: ClockTime,
        /// Of those that are asked.
        standings: Standings,
    },
    /// The shards are asked whether what was read is still the newest.
    Validate {
        /// At which timestamp it has read.
        timestamp: Timestamp,
        /// The greatest version that was read.
        greatest: Timestamp,
        /// True if nothing is to be prepared below any more.
        promised: bool,
    },
    /// The one shard of all keys is asked what they hold.
    ReadCurrent { keys: Vec<Key> },
    /// Shards are asked what they held at a timestamp.
    ReadAt(Box<Snapshot>),
    /// The participants of some transaction are asked how they stand to it.
    Resolve {
        /// It was not proposed before.
        not_before: Timestamp,
        standings: Standings,
    },
}

impl Asking {
    pub(super) fn new(
        question: Question,
        parts: BTreeMap<ShardId, Arc<Transaction>>,
        missing: impl IntoIterator<Item = ShardId>,
    ) -> Self {
        let missing = missing.into_iter().collect();
        let (locked, age) = (BTreeMap::new(), None);
        Asking { question, parts, locked, age, missing, asked_at: Instant::START, redirects: 0 }
    }

    /// The message to a shard that is asked.
    fn message(&self, id: TransactionId, shard: ShardId, above: Timestamp) -> Option<Message> {
        let part = || self.parts.get(&shard).cloned();
        let locked_in = self.locked.get(&shard).copied().flatten();
        Some(match &self.question {
            Question::Timestamp => Message::NextTimestamp { transaction: id, above },
            // A shard that takes no part coordinates.
            Question::Prepare { proposed, .. } if !self.parts.contains_key(&shard) => Message::Coordinate {
                transaction: id,
                parts: self.parts.values().cloned().collect(),
                proposed: *proposed,
            },
            Question::Prepare { proposed, .. } => {
                let (proposed, age) = (*proposed, self.age.unwrap_or(*proposed));
                Message::Prepare { transaction: id, part: part()?, proposed, age, locked_in }
            }
            Question::Validate { timestamp, promised, .. } => {
                let at = promised.then_some(*timestamp);
                Message::Validate { transaction: id, part: part()?, locked_in, at }
            }
            Question::ReadAt(snapshot) => {
                let (wanted, at) = (snapshot.wanted_of(shard)?, snapshot.at);
                Message::ReadAt { transaction: id, wanted, at }
            }
            Question::ReadCurrent { keys } => Message::ReadCurrent { transaction: id, keys: keys.clone() },
            Question::Resolve { not_before, standings } => Message::Inquire {
                transaction: id,
                participants: standings.participants().collect(),
                age: Age::NotBefore(*not_before),
            },
        })
    }

    /// The shards that take part in the transaction, if it is to be decided.
    pub(super) fn participants(&self) -> Vec<ShardId> {
        match &self.question {
            Question::Prepare { .. } => self.parts.keys().copied().collect(),
            Question::Resolve { standings, .. } => standings.participants().collect(),
            _ => Vec::new(),
        }
    }

    /// True if every replica of a shard is asked, and not only its leader.
    fn asks_everybody(&self) -> bool {
        matches!(self.question, Question::Resolve { .. })
    }
}

impl Coordinator {
    pub(super) fn asking(&mut self, id: TransactionId) -> Option<&mut Asking> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Asking(asking) => Some(asking),
            Phase::Executing(_) | Phase::Reporting(_) => None,
        }
    }

    /// Begins to ask; the open transaction goes on with this.
    pub(super) fn ask(&mut self, id: TransactionId, asking: Asking, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        open.phase = Phase::Asking(Box::new(asking));
        self.ask_missing(id, context.now, outbox);
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
    }

    pub(super) fn ask_missing(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        let Some(asking) = self.asking(id) else { return };
        asking.asked_at = now;
        asking.redirects = 0;
        for shard in asking.missing.clone() {
            if !self.leaders.is_reachable(self.leaders.leader(shard)) {
                self.leaders.suspect(shard);
            }
            self.ask_shard(id, shard, outbox);
        }
    }

    fn ask_shard(&mut self, id: TransactionId, shard: ShardId, outbox: &mut Out) {
        let above = self.last_timestamp;
        let Some(asking) = self.asking(id) else { return };
        let Some(message) = asking.message(id, shard, above) else { return };
        if !asking.asks_everybody() {
            return outbox.send(self.leaders.leader(shard), message);
        }
        for replica in self.leaders.replicas(shard) {
            outbox.send(replica, message.clone());
        }
    }

    /// The replica that was asked does not lead.
    pub(super) fn on_not_leading(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        leader: ReplicaIndex,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let is_news = self.leaders.redirect(from, leader);
        let knows_another = self.leaders.leader(from.shard) != from;
        // Another transaction may have been told before.
        if !is_news && !knows_another {
            return;
        }
        self.redirect_reads(from.shard, id, context, outbox);
        let Some(asking) = self.asking(id) else { return };
        if asking.missing.contains(&from.shard) && asking.redirects < super::REDIRECTS_MAX {
            asking.redirects += 1;
            self.ask_shard(id, from.shard, outbox);
        }
    }

    /// The replicas that were asked last and have not answered.
    pub(super) fn unanswering(&self, asking: &Asking) -> Vec<ReplicaId> {
        asking.missing.iter().map(|shard| self.leaders.leader(*shard)).collect()
    }

    /// Asks those again that have not answered; gives when to look again.
    pub(super) fn attend_asking(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let (now, timeout) = (context.now, self.config.resend_timeout);
        let open = self.transactions.get(&id)?;
        let Phase::Asking(asking) = &open.phase else { return None };
        let deadline = open.deadline;
        let is_overdue = now - asking.asked_at >= timeout;
        let silent: Vec<ShardId> = asking.missing.iter().copied().collect();
        let is_cut_off = silent.iter().any(|shard| !self.leaders.is_reachable(self.leaders.leader(*shard)));
        if is_overdue && !asking.asks_everybody() {
            for shard in silent {
                self.leaders.suspect(shard);
            }
        }
        if is_overdue || is_cut_off {
            self.ask_missing(id, now, outbox);
        }
        let next = now + timeout;
        Some(if now < deadline { next.min(deadline) } else { next })
    }
}
