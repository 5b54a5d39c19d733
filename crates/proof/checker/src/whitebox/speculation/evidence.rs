//! The final commits that a view surely held while it read.
//!
//! A timestamp below the snapshot is no evidence: a transaction may become final there after the view has ended. There
//! are three kinds of evidence:
//!
//! - A read of the view shows a value that the transaction wrote, or a later final version of a register that it
//!   wrote.
//! - So does a read of a transaction from which the view read: that read had been answered before.
//! - The site of the view had shown the result of the transaction before the view was invoked.

use std::collections::BTreeSet;

use super::{Judge, known_reads};
use crate::history::{Action, KeyId, Op, Seen, Site, Timestamp, TxnId, Value};
use crate::whitebox::snapshots::{commit, snapshot};

/// The evidence about one view.
pub(super) struct Evidence<'a> {
    judge: &'a Judge<'a>,
    site: Site,
    /// The `invoke` line of the view.
    invoked: u32,
    /// The transactions that reads show, as far as they matter: those that became final above the lowest snapshot of
    /// the local commits that the view read from. Others are in conflict with none of these.
    shown: BTreeSet<TxnId>,
}

impl<'a> Evidence<'a> {
    /// Gathers the evidence about a view of a site, with the snapshot `rs`, from its reads.
    pub(super) fn of(judge: &'a Judge<'a>, view: TxnId, site: Site, rs: Timestamp, ops: &'a [Op]) -> Self {
        let history = judge.history;
        let is_local = |txn: &TxnId| judge.held(*txn, site, rs).is_some_and(|(_, is_final)| !is_final);
        let writers = values(judge, ops).filter_map(|(key, value)| judge.writers.get(&(key, value)));
        let locals = writers.map(|&(txn, _)| txn).filter(|txn| *txn != view && is_local(txn));
        let lowest = locals.filter_map(|txn| snapshot(history, history.txn(txn))).min();
        let mut evidence =
            Evidence { judge, site, invoked: history.txn(view).invoke, shown: BTreeSet::from([view]) };
        if let Some(lowest) = lowest {
            evidence.follow(site, ops, lowest);
        }
        evidence
    }

    /// Whether the view surely held a final commit, or held it when it was a local one.
    pub(super) fn holds(&self, txn: TxnId) -> bool {
        let record = self.judge.history.txn(txn);
        let spec = record.speculation.map(|speculation| speculation.index);
        let shown_at = spec.or(record.known_completion());
        let is_told = record.site == Some(self.site) && shown_at.is_some_and(|at| at < self.invoked);
        is_told || self.shown.contains(&txn)
    }

    /// Follows reads to the transactions that they show, and on to the reads of these.
    fn follow(&mut self, site: Site, ops: &'a [Op], above: Timestamp) {
        let judge = self.judge;
        let history = judge.history;
        let mut open: Vec<(Option<Site>, &[Op])> = vec![(Some(site), ops)];
        while let Some((site, ops)) = open.pop() {
            for txn in shown_by(judge, site, ops, above) {
                let fc =
                    commit(history, history.txn(txn)).filter(|_| judge.fates[txn.index()].is_effective());
                if fc.is_none_or(|fc| fc > above) && self.shown.insert(txn) {
                    let record = history.txn(txn);
                    open.extend(known_reads(history, record).map(|ops| (record.site, ops)));
                }
            }
        }
    }
}

/// The values of lists and registers that were read.
fn values<'a>(judge: &'a Judge<'_>, ops: &'a [Op]) -> impl Iterator<Item = (KeyId, Value)> + 'a {
    ops.iter().flat_map(|op| {
        let values = match &op.action {
            Action::Read(Seen::Register(value)) => std::slice::from_ref(value),
            Action::Read(Seen::List(list)) => judge.history.list(op.key, *list),
            _ => &[],
        };
        values.iter().map(|&value| (op.key, value))
    })
}

/// The transactions that the reads of a transaction of a site show. A register shows the last one that wrote it, and
/// if that was final, those below it that are above a timestamp. One of the same site may have been a local commit
/// still, above others that became final later.
fn shown_by(judge: &Judge<'_>, site: Option<Site>, ops: &[Op], above: Timestamp) -> Vec<TxnId> {
    let mut shown = Vec::new();
    for (key, value) in values(judge, ops) {
        let Some(&(writer, _)) = judge.writers.get(&(key, value)) else { continue };
        shown.push(writer);
        let record = judge.history.txn(writer);
        if record.site == site || !judge.fates[writer.index()].is_effective() {
            continue;
        }
        if let Some(fc) = commit(judge.history, record) {
            let below = judge.final_versions_between(key, above, fc);
            shown.extend(below.iter().map(|version| version.txn));
        }
    }
    shown
}
