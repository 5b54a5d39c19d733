//! Secondary indexes: a key can be found by a part of its value.
//!
//! ```text
//!   index list, one at each shard        a transaction that writes                    the shard
//!     which indexes there are  ─────────►  reads the list and what its keys held
//!                                          value before ─► entries before ┐
//!                                          value now    ─► entries now    ┴► puts and deletes ─────► entries are keys like any others
//! ```
//!
//! The entries of an index are keys of the same keyspace, above those of users ([`quorate_core::reserved`]), and are written in the transaction that writes
//! the value. So the isolation of the keyspace holds for both together, and nothing has to be repaired later. ADR 0084 has the argument and the alternatives.
//!
//! | module | role |
//! |---|---|
//! | `definition` | what an index is, and the list of all of them |
//! | `source` | how a value gives index values |
//! | `entry` | where the entry of an index value and a key stands |
//! | `keeper` | what a transaction writes beside its own writes |
//!
//! All of it is pure. The client library and the simulator run the same code.

mod definition;
mod entry;
mod keeper;
mod source;

pub use definition::{
    Definition, INDEXES_MAX, IndexList, InvalidDefinition, Malformed, NAME_BYTES_MAX, SHARDS_MAX, Stage,
    Unparsable,
};
pub use entry::{Entries, Entry, EntryRange, cursor_key, entry_range};
pub use keeper::{Checks, Keeper, NotUnique, Unfit};
pub use source::{INDEX_VALUE_BYTES_MAX, IndexValue, InvalidSource, Source, VALUES_MAX};
