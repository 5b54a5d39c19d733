//! One attempt at one transaction.

mod counters;
mod expiring;
mod indexes;
mod members;
mod pipeline;
mod sets;
pub(crate) mod speculation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_core::command::{Command, Committed, ContainerCall, Failure, Freshness, SetCall};
use quorate_core::expiry::Envelope;
use quorate_core::reserved::{RESERVED, is_reserved};
use quorate_core::transaction::{LimitExceeded, readable};
use quorate_core::{ClockTime, Key, KeyRange, ReplicaId, ShardId, Timestamp, TransactionId, Value};
use quorate_expiry::Judge;
use quorate_index::Keeper;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::database::Shared;
use crate::error::{Error, Invalid, Result};
use crate::footprint::Footprint;
use crate::indexes::IndexFault;
use crate::indexes::known::Listed;
use crate::receipt::{Origin, Receipt};
use crate::session::COORDINATOR_GRACE;
use crate::token::Token;
use crate::waiters::{FinishAnswer, Located, Marked};

pub use expiring::WithExpiry;
pub(crate) use expiring::{is_over_for_strict_readers, no_envelope, time_of};
pub use indexes::{Index, IndexPage, Indexed};
pub use members::Members;
pub use pipeline::{Committing, Earlier};
pub use sets::SetIter;
pub use speculation::{Info, Speculated, SpeculativeCommit};

/// An open transaction: reads see the newest versions, writes are kept back until [`Transaction::commit`], and commit
/// validates that nothing that was read has changed.
///
/// Dropping it aborts it. Reads are *validated at commit only*: an open transaction may see an inconsistent state, but
/// it cannot commit then.
#[derive(Debug)]
pub struct Transaction {
    inner: Arc<Inner>,
}

/// Shared between the closure of a user, which reads and writes, and the library, which commits once the closure has
/// returned.
#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    keyspace: Arc<quorate_core::topology::Keyspace>,
    writable: bool,
    /// The shard that runs all of it, where one does whatever the keys are.
    home: Option<ShardId>,
    id: TransactionId,
    /// The transaction of this client that it comes after.
    after: Option<TransactionId>,
    /// The replicas that shards could not do without when it was opened, and that will not serve before an operator acts.
    unserved: Vec<ReplicaId>,
    /// The shards that take no writes for want of room, and what is said of it.
    without_space: Vec<(ShardId, String)>,
    began: ClockTime,
    deadline: Instant,
    call_max: Duration,
    progress: Mutex<Progress>,
    /// Held by the one scan that may be under way.
    scanning: tokio::sync::Mutex<()>,
    /// The indexes that its writes keep, where there are some.
    indexes: Option<Arc<Listed>>,
    /// Held while writes are let go that were held back for indexes.
    settling: tokio::sync::Mutex<()>,
}

/// How far a transaction has come, and what it has touched.
#[derive(Debug, Default)]
struct Progress {
    stage: Stage,
    footprint: Footprint,
    /// The home that decides it, if it runs at a node and has begun there.
    decided_at: Option<ShardId>,
    /// The type of the transaction, if it has one: the recent commit probability is that of its type.
    kind: Option<String>,
    /// The changes of which the coordinator has not been told: they go along with a read that needs them, or with the commit.
    untold: Untold,
    /// True if the coordinator has been told of changes.
    is_told_changes: bool,
    /// Writes that are held back for indexes, where there are some.
    keeper: Option<Keeper>,
    /// True once they have begun to be let go, until all of them are.
    is_settling: bool,
    /// The judgement on values, where they expire.
    judge: Option<Judge>,
    /// True if a key was deleted because its value was over.
    has_deleted_over: bool,
    /// True if the user has written something.
    is_written_by_user: bool,
}

/// The changes of a transaction.
#[derive(Debug, Default)]
struct Untold {
    /// Keys that are written.
    writes: BTreeMap<Key, Option<Value>>,
    /// Counts of sets that are changed.
    counts: BTreeMap<(Key, Key), i32>,
}

