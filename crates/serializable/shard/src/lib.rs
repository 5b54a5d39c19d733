//! The operations of a shard of a serializable keyspace.
//!
//! Granola orders one-round transactions and leaves open what they do. Here each participant's part is an
//! [`Operation`]: a [`Batch`] of conditions and steps over keys, a [`Call`] of a procedure, or a change of
//! which procedures there are. [`Shard`] carries them out, at every replica alike.
//!
//! | file | what to read it for |
//! |---|---|
//! | [`operation`] | what a client may ask a shard for |
//! | [`answer`] | what it is answered |
//! | [`shard`] | what a shard holds, and how operations run |
//! | [`divide`] | the client's side: parts for shards, classes, and answers from theirs |
//! | [`reader`] | a reader's side of what shards have frozen for it |
//! | [`library`] | where procedures come from |
//! | [`arithmetic`] | what increments and appends lead to |
//! | `wire` | the field numbers of all that |
//!
//! # Serializable with places
//! Every write stands at the [`Place`](quorate_granola::Place) of its transaction, and what it has
//! overwritten is kept until that is settled. So a reader sees the state before its place even if more has
//! run, and what ran ahead of the log can be undone. Locks are taken on keys and ranges, present or not:
//! an operation that is executed while a transaction is prepared, and does not conflict, might as well have been
//! executed after it.

pub mod answer;
pub mod arithmetic;
pub mod divide;
pub mod library;
pub mod operation;
pub mod reader;
pub mod shard;
mod wire;

pub use answer::{Answer, Found, FoundKey, Held, Inferred, Refusal, StepFault, read_answer};
pub use divide::{Division, NoAnswer, Placement};
pub use library::{Library, NoProcedures};
pub use operation::{
    Batch, Call, Condition, Declared, Deploy, Freeze, Infer, Malformed, Operation, ReadFrozen, Remove, Step,
    code_of,
};
pub use reader::{FrozenPage, FrozenReader, freezing, frozen_at, not_frozen};
pub use shard::{Frozen, Page, Shard, ShardWith, Version, Written};
pub use wire::changes_procedures;
