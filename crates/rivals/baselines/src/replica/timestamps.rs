//! Timestamps that a leader gives away: those of the timestamp server, which is a replicated group without data, and those of
//! snapshots, below which nothing is prepared any more.
//!
//! The leader makes durable, in strides, up to where it may give away; the leader after it begins above. So giving one away
//! costs no entry, and neither two leaders, nor one that does not know yet that it leads no longer, are in each other's way.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::log::Log;
use quorate_core::{Address, ClientId, ClockTime, Context, Instant, Timestamp, TransactionId};

use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::Message;
use crate::rules::Plant;

/// So many requests may wait for a ceiling; the client of a further one asks again.
const WAITING_MAX: usize = 100_000;

/// Strides do not grow with an entry that took longer than this.
const TOOK_MAX: Duration = Duration::from_secs(1);

/// Where a leader stands with handing out timestamps.
#[derive(Debug, Default)]
pub(super) struct TimestampSource {
    /// Nothing above may be handed out.
    ceiling: Timestamp,
    /// Since when CEILING is appended and not yet stable.
    raised_at: Option<Instant>,
    /// How long that took at most: strides are longer, or a request that waits for one would find its end behind the clock again.
    took: Duration,
    /// The requests that wait for it: one that is asked again waits once.
    waiting: BTreeMap<(TransactionId, Address), Message>,
}

impl TimestampSource {
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Replica {
    pub(super) fn on_next_timestamp(
        &mut self,
        from: Address,
        id: TransactionId,
        above: Timestamp,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let ahead_max = context.clock.saturating_add(self.config.timestamp_ahead_max);
        if above.micros > ahead_max.as_micros() {
            return;
        }
        let Some(leader) = &mut self.leader else { return Self::send_not_leading(from, id, log, outbox) };
        // Not only the next: a client that asks for more does so because replicas have seen more.
        leader.last = leader.last.max(above);
        let next = leader.last.successor(context.clock, id.client);
        if next <= leader.source.ceiling {
            leader.last = next;
            outbox.send(from, Message::NextTimestampReply { transaction: id, timestamp: next });
            self.raise_ceiling(Timestamp::ZERO, context, log);
        } else {
            let message = Message::NextTimestamp { transaction: id, above };
            self.wait_for_ceiling(next, from, id, message, context, log);
        }
    }

    /// Gives a timestamp away: nothing is prepared at or below any more. False if that has to wait until it is durable, and
    /// `message` is looked at again then.
    pub(super) fn give_away(
        &mut self,
        at: Timestamp,
        from: Address,
        id: TransactionId,
        message: impl FnOnce() -> Message,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
    ) -> bool {
        let Some(leader) = &mut self.leader else { return false };
        if at > leader.source.ceiling && !self.config.rules.has(Plant::CeilingNotDurable) {
            self.wait_for_ceiling(at, from, id, message(), context, log);
            return false;
        }
        if !self.config.rules.has(Plant::SnapshotNotPromised) {
            leader.last = leader.last.max(at);
        }
        true
    }

    fn wait_for_ceiling(
        &mut self,
        at: Timestamp,
        from: Address,
        id: TransactionId,
        message: Message,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
    ) {
        let Some(leader) = &mut self.leader else { return };
        if leader.source.waiting.len() < WAITING_MAX {
            leader.source.waiting.insert((id, from), message);
        }
        self.raise_ceiling(at, context, log);
    }

    /// Makes sure that there is room to give away for a while, and up to `at`.
    fn raise_ceiling(&mut self, at: Timestamp, context: &Context<'_>, log: &mut impl Log<Entry>) {
        let Some(leader) = &mut self.leader else { return };
        let source = &mut leader.source;
        let stride = self.config.ceiling_ahead.max(4 * source.took.min(TOOK_MAX));
        let base = ClockTime::from_micros(context.clock.as_micros().max(leader.last.micros).max(at.micros));
        let enough = base.saturating_add(stride / 2).as_micros();
        if source.raised_at.is_some() || source.ceiling.micros >= enough {
            return;
        }
        let ceiling =
            Timestamp { micros: base.saturating_add(stride).as_micros(), client: ClientId(u64::MAX) };
        source.raised_at = log.append(Entry::Ceiling(ceiling)).map(|_| context.now);
    }

    /// A ceiling is stable.
    pub(super) fn on_ceiling(
        &mut self,
        ceiling: Timestamp,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        if let Some(raised_at) = leader.source.raised_at.take() {
            leader.source.took = leader.source.took.max(context.now - raised_at);
        }
        leader.source.ceiling = leader.source.ceiling.max(ceiling);
        for ((_, from), message) in std::mem::take(&mut leader.source.waiting) {
            self.on_message(from, message, context, log, outbox);
        }
    }
}
