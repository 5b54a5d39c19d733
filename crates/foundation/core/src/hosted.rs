//! The ports by which servers, clients and the simulator host the machines of a protocol without knowing it.
//!
//! ```text
//!   a protocol:  Replica: Machine + HostedReplica + Holdings          on inconsistent replication
//!                Replica: LogMachine + HostedOnLog + Holdings         on a log, which makes it a HostedReplica
//!   a host:      knows these traits, and has one row that names the protocol
//! ```
//!
//! | port | says | asked by |
//! |---|---|---|
//! | [`HostedReplica`] | how a replica begins, how it is, what it is told by operators, which messages may be refused, and by which a transaction is followed | servers, the simulator |
//! | [`HostedOnLog`] | the same, as far as it is not the log's | the log, for both |
//! | [`Holdings`] | what a replica holds | the simulator, which judges it |
//! | [`HostedCoordinator`] | whether a coordinator is idle, and how far its client has seen | the client |
//!
//! All of it is pure: a host reads it between two steps.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::attic::{Attic, Memory};
use crate::changes::{self, Position};
use crate::command::{Command, Event, Outcome};
use crate::id::{ClientId, Epoch, ReplicaId, ShardId, TransactionId, View};
use crate::key::Key;
use crate::landmark::{FewKeys, Landmark};
use crate::log::LogMachine;
use crate::machine::Machine;
use crate::members::Groups;
use crate::seen::Seen;
use crate::time::{ClockTime, Instant};
use crate::timestamp::Timestamp;
use crate::topology::{Settlement, SiteChanges, shard_position, tag_of};
use crate::transaction::{KeyRange, Value};
use crate::verify::{Answer, Request};

/// The shards of a keyspace, whose ids follow each other. Groups that hold none of its keys have ids above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shards {
    /// The first.
    pub first: ShardId,
    /// How many there are.
    pub count: u32,
}

impl Shards {
    /// Each of them.
    pub fn ids(self) -> impl Iterator<Item = ShardId> {
        (0..self.count).map(move |position| ShardId(self.first.0 + position))
    }

    /// True if the shard is one of them.
    pub fn contains(self, shard: ShardId) -> bool {
        shard.0.checked_sub(self.first.0).is_some_and(|position| position < self.count)
    }

    /// The shard that a key belongs to.
    pub fn holding(self, key: &[u8]) -> ShardId {
        ShardId(self.first.0 + shard_position(key, self.count as usize) as u32)
    }

    /// True if the key belongs to the shard.
    pub fn holds(self, shard: ShardId, key: &[u8]) -> bool {
        self.holding(key) == shard
    }

    /// The shards that may hold keys of a range: all of them, or the one that holds every key of the range because they share a tag in braces.
    pub fn of_range(self, range: &KeyRange) -> Vec<ShardId> {
        tag_of(range).map_or_else(|| self.ids().collect(), |tag| vec![self.holding(tag)])
    }
}

/// How a replica that has no records begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// The replica is being created, by an explicit act, with its group or to join it: begin empty.
    Initialise,
    /// The group exists, so records are missing: the disk is empty or durability is memory. Learn everything from the
    /// others before answering anybody.
    Rejoin,
}

/// Which replica a machine is, and what its host knows when it builds it.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The replica.
    pub replica: ReplicaId,
    /// The replicas of the keyspace's shards: those that it was created with if the replica has records, which know better, and else
    /// those that the host knows. A replica that has records is told the present ones once it has started.
    pub groups: Groups,
    /// The shards that the keyspace was created with; none if they are not known.
    pub shards: Option<Shards>,
    /// The shards that joined it since, in this order, as far as the host knows.
    pub joined: Vec<ShardId>,
    /// How the replica begins if there are no records of it.
    pub boot: Boot,
    /// Where it keeps values that do not fit into memory, if its protocol can; none if everything stays in memory.
    pub attic: Option<Arc<dyn Attic>>,
}

