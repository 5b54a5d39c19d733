//! The systems that can be simulated: what a simulation has to know of a protocol.
//!
//! Everything else in this crate is the same for all of them: what is drawn, what goes wrong, what clients do and what is
//! judged. So everything that is measured or proved of one is measured and proved of the others in the same way.
//!
//! | file | role |
//! |---|---|
//! | [`strict`] | `strict` keyspaces: TAPIR over inconsistent replication |
//! | [`serializable`] | `serializable` keyspaces: Granola, on replicated logs |
//! | [`parallel_snapshot`] | `parallel-snapshot` keyspaces: Walter, in local sites on replicated logs |
//! | [`snapshot`] | `snapshot` keyspaces: STR, in homes and shards on replicated logs |
//! | [`baselines`] | the systems that the papers compare themselves with, on replicated logs |
//! | [`qwstore`] | the quorum store without transactions that it compares itself with |
//! | [`configuration`] | the configuration service |
//! | `on_log`, `on_ir` | the common parts of systems on replicated logs, and on inconsistent replication |
//! | `frames` | messages as bytes, and damage to them |
//! | `later` | messages as a later version says them |

pub mod baselines;
pub mod configuration;
pub mod frames;
mod later;
mod on_ir;
mod on_log;
pub mod parallel_snapshot;
pub mod qwstore;
pub mod serializable;
pub mod snapshot;
pub mod strict;

use std::fmt::{self, Debug};
use std::time::Duration;

use bytes::BytesMut;
use quorate_checker::Level;
use quorate_core::changes::Position;
use quorate_core::command::AtSite;
use quorate_core::comparison::Rival;
use quorate_core::hosted::{Admission, Held, Holdings, HostedCoordinator, HostedReplica, Shards};
use quorate_core::invariant::Violation;
use quorate_core::rules::{Bug, Hunt, Plants, Suited};
use quorate_core::topology::{Isolation, Timestamping};
use quorate_core::{
    ClientId, ClockTime, Epoch, GroupSize, Machine, Random, ReplicaIndex, ShardId, Timestamp, TransactionId,
    View,
};
use quorate_wire::{ProtocolMessage, Wire};

use crate::clients::Told;
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::hosts::HostPlant;
use crate::invariants::{Broken, Finding, Invariant};
use crate::options::{Faults, Options};
use crate::world::costs::Work;
use crate::world::trace::TraceHash;
use crate::world::{Envelope, Protocol, Sight};
use baselines::Baseline;
use configuration::ConfigurationService;
use frames::Carried;
use later::Layout;
use parallel_snapshot::ParallelSnapshot;
use qwstore::QwStore;
use serializable::Serializable;
use snapshot::Snapshot;
use strict::Strict;

/// A system that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemKind {
    /// The keyspaces of an isolation.
    Keyspace(Isolation),
    /// A comparison system.
    Rival(Rival),
    /// The configuration service.
    Configuration,
}

impl Default for SystemKind {
    fn default() -> Self {
        SystemKind::STRICT
    }
}

/// Something that is done for a system, whatever its protocol.
pub(crate) trait ForSystem {
    /// The result.
    type Output;

    /// Does it.
    fn run<S: System>(self) -> Self::Output;
}

impl SystemKind {
    /// The keyspaces whose isolation is `strict`.
    pub const STRICT: SystemKind = SystemKind::Keyspace(Isolation::Strict);

    /// The keyspaces whose isolation is `serializable`.
    pub const SERIALIZABLE: SystemKind = SystemKind::Keyspace(Isolation::Serializable);

    /// The keyspaces whose isolation is `parallel-snapshot`.
    pub const PARALLEL_SNAPSHOT: SystemKind = SystemKind::Keyspace(Isolation::ParallelSnapshot);

    /// The keyspaces whose isolation is `snapshot`.
    pub const SNAPSHOT: SystemKind = SystemKind::Keyspace(Isolation::Snapshot);

    /// Does something for this system: the one row of each protocol.
    pub(crate) fn visit<F: ForSystem>(self, work: F) -> F::Output {
        match self {
            SystemKind::Keyspace(Isolation::Strict) => work.run::<Strict>(),
            SystemKind::Keyspace(Isolation::Serializable) => work.run::<Serializable>(),
            SystemKind::Keyspace(Isolation::ParallelSnapshot) => work.run::<ParallelSnapshot>(),
            SystemKind::Keyspace(Isolation::Snapshot) => work.run::<Snapshot>(),
            SystemKind::Rival(Rival::OnLog(_)) => work.run::<Baseline>(),
            SystemKind::Rival(Rival::QwStore) => work.run::<QwStore>(),
            SystemKind::Configuration => work.run::<ConfigurationService>(),
        }
    }

