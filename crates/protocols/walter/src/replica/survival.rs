//! The transactions that survive a site that was taken out (section 5.7): the longest prefix of its transactions such that a site which is left has what each
//! of them has written to each object, and all that each depends on is kept, too.
//!
//! Where every site holds all objects that is everything that any of them has. Otherwise a site may know of a transaction without its values, and the
//! sites that hold these may have gone with the one that is lost. How far each site had come stands in its log and is told to the others, so all
//! find the same. A site that holds an object waits for the value: it puts together what several others send of one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Replica;
use crate::entry::Commit;
use crate::histories::Update;
use crate::removal::Frozen;
use crate::vector::{LocalSite, Vector, VersionNumber};

impl Replica {
    /// How far each site that is left had come when it went on without the others; none as long as one of them has not said so.
    fn frozen(&self) -> Option<BTreeMap<LocalSite, &Frozen>> {
        let (leader, own) = (self.leader.as_ref()?, self.state.freeze.as_ref()?);
        let removals = self.state.removals.len();
        let mut all = BTreeMap::from([(self.site, own)]);
        let is_left = |site: &LocalSite| {
            *site != self.site && self.state.removal(*site).is_none() && self.counts(*site)
        };
        for site in self.sites().filter(is_left) {
            all.insert(site, &leader.frozen.get(&site)?.0);
        }
        all.values().all(|frozen| frozen.removals as usize == removals).then_some(all)
    }

    /// The ends of all sites whose end is open; none as long as that is not known.
    pub(super) fn ends(&self) -> Option<BTreeMap<LocalSite, u64>> {
        let frozen = self.frozen()?;
        let mut ends: BTreeMap<LocalSite, u64> =
            self.state.open_removals().map(|site| (site, self.last_known(site))).collect();
        // An end that is earlier may leave transactions of other sites without their causes.
        loop {
            let before = ends.clone();
            let mut is_known = true;
            for site in before.keys() {
                match self.end_of(*site, &ends, &frozen) {
                    Some(end) => _ = ends.insert(*site, end),
                    None => is_known = false,
                }
            }
            if ends == before {
                return is_known.then_some(ends);
            }
        }
    }

    /// The last transaction of a site that is kept, if so much is kept of the others; none as long as that is not known.
    fn end_of(
        &self,
        site: LocalSite,
        ends: &BTreeMap<LocalSite, u64>,
        frozen: &BTreeMap<LocalSite, &Frozen>,
    ) -> Option<u64> {
        let committed = frozen.values().map(|frozen| frozen.committed.of(site)).max()?;
        let first = self.state.histories.floor().of(site).max(committed) + 1;
        for seqno in first..=*ends.get(&site)? {
            let version = VersionNumber { site, seqno };
            let early = self.leader.as_ref()?.early.get(&(site, seqno));
            let commit = self.state.commit(version).or(early)?;
            if ends.iter().any(|(cause, end)| commit.snapshot.of(*cause) > *end) {
                return Some(seqno - 1);
            }
            if !self.state.histories.received().includes_all(&commit.snapshot) {
                // Which sites hold what it updates is not known before its causes are.
                return None;
            }
            let has = |(holder, frozen): (&LocalSite, &&Frozen), update: &Update| {
                self.reached(update, &commit.snapshot).has(*holder) && frozen.received.of(site) >= seqno
            };
            let survives = |update: &Update| frozen.iter().any(|holder| has(holder, update));
            if !commit.updates.iter().all(survives) {
                return Some(seqno - 1);
            }
        }
        Some(*ends.get(&site)?)
    }

    /// True if a transaction of a site that was taken out is here with all values that this site is to have, as far as they are anywhere.
    pub(super) fn is_whole(&self, commit: &Commit) -> bool {
        let mut noted =
            commit.updates.iter().filter(|update| matches!(update, Update::Noted { .. })).peekable();
        if noted.peek().is_none() {
            return true;
        }
        if !self.state.histories.received().includes_all(&commit.snapshot) {
            return false;
        }
        noted.all(|update| {
            !self.state.histories.needs(update.object(), &commit.snapshot) || self.is_lost(commit, update)
        })
    }

