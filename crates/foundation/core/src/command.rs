//! The vocabulary between a client and the coordinators of its transactions, the same for every protocol.
//!
//! | part | commands | events |
//! |---|---|---|
//! | all protocols | [`Command::Begin`] to [`Command::Resolve`] | [`Event::Got`] to [`Event::Resolved`] |
//! | counting sets | [`Command::Set`] | [`Event::Set`] |
//! | containers | [`Command::Container`] | [`Event::Located`] |
//! | one-round transactions | [`Command::Execute`], [`Command::Recall`] | [`Event::Executed`] |
//! | sessions of several clients | [`Command::Observe`], [`Command::CatchUp`] | [`Event::Finished`] |
//! | milestones | [`Command::Await`] | [`Event::Milestone`] |
//! | values that expire | [`Command::Confine`] | |
//! | speculation | [`Command::CommitSpeculatively`], [`Command::After`] | [`Event::Begun`], [`Event::Shown`] |
//!
//! A coordinator whose protocol lacks a part answers with [`Command::refused`] and [`Invalid::Unsupported`]: a command is never passed over in silence, and never
//! taken for one of another protocol. Each new part is a row of this table; milestones that come after [`Event::Finished`] are events
//! of their own, so that a client that does not wait for them need not know them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{KeyspaceId, ReplicaId, ReplicaIndex, ShardId, TransactionId};
use crate::key::Key;
use crate::members::Members;
use crate::time::ClockTime;
use crate::timestamp::Timestamp;
use crate::topology::{Keyspace, Shard};
use crate::transaction::{KeyRange, Value};

/// The fate of a transaction, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It committed at this timestamp.
    Committed(Timestamp),
    /// It did not and will not commit.
    Aborted,
}

/// A keyspace as a client sees it: its shards, and which replica of each is near.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// For each of its groups, by position: the replicas, the nearest first.
    pub nearest: Vec<Vec<ReplicaIndex>>,
    /// The positions of the keyspace's shards, the one whose nearest replica is the nearest first.
    pub order: Vec<usize>,
    /// The machines of homes, the nearest first.
    pub homes: Vec<ReplicaId>,
}

impl Routes {
    /// Routes of a client to which all shards are equally near.
    pub fn new(keyspace: Keyspace, nearest: Vec<Vec<ReplicaIndex>>) -> Self {
        let homes = keyspace.homes.iter().flat_map(Shard::replica_ids).collect();
        Routes { order: (0..keyspace.shards.len()).collect(), homes, keyspace, nearest }
    }

    /// The replicas of one of the keyspace's groups, by position.
    ///
    /// # Panics
    /// If they cannot be a group; keyspaces are checked when they are created, and when their groups change.
    pub fn members(&self, position: usize) -> Members {
        let nearest = self.nearest[position].iter().copied();
        Members::on_log(nearest).expect("keyspaces are created and changed with valid groups")
    }
}

/// How fresh the answer to [`Command::ReadOnly`] or [`Command::ReadOnlyScan`] must be, and how it is made so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Strictly serializable: everything that had committed before. One round trip; a write that is under way on one of
    /// the keys is a conflict.
    Strict,
    /// Serializable, in the past: everything that commits at or below this timestamp, now or later. May wait for such
    /// writes that are under way.
    At(Timestamp),
    /// Serializable: a timestamp that lies no further back than this by the client's clock. Where the nearest replicas
    /// have validated the keys recently enough, nobody else is asked.
    Stale(Duration),
    /// Strictly serializable as long as clocks keep within the bound that the keyspace states, and serializable in any case:
    /// a snapshot at the clock's time, reported once the bound has passed. Nothing is held; only writes that are under
    /// way below the timestamp are waited for.
    ClockBound,
}

/// The timestamps at which a transaction may commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitWindow {
    /// At this time or later.
    pub from: ClockTime,
    /// Before this time; none if at any later one.
    pub before: Option<ClockTime>,
}

impl CommitWindow {
    /// True if a transaction may commit at this timestamp.
    pub fn contains(self, timestamp: Timestamp) -> bool {
        self.from.as_micros() <= timestamp.micros
            && self.before.is_none_or(|before| timestamp.micros < before.as_micros())
    }
}

