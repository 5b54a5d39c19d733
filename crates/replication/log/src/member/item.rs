//! The entries in the log of a member.

use std::fmt;

use quorate_core::log::LogMachine;

use crate::{Membership, Payload};

/// The content of an entry.
pub enum Item<M: LogMachine> {
    /// The machine has appended it.
    Own(M::Entry),
    /// The epoch ends here: the group goes on with these replicas.
    NextGroup(Membership),
}

// Derived, these would ask for the same of the machine itself.
impl<M: LogMachine> Clone for Item<M> {
    fn clone(&self) -> Self {
        match self {
            Item::Own(entry) => Item::Own(entry.clone()),
            Item::NextGroup(next) => Item::NextGroup(next.clone()),
        }
    }
}

impl<M: LogMachine> PartialEq for Item<M> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Item::Own(one), Item::Own(other)) => one == other,
            (Item::NextGroup(one), Item::NextGroup(other)) => one == other,
            _ => false,
        }
    }
}

impl<M: LogMachine> Eq for Item<M> {}

impl<M: LogMachine> fmt::Debug for Item<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Own(entry) => entry.fmt(formatter),
            Item::NextGroup(next) => write!(formatter, "next group {:?} in {}", next.members(), next.epoch()),
        }
    }
}

impl<M: LogMachine> Payload for Item<M> {
    type Page = M::Page;
    type Frozen = M::Frozen;

    fn bytes(&self) -> usize {
        match self {
            Item::Own(entry) => M::bytes(entry),
            Item::NextGroup(next) => next.members().len(),
        }
    }

    fn next_group(&self) -> Option<&Membership> {
        match self {
            Item::Own(_) => None,
            Item::NextGroup(next) => Some(next),
        }
    }
}
