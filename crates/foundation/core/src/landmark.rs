//! The few messages by which the host of a replica follows a transaction, whatever its protocol.
//!
//! Each protocol names its own, in [`HostedReplica`](crate::hosted::HostedReplica). Only transactions that write are followed, and only by the replicas of
//! the first shard that takes part in one, so that a sum over shards counts each once.

use crate::id::TransactionId;
use crate::key::Key;

/// So many keys of a transaction are remembered at most.
pub const KEYS_MAX: usize = 4;

/// The first keys that a transaction writes.
pub type FewKeys = [Option<Key>; KEYS_MAX];

/// A moment in the life of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landmark {
    /// The replica is asked to commit it, or to prepare it.
    Asked(TransactionId),
    /// Its coordinator takes the slow path.
    Slow(TransactionId),
    /// The replica finds another transaction in its way.
    Hindered(TransactionId),
    /// It has ended.
    Ended(TransactionId, End),
    /// Another replica is to be asked.
    Passed(TransactionId),
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has committed.
    Committed,
    /// It has committed after other sites were asked.
    CommittedSlowly,
    /// It has aborted.
    Aborted,
}

/// The first of these keys.
pub fn few<'a>(keys: impl IntoIterator<Item = &'a Key>) -> FewKeys {
    let mut few = FewKeys::default();
    few.iter_mut().zip(keys).for_each(|(place, key)| *place = Some(key.clone()));
    few
}
