//! Requests: what a client asks for gets a timestamp, or waits to read.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::log::Log;
use quorate_core::transaction::TRANSACTION_BYTES_MAX;
use quorate_core::{Address, ClockTime, Context, ShardId, TransactionId};

use super::leader::Open;
use super::{Out, Replica};
use crate::application::Application;
use crate::class::Class;
use crate::entry::{Body, Entry, Outcome, Vote, Voted};
use crate::message::{Message, Reply, Request};
use crate::place::Place;
use crate::rules::Plant;

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
        let is_well_formed = self.config.are_participants(&request.participants)
            && request.operation.len() <= TRANSACTION_BYTES_MAX;
        if from != Address::Client(id.client) || !is_well_formed {
            return;
        }
        if self.leader.is_none() {
            return outbox.send(from, Message::NotLeading { transaction: id, leader: log.leader() });
        }
        match self.known(id, request.first, context.clock) {
            Known::Under => {}
            Known::Ended(reply) => outbox.send(from, Message::Reply { transaction: id, reply }),
            Known::New if self.is_ahead(&request, context.clock) => {
                let reply = Reply::ClockAhead { clock: context.clock };
                outbox.send(from, Message::Reply { transaction: id, reply });
            }
            Known::New if request.class == Class::ReadOnly && request.participants.len() == 1 => {
                let Some(leader) = &mut self.leader else { return };
                // Below what is proposed, which is above everything that was executed: so it waits for nobody, unless its client
                // has seen more than was executed here.
                leader.reads.insert((request.high.max(leader.executed), id), request.operation);
            }
            // Others may forget it once the floor is stable. That it is too old is not durable before, and a refusal will be.
            Known::New if self.is_below_next_floor(request.first) => {
                let Request { class, participants, first, .. } = request;
                self.refuse(Refused { id, class, participants, first, vote: Vote::Conflict }, log, outbox);
            }
            Known::New => self.accept(request, context, log, outbox),
        }
    }

    /// True if a request comes too late for a floor that is on its way.
    fn is_below_next_floor(&self, first: ClockTime) -> bool {
        let next = self.leader.as_ref().and_then(|leader| leader.next_floor);
        next.is_some_and(|floor| first < floor)
    }

    /// What this shard knows of a transaction.
    fn known(&self, id: TransactionId, first: ClockTime, clock: ClockTime) -> Known {
        let Some(leader) = &self.leader else { return Known::Under };
        if let Some(ended) = self.state.ended(id) {
            return Known::Ended(Reply::Ended(ended.outcome.clone()));
        }
        if let Some((timestamp, answer)) = leader.ahead.get(&id) {
            let outcome = Outcome::Committed { timestamp: *timestamp, answer: answer.clone() };
            return Known::Ended(Reply::Ended(outcome));
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

    /// True if a request would lift the timestamps of the whole shard, or would be remembered, for longer than is allowed.
    fn is_ahead(&self, request: &Request, clock: ClockTime) -> bool {
        let executed = self.leader.as_ref().map_or(clock, |leader| leader.executed);
        let ahead_max = clock.saturating_add(self.config.timestamp_ahead_max);
        request.first > ahead_max || request.high > ahead_max.max(executed)
    }

    /// Proposes a timestamp for a transaction.
    fn accept(
        &mut self,
        request: Request,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let Request { transaction: id, class, participants, operation, high, first } = request;
        let Some(leader) = &mut self.leader else { return };
        let mut votes = BTreeMap::new();
        if let Some(stranger) = leader.strangers.remove(&id) {
            if stranger.votes.values().any(|(vote, _)| *vote != Vote::Commit) {
                let vote = Vote::Conflict;
                return self.refuse(Refused { id, class, participants, first, vote }, log, outbox);
            }
            votes = stranger.votes.into_iter().map(|(shard, (_, proposed))| (shard, proposed)).collect();
        }
        let proposed = self.propose(high, context.clock);
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
                return;
            }
        }
        let is_alone = participants.len() == 1;
        let Some(leader) = &mut self.leader else { return };
        leader.proposed = proposed;
        if reads_only {
            leader.undated.insert((proposed, id));
        } else {
            leader.note_neighbours(&participants);
            if !self.config.rules.has(Plant::QueuedOnceStable) {
                leader.queue.insert(Place { timestamp: proposed, transaction: id });
            }
        }
        let open = Open {
            participants,
            operation,
            first,
            class,
            proposed,
            is_stable: reads_only,
            votes,
            timestamp: is_alone.then_some(proposed),
            asked: context.now,
            asks: 0,
        };
        leader.open.insert(id, open);
        if reads_only {
            self.send_votes(id, outbox);
            self.count_votes(id);
        }
    }

    /// Above everything that the client has seen, that was executed or read here, and that was proposed here before.
    fn propose(&self, high: ClockTime, clock: ClockTime) -> ClockTime {
        let Some(leader) = &self.leader else { return clock };
        let before = match self.config.rules.has(Plant::ProposalsDescend) {
            true => leader.executed,
            false => leader.executed.max(leader.proposed),
        };
        ClockTime::from_micros(before.max(high).max(clock).as_micros().saturating_add(1))
    }

    /// Votes against a transaction: it is executed nowhere.
    pub(super) fn refuse(&mut self, refused: Refused, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        let Refused { id, class, participants, first, vote } = refused;
        let Some(leader) = &mut self.leader else { return };
        let proposed = leader.proposed;
        if class != Class::ReadOnly {
            leader.note_neighbours(&participants);
        }
        let voted = Voted { transaction: id, class, participants, operation: None, vote, proposed, first };
        if class == Class::ReadOnly {
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

/// A transaction that this shard votes against.
pub(super) struct Refused {
    pub(super) id: TransactionId,
    pub(super) class: Class,
    pub(super) participants: Vec<ShardId>,
    pub(super) first: ClockTime,
    pub(super) vote: Vote,
}

/// What a shard knows of a transaction that it is asked to execute.
enum Known {
    /// Nothing, and it may still be accepted.
    New,
    /// It will be answered.
    Under,
    /// This.
    Ended(Reply),
}
