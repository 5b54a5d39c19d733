//! Replicas of the comparison systems.

use quorate_baselines::{Replica, ReplicaCommand, ReplicaConfig, System};
use quorate_core::{ClientId, Groups};

use super::super::log::LogError;
use super::member::OnLog;
use crate::data::Placement;

impl OnLog for Replica {
    type Kind = System;

    fn config(system: System, placement: &Placement) -> Result<ReplicaConfig, LogError> {
        let Placement { replica, founders, shards, .. } = *placement;
        let shards = shards.ok_or(LogError::Shards)?;
        let config = ReplicaConfig::new(replica, founders, (shards.first, shards.count), system);
        Ok(ReplicaConfig { groups: placement.memberships.clone(), ..config })
    }

    fn change_groups(memberships: &Groups) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::ChangeGroups(memberships.clone()))
    }

    /// What is measured is not worth it: its keyspace is dropped.
    const ACCEPTS_LOSS: bool = false;

    fn prepared(&self) -> usize {
        self.prepared().len()
    }

    fn record_len(&self) -> usize {
        self.record_len()
    }

    fn recoveries(&self) -> usize {
        self.inquiries()
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        self.load(client)
    }

    fn is_idle(&self) -> bool {
        self.prepared().is_empty() && self.waiting() == 0
    }

    fn decided(&self) -> (u64, u64) {
        self.decided()
    }
}
