//! Transactions commit locally, and ask the shards that they write to (section 6.5, algorithm 1, lines 16-31).

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::log::Log;
use quorate_core::topology::Grants;
use quorate_core::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX};
use quorate_core::{
    ClockTime, Context, Key, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, View, Write,
};

use super::Home;
use super::cache::Stage;
use super::transaction::{Asked, CommitWanted, LetIn, Part, Phase, Redirected};
use crate::config::{Clock, Shows};
use crate::entry::{Decision, Entry};
use crate::machine::{Out, ReplicaEvent};
use crate::message::{Ending, Life, Message, Period, Refusal, Session, after};
use crate::reasons;
use crate::rules::Plant;

impl Home {
    /// COMMIT.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_commit(
        &mut self,
        id: TransactionId,
        session: Session,
        snapshot: Option<ClockTime>,
        wanted: CommitWanted,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let bytes = |write: &Write| write.key.len() + write.value.as_ref().map_or(0, |value| value.len());
        let is_formed = wanted.writes.is_sorted_by(|one, next| one.key < next.key)
            && wanted.writes.len() <= TRANSACTION_ENTRIES_MAX
            && wanted.writes.iter().map(bytes).sum::<usize>() <= TRANSACTION_BYTES_MAX;
        if !is_formed {
            return outbox.ignored(reasons::MALFORMED);
        }
        if let Some(ending) = self.ending(id) {
            return self.tell(id.client, Message::CommitReply { transaction: id, ending }, outbox);
        }
        let farthest = self.time(context).saturating_add(self.config.ahead_max);
        if wanted.begun > farthest {
            // Somebody may ask for the outcome by that clock, and it cannot be remembered for that long.
            let ahead_max_micros = self.config.ahead_max.as_micros() as u64;
            let ahead_micros = wanted.begun.as_micros() - farthest.as_micros() + ahead_max_micros;
            return self.refuse_commit(
                id,
                Refusal::ClientAhead { ahead_micros, ahead_max_micros },
                wanted.period,
                context,
                log,
                outbox,
            );
        }
        let known = self.transactions.get(&id).map(|transaction| transaction.snapshot);
        if known.is_some() && snapshot.is_some() && known != snapshot {
            // A late copy of a read has begun it once more.
            return outbox.ignored(reasons::ENDED);
        }
        // A commit that names its snapshot names this very transaction; any other may be a late copy.
        if known.is_none() || snapshot.is_none() {
            if !self.remembers(wanted.period) {
                let (transaction, period) = (id, self.period);
                return self.tell(id.client, Message::OtherPeriod { transaction, period }, outbox);
            }
            if known.is_none()
                && let Some(why) = self.early(id, session, context)
            {
                return self.tell_early(id, why, outbox);
            }
            let begun = match (known, snapshot) {
                (Some(_), _) => Ok(()),
                (None, Some(_)) => Err(Refusal::Lost),
                (None, None) => self.begin(id, session, context, outbox),
            };
            if let Err(refusal) = begun {
                let ending = Ending::Aborted(refusal);
                self.remember(id, ending);
                return self.tell(id.client, Message::CommitReply { transaction: id, ending }, outbox);
            }
        }
        let Some(transaction) = self.transactions.get_mut(&id) else { return };
        if transaction.phase != Phase::Executing || transaction.commit.is_some() {
            return self.tell_under_way(id, outbox);
        }
        (transaction.touched_at, transaction.begun) = (context.now, wanted.begun);
        transaction.forgotten = self.state.forgotten;
        transaction.commit = Some(wanted);
        if transaction.reads.is_empty() {
            self.proceed(id, context, log, outbox);
        }
    }

    /// A commit is refused, whether or not its transaction has read.
    fn refuse_commit(
        &mut self,
        id: TransactionId,
        refusal: Refusal,
        period: Period,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match self.transactions.get(&id) {
            Some(transaction) if transaction.phase != Phase::Executing => outbox.ignored(reasons::UNDER_WAY),
            Some(_) => self.abort(id, refusal, context, log, outbox),
            // It may have been let in before, by a clock that has gone back since.
            None if !self.remembers(period) => {
                let (transaction, period) = (id, self.period);
                self.tell(id.client, Message::OtherPeriod { transaction, period }, outbox);
            }
            None => {
                let ending = Ending::Aborted(refusal);
                self.tell(id.client, Message::CommitReply { transaction: id, ending }, outbox);
            }
        }
    }

    /// True if what has ended here since a client knew of this period is remembered.
    fn remembers(&self, period: Period) -> bool {
        period.life == self.life() && period.number + 1 >= self.period.number
    }

    /// A client asks again about what is under way: its first message, or what it was shown, may have been lost; and it hears that this node
    /// lives.
    pub(super) fn tell_under_way(&self, id: TransactionId, outbox: &mut Out) {
        let Some(transaction) = self.transactions.get(&id) else { return };
        let (client, snapshot) = (transaction.client, transaction.snapshot);
        let message = match transaction.shown {
            Some((local, chain)) => Message::Shown { transaction: id, snapshot, local, chain },
            None => Message::UnderWay { transaction: id },
        };
        self.tell(client, message, outbox);
    }

    /// Commits a transaction that has read all that it wanted, if it is to.
    pub(super) fn proceed(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(transaction) = self.transactions.get_mut(&id) else { return };
        let Some(CommitWanted { writes, shows, knows_indexes, .. }) = transaction.commit.take() else {
            return;
        };
        (transaction.shows, transaction.writes) = (shows, Arc::from(writes));
        transaction.knows_indexes = knows_indexes;
        assert!(transaction.reads.is_empty(), "{id} commits before {} reads", transaction.reads.len());
        let (began, is_read_only) = (transaction.began, transaction.writes.is_empty());
        // From here on its client waits for the end.
        transaction.phase = if is_read_only { Phase::ReadOnly } else { Phase::Certifying };
        assert!(self.open.remove(&began), "{id} commits, and its number {began} is not open");
        if !is_read_only {
            self.committing.begin(id.client);
        }
        if is_read_only {
            self.show(id, outbox);
            self.finish_read_only(id, context, log, outbox);
        } else {
            self.certify(id, context, log, outbox);
        }
        self.cache.prune(self.open.first().copied());
        // Transactions of its client that wait for it to get a local timestamp need not.
        self.let_follow(id, context, log, outbox);
    }

    /// Local certification.
    fn certify(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(transaction) = self.transactions.get(&id) else { return };
        let (snapshot, writes) = (transaction.snapshot, Arc::clone(&transaction.writes));
        let mut beneath = Vec::new();
        for write in writes.iter() {
            for cached in self.cache.of_key(&write.key) {
                match cached.stage {
                    // It is in the snapshot, so this one depends on it, whether or not it has read it.
                    Stage::Local(local) | Stage::Deciding(local) if local <= snapshot => {
                        beneath.push(cached.transaction);
                    }
                    Stage::Final(_, at) if at <= snapshot => {}
                    _ => return self.abort(id, Refusal::Conflict, context, log, outbox),
                }
            }
        }
        let mut parts: BTreeMap<ShardId, Part> = BTreeMap::new();
        for write in writes.iter() {
            let shard = self.config.shard_of(&write.key);
            let local = self.local(shard).map(|(replica, life)| (replica.index, life));
            let part = parts.entry(shard).or_insert_with(|| Part {
                writes: Vec::new(),
                local,
                local_vote: None,
                asked: None,
                prepared: None,
                prepared_at: context.now,
                votes: BTreeMap::new(),
            });
            part.writes.push(write.clone());
        }
        self.cache.insert(id, snapshot, &writes);
        if !self.has(Plant::BlindWritesIndependent) {
            for other in &beneath {
                if let Some(other) = self.transactions.get_mut(other) {
                    other.dependents.insert(id);
                }
            }
        }
        let stacks_on = beneath.clone();
        let Some(transaction) = self.transactions.get_mut(&id) else { return };
        if !self.config.rules.has(Plant::BlindWritesIndependent) {
            transaction.depends_on.extend(beneath);
        }
        transaction.phase = Phase::Certifying;
        transaction.stacks_on = stacks_on;
        transaction.parts = parts;
        let locals: Vec<(ShardId, ReplicaIndex)> = transaction
            .parts
            .iter()
            .filter_map(|(shard, part)| part.local.map(|(index, _)| (*shard, index)))
            .collect();
        for (shard, index) in &locals {
            self.send_prepare(id, ReplicaId { shard: *shard, index: *index }, true, outbox);
        }
        if locals.is_empty() {
            self.commit_locally(id, context, log, outbox);
        }
    }

    /// PREPARE to a replica of a shard.
    fn send_prepare(&self, id: TransactionId, to: ReplicaId, is_local: bool, outbox: &mut Out) {
        let Some(transaction) = self.transactions.get(&id) else { return };
        let Some(part) = transaction.parts.get(&to.shard) else { return };
        let message = Message::Prepare {
            transaction: id,
            life: self.life(),
            snapshot: transaction.snapshot,
            writes: part.writes.clone(),
            after: transaction.stacks_on.clone(),
            is_local,
            knows_indexes: transaction.knows_indexes,
        };
        outbox.send_unordered(to, message);
    }

    /// LOCAL-VOTE.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_local_vote(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        life: Life,
        proposal: ClockTime,
        leads: bool,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let transaction = self.transactions.get_mut(&id);
        let Some(part) = transaction.and_then(|one| one.parts.get_mut(&from.shard)) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        if part.local != Some((from.index, life)) {
            return outbox.ignored(reasons::OTHER_LIFE);
        }
        part.local_vote = Some(proposal);
        if leads {
            part.asked = Some(Asked::new(from, context.now));
            self.note_leading(from, context.now, outbox);
        }
        self.commit_locally(id, context, log, outbox);
    }

    /// Commits a transaction locally once every replica on this node has voted (algorithm 1, lines 24-28).
    fn commit_locally(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(transaction) = self.transactions.get(&id) else { return };
        let is_voted = |part: &Part| part.local.is_none() || part.local_vote.is_some();
        if transaction.phase != Phase::Certifying || !transaction.parts.values().all(is_voted) {
            return;
        }
        let votes = transaction.parts.values().filter_map(|part| part.local_vote);
        let read_here = |write: &Write| after(self.cache.reader_of(&write.key));
        let mut local = votes.chain(transaction.writes.iter().map(read_here)).max().unwrap_or_default();
        local = local.max(after(transaction.snapshot));
        if self.config.variant.clock == Clock::Physical {
            local = local.max(self.time(context));
        }
        assert!(
            local > transaction.snapshot,
            "{id} commits locally at {local:?}, and its snapshot is {:?}",
            transaction.snapshot
        );
        let (transaction_snapshot, writes) = (transaction.snapshot, Arc::clone(&transaction.writes));
        self.cache.set_stage(id, Stage::Local(local), &writes);
        assert!(self.locals.insert((local, id)), "{id} has committed locally before, at {local:?}");
        if self.config.journals {
            let (life, snapshot) = (self.life(), transaction_snapshot);
            outbox.emit(ReplicaEvent::CommittedLocally { transaction: id, life, snapshot, local });
        }
        if let Some(transaction) = self.transactions.get_mut(&id) {
            transaction.phase = Phase::Local(local);
        }
        self.show(id, outbox);
        self.ask_leaders(id, context, outbox);
        self.let_follow(id, context, log, outbox);
        self.look_at_parked(context, log, outbox);
        self.try_decide(id, context, log, outbox);
    }

    /// Handles what came for transactions that follow one which may have a local timestamp now; if it has none, they wait once more.
    fn let_follow(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(transaction) = self.transactions.get_mut(&id) else { return };
        for (from, message) in std::mem::take(&mut transaction.queued) {
            self.on_message(from, message, context, log, outbox);
        }
    }

    /// Shows the client the result, if it may be shown and the chain is short enough (section 6.5).
    pub(super) fn show(&mut self, id: TransactionId, outbox: &mut Out) {
        if !self.transactions.get(&id).is_some_and(|one| one.shows && one.shown.is_none()) {
            return;
        }
        let (chain, allowed) = (self.chain(id), self.shows());
        let Some(transaction) = self.transactions.get_mut(&id) else { return };
        let local = match transaction.phase {
            Phase::Local(local) | Phase::Deciding(local, _) => local,
            Phase::ReadOnly => transaction.snapshot,
            Phase::Executing | Phase::Certifying => return,
        };
        let may_be_shown = match allowed {
            Shows::Nothing => false,
            Shows::Result => chain == 1,
            Shows::Chain(length) => chain <= length,
        };
        if !may_be_shown {
            return;
        }
        transaction.shown = Some((local, chain));
        if transaction.phase == Phase::ReadOnly {
            self.greatest = self.greatest.max(local);
        }
        self.counts.shown += 1;
        let (client, snapshot) = (transaction.client, transaction.snapshot);
        self.tell(client, Message::Shown { transaction: id, snapshot, local, chain }, outbox);
    }

    /// So many transactions of its client are not final, up to this one.
    fn chain(&self, id: TransactionId) -> u8 {
        let mut chain = 0u8;
        let mut next = Some(id);
        while let Some(transaction) = next.and_then(|id| self.transactions.get(&id)) {
            chain = chain.saturating_add(1);
            next = transaction.after;
        }
        chain
    }

    /// Asks the leaders of those shards that were not asked.
    fn ask_leaders(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(transaction) = self.transactions.get(&id) else { return };
        let parts = transaction.parts.iter();
        let unasked: Vec<ShardId> =
            parts.filter(|(_, part)| part.asked.is_none()).map(|(shard, _)| *shard).collect();
        for shard in unasked {
            self.ask_leader(id, shard, context, outbox);
        }
    }

    pub(super) fn ask_leader(
        &mut self,
        id: TransactionId,
        shard: ShardId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        self.ask_to_let_in(id, Asked::new(self.leaders.leader(shard), context.now), outbox);
    }

    pub(super) fn ask_to_let_in(&mut self, id: TransactionId, asked: Asked, outbox: &mut Out) {
        self.send_prepare(id, asked.replica, false, outbox);
        let transaction = self.transactions.get_mut(&id);
        if let Some(part) = transaction.and_then(|one| one.parts.get_mut(&asked.replica.shard)) {
            part.asked = Some(asked);
        }
    }

    /// VOTE.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_vote(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        life: Life,
        view: View,
        proposal: ClockTime,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let transaction = self.transactions.get_mut(&id);
        let Some(part) = transaction.and_then(|one| one.parts.get_mut(&from.shard)) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        let known = part.votes.entry((from.index, life, view)).or_default();
        *known = (*known).max(proposal);
        self.try_decide(id, context, log, outbox);
    }

    /// PREPARED.
    pub(super) fn on_prepared(
        &mut self,
        shard: ShardId,
        id: TransactionId,
        prepared: LetIn,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let transaction = self.transactions.get_mut(&id);
        let Some(part) = transaction.and_then(|one| one.parts.get_mut(&shard)) else {
            return self.tell_ended(shard, id, outbox);
        };
        if part.prepared.is_none() {
            part.prepared_at = context.now;
        }
        part.prepared = Some(prepared);
        self.try_decide(id, context, log, outbox);
    }

    /// REFUSED.
    pub(super) fn on_refused(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        refusal: Refusal,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let transaction = self.transactions.get(&id);
        let Some(transaction) = transaction.filter(|one| one.parts.contains_key(&from.shard)) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        let phase = transaction.phase;
        self.note_refusal(from.shard, refusal, context);
        match phase {
            Phase::Certifying | Phase::Local(_) => self.abort(id, refusal, context, log, outbox),
            _ => outbox.ignored(reasons::DECIDING),
        }
    }

    /// The replica that was asked does not lead its shard.
    pub(super) fn on_not_leading(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        leader: ReplicaIndex,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        self.leaders.redirect(from, leader);
        let transaction = self.transactions.get(&id);
        let part = transaction.and_then(|one| one.parts.get(&from.shard));
        let asked = part.filter(|part| part.prepared.is_none()).and_then(|part| part.asked);
        match asked.map_or(Redirected::Nowhere, |asked| asked.named(from, leader, context.now)) {
            Redirected::To(named) => self.ask_to_let_in(id, named, outbox),
            Redirected::Soon(again) => {
                let part = self.transactions.get_mut(&id).and_then(|one| one.parts.get_mut(&from.shard));
                if let Some(part) = part {
                    part.asked = Some(again);
                }
                self.ask_soon(outbox);
            }
            Redirected::Nowhere => outbox.ignored(reasons::KNOWN),
        }
    }

    /// Decides a transaction, if every shard has let it in, every vote that counts is in, and nothing that it depends on is speculative
    /// (algorithm 1, lines 29-31).
    pub(super) fn try_decide(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(transaction) = self.transactions.get(&id) else { return };
        let Phase::Local(local) = transaction.phase else { return };
        if !transaction.is_independent() && !self.has(Plant::DependenciesIgnored) {
            return;
        }
        let mut timestamp = ClockTime::default();
        let mut passed = 0;
        for part in transaction.parts.values() {
            let Some(LetIn { view, proposal, holders }) = &part.prepared else { return };
            timestamp = timestamp.max(*proposal);
            let is_late = context.now - part.prepared_at >= self.config.vote_timeout;
            for holder in holders {
                let vote = match self.has(Plant::EarlierVotesCount) {
                    true => part.vote_under_any_view(holder),
                    false => part.vote_of(holder, *view),
                };
                match vote {
                    Some(vote) => timestamp = timestamp.max(vote),
                    // It has served nothing above, so no vote of it is needed there.
                    None if is_late => {
                        timestamp = timestamp.max(after(holder.until));
                        passed += 1;
                    }
                    None => return,
                }
            }
        }
        if !self.has(Plant::SnapshotIgnored) {
            // The local timestamp is above the snapshot.
            timestamp = timestamp.max(local);
        }
        assert!(
            timestamp > transaction.snapshot || self.has(Plant::SnapshotIgnored),
            "{id} is decided at {timestamp:?}, and its snapshot is {:?}",
            transaction.snapshot
        );
        assert!(
            timestamp >= local || self.has(Plant::SnapshotIgnored),
            "{id} is decided at {timestamp:?}, and has committed locally at {local:?}"
        );
        assert!(transaction.decision.is_none(), "{id} is decided twice");
        let readers: Vec<(Key, ClockTime)> = transaction
            .parts
            .values()
            // A replica that was let vote here need not be the one that its readers have asked since.
            .filter(|part| part.local.is_none() || self.config.grants == Grants::Leader)
            .flat_map(|part| &part.writes)
            .map(|write| (write.key.clone(), self.cache.reader_of(&write.key)))
            .filter(|(_, reader)| *reader > ClockTime::default())
            .collect();
        let decision = Decision {
            transaction: id,
            by: self.config.replica.index,
            snapshot: transaction.snapshot,
            begun: transaction.begun,
            participants: transaction.parts.keys().copied().collect(),
            outcome: quorate_core::command::Outcome::Committed(Timestamp {
                micros: timestamp.as_micros(),
                client: id.client,
            }),
            readers,
        };
        let writes = Arc::clone(&transaction.writes);
        self.counts.passed += passed;
        self.cache.set_stage(id, Stage::Deciding(local), &writes);
        if let Some(transaction) = self.transactions.get_mut(&id) {
            transaction.phase = Phase::Deciding(local, timestamp);
            transaction.recorded_at = context.now;
            transaction.decision = Some(Arc::new(decision));
        }
        self.record(id, log, outbox);
    }

    /// Repeats what may have been lost, and gives up what takes too long.
    pub(super) fn attend_transactions(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (now, resend_timeout) = (context.now, self.config.resend_timeout);
        let all: Vec<TransactionId> = self.transactions.keys().copied().collect();
        for id in all {
            let Some(transaction) = self.transactions.get(&id) else { continue };
            let waited = now - transaction.touched_at;
            match transaction.phase {
                Phase::Executing if waited >= self.config.idle_timeout => {
                    self.abort(id, Refusal::Lost, context, log, outbox);
                }
                Phase::Certifying | Phase::Local(_) if waited >= self.config.certify_timeout => {
                    let unprepared = transaction.parts.iter().find(|(_, part)| part.prepared.is_none());
                    let refusal =
                        unprepared.map_or(Refusal::Misspeculated, |(shard, _)| Refusal::Unavailable(*shard));
                    self.abort(id, refusal, context, log, outbox);
                }
                Phase::Local(_) => {
                    let unprepared = transaction.parts.values().filter(|part| part.prepared.is_none());
                    let late: Vec<Asked> = unprepared
                        .filter_map(|part| part.asked.filter(|asked| asked.is_late(now, resend_timeout)))
                        .collect();
                    for asked in late {
                        self.suspect_if_silent(&asked);
                        self.ask_leader(id, asked.replica.shard, context, outbox);
                    }
                    self.try_decide(id, context, log, outbox);
                }
                Phase::Deciding(..) if now - transaction.recorded_at >= resend_timeout => {
                    if let Some(transaction) = self.transactions.get_mut(&id) {
                        transaction.recorded_at = now;
                    }
                    self.record(id, log, outbox);
                }
                Phase::Executing | Phase::Certifying | Phase::Deciding(..) | Phase::ReadOnly => {}
            }
        }
    }
}
