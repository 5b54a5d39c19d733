//! The replicas of groups, and how one membership follows another.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use crate::id::{Epoch, ReplicaIndex, ShardId};
use crate::quorum::{GroupSize, InvalidGroupSize};

/// The replicas of a group: which they are, and so how many.
///
/// An index names one replica, with its disk, for as long as the group exists: who replaces another goes by a new index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members {
    /// Ascending, and zero beyond the size.
    indices: [ReplicaIndex; GroupSize::MAX],
    size: GroupSize,
}

/// A group that has fewer than it says, or an even number, or too many.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group needs an odd number of different replicas, {max} at most, not {0:?}", max = GroupSize::MAX)]
pub struct InvalidMembers(pub Vec<ReplicaIndex>);

impl Members {
    /// These replicas, in any order.
    ///
    /// # Errors
    /// Their number must be odd, no greater than [`GroupSize::MAX`], and none may be named twice.
    pub fn new(members: impl IntoIterator<Item = ReplicaIndex>) -> Result<Self, InvalidMembers> {
        Self::sized(members.into_iter().collect(), GroupSize::new)
    }

    /// These replicas of a group on a replicated log, in any order. Their number may be even.
    ///
    /// # Errors
    /// Their number must be neither zero nor greater than [`GroupSize::MAX`], and none may be named twice.
    pub fn on_log(members: impl IntoIterator<Item = ReplicaIndex>) -> Result<Self, InvalidMembers> {
        Self::sized(members.into_iter().collect(), GroupSize::on_log)
    }

    fn sized(
        mut members: Vec<ReplicaIndex>,
        size: impl FnOnce(usize) -> Result<GroupSize, InvalidGroupSize>,
    ) -> Result<Self, InvalidMembers> {
        members.sort_unstable();
        let are_different = members.windows(2).all(|two| two[0] != two[1]);
        match size(members.len()) {
            Ok(size) if are_different => {
                let mut indices = [ReplicaIndex(0); GroupSize::MAX];
                indices[..members.len()].copy_from_slice(&members);
                Ok(Members { indices, size })
            }
            _ => Err(InvalidMembers(members)),
        }
    }

    /// How many they are.
    pub const fn size(self) -> GroupSize {
        self.size
    }

    /// The replicas, ascending.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = ReplicaIndex> + ExactSizeIterator {
        self.indices.into_iter().take(self.size.replicas())
    }

    /// The replicas, ascending.
    pub fn as_slice(&self) -> &[ReplicaIndex] {
        &self.indices[..self.size.replicas()]
    }

    /// The place of a replica among them, from zero; none if it is no member.
    pub fn position(&self, replica: ReplicaIndex) -> Option<usize> {
        self.as_slice().binary_search(&replica).ok()
    }

    /// The replica at a place, from zero, beginning anew after the last.
    pub fn at(&self, position: usize) -> ReplicaIndex {
        self.indices[position % self.size.replicas()]
    }

    /// The next one after a replica, which need not be one of them, beginning anew after the last.
    pub fn after(&self, replica: ReplicaIndex) -> ReplicaIndex {
        self.iter().find(|member| *member > replica).unwrap_or_else(|| self.at(0))
    }

    /// True if a replica is one of them.
    pub fn contains(&self, replica: ReplicaIndex) -> bool {
        self.position(replica).is_some()
    }
}

/// The replicas of a group that has never changed: counted from zero.
impl From<GroupSize> for Members {
    fn from(size: GroupSize) -> Self {
        let mut indices = [ReplicaIndex(0); GroupSize::MAX];
        for (index, replica) in indices.iter_mut().enumerate().take(size.replicas()) {
            *replica = ReplicaIndex(index as u8);
        }
        Members { indices, size }
    }
}

/// How many replies are enough follows from how many they are.
impl Deref for Members {
    type Target = GroupSize;

    fn deref(&self) -> &GroupSize {
        &self.size
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// The replicas of a group from an epoch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The epoch that it began with. All views of the group from then on are numbered by it.
    pub since: Epoch,
    /// The replicas.
    pub members: Members,
}

/// The replicas of a group, and those before them, which have what the group knows until a view of the present
/// members has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succession {
    /// The members before; none if the group has never changed.
    pub previous: Option<Tenure>,
    /// The members.
    pub present: Tenure,
}

impl Succession {
    /// Everybody who takes part in a change: the members, and those before them; ascending.
    pub fn everybody(&self) -> Vec<ReplicaIndex> {
        let previous = self.previous.iter().flat_map(|tenure| tenure.members.iter());
        let mut everybody: Vec<ReplicaIndex> = self.present.members.iter().chain(previous).collect();
        everybody.sort_unstable();
        everybody.dedup();
        everybody
    }
}

/// A group that has never changed.
impl From<GroupSize> for Succession {
    fn from(size: GroupSize) -> Self {
        Succession { previous: None, present: Tenure { since: Epoch::FIRST, members: size.into() } }
    }
}

/// The replicas of a keyspace's shards under one epoch: its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The epoch.
    pub epoch: Epoch,
    /// The size of those groups that have never changed, but for those that are listed apart.
    pub size: GroupSize,
    /// The groups that have another size and have never changed.
    pub apart: BTreeMap<ShardId, GroupSize>,
    /// The groups that have.
    pub changed: BTreeMap<ShardId, Succession>,
}

