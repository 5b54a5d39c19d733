//! A keyspace of two shards, as a client knows it.

use std::sync::Arc;

use quorate_core::command::Routes;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard, shard_position};
use quorate_core::{Key, KeyspaceId, NodeId, ReplicaIndex, ShardId};

pub(crate) const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// Shards 1 and 2, of so many replicas each.
pub(crate) fn routes(replicas: u8) -> Arc<Routes> {
    let nodes: Vec<NodeId> = (0..u16::from(replicas)).map(NodeId).collect();
    let keyspace = Keyspace::new(
        KEYSPACE,
        "k",
        Isolation::Strict,
        Durability::Sync,
        [1, 2].map(|id| Shard::new(ShardId(id), nodes.clone())).to_vec(),
    );
    Arc::new(Routes::new(keyspace, vec![(0..replicas).map(ReplicaIndex).collect(); 2]))
}

/// A key of one of the shards, the `number`-th in order.
pub(crate) fn key(shard: u32, number: usize) -> Key {
    let of = |name: &String| shard_position(name.as_bytes(), 2) as u32 + 1 == shard;
    Key::from(
        (10_u32..).map(|name| name.to_string()).filter(of).nth(number).expect("there is no end of names"),
    )
}
