//! Version numbers and vector timestamps (Walter, section 5.2).
//!
//! Each local site numbers the transactions that commit at it, from one, without gaps. So a vector, which has one number for each local
//! site, names a set of transactions: of every site the first so many. A snapshot is such a set, and so is all that a site has received.

use std::fmt;

use quorate_core::{ClientId, Timestamp};

/// The place of a local site among those of its keyspace. A site that was removed and comes back has a new place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalSite(pub u16);

impl fmt::Display for LocalSite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "s{}", self.0)
    }
}

/// The name of a committed transaction and of everything that it wrote: its local site, and its number there (the paper's *version*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionNumber {
    /// Where it committed first.
    pub site: LocalSite,
    /// Its number there, from one.
    pub seqno: u64,
}

impl VersionNumber {
    /// The same name as a timestamp, by which clients and judges tell versions apart. Timestamps of one site ascend; those of several say
    /// nothing about their order.
    pub fn timestamp(self) -> Timestamp {
        Timestamp { micros: self.seqno, client: ClientId(u64::from(self.site.0) + 1) }
    }

    /// The name that a timestamp stands for; none if it is that of a transaction which has written nothing.
    pub fn from_timestamp(timestamp: Timestamp) -> Option<Self> {
        let site = u16::try_from(timestamp.client.0.checked_sub(1)?).ok()?;
        Some(VersionNumber { site: LocalSite(site), seqno: timestamp.micros })
    }
}

impl fmt::Display for VersionNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.site, self.seqno)
    }
}

/// A vector timestamp: of each local site the first so many transactions.
///
/// Sites beyond its end have zero, so zeros at the end mean nothing: vectors are equal if the sets are.
#[derive(Clone, Debug, Default)]
pub struct Vector {
    /// As another participant has written them; those that are made here have no zeros at the end.
    pub(crate) numbers: Vec<u64>,
}

impl PartialEq for Vector {
    fn eq(&self, other: &Vector) -> bool {
        self.numbers() == other.numbers()
    }
}

impl Eq for Vector {}

impl Vector {
    /// The vector with these numbers, by local site.
    pub fn new(mut numbers: Vec<u64>) -> Self {
        numbers.truncate(length(&numbers));
        Vector { numbers }
    }

    /// How many transactions of a local site it includes.
    pub fn of(&self, site: LocalSite) -> u64 {
        self.numbers.get(usize::from(site.0)).copied().unwrap_or(0)
    }

    /// The numbers, by local site, without the zeros at the end.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers[..length(&self.numbers)]
    }

    /// True if the transaction is in the set: the paper's *visible*.
    pub fn includes(&self, version: VersionNumber) -> bool {
        version.seqno <= self.of(version.site)
    }

    /// True if every transaction of the other set is in this one, as after a wait *until Committed ≥ vts*.
    pub fn includes_all(&self, other: &Vector) -> bool {
        let theirs = other.numbers();
        self.numbers.len() >= theirs.len()
            && self.numbers.iter().zip(theirs).all(|(ours, theirs)| ours >= theirs)
    }

    /// Includes the transactions of a site up to this one.
    pub fn include(&mut self, version: VersionNumber) {
        let at = usize::from(version.site.0);
        if version.seqno > self.of(version.site) {
            if self.numbers.len() <= at {
                self.numbers.resize(at + 1, 0);
            }
            self.numbers[at] = version.seqno;
        }
    }

    /// Includes of a site no transaction above this one any more.
    pub fn exclude_above(&mut self, version: VersionNumber) {
        if let Some(number) = self.numbers.get_mut(usize::from(version.site.0)) {
            *number = version.seqno.min(*number);
            *self = Vector::new(std::mem::take(&mut self.numbers));
        }
    }

    /// Includes all of the other set.
    pub fn join(&mut self, other: &Vector) {
        let theirs = other.numbers();
        if self.numbers.len() < theirs.len() {
            self.numbers.resize(theirs.len(), 0);
        }
        for (ours, theirs) in self.numbers.iter_mut().zip(theirs) {
            *ours = (*ours).max(*theirs);
        }
    }

    /// Keeps only those that are in both sets.
    pub fn meet(&mut self, other: &Vector) {
        let both = self.numbers.iter().zip(&other.numbers).map(|(ours, theirs)| *ours.min(theirs));
        *self = Vector::new(both.collect());
    }
}

