//! The part of a transaction that has to do with indexes: writes are held back until it is known what their keys held, and keys are read by index.
//!
//! ```text
//!   put, delete ─► held back                 the coordinator has not been told
//!   scan, index, commit ─► settle:  what the keys held, and the lists of their shards   one round trip
//!                                   entries of unique indexes, lists of further shards  another one, where there are some
//!                                   ─► the coordinator is told of keys and entries
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::transaction::readable;
use quorate_core::{Key, KeyRange, Value};
use quorate_expiry::Verdict;
use quorate_index::{Checks, Entry, EntryRange, IndexList, IndexValue, Keeper, Stage, entry_range};

use super::{Inner, Page, Read, Transaction};
use crate::error::{Error, Invalid, Result};
use crate::indexes::IndexFault;
use crate::indexes::known::Listed;

/// Some keys that an index has found, in the order of their index values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexPage {
    /// The keys, each with the value by which it was found and with what it holds. A key that is found by several values is there for each of them.
    pub entries: Vec<Indexed>,
    /// Where to go on if the limit was reached, for [`Index::resume`]; none if there is no more.
    pub next: Option<Key>,
}

/// A key that an index has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Indexed {
    /// The value by which it was found.
    pub by: IndexValue,
    /// The key.
    pub key: Key,
    /// The value of the key.
    pub value: Value,
}

/// An index, as a transaction reads it. See [`Transaction::index`].
#[derive(Debug)]
pub struct Index<'a> {
    inner: &'a Arc<Inner>,
    name: String,
    resumed: Option<Key>,
}

impl Transaction {
    /// Reads an index: sees the transaction's own writes, and what it finds is validated like whatever else was read. Keys that come to be found later by a value that was asked
    /// for make the commit fail where a [scan](Transaction::scan) of them would.
    ///
    /// ```no_run
    /// # async fn example(users: quorate::Keyspace) -> quorate::Result<()> {
    /// // quorate keyspace index create users by-city --on json:/city
    /// users.put("ada", r#"{"city":"London"}"#).await?;
    /// let in_london = users.transact(async |txn| txn.index("by-city").get("London", 100).await).await?;
    /// for found in in_london.entries {
    ///     println!("{:?} {:?}", found.key, found.value);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn index(&self, name: impl Into<String>) -> Index<'_> {
        Index { inner: &self.inner, name: name.into(), resumed: None }
    }

    /// The list of indexes, which is the same at every shard.
    pub(crate) async fn read_index_lists(&self) -> Result<IndexList> {
        let keys = quorate_core::reserved::index_list_keys(self.inner.keyspace.founders().len());
        let mut lists = self.inner.read_beneath(&keys).await?;
        let first = lists.pop().flatten();
        if lists.iter().any(|list| *list != first) {
            // It is being changed, and this transaction cannot commit.
            return Err(Error::Conflict);
        }
        let unreadable =
            |malformed| IndexFault::Unreadable { keyspace: self.inner.keyspace.name.clone(), malformed };
        Ok(IndexList::decode(first.as_deref()).map_err(unreadable).map_err(Invalid::Index)?)
    }

    /// Writes the list of indexes at every shard.
    pub(crate) fn write_index_lists(&self, list: &IndexList) -> Result<()> {
        let value = list.encode();
        let keys = quorate_core::reserved::index_list_keys(self.inner.keyspace.founders().len());
        keys.into_iter().try_for_each(|key| self.write_reserved(key, Some(value.clone())))
    }

    /// Writes a key of the system.
    pub(crate) fn write_reserved(&self, key: Key, value: Option<Value>) -> Result<()> {
        self.inner.write_any(key, value)
    }

    /// Reads a range of keys as they are held, such as those of the system.
    pub(crate) async fn scan_reserved(&self, range: KeyRange, limit: u32) -> Result<Page> {
        self.inner.scan(range, limit).await
    }
}

