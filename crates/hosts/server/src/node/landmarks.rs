//! The few messages by which the host of a replica follows a transaction, whatever its protocol: one arm for each.
//!
//! Only transactions that write are followed, and only by the replicas of the first shard that takes part in one, so that a sum over shards counts each once.

use quorate_core::{Key, ShardId, TransactionId};
use quorate_granola::message::{Message as Granola, Reply, Request};
use quorate_granola::{Answer, Class, Outcome};
use quorate_ir::{Message as Ir, Operations};
use quorate_log::Part;
use quorate_serializable_shard::Operation;
use quorate_serializable_shard::operation::Step;
use quorate_str::message::{Ending as StrEnding, Message as Str};
use quorate_tapir::{Message as TapirMessage, Tapir};
use quorate_walter::Update;
use quorate_walter::message::{Ending as WalterEnding, Message as Walter};
use quorate_wire::ProtocolMessage;

/// As many keys of a transaction are remembered.
pub(super) const KEYS_MAX: usize = 4;

/// The first keys that a transaction writes.
pub(super) type FewKeys = [Option<Key>; KEYS_MAX];

/// A moment in the life of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Landmark {
    /// The replica is asked to commit it, or to prepare it.
    Asked(TransactionId),
    /// Its coordinator takes the slow path.
    Slow(TransactionId),
    /// The replica finds another transaction in its way.
    Hindered(TransactionId),
    /// It has ended.
    Ended(TransactionId, End),
    /// Another replica is to be asked.
    Passed(TransactionId),
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Committed,
    /// After other sites were asked.
    CommittedSlowly,
    Aborted,
}

/// The landmark that the arrival of a message is at a replica of this shard.
pub(super) fn received(message: &ProtocolMessage, own: ShardId) -> Option<Landmark> {
    match message {
        ProtocolMessage::Tapir(TapirMessage::Ir(Ir::ProposeConsensus { id, operation })) => {
            let part = &operation.transaction;
            (!part.writes.is_empty() && part.participants.first() == Some(&own))
                .then_some(Landmark::Asked(id.transaction))
        }
        ProtocolMessage::Tapir(TapirMessage::Ir(Ir::FinalizeConsensus { id, .. })) => {
            Some(Landmark::Slow(id.transaction))
        }
        ProtocolMessage::Tapir(TapirMessage::Ir(Ir::ProposeInconsistent { id, operation })) => {
            let end = if Tapir::leaves_state(operation) { End::Committed } else { End::Aborted };
            Some(Landmark::Ended(id.transaction, end))
        }
        ProtocolMessage::Tapir(TapirMessage::CommitPrepared { id, .. }) => {
            Some(Landmark::Ended(id.transaction, End::Committed))
        }
        ProtocolMessage::Granola(Part::Own(Granola::Request(request))) => {
            let counts = request.class != Class::ReadOnly && request.participants.first() == Some(&own);
            counts.then_some(Landmark::Asked(request.transaction))
        }
        ProtocolMessage::Walter(Part::Own(Walter::Commit { transaction, updates, .. })) => {
            (!updates.is_empty()).then_some(Landmark::Asked(*transaction))
        }
        ProtocolMessage::Str(Part::Own(Str::Commit { transaction, writes, .. })) => {
            (!writes.is_empty()).then_some(Landmark::Asked(*transaction))
        }
        _ => None,
    }
}

/// The landmark that a message is which a replica sends.
pub(super) fn sent(message: &ProtocolMessage) -> Option<Landmark> {
    match message {
        ProtocolMessage::Tapir(TapirMessage::Ir(Ir::ConsensusReply { id, verdict, .. })) => {
            (!Tapir::is_favourable(verdict)).then_some(Landmark::Hindered(id.transaction))
        }
        ProtocolMessage::Granola(Part::Own(Granola::Reply { transaction, reply: Reply::Ended(outcome) })) => {
            let end = match outcome {
                Outcome::Committed { answer: Answer::Done(_), .. } => End::Committed,
                Outcome::Committed { .. } | Outcome::Aborted(_) | Outcome::Conflict => End::Aborted,
            };
            Some(Landmark::Ended(*transaction, end))
        }
        ProtocolMessage::Granola(Part::Own(Granola::Reply { transaction, .. }))
        | ProtocolMessage::Granola(Part::Own(Granola::NotLeading { transaction, .. }))
        | ProtocolMessage::Walter(Part::Own(
            Walter::NotLeading { transaction: Some(transaction), .. } | Walter::TooOld { transaction, .. },
        ))
        | ProtocolMessage::Str(Part::Own(
            Str::NotLeading { transaction: Some(transaction), .. } | Str::OtherPeriod { transaction, .. },
        )) => Some(Landmark::Passed(*transaction)),
        ProtocolMessage::Walter(Part::Own(Walter::CommitReply { transaction, ending, .. })) => {
            let end = match ending {
                WalterEnding::Committed { is_slow: false, .. } => End::Committed,
                WalterEnding::Committed { is_slow: true, .. } => End::CommittedSlowly,
                WalterEnding::Aborted => End::Aborted,
            };
            Some(Landmark::Ended(*transaction, end))
        }
        ProtocolMessage::Str(Part::Own(Str::CommitReply { transaction, ending })) => {
            let end = match ending {
                StrEnding::Committed { .. } => End::Committed,
                StrEnding::Aborted(_) => End::Aborted,
            };
            Some(Landmark::Ended(*transaction, end))
        }
        ProtocolMessage::Str(Part::Own(Str::Doomed { transaction, .. })) => {
            Some(Landmark::Ended(*transaction, End::Aborted))
        }
        _ => None,
    }
}

/// The first keys that the transaction of a message writes at the receiver; none of a call of a procedure, which tells its keys only if it declares them.
pub(super) fn keys(message: &ProtocolMessage) -> FewKeys {
    match message {
        ProtocolMessage::Tapir(TapirMessage::Ir(Ir::ProposeConsensus { operation, .. })) => {
            few(operation.transaction.writes.iter().map(|write| &write.key))
        }
        ProtocolMessage::Granola(Part::Own(Granola::Request(request))) => keys_of_request(request),
        ProtocolMessage::Walter(Part::Own(Walter::Commit { updates, .. })) => {
            few(updates.iter().filter_map(|update| match update {
                Update::Write { key, .. } => Some(key),
                Update::Add { set, .. } => Some(set),
                _ => None,
            }))
        }
        ProtocolMessage::Str(Part::Own(Str::Commit { writes, .. })) => {
            few(writes.iter().map(|write| &write.key))
        }
        _ => FewKeys::default(),
    }
}

fn keys_of_request(request: &Request) -> FewKeys {
    match Operation::decode(&request.operation) {
        Ok(Operation::Batch(batch)) => few(batch.steps.iter().filter_map(|step| match step {
            Step::Put { key, .. }
            | Step::Delete { key }
            | Step::Increment { key, .. }
            | Step::Append { key, .. } => Some(key),
            Step::Get { .. } | Step::Scan { .. } => None,
        })),
        Ok(Operation::Call(call)) => few(call.declared.iter().flat_map(|declared| &declared.keys)),
        // The shard refuses the rest, or it concerns procedures and no keys.
        Ok(_) | Err(_) => FewKeys::default(),
    }
}

fn few<'a>(keys: impl Iterator<Item = &'a Key>) -> FewKeys {
    let mut few = FewKeys::default();
    few.iter_mut().zip(keys).for_each(|(place, key)| *place = Some(key.clone()));
    few
}
