//! Replicas of machines that stand on a replicated log: what is the log's is the same for all of them.

use quorate_core::log::LogMachine;
use quorate_core::{ClientId, GroupSize, Groups, Machine, View};
use quorate_log::member::{Config, Item, MessageOf};
use quorate_log::{Fact, LogEvent, Member, Membership, Part, Rules, Status, Timer};
use quorate_wire::{ProtocolMessage, Wire};

use super::super::log::LogError;
use super::{Activity, Health, News, Served};
use crate::config::LogOptions;
use crate::data::{Boot, Placement};

/// A machine on a log that a node hosts.
pub(crate) trait OnLog: LogMachine {
    /// What tells apart what the same machine can be.
    type Kind: Copy;

    /// From what the machine of a replica is built.
    fn config(kind: Self::Kind, placement: &Placement, group: GroupSize) -> Result<Self::Config, LogError>;

    /// True if a group may go on without what it has lost with more replicas than it survives, if an operator accepts that.
    const ACCEPTS_LOSS: bool;

    /// How many transactions it holds prepared.
    fn prepared(&self) -> usize;

    /// Of how many transactions, or keys, it knows something.
    fn record_len(&self) -> usize;

    /// How many transactions of silent coordinators it is settling.
    fn recoveries(&self) -> usize;

    /// As [`Served::load`].
    fn load(&self, client: Option<ClientId>) -> usize;

    /// As [`Served::is_idle`].
    fn is_idle(&self) -> bool;

    /// As [`Served::decided`].
    fn decided(&self) -> (u64, u64);
}

impl<M> Served for Member<M>
where
    M: OnLog,
    Member<M>: Send + 'static,
    MessageOf<M>: Into<ProtocolMessage> + TryFrom<ProtocolMessage> + Send,
    Part<Timer, M::Timer>: Send,
    Fact<Item<M>>: Wire + Send,
    Part<LogEvent, M::Event>: Send,
{
    type Kind = (M::Kind, LogOptions);

    fn build(
        (kind, log): Self::Kind,
        placement: &Placement,
        memberships: Groups,
        boot: Boot,
        records: Vec<Self::Record>,
    ) -> Result<Self, LogError> {
        let group = memberships.size;
        let config = Config {
            me: placement.replica,
            membership: Membership::first(group),
            boot: match boot {
                Boot::Initialise => quorate_log::Boot::Initialise,
                Boot::Rejoin => quorate_log::Boot::Recover,
            },
            timing: log.timing,
            limits: log.limits,
            snapshot_bytes: log.snapshot_bytes,
            rules: Rules::CORRECT,
            machine: M::config(kind, placement, group)?,
        };
        Ok(Member::restore(config, records))
    }

    fn asleep_since_creation(
        placement: &Placement,
        view: View,
    ) -> Result<Option<Vec<Self::Record>>, LogError> {
        if !M::ACCEPTS_LOSS {
            return Ok(None);
        }
        Ok(Some(Fact::asleep_since_creation(Membership::first(placement.founders), view)))
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
            prepared: self.machine().prepared(),
            record_len: self.machine().record_len(),
            recoveries: self.machine().recoveries(),
        }
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        self.machine().load(client)
    }

    fn is_idle(&self) -> bool {
        self.machine().is_idle()
    }

    fn decided(&self) -> (u64, u64) {
        self.machine().decided()
    }

    /// Who the members of a log are stands in the log itself.
    fn change_groups(_: &Groups) -> Option<Self::Command> {
        None
    }

    fn news(event: &Self::Event) -> Option<News> {
        match event {
            Part::Log(LogEvent::Normal { view }) => Some(News::Normal(*view)),
            Part::Log(LogEvent::ViewChanging { view }) => Some(News::ViewChanging(*view)),
            Part::Log(LogEvent::Recovering) => Some(News::Recovering),
            Part::Log(LogEvent::Lost { lost }) => Some(News::Lost(*lost)),
            Part::Log(LogEvent::Leading { view }) => Some(News::Leading(*view)),
            Part::Log(LogEvent::Retired { epoch }) => Some(News::Outdated(*epoch)),
            // Who leads no longer says next what it does instead; nobody tells a log of this node to change its group.
            Part::Log(LogEvent::Deposed | LogEvent::HandedOver) | Part::Own(_) => None,
        }
    }
}
