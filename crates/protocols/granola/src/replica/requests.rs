//! Requests: a transaction that a client asks for gets a timestamp, or waits to read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::log::Log;
use quorate_core::transaction::TRANSACTION_BYTES_MAX;
use quorate_core::{Address, ClockTime, Context, Instant, ReplicaId, ShardId, TransactionId};

use super::execution::Sight;
use super::leader::{Hold, Open};
use super::reads::Reading;
use super::votes::not_executed;
use super::{Out, Replica};
use crate::application::{Answer, Application, Prepared};
use crate::entry::{Body, Entry, Outcome, Vote, Voted};
use crate::message::{Message, Reply, Request};
use crate::place::Place;
use crate::reasons;
use crate::rules::Plant;
use quorate_core::command::Class;

impl<A: Application> Replica<A> {
    pub(super) fn on_request(
        &mut self,
        from: Address,
        request: Request,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let id = request.transaction;
        if let Err(reason) = self.validate_request(from, &request) {
            return outbox.ignored(reason);
        }
        if self.leader.is_none() {
            return outbox.send(from, Message::NotLeading { transaction: id, leader: log.leader() });
        }
        if let (Address::Replica(hub), Some(leader)) = (from, &mut self.leader) {
            leader.leaders.insert(hub.shard, hub.index);
        }
        match self.known(id, request.first, context.clock) {
            Known::Under => {
                if !self.tell_hub(id, outbox) {
                    outbox.ignored(reasons::UNDER_WAY);
                }
            }
            Known::Ended(reply) => outbox.send(from, Message::Reply { transaction: id, reply }),
            Known::New if self.is_ahead(&request, context.clock) => {
                self.ask_elsewhere(context.now, outbox);
                let reply = Reply::ClockAhead { clock: context.clock };
                outbox.send(from, Message::Reply { transaction: id, reply });
            }
            Known::New if let Some(shard) = self.lost_participant(&request.participants) => {
                let reply = Reply::Lost { shard };
                outbox.send(from, Message::Reply { transaction: id, reply });
            }
            Known::New if self.is_to_wait(id) => {
                if let Some(leader) = &mut self.leader {
                    leader.strangers.remove(&id);
                }
                self.refuse(Refused::of(request, Vote::Conflict), log, outbox);
            }
            Known::New if request.class == Class::ReadOnly && request.participants.len() == 1 => {
                self.accept_read(request, context, log, outbox);
            }
            // Others may forget it once the floor is stable. That it is too old is not durable before, and a refusal will be.
            Known::New if self.is_below_next_floor(request.first) => {
                self.refuse(Refused::of(request, Vote::Conflict), log, outbox);
            }
            Known::New => self.accept(request, context, log, outbox),
        }
    }

