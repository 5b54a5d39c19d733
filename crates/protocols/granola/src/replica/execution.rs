//! The leader executes as soon as it is certain what is next, and so ahead of its log: in the order of timestamps, or whatever
//! holds its locks.
//!
//! Nothing is executed or read above the *ceiling* that is stable: the next leader begins above it, so nothing that this one has
//! answered can get something before it. That needs no clocks that agree.

use quorate_core::log::Log;
use quorate_core::{Address, ClockTime, Context, TransactionId};

use super::leader::{Hold, Open};
use super::reads::{Dated, Reading};
use super::{Out, Replica, ReplicaTimer};
use crate::application::{Answer, Application, Read};
use crate::config::Locking;
use crate::entry::{Body, Ending, Entry, Final, Outcome};
use crate::message::{Message, Reply};
use crate::place::Place;
use crate::rules::{Plant, Rules};

/// The result of a look at a read.
pub(super) enum Sight {
    /// This, as of this timestamp.
    Answer(ClockTime, Answer),
    /// Nothing, before this transaction has ended, which has locked what it reads.
    Blocked(TransactionId),
    /// Nothing yet: something may still come beneath its timestamp, or the ceiling is too low.
    Later,
}

impl<A: Application> Replica<A> {
    /// Executes what can be executed.
    pub(super) fn execute(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        while self.execute_next(outbox) || self.leave_locking() {}
        self.answer_reads(context, log, outbox);
        self.raise_ceiling(log);
        if let Some(leader) = &mut self.leader
            && !leader.finals.is_empty()
            && !leader.finals_due
        {
            leader.finals_due = true;
            outbox.set_timer(ReplicaTimer::Finals, self.config.finals_delay);
        }
    }

    /// Executes what is next; false if that is not certain, or not allowed yet.
    pub(super) fn execute_next(&mut self, outbox: &mut Out<A>) -> bool {
        let next = match &self.leader {
            Some(leader) if leader.is_locking => self.next_to_commit(),
            Some(_) if self.config.locking == Locking::NeverNorWait => self.next_of_any(),
            Some(_) => self.next_in_order(),
            None => None,
        };
        let Some(place) = next else { return false };
        let id = place.transaction;
        let Some(open) = self.leader.as_mut().and_then(|leader| leader.close(id)) else { return false };
        self.assert_may_execute(place, &open);
        let before = self.state.application.work();
        let answer = match open.hold {
            Hold::Nothing => self.state.application.run(place, &open.operation).expect("nothing is locked"),
            Hold::Prepared | Hold::Blocked => self.commit_held(place, open.answer),
        };
        self.charge(id, before);
        let Some(leader) = &mut self.leader else { return false };
        if self.config.rules.has(Plant::ExecutionsAscend) {
            assert!(place.timestamp >= leader.executed, "{place} comes after {:?}", leader.executed);
        }
        leader.executed = match self.config.rules.has(Plant::LatestExecuted) {
            true => place.timestamp,
            false => leader.executed.max(place.timestamp),
        };
        let before = leader.ahead.insert(id, (place.timestamp, answer.clone()));
        assert!(before.is_none(), "{id} is executed twice (I3)");
        let is_alone = open.participants.len() == 1;
        if !is_alone {
            leader.finals.push(Final { transaction: id, ending: Ending::Commit(place.timestamp) });
        }
        // A group that coordinates for several participants has told their client.
        if is_alone || self.config.hub.is_none() {
            outbox.send(Address::Client(id.client), committed(id, place.timestamp, answer));
        }
        self.look_after_blocked();
        true
    }

    /// An operation of a transaction was executed, and there had been so much work before.
    pub(super) fn charge(&mut self, id: TransactionId, before: u64) {
        let work = self.state.application.work().saturating_sub(before);
        if let Some(leader) = self.leader.as_mut().filter(|_| work > self.config.work_long) {
            leader.debts.charge(id.client, work);
        }
    }

    /// Commits what has locked what it touches.
    fn commit_held(&mut self, place: Place, foreseen: Option<Answer>) -> Answer {
        match foreseen {
            Some(refused @ Answer::Refused(_)) if self.config.rules.has(Plant::LateRefused) => {
                self.state.application.abort(place.transaction);
                refused
            }
            _ => self.state.application.commit(place),
        }
    }

