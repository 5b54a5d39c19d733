//! The errors in requests for procedures.

use quorate_core::ShardId;

/// Why a procedure cannot be deployed, called or removed as it was asked for, whatever the shards hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProcedure {
    /// Only serializable keyspaces run procedures.
    #[error("the keyspace {name:?} runs no procedures: create one with isolation serializable")]
    NotServed {
        /// Its name.
        name: String,
    },
    /// The request to a shard would go beyond a limit.
    #[error("{reason}")]
    Limit {
        /// The size, and which limit.
        reason: String,
    },
    /// A version of a procedure stands for one code for ever.
    #[error(
        "version {version} of {name:?} has other code, or was removed: deploy this as another version (without a number it becomes the next)"
    )]
    VersionTaken {
        /// The name of the procedure.
        name: String,
        /// The version.
        version: u32,
    },
    /// There never was such a version of a procedure.
    #[error(
        "the keyspace never had a version {version} of {name:?}: `quorate procedure list` says which there are"
    )]
    NoSuchVersion {
        /// The name of the procedure.
        name: String,
        /// The version.
        version: u32,
    },
    /// Nothing says at which shards a procedure is to be called: neither the call, nor the procedure itself.
    #[error(
        "the keyspace has several shards, and nothing says at which of them {name:?} is to be called, because it may touch any key: name \
         the keys that it touches, or one key of each shard, or give it a footprint"
    )]
    WithoutKeys {
        /// The name of the procedure.
        name: String,
    },
    /// A shard would be called once with two sets of arguments.
    #[error(
        "two of the keys that have arguments of their own lie at {shard}, which is called once: give it one for both"
    )]
    Arguments {
        /// The shard.
        shard: ShardId,
    },
}
