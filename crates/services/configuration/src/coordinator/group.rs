//! The replicas of the configuration, as a client knows them.

use std::collections::BTreeSet;

use quorate_core::log::Position;
use quorate_core::{Epoch, KeyspaceId, Members, ReplicaId, ReplicaIndex, ShardId};

/// The group, and its leader. That is a guess: a replica that does not lead says so and does nothing.
#[derive(Debug)]
pub(super) struct Group {
    shard: ShardId,
    members: Members,
    pub(super) keyspace: KeyspaceId,
    /// The membership under which this client speaks to it. Answers under another are as true: a log is one through all of them.
    pub(super) epoch: Epoch,
    /// The greatest membership that was heard of.
    pub(super) newest_epoch: Epoch,
    /// How far the log is known.
    pub(super) position: Position,
    /// Not one of the members, perhaps, as long as the group has not gone on to them.
    leader: ReplicaIndex,
    /// Replicas whose connection is down.
    unreachable: BTreeSet<ReplicaIndex>,
}

impl Group {
    /// Learns of a group, or of a change of the one that was known.
    pub(super) fn learn(
        known: Option<Group>,
        shard: ShardId,
        members: Members,
        keyspace: KeyspaceId,
        epoch: Epoch,
    ) -> Self {
        let leader = known.as_ref().map_or(members.at(0), |group| group.leader);
        Group {
            shard,
            members,
            keyspace,
            epoch,
            newest_epoch: known.as_ref().map_or(epoch, |group| group.newest_epoch.max(epoch)),
            position: known.as_ref().map_or(Position::START, |group| group.position),
            leader,
            unreachable: known.map(|group| group.unreachable).unwrap_or_default(),
        }
    }

    /// The replica that is asked as the leader.
    pub(super) fn leader(&self) -> ReplicaId {
        self.replica(self.leader)
    }

    pub(super) fn replica(&self, index: ReplicaIndex) -> ReplicaId {
        ReplicaId { shard: self.shard, index }
    }

    /// A replica says who leads, which may be one of another membership: that counts if it was taken for the leader itself.
    pub(super) fn redirect(&mut self, from: ReplicaId, leader: ReplicaIndex) {
        if self.leader == from.index {
            self.leader = leader;
        }
    }

    /// The replica that was taken for the leader is silent: the next one may know more.
    pub(super) fn suspect(&mut self) {
        for _ in 0..self.members.replicas() {
            self.leader = self.members.after(self.leader);
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
        let members = |indices: [u8; 3]| Members::new(indices.map(ReplicaIndex)).unwrap();
        let mut group = Group::learn(None, ShardId(0), members([0, 1, 2]), KeyspaceId(0), Epoch::FIRST);
        let replica = |index| ReplicaId { shard: ShardId(0), index: ReplicaIndex(index) };
        group.redirect(replica(1), ReplicaIndex(2));
        assert_eq!(group.leader(), replica(0), "nobody took it for the leader");
        group.redirect(replica(0), ReplicaIndex(3));
        assert_eq!(group.leader(), replica(3), "the group may have gone on with others");
        group.redirect(replica(3), ReplicaIndex(2));
        assert_eq!(group.leader(), replica(2));
        assert!(group.set_reachable(ReplicaIndex(0), false));
        group.suspect();
        assert_eq!(group.leader(), replica(1), "the one that cannot be reached is passed over");
        let group = Group::learn(Some(group), ShardId(0), members([4, 5, 6]), KeyspaceId(0), Epoch(1));
        assert_eq!(
            (group.leader(), group.newest_epoch),
            (replica(1), Epoch(1)),
            "who leads is not forgotten: the group may not have gone on"
        );
    }
}
