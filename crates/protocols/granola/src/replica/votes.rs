//! Votes: how the participants of a transaction agree on its timestamp (section 4.4).

use std::time::Duration;

use quorate_core::log::Log;
use quorate_core::{Address, ClockTime, Context, ReplicaId, ReplicaIndex, ShardId, TransactionId};

use super::leader::{Hold, Open, Stranger};
use super::reads::Reading;
use super::{Out, Replica};
use crate::application::Application;
use crate::entry::{Ending, Entry, Final, Outcome, Refusal, Vote, Voted};
use crate::message::{Message, Reply};
use crate::reasons;
use crate::rules::Plant;
use quorate_core::command::Class;

/// A vote, as it comes from another shard.
#[derive(Debug)]
pub(super) struct Ballot {
    pub(super) transaction: TransactionId,
    pub(super) participants: Vec<ShardId>,
    pub(super) first: ClockTime,
    pub(super) vote: Vote,
    pub(super) proposed: ClockTime,
    pub(super) class: Class,
    pub(super) wants: bool,
}

impl<A: Application> Replica<A> {
    pub(super) fn on_vote(
        &mut self,
        from: Address,
        ballot: Ballot,
        context: &Context<'_>,
        log: &impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let Address::Replica(voter) = from else { return outbox.ignored(reasons::CLIENT) };
        let id = ballot.transaction;
        let is_other = voter.shard != self.config.replica.shard;
        if !is_other
            || !self.config.are_participants(&ballot.participants)
            || !ballot.participants.contains(&voter.shard)
        {
            return outbox.ignored(reasons::PARTICIPANTS);
        }
        if self.leader.is_none() {
            return outbox.send(from, Message::NotLeading { transaction: id, leader: log.leader() });
        }
        if self.state.lost.contains(&voter.shard) && !self.config.rules.has(Plant::LostVotesCount) {
            return outbox.ignored(reasons::LOST);
        }
        self.note_leading(voter, outbox);
        if let Some(ending) = self.ending(id) {
            if !ballot.wants || self.config.rules.has(Plant::VotesDiscarded) {
                return outbox.ignored(reasons::ENDED);
            }
            return outbox.send(from, Message::Resolved { transaction: id, ending });
        }
        if self.leader.as_ref().is_some_and(|leader| leader.open.contains_key(&id)) {
            return match ballot.vote {
                Vote::Commit => self.note_vote(voter, &ballot, context, outbox),
                Vote::Abort(reason) => {
                    let refusal = Refusal { shard: voter.shard, reason };
                    self.drop_open(id, Ending::Abort(refusal), outbox);
                }
                Vote::Conflict => self.drop_open(id, Ending::Conflict, outbox),
            };
        }
        if ballot.wants && ballot.class == Class::ReadOnly {
            // It has been read here, and left nothing behind; or its request is lost. Its client may try again at once.
            return outbox.send(from, Message::Resolved { transaction: id, ending: Ending::Conflict });
        }
        if ballot.first < self.state.floor {
            // Nobody has asked, and nobody may any more. Or it is forgotten, and then it has ended at the sender's shard, too.
            return outbox.send(from, Message::Resolved { transaction: id, ending: Ending::Conflict });
        }
        self.keep_vote(voter, ballot, context, outbox);
    }

    /// Another participant votes for what is accepted here.
    fn note_vote(&mut self, voter: ReplicaId, ballot: &Ballot, context: &Context<'_>, outbox: &mut Out<A>) {
        let id = ballot.transaction;
        let Some(leader) = &mut self.leader else { return };
        let Some(open) = leader.open.get_mut(&id) else { return };
        let is_first = open.votes.insert(voter.shard, ballot.proposed).is_none();
        if is_first && open.asks == 0 && open.class != Class::ReadOnly {
            let late = open.stable_since.map_or(Duration::ZERO, |since| context.now - since);
            leader.delays.note(voter.shard, late);
        }
        match self.own_vote(id, false).filter(|_| ballot.wants) {
            Some(message) => outbox.send(voter, message),
            None if !is_first => outbox.ignored(reasons::VOTE_KNOWN),
            None => {}
        }
        self.count_votes(id);
    }

