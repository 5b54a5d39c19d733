//! Puts: each goes to all replicas of its shard as soon as the client asks for it (TAPIR paper, section 7.1).
//!
//! A put is complete when all replicas that can be expected to have answered, and f + 1 of one view have recorded it. A
//! replica that does not take its timestamp, because it comes too late, makes it be put anew with a later one: the
//! same value then has two versions at most, and the later one stands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::{
    ClockTime, Context, Instant, Key, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, Value, View,
};
use quorate_ir::{InconsistentCall, OperationId};

use super::{Coordinator, Ir, Open, Out};
use crate::message::{Message, Put};
use crate::rules::Plant;

/// The puts of one transaction.
#[derive(Debug, Default)]
pub(super) struct Puts {
    /// Those that are on their way.
    flights: Vec<Flight>,
    /// Those that wait for others: of one key, one follows the other.
    waiting: VecDeque<(Key, Option<Value>)>,
    /// The shards that something was put to, sorted.
    pub(super) shards: Vec<ShardId>,
    /// The earliest timestamp of those that are complete.
    pub(super) earliest: Option<Timestamp>,
    /// How many were put anew.
    pub(super) retries: u32,
    /// True if some have not been recorded by all replicas.
    pub(super) is_slow: bool,
}

/// A put follows the clock of a replica no further than this above the replica's refusal.
const LEAD_MICROS_MAX: u64 = 30_000_000;

/// A put on its way.
#[derive(Debug)]
struct Flight {
    /// Its name.
    put: TransactionId,
    shard: ShardId,
    operation: Arc<Put>,
    recorded: InconsistentCall,
    /// For each replica, the view in which it has recorded it.
    views: Vec<Option<View>>,
    /// Replicas that did not take it.
    refused: Vec<ReplicaIndex>,
    sent_at: Instant,
    resend_after: Duration,
}

impl Puts {
    /// True if nothing is on its way or waits to be.
    pub(super) fn are_complete(&self) -> bool {
        self.flights.is_empty() && self.waiting.is_empty()
    }
}

impl Flight {
    fn message(&self) -> Message {
        let id = OperationId { transaction: self.put, number: OperationId::INCONSISTENT };
        Message::Ir(Ir::ProposeInconsistent { id, operation: self.operation.clone() })
    }
}

impl Coordinator {
    pub(super) fn on_put(
        &mut self,
        id: TransactionId,
        key: Key,
        value: Option<Value>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.running_or_invalid(id, outbox) else { return };
        if let Err(limit) = open.buffer.put(key.clone(), value.clone()) {
            return self.fail_limit(id, limit, outbox);
        }
        open.puts.waiting.push_back((key, value));
        self.send_waiting(id, context, outbox);
    }

    /// Sends the puts that need not wait any longer.
    fn send_waiting(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let in_turn = self.config.puts_in_turn;
        while let Some(open) = self.transactions.get_mut(&id) {
            let Puts { flights, waiting, .. } = &mut open.puts;
            let may_go = |at: &usize| {
                let (key, _) = &waiting[*at];
                let follows = flights.iter().any(|flight| flight.operation.key == *key)
                    || waiting.iter().take(*at).any(|(earlier, _)| earlier == key);
                !follows && (!in_turn || flights.is_empty())
            };
            let Some(at) = (0..waiting.len()).find(may_go) else { return };
            let Some((key, value)) = waiting.remove(at) else { return };
            let shard = open.routes.keyspace.shard_of(&key).id;
            if let Err(at) = open.puts.shards.binary_search(&shard) {
                open.puts.shards.insert(at, shard);
            }
            assert!(
                !in_turn || open.puts.flights.is_empty(),
                "{id} has {} puts on their way, and puts go in turn",
                open.puts.flights.len()
            );
            self.send_put(id, shard, key, value, context, outbox);
        }
    }

