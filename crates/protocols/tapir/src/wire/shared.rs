//! Messages that hold the same transaction more than once.
//!
//! A replica may know a transaction as several prepares (one for each timestamp that was tried) and as a decision. Near
//! the limit of a transaction two copies would exceed a frame, so here each distinct transaction is written once, and
//! the prepares and the decision name it by its position. Reading restores the sharing.

use std::sync::Arc;

use quorate_codec::field::{Nested, Optional, Repeated, Varint};
use quorate_codec::{Fault, Through, alternatives, message};
use quorate_core::command::Outcome;
use quorate_core::{Ballot, Timestamp, Transaction, TransactionId, View};
use quorate_ir::{ConsensusEntry, InconsistentEntry, OperationEntries, State};

use super::AcceptedOutcome;
use crate::message::{Decision, Prepare, RecordedVote, Vote};
use crate::{Message, Tapir};

/// The distinct transactions of a message, by position.
type Transactions = Vec<Arc<Transaction>>;

fn position_of(transactions: &mut Transactions, transaction: &Arc<Transaction>) -> u32 {
    let known = transactions.iter().position(|known| Arc::ptr_eq(known, transaction) || known == transaction);
    known.unwrap_or_else(|| {
        transactions.push(Arc::clone(transaction));
        transactions.len() - 1
    }) as u32
}

fn at_position(transactions: &Transactions, position: u32) -> Result<Arc<Transaction>, Fault> {
    let transaction = transactions.get(position as usize);
    transaction
        .cloned()
        .ok_or(Fault::Meaningless("a prepare or decision names a transaction that is not there"))
}

/// [`OperationEntries`] with every distinct transaction once.
pub struct SharedEntries {
    transactions: Transactions,
    inconsistent: Option<SharedInconsistentEntry>,
    consensus: Vec<SharedConsensusEntry>,
}

/// An [`InconsistentEntry`] whose transaction is a position.
struct SharedInconsistentEntry {
    decision: SharedDecision,
    executed: bool,
}

/// A [`Decision`] whose transaction is a position.
enum SharedDecision {
    Commit { transaction: u32, timestamp: Timestamp, last: Timestamp },
    Abort { last: Timestamp },
}

/// A [`ConsensusEntry`] whose transaction is a position.
struct SharedConsensusEntry {
    number: u32,
    transaction: u32,
    timestamp: Timestamp,
    verdict: Vote,
    finalized: Option<Ballot>,
    first: Option<Timestamp>,
}

message!(SharedEntries, "ir.OperationEntries", {
    1 transactions: Repeated<Nested>,
    2 inconsistent: Optional<Nested>,
    3 consensus: Repeated<Nested>,
});

message!(SharedInconsistentEntry, "ir.InconsistentEntry", {
    1 decision: Nested,
    2 executed: Varint,
});

alternatives!(SharedDecision, "ir.InconsistentEntry.Decision", messages {
    1 Commit { 1 transaction: Varint, 2 timestamp: Nested, 10 last: Nested }
    2 Abort { 10 last: Nested }
});

message!(SharedConsensusEntry, "ir.ConsensusEntry", {
    1 number: Varint,
    2 transaction: Varint,
    3 timestamp: Nested,
    4 verdict: Nested,
    5 finalized: Optional<Varint>,
    6 first: Optional<Nested>,
});

impl Through<OperationEntries<Tapir>> for SharedEntries {
    fn of(entries: &OperationEntries<Tapir>) -> Self {
        let mut transactions = Transactions::new();
        let inconsistent = entries.inconsistent.as_ref().map(|entry| SharedInconsistentEntry {
            decision: match &entry.operation {
                Decision::Commit { transaction, timestamp, last } => SharedDecision::Commit {
                    transaction: position_of(&mut transactions, transaction),
                    timestamp: *timestamp,
                    last: *last,
                },
                Decision::Abort { last } => SharedDecision::Abort { last: *last },
            },
            executed: entry.executed,
        });
        let consensus = entries.consensus.iter().map(|entry| SharedConsensusEntry {
            number: entry.number,
            transaction: position_of(&mut transactions, &entry.operation.transaction),
            timestamp: entry.operation.timestamp,
            verdict: entry.verdict,
            finalized: match entry.state {
                State::Tentative => None,
                State::Finalized(ballot) => Some(ballot),
            },
            first: entry.operation.first,
        });
        let consensus = consensus.collect();
        SharedEntries { transactions, inconsistent, consensus }
    }

