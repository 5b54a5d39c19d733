//! Who the replicas of a group are, and which views are theirs.

use quorate_core::{Epoch, GroupSize, ReplicaIndex, View};

/// The views of an epoch begin at its number times this, so that they are greater than those of all earlier epochs.
const VIEWS: u64 = 1 << 32;

/// A group that has fewer than it says, or an even number, or too many.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group needs an odd number of different replicas, {max} at most, not {0:?}", max = GroupSize::MAX)]
pub struct InvalidMembership(pub Vec<ReplicaIndex>);

/// The replicas of a group in one epoch.
///
/// An index names one replica, with its disk, for as long as the group exists: who replaces another goes by a new index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    epoch: Epoch,
    /// Ascending.
    members: Vec<ReplicaIndex>,
    group: GroupSize,
}

impl Membership {
    /// The replicas of an epoch, in any order.
    ///
    /// # Errors
    /// Their number must be odd, no greater than [`GroupSize::MAX`], and none may be named twice.
    pub fn new(epoch: Epoch, mut members: Vec<ReplicaIndex>) -> Result<Self, InvalidMembership> {
        members.sort_unstable();
        let are_different = members.windows(2).all(|two| two[0] != two[1]);
        match GroupSize::new(members.len()) {
            Ok(group) if are_different => Ok(Membership { epoch, members, group }),
            _ => Err(InvalidMembership(members)),
        }
    }

    /// The first epoch of a group whose replicas are counted from zero.
    pub fn first(group: GroupSize) -> Self {
        let members = (0..group.replicas()).map(|index| ReplicaIndex(index as u8)).collect();
        Membership { epoch: Epoch::FIRST, members, group }
    }

    /// The replicas of the next epoch; none if they cannot be a group.
    pub fn next(&self, members: &[ReplicaIndex]) -> Option<Self> {
        Membership::new(Epoch(self.epoch.0.checked_add(1)?), members.to_vec()).ok()
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Its replicas, ascending.
    pub fn members(&self) -> &[ReplicaIndex] {
        &self.members
    }

    /// How many they are.
    pub fn group(&self) -> GroupSize {
        self.group
    }

    /// True if a replica is one of them.
    pub fn contains(&self, replica: ReplicaIndex) -> bool {
        self.members.binary_search(&replica).is_ok()
    }

    /// The view with which the epoch begins.
    pub fn first_view(&self) -> View {
        View(u64::from(self.epoch.0) * VIEWS)
    }

    /// True if a view is one of an epoch. No group comes to half of the views that an epoch has.
    pub fn is_of(epoch: Epoch, view: View) -> bool {
        view.0 / VIEWS == u64::from(epoch.0) && view.0 % VIEWS < VIEWS / 2
    }

    /// Which replica leads a view: each in turn.
    pub fn leader(&self, view: View) -> ReplicaIndex {
        self.members[(view.0 % VIEWS) as usize % self.members.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(members: &[u8]) -> Vec<ReplicaIndex> {
        members.iter().copied().map(ReplicaIndex).collect()
    }

    #[test]
    fn groups_that_cannot_be_are_refused() {
        let table: [(&[u8], bool); 7] = [
            (&[], false),
            (&[7], true),
            (&[1, 2], false),
            (&[2, 0, 200], true),
            (&[1, 2, 1], false),
            (&[0, 1, 2, 3, 4, 5, 6, 7, 8], true),
            (&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], false),
        ];
        for (members, is_valid) in table {
            assert_eq!(Membership::new(Epoch(1), indices(members)).is_ok(), is_valid, "{members:?}");
        }
    }

    #[test]
    fn each_member_leads_in_turn_in_views_of_its_epoch() {
        let membership = Membership::new(Epoch(3), indices(&[9, 2, 4])).unwrap();
        let first = membership.first_view();
        let leaders: Vec<u8> = (0..4).map(|view| membership.leader(View(first.0 + view)).0).collect();
        assert_eq!(leaders, [2, 4, 9, 2]);
        let is_of = |view| Membership::is_of(Epoch(3), View(view));
        assert!(is_of(first.0) && is_of(first.0 + 1_000_000));
        assert!(!is_of(first.0 - 1) && !is_of(first.0 + VIEWS));
        assert!(!is_of(first.0 + VIEWS - 1), "one more would be of the next epoch");
    }
}
