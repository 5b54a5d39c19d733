//! Read snapshot, local commit and final commit (`rs`, `lc`, `fc`) for speculative snapshot isolation.
//!
//! The committed part passes the sweep for snapshot isolation. A *view* is what a transaction that did not
//! commit saw: the reads of an observed abort or of a speculative commit. Its snapshot must hold every final
//! commit at or below `rs`, and may hold local commits of its own site at or below `rs` that are not final by
//! then; which of these it does hold, its reads tell.
//!
//! What a site has shown, and does not abort, is in the snapshots of its later transactions: `lc` is at or below
//! their `rs`. So is `fc` where a transaction commits, and the earlier one had been acknowledged when it was invoked,
//! or wrote a key that it touches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;

use crate::dependencies::{Fate, SetUpdates, external_set_reads, is_reachable};
use crate::explain::Words;
use crate::history::{
    Action, Facts, History, KeyId, KeyType, Op, Outcome, Seen, Site, Timestamp, Txn, TxnId, Value,
};
use crate::level::Level;
use crate::report::{Anomalies, AnomalyKind, Report};
use crate::whitebox::snapshots::{self, commit, snapshot};
use crate::whitebox::{self, spell};

/// Checks that snapshots, local and final commits satisfy speculative snapshot isolation.
///
/// The verdict is unknown if a transaction with reads to judge has no snapshot timestamp or no site, if one of them saw a transaction of unknown
/// outcome whose final commit is not known, and where [`check_snapshots`](crate::check_snapshots) says so of the committed part.
pub fn check_speculation(history: &History) -> Report {
    let fates = whitebox::fates(history);
    let mut anomalies = Anomalies::default();
    let mut reason = snapshots::judge(history, &fates, Level::Si, &mut anomalies);
    let judge = Judge::new(history, &fates);
    judge.commit_order(&mut anomalies);
    judge.own_site(&mut anomalies);
    for (id, txn) in (0..).map(TxnId).zip(history.txns()).filter(|(id, _)| !fates[id.index()].is_effective())
    {
        let Some(ops) = view(history, txn) else { continue };
        match (txn.site, snapshot(history, txn)) {
            (Some(site), Some(rs)) => {
                let mut view = View { judge: &judge, txn: id, site, rs, ops, shown: None };
                view.shown = view.greatest_shown();
                let open = view.judge(&mut anomalies);
                reason = reason.or(open);
            }
            _ => {
                let txn = Words::new(history).txn(id);
                reason.get_or_insert_with(|| {
                    format!("{txn} shows reads without a site and a snapshot timestamp.")
                });
            }
        }
    }
    whitebox::report("speculation", history, &fates, anomalies, reason)
}

/// What a transaction that did not commit saw, if the history says so.
fn view<'a>(history: &'a History, txn: &'a Txn) -> Option<&'a [Op]> {
    match &txn.speculation {
        _ if txn.observed || txn.outcome == Outcome::Committed => Some(history.ops(txn)),
        Some(speculation) => Some(history.speculated_ops(speculation)),
        None => None,
    }
}

/// A version of a key, in the order in which nodes keep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    ts: Timestamp,
    txn: TxnId,
    position: u32,
    value: Value,
}

struct Judge<'a> {
    history: &'a History,
    words: Words<'a>,
    fates: &'a [Fate],
    /// Per key the final versions by their final commit.
    finals: Vec<Vec<Version>>,
    /// Who wrote a value, whatever became of it.
    writers: BTreeMap<(KeyId, Value), (TxnId, u32)>,
    updates: SetUpdates,
}

impl<'a> Judge<'a> {
    fn new(history: &'a History, fates: &'a [Fate]) -> Self {
        let mut finals = vec![Vec::new(); history.key_count()];
        let mut writers = BTreeMap::new();
        for (id, txn) in (0..).map(TxnId).zip(history.txns()) {
            for (position, op) in (0..).zip(history.ops(txn)) {
                let Some(value) = op.action.written() else { continue };
                writers.insert((op.key, value), (id, position));
                if let (true, Some(ts)) = (fates[id.index()].is_effective(), commit(history, txn)) {
                    finals[op.key.index()].push(Version { ts, txn: id, position, value });
                }
            }
        }
        finals.iter_mut().for_each(|versions: &mut Vec<Version>| versions.sort_unstable());
        let updates = SetUpdates::new(history, |_| true);
        Judge { history, words: Words::new(history), fates, finals, writers, updates }
    }

