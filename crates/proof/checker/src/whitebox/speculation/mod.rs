//! Read snapshot, local commit and final commit (`rs`, `lc`, `fc`) for speculative snapshot isolation.
//!
//! The committed part passes the sweep for snapshot isolation. A *view* is what a transaction that did not
//! commit saw: the reads of an observed abort or of a speculative commit. Its snapshot must hold every final
//! commit at or below `rs`, and may hold local commits of its own site at or below `rs` that are not final by
//! then; which of these it does hold, its reads tell.
//!
//! A transaction that a site has shown, and that does not abort, is in the snapshots of its later transactions: `lc` is at
//! or below their `rs`. So is `fc` where a transaction commits, and the earlier one had been acknowledged when it was
//! invoked, or wrote a key that it touches.

mod evidence;
mod own_site;
mod view;

use std::collections::BTreeMap;

use crate::dependencies::{Fate, SetUpdates};
use crate::explain::Words;
use crate::history::{Facts, History, KeyId, Op, Outcome, Site, Timestamp, Txn, TxnId, Value};
use crate::level::Level;
use crate::report::{Anomalies, AnomalyKind, Report};
use crate::whitebox::snapshots::{self, commit, snapshot};
use crate::whitebox::{self, spell};
use view::View;

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
        let Some(ops) = known_reads(history, txn) else { continue };
        match (txn.site, snapshot(history, txn)) {
            (Some(site), Some(rs)) => {
                let open = View::new(&judge, id, site, rs, ops).judge(&mut anomalies);
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

/// The reads of a transaction, if the history tells them.
fn known_reads<'a>(history: &'a History, txn: &'a Txn) -> Option<&'a [Op]> {
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
    /// The writer of each value, whatever became of it.
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

    /// Whether the snapshot of a local commit of a site may have held another transaction: as a final commit, or as a
    /// local one, maybe of a transaction that became final later and above that snapshot.
    fn may_have_seen(&self, local: TxnId, other: TxnId, site: Site) -> bool {
        let rs = snapshot(self.history, self.history.txn(local));
        local != other && rs.is_some_and(|rs| self.held(other, site, rs).is_some())
    }

    /// The final versions of a key at or below a timestamp.
    fn final_versions(&self, key: KeyId, rs: Timestamp) -> &[Version] {
        let versions = &self.finals[key.index()];
        &versions[..versions.partition_point(|version| version.ts <= rs)]
    }

    /// The final versions of a key above the first of two timestamps, and at or below the second.
    fn final_versions_between(&self, key: KeyId, above: Timestamp, rs: Timestamp) -> &[Version] {
        let versions = self.final_versions(key, rs);
        &versions[versions.partition_point(|version| version.ts <= above)..]
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
}
