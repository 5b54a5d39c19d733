//! The milestones that clients are told of are so: a durable transaction is at f + 1 of the local sites that hold what it updates, and at the preferred
//! ones of all of that; and a visible one has committed at every local site.
//!
//! A site has the transactions that any of its replicas has applied, at some look: entries are applied once they are stable. A replica that
//! restarts may have applied something that no replica shows any more, until a leader of the site has applied all that its view began with. Till then nothing
//! is known of its site, and a doubt is no violation.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::command::Milestone;
use quorate_core::{Key, ReplicaId, View};
use quorate_walter::{LocalSite, Replica, Replicas, Update, Vector, VersionNumber};

use super::ParallelSnapshot;
use crate::clients::Told;
use crate::cluster::Cluster;

/// The transactions that local sites were seen to have.
#[derive(Debug, Default)]
pub(super) struct Copies {
    sites: BTreeMap<LocalSite, Site>,
    /// The incarnation of each replica that was up at the last look.
    incarnations: BTreeMap<ReplicaId, u32>,
    /// The containers that were ever placed: which site was the preferred one when a copy was counted is not known of them.
    placed: BTreeSet<Key>,
}

/// The transactions that a local site was seen to have.
#[derive(Debug, Default)]
struct Site {
    received: Vector,
    committed: Vector,
    /// True if none of its replicas has been down since a look at which one of them led it and had applied whatever was stable.
    is_certain: bool,
}

/// The replicas of a site, as they are at one look.
#[derive(Debug, Default)]
struct Seen {
    replicas: usize,
    up: usize,
    /// True if one of them is down, or has restarted since the last look.
    has_changed: bool,
    /// The greatest view that one of them is in, and whether that one leads it and has applied all that it began with.
    latest: (View, bool),
}

impl Seen {
    /// True if a leader shows all that was ever stable: a majority would know of a later view.
    fn has_leader(&self) -> bool {
        2 * self.up > self.replicas && self.latest.1
    }
}

impl Copies {
    /// Looks at every replica.
    pub(super) fn look(&mut self, cluster: &Cluster<ParallelSnapshot>) {
        let mut seen: BTreeMap<LocalSite, Seen> = BTreeMap::new();
        let mut incarnations = BTreeMap::new();
        for server in 0..cluster.world.servers() {
            let name = cluster.replica(server);
            let first = cluster.shards()[0];
            let site = LocalSite((name.shard.0 - first.0) as u16);
            let changes = cluster.losses.changes();
            let removal = changes.removal(name.shard);
            // Also if it was taken out before it was ready.
            let joins = changes.joins().iter().any(|join| join.shard == name.shard && !join.is_ready);
            if removal.is_some_and(|removal| removal.settled.is_some()) || joins {
                // The others go on without it, and it counts for nothing.
                self.sites.remove(&site);
                continue;
            }
            let (seen, site) = (seen.entry(site).or_default(), self.sites.entry(site).or_default());
            seen.replicas += 1;
            let Some(member) = cluster.world.server(server) else {
                seen.has_changed = true;
                continue;
            };
            seen.up += 1;
            seen.latest = seen.latest.max((member.replica().view(), member.leading().is_some()));
            let replica = member.machine();
            for commit in replica.journal() {
                if let [Update::Place { name, .. }] = &commit.updates[..] {
                    self.placed.insert(name.clone());
                }
            }
            let incarnation = cluster.world.incarnation(server);
            incarnations.insert(name, incarnation);
            seen.has_changed |= self.incarnations.get(&name) != Some(&incarnation);
            site.received.join(replica.histories().received());
            site.committed.join(replica.committed());
        }
        for (name, site) in &mut self.sites {
            let Some(seen) = seen.get(name) else { continue };
            site.is_certain = !seen.has_changed && (site.is_certain || seen.has_leader());
        }
        self.incarnations = incarnations;
    }

    /// Why it is not so what a client was told; none if it may be.
    pub(super) fn contradict(&mut self, told: &Told, cluster: &Cluster<ParallelSnapshot>) -> Option<String> {
        self.look(cluster);
        let version = VersionNumber { site: LocalSite(told.version.site), seqno: told.version.seqno };
        if !self.sites.contains_key(&version.site) {
            // Its site told so before it was removed, and may have been alone with it.
            return None;
        }
        let lack: Vec<LocalSite> = self
            .sites
            .iter()
            .filter(|(_, site)| site.lacks(version, told.milestone))
            .map(|(name, _)| *name)
            .collect();
        let Told { transaction, milestone, .. } = told;
        let is_false = match milestone {
            Milestone::Visible => !lack.is_empty(),
            Milestone::Durable => {
                let settings = &cluster.scenario.settings.replica.machine;
                let (preferred, holders) = updated(version, &self.placed, cluster);
                let has_too_few = |holders: &Replicas| {
                    let holders = holders.among(self.sites.keys().copied());
                    let copies = holders.iter().filter(|site| !lack.contains(site)).count();
                    copies < (settings.sites_lost_max + 1).min(holders.len())
                };
                holders.iter().any(has_too_few) || lack.iter().any(|site| preferred.contains(site))
            }
        };
        let sites = || lack.iter().map(LocalSite::to_string).collect::<Vec<_>>().join(", ");
        is_false.then(|| {
            format!("{transaction}, which is {version}, is said to be {milestone}, and is not at {}", sites())
        })
    }
}

impl Site {
    /// True if it surely has not got what a milestone needs of every site that counts.
    fn lacks(&self, version: VersionNumber, milestone: Milestone) -> bool {
        let has = match milestone {
            Milestone::Durable => self.received.includes(version),
            Milestone::Visible => self.committed.includes(version),
        };
        !has && self.is_certain
    }
}

/// The preferred sites of all that a transaction updates, but for containers that were placed, and the sites that hold each object; as far as a journal has
/// it.
fn updated(
    version: VersionNumber,
    placed: &BTreeSet<Key>,
    cluster: &Cluster<ParallelSnapshot>,
) -> (Vec<LocalSite>, Vec<Replicas>) {
    let machine = |server: usize| cluster.world.server(server).map(|member| member.machine());
    let find = |replica: &Replica| {
        let commit = replica.journal().find(|commit| commit.version == version)?;
        let sites = replica.preferred_sites(commit).into_iter();
        let preferred = sites.filter(|(name, _)| !placed.contains(name)).map(|(_, site)| site).collect();
        Some((preferred, replica.holders(commit)))
    };
    (0..cluster.world.servers()).filter_map(machine).find_map(find).unwrap_or_default()
}
