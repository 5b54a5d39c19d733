//! Counting sets: each element has a count, which may be negative (Walter, sections 2 and 3.3).
//!
//! To add is to count up, to remove is to count down. Both commute, so no two updates conflict, and a set that has received the same
//! transactions has the same counts, in whatever order they came.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use quorate_core::Key;
use quorate_core::command::End;

use crate::vector::{LocalSite, Vector, VersionNumber};

/// A counting set: the counts of everything below the floor, and of each later transaction by how much it has changed them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountingSet {
    /// No count is zero.
    base: BTreeMap<Key, i64>,
    /// In the order in which they took effect here, which differs between sites.
    changes: Vec<(VersionNumber, BTreeMap<Key, i32>)>,
}

impl CountingSet {
    /// Adds to the count of an element; the changes of one transaction belong together.
    ///
    /// A transaction changes a count by no more than an `i32` holds, so no count that fewer than 2^32 transactions have changed overflows.
    pub(crate) fn add(&mut self, version: VersionNumber, element: Key, by: i32) {
        if self.changes.last().is_none_or(|(last, _)| *last != version) {
            self.changes.push((version, BTreeMap::new()));
        }
        let Some((_, changes)) = self.changes.last_mut() else {
            unreachable!("it was pushed if it was missing")
        };
        let changed = changes.entry(element).or_default();
        *changed = changed.checked_add(by).expect("a transaction has fewer updates than that");
    }

    /// Begins an element at this count, which the floor reads.
    pub(crate) fn set_base(&mut self, element: Key, count: i64) {
        self.base.insert(element, count);
    }

    /// How many counts and changes there are, and how many bytes their elements have.
    pub(crate) fn size(&self) -> (usize, u64) {
        let changed = self.changes.iter().flat_map(|(_, changes)| changes.keys());
        let elements = || self.base.keys().chain(changed.clone());
        (elements().count(), elements().map(|element| 8 + element.len() as u64).sum())
    }

    /// The count of an element in a snapshot.
    pub(crate) fn count(&self, element: &Key, snapshot: &Vector) -> i64 {
        let changed = |changes: &BTreeMap<Key, i32>| changes.get(element).map_or(0, |by| i64::from(*by));
        let later: i64 = self.visible(snapshot).map(changed).sum();
        self.base.get(element).copied().unwrap_or(0) + later
    }

