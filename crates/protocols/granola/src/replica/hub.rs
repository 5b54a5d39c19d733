//! A group that coordinates what has several participants, as in Sinfonia with which the paper compares itself (section 6).
//!
//! ```text
//!   client ─ BEGIN ─► hub ─ REQUEST ─► each participant: prepare, append VOTED ── stable ─► PREPARED ─► hub
//!          ◄─ GATHERED ─┴─ RESOLVED ─► each participant: commit                                          │
//!                       └────────────────────────────────────────── all have voted ◄─────────────────────┘
//! ```
//!
//! Four message delays and one stable write, where participants that vote among themselves need three. Every transaction of
//! several participants is prepared and locks. Nothing else differs: one of a single shard goes straight to it.
//!
//! The group keeps nothing: what becomes of a transaction follows from what its participants have made durable. A client that hears
//! nothing asks again, be the leader of the group the same or a later one; participants that hear nothing ask each other.

use std::collections::BTreeMap;

use quorate_core::log::Log;
use quorate_core::{Address, ClockTime, Context, ReplicaId, ReplicaIndex, ShardId, TransactionId, Value};

use super::votes::not_executed;
use super::{Out, Replica};
use crate::application::{Answer, Application};
use crate::entry::{Ending, Entry, Outcome, Refusal, Vote};
use crate::message::{Begin, Message, Reply, Request};
use crate::reasons;
use quorate_core::command::Class;

/// A transaction that this group coordinates, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Gathering {
    parts: BTreeMap<ShardId, Value>,
    high: ClockTime,
    first: ClockTime,
    /// The participants that have voted for it: their proposals, and their answers.
    voted: BTreeMap<ShardId, (ClockTime, Answer)>,
    /// Its timestamp, if a participant has executed it already.
    executed: Option<ClockTime>,
}

impl<A: Application> Replica<A> {
    /// A message to this group.
    pub(super) fn coordinate(
        &mut self,
        from: Address,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        match message {
            Message::Begin(begin) => self.on_begin(from, begin, context, log, outbox),
            Message::Prepared { transaction, vote, proposed, answer } => {
                self.on_prepared(from, transaction, (vote, proposed, answer), outbox);
            }
            Message::Reply { transaction, reply } => {
                self.on_participant_reply(from, transaction, reply, outbox)
            }
            Message::NotLeading { transaction, leader } => {
                self.on_participant_not_leading(from, transaction, leader, outbox);
            }
            Message::AskFloor => self.tell_floor(from, context, outbox),
            Message::Request(_)
            | Message::Vote { .. }
            | Message::Resolved { .. }
            | Message::Abandoned { .. }
            | Message::Inquire { .. }
            | Message::AskFloorReply { .. } => outbox.ignored(reasons::PARTICIPANTS_ONLY),
            Message::Gathered { .. } => outbox.ignored(reasons::CLIENTS_ONLY),
        }
    }

    fn on_begin(
        &mut self,
        from: Address,
        begin: Begin,
        context: &Context<'_>,
        log: &impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let Begin { transaction: id, parts, high, first } = begin;
        let is_shard = |shard: &ShardId| self.config.shards.contains(*shard);
        if from != Address::Client(id.client) {
            return outbox.ignored(reasons::FOREIGN);
        }
        if parts.len() < 2 || !parts.keys().all(is_shard) {
            return outbox.ignored(reasons::PARTICIPANTS);
        }
        let Some(leader) = &mut self.leader else {
            return outbox.send(from, Message::NotLeading { transaction: id, leader: log.leader() });
        };
        if first > context.clock.saturating_add(self.config.timestamp_ahead_max) {
            let reply = Reply::ClockAhead { clock: context.clock };
            return outbox.send(from, Message::Reply { transaction: id, reply });
        }
        let new = Gathering { parts, high, first, voted: BTreeMap::new(), executed: None };
        let gathering = leader.gathering.entry(id).or_insert(new);
        let silent: Vec<ShardId> =
            gathering.parts.keys().filter(|shard| !gathering.voted.contains_key(shard)).copied().collect();
        for shard in silent {
            self.ask_participant(id, shard, outbox);
        }
    }

    fn ask_participant(&self, id: TransactionId, shard: ShardId, outbox: &mut Out<A>) {
        let gathering = self.leader.as_ref().and_then(|leader| leader.gathering.get(&id));
        let Some(gathering) = gathering else { return };
        let Some(operation) = gathering.parts.get(&shard) else { return };
        let request = Request {
            transaction: id,
            participants: gathering.parts.keys().copied().collect(),
            operation: operation.clone(),
            class: Class::Coordinated,
            high: gathering.high,
            first: gathering.first,
        };
        outbox.send(self.leader_of(shard), Message::Request(request));
    }

