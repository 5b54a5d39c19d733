//! The prepare phase: one consensus operation per shard, one round trip if all goes well (TAPIR paper, section 5.1.2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::clock_since;
use quorate_core::command::{CommitWindow, Outcome};
use quorate_core::{
    Ballot, ClientId, ClockTime, Context, GroupSize, Instant, Members, ReadVersion, ReplicaId, ReplicaIndex,
    ShardId, Timestamp, Transaction, TransactionId, View,
};
use quorate_ir::{ConsensusCall, ConsensusProgress, OperationId};

use super::tell::Share;
use super::{Coordinator, Ir, Open, Out, Phase, finish, replicas};
use crate::config::RETRY_AHEAD_MAX;
use crate::message::{FoundVersion, Message, Prepare, Tapir, Vote};
use crate::rules::{Plant, Rules};
use quorate_core::command::{Committed, Event, Failure, Invalid};

/// So long a fast quorum is waited for at least: processors that have much to do are late by a little.
const FAST_PATH_PATIENCE_MIN: Duration = Duration::from_millis(5);

/// Where a transaction is proposed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposal {
    timestamp: Timestamp,
    /// True if two round trips to majorities are expected to take less time than one to fast quorums.
    slow_is_sooner: bool,
}

/// A transaction that is being prepared.
#[derive(Debug)]
pub(super) struct Preparing {
    parts: Vec<Part>,
    proposal: Proposal,
    /// Where it was proposed first.
    first: Timestamp,
    /// Counts the prepares of this attempt, from one: the number of the operation in every shard.
    number: u32,
    retries: u32,
    sent_at: Instant,
    resend_after: Duration,
}

/// One shard's share of it.
#[derive(Debug)]
struct Part {
    shard: ShardId,
    /// The replicas that vote on it.
    group: Members,
    transaction: Arc<Transaction>,
    call: ConsensusCall<Tapir>,
    /// The versions found by replicas that vote on a transaction which reads when it is prepared, and in which view.
    found: BTreeMap<ReplicaIndex, (View, Vec<FoundVersion>)>,
    /// When f + 1 replicas had replied, but no fast quorum alike.
    quorum_at: Option<Instant>,
    /// The replicas that cast no vote because the timestamp lies too far ahead of their clocks.
    behind: Vec<ReplicaIndex>,
    settled: Option<Settled>,
}

/// The decision of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// The vote is final, in this view.
    Final { vote: Vote, fast: bool, view: View },
    /// No vote is final, but the transaction can only be prepared above this timestamp.
    Retry(Timestamp),
}

/// The next step of a transaction.
enum Next {
    Wait,
    Retry(Timestamp),
    Decide { commit: bool, fast: bool },
}

impl Preparing {
    /// Where it was proposed first: at no lower timestamp can it have committed.
    pub(super) fn first_timestamp(&self) -> Timestamp {
        self.first
    }

    /// Every shard that takes part, sorted.
    pub(super) fn participants(&self) -> Vec<ShardId> {
        self.parts.iter().map(|part| part.shard).collect()
    }

    fn groups(&self) -> impl Iterator<Item = (ShardId, Members)> + '_ {
        self.parts.iter().map(|part| (part.shard, part.group))
    }

    /// The parts of which the replicas of each shard are to be told.
    fn shares(&self) -> Vec<Share> {
        let share = |part: &Part| Share {
            shard: part.shard,
            transaction: part.transaction.clone(),
            prepared: part.call.supporters(&Vote::Ok).collect(),
        };
        self.parts.iter().map(share).collect()
    }
}

/// The paper's `decide`: picks the vote of a shard from f + 1 or more replies that have no fast quorum.
pub(crate) fn decide_vote<'a>(votes: impl Iterator<Item = &'a Vote>, group: GroupSize) -> Vote {
    let (mut oks, mut abstains, mut retry) = (0, 0, None);
    for vote in votes {
        match vote {
            // A committed transaction is in the way, so f + 1 replicas will not agree.
            Vote::Abort => return Vote::Abort,
            Vote::Ok => oks += 1,
            Vote::Abstain => abstains += 1,
            Vote::Retry(timestamp) => retry = retry.max(Some(*timestamp)),
        }
    }
    if oks >= group.majority() {
        Vote::Ok
    } else if abstains >= group.majority() {
        Vote::Abort
    } else {
        retry.map_or(Vote::Abort, Vote::Retry)
    }
}