/// A command of the client to the coordinator.
///
/// A transaction is named by the client. Each command about it is answered by exactly one event (but
/// [`Command::Put`] by none, unless it fails the whole transaction); after [`Event::Finished`] its name means nothing to
/// the coordinator any more.
#[derive(Clone, Debug)]
pub enum Command {
    /// Learn of a keyspace, or of a change of it.
    Route(Arc<Routes>),
    /// The connection to a replica came up or broke. Never needed for safety; spares waiting.
    Reachable {
        /// The replica.
        replica: ReplicaId,
        /// True if messages to it are likely to arrive.
        reachable: bool,
    },
    /// Begin an attempt at a transaction.
    Begin {
        /// Its name. The previous attempt of the same transaction must have finished, and not as unknown.
        transaction: TransactionId,
        /// Where it reads and writes.
        keyspace: KeyspaceId,
        /// By when the client wants an answer, whatever it is.
        patience: Duration,
    },
    /// Read a key: own write, else what was read before, else the nearest replica. Answered by [`Event::Got`].
    Get {
        /// The transaction.
        transaction: TransactionId,
        /// The key.
        key: Key,
    },
    /// Read keys at once, in one round trip if they are near each other, as [`Command::Get`] reads each. Answered by [`Event::Got`] for each.
    GetMany {
        /// The transaction.
        transaction: TransactionId,
        /// The keys.
        keys: Vec<Key>,
    },
    /// Read a key as [`Command::Get`] does, and whether its version may not be visible everywhere yet. Answered by [`Event::Marked`].
    GetMarked {
        /// The transaction.
        transaction: TransactionId,
        /// The key.
        key: Key,
    },
    /// Read the keys of a range in order, own writes included. Answered by [`Event::Scanned`].
    Scan {
        /// The transaction.
        transaction: TransactionId,
        /// The range.
        range: KeyRange,
        /// At most so many keys.
        limit: u32,
    },
    /// Write a key, or delete it. Buffered until commit.
    Put {
        /// The transaction.
        transaction: TransactionId,
        /// The key.
        key: Key,
        /// The value; none deletes.
        value: Option<Value>,
    },
    /// Change or read a counting set. A read is answered by [`Event::Set`]; changes are buffered until commit and not answered, unless
    /// they fail the whole transaction.
    Set {
        /// The transaction.
        transaction: TransactionId,
        /// The change or the read.
        call: SetCall,
    },
    /// Commit. Answered by [`Event::Finished`].
    Commit {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Commit, and hear of it before it is final. Answered by [`Event::Finished`]; before that, perhaps, by [`Event::Shown`].
    CommitSpeculatively {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Read keys, all at once, in a transaction of its own that writes nothing. Answered by [`Event::Got`] for each key and
    /// [`Event::Finished`]; what was got counts only if it has committed.
    ReadOnly {
        /// The transaction. After a conflict it may be run again as the next attempt.
        transaction: TransactionId,
        /// Where it reads.
        keyspace: KeyspaceId,
        /// The keys; each is answered once.
        keys: Vec<Key>,
        /// How fresh.
        freshness: Freshness,
        /// By when the client wants an answer, whatever it is.
        patience: Duration,
    },
    /// Read a range, in a transaction of its own that writes nothing. Answered by [`Event::Scanned`] and
    /// [`Event::Finished`]; what was scanned counts only if it has committed. Where a page ends, another transaction may go
    /// on [`Freshness::At`] the timestamp of the first: together they are one snapshot.
    ReadOnlyScan {
        /// The transaction. After a conflict it may be run again as the next attempt.
        transaction: TransactionId,
        /// Where it reads.
        keyspace: KeyspaceId,
        /// The range.
        range: KeyRange,
        /// At most so many keys.
        limit: u32,
        /// How fresh.
        freshness: Freshness,
        /// By when the client wants an answer, whatever it is.
        patience: Duration,
    },
    /// Drop the transaction. Nothing has been sent about its writes, so this needs no answer from anybody; answered by
    /// [`Event::Finished`].
    Abort {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Find out what became of a transaction, settling it if need be. Answered by [`Event::Resolved`].
    Resolve {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that took part in it, sorted.
        participants: Vec<ShardId>,
        /// A timestamp that is not above the first at which it was proposed. Outcomes below the floor of a shard may have
        /// been forgotten.
        timestamp: Timestamp,
        /// By when the client wants an answer.
        patience: Duration,
    },
    /// Find out or change which site the objects of a container are written at first, in a transaction that does nothing else. Answered by
    /// [`Event::Located`], if it is to be found out, and [`Event::Finished`].
    Container {
        /// The transaction. After a conflict it may be run again as the next attempt.
        transaction: TransactionId,
        /// Where the container is.
        keyspace: KeyspaceId,
        /// The part of its objects' keys that names it, as [`container_of`](crate::topology::container_of) gives it.
        name: Key,
        /// Which of these.
        call: ContainerCall,
        /// By when the client wants an answer, whatever it is.
        patience: Duration,
    },
    /// Execute a transaction in one round: the client knows beforehand what it does at each shard. Answered by [`Event::Executed`].
    Execute {
        /// Its name. The previous attempt of the same transaction must have ended, and not as unknown.
        transaction: TransactionId,
        /// The keyspace of all shards that take part in it.
        keyspace: KeyspaceId,
        /// Its part at each of them, in the encoding of the application that runs there.
        parts: BTreeMap<ShardId, Value>,
        /// How much they have to agree on. A client that says [`Class::Independent`] vouches for it that no shard refuses its part while another
        /// does not.
        class: Class,
        /// The reading of the clock when the client named it: it is not sent as if that had been earlier.
        not_before: ClockTime,
        /// By when the client wants an answer, whatever it is.
        patience: Duration,
    },
    /// Find out what became of a one-round transaction, and what it has answered. Where it has not been heard of by then, it is executed
    /// nowhere. Answered by [`Event::Executed`].
    Recall {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that took part in it, sorted.
        participants: Vec<ShardId>,
        /// As in [`Command::Execute`].
        not_before: ClockTime,
        /// By when the client wants an answer.
        patience: Duration,
    },
    /// Another client has seen this timestamp: whatever this one executes from here on comes after what that one has seen. Answered by
    /// nothing; a protocol whose clients have no sessions passes it over.
    Observe {
        /// The timestamp.
        timestamp: ClockTime,
    },
    /// Another client has seen these transactions: whatever this one begins once it is told [`Event::Finished`] includes them. Until then, and if that
    /// says that it has failed, it is as if nobody had seen them; but where only some of them were abandoned, the others are included.
    CatchUp {
        /// A name for this, as for a transaction.
        transaction: TransactionId,
        /// Their keyspace.
        keyspace: KeyspaceId,
        /// Of each local site, by position, the first so many.
        seen: Vec<u64>,
        /// By when the client wants an answer.
        patience: Duration,
    },
    /// A transaction that was begun and has not read anything comes after another one of its client which was asked to commit: if that one commits, it
    /// includes it, without waiting for the client to hear of that. Answered by nothing.
    After {
        /// The transaction.
        transaction: TransactionId,
        /// The other one.
        earlier: TransactionId,
    },
    /// A transaction must commit within this window, or not at all: it has judged values by their expiry. Answered by nothing; said before it is asked to commit.
    Confine {
        /// The transaction.
        transaction: TransactionId,
        /// The window.
        window: CommitWindow,
    },
    /// Be told when a transaction that has committed reaches a milestone. Answered by [`Event::Milestone`]; if it is asked for again
    /// before that, both are answered at once.
    Await {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that took part in it, sorted.
        participants: Vec<ShardId>,
        /// Its timestamp, as it was told with the commit.
        timestamp: Timestamp,
        /// The milestone.
        milestone: Milestone,
        /// By when the client wants an answer.
        patience: Duration,
    },
}

impl Command {
    /// The answer of a coordinator that cannot do it, for this reason; none if the command is not answered.
    pub fn refused(&self, reason: Invalid) -> Option<Event> {
        let failure = Failure::Invalid(reason);
        match *self {
            Command::Route(_) | Command::Reachable { .. } | Command::Observe { .. } => None,
            Command::Begin { transaction, .. }
            | Command::Get { transaction, .. }
            | Command::GetMany { transaction, .. }
            | Command::GetMarked { transaction, .. }
            | Command::Scan { transaction, .. }
            | Command::Put { transaction, .. }
            | Command::Set { transaction, .. }
            | Command::Commit { transaction }
            | Command::CommitSpeculatively { transaction }
            | Command::Container { transaction, .. }
            | Command::CatchUp { transaction, .. }
            | Command::After { transaction, .. }
            | Command::Confine { transaction, .. }
            | Command::ReadOnly { transaction, .. }
            | Command::ReadOnlyScan { transaction, .. }
            | Command::Abort { transaction } => Some(Event::Finished { transaction, result: Err(failure) }),
            Command::Resolve { transaction, .. } => Some(Event::Resolved { transaction, outcome: None }),
            Command::Execute { transaction, .. } | Command::Recall { transaction, .. } => {
                Some(Event::Executed { transaction, result: Err(NotExecuted::Failed(failure)) })
            }
            Command::Await { transaction, milestone, .. } => {
                let Failure::Invalid(reason) = failure else { return None };
                Some(Event::Milestone { transaction, milestone, result: Err(NotReached::Invalid(reason)) })
            }
        }
    }
}

/// A point that a transaction reaches after its commit, where it is replicated later (Walter, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Milestone {
    /// It survives the loss of as many sites as the protocol is set up for: the paper's *disaster-safe durable*.
    Durable,
    /// It has committed at every site, so that all later snapshots include it: the paper's *globally visible*.
    Visible,
}

impl Milestone {
    /// Both, in the order in which a transaction reaches them.
    pub const ALL: [Milestone; 2] = [Milestone::Durable, Milestone::Visible];

    /// The name, as users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Milestone::Durable => "durable",
            Milestone::Visible => "visible",
        }
    }
}