    /// Another participant votes on what nobody has asked this shard for yet: the vote counts once somebody does.
    fn keep_vote(&mut self, voter: ReplicaId, ballot: Ballot, context: &Context<'_>, outbox: &mut Out<A>) {
        let Some(leader) = &mut self.leader else { return };
        if leader.refusing.contains(&ballot.transaction) {
            // It is told once that is stable.
            return outbox.ignored(reasons::UNDER_WAY);
        }
        let is_known = leader.strangers.contains_key(&ballot.transaction);
        if !is_known && leader.strangers.len() >= self.config.strangers_max {
            return outbox.ignored(reasons::STRANGERS);
        }
        let stranger = leader.strangers.entry(ballot.transaction).or_insert_with(|| Stranger {
            participants: ballot.participants,
            first: ballot.first,
            class: ballot.class,
            votes: Default::default(),
            since: context.now,
        });
        stranger.votes.insert(voter.shard, (ballot.vote, ballot.proposed));
    }

    /// Another shard is led by this replica: if another one was taken for that, this one learns of the votes that were sent there. The former
    /// leader may not be there any more to say so, and nobody could ask for a vote on a read-only transaction later.
    fn note_leading(&mut self, replica: ReplicaId, outbox: &mut Out<A>) {
        let is_news = self.leader_of(replica.shard) != replica;
        if let Some(leader) = &mut self.leader {
            leader.leaders.insert(replica.shard, replica.index);
        }
        if !is_news {
            return;
        }
        let open = self.leader.iter().flat_map(|leader| &leader.open);
        let of_both = open.filter(|(_, open)| open.participants.contains(&replica.shard));
        let votes = of_both.filter_map(|(id, _)| self.own_vote(*id, false));
        votes.for_each(|vote| outbox.send(replica, vote));
    }

    /// How a transaction has ended here, if it has.
    pub(super) fn ending(&self, id: TransactionId) -> Option<Ending> {
        if let Some(leader) = &self.leader {
            if let Some((timestamp, _)) = leader.ahead.get(&id) {
                return Some(Ending::Commit(*timestamp));
            }
            if let Some(ending) = leader.dropped.get(&id) {
                return Some(ending.clone());
            }
        }
        self.state.ended(id).map(|ended| match &ended.outcome {
            Outcome::Committed { timestamp, .. } => Ending::Commit(*timestamp),
            Outcome::Aborted(refusal) => Ending::Abort(refusal.clone()),
            Outcome::Conflict => Ending::Conflict,
        })
    }

    /// Another participant knows what becomes of a transaction.
    ///
    /// That nobody executes it counts only if this replica surely leads: a transaction that has ended everywhere may be forgotten there, and only
    /// a replica that does not know that it leads no longer would still ask for it.
    pub(super) fn on_resolved(
        &mut self,
        from: Address,
        id: TransactionId,
        ending: Ending,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let Address::Replica(replica) = from else { return outbox.ignored(reasons::CLIENT) };
        // An ending there rests on its vote, which no participant takes any more: an earlier leader may have dropped the transaction, and told its client.
        if self.state.lost.contains(&replica.shard) {
            return outbox.ignored(reasons::LOST);
        }
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        let Some(open) = leader.open.get(&id) else { return outbox.ignored(reasons::NOT_OPEN) };
        let (proposed, is_dated) = (open.proposed, open.timestamp.is_some());
        match ending {
            Ending::Commit(_) if is_dated => outbox.ignored(reasons::DATED),
            // No sooner than it was proposed here: a client that asks different shards for different things under one name is in
            // nobody else's way.
            Ending::Commit(timestamp) => self.set_timestamp(id, timestamp.max(proposed)),
            ending if log.lease_until().is_some_and(|until| context.now < until) => {
                self.drop_open(id, ending, outbox);
            }
            _ if leader.unbelieved.iter().any(|(_, known, _)| *known == id) => {
                outbox.ignored(reasons::NOTED);
            }
            ending => match log.confirm() {
                Some(confirmation) => leader.unbelieved.push_back((confirmation, id, ending)),
                None => outbox.ignored(reasons::NOT_LEADING),
            },
        }
    }

