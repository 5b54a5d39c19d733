//! Replicas of the comparison systems, each a member of a replicated log.

use quorate_baselines::{Replica, ReplicaConfig, System};
use quorate_core::{ClientId, Machine, View};
use quorate_log::member::{Config, Item};
use quorate_log::{Fact, LogEvent, Member, Membership, Part, Rules, Status};

use super::super::log::LogError;
use super::{Activity, Health, News, Served, group_of};
use crate::config::LogOptions;
use crate::data::{Boot, Placement};

impl Served for Member<Replica> {
    type Kind = (System, LogOptions);

    fn build(
        (system, log): Self::Kind,
        placement: &Placement,
        boot: Boot,
        records: Vec<Self::Record>,
    ) -> Result<Self, LogError> {
        let Placement { replica, shards, .. } = *placement;
        let group = group_of(placement)?;
        let shards = shards.ok_or(LogError::Shards)?;
        let config = Config {
            me: replica,
            membership: Membership::first(group),
            boot: match boot {
                Boot::Initialise => quorate_log::Boot::Initialise,
                Boot::Rejoin => quorate_log::Boot::Recover,
            },
            timing: log.timing,
            limits: log.limits,
            snapshot_bytes: log.snapshot_bytes,
            rules: Rules::CORRECT,
            machine: ReplicaConfig::new(replica, group, (shards.first, shards.count), system),
        };
        Ok(Member::restore(config, records))
    }

    /// The entries that a majority has lost are not known to be few.
    fn asleep_since_creation(_: View) -> Option<Vec<Fact<Item<Replica>>>> {
        None
    }

    fn health(&self) -> Health {
        Health {
            activity: match self.replica().status() {
                Status::Normal => Activity::Normal,
                Status::ViewChanging => Activity::ViewChanging,
                Status::Recovering => Activity::Recovering,
                Status::Retired => Activity::Retired,
            },
            view: self.replica().view(),
            leads: self.leading().is_some(),
            prepared: self.machine().prepared().len(),
            record_len: self.machine().record_len(),
            recoveries: self.machine().inquiries(),
        }
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        self.machine().load(client)
    }

    fn is_idle(&self) -> bool {
        self.machine().prepared().is_empty() && self.machine().waiting() == 0
    }

    fn decided(&self) -> (u64, u64) {
        self.machine().decided()
    }

    fn news(event: &Self::Event) -> Option<News> {
        match event {
            Part::Log(LogEvent::Normal { view }) => Some(News::Normal(*view)),
            Part::Log(LogEvent::ViewChanging { view }) => Some(News::ViewChanging(*view)),
            Part::Log(LogEvent::Recovering) => Some(News::Recovering),
            Part::Log(LogEvent::Leading { view }) => Some(News::Leading(*view)),
            Part::Log(LogEvent::Retired { epoch }) => Some(News::Outdated(*epoch)),
            // Who leads no longer says next what it does instead; nobody tells a log of this node to change its group.
            Part::Log(LogEvent::Deposed | LogEvent::HandedOver | LogEvent::Refused { .. }) | Part::Own(_) => {
                None
            }
        }
    }

    fn changes_catalogue(_: &Self::Record) -> bool {
        false
    }
}
