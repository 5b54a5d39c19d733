//! The log as the machine sees it.

use quorate_core::log::{Confirmation, Log, LogMachine, Position};
use quorate_core::{Instant, ReplicaIndex, View};

use super::{Item, ItemOf};
use crate::{Payload, Replica};

/// The log, within one call of the machine.
pub(super) struct Port<'a, M: LogMachine> {
    pub(super) replica: &'a mut Replica<ItemOf<M>>,
    /// The view that this replica leads, once the machine knows.
    pub(super) leading: Option<View>,
    /// True if the machine has been given everything that is known to be stable.
    pub(super) has_all: bool,
}

impl<M: LogMachine> Log<M::Entry> for Port<'_, M> {
    fn append(&mut self, entry: M::Entry) -> Option<Position> {
        self.leading?;
        self.replica.append(Item::Own(entry))
    }

    fn leading(&self) -> Option<View> {
        self.leading
    }

    fn leader(&self) -> ReplicaIndex {
        self.replica.leader(self.replica.view())
    }

    fn lease_until(&self) -> Option<Instant> {
        self.leading.filter(|_| self.has_all).and_then(|_| self.replica.lease_until())
    }

    fn confirm(&mut self) -> Option<Confirmation> {
        self.leading?;
        self.replica.confirm().map(Confirmation)
    }

    fn has_confirmed(&self, confirmation: Confirmation) -> bool {
        self.leading.is_some() && self.has_all && self.replica.has_confirmed(confirmation.0)
    }
}

/// How far a leader's lease and its confirmations have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    lease_until: Option<Instant>,
    confirmed: u64,
}

impl Progress {
    pub(super) fn of<P: Payload>(replica: &Replica<P>) -> Self {
        Progress { lease_until: replica.lease_until(), confirmed: replica.confirmed() }
    }
}
