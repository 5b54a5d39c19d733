//! Which objects have a replica here (Walter, section 5.3: an object need not be at every site).
//!
//! Whether a site has the values of an object in a snapshot follows from the snapshot alone: it has them if the newest version of the object's container
//! in it names the site. So all sites agree on where an object is to be read, and a site that gives its copy up waits until every snapshot that can
//! be read includes the version which says so.

use std::ops::Bound;

use quorate_core::Key;
use quorate_core::counter::is_counter;
use quorate_core::topology::container_of;

use super::{Histories, Kept, Kind, TooOld, is_some_between};
use crate::container::{Container, EVERYWHERE, Replicas};
use crate::message::Change;
use crate::register::{Register, Written};
use crate::vector::{Vector, VersionNumber};

impl Histories {
    /// The sites that have the values of an object in a snapshot that includes the floor. A counter is at all sites, so that each can have a share.
    pub fn replicas(&self, key: &[u8], snapshot: &Vector) -> &Replicas {
        if self.limited.is_empty() || is_counter(key) {
            return &EVERYWHERE;
        }
        let placed = self.container(container_of(key), Some(snapshot));
        placed.and_then(|placed| placed.value.as_ref()).map_or(&EVERYWHERE, |container| &container.replicas)
    }

    /// True if this site has the values of an object in a snapshot that includes the floor.
    pub fn holds(&self, key: &[u8], snapshot: &Vector) -> bool {
        self.replicas(key, snapshot).has(self.site)
    }

    /// The sites that a transaction with this snapshot reaches with the values that it writes to an object. All of them have these values before
    /// they give their copies up. The snapshot may exclude a version that the floor includes: then every site has that version, and only those
    /// that it names need values.
    pub fn reached(&self, key: &[u8], snapshot: &Vector) -> &Replicas {
        match self.knows_reached(key, snapshot) {
            true => self.replicas(key, snapshot),
            false => self.replicas(key, &self.floor),
        }
    }

    /// True if it is known which sites a transaction with this snapshot has reached with the values that it writes to an object, and not only
    /// which of them still need these: the floor includes no version of the container that the snapshot excludes.
    pub fn knows_reached(&self, key: &[u8], snapshot: &Vector) -> bool {
        if self.limited.is_empty() || snapshot.includes_all(&self.floor) {
            return true;
        }
        let placed = self.container(container_of(key), Some(&self.floor));
        placed.is_none_or(|placed| snapshot.includes(placed.version))
    }

    /// True if this site has an object as far as it knows, whatever a snapshot says: no version of its container was received that does not name it.
    pub fn keeps(&self, key: &[u8]) -> bool {
        let last = self.container(container_of(key), None).and_then(|placed| placed.value.as_ref());
        is_counter(key) || last.is_none_or(|container| container.replicas.has(self.site))
    }

    /// True if this site is to have the values that a transaction with this snapshot writes to an object. Other sites may have raised the floor
    /// further: then they leave out values that this site, too, needs no more, since it has received the version which says so.
    pub fn needs(&self, key: &[u8], snapshot: &Vector) -> bool {
        self.reached(key, snapshot).has(self.site) && self.keeps(key)
    }

    /// The changes of a set between two bounds by transactions of this site, as far as a snapshot includes it and the floor does not.
    ///
    /// # Errors
    /// The snapshot is too old.
    pub fn own_changes(
        &self,
        set: &Key,
        between: (Bound<&Key>, Bound<&Key>),
        snapshot: &Vector,
    ) -> Result<Vec<Change>, TooOld> {
        self.check(snapshot)?;
        let (Some(kept), true) = (self.sets.get(set), is_some_between(between)) else {
            return Ok(Vec::new());
        };
        let changes = kept.object.changes_of(self.site, between, snapshot);
        let change = |(version, element, by): (VersionNumber, &Key, i32)| Change {
            seqno: version.seqno,
            element: element.clone(),
            by,
        };
        Ok(changes.map(change).collect())
    }

