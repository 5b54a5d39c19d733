//! A quorum store that reads anywhere and writes everywhere, without transactions: the system that the TAPIR paper calls
//! QWStore (section 7.1, "an eventual consistency system with no transactions, built with IR operations that implement a read
//! anywhere, write everywhere policy").
//!
//! Each put is an inconsistent operation of [`quorate_ir`], with a timestamp: of two puts of a key the later timestamp stands,
//! whatever the order in which they arrive. A get asks the nearest replica. A put is sent as soon as the client asks for it, to
//! all replicas of its shard, and the transaction that it belongs to is over when all of its puts are complete; there is
//! nothing else to a commit.
//!
//! | file | role |
//! |---|---|
//! | [`message`] | all messages, their senders and the conclusions that may be drawn from them |
//! | [`record`] | what a replica keeps across a crash |
//! | [`replica`] | one copy of a shard: puts, gets, scans, comparing, forgetting |
//! | [`coordinator`] | inside the client: sends puts, reads, says when a transaction is over |
//! | [`config`] | the identity of a machine and how long it waits |
//! | [`rules`] | the bugs that can be planted |
//! | `wire` | the field numbers |
//!
//! # What it promises, and what it does not
//! * A put that was acknowledged is not lost: as long as no more than f replicas of its shard fail at a time, every replica
//!   comes to hold its value or one with a later timestamp.
//! * A get returns what somebody has put, or nothing.
//! * Replicas converge: once nobody writes any more they come to hold the same.
//!
//! It promises neither atomicity nor isolation nor sessions: others see some puts of a transaction and not yet others,
//! overwrite what was read, and a client that reads at another replica may miss its own puts. A transaction that aborts after
//! a put leaves it. The simulator shows these anomalies.
//!
//! # Where this deviates from the paper, and why
//! * "QWStore must wait for replies from all replicas for writes" (section 7.3). It does, for as long as one may expect them:
//!   once f + 1 have recorded a put it cannot be lost, so the store goes on without replicas that are silent for
//!   [`config::CoordinatorConfig::resend_timeout`]. The paper's store would stand still when a replica fails.
//! * Puts that the client asks for one after the other are sent at once and wait together. The paper's client waits for each
//!   before it asks for the next ([`config::CoordinatorConfig::puts_in_turn`] does as well).
//! * The paper does not say how records are forgotten, or how a replica that has missed a put ever learns of it. Here
//!   replicas compare what they have: see [`replica`].

pub mod config;
pub mod coordinator;
mod hosted;
pub mod message;
pub mod record;
pub mod replica;
pub mod rules;
mod wire;

pub use config::{CoordinatorConfig, ReplicaConfig};
pub use coordinator::Coordinator;
pub use message::{Message, QwStore};
pub use quorate_coordinator::CoordinatorTimer;
pub use quorate_core::hosted::Boot;
pub use record::Record;
pub use replica::{Remains, Replica, ReplicaEvent, ReplicaTimer};
pub use rules::{Plant, Rules};