impl std::fmt::Display for Milestone {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

/// Why a client is not told that a transaction has reached a milestone. The transaction has committed all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReached {
    /// It has not been reached in time: these local sites do not have the transaction yet, or do not answer.
    Missing(Vec<ShardId>),
    /// The call was at fault.
    Invalid(Invalid),
}

/// A change or a read of a counting set by a transaction. The set's elements have counts that may be negative (Walter, sections 2 and 3.3). An element that
/// was never added has the count zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCall {
    /// Add to the count of an element: one to add it (the paper's *setAdd*), minus one to remove it (*setDel*).
    Add {
        /// The set.
        set: Key,
        /// The element.
        element: Key,
        /// By how much.
        by: i32,
    },
    /// Read the count of an element (*setReadId*). Sees the transaction's own changes.
    Count {
        /// The set.
        set: Key,
        /// The element.
        element: Key,
    },
    /// Read the elements whose count is not zero, in order (*setRead*). Sees the transaction's own changes.
    Elements {
        /// The set.
        set: Key,
        /// Those in this range.
        range: KeyRange,
        /// From which end.
        from: End,
        /// At most so many.
        limit: u32,
    },
    /// Read the elements whose count is not zero, in order, and the registers whose keys they are, in one round trip (section 6: all objects whose ids
    /// are in a set). Sees the transaction's own changes and writes.
    Members {
        /// The set.
        set: Key,
        /// The elements in this range.
        range: KeyRange,
        /// From which end.
        from: End,
        /// At most so many.
        limit: u32,
    },
}