impl Progress {
    /// The value that the transaction has written to a key, as far as the coordinator has not been told.
    fn own(&self, key: &Key) -> Option<&Option<Value>> {
        let held = || self.keeper.as_ref().and_then(|keeper| keeper.own(key));
        held().or_else(|| self.untold.writes.get(key))
    }
}

impl Untold {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.counts.is_empty()
    }

    fn into_commands(self, transaction: TransactionId) -> impl Iterator<Item = Command> {
        let puts = self.writes.into_iter().map(move |(key, value)| Command::Put { transaction, key, value });
        let add =
            move |((set, element), by)| Command::Set { transaction, call: SetCall::Add { set, element, by } };
        puts.chain(self.counts.into_iter().filter(|(_, by)| *by != 0).map(add))
    }
}

/// The answer to a read.
enum Read {
    /// The transaction has written the key itself, and nobody need be asked.
    Own(Option<Value>),
    /// The coordinator was asked.
    Asked(oneshot::Receiver<Option<Value>>),
}

/// The last request of a transaction to its coordinator.
#[derive(Debug)]
enum Asked {
    /// The transaction has done nothing.
    Nothing,
    /// To commit. The place in the window of commits in flight is kept until it has answered.
    Commit { receiver: oneshot::Receiver<FinishAnswer>, _permit: OwnedSemaphorePermit },
}

/// When to try again if the window of commits in flight is full.
pub(crate) const WINDOW_RETRY_AFTER: Duration = Duration::from_millis(100);

/// How far a transaction has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The coordinator has not heard of it.
    #[default]
    Idle,
    /// The coordinator works on it.
    Begun,
    /// It was asked to commit or to abort: nothing can be added any more.
    Ending,
    /// The coordinator has said how it ended, and has forgotten it.
    Over,
}

/// Some keys of a range, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and values, ascending.
    pub entries: Vec<(Key, Value)>,
    /// Where to go on if the limit was reached; none if the range ends here.
    pub next: Option<Key>,
}

impl Transaction {
    pub(crate) fn open(
        shared: Arc<Shared>,
        keyspace: Arc<quorate_core::topology::Keyspace>,
        writable: bool,
        id: TransactionId,
        after: Option<TransactionId>,
        patience: Duration,
        indexes: Option<Arc<Listed>>,
    ) -> Result<Self> {
        let unserved =
            shared.session.open(id, &keyspace).map_err(|error| shared.not_opened(&keyspace, error))?;
        let without_space = shared.session.without_space(&keyspace);
        let runs_at_home = keyspace.comparison.is_none() && keyspace.isolation.stands_in_sites();
        let directory = runs_at_home.then(|| shared.places.directory());
        let began = clock_now();
        let inner = Inner {
            writable,
            home: directory.and_then(|directory| directory.nearest_shard(&keyspace)),
            id,
            after,
            unserved,
            without_space,
            began,
            deadline: Instant::now() + patience,
            call_max: shared.options.deadline,
            progress: Mutex::new(Progress {
                keeper: indexes.as_ref().map(|listed| Keeper::new(Arc::clone(&listed.list))),
                judge: keyspace.expiring.then(|| Judge::new(began)),
                ..Progress::default()
            }),
            scanning: tokio::sync::Mutex::new(()),
            indexes,
            settling: tokio::sync::Mutex::new(()),
            shared,
            keyspace,
        };
        Ok(Transaction { inner: Arc::new(inner) })
    }

