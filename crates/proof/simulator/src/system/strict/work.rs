//! The work of receivers for TAPIR's messages and commands, for processors that take their time.

use quorate_core::Transaction;
use quorate_core::command::Command;
use quorate_ir::Message as Ir;
use quorate_tapir::message::Decision;
use quorate_tapir::{Message, Replica};

use crate::world::costs::{Operation, Work};

/// No replica looks at more keys for one page of a scan, or one reply to a read, whatever it is asked for.
const SCANNED_MAX: usize = 1_000;

/// The work of the receiver of a message.
pub(crate) fn of_message(receiver: Option<&Replica>, message: &Message) -> Work {
    match message {
        Message::Read { .. } | Message::ReadInTurn { .. } => Work::new(Operation::Read, 1),
        Message::ReadMany { keys, .. } => Work::new(Operation::Read, keys.len().min(SCANNED_MAX)),
        Message::Scan { limit, .. } | Message::QuorumScan { limit, .. } => {
            Work::new(Operation::Read, (*limit as usize).min(SCANNED_MAX))
        }
        Message::QuorumRead { keys, .. } | Message::ReadValidated { keys, .. } => {
            Work::new(Operation::Read, keys.len())
        }
        Message::Ir(message) => of_operation(message),
        Message::CommitPrepared { id, .. } => {
            let prepared = receiver.and_then(|replica| replica.prepared().entry(id.transaction));
            Work::new(Operation::Commit, prepared.map_or(0, |prepared| keys_of(&prepared.transaction)))
        }
        Message::ReadReply { .. } => Work::new(Operation::Reply, 1),
        Message::Recorded { transactions, .. } => Work::new(Operation::Reply, transactions.len()),
        Message::ReadManyReply { found, .. } => Work::new(Operation::Reply, found.len()),
        Message::ScanReply { keys, .. } => Work::new(Operation::Reply, keys.len()),
        Message::HeldReads { found, .. } => Work::new(Operation::Reply, found.len()),
        Message::QuorumReadReply { found, .. } => Work::new(Operation::Reply, found.len()),
        Message::QuorumScanReply { page, .. } => Work::new(Operation::Reply, page.keys.len()),
        Message::ReadValidatedReply { found, .. } => Work::new(Operation::Reply, found.len()),
        Message::Decisions { decisions } => {
            let keys = decisions.iter().map(|(_, decision)| keys_of_decision(decision)).sum();
            Work::new(Operation::Commit, keys)
        }
        _ => Work::new(Operation::Control, 0),
    }
}

fn of_operation(message: &Ir<quorate_tapir::Tapir>) -> Work {
    match message {
        Ir::ProposeConsensus { operation, .. } => {
            Work::new(Operation::Prepare, keys_of(&operation.transaction))
        }
        Ir::ProposeInconsistent { operation: decision @ Decision::Commit { .. }, .. } => {
            Work::new(Operation::Commit, keys_of_decision(decision))
        }
        Ir::ProposeInconsistent { operation: Decision::Abort { .. }, .. } => Work::new(Operation::Abort, 0),
        Ir::ConsensusReply { .. } | Ir::InconsistentReply { .. } | Ir::Confirm { .. } => {
            Work::new(Operation::Reply, 1)
        }
        _ => Work::new(Operation::Control, 0),
    }
}

fn keys_of_decision(decision: &Decision) -> usize {
    match decision {
        Decision::Commit { transaction, .. } => keys_of(transaction),
        Decision::Abort { .. } => 0,
    }
}

fn keys_of(transaction: &Transaction) -> usize {
    transaction.reads.len() + transaction.writes.len() + transaction.ranges.len()
}

/// The work of a coordinator for a command.
pub(crate) fn of_command(command: &Command) -> Work {
    match command {
        Command::ReadOnly { keys, .. } | Command::GetMany { keys, .. } => {
            Work::new(Operation::Command, keys.len())
        }
        Command::Route(_) | Command::Reachable { .. } => Work::new(Operation::Control, 0),
        _ => Work::new(Operation::Command, 1),
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{KeyRange, TransactionId};

    use super::*;

    #[test]
    fn nobody_is_kept_busy_by_a_number() {
        let range = KeyRange { from: Default::default(), to: None };
        let scan =
            Message::Scan { transaction: TransactionId::default(), request: 1, range, limit: u32::MAX };
        assert_eq!(of_message(None, &scan), Work::new(Operation::Read, SCANNED_MAX));
    }
}
