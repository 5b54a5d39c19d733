//! Edges between transactions, and the auxiliary nodes that keep their number linear.

use crate::history::KeyId;

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
    /// The first completed at a site before the second was invoked there (RTs).
    SiteOrder,
    /// The first was shown at a site before the second was invoked there, and the second commits and touches a
    /// key that the first wrote.
    Shown,
    /// Both ran at one site, and the second's snapshot holds all that the first's holds.
    Snapshot,
    /// The second's snapshot holds the first, maybe as a local commit of its site, and so all that the first
    /// saw.
    LocalCommit,
    /// The first did not commit, read a key, and ended before the second was invoked, which writes the key. So the
    /// snapshot of the first does not hold the second.
    Ended,
}

impl EdgeKind {
    /// All kinds in the order of their numbers.
    pub(crate) const ALL: [EdgeKind; 11] = [
        EdgeKind::ReadsFrom,
        EdgeKind::WriteOrder,
        EdgeKind::AntiDependency,
        EdgeKind::SessionOrder,
        EdgeKind::RealTime,
        EdgeKind::Onward,
        EdgeKind::SiteOrder,
        EdgeKind::Shown,
        EdgeKind::Snapshot,
        EdgeKind::LocalCommit,
        EdgeKind::Ended,
    ];

    /// The kind as a bit of an edge mask.
    pub(crate) const fn bit(self) -> u16 {
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
