//! Which local commits each snapshot holds, and that they do not conflict (SPSI-3).
//!
//! A snapshot holds the local commits of which the transaction read a value, and those of which they read one.
//! Of two members that write one key one is in the snapshot of the other. Final commits hold final commits
//! only, so one that is in a snapshot together with a local commit that did not become final, and wrote the
//! same key, is in the snapshot of the local commit: both see the same final versions. There is one way round
//! that. A final commit may have had a local commit of its node in its snapshot, not read from it, written the
//! same key after it, and survived that the local commit aborted.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::Words;
use crate::history::{History, KeyId, KeyType, TxnId, Value};
use crate::levels::speculative::cast::Cast;
use crate::levels::speculative::possibilities::Possibilities;
use crate::levels::speculative::views::{Base, View, Views};
use crate::mutants::{self, Mutant};
use crate::report::{Anomalies, AnomalyKind};

/// Adds the members that reads do not show, and what views know of each other's final versions.
pub(super) fn complete(
    history: &History,
    cast: &Cast,
    views: &mut Views,
    possibilities: &mut Possibilities,
    anomalies: &mut Anomalies,
) {
    for view in views.of.values_mut() {
        view.members.clone_from(&view.sources);
    }
    order_lists(views);
    for (txn, key, base) in std::mem::take(&mut views.below) {
        if let Some(view) = views.of.get_mut(&txn) {
            let known = view.bases.entry(key).or_insert_with(|| base.clone());
            if *known != base {
                different_bases(history, txn, key, anomalies);
            }
        }
    }
    let mut members = Members { history, cast, views, anomalies };
    members.close();
    while members.anomalies.is_empty() && members.order_conflicts(possibilities) {
        members.close();
    }
    members.check_shown();
    while members.anomalies.is_empty() && members.share_bases() {}
}

/// Of two local commits that stand in a list the later one saw the earlier one.
fn order_lists(views: &mut Views) {
    let shown = views.of.values().flat_map(|view| view.shown.values());
    let pairs = shown.flat_map(|writers| writers.windows(2).map(|pair| (pair[0], pair[1])));
    for (one, next) in pairs.collect::<BTreeSet<_>>() {
        if let Some(view) = views.of.get_mut(&next) {
            view.members.insert(one);
        }
    }
}

fn different_bases(history: &History, txn: TxnId, key: KeyId, anomalies: &mut Anomalies) {
    anomalies.add(history, AnomalyKind::SpeculativeConflict, &[txn], || {
        let (txn, key) = (Words::new(history).txn(txn), history.key(key));
        format!("{txn} committed locally and wrote {key}, but not after the same final versions for all who saw it.")
    });
}

/// The keys that a transaction appends to or overwrites.
pub(super) fn written_keys(history: &History, txn: TxnId) -> BTreeSet<KeyId> {
    let ops = history.ops(history.txn(txn)).iter();
    ops.filter(|op| op.action.written().is_some()).map(|op| op.key).collect()
}

struct Members<'a> {
    history: &'a History,
    cast: &'a Cast,
    views: &'a mut Views,
    anomalies: &'a mut Anomalies,
}