    /// The serial order and the next leader rely on this when the leader executes ahead of the log.
    fn assert_may_execute(&self, place: Place, open: &Open) {
        assert!(open.timestamp == Some(place.timestamp), "{place} is executed before all have voted for it");
        assert!(open.is_stable(), "{place} is executed, and the vote of this shard may still be lost");
        assert!(!open.is_given_up, "{place} is executed, and its client may have heard of a conflict");
        // The next leader begins above the ceiling that is stable (section 5.2).
        assert!(place.timestamp <= self.state.ceiling, "{place} is executed above {:?}", self.state.ceiling);
        let has_ended = self.state.ended(place.transaction).is_some() && self.config.is_sound();
        assert!(!has_ended, "{place} is executed, and has ended otherwise (I4)");
        assert!(
            open.hold != Hold::Blocked,
            "{place} is executed before what it conflicts with (section 5.4)"
        );
        let Some(leader) = &self.leader else { return };
        if !leader.is_locking {
            // Section 4.4: by timestamps nothing that stands before is passed over. It holds no locks, as that is for locking mode.
            let is_first = leader.queue.first().is_none_or(|next| *next > place);
            assert!(is_first || self.config.locking == Locking::NeverNorWait, "{place} passes over another");
            assert!(open.hold == Hold::Nothing, "{place} holds locks while everything goes by timestamps");
        }
    }

    /// The head of the queue, if it is certain that it is.
    fn next_in_order(&self) -> Option<Place> {
        self.leader.as_ref()?.queue.first().copied().filter(|place| self.is_due(*place))
    }

    /// The first transaction that is ready, whether another stands before it or not.
    fn next_of_any(&self) -> Option<Place> {
        self.leader.as_ref()?.queue.iter().copied().find(|place| self.is_due(*place))
    }

    fn is_due(&self, place: Place) -> bool {
        self.is_dated(place) && place.timestamp <= self.state.ceiling
    }

    fn is_dated(&self, place: Place) -> bool {
        let open = self.leader.as_ref().and_then(|leader| leader.open.get(&place.transaction));
        open.is_some_and(|open| open.is_stable() && open.timestamp.is_some() && !open.is_given_up)
    }

    /// Answers the reads that have waited, unless something may still change what they see.
    fn answer_reads(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        if !self.leader.as_mut().is_some_and(|leader| std::mem::take(&mut leader.has_moved)) {
            return;
        }
        while let Some(dated) = self.next_read() {
            let Some(reading) = self.leader.as_ref().and_then(|leader| leader.reads.get(dated)) else {
                break;
            };
            let before = self.state.application.work();
            let sight = self.read(dated.0, reading);
            self.charge(dated.1, before);
            let Some(leader) = &mut self.leader else { break };
            match sight {
                Sight::Answer(timestamp, answer) => {
                    leader.end_read(dated.1);
                    self.answer_read(dated.1, timestamp, answer, context, log, outbox);
                }
                Sight::Blocked(transaction) => leader.reads.block(dated, transaction),
                // By timestamps whatever is in the way of one is in the way of those above it as well.
                Sight::Later => break,
            }
        }
    }

    /// The next read that can be answered, or that nothing is in the way of but perhaps locks; while everything goes by timestamps, the first
    /// that waits.
    fn next_read(&self) -> Option<Dated> {
        let leader = self.leader.as_ref()?;
        if !leader.is_locking {
            return leader.reads.first();
        }
        let ceiling = self.state.ceiling;
        let is_beneath = |first: Option<ClockTime>, (timestamp, _): Dated| {
            timestamp <= ceiling && first.is_none_or(|first| timestamp < first)
        };
        let (unlogged, pending) = (leader.first_unlogged(), leader.first_pending());
        let unblocked = leader.reads.first_unblocked().filter(|dated| is_beneath(unlogged, *dated));
        // A lock of what stands above is in nobody's way.
        let first = || leader.reads.first().filter(|dated| is_beneath(pending, *dated));
        let earlier = || {
            let first = pending.filter(|first| self.beneath(*first).is_some())?;
            leader.reads.first_seen_beneath(first, ceiling)
        };
        unblocked.or_else(first).or_else(earlier)
    }

    /// Answers what only reads. It leaves once it is known that this replica leads.
    pub(super) fn answer_read(
        &mut self,
        id: TransactionId,
        timestamp: ClockTime,
        answer: Answer,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        // Nothing that comes later stands at or beneath what is read here: each leader proposes above what it has read, and the next one
        // above the ceiling (G1, G10).
        assert!(timestamp <= self.state.ceiling, "{id} reads above the ceiling {:?}", self.state.ceiling);
        let Some(leader) = &mut self.leader else { return };
        if !self.config.rules.has(Plant::ReadsRaiseNothing) {
            leader.executed = leader.executed.max(timestamp);
        }
        let (to, message) = (Address::Client(id.client), committed(id, timestamp, answer));
        if log.lease_until().is_some_and(|until| context.now < until) {
            outbox.send(to, message);
        } else if let Some(confirmation) = log.confirm() {
            leader.unconfirmed.push_back((confirmation, to, message));
        }
    }

