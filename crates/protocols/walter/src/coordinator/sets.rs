//! Counting sets, as a transaction sees them: what its snapshot holds, and its own changes.

use std::collections::BTreeMap;

use quorate_core::command::{End, Event, Failure, Invalid, SetAnswer, SetCall};
use quorate_core::counter::validate_element;
use quorate_core::transaction::{LimitExceeded, validate_key};
use quorate_core::{Context, Key, KeyRange, TransactionId};

use super::{Coordinator, Out};
use crate::histories::{Count, Update};
use crate::message::Wanted;

/// The changes that a transaction makes to counting sets.
#[derive(Debug, Default)]
pub(super) struct OwnChanges {
    /// By set and element. None of them is zero.
    changes: BTreeMap<Key, BTreeMap<Key, i32>>,
    /// How much all of them add or take away, whatever the order.
    added: i64,
}

impl OwnChanges {
    /// Adds to a count.
    ///
    /// # Errors
    /// So much would not fit into a count of one transaction. Nothing is noted.
    fn add(&mut self, set: Key, element: Key, by: i32) -> Result<(), LimitExceeded> {
        let added = self.added + i64::from(by.unsigned_abs());
        if added > i64::from(i32::MAX) {
            return Err(LimitExceeded::Added { added });
        }
        self.added = added;
        // The sum is no more than all that was added, so it fits.
        *self.changes.entry(set).or_default().entry(element).or_default() += by;
        Ok(())
    }

    /// The change of a count.
    fn of(&self, set: &Key, element: &Key) -> i64 {
        self.changes.get(set).and_then(|changes| changes.get(element)).map_or(0, |by| i64::from(*by))
    }

    /// All changes that are any.
    pub(super) fn into_updates(self) -> impl Iterator<Item = Update> {
        self.changes.into_iter().flat_map(|(set, changes)| {
            let changed = changes.into_iter().filter(|(_, by)| *by != 0);
            changed.map(move |(element, by)| Update::Add { set: set.clone(), element, by })
        })
    }

    /// A page of a set with these changes: elements with their counts, and the range that is left.
    pub(super) fn merge(&self, set: &Key, page: Page) -> (Vec<(Key, i64)>, Option<KeyRange>) {
        let Page { range, from, limit, counts, is_cut } = page;
        let last = counts.last().map(|count| count.element.clone()).filter(|_| is_cut);
        let mut rest = last.map(|last| range_after(&range, from, &last));
        let covered = |element: &Key| {
            range.contains(element) && !rest.as_ref().is_some_and(|rest| rest.contains(element))
        };
        let mut merged: BTreeMap<Key, i64> =
            counts.into_iter().map(|count| (count.element, count.count)).collect();
        let own = self.changes.get(set).into_iter().flatten();
        for (element, by) in own.filter(|(element, _)| covered(element)) {
            *merged.entry(element.clone()).or_default() += i64::from(*by);
        }
        let present = merged.into_iter().filter(|(_, count)| *count != 0);
        let mut counts: Vec<(Key, i64)> = match from {
            End::Least => present.collect(),
            End::Greatest => present.rev().collect(),
        };
        if counts.len() > limit as usize {
            counts.truncate(limit as usize);
            rest = counts.last().map(|(last, _)| range_after(&range, from, last));
        }
        (counts, rest)
    }
}

/// A page of a set, as a snapshot holds it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) range: KeyRange,
    pub(super) from: End,
    pub(super) limit: u32,
    pub(super) counts: Vec<Count>,
    pub(super) is_cut: bool,
}

/// The part of a range that lies behind an element.
fn range_after(range: &KeyRange, from: End, last: &Key) -> KeyRange {
    match from {
        End::Least => range.after(last),
        End::Greatest => range.before(last),
    }
}