/// How many numbers there are without the zeros at the end.
fn length(numbers: &[u64]) -> usize {
    numbers.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1)
}

impl fmt::Display for Vector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers().iter().map(u64::to_string).collect();
        write!(formatter, "⟨{}⟩", numbers.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(site: u16, seqno: u64) -> VersionNumber {
        VersionNumber { site: LocalSite(site), seqno }
    }

    #[test]
    fn a_vector_includes_the_first_transactions_of_each_site() {
        let vector = Vector::new(vec![2, 0, 5]);
        for (site, seqno, expected) in
            [(0, 1, true), (0, 2, true), (0, 3, false), (1, 1, false), (2, 5, true), (3, 1, false)]
        {
            assert_eq!(vector.includes(version(site, seqno)), expected, "{site} {seqno}");
        }
        assert_eq!(vector.to_string(), "⟨2 0 5⟩");
        assert_eq!(Vector::new(vec![0, 0]), Vector::default());
        // Another participant may write zeros.
        let written = Vector { numbers: vec![2, 0, 5, 0] };
        assert!(written == vector && vector.includes_all(&written) && written.to_string() == "⟨2 0 5⟩");
    }

    #[test]
    fn timestamps_name_versions() {
        for name in [version(0, 1), version(3, 77)] {
            assert_eq!(VersionNumber::from_timestamp(name.timestamp()), Some(name));
        }
        assert_eq!(VersionNumber::from_timestamp(Timestamp { micros: 9, client: ClientId(0) }), None);
        assert_eq!(VersionNumber::from_timestamp(Timestamp { micros: 9, client: ClientId(u64::MAX) }), None);
    }

    #[test]
    fn vectors_of_different_lengths_compare_as_sets() {
        let (short, long) = (Vector::new(vec![3]), Vector::new(vec![3, 0, 1]));
        assert!(long.includes_all(&short) && !short.includes_all(&long));
        assert!(short.includes_all(&Vector::new(vec![2, 0])));
        assert!(!Vector::new(vec![9, 1]).includes_all(&Vector::new(vec![0, 2])));
    }

    #[test]
    fn what_is_excluded_is_the_end_of_one_site() {
        let mut vector = Vector::new(vec![3, 5]);
        vector.exclude_above(version(0, 2));
        vector.exclude_above(version(1, 9));
        assert_eq!(vector, Vector::new(vec![2, 5]));
        vector.exclude_above(version(1, 0));
        vector.exclude_above(version(7, 1));
        assert_eq!(vector, Vector::new(vec![2]));
    }

    #[test]
    fn including_never_takes_away() {
        let mut vector = Vector::default();
        vector.include(version(2, 4));
        vector.include(version(2, 3));
        vector.include(version(0, 1));
        assert_eq!(vector, Vector::new(vec![1, 0, 4]));
    }

    proptest! {
        #[test]
        fn a_join_is_the_least_that_includes_both_and_a_meet_the_most_that_both_include(
            one in prop::collection::vec(0u64..4, 0..4),
            other in prop::collection::vec(0u64..4, 0..4),
        ) {
            let (one, other) = (Vector::new(one), Vector::new(other));
            let (mut join, mut meet) = (one.clone(), one.clone());
            join.join(&other);
            meet.meet(&other);
            for site in 0..5 {
                for seqno in 1..5 {
                    let name = version(site, seqno);
                    prop_assert_eq!(join.includes(name), one.includes(name) || other.includes(name));
                    prop_assert_eq!(meet.includes(name), one.includes(name) && other.includes(name));
                }
            }
            prop_assert!(join.includes_all(&one) && join.includes_all(&other));
            prop_assert!(one.includes_all(&meet) && other.includes_all(&meet));
            prop_assert_eq!(one.includes_all(&other), join == one);
        }
    }
}
