//! Who leads each shard, as far as a coordinator knows. A guess: whoever does not lead says so and does nothing.

use std::collections::BTreeMap;

use quorate_core::hash::FixedSet;
use quorate_core::{Epoch, GroupSize, KeyspaceId, ReplicaId, ReplicaIndex, ShardId};

/// A group of replicas, as a coordinator knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) size: GroupSize,
    /// None for the group that serves the keyspace, and where it is clear of itself.
    pub(crate) keyspace: Option<KeyspaceId>,
    /// The membership under which it is spoken to.
    pub(crate) epoch: Epoch,
    /// The greatest membership that was heard of.
    pub(crate) newest_epoch: Epoch,
    leader: ReplicaIndex,
}

/// Every group that a coordinator speaks to.
#[derive(Debug, Default)]
pub(crate) struct Leaders {
    groups: BTreeMap<ShardId, Group>,
    /// Replicas whose connection is down.
    unreachable: FixedSet<ReplicaId>,
}

impl Leaders {
    pub(crate) fn group(&self, shard: ShardId) -> Option<&Group> {
        self.groups.get(&shard)
    }

    pub(crate) fn group_mut(&mut self, shard: ShardId) -> Option<&mut Group> {
        self.groups.get_mut(&shard)
    }

    /// Learns of a group, or of a change of it.
    pub(crate) fn learn(
        &mut self,
        shard: ShardId,
        size: GroupSize,
        keyspace: Option<KeyspaceId>,
        epoch: Epoch,
    ) {
        let leader = self.groups.get(&shard).map_or(ReplicaIndex(0), |group| group.leader);
        let leader = ReplicaIndex(leader.0 % size.replicas() as u8);
        self.groups.insert(shard, Group { size, keyspace, epoch, newest_epoch: epoch, leader });
    }

    /// Who is asked as the leader of a shard.
    pub(crate) fn leader(&self, shard: ShardId) -> ReplicaId {
        let index = self.groups.get(&shard).map_or(ReplicaIndex(0), |group| group.leader);
        ReplicaId { shard, index }
    }

    /// Every replica of a shard.
    pub(crate) fn replicas(&self, shard: ShardId) -> impl Iterator<Item = ReplicaId> + use<> {
        let count = self.groups.get(&shard).map_or(0, |group| group.size.replicas());
        (0..count).map(move |index| ReplicaId { shard, index: ReplicaIndex(index as u8) })
    }

    /// A replica says who leads its shard. True if whoever was taken for the leader says so and names another.
    pub(crate) fn redirect(&mut self, from: ReplicaId, leader: ReplicaIndex) -> bool {
        let Some(group) = self.groups.get_mut(&from.shard) else { return false };
        let is_news = group.leader == from.index
            && leader != from.index
            && usize::from(leader.0) < group.size.replicas();
        if is_news {
            group.leader = leader;
        }
        is_news
    }

    /// A replica has answered as leaders do.
    pub(crate) fn note_leading(&mut self, from: ReplicaId) {
        if let Some(group) = self.groups.get_mut(&from.shard) {
            group.leader = from.index;
        }
    }

    /// Whoever was taken for the leader of a shard is silent: the next one may know more.
    pub(crate) fn suspect(&mut self, shard: ShardId) {
        let Some(group) = self.groups.get_mut(&shard) else { return };
        let replicas = group.size.replicas() as u8;
        for _ in 0..replicas {
            group.leader = ReplicaIndex((group.leader.0 + 1) % replicas);
            if !self.unreachable.contains(&ReplicaId { shard, index: group.leader }) {
                break;
            }
        }
    }

    pub(crate) fn is_reachable(&self, replica: ReplicaId) -> bool {
        !self.unreachable.contains(&replica)
    }

    /// True if this is news.
    pub(crate) fn set_reachable(&mut self, replica: ReplicaId, reachable: bool) -> bool {
        if reachable { self.unreachable.remove(&replica) } else { self.unreachable.insert(replica) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(1);

    fn replica(index: u8) -> ReplicaId {
        ReplicaId { shard: SHARD, index: ReplicaIndex(index) }
    }

    fn leaders() -> Leaders {
        let mut leaders = Leaders::default();
        leaders.learn(SHARD, GroupSize::new(3).unwrap(), None, Epoch::FIRST);
        leaders
    }

    #[test]
    fn only_the_supposed_leader_names_another() {
        let mut leaders = leaders();
        assert!(!leaders.redirect(replica(1), ReplicaIndex(2)), "nobody took it for the leader");
        assert!(!leaders.redirect(replica(0), ReplicaIndex(0)), "it does not know either");
        assert!(!leaders.redirect(replica(0), ReplicaIndex(3)), "there is no such replica");
        assert_eq!(leaders.leader(SHARD), replica(0));
        assert!(leaders.redirect(replica(0), ReplicaIndex(2)));
        assert_eq!(leaders.leader(SHARD), replica(2));
    }

    #[test]
    fn after_a_silent_leader_the_next_is_asked_that_can_be_reached() {
        let mut leaders = leaders();
        leaders.set_reachable(replica(1), false);
        leaders.suspect(SHARD);
        assert_eq!(leaders.leader(SHARD), replica(2));
        leaders.suspect(SHARD);
        assert_eq!(leaders.leader(SHARD), replica(0));
        leaders.learn(SHARD, GroupSize::new(5).unwrap(), None, Epoch(1));
        assert_eq!(leaders.leader(SHARD), replica(0), "who leads is not forgotten");
    }
}
