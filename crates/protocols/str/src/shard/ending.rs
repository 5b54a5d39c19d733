//! Outcomes are taken over from homes, and asked for (section 6.6).

use quorate_core::command::Outcome;
use quorate_core::log::Log;
use quorate_core::{ClockTime, Context, Key, ReplicaId, ReplicaIndex, TransactionId};

use super::Shard;
use crate::entry::{Decided, Entry};
use crate::machine::Out;
use crate::message::{Life, Message, newest_of};
use crate::reasons;
use crate::rules::Plant;

/// So many aborts that overtook their prepares are remembered.
const ABORTED_MAX: usize = 100_000;

impl Shard {
    /// True if a transaction is known to have committed here.
    pub(super) fn has_committed(&self, id: TransactionId) -> bool {
        let told = || self.pendings.get(id).and_then(|pending| pending.outcome);
        matches!(self.state.outcome(id).or_else(told), Some(Outcome::Committed(_)))
    }

    /// DECIDE.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_decide(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        outcome: Outcome,
        readers: Vec<(Key, ClockTime)>,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if let Some(known) = self.state.outcome(id) {
            assert!(known == outcome, "{id} ended as {known:?}, and {from} says {outcome:?}");
            match self.leader.is_some() {
                true => outbox.send_unordered(from, Message::Applied { transaction: id }),
                false => outbox.ignored(reasons::ENDED),
            }
            return;
        }
        for (key, snapshot) in &readers {
            self.readers.read_key(key, newest_of(*snapshot));
        }
        if let Some(pending) = self.pendings.get_mut(id) {
            if pending.home.shard != from.shard {
                return outbox.ignored(reasons::NOT_ITS_PLACE);
            }
            if let Some(known) = pending.outcome {
                assert!(known == outcome, "{id} ended as {known:?}, and {from} says {outcome:?}");
            }
            (pending.outcome, pending.readers) = (Some(outcome), readers.clone());
            let is_noted_alone = outcome == Outcome::Aborted && !pending.is_let_in();
            if is_noted_alone {
                self.forget(id);
            }
            self.give_way(id, outbox);
            self.wake(id, context, log, outbox);
        }
        if outcome == Outcome::Aborted {
            self.forget_candidate(id);
        }
        self.remember_abort(id, outcome, context);
        match self.is_let_in(id) {
            true => self.append_outcome(id, Some(from), log, outbox),
            false => self.vouch(id, outcome, readers, from, log, outbox),
        }
    }

    /// True if this replica has appended a transaction, or the log has it.
    fn is_let_in(&self, id: TransactionId) -> bool {
        self.pendings.get(id).is_some_and(|pending| pending.is_appended || pending.prepared.is_some())
    }

    /// As far as this replica knows, nothing of a transaction that has ended is in the log of its shard.
    fn vouch(
        &mut self,
        id: TransactionId,
        outcome: Outcome,
        readers: Vec<(Key, ClockTime)>,
        from: ReplicaId,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let is_planted = self.has(Plant::DeposedVouch);
        let Some(leader) = &mut self.leader else { return };
        if outcome == Outcome::Aborted || is_planted {
            // Nobody waits for the shard to apply this.
            return outbox.send_unordered(from, Message::Applied { transaction: id });
        }
        if let Some(asker) = leader.deciding.get_mut(&id) {
            *asker = Some(from);
            return outbox.ignored(reasons::UNDER_WAY);
        }
        // A commit was prepared here, so either it is applied and forgotten, or another leader has prepared it and this one was deposed. An entry
        // of its own tells: if that is applied, so is all that came before.
        let decided = Decided { transaction: id, outcome, readers };
        match log.append(Entry::Decided(std::sync::Arc::new(decided))) {
            Some(_) => {
                let known = leader.deciding.insert(id, Some(from));
                assert!(known.is_none(), "the outcome of {id} is appended twice, for {from} and {known:?}");
            }
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// Its prepare may still be on its way.
    fn remember_abort(&mut self, id: TransactionId, outcome: Outcome, context: &Context<'_>) {
        let is_known = self.pendings.get(id).is_some();
        if let Some(leader) = &mut self.leader
            && outcome == Outcome::Aborted
            && !is_known
            && leader.aborted.len() < ABORTED_MAX
        {
            leader.aborted.insert(id, context.now);
        }
    }

    /// Appends an outcome that is known, if this replica leads and the log does not have it. Its home is told once it does.
    pub(super) fn append_outcome(
        &mut self,
        id: TransactionId,
        from: Option<ReplicaId>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        let let_in =
            self.pendings.get(id).filter(|pending| pending.is_appended || pending.prepared.is_some());
        let Some(pending) = let_in else { return };
        let Some(outcome) = pending.outcome else { return };
        if let Some(asker) = leader.deciding.get_mut(&id) {
            *asker = from.or(*asker);
            return outbox.ignored(reasons::UNDER_WAY);
        }
        let decided = Decided { transaction: id, outcome, readers: pending.readers.clone() };
        match log.append(Entry::Decided(std::sync::Arc::new(decided))) {
            Some(_) => {
                let known = leader.deciding.insert(id, from);
                assert!(known.is_none(), "the outcome of {id} is appended twice, for {from:?} and {known:?}");
            }
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// The log has an outcome.
    pub(super) fn on_decided(
        &mut self,
        decided: &Decided,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let id = decided.transaction;
        if let (Some(prepared), Outcome::Committed(timestamp)) =
            (self.state.prepared.get(&id), decided.outcome)
        {
            assert!(
                timestamp.micros > prepared.snapshot.as_micros() || self.has(Plant::SnapshotIgnored),
                "{id} commits at {timestamp}, and its snapshot is {:?}",
                prepared.snapshot
            );
            assert!(
                timestamp.micros >= prepared.proposal.as_micros(),
                "{id} commits at {timestamp}, and its shard has proposed {:?}",
                prepared.proposal
            );
        }
        self.state.decide(decided);
        if let Some(leader) = &mut self.leader
            && let Some(Some(asker)) = leader.deciding.remove(&id)
        {
            outbox.send_unordered(asker, Message::Applied { transaction: id });
        }
        self.release(id, context, log, outbox);
    }

    /// A transaction holds nothing here any more.
    pub(super) fn release(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        self.forget(id);
        self.give_way(id, outbox);
        self.wake(id, context, log, outbox);
    }

    /// Takes a transaction out, with the vote that waits.
    pub(super) fn forget(&mut self, id: TransactionId) {
        let vote = self.pendings.remove(id).and_then(|pending| pending.vote);
        self.fewer_votes_wait(usize::from(vote.is_some()));
    }

    /// So many votes do not wait any more.
    pub(super) fn fewer_votes_wait(&mut self, votes: usize) {
        assert!(votes <= self.held_votes, "{votes} votes waited, of {}", self.held_votes);
        self.held_votes -= votes;
    }

    /// HELLO of the home on this node.
    pub(super) fn on_hello(
        &mut self,
        from: ReplicaId,
        life: Life,
        wants: bool,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some((home, known)) = self.home.filter(|(home, _)| *home == from) else {
            return outbox.ignored(reasons::OTHER_NODE);
        };
        if known != Some(life) {
            self.drop_notes(context, log, outbox);
            self.home = Some((home, Some(life)));
            // A grant tells the home what time it is at the leader.
            self.is_read = true;
            self.ask_grant(context, log, outbox);
        }
        if wants {
            outbox.send_unordered(home, Message::Hello { life: self.life, wants: false });
        }
        self.tell_bound(outbox);
    }

    /// Drops all notes, which are of a life of the home that is over: what it had committed locally is gone with it.
    pub(super) fn drop_notes(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let noted: Vec<TransactionId> =
            self.pendings.iter().filter(|(_, pending)| pending.note.is_some()).map(|(id, _)| id).collect();
        for id in noted {
            let Some(pending) = self.pendings.get_mut(id) else { continue };
            pending.note = None;
            if pending.is_let_in() {
                self.give_way(id, outbox);
            } else {
                self.release(id, context, log, outbox);
            }
        }
    }

    /// Asks homes what became of transactions that hold keys for long; repeats what may have been lost.
    pub(super) fn attend_endings(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let held: Vec<TransactionId> =
            self.pendings.iter().filter(|(_, pending)| pending.vote.is_some()).map(|(id, _)| id).collect();
        for id in held {
            self.make_way(id, outbox);
        }
        let Some(leader) = &mut self.leader else { return };
        let (now, timeout) = (context.now, self.config.recovery_timeout);
        leader.aborted.retain(|_, at| now - *at < self.config.floor_lag);
        let is_old = |at: quorate_core::Instant| now - at >= timeout;
        let overdue: Vec<TransactionId> = self
            .pendings
            .iter()
            .filter(|(_, pending)| {
                pending.prepared.is_some() && is_old(pending.inquired_at.unwrap_or(pending.since))
            })
            .map(|(id, _)| id)
            .collect();
        for id in overdue {
            self.inquire(id, context, log, outbox);
        }
    }

    fn inquire(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        /// Its own machine knows best, and may only be slow.
        const AT_HOME: u32 = 2;
        let Some(pending) = self.pendings.get_mut(id) else { return };
        if pending.outcome.is_some() {
            return self.append_outcome(id, None, log, outbox);
        }
        pending.inquired_at = Some(context.now);
        let round = pending.inquiries;
        pending.inquiries = round.saturating_add(1);
        let (home, snapshot) = (pending.home, pending.snapshot);
        let members = self.config.groups.members(home.shard);
        let asked = match round < AT_HOME {
            true => home,
            false => ReplicaId { shard: home.shard, index: members.at(round as usize) },
        };
        outbox.send_unordered(asked, Message::Inquire { transaction: id, snapshot });
    }

    /// The machine that was asked does not lead the log of the home.
    pub(super) fn on_home_not_leading(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        leader: ReplicaIndex,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(pending) = self.pendings.get_mut(id).filter(|pending| pending.outcome.is_none()) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        // Two that name each other would be asked for ever.
        let is_news = leader != from.index && pending.inquired_at != Some(context.now);
        if !is_news || pending.home.shard != from.shard {
            return outbox.ignored(reasons::KNOWN);
        }
        let asked = ReplicaId { shard: from.shard, index: leader };
        let snapshot = pending.snapshot;
        outbox.send_unordered(asked, Message::Inquire { transaction: id, snapshot });
    }
}
