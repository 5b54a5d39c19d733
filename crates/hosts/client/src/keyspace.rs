//! A keyspace: where transactions happen.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quorate_core::command::{Freshness, Outcome};
use quorate_core::reserved::index_list_keys;
use quorate_core::topology::{Durability, Isolation, Keyspace as Definition};
use quorate_core::{Key, Timestamp, TransactionId, Value};
use tokio::time::Instant;

use crate::container::Container;
use crate::database::Shared;
use crate::error::{Error, Invalid, Result};
use crate::indexes::known::Listed;
use crate::receipt::{Origin, Receipt};
use crate::retry::Retries;
use crate::session::Session;
use crate::token::Token;
use crate::transaction::{Page, Transaction, WINDOW_RETRY_AFTER, user_range};
use crate::window::{Attempt, Place, Window};

/// The part of the deadline for which a transaction waits until it may begin, as a divisor.
const WAITING_DIVISOR: u32 = 4;

/// The values of keys at a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The values, in the order in which the keys were given.
    pub values: Vec<Option<Value>>,
    /// When they are over, in the same order; empty in a keyspace whose values do not expire.
    pub expiries: Vec<Option<SystemTime>>,
    /// The timestamp: everything that commits at or below it is seen, and nothing else.
    pub timestamp: Timestamp,
    /// How many attempts it took.
    pub attempts: u32,
}

/// The first part of a range at a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSnapshot {
    /// The keys and values, and where to go on.
    pub page: Page,
    /// The timestamp: everything that commits at or below it is seen, and nothing else. [`Keyspace::scan_at`] reads more of
    /// the same snapshot.
    pub timestamp: Timestamp,
    /// How many attempts it took.
    pub attempts: u32,
}

/// A handle on one keyspace. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keyspace {
    shared: Arc<Shared>,
    definition: Arc<Definition>,
    writable: bool,
    deadline: Duration,
    window: Arc<Window>,
    /// False if its transactions do not keep indexes: they change them.
    keeps_indexes: bool,
}