/// An element of a counting set, and the register whose key it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The element: a key.
    pub element: Key,
    /// Its count, which is not zero.
    pub count: i64,
    /// The value of the register, if it has one.
    pub value: Option<Value>,
}

/// A call about a container (Walter, sections 2 and 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerCall {
    /// Find out its preferred site, and which sites hold its objects.
    Locate,
    /// Create it, or move it.
    Place {
        /// This local site lets in what is written to its registers from here on.
        preferred: ShardId,
        /// These local sites alone hold the values of its objects from here on, the preferred one among them; none leaves that as it is.
        replicas: Option<Vec<ShardId>>,
    },
    /// Destroy it: its objects are where the keyspace has them by itself.
    Destroy,
}

/// From which end the elements of a counting set are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// From the least on.
    Least,
    /// From the greatest on, backwards.
    Greatest,
}

/// The contents of a counting set, as a transaction reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetAnswer {
    /// The count of an element.
    Count {
        /// The set.
        set: Key,
        /// The element.
        element: Key,
        /// Its count.
        count: i64,
    },
    /// Elements of a set.
    Elements {
        /// The set.
        set: Key,
        /// Elements with their counts, none of them zero, in the order that was asked for.
        counts: Vec<(Key, i64)>,
        /// The range that is left if the limit was reached before the end.
        rest: Option<KeyRange>,
    },
    /// Elements of a set, and the registers whose keys they are.
    Members {
        /// The set.
        set: Key,
        /// In the order that was asked for.
        members: Vec<Member>,
        /// The range that is left if the limit was reached before the end, or there would be too many bytes.
        rest: Option<KeyRange>,
    },
}

