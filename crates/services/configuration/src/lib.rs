//! The configuration service: what a cluster knows of itself, in one place that survives the loss of any minority of sites.
//!
//! A small ordered map of keys, replicated by a log over the sites: sites, nodes, keyspaces with their shards and epochs, and
//! the holders of containers. A reader may keep what it has read: every value names the revision at which it was written, and
//! a write says which revisions it relies on, so that acting on something stale is refused.
//!
//! | role | machine | hosted by |
//! |---|---|---|
//! | replica | [`Replica`], a [`LogMachine`](quorate_core::log::LogMachine) | server nodes in different sites, on a log |
//! | coordinator of transactions | [`Coordinator`] | the client library |
//! | subscriber: watches, leases, conditional writes | [`Subscriber`] | servers |
//!
//! | file | what to read it for |
//! |---|---|
//! | [`message`] | the protocol, from what is said |
//! | [`mod@entry`] | what survives a crash |
//! | `map` | an ordered map whose copies share what has not changed |
//! | `replica` | the state, reads, writes, watches, leases |
//! | `coordinator` | a transaction from begin to outcome |
//! | `subscriber` | what keeps a copy of a range, and what holds leases |
//! | `pauses` | how long a question waits before it is asked again |
//! | [`config`] | who a machine is, how long it waits, and how much there may be |
//! | [`rules`] | the planted bugs, for tests |
//! | `wire` | the field numbers |
//!
//! # What it promises
//! * *Revisions.* Every successful write has a revision of its own, one more than the one before; nothing else changes keys.
//! * *Conditional writes* ([`ConditionalWrite`]) are atomic and happen at most once, however often they are sent and under
//!   whichever leader. The result of one can be asked for.
//! * *Reads* at the leader are linearizable; at any other replica they are of some revision in the past, and say of which.
//! * *Watches* see every change of a range, in order, once, from the revision that they name; or they are told that it lies
//!   too far back.
//! * *Leases.* The holder of one knows until when, and nobody takes it for ended before, under any leader, as long as time
//!   passes about equally fast everywhere. Keys may be bound to a lease: they vanish when it ends, all at once.
//!
//! # Invariants
//! I1 strict serializability of what clients saw. I2 revisions explain every read. I3 acknowledged writes survive, once. I4
//! replicas are alike at equal positions; no two hold what one may hold. I6 everything that is asked is answered once faults
//! end. I7 memory is bounded, whatever is asked.

pub mod config;
mod coordinator;
pub mod entry;
mod hosted;
mod map;
pub mod message;
mod pauses;
mod replica;
pub mod rules;
mod subscriber;
mod wire;

pub use config::{CoordinatorConfig, Limits, ReplicaConfig, SubscriberConfig};
pub use coordinator::Coordinator;
pub use entry::{Change, Done, Entry, KeyState, LeaseId, Page, Revision, Stored};
pub use message::{Compare, ConditionalWrite, Consistency, Message, Put, Refusal, WriteResult};
pub use quorate_coordinator::CoordinatorTimer;
pub use replica::{Frozen, Replica, ReplicaEvent, ReplicaTimer};
pub use rules::{Plant, Rules};
pub use subscriber::{Holding, Subscriber, SubscriberCommand, SubscriberEvent, SubscriberTimer, Watched};