    /// Reads keys in this transaction, which is new and writes nothing, and ends it. The keys ascend, each once.
    pub(crate) async fn read_only(
        self,
        keys: &[Key],
        freshness: Freshness,
    ) -> Result<(Vec<Option<Value>>, Timestamp)> {
        let inner = &self.inner;
        let shards: BTreeSet<ShardId> = keys.iter().map(|key| inner.shard_of(key)).collect();
        inner.require_served(shards.into_iter())?;
        inner.end()?;
        let patience = inner.deadline.saturating_duration_since(Instant::now());
        let (session, keyspace) = (&inner.shared.session, inner.keyspace.id);
        let asked = session.read_only(inner.id, keyspace, keys, freshness, patience);
        let (receivers, finish) = asked.ok_or_else(|| inner.ended())?;
        let committed = inner.ending_of_read_only(finish).await?;
        let mut values = Vec::with_capacity(receivers.len());
        for receiver in receivers {
            // Every key is told before the end is.
            values.push(inner.answer(receiver).await?);
        }
        Ok((values, committed.timestamp))
    }

    /// Reads a page of a range in this transaction, which is new and writes nothing, and ends it.
    pub(crate) async fn read_only_scan(
        self,
        range: &KeyRange,
        limit: u32,
        freshness: Freshness,
    ) -> Result<(Page, Timestamp)> {
        let inner = &self.inner;
        let shards = inner.shards_of_range(range);
        inner.require_served(shards.iter().copied())?;
        inner.progress().footprint.scan(range, shards.into_iter())?;
        inner.end()?;
        let patience = inner.deadline.saturating_duration_since(Instant::now());
        let (session, keyspace) = (&inner.shared.session, inner.keyspace.id);
        let asked = session.read_only_scan(inner.id, keyspace, range, limit, freshness, patience);
        let (page, finish) = asked.ok_or_else(|| inner.ended())?;
        let committed = inner.ending_of_read_only(finish).await?;
        // The page is told before the end is.
        let (entries, next) = inner.answer(page).await?;
        Ok((Page { entries, next }, committed.timestamp))
    }

    /// Finds or changes where a container is, in this transaction, which is new, and ends it. Gives where it is, if that was asked for.
    pub(crate) async fn container(self, name: &Key, call: ContainerCall) -> Result<Option<Located>> {
        let inner = &self.inner;
        inner.end()?;
        let patience = inner.deadline.saturating_duration_since(Instant::now());
        let (session, keyspace) = (&inner.shared.session, inner.keyspace.id);
        let is_question = call == ContainerCall::Locate;
        let asked = session.container(inner.id, keyspace, name, call, patience);
        let (located, finish) = asked.ok_or_else(|| inner.ended())?;
        if is_question {
            inner.ending_of_read_only(finish).await?;
            // It is told before the end is.
            return inner.answer(located).await.map(Some);
        }
        match inner.ending(finish).await {
            Some(Ok(_)) => Ok(None),
            Some(Err(failure)) => Err(inner.error(failure)),
            None => Err(Error::Unknown { token: self.token() }),
        }
    }

    /// Includes what another client has seen in whatever begins from here on, in this transaction, which is new, and ends it.
    pub(crate) async fn catch_up(self, seen: Vec<u64>) -> Result<()> {
        let inner = &self.inner;
        inner.end()?;
        let patience = inner.deadline.saturating_duration_since(Instant::now());
        let asked = inner.shared.session.catch_up(inner.id, inner.keyspace.id, &seen, patience);
        inner.ending_of_read_only(asked.ok_or_else(|| inner.ended())?).await.map(drop)
    }

    /// A second handle on the same transaction, to be given to the closure of a user.
    pub(crate) fn share(&self) -> Transaction {
        Transaction { inner: Arc::clone(&self.inner) }
    }

    /// The name of this attempt, as far as it has come: later reads and writes may add participants.
    pub fn token(&self) -> Token {
        self.inner.token()
    }

