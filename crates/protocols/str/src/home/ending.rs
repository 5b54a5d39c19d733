//! Transactions become final or abort, and so does what depends on them (section 6.5, algorithm 1, lines 39-54).

use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::log::Log;
use quorate_core::{ClockTime, Context, ReplicaId, ShardId, Timestamp, TransactionId};

use super::Home;
use super::cache::Stage;
use super::transaction::{Phase, Transaction};
use crate::entry::Entry;
use crate::machine::Out;
use crate::message::{Ending, Message, Refusal};
use crate::reasons;
use crate::rules::Plant;
use crate::tuner::Ended;

impl Home {
    pub(super) fn remember(&mut self, id: TransactionId, ending: Ending) {
        let period = self.period.number;
        self.endings.entry(id).or_insert((ending, period));
    }

    /// The decision of a transaction is in the home's log, or another one is.
    pub(super) fn on_recorded(
        &mut self,
        id: TransactionId,
        outcome: Outcome,
        snapshot: ClockTime,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(phase) = self.transactions.get(&id).map(|transaction| transaction.phase) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        match (phase, outcome) {
            (Phase::Deciding(_, timestamp), Outcome::Committed(recorded)) => {
                assert!(recorded.micros == timestamp.as_micros(), "{id} was recorded at {recorded}");
                self.finalize(id, recorded, context, log, outbox);
            }
            (_, Outcome::Committed(timestamp)) => {
                // Another machine of the home has decided it, or this one in an earlier life: a late message has begun it here once more.
                self.remember(id, Ending::Committed { timestamp, snapshot });
                self.abort(id, Refusal::Lost, context, log, outbox);
            }
            (_, Outcome::Aborted) => self.abort_all(vec![(id, Refusal::Lost)], true, context, log, outbox),
        }
    }

    /// A transaction is final.
    fn finalize(
        &mut self,
        id: TransactionId,
        timestamp: Timestamp,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let at = ClockTime::from_micros(timestamp.micros);
        let Some(transaction) = self.transactions.get(&id) else { return };
        let Phase::Deciding(local, _) = transaction.phase else {
            unreachable!("only what is decided becomes final")
        };
        assert!(
            transaction.is_independent() || self.config.rules.has(Plant::DependenciesIgnored),
            "{id} is final before what it depends on"
        );
        // From here on nothing new can come to depend on it.
        let Some(transaction) = self.remove(id) else { return };
        self.cache.finish(id, Stage::Final(local, at), &transaction.writes, self.began);
        assert!(
            self.locals.remove(&(local, id)),
            "{id} is final, and was not committed locally at {local:?}"
        );
        assert!(
            at >= local || self.config.rules.has(Plant::SnapshotIgnored),
            "{id} is final at {at:?}, and has committed locally at {local:?}"
        );
        self.greatest = self.greatest.max(at);
        self.counts.finals += 1;
        self.tell_tuner(Ended::Final(context.now - transaction.began_at));
        let ending = Ending::Committed { timestamp, snapshot: transaction.snapshot };
        self.remember(id, ending);
        self.tell(transaction.client, Message::CommitReply { transaction: id, ending }, outbox);
        self.tell_shards(&transaction, context, outbox);
        self.cache.prune(self.open.first().copied());
        let (mut doomed, mut freed) = (Vec::new(), Vec::new());
        for dependent in transaction.dependents {
            let Some(transaction) = self.transactions.get_mut(&dependent) else { continue };
            assert!(transaction.depends_on.remove(&id), "{dependent} does not know that it depends on {id}");
            transaction.oldest.remove(&id);
            // A commit that is final above a snapshot is not in it (SPSI-1).
            if transaction.snapshot < at && !self.config.rules.has(Plant::StaleDependentsKept) {
                doomed.push((dependent, Refusal::Misspeculated));
                continue;
            }
            transaction.freshest = transaction.freshest.max(at);
            freed.push(dependent);
        }
        for follower in transaction.followers {
            let Some(transaction) = self.transactions.get_mut(&follower) else { continue };
            assert_eq!(transaction.after.take(), Some(id), "{follower} follows what is final");
            if transaction.snapshot < at && self.config.orders_sessions {
                doomed.push((follower, Refusal::Misspeculated));
                continue;
            }
            freed.push(follower);
        }
        self.abort_all(doomed, false, context, log, outbox);
        for other in freed {
            self.show_chain(other, outbox);
            self.finish_read_only(other, context, log, outbox);
            self.try_decide(other, context, log, outbox);
        }
        self.look_at_parked(context, log, outbox);
    }

