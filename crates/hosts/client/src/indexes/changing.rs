//! Index lists are changed: at all shards in one transaction.

use std::pin::Pin;
use std::time::Duration;

use quorate_index::{
    Definition as Index, IndexList, IndexValue, NotUnique, Source, Stage, Unfit, Unparsable,
};
use quorate_wire::ProtocolVersion;

use super::building::IndexProgress;
use super::error::IndexFault;
use super::known::unindexable;
use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::transaction::{IndexPage, Transaction};
use crate::versions;

/// A change of the lists waits at least so long for transactions that are under way.
const CHANGE_DEADLINE_MIN: Duration = Duration::from_secs(30);

/// The properties of a new index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// The part of a value by which keys are found.
    pub on: Source,
    /// True if a value belongs to one key only: a transaction that would give it to a second one is refused.
    pub unique: bool,
    /// What becomes of values that do not parse.
    pub unparsable: Unparsable,
}

impl IndexOptions {
    /// An index that is not unique and refuses values that do not parse.
    pub fn new(on: Source) -> Self {
        IndexOptions { on, unique: false, unparsable: Unparsable::default() }
    }
}

impl Keyspace {
    /// The indexes of the keyspace, in the order of their creation.
    ///
    /// # Errors
    /// As [`Keyspace::read_only`].
    pub async fn indexes(&self) -> Result<Vec<Index>> {
        match unindexable(&self.definition()) {
            Some(_) => Ok(Vec::new()),
            None => {
                let read = |txn: Transaction| async move { txn.read_index_lists().await };
                let mut indexes = self.beside_indexes().transact(read).await?.indexes;
                indexes.retain(|index| !index.is_on_expiries());
                Ok(indexes)
            }
        }
    }

    /// Reads up to `limit` keys that an index finds by a value, in a transaction of its own; see [`Transaction::index`].
    ///
    /// # Errors
    /// As [`Index::get`](crate::Index::get) and [`Keyspace::transact`].
    pub async fn find(&self, index: &str, value: impl Into<IndexValue>, limit: u32) -> Result<IndexPage> {
        let value = value.into();
        let value = &value;
        self.transact(|txn| async move { txn.index(index).get(value.clone(), limit).await }).await
    }

    /// As [`Keyspace::find`], by values from one (included) to another one (excluded).
    ///
    /// # Errors
    /// As [`Keyspace::find`].
    pub async fn find_range(
        &self,
        index: &str,
        from: Option<IndexValue>,
        to: Option<IndexValue>,
        limit: u32,
    ) -> Result<IndexPage> {
        let (from, to) = (&from, &to);
        self.transact(|txn| async move { txn.index(index).range(from.clone(), to.clone(), limit).await })
            .await
    }

    /// Creates an index, and waits until it is ready: until every key that was there before has its entries. Transactions that write keep it
    /// from its beginning on. A creation that was interrupted goes on if it is asked for again with the same options.
    ///
    /// `progress` is told how far it is, from time to time.
    ///
    /// # Errors
    /// [`Invalid::Index`] if the keyspace cannot have such an index, or if a value that is there does not parse or belongs to two keys of a unique index: then the index is
    /// dropped again. Any other error leaves it as it is, to be gone on with.
    pub async fn create_index(
        &self,
        name: &str,
        options: &IndexOptions,
        mut progress: impl FnMut(IndexProgress),
    ) -> Result<()> {
        self.refuse_unindexable()?;
        self.refuse_before_version().await?;
        let IndexOptions { on, unique, unparsable } = options;
        let announce = |list: &mut IndexList| Ok(list.announce(name, on, *unique, *unparsable)?.clone());
        let index = self.change_index_list(announce).await?;
        // Transactions that do not know it may be under way. A list is changed once more only when none of them is left, where a transaction that is prepared does not
        // keep off the readers of keys that it writes.
        self.enter_stage(&index, Stage::Building).await?;
        match self.build_index(&index, &mut progress).await {
            Ok(()) => self.enter_stage(&index, Stage::Ready).await,
            Err(Error::Invalid(Invalid::Index(
                fault @ (IndexFault::Unfit(_) | IndexFault::NotUnique(_)),
            ))) => {
                self.drop_index(name, |_| {}).await?;
                Err(Invalid::Index(explained(fault)).into())
            }
            Err(error) => Err(error),
        }
    }