    fn send_put(
        &mut self,
        id: TransactionId,
        shard: ShardId,
        key: Key,
        value: Option<Value>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let timestamp = self.next_timestamp(context.clock);
        let put = TransactionId { client: self.config.client, sequence: self.next_put, attempt: 0 };
        self.next_put += 1;
        let Some(group) = self.groups.group(shard) else { return };
        let flight = Flight {
            put,
            shard,
            operation: Arc::new(Put { key, value, timestamp }),
            recorded: InconsistentCall::new(group.size),
            views: vec![None; group.size.replicas()],
            refused: Vec::new(),
            sent_at: context.now,
            resend_after: self.config.resend_timeout,
        };
        for replica in self.groups.replicas(shard) {
            outbox.send(replica, flight.message());
        }
        let Some(open) = self.transactions.get_mut(&id) else { return };
        assert!(
            open.puts.flights.iter().all(|other| other.operation.key != flight.operation.key),
            "two puts of {:?} of {id} are on their way",
            flight.operation.key
        );
        open.puts.flights.push(flight);
        let known = self.by_put.insert(put, id);
        assert!(known.is_none(), "{put} is a put of {id}, and of {known:?}");
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
    }

    /// A timestamp above every earlier one of this client, or two puts of a key could have the same.
    fn next_timestamp(&mut self, clock: ClockTime) -> Timestamp {
        let clock = clock.saturating_add(self.lead);
        let before = self.last_timestamp;
        self.last_timestamp = if self.config.rules.has(Plant::RepeatedTimestamps) {
            let micros = clock.as_micros() / 50_000 * 50_000;
            Timestamp { micros, client: self.config.client }
        } else {
            self.last_timestamp.successor(clock, self.config.client)
        };
        // Replicas tell timestamps; the last one of all has none above it.
        assert!(
            self.last_timestamp > before
                || before.micros == u64::MAX
                || self.config.rules.has(Plant::RepeatedTimestamps),
            "{:?} is given to a put, and {before:?} was before",
            self.last_timestamp
        );
        self.last_timestamp
    }

    fn flight(&mut self, put: TransactionId) -> Option<(TransactionId, usize, &mut Open)> {
        let id = *self.by_put.get(&put)?;
        let open = self.transactions.get_mut(&id)?;
        let at = open.puts.flights.iter().position(|flight| flight.put == put)?;
        Some((id, at, open))
    }

    /// A replica has recorded a put.
    pub(super) fn on_recorded(
        &mut self,
        from: ReplicaId,
        put: TransactionId,
        view: View,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some((id, at, open)) = self.flight(put) else { return };
        let flight = &mut open.puts.flights[at];
        if flight.shard != from.shard {
            return;
        }
        flight.recorded.on_reply(from.index, view);
        if let Some(known) = flight.views.get_mut(usize::from(from.index.0)) {
            *known = (*known).max(Some(view));
        }
        self.complete_if_recorded(id, put, context, outbox);
    }

    /// A put is complete if everybody has answered who can be expected to.
    fn complete_if_recorded(
        &mut self,
        id: TransactionId,
        put: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get(&id) else { return };
        let Some(flight) = open.puts.flights.iter().find(|flight| flight.put == put) else { return };
        let shard = flight.shard;
        let is_waited_for = |index: &ReplicaIndex| {
            self.groups.is_expected(ReplicaId { shard, index: *index }) && !flight.refused.contains(index)
        };
        let one_suffices = self.config.rules.has(Plant::OneReplicaSuffices);
        let is_complete =
            flight.recorded.is_successful() && !flight.recorded.missing().any(|index| is_waited_for(&index));
        if is_complete || (one_suffices && flight.views.iter().any(Option::is_some)) {
            self.on_complete(id, put, context, outbox);
        }
    }

    fn on_complete(
        &mut self,
        id: TransactionId,
        put: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some((_, at, open)) = self.flight(put) else { return };
        let flight = open.puts.flights.swap_remove(at);
        let timestamp = flight.operation.timestamp;
        assert!(flight.put == put, "{put} is complete, and {} is taken off its way", flight.put);
        open.puts.earliest = Some(open.puts.earliest.map_or(timestamp, |known| known.min(timestamp)));
        open.puts.is_slow |= flight.recorded.missing().next().is_some();
        assert_eq!(
            self.by_put.remove(&put),
            Some(id),
            "{put} is complete, and is not known to be on its way"
        );
        self.send_waiting(id, context, outbox);
        self.finish_if_complete(id, context.clock, outbox);
    }