    /// A transaction has ended: takes it out.
    fn remove(&mut self, id: TransactionId) -> Option<Box<Transaction>> {
        let transaction = self.transactions.remove(&id)?;
        if !matches!(transaction.phase, Phase::Executing | Phase::ReadOnly) {
            self.committing.end(transaction.client);
        }
        Some(transaction)
    }

    /// Chains have become shorter.
    fn show_chain(&mut self, id: TransactionId, outbox: &mut Out) {
        self.show(id, outbox);
        let Some(transaction) = self.transactions.get(&id) else { return };
        let followers: Vec<TransactionId> = transaction.followers.iter().copied().collect();
        for follower in followers {
            self.show_chain(follower, outbox);
        }
    }

    /// A transaction that has written nothing is over once all that it has read is final (SPSI-4).
    pub(super) fn finish_read_only(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(transaction) = self.transactions.get(&id) else { return };
        let is_over = transaction.is_independent() || self.has(Plant::ReadOnlyAtOnce);
        if transaction.phase != Phase::ReadOnly || !is_over {
            return;
        }
        let Some(transaction) = self.remove(id) else { return };
        self.counts.finals += 1;
        self.tell_tuner(Ended::Final(context.now - transaction.began_at));
        let snapshot = transaction.snapshot;
        // A transaction that begins on this node from here on sees what this one has seen.
        self.greatest = self.greatest.max(snapshot);
        let timestamp = Timestamp { micros: snapshot.as_micros(), client: id.client };
        let ending = Ending::Committed { timestamp, snapshot };
        self.remember(id, ending);
        self.tell(transaction.client, Message::CommitReply { transaction: id, ending }, outbox);
        let mut freed = Vec::new();
        for follower in &transaction.followers {
            if let Some(next) = self.transactions.get_mut(follower) {
                assert_eq!(next.after.take(), Some(id), "{follower} follows what has read all");
                freed.push(*follower);
            }
        }
        self.unlink(id, &transaction);
        for (from, message) in transaction.queued {
            self.on_message(from, message, context, log, outbox);
        }
        for other in freed {
            self.show_chain(other, outbox);
            self.finish_read_only(other, context, log, outbox);
            self.try_decide(other, context, log, outbox);
        }
    }

    /// Nothing leads to a transaction any more that is over.
    fn unlink(&mut self, id: TransactionId, transaction: &Transaction) {
        for other in &transaction.depends_on {
            if let Some(known) = self.transactions.get_mut(other) {
                assert!(known.dependents.remove(&id), "{other} does not know that {id} depends on it");
            }
        }
        if let Some(earlier) = transaction.after.and_then(|earlier| self.transactions.get_mut(&earlier)) {
            earlier.followers.remove(&id);
        }
        self.open.remove(&transaction.began);
    }

    /// Aborts a transaction, and what depends on it.
    pub(super) fn abort(
        &mut self,
        id: TransactionId,
        refusal: Refusal,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        self.abort_all(vec![(id, refusal)], false, context, log, outbox);
    }

