//! Sites that were taken out of a keyspace (Walter, section 5.7, *aggressive*): the ends of their transactions.

use crate::vector::{LocalSite, Vector};

/// The end of a site, as all sites that are left have agreed on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// So many of its transactions are kept. Later ones are abandoned, as if they had never committed.
    pub last: u64,
    /// The transactions that must have committed at its successor before that lets in writes in its place.
    pub barrier: Vector,
}

/// A site that was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The site.
    pub site: LocalSite,
    /// The site that lets in what it let in.
    pub successor: LocalSite,
    /// How it has ended; none before all others have agreed.
    pub end: Option<End>,
}

/// How far a site had come when it went on without others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// How many removals it knew of.
    pub removals: u32,
    /// The transactions that it had received of the sites whose end is open.
    pub received: Vector,
    /// Those of them that had committed at it.
    pub committed: Vector,
    /// How many transactions had committed at it.
    pub seqno: u64,
}
