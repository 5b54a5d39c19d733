//! The timestamp server: a replicated group without data whose leader hands out timestamps that rise.
//!
//! The leader makes durable, in strides, up to where it may hand out; whoever leads after it begins above. So handing one out
//! costs no entry, and none is handed out twice: neither by two leaders, nor by one that does not know yet that it leads no
//! longer.

use quorate_core::log::Log;
use quorate_core::{Address, ClientId, ClockTime, Context, Timestamp, TransactionId};

use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::Message;

/// So many requests may wait for a ceiling; whoever comes later asks again.
const WAITING_MAX: usize = 100_000;

/// Where a leader stands with handing out timestamps.
#[derive(Debug, Default)]
pub(super) struct TimestampSource {
    /// Nothing above may be handed out.
    ceiling: Timestamp,
    /// CEILING is appended and not yet stable.
    raising: bool,
    waiting: Vec<(Address, TransactionId, Timestamp)>,
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
        // Not only the next: whoever asks for more does so because replicas have seen more.
        leader.last = leader.last.max(above);
        let next = leader.last.successor(context.clock, id.client);
        if next <= leader.source.ceiling {
            leader.last = next;
            outbox.send(from, Message::NextTimestampReply { transaction: id, timestamp: next });
        } else if leader.source.waiting.len() < WAITING_MAX {
            leader.source.waiting.push((from, id, above));
        }
        self.raise_ceiling(context.clock, log);
    }

    /// Makes sure that there is room to hand out for a while.
    fn raise_ceiling(&mut self, clock: ClockTime, log: &mut impl Log<Entry>) {
        let Some(leader) = &mut self.leader else { return };
        let base = ClockTime::from_micros(clock.as_micros().max(leader.last.micros));
        let enough = base.saturating_add(self.config.ceiling_ahead / 2).as_micros();
        if leader.source.raising || leader.source.ceiling.micros >= enough {
            return;
        }
        let ceiling = Timestamp {
            micros: base.saturating_add(self.config.ceiling_ahead).as_micros(),
            client: ClientId(u64::MAX),
        };
        leader.source.raising = log.append(Entry::Ceiling(ceiling)).is_some();
    }

    /// A ceiling is stable.
    pub(super) fn on_ceiling(
        &mut self,
        ceiling: Timestamp,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        leader.source.raising = false;
        leader.source.ceiling = leader.source.ceiling.max(ceiling);
        for (from, id, above) in std::mem::take(&mut leader.source.waiting) {
            self.on_next_timestamp(from, id, above, context, log, outbox);
        }
    }
}
