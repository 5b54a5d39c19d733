//! The entries of the configuration service, which clients see as the built-in keyspace `_system`.
//!
//! | key | value |
//! |---|---|
//! | `keyspace/<name>` | the [`Keyspace`], encoded |
//! | `dropped/<keyspace>` | that a keyspace was dropped, and may come back or be deleted: [`Dropped`], encoded |
//! | `next/keyspace` | the id of the next keyspace, four bytes, the least significant first |
//! | `next/shard` | the id of the next shard, likewise |
//! | `site/<id>` | the name of a site |
//! | `node/<id>` | the [`Node`], encoded |
//! | `group/<shard>` | a [`Shard`] that is in no keyspace's definition, encoded: that of the configuration service itself |
//! | `option/<keyspace>/<name>` | an option of a keyspace, as text |
//! | `container/<keyspace>/<id>` | the node that holds a container, as a counter; bound to its lease |
//! | `user/<name>`, `role/<name>`, `token/<id>` | the entries of access control, encoded ([`quorate_access`]) |
//! | `next/access` | how often these were changed, as a counter |
//! | `version/protocol` | the [`ProtocolVersion`] in force, as a counter; absent: the first |
//! | `procedure/<keyspace>/<name>`, a byte zero, `<version>` | the [`Deployment`] of a procedure, encoded |
//!
//! Numbers in keys are decimal and as long as the greatest one, so that keys are in their order.
//!
//! Creating a keyspace is one strict transaction that reads and writes the first three, so ids are never used twice.
//!
//! A write has to be one that [`validate_put`] finds to make sense: what nobody could read would stop all nodes from learning of what comes behind it. Once there are
//! users, it also needs the rights that [`demands()`] names.

mod demands;
mod deployment;
mod dropped;

use quorate_core::topology::{Keyspace, Node, Shard};
use quorate_core::{GroupSize, Key, KeyRange, KeyspaceId, NodeId, ShardId, SiteId, Value};

use quorate_codec::decode;
use quorate_codec::{DecodeError, Fault};

use crate::version::{ProtocolVersion, Window};

pub use demands::{EntryDemand, Named, demands};
pub use deployment::{Deployment, Stage, deployment_key, deployment_of, deployments_range, versions_range};
pub use dropped::{
    DELETE_AFTER, DropStage, Dropped, dropped_key, dropped_range, is_dropped_key, is_keyspace_key,
    keyspaces_and_dropped_range,
};

/// The name of the built-in keyspace.
pub const SYSTEM_KEYSPACE: &str = "_system";

/// Its id. Those of other keyspaces follow.
pub const SYSTEM_KEYSPACE_ID: KeyspaceId = KeyspaceId(0);

/// Its only shard: the replicas of the configuration service. Those of other keyspaces follow.
pub const SYSTEM_SHARD: ShardId = ShardId(0);

/// The beginning of the keys of keyspaces.
pub const KEYSPACE_KEY_PREFIX: &str = "keyspace/";

/// The key of the counter of keyspaces.
pub const NEXT_KEYSPACE_KEY: &[u8] = b"next/keyspace";

/// The key of the counter of shards.
pub const NEXT_SHARD_KEY: &[u8] = b"next/shard";

/// The key of the counter of changes of users, roles and tokens: a reader that knows the counter knows them all.
pub const NEXT_ACCESS_KEY: &[u8] = b"next/access";

/// The key of the protocol version in force.
pub const PROTOCOL_VERSION_KEY: &[u8] = b"version/protocol";

/// The range of that key alone.
pub fn protocol_version_range() -> KeyRange {
    KeyRange { from: Key::from("version/"), to: Some(Key::from("version0")) }
}

/// The protocol version in force, by the value of its key.
///
/// # Errors
/// The value is no counter, or zero.
pub fn decode_protocol_version(value: Option<&[u8]>) -> Result<ProtocolVersion, DecodeError> {
    match value.map(decode_counter).transpose()? {
        None => Ok(ProtocolVersion::FIRST),
        Some(0) => {
            Err(DecodeError::new("protocol version", "", Fault::Meaningless("versions count from one")))
        }
        Some(version) => Ok(ProtocolVersion(version)),
    }
}

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

