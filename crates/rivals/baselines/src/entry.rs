//! The entries of the log of a shard, and the pages of the state that it leads to.
//!
//! A vote is an entry: a participant has agreed once its PREPARED is stable, and has refused once REFUSED is. Which of both
//! comes first in the log counts, and the other means nothing. So the outcome of a transaction is a function of the logs of
//! its participants, and a reader of all of them can tell it.

use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::{Key, ShardId, Timestamp, Transaction, TransactionId};
use quorate_store::Version;

/// An entry of the log of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// This shard agrees to commit a transaction, and holds what it has read and writes until it is told the outcome.
    Prepared(Prepared),
    /// This shard has not prepared a transaction and never will.
    Refused {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that takes part in it, sorted.
        participants: Vec<ShardId>,
        /// No prepare of it is proposed above.
        until: Timestamp,
    },
    /// The outcome of a transaction that is prepared here.
    Decided {
        /// The transaction.
        transaction: TransactionId,
        /// Its fate.
        outcome: Outcome,
    },
    /// Prepares that are proposed below `floor` are refused from here on, and outcomes below `forgotten` are forgotten,
    /// which is never above the floor of any shard that took part in them.
    Floor {
        /// Nothing is prepared below.
        floor: Timestamp,
        /// Nothing is known below.
        forgotten: Timestamp,
    },
    /// A leader may have given away timestamps up to this one: those that a later one gives lie above.
    Ceiling(Timestamp),
}

/// The part of a prepared transaction that a shard holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its reads and writes here.
    pub part: Arc<Transaction>,
    /// The timestamp that its coordinator has proposed: a transaction below the floors is forgotten.
    pub proposed: Timestamp,
    /// When the first attempt at it began, by the clock of its client: the older one has precedence where locks are waited for.
    pub age: Timestamp,
    /// It commits at this timestamp or above.
    pub timestamp: Timestamp,
}

/// How a transaction has ended here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its fate.
    pub outcome: Outcome,
    /// Every shard that takes part in it, sorted.
    pub participants: Vec<ShardId>,
    /// No prepare of it is proposed above.
    pub until: Timestamp,
}

/// A part of the state that the entries up to some position have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Keys with all their versions, ascending.
    Versions(Vec<(Key, Version)>),
    /// Transactions that are prepared.
    Prepared(Vec<Prepared>),
    /// Transactions that have ended.
    Ended(Vec<(TransactionId, Ended)>),
    /// The rest.
    Bounds {
        /// Nothing is prepared below.
        floor: Timestamp,
        /// Nothing is known below.
        forgotten: Timestamp,
        /// The greatest timestamp that was prepared, committed or given away.
        last: Timestamp,
    },
}

/// Roughly how many bytes an entry takes, rather more than less: the entries of one message are chosen by it.
pub fn bytes(entry: &Entry) -> usize {
    const FIXED: usize = 64;
    /// The bytes around a key: its length, and of a read the version.
    const FRAMING: usize = 32;
    match entry {
        Entry::Prepared(Prepared { part, .. }) => {
            let named = part.reads.len() + part.writes.len() + part.ranges.len();
            FIXED + part.bytes() + FRAMING * named + 4 * part.participants.len()
        }
        Entry::Refused { participants, .. } => FIXED + 4 * participants.len(),
        Entry::Decided { .. } | Entry::Floor { .. } | Entry::Ceiling(_) => FIXED,
    }
}
