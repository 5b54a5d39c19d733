//! How far speculation goes.

use std::fmt;

/// No speculation, speculative reads, or speculative reads and chains of speculative commits: the ladder that the tuner climbs (paper,
/// section 6.7). A greater degree allows everything that a lesser one allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Degree(u8);

impl Degree {
    /// Chains are so long at most.
    pub const CHAIN_MAX: u8 = 8;
    /// So many degrees there are.
    pub const COUNT: usize = 2 + Self::CHAIN_MAX as usize;
    /// No transaction reads what is not final, and no result is shown before it is final.
    pub const NONE: Degree = Degree(0);
    /// Transactions read local commits of their node. No result is shown before it is final.
    pub const READS: Degree = Degree(1);
    /// Speculative reads, and the longest chains.
    pub const HIGHEST: Degree = Degree(1 + Self::CHAIN_MAX);

    /// Speculative reads, and chains of at most so many transactions that are shown and not final; chains of length zero are
    /// speculative reads alone. None if chains are not allowed to be so long.
    pub const fn chains(length_max: u8) -> Option<Degree> {
        if length_max <= Self::CHAIN_MAX { Some(Degree(1 + length_max)) } else { None }
    }

    /// True if transactions may read local commits of their node.
    pub const fn reads_speculatively(self) -> bool {
        self.0 >= Self::READS.0
    }

    /// So many transactions of a session may be shown and not final.
    pub const fn chain_max(self) -> u8 {
        self.0.saturating_sub(Self::READS.0)
    }

    /// All degrees up to this one, ascending.
    pub fn up_to(self) -> impl DoubleEndedIterator<Item = Degree> {
        (0..=self.0).map(Degree)
    }

    /// The place on the ladder, from 0, which is none, over 1, speculative reads, to 1 + n, chains of n.
    pub const fn rung(self) -> u8 {
        self.0
    }

    /// The place on the ladder, as an index.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The next lesser degree; none below the lowest.
    pub(super) fn lower(self) -> Option<Degree> {
        self.0.checked_sub(1).map(Degree)
    }

    /// The next greater degree; none above the highest.
    pub(super) fn higher(self) -> Option<Degree> {
        (self < Self::HIGHEST).then_some(Degree(self.0 + 1))
    }
}

impl fmt::Display for Degree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Degree::NONE => formatter.pad("none"),
            Degree::READS => formatter.pad("reads"),
            _ => formatter.pad(&format!("chains-{}", self.chain_max())),
        }
    }
}