/// The range of the keys of all sites.
pub fn site_range() -> KeyRange {
    KeyRange { from: Key::from("site/"), to: Some(Key::from("site0")) }
}

/// The range of the keys of all nodes.
pub fn node_range() -> KeyRange {
    KeyRange { from: Key::from("node/"), to: Some(Key::from("node0")) }
}

/// The range of the keys of groups that are in no keyspace's definition.
pub fn group_range() -> KeyRange {
    KeyRange { from: Key::from("group/"), to: Some(Key::from("group0")) }
}

/// The ranges of the keys of users, of roles and of tokens.
pub fn access_ranges() -> [KeyRange; 3] {
    let range = |(from, to)| KeyRange { from: Key::from(from), to: Some(Key::from(to)) };
    [quorate_access::USER_RANGE, quorate_access::ROLE_RANGE, quorate_access::TOKEN_RANGE].map(range)
}

/// The key of a group of replicas that is in no keyspace's definition.
pub fn group_key(shard: ShardId) -> Key {
    Key::from(format!("group/{:010}", shard.0))
}

/// The key of an option of a keyspace.
pub fn option_key(keyspace: KeyspaceId, name: &str) -> Key {
    Key::from(format!("option/{:010}/{name}", keyspace.0))
}

/// The key of a container: the node that has written it, and holds the lease that it is bound to, holds the container.
pub fn container_key(keyspace: KeyspaceId, container: u64) -> Key {
    Key::from(format!("container/{:010}/{container:020}", keyspace.0))
}

