//! Which replica leads each shard, and the questions that a node repeats when that changes: those to a replica that does not lead any more may be lost
//! with its leadership.

use quorate_coordinator::soon;
use quorate_core::log::Log;
use quorate_core::{Context, Instant, ReplicaId, TransactionId};

use super::Home;
use super::transaction::{Asked, Phase, Transaction};
use crate::entry::Entry;
use crate::machine::{Out, ReplicaTimer};

impl Home {
    /// A replica has answered as leaders do. If another one did before, it is told what is decided, and asked to let in what that one has not.
    pub(super) fn note_leading(&mut self, from: ReplicaId, now: Instant, outbox: &mut Out) {
        self.leaders.note_leading(from);
        if self.led_by.insert(from.shard, from) == Some(from) {
            return;
        }
        self.deliver_to(from, outbox);
        let waits = |one: &Transaction| {
            let part = one.parts.get(&from.shard).filter(|part| part.prepared.is_none());
            let asked = part.and_then(|part| part.asked);
            let is_elsewhere = asked.is_some_and(|asked| asked.replica != from || asked.leads_soon);
            is_elsewhere && matches!(one.phase, Phase::Local(_))
        };
        let waiting = self.transactions.iter().filter(|(_, one)| waits(one)).map(|(id, _)| *id);
        for id in waiting.collect::<Vec<TransactionId>>() {
            self.ask_to_let_in(id, Asked::new(from, now), outbox);
        }
    }

    /// A replica that was asked is silent: another one may lead. One that is about to lead has answered.
    pub(super) fn suspect_if_silent(&mut self, asked: &Asked) {
        if !asked.leads_soon {
            self.leaders.suspect_asked(asked.replica);
        }
    }

    /// Replicas that are about to lead are asked again once they have had a moment.
    pub(super) fn ask_soon(&mut self, outbox: &mut Out) {
        if !self.asks_soon {
            self.asks_soon = true;
            outbox.set_timer(ReplicaTimer::Leaders, soon(self.config.resend_timeout));
        }
    }

    /// They have had it.
    pub(crate) fn on_leaders_timeout(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        self.asks_soon = false;
        self.attend_time(context, outbox);
        self.attend_reads(context, outbox);
        self.attend_transactions(context, log, outbox);
    }
}
