//! Transactions that a site has shown, and that do not abort, are in the snapshots of its later transactions.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::Judge;
use crate::history::{Action, History, KeyId, Op, Site, Timestamp, TxnId};
use crate::report::{Anomalies, AnomalyKind};
use crate::whitebox::snapshots::{commit, snapshot};
use crate::whitebox::{self, spell};

impl Judge<'_> {
    /// A transaction that a site had shown before another one of the site was invoked, and that does not abort, is in the
    /// snapshot of that one: finally, if the later one commits, and the earlier one was acknowledged or is touched.
    pub(super) fn own_site(&self, anomalies: &mut Anomalies) {
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
        let touched = self.history.ops(txn).iter().filter(|op| commits && op.is_certain());
        let mut touched = touched.map(|op| op.key);
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

/// The transactions shown so far that commit: greatest timestamps, with the transaction that has each.
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
