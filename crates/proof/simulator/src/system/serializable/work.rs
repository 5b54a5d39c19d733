//! The work of receivers for messages and commands, for processors that take their time.

use quorate_core::Value;
use quorate_core::command::Command;
use quorate_granola::entry::{Body, Vote};
use quorate_granola::message::{Message, Reply};
use quorate_granola::{Class, Outcome};
use quorate_log::Part;
use quorate_log::member::{Item, MessageOf};
use quorate_serializable_shard::operation::Operation as Asked;
use quorate_wire::Serializable;

use crate::world::costs::{Operation, Work};

/// The work of the receiver of a message.
pub(super) fn of_message(message: &MessageOf<Serializable>) -> Work {
    match message {
        Part::Own(message) => of_own(message),
        Part::Log(quorate_log::Message::Prepare { entries, .. }) => of_entries(entries),
        Part::Log(_) => Work::new(Operation::Control, 0),
    }
}

fn of_own(message: &Message) -> Work {
    match message {
        Message::Request(request) if request.class == Class::ReadOnly => {
            Work::new(Operation::Read, keys_of(&request.operation))
        }
        // It runs where it is asked for, sooner or later.
        Message::Request(request) => Work::new(Operation::Commit, keys_of(&request.operation)),
        Message::Reply { reply: Reply::Ended(Outcome::Committed { .. }), .. } => {
            Work::new(Operation::Reply, 1)
        }
        _ => Work::new(Operation::Control, 0),
    }
}

/// A backup runs what the log says.
fn of_entries(entries: &[quorate_log::Entry<Item<Serializable>>]) -> Work {
    let keys = entries.iter().map(|entry| match &entry.payload {
        Item::Own(entry) => match &entry.body {
            Body::Voted(voted) if voted.vote == Vote::Commit => voted.operation.as_ref().map_or(0, keys_of),
            _ => 0,
        },
        Item::NextGroup(_) => 1,
    });
    match keys.sum() {
        0 => Work::new(Operation::Control, 0),
        keys => Work::new(Operation::Commit, keys),
    }
}

/// How many keys an operation is about, more or less.
fn keys_of(operation: &Value) -> usize {
    match Asked::decode(operation) {
        Ok(Asked::Batch(batch)) => batch.conditions.len() + batch.steps.len(),
        Ok(_) | Err(_) => 1,
    }
}

/// The work of a coordinator for a command.
pub(super) fn of_command(command: &Command) -> Work {
    match command {
        Command::ReadOnly { keys, .. } | Command::GetMany { keys, .. } => {
            Work::new(Operation::Command, keys.len())
        }
        Command::Route(_) | Command::Reachable { .. } | Command::Observe { .. } => {
            Work::new(Operation::Control, 0)
        }
        Command::Execute { parts, .. } => Work::new(Operation::Command, parts.values().map(keys_of).sum()),
        _ => Work::new(Operation::Command, 1),
    }
}
