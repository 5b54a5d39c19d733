//! The work that messages and commands make for their receivers, for processors that take their time.

use quorate_core::command::Command;
use quorate_log::Part;
use quorate_log::member::{Item, MessageOf};
use quorate_walter::message::{Found, Wanted};
use quorate_walter::{Entry, Message, Page, Replica};

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

/// How many things a page of a state holds.
fn things_in(page: &Page) -> usize {
    match page {
        Page::Registers(registers) => registers.len(),
        Page::Counts(counts) => counts.len(),
        Page::Containers(containers) => containers.len(),
        Page::Journal { commits, retained, .. } => {
            commits.iter().chain(retained).map(|commit| commit.updates.len()).sum()
        }
        Page::Bounds { .. }
        | Page::Removals { .. }
        | Page::Joined(_)
        | Page::Partial {}
        | Page::Locks(_)
        | Page::Ended(_) => 0,
    }
}

fn of_own(message: &Message) -> Work {
    match message {
        Message::Read { wanted, .. } | Message::ReadCopy { wanted, .. } => {
            let keys = |wanted: &Wanted| match wanted {
                Wanted::Register(_) | Wanted::Count { .. } | Wanted::Container(_) => 1,
                Wanted::InFlight(_) => 0,
                Wanted::Range(_, limit) | Wanted::Elements { limit, .. } | Wanted::Members { limit, .. } => {
                    (*limit as usize).min(SCANNED_MAX)
                }
            };
            Work::new(Operation::Read, wanted.iter().map(keys).sum())
        }
        Message::ReadReply { found, .. } | Message::CopyReply { found, .. } => {
            let keys = |found: &Found| match found {
                Found::Register { .. } | Found::Count(_) | Found::Container { .. } => 1,
                Found::Elsewhere { own, .. } => own.len(),
                Found::InFlight(_) => 0,
                Found::Range { entries, .. } => entries.len(),
                Found::Elements { counts, .. } => counts.len(),
                Found::Members { members, .. } => members.len(),
            };
            Work::new(Operation::Reply, found.iter().map(keys).sum())
        }
        Message::Commit { updates, .. } => Work::new(Operation::Prepare, updates.len()),
        Message::Prepare { keys, .. } => Work::new(Operation::Prepare, keys.len()),
        Message::CommitReply { .. } | Message::Vote { .. } => Work::new(Operation::Reply, 1),
        Message::Release { .. } => Work::new(Operation::Abort, 0),
        Message::Propagate { commits, .. } => {
            Work::new(Operation::Commit, commits.iter().map(|commit| commit.updates.len()).sum())
        }
        Message::Relay { commits } => {
            Work::new(Operation::Commit, commits.iter().map(|commit| commit.updates.len()).sum())
        }
        Message::State { page, .. } => Work::new(Operation::Reply, things_in(page)),
        Message::TooOld { .. }
        | Message::Join {}
        | Message::Expected { .. }
        | Message::Fetch { .. }
        | Message::Abandoned { .. }
        | Message::NeverCommitted { .. }
        | Message::AskLast { .. }
        | Message::AskShare { .. }
        | Message::Last { .. }
        | Message::Frozen { .. }
        | Message::NotLeading { .. }
        | Message::AskOutcome { .. }
        | Message::Forgotten { .. }
        | Message::AskMilestone { .. }
        | Message::MilestoneReply { .. }
        | Message::Progress { .. } => Work::new(Operation::Control, 0),
    }
}

/// A backup installs at once what it is told of, all keys of a message taken together.
fn of_entries(entries: &[quorate_log::Entry<Item<Replica>>]) -> Work {
    let keys = entries.iter().map(|entry| match &entry.payload {
        Item::Own(Entry::Commit(commit)) => commit.updates.len(),
        Item::Own(Entry::Received(commits)) => commits.iter().map(|commit| commit.updates.len()).sum(),
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
