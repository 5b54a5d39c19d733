//! Agreement of sites that no history shows: every site applies the transactions of a site in one order and with the same contents, and
//! sites at which the same transactions have committed hold the same.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::command::{AtSite, SiteVersion};
use quorate_core::{Key, TransactionId};
use quorate_walter::{Base, LocalSite, Replica, Update, Vector, VersionNumber};

use super::ParallelSnapshot;
use super::copies::Copies;
use super::forks::Forks;
use crate::clients::Told;
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
    copies: Copies,
    forks: Forks,
    slow: u64,
    remote: u64,
    copies_read: u64,
    moved_by_themselves: u64,
    shares_given: u64,
    limited: u64,
}

/// The objects that a replica holds in a snapshot, and one of another site holds, too.
fn shared(replica: &Replica, other: &Replica, snapshot: &Vector) -> Base {
    let mut base = replica.histories().at(snapshot);
    let is_shared = |key: &Key| other.histories().holds(key, snapshot);
    base.registers.retain(|read| is_shared(&read.key));
    base.counts.retain(|count| is_shared(&count.set));
    base
}

impl Inspector {
    /// Looks at every replica: no version has two transactions or two snapshots, and whatever has committed at a site has done so after all
    /// that its snapshot includes.
    pub(super) fn look(&mut self, cluster: &Cluster<ParallelSnapshot>) -> Vec<Broken> {
        self.copies.look(cluster);
        let mut broken = Vec::new();
        for server in 0..cluster.world.servers() {
            let Some(member) = cluster.world.server(server) else { continue };
            let replica = member.machine();
            let name = cluster.replica(server);
            let committed = replica.committed();
            for commit in replica.journal() {
                if commit.updates.iter().any(|update| matches!(update, Update::Place { .. })) {
                    self.moved.insert(commit.version);
                }
                let first = self.named.entry(commit.version).or_insert_with(|| {
                    self.forks.note(commit.version.site, &commit.snapshot);
                    (commit.transaction, commit.snapshot.clone())
                });
                if (first.0, &first.1) != (commit.transaction, &commit.snapshot) {
                    let seen = (commit.transaction, &commit.snapshot);
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
            self.copies_read = self.copies_read.max(replica.copies_read());
            self.moved_by_themselves = self.moved_by_themselves.max(replica.moved());
            self.shares_given = self.shares_given.max(replica.shares_given());
            self.limited = self.limited.max(replica.histories().limited().count() as u64);
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
        // Only the objects that both of them hold.
        let (ours, theirs) = (shared(first, other, &self.compared), shared(other, first, &self.compared));
        (ours != theirs).then(|| {
            let name = cluster.replica(other_site);
            let told =
                format!("{} holds {ours:?} at {}, and {name} holds {theirs:?}", first.site(), self.compared);
            Broken::new(Invariant::Agreement, "sites-differ", told)
        })
    }

    /// Why it is not so what a client was told; none if it may be.
    pub(super) fn contradict(&mut self, told: &Told, cluster: &Cluster<ParallelSnapshot>) -> Option<String> {
        self.copies.contradict(told, cluster)
    }

    /// The place of a transaction that was seen in a journal.
    pub(super) fn place_of(&self, transaction: TransactionId) -> Option<AtSite> {
        let (version, (_, snapshot)) = self.named.iter().find(|(_, (id, _))| *id == transaction)?;
        let VersionNumber { site: LocalSite(site), seqno } = *version;
        Some(AtSite { version: Some(SiteVersion { site, seqno }), snapshot: snapshot.numbers().to_vec() })
    }

    /// The counts of things seen, in a few words each.
    pub(super) fn happened(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("comparisons of sites", self.comparisons),
            ("containers were placed", self.moved.len() as u64),
            ("objects were read at another site than the client's", self.copies_read),
            ("containers moved by themselves", self.moved_by_themselves),
            ("shares of counters were given to another site", self.shares_given),
            ("sites had objects that another site had not", self.limited),
            ("transactions of other sites committed at a site", self.remote),
            ("transactions held locks of a preferred site at once", self.slow),
            ("long forks between transactions of two sites", self.forks.seen()),
        ]
    }
}
