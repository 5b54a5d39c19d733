//! What was acknowledged and is lost with its site: the history says so, and nobody has to find it again.

use quorate_checker::{MicroOp, RecordedTxn};
use quorate_core::{ShardId, Timestamp};

use super::Clients;
use crate::cluster::Cluster;
use crate::system::System;

/// The acknowledged transactions of one site, by number, that may still be lost.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// By the site, as versions name it, and number.
    by_version: std::collections::BTreeMap<(u64, u64), (RecordedTxn, Vec<MicroOp>)>,
}

impl Clients {
    /// A transaction was acknowledged that may be lost with its site.
    pub(super) fn note_version<S: System>(
        &mut self,
        recorded: RecordedTxn,
        version: Timestamp,
        ops: &[MicroOp],
        cluster: &Cluster<S>,
    ) {
        // What has only read has no version of its own.
        if S::LOSES_SITES && version.client.0 > 0 {
            let name = (version.client.0, version.micros);
            self.may_be_lost.by_version.insert(name, (recorded, ops.to_vec()));
            self.abandon_lost(cluster);
        }
    }

    /// Notes as lost the acknowledged transactions that sites have abandoned.
    pub(crate) fn abandon_lost<S: System>(&mut self, cluster: &Cluster<S>) {
        for removal in cluster.losses.removals().iter() {
            let Some(settled) = &removal.settled else { continue };
            let site = site_name(&cluster.shards(), removal.shard);
            let lost: Vec<(u64, u64)> = self
                .may_be_lost
                .by_version
                .range((site, settled.last + 1)..=(site, u64::MAX))
                .map(|(name, _)| *name)
                .collect();
            for name in lost {
                let Some((recorded, ops)) = self.may_be_lost.by_version.remove(&name) else { continue };
                let time = self.time(cluster.world.now());
                self.recorder.lost(recorded, time);
                *self.happened.entry("acknowledged transactions were lost with their site").or_default() += 1;
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

/// The name of a local site in versions: the timestamp's client.
fn site_name(shards: &[ShardId], shard: ShardId) -> u64 {
    let position = shards.iter().position(|known| *known == shard);
    position.map_or(0, |position| position as u64 + 1)
}
