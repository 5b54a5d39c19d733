//! Properties between replicas that do not hold, as a witness that sees all replicas finds out.
//!
//! A machine asserts what it can know by itself. That no two of them contradict each other no single one can know; each protocol
//! has a *witness* in its `invariants`, which is shown what every replica does and says, one after the other.

use crate::{ShardId, TransactionId};

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which property: its id, as in the table of the protocol's `invariants`.
    pub property: &'static str,
    /// The shard in which it was seen.
    pub shard: ShardId,
    /// The transaction that it is about, if it is about one: a client that lies may break its own.
    pub transaction: Option<TransactionId>,
    /// The values that contradict each other.
    pub explain: String,
}

impl Violation {
    /// A property that does not hold, of no single transaction.
    pub fn new(property: &'static str, shard: ShardId, explain: String) -> Self {
        Violation { property, shard, transaction: None, explain }
    }

    /// The same of one transaction.
    pub fn of(self, transaction: TransactionId) -> Self {
        Violation { transaction: Some(transaction), ..self }
    }
}
