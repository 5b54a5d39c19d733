//! The systems that can be simulated: what whoever runs a simulation has to know of a protocol.
//!
//! Everything else in this crate is the same for all of them: what is drawn, what goes wrong, what clients do and what is
//! judged. So whatever is measured or proved of one is measured and proved of the others in the same way.
//!
//! | file | role |
//! |---|---|
//! | [`strict`] | `strict` keyspaces: TAPIR over inconsistent replication |
//! | [`serializable`] | `serializable` keyspaces: Granola, on replicated logs |
//! | [`baselines`] | the systems that the papers compare themselves with, on replicated logs |
//! | [`qwstore`] | the quorum store without transactions that it compares itself with |
//! | [`configuration`] | the configuration service |
//! | `on_log` | what systems on replicated logs have in common |
//! | `frames` | messages as bytes, and damage to them |

pub mod baselines;
pub mod configuration;
pub(crate) mod frames;
mod on_log;
pub mod qwstore;
pub mod serializable;
pub mod strict;

use std::fmt::{self, Debug};
use std::time::Duration;

use quorate_checker::Level;
use quorate_core::command::{Command, Event, Outcome};
use quorate_core::comparison::Rival;
use quorate_core::topology::Isolation;
use quorate_core::verify::{Answer, Request};
use quorate_core::{
    ClientId, ClockTime, Epoch, GroupSize, Groups, Machine, Random, ReplicaId, ReplicaIndex, ShardId,
    Timestamp, TransactionId, View,
};
use quorate_serializable_coordinator::Event as Told;

use crate::amnesia;
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::invariants::{Broken, Finding, StoredVersion};
use crate::options::{Faults, Options};
use crate::world::Protocol;
use baselines::Baseline;
use configuration::ConfigurationService;
use qwstore::QwStore;
use serializable::Serializable;
use strict::Strict;

/// A system that can be simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemKind {
    /// The keyspaces whose isolation is `strict`.
    #[default]
    Strict,
    /// The keyspaces whose isolation is `serializable`.
    Serializable,
    /// A comparison system.
    Baseline(quorate_baselines::System),
    /// The quorum store without transactions.
    QwStore,
    /// The configuration service.
    Configuration,
}

impl SystemKind {
    /// Every system.
    pub fn all() -> impl Iterator<Item = SystemKind> {
        let baselines = quorate_baselines::System::ALL.map(SystemKind::Baseline);
        let others = [SystemKind::QwStore, SystemKind::Configuration];
        [SystemKind::Strict, SystemKind::Serializable].into_iter().chain(baselines).chain(others)
    }

    /// Its name: that of the isolation, or of the comparison system.
    pub const fn name(self) -> &'static str {
        match self {
            SystemKind::Strict => "strict",
            SystemKind::Serializable => "serializable",
            SystemKind::Baseline(system) => system.name(),
            SystemKind::QwStore => Rival::QwStore.name(),
            SystemKind::Configuration => "configuration",
        }
    }

    /// What it is, in a few words.
    pub const fn what(self) -> &'static str {
        match self {
            SystemKind::Strict => "strict keyspaces: TAPIR",
            SystemKind::Serializable => "serializable keyspaces: Granola",
            SystemKind::Baseline(system) => system.what(),
            SystemKind::QwStore => Rival::QwStore.what(),
            SystemKind::Configuration => "the configuration service",
        }
    }

    /// The option of `quorate sim` that chooses it.
    pub fn option(self) -> String {
        match self {
            SystemKind::Strict | SystemKind::Serializable => format!("--isolation {self}"),
            SystemKind::Baseline(_) | SystemKind::QwStore => format!("--baseline {self}"),
            SystemKind::Configuration => "--configuration".to_owned(),
        }
    }

    /// True if the replicas of its groups are replaced while it is simulated.
    pub const fn changes_groups(self) -> bool {
        match self {
            SystemKind::Strict => Strict::CHANGES_GROUPS,
            SystemKind::Serializable => Serializable::CHANGES_GROUPS,
            SystemKind::Baseline(_) => Baseline::CHANGES_GROUPS,
            SystemKind::QwStore => QwStore::CHANGES_GROUPS,
            SystemKind::Configuration => ConfigurationService::CHANGES_GROUPS,
        }
    }

    /// The bugs that can be planted in it, and in its hosts.
    pub fn plants(self) -> Vec<Planted> {
        let mut plants = match self {
            SystemKind::Strict => strict::plants(),
            SystemKind::Serializable => serializable::plants(),
            SystemKind::Baseline(system) => baselines::plants_of(system),
            SystemKind::QwStore => qwstore::plants(),
            SystemKind::Configuration => configuration::plants(),
        };
        plants.extend(amnesia::plants(self));
        plants
    }
}

