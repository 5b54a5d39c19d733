//! The work that messages and commands make for their receivers, for processors that take their time.

use quorate_core::command::Command;
use quorate_log::Part;
use quorate_log::member::{Item, MessageOf};
use quorate_str::message::{Found, Wanted};
use quorate_str::{Entry, Message, Replica};

use crate::world::costs::{Operation, Work};

/// No replica looks at more keys for one page of a scan, whatever it is asked for.
const SCANNED_MAX: usize = 1_000;

/// The work of the receiver of a message.
pub(super) fn of_message(message: &MessageOf<Replica>) -> Work {
    match message {
        Part::Own(message) => of_own(message),
        Part::Log(quorate_log::Message::Prepare { entries, .. }) => of_entries(entries),
        Part::Log(_) => Work::new(Operation::Control, 0),
    }
}

fn of_own(message: &Message) -> Work {
    match message {
        Message::Read { wanted, .. } | Message::ReadAt { wanted, .. } => {
            let keys = |wanted: &Wanted| match wanted {
                Wanted::Key(_) => 1,
                Wanted::Range { limit, .. } => (*limit as usize).min(SCANNED_MAX),
            };
            Work::new(Operation::Read, wanted.iter().map(keys).sum())
        }
        Message::ReadReply { found, .. } | Message::ReadAtReply { found, .. } => {
            let keys = |found: &Found| match found {
                Found::Key(_) => 1,
                Found::Range { keys, .. } => keys.len(),
            };
            Work::new(Operation::Reply, found.iter().map(keys).sum())
        }
        Message::Commit { writes, .. } | Message::Prepare { writes, .. } => {
            Work::new(Operation::Prepare, writes.len())
        }
        Message::Replicate { keys, .. } => Work::new(Operation::Prepare, keys.len()),
        Message::CommitReply { .. } | Message::Vote { .. } | Message::Prepared { .. } => {
            Work::new(Operation::Reply, 1)
        }
        _ => Work::new(Operation::Control, 0),
    }
}

/// A backup installs at once what it is told of, all keys of a message taken together.
fn of_entries(entries: &[quorate_log::Entry<Item<Replica>>]) -> Work {
    let keys = entries.iter().map(|entry| match &entry.payload {
        Item::Own(Entry::Prepared(prepared)) => prepared.writes.len(),
        Item::Own(_) | Item::NextGroup(_) => 1,
    });
    match keys.sum() {
        0 => Work::new(Operation::Control, 0),
        keys => Work::new(Operation::Commit, keys),
    }
}

/// The work of a coordinator for a command.
pub(super) fn of_command(command: &Command) -> Work {
    match command {
        Command::ReadOnly { keys, .. } | Command::GetMany { keys, .. } => {
            Work::new(Operation::Command, keys.len())
        }
        Command::Route(_) | Command::Reachable { .. } => Work::new(Operation::Control, 0),
        _ => Work::new(Operation::Command, 1),
    }
}
