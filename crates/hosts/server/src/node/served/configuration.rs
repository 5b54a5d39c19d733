//! Replicas of the configuration service.

use quorate_configuration::{Replica, ReplicaConfig};
use quorate_core::{ClientId, Groups};

use super::super::log::LogError;
use super::member::OnLog;
use crate::data::Placement;

impl OnLog for Replica {
    type Kind = ();

    fn config((): (), placement: &Placement) -> Result<ReplicaConfig, LogError> {
        Ok(ReplicaConfig::new(placement.replica))
    }

    /// It has to do with no other group.
    fn change_groups(_: &Groups) -> Option<Self::Command> {
        None
    }

    const ACCEPTS_LOSS: bool = true;

    /// A write is decided when it is stable: nothing is held for it.
    fn prepared(&self) -> usize {
        0
    }

    fn record_len(&self) -> usize {
        self.len()
    }

    fn recoveries(&self) -> usize {
        0
    }

    /// Who waits is not counted by clients.
    fn load(&self, client: Option<ClientId>) -> usize {
        client.map_or_else(|| self.waiting(), |_| 0)
    }

    fn is_idle(&self) -> bool {
        self.waiting() == 0
    }

    /// Each successful write has a revision of its own. How many others there were is not kept.
    fn decided(&self) -> (u64, u64) {
        (self.revision().0, 0)
    }
}