impl Seat {
    /// The shards of the keyspace, for a protocol that [`HostedReplica::NEEDS_SHARDS`].
    ///
    /// # Panics
    /// If the host does not know them: then it must not build the replica.
    pub fn known_shards(&self) -> Shards {
        match self.shards {
            Some(shards) => shards,
            None => panic!("the host of {} does not know the shards of its keyspace", self.replica),
        }
    }
}

/// The occupation of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It takes part in its view.
    Normal,
    /// It has left its view, and is silent until the next has begun.
    ViewChanging,
    /// It is new or has lost its records, and learns from the others. It takes no part until it knows enough.
    Recovering,
    /// Its group has gone on without it, and f + 1 members have what it had.
    Retired,
}

impl Status {
    /// The name, as operators read it.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Normal => "normal",
            Status::ViewChanging => "view-changing",
            Status::Recovering => "recovering",
            Status::Retired => "retired",
        }
    }
}

/// How a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Its occupation.
    pub status: Status,
    /// Its view.
    pub view: View,
    /// Since when the members of its group were as they were in the latest view that it took part in, as far as it has records of
    /// that; none if it has none.
    pub arrived: Option<Epoch>,
    /// True if it leads its group.
    pub leads: bool,
    /// The transactions that it holds prepared.
    pub prepared: usize,
    /// The transactions, or keys, of which it knows something.
    pub record_len: usize,
    /// The transactions of silent coordinators that it is settling.
    pub recoveries: usize,
    /// By how many microseconds the clock of its node is ahead of those of a majority of the group, negative if it is behind; none if it
    /// is not off as far as is known, or if the protocol compares no clocks.
    pub clock_error_micros: Option<i64>,
}

/// News that a replica tells of itself, unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It takes part in this view.
    Normal(View),
    /// It waits for this view to begin.
    ViewChanging(View),
    /// It learns what it has lost from the others.
    Recovering,
    /// It leads this view.
    Leading(View),
    /// A sender speaks under a later membership.
    Outdated(Epoch),
    /// It is no member of its group any more, and is not needed.
    Retired,
    /// So many replicas of its group have lost their records, as far as it knows, that it does not recover by itself.
    Lost(usize),
    /// Its clock is off by so many microseconds, or is so no longer.
    Clock(Option<i64>),
}

/// A question to the configuration service: how have the sites of the keyspace changed? Its answer, of an instant after the question, is a lease:
/// a site that is not removed then goes on for a while as if it were not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consultation {
    /// When it was asked.
    pub asked: Instant,
    /// The proposal that the service is to settle first, if it still can.
    pub settlement: Option<Settlement>,
}

/// The things that a replica of a local site has handed to other sites, as far as it led its site then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Containers that have moved by themselves.
    pub containers: u64,
    /// Shares of counters.
    pub shares: u64,
}

/// The distance of another local site of a keyspace, as the leader of one knows it: how many transactions that have committed here have not come
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteLag {
    /// The group of replicas that stands at the other site.
    pub site: ShardId,
    /// How many transactions of this site it has not received durably, as far as is known.
    pub unreceived: u64,
    /// For how long at least it has lacked the first of them.
    pub unreceived_for: Duration,
    /// How many transactions of this site have not committed there, so that readers there do not see them.
    pub uncommitted: u64,
    /// For how long at least the first of them has not.
    pub uncommitted_for: Duration,
    /// True if it keeps transactions of this site from being visible at all sites.
    pub holds_up: bool,
}

/// The ends of the transactions of a node since its machine began, and how much these transactions speculate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speculating {
    /// Transactions that became final.
    pub finals: u64,
    /// Attempts that aborted.
    pub aborts: u64,
    /// Results that were shown to clients before they were final.
    pub shown: u64,
    /// Those of them that were taken back: each is owed an apology.
    pub apologies: u64,
    /// Reads from transactions that were not final.
    pub speculative_reads: u64,
    /// Attempts that aborted because of one that they depended on.
    pub cascades: u64,
    /// Commits that passed a replica which did not vote.
    pub passed: u64,
    /// The tuner, if the machine has one.
    pub tuning: Option<Tuning>,
}

