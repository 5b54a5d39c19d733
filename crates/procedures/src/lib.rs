//! What a shard of a serializable keyspace runs.
