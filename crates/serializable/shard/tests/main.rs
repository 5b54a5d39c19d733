//! What a shard of a serializable keyspace runs, from outside.

mod batches;
mod calls;
mod divide;
mod frozen;
mod golden;
mod library;
mod model;
mod sandboxed;
