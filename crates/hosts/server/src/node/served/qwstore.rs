//! Replicas of the quorum store without transactions.

use quorate_core::verify::{Answer, Request};
use quorate_core::{ClientId, Groups, Machine, ShardId, View};
use quorate_ir::Status;
use quorate_qwstore::{Record, Replica, ReplicaConfig, ReplicaEvent};

use super::super::log::LogError;
use super::{Activity, Health, News, Served};
use crate::data::{Boot, Placement};

impl Served for Replica {
    type Kind = ();

    fn build(
        (): Self::Kind,
        placement: &Placement,
        _: bool,
        boot: Boot,
        records: Vec<Record>,
    ) -> Result<Self, LogError> {
        let boot = match boot {
            Boot::Initialise => quorate_qwstore::Boot::Initialise,
            Boot::Rejoin => quorate_qwstore::Boot::Rejoin,
        };
        let Placement { replica, founders, created_in: epoch, .. } = *placement;
        let config = ReplicaConfig { epoch, ..ReplicaConfig::new(replica, founders, boot) };
        Ok(Replica::restore(config, records))
    }

    /// What was measured is not worth it: such a keyspace is dropped.
    fn asleep_since_creation(_: &Placement, _: View) -> Result<Option<Vec<Record>>, LogError> {
        Ok(None)
    }

    fn health(&self) -> Health {
        Health {
            activity: match self.status() {
                Status::Normal => Activity::Normal,
                Status::ViewChanging => Activity::ViewChanging,
                Status::Recovering => Activity::Recovering,
                Status::Retired => Activity::Retired,
            },
            view: self.view(),
            leads: false,
            prepared: 0,
            record_len: self.record_len(),
            recoveries: 0,
            clock_error_micros: None,
        }
    }

    /// Nobody holds anything for anybody.
    fn load(&self, _: Option<ClientId>) -> usize {
        0
    }

    fn is_idle(&self) -> bool {
        true
    }

    /// It knows puts, and not which transaction they belong to.
    fn decided(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Its groups stay as they are: what was measured is dropped.
    fn change_groups(_: &Groups, _: ShardId) -> Vec<Self::Command> {
        Vec::new()
    }

    /// A put that was never acknowledged may be at one replica and, for as long as somebody writes, nowhere else.
    fn verify(_: Request) -> Option<Self::Command> {
        None
    }

    fn verified(&self, _: &Request) -> Answer {
        Answer::unable(
            "replicas of the quorum store are alike only some time after the last put, and nobody knows when that is",
        )
    }

    fn news(event: &ReplicaEvent) -> Option<News> {
        Some(match event {
            ReplicaEvent::Normal { view } => News::Normal(*view),
            ReplicaEvent::ViewChanging { view } => News::ViewChanging(*view),
            ReplicaEvent::Outdated { epoch } => News::Outdated(*epoch),
            ReplicaEvent::Lost { lost } => News::Lost(*lost),
        })
    }
}
