//! One attempt at one transaction.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_core::{ClockTime, Key, KeyRange, Timestamp, TransactionId, Value};
use quorate_tapir::{Command, Failure};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::database::Shared;
use crate::error::{Error, Invalid, Result};
use crate::footprint::Footprint;
use crate::token::Token;
use crate::waiters::OpenError;

/// An open transaction: reads see the newest versions, writes are kept back until [`Transaction::commit`], and commit
/// validates that nothing that was read has changed.
///
/// Dropping it aborts it. Reads are *validated at commit only*: an open transaction may see an inconsistent state, but
/// it cannot commit then.
#[derive(Debug)]
pub struct Transaction {
    shared: Arc<Shared>,
    keyspace: Arc<quorate_core::topology::Keyspace>,
    writable: bool,
    id: TransactionId,
    began: ClockTime,
    deadline: Instant,
    call_max: Duration,
    stage: Stage,
    footprint: Footprint,
}

/// How far a transaction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The coordinator has not heard of it.
    Idle,
    /// The coordinator works on it.
    Begun,
    /// It was asked to commit: only the cluster knows how it ends.
    Ending,
}

/// What is known of a transaction that has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its name.
    pub token: Token,
    /// Names the versions that it wrote. For diagnosis and for checkers: timestamps do not follow real time.
    pub timestamp: Timestamp,
    /// True if every shard decided within one round trip.
    pub fast: bool,
    /// How many attempts it took.
    pub attempts: u32,
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
        patience: Duration,
    ) -> Result<Self> {
        if let Some(retry_after) = shared.session.retry_after(keyspace.id) {
            return Err(Error::Overloaded { retry_after });
        }
        shared.session.open(id).map_err(|error| match error {
            OpenError::TooMany => Invalid::OpenTransactions { max: shared.session.open_max() }.into(),
            OpenError::Closed => Error::Closed,
        })?;
        let call_max = shared.options.deadline;
        Ok(Transaction {
            shared,
            keyspace,
            writable,
            id,
            began: clock_now(),
            deadline: Instant::now() + patience,
            call_max,
            stage: Stage::Idle,
            footprint: Footprint::default(),
        })
    }

    /// The name of this attempt, as far as it has come: later reads and writes may add participants.
    pub fn token(&self) -> Token {
        Token { transaction: self.id, began: self.began, participants: self.footprint.participants().to_vec() }
    }

    /// Reads a key; none if it is absent. Sees the transaction's own writes.
    ///
    /// # Errors
    /// [`Invalid`] for an empty or overlong key, [`Error::Unavailable`] if no replica answers.
    pub async fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = Key::copy_from_slice(key.as_ref());
        let receiver = self.ask_for(&key)?;
        self.answer(receiver).await
    }

    /// Reads several keys at once, in one round trip; the values are in the order of the keys.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn get_many(
        &mut self,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Vec<Option<Value>>> {
        let mut receivers = Vec::new();
        for key in keys {
            receivers.push(self.ask_for(&Key::copy_from_slice(key.as_ref()))?);
        }
        let mut values = Vec::with_capacity(receivers.len());
        for receiver in receivers {
            values.push(self.answer(receiver).await?);
        }
        Ok(values)
    }

    fn ask_for(&mut self, key: &Key) -> Result<oneshot::Receiver<Option<Value>>> {
        self.footprint.read(key, self.keyspace.shard_of(key).id)?;
        self.begin();
        self.shared.session.get(self.id, key).ok_or_else(|| self.ended())
    }

    /// Reads up to `limit` keys from `from` (included) to `to` (excluded), in order; an empty `to` means to the end.
    /// Sees the transaction's own writes. Keys that appear in the range later make the commit fail.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn scan(
        &mut self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        limit: u32,
    ) -> Result<Page> {
        let to = Some(to.as_ref()).filter(|to| !to.is_empty()).map(Key::copy_from_slice);
        let range = KeyRange { from: Key::copy_from_slice(from.as_ref()), to };
        if range.is_empty() {
            return Ok(Page::default());
        }
        if limit == 0 {
            return Ok(Page { entries: Vec::new(), next: Some(range.from) });
        }
        self.footprint.scan(&range, self.keyspace.shards.iter().map(|shard| shard.id))?;
        self.begin();
        let receiver = self.shared.session.scan(self.id, &range, limit).ok_or_else(|| self.ended())?;
        let (entries, next) = self.answer(receiver).await?;
        for (key, _) in &entries {
            self.footprint.read(key, self.keyspace.shard_of(key).id)?;
        }
        Ok(Page { entries, next })
    }

    /// Writes a key when the transaction commits.
    ///
    /// # Errors
    /// [`Invalid`] if a limit would be exceeded; the message names the key and the limit.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let value = Value::copy_from_slice(value.as_ref());
        self.write(Key::copy_from_slice(key.as_ref()), Some(value))
    }

    /// Deletes a key when the transaction commits. It is no mistake if the key is absent.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(Key::copy_from_slice(key.as_ref()), None)
    }

    fn write(&mut self, key: Key, value: Option<Value>) -> Result<()> {
        if !self.writable {
            return Err(Invalid::SystemKeyspace { name: self.keyspace.name.clone() }.into());
        }
        let shard = self.keyspace.shard_of(&key).id;
        self.footprint.write(&key, value.as_deref().unwrap_or_default(), shard)?;
        self.begin();
        self.shared.session.put(self.id, key, value);
        Ok(())
    }

    /// Commits: all writes at once, or nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something that was read has changed, [`Error::Unavailable`] if a majority of a shard
    /// cannot be reached, [`Error::Unknown`] if time ran out after the first prepare had left.
    pub async fn commit(mut self) -> Result<Receipt> {
        if self.stage == Stage::Idle {
            return Ok(Receipt { token: self.token(), timestamp: Timestamp::ZERO, fast: true, attempts: 1 });
        }
        let shared = Arc::clone(&self.shared);
        let permit = tokio::time::timeout_at(self.deadline, shared.session.commit_permit()).await;
        let Ok(permit) = permit else {
            return Err(Error::Overloaded { retry_after: Duration::from_millis(100) });
        };
        let Some(_permit) = permit else { return Err(Error::Closed) };
        let receiver = shared.session.commit(self.id).ok_or_else(|| self.ended())?;
        self.stage = Stage::Ending;
        match self.bounded(receiver).await {
            Some(Ok(committed)) => Ok(Receipt {
                token: self.token(),
                timestamp: committed.timestamp,
                fast: committed.fast,
                attempts: self.id.attempt + 1,
            }),
            Some(Err(failure)) => Err(self.error(failure)),
            None => Err(Error::Unknown { token: self.token() }),
        }
    }

    /// Drops the transaction. Nothing of it was ever visible.
    ///
    /// # Errors
    /// [`Error::Closed`] if the database handle was closed.
    pub async fn abort(mut self) -> Result<()> {
        if self.stage == Stage::Begun {
            self.stage = Stage::Ending;
            if let Some(receiver) = self.shared.session.abort(self.id) {
                return self.bounded(receiver).await.map(|_| ()).ok_or(Error::Closed);
            }
        }
        Ok(())
    }

    /// Tells the coordinator of the transaction, at its first access.
    fn begin(&mut self) {
        if self.stage == Stage::Idle {
            self.stage = Stage::Begun;
            let patience = self.deadline.saturating_duration_since(Instant::now());
            self.shared.session.begin(self.id, self.keyspace.id, patience);
        }
    }

    async fn answer<Answer>(&self, receiver: oneshot::Receiver<Answer>) -> Result<Answer> {
        self.bounded(receiver).await.ok_or_else(|| self.ended())
    }

    /// Waits for an answer; none if the transaction or the session ends, or this call takes too long. The coordinator
    /// keeps the deadline of the transaction, so only calls of long transactions need a timer of their own.
    async fn bounded<Answer>(&self, receiver: oneshot::Receiver<Answer>) -> Option<Answer> {
        if self.deadline.saturating_duration_since(Instant::now()) <= self.call_max {
            return receiver.await.ok();
        }
        tokio::time::timeout(self.call_max, receiver).await.ok().and_then(Result::ok)
    }

    /// Why a call of this transaction got no answer.
    fn ended(&self) -> Error {
        match self.shared.session.failure(self.id) {
            Some(failure) => self.error(failure),
            None if self.shared.session.is_closed() => Error::Closed,
            None => Error::Unavailable { missing: Vec::new() },
        }
    }

    fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Conflict => Error::Conflict,
            Failure::Aborted => Invalid::TransactionOver.into(),
            Failure::Unavailable { missing } => {
                Error::Unavailable { missing: self.shared.directory.describe(&self.keyspace, &missing) }
            }
            Failure::Unknown { participants } => Error::Unknown { token: Token { participants, ..self.token() } },
            Failure::Invalid(invalid) => self.invalid(invalid).into(),
        }
    }

    fn invalid(&self, invalid: quorate_tapir::Invalid) -> Invalid {
        match invalid {
            quorate_tapir::Invalid::Limit(limit) => Invalid::Limit(limit),
            quorate_tapir::Invalid::UnknownKeyspace(_) => {
                Invalid::KeyspaceDropped { name: self.keyspace.name.clone() }
            }
            quorate_tapir::Invalid::NotOpen(_) => Invalid::TransactionOver,
            quorate_tapir::Invalid::ClockAhead { ahead_micros, ahead_max_micros } => {
                Invalid::ClockAhead { ahead_micros, ahead_max_micros }
            }
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let last = (self.stage == Stage::Begun).then_some(Command::Abort { transaction: self.id });
        self.shared.session.forget(self.id, last);
    }
}

/// The physical clock of this machine.
pub(crate) fn clock_now() -> ClockTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ClockTime::from_micros(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
}
