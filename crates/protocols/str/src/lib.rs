//! STR: speculative snapshot isolation over regions.
//!
//! *Source*: "Transparent Speculation in Geo-Replicated Transactional Data Stores" (Li, Van Roy, Romano), called the paper here.
//!
//! A transaction reads a snapshot and writes what nobody else has written since. It commits *locally* first, at the node that runs it, and
//! becomes *final* once the replicas of all shards that it writes to have agreed on its timestamp. Transactions of the same node need not
//! wait for that: they read from what has committed locally, as long as the snapshot could exist, and become final only after it.
//!
//! | role | machine | hosted by |
//! |---|---|---|
//! | client | [`Coordinator`] | the client library |
//! | machine of a node, in a home | [`Replica::Home`], a [`LogMachine`](quorate_core::log::LogMachine) | a server node, on the log of its home |
//! | replica of a shard | [`Replica::Shard`], a `LogMachine` | a server node, on the log of its shard |
//!
//! | file | role |
//! |---|---|
//! | [`message`] | the protocol, from what is said |
//! | [`mod@entry`] | what survives a crash |
//! | `home` | transactions of a node: speculation, certification, decisions |
//! | `shard` | versions, readers, grants, votes |
//! | `coordinator` | the client's side |
//! | [`config`] | the identity of a machine, how much it speculates, how long it waits |
//! | `settings` | the options of a keyspace |
//! | [`tuner`] | the degree of speculation, chosen while transactions run |
//! | `landmarks` | by which messages a host follows a transaction, and what people call messages |
//! | [`rules`] | the planted bugs, for tests |
//! | `wire` | the field numbers |
//!
//! # Where this deviates from the paper, and why
//! ADR 0050 has the reasons.
//! * Shards stand on replicated logs. Replicas serve reads, and vote, by grants of timestamps; one that is silent is passed.
//! * A node's speculative versions of all keys, not only of remote ones, are in its cache partition. Replicas on the node hold *notes* of them.
//! * A reader of the cache whose key has no replica on the node is told to the key's shard with the decision of the version that it has read.
//!   In the paper nothing protects such a reader after that.
//! * Decisions are in the log of the node's home before anybody is told.
//!
//! # What is missing
//! Grants go to every replica that is read at, and decisions stand in a home's log alone.

pub mod config;
mod coordinator;
pub mod entry;
mod home;
mod hosted;
mod landmarks;
mod machine;
pub mod message;
mod reasons;
pub mod rules;
mod settings;
mod shard;
pub mod tuner;
mod wire;

pub use config::{Clock, CoordinatorConfig, ReplicaConfig, Shows, Variant};
pub use coordinator::Coordinator;
pub use entry::{Entry, Frozen, Page};
pub use home::{Counts, Home};
pub use machine::{Replica, ReplicaCommand, ReplicaEvent, ReplicaTimer};
pub use message::Message;
pub use quorate_coordinator::CoordinatorTimer;
pub use rules::{Plant, Rules};
pub use shard::Shard;
