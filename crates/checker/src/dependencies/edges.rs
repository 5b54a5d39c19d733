//! Edges between transactions, and the auxiliary nodes that keep their number linear.

use crate::history::{KeyId, TxnId};

/// Why one transaction must come before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EdgeKind {
    /// The second read what the first wrote (WR).
    ReadsFrom,
    /// The second's version follows the first's (WW).
    WriteOrder,
    /// The first read a version older than the second's (RW).
    AntiDependency,
    /// Same session, and the first completed before the second was invoked (SO).
    SessionOrder,
    /// The first completed before the second was invoked (RT).
    RealTime,
    /// Leads from an auxiliary node onwards: the reason stands on the edge that entered it.
    Onward,
}

impl EdgeKind {
    /// The kind as a bit of an edge mask.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// An edge of a dependency graph. Nodes below the number of transactions are transactions, the others are
/// auxiliary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The key that the reason is about; meaningless for orders in time.
    pub(crate) key: KeyId,
    pub(crate) kind: EdgeKind,
}

/// Versions that follow a known one in an unknown order among themselves: each of `sources` comes before each
/// of `targets`, itself excepted.
///
/// Lists end in appends that no read shows; registers end in blind writes. Their order never matters to
/// anybody, except that all of them come after the last version that somebody placed.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    pub(crate) key: KeyId,
    /// The writer of the last placed version.
    pub(crate) last: Option<TxnId>,
    /// The readers of the last placed version, sorted.
    pub(crate) readers: Vec<TxnId>,
    /// The writers of the versions behind.
    pub(crate) targets: Vec<TxnId>,
}

impl Tail {
    /// Adds the edges of this tail, through the auxiliary node `node` rather than pairwise.
    ///
    /// A transaction that is both a reader and a target would seem to precede itself. The first of these goes
    /// before all other targets, which it did not see; any further one then closes a cycle with it, rightly
    /// so: both read one version and both replaced it.
    pub(crate) fn add_edges(&self, node: u32, edges: &mut Vec<Edge>) {
        if self.targets.is_empty() || (self.last.is_none() && self.readers.is_empty()) {
            return;
        }
        let edge = |from, to, kind| Edge { from, to, key: self.key, kind };
        let first = self.targets.iter().copied().find(|target| self.readers.binary_search(target).is_ok());
        let entry = first.map_or(node, |first| first.0);
        edges.extend(self.last.map(|last| edge(last.0, entry, EdgeKind::WriteOrder)));
        for reader in self.readers.iter().filter(|&&reader| Some(reader) != first) {
            edges.push(edge(reader.0, entry, EdgeKind::AntiDependency));
        }
        edges.extend(first.map(|first| edge(first.0, node, EdgeKind::AntiDependency)));
        for target in self.targets.iter().filter(|&&target| Some(target) != first) {
            edges.push(edge(node, target.0, EdgeKind::Onward));
        }
    }
}
