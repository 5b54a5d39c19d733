//! The smallest log that there can be: it is told who leads, and never finds out by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_baselines::Entry;
use quorate_core::log::{Confirmation, Log, Position};
use quorate_core::{Instant, ReplicaIndex, View};

/// What the logs of a group say to each other.
#[derive(Clone, Debug)]
pub(super) enum LogMessage {
    /// The leader has appended.
    Append { view: View, position: usize, entry: Entry },
    /// A backup holds everything up to a position.
    Holds { view: View, position: usize },
    /// Everything up to a position is stable.
    Stable { view: View, position: usize },
}

/// The log of one replica.
#[derive(Clone, Debug)]
pub(super) struct ReplicaLog {
    pub(super) view: View,
    pub(super) leader: ReplicaIndex,
    pub(super) leads: bool,
    pub(super) entries: Vec<Entry>,
    pub(super) stable: usize,
    pub(super) applied: usize,
    pub(super) held: BTreeMap<ReplicaIndex, usize>,
    /// Until when nobody else can lead, if it knows that.
    pub(super) lease: Option<Instant>,
    /// How many confirmations were asked for, and how many given.
    pub(super) asked: u64,
    pub(super) confirmed: u64,
    /// Up to where the backups were told that it is stable.
    pub(super) told_stable: usize,
    /// What was appended and not sent yet.
    pub(super) unsent: BTreeSet<usize>,
}

impl ReplicaLog {
    pub(super) fn new(leads: bool) -> Self {
        ReplicaLog {
            view: View(0),
            leader: ReplicaIndex(0),
            leads,
            entries: Vec::new(),
            stable: 0,
            applied: 0,
            held: BTreeMap::new(),
            lease: Some(Instant::START + Duration::from_secs(1_000_000)),
            asked: 0,
            confirmed: 0,
            told_stable: 0,
            unsent: BTreeSet::new(),
        }
    }

    /// The leader counts who holds what: it holds everything itself.
    pub(super) fn advance(&mut self, majority: usize) {
        let mut held: Vec<usize> = self.held.values().copied().chain([self.entries.len()]).collect();
        held.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(stable) = held.get(majority - 1) {
            self.stable = self.stable.max(*stable);
        }
    }
}

impl Log<Entry> for ReplicaLog {
    fn append(&mut self, entry: Entry) -> Option<Position> {
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