impl Groups {
    /// The groups that a keyspace is created with.
    pub fn new(size: GroupSize) -> Self {
        Groups { epoch: Epoch::FIRST, size, apart: BTreeMap::new(), changed: BTreeMap::new() }
    }

    /// The same, but that these groups have another size.
    #[must_use]
    pub fn with_apart(self, apart: impl IntoIterator<Item = (ShardId, GroupSize)>) -> Self {
        let size = self.size;
        Groups { apart: apart.into_iter().filter(|(_, other)| *other != size).collect(), ..self }
    }

    /// The replicas of a shard, and those before them.
    pub fn succession(&self, shard: ShardId) -> Succession {
        let size = self.apart.get(&shard).copied().unwrap_or(self.size);
        self.changed.get(&shard).copied().unwrap_or_else(|| size.into())
    }

    /// The replicas of a shard.
    pub fn members(&self, shard: ShardId) -> Members {
        self.succession(shard).present.members
    }

    /// The next epoch, in which these shards have other replicas. The others go on as they are.
    ///
    /// Nobody may define an epoch before a majority of each group that changed with the present one has taken part in a
    /// view of it, durably: what the group knows would still be with members that nobody asks any more.
    #[must_use]
    pub fn next(&self, changes: impl IntoIterator<Item = (ShardId, Members)>) -> Self {
        let epoch = Epoch(self.epoch.0 + 1);
        let mut next = Groups { epoch, ..self.clone() };
        for (shard, members) in changes {
            let previous = Some(self.succession(shard).present);
            next.apart.remove(&shard);
            next.changed.insert(shard, Succession { previous, present: Tenure { since: epoch, members } });
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(members: &[u8]) -> Vec<ReplicaIndex> {
        members.iter().copied().map(ReplicaIndex).collect()
    }

    fn members(members: &[u8]) -> Members {
        Members::new(indices(members)).unwrap()
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
            assert_eq!(Members::new(indices(members)).is_ok(), is_valid, "{members:?}");
        }
    }

    #[test]
    fn a_group_on_a_log_may_have_an_even_size() {
        let group = Members::on_log(indices(&[5, 0, 3, 1, 4, 2])).unwrap();
        assert_eq!(group, Members::from(GroupSize::on_log(6).unwrap()));
        assert_eq!(group.majority(), 4);
        assert!(Members::on_log(indices(&[])).is_err() && Members::on_log(indices(&[1, 1])).is_err());
    }

    #[test]
    fn members_have_places() {
        let group = members(&[9, 2, 4]);
        assert_eq!(group.iter().collect::<Vec<_>>(), indices(&[2, 4, 9]));
        assert_eq!([2, 4, 9].map(|index| group.position(ReplicaIndex(index))), [Some(0), Some(1), Some(2)]);
        assert_eq!([0, 3, 255].map(|index| group.position(ReplicaIndex(index))), [None; 3]);
        assert_eq!([0, 1, 2, 3, 7].map(|at| group.at(at).0), [2, 4, 9, 2, 4]);
        assert_eq!([0, 2, 3, 9, 20].map(|index| group.after(ReplicaIndex(index)).0), [2, 4, 4, 2, 2]);
        assert_eq!(group.majority(), 2);
        assert_eq!(Members::from(GroupSize::new(5).unwrap()), members(&[4, 3, 2, 1, 0]));
    }

    #[test]
    fn a_change_concerns_the_shards_that_it_names() {
        let first = Groups::new(GroupSize::new(3).unwrap());
        let (one, two) = (ShardId(1), ShardId(2));
        let second = first.next([(one, members(&[0, 1, 3]))]);
        assert_eq!((second.epoch, second.members(two)), (Epoch(1), members(&[0, 1, 2])));
        assert_eq!(second.succession(two), first.succession(two), "it goes on as it was");
        let third = second.next([(two, members(&[0, 1, 2, 3, 4]))]);
        assert_eq!(third.succession(one), second.succession(one));
        let fourth = third.next([(one, members(&[1, 3, 4]))]);
        let succession = fourth.succession(one);
        assert_eq!(succession.present, Tenure { since: Epoch(3), members: members(&[1, 3, 4]) });
        assert_eq!(succession.previous, Some(Tenure { since: Epoch(1), members: members(&[0, 1, 3]) }));
        assert_eq!(succession.everybody(), indices(&[0, 1, 3, 4]));
    }

    #[test]
    fn a_group_may_have_a_size_of_its_own() {
        let size = |size| GroupSize::on_log(size).unwrap();
        let (one, two) = (ShardId(1), ShardId(2));
        let groups = Groups::new(size(3)).with_apart([(one, size(3)), (two, size(1))]);
        assert_eq!(groups.apart.keys().collect::<Vec<_>>(), [&two], "the other one is as all are");
        assert_eq!((groups.members(one), groups.members(two)), (members(&[0, 1, 2]), members(&[0])));
        let next = groups.next([(two, members(&[4]))]);
        assert_eq!((next.members(two), next.apart.len()), (members(&[4]), 0));
        assert_eq!(next.succession(two).previous.unwrap().members, members(&[0]));
    }
}
