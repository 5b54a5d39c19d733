//! Walter: parallel snapshot isolation with preferred sites and counting sets.
//!
//! The protocol is that of *Transactional storage for geo-replicated systems* (Sovran, Power, Aguilera and Li, SOSP 2011). A transaction reads a
//! snapshot of its site and commits at its site; what it has written reaches the other sites later, causes before effects. No two
//! transactions that are concurrent at any site write the same register, because every register has one preferred site; counting sets
//! are updated anywhere, because their updates commute.
//!
//! | file | what it holds | section |
//! |---|---|---|
//! | [`message`] | the protocol, from what is said | 5 |
//! | [`entry`] | what survives a crash, and reaches every replica of a site | 5 |
//! | `replica` | the server of a local site | 5 |
//! | `coordinator` | the transactions of a client | 5.1 |
//! | [`removal`] | sites that were taken out | 5.7 |
//! | [`config`] | limits and time-outs | |
//! | `landmarks` | by which messages a host follows a transaction | |
//! | [`rules`] | the planted bugs, for tests | |
//! | [`vector`] | version numbers, and vectors that name sets of transactions | 5.2 |
//! | `register` | the versions of a register | 5.2 |
//! | [`counting_set`] | the counts of a set | 2, 3.3 |
//! | [`container`] | what decides where objects are written | 2, 4.1 |
//! | [`histories`] | all objects of a local site, what snapshots read of them, folding, abandoned transactions | 5.2, 5.7 |
//!
//! | role | machine | hosted by |
//! |---|---|---|
//! | coordinator | [`Coordinator`] | the client library |
//! | local site | [`Replica`], a [`LogMachine`](quorate_core::log::LogMachine) | a server node, on a log |

pub mod config;
pub mod container;
mod coordinator;
pub mod counting_set;
pub mod entry;
pub mod histories;
mod hosted;
mod landmarks;
pub mod message;
mod reasons;
mod register;
pub mod removal;
mod replica;
pub mod rules;
pub mod vector;
mod wire;

pub use config::{CoordinatorConfig, Moves, ReplicaConfig};
pub use container::{Container, Replicas};
pub use coordinator::Coordinator;
pub use entry::{Entry, Page, Stretch};
pub use histories::{Base, Count, Elements, Histories, Placed, Read, Registers, TooOld, Update};
pub use message::Message;
pub use quorate_coordinator::CoordinatorTimer;
pub use register::Written;
pub use removal::{End, Removal};
pub use replica::{Frozen, Replica, ReplicaCommand, ReplicaEvent, ReplicaTimer};
pub use rules::{Plant, Rules};
pub use vector::{LocalSite, Vector, VersionNumber};
