//! Keyspaces whose values expire: which of them this node sweeps, and how that goes. The process of the node sweeps them, as a client of the cluster.

use serde::Serialize;

use super::Node;

/// A keyspace that this node sweeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweptHere {
    /// Its name.
    pub keyspace: String,
    /// How many nodes stand before this one: it leaves time to each of them.
    pub rank: u32,
}

/// The work of this node in a keyspace whose values expire.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SweepingStatus {
    /// The keyspace.
    pub keyspace: String,
    /// How many nodes stand before this one.
    pub rank: u32,
    /// The keys that it has deleted.
    pub keys: u64,
    /// The transactions in which it has.
    pub transactions: u64,
    /// Those that came to nothing because of others.
    pub conflicts: u64,
    /// Looks and transactions that have failed.
    pub failures: u64,
    /// How long what it found last had been over, in seconds; zero if it found nothing.
    pub behind_seconds: f64,
}

impl Node {
    /// The keyspaces that this node sweeps: those whose first shard has a replica here.
    pub(crate) fn swept_here(&self) -> Vec<SweptHere> {
        let listed =
            self.reading.iter().flat_map(|reading| &reading.keyspaces).filter(|found| found.is_listed);
        let expiring = listed.map(|found| &found.keyspace).filter(|keyspace| keyspace.expiring);
        let here = expiring.filter_map(|keyspace| {
            let first = keyspace.shards.first()?;
            let rank = first.replicas.iter().position(|node| *node == self.config.node)?;
            Some(SweptHere { keyspace: keyspace.name.clone(), rank: u32::try_from(rank).ok()? })
        });
        here.collect()
    }

    /// Takes over how sweeping goes, to be told to operators.
    pub(crate) fn set_sweeping(&mut self, sweeping: Vec<SweepingStatus>) {
        self.sweeping = sweeping;
    }
}
