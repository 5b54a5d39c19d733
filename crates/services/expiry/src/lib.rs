//! Values that expire: how a transaction judges what it reads, and the sweeper that deletes keys whose values are over.
//!
//! ```text
//!   read-write, and strict read-only             a read at a timestamp              the sweeper
//!     judges by the clock with which it began      judges by its timestamp            looks for expiries that have passed
//!     over ─► the key is deleted in the            over ─► the key is absent          ─► a transaction reads the keys,
//!             same transaction                                                           and deletes what is over
//!     alive ─► it commits before the expiry
//! ```
//!
//! ADR 0085 says why these rules are right. In short: to every transaction that validates what it has read, a value ends by a committed deletion, which conflicts with any transaction that has read the value; so
//! the isolation of the keyspace holds, whatever clocks show. And in the order of timestamps a value ends at its expiry, because nobody who has seen it commits later, and nobody who has deleted it
//! for being over commits earlier.
//!
//! | module | role |
//! |---|---|
//! | `judge` | the judgement of one transaction on what it has read |
//! | `sweeper` | which keys are looked for and deleted, how many, and when |
//!
//! All of it is pure. The client library, the process of a node and the simulator run the same code.

mod judge;
mod sweeper;

pub use judge::{Judge, Verdict, at_timestamp};
pub use sweeper::{Due, Ended, Sweeper, SweeperConfig, Swept, Task, is_swept};

/// A bug that tests plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A transaction that finds a value over does not delete its key.
    LeavesOver,
    /// The sweeper deletes keys by the entries of their expiries, whatever they hold.
    SweepsUnread,
}
