//! Which users and keys the clients of each site take, of workloads whose users or transactions are at home somewhere.

use quorate_core::topology::Shard;
use quorate_workloads::social::{Homes, Place};
use quorate_workloads::{Parameters, WorkloadKind};

use crate::cluster::Cluster;
use crate::system::System;

/// The workload of a client: where users are at home at sites, mostly that of the users at home at its own.
pub(super) fn parameters_at<S: System>(slot: usize, cluster: &Cluster<S>) -> Parameters {
    /// So often a client serves anybody: then commits are slow.
    const AWAY: f64 = 0.2;
    let mut parameters = cluster.scenario.workload.clone();
    if parameters.kind.needs_sets() || parameters.kind == WorkloadKind::Hotspot {
        let shards = &cluster.keyspace().shards;
        let site = cluster.site_of(cluster.client_node(slot));
        let is_here =
            |shard: &Shard| shard.replicas.iter().all(|node| cluster.site_of(usize::from(node.0)) == site);
        let here = (0..shards.len()).filter(|position| is_here(&shards[*position])).collect();
        parameters.place = Place { homes: Homes::Hashed(shards.len()), here, away: AWAY };
    }
    parameters
}
