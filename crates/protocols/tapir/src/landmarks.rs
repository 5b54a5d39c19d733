//! The messages by which a host follows a transaction, and those that people read.

use quorate_core::ShardId;
use quorate_core::caption::{Caption, Captioned, shown, variant};
use quorate_core::landmark::{End, FewKeys, Landmark, few};
use quorate_ir::{Message as Ir, Operations};

use crate::message::{Message, Tapir};

/// The landmark that the arrival of a message is at a replica of this shard.
pub(crate) fn received(message: &Message, own: ShardId) -> Option<Landmark> {
    match message {
        Message::Ir(Ir::ProposeConsensus { id, operation }) => {
            let part = &operation.transaction;
            (!part.writes.is_empty() && part.participants.first() == Some(&own))
                .then_some(Landmark::Asked(id.transaction))
        }
        Message::Ir(Ir::FinalizeConsensus { id, .. }) => Some(Landmark::Slow(id.transaction)),
        Message::Ir(Ir::ProposeInconsistent { id, operation }) => {
            let end = if Tapir::leaves_state(operation) { End::Committed } else { End::Aborted };
            Some(Landmark::Ended(id.transaction, end))
        }
        Message::CommitPrepared { id, .. } => Some(Landmark::Ended(id.transaction, End::Committed)),
        _ => None,
    }
}

/// The landmark that a message is which a replica sends.
pub(crate) fn sent(message: &Message) -> Option<Landmark> {
    match message {
        Message::Ir(Ir::ConsensusReply { id, verdict, .. }) => {
            (!Tapir::is_favourable(verdict)).then_some(Landmark::Hindered(id.transaction))
        }
        _ => None,
    }
}

/// The first keys that the transaction of a message writes.
pub(crate) fn keys_written(message: &Message) -> FewKeys {
    match message {
        Message::Ir(Ir::ProposeConsensus { operation, .. }) => {
            few(operation.transaction.writes.iter().map(|write| &write.key))
        }
        _ => FewKeys::default(),
    }
}

