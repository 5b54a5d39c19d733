//! Counting sets: each element has a count, which may be negative (Walter, sections 2 and 3.3).
//!
//! To add is to count up, to remove is to count down. Both commute, so no two updates conflict, and a set that has received the same
//! transactions has the same counts, in whatever order they came.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use quorate_core::Key;
use quorate_core::command::End;

use crate::vector::{LocalSite, Vector, VersionNumber};

/// A counting set: of each element its count below the floor, and by how much each later transaction has changed it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountingSet {
    /// Those that have a count below the floor or were changed later.
    elements: BTreeMap<Key, Counted>,
    /// The later changes in the order in which they took effect here, which differs between sites; those of one transaction ascend by element.
    changes: Vec<Change>,
    /// The bytes of the elements, in either.
    bytes: usize,
}

/// An element.
#[derive(Clone, Debug, Default)]
struct Counted {
    /// Its count below the floor.
    base: i64,
    later: Later,
}

/// By how much later transactions have changed a count. Most elements of most sets are added once; but a count that all clients change has a hundred
/// thousand changes until the floor rises, and is read for each.
#[derive(Clone, Debug, Default)]
enum Later {
    /// By nothing.
    #[default]
    Nothing,
    /// One has.
    One(VersionNumber, i32),
    /// Several have; each site once.
    Many(Vec<OfSite>),
}

/// By how much the later transactions of a site have changed a count.
#[derive(Clone, Debug)]
struct OfSite {
    site: LocalSite,
    /// The part of the sums that is of changes which were folded.
    folded: Sums,
    /// Ascending by number.
    changes: Vec<Running>,
}

/// A change, and the sums up to it.
#[derive(Clone, Copy, Debug)]
struct Running {
    seqno: u64,
    by: i32,
    sums: Sums,
}

/// The sums of the first changes of a list.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    all: i64,
    /// Of those that are less than zero.
    taken: i64,
}

impl Sums {
    fn with(self, by: i32) -> Sums {
        let by = i64::from(by);
        Sums { all: self.all + by, taken: self.taken + by.min(0) }
    }
}

impl OfSite {
    /// The sums of the first changes, up to a number, that are not folded.
    fn up_to(&self, seqno: u64) -> Sums {
        let visible = self.changes.partition_point(|change| change.seqno <= seqno);
        let sums = visible.checked_sub(1).map_or(self.folded, |last| self.changes[last].sums);
        Sums { all: sums.all - self.folded.all, taken: sums.taken - self.folded.taken }
    }

    fn add(&mut self, seqno: u64, by: i32) {
        assert!(
            self.changes.last().is_none_or(|last| last.seqno < seqno),
            "transactions of a site take effect in the order of their numbers: {seqno} after {:?}",
            self.changes.last()
        );
        let last = self.changes.last().map_or(self.folded, |last| last.sums);
        self.changes.push(Running { seqno, by, sums: last.with(by) });
    }
}

impl Later {
    fn add(&mut self, version: VersionNumber, by: i32) {
        match self {
            Later::Nothing => *self = Later::One(version, by),
            Later::One(first, first_by) => {
                let (first, first_by) = (*first, *first_by);
                *self = Later::Many(Vec::new());
                self.add(first, first_by);
                self.add(version, by);
            }
            Later::Many(sites) => match sites.iter_mut().find(|of| of.site == version.site) {
                Some(of) => of.add(version.seqno, by),
                None => {
                    let mut of = OfSite { site: version.site, folded: Sums::default(), changes: Vec::new() };
                    of.add(version.seqno, by);
                    sites.push(of);
                }
            },
        }
    }

    /// The last change of a site becomes another one: its transaction changes the count once more.
    fn change_last(&mut self, version: VersionNumber, by: i32) {
        match self {
            Later::One(known, changed) if *known == version => *changed = by,
            Later::Many(sites) => {
                let of = sites.iter_mut().find(|of| of.site == version.site);
                let of = of.filter(|of| of.changes.last().is_some_and(|last| last.seqno == version.seqno));
                let of = of.expect("the transaction has changed the count last");
                of.changes.pop();
                of.add(version.seqno, by);
            }
            Later::Nothing | Later::One(..) => unreachable!("the transaction has changed the count last"),
        }
    }

