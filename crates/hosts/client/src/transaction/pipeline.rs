//! Commits that are pipelined: the next transaction of a session begins before the last one has answered (Walter, section 4.1).
//!
//! ```text
//!   one after the other             pipelined
//!     commit ─────►                   commit ─────►
//!     ◄─────────── committed          begin after it, write, commit ─────►     whatever the site does, the second includes the first,
//!     begin, write, commit ─────►     ◄─────────── committed                   if that commits
//!     ◄─────────── committed          ◄─────────── committed
//! ```

use std::sync::Arc;

use super::{Asked, Inner, Transaction};
use crate::error::{Invalid, Result};
use crate::keyspace::Keyspace;
use crate::receipt::Receipt;
use crate::token::Token;

/// A commit that goes on while its session does something else. If this is dropped, the transaction commits or not, and nobody is told.
#[derive(Debug)]
pub struct Committing {
    inner: Arc<Inner>,
    asked: Asked,
}

impl Committing {
    /// Waits for the end of the transaction.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub async fn receipt(self) -> Result<Receipt> {
        self.inner.receipt(self.asked).await
    }

    /// The name of the transaction, by which [`Database::outcome`](crate::Database::outcome) finds out what became of it.
    pub fn token(&self) -> Token {
        self.inner.token()
    }
}

impl Transaction {
    /// Asks for the commit, and does not wait for it: [`Keyspace::begin_after`] begins the next transaction of the session meanwhile. Waits only if as
    /// many commits are in flight as the session may have.
    ///
    /// ```no_run
    /// # async fn pipelined(posts: quorate::Keyspace) -> quorate::Result<()> {
    /// let mut post = posts.begin().await?;
    /// post.put("{alice}/post/1", "hello")?;
    /// let post = post.commit_soon().await?;
    /// let mut count = posts.begin_after(&post).await?;
    /// count.put("{alice}/last", "1")?;
    /// let count = count.commit_soon().await?;
    /// // A transaction that sees the second sees the first.
    /// post.receipt().await?;
    /// count.receipt().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Overloaded`](crate::Error::Overloaded) if the window of commits stays full, [`Invalid::TransactionOver`].
    pub async fn commit_soon(&mut self) -> Result<Committing> {
        let asked = self.inner.ask_to_commit().await?;
        Ok(Committing { inner: Arc::clone(&self.inner), asked })
    }
}

/// A transaction whose commit is under way, and which others may come after.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    pub(super) inner: &'a Arc<Inner>,
    /// False if it has done nothing: it has not been heard of, and there is nothing to come after.
    pub(super) is_known: bool,
}

impl<'a> From<&'a Committing> for Earlier<'a> {
    fn from(committing: &'a Committing) -> Self {
        let is_known = matches!(committing.asked, Asked::Commit { .. });
        Earlier { inner: &committing.inner, is_known }
    }
}

impl Keyspace {
    /// Begins a transaction that comes after one whose commit is under way: if that one commits, this one sees what it has written, and no other
    /// transaction sees this one without it. In a `parallel-snapshot` keyspace, if it does not commit, this one is a transaction like any other; so commit
    /// what relies on it after its receipt. In a `snapshot` keyspace, this one aborts with it. Needs a keyspace of one of the two.
    ///
    /// # Errors
    /// [`Invalid::Unsupported`] in another isolation, [`Invalid::OtherKeyspace`] if the commit is one of another keyspace; else as
    /// [`Keyspace::begin`].
    pub async fn begin_after<'a>(&self, earlier: impl Into<Earlier<'a>>) -> Result<Transaction> {
        let earlier = earlier.into();
        let definition = self.definition();
        let name = || definition.name.clone();
        let pipelines = definition.isolation.stands_in_sites() || definition.isolation.has_homes();
        if definition.comparison.is_some() || !pipelines {
            return Err(Invalid::Unsupported { name: name(), isolation: definition.isolation }.into());
        }
        if earlier.inner.keyspace.id != definition.id || !std::ptr::eq(&*earlier.inner.shared, self.shared())
        {
            return Err(Invalid::OtherKeyspace { name: name() }.into());
        }
        let after = earlier.is_known.then_some(earlier.inner.id);
        self.open(self.shared().session.next_transaction(), after, self.deadline()).await
    }
}
