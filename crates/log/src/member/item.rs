//! What stands in the log of a member.

use std::fmt;

use quorate_core::log::LogMachine;

use crate::Payload;

/// What an entry says.
pub enum Item<M: LogMachine> {
    /// The machine has appended it.
    Own(M::Entry),
}

// Derived, these would ask for the same of the machine itself.
impl<M: LogMachine> Clone for Item<M> {
    fn clone(&self) -> Self {
        match self {
            Item::Own(entry) => Item::Own(entry.clone()),
        }
    }
}

impl<M: LogMachine> PartialEq for Item<M> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Item::Own(one), Item::Own(other)) => one == other,
        }
    }
}

impl<M: LogMachine> Eq for Item<M> {}

impl<M: LogMachine> fmt::Debug for Item<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Own(entry) => entry.fmt(formatter),
        }
    }
}

impl<M: LogMachine> Payload for Item<M> {
    type Page = M::Page;
    type Frozen = M::Frozen;

    fn bytes(&self) -> usize {
        match self {
            Item::Own(entry) => M::bytes(entry),
        }
    }
}