    /// The elements between two bounds whose count in a snapshot is not zero, in order from one end, with their counts.
    ///
    /// # Panics
    /// As [`BTreeMap::range`], if the bounds are turned around.
    pub(crate) fn elements<'a>(
        &'a self,
        between: (Bound<&Key>, Bound<&Key>),
        from: End,
        snapshot: &Vector,
    ) -> Box<dyn Iterator<Item = (Key, i64)> + 'a> {
        let mut later: BTreeMap<Key, i64> = BTreeMap::new();
        for (element, by) in self.visible(snapshot).flat_map(|changes| changes.range::<Key, _>(between)) {
            *later.entry(element.clone()).or_default() += i64::from(*by);
        }
        let base = self.base.range::<Key, _>(between).map(|(element, count)| (element.clone(), *count));
        let merged: Box<dyn Iterator<Item = (Key, i64)> + 'a> = match from {
            End::Least => Box::new(merge(base.peekable(), later.into_iter().peekable(), |ordering| ordering)),
            End::Greatest => {
                Box::new(merge(base.rev().peekable(), later.into_iter().rev().peekable(), Ordering::reverse))
            }
        };
        Box::new(merged.filter(|(_, count)| *count != 0))
    }

    /// Adds the changes that the floor includes to the base. Gives how many transactions that were.
    pub(crate) fn fold(&mut self, floor: &Vector) -> usize {
        let before = self.changes.len();
        for (_, changes) in self.changes.extract_if(.., |(version, _)| floor.includes(*version)) {
            for (element, by) in changes {
                let count = self.base.entry(element).or_default();
                *count += i64::from(by);
            }
        }
        if self.changes.len() < before {
            self.base.retain(|_, count| *count != 0);
        }
        before - self.changes.len()
    }

    /// Drops the counts, the changes that the floor includes, and those of other sites: the site gives its copy up, or never had one. Other
    /// sites may lack what is left.
    pub(crate) fn give_up(&mut self, floor: &Vector, own: LocalSite) {
        self.base.clear();
        self.changes.retain(|(version, _)| version.site == own && !floor.includes(*version));
    }

    /// The changes of the transactions of a site that a snapshot includes, between two bounds.
    ///
    /// # Panics
    /// As [`BTreeMap::range`], if the bounds are turned around.
    pub(crate) fn changes_of(
        &self,
        site: LocalSite,
        between: (Bound<&Key>, Bound<&Key>),
        snapshot: &Vector,
    ) -> impl Iterator<Item = (VersionNumber, &Key, i32)> {
        let is_meant =
            move |(version, _): &&(VersionNumber, _)| version.site == site && snapshot.includes(*version);
        let changes = self.changes.iter().filter(is_meant);
        changes.flat_map(move |(version, changes)| {
            changes.range::<Key, _>(between).map(move |(element, by)| (*version, element, *by))
        })
    }

    /// Drops the changes of transactions that were abandoned. Gives how many there were.
    pub(crate) fn discard(&mut self, is_abandoned: impl Fn(VersionNumber) -> bool) -> usize {
        let before = self.changes.len();
        self.changes.retain(|(version, _)| !is_abandoned(*version));
        before - self.changes.len()
    }

    /// True if nothing is known of it, as of one that was never changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.base.is_empty() && self.changes.is_empty()
    }

    /// True if a higher floor makes something superfluous.
    pub(crate) fn is_foldable(&self) -> bool {
        !self.changes.is_empty()
    }

    fn visible(&self, snapshot: &Vector) -> impl Iterator<Item = &BTreeMap<Key, i32>> {
        let visible = move |(version, _): &&(VersionNumber, _)| snapshot.includes(*version);
        self.changes.iter().filter(visible).map(|(_, changes)| changes)
    }
}

