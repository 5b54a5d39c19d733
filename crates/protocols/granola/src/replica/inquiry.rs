//! The outcome of a transaction whose client does not know it, or is gone.

use quorate_core::log::Log;
use quorate_core::{Address, ClockTime, Context, ShardId, TransactionId};

use super::requests::{Known, Refused};
use super::{Out, Replica};
use crate::application::Application;
use crate::entry::{Entry, Vote};
use crate::message::Message;
use crate::reasons;
use quorate_core::command::Class;

impl<A: Application> Replica<A> {
    pub(super) fn on_inquire(
        &mut self,
        from: Address,
        (id, participants, not_before): (TransactionId, Vec<ShardId>, ClockTime),
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        if !self.config.are_participants(&participants) {
            return outbox.ignored(reasons::PARTICIPANTS);
        }
        if self.leader.is_none() {
            return outbox.send(from, Message::NotLeading { transaction: id, leader: log.leader() });
        }
        match self.known(id, not_before, context.clock) {
            Known::Under => outbox.ignored(reasons::UNDER_WAY),
            Known::Ended(reply) => outbox.send(from, Message::Reply { transaction: id, reply }),
            // Copies of the request may be on their way, and say when it was sent first. The vote against it is remembered for as
            // long as any of them could be accepted.
            Known::New => {
                let first = context.clock.max(not_before).saturating_add(self.config.timestamp_ahead_max);
                if let Some(leader) = &mut self.leader {
                    leader.strangers.remove(&id);
                }
                let (class, vote) = (Class::Independent, Vote::Conflict);
                self.refuse(Refused { id, class, participants, first, vote }, log, outbox);
            }
        }
    }
}
