//! Replicas of TAPIR.

use quorate_core::verify::{Answer, Request};
use quorate_core::{ClientId, Groups, Machine, ShardId, View};
use quorate_tapir::{Record, Replica, ReplicaCommand, ReplicaConfig, ReplicaEvent, Status};

use super::super::log::LogError;
use super::{Activity, Health, News, Served};
use crate::data::{Boot, Placement};

impl Served for Replica {
    type Kind = ();

    fn build(
        (): Self::Kind,
        placement: &Placement,
        knows_better: bool,
        boot: Boot,
        records: Vec<Record>,
    ) -> Result<Self, LogError> {
        let boot = match boot {
            Boot::Initialise => quorate_tapir::Boot::Initialise,
            Boot::Rejoin => quorate_tapir::Boot::Rejoin,
        };
        let Placement { replica, founders, shards, .. } = *placement;
        let groups = if knows_better { Groups::new(founders) } else { placement.memberships.clone() };
        let config = ReplicaConfig { groups, shards, ..ReplicaConfig::new(replica, founders, boot) };
        Ok(Replica::restore(config, records))
    }

    /// The view is one above which no replica of the group has been: what this replica may have said in an earlier life
    /// counts in no view to come.
    fn asleep_since_creation(_: &Placement, view: View) -> Result<Option<Vec<Record>>, LogError> {
        Ok(Some(vec![Record::Initialised, Record::ViewEntered { view }]))
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
            prepared: self.prepared().len(),
            record_len: self.record_len(),
            recoveries: self.recoveries(),
            clock_error_micros: None,
        }
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        client.map_or_else(|| self.prepared().len(), |client| self.prepared().len_of(client))
    }

    fn is_idle(&self) -> bool {
        self.prepared().is_empty()
    }

    fn decided(&self) -> (u64, u64) {
        (self.committed(), self.aborted())
    }

    fn change_groups(memberships: &Groups, _: ShardId) -> Vec<ReplicaCommand> {
        vec![ReplicaCommand::ChangeGroups(memberships.clone())]
    }

    fn verify(request: Request) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::Verify(request))
    }

    fn verified(&self, request: &Request) -> Answer {
        Replica::verified(self, request)
    }

    fn news(event: &ReplicaEvent) -> Option<News> {
        Some(match event {
            ReplicaEvent::Normal { view } => News::Normal(*view),
            ReplicaEvent::ViewChanging { view } => News::ViewChanging(*view),
            ReplicaEvent::Outdated { epoch } => News::Outdated(*epoch),
            ReplicaEvent::Lost { lost } => News::Lost(*lost),
            ReplicaEvent::Retired => News::Retired,
        })
    }
}
