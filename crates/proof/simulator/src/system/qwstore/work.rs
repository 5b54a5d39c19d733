//! The work of receivers for messages and commands, for processors that take their time.

use quorate_core::command::Command;
use quorate_ir::Message as Ir;
use quorate_qwstore::Message;

use crate::world::costs::{Operation, Work};

/// No replica looks at more keys for one page of a scan, whatever it is asked for.
const SCANNED_MAX: usize = 1_000;

/// The work of the receiver of a message.
pub(super) fn of_message(message: &Message) -> Work {
    match message {
        Message::Read { .. } => Work::new(Operation::Read, 1),
        Message::Scan { limit, .. } => Work::new(Operation::Read, (*limit as usize).min(SCANNED_MAX)),
        Message::Ir(Ir::ProposeInconsistent { .. }) => Work::new(Operation::Commit, 1),
        Message::Puts { puts } => Work::new(Operation::Commit, puts.len()),
        Message::ReadReply { .. } | Message::Ir(Ir::InconsistentReply { .. }) => {
            Work::new(Operation::Reply, 1)
        }
        Message::ScanReply { keys, .. } => Work::new(Operation::Reply, keys.len()),
        _ => Work::new(Operation::Control, 0),
    }
}

/// The work of a coordinator for a command.
pub(super) fn of_command(command: &Command) -> Work {
    match command {
        Command::ReadOnly { keys, .. } => Work::new(Operation::Command, keys.len()),
        Command::Route(_) | Command::Reachable { .. } => Work::new(Operation::Control, 0),
        _ => Work::new(Operation::Command, 1),
    }
}