    /// A replica did not record a put, because its timestamp lies below what the replica takes. If it can still become
    /// complete without this one it goes on; else it is put anew.
    pub(super) fn on_late(
        &mut self,
        from: ReplicaId,
        put: TransactionId,
        refusal: Timestamp,
        clock: ClockTime,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some((id, at, open)) = self.flight(put) else { return };
        let flight = &mut open.puts.flights[at];
        if flight.shard != from.shard {
            return;
        }
        if flight.recorded.is_successful() {
            flight.refused.push(from.index);
            return self.complete_if_recorded(id, put, context, outbox);
        }
        let flight = open.puts.flights.swap_remove(at);
        open.puts.retries += 1;
        assert_eq!(self.by_put.remove(&put), Some(id), "{put} is late, and is not known to be on its way");
        // A put just above the refusal would lie below the next one, so it follows the replica's clock. That of one replica may
        // have leapt, and no other would record the put then; refusals are bounded by the clocks of f others.
        self.last_timestamp = self.last_timestamp.max(refusal);
        let clock = clock.as_micros().min(refusal.micros.saturating_add(LEAD_MICROS_MAX));
        self.lead = Duration::from_micros(clock.saturating_sub(context.clock.as_micros()));
        let Put { key, value, .. } = flight.operation.as_ref();
        self.send_put(id, flight.shard, key.clone(), value.clone(), context, outbox);
    }

    /// A replica did not record a put, because its timestamp is too far ahead. Gives how far, if nobody has taken it and
    /// nothing else was put, so that surely nothing has happened.
    pub(super) fn on_clock_ahead(&mut self, from: ReplicaId, put: TransactionId) -> Option<TransactionId> {
        self.lead = Duration::ZERO;
        let (id, at, open) = self.flight(put)?;
        let is_alone = open.puts.flights.len() == 1 && open.puts.earliest.is_none() && open.puts.retries == 0;
        let flight = &mut open.puts.flights[at];
        if flight.shard == from.shard && !flight.refused.contains(&from.index) {
            flight.refused.push(from.index);
        }
        (is_alone && flight.refused.len() == flight.views.len()).then_some(id)
    }

    /// Sends puts again to the replicas that have not answered, or goes on without them; gives when to look again.
    pub(super) fn attend_puts(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let resend_max = self.config.resend_timeout * 8;
        let open = self.transactions.get_mut(&id)?;
        let mut looked_at = Vec::new();
        for flight in &mut open.puts.flights {
            looked_at.push(flight.put);
            if context.now - flight.sent_at < flight.resend_after {
                continue;
            }
            let shard = flight.shard;
            for index in flight.recorded.missing() {
                self.groups.note_silent(ReplicaId { shard, index });
            }
            if flight.recorded.is_successful() {
                continue;
            }
            flight.sent_at = context.now;
            flight.resend_after = (flight.resend_after * 2).min(resend_max);
            assert!(!flight.recorded.is_successful(), "{} is sent again, and f + 1 have it", flight.put);
            flight.refused.clear();
            let greatest = flight.views.iter().flatten().max().copied();
            for index in flight.recorded.missing() {
                let replica = ReplicaId { shard, index };
                match (flight.views[usize::from(index.0)], greatest) {
                    (Some(own), Some(view)) if own < view => {
                        outbox.send(replica, Message::Ir(Ir::HigherView { view }));
                    }
                    _ => {}
                }
                outbox.send(replica, flight.message());
            }
        }
        for put in looked_at {
            self.complete_if_recorded(id, put, context, outbox);
        }
        let open = self.transactions.get(&id)?;
        open.puts.flights.iter().map(|flight| flight.sent_at + flight.resend_after).min()
    }

    /// Forgets the puts of a transaction: what is on its way may arrive or not.
    pub(super) fn forget_puts(&mut self, open: &Open) {
        for flight in &open.puts.flights {
            let known = self.by_put.remove(&flight.put);
            assert!(known.is_some(), "{} is on its way, and is not known to be", flight.put);
        }
    }
}