    fn restore(self) -> Result<OperationEntries<Tapir>, Fault> {
        let SharedEntries { transactions, inconsistent, consensus } = self;
        let inconsistent = match inconsistent {
            None => None,
            Some(SharedInconsistentEntry { decision, executed }) => Some(InconsistentEntry {
                operation: match decision {
                    SharedDecision::Commit { transaction, timestamp, last } => {
                        let transaction = at_position(&transactions, transaction)?;
                        Decision::Commit { transaction, timestamp, last }
                    }
                    SharedDecision::Abort { last } => Decision::Abort { last },
                },
                executed,
            }),
        };
        let consensus = consensus.into_iter().map(|entry| {
            let transaction = at_position(&transactions, entry.transaction)?;
            Ok(ConsensusEntry {
                number: entry.number,
                operation: Prepare { transaction, timestamp: entry.timestamp, first: entry.first },
                verdict: entry.verdict,
                state: entry.finalized.map_or(State::Tentative, State::Finalized),
            })
        });
        Ok(OperationEntries { inconsistent, consensus: consensus.collect::<Result<_, Fault>>()? })
    }
}

/// [`Message::CoordinatorChangeReply`] with every distinct transaction once.
pub(crate) struct SharedCoordinatorChangeReply {
    transaction: TransactionId,
    ballot: Ballot,
    view: View,
    outcome: Option<Outcome>,
    transactions: Transactions,
    committed: Option<u32>,
    votes: Vec<SharedRecordedVote>,
    accepted: Option<(Ballot, Outcome)>,
    settled: bool,
}

/// A [`RecordedVote`] whose transaction is a position.
struct SharedRecordedVote {
    number: u32,
    transaction: u32,
    timestamp: Timestamp,
    vote: Vote,
    finalized: Option<Ballot>,
    held: bool,
    first: Option<Timestamp>,
}

message!(SharedCoordinatorChangeReply, "tapir.CoordinatorChangeReply", {
    1 transaction: Nested,
    2 ballot: Varint,
    3 view: Varint,
    4 outcome: Optional<Nested>,
    5 transactions: Repeated<Nested>,
    6 committed: Optional<Varint>,
    7 votes: Repeated<Nested>,
    8 accepted: Optional<AcceptedOutcome>,
    10 settled: Varint,
});

message!(SharedRecordedVote, "tapir.RecordedVote", {
    1 number: Varint,
    2 transaction: Varint,
    3 timestamp: Nested,
    4 vote: Nested,
    5 finalized: Optional<Varint>,
    6 held: Varint,
    7 first: Optional<Nested>,
});

impl Through<Message> for SharedCoordinatorChangeReply {
    /// # Panics
    /// If the message is not a CoordinatorChangeReply; the table of [`Message`] names this type for no other.
    fn of(message: &Message) -> Self {
        let Message::CoordinatorChangeReply {
            transaction,
            ballot,
            view,
            outcome,
            committed,
            votes,
            accepted,
            settled,
        } = message
        else {
            unreachable!("only a CoordinatorChangeReply is encoded this way");
        };
        let mut transactions = Transactions::new();
        let committed = committed.as_ref().map(|committed| position_of(&mut transactions, committed));
        let votes = votes.iter().map(|recorded| SharedRecordedVote {
            number: recorded.number,
            transaction: position_of(&mut transactions, &recorded.prepare.transaction),
            timestamp: recorded.prepare.timestamp,
            vote: recorded.vote,
            finalized: recorded.finalized,
            held: recorded.held,
            first: recorded.prepare.first,
        });
        let votes = votes.collect();
        SharedCoordinatorChangeReply {
            transaction: *transaction,
            ballot: *ballot,
            view: *view,
            outcome: *outcome,
            transactions,
            committed,
            votes,
            accepted: *accepted,
            settled: *settled,
        }
    }

    fn restore(self) -> Result<Message, Fault> {
        let transactions = self.transactions;
        let votes = self.votes.into_iter().map(|recorded| {
            let transaction = at_position(&transactions, recorded.transaction)?;
            Ok(RecordedVote {
                number: recorded.number,
                prepare: Prepare { transaction, timestamp: recorded.timestamp, first: recorded.first },
                vote: recorded.vote,
                finalized: recorded.finalized,
                held: recorded.held,
            })
        });
        let votes = votes.collect::<Result<_, Fault>>()?;
        let committed = self.committed.map(|position| at_position(&transactions, position)).transpose()?;
        Ok(Message::CoordinatorChangeReply {
            transaction: self.transaction,
            ballot: self.ballot,
            view: self.view,
            outcome: self.outcome,
            committed,
            votes,
            accepted: self.accepted,
            settled: self.settled,
        })
    }
}

