//! How a replica on a log is hosted: the log's share is the same for all machines.

use std::fmt::Debug;

use quorate_core::attic::Memory;
use quorate_core::changes::{self, Position};
use quorate_core::command::Outcome;
use quorate_core::hosted::{
    Admission, Consultation, HandedOver, Health, Held, Holdings, HostedOnLog, HostedReplica, News, Seat,
    SiteLag, Speculating, StoredVersion, Urgency,
};
use quorate_core::landmark::{FewKeys, Landmark};
use quorate_core::log::LogMachine;
use quorate_core::topology::SiteChanges;
use quorate_core::verify::{Answer, Pace, Request};
use quorate_core::{
    ClientId, ClockTime, Epoch, GroupSize, Groups, Instant, Machine, ReplicaId, ShardId, Timestamp,
    TransactionId, View,
};

use super::{Config, LogCommand, LogEvent, Member, Part};
use crate::{Boot, Fact, Limits, Membership, Rules, Status, Timing};

impl<C> Config<C> {
    /// The settings of a member whose seat is not known yet.
    pub fn unseated(timing: Timing, limits: Limits, snapshot_bytes: u64, rules: Rules, machine: C) -> Self {
        let (me, membership) = (Default::default(), Membership::first(GroupSize::ONE));
        let (boot, pace) = (Boot::Initialise, Pace::DEFAULT);
        Config { me, membership, boot, timing, limits, pace, snapshot_bytes, rules, machine }
    }
}

/// The replicas of a group as its log counts them: by the epoch since which they are its members.
///
/// # Panics
/// If they are no group, which [`Groups`] rules out.
fn membership(groups: &Groups, shard: ShardId) -> Membership {
    let present = groups.succession(shard).present;
    match Membership::new(present.since, present.members.iter().collect()) {
        Ok(membership) => membership,
        Err(error) => panic!("{shard} has members that are no group: {error}"),
    }
}

impl<M: HostedOnLog> HostedReplica for Member<M> {
    const NEEDS_SHARDS: bool = M::NEEDS_SHARDS;
    const ACCEPTS_LOSS: bool = M::ACCEPTS_LOSS;

    /// A log that has begun says itself who its members are.
    fn seated(config: Config<M::Config>, seat: &Seat) -> Config<M::Config> {
        let membership = membership(&seat.groups, seat.replica.shard);
        let boot = match seat.boot {
            quorate_core::hosted::Boot::Initialise if membership.epoch() == Epoch::FIRST => Boot::Initialise,
            // A replica that has not begun by then has said nothing in the first group either.
            quorate_core::hosted::Boot::Initialise => Boot::Join,
            quorate_core::hosted::Boot::Rejoin => Boot::Recover,
        };
        let machine = M::seated(config.machine, seat);
        Config { me: seat.replica, membership, boot, machine, ..config }
    }

    fn asleep_since_creation(seat: &Seat, view: View, life: u64) -> Option<Vec<<Self as Machine>::Record>> {
        let Seat { replica, groups, .. } = seat;
        Fact::asleep_since_creation(membership(groups, replica.shard), replica.index, (view, life))
    }

    fn next_life(&self) -> Option<u64> {
        self.replica().next_life()
    }