/// How much the participants of a one-round transaction have to agree on (Granola, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It changes nothing anywhere: a snapshot of the shards that take part in it.
    ReadOnly,
    /// Every participant executes its part whatever happens at the others, and would refuse it if any of them would. All that one
    /// shard alone takes part in is of this class, too.
    Independent,
    /// It is executed if all participants vote for it, and nowhere if one votes against it.
    Coordinated,
}

/// An event that the coordinator tells the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The membership of a keyspace has changed: the client should learn of it anew. Answers no command.
    Outdated {
        /// The keyspace.
        keyspace: KeyspaceId,
    },
    /// The value of a key.
    Got {
        /// The transaction.
        transaction: TransactionId,
        /// The key.
        key: Key,
        /// Its value, if it is present.
        value: Option<Value>,
    },
    /// The value of a key, and how far its version has come.
    Marked {
        /// The transaction.
        transaction: TransactionId,
        /// The key.
        key: Key,
        /// Its value, if it is present.
        value: Option<Value>,
        /// False if the version is visible at every local site; else it may be, and nobody here knows yet.
        is_in_flight: bool,
    },
    /// The keys and values of a range.
    Scanned {
        /// The transaction.
        transaction: TransactionId,
        /// Keys and values, ascending.
        entries: Vec<(Key, Value)>,
        /// The first key that was not covered, because the limit was reached; none if the range was.
        next: Option<Key>,
    },
    /// Where a container is.
    Located {
        /// The transaction.
        transaction: TransactionId,
        /// The container.
        name: Key,
        /// Its preferred site.
        preferred: ShardId,
        /// The local sites that hold the values of its objects, ascending.
        replicas: Vec<ShardId>,
    },
    /// The answer to a read of a counting set.
    Set {
        /// The transaction.
        transaction: TransactionId,
        /// The answer.
        answer: SetAnswer,
    },
    /// A transaction has taken its snapshot, at a node that speculates. Told with its first read; answers no command.
    Begun {
        /// The transaction.
        transaction: TransactionId,
        /// Its snapshot.
        begun: Begun,
    },
    /// A transaction has committed locally: this is its result, unless it aborts after all. Then [`Event::Finished`] says so, and
    /// the client owes an apology for what it has made of it.
    Shown {
        /// The transaction.
        transaction: TransactionId,
        /// Where it stands.
        shown: Shown,
    },
    /// The transaction is over, as far as the client is concerned.
    Finished {
        /// The transaction.
        transaction: TransactionId,
        /// How it ended.
        result: Result<Committed, Failure>,
    },
    /// The fate of a transaction that was asked for is no longer known: it ended too long ago.
    Forgotten {
        /// The transaction.
        transaction: TransactionId,
    },
    /// The outcome of a transaction; none if it could not be found out in time.
    Resolved {
        /// The transaction.
        transaction: TransactionId,
        /// Its fate.
        outcome: Option<Outcome>,
    },
    /// A one-round transaction is over, as far as the client is concerned.
    Executed {
        /// The transaction.
        transaction: TransactionId,
        /// How it ended.
        result: Result<Executed, NotExecuted>,
    },
    /// A committed transaction has reached a milestone, or has not in time.
    Milestone {
        /// The transaction.
        transaction: TransactionId,
        /// The milestone.
        milestone: Milestone,
        /// Whether it has.
        result: Result<(), NotReached>,
    },
    /// Shards have decided differently on a transaction of several of them, or at different timestamps. That answers no command, and is for
    /// an operator: something that was durable is lost, or the application has vouched for it that its shards decide alike, and they do not.
    Disagreement {
        /// The transaction.
        transaction: TransactionId,
        /// The decision of each, ascending by shard.
        decided: Vec<Decided>,
    },
}