    /// Every system.
    pub fn all() -> impl Iterator<Item = SystemKind> {
        let keyspaces = Isolation::ALL.into_iter().map(SystemKind::Keyspace);
        keyspaces.chain(Rival::ALL.into_iter().map(SystemKind::Rival)).chain([SystemKind::Configuration])
    }

    /// Its name: that of the isolation, or of the comparison system.
    pub const fn name(self) -> &'static str {
        match self {
            SystemKind::Keyspace(isolation) => isolation.name(),
            SystemKind::Rival(rival) => rival.name(),
            SystemKind::Configuration => "configuration",
        }
    }

    /// The system, in a few words.
    pub fn what(self) -> String {
        match self {
            SystemKind::Keyspace(isolation) => format!("{isolation} keyspaces: {}", isolation.protocol()),
            SystemKind::Rival(rival) => rival.what().to_owned(),
            SystemKind::Configuration => "the configuration service".to_owned(),
        }
    }

    /// The option of `quorate sim` that chooses it.
    pub fn option(self) -> String {
        match self {
            SystemKind::Keyspace(_) => format!("--isolation {self}"),
            SystemKind::Rival(_) => format!("--baseline {self}"),
            SystemKind::Configuration => "--configuration".to_owned(),
        }
    }

    /// True if the fault can strike it.
    pub fn can_strike(self, fault: Fault) -> bool {
        struct CanStrike(Fault);
        impl ForSystem for CanStrike {
            type Output = bool;

            fn run<S: System>(self) -> bool {
                can_strike::<S>(self.0)
            }
        }
        self.visit(CanStrike(fault))
    }

    /// True if the invariant is judged in it.
    pub fn judges(self, invariant: Invariant) -> bool {
        struct Judges(Invariant);
        impl ForSystem for Judges {
            type Output = bool;

            fn run<S: System>(self) -> bool {
                let has_evidence = self.0 != Invariant::Speculation || S::FACTS == Facts::Snapshots;
                has_evidence && !S::NOT_JUDGED.contains(&self.0)
            }
        }
        self.visit(Judges(invariant))
    }

    /// A bug of its machines, as hunts have to know it.
    ///
    /// # Panics
    /// If the bug is listed with faults that do not exist.
    pub fn planted<P: Plants>(self, plant: P) -> Planted {
        let Bug { id, section, what, hunt } = plant.bug();
        let (is_hunted, suited) = match hunt {
            Hunt::Scripted => (false, Suited::All),
            Hunt::Seeds { system, faults } => (system.is_none_or(|name| name == self.name()), faults),
        };
        let suited_faults = match suited {
            Suited::All => Faults::All,
            Suited::None => Faults::None,
            Suited::Named(names) => named(&names.iter().map(|name| fault_named(name)).collect::<Vec<_>>()),
        };
        Planted { system: self, id, what, section, is_hunted, suited_faults }
    }

    /// The bugs that can be planted in it, and in its hosts.
    pub fn plants(self) -> Vec<Planted> {
        struct OwnPlants(SystemKind);
        impl ForSystem for OwnPlants {
            type Output = Vec<Planted>;

            fn run<S: System>(self) -> Vec<Planted> {
                let of_log = if S::STANDS_ON_LOG { listed::<quorate_log::Plant>(self.0) } else { Vec::new() };
                [listed::<S::Plant>(self.0), of_log].concat()
            }
        }
        let mut plants = self.visit(OwnPlants(self));
        plants.extend(listed::<HostPlant>(self));
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
    /// The error, in a sentence.
    pub what: &'static str,
    /// Where the broken rule stands in the paper.
    pub section: &'static str,
    /// True if few seeds of this system reach it. Others take too many coincidences, and are played by golden scripts or tests
    /// of the rule itself; or another system is hunted for them.
    pub is_hunted: bool,
    /// The faults under which it shows soonest.
    pub suited_faults: Faults,
}

