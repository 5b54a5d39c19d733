//! The vocabulary that every part of Quorate shares.
//!
//! The one idea of the project lives in [`machine`]: every participant of a protocol is a synchronous, deterministic
//! state machine. Input goes in, typed effects come out into an [`Outbox`] that the caller owns, and two drivers (the
//! simulator and the server's runtime) run the same machines. Everything else in this crate is what machines talk
//! about: [`id`]s, the two kinds of [`time`], [`timestamp`]s, [`transaction`]s and their limits, the [`command`]s of clients,
//! [`quorum`] arithmetic, the [`members`] of groups and the [`topology`] of a cluster. [`log`] is the port through which machines use a replicated log.
//! [`bound`] says which numbers are taken over from others. [`rules`] are what a bug can be planted into, and [`verify`] is how
//! replicas are compared; [`changes`] are what has committed, in its order. [`seen`] is how far a session has seen. [`reserved`] are the keys of the system, and [`expiry`] is how values say when they are over. [`hosted`] is how protocols are hosted, [`attic`] where their hosts keep values that do not fit into memory, and [`admission`] is what their hosts refuse under load. [`definer`] says when the next epoch of a keyspace may be defined, and [`acceptance`] how a group goes on that has lost too much. [`names!`] gives choices their names. [`replay`] says which records of a log count. [`lives`] and [`inventory`] say which nodes are believed and how replicas begin.
//!
//! This crate has no I/O, threads, clocks, unseeded randomness or iteration over hash order, and neither may anything
//! that is built from it alone.

pub mod acceptance;
pub mod admission;
pub mod attic;
pub mod bound;
pub mod caption;
pub mod changes;
pub mod command;
pub mod comparison;
pub mod counter;
pub mod definer;
pub mod draining;
pub mod expiry;
pub mod hash;
pub mod hosted;
pub mod id;
pub mod invariant;
pub mod inventory;
pub mod key;
pub mod landmark;
pub mod lives;
pub mod log;
pub mod machine;
pub mod members;
mod names;
pub mod quorum;
pub mod random;
pub mod replay;
pub mod reserved;
pub mod rules;
pub mod seen;
pub mod time;
pub mod timestamp;
pub mod topology;
pub mod transaction;
pub mod verify;

pub use id::{
    Address, Ballot, ClientId, Epoch, KeyspaceId, NodeId, ReplicaId, ReplicaIndex, ShardId, SiteId,
    TransactionId, View,
};
pub use key::Key;
pub use machine::{Context, Effect, Input, Machine, Outbox};
pub use members::{Groups, Members, Succession, Tenure};
pub use quorum::GroupSize;
pub use random::Random;
pub use time::{ClockTime, Instant};
pub use timestamp::Timestamp;
pub use transaction::{KeyRange, ReadVersion, Transaction, Value, Write};
