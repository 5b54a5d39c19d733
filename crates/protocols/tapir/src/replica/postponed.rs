//! Requests that arrive while the replica changes views wait for the view to start.

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Context, Instant};
use quorate_ir::Status;

use super::{Ir, Replica};
use crate::message::{Decision, Message};

/// Why a request is dropped that a view would be waited for with.
const TOO_MUCH_WAITS: &str = "too much waits for a view";

impl Replica {
    /// True if a message of a client could be answered only by a replica that is normal, and this one is about to be.
    pub(super) fn postpones(&self, from: Address, message: &Message) -> bool {
        let is_about_to_be = self.ir.status() == Status::ViewChanging && !self.ir.is_answering();
        is_about_to_be && matches!(from, Address::Client(_)) && needs_a_view(message)
    }

    /// Keeps a request for when a view has started.
    pub(super) fn postpone(
        &mut self,
        from: Address,
        message: Message,
        now: Instant,
        outbox: &mut OutboxOf<Self>,
    ) {
        let bytes = bytes_of(&message);
        if self.postponed.push(from, message, bytes, now) {
            outbox.ignored(TOO_MUCH_WAITS);
        }
    }

    /// Answers what was asked before the view started.
    pub(super) fn attend_postponed(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        if self.postponed.is_empty() || self.ir.status() != Status::Normal {
            return;
        }
        for (from, message) in self.postponed.take(context.now) {
            if self.postpones(from, &message) {
                // One before it has shown that this replica has missed something.
                self.postpone(from, message, context.now, outbox);
            } else {
                self.on_message(from, message, context, outbox);
            }
        }
    }
}

/// True if only a replica that is normal answers.
fn needs_a_view(message: &Message) -> bool {
    match message {
        Message::Read { .. }
        | Message::ReadMany { .. }
        | Message::ReadInTurn { .. }
        | Message::Scan { .. }
        | Message::QuorumRead { .. }
        | Message::QuorumScan { .. }
        | Message::ReadValidated { .. }
        | Message::CommitPrepared { .. } => true,
        Message::Ir(message) => matches!(
            message,
            Ir::ProposeInconsistent { .. }
                | Ir::ProposeConsensus { .. }
                | Ir::FinalizeInconsistent { .. }
                | Ir::FinalizeConsensus { .. }
        ),
        _ => false,
    }
}

