//! Walter: parallel snapshot isolation with preferred sites and counting sets.
//!
//! The protocol is that of *Transactional storage for geo-replicated systems* (Sovran, Power, Aguilera and Li, SOSP 2011). A transaction reads a
//! snapshot of its site and commits at its site; what it has written reaches the other sites later, causes before effects. No two
//! transactions that are concurrent at any site write the same register, because every register has one preferred site; counting sets
//! are updated anywhere, because their updates commute.
//!
//! | file | what it holds | section |
//! |---|---|---|
//! | [`vector`] | version numbers, and vectors that name sets of transactions | 5.2 |
//! | `register` | the versions of a register | 5.2 |
//! | [`counting_set`] | the counts of a set | 2, 3.3 |
//! | [`histories`] | all objects of a local site, what snapshots read of them, folding, abandoned transactions | 5.2, 5.7 |
//!

pub mod counting_set;
pub mod histories;
mod register;
pub mod vector;

pub use counting_set::From;
pub use histories::{Elements, Histories, Registers, TooOld, Update};
pub use register::Written;
pub use vector::{LocalSite, Vector, VersionNumber};
