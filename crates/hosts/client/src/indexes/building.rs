//! Entries are added for the keys that were there before their index, and deleted once it is dropped: a page of keys in each transaction.
//!
//! A page is read and its entries are written in one transaction, so whatever writes to one of its keys meanwhile comes before it or after it. How far it has come stands in
//! the keyspace itself, and is written with each page.

use quorate_core::transaction::readable;
use quorate_core::{Key, Value};
use quorate_index::{Definition as Index, Stage, cursor_key, entry_range};

use super::error::IndexFault;
use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::retry::Retries;
use crate::transaction::{Page, Transaction, user_range};

/// A page begins with so many keys, has half of them after a conflict, and twice as many after none, up to the most.
const PAGE: u32 = 64;
const PAGE_MAX: u32 = 256;

/// What stands under the key of a cursor before the key where the next page begins; nothing else once the last page is done.
const NEXT: u8 = b'>';

/// How far the creation or the drop of an index is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexProgress {
    /// The keys of users that this call has looked at.
    pub keys: u64,
    /// The entries that it has added or deleted.
    pub entries: u64,
}

/// A page that was done.
struct Done {
    progress: IndexProgress,
    is_last: bool,
}

/// What is done to the entries of an index.
#[derive(Clone, Copy)]
enum Work {
    Build,
    Clear,
}

impl Keyspace {
    /// Adds the entries of all keys.
    pub(super) async fn build_index(
        &self,
        index: &Index,
        progress: &mut impl FnMut(IndexProgress),
    ) -> Result<()> {
        self.page_by_page(Work::Build, index, progress).await
    }

    /// Deletes all entries of an index that nobody keeps, and its cursor.
    pub(super) async fn clear_index(
        &self,
        index: &Index,
        progress: &mut impl FnMut(IndexProgress),
    ) -> Result<()> {
        self.page_by_page(Work::Clear, index, progress).await
    }

    /// Runs transactions until one of them has done the last page. Fails if for as long as the deadline of this handle no page was done.
    async fn page_by_page(
        &self,
        work: Work,
        index: &Index,
        progress: &mut impl FnMut(IndexProgress),
    ) -> Result<()> {
        let (mut all, mut limit) = (IndexProgress::default(), PAGE);
        let mut retries = self.patience();
        loop {
            let error = match self.try_page(work, index, limit, &mut retries).await {
                Ok(done) => {
                    all.keys += done.progress.keys;
                    all.entries += done.progress.entries;
                    progress(all);
                    if done.is_last {
                        return Ok(());
                    }
                    limit = (limit * 2).min(PAGE_MAX);
                    retries = self.patience();
                    continue;
                }
                Err(error) => error,
            };
            // A page that may have committed is done once more: that changes nothing.
            let may_pass = error.is_retryable() || matches!(error, Error::Unknown { .. });
            if !may_pass || !retries.pause().await {
                return Err(error);
            }
            limit = (limit / 2).max(1);
        }
    }

    fn patience(&self) -> Retries {
        let id = self.session().next_transaction();
        Retries::new(self.deadline(), id.client.0 ^ id.sequence)
    }

    async fn try_page(&self, work: Work, index: &Index, limit: u32, retries: &mut Retries) -> Result<Done> {
        let (_, patience) = retries.begin();
        let mut txn = self.beside_indexes().with_deadline(patience).begin().await?;
        let done = match work {
            Work::Build => self.build_page(&txn, index, limit).await,
            Work::Clear => clear_page(&txn, index, limit).await,
        };
        match done {
            Ok(done) => txn.commit().await.map(|_| done),
            Err(error) => {
                txn.abort().await?;
                Err(error)
            }
        }
    }

    /// Adds the entries of a page.
    async fn build_page(&self, txn: &Transaction, index: &Index, limit: u32) -> Result<Done> {
        // The index may have been dropped, and nobody may add entries then.
        let list = txn.read_index_lists().await?;
        let is_building =
            list.indexes.iter().any(|known| known.id == index.id && known.stage == Stage::Building);
        if !is_building {
            return Err(Invalid::Index(self.dropped_meanwhile(&list, index)).into());
        }
        let cursor = cursor_key(index.id);
        let from = match txn.get(&cursor).await?.as_deref() {
            None => Vec::new(),
            Some([NEXT, from @ ..]) => from.to_vec(),
            Some([]) => return Ok(Done { progress: IndexProgress::default(), is_last: true }),
            Some(_) => {
                let (name, entry) = (index.name.clone(), readable(&cursor));
                return Err(Invalid::Index(IndexFault::Damaged { name, entry }).into());
            }
        };
        let Page { entries, next } = txn.scan_reserved(user_range(&from, b""), limit).await?;
        let mut progress = IndexProgress { keys: entries.len() as u64, entries: 0 };
        let mut to_add: Vec<(Key, Value, Key)> = Vec::new();
        for (key, value) in &entries {
            let of_key =
                index.entries_to_write(key, value).map_err(IndexFault::from).map_err(Invalid::Index)?;
            to_add.extend(of_key.into_iter().map(|(entry, held)| (entry, held, key.clone())));
        }
        if index.unique {
            let found = txn.get_many(to_add.iter().map(|(entry, ..)| entry)).await?;
            for ((_, held, key), found) in to_add.iter().zip(&found) {
                refuse_second(index, key, found.as_ref(), held)?;
            }
            for (at, (entry, held, key)) in to_add.iter().enumerate() {
                let other = to_add[..at].iter().find(|(other, ..)| other == entry);
                refuse_second(index, key, other.map(|(_, held, _)| held), held)?;
            }
        }
        progress.entries = to_add.len() as u64;
        for (entry, held, _) in to_add {
            txn.write_reserved(entry, Some(held))?;
        }
        let place = next.as_ref().map_or_else(Vec::new, |next| [&[NEXT], next.as_slice()].concat());
        txn.write_reserved(cursor, Some(Value::from(place)))?;
        Ok(Done { progress, is_last: next.is_none() })
    }
}

fn refuse_second(index: &Index, key: &Key, found: Option<&Value>, held: &Value) -> Result<()> {
    match found {
        Some(owner) if owner != held => {
            Err(Invalid::Index(IndexFault::NotUnique(index.refuse_second(key, owner))).into())
        }
        _ => Ok(()),
    }
}

/// Deletes a page of entries.
async fn clear_page(txn: &Transaction, index: &Index, limit: u32) -> Result<Done> {
    txn.read_index_lists().await?;
    let Page { entries, next } = txn.scan_reserved(entry_range(index, None), limit).await?;
    let progress = IndexProgress { keys: 0, entries: entries.len() as u64 };
    for (entry, _) in entries {
        txn.write_reserved(entry, None)?;
    }
    if next.is_none() {
        txn.write_reserved(cursor_key(index.id), None)?;
    }
    Ok(Done { progress, is_last: next.is_none() })
}