/// The bugs that can be planted in machines of one kind, as bugs of this system.
/// True if the fault can strike this system.
pub(crate) fn can_strike<S: System>(fault: Fault) -> bool {
    (S::CHANGES_GROUPS || fault != Fault::Membership)
        && (S::LOSES_SITES || fault != Fault::SiteLoss)
        && (S::LOSES_SHARDS || fault != Fault::ShardLoss)
        && (S::ACCEPTS_LOSSES || fault != Fault::AcceptedLoss)
        && (S::Server::KEEPS_VALUES_IN_ATTICS || fault != Fault::LowMemory)
        && (S::HAS_USERS || fault != Fault::Rights)
        && !S::CANNOT_STRIKE.contains(&fault)
}

fn listed<P: Plants>(system: SystemKind) -> Vec<Planted> {
    P::LIST.iter().map(|plant| system.planted(*plant)).collect()
}

/// # Panics
/// If there is no fault of this name.
fn fault_named(name: &str) -> Fault {
    match name.parse() {
        Ok(fault) => fault,
        Err(error) => panic!("a plant is hunted under faults that do not exist: {error}"),
    }
}

/// The part of a scenario that is known when its machines are set up.
#[derive(Clone, Copy, Debug)]
pub struct Sketch<'a> {
    /// The seed.
    pub seed: u64,
    /// The options of the simulation.
    pub options: &'a Options,
    /// Replicas of each shard.
    pub group: GroupSize,
    /// The longest way there and back, without jitter.
    pub round_trip: Duration,
}

/// How the machines of a system are set up.
#[derive(Clone, Debug)]
pub struct Settings<R, C> {
    /// Replicas, at whatever seat.
    pub replica: R,
    /// Clients, in whatever name.
    pub coordinator: C,
}

/// How the machines of this system are set up.
pub type SettingsOf<S> = Settings<<<S as Protocol>::Server as Machine>::Config, <S as System>::Coordinator>;

/// The messages of a protocol, as far as they differ from those of others. All of them travel and are stored as servers do it.
pub trait Messages: Sized {
    /// The messages of its participants.
    type Message: Carried + Debug + Wire;
    /// The machine that keeps data.
    type Server: HostedReplica<
            Message = Self::Message,
            Timer: Debug,
            Record: Debug + Wire,
            Event: Debug,
            Command: Debug,
        >;
    /// The machine inside a client.
    type Client: Machine<Message = Self::Message, Timer: Debug, Record: Debug, Event: Debug, Command: Debug>;

    /// As [`Protocol::Witness`].
    type Witness: Default;

    /// As [`Protocol::assert_invariants`].
    fn assert_invariants(server: &Self::Server) {
        let _ = server;
    }

    /// As [`Protocol::assert_whole`].
    fn assert_whole(server: &Self::Server) {
        let _ = server;
    }

    /// As [`Protocol::show`].
    fn show(witness: &mut Self::Witness, sight: &Sight<'_, Self>, found: &mut Vec<Violation>) {
        let _ = (witness, sight, found);
    }

    /// As [`Protocol::name`].
    fn name(message: &Self::Message) -> String;

    /// As [`Protocol::coordinates`].
    fn coordinates(message: &Self::Message) -> bool;

    /// As [`Protocol::is_new`].
    fn is_new(message: &Self::Message) -> bool {
        let _ = message;
        false
    }

    /// As [`Protocol::digest`].
    fn digest(message: &Self::Message, hash: &mut TraceHash) {
        frames::digest(message, hash);
    }

    /// As [`Protocol::work`].
    fn work(receiver: Option<&Self::Server>, message: &Self::Message) -> Work;

    /// As [`Protocol::command_work`].
    fn command_work(command: &<Self::Client as Machine>::Command) -> Work;
}

impl<M: Messages> Protocol for M {
    type Message = M::Message;
    type Server = M::Server;
    type Client = M::Client;

    type Witness = M::Witness;
    type Later = Layout;

    fn assert_invariants(server: &M::Server) {
        <M as Messages>::assert_invariants(server);
    }

    fn assert_whole(server: &M::Server) {
        <M as Messages>::assert_whole(server);
    }

    fn show(witness: &mut M::Witness, sight: &Sight<'_, M>, found: &mut Vec<Violation>) {
        <M as Messages>::show(witness, sight, found);
    }

    fn name(message: &M::Message) -> String {
        <M as Messages>::name(message)
    }

    fn coordinates(message: &M::Message) -> bool {
        <M as Messages>::coordinates(message)
    }