    fn on_prepared(
        &mut self,
        from: Address,
        id: TransactionId,
        (vote, proposed, answer): (Vote, ClockTime, Option<Answer>),
        outbox: &mut Out<A>,
    ) {
        let (shard, gathering) = match self.participant(from, id) {
            Ok(known) => known,
            Err(reason) => return outbox.ignored(reason),
        };
        match (vote, answer) {
            (Vote::Commit, Some(answer)) => {
                gathering.voted.insert(shard, (proposed, answer));
                self.conclude(id, outbox);
            }
            // It has taken over, and knows the answer once it has executed: its client asks again.
            (Vote::Commit, None) => outbox.ignored(reasons::NO_ANSWER_YET),
            (Vote::Abort(reason), _) => self.give_up(id, Ending::Abort(Refusal { shard, reason }), outbox),
            (Vote::Conflict, _) => self.give_up(id, Ending::Conflict, outbox),
        }
    }

    /// A participant has ended a transaction already, or does not begin with it.
    fn on_participant_reply(&mut self, from: Address, id: TransactionId, reply: Reply, outbox: &mut Out<A>) {
        let (shard, gathering) = match self.participant(from, id) {
            Ok(known) => known,
            Err(reason) => return outbox.ignored(reason),
        };
        match reply {
            Reply::Ended(Outcome::Committed { timestamp, answer }) => {
                gathering.executed = Some(timestamp);
                gathering.voted.insert(shard, (timestamp, answer));
                self.conclude(id, outbox);
            }
            Reply::Ended(Outcome::Aborted(refusal)) => self.give_up(id, Ending::Abort(refusal), outbox),
            Reply::Ended(Outcome::Conflict) => self.give_up(id, Ending::Conflict, outbox),
            reply @ (Reply::Forgotten { .. }
            | Reply::TooOld { .. }
            | Reply::Lost { .. }
            | Reply::ClockAhead { .. }) => {
                // Those that have begun ask this one in time, and hear that it does not.
                if let Some(leader) = &mut self.leader {
                    leader.gathering.remove(&id);
                }
                outbox.send(Address::Client(id.client), Message::Reply { transaction: id, reply });
            }
        }
    }

    fn on_participant_not_leading(
        &mut self,
        from: Address,
        id: TransactionId,
        leader: ReplicaIndex,
        outbox: &mut Out<A>,
    ) {
        let Address::Replica(ReplicaId { shard, index }) = from else {
            return outbox.ignored(reasons::CLIENT);
        };
        let believed = self.leader_of(shard);
        let Some(own) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        if believed.index != index || leader == index {
            return outbox.ignored(reasons::NO_NEWS);
        }
        own.leaders.insert(shard, leader);
        self.ask_participant(id, shard, outbox);
    }

    /// The state of a transaction, if the leader of one of its participants says this; else the reason to drop it.
    fn participant(
        &mut self,
        from: Address,
        id: TransactionId,
    ) -> Result<(ShardId, &mut Gathering), &'static str> {
        let Address::Replica(ReplicaId { shard, index }) = from else { return Err(reasons::CLIENT) };
        let leader = self.leader.as_mut().ok_or(reasons::NOT_LEADING)?;
        leader.leaders.insert(shard, index);
        let gathering = leader.gathering.get_mut(&id).ok_or(reasons::NOT_OPEN)?;
        match gathering.parts.contains_key(&shard) {
            true => Ok((shard, gathering)),
            false => Err(reasons::PARTICIPANTS),
        }
    }

    /// Lets everybody know once all have voted for it: that is durable.
    fn conclude(&mut self, id: TransactionId, outbox: &mut Out<A>) {
        let Some(leader) = &mut self.leader else { return };
        if leader.gathering.get(&id).is_none_or(|it| it.voted.len() < it.parts.len()) {
            return;
        }
        let Some(gathering) = leader.gathering.remove(&id) else { return };
        let have_all_voted = gathering.voted.keys().eq(gathering.parts.keys());
        assert!(have_all_voted, "{id} is committed by other votes than those of its participants");
        let proposals = gathering.voted.values().map(|(proposed, _)| *proposed);
        let timestamp = gathering.executed.or_else(|| proposals.max()).unwrap_or_default();
        self.resolve(id, &gathering, &Ending::Commit(timestamp), outbox);
        let answers = gathering.voted.into_iter().map(|(shard, (_, answer))| (shard, answer)).collect();
        let message = Message::Gathered { transaction: id, timestamp, answers };
        outbox.send(Address::Client(id.client), message);
    }

    /// Lets everybody know that it is executed nowhere.
    fn give_up(&mut self, id: TransactionId, ending: Ending, outbox: &mut Out<A>) {
        let gathering = self.leader.as_mut().and_then(|leader| leader.gathering.remove(&id));
        let Some(gathering) = gathering else { return };
        assert!(!matches!(ending, Ending::Commit(_)), "{id} is committed, and its client is told otherwise");
        self.resolve(id, &gathering, &ending, outbox);
        let reply = Reply::Ended(not_executed(&ending));
        outbox.send(Address::Client(id.client), Message::Reply { transaction: id, reply });
    }

    fn resolve(&self, id: TransactionId, gathering: &Gathering, ending: &Ending, outbox: &mut Out<A>) {
        for shard in gathering.parts.keys() {
            let message = Message::Resolved { transaction: id, ending: ending.clone() };
            outbox.send(self.leader_of(*shard), message);
        }
    }
}