/// True if further votes would neither change what those of a majority amount to, nor be a fast quorum together with them.
fn is_conclusive(call: &ConsensusCall<Tapir>, group: Members) -> bool {
    let alike = |vote: &Vote| call.verdicts().filter(|other| *other == vote).count();
    let (oks, aborts, missing) = (alike(&Vote::Ok), alike(&Vote::Abort), call.missing().count());
    if aborts > 0 {
        // Nothing turns it; but if all say so, they may soon be a fast quorum.
        return aborts < call.verdicts().count() || missing == 0;
    }
    let may_be_fast = call.verdicts().any(|vote| alike(vote) + missing >= group.fast_quorum());
    let may_agree = oks < group.majority() && oks + missing >= group.majority();
    !may_be_fast && !may_agree
}

/// How long to wait for a fast quorum once a majority has voted, which took so long; `longest` at most.
///
/// The slow path takes as long as that majority took. A coordinator that has waited in vain for a multiple of it is late by no more than that,
/// however near or far the replicas are; and a vote may be on its way for long, where the prepare waits for others.
fn fast_path_patience(quorum_took: Duration, longest: Duration) -> Duration {
    (quorum_took * 2).max(FAST_PATH_PATIENCE_MIN).min(longest)
}

/// How far above what was asked for a transaction is prepared again that has been so often already.
fn retry_ahead(retries: u32, first: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX)).min(RETRY_AHEAD_MAX)
}

/// True if replicas would still vote on a transaction that was proposed first at `first`, if it were prepared again above
/// what was asked for. That lies above its client's clock and whatever it has proposed, too.
fn is_within_span(first: Timestamp, above: Timestamp, latest_micros: u64, span: Duration) -> bool {
    above.micros.max(latest_micros) < first.micros.saturating_add(span.as_micros() as u64)
}

/// A bound of a single replica is believed if it is no further ahead of this client's clock: so far ahead readers are promised something,
/// and floors are looked for.
const NEAR_MAX: Duration = Duration::from_secs(30);

fn is_near(above: Timestamp, clock: ClockTime) -> bool {
    above.micros <= clock.saturating_add(NEAR_MAX).as_micros()
}

/// The bound for which f + 1 replicas vouch: as many as f may have promised something to a clock that was wild, and go on voting for it.
fn vouched_bound<'a>(votes: impl Iterator<Item = &'a Vote>, failures: usize) -> Option<Timestamp> {
    let bound = |vote: &Vote| match vote {
        Vote::Retry(above) => Some(*above),
        _ => None,
    };
    let mut bounds: Vec<Timestamp> = votes.filter_map(bound).collect();
    bounds.sort_unstable();
    bounds.iter().rev().nth(failures).copied()
}