impl Index<'_> {
    /// Goes on behind a page, at its [`IndexPage::next`].
    #[must_use]
    pub fn resume(self, next: Key) -> Self {
        Index { resumed: Some(next), ..self }
    }

    /// Reads up to `limit` keys that are found by a value.
    ///
    /// # Errors
    /// [`IndexFault::NoSuchIndex`], [`IndexFault::NotReady`]; else as [`Transaction::scan`].
    pub async fn get(self, value: impl Into<IndexValue>, limit: u32) -> Result<IndexPage> {
        self.find(&EntryRange::Equal(value.into()), limit).await
    }

    /// Reads up to `limit` keys that are found by values from one (included) to another one (excluded), in the order of values: booleans, numbers, texts. No end is that of the
    /// index.
    ///
    /// # Errors
    /// As [`Index::get`].
    pub async fn range(
        self,
        from: Option<IndexValue>,
        to: Option<IndexValue>,
        limit: u32,
    ) -> Result<IndexPage> {
        self.find(&EntryRange::Between(from, to), limit).await
    }

    async fn find(self, asked: &EntryRange, limit: u32) -> Result<IndexPage> {
        let inner = self.inner;
        inner.settle_indexes().await?;
        let list = inner.index_list().await?;
        let fault = |fault| Error::from(Invalid::Index(fault));
        let Some(index) = list.find(&self.name) else {
            let existing = list.indexes.iter().map(|index| index.name.clone()).collect();
            let (keyspace, name) = (inner.keyspace.name.clone(), self.name);
            return Err(fault(IndexFault::NoSuchIndex { keyspace, name, existing }));
        };
        if index.stage != Stage::Ready {
            return Err(fault(IndexFault::NotReady { name: self.name, stage: index.stage }));
        }
        let mut range = entry_range(index, Some(asked));
        if let Some(next) = self.resumed {
            range.from = range.from.max(next);
        }
        if range.is_empty() {
            return Ok(IndexPage::default());
        }
        let Page { entries, next } = inner.scan(range, limit.max(1)).await?;
        let mut found = Vec::with_capacity(entries.len());
        for (entry, held) in entries {
            let Some(read) = Entry::read(index, &entry, &held) else {
                let entry = readable(&entry);
                return Err(fault(IndexFault::Damaged { name: self.name, entry }));
            };
            found.push(read);
        }
        // One key may be found by several values.
        let keys: BTreeSet<Key> = found.iter().map(|entry| entry.key.clone()).collect();
        let keys: Vec<Key> = keys.into_iter().collect();
        let values = inner.read_beneath(&keys).await?;
        let of_keys: BTreeMap<Key, Option<Value>> = keys.into_iter().zip(values).collect();
        let mut entries = Vec::with_capacity(found.len());
        for Entry { value: by, key } in found {
            // An open transaction may see what cannot commit together: another one has come in between.
            let held = of_keys.get(&key).cloned().flatten().ok_or(Error::Conflict)?;
            // A key whose value is over is not found any more.
            if let Some(value) = inner.value_of(&key, Some(held))? {
                entries.push(Indexed { by, key, value });
            }
        }
        Ok(IndexPage { entries, next })
    }
}

impl Inner {
    /// The present list. A transaction that was begun under another one cannot commit.
    async fn index_list(&self) -> Result<Arc<IndexList>> {
        let first = match &self.indexes {
            Some(listed) => listed.beside(b"").clone(),
            None => quorate_core::reserved::index_list_keys(self.keyspace.founders().len()).swap_remove(0),
        };
        let value = self.read_beneath(&[first]).await?.pop().flatten();
        match (&self.indexes, &value) {
            (Some(listed), Some(value)) if listed.bytes == *value => Ok(Arc::clone(&listed.list)),
            (None, None) => Ok(Arc::default()),
            _ => Err(self.learn_indexes(value)),
        }
    }

    /// Takes over a list that is not the one under which this transaction was begun. Gives the error with which that ends.
    fn learn_indexes(&self, value: Option<Value>) -> Error {
        match self.shared.indexes.learn(&self.keyspace, value) {
            Ok(_) => Error::Conflict,
            Err(fault) => Invalid::Index(fault).into(),
        }
    }

    /// Reads keys at once, whatever of their writes is held back.
    pub(super) async fn read_beneath(&self, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        let mut values = Vec::with_capacity(keys.len());
        for read in self.ask_beneath(keys)? {
            values.push(self.read(read).await?);
        }
        Ok(values)
    }