    /// The sums of what a snapshot includes, and of all.
    fn sums(&self, snapshot: &Vector) -> (Sums, Sums) {
        match self {
            Later::Nothing => (Sums::default(), Sums::default()),
            Later::One(version, by) => {
                let all = Sums::default().with(*by);
                (if snapshot.includes(*version) { all } else { Sums::default() }, all)
            }
            Later::Many(sites) => sites.iter().fold(Default::default(), |(visible, all), of| {
                let join = |one: Sums, other: Sums| Sums {
                    all: one.all + other.all,
                    taken: one.taken + other.taken,
                };
                (join(visible, of.up_to(snapshot.of(of.site))), join(all, of.up_to(u64::MAX)))
            }),
        }
    }

    /// Forgets what the floor includes. Gives the sum of it.
    fn fold(&mut self, floor: &Vector) -> i64 {
        let (below, _) = self.sums(floor);
        match self {
            Later::One(version, _) if floor.includes(*version) => *self = Later::Nothing,
            Later::Nothing | Later::One(..) => {}
            Later::Many(sites) => {
                for of in sites.iter_mut() {
                    let below = of.changes.partition_point(|change| change.seqno <= floor.of(of.site));
                    if let Some(last) = of.changes.drain(..below).next_back() {
                        of.folded = last.sums;
                    }
                }
                sites.retain(|of| !of.changes.is_empty());
                if sites.is_empty() {
                    *self = Later::Nothing;
                }
            }
        }
        below.all
    }

    /// Drops changes.
    fn discard(&mut self, is_abandoned: impl Fn(VersionNumber) -> bool) {
        match self {
            Later::One(version, _) if is_abandoned(*version) => *self = Later::Nothing,
            Later::Nothing | Later::One(..) => {}
            Later::Many(sites) => {
                for of in std::mem::take(sites) {
                    let version = |seqno| VersionNumber { site: of.site, seqno };
                    let mut kept = OfSite { site: of.site, folded: Sums::default(), changes: Vec::new() };
                    let left = of.changes.iter().filter(|change| !is_abandoned(version(change.seqno)));
                    left.for_each(|change| kept.add(change.seqno, change.by));
                    if !kept.changes.is_empty() {
                        sites.push(kept);
                    }
                }
                if sites.is_empty() {
                    *self = Later::Nothing;
                }
            }
        }
    }
}

/// By how much a transaction has changed the count of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    version: VersionNumber,
    element: Key,
    by: i32,
}

impl Counted {
    fn count(&self, snapshot: &Vector) -> i64 {
        self.base + self.later.sums(snapshot).0.all
    }

    /// The count in a snapshot, less what later transactions have taken from it.
    fn untaken(&self, snapshot: &Vector) -> i64 {
        let (visible, all) = self.later.sums(snapshot);
        self.base + visible.all + (all.taken - visible.taken)
    }

    fn is_empty(&self) -> bool {
        self.base == 0 && matches!(self.later, Later::Nothing)
    }
}

impl CountingSet {
    /// Adds to the count of an element; the changes of one transaction belong together.
    ///
    /// A transaction changes a count by no more than an `i32` holds, so no count that fewer than 2^32 transactions have changed overflows.
    pub(crate) fn add(&mut self, version: VersionNumber, element: Key, by: i32) {
        self.bytes += if self.elements.contains_key(&element) { 0 } else { element.len() };
        let later = &mut self.elements.entry(element.clone()).or_default().later;
        // Most transactions change an element once, and few change many of a set: from the back it is found at once.
        let theirs = self.changes.iter().rev().take_while(|change| change.version == version);
        let greater = theirs.take_while(|change| change.element > element).count();
        let at = self.changes.len() - greater;
        let known = self.changes[..at].last_mut().filter(|change| change.version == version);
        match known.filter(|change| change.element == element) {
            Some(known) => {
                known.by = known.by.checked_add(by).expect("a transaction has fewer updates than that");
                later.change_last(version, known.by);
            }
            None => {
                later.add(version, by);
                self.bytes += element.len();
                self.changes.insert(at, Change { version, element, by });
            }
        }
    }