impl Members<'_> {
    fn add(&mut self, kind: AnomalyKind, txns: &[TxnId], why: impl FnOnce(&Words<'_>) -> String) {
        let words = Words::new(self.history);
        self.anomalies.add(self.history, kind, txns, || why(&words));
    }

    /// Gives every snapshot what its members read from.
    fn close(&mut self) {
        let txns: Vec<TxnId> = self.views.of.keys().copied().collect();
        for txn in txns {
            let mut reached: BTreeSet<TxnId> = BTreeSet::new();
            let mut stack: Vec<TxnId> = self.views.of[&txn].members.iter().copied().collect();
            while let Some(member) = stack.pop() {
                if reached.insert(member) && !mutants::is_planted(Mutant::ForgetsSources) {
                    stack.extend(self.views.of.get(&member).into_iter().flat_map(|view| &view.sources));
                }
            }
            if reached.contains(&txn) {
                self.add(AnomalyKind::SpeculativeSnapshot, &[txn], |words| {
                    let txn = words.txn(txn);
                    format!("{txn} saw a local commit that must itself have seen {txn}.")
                });
            }
            let too_late = reached.iter().find(|&&member| !self.cast.may_be_seen(self.history, txn, member));
            if let Some(&member) = too_late.filter(|&&member| member != txn) {
                self.add(AnomalyKind::SpeculativeSnapshot, &[txn, member], |words| {
                    format!(
                        "The snapshot of {} holds the local commit of {}, which had aborted before, or came later.",
                        words.txn(txn),
                        words.txn(member)
                    )
                });
            }
            if let Some(view) = self.views.of.get_mut(&txn) {
                view.members = reached;
            }
        }
    }

    /// Orders two members of one snapshot that write one key and of which neither is known to have seen the
    /// other. Returns whether there were any.
    fn order_conflicts(&mut self, possibilities: &mut Possibilities) -> bool {
        if mutants::is_planted(Mutant::IgnoresSnapshotConflicts) {
            return false;
        }
        let mut open = BTreeSet::new();
        for view in self.views.of.values().filter(|view| view.members.len() > 1) {
            let mut writers: BTreeMap<KeyId, Vec<TxnId>> = BTreeMap::new();
            for &member in &view.members {
                for key in written_keys(self.history, member) {
                    writers.entry(key).or_default().push(member);
                }
            }
            for of_key in writers.values() {
                for (at, &one) in of_key.iter().enumerate() {
                    let unordered = |&&other: &&TxnId| !self.saw(one, other) && !self.saw(other, one);
                    open.extend(of_key[at + 1..].iter().filter(unordered).map(|&other| (one, other)));
                }
            }
        }
        let history = self.history;
        let shown = |txn: TxnId| {
            let txn = history.txn(txn);
            txn.speculation.map_or(txn.invoke, |speculation| speculation.index)
        };
        for &(one, other) in &open {
            // An earlier pair may have ordered this one.
            if self.saw(one, other) || self.saw(other, one) {
                continue;
            }
            let (first, then) = if shown(one) < shown(other) { (one, other) } else { (other, one) };
            let (first, then) = if possibilities.ask() { (then, first) } else { (first, then) };
            if let Some(view) = self.views.of.get_mut(&then) {
                view.members.insert(first);
            }
        }
        !open.is_empty()
    }

    fn saw(&self, txn: TxnId, member: TxnId) -> bool {
        self.views.of.get(&txn).is_some_and(|view| view.members.contains(&member))
    }

    /// The members of a snapshot show in the reads of every key that they wrote.
    fn check_shown(&mut self) {
        let (mut missed, mut survivors) = (Vec::new(), Vec::new());
        for (&txn, view) in &self.views.of {
            for &member in &view.members {
                for key in written_keys(self.history, member) {
                    let Some(shown) = view.shown.get(&key) else { continue };
                    // A list shows all that appended to it, a register only the last one that wrote it.
                    let is_list = self.history.key_type(key) == Some(KeyType::List);
                    let is_shown =
                        shown.iter().any(|&other| other == member || !is_list && self.saw(other, member));
                    let top = self.top(view, key).filter(|_| shown.is_empty());
                    match top.and_then(|top| self.survivor(top, key, member)) {
                        _ if is_shown => {}
                        Some(survivor) => survivors.push((survivor, member)),
                        None => missed.push((txn, member, key)),
                    }
                }
            }
        }
        self.views.survivors.extend(survivors);
        for (txn, member, key) in missed {
            let key = self.history.key(key);
            self.add(AnomalyKind::SpeculativeSnapshot, &[txn, member], |words| {
                let (txn, member) = (words.txn(txn), words.txn(member));
                format!("The snapshot of {txn} holds {member}, but its read of {key} does not show what {member} wrote.")
            });
        }
    }

    /// The writer of the final version of a register that a snapshot holds.
    fn top(&self, view: &View, key: KeyId) -> Option<TxnId> {
        match view.bases.get(&key)? {
            Base::Register(value) => self.writer(key, (*value)?),
            Base::List(_) => None,
        }
    }

    fn writer(&self, key: KeyId, value: Value) -> Option<TxnId> {
        let write = self.cast.writes.find(key, value)?;
        Some(self.cast.writes.write(write).txn)
    }

    /// Whether a final commit may have had a local commit in its snapshot that then aborted.
    fn may_survive(&self, txn: TxnId, local: TxnId) -> bool {
        self.cast.may_survive(self.history, txn, local)
    }

    /// The same for one that wrote a register last, or for one below it.
    fn survivor(&self, last: TxnId, key: KeyId, local: TxnId) -> Option<TxnId> {
        match self.history.key_type(key) {
            Some(KeyType::Register) => self.cast.survivor(self.history, last, key, local),
            _ => Some(last).filter(|&last| self.may_survive(last, local)),
        }
    }

    /// Tells a snapshot and its members of each other's final versions of the keys that the members write.
    /// Returns whether anybody learned anything.
    fn share_bases(&mut self) -> bool {
        let mut learned = Vec::new();
        let mut broken = Vec::new();
        let mut survivors = Vec::new();
        let mut is_doubtful = false;
        for (&txn, view) in &self.views.of {
            for &member in &view.members {
                let Some(member_view) = self.views.of.get(&member) else { continue };
                for key in written_keys(self.history, member) {
                    match (view.bases.get(&key), member_view.bases.get(&key)) {
                        (Some(base), Some(of_member)) => {
                            let after = self.after(key, base, of_member);
                            let survived = after.and_then(|after| {
                                after.into_iter().map(|txn| self.survivor(txn, key, member)).collect()
                            });
                            match survived {
                                Some::<Vec<TxnId>>(survived) => {
                                    survivors.extend(survived.into_iter().map(|txn| (txn, member)));
                                }
                                None => broken.push((txn, member, key)),
                            }
                        }
                        (Some(base), None) if self.has_survivor(key, base, member) => is_doubtful = true,
                        (Some(base), None) => learned.push((member, key, base.clone())),
                        (None, Some(base)) => {
                            is_doubtful |= self.may_have_survivor(view, key, member);
                            learned.push((txn, key, base.clone()));
                        }
                        (None, None) => is_doubtful |= self.may_have_survivor(view, key, member),
                    }
                }
            }
        }
        self.views.survivors.extend(survivors);
        self.views.is_doubtful |= is_doubtful;
        for (txn, member, key) in broken {
            let key = self.history.key(key);
            self.add(AnomalyKind::SpeculativeConflict, &[txn, member], |words| {
                let (txn, member) = (words.txn(txn), words.txn(member));
                format!(
                    "The snapshot of {txn} holds {member}, which wrote {key}, but not the same final versions of {key} as \
                     the snapshot of {member}."
                )
            });
        }
        let is_news = !learned.is_empty();
        for (txn, key, base) in learned {
            if let Some(view) = self.views.of.get_mut(&txn) {
                view.bases.entry(key).or_insert(base);
            }
        }
        is_news
    }

    /// The writers of the final versions that one snapshot holds after those of another one; none if it does
    /// not hold all of those.
    fn after(&self, key: KeyId, base: &Base, before: &Base) -> Option<Vec<TxnId>> {
        let values = match (base, before) {
            (Base::List(list), Base::List(before)) => list.strip_prefix(&before[..])?,
            (Base::Register(value), Base::Register(before)) if value == before => &[],
            (Base::Register(Some(value)), _) => std::slice::from_ref(value),
            _ => return None,
        };
        Some(values.iter().filter_map(|&value| self.writer(key, value)).collect())
    }

    fn has_survivor(&self, key: KeyId, base: &Base, member: TxnId) -> bool {
        let values = match base {
            Base::List(list) => &list[..],
            Base::Register(value) => value.as_slice(),
        };
        let mut writers = values.iter().filter_map(|&value| self.writer(key, value));
        writers.any(|writer| self.survivor(writer, key, member).is_some())
    }

    /// Whether a snapshot may hold a final commit that had a member of it in its own snapshot and wrote the
    /// same key. A register that shows the member shows that nobody wrote it after that one.
    fn may_have_survivor(&self, view: &View, key: KeyId, member: TxnId) -> bool {
        let is_register = self.history.key_type(key) == Some(KeyType::Register);
        let is_last = is_register && view.shown.get(&key).is_some_and(|shown| shown[..] == [member]);
        let mut writes = self.cast.writes.of_key(key).iter();
        !is_last && writes.any(|write| self.may_survive(write.txn, member))
    }
}