    /// Reads as of a timestamp, or of an earlier one if that may be and nothing could change what is seen there.
    pub(super) fn read(&self, timestamp: ClockTime, reading: &Reading) -> Sight {
        let Some(leader) = &self.leader else { return Sight::Later };
        let read = |at| self.state.application.read(Place::after(at), &reading.operation);
        if timestamp > self.state.ceiling {
            return Sight::Later;
        }
        let Some(first) = leader.first_pending().filter(|first| *first <= timestamp) else {
            return Sight::Answer(timestamp, read(timestamp).answer);
        };
        let beneath = self.beneath(first);
        let earlier = beneath.filter(|before| reading.high.is_some_and(|high| high <= *before));
        let mut sight = Sight::Later;
        if leader.is_locking && leader.first_unlogged().is_none_or(|unlogged| unlogged > timestamp) {
            let Read { answer, locked_by } = read(timestamp);
            sight = locked_by.map_or(Sight::Answer(timestamp, answer), Sight::Blocked);
        }
        match (sight, earlier) {
            (Sight::Blocked(_) | Sight::Later, Some(before)) => Sight::Answer(before, read(before).answer),
            (sight, _) => sight,
        }
    }

    /// The timestamp beneath the first pending transaction, if the state can be read there. A transaction with the timestamp of the first that stands before it by its
    /// name may be settled: it was executed before the first was known, or came with a state that another replica has given.
    fn beneath(&self, first: ClockTime) -> Option<ClockTime> {
        let before = ClockTime::from_micros(first.as_micros().saturating_sub(1));
        self.state.application.is_open(Place::after(before)).then_some(before)
    }

    /// Makes room to execute and read what stands first, if there is none.
    fn raise_ceiling(&mut self, log: &mut impl Log<Entry>) {
        let Some(leader) = &self.leader else { return };
        let (next, read) = match leader.is_locking {
            true => (leader.dated.last(), leader.reads.last()),
            false => (
                leader.queue.first().filter(|place| self.is_dated(**place)),
                leader.reads.first().map(|(timestamp, _)| timestamp),
            ),
        };
        let wanted = next.map(|place| place.timestamp).into_iter().chain(read).max().unwrap_or_default();
        if wanted > leader.ceiling {
            self.append(Body::Nothing, wanted, log);
        }
    }

    /// Executes what the log says, and lets go of what nobody asks for any more.
    pub(super) fn follow_log(&mut self) {
        match &mut self.leader {
            Some(leader) => {
                let ahead = &mut leader.ahead;
                let is_sound = self.config.rules == Rules::SOUND;
                self.state.execute(|id| {
                    let answer = ahead.remove(&id).map(|(_, answer)| answer);
                    assert!(answer.is_some() || !is_sound, "a leader has executed what its log says: {id}");
                    answer
                });
            }
            None => self.state.execute(|_| None),
        }
        // Reads may be as of the timestamp before what is pending.
        let begins = |place: Place| Place { transaction: TransactionId::default(), ..place };
        let reads = self.leader.as_ref().and_then(|leader| leader.reads_from());
        let pending = self.horizon().map(begins);
        self.state.application.settle(pending.into_iter().chain(reads).min());
    }

    /// Nothing below is undone any more; nothing at all, if nothing is pending.
    pub(super) fn horizon(&self) -> Option<Place> {
        let voted = self.leader.as_ref().and_then(|leader| leader.voted.first()).copied();
        let voted = voted.filter(|_| !self.config.rules.has(Plant::SinglesKept));
        self.state.horizon().into_iter().chain(voted).min()
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

    /// A client is told of what was executed ahead of the log.
    pub(super) fn reply_ahead(&self, id: TransactionId, outbox: &mut Out<A>) {
        let ahead = self.leader.as_ref().and_then(|leader| leader.ahead.get(&id));
        let (timestamp, answer) =
            ahead.cloned().expect("what a leader has executed is ahead until the log says so");
        outbox.send(Address::Client(id.client), committed(id, timestamp, answer));
    }

    /// The log says how something has ended.
    pub(super) fn on_finals(&mut self, entry: &Entry, outbox: &mut Out<A>) {
        for Final { transaction: id, .. } in &entry.finals {
            let Some(leader) = &mut self.leader else { return };
            leader.dropped.remove(id);
            if leader.open.get(id).is_some_and(|open| open.is_given_up) {
                let hold = leader.close(*id).map(|open| open.hold);
                if hold.is_some_and(|hold| hold != Hold::Nothing) {
                    self.state.application.abort(*id);
                }
                self.reply_ended(*id, outbox);
                self.look_after_blocked();
            }
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
