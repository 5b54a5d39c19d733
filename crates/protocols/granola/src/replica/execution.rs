//! The leader executes in the order of timestamps, as soon as it is certain what is next, and so ahead of its log.
//!
//! Nothing is executed or read above the *ceiling* that is stable: the next leader begins above it, so nothing that this one has
//! answered can get something before it. That needs no clocks that agree.

use quorate_core::log::Log;
use quorate_core::{Address, ClockTime, Context, TransactionId};

use super::{Out, Replica, ReplicaTimer};
use crate::application::{Answer, Application, Read};
use crate::entry::{Body, Ending, Entry, Final, Outcome};
use crate::message::{Message, Reply};
use crate::place::Place;
use crate::rules::Plant;

impl<A: Application> Replica<A> {
    /// Executes what can be executed.
    pub(super) fn execute(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        while self.execute_next(outbox) {}
        while self.read_next(context, log, outbox) {}
        self.raise_ceiling(log);
        if let Some(leader) = &mut self.leader
            && !leader.finals.is_empty()
            && !leader.finals_due
        {
            leader.finals_due = true;
            outbox.set_timer(ReplicaTimer::Finals, self.config.finals_delay);
        }
    }

    /// Executes the head of the queue; false if that is not certain, or not allowed yet.
    fn execute_next(&mut self, outbox: &mut Out<A>) -> bool {
        let Some(leader) = &mut self.leader else { return false };
        let Some(place) = leader.queue.first().copied() else { return false };
        let id = place.transaction;
        let is_ready = leader.open.get(&id).is_some_and(|open| open.is_stable && open.timestamp.is_some());
        if !is_ready || place.timestamp > self.state.ceiling {
            return false;
        }
        let Some(open) = leader.close(id) else { return false };
        let answer = self.state.application.run(place, &open.operation).expect("nothing is locked");
        leader.executed = leader.executed.max(place.timestamp);
        leader.ahead.insert(id, (place.timestamp, answer.clone()));
        if open.participants.len() > 1 {
            leader.finals.push(Final { transaction: id, ending: Ending::Commit(place.timestamp) });
        }
        outbox.send(Address::Client(id.client), committed(id, place.timestamp, answer));
        true
    }

    /// Answers the read that stands first; false if something before it may still change what it sees.
    fn read_next(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out<A>) -> bool {
        let Some(leader) = &mut self.leader else { return false };
        let Some(((timestamp, id), _)) = leader.reads.first_key_value() else { return false };
        let (timestamp, id) = (*timestamp, *id);
        let is_first = leader.queue.first().is_none_or(|head| head.timestamp > timestamp);
        if !is_first || timestamp > self.state.ceiling {
            return false;
        }
        let Some((_, operation)) = leader.reads.pop_first() else { return false };
        if !self.config.rules.has(Plant::ReadsRaiseNothing) {
            leader.executed = leader.executed.max(timestamp);
        }
        let Read { answer, .. } = self.state.application.read(Place::after(timestamp), &operation);
        let (to, message) = (Address::Client(id.client), committed(id, timestamp, answer));
        if log.lease_until().is_some_and(|until| context.now < until) {
            outbox.send(to, message);
        } else if let Some(confirmation) = log.confirm() {
            leader.unconfirmed.push_back((confirmation, to, message));
        }
        true
    }

    /// Makes room to execute and read what stands first, if there is none.
    fn raise_ceiling(&mut self, log: &mut impl Log<Entry>) {
        let Some(leader) = &self.leader else { return };
        let dated = |place: &&Place| {
            leader.open.get(&place.transaction).is_some_and(|open| open.is_stable && open.timestamp.is_some())
        };
        let next = leader.queue.first().filter(dated).map(|place| place.timestamp);
        let read = leader.reads.keys().next().map(|(timestamp, _)| *timestamp);
        let wanted = next.into_iter().chain(read).max().unwrap_or_default();
        if wanted > leader.ceiling {
            self.append(Body::Nothing, wanted, log);
        }
    }

    /// Executes what the log says, and lets go of what nobody asks for any more.
    pub(super) fn follow_log(&mut self) {
        match &mut self.leader {
            Some(leader) => {
                let ahead = &mut leader.ahead;
                self.state.execute(|id| ahead.remove(&id).map(|(_, answer)| answer));
            }
            None => self.state.execute(|_| None),
        }
        let reads = self.leader.as_ref().and_then(|leader| leader.reads_from());
        let horizon = self.state.horizon().into_iter().chain(reads).min();
        self.state.application.settle(horizon);
    }

    /// Nothing was appended for a while that the timestamps could have ridden along with.
    pub(super) fn on_finals_timeout(&mut self, log: &mut impl Log<Entry>) {
        let Some(leader) = &mut self.leader else { return };
        leader.finals_due = false;
        if !leader.finals.is_empty() {
            self.append(Body::Nothing, ClockTime::default(), log);
        }
    }

    /// It is known that this replica led when it made these answers.
    pub(super) fn send_confirmed(&mut self, log: &impl Log<Entry>, outbox: &mut Out<A>) {
        let Some(leader) = &mut self.leader else { return };
        while let Some((confirmation, _, _)) = leader.unconfirmed.front()
            && log.has_confirmed(*confirmation)
            && let Some((_, to, message)) = leader.unconfirmed.pop_front()
        {
            outbox.send(to, message);
        }
    }

    /// A client is told how its transaction has ended, as the log says.
    pub(super) fn reply_ended(&self, id: TransactionId, outbox: &mut Out<A>) {
        let Some(ended) = self.state.ended(id) else { return };
        let reply = Reply::Ended(ended.outcome.clone());
        outbox.send(Address::Client(id.client), Message::Reply { transaction: id, reply });
    }
}

fn committed(id: TransactionId, timestamp: ClockTime, answer: Answer) -> Message {
    Message::Reply { transaction: id, reply: Reply::Ended(Outcome::Committed { timestamp, answer }) }
}
