//! Transactions that were acknowledged and are lost with their site: the history says so, and no invariant asks for them.

use std::collections::BTreeMap;

use quorate_checker::{MicroOp, RecordedTxn};
use quorate_core::{ShardId, Timestamp};

use super::Clients;
use super::attempt::Attempt;
use crate::cluster::Cluster;
use crate::system::System;

/// A transaction, and its operations.
pub(super) type Done = (RecordedTxn, Vec<MicroOp>);

/// The acknowledged transactions that may still be lost.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// Those that have written, by the site, as versions name it, and their number there.
    writes: BTreeMap<(u64, u64), Vec<Done>>,
    /// Those that have only read.
    reads: Vec<Read>,
}

/// A transaction that has only read.
#[derive(Debug)]
pub(super) struct Read {
    /// The site at which it ran, as versions name it.
    pub(super) home: u64,
    /// How many transactions of each site its snapshot includes.
    pub(super) snapshot: Vec<u64>,
    pub(super) done: Done,
}

impl Acknowledged {
    pub(super) fn note_read(&mut self, read: Read) {
        self.reads.push(read);
    }

    /// Takes those that are lost, where so many transactions are kept of each site that was removed. A transaction that has read what is abandoned is
    /// lost with its own site, too: nobody who is left has seen it. At a site that is left none may have read that.
    fn take_lost(&mut self, kept: &BTreeMap<u64, u64>) -> Vec<Done> {
        let mut lost = Vec::new();
        for (site, last) in kept {
            let names = (*site, last + 1)..=(*site, u64::MAX);
            let names: Vec<(u64, u64)> = self.writes.range(names).map(|(name, _)| *name).collect();
            lost.extend(names.iter().filter_map(|name| self.writes.remove(name)).flatten());
        }
        let is_abandoned = |(site, seen): (u64, &u64)| kept.get(&site).is_some_and(|last| seen > last);
        let is_lost =
            |read: &mut Read| kept.contains_key(&read.home) && (1..).zip(&read.snapshot).any(is_abandoned);
        lost.extend(self.reads.extract_if(.., is_lost).map(|read| read.done));
        lost
    }
}

impl Clients {
    /// A transaction was acknowledged that may be lost with its site: it committed there, or has read there what nobody else has.
    pub(super) fn note_version<S: System>(
        &mut self,
        attempt: &Attempt,
        version: Timestamp,
        ops: Vec<MicroOp>,
        cluster: &Cluster<S>,
    ) {
        if !S::LOSES_SITES {
            return;
        }
        let done = (attempt.recorded, ops);
        if version.client.0 > 0 {
            self.may_be_lost.writes.entry((version.client.0, version.micros)).or_default().push(done);
        } else if let Some(place) = &attempt.place {
            let is_home = |position: &usize| cluster.local_site(*position) == attempt.site;
            let Some(home) = (0..cluster.shards().len()).find(is_home) else { return };
            let (home, snapshot) = (home as u64 + 1, place.snapshot.clone());
            self.may_be_lost.note_read(Read { home, snapshot, done });
        } else {
            return;
        }
        self.abandon_lost(cluster);
    }

    /// Notes as lost the acknowledged transactions that sites have abandoned.
    pub(crate) fn abandon_lost<S: System>(&mut self, cluster: &Cluster<S>) {
        let kept = cluster.ends_of_sites();
        if kept.is_empty() {
            return;
        }
        for (recorded, ops) in self.may_be_lost.take_lost(&kept) {
            let time = self.time(cluster.world.now());
            self.recorder.lost(recorded, time);
            *self.happened.entry("acknowledged transactions were lost with their site").or_default() += 1;
            let is_of = |key: &quorate_checker::Key, element: i64| {
                ops.iter().any(|op| match op {
                    MicroOp::Append(of, known) | MicroOp::Add(of, known) => of == key && *known == element,
                    _ => false,
                })
            };
            self.acknowledged.retain(|(key, element)| !is_of(key, *element));
        }
    }
}

impl<S: System> Cluster<S> {
    /// The last transaction that is kept of each site whose end is settled, by the name of the site in versions.
    pub(crate) fn ends_of_sites(&self) -> BTreeMap<u64, u64> {
        let shards = self.shards();
        let removals = self.losses.changes().removals().iter();
        removals
            .filter_map(|removal| Some((site_name(&shards, removal.shard), removal.settled.as_ref()?.last)))
            .collect()
    }
}

/// The name of a local site in versions: the timestamp's client.
fn site_name(shards: &[ShardId], shard: ShardId) -> u64 {
    let position = shards.iter().position(|known| *known == shard);
    position.map_or(0, |position| position as u64 + 1)
}