    fn digest(message: &M::Message, hash: &mut TraceHash) {
        <M as Messages>::digest(message, hash);
    }

    fn admission(message: &M::Message) -> Admission {
        M::Server::admission(message)
    }

    fn is_awaited(server: &M::Server, message: &M::Message) -> bool {
        server.is_awaited(message)
    }

    fn has_open(server: &M::Server, message: &M::Message) -> bool {
        server.has_open(message)
    }

    fn load(server: &M::Server, client: Option<ClientId>) -> usize {
        server.load(client)
    }

    fn carry(envelope: Envelope<M::Message>) -> Envelope<M::Message> {
        frames::carry(envelope)
    }

    fn carry_from_later(
        envelope: Envelope<M::Message>,
        later: &Layout,
        random: &mut Random,
    ) -> Envelope<M::Message> {
        later.carry(envelope, random)
    }

    fn is_new(message: &M::Message) -> bool {
        <M as Messages>::is_new(message)
    }

    fn to_wire(message: &M::Message) -> Option<ProtocolMessage> {
        Some(message.clone().into())
    }

    fn from_wire(message: ProtocolMessage) -> Option<M::Message> {
        M::Message::try_from(message).ok()
    }

    fn damage(envelope: &Envelope<M::Message>, random: &mut Random) {
        frames::damage(envelope, random);
    }

    fn size(envelope: &Envelope<M::Message>) -> usize {
        frames::size(envelope)
    }

    fn work(receiver: Option<&M::Server>, message: &M::Message) -> Work {
        <M as Messages>::work(receiver, message)
    }

    fn command_work(command: &<M::Client as Machine>::Command) -> Work {
        <M as Messages>::command_work(command)
    }

    fn encode_record(epoch: Epoch, record: &<M::Server as Machine>::Record, out: &mut BytesMut) {
        quorate_wire::encode_record(epoch, record, out);
    }

    fn decode_record(bytes: &[u8]) -> <M::Server as Machine>::Record {
        match quorate_wire::decode_record(bytes) {
            Ok((_, record)) => record,
            Err(error) => unreachable!("a record that a replica has written can be read: {error}"),
        }
    }
}

