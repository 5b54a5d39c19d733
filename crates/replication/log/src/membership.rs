//! The replicas of a group, and the views that each of them leads.

use quorate_core::members::InvalidMembers;
use quorate_core::{Epoch, GroupSize, Members, ReplicaIndex, View};

/// The replicas of a group in one epoch.
///
/// An index names one replica, with its disk, for as long as the group exists: a replica that replaces another goes by a new index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    epoch: Epoch,
    members: Members,
}

impl Membership {
    /// The replicas of an epoch, in any order.
    ///
    /// # Errors
    /// Their number must be neither zero nor greater than [`GroupSize::MAX`], and none may be named twice.
    pub fn new(epoch: Epoch, members: Vec<ReplicaIndex>) -> Result<Self, InvalidMembers> {
        Ok(Membership { epoch, members: Members::on_log(members)? })
    }

    /// The first epoch of a group whose replicas are counted from zero.
    pub fn first(group: GroupSize) -> Self {
        Membership { epoch: Epoch::FIRST, members: group.into() }
    }

    /// True if a group can go on from this one with another. Epochs in which it does not change are passed over.
    pub fn precedes(&self, next: &Membership) -> bool {
        self.epoch < next.epoch
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Its replicas, ascending.
    pub fn members(&self) -> &[ReplicaIndex] {
        self.members.as_slice()
    }

    /// How many they are.
    pub fn group(&self) -> GroupSize {
        self.members.size()
    }

    /// True if a replica is one of them.
    pub fn contains(&self, replica: ReplicaIndex) -> bool {
        self.members.contains(replica)
    }

    /// The view with which the epoch begins.
    pub fn first_view(&self) -> View {
        View::first_of(self.epoch)
    }

    /// Which replica leads a view: each in turn.
    pub fn leader(&self, view: View) -> ReplicaIndex {
        self.members.at(view.within_epoch() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_leads_in_turn_in_views_of_its_epoch() {
        let members = [9, 2, 4].map(ReplicaIndex).to_vec();
        let membership = Membership::new(Epoch(3), members).unwrap();
        let first = membership.first_view();
        let leaders: Vec<u8> = (0..4).map(|view| membership.leader(View(first.0 + view)).0).collect();
        assert_eq!(leaders, [2, 4, 9, 2]);
    }
}
