//! Which sites get the values that a transaction writes, and how many of them have them (sections 5.3 and 5.6).
//!
//! Every site is told of every transaction: its number, its snapshot and what it has written to. Values go to the sites alone that have the
//! objects; see [`crate::container`].

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::Key;

use super::Replica;
use crate::container::{EVERYWHERE, Replicas};
use crate::entry::Commit;
use crate::histories::Update;
use crate::vector::{LocalSite, Vector};

impl Replica {
    /// The sites that were not taken out. One whose end is open counts.
    pub(super) fn sites_left(&self) -> impl Iterator<Item = LocalSite> {
        let is_left =
            |site: &LocalSite| self.state.removal(*site).is_none_or(|removal| removal.end.is_none());
        self.sites().filter(is_left)
    }

    /// The other sites that have an object in a snapshot.
    pub(super) fn copies_elsewhere(&self, key: &[u8], snapshot: &Vector) -> Vec<LocalSite> {
        self.others_among(self.state.histories.replicas(key, snapshot))
    }

    fn others_among(&self, replicas: &Replicas) -> Vec<LocalSite> {
        let is_other = |site: &LocalSite| *site != self.site && self.state.removal(*site).is_none();
        replicas.among(self.sites().filter(is_other))
    }

    /// The sets of other sites that have all that this site has not, but for what is lost.
    pub(super) fn sets_elsewhere(&self) -> Vec<Replicas> {
        let limited = self.state.histories.limited().filter(|replicas| !replicas.has(self.site));
        let sets: BTreeSet<Vec<LocalSite>> = limited.map(|replicas| self.others_among(replicas)).collect();
        sets.into_iter().filter(|sites| !sites.is_empty()).map(|sites| Replicas { sites }).collect()
    }

    /// True if all that is updated has a replica somewhere.
    pub(super) fn have_replicas(&self, updates: &[Update]) -> bool {
        let snapshot = &self.state.committed;
        let replicas = |update: &Update| self.state.histories.replicas(update.object(), snapshot);
        updates.iter().all(|update| self.sites_left().any(|site| replicas(update).has(site)))
    }

    /// The sites that a transaction reaches with what it has done to an object. All sites hold all containers.
    pub(super) fn reached(&self, update: &Update, snapshot: &Vector) -> &Replicas {
        match update {
            Update::Place { .. } => &EVERYWHERE,
            Update::Write { .. } | Update::Add { .. } | Update::Noted { .. } => {
                self.state.histories.reached(update.object(), snapshot)
            }
        }
    }

    /// A transaction as another site is told of it: without the values of objects that this site has not got.
    pub(super) fn for_site(&self, commit: &Arc<Commit>, to: LocalSite) -> Arc<Commit> {
        let gets = |update: &Update| self.reached(update, &commit.snapshot).has(to);
        if commit.updates.iter().all(gets) {
            return Arc::clone(commit);
        }
        let mut noted: BTreeSet<(&Key, bool)> = BTreeSet::new();
        let mut updates = Vec::new();
        for update in &commit.updates {
            let object = (
                update.object(),
                !matches!(update, Update::Add { .. } | Update::Noted { writes: false, .. }),
            );
            if gets(update) {
                updates.push(update.clone());
            } else if noted.insert(object) {
                updates.push(Update::Noted { object: object.0.clone(), writes: object.1 });
            }
        }
        assert!(
            (1..=commit.updates.len()).contains(&updates.len()),
            "{to} is told of {} updates of {}, and it has {}",
            updates.len(),
            commit.version,
            commit.updates.len()
        );
        let Commit { transaction, version, is_slow, snapshot, .. } = &**commit;
        let (transaction, version, is_slow, snapshot) = (*transaction, *version, *is_slow, snapshot.clone());
        Arc::new(Commit { transaction, version, snapshot, updates, is_slow })
    }

    /// The sites that are to have what a transaction has done to each object.
    pub fn holders(&self, commit: &Commit) -> Vec<Replicas> {
        self.replica_sets(commit).into_iter().cloned().collect()
    }

    /// True if f + 1 sites have what a transaction of this site has done to each object, or all that are left of those that are to have it.
    pub(super) fn is_copied(&self, commit: &Commit) -> bool {
        self.replica_sets(commit).into_iter().all(|replicas| !self.has_too_few(commit, replicas))
    }

    /// The sets of sites that are to have what a transaction has done.
    fn replica_sets<'a>(&'a self, commit: &Commit) -> BTreeSet<&'a Replicas> {
        commit.updates.iter().map(|update| self.reached(update, &commit.snapshot)).collect()
    }

    fn has_too_few(&self, commit: &Commit, replicas: &Replicas) -> bool {
        let left = replicas.among(self.sites_left());
        let copies = left.iter().filter(|site| self.has_copy(**site, commit.version.seqno)).count();
        copies < (self.config.sites_lost_max + 1).min(left.len())
    }

    /// The sites that are to have what a transaction of this site has done, and have not, as long as too few have.
    pub(super) fn lacking_copies(&self, commit: &Commit) -> BTreeSet<LocalSite> {
        let sets =
            self.replica_sets(commit).into_iter().filter(|replicas| self.has_too_few(commit, replicas));
        let lacking = sets.flat_map(|replicas| replicas.among(self.sites_left()));
        lacking.filter(|site| !self.has_copy(*site, commit.version.seqno)).collect()
    }
}