/// A protocol that can be simulated.
pub trait System:
    Protocol<
        Server: HostedReplica<Config: Clone + Debug, Command: Debug> + Holdings,
        Client: HostedCoordinator,
    > + Copy
    + Debug
    + 'static
{
    /// How its clients are set up.
    type Coordinator: Clone + Debug;
    /// The bugs that can be planted in its machines.
    type Plant: Plants;
    /// A client that lies.
    type Hostile: Hostile<Self>;
    /// The observations of it while it runs.
    type Inspector: Debug + Default;

    /// The facts of servers about transactions that explain their reads.
    const FACTS: Facts;

    /// True if clients can read at a timestamp that has passed.
    const READS_THE_PAST: bool = true;

    /// True if timestamps order the versions of each key.
    const TIMESTAMPS_ORDER_WRITES: bool = true;

    /// Transactions of a client have the numbers that can be divided by this; its machine uses others for what it does itself.
    const NUMBERS_APART: u64 = 1;

    /// True if it is one group, with each of its replicas in a site of its own.
    const IS_SPREAD: bool = false;

    /// The isolation of its keyspaces.
    const ISOLATION: Isolation = Isolation::Strict;

    /// True if the replicas of its groups can be replaced while it runs, and this is simulated.
    const CHANGES_GROUPS: bool = false;

    /// The faults that find nothing in it to strike.
    const CANNOT_STRIKE: &'static [Fault] = &[];

    /// The invariants of which it promises nothing.
    const NOT_JUDGED: &'static [Invariant] = &[];

    /// True if transactions of one client may have one timestamp, and stand in the order of their names then.
    const ORDERS_BY_NAME: bool = false;

    /// True if its replicas are those of replicated logs. Such a replica may still say that too many have lost their records when one of
    /// them is back.
    const STANDS_ON_LOG: bool = false;

    /// True if its replicas tell consumers what has committed.
    const TELLS_CHANGES: bool = false;

    /// The snapshot of a transaction that a replica tells consumers of; none where transactions have no snapshots that are vectors, or if it is not known there.
    fn causes(server: &Self::Server, name: Timestamp) -> Option<Position> {
        let _ = (server, name);
        None
    }

    /// The planted bugs that consumers of changes are to notice.
    const FEED_PLANTS: &'static [&'static str] = &[];

    /// True if backups of it are simulated.
    const BACKED_UP: bool = false;

    /// The planted bugs that backups are to notice.
    const BACKUP_PLANTS: &'static [&'static str] = &[];

    /// True if a commit is refused whose client's clock is far ahead, and nobody can say later what became of it: it would have to be remembered until that time comes.
    const REFUSES_CLOCKS_AHEAD: bool = false;

    /// True if its clients have users with rights.
    const HAS_USERS: bool = false;

    /// True if its shards know of index lists.
    const KEEPS_INDEXES: bool = false;

    /// The planted bugs that are noticed where there are indexes.
    const INDEX_PLANTS: &'static [&'static str] = &[];

    /// True if clients keep values that expire.
    const EXPIRES: bool = false;

    /// The planted bugs that are noticed where values expire.
    const EXPIRY_PLANTS: &'static [&'static str] = &[];

    /// True if clients can ask for transactions that run in one round.
    const RUNS_ONE_ROUND: bool = false;

    /// True if its groups stand in sites, and it goes on without one that is lost for good.
    const LOSES_SITES: bool = false;

    /// True if an operator can declare to its shards that another one is lost for good, and they go on without it.
    const LOSES_SHARDS: bool = false;

    /// True if an operator can accept that a group of it has lost more than it survives, and this is simulated.
    const ACCEPTS_LOSSES: bool = false;

    /// True if clients can place containers.
    const PLACES_CONTAINERS: bool = false;

    /// So many local sites must hold the objects of a container, where clients can say which do; none where they cannot.
    fn copies_min(_: &SettingsOf<Self>) -> Option<usize> {
        None
    }

    /// True if what a session has seen is handed on with a token that another client catches up with.
    const HANDS_ON_TOKENS: bool = false;

    /// True if a transaction can come after one of its client whose commit is under way.
    const PIPELINES: bool = false;

    /// True if a snapshot may lack commits that another session was told of: an audit has to ask for one that does not.
    const SNAPSHOTS_MAY_BE_OLD: bool = false;

    /// True if clients can be told what transactions reach beyond their commit.
    const TELLS_MILESTONES: bool = false;

    /// Draws how its machines are set up.
    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> SettingsOf<Self>;

    /// How its machines are set up in a [small cluster](crate::crash_points) in which a crash is tried at every step; `collects` asks for old records to be
    /// collected all the time.
    fn settings_for_crashes(sketch: &Sketch<'_>, collects: bool) -> SettingsOf<Self> {
        let _ = collects;
        Self::draw_settings(sketch, &mut Random::stream(sketch.seed, "settings"))
    }

    /// Makes limits and time-outs as small as can be, each if `shrinks` says so, so that what is rare elsewhere happens all
    /// the time.
    ///
    /// Two bounds stay. No timer runs out so often that nothing else happens: a time-out is no less than a share of a round
    /// trip. And what others would undo gets the time that it takes.
    fn shrink(settings: &mut SettingsOf<Self>, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool);

    /// Which system it is that is set up like this.
    fn kind(settings: &SettingsOf<Self>) -> SystemKind;

    /// The level that histories are promised; none if nothing is. Then it is judged instead that acknowledged puts survive and that reads
    /// return what somebody has put, and what the levels find in its histories is reported and is no violation.
    fn level(settings: &SettingsOf<Self>) -> Option<Level>;

    /// The options of timestamps that the keyspace states, if it does.
    fn timestamping(settings: &SettingsOf<Self>) -> Option<Timestamping> {
        let _ = settings;
        None
    }

    /// The time-outs of its machines: links that fail in step with one of them are the worst.
    fn timeouts(settings: &SettingsOf<Self>) -> Vec<Duration>;

    /// After so long others settle what a coordinator has left behind.
    fn recovery_timeout(settings: &SettingsOf<Self>) -> Duration;

    /// True if a client that comes back goes by the same name as before: a planted bug.
    fn reuses_client_ids(settings: &SettingsOf<Self>) -> bool;

    /// True if what has ended is forgotten while a simulation lasts.
    fn collects(settings: &SettingsOf<Self>) -> bool;

    /// Builds a client.
    fn client(settings: &SettingsOf<Self>, id: ClientId, shards: Shards) -> Self::Client;

    /// The comparison system that runs the keyspace in place of its isolation's protocol, if it is one.
    fn rival(settings: &SettingsOf<Self>) -> Option<Rival> {
        let _ = settings;
        None
    }

    /// How many groups it has beside those that hold the keys of the keyspace.
    fn services(settings: &SettingsOf<Self>) -> usize {
        usize::from(Self::rival(settings).is_some_and(Rival::has_service))
    }

    /// How often a client has found out that participants of a transaction differ in what they have executed.
    fn alarms(client: &Self::Client) -> u64 {
        let _ = client;
        0
    }

    /// True if the definer of an epoch does not wait until the groups have arrived in the one before: a planted bug.
    fn defines_epochs_early(settings: &SettingsOf<Self>) -> bool {
        let _ = settings;
        false
    }

    /// How long a leader whose clock is off takes to hand over, beside some round trips; none if there are no leaders.
    fn hands_over_within(settings: &SettingsOf<Self>) -> Option<Duration> {
        let _ = settings;
        None
    }

    /// How many bytes its log may take at rest; none if no simulation lasts long enough to tell.
    fn log_bytes_max(settings: &SettingsOf<Self>, server: &Self::Server) -> Option<u64>;

    /// The question of a client that has lost track of a transaction to its shards, so that they settle it; none if it cannot.
    fn ask_to_settle(held: &Held) -> Option<Self::Message>;

    /// Looks at a cluster while it runs, again and again; gives what is wrong that no history shows.
    fn inspect(inspector: &mut Self::Inspector, cluster: &Cluster<Self>) -> Vec<Broken> {
        let _ = (inspector, cluster);
        Vec::new()
    }

    /// Where a transaction stands that was seen to have committed at a local site; none if it was not seen.
    fn place_of(inspector: &Self::Inspector, transaction: TransactionId) -> Option<AtSite> {
        let _ = (inspector, transaction);
        None
    }

    /// Why it is not so what a client was just told of a milestone; none if it is, or nobody can tell.
    fn contradict(inspector: &mut Self::Inspector, cluster: &Cluster<Self>, told: &Told) -> Option<String> {
        let _ = (inspector, cluster, told);
        None
    }

    /// A mistake that was seen while it ran, and is told only if nothing else is wrong.
    fn conclude(inspector: &Self::Inspector) -> Finding {
        let _ = inspector;
        Finding::Holds
    }

    /// Events so far that show how much it was put to, in a few words each, and how often.
    fn happened(inspector: &Self::Inspector) -> Vec<(&'static str, u64)> {
        let _ = inspector;
        Vec::new()
    }

    /// A word of a server about a transaction that judges are told; none if the event is none.
    fn journal(_: &<Self::Server as Machine>::Event) -> Option<Journal> {
        None
    }

    /// True if the server may still show others what a transaction has written: it has not heard that the transaction has ended.
    fn shows(_: &Self::Server, _: TransactionId) -> bool {
        false
    }

    /// A message of this other replica of its group that has gone on to a view so far ahead; none if nothing that is harmless
    /// makes the server follow.
    fn hint_view(server: &Self::Server, from: ReplicaIndex, far: Far) -> Option<Self::Message>;
}

/// The facts of servers about transactions, by which their reads are replayed (I2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facts {
    /// Nothing that explains what each has read.
    Nothing,
    /// Timestamps: a transaction that has committed at one has read everything below it.
    Timestamps,
    /// Snapshots and places at local sites: a transaction has read what its vector includes.
    Vectors,
    /// Snapshots, local and final commits: a transaction has read what had committed below its snapshot, at its own node also what was not
    /// final yet.
    Snapshots,
}

/// A word of a server about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// It has committed locally.
    CommittedLocally {
        /// The transaction.
        transaction: TransactionId,
        /// The life of the machine that runs it.
        life: u64,
        /// Its snapshot.
        snapshot: ClockTime,
        /// Its local timestamp.
        local: ClockTime,
    },
    /// It is final.
    Finalized {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
    },
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

    /// Its name.
    fn id(&self) -> ClientId;

    /// Does something that no client should do.
    fn attack(&mut self, cluster: &mut Cluster<S>);

    /// True if what a shard knows of the outcome of a transaction means anything to others.
    fn leaves_alone(&self, transaction: TransactionId, shard: ShardId) -> bool;
}

/// The beginning of the keys of hostile clients; those of workloads never begin so.
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
