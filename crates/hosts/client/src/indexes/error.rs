//! Why an index cannot be created, kept or read. Nothing was committed.

use quorate_index::{InvalidDefinition, InvalidSource, Malformed, NotUnique, Stage, Unfit};

/// A call that an index does not allow, or that is about an index which is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexFault {
    /// A value does not parse, or would make too long an entry.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A value of a unique index belongs to another key.
    #[error(transparent)]
    NotUnique(#[from] NotUnique),
    /// The index cannot be defined like this.
    #[error(transparent)]
    Definition(#[from] InvalidDefinition),
    /// The text does not say what an index is on.
    #[error(transparent)]
    Source(#[from] InvalidSource),
    /// There is no such index.
    #[error("the keyspace {keyspace:?} has no index {name:?}; it has: {}", if existing.is_empty() { "none".to_owned() } else { existing.join(", ") })]
    NoSuchIndex {
        /// The keyspace.
        keyspace: String,
        /// The name that was asked for.
        name: String,
        /// The indexes that there are.
        existing: Vec<String>,
    },
    /// The index cannot be read yet, or not any more.
    #[error("the index {name:?} is {stage} and cannot be read: {}", if *stage == Stage::Dropping { "create it again" } else { "`quorate keyspace index create` with the same options goes on where it was interrupted" })]
    NotReady {
        /// The index.
        name: String,
        /// How far it is.
        stage: Stage,
    },
    /// The keyspace cannot have indexes.
    #[error("the keyspace {keyspace:?} cannot have indexes: {reason}")]
    NoIndexes {
        /// The keyspace.
        keyspace: String,
        /// The reason.
        reason: String,
    },
    /// The list of the indexes of a shard is not what it should be.
    #[error("the indexes of the keyspace {keyspace:?} are not known, and nothing was done: {malformed}")]
    Unreadable {
        /// The keyspace.
        keyspace: String,
        /// The mistake.
        malformed: Malformed,
    },
    /// An entry of an index is not what it should be.
    #[error("the index {name:?} holds what is no entry, at {entry}: drop it and create it again")]
    Damaged {
        /// The index.
        name: String,
        /// The key of the entry, readable.
        entry: String,
    },
    /// The key belongs to the system.
    #[error("keys that begin with two bytes 0xff belong to the system, and {key} does: choose another key")]
    Reserved {
        /// The key, readable.
        key: String,
    },
}
