//! Waits that last long: votes that do not come, and transactions whose client has died before it could ask every participant.

use quorate_core::log::Log;
use quorate_core::{Address, ClockTime, Context, TransactionId};

use super::leader::{Hold, Stranger};
use super::requests::Refused;
use super::{Out, Replica, ReplicaTimer};
use crate::application::Application;
use crate::config::Locking;
use crate::entry::{Body, Ending, Entry, Final, Outcome, Vote};
use crate::message::{Message, Reply};
use crate::place::Place;
use crate::rules::Plant;
use quorate_core::command::Class;

/// A vote is late if it takes so many times as long as those of its shard usually do.
const USUAL_TIMES: u32 = 4;

/// Votes that do not come are asked for after a time that doubles so often.
const DOUBLINGS_MAX: u32 = 4;

impl<A: Application> Replica<A> {
    pub(super) fn on_attention_timeout(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        if self.leader.is_none() {
            return;
        }
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
        if let Some(leader) = &mut self.leader {
            leader.debts.pay(self.config.own_work_per_second(), self.config.attention_interval);
        }
        self.attend_votes(context, outbox);
        self.attend_waiting(context, log, outbox);
        self.attend_strangers(context, log, outbox);
        self.attend_lost(outbox);
        self.attend_floor(context, log, outbox);
        self.execute(context, log, outbox);
    }

    /// Asks for votes that are missing for long. A read-only transaction is given up in the end: its client may try again.
    fn attend_votes(&mut self, context: &Context<'_>, outbox: &mut Out<A>) {
        let Some(leader) = &mut self.leader else { return };
        let mut late: Vec<(TransactionId, bool)> = Vec::new();
        for (id, open) in &mut leader.open {
            let waits = open.is_stable() && open.timestamp.is_none();
            let usual = leader.delays.longest(&open.participants);
            let first = self.config.vote_timeout.max(usual * USUAL_TIMES);
            let timeout = first * 2_u32.pow(open.asks.min(DOUBLINGS_MAX));
            if waits && context.now - open.asked >= timeout {
                late.push((*id, open.class == Class::ReadOnly && open.asks > 0));
                (open.asked, open.asks) = (context.now, open.asks + 1);
            }
        }
        for (id, is_given_up) in late {
            match is_given_up {
                true => self.drop_open(id, Ending::Conflict, outbox),
                false => self.ask_for_votes(id, outbox),
            }
        }
        let Some(leader) = &mut self.leader else { return };
        leader.look_for_silence();
        if leader.is_held_up && self.config.locking == Locking::WhereNeeded {
            self.enter_locking(outbox);
        }
    }

    /// Gives up a transaction that has waited for long behind one that cannot end, if no other shard takes part in it: its
    /// client may try again (section 5.4).
    fn attend_waiting(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        let timeout = self.config.wait_timeout;
        let Some(leader) = &mut self.leader else { return };
        let late = leader.reads.iter().filter(|(_, reading)| context.now - reading.since >= timeout);
        let late: Vec<TransactionId> = late.map(|((_, id), _)| id).collect();
        for id in late {
            leader.end_read(id);
            let reply = Reply::Ended(Outcome::Conflict);
            outbox.send(Address::Client(id.client), Message::Reply { transaction: id, reply });
        }
        let is_shared = |place: &&Place| {
            leader.open.get(&place.transaction).is_some_and(|open| open.participants.len() > 1)
        };
        let first = leader.queue.iter().find(is_shared);
        let is_late = |place: &Place| {
            let open = leader.open.get(&place.transaction)?;
            let is_own = open.participants.len() == 1 && !open.is_inherited && !open.is_given_up;
            // The transaction before it ends later in the log, so the log does not execute this one first.
            let is_stuck =
                open.is_stable() && open.hold == Hold::Blocked && first.is_some_and(|it| it < place);
            (is_own && is_stuck && context.now - open.asked >= timeout).then_some(place.transaction)
        };
        let singles: Vec<TransactionId> = leader.dated.iter().filter_map(is_late).collect();
        for id in &singles {
            if let Some(open) = leader.open.get_mut(id) {
                // An earlier leader may have executed it and told its client (I3).
                assert!(!open.is_inherited, "{id} is given up, and may have been executed");
                open.is_given_up = true;
            }
            leader.finals.push(Final { transaction: *id, ending: Ending::Conflict });
        }
        if !singles.is_empty() {
            self.append(Body::Nothing, ClockTime::default(), log);
        }
    }

    /// Votes against what nobody asks for: the others cannot know that nobody will.
    fn attend_strangers(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        let Some(leader) = &mut self.leader else { return };
        if self.config.rules.has(Plant::NoTombstones) {
            return;
        }
        let timeout = self.config.request_timeout;
        let old = leader.strangers.iter().filter(|(_, stranger)| context.now - stranger.since >= timeout);
        let old: Vec<TransactionId> = old.map(|(id, _)| *id).collect();
        for id in old {
            let stranger = self.leader.as_mut().and_then(|leader| leader.strangers.remove(&id));
            if let Some(stranger) = stranger {
                let Stranger { class, participants, first, votes, .. } = stranger;
                if class == Class::ReadOnly && votes.values().any(|(vote, _)| *vote != Vote::Commit) {
                    // Nobody waits for this vote, and what only reads leaves nothing behind: two shards would tell each other for ever.
                    continue;
                }
                self.refuse(Refused { id, class, participants, first, vote: Vote::Conflict }, log, outbox);
            }
        }
    }
}