    fn health(&self) -> Health {
        Health {
            status: self.replica().status(),
            view: self.replica().view(),
            arrived: self.replica().arrived(),
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
        self.machine().is_idle(self.leading().is_some())
    }

    fn decided(&self) -> (u64, u64) {
        self.machine().decided()
    }

    /// The leader of the log sees to it that an entry names the next group.
    fn change_groups(groups: &Groups, shard: ShardId) -> Vec<<Self as Machine>::Command> {
        let membership = membership(groups, shard);
        let of_log = (membership.epoch() > Epoch::FIRST).then_some(LogCommand::ChangeGroup(membership));
        of_log.map(Part::Log).into_iter().chain(M::change_groups(groups).map(Part::Own)).collect()
    }

    fn meet(neighbours: &[ReplicaId]) -> Option<<Self as Machine>::Command> {
        M::meet(neighbours).map(Part::Own)
    }

    fn declare_lost(shard: ShardId) -> Option<<Self as Machine>::Command> {
        M::declare_lost(shard).map(Part::Own)
    }

    fn give_way() -> Option<<Self as Machine>::Command> {
        Some(Part::Log(LogCommand::GiveWay))
    }

    fn lost_shards(&self) -> Vec<ShardId> {
        self.machine().lost_shards()
    }

    fn lags(&self, now: Instant) -> Vec<SiteLag> {
        self.machine().lags(now)
    }

    fn handed_over(&self) -> Option<HandedOver> {
        self.machine().handed_over()
    }

    fn speculating(&self) -> Option<Speculating> {
        self.machine().speculating()
    }

    fn verify(request: Request) -> Option<<Self as Machine>::Command> {
        Some(Part::Log(LogCommand::Verify(request)))
    }

    fn verified(&self, request: &Request) -> Answer {
        Member::verified(self, request)
    }

    fn changes(&self, request: &changes::Request<Position>) -> changes::Answer<Position> {
        match self.replica().status() {
            Status::Recovering => changes::Answer::unable("it learns from the others what it has lost"),
            Status::Retired => changes::Answer::unable("it is no member of its group any more"),
            Status::Normal | Status::ViewChanging if self.leading().is_some() => {
                self.machine().changes(request)
            }
            // A log may say nothing for long of what is certain by now.
            Status::Normal | Status::ViewChanging if request.from.is_none() => {
                changes::Answer::unable("another replica leads, and knows where a consumer begins")
            }
            Status::Normal | Status::ViewChanging => match self.machine().changes(request) {
                // The leader may be able to bring a consumer on even where nothing is appended.
                changes::Answer::Page(page) if request.from.as_ref() == Some(&page.to) => {
                    changes::Answer::unable("another replica leads, and may know more")
                }
                answer => answer,
            },
        }
    }

    fn follow() -> Option<<Self as Machine>::Command> {
        M::follow().map(Part::Own)
    }

    fn retained(&self) -> changes::Retained {
        self.machine().retained()
    }

    fn consultation(event: &<Self as Machine>::Event) -> Option<&Consultation> {
        match event {
            Part::Own(event) => M::consultation(event),
            Part::Log(_) => None,
        }
    }

    fn answer(asked: Instant, changes: &SiteChanges) -> Option<<Self as Machine>::Command> {
        M::answer(asked, changes).map(Part::Own)
    }

    fn news(event: &<Self as Machine>::Event) -> Option<News> {
        let Part::Log(event) = event else { return None };
        match *event {
            LogEvent::Normal { view } => Some(News::Normal(view)),
            LogEvent::ViewChanging { view } => Some(News::ViewChanging(view)),
            LogEvent::Recovering => Some(News::Recovering),
            LogEvent::Lost { lost } => Some(News::Lost(lost)),
            LogEvent::Leading { view } => Some(News::Leading(view)),
            LogEvent::HandedOver => Some(News::Retired),
            LogEvent::Clock { error_micros } => Some(News::Clock(error_micros)),
            LogEvent::Deposed | LogEvent::Retired { .. } => None,
        }
    }

    /// Only replicas say what a log says, and from others it means nothing.
    fn admission(message: &<Self as Machine>::Message) -> Admission {
        match message {
            Part::Own(message) => M::admission(message),
            Part::Log(_) => Admission::of(Urgency::Always),
        }
    }

    fn adds(message: &<Self as Machine>::Message) -> bool {
        match message {
            Part::Own(message) => M::adds(message),
            Part::Log(_) => true,
        }
    }

    fn memory(&self) -> Option<Memory> {
        self.machine().memory()
    }

    fn is_awaited(&self, message: &<Self as Machine>::Message) -> bool {
        matches!(message, Part::Own(message) if self.machine().is_awaited(message))
    }

    fn has_open(&self, message: &<Self as Machine>::Message) -> bool {
        matches!(message, Part::Own(message) if self.machine().has_open(message))
    }

    fn landmark_received(message: &<Self as Machine>::Message, own: ShardId) -> Option<Landmark> {
        match message {
            Part::Own(message) => M::landmark_received(message, own),
            Part::Log(_) => None,
        }
    }

    fn landmark_sent(message: &<Self as Machine>::Message) -> Option<Landmark> {
        match message {
            Part::Own(message) => M::landmark_sent(message),
            Part::Log(_) => None,
        }
    }

    fn keys_written(message: &<Self as Machine>::Message) -> FewKeys {
        match message {
            Part::Own(message) => M::keys_written(message),
            Part::Log(_) => FewKeys::default(),
        }
    }
}

impl<M: LogMachine + Holdings> Holdings for Member<M>
where
    Member<M>: Debug,
{
    fn held(&self) -> Vec<Held> {
        self.machine().held()
    }

    fn waiting(&self) -> usize {
        self.machine().waiting()
    }

    fn settles(&self) -> bool {
        self.machine().settles()
    }

    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        self.machine().outcomes()
    }

    fn outcome(&self, transaction: TransactionId) -> Option<Outcome> {
        self.machine().outcome(transaction)
    }

    fn floor(&self) -> Timestamp {
        self.machine().floor()
    }

    fn has_collected(&self, ended: ClockTime) -> bool {
        self.machine().has_collected(ended)
    }

    fn reached(&self) -> Option<ClockTime> {
        self.machine().reached()
    }

    fn versions(&self) -> Vec<StoredVersion> {
        self.machine().versions()
    }

    fn version_count(&self) -> usize {
        self.machine().version_count()
    }

    fn left(&self) -> Vec<(&'static str, usize)> {
        self.machine().left()
    }

    fn recorded(&self) -> usize {
        self.machine().recorded()
    }

    fn state_bytes(&self) -> u64 {
        self.machine().state_bytes()
    }
}
