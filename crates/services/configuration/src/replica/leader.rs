//! The state that only the leader knows, and loses with its leadership: nothing here is needed to tell what has been promised.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quorate_core::log::Confirmation;
use quorate_core::{ClientId, Instant, TransactionId, View};

use crate::entry::LeaseId;
use crate::message::{Message, WriteResult};

/// The client that has asked, and the number of its question.
pub(super) type Asker = (ClientId, u64);

/// The volatile state of a leader.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) view: View,
    /// A write is appended and not yet stable; the clients that wait for it.
    pub(super) writes: BTreeMap<TransactionId, BTreeSet<Asker>>,
    /// A lease is to be granted; the clients that wait for it.
    pub(super) granting: BTreeMap<LeaseId, BTreeSet<Asker>>,
    /// A lease is to end; the clients that wait for that.
    pub(super) ending: BTreeMap<LeaseId, BTreeSet<Asker>>,
    /// No lease is taken for ended before.
    pub(super) lasts_until: BTreeMap<LeaseId, Instant>,
    /// Answers that leave once it is known that this replica still led when they were made.
    pub(super) unconfirmed: VecDeque<(Confirmation, ClientId, Message)>,
    /// The writes that it has done in this view: only a planted bug asks for them.
    pub(super) done: BTreeMap<TransactionId, WriteResult>,
}

impl Leader {
    pub(super) fn new(view: View) -> Self {
        Leader {
            view,
            writes: BTreeMap::new(),
            granting: BTreeMap::new(),
            ending: BTreeMap::new(),
            lasts_until: BTreeMap::new(),
            unconfirmed: VecDeque::new(),
            done: BTreeMap::new(),
        }
    }

    /// The questions that it has not answered.
    pub(super) fn into_askers(self) -> BTreeSet<Asker> {
        let Leader { writes, granting, ending, unconfirmed, .. } = self;
        let of_leases = granting.into_values().chain(ending.into_values());
        let waiting = writes.into_values().chain(of_leases).flatten();
        waiting
            .chain(unconfirmed.into_iter().map(|(_, client, message)| (client, message.request())))
            .collect()
    }

    /// How many requests wait for something.
    pub(super) fn waiting(&self) -> usize {
        self.writes.len() + self.granting.len() + self.ending.len() + self.unconfirmed.len()
    }
}

/// Adds somebody who waits. Nobody waits for long twice: one who asks again is answered by its last questions only.
pub(super) fn wait(waiting: &mut BTreeSet<Asker>, asker: Asker) {
    /// So many questions of all clients are answered at once when what they wait for is there.
    const ASKERS_MAX: usize = 16;
    if waiting.len() < ASKERS_MAX {
        waiting.insert(asker);
    }
    assert!(waiting.len() <= ASKERS_MAX, "{} questions wait for one thing", waiting.len());
}