/// How much a tuner lets a node speculate, and what it knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// The degree that transactions may go to now: 0 is none, 1 speculative reads, and 1 + n chains of n.
    pub degree: u8,
    /// The degree that the tuner has settled on, if it has.
    pub settled: Option<u8>,
    /// The phase of the tuner, in a word.
    pub phase: &'static str,
    /// Final commits per second in the last window.
    pub commits_per_second: f64,
    /// How long a window is now.
    pub window: Duration,
    /// The median time from the first activation of a transaction to its final commit, once it is known.
    pub final_latency: Option<Duration>,
    /// How many windows were measured.
    pub windows: u64,
    /// How many searches have begun.
    pub searches: u64,
    /// How many probes have begun since it has settled, and how many final commits they have cost.
    pub probes: u64,
    /// See [`Tuning::probes`].
    pub probe_cost: f64,
    /// How often something was decided, by the cause: every cause is there, in an order that does not change.
    pub decided: Vec<(&'static str, u64)>,
    /// The latest decisions, oldest first: at most [`Tuning::LATEST_MAX`].
    pub latest: Vec<TuningDecision>,
}

impl Tuning {
    /// No more decisions are told.
    pub const LATEST_MAX: usize = 16;
}

/// A decision of a tuner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuningDecision {
    /// When, by the timer of the machine.
    pub at: Instant,
    /// Why, in a word.
    pub cause: &'static str,
    /// The degree until then.
    pub from: u8,
    /// The degree from then on.
    pub to: u8,
    /// Final commits per second in the window that ended then.
    pub commits_per_second: f64,
}

/// How much a message of a client may be refused while a server is overloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It begins a transaction, or extends one that holds nothing yet.
    Early,
    /// It wants to hold keys for a transaction that has done its reading.
    Prepare,
    /// It frees what is held, or settles what became of it: never refused.
    Always,
}

/// The facts about a message of a client by which a server lets it in or refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// How much it may be refused.
    pub urgency: Urgency,
    /// The client for which it wants to hold keys, if it does and its protocol counts them by client.
    pub prepares_for: Option<ClientId>,
    /// False if its transaction has only read, and takes next to no room.
    pub writes: bool,
}

impl Admission {
    /// A message that is no prepare of a client that is counted.
    pub const fn of(urgency: Urgency) -> Self {
        Admission { urgency, prepares_for: None, writes: true }
    }
}

/// Why a replica of a protocol that has no feeds cannot answer a consumer.
pub const NO_CHANGES: &str = "keyspaces of its isolation tell no changes in this version";

/// A replica that can be hosted.
pub trait HostedReplica: Machine {
    /// True if no replica can be built without knowing which the shards of its keyspace are.
    const NEEDS_SHARDS: bool;

    /// True if a group may go on without what it has lost with more replicas than it survives, if an operator accepts that.
    const ACCEPTS_LOSS: bool;

    /// True if it keeps values in the attic of its seat that do not fit into memory.
    const KEEPS_VALUES_IN_ATTICS: bool = false;

    /// The same limits, time-outs and rules at this seat. A machine that is restored from that and no records begins as the seat says.
    fn seated(config: Self::Config, seat: &Seat) -> Self::Config;

    /// The records of a replica that was created with its group and has slept since, and that takes part in no view up to this one:
    /// what it may have said in an earlier life counts in no view to come. The others let it count because it says that it is in a life that
    /// is later than those of which they know ([`HostedReplica::next_life`]). None if no view is left. Asked for only where losses can be accepted.
    fn asleep_since_creation(seat: &Seat, view: View, life: u64) -> Option<Vec<Self::Record>>;

    /// The life that follows all of those in which the other members know a replica to have been that has lost its records; none as long as it has not
    /// heard from each of them.
    fn next_life(&self) -> Option<u64>;