    fn facts(&self, txn: TxnId) -> Option<&'a Facts> {
        self.history.facts(self.history.txn(txn))
    }

    /// The timestamp at which the snapshot `rs` of a site holds a transaction: that of the final commit if it
    /// is low enough, else that of the local one at its own site. The flag says which.
    fn held(&self, txn: TxnId, site: Site, rs: Timestamp) -> Option<(Timestamp, bool)> {
        let record = self.history.txn(txn);
        let last =
            commit(self.history, record).filter(|&fc| fc <= rs && self.fates[txn.index()].is_effective());
        if let Some(fc) = last {
            return Some((fc, true));
        }
        let lc = self.facts(txn)?.lc.filter(|&lc| lc <= rs && record.site == Some(site))?;
        Some((lc, false))
    }

    /// Whether the snapshot of a local commit of a site held another transaction, be it as a local commit that became final only later.
    fn saw(&self, local: TxnId, other: TxnId, site: Site) -> bool {
        let rs = snapshot(self.history, self.history.txn(local));
        local != other && rs.is_some_and(|rs| self.held(other, site, rs).is_some())
    }

    fn final_versions(&self, key: KeyId, rs: Timestamp) -> &[Version] {
        let versions = &self.finals[key.index()];
        &versions[..versions.partition_point(|version| version.ts <= rs)]
    }

    fn add(
        &self,
        anomalies: &mut Anomalies,
        kind: AnomalyKind,
        txns: &[TxnId],
        why: impl FnOnce() -> String,
    ) {
        anomalies.add(self.history, kind, txns, why);
    }

    /// A transaction commits locally after its snapshot, and finally not before that.
    fn commit_order(&self, anomalies: &mut Anomalies) {
        for (id, txn) in (0..).map(TxnId).zip(self.history.txns()) {
            let Some(Facts { rs, lc: Some(lc), fc, .. }) = self.facts(id) else { continue };
            let is_update = whitebox::is_update(self.history, txn);
            if is_update && (rs.is_some_and(|rs| rs >= *lc) || fc.is_some_and(|fc| fc < *lc)) {
                self.add(anomalies, AnomalyKind::SnapshotViolation, &[id], || {
                    let known = |ts: Option<Timestamp>| ts.map_or("unknown".to_string(), spell);
                    format!(
                        "{} committed locally at {}, its snapshot being {} and its final commit {}.",
                        self.words.txn(id),
                        spell(*lc),
                        known(*rs),
                        known(*fc)
                    )
                });
            }
        }
    }

    /// What a site had shown before a transaction of the site was invoked, and does not abort, is in its snapshot:
    /// finally, if the transaction commits, and it was acknowledged or is touched.
    fn own_site(&self, anomalies: &mut Anomalies) {
        let mut events: Vec<(u32, TxnId, Line)> = Vec::new();
        for (id, txn) in (0..).map(TxnId).zip(self.history.txns()) {
            events.push((txn.invoke, id, Line::Invoke));
            if self.fates[id.index()].is_effective() && whitebox::is_update(self.history, txn) {
                events.extend(txn.speculation.map(|speculation| (speculation.index, id, Line::Spec)));
                events.extend(txn.known_completion().map(|ok| (ok, id, Line::Ok)));
            }
        }
        events.sort_unstable();
        let mut shown = Shown::new(self.history);
        for (_, id, line) in events {
            let txn = self.history.txn(id);
            let Some(site) = txn.site else { continue };
            let fc = commit(self.history, txn);
            let lc = self.facts(id).and_then(|facts| facts.lc).into_iter().chain(fc).min();
            match line {
                Line::Invoke => self.own_site_of(&shown, id, site, anomalies),
                Line::Spec => {
                    shown.first(site, lc.map(|lc| (lc, id)));
                    let changes = |op: &&Op| !matches!(op.action, Action::Read(_));
                    let keys = self.history.ops(txn).iter().filter(changes).map(|op| op.key);
                    fc.into_iter().for_each(|fc| shown.writes(site, keys.clone(), (fc, id)));
                }
                Line::Ok => {
                    shown.first(site, lc.map(|lc| (lc, id)));
                    shown.last(site, fc.map(|fc| (fc, id)));
                }
            }
        }
    }

    /// The same for one transaction, of what was shown before it.
    fn own_site_of(&self, shown: &Shown, id: TxnId, site: Site, anomalies: &mut Anomalies) {
        let txn = self.history.txn(id);
        let Some(rs) = snapshot(self.history, txn) else { return };
        let commits = self.fates[id.index()].is_effective();
        let is_missed = |&(ts, _): &(Timestamp, TxnId)| ts > rs;
        let missed = if commits { shown.finals[site.0 as usize].filter(is_missed) } else { None };
        if let Some((ts, before)) = missed.or(shown.locals[site.0 as usize].filter(is_missed)) {
            return self.add(anomalies, AnomalyKind::SnapshotViolation, &[before, id], || {
                let (before, txn) = (self.words.txn(before), self.words.txn(id));
                format!(
                    "{before} had committed at {}, at the same site, before {txn} was invoked, whose snapshot is {}.",
                    spell(ts),
                    spell(rs)
                )
            });
        }
        let mut touched = self.history.ops(txn).iter().map(|op| op.key).filter(|_| commits);
        let missed = touched.find_map(|key| Some((key, shown.of_key(site, key).filter(is_missed)?)));
        if let Some((key, (fc, before))) = missed {
            self.add(anomalies, AnomalyKind::SnapshotViolation, &[before, id], || {
                let (before, txn, key) = (self.words.txn(before), self.words.txn(id), self.history.key(key));
                format!(
                    "{before} had been shown at the same site before {txn} was invoked, and committed at {}; {txn}, whose \
                     snapshot is {}, touches {key}, which {before} wrote.",
                    spell(fc),
                    spell(rs)
                )
            });
        }
    }
}