/// The decision of a shard on a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The shard.
    pub shard: ShardId,
    /// At which timestamp.
    pub timestamp: ClockTime,
    /// True if it has refused its part.
    pub is_refused: bool,
    /// The digest of its answer, or of its reason: of shards that should have answered alike, an operator sees which have.
    pub digest: u64,
}

/// The snapshot of a transaction that is run by a node (STR, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Begun {
    /// The machine of the node that runs it.
    pub home: ReplicaId,
    /// In which of its lives: speculation is over with each.
    pub life: u64,
    /// Its snapshot.
    pub snapshot: ClockTime,
}

/// A local commit, as a client is shown it (STR, section 6.5: *onSpecCommit*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown {
    /// The snapshot of the transaction.
    pub snapshot: ClockTime,
    /// Its local timestamp. The final one is not below.
    pub local: ClockTime,
    /// So many transactions of its client are not settled, up to this one.
    pub chain: u8,
}

/// A one-round transaction that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Where it stands in the serial order.
    pub timestamp: Timestamp,
    /// The answer of each shard, in the encoding of the application that runs there.
    pub answers: BTreeMap<ShardId, Value>,
}

/// Why a one-round transaction was not, or perhaps was not, executed; or why it is not known what it has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotExecuted {
    /// It has failed as any transaction may. After [`Failure::Unknown`], [`Command::Recall`] tells more.
    Failed(Failure),
    /// A shard refuses its part. It has changed nothing anywhere, and will not.
    Refused {
        /// The shard; the first one, if all have refused their parts.
        shard: ShardId,
        /// Why, in the encoding of the application that runs there.
        reason: Value,
    },
    /// It has no parts, or a part for a shard that is none of its keyspace's. Surely not executed.
    NoSuchShard(Option<ShardId>),
    /// It was executed, and what some shards have answered could not be found out.
    AnswersLost {
        /// Where it stands in the serial order.
        timestamp: Timestamp,
        /// The shards.
        missing: Vec<ShardId>,
    },
    /// It was sent so long ago that no shard knows any more what has become of it.
    Forgotten,
}

impl From<Failure> for NotExecuted {
    fn from(failure: Failure) -> Self {
        NotExecuted::Failed(failure)
    }
}

/// A committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its timestamp; names the versions that it wrote. For diagnosis and for the checker: timestamps of strict
    /// transactions do not follow real time.
    pub timestamp: Timestamp,
    /// True if every shard decided on the fast path: where transactions commit at local sites, if no other site was asked.
    pub fast: bool,
    /// How many times it was prepared again at a higher timestamp.
    pub retries: u32,
    /// Its version and its snapshot, if its protocol commits at local sites, and the coordinator knows the snapshot.
    pub at_site: Option<AtSite>,
}

impl Committed {
    /// A transaction that committed at this timestamp, on the fast path and at once.
    pub const fn at(timestamp: Timestamp) -> Self {
        Committed { timestamp, fast: true, retries: 0, at_site: None }
    }
}

/// The place of a committed transaction among those of the local sites of its keyspace. For diagnosis and for the checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtSite {
    /// Its version; none if it wrote nothing.
    pub version: Option<SiteVersion>,
    /// Its snapshot: of each local site, by position, the first so many transactions.
    pub snapshot: Vec<u64>,
}

/// The version of a transaction that committed at a local site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteVersion {
    /// The local site, by its position in the keyspace.
    pub site: u16,
    /// The number of the transaction there, from one.
    pub seqno: u64,
}

