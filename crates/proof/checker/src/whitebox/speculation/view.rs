//! The view of one transaction that did not commit: final commits, and local ones of its site.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::Evidence;
use super::{Judge, Version};
use crate::dependencies::{Fate, external_set_reads, is_reachable};
use crate::explain::Words;
use crate::history::{Action, KeyId, KeyType, Op, Seen, Site, Timestamp, TxnId, Value};
use crate::report::{Anomalies, AnomalyKind};
use crate::whitebox::snapshots::snapshot;
use crate::whitebox::spell;

/// The view of one transaction that did not commit.
pub(super) struct View<'a> {
    judge: &'a Judge<'a>,
    txn: TxnId,
    site: Site,
    rs: Timestamp,
    ops: &'a [Op],
    evidence: Evidence<'a>,
}

impl<'a> View<'a> {
    pub(super) fn new(judge: &'a Judge<'a>, txn: TxnId, site: Site, rs: Timestamp, ops: &'a [Op]) -> Self {
        View { judge, txn, site, rs, ops, evidence: Evidence::of(judge, txn, site, rs, ops) }
    }

    /// Adds what is wrong with the reads; returns a reason if the question stays open.
    pub(super) fn judge(&self, anomalies: &mut Anomalies) -> Option<String> {
        let history = self.judge.history;
        let mut open = None;
        let mut seen_locals = BTreeSet::new();
        // Per key the versions that a read shows.
        let mut shown: BTreeMap<KeyId, Vec<(Version, bool)>> = BTreeMap::new();
        let mut own: BTreeMap<KeyId, Vec<Value>> = BTreeMap::new();
        for op in self.ops {
            let Action::Read(seen) = op.action else {
                own.entry(op.key).or_default().extend(op.action.written());
                continue;
            };
            let own = own.get(&op.key).map_or(&[][..], |own| own);
            let values: Vec<Value> = match (seen, history.key_type(op.key)) {
                (Seen::Register(value), _) => vec![value],
                (Seen::List(list), _) => history.list(op.key, list).to_vec(),
                (Seen::Initial, Some(KeyType::List | KeyType::Register)) => Vec::new(),
                _ => continue,
            };
            let is_list = history.key_type(op.key) == Some(KeyType::List);
            let others = if is_list { values.strip_suffix(own) } else { Some(&values[..]) };
            let Some(others) = others.filter(|_| is_list || own.is_empty() || values.last() == own.last())
            else {
                self.mismatch(anomalies, op.key, &values);
                continue;
            };
            if !is_list && !own.is_empty() {
                continue;
            }
            match self.versions(op.key, others, is_list) {
                Some(versions) => {
                    let locals =
                        versions.iter().filter(|(_, is_final)| !is_final).map(|(version, _)| version.txn);
                    seen_locals.extend(locals);
                    shown.insert(op.key, versions);
                }
                None => match self.undecided(op.key, others) {
                    Some(writer) => {
                        open.get_or_insert_with(|| {
                            let writer = self.judge.words.txn(writer);
                            format!("{} saw {writer}, of which no final commit is known.", self.name())
                        });
                    }
                    None => self.mismatch(anomalies, op.key, &values),
                },
            }
        }
        self.counts(anomalies);
        self.whole(&shown, &seen_locals, anomalies);
        self.conflicts(&seen_locals, anomalies);
        open
    }

    /// The writer of one of these values of which nobody knows whether, and where, it committed.
    fn undecided(&self, key: KeyId, values: &[Value]) -> Option<TxnId> {
        let writers = values.iter().filter_map(|&value| self.judge.writers.get(&(key, value)));
        let mut writers = writers.map(|&(txn, _)| txn);
        writers.find(|txn| self.judge.fates[txn.index()] == Fate::Dropped)
    }

    fn add(
        &self,
        anomalies: &mut Anomalies,
        kind: AnomalyKind,
        other: Option<TxnId>,
        why: impl FnOnce() -> String,
    ) {
        let txns: Vec<TxnId> = std::iter::once(self.txn).chain(other).collect();
        self.judge.add(anomalies, kind, &txns, why);
    }

    fn name(&self) -> String {
        format!("{}, whose snapshot is {},", self.judge.words.txn(self.txn), spell(self.rs))
    }

    fn mismatch(&self, anomalies: &mut Anomalies, key: KeyId, values: &[Value]) {
        self.add(anomalies, AnomalyKind::SnapshotViolation, None, || {
            let (values, key) = (Words::list(values), self.judge.history.key(key));
            format!(
                "{} read {values} of {key}, which are not the final commits at or below it with local commits of its \
                 own site.",
                self.name()
            )
        });
    }

    /// The versions behind the values that were read, each with whether it is a final one; none if the snapshot
    /// cannot hold them in this order, or misses a final one.
    fn versions(&self, key: KeyId, values: &[Value], is_list: bool) -> Option<Vec<(Version, bool)>> {
        let mut versions = Vec::new();
        for &value in values {
            let &(txn, position) = self.judge.writers.get(&(key, value))?;
            let (ts, is_final) = self.judge.held(txn, self.site, self.rs)?;
            versions.push((Version { ts, txn, position, value }, is_final));
        }
        let is_ordered = versions.windows(2).all(|pair| self.follows(&pair[0], &pair[1]));
        let finals = self.judge.final_versions(key, self.rs);
        let is_complete = if is_list {
            let shown = || versions.iter().filter(|(_, is_final)| *is_final).map(|(version, _)| *version);
            shown().count() == finals.len() || {
                let shown: BTreeSet<Version> = shown().collect();
                finals.iter().all(|one| shown.contains(one) || self.is_hidden(one, &versions))
            }
        } else {
            let is_below = |one: &Version| {
                versions.last().is_some_and(|last| *one == last.0 || self.follows(&(*one, true), last))
            };
            finals.iter().all(|one| is_below(one) || self.is_hidden(one, &versions))
        };
        (is_ordered && is_complete).then_some(versions)
    }

