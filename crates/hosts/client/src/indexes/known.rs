//! The index lists of keyspaces, as far as this client knows them.
//!
//! A client that has never heard of a list asks for none, so that a keyspace without indexes costs nothing. Its shards refuse what it writes once there is one: then it asks. A
//! refusal says no more than that something was in the way, so it asks after every conflict of a transaction that writes, and at most once in a while.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::reserved::index_list_keys;
use quorate_core::topology::{Isolation, Keyspace as Definition, SerialOrder, shard_position};
use quorate_core::{Key, KeyspaceId, Value};
use quorate_index::{IndexList, SHARDS_MAX};
use quorate_wire::catalogue::SYSTEM_KEYSPACE_ID;
use tokio::time::Instant;

use super::error::IndexFault;

/// A client asks at most so often whether there are indexes that it does not know.
const ASKED_INTERVAL: Duration = Duration::from_secs(1);

/// A list that was read.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Its contents.
    pub(crate) list: Arc<IndexList>,
    /// Its bytes, as they stand at every shard.
    pub(crate) bytes: Value,
    /// Its keys, by the position of the shard.
    keys: Vec<Key>,
}

impl Listed {
    /// The list of the shard that holds a key.
    pub(crate) fn beside(&self, key: &[u8]) -> &Key {
        &self.keys[shard_position(key, self.keys.len())]
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct KnownIndexes {
    of_keyspace: Mutex<BTreeMap<KeyspaceId, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    listed: Option<Arc<Listed>>,
    /// True if there may be another list.
    is_doubted: bool,
    asked_at: Option<Instant>,
}

impl KnownIndexes {
    fn of_keyspace(&self) -> MutexGuard<'_, BTreeMap<KeyspaceId, Known>> {
        // No statement below leaves an entry half changed.
        self.of_keyspace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of a keyspace; none if it has none, as far as is known.
    pub(crate) fn listed(&self, keyspace: KeyspaceId) -> Option<Arc<Listed>> {
        self.of_keyspace().get(&keyspace).and_then(|known| known.listed.clone())
    }

    /// Takes over a list that was read.
    pub(crate) fn learn(
        &self,
        keyspace: &Definition,
        value: Option<Value>,
    ) -> Result<Option<Arc<Listed>>, IndexFault> {
        let listed = match value {
            None => None,
            Some(bytes) => {
                let list = IndexList::decode(Some(&bytes)).map_err(|malformed| IndexFault::Unreadable {
                    keyspace: keyspace.name.clone(),
                    malformed,
                })?;
                let keys = index_list_keys(keyspace.founders().len());
                Some(Arc::new(Listed { list: Arc::new(list), bytes, keys }))
            }
        };
        self.of_keyspace().entry(keyspace.id).or_default().listed.clone_from(&listed);
        Ok(listed)
    }

    /// A transaction that writes was refused: there may be a list that is not known.
    pub(crate) fn doubt(&self, keyspace: &Definition) {
        if unindexable(keyspace).is_some() {
            return;
        }
        let mut of_keyspace = self.of_keyspace();
        let known = of_keyspace.entry(keyspace.id).or_default();
        known.is_doubted = known.asked_at.is_none_or(|at| at.elapsed() >= ASKED_INTERVAL);
    }

    /// True, once, if the list of a keyspace is to be asked for.
    pub(crate) fn take_doubt(&self, keyspace: KeyspaceId) -> bool {
        let mut of_keyspace = self.of_keyspace();
        let Some(known) = of_keyspace.get_mut(&keyspace) else { return false };
        if known.is_doubted {
            known.asked_at = Some(Instant::now());
        }
        std::mem::take(&mut known.is_doubted)
    }
}

/// Why a keyspace cannot have indexes; none if it can.
pub(crate) fn unindexable(keyspace: &Definition) -> Option<String> {
    if keyspace.id == SYSTEM_KEYSPACE_ID {
        return Some("it is the catalogue".to_owned());
    }
    if keyspace.comparison.is_some() {
        return Some("a comparison system runs it, which is there to be measured".to_owned());
    }
    if keyspace.founders().len() > SHARDS_MAX {
        return Some(format!("it has {} shards, and {SHARDS_MAX} are the limit", keyspace.founders().len()));
    }
    match keyspace.isolation {
        Isolation::Strict if keyspace.timestamping.unwrap_or_default().order == SerialOrder::Timestamps => {
            let reason = "in the order of timestamps a transaction may commit below the entries of an index that it does not know; \
                          use a strict keyspace in the order of real time";
            Some(reason.to_owned())
        }
        Isolation::Strict | Isolation::Snapshot => None,
        Isolation::Serializable => {
            let reason = "procedures and one-round transactions write at its shards without reading what was there; use a keyspace that is strict or \
                          snapshot";
            Some(reason.to_owned())
        }
        Isolation::ParallelSnapshot => {
            let reason = "its sites commit without asking each other, also while they do not know of an index; use a keyspace that is strict or snapshot";
            Some(reason.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::topology::{Durability, Shard, Timestamping};
    use quorate_core::{NodeId, ShardId};

    use super::*;

    fn keyspace(isolation: Isolation) -> Definition {
        let shard = Shard::new(ShardId(1), vec![NodeId(0)]);
        Definition::new(KeyspaceId(1), "test", isolation, Durability::Sync, vec![shard])
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_asked_after_a_refusal_and_at_most_once_a_second() {
        let (known, strict) = (KnownIndexes::default(), keyspace(Isolation::Strict));
        assert!(!known.take_doubt(strict.id));
        known.doubt(&strict);
        assert!(known.take_doubt(strict.id) && !known.take_doubt(strict.id));
        known.doubt(&strict);
        assert!(!known.take_doubt(strict.id), "it was asked a moment ago");
        tokio::time::advance(ASKED_INTERVAL).await;
        known.doubt(&strict);
        assert!(known.take_doubt(strict.id));
        let other = Definition { id: KeyspaceId(2), ..keyspace(Isolation::ParallelSnapshot) };
        known.doubt(&other);
        assert!(!known.take_doubt(other.id), "it can have none");
    }

    #[test]
    fn what_is_no_list_is_not_taken_over() {
        let (known, strict) = (KnownIndexes::default(), keyspace(Isolation::Strict));
        let list = IndexList::default().encode();
        assert!(known.learn(&strict, Some(list.clone())).unwrap().is_some());
        assert!(known.learn(&strict, Some(Value::from_static(b"x"))).is_err());
        assert_eq!(known.listed(strict.id).map(|listed| listed.bytes.clone()), Some(list));
        assert!(known.learn(&strict, None).unwrap().is_none() && known.listed(strict.id).is_none());
    }

    #[test]
    fn keyspaces_that_cannot_keep_indexes_say_why() {
        assert_eq!(unindexable(&keyspace(Isolation::Strict)), None);
        assert_eq!(unindexable(&keyspace(Isolation::Snapshot)), None);
        let timestamping = Some(Timestamping { order: SerialOrder::Timestamps, ..Timestamping::default() });
        let shards = (0..257).map(|id| Shard::new(ShardId(id), vec![NodeId(0)])).collect();
        let table = [
            (Definition { timestamping, ..keyspace(Isolation::Strict) }, "order of timestamps"),
            (Definition { shards, ..keyspace(Isolation::Strict) }, "257 shards"),
            (Definition { id: SYSTEM_KEYSPACE_ID, ..keyspace(Isolation::Strict) }, "catalogue"),
            (keyspace(Isolation::Serializable), "one-round"),
            (keyspace(Isolation::ParallelSnapshot), "sites"),
        ];
        for (keyspace, expected) in table {
            let reason = unindexable(&keyspace).unwrap_or_default();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
