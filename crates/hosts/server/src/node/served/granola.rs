//! Replicas of serializable keyspaces.

use quorate_core::{ClientId, Groups, ShardId};
use quorate_granola::{Replica, ReplicaCommand, ReplicaConfig};
use quorate_serializable_library::Hosted;
use quorate_serializable_shard::ShardWith;

use super::super::log::LogError;
use super::member::OnLog;
use crate::data::Placement;

/// A replica of a serializable keyspace, with the procedures of servers.
pub(crate) type Serializable = Replica<ShardWith<Hosted>>;

impl OnLog for Serializable {
    type Kind = ();

    fn config((): (), placement: &Placement) -> Result<ReplicaConfig, LogError> {
        let Placement { replica, founders, shards, .. } = *placement;
        let shards = shards.ok_or(LogError::Shards)?;
        let config = ReplicaConfig::new(replica, founders, (shards.first, shards.count));
        Ok(ReplicaConfig { groups: placement.memberships.clone(), ..config })
    }

    fn change_groups(memberships: &Groups) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::ChangeGroups(memberships.clone()))
    }

    fn declare_lost(shard: ShardId) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::DeclareLost(shard))
    }

    fn lost_shards(&self) -> Vec<ShardId> {
        self.lost().collect()
    }

    const ACCEPTS_LOSS: bool = true;

    fn prepared(&self) -> usize {
        self.pending().len()
    }

    fn record_len(&self) -> usize {
        self.ended_len()
    }

    /// Participants ask each other for votes as long as any are missing.
    fn recoveries(&self) -> usize {
        0
    }

    /// Who waits is not counted by clients.
    fn load(&self, client: Option<ClientId>) -> usize {
        client.map_or_else(|| self.pending().len().max(self.waiting()), |_| 0)
    }

    fn is_idle(&self) -> bool {
        self.pending().len() == 0 && self.waiting() == 0
    }

    fn decided(&self) -> (u64, u64) {
        self.decided()
    }
}