    /// The replica sets that versions of containers name which are kept, but for those of all sites.
    pub fn limited(&self) -> impl Iterator<Item = &Replicas> {
        self.limited.keys()
    }

    /// Counts the replica sets anew.
    pub(super) fn count_limited(&mut self) {
        self.limited.clear();
        let versions = self.containers.values().flat_map(|kept| kept.object.versions());
        for container in versions.filter_map(|placed| placed.value.as_ref()) {
            if !container.replicas.is_all() {
                *self.limited.entry(container.replicas.clone()).or_default() += 1;
            }
        }
    }

    /// True if a higher floor makes something of a container superfluous: versions of it, or the copy that is here.
    pub(super) fn is_container_foldable(&self, name: &Key) -> bool {
        let Some(kept) = self.containers.get(name) else { return false };
        let last = kept.object.last().and_then(|placed| placed.value.as_ref());
        let leaves = last.is_some_and(|container| !container.replicas.has(self.site));
        kept.object.is_foldable() || (leaves && !self.given_up.contains(name))
    }

    /// Folds a container. True if a higher floor makes more of it superfluous.
    pub(super) fn fold_container(&mut self, name: &Key) -> bool {
        if !self.holds_container(name) && self.given_up.insert(name.clone()) {
            self.leaving.insert(name.clone());
        }
        let Some(kept) = self.containers.get_mut(name) else { return false };
        let before = replica_sets(kept);
        kept.object.fold(&self.floor);
        // Only versions at the front were dropped.
        let dropped = before.len() - kept.object.versions().count();
        if kept.object.is_empty() {
            self.containers.remove(name);
        }
        for replicas in &before[..dropped] {
            if let Some(count) = self.limited.get_mut(replicas) {
                *count -= 1;
                if *count == 0 {
                    self.limited.remove(replicas);
                }
            }
        }
        let is_foldable = self.is_container_foldable(name);
        if let Some(kept) = self.containers.get_mut(name) {
            kept.is_queued = is_foldable;
        }
        is_foldable
    }

    /// True if the floor's version of a container names this site.
    pub(super) fn holds_container(&self, name: &[u8]) -> bool {
        let placed = self.container(name, Some(&self.floor)).and_then(|placed| placed.value.as_ref());
        placed.is_none_or(|container| container.replicas.has(self.site))
    }

    /// Gives up the copies of containers that have no replica here any more.
    pub(super) fn leave(&mut self) {
        let leaving = std::mem::take(&mut self.leaving);
        if leaving.is_empty() {
            return;
        }
        let is_leaving = |key: &&Key| leaving.contains(container_of(key));
        for key in self.ordered.iter().filter(is_leaving).cloned().collect::<Vec<_>>() {
            let was_queued = self.registers.get(key.as_slice()).is_some_and(|kept| kept.is_queued);
            let is_foldable = self.fold_object(Kind::Register, &key);
            if let Some(kept) = self.registers.get_mut(key.as_slice()) {
                kept.is_queued = was_queued || is_foldable;
            }
            if is_foldable && !was_queued {
                self.foldable.push_back((Kind::Register, key));
            }
        }
        let mut sets: Vec<Key> = self.sets.keys().filter(is_leaving).cloned().collect();
        sets.sort_unstable();
        for key in sets {
            let was_queued = self.sets.get(&key).is_some_and(|kept| kept.is_queued);
            let is_foldable = self.fold_object(Kind::Set, &key);
            if let Some(kept) = self.sets.get_mut(&key) {
                kept.is_queued = was_queued || is_foldable;
            }
            if is_foldable && !was_queued {
                self.foldable.push_back((Kind::Set, key));
            }
        }
    }
}

/// The replica set that each version of a container names.
fn replica_sets(kept: &Kept<Register<Container>>) -> Vec<Replicas> {
    let replicas =
        |placed: &Written<Container>| placed.value.as_ref().map(|container| container.replicas.clone());
    kept.object.versions().map(|placed| replicas(placed).unwrap_or_default()).collect()
}
