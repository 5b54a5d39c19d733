//! The part of a transaction that has to do with values that expire (ADR 0085).
//!
//! ```text
//!   get, scan ─► judged by the clock with which the transaction began
//!                  alive ─► the transaction commits before the expiry, or not at all
//!                  over  ─► absent, and the key is deleted when the transaction commits
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_core::command::Command;
use quorate_core::expiry::{Envelope, Expiry, NoEnvelope};
use quorate_core::reserved::is_reserved;
use quorate_core::topology::{Isolation, Keyspace as Definition};
use quorate_core::transaction::readable;
use quorate_core::{ClockTime, Key, Value};
use quorate_expiry::{Due, Judge, Verdict, is_swept};

use super::{Inner, Page, Progress, Transaction, clock_now};
use crate::error::{Error, Invalid, Result};
use crate::indexes::IndexFault;

/// A value, and when it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithExpiry {
    /// The value.
    pub value: Value,
    /// The instant from which on the key is absent, by the clocks of clients; none if the value stays until it is overwritten or deleted.
    pub expires_at: Option<SystemTime>,
}

impl WithExpiry {
    /// How long the value will be there, by the clock of this machine; none if it stays. At least a microsecond: it was there when it was read.
    pub fn remaining(&self) -> Option<Duration> {
        let left = |at: SystemTime| at.duration_since(SystemTime::now()).unwrap_or_default();
        self.expires_at.map(|at| left(at).max(Duration::from_micros(1)))
    }
}

impl From<Envelope> for WithExpiry {
    fn from(Envelope { value, expiry }: Envelope) -> Self {
        WithExpiry { value, expires_at: expiry.map(time_of) }
    }
}

/// The time of an expiry, as users see it.
pub(crate) fn time_of(expiry: Expiry) -> SystemTime {
    let since = Duration::from_micros(expiry.as_micros());
    // A time that this system cannot express is as good as its latest.
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH + quorate_core::expiry::LIFETIME_MAX)
}

/// The error of a value that has no envelope.
pub(crate) fn no_envelope(definition: &Definition, key: &Key) -> Error {
    Invalid::NoEnvelope { name: definition.name.clone(), key: readable(key) }.into()
}

