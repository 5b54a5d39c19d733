//! Commits whose results are shown before they are final (STR, section 6.5), in `snapshot` keyspaces.
//!
//! ```text
//!   commit_speculatively ──► can it be shown? ──► committed at its node: on_spec_commit ──► the session goes on, in a chain
//!                                                       └──► final: on_final_commit(receipt), or an apology is owed
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::Timestamp;
use quorate_core::command::Shown;

use super::pipeline::Earlier;
use super::{Asked, Inner, Transaction};
use crate::error::{Error, Invalid, Result};
use crate::receipt::Receipt;
use crate::token::Token;

/// So many types of transactions are told apart.
const KINDS_MAX: usize = 1_000;

/// Each end counts for so much in the recent probability of commits.
const WEIGHT: f64 = 1.0 / 64.0;

/// The recent probabilities with which transactions of each type have committed.
#[derive(Debug, Default)]
pub(crate) struct Probabilities {
    of_kind: Mutex<BTreeMap<String, f64>>,
}

impl Probabilities {
    fn note(&self, kind: &str, is_committed: bool) {
        let mut of_kind = self.of_kind.lock().unwrap_or_else(PoisonError::into_inner);
        if of_kind.len() < KINDS_MAX || of_kind.contains_key(kind) {
            let known = of_kind.entry(kind.to_owned()).or_insert(1.0);
            *known += WEIGHT * (f64::from(u8::from(is_committed)) - *known);
        }
    }

    fn of(&self, kind: &str) -> f64 {
        self.of_kind.lock().unwrap_or_else(PoisonError::into_inner).get(kind).copied().unwrap_or(1.0)
    }
}

/// The system's knowledge of an open transaction (the paper's *tx_info*).
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Its snapshot, once it has read something in a `snapshot` keyspace: it holds what has committed at or below.
    pub snapshot: Option<Timestamp>,
    /// The probability, between 0 and 1, with which transactions of its type have become final lately after they were asked to commit speculatively at this
    /// client; 1 as long as none was.
    pub commit_probability: f64,
}

/// A commit that was shown, and is not settled.
#[derive(Clone, Debug)]
pub struct SpeculativeCommit {
    inner: Arc<Inner>,
    shown: Shown,
}

impl SpeculativeCommit {
    /// The name of the transaction: [`Database::outcome`](crate::Database::outcome) tells what became of it, also to another client, so that an apology that is
    /// owed is not forgotten with this session.
    pub fn token(&self) -> Token {
        self.inner.token()
    }

    /// The timestamp with which it has committed at its node. The final one is not below.
    pub fn local_timestamp(&self) -> Timestamp {
        Timestamp { micros: self.shown.local.as_micros(), client: self.inner.id.client }
    }

    /// So many transactions of this session are not settled, up to this one.
    pub fn chain(&self) -> u8 {
        self.shown.chain
    }
}

impl<'a> From<&'a SpeculativeCommit> for Earlier<'a> {
    fn from(commit: &'a SpeculativeCommit) -> Self {
        Earlier { inner: &commit.inner, is_known: true }
    }
}

/// How far a commit has come when [`Transaction::commit_speculatively`] returns.
#[derive(Debug)]
pub enum Speculated {
    /// It was shown. The next transaction of the session may begin [after it](crate::Keyspace::begin_after).
    Shown(SpeculativeCommit),
    /// It is final already.
    Final(Receipt),
}

impl Transaction {
    /// Gives the transaction a type, for [`Info::commit_probability`].
    ///
    /// # Errors
    /// [`Invalid::TransactionOver`].
    pub fn set_kind(&self, kind: impl Into<String>) -> Result<()> {
        self.inner.access(|_| Ok(()))?.kind = Some(kind.into());
        Ok(())
    }

    /// The system's knowledge of this transaction.
    pub fn info(&self) -> Info {
        let begun = self.inner.shared.session.begun(self.inner.id);
        let snapshot = begun.map(|begun| Timestamp { micros: begun.snapshot.as_micros(), ..Timestamp::ZERO });
        let commit_probability = self.inner.shared.probabilities.of(&self.inner.kind());
        Info { snapshot, commit_probability }
    }

