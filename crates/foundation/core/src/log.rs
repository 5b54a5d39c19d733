//! The port of a replicated log: what a machine that stands on one needs of it, and what the log needs of the machine.
//!
//! ```text
//!    message, timer, command ──► LogMachine::step ── append ──► the log: f + 1 replicas hold it durably
//!                                                                 │
//!                 every replica, in the same order ◄── LogMachine::apply
//! ```
//!
//! The machine at the replica that leads decides what is appended. All that every replica has to know is said by entries alone:
//! the state that they lead to must be the same everywhere, and is what a replica is given that lacks them. All else that
//! a leader keeps (locks, who waits for an answer) is gone with its leadership. A machine on a log keeps no records of its
//! own: what it has applied is durable.
//!
//! Protocols know this port only, and the host of a replica puts the machine and the log together.

use std::convert::Infallible;
use std::fmt::{self, Debug};

use crate::id::{ReplicaIndex, View};
use crate::machine::{Context, Input, Outbox};
use crate::time::Instant;
use crate::timestamp::Timestamp;
use crate::verify::Digester;

/// Where an entry stands in a log. Entries are counted from one; zero stands before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Before the first entry.
    pub const START: Position = Position(0);

    /// The next. None that is [believed](Position::is_believable) is the last.
    pub fn next(self) -> Self {
        Position(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// A question to the other replicas whether this one still leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Confirmation(pub u64);

/// A replicated log, as the machine that stands on it sees it.
pub trait Log<E> {
    /// Appends an entry and gives its position; none if this replica does not lead, or its group is about to go on with other
    /// replicas. Positions need not follow each other: the log has entries of its own. It is stable once
    /// [`LogMachine::apply`] is given that position, unless [`LogMachine::on_deposed`] comes before: then it may or may not
    /// become stable.
    fn append(&mut self, entry: E) -> Option<Position>;

    /// The view that this replica leads, once everything that may be stable has been applied here; none if it does not lead.
    fn leading(&self) -> Option<View>;

    /// The leader, as far as is known here.
    fn leader(&self) -> ReplicaIndex;

    /// Until when what is stable here is all that is stable anywhere, because nobody else can lead before; none if that is
    /// not known.
    fn lease_until(&self) -> Option<Instant>;

    /// Asks the others whether this replica still leads; none if it does not. [`LogMachine::on_progress`] is called when
    /// there may be an answer.
    fn confirm(&mut self) -> Option<Confirmation>;

    /// True if this replica led after the confirmation was asked for: everything that was stable then has been applied here.
    fn has_confirmed(&self, confirmation: Confirmation) -> bool;
}

/// The effects of a machine on a log: messages, timers and events, in order. It persists nothing: what it wants kept it
/// appends.
///
/// A message leaves once everything is durable that this replica had persisted before; a leader that tells of an entry waits
/// until it is stable.
pub type LogOutbox<M> =
    Outbox<<M as LogMachine>::Message, <M as LogMachine>::Timer, Infallible, <M as LogMachine>::Event>;

/// The answer of a machine that is asked for its state below a timestamp.
#[derive(Debug)]
pub enum FrozenAt<F> {
    /// It is this.
    Frozen(F),
    /// Something may still commit below the timestamp.
    NotYet,
    /// It is not known any more, or the machine orders nothing by timestamps.
    Passed,
}

/// A deterministic machine whose state is replicated by a log.
pub trait LogMachine: Sized {
    /// An entry that is appended to the log. Cloned for every replica and for the disk: share what is large.
    type Entry: Clone + Debug + PartialEq + Eq;
    /// A message between the participants of this protocol, beside those of the log's replicas.
    type Message: Clone + Debug;
    /// The timers that this machine asks to be woken for.
    type Timer: Clone + Debug + Ord;
    /// A command of its host.
    type Command: Debug;
    /// An event for its host.
    type Event: Debug;
    /// The configuration that it is built from: its identity, its limits.
    type Config: Clone;
    /// A part of the state that the entries up to some position have led to.
    type Page: Clone + Debug + PartialEq + Eq;
    /// That state as it was at one position, while more entries come.
    type Frozen: Debug;
    /// The machine that stands for all those whose entries, messages and pages are the same, whatever they make of them:
    /// this one, unless there are several. Their logs and messages are of one type.
    type Canonical: LogMachine<
            Entry = Self::Entry,
            Message = Self::Message,
            Page = Self::Page,
            Frozen = Self::Frozen,
            Canonical = Self::Canonical,
        >;

    /// A machine that has applied nothing.
    fn new(config: Self::Config) -> Self;

    /// Roughly how many bytes an entry takes.
    fn bytes(entry: &Self::Entry) -> usize;

    /// Takes one input: a message, a timer, a command, or the start of this life. [`Input::Persisted`] is never given.
    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Self::Message, Self::Timer, Self::Command>,
        log: &mut impl Log<Self::Entry>,
        outbox: &mut LogOutbox<Self>,
    );

    /// An entry is stable. Called at every replica, in order, for each entry after what [`LogMachine::replace_state`] has
    /// given. After a restart entries are applied again: what is said about them then must do no harm.
    fn apply(
        &mut self,
        context: &mut Context<'_>,
        position: Position,
        entry: &Self::Entry,
        log: &mut impl Log<Self::Entry>,
        outbox: &mut LogOutbox<Self>,
    );

    /// This replica leads a view from now on, and has applied everything that may be stable.
    fn on_leading(
        &mut self,
        context: &mut Context<'_>,
        view: View,
        log: &mut impl Log<Self::Entry>,
        outbox: &mut LogOutbox<Self>,
    );

    /// This replica leads no longer. Knowledge of a leader alone is to be forgotten.
    fn on_deposed(&mut self, context: &mut Context<'_>, outbox: &mut LogOutbox<Self>);

    /// The lease or a confirmation has moved on: what waits for one may be answered.
    fn on_progress(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Self::Entry>,
        outbox: &mut LogOutbox<Self>,
    );

    /// The state that the entries which were applied have led to, as it is now.
    fn freeze(&self) -> Self::Frozen;

    /// The same, as far as [`LogMachine::digest`] reads it: what goes along only with a state may be left out, and pages be small.
    fn freeze_data(&self) -> Self::Frozen {
        self.freeze()
    }

    /// The data of users as it is here now, for an operator that reads it: what the machine would show a transaction that begins
    /// now. [`LogMachine::digest`] reads the pages. None if this replica could show none.
    fn freeze_to_read(&self) -> Option<Self::Frozen> {
        Some(self.freeze_data())
    }

    /// The same as it was below a timestamp, for an operator that reads several shards at one: once it is certain that nothing
    /// commits below it any more that is not there. The machine sees to it that nothing will, as for any other reader. Asked again
    /// and again until then.
    fn freeze_at(&mut self, below: Timestamp) -> FrozenAt<Self::Frozen> {
        let _ = below;
        FrozenAt::Passed
    }

    /// Adds to a digest what a page holds of the data of users, as operators compare it between replicas.
    fn digest(page: &Self::Page, digester: &mut Digester);

    /// The next page of such a state; none once it has given all. The same pages however often and by whichever replica a
    /// state is read.
    fn next_page(frozen: &mut Self::Frozen) -> Option<Self::Page>;

    /// These pages are what all entries up to a position have led to: everything that was applied is in them.
    fn replace_state(&mut self, base: Position, pages: Vec<Self::Page>);
}

/// Divides what is given with its size into pages of about so many bytes: each but the last has that many, or more.
pub fn divide<T>(sized: impl Iterator<Item = (usize, T)>, bytes_max: usize) -> Vec<Vec<T>> {
    let mut pages: Vec<Vec<T>> = Vec::new();
    let mut bytes = usize::MAX;
    for (size, element) in sized {
        if bytes >= bytes_max {
            pages.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(page) = pages.last_mut() {
            page.push(element);
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_about_as_many_bytes_as_they_may() {
        let sized = [(4, 'a'), (4, 'b'), (9, 'c'), (1, 'd')];
        assert_eq!(divide(sized.into_iter(), 8), [vec!['a', 'b'], vec!['c'], vec!['d']]);
        assert_eq!(divide(sized.into_iter(), usize::MAX).len(), 1);
        assert!(divide(std::iter::empty::<(usize, char)>(), 8).is_empty());
    }
}