    /// Aborts transactions, and what depends on them. The first one's decision may have been on its way: then the log has said that it is
    /// aborted.
    fn abort_all(
        &mut self,
        mut doomed: Vec<(TransactionId, Refusal)>,
        mut is_recorded: bool,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if doomed.is_empty() {
            return;
        }
        let mut queued = Vec::new();
        while let Some((id, refusal)) = doomed.pop() {
            let Some(transaction) = self.transactions.get(&id) else { continue };
            let is_decided = matches!(transaction.phase, Phase::Deciding(..));
            assert!(
                !is_decided
                    || std::mem::take(&mut is_recorded)
                    || self.config.rules.has(Plant::DependenciesIgnored),
                "{id} is aborted while its decision is on its way"
            );
            let Some(transaction) = self.remove(id) else { continue };
            self.counts.aborts += 1;
            self.counts.cascades += u64::from(refusal == Refusal::Misspeculated);
            self.counts.apologies += u64::from(transaction.shown.is_some());
            self.unlink(id, &transaction);
            self.cache.remove(id, &transaction.writes);
            if let Phase::Local(local) | Phase::Deciding(local, _) = transaction.phase {
                assert!(self.locals.remove(&(local, id)), "{id} aborts, and was not committed locally");
            }
            let ending = Ending::Aborted(refusal);
            self.remember(id, ending);
            // A transaction that still reads is told as well, so that no program goes on with what it has read (the paper's figure 1).
            let is_asked = transaction.phase != Phase::Executing || transaction.commit.is_some();
            if is_asked {
                self.tell(transaction.client, Message::CommitReply { transaction: id, ending }, outbox);
            } else if !self.has(Plant::DoomedUntold) {
                self.tell(transaction.client, Message::Doomed { transaction: id, refusal }, outbox);
            }
            for (shard, part) in &transaction.parts {
                self.tell_aborted(
                    id,
                    *shard,
                    part.local.map(|(index, _)| index),
                    part.asked.is_some(),
                    outbox,
                );
            }
            let dependents = transaction.dependents.iter().chain(&transaction.followers);
            doomed.extend(dependents.map(|dependent| (*dependent, Refusal::Misspeculated)));
            queued.extend(transaction.queued);
        }
        self.cache.prune(self.open.first().copied());
        for (from, message) in queued {
            self.on_message(from, message, context, log, outbox);
        }
        self.look_at_parked(context, log, outbox);
    }

    /// DECIDE to the replicas that know of a transaction that has aborted.
    fn tell_aborted(
        &self,
        id: TransactionId,
        shard: ShardId,
        local: Option<quorate_core::ReplicaIndex>,
        is_asked: bool,
        outbox: &mut Out,
    ) {
        let leader = is_asked.then(|| self.leaders.leader(shard));
        let local = local.map(|index| ReplicaId { shard, index });
        for replica in local.into_iter().chain(leader.filter(|leader| Some(*leader) != local)) {
            let message = Message::Decide {
                transaction: id,
                outcome: Outcome::Aborted,
                readers: Vec::new(),
                is_forgotten: false,
            };
            outbox.send_unordered(replica, message);
        }
    }

    /// A shard has let in what has ended.
    pub(super) fn tell_ended(&mut self, shard: ShardId, id: TransactionId, outbox: &mut Out) {
        match self.endings.get(&id) {
            Some((Ending::Aborted(_), _)) => self.tell_aborted(id, shard, None, true, outbox),
            _ => outbox.ignored(reasons::NOT_OPEN),
        }
    }

    /// GIVE-WAY.
    pub(super) fn on_give_way(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let is_neighbour = self.neighbours.get(&from.shard).is_some_and(|known| known.replica == from);
        if !is_neighbour {
            return outbox.ignored(reasons::OTHER_NODE);
        }
        match self.transactions.get(&id).map(|transaction| transaction.phase) {
            Some(Phase::Certifying | Phase::Local(_)) => {
                self.abort(id, Refusal::Conflict, context, log, outbox);
            }
            Some(_) => outbox.ignored(reasons::DECIDING),
            None => outbox.ignored(reasons::NOT_OPEN),
        }
    }

    /// ABORT of a client.
    pub(super) fn on_abort(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let transaction = self.transactions.get(&id);
        match transaction.map(|one| (one.phase, one.commit.is_some())) {
            Some((Phase::Executing, false)) => {
                self.tell_tuner(Ended::GivenUp);
                self.abort(id, Refusal::Lost, context, log, outbox);
            }
            Some(_) => outbox.ignored(reasons::UNDER_WAY),
            None => outbox.ignored(reasons::NOT_OPEN),
        }
    }

    /// DECIDE to all replicas that may know of a transaction that has committed.
    fn tell_shards(&mut self, transaction: &Transaction, context: &Context<'_>, outbox: &mut Out) {
        let Some(decision) = &transaction.decision else { unreachable!("it was decided") };
        for (shard, part) in &transaction.parts {
            let shard = *shard;
            let holders =
                part.prepared.iter().flat_map(|prepared| &prepared.holders).map(|holder| holder.replica);
            let local = part.local.map(|(index, _)| index);
            let leader = self.leaders.leader(shard).index;
            let mut told: Vec<_> = holders.chain(local).chain([leader]).collect();
            told.sort_unstable();
            told.dedup();
            for index in told {
                let message = Self::decide_message(decision, shard, self.config.shards);
                outbox.send_unordered(ReplicaId { shard, index }, message);
            }
        }
        self.deliver(Arc::clone(decision), true, context);
    }
}
