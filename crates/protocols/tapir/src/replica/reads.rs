//! Reads and scans: the newest versions that this replica has (TAPIR paper, section 5.1.1).
//!
//! Their results may be stale and reveal nothing that a crash could take back in a way that matters: everything that a
//! transaction has read is validated when it is prepared. So replies leave without waiting for the disk.

use std::time::Duration;

use quorate_core::machine::OutboxOf;
use quorate_core::transaction::KeyVersion;
use quorate_core::{Address, Context, Instant, Key, KeyRange, TransactionId};
use quorate_ir::Status;
use quorate_store::{PageLimits, PreparedSet};

use super::turns::Answer;
use super::{Replica, ReplicaTimer};
use crate::message::Message;

impl Replica {
    pub(super) fn on_read(
        &mut self,
        from: Address,
        transaction: TransactionId,
        key: Key,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        let (version, value) = self.participant.versions.held(&key);
        outbox.send_unordered(from, Message::ReadReply { transaction, key, version, value });
    }

    /// A read that had rather wait than be overtaken.
    pub(super) fn on_read_in_turn(
        &mut self,
        from: Address,
        transaction: TransactionId,
        key: Key,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        if self.waits_for_its_turn(from, transaction, &key, context.now) {
            outbox.send_unordered(from, Message::ReadWaits { transaction, key });
        } else {
            self.on_read(from, transaction, key, outbox);
        }
    }

    /// True if a read joins the line of its key.
    fn waits_for_its_turn(&mut self, from: Address, id: TransactionId, key: &Key, now: Instant) -> bool {
        let is_pending = is_about_to_be_written(key, &self.participant.prepared, self.agenda.keys());
        self.turns.join(from, id, key, is_pending, now)
    }

    /// Reads of several keys, as many of them as fit into the reply.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_many(
        &mut self,
        from: Address,
        transaction: TransactionId,
        request: u32,
        keys: Vec<Key>,
        in_turn: bool,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        // Keys that are absent count: a message must not keep the replica busy.
        let mut reply = self.page_limits(u32::MAX).begin();
        let (mut found, mut waiting) = (Vec::new(), Vec::new());
        for key in keys {
            if reply.is_full() {
                break;
            }
            if in_turn && self.waits_for_its_turn(from, transaction, &key, context.now) {
                reply.add(&key, None);
                waiting.push(key);
                continue;
            }
            let (version, value) = self.participant.versions.held(&key);
            reply.add(&key, value.as_ref());
            found.push(KeyVersion { key, version, value });
        }
        let answered = found.len() + waiting.len();
        assert!(
            answered <= self.config.scan_page_max,
            "{transaction} is told of {answered} keys in one message"
        );
        outbox.send_unordered(from, Message::ReadManyReply { transaction, request, found, waiting });
    }

    /// Answers the reads whose turn it is, and asks to be woken for the others.
    pub(super) fn attend_turns(&mut self, context: &Context<'_>, outbox: &mut OutboxOf<Self>) {
        /// A coordinator that has not asked again for so long is gone.
        const PATIENCE: Duration = Duration::from_secs(2);

        self.pass_on_changes();
        if self.turns.is_empty() {
            return;
        }
        if self.ir.status() != Status::Normal {
            return self.turns.clear();
        }
        let (prepared, waiting) = (&self.participant.prepared, self.agenda.keys());
        let is_pending = |key: &Key| is_about_to_be_written(key, prepared, waiting);
        for Answer { to, transaction, key } in self.turns.take(is_pending, context.now, PATIENCE) {
            self.on_read(to, transaction, key, outbox);
        }
        if let Some(at) = self.turns.wakes_at()
            && self.turns_timer.is_none_or(|planned| at < planned)
        {
            self.turns_timer = Some(at);
            outbox.set_timer(ReplicaTimer::Turn, at - context.now);
        }
        let wakes_at = self.turns.wakes_at();
        assert!(
            wakes_at.is_none_or(|at| self.turns_timer.is_some_and(|planned| planned <= at)),
            "a turn begins at {wakes_at:?}, and is looked at {:?}",
            self.turns_timer
        );
    }

    pub(super) fn on_scan(
        &mut self,
        from: Address,
        transaction: TransactionId,
        request: u32,
        range: KeyRange,
        limit: u32,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        let (keys, next) = self.participant.versions.scan(&range, self.page_limits(limit));
        outbox.send_unordered(from, Message::ScanReply { transaction, request, keys, next });
    }

    /// The limits of a page, if so many keys are wanted.
    pub(super) fn page_limits(&self, limit: u32) -> PageLimits {
        PageLimits::of_scan(limit, self.config.scan_page_max)
    }
}

/// True if a transaction that is prepared, or waits to be, writes the key.
fn is_about_to_be_written(key: &Key, prepared: &PreparedSet, waiting: &PreparedSet) -> bool {
    let nobody = TransactionId::default();
    prepared.other_writers(key, nobody).next().is_some()
        || waiting.other_writers(key, nobody).next().is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{ClientId, Timestamp, Transaction, Write};
    use quorate_store::Prepared;

    use super::*;

    #[test]
    fn a_key_is_about_to_be_written_whether_the_writer_is_prepared_or_waits_to_be() {
        let mut writes = PreparedSet::default();
        let transaction = Arc::new(Transaction {
            writes: vec![Write { key: Key::from("a"), value: None }],
            ..Transaction::default()
        });
        let id = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };
        writes.insert(id, Prepared { transaction, timestamp: Timestamp::ZERO, since: Instant::START });
        let none = PreparedSet::default();
        let (a, b) = (Key::from("a"), Key::from("b"));
        assert!(is_about_to_be_written(&a, &writes, &none) && is_about_to_be_written(&a, &none, &writes));
        assert!(!is_about_to_be_written(&a, &none, &none) && !is_about_to_be_written(&b, &writes, &writes));
    }
}