    /// It is known that this replica led when others told it that something is executed nowhere.
    pub(super) fn believe_confirmed(&mut self, log: &impl Log<Entry>, outbox: &mut Out<A>) {
        while let Some(leader) = &mut self.leader
            && let Some((confirmation, _, _)) = leader.unbelieved.front()
            && log.has_confirmed(*confirmation)
            && let Some((_, id, ending)) = leader.unbelieved.pop_front()
        {
            self.drop_open(id, ending, outbox);
        }
    }

    /// A replica that was taken for the leader of another shard is not: the one that is learns of the vote.
    pub(super) fn on_not_leading(
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
        if let Some(message) = self.own_vote(id, true) {
            outbox.send(ReplicaId { shard, index: leader }, message);
        }
    }

    /// Takes the greatest proposal as the timestamp, once all are known.
    pub(super) fn count_votes(&mut self, id: TransactionId) {
        let own = self.config.replica.shard;
        let Some(open) = self.leader.as_ref().and_then(|leader| leader.open.get(&id)) else { return };
        if open.timestamp.is_none() && open.missing(own).next().is_none() {
            let timestamp = open.votes.values().copied().fold(open.proposed, ClockTime::max);
            self.set_timestamp(id, timestamp);
        }
    }

    fn set_timestamp(&mut self, id: TransactionId, timestamp: ClockTime) {
        let Some(leader) = &mut self.leader else { return };
        let Some(open) = leader.open.get_mut(&id) else { return };
        if open.timestamp.is_some() {
            return;
        }
        // The greatest of all proposals, and this shard's is one of them (section 4.4).
        assert!(timestamp >= open.proposed, "{id} stands at {timestamp:?}, beneath what was proposed here");
        if open.class == Class::ReadOnly {
            if let Some(Open { operation, asked: since, .. }) = leader.close(id) {
                leader.await_read(id, timestamp, Reading { operation, high: None, since }, None);
            }
            return;
        }
        let proposal = open.place(id);
        assert!(leader.undecided.remove(&proposal), "{proposal} lacked votes, and nobody knew");
        let was_queued = leader.queue.remove(&proposal);
        // Since it was proposed nothing was executed that should come after it (G18).
        assert!(was_queued || !self.config.is_sound(), "{proposal} was in nobody's way");
        open.timestamp = Some(timestamp);
        let place = open.place(id);
        assert!(leader.queue.insert(place), "{place} is taken by two");
        leader.has_moved = true;
        self.note_dated(place);
    }

    /// A participant refuses what was accepted here.
    pub(super) fn drop_open(&mut self, id: TransactionId, ending: Ending, outbox: &mut Out<A>) {
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        let Some(open) = leader.open.get(&id) else { return outbox.ignored(reasons::NOT_OPEN) };
        // A transaction with a timestamp has the votes of all.
        if open.timestamp.is_some() {
            return outbox.ignored(reasons::DATED);
        }
        let Some(open) = leader.close(id) else { return };
        // I4: the other participants execute it nowhere, so it was not executed here.
        assert!(!leader.ahead.contains_key(&id), "{id} is executed, and dropped");
        if open.hold != Hold::Nothing && !self.config.rules.has(Plant::LocksKept) {
            self.state.application.abort(id);
        }
        let reply = Reply::Ended(not_executed(&ending));
        if open.class != Class::ReadOnly {
            let before = leader.dropped.insert(id, ending.clone());
            assert!(before.is_none(), "{id} is dropped twice");
            leader.finals.push(Final { transaction: id, ending });
        }
        // A group that coordinates for the participants has told its client.
        if self.config.hub.is_none() {
            outbox.send(Address::Client(id.client), Message::Reply { transaction: id, reply });
        }
        self.look_after_blocked();
    }

