//! Versions behind the last one that somebody placed, in no known order among themselves.
//!
//! Lists end in appends that no read shows; registers end in blind writes. At the serializable levels their
//! order matters to nobody, except that all of them come after the last version that somebody placed. Where
//! writers of one key must see each other, the order is a choice.

use crate::dependencies::edges::{Edge, EdgeKind};
use crate::history::{History, KeyId, TxnId};
use crate::report::{Anomalies, AnomalyKind};

/// Versions that follow a known one: its writer and each of its readers come before each of `targets`.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    pub(crate) key: KeyId,
    /// The writer of the last placed version.
    pub(crate) last: Option<TxnId>,
    /// The readers of the last placed version, sorted. None of them is a target.
    pub(crate) readers: Vec<TxnId>,
    /// The writers of the versions behind.
    pub(crate) targets: Vec<TxnId>,
}

impl Tail {
    /// Places a target that has read the last version: it installed the next one, since nothing can come
    /// between. Any further target that has read that version too lost an update, or made the first one lose
    /// it.
    ///
    /// Returns what remains behind.
    pub(crate) fn place_updates(
        mut self,
        history: &History,
        edges: &mut Vec<Edge>,
        anomalies: &mut Anomalies,
    ) -> Option<Self> {
        let is_reader = |target: &TxnId| self.readers.binary_search(target).is_ok();
        let (updates, blind): (Vec<TxnId>, Vec<TxnId>) = self.targets.iter().copied().partition(is_reader);
        if let Some(&first) = updates.first() {
            let edge = |from: TxnId, kind| Edge { from: from.0, to: first.0, key: self.key, kind };
            edges.extend(self.last.map(|last| edge(last, EdgeKind::WriteOrder)));
            let others = self.readers.iter().filter(|&&reader| reader != first);
            edges.extend(others.map(|&reader| edge(reader, EdgeKind::AntiDependency)));
            for &other in &updates[1..] {
                report_lost_update(history, self.key, first, other, anomalies);
            }
            self = Tail { last: Some(first), readers: vec![first], targets: blind, ..self };
        }
        (!self.targets.is_empty()).then_some(self)
    }

    /// The edges of this tail, through the auxiliary node `node` rather than pairwise.
    pub(crate) fn for_each_edge(&self, node: u32, mut visit: impl FnMut(Edge)) {
        let edge = |from, to, kind| Edge { from, to, key: self.key, kind };
        // Of a writer that is also a reader it is said that it did not see what follows.
        let last = self.last.filter(|last| self.readers.binary_search(last).is_err());
        if let Some(last) = last {
            visit(edge(last.0, node, EdgeKind::WriteOrder));
        }
        for reader in &self.readers {
            visit(edge(reader.0, node, EdgeKind::AntiDependency));
        }
        for target in &self.targets {
            visit(edge(node, target.0, EdgeKind::Onward));
        }
    }
}

/// Reports that two transactions read one version of a key and both replaced it.
pub(crate) fn report_lost_update(
    history: &History,
    key: KeyId,
    one: TxnId,
    other: TxnId,
    anomalies: &mut Anomalies,
) {
    let (one, other) = (one.min(other), one.max(other));
    let edge = |from: TxnId, to: TxnId| Edge { from: from.0, to: to.0, key, kind: EdgeKind::AntiDependency };
    anomalies.add_cycle(history, AnomalyKind::LostUpdate, &[edge(one, other), edge(other, one)]);
}
