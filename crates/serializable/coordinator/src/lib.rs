//! Transactions that read before they know what they write, over transactions that run in one round.
//!
//! A transaction of a serializable keyspace is an operation for each shard that takes part, known when it is sent. Users begin,
//! read, think and write. So what they run becomes several:
//!
//! ```text
//!   Begin
//!   Get, Scan ───► a transaction that only reads, one for each
//!   Put            noted
//!   Commit ──────► one transaction: if everything is as it was read, write
//! ```
//!
//! Reads are compared by *version*, the place in the serial order of the transaction that wrote it. If nothing has changed, the
//! transaction could have run at the place of the last one, so it stands there in the serial order; else it has changed nothing,
//! and may be tried again.
//!
//! | what it has read and writes | what is sent to commit |
//! |---|---|
//! | nothing written, read at once | nothing |
//! | nothing written | a transaction that only reads, over all shards |
//! | one shard | a transaction of that shard |
//! | several shards, nothing read | an independent transaction: nobody could refuse it |
//! | several shards | a coordinated transaction |
//!
//! A client that knows beforehand what a transaction does at each shard names the parts itself, and it runs in one round.
//!
//! | file | role |
//! |---|---|
//! | [`coordinator`] | the machine: what is open, and what it waits for |
//! | `execution` | reads, and writes that are noted |
//! | `commit` | what is compared, and what is written |
//! | `read_only` | transactions that read everything at once |
//! | `one_round` | transactions that run as the client has named them |
//! | `resolve` | what became of a transaction |
//! | `language` | what shards are asked, and what they answer |

mod commit;
pub mod coordinator;
mod execution;
mod language;
mod one_round;
mod read_only;
mod resolve;
#[cfg(test)]
mod tests;

pub use coordinator::Interactive;