/// Why a transaction did not, or perhaps did not, commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another transaction was in the way. Surely not committed; a new attempt may succeed.
    Conflict,
    /// The client aborted it.
    Aborted,
    /// It would have taken more from a counter than the counter has, as far as the client's site knows. Surely not committed.
    BelowZero,
    /// The session has seen transactions of a site that were abandoned when the site was taken out. Surely not committed. The session goes on
    /// without them: what it does next sees what is left.
    HistoryAbandoned {
        /// The group of replicas that stood at that site.
        shard: ShardId,
    },
    /// It wanted to read further back than versions are kept. Nothing to commit.
    TooOld {
        /// The oldest timestamp that can be read.
        oldest: Timestamp,
    },
    /// These replicas did not answer while it read, or were known to be unreachable when it was to commit. Surely not
    /// committed: no prepare had left.
    Unavailable {
        /// The replicas that are missing.
        missing: Vec<ReplicaId>,
    },
    /// Time ran out after a prepare had left: it may have committed or may still do so.
    Unknown {
        /// Every shard that takes part, sorted: with the transaction's id this is enough to resolve it for a while.
        participants: Vec<ShardId>,
    },
    /// The call or the client's set-up was at fault. Surely not committed.
    Invalid(Invalid),
}

/// Why the objects of a container cannot be at some sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicasError {
    /// A container cannot have its preferred site, or a replica, where its objects are not.
    #[error(
        "the objects of the container are not at {0}: a container can only be placed at sites that have its objects, and sites only ever \
         give them up"
    )]
    NoCopy(ShardId),
    /// The preferred site of a container has its objects.
    #[error(
        "{0} is to be the preferred site of the container, and is none of the sites that are to have its objects"
    )]
    PreferredWithoutCopy(ShardId),
    /// Too few sites would have the objects of a container.
    #[error(
        "{given} sites are too few for the objects of the container, which have to survive the loss of sites: at least {least} must have them"
    )]
    TooFew {
        /// How many were named.
        given: usize,
        /// As many there have to be.
        least: usize,
    },
    /// All sites that had the objects of a container were taken out.
    #[error(
        "the objects of the container are lost: all sites that had them were removed; nothing can be read of it or written to it any more, so use \
         another one"
    )]
    Lost,
    /// A container whose objects are not at all sites cannot become one that the keyspace places.
    #[error(
        "not all sites have the objects of the container, so it cannot be destroyed: place it at one that has them"
    )]
    Limited,
}

/// The mistake in a call, as users are told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A limit would be exceeded.
    #[error(transparent)]
    Limit(#[from] crate::transaction::LimitExceeded),
    /// The coordinator has no such keyspace.
    #[error("{0} is not known here: it was dropped, or the client's directory is stale")]
    UnknownKeyspace(KeyspaceId),
    /// A container cannot be placed where the keyspace is not.
    #[error("{0} is no site of this keyspace")]
    NoSuchSite(ShardId),
    /// The objects of a container cannot be at these sites.
    #[error(transparent)]
    Replicas(#[from] ReplicasError),
    /// The protocol of the keyspace has no such transactions.
    #[error("the protocol of this keyspace has no such transactions: use a keyspace of another isolation")]
    Unsupported,
    /// The keyspace states no bound of clocks to read by.
    #[error("{0} states no bound of clocks")]
    NoClockBound(KeyspaceId),
    /// An operator has declared lost a shard that would have to take part.
    #[error("{0} is lost for good: nothing that touches it is executed")]
    ShardLost(ShardId),
    /// The transaction is not open, or its id is in use.
    #[error("transaction {0} is not open")]
    NotOpen(TransactionId),
    /// The timestamp that the session has seen is too far ahead of the replicas' clocks, and no shard has come so far.
    #[error(
        "this session has seen a timestamp that is {ahead_micros} µs ahead of a replica's clock, and no shard has come so far: it is of \
         another cluster or keyspace, or of data that was lost; begin a new session"
    )]
    SeenAhead {
        /// How far ahead.
        ahead_micros: u64,
    },
    /// The session has seen transactions of a local site that were never there.
    #[error(
        "this session has seen transactions of local site {position} that it never had: the token is of another cluster, or of data that was lost"
    )]
    NeverCommitted {
        /// The position of the local site in its keyspace.
        position: u16,
    },
    /// The clock of the client is too far ahead of the replicas'.
    #[error(
        "the clock of this client is {ahead_micros} µs ahead of a replica's, and {ahead_max_micros} µs are allowed: \
         set the clock of this machine"
    )]
    ClockAhead {
        /// How far ahead.
        ahead_micros: u64,
        /// How far is allowed.
        ahead_max_micros: u64,
    },
}
