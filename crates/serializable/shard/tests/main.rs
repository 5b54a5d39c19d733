//! The operations of a shard of a serializable keyspace, from outside.

mod batches;
mod calls;
mod changes;
mod divide;
mod frozen;
mod golden;
mod library;
mod memory;
mod model;
mod sandboxed;
