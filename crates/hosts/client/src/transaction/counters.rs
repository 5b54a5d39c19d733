//! Counters of `parallel-snapshot` keyspaces: they never fall below zero, and changes of them never conflict.

use quorate_core::Key;
use quorate_core::counter::{VALUE, set_of};
use quorate_core::transaction::validate_key;

use super::Transaction;
use crate::error::{Invalid, Result};

impl Transaction {
    /// Adds to a counter when the transaction commits, or takes from it if `by` is negative. A counter begins at zero and never falls below. Changes of a
    /// counter never conflict, at whatever site: each site has a share of it, to which it adds, and from which it takes without asking anybody. If its own
    /// share is too small, the commit waits for a part of the share of another site. A counter, a set and a key of one name are three things.
    ///
    /// The commit of a transaction that takes more than all sites have together, as far as this one knows, fails with
    /// [`Error::BelowZero`](crate::Error::BelowZero).
    ///
    /// ```no_run
    /// # async fn sell(shop: &quorate::Keyspace) -> quorate::Result<()> {
    /// let sale = shop
    ///     .transact(async |txn| {
    ///         txn.counter_add("{tea}/stock", -2)?;
    ///         txn.set_add("{tea}/orders", "order 17")
    ///     })
    ///     .await;
    /// if let Err(quorate::Error::BelowZero) = sale {
    ///     println!("sold out");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::set_add`].
    pub fn counter_add(&self, counter: impl AsRef<[u8]>, by: i32) -> Result<()> {
        self.inner.change_count(&checked(counter.as_ref())?, VALUE, by)
    }

    /// The value of a counter, in the snapshot of the transaction and with its own changes; zero if it was never changed.
    ///
    /// # Errors
    /// As [`Transaction::set_count`].
    pub async fn counter_get(&self, counter: impl AsRef<[u8]>) -> Result<i64> {
        self.inner.count(&checked(counter.as_ref())?, VALUE).await
    }
}

/// A counter as a set.
fn checked(counter: &[u8]) -> Result<Key> {
    validate_key(counter).map_err(Invalid::from)?;
    Ok(set_of(counter))
}
