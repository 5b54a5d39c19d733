//! Counting sets of `parallel-snapshot` keyspaces: each element has a count, and changes of counts never conflict.

use std::collections::VecDeque;

use quorate_core::command::{End, SetCall};
use quorate_core::counter::validate_element;
use quorate_core::transaction::LimitExceeded;
use quorate_core::{Key, KeyRange};

use super::{Inner, Transaction, key_range};
use crate::error::{Error, Invalid, Result};

/// So many elements are asked for at a time.
const PAGE: u32 = 1_000;

impl Transaction {
    /// Adds one to the count of an element of a counting set when the transaction commits. It never conflicts with another change of a
    /// set, at whatever site. A set and a key of one name are two things.
    ///
    /// # Errors
    /// [`Invalid`] if a limit would be exceeded, or if the keyspace is not `parallel-snapshot`.
    pub fn set_add(&self, set: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<()> {
        self.inner.change_count(set.as_ref(), element.as_ref(), 1)
    }

    /// Takes one from the count of an element of a counting set when the transaction commits. Counts may become negative: an element that is
    /// removed before it is added is not in the set afterwards.
    ///
    /// # Errors
    /// As [`Transaction::set_add`].
    pub fn set_remove(&self, set: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<()> {
        self.inner.change_count(set.as_ref(), element.as_ref(), -1)
    }

    /// Adds a number to the count of an element of a counting set when the transaction commits, or takes from it if `by` is negative: as many
    /// calls of [`Transaction::set_add`] or [`Transaction::set_remove`] at once.
    ///
    /// # Errors
    /// As [`Transaction::set_add`].
    pub fn set_change(&self, set: impl AsRef<[u8]>, element: impl AsRef<[u8]>, by: i32) -> Result<()> {
        self.inner.change_count(set.as_ref(), element.as_ref(), by)
    }

    /// The count of an element of a counting set; zero if it was never added. Sees the transaction's own changes.
    ///
    /// # Errors
    /// As [`Transaction::set_add`] and [`Transaction::get`].
    pub async fn set_count(&self, set: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<i64> {
        self.inner.count(set.as_ref(), element.as_ref()).await
    }

    /// Iterates over the elements of a counting set whose count is not zero, ascending; see [`SetIter`]. Sees the transaction's own changes.
    pub fn set_iter(&self, set: impl AsRef<[u8]>) -> SetIter<'_> {
        SetIter { inner: &self.inner, pages: Pages::of(set.as_ref()) }
    }

    /// True if an element is in a counting set as in an ordinary one: its count is one or more.
    ///
    /// # Errors
    /// As [`Transaction::set_count`].
    pub async fn set_contains(&self, set: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.set_count(set, element).await? >= 1)
    }

    /// Lets a counting set contain an element as an ordinary set would: raises its count to one if it is less. True if it was. Two sites that
    /// do so at one time bring the count to two, so that one [`Transaction::set_remove`] leaves the element in the set;
    /// [`Transaction::set_discard`] does not.
    ///
    /// # Errors
    /// As [`Transaction::set_count`].
    pub async fn set_insert(&self, set: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<bool> {
        let (set, element) = (set.as_ref(), element.as_ref());
        let count = self.inner.count(set, element).await?;
        if count < 1 {
            self.inner.change_count(set, element, in_one_change(1 - count)?)?;
        }
        Ok(count < 1)
    }

    /// Takes an element out of a counting set as out of an ordinary one: lowers its count to zero if it is more. True if it was.
    ///
    /// # Errors
    /// As [`Transaction::set_count`].
    pub async fn set_discard(&self, set: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<bool> {
        let (set, element) = (set.as_ref(), element.as_ref());
        let count = self.inner.count(set, element).await?;
        if count > 0 {
            self.inner.change_count(set, element, in_one_change(-count)?)?;
        }
        Ok(count > 0)
    }
}

/// A change of a count, as one transaction may make it.
fn in_one_change(by: i64) -> Result<i32> {
    i32::try_from(by).map_err(|_| Invalid::from(LimitExceeded::Added { added: by.saturating_abs() }).into())
}

/// The elements of a counting set with their counts, in order.
///
/// ```no_run
/// # async fn newest(txn: &quorate::Transaction) -> quorate::Result<()> {
/// let mut newest = txn.set_iter("{alice}/messages").from_greatest().limit(10);
/// while let Some((message, _)) = newest.next().await? {
///     println!("{message:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SetIter<'a> {
    inner: &'a Inner,
    pages: Pages<(Key, i64)>,
}

/// A counting set that is read page by page.
#[derive(Debug)]
pub(super) struct Pages<T> {
    pub(super) set: Key,
    pub(super) from: End,
    /// The range that was not asked for; none once all was.
    rest: Option<KeyRange>,
    page: VecDeque<T>,
    left: usize,
}

impl<T> Pages<T> {
    pub(super) fn of(set: &[u8]) -> Self {
        let rest = Some(key_range(&[], &[]));
        Pages {
            set: Key::copy_from_slice(set),
            from: End::Least,
            rest,
            page: VecDeque::new(),
            left: usize::MAX,
        }
    }

    pub(super) fn backwards(self) -> Self {
        Pages { from: End::Greatest, ..self }
    }

    pub(super) fn limit(self, left: usize) -> Self {
        Pages { left, ..self }
    }

    pub(super) fn between(self, from: &[u8], to: &[u8]) -> Self {
        Pages { rest: Some(key_range(from, to)), ..self }
    }

    /// The range to ask for before there is a next element, and how many of it; none if nothing has to be asked for.
    pub(super) fn missing(&mut self) -> Option<(KeyRange, u32)> {
        if self.left == 0 || !self.page.is_empty() {
            return None;
        }
        Some((self.rest.take()?, u32::try_from(self.left).unwrap_or(PAGE).min(PAGE)))
    }

    /// A page has come, and this range is left.
    pub(super) fn turn(&mut self, page: Vec<T>, rest: Option<KeyRange>) {
        (self.page, self.rest) = (page.into(), rest);
    }

    /// The next element, if it is on the page.
    pub(super) fn take(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        self.page.pop_front()
    }
}

impl SetIter<'_> {
    /// From the greatest element on, backwards.
    #[must_use]
    pub fn from_greatest(self) -> Self {
        SetIter { pages: self.pages.backwards(), ..self }
    }

    /// At most so many elements.
    #[must_use]
    pub fn limit(self, elements: usize) -> Self {
        SetIter { pages: self.pages.limit(elements), ..self }
    }

    /// The elements from `from` (included) to `to` (excluded) only; an empty `to` means to the end.
    #[must_use]
    pub fn between(self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Self {
        SetIter { pages: self.pages.between(from.as_ref(), to.as_ref()), ..self }
    }

    /// The next element and its count; none if there is no other.
    ///
    /// # Errors
    /// As [`Transaction::set_count`].
    pub async fn next(&mut self) -> Result<Option<(Key, i64)>> {
        while let Some((range, limit)) = self.pages.missing() {
            let (counts, rest) = self.inner.elements(&self.pages.set, range, self.pages.from, limit).await?;
            self.pages.turn(counts, rest);
        }
        Ok(self.pages.take())
    }

    /// All elements that are left, with their counts.
    ///
    /// # Errors
    /// As [`SetIter::next`].
    pub async fn collect(mut self) -> Result<Vec<(Key, i64)>> {
        let mut all = Vec::new();
        while let Some(element) = self.next().await? {
            all.push(element);
        }
        Ok(all)
    }
}

impl Inner {
    pub(super) fn require_sets(&self) -> Result<()> {
        let isolation = self.keyspace.isolation;
        match self.keyspace.comparison.is_none() && isolation.stands_in_sites() {
            true => Ok(()),
            false => Err(Invalid::Unsupported { name: self.keyspace.name.clone(), isolation }.into()),
        }
    }

    pub(super) fn change_count(&self, set: &[u8], element: &[u8], by: i32) -> Result<()> {
        self.require_sets()?;
        validate_element(set, Some(element)).map_err(Invalid::from)?;
        let (set, element) = (Key::copy_from_slice(set), Key::copy_from_slice(element));
        let shard = self.shard_of(&set);
        if let Some((_, reason)) = self.without_space.iter().find(|(without, _)| *without == shard) {
            return Err(Error::NoSpace { reason: reason.clone() });
        }
        let mut progress = self.access(|footprint| footprint.count(&set, &element, shard))?;
        let count = progress.untold.counts.entry((set, element)).or_default();
        let sum = count.checked_add(by);
        *count =
            sum.ok_or(Invalid::from(LimitExceeded::Added { added: i64::from(*count) + i64::from(by) }))?;
        Ok(())
    }

    pub(super) async fn count(&self, set: &[u8], element: &[u8]) -> Result<i64> {
        self.require_sets()?;
        validate_element(set, Some(element)).map_err(Invalid::from)?;
        let (set, element) = (Key::copy_from_slice(set), Key::copy_from_slice(element));
        let shard = self.shard_of(&set);
        self.require_served(std::iter::once(shard))?;
        let asked = {
            let mut progress = self.access(|footprint| footprint.count(&set, &element, shard))?;
            let before = self.tell(&mut progress);
            self.shared.session.count(self.id, before, &set, &element)
        };
        self.answer(asked.ok_or_else(|| self.ended())?).await
    }

    async fn elements(
        &self,
        set: &Key,
        range: KeyRange,
        from: End,
        limit: u32,
    ) -> Result<(Vec<(Key, i64)>, Option<KeyRange>)> {
        self.require_sets()?;
        let _only = self.scanning.lock().await;
        let shard = self.shard_of(set);
        self.require_served(std::iter::once(shard))?;
        let asked = {
            let mut progress = self.access(|footprint| footprint.count(set, set, shard))?;
            let before = self.tell(&mut progress);
            let call = SetCall::Elements { set: set.clone(), range, from, limit };
            self.shared.session.elements(self.id, before, &call)
        };
        self.answer(asked.ok_or_else(|| self.ended())?).await
    }
}
