//! How many transactions there were, and how they ended.

/// How many transactions and attempts there were, and how they ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Transactions that were begun.
    pub begun: u64,
    /// Attempts at them.
    pub attempts: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Attempts that did not.
    pub aborted: u64,
    /// Attempts whose client never learnt their fate.
    pub unknown: u64,
    /// Commits on the fast path in every shard.
    pub fast: u64,
    /// Commits that were prepared more than once.
    pub retried: u64,
}