    /// How it is.
    fn health(&self) -> Health;

    /// How many transactions are prepared here; those of one client only, if one is named.
    fn load(&self, client: Option<ClientId>) -> usize;

    /// True if it has nothing of clients under way.
    fn is_idle(&self) -> bool;

    /// False if the transaction of a message of a client has written no value, or has only deleted: it is let in where memory is short. Asked for only
    /// then, for it may have to be looked for.
    fn adds(message: &Self::Message) -> bool {
        let _ = message;
        true
    }

    /// The memory that its key space takes; none of a protocol that does not count it. Asked for often.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// True if its key space takes more memory than its attic says, and cannot take less: then nothing is added to it.
    fn exceeds_memory(&self) -> bool {
        false
    }

    /// How many transactions it has seen committed and aborted.
    fn decided(&self) -> (u64, u64);

    /// The commands for a replica of a shard when the groups of its keyspace change; none if they never do.
    fn change_groups(groups: &Groups, shard: ShardId) -> Vec<Self::Command>;

    /// The command for a replica when it starts, and when it changes which other machines of its keyspace are on its node; none if it has
    /// nothing to do with these. Messages between them are neither lost nor overtaken.
    fn meet(neighbours: &[ReplicaId]) -> Option<Self::Command> {
        let _ = neighbours;
        None
    }

    /// The command for a replica when an operator says that another shard of its keyspace is lost for good; none if no replica waits
    /// for votes of that shard for ever.
    fn declare_lost(_: ShardId) -> Option<Self::Command> {
        None
    }

    /// The command for a replica whose node is about to stop: if it leads its group, another one is to lead. None if nobody waits for a leader.
    fn give_way() -> Option<Self::Command> {
        None
    }

    /// The shards that an operator has declared lost, as far as is durable here.
    fn lost_shards(&self) -> Vec<ShardId> {
        Vec::new()
    }

    /// How far other sites are behind what has committed here, where the replica leads a local site.
    fn lags(&self, now: Instant) -> Vec<SiteLag> {
        let _ = now;
        Vec::new()
    }

    /// The containers and shares that the replica has handed to other sites since it began, where it is one of a local site.
    fn handed_over(&self) -> Option<HandedOver> {
        None
    }

    /// The ends of the transactions of its node, and how much they speculate; none if it is not the machine of a node.
    fn speculating(&self) -> Option<Speculating> {
        None
    }

    /// The command for a replica when an operator compares the data of replicas; none if the protocol knows no point at which they are
    /// alike.
    fn verify(request: Request) -> Option<Self::Command>;

    /// The answer for the operator.
    fn verified(&self, request: &Request) -> Answer;

    /// The command for a replica when a consumer asks for changes, so that what it asks for becomes certain sooner; none if that makes no
    /// difference.
    fn follow() -> Option<Self::Command> {
        None
    }

    /// The answer for the consumer.
    fn changes(&self, request: &changes::Request<Position>) -> changes::Answer<Position> {
        let _ = request;
        changes::Answer::unable(NO_CHANGES)
    }

    /// The changes that it retains.
    fn retained(&self) -> changes::Retained {
        changes::Retained::default()
    }

    /// The question to the configuration service that an event is, if it is one.
    fn consultation(event: &Self::Event) -> Option<&Consultation> {
        let _ = event;
        None
    }

    /// The command for a replica when the answer to a question of this instant is there; none if it asks none.
    fn answer(asked: Instant, changes: &SiteChanges) -> Option<Self::Command> {
        let _ = (asked, changes);
        None
    }

    /// The news that an event is to its host, if it is any.
    fn news(event: &Self::Event) -> Option<News>;

    /// The landmark that the arrival of a message is at a replica of this shard; none of a protocol whose transactions are not followed.
    fn landmark_received(message: &Self::Message, own: ShardId) -> Option<Landmark> {
        let _ = (message, own);
        None
    }

