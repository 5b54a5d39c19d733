//! All objects whose ids are in a counting set, in one round trip.

use std::collections::VecDeque;

use quorate_core::command::{End, Member, SetCall};
use quorate_core::{Key, KeyRange};

use super::{Inner, Transaction, key_range};
use crate::error::Result;
use crate::waiters::MembersAnswer;

/// So many members are asked for at a time.
const PAGE: u32 = 1_000;

impl Transaction {
    /// Iterates over the elements of a counting set whose count is not zero, ascending, together with the values of the keys that they are. Elements
    /// and values come in one round trip, and are of one snapshot. Sees the transaction's own writes and changes; see [`Members`].
    pub fn get_members(&self, set: impl AsRef<[u8]>) -> Members<'_> {
        Members {
            inner: &self.inner,
            set: Key::copy_from_slice(set.as_ref()),
            from: End::Least,
            rest: Some(key_range(&[], &[])),
            page: VecDeque::new(),
            left: usize::MAX,
        }
    }
}

/// The members of a counting set of ids: each an element with its count, and the value of the key that the element is.
///
/// ```no_run
/// # async fn newest(txn: &quorate::Transaction) -> quorate::Result<()> {
/// let mut newest = txn.get_members("{alice}/timeline").from_greatest().limit(10);
/// while let Some(post) = newest.next().await? {
///     println!("{:?}: {:?}", post.element, post.value);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Members<'a> {
    inner: &'a Inner,
    set: Key,
    from: End,
    /// The range that was not asked for; none once all was.
    rest: Option<KeyRange>,
    page: VecDeque<Member>,
    left: usize,
}

impl Members<'_> {
    /// From the greatest element on, backwards.
    #[must_use]
    pub fn from_greatest(self) -> Self {
        Members { from: End::Greatest, ..self }
    }

    /// At most so many members.
    #[must_use]
    pub fn limit(self, members: usize) -> Self {
        Members { left: members, ..self }
    }

    /// The elements from `from` (included) to `to` (excluded) only; an empty `to` means to the end.
    #[must_use]
    pub fn between(self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Self {
        Members { rest: Some(key_range(from.as_ref(), to.as_ref())), ..self }
    }

    /// The next member; none if there is no other. Its value is none if the key is absent. Its count may be negative: see
    /// [`Transaction::set_remove`].
    ///
    /// # Errors
    /// As [`Transaction::set_count`].
    pub async fn next(&mut self) -> Result<Option<Member>> {
        if self.left == 0 {
            return Ok(None);
        }
        while self.page.is_empty() {
            let Some(range) = self.rest.take() else { return Ok(None) };
            let limit = u32::try_from(self.left).unwrap_or(PAGE).min(PAGE);
            let (members, rest) = self.inner.members(&self.set, range, self.from, limit).await?;
            (self.page, self.rest) = (members.into(), rest);
        }
        self.left -= 1;
        Ok(self.page.pop_front())
    }

    /// All members that are left.
    ///
    /// # Errors
    /// As [`Members::next`].
    pub async fn collect(mut self) -> Result<Vec<Member>> {
        let mut all = Vec::new();
        while let Some(member) = self.next().await? {
            all.push(member);
        }
        Ok(all)
    }
}

impl Inner {
    async fn members(&self, set: &Key, range: KeyRange, from: End, limit: u32) -> Result<MembersAnswer> {
        self.require_sets()?;
        let _only = self.scanning.lock().await;
        let shard = self.shard_of(set);
        self.require_served(std::iter::once(shard))?;
        let asked = {
            let mut progress = self.access(|footprint| footprint.count(set, set, shard))?;
            let before = self.tell(&mut progress);
            let call = SetCall::Members { set: set.clone(), range, from, limit };
            self.shared.session.members(self.id, before, &call)
        };
        self.answer(asked.ok_or_else(|| self.ended())?).await
    }
}