/// Merges two sequences that are sorted the same way, and adds the counts of elements that are in both.
fn merge(
    mut one: Peekable<impl Iterator<Item = (Key, i64)>>,
    mut other: Peekable<impl Iterator<Item = (Key, i64)>>,
    order: fn(Ordering) -> Ordering,
) -> impl Iterator<Item = (Key, i64)> {
    std::iter::from_fn(move || {
        let ordering = match (one.peek(), other.peek()) {
            (Some((ours, _)), Some((theirs, _))) => order(ours.cmp(theirs)),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match ordering {
            Ordering::Less => one.next(),
            Ordering::Greater => other.next(),
            Ordering::Equal => {
                let ((element, ours), (_, theirs)) = (one.next()?, other.next()?);
                Some((element, ours + theirs))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: (Bound<&Key>, Bound<&Key>) = (Bound::Unbounded, Bound::Unbounded);

    fn version(site: u16, seqno: u64) -> VersionNumber {
        VersionNumber { site: LocalSite(site), seqno }
    }

    fn set(changes: &[(u16, u64, &str, i32)]) -> CountingSet {
        let mut set = CountingSet::default();
        for (site, seqno, element, by) in changes {
            set.add(version(*site, *seqno), Key::from(*element), *by);
        }
        set
    }

    fn told(set: &CountingSet, from: End, snapshot: &[u64]) -> String {
        let elements = set.elements(ALL, from, &Vector::new(snapshot.to_vec()));
        let told = elements.map(|(element, count)| format!("{}{count:+}", String::from_utf8_lossy(&element)));
        told.collect::<Vec<_>>().join(" ")
    }

    /// The example of section 2: x is added and removed, y is added, in whatever order.
    #[test]
    fn updates_commute() {
        let mut updates = vec![(0, 1, "x", 1), (1, 1, "y", 1), (2, 1, "x", -1)];
        for _ in 0..3 {
            updates.rotate_left(1);
            assert_eq!(told(&set(&updates), End::Least, &[1, 1, 1]), "y+1");
        }
    }

    /// An element that is removed from an empty set is an anti-element: to add it then leaves the set empty.
    #[test]
    fn counts_may_be_negative() {
        let mut counts = set(&[(0, 1, "x", -1)]);
        assert_eq!(counts.count(&Key::from("x"), &Vector::new(vec![1])), -1);
        counts.add(version(1, 1), Key::from("x"), 1);
        assert_eq!(told(&counts, End::Least, &[1, 1]), "");
    }

    #[test]
    fn a_snapshot_counts_the_transactions_that_it_includes() {
        let counts = set(&[(0, 1, "a", 1), (0, 1, "b", 2), (1, 1, "a", 1), (0, 2, "c", 5)]);
        assert_eq!(told(&counts, End::Least, &[1]), "a+1 b+2");
        assert_eq!(told(&counts, End::Least, &[0, 1]), "a+1");
        assert_eq!(told(&counts, End::Greatest, &[2, 1]), "c+5 b+2 a+2");
    }

    #[test]
    fn folding_changes_no_count_of_a_snapshot_above_the_floor() {
        let mut counts = set(&[(0, 1, "a", 1), (1, 1, "a", 1), (0, 2, "b", 1), (1, 2, "a", -2)]);
        let before = told(&counts, End::Least, &[2, 1]);
        assert_eq!(counts.fold(&Vector::new(vec![1, 1])), 2);
        assert_eq!(told(&counts, End::Least, &[2, 1]), before);
        assert_eq!(told(&counts, End::Greatest, &[2, 2]), "b+1");
        assert_eq!(counts.fold(&Vector::new(vec![2, 2])), 2);
        assert!(!counts.is_foldable() && counts.base.len() == 1, "no zero is kept");
    }

    #[test]
    fn a_part_can_be_read_between_bounds() {
        let mut counts = set(&[(0, 1, "a", 1), (0, 1, "b", 1), (0, 1, "c", 1)]);
        counts.fold(&Vector::new(vec![1]));
        counts.add(version(0, 2), Key::from("d"), 1);
        counts.add(version(0, 2), Key::from("b"), -1);
        let (a, d) = (Key::from("a"), Key::from("d"));
        let between = (Bound::Excluded(&a), Bound::Included(&d));
        let elements = counts.elements(between, End::Greatest, &Vector::new(vec![2]));
        assert_eq!(elements.collect::<Vec<_>>(), [(Key::from("d"), 1), (Key::from("c"), 1)]);
    }

    #[test]
    fn of_a_set_that_was_given_up_the_own_changes_are_left_that_others_may_lack() {
        let mut counts = set(&[(0, 1, "a", 1), (1, 1, "a", 1), (0, 2, "b", 1)]);
        counts.fold(&Vector::new(vec![1]));
        counts.give_up(&Vector::new(vec![1]), LocalSite(0));
        let left =
            |snapshot: &[u64]| counts.changes_of(LocalSite(0), ALL, &Vector::new(snapshot.to_vec())).count();
        assert_eq!(
            (told(&counts, End::Least, &[2, 1]), left(&[2, 1]), left(&[1, 1])),
            ("b+1".to_owned(), 1, 0)
        );
        let mut all = counts.clone();
        all.give_up(&Vector::new(vec![2]), LocalSite(0));
        assert!(all.is_empty());
    }

    #[test]
    fn changes_of_abandoned_transactions_go() {
        let mut counts = set(&[(0, 1, "a", 1), (1, 4, "a", 1), (1, 5, "a", 1)]);
        assert_eq!(counts.discard(|version| version.seqno > 4), 1);
        assert_eq!(told(&counts, End::Least, &[9, 9]), "a+2");
    }
}
