//! The client library of Quorate: a geo-distributed, transactional key-value database.
//!
//! ```no_run
//! # async fn example() -> quorate::Result<()> {
//! let db = quorate::connect("127.0.0.1:7400").await?;
//! let accounts = db.keyspace("accounts").await?;
//!
//! let left = accounts
//!     .transact(async |txn| {
//!         let alice = txn.get(b"alice").await?.map_or(0, |value| value.len());
//!         txn.put(b"alice", vec![b'$'; alice.saturating_sub(1)])?;
//!         Ok(alice)
//!     })
//!     .await?; // runs again on conflicts, bounded by a deadline; errors say what to do
//!
//! let mut txn = accounts.begin().await?; // without running again
//! txn.put(b"bob", b"$$")?;
//! txn.commit().await?;
//! # drop(left);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | connect | [`connect()`], or [`connect_with`] and [`Options`] |
//! | read and write | [`Keyspace::transact`], [`Keyspace::begin`], or in one call [`Keyspace::get`], [`Keyspace::put`], [`Keyspace::apply`] and their like |
//! | know what became of a transaction | its [`Token`] and [`Database::outcome`] |
//! | say where containers are written first, and name new objects | [`Keyspace::container`], [`Container::new_id`] |
//! | let a session go on at another client or site | [`Database::seen`], [`Database::observe`] |
//! | run code at the shards, or the same code as a transaction of any isolation | [`Keyspace::deploy`], [`Keyspace::call`], [`Keyspace::transact_procedure`] |
//! | find keys by a part of their values | [`Keyspace::create_index`], [`Transaction::index`], [`Keyspace::find`] |
//! | create keyspaces | [`Database::create_keyspace`], [`Database::create_keyspace_if_absent`], [`Database::await_keyspace`] |
//! | drop keyspaces, and bring them back | [`Database::drop_keyspace`], [`Database::undrop_keyspace`] |
//! | change where replicas are | [`Database::change_replicas`] |
//! | say who may do what | [`Database::create_user`], [`Database::create_role`], [`Database::create_token`] |
//! | compare what replicas hold | [`Database::verify`] |
//! | read everything that a keyspace holds, at one instant | [`Database::cut`] |
//! | follow what commits | [`Keyspace::changes`], [`Keyspace::watch`], [`Keyspace::watch_prefix`] |
//! | tell other clients something, at most once | [`Database::announce`], [`Database::announcements`] |
//! | see the messages of a transaction | [`Database::trace`] |
//! | know what went wrong | [`Error`]: each variant says whether anything can have been committed, and what to do |
//!
//! # How it works
//! The coordinator of TAPIR runs here, in the client: reads go to the nearest replica, and a commit is one round trip to
//! the replicas of each shard that takes part. A [`Database`] hosts one coordinator for all its transactions, on the
//! tokio runtime of the caller, with one connection per node; thousands of transactions can be in flight.
//!
//! # Trust
//! A client that coordinates is trusted with the keyspaces that it writes to: its user needs the right `coordinate` there, once the cluster has users. One that may only
//! `read` runs transactions that only read. It logs in by the certificate of [`Options::certificates`], or by [`Options::credential`].
//!
//! # Features
//! None is on by default. `delay-files` reads emulated delays from files ([`wan::Matrix`]); `rivals` speaks with keyspaces that are run by the
//! systems which the protocols are compared with ([`KeyspaceOptions::comparison`]).

mod access;
mod announcements;
mod apply;
mod batch;
mod catalogue;
#[cfg(feature = "tls")]
mod certificates;
mod changes;
mod connect;
mod container;
mod coordinators;
mod creating;
mod cut;
mod database;
mod differences;
mod directory;
mod discover;
mod drops;
mod error;
mod expiring;
mod failure;
#[cfg(test)]
mod fake;
mod footprint;
mod host;
mod indexes;
mod joining;
mod keyspace;
mod membership;
mod once;
mod one_round;
mod options;
mod places;
mod procedures;
mod receipt;
mod removal;
mod retry;
mod seen;
mod session;
#[cfg(test)]
mod tests;
mod token;
mod trace;
mod transaction;
mod verify;
mod versions;
mod waiters;
mod window;

pub use access::{InvalidAccess, RoleChange, UserChange};
pub use announcements::{Announcement, Announcements};
pub use batch::{Applied, Batch, StepAnswer, Taken};
pub use catalogue::KeyspaceOptions;
#[cfg(feature = "tls")]
pub use certificates::{Certificates, CertificatesError};
pub use changes::{ChangePage, Changes, Cursor, InvalidCursor};
pub use connect::{Addresses, DEFAULT_PORT, connect, connect_with};
pub use container::{Container, ObjectKind, Placement};
pub use creating::{Ensured, ServingProgress};
pub use cut::{Cut, CutEntry, CutReader};
pub use database::Database;
pub use drops::{DropOptions, UndropOptions};
pub use error::{Error, Invalid, MissingReplica, Result};
pub use indexes::{IndexFault, IndexOptions, IndexProgress};
pub use joining::SiteJoin;
pub use keyspace::{Keyspace, RangeSnapshot, Snapshot};
pub use membership::ReplicaChange;
pub use once::{Marker, Once, Swept};
pub use options::Options;
pub use procedures::{Answers, Call, Concluded, InvalidProcedure, ProcedureVersion, Transacted};
pub use quorate_access as rights;
pub use quorate_core::changes::{Addition, Change, Position, Retention};
pub use quorate_core::command::{Member, Milestone, Outcome};
pub use quorate_core::comparison::{Rival, System};
pub use quorate_core::definer::{ChangeProgress, Changed};
pub use quorate_core::seen::{InvalidSeen, Seen};
pub use quorate_core::topology::{self, Durability, Isolation};
pub use quorate_core::transaction::{KEY_BYTES_MAX, LimitExceeded, TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX};
pub use quorate_core::{
    ClientId, Key, NodeId, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, Value, View, Write,
};
pub use quorate_credentials as credentials;
pub use quorate_expiry as expiry;
pub use quorate_index as index;
pub use quorate_runtime::transport::Counters;
pub use quorate_runtime::wan;
pub use quorate_serializable_shard::Refusal;
pub use quorate_serializable_shard::StepFault;
pub use quorate_wire::Credential;
pub use quorate_wire::ProtocolVersion;
pub use quorate_wire::catalogue::{DropStage, Dropped, Stage};
pub use quorate_wire::packet::ANNOUNCEMENT_BYTES_MAX;
pub use receipt::Receipt;
pub use removal::SiteRemoval;
pub use token::{InvalidToken, Token};
pub use trace::{Direction, Moment, Moments, TRACE_MOMENTS_MAX, Trace, TracedMessage};
pub use transaction::{
    Committing, Earlier, Index, IndexPage, Indexed, Info, Members, Page, SetIter, Speculated,
    SpeculativeCommit, Transaction, WithExpiry, end_of_prefix,
};
pub use verify::{
    Difference, DifferingKey, HeldData, HeldVersion, VerifiedReplica, VerifiedShard, VerifyOptions,
};
pub use waiters::Marked;

/// The page that registries show: its example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
