//! The systems that the papers compare themselves with, as machines that run wherever TAPIR runs.
//!
//! *Source*: "Building Consistent Transactions with Inconsistent Replication", section 7.1; "Granola: Low-Overhead Distributed
//! Transaction Coordination", section 6, for `sinfonia`.
//!
//! | system | concurrency | timestamps | reads |
//! |---|---|---|---|
//! | `txn-lock` | strict two-phase locking | by the client's clock | at the leader, locked |
//! | `txn-occ` | optimistic, validated at leaders | of a timestamp server | at the nearest replica |
//! | `span-lock` | strict two-phase locking | of bounded clocks, commit wait | at the leader, locked; or of a snapshot |
//! | `span-occ` | optimistic, validated at leaders | of bounded clocks, commit wait | at the nearest replica; or of a snapshot |
//! | `sinfonia` | minitransactions: compared and held when prepared, refused if that has to wait | by the client's clock | at the nearest replica |
//!
//! Each is two-phase commit over replicated logs: every shard is a group whose leader is the participant. All buffer writes at
//! the client, and the client is the coordinator; but for `sinfonia`, where a dedicated one coordinates what more than one shard
//! takes part in, and one participant decides alone what it alone takes part in. The outcome follows from what the participants have made durable, so that
//! nobody waits for the coordinator to make a decision durable: a transaction commits after one round trip to the leaders
//! and one from them to their backups, as in the paper's Figure 2.
//!
//! | role | machine | hosted by |
//! |---|---|---|
//! | coordinator | [`Coordinator`] | the client library |
//! | participant, timestamp server, dedicated coordinator | [`Replica`], a [`LogMachine`](quorate_core::log::LogMachine) | a server node, on a log |
//!
//! | file | what to read it for |
//! |---|---|
//! | [`message`] | the protocol, from what is said |
//! | [`mod@entry`] | what survives a crash |
//! | [`decision`] | the outcome as a function of the votes |
//! | `replica` | votes, reads, recovery, what may be forgotten |
//! | `coordinator` | a transaction from begin to outcome |
//! | [`config`] | which system a machine belongs to, who it is and how long it waits |
//! | [`rules`] | the planted bugs, for tests |
//! | `wire` | the field numbers |
//!
//! # What they claim
//! Strict serializability. Conflicting transactions are ordered by the instants at which all their participants held
//! them; commit timestamps order the versions of each key in the same way. In `txn-lock`, `txn-occ` and `sinfonia`, what a transaction has
//! read that writes nothing is not explained by timestamps: it is valid at the instant at which it was asked to commit. In
//! `span-lock` and `span-occ` timestamps explain every read, and snapshots in the past are serializable; a snapshot at the clock's
//! time is strict as long as clocks keep within the bound that the keyspace states. Nothing else depends on clocks.
//!
//! # Invariants
//! I1 strict serializability of what clients saw. I3 acknowledged writes survive, once. I4 replicas agree on every outcome and
//! on every version. I6 every transaction ends and leaves no hold behind. I7 what has ended is forgotten.

pub mod config;
mod coordinator;
pub mod decision;
pub mod entry;
mod hosted;
pub mod message;
mod replica;
pub mod rules;
mod wire;

pub use config::{CoordinatorConfig, ReplicaConfig, System};
pub use coordinator::Coordinator;
pub use entry::{Entry, Page};
pub use message::Message;
pub use quorate_coordinator::CoordinatorTimer;
pub use replica::{Frozen, Remains, Replica, ReplicaCommand, ReplicaEvent, ReplicaTimer};
pub use rules::{Plant, Rules};