    /// Tells the other participants how this shard votes, or the group that coordinates for them.
    pub(super) fn send_votes(&self, id: TransactionId, outbox: &mut Out<A>) {
        if self.config.hub.is_some() {
            self.tell_hub(id, outbox);
            return;
        }
        let Some(open) = self.leader.as_ref().and_then(|leader| leader.open.get(&id)) else { return };
        if let Some(message) = self.own_vote(id, false) {
            self.tell_participants(&open.participants, &message, outbox);
        }
    }

    /// Tells the group that coordinates how this shard votes on what it has accepted; false if there is none, or nothing to tell.
    pub(super) fn tell_hub(&self, id: TransactionId, outbox: &mut Out<A>) -> bool {
        let open = self.leader.as_ref().and_then(|leader| leader.open.get(&id));
        let (Some(hub), Some(open)) = (self.config.hub, open) else { return false };
        let tells = open.is_stable() && open.participants.len() > 1;
        if tells {
            let (vote, proposed, answer) = (Vote::Commit, open.proposed, open.answer.clone());
            let message = Message::Prepared { transaction: id, vote, proposed, answer };
            outbox.send(self.leader_of(hub), message);
        }
        tells
    }

    /// Asks every replica of the shards whose votes are missing; and if they have been asked in vain, the leaders of the others, which
    /// may know what has become of it.
    pub(super) fn ask_for_votes(&self, id: TransactionId, outbox: &mut Out<A>) {
        let own = self.config.replica.shard;
        let Some(open) = self.leader.as_ref().and_then(|leader| leader.open.get(&id)) else { return };
        let Some(message) = self.own_vote(id, true) else { return };
        for shard in open.missing(own) {
            for index in self.config.groups.members(shard).iter() {
                outbox.send(ReplicaId { shard, index }, message.clone());
            }
        }
        if open.asks > 1 {
            for shard in open.votes.keys() {
                outbox.send(self.leader_of(*shard), message.clone());
            }
        }
    }

    /// How this shard votes on what it has accepted; nothing as long as that could still be forgotten.
    fn own_vote(&self, id: TransactionId, wants: bool) -> Option<Message> {
        let open = self.leader.as_ref()?.open.get(&id)?;
        open.is_stable().then(|| Message::Vote {
            transaction: id,
            participants: open.participants.clone(),
            first: open.first,
            vote: Vote::Commit,
            proposed: open.proposed,
            class: open.class,
            wants,
        })
    }

    /// Tells the other participants that this shard does not execute a transaction.
    pub(super) fn send_refusal(&self, voted: &Voted, outbox: &mut Out<A>) {
        if let Some(hub) = self.config.hub {
            let (transaction, vote, proposed) = (voted.transaction, voted.vote.clone(), voted.proposed);
            let message = Message::Prepared { transaction, vote, proposed, answer: None };
            return outbox.send(self.leader_of(hub), message);
        }
        let message = Message::Vote {
            transaction: voted.transaction,
            participants: voted.participants.clone(),
            first: voted.first,
            vote: voted.vote.clone(),
            proposed: ClockTime::default(),
            class: voted.class,
            wants: false,
        };
        self.tell_participants(&voted.participants, &message, outbox);
    }

    /// Says something to the leaders of the other participants.
    fn tell_participants(&self, participants: &[ShardId], message: &Message, outbox: &mut Out<A>) {
        for shard in participants.iter().filter(|shard| **shard != self.config.replica.shard) {
            outbox.send(self.leader_of(*shard), message.clone());
        }
    }

    /// The leader of a shard, as far as is known here.
    pub(super) fn leader_of(&self, shard: ShardId) -> ReplicaId {
        let known = self.leader.as_ref().and_then(|leader| leader.leaders.get(&shard)).copied();
        let index = known.unwrap_or_else(|| self.config.groups.members(shard).at(0));
        ReplicaId { shard, index }
    }
}

/// The outcome that a client is told of a transaction that ends without being executed.
pub(super) fn not_executed(ending: &Ending) -> Outcome {
    match ending {
        Ending::Abort(refusal) => Outcome::Aborted(refusal.clone()),
        Ending::Conflict | Ending::Commit(_) => Outcome::Conflict,
    }
}