    /// The landmark that a message is which a replica sends.
    fn landmark_sent(message: &Self::Message) -> Option<Landmark> {
        let _ = message;
        None
    }

    /// The first keys that the transaction of a message writes at the receiver, as far as the message tells.
    fn keys_written(message: &Self::Message) -> FewKeys {
        let _ = message;
        FewKeys::default()
    }

    /// How much a message of a client may be refused.
    fn admission(message: &Self::Message) -> Admission;

    /// True if other shards hold something until the replica has taken in a message of a client: then it is never refused, as whatever
    /// frees what is held.
    fn is_awaited(&self, message: &Self::Message) -> bool {
        let _ = message;
        false
    }

    /// True if a message of a client goes on with a transaction that is open here and nowhere else: a node that stops takes it in as long as it runs, where
    /// others can be sent to another replica.
    fn has_open(&self, message: &Self::Message) -> bool {
        let _ = message;
        false
    }
}

/// A replica on a log that can be hosted: all that is not the log's. The methods mean what those of [`HostedReplica`] mean.
pub trait HostedOnLog: LogMachine {
    /// As [`HostedReplica::NEEDS_SHARDS`].
    const NEEDS_SHARDS: bool;

    /// As [`HostedReplica::ACCEPTS_LOSS`].
    const ACCEPTS_LOSS: bool;

    /// The same limits, time-outs and rules at a seat.
    fn seated(config: Self::Config, seat: &Seat) -> Self::Config;

    /// How many transactions it holds prepared.
    fn prepared(&self) -> usize;

    /// Of how many transactions, or keys, it knows something.
    fn record_len(&self) -> usize;

    /// How many transactions of silent coordinators it is settling.
    fn recoveries(&self) -> usize {
        0
    }

    /// As [`HostedReplica::load`].
    fn load(&self, client: Option<ClientId>) -> usize;

    /// As [`HostedReplica::is_awaited`].
    fn is_awaited(&self, message: &Self::Message) -> bool {
        let _ = message;
        false
    }

    /// As [`HostedReplica::adds`].
    fn adds(message: &Self::Message) -> bool {
        let _ = message;
        true
    }

    /// As [`HostedReplica::memory`].
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// As [`HostedReplica::has_open`].
    fn has_open(&self, message: &Self::Message) -> bool {
        let _ = message;
        false
    }

    /// As [`HostedReplica::is_idle`]. A replica that does not lead has nothing under way but what clients have begun with it and not with its group: all
    /// else ends under the leader.
    fn is_idle(&self, leads: bool) -> bool;

    /// As [`HostedReplica::decided`].
    fn decided(&self) -> (u64, u64);

    /// The command for the machine itself when the groups of its keyspace change; none if it has to do with no other group.
    fn change_groups(groups: &Groups) -> Option<Self::Command>;

    /// As [`HostedReplica::meet`].
    fn meet(neighbours: &[ReplicaId]) -> Option<Self::Command> {
        let _ = neighbours;
        None
    }

    /// As [`HostedReplica::declare_lost`].
    fn declare_lost(_: ShardId) -> Option<Self::Command> {
        None
    }

    /// As [`HostedReplica::lost_shards`].
    fn lost_shards(&self) -> Vec<ShardId> {
        Vec::new()
    }

    /// As [`HostedReplica::follow`].
    fn follow() -> Option<Self::Command> {
        None
    }

    /// As [`HostedReplica::retained`].
    fn retained(&self) -> changes::Retained {
        changes::Retained::default()
    }

    /// As [`HostedReplica::changes`].
    fn changes(&self, request: &changes::Request<Position>) -> changes::Answer<Position> {
        let _ = request;
        changes::Answer::unable(NO_CHANGES)
    }

    /// As [`HostedReplica::lags`].
    fn lags(&self, now: Instant) -> Vec<SiteLag> {
        let _ = now;
        Vec::new()
    }

    /// As [`HostedReplica::handed_over`].
    fn handed_over(&self) -> Option<HandedOver> {
        None
    }