impl fmt::Display for SystemKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A bug that can be planted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planted {
    /// In which system.
    pub system: SystemKind,
    /// Its name.
    pub id: &'static str,
    /// What goes wrong, in a sentence.
    pub what: &'static str,
    /// Where the broken rule stands in the paper.
    pub section: &'static str,
    /// True if few seeds of this system reach it. Others take too many coincidences, and are played by golden scripts or tests
    /// of the rule itself; or another system is hunted for them.
    pub is_hunted: bool,
    /// The faults under which it shows soonest.
    pub suited_faults: Faults,
}

/// What is known of a scenario when its machines are set up.
#[derive(Clone, Copy, Debug)]
pub struct Sketch<'a> {
    /// The seed.
    pub seed: u64,
    /// What is asked for.
    pub options: &'a Options,
    /// Replicas of each shard.
    pub group: GroupSize,
    /// The longest way there and back, without jitter.
    pub round_trip: Duration,
}

/// Which replica a server is, and how it begins.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The replica.
    pub replica: ReplicaId,
    /// True if it is new: that it has no records is as it should be.
    pub is_new: bool,
    /// Who the replicas are, as far as its host knows.
    pub groups: Groups,
    /// The shards of the keyspace.
    pub shards: Shards,
}

/// The shards of a keyspace, whose ids follow each other. Those of groups that hold none of its keys come next.
#[derive(Clone, Copy, Debug)]
pub struct Shards {
    /// The first.
    pub first: ShardId,
    /// How many there are.
    pub count: u32,
}

/// What a server tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It takes part in its group, and has all of its records. The members have been as they are since this epoch.
    Serves(Epoch),
    /// So many replicas of its group have lost their records, it believes: more than may be.
    Lost(usize),
    /// Somebody speaks under a later membership.
    Outdated,
    /// It is no member any more, and nobody needs it.
    Retired,
    /// Something that makes no sense here.
    Nonsense,
    /// Something else.
    Other,
}

/// A transaction whose keys a server holds.
#[derive(Clone, Debug)]
pub struct Held {
    /// The transaction.
    pub id: TransactionId,
    /// Every shard that takes part in it.
    pub participants: Vec<ShardId>,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// It was not sent before.
    pub not_before: Timestamp,
}

