//! How many replies are enough. Pure functions of the size of a replication group.
//!
//! A group has n = 2f + 1 replicas and survives f simultaneous failures (TAPIR paper, section 3.2). On a replicated log it may have
//! 2f + 2 as well (ADR 0050).

use std::fmt;

/// The size of a replication group: at least one, at most [`GroupSize::MAX`], and odd unless it stands on a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSize(u8);

/// A group size that is zero or too great, or even where it must be odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGroupSize {
    /// No number for a group that must be odd.
    #[error("a replication group needs an odd number of replicas between 1 and {max}, not {0}", max = GroupSize::MAX)]
    NotOdd(usize),
    /// No number for a group on a log.
    #[error("a replication group on a log needs a number of replicas between 1 and {max}, not {0}", max = GroupSize::MAX)]
    OutOfBounds(usize),
}

impl GroupSize {
    /// The greatest number of replicas in a group.
    pub const MAX: usize = 9;

    /// A group of one.
    pub const ONE: GroupSize = GroupSize(1);

    /// A group of `replicas` replicas.
    ///
    /// # Errors
    /// The number must be odd, so that it is 2f + 1 for some f, and no greater than [`GroupSize::MAX`].
    pub const fn new(replicas: usize) -> Result<Self, InvalidGroupSize> {
        if replicas % 2 == 1 && replicas <= Self::MAX {
            Ok(GroupSize(replicas as u8))
        } else {
            Err(InvalidGroupSize::NotOdd(replicas))
        }
    }

    /// The number of replicas, n.
    pub const fn replicas(self) -> usize {
        self.0 as usize
    }

    /// A group of `replicas` replicas on a replicated log, of which an even number is as good: it needs no fast quorums.
    ///
    /// # Errors
    /// The number must be neither zero nor greater than [`GroupSize::MAX`].
    pub const fn on_log(replicas: usize) -> Result<Self, InvalidGroupSize> {
        if replicas > 0 && replicas <= Self::MAX {
            Ok(GroupSize(replicas as u8))
        } else {
            Err(InvalidGroupSize::OutOfBounds(replicas))
        }
    }

    /// The number of simultaneous failures that the group survives, f: the greatest number below a half.
    pub const fn failures(self) -> usize {
        (self.0 as usize - 1) / 2
    }

    /// The majority n - f, which is f + 1 of an odd number: any two such sets share a replica.
    pub const fn majority(self) -> usize {
        self.replicas() - self.failures()
    }

    /// n - f - 1: so many others make a majority with one replica.
    pub const fn others(self) -> usize {
        self.majority() - 1
    }

    /// The fast quorum ⌈3f/2⌉ + 1: it shares at least ⌈f/2⌉ + 1 replicas with every majority, which is itself a majority
    /// of that majority (TAPIR paper, section 3.3, property P2).
    pub const fn fast_quorum(self) -> usize {
        (3 * self.failures()).div_ceil(2) + 1
    }

    /// ⌈f/2⌉ + 1: how many of f + 1 records must agree for a result to have possibly reached a fast quorum.
    pub const fn fast_witnesses(self) -> usize {
        self.failures().div_ceil(2) + 1
    }

    /// The snapshot quorum ⌊3f/2⌋ + 1: so many replicas promise to let nothing in below a timestamp. A result that only
    /// the others may have given is at fewer than ⌈f/2⌉ + 1 replicas, so no view change takes it for decided.
    pub const fn snapshot_quorum(self) -> usize {
        3 * self.failures() / 2 + 1
    }
}

impl fmt::Display for GroupSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_as_a_table() {
        //  n, f, majority, fast quorum, fast witnesses, snapshot quorum
        let table = [
            (1, 0, 1, 1, 1, 1),
            (3, 1, 2, 3, 2, 2),
            (5, 2, 3, 4, 2, 4),
            (7, 3, 4, 6, 3, 5),
            (9, 4, 5, 7, 3, 7),
        ];
        for (n, f, majority, fast, witnesses, snapshot) in table {
            let group = GroupSize::new(n).unwrap();
            assert_eq!(group.failures(), f, "f of {n}");
            assert_eq!(group.majority(), majority, "majority of {n}");
            assert_eq!(group.fast_quorum(), fast, "fast quorum of {n}");
            assert_eq!(group.fast_witnesses(), witnesses, "fast witnesses of {n}");
            assert_eq!(group.snapshot_quorum(), snapshot, "snapshot quorum of {n}");
        }
    }

    #[test]
    fn quorums_intersect_as_the_proofs_need() {
        for n in (1..=GroupSize::MAX).step_by(2) {
            let group = GroupSize::new(n).unwrap();
            assert!(2 * group.majority() > n, "two majorities share a replica");
            assert!(group.fast_quorum() + group.majority() - n >= group.fast_witnesses());
            assert!(
                2 * group.fast_witnesses() > group.majority(),
                "two fast results cannot both have witnesses"
            );
            assert!(group.fast_quorum() <= n);
            assert!(
                n - group.snapshot_quorum() < group.fast_witnesses(),
                "what a snapshot missed is not decided"
            );
            assert!(group.snapshot_quorum() >= group.majority());
        }
    }

    #[test]
    fn even_empty_and_huge_groups_are_refused() {
        for n in [0, 2, 4, 10, 11, 1_000] {
            assert_eq!(GroupSize::new(n), Err(InvalidGroupSize::NotOdd(n)));
        }
    }

    #[test]
    fn of_any_number_on_a_log_two_majorities_share_a_replica() {
        //  n, f, majority, others
        let table = [(1, 0, 1, 0), (2, 0, 2, 1), (3, 1, 2, 1), (4, 1, 3, 2), (5, 2, 3, 2), (6, 2, 4, 3)];
        for (n, f, majority, others) in table {
            let group = GroupSize::on_log(n).unwrap();
            assert_eq!((group.failures(), group.majority(), group.others()), (f, majority, others), "of {n}");
        }
        for n in 1..=GroupSize::MAX {
            let group = GroupSize::on_log(n).unwrap();
            assert!(2 * group.majority() > n && group.majority() + group.failures() == n);
        }
        for n in [0, 10, 256, 257] {
            assert_eq!(GroupSize::on_log(n), Err(InvalidGroupSize::OutOfBounds(n)));
        }
    }
}
