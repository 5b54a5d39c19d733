//! The procedures in the catalogue: a record for each version that a keyspace has, or had.
//!
//! The code itself lies at the shards. Its record is there before the code, and stays when the code is gone, so that a version never
//! stands for anything else.

use std::fmt;

use quorate_core::{ClockTime, Key, KeyRange, KeyspaceId};
use quorate_serializable_shard::operation::NAME_BYTES_MAX;

use quorate_codec::field::Varint;
use quorate_codec::{choices, message};

/// A version of a procedure, as the catalogue knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// How far it is.
    pub stage: Stage,
    /// The length of its code, in bytes.
    pub bytes: u64,
    /// The CRC-32 of its code, as `gzip` and `crc32` calculate it: enough to notice a mix-up. Shards compare the code itself.
    pub crc32: u32,
    /// When it was deployed, by the clock of the client that did.
    pub deployed_at: ClockTime,
}

/// How far a version of a procedure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Somebody has begun to deploy it: the shards have it, or do not.
    Deploying,
    /// All shards have it.
    Deployed,
    /// Somebody has begun to remove it: the shards have it, or do not.
    Removing,
    /// No shard has it any more.
    Removed,
}

impl Stage {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Deploying => "deploying",
            Stage::Deployed => "deployed",
            Stage::Removing => "removing",
            Stage::Removed => "removed",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

choices!(Stage {
    1 "deploying" [Stage::Deploying],
    2 "deployed" [Stage::Deployed],
    3 "removing" [Stage::Removing],
    4 "removed" [Stage::Removed],
});

message!(Deployment, "Deployment", {
    1 stage: Varint,
    2 bytes: Varint,
    3 crc32: Varint,
    4 deployed_at: Varint,
});

/// The key of the record of a version.
pub fn deployment_key(keyspace: KeyspaceId, name: &str, version: u32) -> Key {
    Key::from(format!("procedure/{:010}/{name}\0{version:010}", keyspace.0))
}

/// The range of the records of a keyspace.
pub fn deployments_range(keyspace: KeyspaceId) -> KeyRange {
    let prefix = format!("procedure/{:010}", keyspace.0);
    // '0' follows '/'.
    KeyRange { from: Key::from(format!("{prefix}/")), to: Some(Key::from(format!("{prefix}0"))) }
}

/// The range of the records of one procedure.
pub fn versions_range(keyspace: KeyspaceId, name: &str) -> KeyRange {
    let prefix = format!("procedure/{:010}/{name}", keyspace.0);
    // The keys that follow the end of a name.
    KeyRange { from: Key::from(format!("{prefix}\0")), to: Some(Key::from(format!("{prefix}\u{1}"))) }
}

/// The name and the version that a record is of; none if its key is not the key of one.
pub fn deployment_of(keyspace: KeyspaceId, key: &Key) -> Option<(&str, u32)> {
    let text = std::str::from_utf8(key.as_slice()).ok()?;
    let (_, rest) = text.split_once('/')?;
    let (_, rest) = rest.split_once('/')?;
    let (name, version) = rest.split_once('\0')?;
    let version = version.parse().ok()?;
    let is_sound = version > 0 && (1..=NAME_BYTES_MAX).contains(&name.len());
    (is_sound && deployment_key(keyspace, name, version) == *key).then_some((name, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: KeyspaceId = KeyspaceId(7);

    #[test]
    fn records_are_in_the_order_of_names_and_versions() {
        let order = [("a", 1), ("a", 9), ("a", 10), ("a", u32::MAX), ("a/1", 1), ("a1", 1), ("ä", 2)];
        let keys = order.map(|(name, version)| deployment_key(HERE, name, version));
        assert!(keys.is_sorted_by(|one, next| one < next));
        for (key, expected) in keys.iter().zip(order) {
            assert_eq!(deployment_of(HERE, key), Some(expected));
            assert_eq!(versions_range(HERE, "a").contains(key), expected.0 == "a", "{key:?}");
            assert!(deployments_range(HERE).contains(key));
            assert!(!deployments_range(KeyspaceId(8)).contains(key));
        }
    }

    #[test]
    fn what_is_no_key_of_a_record_is_none() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let keys = [
            deployment_key(KeyspaceId(8), "a", 1),
            deployment_key(HERE, "", 1),
            deployment_key(HERE, "a", 0),
            deployment_key(HERE, &long, 1),
            deployment_key(HERE, "a\0b", 1),
            Key::from("procedure/0000000007/a\x001"),
            Key::from("procedure/7/a\x000000000001"),
            Key::from("keyspace/0000000007/a\x000000000001"),
        ];
        for key in keys {
            assert_eq!(deployment_of(HERE, &key), None, "{key:?}");
        }
    }
}
