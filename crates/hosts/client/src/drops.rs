//! Dropping keyspaces, and bringing them back.
//!
//! A drop is one transaction on the catalogue: it takes the entry of the keyspace away and records the drop, with the definition, under
//! the keyspace's number. So the name is free at once, and the nodes know what to keep, and until when.

use std::time::{Duration, Instant};

use quorate_core::KeyspaceId;
use quorate_core::topology::{Keyspace as Definition, Shard};
use quorate_wire::catalogue::{
    DELETE_AFTER, DropStage, Dropped, NEXT_KEYSPACE_KEY, decode_counter, dropped_key, dropped_range,
    encode_counter, keyspace_key,
};

use crate::catalogue::{self, Found, PAGE, damaged};
use crate::database::Database;
use crate::error::{Invalid, Result};
use crate::procedures::records;
use crate::transaction::{Transaction, clock_now};

/// So long a drop waits for nodes to have heard of it,
const PATIENCE: Duration = Duration::from_secs(2);

/// and so often it looks whether they have.
const POLL: Duration = Duration::from_millis(10);

/// How a keyspace is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropOptions {
    /// How long it can be brought back before its data is deleted: a day by default, not at all if this is zero. Nodes wait for that
    /// by clocks of their own, together, and longer if all of them are stopped meanwhile.
    pub delete_after: Duration,
}

impl Default for DropOptions {
    fn default() -> Self {
        DropOptions { delete_after: DELETE_AFTER }
    }
}

impl DropOptions {
    /// The data is deleted at once, and cannot be brought back.
    pub fn at_once() -> Self {
        DropOptions { delete_after: Duration::ZERO }
    }
}

/// How a keyspace is brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndropOptions {
    /// Its number, if several of its name were dropped; by default the one that was dropped last.
    pub id: Option<u32>,
    /// The name that it is given, if its own is not free any more.
    pub rename: Option<String>,
}

impl Database {
    /// Drops a keyspace and all that is in it: it serves nobody from then on, and its name is free. For a day it can be brought back.
    ///
    /// # Errors
    /// [`Invalid`] if there is no such keyspace, or whatever a transaction may end with.
    pub async fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.drop_keyspace_with(name, DropOptions::default()).await
    }

    /// Like [`Database::drop_keyspace`], with these options.
    ///
    /// # Errors
    /// As [`Database::drop_keyspace`].
    pub async fn drop_keyspace_with(&self, name: &str, options: DropOptions) -> Result<()> {
        if name == self.system().name() {
            return Err(Invalid::SystemKeyspace { name: name.to_owned() }.into());
        }
        let definition = self.system().transact(async |txn| remove(&txn, name, options).await).await??;
        self.await_unserved(&definition).await;
        Ok(())
    }

    /// Waits until a majority of each group says that the keyspace was dropped. From then on the keyspace serves no client, and a client that brings it back at
    /// once does not take a replica for usable that has not heard of the drop. A node that does not answer is waited for no longer than [`PATIENCE`].
    async fn await_unserved(&self, definition: &Definition) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let unserved = self.shared().session.unserved(definition);
            let is_unserved = |group: &Shard| unserved.iter().any(|replica| replica.shard == group.id);
            if definition.groups().all(is_unserved) {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Brings back a keyspace that was dropped, with all that is in it, and waits until it can be used. Gives how it is defined; nothing
    /// if the drop was one of [`Database::forget_keyspace`], which is taken back.
    ///
    /// # Errors
    /// [`Invalid::NoSuchDrop`] if there is no such keyspace that could be brought back, [`Invalid::KeyspaceExists`] if its name is not
    /// free any more; or whatever a transaction may end with.
    pub async fn undrop_keyspace(&self, name: &str, options: &UndropOptions) -> Result<Option<Definition>> {
        if let Some(rename) = &options.rename {
            catalogue::validate_name(rename)?;
        }
        let restored = self.system().transact(async |txn| restore(&txn, name, options).await).await??;
        if let Some(definition) = &restored {
            self.await_usable(definition).await?;
        }
        Ok(restored)
    }

    /// The keyspaces that were dropped and can be brought back, the one that was dropped last at the end.
    ///
    /// # Errors
    /// Any error that a transaction may end with.
    pub async fn dropped_keyspaces(&self) -> Result<Vec<Dropped>> {
        let mut dropped = self.system().transact(async |txn| list(&txn).await).await?;
        dropped.retain(|dropped| dropped.stage == DropStage::Waiting);
        Ok(dropped)
    }

    /// For operators, if nodes hold replicas of a keyspace that the catalogue does not know: records that it was dropped, so that they
    /// are deleted after the delay. `name` and `id` are those that the nodes tell.
    ///
    /// # Errors
    /// [`Invalid::KeyspaceKnown`] if the catalogue does know it, or whatever a transaction may end with.
    pub async fn forget_keyspace(&self, name: &str, id: u32, options: DropOptions) -> Result<()> {
        catalogue::validate_name(name)?;
        let id = KeyspaceId(id);
        Ok(self.system().transact(async |txn| forget(&txn, name, id, options).await).await??)
    }
}

/// Records a drop, and takes away what goes with it at once.
fn record(txn: &Transaction, dropped: Dropped) -> Result<()> {
    let dropped = if dropped.delete_after.is_zero() {
        for key in &dropped.procedures {
            txn.delete(key)?;
        }
        dropped.purged()
    } else {
        dropped
    };
    txn.put(dropped_key(dropped.id), quorate_wire::encode(&dropped))
}