/// Roughly how many bytes a request has.
fn bytes_of(message: &Message) -> usize {
    const HEADER_BYTES: usize = 100;
    let contents = match message {
        Message::Ir(Ir::ProposeConsensus { operation, .. }) => operation.transaction.bytes(),
        Message::Ir(Ir::ProposeInconsistent { operation: Decision::Commit { transaction, .. }, .. }) => {
            transaction.bytes()
        }
        Message::ReadValidated { keys, validated, .. } => {
            let told = validated.iter().flat_map(|validation| &validation.reads).map(|read| &read.key);
            keys.iter().chain(told).map(|key| key.len()).sum()
        }
        Message::ReadMany { keys, .. } | Message::QuorumRead { keys, .. } => {
            keys.iter().map(|key| key.len()).sum()
        }
        _ => 0,
    };
    HEADER_BYTES + contents
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{
        Ballot, ClockTime, Key, KeyRange, ReadVersion, Timestamp, Transaction, TransactionId, Value, View,
        Write,
    };
    use quorate_ir::OperationId;

    use super::*;
    use crate::message::{Prepare, Validation, Vote};

    const AT: Timestamp = Timestamp::ZERO;

    fn id() -> OperationId {
        OperationId::default()
    }

    /// A transaction of so many bytes, roughly.
    fn contents(bytes: usize) -> Arc<Transaction> {
        let write = Write { key: Key::from("a"), value: Some(Value::from(vec![b'x'; bytes])) };
        Arc::new(Transaction { writes: vec![write], ..Transaction::default() })
    }

    fn prepare(bytes: usize) -> Message {
        let operation = Prepare { transaction: contents(bytes), timestamp: AT, first: None };
        Message::Ir(Ir::ProposeConsensus { id: id(), operation })
    }

    fn decision(operation: Decision) -> Message {
        Message::Ir(Ir::ProposeInconsistent { id: id(), operation })
    }

    fn commit(bytes: usize) -> Message {
        decision(Decision::Commit { transaction: contents(bytes), timestamp: AT, last: AT })
    }

    fn finalize() -> Message {
        let (verdict, view, ballot) = (Vote::Ok, View(0), Ballot::ORIGINAL);
        Message::Ir(Ir::FinalizeConsensus { id: id(), verdict, view, ballot })
    }

    fn keys(lengths: &[usize]) -> Vec<Key> {
        lengths.iter().map(|length| Key::from(vec![b'k'; *length])).collect()
    }

    fn read_many(lengths: &[usize]) -> Message {
        let transaction = TransactionId::default();
        Message::ReadMany { transaction, request: 1, keys: keys(lengths), in_turn: false }
    }

    fn quorum_read(lengths: &[usize]) -> Message {
        let transaction = TransactionId::default();
        Message::QuorumRead { transaction, round: 1, timestamp: AT, keys: keys(lengths), in_turn: false }
    }

    fn read_validated(lengths: &[usize], told: &[usize]) -> Message {
        let read = |key| ReadVersion { key, version: AT, deleted: false };
        let reads = keys(told).into_iter().map(read).collect();
        let validated = vec![Validation { timestamp: AT, reads }];
        let transaction = TransactionId::default();
        Message::ReadValidated { transaction, keys: keys(lengths), otherwise: None, validated }
    }

    #[test]
    fn what_only_a_normal_replica_answers_waits_for_a_view() {
        let (transaction, key) = (TransactionId::default(), Key::from("k"));
        let range = KeyRange { from: key.clone(), to: None };
        let waiting = [
            Message::Read { transaction, key: key.clone() },
            Message::ReadInTurn { transaction, key: key.clone() },
            read_many(&[1]),
            Message::Scan { transaction, request: 1, range: range.clone(), limit: 1 },
            quorum_read(&[1]),
            Message::QuorumScan { transaction, round: 1, timestamp: AT, range, limit: 1 },
            read_validated(&[1], &[]),
            Message::CommitPrepared { id: id(), timestamp: AT, together: true },
            prepare(1),
            commit(1),
            Message::Ir(Ir::FinalizeInconsistent { id: id() }),
            finalize(),
        ];
        for message in waiting {
            assert!(needs_a_view(&message), "{message:?}");
        }
        let sent = ClockTime::from_micros(1);
        let others = [
            Message::ClockProbe { sent, deadlines: true },
            Message::Recover { transaction, participants: vec![], timestamp: AT },
            Message::Validated { timestamp: AT, reads: vec![] },
            Message::Ir(Ir::HigherView { view: View(1) }),
            Message::Ir(Ir::StartViewChange { view: View(1) }),
        ];
        for message in others {
            assert!(!needs_a_view(&message), "{message:?}");
        }
    }

    #[test]
    fn what_waits_counts_with_what_it_carries() {
        let header = bytes_of(&finalize());
        assert_eq!(header, 100);
        let table = [
            (prepare(5_000), contents(5_000).bytes()),
            (commit(5_000), contents(5_000).bytes()),
            (decision(Decision::Abort { last: AT }), 0),
            (read_many(&[3, 4]), 7),
            (quorum_read(&[3, 4, 5]), 12),
            (read_validated(&[3, 4], &[5]), 12),
            (read_validated(&[], &[5, 6]), 11),
            (Message::Read { transaction: TransactionId::default(), key: Key::from("long") }, 0),
        ];
        for (message, contents) in table {
            assert_eq!(bytes_of(&message), header + contents, "{message:?}");
        }
    }
}
