//! Clients that pipeline: now and then a transaction comes after another one of its client, whose commit is under way. If that one commits, the snapshot of
//! the later one has to include it.

use std::collections::BTreeMap;

use quorate_core::command::{AtSite, Command, SiteVersion};
use quorate_core::{ClientId, Random, TransactionId};

use super::{Clients, Work};
use crate::cluster::Cluster;
use crate::system::System;

/// A transaction comes with this probability after one whose commit is under way.
const SHARE: f64 = 0.5;

/// The transactions that come after others.
#[derive(Debug)]
pub(super) struct Pipelines {
    random: Random,
    /// The later ones, each with the one that it comes after.
    later: BTreeMap<TransactionId, TransactionId>,
    /// The places of both kinds, as far as their clients were told.
    places: BTreeMap<TransactionId, AtSite>,
}

impl Pipelines {
    pub(super) fn new(seed: u64) -> Self {
        Pipelines {
            random: Random::stream(seed, "pipelines"),
            later: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    /// A client is no more, and nobody is told of its transactions.
    pub(super) fn bury(&mut self, client: ClientId) {
        self.later.retain(|later, _| later.client != client);
        self.places.retain(|id, _| id.client != client);
    }

    /// A client was told where its transaction stands. Gives a pair of which the later one does not include the other, if this completes one.
    fn note(&mut self, id: TransactionId, place: &AtSite) -> Vec<(TransactionId, TransactionId)> {
        let concerns = |(later, earlier): &(&TransactionId, &TransactionId)| **later == id || **earlier == id;
        let pairs: Vec<_> =
            self.later.iter().filter(concerns).map(|(later, earlier)| (*later, *earlier)).collect();
        if pairs.is_empty() {
            return pairs;
        }
        self.places.insert(id, place.clone());
        let excludes = |(later, earlier): &(TransactionId, TransactionId)| {
            let (Some(later), Some(earlier)) = (self.places.get(later), self.places.get(earlier)) else {
                return false;
            };
            earlier.version.is_some_and(|version| !includes(later, version))
        };
        pairs.into_iter().filter(excludes).collect()
    }
}

fn includes(place: &AtSite, version: SiteVersion) -> bool {
    place.snapshot.get(usize::from(version.site)).is_some_and(|seen| *seen >= version.seqno)
}

impl Clients {
    /// A transaction that has just begun comes after one of another session of its client, now and then.
    pub(super) fn follow_perhaps<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let (slot, work) = (self.sessions[session].slot, &self.sessions[session].work);
        if !S::PIPELINES || !matches!(work, Work::Drawn) || !self.pipelines.random.chance(SHARE) {
            return;
        }
        let Some(later) = self.sessions[session].attempt.as_ref().map(|attempt| attempt.id) else { return };
        let others = self.sessions.iter().filter(|other| other.slot == slot);
        let committing = others.filter_map(|other| other.attempt.as_ref()).filter(|attempt| {
            attempt.commit_asked && !attempt.resolving && attempt.read_only.is_none() && attempt.id != later
        });
        let committing: Vec<TransactionId> = committing.map(|attempt| attempt.id).collect();
        if committing.is_empty() {
            return;
        }
        let earlier = committing[self.pipelines.random.index(committing.len())];
        self.pipelines.later.insert(later, earlier);
        *self.happened.entry("transaction came after a commit under way").or_default() += 1;
        cluster.world.command(self.slots[slot].client, Command::After { transaction: later, earlier });
    }

    /// A client was told where its transaction stands: one that comes after another includes it.
    pub(super) fn judge_pipeline(&mut self, id: TransactionId, place: &AtSite) {
        for (later, earlier) in self.pipelines.note(id, place) {
            self.nonsense
                .push(format!("{later} comes after {earlier}, and its snapshot does not include that"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn place(seqno: u64, snapshot: &[u64]) -> AtSite {
        AtSite { version: Some(SiteVersion { site: 0, seqno }), snapshot: snapshot.to_vec() }
    }

    #[test]
    fn a_later_transaction_has_to_include_the_earlier_whichever_is_heard_of_first() {
        for (snapshot, is_breach) in [(&[4][..], true), (&[5], false), (&[], true)] {
            for first in [1, 2] {
                let mut pipelines = Pipelines::new(1);
                pipelines.later.insert(id(2), id(1));
                let mut note = |which| match which {
                    1 => pipelines.note(id(1), &place(5, &[])),
                    _ => pipelines.note(id(2), &place(6, snapshot)),
                };
                assert!(note(first).is_empty());
                assert_eq!(!note(3 - first).is_empty(), is_breach, "{snapshot:?} {first}");
            }
        }
        assert!(Pipelines::new(1).note(id(3), &place(1, &[])).is_empty());
    }
}
