//! Transactions that were acknowledged and are lost with their site: the history says so, and no invariant asks for them.

use std::collections::BTreeMap;

use quorate_checker::{MicroOp, RecordedTxn};
use quorate_core::{ShardId, Timestamp};

use super::Clients;
use super::attempt::Attempt;
use crate::cluster::Cluster;
use crate::system::System;

/// A transaction, and its operations.
type Done = (RecordedTxn, Vec<MicroOp>);

/// The acknowledged transactions that may still be lost.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// By the site, as versions name it, and the last of its transactions that each depends on: itself, or what it has read of.
    by_version: BTreeMap<(u64, u64), Vec<Done>>,
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
        let read = attempt.place.as_ref().filter(|_| version.client.0 == 0).and_then(|place| {
            let sites = place.snapshot.iter().enumerate();
            let mut own = sites.filter(|(site, _)| cluster.local_site(*site) == attempt.site);
            own.next().map(|(site, seen)| (site as u64 + 1, *seen))
        });
        let written = (version.client.0 > 0).then_some((version.client.0, version.micros));
        if let Some(name) = written.or(read) {
            self.may_be_lost.by_version.entry(name).or_default().push((attempt.recorded, ops));
            self.abandon_lost(cluster);
        }
    }

    /// Notes as lost the acknowledged transactions that sites have abandoned.
    pub(crate) fn abandon_lost<S: System>(&mut self, cluster: &Cluster<S>) {
        for removal in cluster.losses.changes().removals() {
            let Some(settled) = &removal.settled else { continue };
            let site = site_name(&cluster.shards(), removal.shard);
            let lost: Vec<(u64, u64)> = self
                .may_be_lost
                .by_version
                .range((site, settled.last + 1)..=(site, u64::MAX))
                .map(|(name, _)| *name)
                .collect();
            for name in lost {
                for (recorded, ops) in self.may_be_lost.by_version.remove(&name).unwrap_or_default() {
                    let time = self.time(cluster.world.now());
                    self.recorder.lost(recorded, time);
                    *self
                        .happened
                        .entry("acknowledged transactions were lost with their site")
                        .or_default() += 1;
                    let is_of = |key: &quorate_checker::Key, element: i64| {
                        ops.iter().any(|op| match op {
                            MicroOp::Append(of, known) | MicroOp::Add(of, known) => {
                                of == key && *known == element
                            }
                            _ => false,
                        })
                    };
                    self.acknowledged.retain(|(key, element)| !is_of(key, *element));
                }
            }
        }
    }
}

/// The name of a local site in versions: the timestamp's client.
fn site_name(shards: &[ShardId], shard: ShardId) -> u64 {
    let position = shards.iter().position(|known| *known == shard);
    position.map_or(0, |position| position as u64 + 1)
}
