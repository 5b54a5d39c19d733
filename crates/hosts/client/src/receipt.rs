//! A committed transaction as its client knows it, and how far it has come since.

use std::sync::{Arc, Weak};

use quorate_core::Timestamp;
use quorate_core::command::{Milestone, NotReached};
use quorate_core::topology::Keyspace as Definition;

use crate::database::Shared;
use crate::error::{Error, Result};
use crate::token::Token;

/// A committed transaction, as its client knows it.
///
/// A transaction of a `parallel-snapshot` keyspace has committed at its own site and reaches the others later. Those of all other keyspaces
/// are durable and visible everywhere once they have committed.
///
/// ```no_run
/// # async fn example(posts: quorate::Keyspace) -> quorate::Result<()> {
/// let (_, receipt) = posts.transact_with_receipt(async |txn| txn.put("{alice}/post", "hello")).await?;
/// // No site that burns down takes it along from here on.
/// receipt.durable().await?;
/// // Every transaction that begins from here on reads it, at whatever site.
/// receipt.visible().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Receipt {
    /// Its name.
    pub token: Token,
    /// Names the versions that it wrote. For diagnosis and for checkers: timestamps do not follow real time.
    pub timestamp: Timestamp,
    /// True if every shard decided within one round trip; in `parallel-snapshot` keyspaces, if no other site was asked.
    pub fast: bool,
    /// How many attempts it took.
    pub attempts: u32,
    /// The keyspace that tells how far it has come; none if there is nothing more to reach.
    pub(crate) origin: Option<Origin>,
}

/// Where a transaction has committed that reaches other sites later.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// A receipt keeps no connection open.
    shared: Weak<Shared>,
    keyspace: Arc<Definition>,
}

impl Origin {
    /// The origin of the transactions of a keyspace; none if they have reached everything once they have committed.
    pub(crate) fn of(shared: &Arc<Shared>, keyspace: &Arc<Definition>) -> Option<Self> {
        let is_replicated_later = keyspace.comparison.is_none() && keyspace.isolation.stands_in_sites();
        let origin = || Origin { shared: Arc::downgrade(shared), keyspace: Arc::clone(keyspace) };
        is_replicated_later.then(origin)
    }
}

impl PartialEq for Receipt {
    fn eq(&self, other: &Self) -> bool {
        (&self.token, self.timestamp, self.fast, self.attempts)
            == (&other.token, other.timestamp, other.fast, other.attempts)
    }
}

impl Eq for Receipt {}

impl Receipt {
    /// Waits until the transaction is *disaster-safe durable*: it survives the loss of a whole site. Ready at once outside `parallel-snapshot` keyspaces.
    ///
    /// Waits as long as [`Options::deadline`](crate::Options::deadline) at most. May be asked again, and by several at once.
    ///
    /// # Errors
    /// [`Error::NotReached`] names the sites that are missing; the transaction **is committed**. [`Error::Closed`] if the database was closed.
    pub async fn durable(&self) -> Result<()> {
        self.reach(Milestone::Durable).await
    }

    /// Waits until the transaction is *globally visible*: every transaction that begins from here on reads it, at every site. Ready at once outside
    /// `parallel-snapshot` keyspaces.
    ///
    /// Waits as long as [`Options::deadline`](crate::Options::deadline) at most. May be asked again, and by several at once.
    ///
    /// # Errors
    /// As [`Receipt::durable`].
    pub async fn visible(&self) -> Result<()> {
        self.reach(Milestone::Visible).await
    }

    async fn reach(&self, milestone: Milestone) -> Result<()> {
        let Some(Origin { shared, keyspace }) = &self.origin else { return Ok(()) };
        if self.token.participants.is_empty() {
            // It has neither read nor written anything.
            return Ok(());
        }
        let shared = shared.upgrade().ok_or(Error::Closed)?;
        let waited = shared.options.deadline;
        let missing = match shared.session.reach(self, milestone, waited).await {
            Some(Ok(())) => return Ok(()),
            Some(Err(NotReached::Missing(missing))) => missing,
            Some(Err(NotReached::Invalid(mistake))) => {
                return Err(crate::failure::invalid(keyspace, mistake).into());
            }
            None if shared.session.is_closed() => return Err(Error::Closed),
            None => self.token.participants.clone(),
        };
        let directory = shared.places.directory();
        let missing = directory.sites_of(&shared.places.latest(keyspace), &missing);
        Err(Error::NotReached { milestone, missing, waited })
    }
}