/// A protocol that can be simulated.
pub trait System:
    Protocol<
        Server: Machine<Command: Debug>,
        Client: Machine<Command: From<Command>, Event: Into<Told> + TryInto<Event>>,
    > + Copy
    + Debug
    + 'static
{
    /// How its machines are set up.
    type Settings: Clone + Debug;
    /// A client that lies.
    type Hostile: Hostile<Self>;
    /// What has been seen of it while it runs.
    type Inspector: Debug + Default;

    /// True if whoever has committed at a timestamp has read what lies below it. (That timestamps order the versions of each
    /// key is promised in any case.)
    const TIMESTAMPS_EXPLAIN_READS: bool;

    /// Transactions of a client have the numbers that can be divided by this; its machine uses others for what it does itself.
    const NUMBERS_APART: u64 = 1;

    /// True if it is one group, with each of its replicas in a site of its own.
    const IS_SPREAD: bool = false;

    /// The isolation of its keyspaces.
    const ISOLATION: Isolation = Isolation::Strict;

    /// True if the replicas of its groups can be replaced while it runs, and this is simulated.
    const CHANGES_GROUPS: bool = false;

    /// True if transactions of one client may have one timestamp, and stand in the order of their names then.
    const ORDERS_BY_NAME: bool = false;

    /// True if clients can ask for transactions that run in one round.
    const RUNS_ONE_ROUND: bool = false;

    /// Draws how its machines are set up.
    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Self::Settings;

    /// Makes limits and time-outs as small as can be, each if `shrinks` says so, so that what is rare elsewhere happens all
    /// the time.
    ///
    /// Two bounds stay. No timer runs out so often that nothing else happens: a time-out is no less than a share of a round
    /// trip. And what others would undo gets the time that it takes.
    fn shrink(settings: &mut Self::Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool);

    /// Which system it is that is set up like this.
    fn kind(settings: &Self::Settings) -> SystemKind;

    /// What histories are promised; none if nothing is. Then it is judged instead that acknowledged puts survive and that reads
    /// return what somebody has put, and what the levels find in its histories is reported and is no violation.
    fn level(settings: &Self::Settings) -> Option<Level>;

    /// The time-outs of its machines: links that fail in step with one of them are the worst.
    fn timeouts(settings: &Self::Settings) -> Vec<Duration>;

    /// After so long others settle what a coordinator has left behind.
    fn recovery_timeout(settings: &Self::Settings) -> Duration;

    /// True if a client that comes back goes by the same name as before: a planted bug.
    fn reuses_client_ids(settings: &Self::Settings) -> bool;

    /// True if what has ended is forgotten while a simulation lasts.
    fn collects(settings: &Self::Settings) -> bool;

    /// Builds a server from what its disk holds.
    fn server(
        settings: &Self::Settings,
        seat: Seat,
        records: Vec<<Self::Server as Machine>::Record>,
    ) -> Self::Server;

    /// Builds a client.
    fn client(settings: &Self::Settings, id: ClientId, shards: Shards) -> Self::Client;

    /// Who runs the keyspace in place of its isolation's protocol, if it is a comparison system.
    fn rival(settings: &Self::Settings) -> Option<Rival> {
        let _ = settings;
        None
    }

    /// How many groups it has beside those that hold the keys of the keyspace.
    fn services(settings: &Self::Settings) -> usize {
        usize::from(Self::rival(settings).is_some_and(Rival::has_service))
    }

    /// How a coordinator is asked for something about a one-round transaction; none if there are no such transactions.
    fn one_round(
        command: quorate_serializable_coordinator::Command,
    ) -> Option<<Self::Client as Machine>::Command> {
        let _ = command;
        None
    }

    /// How often a client has found out that participants of a transaction differ in what they have executed.
    fn alarms(client: &Self::Client) -> u64 {
        let _ = client;
        0
    }

    /// What a server of a shard is told when the replicas of groups change; nothing if its system changes no groups.
    fn change_groups(groups: &Groups, shard: ShardId) -> Vec<<Self::Server as Machine>::Command> {
        let _ = (groups, shard);
        Vec::new()
    }

    /// True if whoever defines an epoch does not wait until the groups have arrived in the one before: a planted bug.
    fn defines_epochs_early(settings: &Self::Settings) -> bool {
        let _ = settings;
        false
    }

    /// What a server is told if an operator compares what replicas hold; none if they are alike at no point that could be named.
    fn verify(request: Request) -> Option<<Self::Server as Machine>::Command> {
        let _ = request;
        None
    }

    /// What the operator is answered.
    fn verified(server: &Self::Server, request: &Request) -> Answer {
        let _ = (server, request);
        Answer::unable("it is never asked")
    }

    /// What a server tells of itself.
    fn news(event: &<Self::Server as Machine>::Event) -> News;

    /// Up to where the timestamps of a server's group have come, where its leader chooses them by a clock.
    fn reached(server: &Self::Server) -> Option<ClockTime> {
        let _ = server;
        None
    }

    /// True if a server leads its group.
    fn leads(server: &Self::Server) -> bool {
        let _ = server;
        false
    }

    /// How long a leader whose clock is off takes to hand over, beside some round trips; none if there are no leaders.
    fn hands_over_within(settings: &Self::Settings) -> Option<Duration> {
        let _ = settings;
        None
    }

    /// What keeps a server from taking part in its group, in a few words; nothing, if it does take part.
    fn ailment(server: &Self::Server) -> Option<String>;

    /// The transactions whose keys it holds.
    fn held(server: &Self::Server) -> Vec<Held>;

    /// How many requests it lets wait.
    fn waiting(server: &Self::Server) -> usize;

    /// True if it settles what a coordinator has left behind.
    fn settles(server: &Self::Server) -> bool;

    /// What it knows of the outcome of a transaction.
    fn outcome(server: &Self::Server, transaction: TransactionId) -> Option<Outcome>;

    /// The outcomes that it knows.
    fn outcomes(server: &Self::Server) -> Vec<(TransactionId, Outcome)>;

    /// Below this timestamp versions may have been collected.
    fn floor(server: &Self::Server) -> Timestamp;

    /// The versions that it holds, ascending by key and timestamp.
    fn versions(server: &Self::Server) -> Vec<StoredVersion>;

    /// How many versions it holds.
    fn version_count(server: &Self::Server) -> usize;

    /// What it keeps although it has ended, by kind.
    fn left(server: &Self::Server) -> Vec<(&'static str, usize)>;

    /// How many transactions it keeps a record of.
    fn recorded(server: &Self::Server) -> usize;

    /// How many bytes its log may take at rest; none if no simulation lasts long enough to tell.
    fn log_bytes_max(settings: &Self::Settings, server: &Self::Server) -> Option<u64>;

    /// What a client that has lost track of a transaction asks its shards, so that they settle it; none if it cannot.
    fn ask_to_settle(held: &Held) -> Option<Self::Message>;

    /// Looks at a cluster while it runs, again and again; gives what is wrong that no history shows.
    fn inspect(inspector: &mut Self::Inspector, cluster: &Cluster<Self>) -> Vec<Broken> {
        let _ = (inspector, cluster);
        Vec::new()
    }

    /// What was seen to be wrong while it ran, and is told only if nothing else is wrong.
    fn conclude(inspector: &Self::Inspector) -> Finding {
        let _ = inspector;
        Finding::Holds
    }

    /// What has happened to it so far that shows how much it was put to, in a few words each, and how often.
    fn happened(inspector: &Self::Inspector) -> Vec<(&'static str, u64)> {
        let _ = inspector;
        Vec::new()
    }

    /// What this other replica of its group would say that has gone on to a view so far ahead; none if nothing that is harmless
    /// makes the server follow.
    fn hint_view(server: &Self::Server, from: ReplicaIndex, far: Far) -> Option<Self::Message>;
}

/// How far ahead of a replica's view another lies that it hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Far {
    /// It is the next.
    Next,
    /// It is the last of the epoch.
    LastOfEpoch,
    /// It is the last of all.
    Last,
}

