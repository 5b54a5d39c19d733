//! The outcome of a transaction: its participants are asked, as they would ask each other.

use quorate_core::command::Event;
use quorate_core::topology::SHARDS_MAX;
use quorate_core::{Context, Instant, ShardId, Timestamp, TransactionId};

use super::asking::{Asking, Question};
use super::{Coordinator, Open, Out, Phase, Wants};
use crate::decision::Standings;

impl Coordinator {
    pub(super) fn on_resolve(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        not_before: Timestamp,
        deadline: Instant,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if let Some(open) = self.transactions.get_mut(&id) {
            open.wants.resolve_wanted = true;
            open.deadline = open.deadline.max(deadline);
            return self.transactions.wake_at(id, deadline);
        }
        let is_known = !participants.is_empty()
            && participants.len() <= SHARDS_MAX
            && participants.is_sorted_by(|one, other| one < other)
            && participants.iter().all(|shard| self.leaders.group(*shard).is_some());
        if !is_known {
            outbox.emit(Event::Resolved { transaction: id, outcome: None });
            return;
        }
        // A client knows what its clock said when it began. That tells nothing of what a timestamp server has given.
        let by_clock = !self.config.system.has_timestamp_server();
        let not_before = if by_clock { not_before } else { Timestamp::ZERO };
        let question = Question::Resolve { not_before, standings: Standings::new(&participants) };
        let asking = Asking::new(question, Default::default(), participants);
        let phase = Phase::Asking(Box::new(asking));
        let open = Open {
            wants: Wants { answered: true, resolve_wanted: true },
            ..Open::new(phase, deadline, context.clock)
        };
        self.transactions.insert(id, open);
        self.ask_missing(id, context.now, outbox);
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
        self.transactions.wake_at(id, deadline);
    }
}