    /// Reads a key; none if it is absent. Sees the transaction's own writes.
    ///
    /// # Errors
    /// [`Invalid`] for an empty or overlong key, [`Error::Unavailable`] if no replica answers.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = Key::copy_from_slice(key.as_ref());
        let read = self.inner.ask_for(key.clone())?;
        let held = self.inner.read(read).await?;
        self.inner.value_of(&key, held)
    }

    /// Reads a key as [`Transaction::get`] does, and tells whether its version is still *in flight*: has committed at its site and perhaps not yet at all
    /// others. An application may show it as such. A version that the transaction has written itself is in flight. In keyspaces that are not
    /// `parallel-snapshot` nothing is.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn get_marked(&self, key: impl AsRef<[u8]>) -> Result<Marked> {
        let inner = &self.inner;
        let Some(home) = inner.home else {
            return Ok(Marked { value: self.get(key).await?, is_in_flight: false });
        };
        let key = Key::copy_from_slice(key.as_ref());
        inner.require_served(std::iter::once(home))?;
        let asked = {
            let mut progress = inner.access(|footprint| footprint.read(&key, home))?;
            let before = inner.tell(&mut progress);
            inner.shared.session.get_marked(inner.id, before, &key)
        };
        inner.answer(asked.ok_or_else(|| inner.ended())?).await
    }

    /// Reads several keys at once, in one round trip; the values are in the order of the keys. A replica is sent one request for all of them
    /// that it is asked for, so this takes less than as many [`Transaction::get`]s. (The comparison systems are asked for each key.)
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`Invalid`] if there are more keys than a transaction may read, and then nobody is asked.
    pub async fn get_many(
        &self,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Vec<Option<Value>>> {
        let keys: Vec<Key> = keys.into_iter().map(|key| Key::copy_from_slice(key.as_ref())).collect();
        let reads = self.inner.ask_for_all(&keys)?;
        let mut values = Vec::with_capacity(reads.len());
        for (key, read) in keys.iter().zip(reads) {
            let held = self.inner.read(read).await?;
            values.push(self.inner.value_of(key, held)?);
        }
        Ok(values)
    }

    /// Reads up to `limit` keys from `from` (included) to `to` (excluded), in order; an empty `to` means to the end.
    /// Sees the transaction's own writes. Keys that appear in the range later make the commit fail.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn scan(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, limit: u32) -> Result<Page> {
        let range = user_range(from.as_ref(), to.as_ref());
        if range.is_empty() {
            return Ok(Page::default());
        }
        if limit == 0 {
            return Ok(Page { entries: Vec::new(), next: Some(range.from) });
        }
        self.inner.settle_indexes().await?;
        let page = self.inner.scan(range, limit).await?;
        self.inner.page_of(page)
    }

    /// Writes a key when the transaction commits.
    ///
    /// # Errors
    /// [`Invalid`] if a limit would be exceeded; the message names the key and the limit.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let value = Value::copy_from_slice(value.as_ref());
        self.inner.write(Key::copy_from_slice(key.as_ref()), Some(value))
    }

    /// Deletes a key when the transaction commits. It is no mistake if the key is absent.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.write(Key::copy_from_slice(key.as_ref()), None)
    }

    /// Commits: all writes at once, or nothing. The transaction is over then, whatever comes of it.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something that was read has changed, [`Error::Unavailable`] if a majority of a shard
    /// cannot be reached, [`Error::Unknown`] if time ran out after the first prepare had left.
    pub async fn commit(&mut self) -> Result<Receipt> {
        self.inner.commit().await
    }

    /// Drops the transaction. Nothing of it was ever visible.
    ///
    /// # Errors
    /// [`Invalid::TransactionOver`] if it was committed or aborted before.
    pub async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }

    /// Drops its writes, and commits what it has read, so that a reason to give up that was found in it is true. If the coordinator knows
    /// of writes it is aborted instead: there is no way to take them back.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something that was read has changed; as [`Transaction::commit`], but never [`Error::Unknown`].
    pub(crate) async fn give_up(&mut self) -> Result<()> {
        self.inner.give_up().await
    }
}