    /// True if a transaction has committed at a site that is left, and no such site has what it has done to an object: more sites were lost at once than
    /// a keyspace survives without losing anything.
    fn is_lost(&self, commit: &Commit, update: &Update) -> bool {
        let VersionNumber { site, seqno } = commit.version;
        let Some(frozen) = self.frozen() else { return false };
        if !self.state.histories.knows_reached(update.object(), &commit.snapshot) {
            return false;
        }
        let holders = self.reached(update, &commit.snapshot);
        let has = |(holder, frozen): (&LocalSite, &&Frozen)| {
            holders.has(*holder) && frozen.received.of(site) >= seqno
        };
        frozen.values().any(|frozen| frozen.committed.of(site) >= seqno) && !frozen.iter().any(has)
    }
}

/// A transaction of which two sites have parts.
pub(super) fn combined(one: &Commit, other: &Commit) -> Arc<Commit> {
    let mut updates = Vec::new();
    for update in &one.updates {
        let values: Vec<&Update> = match update {
            Update::Noted { object, writes } => {
                let is_it = |update: &&Update| match update {
                    Update::Write { key, .. } => *writes && key == object,
                    Update::Add { set, .. } => !*writes && set == object,
                    Update::Place { .. } | Update::Noted { .. } => false,
                };
                other.updates.iter().filter(is_it).collect()
            }
            _ => Vec::new(),
        };
        match values.is_empty() {
            true => updates.push(update.clone()),
            false => updates.extend(values.into_iter().cloned()),
        }
    }
    let Commit { transaction, version, is_slow, snapshot, .. } = one;
    let (transaction, version, is_slow, snapshot) = (*transaction, *version, *is_slow, snapshot.clone());
    Arc::new(Commit { transaction, version, snapshot, updates, is_slow })
}

/// How much of the transactions of some sites a vector has.
pub(super) fn of_sites(vector: &Vector, sites: impl Iterator<Item = LocalSite>) -> Vector {
    let mut part = Vector::default();
    for site in sites {
        part.include(VersionNumber { site, seqno: vector.of(site) });
    }
    part
}

#[cfg(test)]
mod tests {
    use quorate_core::{Key, Value};

    use super::*;

    fn commit(updates: Vec<Update>) -> Commit {
        let version = VersionNumber { site: LocalSite(2), seqno: 1 };
        let (transaction, snapshot) = Default::default();
        Commit { transaction, version, snapshot, updates, is_slow: false }
    }

    #[test]
    fn two_sites_know_of_a_transaction_together_what_each_knows() {
        let write = || Update::Write { key: Key::from("a"), value: Some(Value::from_static(b"x")) };
        let add = |element: &str| Update::Add { set: Key::from("a"), element: Key::from(element), by: 1 };
        let noted = |writes| Update::Noted { object: Key::from("a"), writes };
        let (one, other) =
            (commit(vec![write(), noted(false)]), commit(vec![noted(true), add("x"), add("y")]));
        let whole = vec![write(), add("x"), add("y")];
        assert_eq!(combined(&one, &other).updates, whole);
        assert_eq!(combined(&other, &one).updates, whole);
        assert_eq!(combined(&one, &one), Arc::new(one));
    }

    #[test]
    fn what_each_site_knows_of_several_objects_is_told_apart() {
        let add = |set: &str| Update::Add { set: Key::from(set), element: Key::from("x"), by: 1 };
        let write = |key: &str| Update::Write { key: Key::from(key), value: None };
        let noted = |object: &str, writes| Update::Noted { object: Key::from(object), writes };
        let one = commit(vec![noted("a", true), noted("a", false), noted("b", true), noted("b", false)]);
        let whole = vec![write("a"), add("a"), write("b"), add("b")];
        assert_eq!(combined(&one, &commit(whole.clone())).updates, whole);
        let part = commit(vec![noted("a", true), add("a"), write("b"), noted("b", false)]);
        assert_eq!(combined(&one, &part).updates, part.updates);
    }
}