impl Transaction {
    /// Writes a key when the transaction commits, for a lifetime: once that is over, by the clocks of clients, the key is absent. It begins now, by the clock of this machine. A
    /// later write of the key begins anew, and [`Transaction::put`] writes a value that stays.
    ///
    /// ```no_run
    /// # async fn example(sessions: quorate::Keyspace) -> quorate::Result<()> {
    /// use std::time::Duration;
    ///
    /// // quorate keyspace create sessions --isolation strict --expiring
    /// sessions.transact(async |txn| txn.put_for("session/7", "alice", Duration::from_secs(1800))).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid::NotExpiring`] in a keyspace that was not created for it, [`Invalid::Lifetime`] for a lifetime of less than a millisecond or more than 100 years; else as
    /// [`Transaction::put`].
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, lifetime: Duration) -> Result<()> {
        let expiry = Expiry::after(clock_now(), lifetime).map_err(Invalid::Lifetime)?;
        self.put_until(key, value, expiry)
    }

    /// Writes a key for as long as this says, which may be over: then the key is deleted as any that is over.
    fn put_until(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, expiry: Expiry) -> Result<()> {
        let inner = &self.inner;
        if !inner.keyspace.expiring {
            let Definition { name, isolation, .. } = &*inner.keyspace;
            return Err(Invalid::NotExpiring { name: name.clone(), isolation: *isolation }.into());
        }
        let key = Key::copy_from_slice(key.as_ref());
        if is_reserved(&key) {
            return Err(Invalid::Index(IndexFault::Reserved { key: readable(&key) }).into());
        }
        let value = Value::copy_from_slice(value.as_ref());
        inner.write_by_user(key, Some(Envelope { value, expiry: Some(expiry) }.encode()))
    }

    /// Writes a key with a value as [`Transaction::get_with_expiry`] has read it, and with its expiry.
    ///
    /// # Errors
    /// As [`Transaction::put_for`]; [`Invalid::Lifetime`] if it expires before 1970.
    pub fn put_with_expiry(&self, key: impl AsRef<[u8]>, value: &WithExpiry) -> Result<()> {
        let Some(at) = value.expires_at else { return self.put(key, &value.value) };
        let since =
            at.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_micros()).ok());
        let impossible = || Invalid::Lifetime(quorate_core::expiry::LifetimeError { given: Duration::ZERO });
        self.put_until(key, &value.value, Expiry::from_micros(since.ok_or_else(impossible)?))
    }

    /// Writes a key of an expiring keyspace with the bytes that a [`Cut`](crate::Cut) has told of it: with its expiry, if it has one.
    ///
    /// # Errors
    /// [`Invalid::NoEnvelope`] if the bytes are others; else as [`Transaction::put`].
    pub fn put_as_held(&self, key: impl AsRef<[u8]>, held: &Value) -> Result<()> {
        let key = Key::copy_from_slice(key.as_ref());
        let envelope =
            Envelope::decode(held).map_err(|NoEnvelope| no_envelope(&self.inner.keyspace, &key))?;
        self.put_with_expiry(key, &WithExpiry::from(envelope))
    }

    /// Writes a key with a value that lives as long as the one that the key holds: an expiry, if there is one, stays as it is.
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::put`].
    pub(crate) async fn put_keeping_expiry(&self, key: &Key, value: Value) -> Result<()> {
        if !self.inner.keyspace.expiring {
            return self.put(key, value);
        }
        let expires_at = self.get_with_expiry(key).await?.and_then(|held| held.expires_at);
        self.put_with_expiry(key, &WithExpiry { value, expires_at })
    }

    /// Reads a key as [`Transaction::get`] does, and tells when its value is over. In a keyspace whose values do not expire they all stay.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<WithExpiry>> {
        let key = Key::copy_from_slice(key.as_ref());
        let read = self.inner.ask_for(key.clone())?;
        let held = self.inner.read(read).await?;
        Ok(self.inner.envelope_of(&key, held)?.map(WithExpiry::from))
    }

    /// Deletes those of these keys whose values are over, in this transaction. Gives how many.
    pub(crate) async fn sweep(&self, due: &[Due]) -> Result<u64> {
        let keys: Vec<Key> = due.iter().map(|due| due.key.clone()).collect();
        let held = self.inner.read_beneath(&keys).await?;
        let mut swept = 0;
        for (key, held) in keys.into_iter().zip(held) {
            if is_swept(held.as_ref(), self.inner.began, None) {
                // Its judgement confines the commit to where the value is over.
                self.inner.value_of(&key, held)?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}

impl Inner {
    /// Writes a key as its user wants it, in its envelope where there is one.
    pub(super) fn write_by_user(&self, key: Key, value: Option<Value>) -> Result<()> {
        self.write_any(key, value)?;
        self.progress().is_written_by_user = true;
        Ok(())
    }

    /// The value that a key holds for this transaction, given the bytes that were read.
    pub(super) fn value_of(&self, key: &Key, held: Option<Value>) -> Result<Option<Value>> {
        match self.keyspace.expiring {
            true => Ok(self.envelope_of(key, held)?.map(|envelope| envelope.value)),
            false => Ok(held),
        }
    }

    /// The same with its expiry.
    pub(super) fn envelope_of(&self, key: &Key, held: Option<Value>) -> Result<Option<Envelope>> {
        if !self.keyspace.expiring || is_reserved(key) {
            return Ok(held.map(Envelope::lasting));
        }
        if self.progress().footprint.has_written(key) {
            // It is its own, and may be over as soon as it is committed.
            let own = held.map(|held| Envelope::decode(&held)).transpose();
            return own.map_err(|NoEnvelope| no_envelope(&self.keyspace, key));
        }
        match self.judge(key, held.as_ref())? {
            Verdict::Absent => Ok(None),
            Verdict::Alive(envelope) => Ok(Some(envelope)),
            Verdict::Over => {
                self.write_any(key.clone(), None)?;
                Ok(None)
            }
        }
    }

    /// Judges what a key of an expiring keyspace holds. Where it is over, the caller deletes it.
    pub(super) fn judge(&self, key: &Key, held: Option<&Value>) -> Result<Verdict> {
        let mut progress = self.progress();
        let Progress { judge, has_deleted_over, .. } = &mut *progress;
        // Whatever reads an expiring keyspace has a judge.
        let verdict = judge.get_or_insert_with(|| Judge::new(self.began)).judge(held);
        let verdict = verdict.map_err(|NoEnvelope| no_envelope(&self.keyspace, key))?;
        *has_deleted_over |= verdict == Verdict::Over;
        Ok(verdict)
    }

    /// The keys of a page that hold something for this transaction.
    pub(super) fn page_of(&self, page: Page) -> Result<Page> {
        if !self.keyspace.expiring {
            return Ok(page);
        }
        let mut entries = Vec::with_capacity(page.entries.len());
        for (key, held) in page.entries {
            if let Some(value) = self.value_of(&key, Some(held))? {
                entries.push((key, value));
            }
        }
        Ok(Page { entries, next: page.next })
    }

    /// The timestamps at which the transaction may commit, where its protocol chooses them; none if any will do.
    pub(super) fn confinement(&self) -> Option<Command> {
        if self.keyspace.isolation != Isolation::Strict {
            return None;
        }
        let judge = self.progress().judge.filter(|judge| !judge.is_unconfined())?;
        Some(Command::Confine { transaction: self.id, window: judge.window() })
    }
}

impl Transaction {
    /// True if all that it has written are deletions of keys whose values were over.
    pub(crate) fn has_only_deleted_over(&self) -> bool {
        let progress = self.inner.progress();
        progress.has_deleted_over && !progress.is_written_by_user
    }
}

/// True if a reader that is to be strict cannot go by what it has found at this timestamp: a value is over, and the reader would have to delete its key.
pub(crate) fn is_over_for_strict_readers(
    definition: &Definition,
    timestamp: quorate_core::Timestamp,
    entries: &[(Key, Option<Value>)],
) -> Result<bool> {
    let now = clock_now().max(ClockTime::from_micros(timestamp.micros));
    for (key, held) in entries {
        let Some(held) = held.as_ref().filter(|_| !is_reserved(key)) else { continue };
        let expiry = Envelope::expiry_in(held).map_err(|NoEnvelope| no_envelope(definition, key))?;
        if expiry.is_some_and(|expiry| expiry.has_passed_by(now)) {
            return Ok(true);
        }
    }
    Ok(false)
}