/// Finds out whether a write makes sense to the readers of this key; no value deletes.
///
/// # Errors
/// The key is none that is kept here, the value is not what such a key holds, or what must always be there would be deleted.
pub fn validate_put(key: &Key, value: Option<&Value>) -> Result<(), DecodeError> {
    let fault = |what| Err(DecodeError::new("catalogue entry", "", Fault::Meaningless(what)));
    let Ok(text) = std::str::from_utf8(key.as_slice()) else { return fault("its key is no text") };
    if [NEXT_KEYSPACE_KEY, NEXT_SHARD_KEY, NEXT_ACCESS_KEY].contains(&key.as_slice()) {
        return match value {
            Some(value) => decode_counter(value).map(drop),
            None => fault("a counter cannot be deleted"),
        };
    }
    if key.as_slice() == PROTOCOL_VERSION_KEY {
        return match value {
            None => fault("no version comes before the one in force"),
            Some(value) => match decode_protocol_version(Some(value))? {
                version if version > Window::OWN.newest => {
                    fault("this node does not know the protocol version that is to be in force")
                }
                _ => Ok(()),
            },
        };
    }
    if quorate_access::Entry::is_key(key) {
        let wrong =
            |_| DecodeError::new("catalogue entry", "", Fault::Meaningless("it is no user, role or token"));
        return match value {
            Some(value) => quorate_access::Entry::read(key, value).map(drop).map_err(wrong),
            None => quorate_access::Entry::validate_key(key).map_err(wrong),
        };
    }
    let Some((kind, name)) = text.split_once('/') else { return fault("there is no such key") };
    let is_known = match kind {
        "keyspace" => !name.is_empty(),
        "dropped" => name.parse().is_ok_and(|id| dropped_key(KeyspaceId(id)) == *key),
        "site" => name.parse().is_ok_and(|id| site_key(SiteId(id)) == *key),
        "node" => name.parse().is_ok_and(|id| node_key(NodeId(id)) == *key),
        "group" => name.parse().is_ok_and(|id| group_key(ShardId(id)) == *key),
        "option" => name.split_once('/').is_some_and(|(id, name)| {
            !name.is_empty() && id.parse().is_ok_and(|id| option_key(KeyspaceId(id), name) == *key)
        }),
        "container" => name.split_once('/').is_some_and(|(keyspace, id)| {
            keyspace.parse().is_ok_and(|keyspace| {
                id.parse().is_ok_and(|id| container_key(KeyspaceId(keyspace), id) == *key)
            })
        }),
        "procedure" => name.split_once('/').is_some_and(|(keyspace, _)| {
            keyspace.parse().is_ok_and(|id| deployment_of(KeyspaceId(id), key).is_some())
        }),
        _ => false,
    };
    if !is_known {
        return fault("there is no such key");
    }
    let Some(value) = value else { return Ok(()) };
    match kind {
        "keyspace" => match decode::<Keyspace>(value)? {
            keyspace if keyspace.name != name => fault("a keyspace has another name than its key"),
            keyspace
                if keyspace.id == SYSTEM_KEYSPACE_ID
                    || keyspace.groups().any(|group| group.id == SYSTEM_SHARD) =>
            {
                fault("a keyspace has the id of the catalogue or of its shard")
            }
            _ => Ok(()),
        },
        "dropped" => match decode::<Dropped>(value)? {
            dropped if dropped_key(dropped.id) != *key => fault("a drop has another id than its key"),
            dropped if dropped.id == SYSTEM_KEYSPACE_ID => fault("the catalogue cannot be dropped"),
            _ => Ok(()),
        },
        "node" => match decode::<Node>(value)? {
            node if node_key(node.id) != *key => fault("a node has another id than its key"),
            _ => Ok(()),
        },
        "group" => match decode::<Shard>(value)? {
            shard if group_key(shard.id) != *key => fault("a group has another id than its key"),
            shard if GroupSize::new(shard.replicas.len()).is_err() => {
                fault("a group of the catalogue needs an odd number of replicas")
            }
            _ => Ok(()),
        },
        "container" => decode_counter(value).map(drop),
        "procedure" => decode::<Deployment>(value).map(drop),
        _ => match std::str::from_utf8(value) {
            Ok(_) => Ok(()),
            Err(_) => fault("its value is no text"),
        },
    }
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
    use quorate_core::topology::{Durability, Isolation};

    use super::*;
    use quorate_codec::encode;

    #[test]
    fn the_range_of_keyspaces_holds_their_keys_and_no_counters() {
        let range = keyspace_range();
        for name in ["a", "_system", "ümlaut", "~"] {
            assert!(range.contains(&keyspace_key(name)), "{name}");
        }
        assert!(!range.contains(NEXT_KEYSPACE_KEY));
        assert!(!range.contains(NEXT_SHARD_KEY));
        for id in [0, u16::MAX] {
            assert!(
                site_range().contains(&site_key(SiteId(id))) && node_range().contains(&node_key(NodeId(id)))
            );
        }
        assert!(!node_range().contains(NEXT_SHARD_KEY) && !site_range().contains(NEXT_SHARD_KEY));
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

    fn keyspace(id: u32, shard: u32) -> Value {
        encode(&Keyspace::new(
            KeyspaceId(id),
            "accounts",
            Isolation::Strict,
            Durability::Sync,
            vec![Shard::new(ShardId(shard), vec![NodeId(0)])],
        ))
    }

    #[test]
    fn what_nobody_could_read_is_no_entry() {
        let node = encode(&Node { id: NodeId(7), site: SiteId(0), address: "a:1".to_owned() });
        let group = encode(&Shard::new(SYSTEM_SHARD, [0, 1, 2].map(NodeId).to_vec()));
        let (counter, text) = (encode_counter(5), Value::from_static(b"text"));
        let deployed_at = quorate_core::ClockTime::from_micros(5);
        let deployment = encode(&Deployment { stage: Stage::Removed, bytes: 8, crc32: 1 << 31, deployed_at });
        let dropped = |id| {
            let record = Dropped {
                id: KeyspaceId(id),
                name: "accounts".to_owned(),
                stage: DropStage::Purged,
                dropped_at: deployed_at,
                delete_after: DELETE_AFTER,
                waited: DELETE_AFTER,
                definition: None,
                former_names: Vec::new(),
                procedures: Vec::new(),
            };
            encode(&record)
        };
        let user = encode(&quorate_access::User::new("ada"));
        let [newest, unknown, zero] = [Window::OWN.newest.0, Window::OWN.newest.0 + 1, 0].map(encode_counter);
        let table: [(Key, Option<&Value>, bool); 49] = [
            (Key::from(PROTOCOL_VERSION_KEY), Some(&newest), true),
            (Key::from(PROTOCOL_VERSION_KEY), Some(&unknown), false),
            (Key::from(PROTOCOL_VERSION_KEY), Some(&zero), false),
            (Key::from(PROTOCOL_VERSION_KEY), Some(&node), false),
            (Key::from(PROTOCOL_VERSION_KEY), None, false),
            (Key::from("version/other"), Some(&newest), false),
            (quorate_access::user_key("ada"), Some(&user), true),
            (quorate_access::user_key("ada"), None, true),
            (quorate_access::user_key("bob"), Some(&user), false),
            (quorate_access::user_key("ada"), Some(&text), false),
            (quorate_access::role_key("a/b"), None, false),
            (Key::from(NEXT_ACCESS_KEY), Some(&counter), true),
            (Key::from(NEXT_ACCESS_KEY), None, false),
            (dropped_key(KeyspaceId(1)), Some(&dropped(1)), true),
            (dropped_key(KeyspaceId(1)), None, true),
            (dropped_key(KeyspaceId(2)), Some(&dropped(1)), false),
            (dropped_key(KeyspaceId(0)), Some(&dropped(0)), false),
            (dropped_key(KeyspaceId(1)), Some(&text), false),
            (Key::from("dropped/1"), None, false),
            (keyspace_key("accounts"), Some(&keyspace(1, 1)), true),
            (keyspace_key("accounts"), None, true),
            (keyspace_key("other"), Some(&keyspace(1, 1)), false),
            (keyspace_key("accounts"), Some(&keyspace(0, 1)), false),
            (keyspace_key("accounts"), Some(&keyspace(1, 0)), false),
            (keyspace_key("accounts"), Some(&text), false),
            (keyspace_key(""), None, false),
            (Key::from(NEXT_SHARD_KEY), Some(&counter), true),
            (Key::from(NEXT_KEYSPACE_KEY), Some(&text), true),
            (Key::from(NEXT_KEYSPACE_KEY), Some(&node), false),
            (Key::from(NEXT_KEYSPACE_KEY), None, false),
            (site_key(SiteId(3)), Some(&text), true),
            (site_key(SiteId(3)), Some(&Value::from_static(b"\xff")), false),
            (Key::from("site/3"), Some(&text), false),
            (Key::from("site/00000000003"), None, false),
            (node_key(NodeId(7)), Some(&node), true),
            (node_key(NodeId(8)), Some(&node), false),
            (group_key(SYSTEM_SHARD), Some(&group), true),
            (group_key(ShardId(7)), Some(&group), false),
            (group_key(SYSTEM_SHARD), Some(&text), false),
            (option_key(KeyspaceId(1), "x"), Some(&text), true),
            (Key::from("option/1/x"), Some(&text), false),
            (container_key(KeyspaceId(1), 7), Some(&counter), true),
            (container_key(KeyspaceId(1), 7), Some(&node), false),
            (deployment_key(KeyspaceId(1), "a/b", 7), Some(&deployment), true),
            (deployment_key(KeyspaceId(1), "a", 7), Some(&text), false),
            (deployment_key(KeyspaceId(1), "a", 0), Some(&deployment), false),
            (deployment_key(KeyspaceId(1), "a", 7), None, true),
            (Key::from("key"), Some(&text), false),
            (Key::from(&b"\xff/"[..]), Some(&text), false),
        ];
        for (key, value, is_valid) in table {
            assert_eq!(validate_put(&key, value).is_ok(), is_valid, "{key:?} {value:?}");
        }
    }

    #[test]
    fn the_first_version_is_in_force_until_another_is_written() {
        assert_eq!(decode_protocol_version(None), Ok(ProtocolVersion::FIRST));
        assert_eq!(decode_protocol_version(Some(&encode_counter(7))), Ok(ProtocolVersion(7)));
        assert!(decode_protocol_version(Some(&encode_counter(0))).is_err());
        let range = protocol_version_range();
        assert!(range.contains(PROTOCOL_VERSION_KEY) && !range.contains(NEXT_ACCESS_KEY));
    }

    #[test]
    fn counters_are_read_back_and_others_refused() {
        assert_eq!(decode_counter(&encode_counter(0x0102_0304)), Ok(0x0102_0304));
        assert!(decode_counter(b"12345").unwrap_err().to_string().contains("four bytes"));
    }
}