impl Coordinator {
    pub(super) fn on_set(
        &mut self,
        id: TransactionId,
        call: SetCall,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        let (set, element) = match &call {
            SetCall::Add { set, element, .. } | SetCall::Count { set, element } => (set, Some(element)),
            SetCall::Elements { set, .. } | SetCall::Members { set, .. } => (set, None),
        };
        let checked = [Some(set), element].into_iter().flatten().try_for_each(|key| validate_key(key));
        let checked = checked.and_then(|()| validate_element(set, element.map(Key::as_slice)));
        let bytes = element.map_or(0, |element| element.len());
        let charged = checked.and_then(|()| execution.buffer.charge(set, bytes));
        let noted = charged.and_then(|()| match call {
            SetCall::Add { set, element, by } => execution.sets.add(set, element, by).map(|()| None),
            SetCall::Count { set, element } => Ok(Some(Wanted::Count { set, element })),
            SetCall::Elements { set, range, from, limit } => {
                Ok(Some(Wanted::Elements { set, range, from, limit }))
            }
            SetCall::Members { set, range, from, limit } => {
                Ok(Some(Wanted::Members { set, range, from, limit }))
            }
        });
        match noted {
            Ok(None) => {}
            Ok(Some(wanted)) => self.want_of_set(id, wanted, context, outbox),
            Err(limit) => self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox),
        }
    }

    fn want_of_set(&mut self, id: TransactionId, wanted: Wanted, context: &Context<'_>, outbox: &mut Out) {
        let page_max = self.config.scan_page_max;
        match wanted {
            Wanted::Elements { set, range, limit, .. } if range.is_empty() || limit == 0 => {
                let rest = (!range.is_empty()).then_some(range);
                let answer = SetAnswer::Elements { set, counts: Vec::new(), rest };
                outbox.emit(Event::Set { transaction: id, answer });
            }
            Wanted::Elements { set, range, from, limit } => {
                let limit = limit.min(page_max);
                self.want(id, vec![Wanted::Elements { set, range, from, limit }], context, outbox);
            }
            Wanted::Members { set, range, limit, .. } if range.is_empty() || limit == 0 => {
                let rest = (!range.is_empty()).then_some(range);
                let answer = SetAnswer::Members { set, members: Vec::new(), rest };
                outbox.emit(Event::Set { transaction: id, answer });
            }
            Wanted::Members { set, range, from, limit } => {
                let limit = limit.min(page_max);
                self.want(id, vec![Wanted::Members { set, range, from, limit }], context, outbox);
            }
            wanted => self.want(id, vec![wanted], context, outbox),
        }
    }

    /// A snapshot has this count.
    pub(super) fn take_count(
        &mut self,
        id: TransactionId,
        set: Key,
        element: Key,
        count: i64,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        let count = count + execution.sets.of(&set, &element);
        outbox.emit(Event::Set { transaction: id, answer: SetAnswer::Count { set, element, count } });
    }

    /// A snapshot has these elements.
    pub(super) fn take_elements(&mut self, id: TransactionId, set: Key, page: Page, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        let (counts, rest) = execution.sets.merge(&set, page);
        outbox.emit(Event::Set { transaction: id, answer: SetAnswer::Elements { set, counts, rest } });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(word: &str) -> Key {
        Key::from(word)
    }

    fn page(from: End, limit: u32, counts: &[(&str, i64)], is_cut: bool) -> Page {
        let count =
            |(element, count): &(&str, i64)| Count { set: key("s"), element: key(element), count: *count };
        let range = KeyRange { from: key("a"), to: Some(key("m")) };
        Page { range, from, limit, counts: counts.iter().map(count).collect(), is_cut }
    }

    fn told(merged: (Vec<(Key, i64)>, Option<KeyRange>)) -> String {
        let (counts, rest) = merged;
        let count = |(element, count): &(Key, i64)| format!("{}{count:+}", String::from_utf8_lossy(element));
        let counts: Vec<String> = counts.iter().map(count).collect();
        format!("{} {rest:?}", counts.join(" "))
    }

    fn changes(all: &[(&str, i32)]) -> OwnChanges {
        let mut changes = OwnChanges::default();
        for (element, by) in all {
            changes.add(key("s"), key(element), *by).unwrap();
        }
        changes
    }

    #[test]
    fn own_changes_are_seen_as_far_as_a_page_goes() {
        let own = changes(&[("b", 1), ("d", -1), ("k", 1), ("z", 1)]);
        let whole = page(End::Least, 9, &[("a", 1), ("d", 1)], false);
        assert_eq!(told(own.merge(&key("s"), whole)), "a+1 b+1 k+1 None");
        let cut = page(End::Least, 2, &[("a", 1), ("d", 1)], true);
        assert_eq!(told(own.merge(&key("s"), cut)), r#"a+1 b+1 Some(["d\x00", "m"))"#);
        let back = page(End::Greatest, 2, &[("d", 1), ("c", 2)], true);
        assert_eq!(told(own.merge(&key("s"), back)), r#"k+1 c+2 Some(["a", "c"))"#);
        let full = page(End::Least, 1, &[("a", 1)], false);
        assert_eq!(told(own.merge(&key("s"), full)), r#"a+1 Some(["a\x00", "m"))"#);
        assert_eq!(told(own.merge(&key("t"), page(End::Least, 9, &[("a", 1)], false))), "a+1 None");
    }

    #[test]
    fn what_is_added_and_removed_again_is_no_update() {
        let own = changes(&[("x", 1), ("y", 1), ("x", -1)]);
        let element = key("y");
        assert_eq!(own.into_updates().collect::<Vec<_>>(), [Update::Add { set: key("s"), element, by: 1 }]);
    }

    #[test]
    fn counts_of_a_transaction_are_limited() {
        let mut own = changes(&[("x", i32::MAX - 1), ("x", 1)]);
        assert_eq!(
            own.add(key("s"), key("y"), -1),
            Err(LimitExceeded::Added { added: i64::from(i32::MAX) + 1 })
        );
        assert_eq!(own.of(&key("s"), &key("x")), i64::from(i32::MAX));
    }
}