    /// Commits, and lets the session go on once the transaction has committed at its node, which takes no round trip to another region. The result may
    /// be shown to a user then, as one that is likely and not yet sure.
    ///
    /// * `can_spec_commit` is asked first. If it says no, this waits for the final commit.
    /// * `on_spec_commit` is called with the local commit, if there is one before the final one.
    /// * `on_final_commit` is called once, with the end. It runs apart from the session: if it panics, nothing else is disturbed. After `on_spec_commit`,
    ///   an error means that an apology is owed: [`Error::ApologyOwed`], or [`Error::Unknown`] with the token to ask by.
    ///
    /// ```no_run
    /// # async fn order(shop: quorate::Keyspace) -> quorate::Result<()> {
    /// let mut txn = shop.begin().await?;
    /// txn.set_kind("order")?;
    /// txn.put("order/1", "one book")?;
    /// let shown = txn
    ///     .commit_speculatively(
    ///         |info| info.commit_probability > 0.9,
    ///         |order| println!("Thank you! Your order is {}.", order.token()),
    ///         |end| match end {
    ///             Ok(_) => println!("Your order is confirmed."),
    ///             Err(error) => println!("We are sorry: {error}"),
    ///         },
    ///     )
    ///     .await?;
    /// if let quorate::Speculated::Shown(order) = &shown {
    ///     let next = shop.begin_after(order).await?;
    ///     # drop(next);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid::ShowsNothing`] in a keyspace whose transactions are not shown before they are final, by its isolation, its variant, or chains of length zero; else as [`Transaction::commit`], if the
    /// transaction was not shown.
    pub async fn commit_speculatively(
        &mut self,
        can_spec_commit: impl FnOnce(&Info) -> bool,
        on_spec_commit: impl FnOnce(&SpeculativeCommit),
        on_final_commit: impl FnOnce(Result<Receipt>) + Send + 'static,
    ) -> Result<Speculated> {
        let inner = &self.inner;
        let definition = &inner.keyspace;
        let shows = definition.isolation.has_homes()
            && definition.comparison.is_none()
            && definition.speculation.unwrap_or_default().shows();
        if !shows {
            return Err(Invalid::ShowsNothing { name: definition.name.clone() }.into());
        }
        let kind = inner.kind();
        if !can_spec_commit(&self.info()) {
            let receipt = inner.commit().await;
            inner.shared.probabilities.note(&kind, receipt.is_ok());
            let receipt = receipt?;
            on_final_commit(Ok(receipt.clone()));
            return Ok(Speculated::Final(receipt));
        }
        let Some((before, permit)) = inner.take_commit().await? else {
            let receipt = inner.receipt(Asked::Nothing).await?;
            on_final_commit(Ok(receipt.clone()));
            return Ok(Speculated::Final(receipt));
        };
        let asked = inner.shared.session.commit_speculatively(inner.id, before);
        let (shown, receiver) = asked.ok_or_else(|| inner.ended())?;
        let asked = Asked::Commit { receiver, _permit: permit };
        // If it ends without having been shown, nobody can show it any more, and this answers at once.
        let Some(shown) = inner.bounded(shown).await else {
            let receipt = inner.receipt(asked).await;
            inner.shared.probabilities.note(&kind, receipt.is_ok());
            let receipt = receipt?;
            on_final_commit(Ok(receipt.clone()));
            return Ok(Speculated::Final(receipt));
        };
        let commit = SpeculativeCommit { inner: Arc::clone(inner), shown };
        on_spec_commit(&commit);
        let settled = Arc::clone(inner);
        tokio::spawn(async move {
            let end = settled.receipt(asked).await;
            settled.shared.probabilities.note(&kind, end.is_ok());
            on_final_commit(end.map_err(|error| settled.after_shown(error)));
        });
        Ok(Speculated::Shown(commit))
    }
}

impl Inner {
    fn kind(&self) -> String {
        self.progress().kind.clone().unwrap_or_default()
    }

    /// The error of a transaction whose result was shown.
    fn after_shown(&self, error: Error) -> Error {
        match error {
            Error::Unknown { .. } | Error::Closed => Error::Unknown { token: self.token() },
            _ => Error::ApologyOwed { token: self.token() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_of_commits_follows_recent_ends_of_a_type() {
        let probabilities = Probabilities::default();
        assert_eq!(probabilities.of("order"), 1.0);
        for _ in 0..1_000 {
            probabilities.note("order", false);
        }
        assert!(probabilities.of("order") < 0.01);
        assert_eq!(probabilities.of("browse"), 1.0);
        for _ in 0..30 {
            probabilities.note("order", true);
        }
        assert!(probabilities.of("order") > 0.3);
    }
}