    /// As [`HostedReplica::speculating`].
    fn speculating(&self) -> Option<Speculating> {
        None
    }

    /// As [`HostedReplica::consultation`].
    fn consultation(event: &Self::Event) -> Option<&Consultation> {
        let _ = event;
        None
    }

    /// As [`HostedReplica::answer`].
    fn answer(asked: Instant, changes: &SiteChanges) -> Option<Self::Command> {
        let _ = (asked, changes);
        None
    }

    /// As [`HostedReplica::landmark_received`].
    fn landmark_received(message: &Self::Message, own: ShardId) -> Option<Landmark> {
        let _ = (message, own);
        None
    }

    /// As [`HostedReplica::landmark_sent`].
    fn landmark_sent(message: &Self::Message) -> Option<Landmark> {
        let _ = message;
        None
    }

    /// As [`HostedReplica::keys_written`].
    fn keys_written(message: &Self::Message) -> FewKeys {
        let _ = message;
        FewKeys::default()
    }

    /// How much a message of a client may be refused.
    fn admission(message: &Self::Message) -> Admission;
}

/// A transaction whose keys a replica holds.
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

/// A version of a key; none for a deletion.
pub type StoredVersion = (Key, Timestamp, Option<Value>);

/// The contents of a replica, for judges. Nothing here is asked for while a server works.
pub trait Holdings: Debug {
    /// The transactions whose keys it holds.
    fn held(&self) -> Vec<Held> {
        Vec::new()
    }

    /// How many requests it lets wait.
    fn waiting(&self) -> usize {
        0
    }

    /// True if it settles what a coordinator has left behind.
    fn settles(&self) -> bool {
        false
    }

    /// The outcomes that it knows.
    fn outcomes(&self) -> Vec<(TransactionId, Outcome)>;

    /// The outcome of a transaction, if it knows one.
    fn outcome(&self, transaction: TransactionId) -> Option<Outcome> {
        let outcomes = self.outcomes().into_iter();
        outcomes.filter(|(id, _)| *id == transaction).map(|(_, outcome)| outcome).next()
    }

    /// Below this timestamp versions may have been collected.
    fn floor(&self) -> Timestamp;

    /// True if everything that had ended before all clocks said this may be forgotten here.
    fn has_collected(&self, ended: ClockTime) -> bool {
        self.floor().micros >= ended.as_micros()
    }

    /// Up to where the timestamps of its group have come, where its leader chooses them by a clock.
    fn reached(&self) -> Option<ClockTime> {
        None
    }

    /// The versions that it holds, ascending by key and timestamp.
    fn versions(&self) -> Vec<StoredVersion>;

    /// How many versions it holds.
    fn version_count(&self) -> usize {
        self.versions().len()
    }

    /// The things that it keeps although they have ended, by kind.
    fn left(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    /// How many transactions it keeps a record of.
    fn recorded(&self) -> usize;

    /// About how many bytes its state takes in a snapshot; rather more. The default is for a replica whose state is its versions.
    fn state_bytes(&self) -> u64 {
        let bytes = |value: &Option<Value>| value.as_ref().map_or(0, Value::len);
        self.versions().iter().map(|(key, _, value)| 128 + (key.len() + bytes(value)) as u64).sum()
    }
}

/// A coordinator that a client can host. Its messages are those of its protocol's replicas.
pub trait HostedCoordinator: Machine<Command = Command, Event = Event> {
    /// True if it has nothing to do and nothing to tell.
    fn is_idle(&self) -> bool;

    /// How far its client has seen, where the order of sessions is promised by that; another client that is told with [`Command::Observe`] and
    /// [`Command::CatchUp`] is ordered after it.
    fn seen(&self) -> Seen {
        Seen::default()
    }

    /// The home that decides an open transaction, where transactions run at nodes: it is the one that knows how the transaction ended, and
    /// stays the same.
    fn home_of(&self, transaction: TransactionId) -> Option<ShardId> {
        let _ = transaction;
        None
    }
}
