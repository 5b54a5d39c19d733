//! How the definition of a keyspace goes on with other replicas: its next epoch.

use std::collections::BTreeMap;

use super::{Keyspace, Shard};
use crate::id::{Epoch, NodeId, ReplicaIndex, ShardId};
use crate::members::{Groups, Members, Succession, Tenure};
use crate::quorum::{GroupSize, InvalidGroupSize};

/// How the members of a group have changed since it was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The present members, and those before them; there always were some.
    pub succession: Succession,
    /// The nodes of those before, ascending by replica index.
    pub previous: Vec<NodeId>,
    /// The index of who joins next: no replica of the group has had it, or a greater one. One beyond the greatest index once all
    /// have been given away.
    pub next: u16,
}

/// Why a keyspace cannot go on with other replicas.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Not an odd number of replicas, or too many.
    #[error(transparent)]
    GroupSize(#[from] InvalidGroupSize),
    /// Two replicas of a shard on one node would be lost together.
    #[error("{shard} would have two replicas on {node}")]
    TwoOnOneNode {
        /// The shard.
        shard: ShardId,
        /// The node.
        node: NodeId,
    },
    /// An index names one replica for ever, and a group has so many.
    #[error("{shard} has had {max} replicas since it was created, and cannot have others: copy its keyspace into a new one", max = INDICES)]
    NoIndexLeft {
        /// The shard.
        shard: ShardId,
    },
}

/// How many replicas a group can have had, one after the other.
const INDICES: u16 = ReplicaIndex(u8::MAX).0 as u16 + 1;

impl Shard {
    /// The index of who joins the group next: no replica of it has had it, or a greater one.
    pub fn next_index(&self) -> u16 {
        self.change.as_ref().map_or(self.replicas.len() as u16, |change| change.next)
    }

    /// The shard with a replica on each of these nodes, from an epoch on: members that are there stay, and others join and
    /// leave. The groups of some keyspaces may not have so many replicas: see [`Keyspace::group_of`].
    ///
    /// # Errors
    /// These nodes cannot be a group, or no index is left.
    pub fn moved_to(&self, nodes: &[NodeId], since: Epoch) -> Result<Shard, ChangeError> {
        GroupSize::on_log(nodes.len())?;
        let mut seats: BTreeMap<ReplicaIndex, NodeId> =
            self.members().filter(|(_, node)| nodes.contains(node)).collect();
        let mut next = self.next_index();
        for (position, node) in nodes.iter().enumerate() {
            if nodes[..position].contains(node) {
                return Err(ChangeError::TwoOnOneNode { shard: self.id, node: *node });
            }
            if !seats.values().any(|host| host == node) {
                let index = u8::try_from(next).map_err(|_| ChangeError::NoIndexLeft { shard: self.id })?;
                seats.insert(ReplicaIndex(index), *node);
                next += 1;
            }
        }
        let members =
            Members::on_log(seats.keys().copied()).expect("they are as many as the nodes, and differ");
        let present = Tenure { since, members };
        let succession = Succession { previous: Some(self.succession().present), present };
        let change = Change { succession, previous: self.replicas.clone(), next };
        Ok(Shard { id: self.id, replicas: seats.into_values().collect(), change: Some(change) })
    }
}

impl Keyspace {
    /// The next epoch, in which these shards have their replicas on these nodes. The others go on as they are. The rules of
    /// such a change are told at [`Groups::next`].
    ///
    /// # Errors
    /// One of the shards cannot have them there.
    pub fn next_epoch(&self, moves: &BTreeMap<ShardId, Vec<NodeId>>) -> Result<Keyspace, ChangeError> {
        let epoch = Epoch(self.epoch.0 + 1);
        let mut next = Keyspace { epoch, ..self.clone() };
        for shard in next.groups_mut() {
            if let Some(nodes) = moves.get(&shard.id) {
                self.group_of(nodes.len())?;
                *shard = shard.moved_to(nodes, epoch)?;
            }
        }
        Ok(next)
    }