impl Far {
    /// The view; none if none is left.
    pub(crate) fn from(self, view: View) -> Option<View> {
        match self {
            Far::Next => view.next(),
            Far::LastOfEpoch => Some(View(View::first_of(view.epoch()).0 + u64::from(u32::MAX))),
            Far::Last => Some(View(u64::MAX)),
        }
    }
}

/// A client that says whatever a client can say, true or not. All other transactions must stay right and come to an end, and
/// so must its own: what they hold is in the way of others.
pub trait Hostile<S: System>: Sized {
    /// A client that has done nothing yet.
    fn new(random: Random) -> Self;

    /// Does something that no client should do.
    fn attack(&mut self, cluster: &mut Cluster<S>);

    /// True if what a shard knows of the outcome of a transaction means anything to others.
    fn leaves_alone(&self, transaction: TransactionId, shard: ShardId) -> bool;
}

/// What the keys of hostile clients begin with; those of workloads never do.
pub const HOSTILE_KEYS: u8 = b'~';

/// True if only hostile clients write this key.
pub fn is_hostile_key(key: &[u8]) -> bool {
    key.first() == Some(&HOSTILE_KEYS)
}

/// Makes a limit smaller, if it is to be.
pub(crate) fn shrink_to<T: PartialOrd>(limit: &mut T, to: T, shrinks: bool) {
    if shrinks && to < *limit {
        *limit = to;
    }
}

/// The faults by name.
pub(crate) fn named(faults: &[Fault]) -> Faults {
    let mut faults = faults.to_vec();
    // As on the command line, so that what is printed to repeat a seed does so.
    faults.sort_unstable();
    Faults::Named(faults)
}