    fn ask_beneath(&self, keys: &[Key]) -> Result<Vec<Read>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.require_served(keys.iter().map(|key| self.shard_of(key)))?;
        let mut progress =
            self.access(|footprint| keys.iter().try_for_each(|key| footprint.read(key, self.shard_of(key))))?;
        if self.shared.session.is_closed() {
            return Err(Error::Closed);
        }
        let before = self.tell(&mut progress);
        let receivers = self.shared.session.get_many(self.id, before, keys);
        drop(progress);
        let receivers = receivers.ok_or_else(|| self.ended())?;
        Ok(receivers.into_iter().map(Read::Asked).collect())
    }

    /// Lets the writes go that are held back, together with the entries that they lead to.
    pub(super) async fn settle_indexes(&self) -> Result<()> {
        let Some(listed) = &self.indexes else { return Ok(()) };
        let _only = self.settling.lock().await;
        let unread = {
            let mut progress = self.access(|_| Ok(()))?;
            if progress.is_settling {
                // It has failed half way: what was held back is lost, so the rest must not commit.
                return Err(Error::Conflict);
            }
            let Some(keeper) = progress.keeper.as_ref().filter(|keeper| keeper.holds()) else {
                return Ok(());
            };
            let unread = keeper.unread();
            progress.is_settling = true;
            unread
        };
        let lists: BTreeSet<Key> = unread.iter().map(|key| listed.beside(key).clone()).collect();
        // Where no index is kept, nothing need be known of what the keys held.
        let asked = if listed.list.is_idle() { &[][..] } else { &unread[..] };
        let keys: Vec<Key> = asked.iter().chain(&lists).cloned().collect();
        let mut values = self.read_beneath(&keys).await?;
        self.compare_lists(listed, &values[asked.len()..])?;
        values.truncate(asked.len());
        let before: BTreeMap<Key, Option<Value>> = asked.iter().cloned().zip(values).collect();
        let checks = {
            let mut progress = self.access(|_| Ok(()))?;
            let Some(keeper) = &mut progress.keeper else { return Err(Error::Conflict) };
            keeper.settle(&before).map_err(IndexFault::from).map_err(Invalid::Index)?
        };
        let further: BTreeSet<Key> = checks
            .writes
            .keys()
            .map(|key| listed.beside(key))
            .filter(|list| !lists.contains(*list))
            .cloned()
            .collect();
        let entries = checks.unread();
        let keys: Vec<Key> = entries.iter().chain(&further).cloned().collect();
        let mut values = self.read_beneath(&keys).await?;
        self.compare_lists(listed, &values[entries.len()..])?;
        values.truncate(entries.len());
        let found: BTreeMap<Key, Option<Value>> = entries.into_iter().zip(values).collect();
        let of = |entry: &Key| found.get(entry).cloned().flatten();
        let checks = match self.keyspace.expiring {
            true => self.give_up_over(checks, listed, of).await?,
            false => checks,
        };
        let writes = checks.judge(&listed.list, of).map_err(IndexFault::from).map_err(Invalid::Index)?;
        for (key, value) in writes {
            let bytes = value.as_deref().unwrap_or_default();
            let mut progress = self.access(|footprint| footprint.write(&key, bytes, self.shard_of(&key)))?;
            progress.untold.writes.insert(key, value);
        }
        self.progress().is_settling = false;
        Ok(())
    }

    /// Lets keys whose values are over give up their entries of unique indexes, and deletes them.
    async fn give_up_over(
        &self,
        checks: Checks,
        listed: &Listed,
        found: impl Fn(&Key) -> Option<Value>,
    ) -> Result<Checks> {
        let owner = |(entry, (_, key)): (&Key, &(u32, Key))| {
            let owner = found(entry).filter(|owner| owner[..] != key[..])?;
            Some(Key::copy_from_slice(&owner)).filter(|owner| !checks.writes.contains_key(owner))
        };
        let owners: BTreeSet<Key> = checks.unique.iter().filter_map(owner).collect();
        let owners: Vec<Key> = owners.into_iter().collect();
        let held = self.read_beneath(&owners).await?;
        let mut keeper = Keeper::new(Arc::clone(&listed.list));
        let mut before = BTreeMap::new();
        for (owner, held) in owners.into_iter().zip(held) {
            if self.judge(&owner, held.as_ref())? == Verdict::Over {
                keeper.write(owner.clone(), None).map_err(IndexFault::from).map_err(Invalid::Index)?;
                before.insert(owner, held);
            }
        }
        let over = keeper.settle(&before).map_err(IndexFault::from).map_err(Invalid::Index)?;
        let lists: BTreeSet<Key> = over.writes.keys().map(|key| listed.beside(key).clone()).collect();
        let lists: Vec<Key> = lists.into_iter().collect();
        self.compare_lists(listed, &self.read_beneath(&lists).await?)?;
        Ok(checks.beside(over))
    }

    fn compare_lists(&self, listed: &Listed, found: &[Option<Value>]) -> Result<()> {
        match found.iter().find(|found| found.as_ref() != Some(&listed.bytes)) {
            Some(other) => Err(self.learn_indexes(other.clone())),
            None => Ok(()),
        }
    }
}