impl Coordinator {
    /// Takes note of the window in which a transaction may commit.
    pub(super) fn on_confine(&mut self, id: TransactionId, window: CommitWindow, outbox: &mut Out) {
        match self.transactions.get_mut(&id) {
            Some(open) if matches!(open.phase, Phase::Executing(_)) => open.window = window,
            _ => finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id)))),
        }
    }

    pub(super) fn on_commit(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        let Phase::Executing(execution) = &mut open.phase else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        let Some(clock) = clock_since(open.began, context.clock) else {
            return self.fail(id, Failure::Conflict, outbox);
        };
        let window = open.window;
        let from = Timestamp { micros: window.from.as_micros(), client: ClientId::default() };
        let greatest = execution.greatest_version().max(from);
        let routes = execution.routes().clone();
        let empty = super::Execution::new(routes, id.attempt);
        let execution = std::mem::replace(execution.as_mut(), empty);
        let shares = execution.into_parts(self.config.rules);
        let shards = || shares.iter().map(|(shard, _)| *shard);
        let proposal = self.next_proposal(clock, greatest, shards());
        if !self.is_allowed(window, proposal.timestamp) {
            return self.fail(id, Failure::Conflict, outbox);
        }
        if shares.is_empty() {
            let timestamp = proposal.timestamp;
            self.close(id, Outcome::Committed(timestamp), outbox);
            return finish(outbox, id, Ok(Committed::at(timestamp)));
        }
        self.start_preparing(id, proposal, shares, context, outbox);
    }

    /// True if a transaction with this window may commit at a timestamp.
    ///
    /// A reader at a timestamp finds a value over from its expiry on. A transaction that has seen the value, and commits at its expiry or above, would be in the serial order of
    /// timestamps behind such readers, which have not seen it.
    fn is_allowed(&self, window: CommitWindow, timestamp: Timestamp) -> bool {
        window.contains(timestamp) || self.config.rules.has(Plant::ExpiryOverrun)
    }

    /// Where to propose a transaction next, above a timestamp.
    pub(super) fn next_proposal(
        &mut self,
        clock: ClockTime,
        above: Timestamp,
        shards: impl Iterator<Item = ShardId> + Clone,
    ) -> Proposal {
        let groups = shards.clone().map(|shard| (shard, self.groups[&shard].members));
        let slow_is_sooner = self.deadlines.slow_path_is_sooner(groups, |replica| self.is_expected(replica));
        let quorum = if slow_is_sooner { GroupSize::majority } else { GroupSize::fast_quorum };
        Proposal { timestamp: self.next_deadline(clock, above, shards, quorum), slow_is_sooner }
    }

    /// Prepares the parts of a transaction.
    pub(super) fn start_preparing(
        &mut self,
        id: TransactionId,
        proposal: Proposal,
        shares: Vec<(ShardId, Arc<Transaction>)>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let missing = self.missing_quorum(shares.iter().map(|(shard, _)| *shard), GroupSize::majority);
        if !missing.is_empty() {
            return self.fail(id, Failure::Unavailable { missing }, outbox);
        }
        let part = |(shard, transaction): (ShardId, Arc<Transaction>)| {
            let group = self.groups[&shard].members;
            let call = ConsensusCall::new(group).with_mistake(self.config.rules.mistake());
            Part {
                shard,
                group,
                transaction,
                call,
                found: BTreeMap::new(),
                quorum_at: None,
                behind: Vec::new(),
                settled: None,
            }
        };
        assert!(
            !shares.is_empty() && shares.is_sorted_by(|(one, _), (other, _)| one < other),
            "{id} is prepared at {:?}",
            shares.iter().map(|(shard, _)| *shard).collect::<Vec<_>>()
        );
        let preparing = Preparing {
            parts: shares.into_iter().map(part).collect(),
            proposal,
            first: proposal.timestamp,
            number: 1,
            retries: 0,
            sent_at: context.now,
            resend_after: self.config.resend_timeout,
        };
        let open = self.transactions.get_mut(&id).expect("whoever prepares it has looked at it");
        open.phase = Phase::Preparing(Box::new(preparing));
        self.send_prepare(id, context, outbox);
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
    }

    /// The replicas that are down, of those shards where so many are that the others are no quorum.
    pub(super) fn missing_quorum(
        &self,
        shards: impl Iterator<Item = ShardId>,
        quorum: impl Fn(GroupSize) -> usize,
    ) -> Vec<ReplicaId> {
        if self.unreachable.is_empty() {
            return Vec::new();
        }
        let mut missing = Vec::new();
        for shard in shards {
            let group = self.groups[&shard].members;
            let down: Vec<ReplicaId> =
                replicas(shard, group).filter(|replica| self.unreachable.contains(replica)).collect();
            if group.replicas() - down.len() < quorum(group.size()) {
                missing.extend(down);
            }
        }
        missing
    }

    fn preparing(&mut self, id: TransactionId) -> Option<&mut Preparing> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Preparing(preparing) => Some(preparing),
            _ => None,
        }
    }

    /// Sends the prepare to every replica of every shard.
    fn send_prepare(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(preparing) = self.preparing(id) else { return };
        let groups: Vec<(ShardId, Members)> = preparing.groups().collect();
        for (shard, group) in groups {
            for replica in replicas(shard, group) {
                self.probe(replica, context, outbox);
            }
        }
        let Some(preparing) = self.preparing(id) else { return };
        for part in &preparing.parts {
            for replica in replicas(part.shard, part.group) {
                outbox.send(replica, preparing.prepare_message(id, part));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_prepare_reply(
        &mut self,
        from: ReplicaId,
        id: OperationId,
        view: View,
        vote: Vote,
        finalized: bool,
        found: Vec<FoundVersion>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let rules = self.config.rules;
        if let Vote::Retry(above) = vote
            && is_near(above, context.clock)
        {
            // Also for the next transaction, if this one does not try again: below a floor nothing is let in.
            self.stay_above(above);
        }
        let Some(preparing) = self.preparing(id.transaction) else { return };
        if id.number != preparing.number && !rules.has(Plant::OlderPrepareDisplaces) {
            return;
        }
        let vote = if rules.has(Plant::AbstainIsSuccess) && vote == Vote::Abstain { Vote::Ok } else { vote };
        let Some(part) = preparing.parts.iter_mut().find(|part| part.shard == from.shard) else { return };
        part.call.on_reply(from.index, view, vote, finalized);
        if !found.is_empty() && found.len() == part.transaction.reads.len() {
            part.found.insert(from.index, (view, found));
        }
        send_higher_view(part, rules, outbox);
        if let Some(above) = vouched_bound(part.call.verdicts(), part.group.failures()) {
            self.stay_above(above);
        }
        self.advance(id.transaction, context, outbox);
    }

    /// Proposes nothing at or below this timestamp any more.
    fn stay_above(&mut self, above: Timestamp) {
        self.last_timestamp = self.last_timestamp.max(Timestamp { client: self.config.client, ..above });
    }

    /// A replica finds the timestamp too far ahead of its clock. If so many of a shard do that the others are no quorum, it
    /// is this client's clock that is wrong; else it is theirs, and the others decide without them.
    pub(super) fn on_clock_ahead(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        invalid: Invalid,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(preparing) = self.preparing(id) else { return };
        let pushed = preparing.proposal.timestamp.micros.saturating_sub(context.clock.as_micros());
        let Some(part) = preparing.parts.iter_mut().find(|part| part.shard == from.shard) else { return };
        if !part.behind.contains(&from.index) {
            part.behind.push(from.index);
        }
        if part.behind.len() > part.group.failures() {
            self.on_superseded(id, unless_pushed(invalid, pushed), context, outbox);
        } else {
            self.advance(id, context, outbox);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_confirm(
        &mut self,
        from: ReplicaId,
        id: OperationId,
        view: View,
        vote: Option<Vote>,
        finalized: bool,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if id.number == OperationId::INCONSISTENT {
            self.on_decision_confirm(from, id.transaction, view);
            return;
        }
        let rules = self.config.rules;
        let Some(preparing) =
            self.preparing(id.transaction).filter(|preparing| preparing.number == id.number)
        else {
            return;
        };
        let Some(part) = preparing.parts.iter_mut().find(|part| part.shard == from.shard) else { return };
        part.call.on_confirm(from.index, view, vote, finalized);
        send_higher_view(part, rules, outbox);
        self.advance(id.transaction, context, outbox);
    }

    /// Goes on as far as the replies allow.
    fn advance(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let (now, fast_path_timeout) = (context.now, self.config.fast_path_timeout);
        let span = self.config.retry_span;
        let latest = self.last_timestamp.micros.max(context.clock.as_micros());
        // The expectations of shards are asked of the whole coordinator while one transaction is changed.
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let Phase::Preparing(preparing) = &mut open.phase else { return };
        // One is always allowed. A client whose clock is so far behind that its timestamps lie below a floor would
        // otherwise hear of that in every attempt, and never get above it.
        let exhausted = preparing.retries >= self.config.retries_max.max(1);
        let (first, sent_at, slow_is_sooner) =
            (preparing.first, preparing.sent_at, preparing.proposal.slow_is_sooner);
        let (window, overruns) = (open.window, self.config.rules.has(Plant::ExpiryOverrun));
        let may_retry = |above: Timestamp| {
            let soonest = Timestamp { micros: above.micros.max(latest), ..above };
            !exhausted && is_within_span(first, above, latest, span) && (overruns || window.contains(soonest))
        };
        let mut wake = None;
        for at in 0..preparing.parts.len() {
            let number = preparing.number;
            let part = &mut preparing.parts[at];
            if part.settled.is_some() {
                continue;
            }
            match part.call.progress() {
                ConsensusProgress::Waiting | ConsensusProgress::Finalizing => {}
                ConsensusProgress::Final { verdict, fast, view } => {
                    part.settled = Some(match verdict {
                        Vote::Retry(above) if may_retry(above) => Settled::Retry(above),
                        vote => Settled::Final { vote, fast, view },
                    });
                }
                ConsensusProgress::Follow { verdict, view } => {
                    part.finalize(id, number, verdict, view, outbox)
                }
                ConsensusProgress::Quorum { view } => {
                    let (known, enough) = (part.call.verdicts().count(), part.group.majority());
                    assert!(known >= enough, "{known} votes on {id} are taken for the {enough} of a quorum");
                    let quorum_at = *part.quorum_at.get_or_insert(now);
                    let expected = |index| {
                        let replica = ReplicaId { shard: part.shard, index };
                        !self.unreachable.contains(&replica)
                            && !self.silent.contains(&replica)
                            && !part.behind.contains(&index)
                    };
                    let until = quorum_at + fast_path_patience(quorum_at - sent_at, fast_path_timeout);
                    let waited = now >= until;
                    let agrees = || part.call.supporters(&Vote::Ok).count() >= part.group.majority();
                    let is_enough = (slow_is_sooner && agrees()) || is_conclusive(&part.call, part.group);
                    if !waited && !is_enough && part.call.missing().any(expected) {
                        wake = Some(wake.map_or(until, |wake: Instant| wake.min(until)));
                        continue;
                    }
                    if waited {
                        let shard = part.shard;
                        self.silent.extend(part.call.missing().map(|index| ReplicaId { shard, index }));
                    }
                    match decide_vote(part.call.verdicts(), part.group.size()) {
                        Vote::Retry(above) if may_retry(above) => part.settled = Some(Settled::Retry(above)),
                        Vote::Retry(_) => part.finalize(id, number, Vote::Abort, view, outbox),
                        vote => part.finalize(id, number, vote, view, outbox),
                    }
                }
            }
        }
        let next = preparing.next();
        if let Some(at) = wake {
            self.transactions.wake_at(id, at);
        }
        match next {
            Next::Wait => {}
            Next::Retry(above) => self.retry(id, above, context, outbox),
            Next::Decide { commit, fast } => self.conclude(id, commit, fast, context, outbox),
        }
    }

    /// How far ahead a transaction is prepared again the first time: as the keyspace of its shards says, or else as the client does.
    fn retry_ahead_in(&self, shards: &[ShardId]) -> Duration {
        let timestamping = shards.first().and_then(|shard| self.timestamping(*shard));
        timestamping.map_or(self.config.retry_ahead, |timestamping| timestamping.retry_ahead)
    }

    /// Prepares again at a higher timestamp, without running the transaction again.
    fn retry(&mut self, id: TransactionId, above: Timestamp, context: &Context<'_>, outbox: &mut Out) {
        let Some(preparing) = self.preparing(id) else { return };
        let (retries, shards) = (preparing.retries, preparing.participants());
        let ahead = retry_ahead(retries, self.retry_ahead_in(&shards));
        let above = Timestamp { micros: above.micros.saturating_add(ahead.as_micros() as u64), ..above };
        let proposal = self.next_proposal(context.clock, above, shards.into_iter());
        let rules = self.config.rules;
        let window = self.transactions.get(&id).map(|open| open.window).unwrap_or_default();
        if !self.is_allowed(window, proposal.timestamp) {
            // It can only commit where it was prepared, if at all: what becomes of it there is found out.
            return self.on_superseded(id, None, context, outbox);
        }
        let Some(preparing) = self.preparing(id) else { return };
        assert!(
            proposal.timestamp > preparing.proposal.timestamp.max(above)
                || proposal.timestamp.micros == u64::MAX,
            "{id} was prepared at {} and is above {above}, at {}",
            preparing.proposal.timestamp,
            proposal.timestamp
        );
        preparing.proposal = proposal;
        preparing.number += 1;
        preparing.retries += 1;
        preparing.sent_at = context.now;
        for part in &mut preparing.parts {
            part.settled = None;
            part.quorum_at = None;
            part.behind.clear();
            part.found.clear();
            if !rules.has(Plant::OlderPrepareDisplaces) {
                part.call = ConsensusCall::new(part.group).with_mistake(rules.mistake());
            }
        }
        self.send_prepare(id, context, outbox);
    }

    /// The outcome is decided: the client hears it, and then the replicas.
    fn conclude(
        &mut self,
        id: TransactionId,
        commit: bool,
        fast: bool,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let Phase::Preparing(preparing) = &open.phase else { return };
        let (timestamp, retries, mut shares) =
            (preparing.proposal.timestamp, preparing.retries, preparing.shares());
        assert!(
            !commit || preparing.parts.iter().all(Part::is_agreed),
            "{id} commits at {timestamp}, and its shards say {:?}",
            preparing.parts.iter().map(|part| part.settled).collect::<Vec<_>>()
        );
        assert!(
            timestamp >= preparing.first,
            "{id} ends at {timestamp}, and was proposed at {} first",
            preparing.first
        );
        let prepare = OperationId { transaction: id, number: preparing.number };
        let outcome = if commit { Outcome::Committed(timestamp) } else { Outcome::Aborted };
        let mut result = if commit {
            Ok(Committed { fast, retries, ..Committed::at(timestamp) })
        } else {
            Err(Failure::Conflict)
        };
        if commit && preparing.reads_when_prepared() {
            match preparing.newest_found() {
                Some(found) => tell_reads(open, id, found, &mut shares, outbox),
                // The holds were all there, but what was found under them did not arrive. To the replicas it commits.
                None => result = Err(Failure::Conflict),
            }
        }
        let participants = shares.iter().map(|share| share.shard).collect();
        self.answer(id, participants, result, context, outbox);
        self.start_telling(prepare, outcome, timestamp, shares, context, outbox);
    }

    /// Others vote from now on where nothing is final yet.
    pub(super) fn prepare_elsewhere(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        let (groups, mistake) = (&self.groups, self.config.rules.mistake());
        let Some(Phase::Preparing(preparing)) = self.transactions.get_mut(&id).map(|open| &mut open.phase)
        else {
            return;
        };
        for part in preparing.parts.iter_mut().filter(|part| !part.is_final()) {
            let group = groups[&part.shard].members;
            if part.group != group {
                part.group = group;
                part.call = ConsensusCall::new(group).with_mistake(mistake);
                part.quorum_at = None;
                part.found.clear();
                part.behind.clear();
            }
        }
        preparing.sent_at = now;
        preparing.repeat(id, outbox);
    }

    /// Repeats what has had no answer. A shard that waits for a fast quorum has said when to look again.
    pub(super) fn attend_preparing(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        self.advance(id, context, outbox);
        let deadline = self.transactions.get(&id)?.deadline;
        let abandon_at = deadline + self.config.abandon_after;
        let resend_timeout = self.config.resend_timeout;
        // The decision may have been made just now.
        if self.preparing(id).is_none() {
            return Some(context.now + resend_timeout);
        }
        let preparing = self.preparing(id)?;
        if context.now - preparing.sent_at >= preparing.resend_after {
            preparing.sent_at = context.now;
            preparing.resend_after = (preparing.resend_after * 2).min(resend_timeout * 8);
            preparing.repeat(id, outbox);
        }
        let next = preparing.sent_at + preparing.resend_after;
        let limit = if context.now < deadline { deadline } else { abandon_at };
        Some(next.min(limit))
    }
}

/// Tells the client what a transaction found when it was prepared, and puts it into what the replicas are told.
fn tell_reads(
    open: &Open,
    id: TransactionId,
    found: Vec<Vec<FoundVersion>>,
    shares: &mut [Share],
    outbox: &mut Out,
) {
    for (share, found) in shares.iter_mut().zip(found) {
        let blank = std::mem::take(&mut share.transaction);
        let mut reads = Vec::with_capacity(found.len());
        for (read, FoundVersion { version, value, .. }) in blank.reads.iter().zip(found) {
            reads.push(ReadVersion { key: read.key.clone(), version, deleted: false });
            if !open.wants.answered {
                outbox.emit(Event::Got { transaction: id, key: read.key.clone(), value });
            }
        }
        let participants = blank.participants.clone();
        share.transaction = Arc::new(Transaction { reads, participants, ..Transaction::default() });
        // The replicas have it with blank versions, and would learn nothing from a short COMMIT.
        share.prepared.clear();
    }
}

impl Preparing {
    pub(super) fn reads_when_prepared(&self) -> bool {
        self.parts.iter().any(|part| part.transaction.reads_when_prepared)
    }

    /// For each shard, the newest version of each key that f + 1 of those found that hold it; none if so many of some
    /// shard have not told.
    fn newest_found(&self) -> Option<Vec<Vec<FoundVersion>>> {
        self.parts.iter().map(Part::newest_found).collect()
    }

    /// Sends again what has had no answer.
    fn repeat(&self, id: TransactionId, outbox: &mut Out) {
        for part in self.parts.iter().filter(|part| !part.is_final()) {
            for index in part.call.missing() {
                outbox.send(ReplicaId { shard: part.shard, index }, self.prepare_message(id, part));
            }
            if let Some((vote, view, unconfirmed)) = part.call.unconfirmed() {
                for index in unconfirmed {
                    let replica = ReplicaId { shard: part.shard, index };
                    outbox.send(replica, finalize_message(id, self.number, *vote, view));
                }
            }
        }
    }

    fn prepare_message(&self, id: TransactionId, part: &Part) -> Message {
        Message::Ir(Ir::ProposeConsensus {
            id: OperationId { transaction: id, number: self.number },
            operation: Prepare {
                transaction: part.transaction.clone(),
                timestamp: self.proposal.timestamp,
                first: (self.number > 1).then_some(self.first),
            },
        })
    }

    fn next(&self) -> Next {
        let settled = || self.parts.iter().filter_map(|part| part.settled);
        let against = |settled: Settled| matches!(settled, Settled::Final { vote, .. } if vote != Vote::Ok);
        if settled().any(against) {
            return Next::Decide { commit: false, fast: false };
        }
        let retry = settled().filter_map(|settled| match settled {
            Settled::Retry(timestamp) => Some(timestamp),
            Settled::Final { .. } => None,
        });
        if let Some(above) = retry.max() {
            return Next::Retry(above);
        }
        if settled().count() < self.parts.len() {
            return Next::Wait;
        }
        let fast = settled().all(|settled| matches!(settled, Settled::Final { fast: true, .. }));
        Next::Decide { commit: true, fast }
    }
}

impl Part {
    /// True if the vote of the shard is final.
    fn is_final(&self) -> bool {
        matches!(self.settled, Some(Settled::Final { .. }))
    }

    /// True if the vote of the shard is final, and for the transaction.
    fn is_agreed(&self) -> bool {
        matches!(self.settled, Some(Settled::Final { vote: Vote::Ok, .. }))
    }

    fn newest_found(&self) -> Option<Vec<FoundVersion>> {
        let Some(Settled::Final { view: settled_in, .. }) = self.settled else { return None };
        let mut told = self.found.values().filter(|(view, _)| *view == settled_in).map(|(_, found)| found);
        if told.clone().count() < self.group.majority() {
            return None;
        }
        let mut newest = told.next()?.clone();
        for found in told {
            for (newest, found) in newest.iter_mut().zip(found) {
                if found.supersedes(newest) {
                    *newest = found.clone();
                }
            }
        }
        Some(newest)
    }

    /// Takes the slow path: makes this vote final at f + 1 replicas.
    fn finalize(&mut self, id: TransactionId, number: u32, vote: Vote, view: View, outbox: &mut Out) {
        assert!(
            self.settled.is_none(),
            "{id}#{number} is final as {:?}, and made so as {vote:?}",
            self.settled
        );
        self.call.start_finalizing(vote, view);
        for replica in replicas(self.shard, self.group) {
            outbox.send(replica, finalize_message(id, number, vote, view));
        }
    }
}

fn finalize_message(transaction: TransactionId, number: u32, verdict: Vote, view: View) -> Message {
    let id = OperationId { transaction, number };
    Message::Ir(Ir::FinalizeConsensus { id, verdict, view, ballot: Ballot::ORIGINAL })
}

/// Tells replicas that answered in a lower view than others where the group is (T22).
fn send_higher_view(part: &Part, rules: Rules, outbox: &mut Out) {
    if rules.has(Plant::LaggardsUntold) {
        return;
    }
    if let Some(view) = part.call.view() {
        for index in part.call.lagging() {
            outbox.send(ReplicaId { shard: part.shard, index }, Message::Ir(Ir::HigherView { view }));
        }
    }
}

/// The fault of a client's clock that seems to be ahead; nothing, if the timestamp was driven so many microseconds above
/// that clock by what others have read and written.
fn unless_pushed(invalid: Invalid, by_micros: u64) -> Option<Invalid> {
    match invalid {
        Invalid::ClockAhead { ahead_micros, ahead_max_micros }
            if ahead_micros.saturating_sub(by_micros) <= ahead_max_micros =>
        {
            None
        }
        invalid => Some(invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decide_as_a_table() {
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let three = GroupSize::new(3).unwrap();
        let five = GroupSize::new(5).unwrap();
        let (ok, abstain, abort, retry) =
            (Vote::Ok, Vote::Abstain, Vote::Abort, |micros| Vote::Retry(at(micros)));
        let table = [
            (three, vec![ok, ok, abstain], ok),
            (three, vec![ok, ok, retry(9)], ok),
            (three, vec![ok, ok, abort], abort),
            (three, vec![ok, abstain], abort),
            (three, vec![ok, abstain, abstain], abort),
            (three, vec![ok, retry(9)], retry(9)),
            (three, vec![retry(9), retry(12)], retry(12)),
            (three, vec![ok, abstain, retry(9)], retry(9)),
            (three, vec![abstain, abstain, retry(9)], abort),
            (three, vec![abstain, retry(9)], retry(9)),
            (three, vec![retry(9), ok, abort], abort),
            (five, vec![abstain, abstain, retry(9), retry(7)], retry(9)),
            (five, vec![abstain, abstain, abstain, retry(9), retry(7)], abort),
            (five, vec![ok, ok, abstain], abort),
            (five, vec![ok, ok, ok, abstain, retry(9)], ok),
            (five, vec![ok, ok, abstain, abstain, abstain], abort),
        ];
        for (group, votes, expected) in table {
            assert_eq!(decide_vote(votes.iter(), group), expected, "{votes:?}");
        }
    }

    #[test]
    fn who_can_learn_nothing_more_does_not_wait() {
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let (ok, abstain, abort, retry) =
            (Vote::Ok, Vote::Abstain, Vote::Abort, |micros| Vote::Retry(at(micros)));
        let table = [
            (3, vec![ok, ok], false, "the third may make it fast"),
            (3, vec![ok, abstain], false, "the third may agree"),
            (3, vec![ok, retry(9)], false, "the third may agree"),
            (3, vec![abstain, abstain], false, "the third may make it fast"),
            (3, vec![retry(9), abstain], true, "no two can agree"),
            (3, vec![retry(9), retry(12)], true, "no two can agree"),
            (3, vec![abort, abort], false, "the third may make it fast"),
            (3, vec![abort, ok], true, "nothing turns it"),
            (3, vec![ok, ok, abstain], true, "all have voted"),
            (5, vec![ok, ok, ok, abstain], false, "the fifth may make it fast"),
            (5, vec![ok, ok, abstain, abstain], false, "the fifth may agree"),
            (5, vec![ok, abstain, abstain, retry(9)], true, "no three can agree"),
            (5, vec![ok, ok, ok, abstain, abstain], true, "all have voted"),
            (
                9,
                vec![ok, ok, ok, ok, ok, abstain, abstain, abstain],
                true,
                "enough agree, and no fast quorum can",
            ),
        ];
        for (replicas, votes, expected, why) in table {
            let group = Members::from(GroupSize::new(replicas).unwrap());
            let mut call = ConsensusCall::new(group);
            for (index, vote) in votes.iter().enumerate() {
                call.on_reply(group.at(index), View::default(), *vote, false);
            }
            assert_eq!(is_conclusive(&call, group), expected, "{votes:?} of {replicas}: {why}");
        }
    }

    /// A replica of another view may have lost what it had found when its vote was made final.
    #[test]
    fn what_was_found_in_another_view_than_that_of_the_verdict_does_not_count() {
        let group = Members::from(GroupSize::new(3).unwrap());
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let version = |micros| FoundVersion { version: at(micros), value: None, absent_below: None };
        let newest = |found: [(u64, u64); 2]| {
            let found = found.into_iter().zip(0..).map(|((view, micros), replica)| {
                (ReplicaIndex(replica), (View(view), vec![version(micros)]))
            });
            let part = Part {
                shard: ShardId(1),
                group,
                transaction: Arc::default(),
                call: ConsensusCall::new(group),
                found: found.collect(),
                quorum_at: None,
                behind: Vec::new(),
                settled: Some(Settled::Final { vote: Vote::Ok, fast: true, view: View(3) }),
            };
            part.newest_found().map(|found| found[0].version.micros)
        };
        assert_eq!(newest([(3, 10), (3, 20)]), Some(20));
        assert_eq!(newest([(3, 10), (4, 20)]), None);
        assert_eq!(newest([(3, 10), (2, 20)]), None);
    }

    #[test]
    fn a_fast_quorum_is_waited_for_in_proportion_to_the_majority() {
        let millis = Duration::from_millis;
        for (took, patience) in [(0, 5), (2, 5), (100, 200), (300, 500)] {
            assert_eq!(fast_path_patience(millis(took), millis(500)), millis(patience), "{took} ms");
        }
        assert_eq!(fast_path_patience(millis(1), millis(3)), millis(3));
    }

    #[test]
    fn nothing_is_prepared_again_where_no_replica_votes_on_it_any_more() {
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let table = [
            (at(150), 120, true),
            (at(199), 120, true),
            (at(200), 120, false),
            (at(u64::MAX), 120, false),
            // The client's clock has run away in between.
            (at(150), 199, true),
            (at(150), 200, false),
        ];
        for (above, latest, expected) in table {
            let within = is_within_span(at(100), above, latest, Duration::from_micros(100));
            assert_eq!(within, expected, "above {above}, at {latest}");
        }
        assert!(is_within_span(at(u64::MAX - 1), at(u64::MAX - 1), 0, Duration::from_micros(100)));
    }

    #[test]
    fn a_bound_far_ahead_needs_a_replica_that_is_right() {
        let at = |micros| Timestamp { micros, ..Timestamp::ZERO };
        let vouched =
            |votes: &[Vote], failures| vouched_bound(votes.iter(), failures).map(|above| above.micros);
        let retry = |micros| Vote::Retry(at(micros));
        assert_eq!(vouched(&[retry(900), Vote::Ok, Vote::Ok], 1), None);
        assert_eq!(vouched(&[retry(900), Vote::Ok, retry(50)], 1), Some(50));
        assert_eq!(vouched(&[retry(900), retry(800), Vote::Ok], 2), None);
        assert_eq!(vouched(&[retry(900), retry(60), retry(800), Vote::Abstain, retry(50)], 2), Some(60));
        let clock = ClockTime::from_micros(7_000_000);
        assert!(is_near(at(37_000_000), clock) && !is_near(at(37_000_001), clock));
    }

    #[test]
    fn retries_go_twice_as_far_each_time_and_not_beyond_what_replicas_vote_on() {
        let ahead = |retries| retry_ahead(retries, Duration::from_millis(3)).as_millis();
        assert_eq!([ahead(0), ahead(1), ahead(2), ahead(5)], [3, 6, 12, 96]);
        for retries in [20, 31, 32, 1_000] {
            assert_eq!(retry_ahead(retries, Duration::from_millis(3)), RETRY_AHEAD_MAX, "{retries}");
            assert_eq!(retry_ahead(retries, Duration::ZERO), Duration::ZERO);
        }
    }

    #[test]
    fn a_clock_is_ahead_if_it_was_not_pushed_there() {
        let ahead = |ahead_micros| Invalid::ClockAhead { ahead_micros, ahead_max_micros: 60 };
        for (ahead_micros, by_micros, is_ahead) in
            [(61, 0, true), (70, 9, true), (70, 10, false), (70, 11, false), (60, 0, false), (70, 100, false)]
        {
            let told = unless_pushed(ahead(ahead_micros), by_micros);
            assert_eq!(told, is_ahead.then(|| ahead(ahead_micros)), "{ahead_micros}, by {by_micros}");
        }
    }
}