    /// Begins an element at this count, which the floor reads.
    pub(crate) fn set_base(&mut self, element: Key, count: i64) {
        self.bytes += if self.elements.contains_key(&element) { 0 } else { element.len() };
        self.elements.entry(element).or_default().base = count;
    }

    /// The bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        const ELEMENT: usize = size_of::<(Key, Counted)>() * 3 / 2;
        // It is known in its element, too.
        const CHANGE: usize = (size_of::<Change>() + size_of::<Running>()) * 3 / 2;
        self.elements.len() * ELEMENT + self.changes.len() * CHANGE + self.bytes
    }

    /// The bytes of the elements, counted anew.
    #[cfg(test)]
    pub(crate) fn counted_bytes(&self) -> (usize, usize) {
        let elements = self.elements.keys().chain(self.changes.iter().map(|change| &change.element));
        (self.bytes, elements.map(|element| element.len()).sum())
    }

    /// How many counts and changes there are, and how many bytes their elements have.
    pub(crate) fn size(&self) -> (usize, u64) {
        let counted =
            self.elements.iter().filter(|(_, counted)| counted.base != 0).map(|(element, _)| element);
        let elements = || counted.clone().chain(self.changes.iter().map(|change| &change.element));
        (elements().count(), elements().map(|element| 8 + element.len() as u64).sum())
    }

    /// The count of an element in a snapshot.
    pub(crate) fn count(&self, element: &Key, snapshot: &Vector) -> i64 {
        self.elements.get(element).map_or(0, |counted| counted.count(snapshot))
    }

    /// The count of an element in a snapshot, less what later transactions have taken from it.
    pub(crate) fn untaken(&self, element: &Key, snapshot: &Vector) -> i64 {
        self.elements.get(element).map_or(0, |counted| counted.untaken(snapshot))
    }

    /// The sum of all counts in a snapshot.
    pub(crate) fn sum(&self, snapshot: &Vector) -> i64 {
        self.elements.values().map(|counted| counted.count(snapshot)).sum()
    }

    /// The elements between two bounds whose count in a snapshot is not zero, in order from one end, with their counts.
    ///
    /// # Panics
    /// As [`BTreeMap::range`], if the bounds are turned around.
    pub(crate) fn elements<'a>(
        &'a self,
        between: (Bound<&Key>, Bound<&Key>),
        from: End,
        snapshot: &'a Vector,
    ) -> impl Iterator<Item = (&'a Key, i64)> {
        let mut elements = self.elements.range::<Key, _>(between);
        let next = move || match from {
            End::Least => elements.next(),
            End::Greatest => elements.next_back(),
        };
        let counts = std::iter::from_fn(next).map(|(element, counted)| (element, counted.count(snapshot)));
        counts.filter(|(_, count)| *count != 0)
    }

    /// Adds the changes that the floor includes to the counts below it. Gives how many these were.
    pub(crate) fn fold(&mut self, floor: &Vector) -> usize {
        let below = self.changes.extract_if(.., |change| floor.includes(change.version));
        let mut changed: Vec<Key> = below.map(|change| change.element).collect();
        let folded = changed.len();
        self.bytes -= changed.iter().map(|element| element.len()).sum::<usize>();
        changed.sort_unstable();
        changed.dedup();
        for element in changed {
            let counted = self.elements.get_mut(&element).expect("an element that was changed is known");
            counted.base += counted.later.fold(floor);
            if counted.is_empty() {
                self.elements.remove(&element);
                self.bytes -= element.len();
            }
        }
        folded
    }

    /// Drops the counts, the changes that the floor includes, and those of other sites: the site gives its copy up, or never had one. Other
    /// sites may lack what is left.
    pub(crate) fn give_up(&mut self, floor: &Vector, own: LocalSite) {
        for counted in self.elements.values_mut() {
            counted.base = 0;
        }
        self.discard(|version| version.site != own || floor.includes(version));
    }

    /// The changes of the transactions of a site that a snapshot includes, between two bounds.
    ///
    /// # Panics
    /// As [`BTreeMap::range`], if the bounds are turned around.
    pub(crate) fn changes_of<'a>(
        &'a self,
        site: LocalSite,
        between: (Bound<&'a Key>, Bound<&'a Key>),
        snapshot: &'a Vector,
    ) -> impl Iterator<Item = (VersionNumber, &'a Key, i32)> {
        let is_meant = move |change: &&Change| {
            change.version.site == site
                && snapshot.includes(change.version)
                && RangeBounds::<Key>::contains(&between, &change.element)
        };
        self.changes.iter().filter(is_meant).map(|change| (change.version, &change.element, change.by))
    }

    /// Drops the changes of transactions that were abandoned. Gives how many these were.
    pub(crate) fn discard(&mut self, is_abandoned: impl Fn(VersionNumber) -> bool) -> usize {
        let CountingSet { elements, changes, bytes } = self;
        let before = changes.len();
        let keeps = |element: &Key, is_kept: bool, bytes: &mut usize| {
            *bytes -= if is_kept { 0 } else { element.len() };
            is_kept
        };
        changes.retain(|change| keeps(&change.element, !is_abandoned(change.version), bytes));
        elements.retain(|element, counted| {
            counted.later.discard(&is_abandoned);
            keeps(element, !counted.is_empty(), bytes)
        });
        before - changes.len()
    }

    /// True if nothing is known of it, as of one that was never changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// True if a higher floor makes something superfluous.
    pub(crate) fn is_foldable(&self) -> bool {
        !self.changes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::Random;

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
        let snapshot = Vector::new(snapshot.to_vec());
        let elements = set.elements(ALL, from, &snapshot);
        let told = elements.map(|(element, count)| format!("{}{count:+}", String::from_utf8_lossy(element)));
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

    /// Elements that have come since do not help, and those that were taken since are gone.
    #[test]
    fn nothing_is_left_in_a_snapshot_of_what_was_taken_since() {
        let mut counts = set(&[(0, 1, "s0", 5), (0, 2, "s0", -2), (1, 1, "s0", 4), (0, 3, "s1", 7)]);
        let share = Key::from("s0");
        for (snapshot, untaken, sum) in
            [(&[][..], -2, 0), (&[1], 3, 5), (&[2], 3, 3), (&[1, 1], 7, 9), (&[3, 1], 7, 14)]
        {
            let snapshot = Vector::new(snapshot.to_vec());
            assert_eq!(
                (counts.untaken(&share, &snapshot), counts.sum(&snapshot)),
                (untaken, sum),
                "{snapshot}"
            );
        }
        counts.fold(&Vector::new(vec![2]));
        assert_eq!(counts.untaken(&share, &Vector::new(vec![2])), 3);
        assert_eq!(counts.untaken(&Key::from("s9"), &Vector::new(vec![2])), 0);
    }

    /// Beside a list of all changes, of which each question looks at each.
    #[test]
    fn sums_are_those_of_a_list_of_changes() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let (mut set, mut changes, mut base) = (CountingSet::default(), Vec::new(), 0);
            let (element, mut last, mut floor) = (Key::from("x"), [0u64; 3], vec![0u64; 3]);
            for _ in 0..random.between(1, 60) {
                match random.below(12) {
                    0 => {
                        floor =
                            floor.iter().zip(last).map(|(low, high)| random.between(*low, high)).collect();
                        let floor = Vector::new(floor.clone());
                        let below = changes.extract_if(.., |(version, _)| floor.includes(*version));
                        base += below.map(|(_, by): (_, i32)| i64::from(by)).sum::<i64>();
                        set.fold(&floor);
                    }
                    1 => {
                        let site = random.index(3);
                        last[site] = random.between(floor[site], last[site]);
                        let end = version(site as u16, last[site]);
                        let is_abandoned = |of: VersionNumber| of.site == end.site && of.seqno > end.seqno;
                        changes.retain(|(version, _)| !is_abandoned(*version));
                        set.discard(is_abandoned);
                    }
                    _ => {
                        let (site, by) = (random.index(3), random.between(0, 6) as i32 - 3);
                        last[site] += random.between(1, 2);
                        let version = version(site as u16, last[site]);
                        set.add(version, element.clone(), by);
                        changes.push((version, by));
                        if random.chance(0.1) {
                            set.add(version, element.clone(), 1);
                            changes.last_mut().expect("one was added").1 += 1;
                        }
                    }
                }
                let snapshot =
                    floor.iter().zip(last).map(|(low, high)| random.between(*low, high + 1)).collect();
                let snapshot = Vector::new(snapshot);
                let counted = |counts: &dyn Fn(&(VersionNumber, i32)) -> bool| -> i64 {
                    changes.iter().filter(|change| counts(change)).map(|(_, by)| i64::from(*by)).sum()
                };
                let count = base + counted(&|(version, _)| snapshot.includes(*version));
                let taken = counted(&|(version, by)| *by < 0 && !snapshot.includes(*version));
                assert_eq!(set.count(&element, &snapshot), count, "{changes:?} in {snapshot}");
                assert_eq!(set.untaken(&element, &snapshot), count + taken, "{changes:?} in {snapshot}");
            }
        }
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
        assert!(!counts.is_foldable() && counts.elements.len() == 1, "no zero is kept");
    }

    #[test]
    fn a_part_can_be_read_between_bounds() {
        let mut counts = set(&[(0, 1, "a", 1), (0, 1, "b", 1), (0, 1, "c", 1)]);
        counts.fold(&Vector::new(vec![1]));
        counts.add(version(0, 2), Key::from("d"), 1);
        counts.add(version(0, 2), Key::from("b"), -1);
        let (a, d) = (Key::from("a"), Key::from("d"));
        let between = (Bound::Excluded(&a), Bound::Included(&d));
        let snapshot = Vector::new(vec![2]);
        let elements = counts.elements(between, End::Greatest, &snapshot);
        assert_eq!(elements.collect::<Vec<_>>(), [(&Key::from("d"), 1), (&Key::from("c"), 1)]);
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
    fn the_changes_of_a_transaction_are_one_of_each_element_in_their_order() {
        let counts = set(&[(0, 1, "b", 1), (0, 2, "c", 1), (0, 2, "a", 1), (0, 2, "c", -3), (0, 2, "b", 1)]);
        let snapshot = Vector::new(vec![2]);
        let changes = counts.changes_of(LocalSite(0), ALL, &snapshot);
        let changes = changes.map(|(version, element, by)| (version.seqno, element.clone(), by));
        let expected = [(1, "b", 1), (2, "a", 1), (2, "b", 1), (2, "c", -2)];
        let expected = expected.map(|(seqno, element, by)| (seqno, Key::from(element), by));
        assert_eq!(changes.collect::<Vec<_>>(), expected);
        assert_eq!(told(&counts, End::Greatest, &[2]), "c-2 b+2 a+1");
    }

    #[test]
    fn changes_of_abandoned_transactions_go() {
        let mut counts = set(&[(0, 1, "a", 1), (1, 4, "a", 1), (1, 5, "a", 1)]);
        assert_eq!(counts.discard(|version| version.seqno > 4), 1);
        assert_eq!(told(&counts, End::Least, &[9, 9]), "a+2");
    }
}
