//! How the built-in keyspace `_system` stores what is known of the other keyspaces.
//!
//! | key | value |
//! |---|---|
//! | `keyspace/<name>` | the [`Keyspace`](quorate_core::topology::Keyspace), encoded |
//! | `next/keyspace` | the id of the next keyspace, four bytes, the least significant first |
//! | `next/shard` | the id of the next shard, likewise |
//!
//! In the configuration service there is more besides, for servers to read and to watch:
//!
//! | key | value |
//! |---|---|
//! | `site/<id>` | the name of a site |
//! | `node/<id>` | the [`Node`](quorate_core::topology::Node), encoded |
//! | `group/<shard>` | the [`Membership`](quorate_log::Membership) of a log that is in no keyspace's definition, encoded |
//! | `option/<keyspace>/<name>` | an option of a keyspace, as text |
//! | `container/<keyspace>/<id>` | the node that holds a container, as a counter; bound to its lease |
//!
//! Numbers in keys are decimal and as long as the greatest one, so that keys are in their order.
//!
//! Creating a keyspace is one strict transaction that reads and writes all three, so ids are never used twice.

use quorate_core::{Key, KeyRange, KeyspaceId, NodeId, ShardId, SiteId, Value};

use crate::error::{DecodeError, Fault};

/// The name of the built-in keyspace.
pub const SYSTEM_KEYSPACE: &str = "_system";

/// What the keys of keyspaces begin with.
pub const KEYSPACE_KEY_PREFIX: &str = "keyspace/";

/// The key of the counter of keyspaces.
pub const NEXT_KEYSPACE_KEY: &[u8] = b"next/keyspace";

/// The key of the counter of shards.
pub const NEXT_SHARD_KEY: &[u8] = b"next/shard";

/// The key under which a keyspace is stored.
pub fn keyspace_key(name: &str) -> Key {
    Key::from(format!("{KEYSPACE_KEY_PREFIX}{name}"))
}

/// The range of the keys of all keyspaces.
pub fn keyspace_range() -> KeyRange {
    KeyRange {
        from: Key::from(KEYSPACE_KEY_PREFIX),
        // The prefix with its last byte incremented: '0' follows '/'.
        to: Some(Key::from("keyspace0")),
    }
}

/// The key of a site.
pub fn site_key(site: SiteId) -> Key {
    Key::from(format!("site/{:05}", site.0))
}

/// The key of a node.
pub fn node_key(node: NodeId) -> Key {
    Key::from(format!("node/{:05}", node.0))
}

/// The key of a group of replicas that is in no keyspace's definition.
pub fn group_key(shard: ShardId) -> Key {
    Key::from(format!("group/{:010}", shard.0))
}

/// The key of an option of a keyspace.
pub fn option_key(keyspace: KeyspaceId, name: &str) -> Key {
    Key::from(format!("option/{:010}/{name}", keyspace.0))
}

/// The key of a container: whoever has written it, and holds the lease that it is bound to, holds the container.
pub fn container_key(keyspace: KeyspaceId, container: u64) -> Key {
    Key::from(format!("container/{:010}/{container:020}", keyspace.0))
}

/// The value of a counter.
pub fn encode_counter(counter: u32) -> Value {
    Value::copy_from_slice(&counter.to_le_bytes())
}

/// Reads back what [`encode_counter`] has written.
///
/// # Errors
/// The value does not have four bytes.
pub fn decode_counter(value: &[u8]) -> Result<u32, DecodeError> {
    let fault = Fault::Meaningless("a counter has four bytes");
    let bytes = value.try_into().map_err(|_| DecodeError::new("counter", "", fault))?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_keyspaces_holds_their_keys_and_no_counters() {
        let range = keyspace_range();
        for name in ["a", "_system", "ümlaut", "~"] {
            assert!(range.contains(&keyspace_key(name)), "{name}");
        }
        assert!(!range.contains(NEXT_KEYSPACE_KEY));
        assert!(!range.contains(NEXT_SHARD_KEY));
    }

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        assert!(
            site_key(SiteId(9)) < site_key(SiteId(10)) && site_key(SiteId(10)) < site_key(SiteId(u16::MAX))
        );
        assert!(node_key(NodeId(9)) < node_key(NodeId(u16::MAX)));
        assert!(group_key(ShardId(9)) < group_key(ShardId(u32::MAX)));
        let containers = [(1, 9), (1, 10), (1, u64::MAX), (2, 0), (u32::MAX, 0)];
        let keys = containers.map(|(keyspace, id)| container_key(KeyspaceId(keyspace), id));
        assert!(keys.is_sorted_by(|one, next| one < next));
        assert!(option_key(KeyspaceId(9), "z") < option_key(KeyspaceId(10), "a"));
        assert!(keys.iter().all(|key| !keyspace_range().contains(key)));
    }

    #[test]
    fn counters_are_read_back_and_others_refused() {
        assert_eq!(decode_counter(&encode_counter(0x0102_0304)), Ok(0x0102_0304));
        assert!(decode_counter(b"12345").unwrap_err().to_string().contains("four bytes"));
    }
}