/// Takes a keyspace out of the catalogue and records that it was dropped. Its id and those of its shards are never used again.
async fn remove(txn: &Transaction, name: &str, options: DropOptions) -> Result<Found<Definition>> {
    let Some(definition) = catalogue::remembered(txn, name).await? else {
        return catalogue::missing(txn, name).await.map(Err);
    };
    let id = definition.id;
    let before = find(txn, id).await?;
    let dropped = Dropped {
        id,
        name: name.to_owned(),
        stage: DropStage::Waiting,
        dropped_at: clock_now(),
        delete_after: options.delete_after,
        waited: Duration::ZERO,
        definition: Some(definition.clone()),
        former_names: before.map(|before| names_before(before, name)).unwrap_or_default(),
        procedures: records::keys(txn, id).await?,
    };
    record(txn, dropped)?;
    txn.delete(keyspace_key(name))?;
    Ok(Ok(definition))
}

/// The names that a keyspace had which is named so now, as far as they are recorded.
fn names_before(record: Dropped, name: &str) -> Vec<String> {
    let mut names = record.former_names;
    names.push(record.name);
    names.retain(|known| known != name);
    names.dedup();
    names
}

async fn restore(
    txn: &Transaction,
    name: &str,
    options: &UndropOptions,
) -> Result<Found<Option<Definition>>> {
    let mut waiting = list(txn).await?;
    waiting.retain(|dropped| dropped.stage == DropStage::Waiting);
    let is_meant =
        |dropped: &&Dropped| dropped.name == name && options.id.is_none_or(|id| dropped.id.0 == id);
    let Some(dropped) = waiting.iter().rfind(is_meant).cloned() else {
        let existing = waiting.iter().map(|dropped| format!("{} ({})", dropped.name, dropped.id.0)).collect();
        return Ok(Err(Invalid::NoSuchDrop { name: name.to_owned(), existing }));
    };
    let name = options.rename.as_deref().unwrap_or(name);
    let restored =
        dropped.definition.as_ref().map(|known| Definition { name: name.to_owned(), ..known.clone() });
    if let Some(definition) = &restored {
        if txn.get(keyspace_key(name)).await?.is_some() {
            return Ok(Err(Invalid::KeyspaceExists { name: name.to_owned() }));
        }
        catalogue::define(txn, definition)?;
    }
    // It stays: replicas are not new because the entry of their keyspace is, and may bear a former name.
    let (id, former_names) = (dropped.id, names_before(dropped.clone(), name));
    let name = name.to_owned();
    let stage = DropStage::Restored;
    let kept = Dropped { name, stage, former_names, definition: None, procedures: Vec::new(), ..dropped };
    txn.put(dropped_key(id), quorate_wire::encode(&kept))?;
    Ok(Ok(restored))
}

async fn forget(txn: &Transaction, name: &str, id: KeyspaceId, options: DropOptions) -> Result<Found<()>> {
    let before = find(txn, id).await?;
    let listed = catalogue::list(txn).await?.into_iter().find(|known| known.id == id);
    let known = match (listed, &before) {
        (Some(listed), _) => {
            Some(format!("it lists it as {:?}: `quorate keyspace drop` drops it", listed.name))
        }
        (None, Some(before)) if before.stage != DropStage::Restored => {
            Some(format!("it was dropped as {:?}", before.name))
        }
        _ => None,
    };
    if let Some(how) = known {
        return Ok(Err(Invalid::KeyspaceKnown { id: id.0, how }));
    }
    let dropped = Dropped {
        id,
        name: name.to_owned(),
        stage: DropStage::Waiting,
        dropped_at: clock_now(),
        delete_after: options.delete_after,
        waited: Duration::ZERO,
        definition: None,
        former_names: before.map(|before| names_before(before, name)).unwrap_or_default(),
        procedures: records::keys(txn, id).await?,
    };
    let next = txn.get(NEXT_KEYSPACE_KEY).await?.map(|value| decode_counter(&value)).transpose();
    if next.map_err(|error| damaged(&error))?.unwrap_or(1) <= id.0 {
        txn.put(NEXT_KEYSPACE_KEY, encode_counter(id.0.saturating_add(1)))?;
    }
    record(txn, dropped).map(Ok)
}

/// The record of a drop of this keyspace.
pub(crate) async fn find(txn: &Transaction, id: KeyspaceId) -> Result<Option<Dropped>> {
    txn.get(dropped_key(id)).await?.map(|value| decode(&value)).transpose()
}

/// The records of all drops, the last one at the end.
pub(crate) async fn list(txn: &Transaction) -> Result<Vec<Dropped>> {
    let range = dropped_range();
    let to = range.to.unwrap_or_default();
    let mut dropped = Vec::new();
    let mut from = Some(range.from);
    while let Some(start) = from {
        let page = txn.scan(start, &to, PAGE).await?;
        for (_, value) in &page.entries {
            dropped.push(decode(value)?);
        }
        from = page.next;
    }
    dropped.sort_by_key(|dropped: &Dropped| (dropped.dropped_at, dropped.id));
    Ok(dropped)
}

fn decode(value: &[u8]) -> Result<Dropped> {
    quorate_wire::decode(value).map_err(|error| damaged(&error))
}
