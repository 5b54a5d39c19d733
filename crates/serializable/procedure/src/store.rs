//! A procedure's view of its shard.

use alloc::vec::Vec;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The keys of a shard, as they stand where a transaction stands in the serial order, with what it has
/// written itself.
pub trait Store {
    /// The value of a key; none if there is none.
    ///
    /// # Errors
    /// See [`Stop`].
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop>;

    /// Sets the value of a key.
    ///
    /// # Errors
    /// See [`Stop`].
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// See [`Stop`].
    fn delete(&mut self, key: &[u8]) -> Result<(), Stop>;

    /// The keys from `from` up to, and without, `to`, with their values: at most `limit` of them, from one
    /// end.
    ///
    /// # Errors
    /// See [`Stop`].
    fn scan(&mut self, from: &[u8], to: &[u8], limit: usize, direction: Direction)
    -> Result<Vec<Pair>, Stop>;

    /// The timestamp of the transaction, in microseconds since the Unix epoch: the same at all its shards and at every replica, and not below
    /// those of the transactions before it in the serial order. None where it has none yet (a coordinated transaction runs before its
    /// shards have agreed on one) and in the sandbox.
    fn timestamp(&self) -> Option<u64> {
        None
    }
}

/// From which end a range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The smallest keys come first.
    Ascending,
    /// The greatest keys come first.
    Descending,
}

/// Why a procedure cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It touches what another transaction has locked.
    Locked,
    /// It writes, and was called to read only.
    ReadOnly,
    /// A key is empty or too long.
    InvalidKey,
    /// A value is too long.
    InvalidValue,
    /// It writes or reads more than a transaction may.
    TooLarge,
    /// The code has failed: a trap, or more work or memory than it may take.
    Failed,
}