    /// An error, and why, if nobody should send such a request.
    fn validate_request(&self, from: Address, request: &Request) -> Result<(), &'static str> {
        match () {
            () if !self.may_ask(from, request) => Err(reasons::FOREIGN),
            () if !self.config.are_participants(&request.participants) => Err(reasons::PARTICIPANTS),
            () if request.operation.len() > TRANSACTION_BYTES_MAX => Err(reasons::TOO_LARGE),
            () => Ok(()),
        }
    }

    /// True if a request comes from its client, or from the group that coordinates for it.
    fn may_ask(&self, from: Address, request: &Request) -> bool {
        match from {
            Address::Client(client) => client == request.transaction.client,
            Address::Replica(replica) => {
                Some(replica.shard) == self.config.hub && request.participants.len() > 1
            }
        }
    }

    /// True if another request of this client has to wait until what its last ones have cost is paid off.
    fn is_to_wait(&self, id: TransactionId) -> bool {
        let owed_max = self.config.own_work_per_second();
        self.leader.as_ref().is_some_and(|leader| leader.is_to_wait(id.client, owed_max))
    }

    /// True if a request comes too late for a floor that is on its way.
    fn is_below_next_floor(&self, first: ClockTime) -> bool {
        let next = self.leader.as_ref().and_then(|leader| leader.next_floor);
        next.is_some_and(|floor| first < floor)
    }

    /// The state of a transaction, as far as this shard knows.
    pub(super) fn known(&self, id: TransactionId, first: ClockTime, clock: ClockTime) -> Known {
        let Some(leader) = &self.leader else { return Known::Under };
        if let Some(ended) = self.state.ended(id) {
            return Known::Ended(Reply::Ended(ended.outcome.clone()));
        }
        if leader.is_unlogged(id) || leader.reads.contains(id) {
            return Known::Under;
        }
        if let Some((timestamp, answer)) = leader.ahead.get(&id) {
            let outcome = Outcome::Committed { timestamp: *timestamp, answer: answer.clone() };
            return Known::Ended(Reply::Ended(outcome));
        }
        if let Some(ending) = leader.dropped.get(&id) {
            return Known::Ended(Reply::Ended(not_executed(ending)));
        }
        if leader.open.contains_key(&id) || leader.refusing.contains(&id) {
            return Known::Under;
        }
        // The floor may have risen with a clock that was ahead.
        let clock = clock.max(self.state.floor.saturating_add(self.config.floor_lag));
        if first < self.state.forgotten {
            return Known::Ended(Reply::Forgotten { clock });
        }
        let is_late = self.config.rules.has(Plant::LatestOnly)
            && self.state.all_ended().any(|(ended, _)| ended.client == id.client && ended > id);
        if first < self.state.floor || is_late {
            return Known::Ended(Reply::TooOld { clock });
        }
        Known::New
    }

    /// True if a request would lift the timestamps of the whole shard, or would be remembered, for longer than is allowed. The timestamp
    /// that its client says it has seen may be as far ahead as this shard or another one has come by itself.
    fn is_ahead(&self, request: &Request, clock: ClockTime) -> bool {
        let reached = self.leader.as_ref().map(|leader| leader.executed.max(leader.elsewhere));
        let ahead_max = clock.saturating_add(self.config.timestamp_ahead_max);
        let is_high = request.high > ahead_max.max(reached.unwrap_or_default());
        request.first > ahead_max || is_high && !self.config.rules.has(Plant::SeenAdopted)
    }

    /// Asks the other shards up to where they have executed: a client may have seen there what is too far ahead here, if a clock was once, and
    /// then it may go on where all of them are.
    fn ask_elsewhere(&mut self, now: Instant, outbox: &mut Out<A>) {
        let (own, shards) = (self.config.replica.shard, self.config.shards);
        let Some(leader) = &mut self.leader else { return };
        if now < leader.elsewhere_due {
            return;
        }
        leader.elsewhere_due = now + self.config.attention_interval;
        leader.floor_round += 1;
        for shard in shards.ids().filter(|shard| *shard != own) {
            let index = self.config.groups.members(shard).at(leader.floor_round);
            outbox.send(ReplicaId { shard, index }, Message::AskFloor);
        }
    }

    /// A shard that would take part and is lost for good.
    fn lost_participant(&self, participants: &[ShardId]) -> Option<ShardId> {
        participants.iter().copied().find(|shard| self.state.lost.contains(shard))
    }

    /// A read of one shard alone lies below what is proposed, which is above everything that was executed. So it waits for nobody,
    /// unless its client has seen more than was executed here.
    fn accept_read(
        &mut self,
        request: Request,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let Some(leader) = &self.leader else { return };
        let id = request.transaction;
        let timestamp = request.high.max(leader.executed_and_logged());
        let reading = Reading { operation: request.operation, high: Some(request.high), since: context.now };
        let before = self.state.application.work();
        let sight = self.read(timestamp, &reading);
        self.charge(id, before);
        let blocked_by = match sight {
            Sight::Answer(timestamp, answer) => {
                assert!(
                    timestamp >= request.high,
                    "{id} reads beneath what its client has seen (section 4.2)"
                );
                return self.answer_read(id, timestamp, answer, context, log, outbox);
            }
            Sight::Blocked(transaction) => Some(transaction),
            Sight::Later => None,
        };
        if let Some(leader) = &mut self.leader {
            leader.await_read(id, timestamp, reading, blocked_by);
        }
    }

    /// Proposes a timestamp for a transaction, or refuses it.
    fn accept(
        &mut self,
        request: Request,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let id = request.transaction;
        let Some(leader) = &mut self.leader else { return };
        let mut votes = BTreeMap::new();
        if let Some(stranger) = leader.strangers.remove(&id) {
            if stranger.votes.values().any(|(vote, _)| *vote != Vote::Commit) {
                return self.refuse(Refused::of(request, Vote::Conflict), log, outbox);
            }
            votes = stranger.votes.into_iter().map(|(shard, (_, proposed))| (shard, proposed)).collect();
        }
        if request.class != Class::ReadOnly {
            votes.keys().for_each(|shard| leader.delays.note(*shard, Duration::ZERO));
        }
        let is_alone = request.participants.len() == 1;
        let early = self.propose(&request, context.clock);
        if request.class == Class::Coordinated && !is_alone {
            self.enter_locking(outbox);
        }
        let is_locking = self.leader.as_ref().is_some_and(|leader| leader.is_locking);
        if request.class == Class::ReadOnly || !is_locking {
            let proposal = Proposal { request, proposed: early, votes, hold: Hold::Nothing, answer: None };
            return self.vote_for(proposal, context, log, outbox);
        }
        if is_alone {
            return self.run_at_once(request, context, log, outbox);
        }
        let before = self.state.application.work();
        let prepared = self.state.application.prepare(id, &request.operation);
        self.charge(id, before);
        let answer = match prepared {
            Prepared::Conflict => return self.refuse(Refused::of(request, Vote::Conflict), log, outbox),
            Prepared::Abort(reason) | Prepared::Late(reason) if request.class == Class::Coordinated => {
                self.state.application.abort(id);
                return self.refuse(Refused::of(request, Vote::Abort(reason)), log, outbox);
            }
            // A coordinating group wants the answer with the vote, and there is none before it has its place.
            Prepared::Late(reason) if self.config.hub.is_some() => {
                self.state.application.abort(id);
                return self.refuse(Refused::of(request, Vote::Abort(reason)), log, outbox);
            }
            Prepared::Late(reason) if self.config.rules.has(Plant::LateRefused) => {
                Some(Answer::Refused(reason))
            }
            Prepared::Late(_) => None,
            Prepared::Abort(reason) => Some(Answer::Refused(reason)),
            Prepared::Commit(answer) => Some(answer),
        };
        // Only now: what was executed to let it in lies below.
        let proposed = match self.config.rules.has(Plant::ProposedFirst) {
            true => early,
            false => self.propose(&request, context.clock),
        };
        let proposal = Proposal { request, proposed, votes, hold: Hold::Prepared, answer };
        self.vote_for(proposal, context, log, outbox);
    }

    /// While locks are held, what one shard alone takes part in is executed before it is logged: it needs no locks then. Nobody learns
    /// of it before it is stable.
    fn run_at_once(
        &mut self,
        request: Request,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let id = request.transaction;
        let proposed = self.propose(&request, context.clock);
        let place = Place { timestamp: proposed, transaction: id };
        let before = self.state.application.work();
        let answer = self.state.application.run(place, &request.operation);
        self.charge(id, before);
        let Some(answer) = answer else {
            return self.refuse(Refused::of(request, Vote::Conflict), log, outbox);
        };
        let voted = Voted {
            transaction: id,
            class: request.class,
            participants: request.participants,
            operation: Some(request.operation),
            vote: Vote::Commit,
            proposed,
            first: request.first,
        };
        if !self.append(Body::Voted(Arc::new(voted)), proposed, log) {
            // Nothing has run at this place or above: it was proposed just now.
            return self.state.application.rewind(place);
        }
        let Some(leader) = &mut self.leader else { return };
        (leader.proposed, leader.executed) = (proposed, leader.executed.max(proposed));
        assert!(leader.ahead.insert(id, (proposed, answer)).is_none(), "{id} is executed twice (I3)");
        assert!(leader.voted.insert(place) && leader.unlogged.insert(place), "{place} is voted for twice");
        if self.config.rules.has(Plant::ToldUnlogged) {
            leader.unlogged.remove(&place);
            self.reply_ahead(id, outbox);
        }
    }

    /// Votes for a transaction.
    fn vote_for(
        &mut self,
        proposal: Proposal,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let Proposal { request, proposed, votes, hold, answer } = proposal;
        let Request { transaction: id, class, participants, operation, first, .. } = request;
        let reads_only = class == Class::ReadOnly;
        if !reads_only {
            let voted = Voted {
                transaction: id,
                class,
                participants: participants.clone(),
                operation: Some(operation.clone()),
                vote: Vote::Commit,
                proposed,
                first,
            };
            if !self.append(Body::Voted(Arc::new(voted)), proposed, log) {
                if hold != Hold::Nothing {
                    self.state.application.abort(id);
                }
                return;
            }
        }
        let is_alone = participants.len() == 1;
        let open = Open {
            participants,
            operation,
            first,
            class,
            proposed,
            stable_since: reads_only.then_some(context.now),
            votes,
            timestamp: is_alone.then_some(proposed),
            asked: context.now,
            asks: 0,
            is_inherited: false,
            is_given_up: false,
            hold,
            answer,
            abandoned: BTreeSet::new(),
        };
        self.take_place(id, open);
        if reads_only {
            self.send_votes(id, outbox);
            self.count_votes(id);
        }
    }

    /// From now on a transaction stands in the way of what comes after it, stable or not (G18).
    fn take_place(&mut self, id: TransactionId, open: Open) {
        let is_sound = self.config.is_sound();
        let Some(leader) = &mut self.leader else { return };
        // Everything that this shard has executed and read stays as it was answered (section 4.4). To prepare something may let others go, so the
        // proposal comes after that (G3).
        let is_above = open.proposed > leader.executed || !is_sound;
        assert!(is_above, "{id} is proposed beneath what was executed");
        leader.proposed = leader.proposed.max(open.proposed);
        if open.class == Class::ReadOnly {
            assert!(leader.undated.insert((open.proposed, id)), "{id} is accepted twice");
        } else {
            leader.note_neighbours(&open.participants);
            leader.may_be_passed = open.participants.len() == 1;
            assert!(leader.voted.insert(open.place(id)), "{id} is voted for twice");
            if !self.config.rules.has(Plant::QueuedOnceStable) {
                assert!(leader.queue.insert(open.place(id)), "{id} is accepted twice");
            }
        }
        leader.begin(id, open);
    }

    /// Above everything that the client has seen, that was executed or read here, and that was proposed here before.
    ///
    /// By timestamps there is an exception. A transaction of this shard alone passes beneath those that lack votes: it only has to stand
    /// above what is certain. And one that writes and needs votes is proposed ahead of the clock for it, by as much as they are late, if
    /// there is anything that could pass.
    fn propose(&self, request: &Request, clock: ClockTime) -> ClockTime {
        let Some(leader) = &self.leader else { return clock };
        let delay_max = self.config.vote_delay_max;
        let is_alone = request.participants.len() == 1;
        let (before, late) = match leader.is_locking || delay_max.is_zero() {
            _ if self.config.rules.has(Plant::ProposalsDescend) => (ClockTime::default(), Duration::ZERO),
            true => (leader.proposed, Duration::ZERO),
            false if is_alone => (leader.certain(), Duration::ZERO),
            false if leader.may_be_passed && request.class != Class::ReadOnly => {
                (leader.proposed, leader.delays.longest(&request.participants))
            }
            false => (leader.proposed, Duration::ZERO),
        };
        let clock = clock.saturating_add(late.min(delay_max));
        let above = before.max(leader.executed).max(request.high).max(clock);
        let proposed = ClockTime::from_micros(above.as_micros().saturating_add(1));
        // Sections 4.2 and 4.4. No request is accepted that has seen the last timestamp there is.
        let is_above = proposed > leader.executed && proposed > request.high;
        assert!(is_above || !self.config.is_sound(), "no timestamp is left above {above:?}");
        proposed
    }

    /// Votes against a transaction: it is executed nowhere.
    pub(super) fn refuse(&mut self, refused: Refused, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        let Refused { id, class, participants, first, vote } = refused;
        assert!(vote != Vote::Commit, "{id} is voted for, and refused");
        let Some(leader) = &mut self.leader else { return };
        // Its participants would differ in what has become of it (I4).
        assert!(!leader.open.contains_key(&id), "{id} is accepted, and refused");
        assert!(!leader.ahead.contains_key(&id), "{id} is executed, and refused");
        let proposed = leader.proposed;
        if class != Class::ReadOnly {
            leader.note_neighbours(&participants);
        }
        let voted = Voted { transaction: id, class, participants, operation: None, vote, proposed, first };
        let is_told_at_once = class == Class::ReadOnly || self.config.rules.has(Plant::RefusalsNotLogged);
        if is_told_at_once {
            // If it is asked for later, and voted for, those that have heard this refuse it all the same.
            let reply = Reply::Ended(Outcome::Conflict);
            outbox.send(Address::Client(id.client), Message::Reply { transaction: id, reply });
            self.send_refusal(&voted, outbox);
        } else if self.append(Body::Voted(Arc::new(voted)), proposed, log)
            && let Some(leader) = &mut self.leader
        {
            leader.refusing.insert(id);
        }
    }
}

/// A transaction that this shard votes for.
struct Proposal {
    request: Request,
    proposed: ClockTime,
    /// The proposals that others have made already.
    votes: BTreeMap<ShardId, ClockTime>,
    /// Its locks.
    hold: Hold,
    /// Its answer; none, if it was not prepared, or its effect depends on its place.
    answer: Option<Answer>,
}

/// A transaction that this shard votes against.
pub(super) struct Refused {
    pub(super) id: TransactionId,
    pub(super) class: Class,
    pub(super) participants: Vec<ShardId>,
    pub(super) first: ClockTime,
    pub(super) vote: Vote,
}

impl Refused {
    fn of(request: Request, vote: Vote) -> Self {
        let Request { transaction: id, class, participants, first, .. } = request;
        Refused { id, class, participants, first, vote }
    }
}

/// The state of a transaction that a shard is asked to execute, as far as the shard knows.
pub(super) enum Known {
    /// Nothing, and it may still be accepted.
    New,
    /// It will be answered.
    Under,
    /// This.
    Ended(Reply),
}