impl Inner {
    /// The progress is consistent between any two statements that could panic, so a poisoned lock is still good.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self) -> Token {
        let progress = self.progress();
        let participants = match self.runs_at_nodes() {
            // One that could not begin nobody has heard of.
            true => progress.decided_at.into_iter().collect(),
            false => progress.footprint.participants().to_vec(),
        };
        Token { transaction: self.id, began: self.began, participants }
    }

    /// Notes an access.
    fn access(
        &self,
        note: impl FnOnce(&mut Footprint) -> Result<(), LimitExceeded>,
    ) -> Result<MutexGuard<'_, Progress>> {
        let mut progress = self.progress();
        if progress.stage >= Stage::Ending {
            return Err(Invalid::TransactionOver.into());
        }
        note(&mut progress.footprint)?;
        if progress.stage == Stage::Idle && self.runs_at_nodes() {
            let begin = self.tell(&mut progress);
            progress.decided_at = self.shared.session.begin_at_home(self.id, begin);
        }
        Ok(progress)
    }

    /// True if it runs at a node, whose home decides it: then that is what its token names.
    fn runs_at_nodes(&self) -> bool {
        self.keyspace.comparison.is_none() && self.keyspace.isolation.has_homes()
    }

    /// The commands that come before any question to the coordinator: the beginning of the transaction, and its changes since.
    fn untold(&self, stage: Stage, untold: Untold) -> Vec<Command> {
        let (transaction, keyspace) = (self.id, self.keyspace.id);
        let begin = || {
            let patience = self.deadline.saturating_duration_since(Instant::now());
            Command::Begin { transaction, keyspace, patience }
        };
        let is_new = stage == Stage::Idle;
        let follow = self.after.filter(|_| is_new).map(|earlier| Command::After { transaction, earlier });
        let begin = is_new.then(begin).into_iter().chain(follow);
        begin.chain(untold.into_commands(transaction)).collect()
    }

    /// The same of a transaction that goes on: from here on the coordinator works on it. The progress stays locked until the coordinator
    /// has been told, so that no other call of this transaction comes in between.
    fn tell(&self, progress: &mut Progress) -> Vec<Command> {
        let untold = std::mem::take(&mut progress.untold);
        progress.is_told_changes |= !untold.is_empty();
        self.untold(std::mem::replace(&mut progress.stage, Stage::Begun), untold)
    }

    /// As [`Inner::tell`] before a read that no change of the transaction has to do with: the changes stay untold.
    fn tell_beginning(&self, progress: &mut Progress) -> Vec<Command> {
        self.untold(std::mem::replace(&mut progress.stage, Stage::Begun), Untold::default())
    }

    /// The shard that has to do with a key.
    fn shard_of(&self, key: &[u8]) -> ShardId {
        self.home.unwrap_or_else(|| self.keyspace.shard_of(key).id)
    }

    /// The shards that have to do with a range.
    fn shards_of_range(&self, range: &KeyRange) -> Vec<ShardId> {
        let all = || self.keyspace.shards_of_range(range).iter().map(|shard| shard.id).collect();
        self.home.map_or_else(all, |home| vec![home])
    }

    /// Nobody waits for answers that cannot come.
    fn require_served(&self, shards: impl Iterator<Item = ShardId>) -> Result<()> {
        if self.unserved.is_empty() {
            return Ok(());
        }
        let of_shard = |shard| self.unserved.iter().copied().filter(move |replica| replica.shard == shard);
        let home = self.progress().decided_at;
        let missing: Vec<_> = shards.chain(home).flat_map(of_shard).collect();
        if missing.is_empty() { Ok(()) } else { Err(self.unavailable(&missing)) }
    }

    fn ask_for(&self, key: Key) -> Result<Read> {
        self.require_served(std::iter::once(self.shard_of(&key)))?;
        let mut progress = self.access(|footprint| footprint.read(&key, self.shard_of(&key)))?;
        if let Some(own) = progress.own(&key) {
            if self.shared.session.is_closed() {
                return Err(Error::Closed);
            }
            return Ok(Read::Own(own.clone()));
        }
        let before = self.tell_beginning(&mut progress);
        let asked = self.shared.session.get(self.id, before, &key);
        drop(progress);
        asked.map(Read::Asked).ok_or_else(|| self.ended())
    }

    /// Asks for keys at once.
    fn ask_for_all(&self, keys: &[Key]) -> Result<Vec<Read>> {
        self.require_served(keys.iter().map(|key| self.shard_of(key)))?;
        let mut progress =
            self.access(|footprint| keys.iter().try_for_each(|key| footprint.read(key, self.shard_of(key))))?;
        if self.shared.session.is_closed() {
            return Err(Error::Closed);
        }
        let own = |key: &Key| progress.own(key).cloned();
        let own: Vec<Option<Option<Value>>> = keys.iter().map(own).collect();
        let asked: Vec<Key> =
            keys.iter().zip(&own).filter(|(_, own)| own.is_none()).map(|(key, _)| key.clone()).collect();
        let receivers = match asked.is_empty() {
            true => Some(Vec::new()),
            false => {
                let before = self.tell_beginning(&mut progress);
                self.shared.session.get_many(self.id, before, &asked)
            }
        };
        drop(progress);
        let mut receivers = receivers.ok_or_else(|| self.ended())?.into_iter();
        let read = |own: Option<Option<Value>>| match own {
            Some(value) => Some(Read::Own(value)),
            None => receivers.next().map(Read::Asked),
        };
        Ok(own.into_iter().filter_map(read).collect())
    }

    async fn read(&self, read: Read) -> Result<Option<Value>> {
        match read {
            Read::Own(value) => Ok(value),
            Read::Asked(receiver) => self.answer(receiver).await,
        }
    }

    async fn scan(&self, range: KeyRange, limit: u32) -> Result<Page> {
        let _only = self.scanning.lock().await;
        let shards = self.shards_of_range(&range);
        self.require_served(shards.iter().copied())?;
        let asked = {
            let mut progress = self.access(|footprint| footprint.scan(&range, shards.into_iter()))?;
            let before = self.tell(&mut progress);
            self.shared.session.scan(self.id, before, &range, limit)
        };
        let receiver = asked.ok_or_else(|| self.ended())?;
        let (entries, next) = self.answer(receiver).await?;
        drop(self.access(|footprint| {
            entries.iter().try_for_each(|(key, _)| footprint.read(key, self.shard_of(key)))
        })?);
        Ok(Page { entries, next })
    }

    /// Writes a key of users.
    fn write(&self, key: Key, value: Option<Value>) -> Result<()> {
        if is_reserved(&key) {
            return Err(Invalid::Index(IndexFault::Reserved { key: readable(&key) }).into());
        }
        let value = match self.keyspace.expiring {
            true => value.map(|value| Envelope::lasting(value).encode()),
            false => value,
        };
        self.write_by_user(key, value)
    }

    fn write_any(&self, key: Key, value: Option<Value>) -> Result<()> {
        if !self.writable {
            return Err(Invalid::SystemKeyspace { name: self.keyspace.name.clone() }.into());
        }
        let shard = self.shard_of(&key);
        if let Some((_, reason)) = self.without_space.iter().find(|(without, _)| *without == shard) {
            return Err(Error::NoSpace { reason: reason.clone() });
        }
        let bytes = value.as_deref().unwrap_or_default();
        let mut progress = self.access(|footprint| footprint.write(&key, bytes, shard))?;
        match &mut progress.keeper {
            Some(keeper) => {
                return Ok(keeper.write(key, value).map_err(IndexFault::from).map_err(Invalid::Index)?);
            }
            None => drop(progress.untold.writes.insert(key, value)),
        }
        // Without transactions there is nothing to wait for: a write takes effect when it is asked for.
        let comparison = self.keyspace.comparison.as_ref();
        if comparison.is_some_and(|comparison| !comparison.rival.is_transactional()) {
            let commands = self.tell(&mut progress);
            self.shared.session.tell(commands);
        }
        Ok(())
    }

    /// Lets nothing more be added, and says how far the transaction had come, and what it has written since the coordinator was told.
    fn end(&self) -> Result<(Stage, Untold)> {
        let mut progress = self.progress();
        if progress.stage >= Stage::Ending {
            return Err(Invalid::TransactionOver.into());
        }
        let stage = std::mem::replace(&mut progress.stage, Stage::Ending);
        Ok((stage, std::mem::take(&mut progress.untold)))
    }

    /// Waits for how it ends; none if nobody says so in time.
    async fn ending(&self, receiver: oneshot::Receiver<FinishAnswer>) -> Option<FinishAnswer> {
        let answer = self.bounded(receiver).await?;
        self.progress().stage = Stage::Over;
        Some(answer)
    }

    /// The same of a transaction that writes nothing.
    async fn ending_of_read_only(&self, receiver: oneshot::Receiver<FinishAnswer>) -> Result<Committed> {
        match self.ending(receiver).await {
            Some(Ok(committed)) => Ok(committed),
            // It has written nothing, so whatever its fate is at the replicas, it can be run again.
            Some(Err(Failure::Unknown { .. })) => Err(Error::Conflict),
            Some(Err(failure)) => Err(self.error(failure)),
            None => Err(self.ended()),
        }
    }

    async fn commit(&self) -> Result<Receipt> {
        let asked = self.ask_to_commit().await?;
        self.receipt(asked).await
    }

    /// Asks the coordinator to commit, once the window of commits in flight has room.
    async fn ask_to_commit(&self) -> Result<Asked> {
        let Some((before, permit)) = self.take_commit().await? else { return Ok(Asked::Nothing) };
        let receiver = self.shared.session.commit(self.id, before).ok_or_else(|| self.ended())?;
        Ok(Asked::Commit { receiver, _permit: permit })
    }

    /// The commands that come before the commit, and its place in the window; none if there is nothing to commit.
    async fn take_commit(&self) -> Result<Option<(Vec<Command>, OwnedSemaphorePermit)>> {
        self.settle_indexes().await?;
        let (stage, untold) = self.end()?;
        if stage == Stage::Idle && untold.is_empty() {
            return Ok(None);
        }
        let permit = self.commit_permit(stage).await?;
        let mut commands = self.untold(stage, untold);
        commands.extend(self.confinement());
        Ok(Some((commands, permit)))
    }

    /// The place of a transaction in the window of commits in flight; one that the coordinator works on is aborted if there is none in time.
    async fn commit_permit(&self, stage: Stage) -> Result<OwnedSemaphorePermit> {
        let session = &self.shared.session;
        match tokio::time::timeout_at(self.deadline, session.commit_permit()).await {
            Ok(Some(permit)) => Ok(permit),
            Ok(None) => Err(Error::Closed),
            Err(_) => {
                if stage == Stage::Begun {
                    session.tell([Command::Abort { transaction: self.id }]);
                }
                Err(Error::Overloaded { retry_after: WINDOW_RETRY_AFTER })
            }
        }
    }

    async fn give_up(&self) -> Result<()> {
        let is_told_changes = self.progress().is_told_changes;
        if is_told_changes {
            return self.abort().await;
        }
        // Its writes are dropped with what is returned here.
        if self.end()?.0 == Stage::Idle {
            return Ok(());
        }
        match self.shared.session.failure(self.id) {
            None => {}
            Some(Failure::Conflict) => return Err(Error::Conflict),
            // The closure was told, and gives up for that.
            Some(_) => return Ok(()),
        }
        let _permit = self.commit_permit(Stage::Begun).await?;
        let before = self.confinement().into_iter().collect();
        let receiver = self.shared.session.commit(self.id, before).ok_or_else(|| self.ended())?;
        self.ending_of_read_only(receiver).await.map(drop)
    }

    /// Waits for the answer of the coordinator.
    async fn receipt(&self, asked: Asked) -> Result<Receipt> {
        let committed = match asked {
            Asked::Nothing => Committed::at(Timestamp::ZERO),
            Asked::Commit { receiver, _permit } => match self.ending(receiver).await {
                Some(Ok(committed)) => committed,
                Some(Err(failure)) => {
                    let error = self.not_committed(failure);
                    if matches!(error, Error::Conflict) && self.progress().footprint.writes() {
                        self.shared.indexes.doubt(&self.keyspace);
                    }
                    return Err(error);
                }
                None => return Err(Error::Unknown { token: self.token() }),
            },
        };
        let Committed { timestamp, fast, .. } = committed;
        let origin = Origin::of(&self.shared, &self.keyspace);
        Ok(Receipt { token: self.token(), timestamp, fast, attempts: self.id.attempt + 1, origin })
    }

    async fn abort(&self) -> Result<()> {
        if self.end()?.0 == Stage::Begun
            && let Some(receiver) = self.shared.session.abort(self.id)
        {
            // However this ends, the transaction is gone.
            let _ = self.ending(receiver).await;
        }
        Ok(())
    }

    async fn answer<Answer>(&self, receiver: oneshot::Receiver<Answer>) -> Result<Answer> {
        self.bounded(receiver).await.ok_or_else(|| self.ended())
    }

    /// Waits for an answer; none if the transaction or the session ends, or this call takes too long. The coordinator
    /// keeps the deadline of the transaction; the timer here bounds calls of longer transactions, and every call if the
    /// runtime that hosts the coordinator has ended.
    async fn bounded<Answer>(&self, receiver: oneshot::Receiver<Answer>) -> Option<Answer> {
        let until = (Instant::now() + self.call_max).min(self.deadline) + COORDINATOR_GRACE;
        tokio::time::timeout_at(until, receiver).await.ok().and_then(Result::ok)
    }

    /// Why a call of this transaction got no answer.
    fn ended(&self) -> Error {
        match self.shared.session.failure(self.id) {
            Some(failure) => self.error(failure),
            None if self.shared.session.is_closed() => Error::Closed,
            None => {
                let mut used = self.progress().footprint.participants().to_vec();
                used.extend(self.progress().decided_at);
                let concerns = |shard| used.is_empty() || used.contains(&shard);
                self.shared.unanswered(&self.keyspace, concerns)
            }
        }
    }

    fn error(&self, failure: Failure) -> Error {
        if let Some(reason) = self.shared.session.denial(self.id) {
            return Error::Denied { reason, token: None };
        }
        self.shared.error(&self.keyspace, failure, || self.token())
    }

    /// Why it has not committed, once it was asked to. Where it is refused for want of a right that was taken away meanwhile, others may have let it in before.
    fn not_committed(&self, failure: Failure) -> Error {
        match self.error(failure) {
            Error::Denied { reason, .. } if self.progress().footprint.writes() => {
                Error::Denied { reason, token: Some(self.token()) }
            }
            error => error,
        }
    }

    fn unavailable(&self, missing: &[ReplicaId]) -> Error {
        self.shared.unavailable(&self.keyspace, missing)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let last = match self.progress().stage {
            Stage::Over => return,
            Stage::Begun => Some(Command::Abort { transaction: self.id }),
            Stage::Idle | Stage::Ending => None,
        };
        self.shared.session.forget(self.id, last);
    }
}

/// The least key above all that begin with these bytes, where a scan of a prefix ends; empty, which is the end, if there is none.
pub fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX).map_or(0, |last| last + 1);
    let mut end = prefix[..kept].to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// From `from` (included) to `to` (excluded); an empty `to` means to the end.
pub(crate) fn key_range(from: &[u8], to: &[u8]) -> KeyRange {
    let to = Some(to).filter(|to| !to.is_empty()).map(Key::copy_from_slice);
    KeyRange { from: Key::copy_from_slice(from), to }
}

/// As [`key_range`], of keys of users.
pub(crate) fn user_range(from: &[u8], to: &[u8]) -> KeyRange {
    let to = if to.is_empty() || to > RESERVED { RESERVED } else { to };
    key_range(from, to)
}

/// The physical clock of this machine.
pub(crate) fn clock_now() -> ClockTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ClockTime::from_micros(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
}