/// A line of a transaction that matters to later transactions of its site, or to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Invoke,
    Spec,
    Ok,
}

/// What was shown so far of transactions that commit: greatest timestamps, with the transaction that has each.
struct Shown {
    /// Per site the final commits that are known to be final.
    finals: Vec<Option<(Timestamp, TxnId)>>,
    /// Per site the timestamps from which on transactions of the site may see what was shown.
    locals: Vec<Option<(Timestamp, TxnId)>>,
    /// Per site and key the final commits of what had a `spec` line and wrote the key.
    writes: HashMap<(Site, KeyId), (Timestamp, TxnId), FixedState>,
}

impl Shown {
    fn new(history: &History) -> Self {
        let none = vec![None; history.site_count()];
        Shown { finals: none.clone(), locals: none, writes: HashMap::default() }
    }

    fn first(&mut self, site: Site, lc: Option<(Timestamp, TxnId)>) {
        let greatest = &mut self.locals[site.0 as usize];
        *greatest = (*greatest).max(lc);
    }

    fn last(&mut self, site: Site, fc: Option<(Timestamp, TxnId)>) {
        let greatest = &mut self.finals[site.0 as usize];
        *greatest = (*greatest).max(fc);
    }

    fn writes(&mut self, site: Site, keys: impl Iterator<Item = KeyId>, fc: (Timestamp, TxnId)) {
        for key in keys {
            let greatest = self.writes.entry((site, key)).or_insert(fc);
            *greatest = (*greatest).max(fc);
        }
    }

    fn of_key(&self, site: Site, key: KeyId) -> Option<(Timestamp, TxnId)> {
        self.writes.get(&(site, key)).copied()
    }
}

/// What one transaction saw that did not commit.
struct View<'a> {
    judge: &'a Judge<'a>,
    txn: TxnId,
    site: Site,
    rs: Timestamp,
    ops: &'a [Op],
    /// The greatest final commit that its reads show.
    shown: Option<Timestamp>,
}

