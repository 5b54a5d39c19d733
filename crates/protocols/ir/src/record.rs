//! What a replica remembers of operations.
//!
//! A record is an unordered set of operations. Each is *tentative* when a replica has recorded it and *final* when a
//! proposer or a view change has settled it. For view changes a record is split in two: the *base*, which every replica
//! that was normal in a view had from its start, and the *tail* that came since.

use std::collections::BTreeMap;

use quorate_core::hash::FixedMap;
use quorate_core::{Ballot, TransactionId, View};

use crate::Operations;
use crate::message::OperationId;

/// How settled an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Recorded here; may be settled otherwise elsewhere.
    Tentative,
    /// Settled under this ballot.
    Finalized(Ballot),
}

impl State {
    /// True if the operation is settled.
    pub fn is_finalized(self) -> bool {
        matches!(self, State::Finalized(_))
    }
}

/// A recorded consensus operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsensusEntry<O: Operations> {
    /// Its number within the transaction.
    pub number: u32,
    /// The operation.
    pub operation: O::Consensus,
    /// The verdict: this replica's own while tentative, the group's once final.
    pub verdict: O::Verdict,
    /// How settled the verdict is.
    pub state: State,
}

/// A recorded inconsistent operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InconsistentEntry<O: Operations> {
    /// The operation.
    pub operation: O::Inconsistent,
    /// True once it has run at this replica.
    pub executed: bool,
}

/// Everything that a record holds of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationEntries<O: Operations> {
    /// Its inconsistent operation.
    pub inconsistent: Option<InconsistentEntry<O>>,
    /// Its consensus operations, by ascending number.
    pub consensus: Vec<ConsensusEntry<O>>,
}

impl<O: Operations> Default for OperationEntries<O> {
    fn default() -> Self {
        OperationEntries { inconsistent: None, consensus: Vec::new() }
    }
}

/// Entries on their way between replicas or to the disk, sorted by transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPage<O: Operations> {
    /// The entries of each transaction.
    pub entries: Vec<(TransactionId, OperationEntries<O>)>,
}

impl<O: Operations> Default for RecordPage<O> {
    fn default() -> Self {
        RecordPage { entries: Vec::new() }
    }
}