impl Keyspace {
    pub(crate) fn new(shared: Arc<Shared>, definition: Arc<Definition>, writable: bool) -> Self {
        let deadline = shared.options.deadline;
        let window = shared.session.window(definition.id);
        Keyspace { shared, definition, writable, deadline, window, keeps_indexes: true }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The catalogue that it stands in, which may be written through this.
    pub(crate) fn system(&self) -> Keyspace {
        let system = Keyspace::new(Arc::clone(&self.shared), Arc::clone(&self.shared.system), true);
        system.with_deadline(self.deadline)
    }

    /// The same keyspace for transactions that change its indexes.
    pub(crate) fn beside_indexes(&self) -> Keyspace {
        Keyspace { keeps_indexes: false, ..self.clone() }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.shared.session
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// True if the keyspace runs transactions in one round.
    pub(crate) fn runs_in_one_round(&self) -> bool {
        self.isolation() == Isolation::Serializable && self.definition.comparison.is_none() && self.writable
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// The isolation that its transactions are promised.
    pub fn isolation(&self) -> Isolation {
        self.definition.isolation
    }

    /// The failures that its acknowledged writes survive.
    pub fn durability(&self) -> Durability {
        self.definition.durability
    }

    /// Its shards and where their replicas are, as far as is known by now.
    pub fn definition(&self) -> Arc<Definition> {
        self.shared.places.latest(&self.definition)
    }

    /// The same keyspace with another deadline for what is begun through this handle.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Begins a transaction that is not run again by itself: commit it with [`Transaction::commit`].
    ///
    /// # Errors
    /// [`Error::Overloaded`] if the cluster wants no new work, [`Error::Invalid`] if too many transactions are open.
    pub async fn begin(&self) -> Result<Transaction> {
        self.open(self.shared.session.next_transaction(), None, self.deadline).await
    }

    /// The container of the objects that have this tag in braces in their keys; see [`Container`].
    pub fn container(&self, tag: impl AsRef<[u8]>) -> Container {
        Container::new(self.clone(), tag.as_ref())
    }

    /// Opens a transaction, which may come after another one of this client.
    pub(crate) async fn open(
        &self,
        id: TransactionId,
        after: Option<TransactionId>,
        patience: Duration,
    ) -> Result<Transaction> {
        let deadline = Instant::now() + patience;
        let indexes = match self.keeps_indexes {
            true => self.known_indexes(deadline).await?,
            false => None,
        };
        self.open_knowing(id, after, deadline, indexes).await
    }

    async fn open_knowing(
        &self,
        id: TransactionId,
        after: Option<TransactionId>,
        deadline: Instant,
        indexes: Option<Arc<Listed>>,
    ) -> Result<Transaction> {
        let open = |definition| {
            let patience = deadline.saturating_duration_since(Instant::now());
            let shared = Arc::clone(&self.shared);
            Transaction::open(shared, definition, self.writable, id, after, patience, indexes.clone())
        };
        self.once_current(deadline, open).await
    }

    /// The indexes that transactions have to keep. If there may be others than are known, their list is read.
    pub(crate) async fn known_indexes(&self, deadline: Instant) -> Result<Option<Arc<Listed>>> {
        let id = self.definition.id;
        let is_unknown = self.definition.expiring && self.shared.indexes.listed(id).is_none();
        if self.shared.indexes.take_doubt(id) || is_unknown {
            let definition = self.definition();
            let list = index_list_keys(definition.founders().len()).swap_remove(0);
            let txn = self.open_knowing(self.shared.session.next_transaction(), None, deadline, None).await?;
            // If it cannot be read, a transaction that does not keep an index is refused, and it is asked for again.
            if let Ok((mut values, _)) = txn.read_only(&[list], Freshness::Strict).await {
                self.shared.indexes.learn(&definition, values.pop().flatten()).map_err(Invalid::Index)?;
            }
        }
        let listed = self.shared.indexes.listed(id);
        let keeps = |listed: &Arc<Listed>| listed.list.on_expiries().is_some();
        if !self.definition.expiring || listed.as_ref().is_some_and(keeps) {
            return Ok(listed);
        }
        // The client that created the keyspace has not come so far.
        match self.keep_expiries().await {
            // A client that may only read needs no list.
            Ok(()) | Err(Error::Denied { .. }) => Ok(self.shared.indexes.listed(id)),
            Err(error) => Err(error),
        }
    }

    /// Begins something; if the replicas are others than is known, waits until it is known who they are.
    pub(crate) async fn once_current<T>(
        &self,
        deadline: Instant,
        begin: impl Fn(Arc<Definition>) -> Result<T>,
    ) -> Result<T> {
        loop {
            match begin(self.definition()) {
                Err(outdated @ Error::Invalid(Invalid::KeyspaceOutdated { .. })) => {
                    let mut news = self.shared.places.expect_news();
                    if tokio::time::timeout_at(deadline, news.changed()).await.is_err() {
                        return Err(outdated);
                    }
                }
                begun => return begun,
            }
        }
    }

    /// Runs a transaction: reads and writes through `body`, then commits; runs `body` again if another transaction was
    /// in the way, until the deadline.
    ///
    /// `body` must be free of side effects other than on the transaction. The next attempt begins only once the
    /// previous one has surely not committed, so what `body` does is applied at most once.
    ///
    /// As many transactions run at once as come to something: where most attempts meet conflicts, further transactions wait for up to a
    /// quarter of the deadline before they begin.
    ///
    /// ```no_run
    /// # async fn example(accounts: quorate::Keyspace) -> quorate::Result<()> {
    /// let visits = accounts
    ///     .transact(async |txn| {
    ///         let visits = txn.get("visits").await?.map_or(0, |value| value.len()) + 1;
    ///         txn.put("visits", vec![b'|'; visits])?;
    ///         Ok(visits)
    ///     })
    ///     .await?;
    /// # drop(visits);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Any error that `body` returns: [`Error::Application`] once what it has read is confirmed ([`Error::application`]), and
    /// [`Error::Conflict`] only if the deadline has passed; [`Error::Unknown`] with the
    /// token if what became of an attempt could not be found out; [`Error::Overloaded`] if too many of this client wait to begin, or
    /// this one did in vain.
    pub async fn transact<T, F>(&self, body: impl FnMut(Transaction) -> F) -> Result<T>
    where
        // Not `AsyncFnMut`: with that, futures which borrow from their surroundings could not be spawned.
        F: Future<Output = Result<T>>,
    {
        self.transact_with_receipt(body).await.map(|(value, _)| value)
    }

    /// As [`Keyspace::transact`], and tells what is known of the committed transaction.
    ///
    /// # Errors
    /// As [`Keyspace::transact`].
    pub async fn transact_with_receipt<T, F>(
        &self,
        mut body: impl FnMut(Transaction) -> F,
    ) -> Result<(T, Receipt)>
    where
        F: Future<Output = Result<T>>,
    {
        let began = Instant::now();
        let Some(place) = self.window.enter(self.deadline / WAITING_DIVISOR).await else {
            return Err(Error::Overloaded { retry_after: WINDOW_RETRY_AFTER });
        };
        let first = self.shared.session.next_transaction();
        let deadline = self.deadline.saturating_sub(began.elapsed());
        let mut retries = Retries::new(deadline, first.client.0 ^ first.sequence);
        loop {
            let (attempt, patience) = retries.begin();
            let mut txn = self.open(TransactionId { attempt, ..first }, None, patience).await?;
            match body(txn.share()).await {
                Ok(value) => match commit(&mut txn, &place).await {
                    Ok(receipt) => return Ok((value, receipt)),
                    Err(Error::Conflict) => {}
                    Err(Error::Unknown { token }) => match self.settle(&token, retries.remaining()).await {
                        Some(Outcome::Committed(timestamp)) => {
                            let attempts = retries.attempts();
                            let origin = Origin::of(&self.shared, &self.definition());
                            return Ok((value, Receipt { token, timestamp, fast: false, attempts, origin }));
                        }
                        Some(Outcome::Aborted) => {}
                        None => return Err(Error::Unknown { token }),
                    },
                    // A user that may only read waits until the sweeper has deleted what is over.
                    Err(denied @ Error::Denied { .. }) if txn.has_only_deleted_over() => {
                        if !retries.pause().await {
                            return Err(denied);
                        }
                        continue;
                    }
                    Err(error) if !retries.outlasts(&error).await => return Err(error),
                    Err(_) => continue,
                },
                // The closure may have kept a handle: what it does with it must not count.
                Err(reason @ Error::Application(_)) => match txn.give_up().await {
                    Ok(()) => return Err(reason),
                    Err(Error::Conflict) => place.note(Attempt::InVain),
                    Err(error) if !retries.outlasts(&error).await => return Err(error),
                    Err(_) => continue,
                },
                Err(error) => {
                    txn.abort().await?;
                    if !matches!(error, Error::Conflict) {
                        if !retries.outlasts(&error).await {
                            return Err(error);
                        }
                        continue;
                    }
                    place.note(Attempt::InVain);
                }
            }
            if !retries.pause().await {
                return Err(Error::Conflict);
            }
        }
    }

    /// Finds out what became of an attempt; none if that takes too long.
    pub(crate) async fn settle(&self, token: &Token, patience: Duration) -> Option<Outcome> {
        self.shared.session.resolve(token, patience).await?.ok().flatten()
    }

    /// Reads a key in a transaction of its own.
    ///
    /// # Errors
    /// As [`Keyspace::transact`].
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.transact(async |txn| txn.get(key).await).await
    }

    /// Reads keys at once, strictly: everything that had committed before the call is seen, and nothing of later ones
    /// without what they saw. One round trip. The values are in the order of the keys.
    ///
    /// # Errors
    /// As [`Keyspace::transact`], but never [`Error::Unknown`].
    pub async fn read_only(
        &self,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Vec<Option<Value>>> {
        self.read_only_with_snapshot(keys).await.map(|snapshot| snapshot.values)
    }

    /// As [`Keyspace::read_only`], and tells what is known of the transaction. Its timestamp is one at which the keys hold
    /// these values; it need not follow real time.
    ///
    /// # Errors
    /// As [`Keyspace::read_only`].
    pub async fn read_only_with_snapshot(
        &self,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Snapshot> {
        self.read_as(keys, Freshness::Strict).await
    }

    /// Reads keys as they are at a timestamp, such as that of a [`Receipt`]: everything that commits at or below it. A
    /// serializable snapshot over all shards; not strict, because timestamps do not follow real time.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`] names the oldest timestamp that can be read; else as [`Keyspace::read_only`].
    pub async fn read_at(
        &self,
        timestamp: Timestamp,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Vec<Option<Value>>> {
        self.read_as(keys, Freshness::At(timestamp)).await.map(|snapshot| snapshot.values)
    }

    /// Reads keys as they were no longer ago than `staleness` by this machine's clock, at the nearest replicas alone if they
    /// know enough. A serializable snapshot over all shards, which says at which timestamp it lies.
    ///
    /// # Errors
    /// As [`Keyspace::read_only`].
    pub async fn read_stale(
        &self,
        staleness: Duration,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Snapshot> {
        self.read_as(keys, Freshness::Stale(staleness)).await
    }

    /// Reads keys as they are by this machine's clock: a snapshot over all shards that keeps nobody off the keys, and that
    /// only writes under way make wait. Takes a round trip, and the bound of clocks that the keyspace states at least. It is
    /// as strict as [`Keyspace::read_only`] as long as clocks keep within that bound, and serializable in any case.
    ///
    /// # Errors
    /// [`Invalid::NoClockBound`] if the keyspace states none; else as [`Keyspace::read_only`].
    ///
    /// [`Invalid::NoClockBound`]: crate::Invalid::NoClockBound
    pub async fn read_now(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Snapshot> {
        self.read_as(keys, Freshness::ClockBound).await
    }

    async fn read_as(
        &self,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
        freshness: Freshness,
    ) -> Result<Snapshot> {
        let wanted: Vec<Key> = keys.into_iter().map(|key| Key::copy_from_slice(key.as_ref())).collect();
        let mut keys = wanted.clone();
        keys.sort_unstable();
        keys.dedup();
        let read = async |txn: Transaction| txn.read_only(&keys, freshness).await;
        let ((found, timestamp), attempts) = self.read_until_undisturbed(read).await?;
        let found = match self.definition.expiring {
            true => keys.iter().cloned().zip(found).collect(),
            false => {
                let value = |key: &Key| keys.binary_search(key).ok().and_then(|at| found[at].clone());
                let values = wanted.iter().map(value).collect();
                return Ok(Snapshot { values, expiries: Vec::new(), timestamp, attempts });
            }
        };
        let Some(found) = self.judge_snapshot(found, timestamp, freshness)? else {
            return self.read_and_delete(&wanted).await;
        };
        let value = |key: &Key| keys.binary_search(key).ok().and_then(|at| found[at].1.clone());
        Ok(Snapshot::of(wanted.iter().map(value).collect(), timestamp, attempts))
    }

    async fn scan_as(
        &self,
        from: &[u8],
        to: &[u8],
        limit: u32,
        freshness: Freshness,
    ) -> Result<RangeSnapshot> {
        let range = user_range(from, to);
        let read = async |txn: Transaction| txn.read_only_scan(&range, limit, freshness).await;
        let ((page, timestamp), attempts) = self.read_until_undisturbed(read).await?;
        if !self.definition.expiring {
            return Ok(RangeSnapshot { page, timestamp, attempts });
        }
        let Page { entries, next } = page;
        let found = entries.into_iter().map(|(key, held)| (key, Some(held))).collect();
        let Some(found) = self.judge_snapshot(found, timestamp, freshness)? else {
            return self.scan_and_delete(from, to, limit).await;
        };
        let entries = found.into_iter().filter_map(|(key, found)| Some((key, found?.value))).collect();
        Ok(RangeSnapshot { page: Page { entries, next }, timestamp, attempts })
    }

    /// Reads the first key of all shards, strictly, whatever it holds: they serve if that is possible.
    pub(crate) async fn read_something(&self) -> Result<()> {
        let all = user_range(b"", b"");
        let read = async |txn: Transaction| txn.read_only_scan(&all, 1, Freshness::Strict).await;
        self.read_until_undisturbed(read).await.map(drop)
    }

    /// Reads in a transaction that writes nothing, again while others are in the way; tells how many attempts it took.
    async fn read_until_undisturbed<T, F>(&self, mut read: impl FnMut(Transaction) -> F) -> Result<(T, u32)>
    where
        F: Future<Output = Result<T>>,
    {
        let first = self.shared.session.next_transaction();
        let mut retries = Retries::new(self.deadline, first.client.0 ^ first.sequence);
        loop {
            let (attempt, patience) = retries.begin();
            let txn = self.open(TransactionId { attempt, ..first }, None, patience).await?;
            match read(txn).await {
                Ok(read) => return Ok((read, retries.attempts())),
                Err(Error::Conflict) => {}
                Err(error) if !retries.outlasts(&error).await => return Err(error),
                Err(_) => continue,
            }
            if !retries.pause().await {
                return Err(Error::Conflict);
            }
        }
    }

    /// Writes a key in a transaction of its own.
    ///
    /// # Errors
    /// As [`Keyspace::transact`].
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.transact(async |txn| txn.put(key, value)).await
    }

    /// Deletes a key in a transaction of its own.
    ///
    /// # Errors
    /// As [`Keyspace::transact`].
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.transact(async |txn| txn.delete(key)).await
    }

    /// Reads up to `limit` keys from `from` (included) to `to` (excluded), in order, strictly; an empty `to` means to the
    /// end. One round trip if the keys of the range share a tag in braces, or if the keyspace has one shard.
    ///
    /// Each page is a transaction of its own. To read a larger range as it is at one moment, go on with
    /// [`Keyspace::scan_at`] at the timestamp of the first page, which [`Keyspace::scan_with_snapshot`] tells.
    ///
    /// # Errors
    /// As [`Keyspace::read_only`].
    pub async fn scan(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, limit: u32) -> Result<Page> {
        self.scan_with_snapshot(from, to, limit).await.map(|snapshot| snapshot.page)
    }

    /// As [`Keyspace::scan`], and tells what is known of the transaction. Its timestamp is one at which the range holds what
    /// was found; it need not follow real time.
    ///
    /// # Errors
    /// As [`Keyspace::read_only`].
    pub async fn scan_with_snapshot(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        limit: u32,
    ) -> Result<RangeSnapshot> {
        self.scan_as(from.as_ref(), to.as_ref(), limit, Freshness::Strict).await
    }

    /// Reads up to `limit` keys of a range as they are at a timestamp, see [`Keyspace::read_at`]. All pages that are read at
    /// one timestamp are one serializable snapshot. Versions are kept for some ten seconds, so that much time there is to
    /// read them all.
    ///
    /// # Errors
    /// As [`Keyspace::read_at`].
    pub async fn scan_at(
        &self,
        timestamp: Timestamp,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        limit: u32,
    ) -> Result<Page> {
        let snapshot = self.scan_as(from.as_ref(), to.as_ref(), limit, Freshness::At(timestamp)).await?;
        Ok(snapshot.page)
    }

    /// Reads up to `limit` keys of a range as they were so long ago by this machine's clock: a serializable snapshot that
    /// hardly ever waits for a write or gets in the way of one.
    ///
    /// # Errors
    /// As [`Keyspace::read_at`].
    pub async fn scan_stale(
        &self,
        staleness: Duration,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        limit: u32,
    ) -> Result<RangeSnapshot> {
        self.scan_as(from.as_ref(), to.as_ref(), limit, Freshness::Stale(staleness)).await
    }

    /// Reads up to `limit` keys of a range as they are by this machine's clock, see [`Keyspace::read_now`]. With the pages
    /// that [`Keyspace::scan_at`] reads at the same timestamp it is one snapshot, as strict as `read_now`.
    ///
    /// # Errors
    /// As [`Keyspace::read_now`].
    pub async fn scan_now(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        limit: u32,
    ) -> Result<RangeSnapshot> {
        self.scan_as(from.as_ref(), to.as_ref(), limit, Freshness::ClockBound).await
    }
}

/// Commits an attempt, and lets the window know what came of it.
async fn commit(txn: &mut Transaction, place: &Place) -> Result<Receipt> {
    let began = Instant::now();
    let committed = txn.commit().await;
    match committed {
        Ok(_) => place.note(Attempt::Committed(began.elapsed())),
        Err(Error::Conflict | Error::Unknown { .. }) => place.note(Attempt::InVain),
        Err(_) => {}
    }
    committed
}