    /// A group of so many replicas, if one of this keyspace may have them.
    ///
    /// # Errors
    /// There are none, or too many, or an even number of what is not known to stand on replicated logs.
    pub fn group_of(&self, replicas: usize) -> Result<GroupSize, InvalidGroupSize> {
        match self.isolation.takes_even_groups() && self.comparison.is_none() {
            true => GroupSize::on_log(replicas),
            false => GroupSize::new(replicas),
        }
    }

    /// The replicas of its groups, without their nodes.
    ///
    /// # Panics
    /// As [`Shard::group_size`].
    pub fn memberships(&self) -> Groups {
        let unchanged = self.groups().find(|group| group.change.is_none());
        let size = unchanged.or_else(|| self.groups().next()).map(Shard::group_size);
        let size = size.expect("a keyspace has a shard");
        let changed = self.groups().filter_map(|group| Some((group.id, group.change.as_ref()?.succession)));
        let is_apart = |group: &&Shard| group.change.is_none() && group.group_size() != size;
        let apart = self.groups().filter(is_apart).map(|group| (group.id, group.group_size()));
        Groups { epoch: self.epoch, size, apart: apart.collect(), changed: changed.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(nodes: &[u16]) -> Vec<NodeId> {
        nodes.iter().copied().map(NodeId).collect()
    }

    fn seats(seats: impl Iterator<Item = (ReplicaIndex, NodeId)>) -> Vec<(u8, u16)> {
        seats.map(|(index, node)| (index.0, node.0)).collect()
    }

    fn moved(shard: &Shard, to: &[u16], since: u32) -> Shard {
        shard.moved_to(&nodes(to), Epoch(since)).unwrap()
    }

    #[test]
    fn who_stays_keeps_its_index_and_who_joins_gets_one_that_nobody_has_had() {
        let first = Shard::new(ShardId(7), nodes(&[4, 5, 6]));
        assert_eq!(seats(first.members()), [(0, 4), (1, 5), (2, 6)]);
        assert_eq!(seats(first.previous()), []);
        let second = moved(&first, &[9, 6, 4], 3);
        assert_eq!(seats(second.members()), [(0, 4), (2, 6), (3, 9)]);
        assert_eq!(seats(second.previous()), [(0, 4), (1, 5), (2, 6)]);
        assert_eq!(second.replica_ids().map(|id| id.index.0).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(
            [0, 1, 3, 4].map(|index| second.node_of(ReplicaIndex(index)).map(|node| node.0)),
            [Some(4), Some(5), Some(9), None]
        );
        let third = moved(&second, &[4, 5, 6, 7, 9], 4);
        assert_eq!(seats(third.members()), [(0, 4), (2, 6), (3, 9), (4, 5), (5, 7)], "the node was left");
        let previous = third.succession().previous.unwrap();
        assert_eq!((previous.since, third.succession().present.since), (Epoch(3), Epoch(4)));
        let fourth = moved(&third, &[7], 9);
        assert_eq!((seats(fourth.members()), fourth.group_size().replicas()), (vec![(5, 7)], 1));
        assert_eq!(moved(&fourth, &[8], 10).replica_ids().next().unwrap().index, ReplicaIndex(6));
    }

    #[test]
    fn what_cannot_be_a_group_is_refused() {
        let shard = Shard::new(ShardId(7), nodes(&[4, 5, 6]));
        let refused = |to: &[u16]| shard.moved_to(&nodes(to), Epoch(1)).unwrap_err().to_string();
        assert!(refused(&[]).contains("number of replicas"));
        let too_many: Vec<u16> = (0..10).collect();
        assert!(refused(&too_many).contains("number of replicas"));
        assert_eq!(refused(&[4, 8, 8]), "shard7 would have two replicas on node8");
    }

    #[test]
    fn a_group_has_as_many_replicas_in_its_life_as_there_are_indices() {
        let mut shard = Shard::new(ShardId(7), nodes(&[0]));
        for epoch in 1..256u32 {
            shard = moved(&shard, &[epoch as u16], epoch);
        }
        assert_eq!(seats(shard.members()), [(255, 255)]);
        let refused = shard.moved_to(&nodes(&[3]), Epoch(300)).unwrap_err();
        assert!(refused.to_string().contains("has had 256 replicas"), "{refused}");
        assert!(shard.moved_to(&nodes(&[255]), Epoch(300)).is_ok(), "nobody joins");
    }
}
