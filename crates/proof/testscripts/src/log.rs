//! The smallest log that there can be: it is told who leads, and never finds out by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::log::{Confirmation, Log, Position};
use quorate_core::{Instant, ReplicaIndex, View};

/// The messages of the logs of a group to each other.
#[derive(Clone, Debug)]
pub enum LogMessage<E> {
    /// The leader has appended.
    Append {
        /// In this view.
        view: View,
        /// Where, counted from one.
        position: usize,
        /// The entry.
        entry: E,
    },
    /// A backup holds everything up to a position.
    Holds {
        /// In this view.
        view: View,
        /// The position.
        position: usize,
    },
    /// Everything up to a position is stable.
    Stable {
        /// In this view.
        view: View,
        /// The position.
        position: usize,
    },
}

/// The log of one replica.
#[derive(Clone, Debug)]
pub struct ReplicaLog<E> {
    pub(crate) view: View,
    pub(crate) leader: ReplicaIndex,
    pub(crate) leads: bool,
    pub(crate) entries: Vec<E>,
    pub(crate) stable: usize,
    pub(crate) applied: usize,
    pub(crate) held: BTreeMap<ReplicaIndex, usize>,
    /// Until when nobody else can lead, if it knows that.
    pub(crate) lease: Option<Instant>,
    /// How many confirmations were asked for, and how many given.
    pub(crate) asked: u64,
    pub(crate) confirmed: u64,
    /// Up to where the backups were told that it is stable.
    pub(crate) told_stable: usize,
    /// The entries that were appended and not sent yet.
    pub(crate) unsent: BTreeSet<usize>,
}

impl<E> ReplicaLog<E> {
    pub(crate) fn new(leads: bool) -> Self {
        ReplicaLog {
            view: View(0),
            leader: ReplicaIndex(0),
            leads,
            entries: Vec::new(),
            stable: 0,
            applied: 0,
            held: BTreeMap::new(),
            lease: Some(lease()),
            asked: 0,
            confirmed: 0,
            told_stable: 0,
            unsent: BTreeSet::new(),
        }
    }

    /// The leader counts who holds what: it holds everything itself.
    pub(crate) fn advance(&mut self, majority: usize) {
        let mut held: Vec<usize> = self.held.values().copied().chain([self.entries.len()]).collect();
        held.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(stable) = held.get(majority - 1) {
            self.stable = self.stable.max(*stable);
        }
    }
}

/// For longer than any story.
pub(crate) fn lease() -> Instant {
    Instant::START + Duration::from_secs(1_000_000)
}

impl<E> Log<E> for ReplicaLog<E> {
    fn append(&mut self, entry: E) -> Option<Position> {
        self.leads.then(|| {
            self.entries.push(entry);
            self.unsent.insert(self.entries.len());
            Position(self.entries.len() as u64)
        })
    }

    fn leading(&self) -> Option<View> {
        self.leads.then_some(self.view)
    }

    fn leader(&self) -> ReplicaIndex {
        self.leader
    }

    fn lease_until(&self) -> Option<Instant> {
        self.lease.filter(|_| self.leads)
    }

    fn confirm(&mut self) -> Option<Confirmation> {
        self.leads.then(|| {
            self.asked += 1;
            Confirmation(self.asked)
        })
    }

    fn has_confirmed(&self, confirmation: Confirmation) -> bool {
        confirmation.0 <= self.confirmed
    }
}
