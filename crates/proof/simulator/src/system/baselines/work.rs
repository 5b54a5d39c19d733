//! The work of receivers for messages and commands, for processors that take their time.

use quorate_baselines::entry::Entry;
use quorate_baselines::{Message, Replica};
use quorate_core::command::{Command, Outcome};
use quorate_core::{Transaction, TransactionId};
use quorate_log::Part;
use quorate_log::member::{Item, MessageOf};

use crate::world::costs::{Operation, Work};

/// No replica looks at more keys for one page of a scan, whatever it is asked for.
const SCANNED_MAX: usize = 1_000;

/// The work of the receiver of a message.
pub(super) fn of_message(receiver: Option<&Replica>, message: &MessageOf<Replica>) -> Work {
    match message {
        Part::Own(message) => of_own(receiver, message),
        Part::Log(quorate_log::Message::Prepare { entries, .. }) => of_entries(receiver, entries),
        Part::Log(_) => Work::new(Operation::Control, 0),
    }
}

fn of_own(receiver: Option<&Replica>, message: &Message) -> Work {
    match message {
        Message::Read { .. } => Work::new(Operation::Read, 1),
        Message::Scan { limit, .. } => Work::new(Operation::Read, (*limit as usize).min(SCANNED_MAX)),
        Message::ReadCurrent { keys, .. } => Work::new(Operation::Read, keys.len()),
        // The coordinating replica does what a client does for a commit.
        Message::Coordinate { parts, .. } => Work::new(Operation::Command, parts.len()),
        Message::Prepare { part, .. } | Message::Validate { part, .. } => {
            Work::new(Operation::Prepare, keys_of(part))
        }
        Message::Decide { outcome: Outcome::Aborted, .. } => Work::new(Operation::Abort, 0),
        Message::Decide { transaction, outcome: Outcome::Committed(_), .. } => {
            Work::new(Operation::Commit, keys_of_prepared(receiver, *transaction))
        }
        Message::ReadReply { .. }
        | Message::CoordinateReply { .. }
        | Message::PrepareReply { .. }
        | Message::ValidateReply { .. } => Work::new(Operation::Reply, 1),
        Message::ScanReply { keys, .. } => Work::new(Operation::Reply, keys.len()),
        Message::ReadCurrentReply { found, .. } => Work::new(Operation::Reply, found.len()),
        _ => Work::new(Operation::Control, 0),
    }
}

/// A backup installs at once what it is told of a transaction, all keys of a message taken together.
fn of_entries(receiver: Option<&Replica>, entries: &[quorate_log::Entry<Item<Replica>>]) -> Work {
    let keys = entries.iter().map(|entry| match &entry.payload {
        Item::Own(Entry::Prepared(prepared)) => keys_of(&prepared.part),
        Item::Own(Entry::Decided { transaction, outcome: Outcome::Committed(_) }) => {
            keys_of_prepared(receiver, *transaction)
        }
        Item::Own(_) | Item::NextGroup(_) => 1,
    });
    match keys.sum() {
        0 => Work::new(Operation::Control, 0),
        keys => Work::new(Operation::Commit, keys),
    }
}

/// The keys that a transaction holds at a replica, none if it is not prepared there.
fn keys_of_prepared(receiver: Option<&Replica>, transaction: TransactionId) -> usize {
    let prepared = receiver.and_then(|replica| replica.prepared().entry(transaction));
    prepared.map_or(0, |prepared| keys_of(&prepared.transaction))
}

fn keys_of(transaction: &Transaction) -> usize {
    transaction.reads.len() + transaction.writes.len() + transaction.ranges.len()
}

/// The work of a coordinator for a command.
pub(super) fn of_command(command: &Command) -> Work {
    match command {
        Command::ReadOnly { keys, .. } => Work::new(Operation::Command, keys.len()),
        Command::Route(_) | Command::Reachable { .. } => Work::new(Operation::Control, 0),
        _ => Work::new(Operation::Command, 1),
    }
}