    /// Whether the second of two versions, of which the flags say whether they are final, can stand after the first. A
    /// local commit stands above those that its snapshot held, whatever their final timestamps are; else the
    /// timestamps tell.
    fn follows(&self, (one, is_final): &(Version, bool), (next, is_next_final): &(Version, bool)) -> bool {
        let stands_on = |local: &Version, is_final: bool, other: &Version| {
            !is_final && self.judge.may_have_seen(local.txn, other.txn, self.site)
        };
        stands_on(next, *is_next_final, one) || one < next && !stands_on(one, *is_final, next)
    }

    /// Whether a final version that a read does not show became final behind a local version that it does show, and
    /// which did not see it. The local commit aborts then, with this view.
    fn is_hidden(&self, version: &Version, shown: &[(Version, bool)]) -> bool {
        let mut locals = shown.iter().filter(|(_, is_final)| !is_final).map(|(local, _)| local.txn);
        locals.any(|local| self.overlaps(local, version)) && !self.evidence.holds(version.txn)
    }

    /// Whether a version became final above the snapshot of a local commit, which did not see it as a local commit.
    fn overlaps(&self, local: TxnId, version: &Version) -> bool {
        let local_rs = snapshot(self.judge.history, self.judge.history.txn(local));
        local_rs.is_some_and(|local_rs| version.ts > local_rs)
            && !self.judge.may_have_seen(local, version.txn, self.site)
    }

    /// Counts are the sum of the final updates, with any of the local ones.
    fn counts(&self, anomalies: &mut Anomalies) {
        let history = self.judge.history;
        let Ok(reads) = external_set_reads(history, self.ops) else {
            return self.add(anomalies, AnomalyKind::Internal, None, || {
                format!("{} read counts of which its own updates do not explain the change.", self.name())
            });
        };
        for read in &reads {
            let mut elements: BTreeSet<Value> = read.counts.keys().copied().collect();
            elements.extend(self.judge.updates.elements(read.key).map(|(element, _)| element));
            for element in elements {
                let mut rest = read.counts.get(&element).copied().unwrap_or(0);
                let mut locals = Vec::new();
                for update in self.judge.updates.find(read.key, element) {
                    match self.judge.held(update.txn, self.site, self.rs) {
                        _ if update.txn == self.txn => {}
                        Some((_, true)) => rest -= update.change,
                        Some((_, false)) => locals.push(update.change),
                        None => {}
                    }
                }
                if !is_reachable(locals.iter().copied(), rest) {
                    self.add(anomalies, AnomalyKind::SnapshotViolation, None, || {
                        let key = history.key(read.key);
                        format!("{} read a count of {element} in {key} that it cannot hold.", self.name())
                    });
                }
            }
        }
    }

    /// A view that saw a local commit on one key saw it on all.
    fn whole(
        &self,
        shown: &BTreeMap<KeyId, Vec<(Version, bool)>>,
        seen: &BTreeSet<TxnId>,
        anomalies: &mut Anomalies,
    ) {
        let history = self.judge.history;
        for &local in seen {
            let Some((ts, _)) = self.judge.held(local, self.site, self.rs) else { continue };
            for (position, op) in (0..).zip(history.ops(history.txn(local))) {
                let (Some(value), Some(shown)) = (op.action.written(), shown.get(&op.key)) else { continue };
                let version = (Version { ts, txn: local, position, value }, false);
                let is_shown = shown.iter().any(|(shown, _)| shown.txn == local)
                    || shown.last().is_some_and(|last| self.follows(&version, last));
                if !is_shown {
                    self.add(anomalies, AnomalyKind::FracturedRead, Some(local), || {
                        let (local, key) = (self.judge.words.txn(local), history.key(op.key));
                        format!("{} saw writes of {local}, but not the one to {key}.", self.name())
                    });
                }
            }
        }
    }

    /// SPSI-3: of two writers of a key that the snapshot held at once, one saw the other.
    fn conflicts(&self, seen: &BTreeSet<TxnId>, anomalies: &mut Anomalies) {
        let history = self.judge.history;
        for &local in seen {
            let Some(local_rs) = snapshot(history, history.txn(local)) else { continue };
            let keys: BTreeSet<KeyId> = history
                .ops(history.txn(local))
                .iter()
                .filter(|op| op.action.written().is_some())
                .map(|op| op.key)
                .collect();
            for key in keys {
                let finals = self.judge.final_versions_between(key, local_rs, self.rs).iter();
                let finals = finals.filter(|one| self.overlaps(local, one) && self.evidence.holds(one.txn));
                let finals = finals.map(|version| version.txn);
                let writes = |&&other: &&TxnId| {
                    let ops = history.ops(history.txn(other)).iter();
                    ops.filter(|op| op.key == key).any(|op| op.action.written().is_some())
                };
                let lc = |txn: TxnId| self.judge.facts(txn).and_then(|facts| facts.lc);
                let earlier =
                    seen.iter().filter(|&&other| lc(other) < lc(local) && lc(other) > Some(local_rs));
                let conflict = finals.chain(earlier.filter(writes).copied()).find(|&other| other != local);
                if let Some(other) = conflict {
                    self.judge.add(
                        anomalies,
                        AnomalyKind::SpeculativeConflict,
                        &[self.txn, local, other],
                        || {
                            let (local, other) = (self.judge.words.txn(local), self.judge.words.txn(other));
                            let key = history.key(key);
                            format!(
                                "{} holds {local} and {other}, which both wrote {key} and overlap.",
                                self.name()
                            )
                        },
                    );
                }
            }
        }
    }
}
