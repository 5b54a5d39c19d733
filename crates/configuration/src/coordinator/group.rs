//! The replicas of the configuration, as a client knows them.

use std::collections::BTreeSet;

use quorate_core::log::Position;
use quorate_core::{Epoch, GroupSize, KeyspaceId, ReplicaId, ReplicaIndex, ShardId};

/// The group, and who leads it. That is a guess: whoever does not lead says so and does nothing.
#[derive(Debug)]
pub(super) struct Group {
    shard: ShardId,
    size: GroupSize,
    pub(super) keyspace: KeyspaceId,
    /// The membership under which this client speaks to it.
    pub(super) epoch: Epoch,
    /// The greatest membership that was heard of.
    pub(super) newest_epoch: Epoch,
    /// How far the log is known.
    pub(super) position: Position,
    leader: ReplicaIndex,
    /// Replicas whose connection is down.
    unreachable: BTreeSet<ReplicaIndex>,
}

impl Group {
    /// Learns of a group, or of a change of the one that was known.
    pub(super) fn learn(
        known: Option<Group>,
        shard: ShardId,
        size: GroupSize,
        keyspace: KeyspaceId,
        epoch: Epoch,
    ) -> Self {
        let leader = known.as_ref().map_or(ReplicaIndex(0), |group| group.leader);
        Group {
            shard,
            size,
            keyspace,
            epoch,
            newest_epoch: epoch,
            position: known.as_ref().map_or(Position::START, |group| group.position),
            leader: ReplicaIndex(leader.0 % size.replicas() as u8),
            unreachable: known.map(|group| group.unreachable).unwrap_or_default(),
        }
    }

    /// Who is asked as the leader.
    pub(super) fn leader(&self) -> ReplicaId {
        self.replica(self.leader)
    }

    pub(super) fn replica(&self, index: ReplicaIndex) -> ReplicaId {
        ReplicaId { shard: self.shard, index }
    }

    /// A replica says who leads: that counts if it was taken for the leader itself.
    pub(super) fn redirect(&mut self, from: ReplicaId, leader: ReplicaIndex) {
        if self.leader == from.index && usize::from(leader.0) < self.size.replicas() {
            self.leader = leader;
        }
    }

    /// Whoever was taken for the leader is silent: the next one may know more.
    pub(super) fn suspect(&mut self) {
        let replicas = self.size.replicas() as u8;
        for _ in 0..replicas {
            self.leader = ReplicaIndex((self.leader.0 + 1) % replicas);
            if self.is_reachable(self.leader) {
                break;
            }
        }
    }

    pub(super) fn is_reachable(&self, replica: ReplicaIndex) -> bool {
        !self.unreachable.contains(&replica)
    }

    /// True if this is news.
    pub(super) fn set_reachable(&mut self, replica: ReplicaIndex, reachable: bool) -> bool {
        if reachable { self.unreachable.remove(&replica) } else { self.unreachable.insert(replica) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leads_is_learnt_from_who_does_not() {
        let size = GroupSize::new(3).unwrap();
        let mut group = Group::learn(None, ShardId(0), size, KeyspaceId(0), Epoch::FIRST);
        let replica = |index| ReplicaId { shard: ShardId(0), index: ReplicaIndex(index) };
        group.redirect(replica(1), ReplicaIndex(2));
        assert_eq!(group.leader(), replica(0), "nobody took it for the leader");
        group.redirect(replica(0), ReplicaIndex(3));
        assert_eq!(group.leader(), replica(0), "there is no such replica");
        group.redirect(replica(0), ReplicaIndex(2));
        assert_eq!(group.leader(), replica(2));
        assert!(group.set_reachable(ReplicaIndex(0), false));
        group.suspect();
        assert_eq!(group.leader(), replica(1), "the one that cannot be reached is passed over");
        let group = Group::learn(Some(group), ShardId(0), size, KeyspaceId(0), Epoch(1));
        assert_eq!(
            (group.leader(), group.newest_epoch),
            (replica(1), Epoch(1)),
            "who leads is not forgotten"
        );
    }
}
