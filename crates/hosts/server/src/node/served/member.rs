//! Replicas of machines that stand on a replicated log: what is the log's is the same for all of them.

use quorate_core::log::LogMachine;
use quorate_core::verify::{Answer, Request};
use quorate_core::{ClientId, Epoch, Groups, Machine, ShardId, View};
use quorate_log::member::{Config, ItemOf, MessageOf};
use quorate_log::{Fact, LogCommand, LogEvent, Member, Membership, Part, Rules, Status, Timer};
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
    fn config(kind: Self::Kind, placement: &Placement) -> Result<Self::Config, LogError>;

    /// What the machine itself is told if the replicas of its keyspace change.
    fn change_groups(memberships: &Groups) -> Option<Self::Command>;

    /// As [`Served::declare_lost`].
    fn declare_lost(_: ShardId) -> Option<Self::Command> {
        None
    }

    /// As [`Served::lost_shards`].
    fn lost_shards(&self) -> Vec<ShardId> {
        Vec::new()
    }

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
    Fact<ItemOf<M>>: Wire + Send,
    Part<LogEvent, M::Event>: Send,
{
    type Kind = (M::Kind, LogOptions);

    fn build(
        (kind, log): Self::Kind,
        placement: &Placement,
        knows_better: bool,
        boot: Boot,
        records: Vec<Self::Record>,
    ) -> Result<Self, LogError> {
        // A log that has begun says itself who its members are.
        let is_founder = placement.created_in == Epoch::FIRST;
        let membership = if knows_better && is_founder {
            Membership::first(placement.founders)
        } else {
            membership(&placement.memberships, placement.replica.shard)
        };
        let config = Config {
            me: placement.replica,
            boot: match boot {
                Boot::Initialise if membership.epoch() == Epoch::FIRST => quorate_log::Boot::Initialise,
                Boot::Initialise => quorate_log::Boot::Join,
                Boot::Rejoin => quorate_log::Boot::Recover,
            },
            membership,
            timing: log.timing,
            limits: log.limits,
            snapshot_bytes: log.snapshot_bytes,
            rules: Rules::CORRECT,
            machine: M::config(kind, placement)?,
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
        let membership = membership(&placement.memberships, placement.replica.shard);
        let asleep = Fact::asleep_since_creation(membership, view);
        asleep.map(Some).ok_or(LogError::NoViewLeft { view })
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
            clock_error_micros: self.replica().clock_error_micros(),
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

    /// Whoever leads the log sees to it that an entry names the next group.
    fn change_groups(memberships: &Groups, shard: ShardId) -> Vec<Self::Command> {
        let membership = membership(memberships, shard);
        let log = Part::Log(LogCommand::ChangeGroup(membership.clone()));
        let log = (membership.epoch() > Epoch::FIRST).then_some(log);
        log.into_iter().chain(M::change_groups(memberships).map(Part::Own)).collect()
    }

    fn declare_lost(shard: ShardId) -> Option<Self::Command> {
        M::declare_lost(shard).map(Part::Own)
    }

    fn lost_shards(&self) -> Vec<ShardId> {
        self.machine().lost_shards()
    }

    fn verify(request: Request) -> Option<Self::Command> {
        Some(Part::Log(LogCommand::Verify(request)))
    }

    fn verified(&self, request: &Request) -> Answer {
        Member::verified(self, request)
    }

    fn news(event: &Self::Event) -> Option<News> {
        match event {
            Part::Log(LogEvent::Normal { view }) => Some(News::Normal(*view)),
            Part::Log(LogEvent::ViewChanging { view }) => Some(News::ViewChanging(*view)),
            Part::Log(LogEvent::Recovering) => Some(News::Recovering),
            Part::Log(LogEvent::Lost { lost }) => Some(News::Lost(*lost)),
            Part::Log(LogEvent::Leading { view }) => Some(News::Leading(*view)),
            Part::Log(LogEvent::Retired { epoch }) => Some(News::Outdated(*epoch)),
            Part::Log(LogEvent::HandedOver) => Some(News::Retired),
            Part::Log(LogEvent::Clock { error_micros }) => Some(News::Clock(*error_micros)),
            // Who leads no longer says next what it does instead.
            Part::Log(LogEvent::Deposed) | Part::Own(_) => None,
        }
    }
}

/// Who the members of a group are, as its log has it: counted by the epoch since which they are that.
fn membership(memberships: &Groups, shard: ShardId) -> Membership {
    let present = memberships.succession(shard).present;
    match Membership::new(present.since, present.members.iter().collect()) {
        Ok(membership) => membership,
        Err(error) => unreachable!("they are a group: {error}"),
    }
}
