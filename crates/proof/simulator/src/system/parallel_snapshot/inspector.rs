//! Agreement of sites that no history shows: every site applies the transactions of a site in one order and with the same contents, and
//! sites at which the same transactions have committed hold the same.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::TransactionId;
use quorate_walter::{Replica, Update, Vector, VersionNumber};

use super::ParallelSnapshot;
use crate::cluster::Cluster;
use crate::invariants::{Broken, Invariant};

/// The transactions that were seen in journals.
#[derive(Debug, Default)]
pub struct Inspector {
    named: BTreeMap<VersionNumber, (TransactionId, Vector)>,
    /// The last snapshot at which sites were compared.
    compared: Vector,
    comparisons: u64,
    moved: BTreeSet<VersionNumber>,
    slow: u64,
    remote: u64,
}

impl Inspector {
    /// Looks at every replica: no version has two transactions or two snapshots, and whatever has committed at a site has done so after all
    /// that its snapshot includes.
    pub(super) fn look(&mut self, cluster: &Cluster<ParallelSnapshot>) -> Vec<Broken> {
        let mut broken = Vec::new();
        for server in 0..cluster.world.servers() {
            let Some(member) = cluster.world.server(server) else { continue };
            let replica = member.machine();
            let name = cluster.replica(server);
            let committed = replica.committed();
            for commit in replica.journal() {
                let seen = (commit.transaction, commit.snapshot.clone());
                let first = self.named.entry(commit.version).or_insert_with(|| seen.clone());
                if commit.updates.iter().any(|update| matches!(update, Update::Place { .. })) {
                    self.moved.insert(commit.version);
                }
                if *first != seen {
                    let told = format!("{} is {first:?} elsewhere and {seen:?} at {name}", commit.version);
                    broken.push(Broken::new(Invariant::Agreement, "two-versions", told));
                }
                if committed.includes(commit.version) && !committed.includes_all(&commit.snapshot) {
                    let (version, snapshot) = (commit.version, &commit.snapshot);
                    let told =
                        format!("{version} with {snapshot} has committed at {name} where {committed} has");
                    broken.push(Broken::new(Invariant::Agreement, "effect-before-cause", told));
                }
            }
            self.slow = self.slow.max(replica.locks() as u64);
            let own = replica.site();
            let remote = committed.numbers().iter().enumerate();
            let remote = remote.filter(|(site, _)| *site != usize::from(own.0)).map(|(_, number)| number);
            self.remote = self.remote.max(remote.sum());
        }
        broken.extend(self.compare_sites(cluster));
        broken
    }

    /// Compares what sites hold at which the same transactions have committed.
    fn compare_sites(&mut self, cluster: &Cluster<ParallelSnapshot>) -> Option<Broken> {
        let servers = || 0..cluster.world.servers();
        let replicas =
            || servers().filter_map(|server| Some((server, cluster.world.server(server)?.machine())));
        let (_, first) = replicas().find(|(_, replica)| *replica.committed() != self.compared)?;
        let alike = |(_, replica): &(usize, &Replica)| replica.committed() == first.committed();
        let (other_site, other) =
            replicas().filter(alike).find(|(_, replica)| replica.site() != first.site())?;
        self.compared = first.committed().clone();
        self.comparisons += 1;
        let (ours, theirs) = (first.histories().at(&self.compared), other.histories().at(&self.compared));
        (ours != theirs).then(|| {
            let name = cluster.replica(other_site);
            let told =
                format!("{} holds {ours:?} at {}, and {name} holds {theirs:?}", first.site(), self.compared);
            Broken::new(Invariant::Agreement, "sites-differ", told)
        })
    }

    /// The counts of things seen, in a few words each.
    pub(super) fn happened(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("comparisons of sites", self.comparisons),
            ("containers were placed", self.moved.len() as u64),
            ("transactions of other sites committed at a site", self.remote),
            ("transactions held locks of a preferred site at once", self.slow),
        ]
    }
}
