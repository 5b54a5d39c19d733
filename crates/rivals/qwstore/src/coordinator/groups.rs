//! The replicas that this client speaks to, and which of them can be expected to answer.

use std::collections::BTreeMap;

use quorate_core::hash::FixedSet;
use quorate_core::{Epoch, GroupSize, KeyspaceId, ReplicaId, ReplicaIndex, ShardId};

/// A group of replicas, as this client knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) size: GroupSize,
    pub(super) keyspace: KeyspaceId,
    /// The membership under which this client speaks to it.
    pub(super) epoch: Epoch,
    /// The greatest membership that was heard of.
    pub(super) newest_epoch: Epoch,
}

/// Every group that this client speaks to.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<ShardId, Group>,
    /// Replicas whose connection is down.
    unreachable: FixedSet<ReplicaId>,
    /// Replicas that have let a put wait in vain, and have not been heard since.
    silent: FixedSet<ReplicaId>,
}

impl Groups {
    pub(super) fn group(&self, shard: ShardId) -> Option<&Group> {
        self.groups.get(&shard)
    }

    pub(super) fn group_mut(&mut self, shard: ShardId) -> Option<&mut Group> {
        self.groups.get_mut(&shard)
    }

    pub(super) fn learn(&mut self, shard: ShardId, size: GroupSize, keyspace: KeyspaceId, epoch: Epoch) {
        self.groups.insert(shard, Group { size, keyspace, epoch, newest_epoch: epoch });
    }

    /// Every replica of a shard.
    pub(super) fn replicas(&self, shard: ShardId) -> impl Iterator<Item = ReplicaId> + use<> {
        let count = self.groups.get(&shard).map_or(0, |group| group.size.replicas());
        (0..count).map(move |index| ReplicaId { shard, index: ReplicaIndex(index as u8) })
    }

    pub(super) fn is_reachable(&self, replica: ReplicaId) -> bool {
        !self.unreachable.contains(&replica)
    }

    /// True if this is news.
    pub(super) fn set_reachable(&mut self, replica: ReplicaId, reachable: bool) -> bool {
        if reachable { self.unreachable.remove(&replica) } else { self.unreachable.insert(replica) }
    }

    /// True if the replica is likely to answer.
    pub(super) fn is_expected(&self, replica: ReplicaId) -> bool {
        self.is_reachable(replica) && !self.silent.contains(&replica)
    }

    pub(super) fn note_heard(&mut self, replica: ReplicaId) {
        self.silent.remove(&replica);
    }

    pub(super) fn note_silent(&mut self, replica: ReplicaId) {
        self.silent.insert(replica);
    }
}
