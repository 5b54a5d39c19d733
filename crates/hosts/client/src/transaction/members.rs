//! All objects whose ids are in a counting set, in one round trip.

use quorate_core::command::{End, Member, SetCall};
use quorate_core::{Key, KeyRange};

use super::sets::Pages;
use super::{Inner, Transaction};
use crate::error::Result;
use crate::waiters::MembersAnswer;

impl Transaction {
    /// Iterates over the elements of a counting set whose count is not zero, ascending, together with the values of the keys that they are. Elements
    /// and values come in one round trip, and are of one snapshot. Sees the transaction's own writes and changes; see [`Members`].
    pub fn get_members(&self, set: impl AsRef<[u8]>) -> Members<'_> {
        Members { inner: &self.inner, pages: Pages::of(set.as_ref()) }
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
    pages: Pages<Member>,
}

impl Members<'_> {
    /// From the greatest element on, backwards.
    #[must_use]
    pub fn from_greatest(self) -> Self {
        Members { pages: self.pages.backwards(), ..self }
    }

    /// At most so many members.
    #[must_use]
    pub fn limit(self, members: usize) -> Self {
        Members { pages: self.pages.limit(members), ..self }
    }

    /// The elements from `from` (included) to `to` (excluded) only; an empty `to` means to the end.
    #[must_use]
    pub fn between(self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Self {
        Members { pages: self.pages.between(from.as_ref(), to.as_ref()), ..self }
    }

    /// The next member; none if there is no other. Its value is none if the key is absent. Its count may be negative: see
    /// [`Transaction::set_remove`].
    ///
    /// # Errors
    /// As [`Transaction::set_count`].
    pub async fn next(&mut self) -> Result<Option<Member>> {
        while let Some((range, limit)) = self.pages.missing() {
            let (members, rest) = self.inner.members(&self.pages.set, range, self.pages.from, limit).await?;
            self.pages.turn(members, rest);
        }
        Ok(self.pages.take())
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