#[cfg(test)]
mod tests {
    use quorate_codec::Wire;
    use quorate_core::{ClientId, Key, Value, Write};

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    /// A transaction that writes a kilobyte to a key.
    fn contents(key: &str) -> Arc<Transaction> {
        let value = Some(Value::from(vec![b'x'; 1_000]));
        let writes = vec![Write { key: Key::from(key.to_owned()), value }];
        Arc::new(Transaction { writes, ..Transaction::default() })
    }

    fn prepare(transaction: &Arc<Transaction>, micros: u64) -> Prepare {
        let first = (micros > 1).then_some(at(1));
        Prepare { transaction: transaction.clone(), timestamp: at(micros), first }
    }

    fn entry(number: u32, transaction: &Arc<Transaction>, state: State) -> ConsensusEntry<Tapir> {
        let (operation, verdict) = (prepare(transaction, u64::from(number)), Vote::Retry(at(9)));
        ConsensusEntry { number, operation, verdict, state }
    }

    fn reply(committed: Option<&Arc<Transaction>>, votes: &[&Arc<Transaction>]) -> Message {
        let vote = |(number, transaction): (u32, &&Arc<Transaction>)| RecordedVote {
            number,
            prepare: prepare(transaction, u64::from(number)),
            vote: Vote::Ok,
            finalized: (number > 1).then_some(Ballot(number)),
            held: number == 2,
        };
        Message::CoordinatorChangeReply {
            transaction: TransactionId { client: ClientId(1), sequence: 4, attempt: 2 },
            ballot: Ballot(7),
            view: View(3),
            outcome: committed.map(|_| Outcome::Committed(at(5))),
            committed: committed.cloned(),
            votes: (1..).zip(votes).map(vote).collect(),
            accepted: Some((Ballot(6), Outcome::Aborted)),
            settled: committed.is_none(),
        }
    }

    #[test]
    fn prepares_and_decisions_of_a_record_are_read_back_with_their_transactions() {
        let (one, other) = (contents("a"), contents("b"));
        let decided = |operation| Some(InconsistentEntry { operation, executed: true });
        let commit = |transaction: &Arc<Transaction>| {
            decided(Decision::Commit { transaction: transaction.clone(), timestamp: at(2), last: at(3) })
        };
        let (tentative, finalized) = (State::Tentative, State::Finalized(Ballot(4)));
        let table = [
            (None, vec![]),
            (decided(Decision::Abort { last: at(8) }), vec![]),
            (commit(&one), vec![]),
            (commit(&one), vec![entry(1, &one, tentative), entry(2, &other, finalized)]),
            (commit(&other), vec![entry(1, &one, finalized), entry(2, &other, tentative)]),
            (None, vec![entry(1, &one, tentative), entry(2, &other, tentative), entry(3, &one, finalized)]),
        ];
        for (inconsistent, consensus) in table {
            let entries = OperationEntries::<Tapir> { inconsistent, consensus };
            let restored = SharedEntries::of(&entries).restore();
            assert_eq!(restored.map_err(|_| "a fault"), Ok(entries));
        }
    }

    /// Near the limit of a transaction two copies would exceed a frame.
    #[test]
    fn a_transaction_is_written_once_whether_the_same_or_an_equal_one_is_named_again() {
        let (one, same, other) = (contents("a"), contents("a"), contents("b"));
        let length = |message: &Message| {
            let restored = Message::decode(&quorate_codec::encode(message)).expect("it was just written");
            assert_eq!(restored, *message);
            message.encoded_len()
        };
        let single = length(&reply(None, &[&one]));
        assert!((1_000..1_200).contains(&single), "{single}");
        assert!(length(&reply(None, &[&one, &one, &one])) < single + 200);
        assert!(length(&reply(None, &[&one, &same, &one])) < single + 200);
        assert!(length(&reply(Some(&same), &[&one, &one])) < single + 200);
        assert!(length(&reply(Some(&other), &[&one, &other])) > 2_000);
        let restored = Message::decode(&quorate_codec::encode(&reply(Some(&other), &[&one, &other])));
        let Ok(Message::CoordinatorChangeReply { committed: Some(committed), votes, .. }) = restored else {
            panic!("{restored:?}")
        };
        assert!(Arc::ptr_eq(&committed, &votes[1].prepare.transaction), "reading restores the sharing");
    }

    #[test]
    fn a_position_beyond_the_transactions_of_a_message_is_a_fault() {
        let transactions = vec![contents("a"), contents("b")];
        assert_eq!(at_position(&transactions, 1).ok(), Some(contents("b")));
        assert!(at_position(&transactions, 2).is_err() && at_position(&Vec::new(), 0).is_err());
    }
}