impl View<'_> {
    /// Adds what is wrong with the reads; returns a reason if the question stays open.
    fn judge(&self, anomalies: &mut Anomalies) -> Option<String> {
        let history = self.judge.history;
        let mut open = None;
        let mut seen_locals = BTreeSet::new();
        // Per key the version up to which it was read.
        let mut reached: BTreeMap<KeyId, Option<(Timestamp, TxnId)>> = BTreeMap::new();
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
                    reached.insert(op.key, versions.last().map(|(version, _)| (version.ts, version.txn)));
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
        self.whole(&reached, &seen_locals, anomalies);
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

    /// Whether the snapshot may hold a local commit in place of a final one that conflicts with it: the final part of a snapshot may end anywhere
    /// above what its reads show.
    fn passes(&self, local: &Version, last: &Version) -> bool {
        let rs = snapshot(self.judge.history, self.judge.history.txn(local.txn));
        rs < Some(last.ts) && self.shown < Some(last.ts)
    }

    /// The greatest final commit that the reads show. One of the own site may have been a local commit still, unless it was acknowledged before.
    fn greatest_shown(&self) -> Option<Timestamp> {
        let history = self.judge.history;
        let invoked = history.txn(self.txn).invoke;
        let of_writer = |value: Value, key: KeyId| {
            let (txn, _) = *self.judge.writers.get(&(key, value))?;
            let record = history.txn(txn);
            let is_told = record.known_completion().is_some_and(|end| end < invoked);
            let (ts, is_final) = self.judge.held(txn, self.site, self.rs)?;
            (is_final && (record.site != Some(self.site) || is_told)).then_some(ts)
        };
        let values = self.ops.iter().flat_map(|op| match op.action {
            Action::Read(Seen::Register(value)) => vec![(value, op.key)],
            Action::Read(Seen::List(list)) => {
                history.list(op.key, list).iter().map(|&value| (value, op.key)).collect()
            }
            _ => Vec::new(),
        });
        values.filter_map(|(value, key)| of_writer(value, key)).max()
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
        let follows = |(one, _): &(Version, bool), (next, is_final): &(Version, bool)| {
            one < next || !is_final && self.judge.saw(next.txn, one.txn, self.site)
        };
        let is_ordered = versions.windows(2).all(|pair| follows(&pair[0], &pair[1]));
        let mut finals = self.judge.final_versions(key, self.rs).iter();
        let is_held = |one: &Version| {
            let is_passed = versions.iter().any(|(local, is_final)| !is_final && self.passes(local, one));
            let is_there = match is_list {
                true => versions.iter().any(|(version, _)| version == one),
                false => versions.last().is_some_and(|last| *one <= last.0 || follows(&(*one, true), last)),
            };
            is_there || is_passed
        };
        let is_complete = finals.all(is_held);
        (is_ordered && is_complete).then_some(versions)
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

    /// Whoever saw a local commit on one key saw it on all.
    fn whole(
        &self,
        reached: &BTreeMap<KeyId, Option<(Timestamp, TxnId)>>,
        seen: &BTreeSet<TxnId>,
        anomalies: &mut Anomalies,
    ) {
        let history = self.judge.history;
        for &local in seen {
            let Some((ts, _)) = self.judge.held(local, self.site, self.rs) else { continue };
            for op in history.ops(history.txn(local)).iter().filter(|op| op.action.written().is_some()) {
                let missed = reached.get(&op.key).is_some_and(|&reached| reached < Some((ts, local)));
                if missed {
                    self.add(anomalies, AnomalyKind::FracturedRead, Some(local), || {
                        let (local, key) = (self.judge.words.txn(local), history.key(op.key));
                        format!("{} saw writes of {local}, but not the one to {key}.", self.name())
                    });
                }
            }
        }
    }

    /// Whether the snapshot surely holds a final commit below it: its site had acknowledged it before, or it was acknowledged while the view read, and a
    /// read shows one that is not before it. Clocks differ, so that a commit may come to stand below what was read before.
    fn surely_holds(&self, version: &Version) -> bool {
        let history = self.judge.history;
        let (txn, view) = (history.txn(version.txn), history.txn(self.txn));
        let end = view.speculation.map(|speculation| speculation.index).or(view.known_completion());
        let is_before = |index: u32| txn.known_completion().is_some_and(|completion| completion < index);
        let is_told = txn.site == Some(self.site) && is_before(view.invoke);
        is_told || self.shown >= Some(version.ts) && end.is_some_and(is_before)
    }

    /// SPSI-3: of two writers of a key in one snapshot one saw the other. What became final below the snapshot only after these reads, and shows in
    /// none of them, was in nobody's way: the local commit aborts with whatever has read from it.
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
                let finals = self.judge.final_versions(key, self.rs).iter();
                // What became final above the snapshot of the local commit may have been a local commit in it.
                let missed = |version: &&Version| {
                    version.ts > local_rs
                        && !self.judge.saw(local, version.txn, self.site)
                        && self.surely_holds(version)
                };
                let finals = finals.filter(missed).map(|version| version.txn);
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