impl Captioned for Message {
    fn caption(&self) -> Option<Caption> {
        Some(match self {
            // A client measures the way to replicas whenever it likes.
            Message::ClockProbe { .. } | Message::ClockProbeReply { .. } => return None,
            Message::Ir(operation) => match operation {
                Ir::ProposeConsensus { .. } => Caption::new("PREPARE", ""),
                Ir::ConsensusReply { verdict, .. } => Caption::new("VOTE", variant(verdict).to_uppercase()),
                Ir::FinalizeConsensus { verdict, .. } => {
                    Caption::new("FINALIZE", variant(verdict).to_uppercase())
                }
                Ir::ProposeInconsistent { operation, .. } if Tapir::leaves_state(operation) => {
                    Caption::new("COMMIT", "")
                }
                Ir::ProposeInconsistent { .. } => Caption::new("ABORT", ""),
                Ir::InconsistentReply { .. } => Caption::new("RECORDED", ""),
                other => Caption::of(other),
            },
            Message::CommitPrepared { .. } => Caption::new("COMMIT", ""),
            Message::Recorded { .. } => Caption::new("RECORDED", ""),
            Message::Read { key, .. } => Caption::new("READ", shown(key)),
            other => Caption::of(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{Ballot, Key, Timestamp, Transaction, TransactionId, Value, View, Write};
    use quorate_ir::OperationId;

    use super::*;
    use crate::message::{Decision, Prepare, Vote};

    fn vote(verdict: Vote) -> Message {
        let (id, view) = (OperationId::default(), View::default());
        Message::Ir(Ir::ConsensusReply { id, view, verdict, finalized: false })
    }

    #[test]
    fn messages_have_the_names_of_the_paper() {
        let (id, transaction) = (OperationId::default(), TransactionId::default());
        let caption = |message: Message| message.caption();
        let named = |name: &str, detail: &str| Some(Caption::new(name, detail));
        assert_eq!(caption(vote(Vote::Ok)), named("VOTE", "OK"));
        assert_eq!(caption(vote(Vote::Retry(Timestamp::ZERO))), named("VOTE", "RETRY"));
        let abort = Ir::ProposeInconsistent { id, operation: Decision::Abort { last: Timestamp::ZERO } };
        assert_eq!(caption(Message::Ir(abort)), named("ABORT", ""));
        let key = Key::from("alice");
        assert_eq!(caption(Message::Read { transaction, key: key.clone() }), named("READ", "alice"));
        let value = Some(Value::from(vec![b'x'; 1 << 20]));
        let reply = Message::ReadReply { transaction, key, version: Timestamp::ZERO, value };
        assert_eq!(caption(reply), named("READ-REPLY", ""));
    }

    #[test]
    fn a_prepare_is_a_landmark_at_its_first_shard_alone_and_only_if_it_writes() {
        let prepare = |keys: &[&str]| {
            let writes = keys.iter().map(|key| Write { key: Key::from(key.to_string()), value: None });
            let participants = vec![ShardId(2), ShardId(3)];
            let writes = writes.collect();
            let transaction = Arc::new(Transaction { writes, participants, ..Transaction::default() });
            let operation = Prepare { transaction, timestamp: Timestamp::ZERO, first: None };
            Message::Ir(Ir::ProposeConsensus { id: OperationId::default(), operation })
        };
        let asked = Some(Landmark::Asked(TransactionId::default()));
        assert_eq!(received(&prepare(&["a"]), ShardId(2)), asked);
        assert_eq!(received(&prepare(&["a"]), ShardId(3)), None);
        assert_eq!(received(&prepare(&[]), ShardId(2)), None);
        let keys = keys_written(&prepare(&["a", "b", "c", "d", "e"]));
        assert_eq!(keys, ["a", "b", "c", "d"].map(|key| Some(Key::from(key))));
        assert_eq!(sent(&vote(Vote::Ok)), None);
        assert_eq!(sent(&vote(Vote::Abstain)), Some(Landmark::Hindered(TransactionId::default())));
    }

    fn commit() -> Decision {
        let (transaction, timestamp) = (Arc::default(), Timestamp::ZERO);
        Decision::Commit { transaction, timestamp, last: timestamp }
    }

    fn abort() -> Decision {
        Decision::Abort { last: Timestamp::ZERO }
    }

    #[test]
    fn a_transaction_ends_as_it_was_decided_and_however_that_is_told() {
        let transaction = TransactionId { sequence: 3, ..TransactionId::default() };
        let id = OperationId { transaction, number: 1 };
        let ended = |message: &Message| match received(message, ShardId(1)) {
            Some(Landmark::Ended(ended, end)) if ended == transaction => Some(end),
            _ => None,
        };
        let told = |operation| Message::Ir(Ir::ProposeInconsistent { id, operation });
        assert_eq!(ended(&told(commit())), Some(End::Committed));
        assert_eq!(ended(&told(abort())), Some(End::Aborted));
        assert_eq!(
            ended(&Message::CommitPrepared { id, timestamp: Timestamp::ZERO, together: true }),
            Some(End::Committed)
        );
        let finalize = |verdict| {
            let (view, ballot) = (View::default(), Ballot::ORIGINAL);
            Message::Ir(Ir::FinalizeConsensus { id, verdict, view, ballot })
        };
        assert_eq!(received(&finalize(Vote::Ok), ShardId(1)), Some(Landmark::Slow(transaction)));
        // All else marks nothing.
        assert_eq!(received(&vote(Vote::Abstain), ShardId(1)), None);
        assert_eq!(received(&Message::Ir(Ir::FinalizeInconsistent { id }), ShardId(1)), None);
        let read = Message::Read { transaction, key: Key::from("a") };
        assert_eq!((received(&read, ShardId(1)), sent(&read)), (None, None));
        assert_eq!(keys_written(&read), FewKeys::default());
        assert_eq!(sent(&finalize(Vote::Abort)), None, "only a vote tells of another transaction");
    }

    #[test]
    fn captions_tell_prepares_votes_and_outcomes_apart() {
        let (id, transaction, view) = (OperationId::default(), TransactionId::default(), View::default());
        let table = [
            (
                Ir::FinalizeConsensus { id, verdict: Vote::Abort, view, ballot: Ballot::ORIGINAL },
                "FINALIZE",
                "ABORT",
            ),
            (Ir::ProposeInconsistent { id, operation: commit() }, "COMMIT", ""),
            (Ir::ProposeInconsistent { id, operation: abort() }, "ABORT", ""),
            (Ir::InconsistentReply { id, view }, "RECORDED", ""),
            (Ir::HigherView { view }, "HIGHER-VIEW", ""),
            (
                Ir::ProposeConsensus {
                    id,
                    operation: Prepare {
                        transaction: Arc::default(),
                        timestamp: Timestamp::ZERO,
                        first: None,
                    },
                },
                "PREPARE",
                "",
            ),
        ];
        for (message, name, detail) in table {
            assert_eq!(Message::Ir(message).caption(), Some(Caption::new(name, detail)));
        }
        let short = Message::CommitPrepared { id, timestamp: Timestamp::ZERO, together: true };
        assert_eq!(short.caption(), Some(Caption::new("COMMIT", "")));
        let recorded = Message::Recorded { view: View(1), transactions: vec![transaction] };
        assert_eq!(recorded.caption(), Some(Caption::new("RECORDED", "")));
        let sent = quorate_core::ClockTime::default();
        assert_eq!(Message::ClockProbe { sent, deadlines: true }.caption(), None);
        assert_eq!(Message::ClockProbeReply { sent, arrived: sent }.caption(), None);
        assert_eq!(Message::Forgotten { transaction }.caption(), Some(Caption::new("FORGOTTEN", "")));
    }
}