    /// Drops an index, and waits until its entries are deleted. A drop that was interrupted goes on if it is asked for again.
    ///
    /// # Errors
    /// [`IndexFault::NoSuchIndex`]; else as [`Keyspace::transact`].
    pub async fn drop_index(&self, name: &str, mut progress: impl FnMut(IndexProgress)) -> Result<()> {
        self.refuse_unindexable()?;
        let keyspace = self.name();
        let drop = |list: &mut IndexList| {
            let existing = || list.indexes.iter().map(|index| index.name.clone()).collect();
            let missing = IndexFault::NoSuchIndex {
                keyspace: keyspace.to_owned(),
                name: name.to_owned(),
                existing: existing(),
            };
            let index = list.find_mut(name).filter(|index| !index.is_on_expiries()).ok_or(missing)?;
            index.stage = Stage::Dropping;
            Ok(index.clone())
        };
        let index = self.change_index_list(drop).await?;
        self.clear_index(&index, &mut progress).await?;
        let remove = |list: &mut IndexList| {
            list.indexes.retain(|other| other.id != index.id);
            Ok(())
        };
        self.change_index_list(remove).await
    }

    /// An index of the same number goes on to a stage, unless it was dropped meanwhile.
    async fn enter_stage(&self, index: &Index, stage: Stage) -> Result<()> {
        let enter = |list: &mut IndexList| {
            let missing = self.dropped_meanwhile(list, index);
            let known = list.indexes.iter_mut().find(|known| known.id == index.id && known.is_kept());
            known.ok_or(missing)?.stage = stage;
            Ok(())
        };
        self.change_index_list(enter).await
    }

    /// The fault of an index that is not in a list any more.
    pub(super) fn dropped_meanwhile(&self, list: &IndexList, index: &Index) -> IndexFault {
        let existing = list.indexes.iter().map(|index| index.name.clone()).collect();
        IndexFault::NoSuchIndex { keyspace: self.name().to_owned(), name: index.name.clone(), existing }
    }

    /// Changes the lists of all shards, and tells this client of it.
    async fn change_index_list<T>(
        &self,
        change: impl Fn(&mut IndexList) -> Result<T, IndexFault>,
    ) -> Result<T> {
        let keyspace = self.beside_indexes().with_deadline(self.deadline().max(CHANGE_DEADLINE_MIN));
        let change = &change;
        let (changed, list) = keyspace
            .transact(|txn| async move {
                let mut list = txn.read_index_lists().await?;
                let before = list.clone();
                let changed = change(&mut list).map_err(Invalid::Index)?;
                if list != before {
                    txn.write_index_lists(&list)?;
                }
                Ok((changed, list))
            })
            .await?;
        if !list.indexes.is_empty() || list.last > 0 {
            self.shared().indexes.learn(&self.definition(), Some(list.encode())).map_err(Invalid::Index)?;
        }
        Ok(changed)
    }

    /// Refuses an index as long as a node may run a program whose replicas take writes that overlook it.
    async fn refuse_before_version(&self) -> Result<()> {
        let in_force =
            self.system().transact(async |txn: Transaction| versions::in_force(&txn).await).await?;
        if in_force >= ProtocolVersion::INDEXES {
            return Ok(());
        }
        let reason = format!(
            "protocol version {in_force} is in force, in which replicas may not know of indexes: finish the upgrade of all nodes with `quorate cluster upgrade-finish`"
        );
        Err(Invalid::Index(IndexFault::NoIndexes { keyspace: self.name().to_owned(), reason }).into())
    }

    /// Lets the keyspace keep an index on the expiries of its values, if it does not: before there are any.
    pub(crate) fn keep_expiries(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>> {
        // Boxed, because opening a transaction may come to it.
        Box::pin(async move {
            self.change_index_list(|list| {
                list.keep_expiries();
                Ok(())
            })
            .await
        })
    }

    fn refuse_unindexable(&self) -> Result<()> {
        match unindexable(&self.definition()) {
            Some(reason) => {
                Err(Invalid::Index(IndexFault::NoIndexes { keyspace: self.name().to_owned(), reason }).into())
            }
            None => Ok(()),
        }
    }
}

/// The fault of a value that was there before its index.
fn explained(fault: IndexFault) -> IndexFault {
    const ADVICE: &str = ". The index was dropped again: change the value, or leave out what does not parse, and create the index anew";
    match fault {
        IndexFault::Unfit(unfit) => {
            IndexFault::Unfit(Unfit { reason: format!("{}{ADVICE}", unfit.reason), ..unfit })
        }
        IndexFault::NotUnique(not) => IndexFault::NotUnique(NotUnique {
            owner: format!("{}. The index was dropped again", not.owner),
            ..not
        }),
        other => other,
    }
}
