//! How often shards change between timestamps and locks, and whether what they run comes in order.

use std::collections::BTreeMap;

use quorate_core::ReplicaId;

use super::Serializable;
use crate::cluster::Cluster;

/// How often they have done so, as far as it was seen: what a replica has done since it was last looked at is lost with it.
#[derive(Debug, Default)]
pub struct Modes {
    /// The counts of each server since it was started.
    counted: BTreeMap<usize, (u64, u64)>,
    /// How often a shard has begun to lock.
    pub(super) to_locks: u64,
    /// How often one has gone back to timestamps.
    pub(super) to_timestamps: u64,
    /// The first server that has run something out of order, if one has. Where no bug is planted that stops it.
    pub(super) disordered: Option<ReplicaId>,
}

impl Modes {
    /// Looks at the cluster.
    pub(super) fn look(&mut self, cluster: &Cluster<Serializable>) {
        for server in 0..cluster.world.servers() {
            let Some(member) = cluster.world.server(server) else {
                self.counted.remove(&server);
                continue;
            };
            self.note(server, member.machine().mode_changes());
            if self.disordered.is_none() && member.machine().application().disorders() > 0 {
                self.disordered = Some(cluster.replica(server));
            }
        }
    }

    fn note(&mut self, server: usize, counted: (u64, u64)) {
        let before = self.counted.insert(server, counted).unwrap_or_default();
        // It counts anew if it was started again in between.
        let since = |before: u64, now: u64| if now < before { now } else { now - before };
        self.to_locks += since(before.0, counted.0);
        self.to_timestamps += since(before.1, counted.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_started_again_counts_anew() {
        let mut modes = Modes::default();
        for counted in [(2, 1), (5, 5), (1, 0)] {
            modes.note(7, counted);
        }
        modes.note(8, (1, 1));
        assert_eq!((modes.to_locks, modes.to_timestamps), (7, 6));
    }
}
