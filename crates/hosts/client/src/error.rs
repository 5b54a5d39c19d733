//! The errors of a client, what they mean for the data, and what to do.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use quorate_core::changes::{Position, Retention};
use quorate_core::command::{Milestone, ReplicasError};
use quorate_core::comparison::Rival;
use quorate_core::expiry::LifetimeError;
use quorate_core::seen::InvalidSeen;
use quorate_core::topology::{
    ChangeError, Isolation, MoveError, PlacementError, SpeculationError, TimestampingError,
};
use quorate_core::transaction::LimitExceeded;
use quorate_core::{NodeId, ReplicaId, ShardId, Timestamp};
use quorate_serializable_shard::{Refusal, StepFault};
use quorate_wire::ProtocolVersion;

use crate::access::InvalidAccess;
use crate::changes::InvalidCursor;
use crate::indexes::IndexFault;
use crate::procedures::InvalidProcedure;
use crate::token::{InvalidToken, Token};

/// The result of everything that asks the cluster.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call did not do what it was asked to.
///
/// Every variant says whether the transaction can have committed: all but [`Error::Unknown`], [`Error::AnswersLost`], [`Error::NotReached`], and
/// [`Error::Denied`] with a token, mean that it surely has not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction was in the way. Surely not committed.
    #[error("another transaction was in the way, and nothing was committed: run the transaction again")]
    Conflict,
    /// The transaction takes more from a counter than the counter has, as far as its site knows. Surely not committed.
    #[error(
        "nothing was committed: the transaction takes more from a counter than the counter has, as far as this site knows; what other sites have added \
         since may be on its way"
    )]
    BelowZero,
    /// Too few replicas serve or can be reached. Surely not committed: no prepare had left.
    #[error(
        "too few replicas {}, and nothing was committed; missing: {}: {}",
        if has_problem(missing) { "serve" } else { "can be reached" },
        list(missing),
        advice(missing)
    )]
    Unavailable {
        /// The replicas that did not answer.
        missing: Vec<MissingReplica>,
    },
    /// This client has seen transactions of a site that were abandoned when the site was removed. Surely not committed. Told once: what the client
    /// does next sees what is left.
    #[error(
        "this client has seen transactions that were lost with the site {site:?}, which was removed; nothing was committed: look at the \
         data, and run the transaction again"
    )]
    HistoryAbandoned {
        /// The site.
        site: String,
    },
    /// The cluster, or this client, has more work than it takes. Surely not started.
    #[error("the cluster is overloaded, and nothing was started: try again in {retry_after:?}")]
    Overloaded {
        /// How long to wait before the next try.
        retry_after: Duration,
    },
    /// The disks of too many nodes of a shard have no room for writes. Reads are served. Surely not committed: no write was sent.
    #[error("there is no room for writes, and nothing was committed: {reason}")]
    NoSpace {
        /// Which disk, and what an operator has to do.
        reason: String,
    },
    /// Time ran out after a prepare had left. It may have committed, or may still do so.
    #[error("the transaction may or may not have committed: ask for the outcome of {token}")]
    Unknown {
        /// Answers, with [`Database::outcome`](crate::Database::outcome), what became of it.
        token: Token,
    },
    /// A result that was shown before it was final has not become final, and will not: its readers are owed an apology. Surely not committed.
    #[error(
        "transaction {token} was shown before it was final, and did not commit: an apology is owed; then run the transaction again"
    )]
    ApologyOwed {
        /// Its name.
        token: Token,
    },
    /// The answer of a one-round transaction cannot be had any more. **It was committed.**
    #[error("transaction {token} has committed, but what it has answered is lost: look at the data")]
    AnswersLost {
        /// Its name.
        token: Token,
    },
    /// A transaction has not reached a milestone in time. **It was committed**, and goes on to the other sites by itself.
    #[error(
        "the transaction has committed, and is not {milestone} yet after {waited:?}; missing sites: {}: ask again, or look at `quorate \
         cluster status`",
        none_or_list(missing)
    )]
    NotReached {
        /// The milestone.
        milestone: Milestone,
        /// The names of the sites that do not have it yet, or do not answer.
        missing: Vec<String>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A step of a batch cannot be taken, because of what its key holds. Nothing was done.
    #[error("nothing was done, because step {step} of the batch, at key {key}, cannot be taken: {fault}")]
    Step {
        /// Which, counted from zero in the order in which steps were named.
        step: usize,
        /// Its key.
        key: String,
        /// Why.
        fault: StepFault,
    },
    /// The call is at fault. Nothing was sent.
    #[error("{0}")]
    Invalid(#[from] Invalid),
    /// The outcome was asked for after the cluster may have forgotten it.
    #[error(
        "transaction {token} began more than {} ago, and older outcomes are not kept: look at the data",
        hours(*retention)
    )]
    TooOld {
        /// The transaction that was asked for.
        token: Token,
        /// How long outcomes are kept.
        retention: Duration,
    },
    /// A read in the past wanted to go further back than versions are kept. Nothing was read.
    #[error("versions before {} are not kept any more: read at that timestamp, or later", oldest.micros)]
    SnapshotTooOld {
        /// The oldest timestamp that can be read, in microseconds since the Unix epoch and with the client that chose it.
        oldest: Timestamp,
    },
    /// The content of a keyspace at one instant cannot be read: not yet, not any more, or not at all. Nothing was changed.
    #[error("the keyspace {name:?} cannot be read at one instant: {reason}")]
    CutLost {
        /// The keyspace.
        name: String,
        /// The obstacle.
        reason: String,
    },
    /// The changes of a shard cannot be read at present. Nothing is missed: ask for the next page again.
    #[error(
        "the changes of {} cannot be read at present: {reason}. Ask again: nothing is missed",
        followed(name, *shard)
    )]
    ChangesUnavailable {
        /// The keyspace.
        name: String,
        /// The shard; none of a keyspace whose sites all have everything.
        shard: Option<ShardId>,
        /// The reason why not.
        reason: String,
    },
    /// A consumer of changes is too late: the replicas of a shard have let go what follows its cursor. Of a `parallel-snapshot` keyspace also: more sites were lost at once than it survives, and with them
    /// something that the consumer was told.
    #[error(
        "the consumer is too late: the replicas of {} retain what has committed {}, and not what follows the cursor. Read the keyspace at one instant, and go on from there",
        followed(name, *shard),
        since(retained_from)
    )]
    ChangesTooOld {
        /// The keyspace.
        name: String,
        /// The shard; none of a keyspace whose sites all have everything.
        shard: Option<ShardId>,
        /// The shard retains its changes from here on.
        retained_from: Position,
    },
    /// The replicas of a keyspace could not be changed in time. Nothing has changed.
    #[error("the replicas of {name:?} cannot be changed, and nothing was: {reason}")]
    ChangeRefused {
        /// The keyspace.
        name: String,
        /// The obstacle.
        reason: String,
    },
    /// A keyspace **is created**, and did not serve within the patience of the call. It goes on by itself.
    #[error(
        "the keyspace {name:?} is created, and {serving} of its {shards} shards serve after {waited:?}: `quorate keyspace wait {name}` \
         waits for the others, and `quorate cluster status` tells what stands in their way; do not create it again"
    )]
    NotServing {
        /// The keyspace.
        name: String,
        /// How many of its shards serve.
        serving: usize,
        /// How many there are.
        shards: usize,
        /// How long it was waited for.
        waited: Duration,
    },
    /// No node of the cluster could be reached.
    #[error("cannot reach the cluster ({}): check the address, and that a server runs there", reasons(tried))]
    Connect {
        /// Each address that was tried and what happened.
        tried: Vec<(String, String)>,
    },
    /// A server answered, but not as a server of this cluster and version does.
    #[error("the server at {address} refused the connection: {reason}")]
    Handshake {
        /// The server.
        address: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The user of this client, or a client that has not logged in, has not the right. Surely not committed, unless there is a token: then it was to be committed,
    /// and others may have let it in before the right was taken away.
    #[error("{reason}{}", doubt(token.as_ref()))]
    Denied {
        /// Why, in words that name the right.
        reason: String,
        /// The name of the transaction, if it may have committed: [`Database::outcome`](crate::Database::outcome) answers what became of it.
        token: Option<Token>,
    },
    /// The database handle was closed, or the runtime that it lived on has ended.
    #[error("the connection to the database is closed: connect again")]
    Closed,
    /// A shard refuses its part of what it was asked in one round. Surely not committed: nothing has changed anywhere.
    #[error("{shard} refuses, and nothing was changed: {refusal}")]
    Refused {
        /// The shard.
        shard: ShardId,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// The transaction's own code gave up. Surely not committed.
    #[error("{0}")]
    Application(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// An error of the transaction's own, to leave a [`transact`](crate::Keyspace::transact) closure without
    /// committing.
    ///
    /// It is returned once a commit has confirmed what the closure has read, at a moment after its call; if that has changed, the closure
    /// runs again. So a reason that follows from what was read is true. Not confirmed is what a closure has read that has scanned, or
    /// used sets or indexes, after its first write: it should read first.
    pub fn application(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Error::Application(reason.into())
    }

    /// True if the same transaction can simply be run again: it surely has not committed, and it may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Conflict | Error::Unavailable { .. } | Error::Overloaded { .. } | Error::NoSpace { .. }
        )
    }
}

impl From<InvalidProcedure> for Error {
    fn from(invalid: InvalidProcedure) -> Self {
        Error::Invalid(Invalid::Procedure(invalid))
    }
}

impl From<InvalidSeen> for Error {
    fn from(invalid: InvalidSeen) -> Self {
        Error::Invalid(Invalid::Seen(invalid))
    }
}

impl From<LimitExceeded> for Error {
    fn from(limit: LimitExceeded) -> Self {
        Error::Invalid(Invalid::Limit(limit))
    }
}

/// A call that cannot work, whatever the cluster does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A key, a value or the transaction is too large.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// Too many transactions are open at once.
    #[error(
        "{max} transactions are open, which is the limit of this client: end some first, or raise \
         `open_transactions_max`"
    )]
    OpenTransactions {
        /// The limit.
        max: usize,
    },
    /// The protocol of the keyspace has no such transactions.
    #[error(
        "keyspaces that are {isolation} have no such transactions, and {name:?} is one: use a keyspace of another isolation"
    )]
    Unsupported {
        /// The keyspace.
        name: String,
        /// Its isolation.
        isolation: Isolation,
    },
    /// The keyspace is run by a system that is there to be compared with, whose replicas tell no changes.
    #[error("{name:?} is run by a system that is there to be compared with, which tells no changes")]
    NoFeed {
        /// The keyspace.
        name: String,
    },
    /// The key of a marker holds something else, which is not written over.
    #[error(
        "{key} holds no marker, and nothing was done: give transactions that commit once keys of their own"
    )]
    NotAMarker {
        /// The key.
        key: String,
    },
    /// Another request has left its answer at the marker.
    #[error(
        "another request has the marker {key}, and nothing was done: each request has a marker of its own"
    )]
    OtherRequest {
        /// The key.
        key: String,
    },
    /// The name of the request of a marker is too long.
    #[error("the request of a marker is named by at most {max} bytes: use a digest")]
    MarkerRequest {
        /// The most that it may have, in bytes.
        max: usize,
    },
    /// An index does not allow it, or is not there.
    #[error(transparent)]
    Index(#[from] IndexFault),
    /// Users, roles or tokens cannot be changed like this.
    #[error(transparent)]
    Access(#[from] InvalidAccess),
    /// The transactions of the keyspace are not shown before they are final.
    #[error(
        "transactions of {name:?} are not shown before they are final: commit without speculation, or use a keyspace that is snapshot, of the variant \
         str-external or planet"
    )]
    ShowsNothing {
        /// The keyspace.
        name: String,
    },
    /// Transactions of such keyspaces do not speculate.
    #[error(
        "a variant of speculation, the length of its chains, its tuner or sessions in order are for keyspaces that are snapshot, not {isolation}: leave it out"
    )]
    NoSpeculation {
        /// The isolation.
        isolation: Isolation,
    },
    /// Transactions cannot speculate like this.
    #[error(transparent)]
    Speculation(#[from] SpeculationError),
    /// Only `strict` keyspaces have these options.
    #[error(
        "the order of timestamps and how far ahead is proposed again are for keyspaces that are strict, not {isolation}: leave them out"
    )]
    NoTimestamping {
        /// The isolation.
        isolation: Isolation,
    },
    /// No changes are told of such keyspaces, so there is nothing to be retained.
    #[error(
        "systems that are there to be compared with tell no changes of {isolation} keyspaces, so none are retained: leave it out"
    )]
    NoRetention {
        /// The isolation.
        isolation: Isolation,
    },
    /// So much cannot be retained.
    #[error(
        "replicas retain changes for {} hours at most, and {} bytes at most, which are in memory and in each snapshot of a log",
        Retention::TIME_MAX.as_secs() / 3600,
        Retention::BYTES_MAX
    )]
    Retention,
    /// Timestamps cannot be chosen like this.
    #[error(transparent)]
    Timestamping(#[from] TimestampingError),
    /// This client has no coordinator of the systems that others are compared with.
    #[error(
        "{rival}, which is to be compared with others, runs the keyspace, and this client does not speak its protocol: \
         build it with the feature `rivals` of the crate quorate"
    )]
    NoRivals {
        /// The system.
        rival: Rival,
    },
    /// Only shards of `serializable` keyspaces run procedures.
    #[error(
        "an application is for keyspaces that are serializable, whose shards run procedures, not {isolation}: leave it out"
    )]
    NoApplication {
        /// The isolation.
        isolation: Isolation,
    },
    /// No application has such a name.
    #[error(
        "{name:?} cannot name an application: use 1 to {max} letters, digits, '-', '_' or '.'",
        max = quorate_core::topology::APPLICATION_NAME_BYTES_MAX
    )]
    ApplicationName {
        /// The name.
        name: String,
    },
    /// A node of the sites of the keyspace could not host its replicas.
    #[error(
        "{node} is not linked with the application {application:?}, and nothing was created: it is linked with {}; start a server there that is, or \
         choose sites whose nodes are",
        if linked.is_empty() { "none".to_owned() } else { linked.join(", ") }
    )]
    NotLinked {
        /// The application.
        application: String,
        /// The node.
        node: NodeId,
        /// The applications that it is linked with.
        linked: Vec<String>,
    },
    /// Values of the keyspace do not expire.
    #[error("{}", not_expiring(name, *isolation))]
    NotExpiring {
        /// The keyspace.
        name: String,
        /// Its isolation.
        isolation: Isolation,
    },
    /// Values of such a keyspace cannot expire.
    #[error("values of such a keyspace cannot have lifetimes, which need an index on them: {reason}")]
    CannotExpire {
        /// The reason.
        reason: String,
    },
    /// Values cannot expire yet.
    #[error(
        "protocol version {in_force} is in force, in which replicas take writes of programs that do not know of lifetimes: finish the upgrade of all nodes with `quorate \
         cluster upgrade-finish`"
    )]
    ExpiringTooEarly {
        /// The version in force.
        in_force: ProtocolVersion,
    },
    /// No value can have such a lifetime.
    #[error(transparent)]
    Lifetime(#[from] LifetimeError),
    /// A value that should have an envelope has none.
    #[error(
        "the value of {key} in the keyspace {name:?} has no envelope that this version can read: write it anew, or delete it"
    )]
    NoEnvelope {
        /// The keyspace.
        name: String,
        /// The key, readable.
        key: String,
    },
    /// A site cannot be removed from a keyspace.
    #[error("nothing was removed from the keyspace {name:?}: {error}")]
    CannotRemove {
        /// The keyspace.
        name: String,
        /// Why.
        error: quorate_core::topology::RemovalError,
    },
    /// The objects of a container cannot be at these sites.
    #[error("in the keyspace {name:?}: {}", copies(site.as_deref(), error))]
    Replicas {
        /// The keyspace.
        name: String,
        /// The site, if it is one.
        site: Option<String>,
        /// Why.
        error: ReplicasError,
    },
    /// A site cannot join a keyspace.
    #[error("no site joins the keyspace {name:?}: {error}")]
    CannotJoin {
        /// The keyspace.
        name: String,
        /// Why.
        error: quorate_core::topology::JoinError,
    },
    /// The keyspace is in this site already.
    #[error("the keyspace {name:?} is in the site {site:?} already")]
    InSite {
        /// The keyspace.
        name: String,
        /// The site.
        site: String,
    },
    /// No node of this site is up.
    #[error(
        "no node of the site {site:?} is up: nothing was done; start its nodes, and look at `quorate cluster status`"
    )]
    NotUp {
        /// The site.
        site: String,
    },
    /// Nodes of this site do not know the keyspaces, and do not learn them in time.
    #[error(
        "{nodes:?} of the site {site:?} cannot read the catalogue of keyspaces: nothing was done; look at `quorate cluster status` \
         and at what they log"
    )]
    NotReady {
        /// The site.
        site: String,
        /// The nodes.
        nodes: Vec<NodeId>,
    },
    /// The keyspace has no replicas in this site.
    #[error("the keyspace {name:?} is not in the site {site:?}: choose one of those that it was created in")]
    NotInSite {
        /// The keyspace.
        name: String,
        /// The site.
        site: String,
    },
    /// The transaction is to come after one of another keyspace, or of another connection.
    #[error(
        "the commit to come after is not one of the keyspace {name:?} by this connection: wait for its receipt, and begin then"
    )]
    OtherKeyspace {
        /// The keyspace.
        name: String,
    },
    /// There is no such keyspace.
    #[error("there is no keyspace {name:?}; there are: {}", none_or_list(existing))]
    NoSuchKeyspace {
        /// The name that was asked for.
        name: String,
        /// The keyspaces that there are.
        existing: Vec<String>,
    },
    /// The keyspace was dropped, and can be brought back.
    #[error("the keyspace {name:?} was dropped: `quorate keyspace undrop {name} --id {id}` brings it back")]
    KeyspaceInDrops {
        /// Its name.
        name: String,
        /// Its number.
        id: u32,
    },
    /// There is no such keyspace that could be brought back.
    #[error(
        "no keyspace {name:?} can be brought back: it was not dropped, or its data is deleted; those that can be: {}",
        none_or_list(existing)
    )]
    NoSuchDrop {
        /// The name that was asked for.
        name: String,
        /// The keyspaces that can be brought back, each name with its number.
        existing: Vec<String>,
    },
    /// The catalogue is to forget a keyspace that it knows.
    #[error("the catalogue knows the keyspace with number {id}, so that there is nothing to forget: {how}")]
    KeyspaceKnown {
        /// Its number.
        id: u32,
        /// How.
        how: String,
    },
    /// The keyspace exists already.
    #[error("there is a keyspace {name:?} already: choose another name, or drop it first")]
    KeyspaceExists {
        /// Its name.
        name: String,
    },
    /// The keyspace exists already, and is not as was asked for.
    #[error(
        "there is a keyspace {name:?} already, with other options ({differences}): leave it as it is and ask for those, choose another name, or drop it first"
    )]
    KeyspaceDiffers {
        /// Its name.
        name: String,
        /// Each with what it has and what was asked for.
        differences: String,
    },
    /// A node cannot have so many replicas more.
    #[error(
        "{wanted} replicas would be on {node}, which can open the files of {room} more, and nothing was created: raise its limit of \
         open files (ulimit -n, LimitNOFILE) and start it again, or take fewer shards"
    )]
    NoRoom {
        /// The node.
        node: NodeId,
        /// How many would be there.
        wanted: u64,
        /// How many can.
        room: u64,
    },
    /// The name cannot name a keyspace.
    #[error(
        "{name:?} cannot name a keyspace: use 1 to {max} letters, digits, '-', '_' or '.', and begin with a letter",
        max = quorate_core::topology::KEYSPACE_NAME_BYTES_MAX
    )]
    KeyspaceName {
        /// The name that was given.
        name: String,
    },
    /// The built-in catalogue can neither be created nor dropped.
    #[error("{name:?} is the built-in catalogue, which cannot be created, dropped or written to")]
    SystemKeyspace {
        /// Its name.
        name: String,
    },
    /// There is no such site.
    #[error("there is no site {name:?}; there are: {}", none_or_list(existing))]
    NoSuchSite {
        /// The name that was asked for.
        name: String,
        /// The sites that there are.
        existing: Vec<String>,
    },
    /// The keyspace's shards cannot be placed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The timestamp that this session has seen, or was told to have seen by [`observe`](crate::Database::observe), is further ahead than any
    /// shard has come.
    #[error(
        "this session has seen a timestamp that is {ahead_micros} µs ahead of a replica's clock, and no shard has come so far: it is of \
         another cluster or keyspace, or of data that was lost; open the database anew"
    )]
    SeenAhead {
        /// How far it is ahead.
        ahead_micros: u64,
    },
    /// The token is of another keyspace.
    #[error(
        "what was seen is of another keyspace than {name:?}: the token is of another cluster; go on without it"
    )]
    SeenElsewhere {
        /// The keyspace of the same number here.
        name: String,
    },
    /// The session has seen, or was told to have seen by [`observe`](crate::Database::observe), transactions that were never there.
    #[error(
        "of keyspace {name:?} something was seen that {site} never had: the token is of another cluster, or of data that was lost; the \
         session goes on without it"
    )]
    NeverSeen {
        /// The keyspace.
        name: String,
        /// The site.
        site: String,
    },
    /// A token of what was seen cannot be one, or is too large.
    #[error(transparent)]
    Seen(#[from] InvalidSeen),
    /// The clock of this machine is wrong.
    #[error(
        "the clock of this machine is {ahead_micros} µs ahead of a replica's, and {ahead_max_micros} µs are allowed: \
         set it right"
    )]
    ClockAhead {
        /// How far it is ahead.
        ahead_micros: u64,
        /// How far it may be.
        ahead_max_micros: u64,
    },
    /// A keyspace cannot state such a bound of clocks.
    #[error("a bound of clocks can be {max:?} at most: every commit takes as long")]
    ClockBound {
        /// The greatest.
        max: Duration,
    },
    /// The keyspace states no bound of clocks.
    #[error(
        "the keyspace {name:?} states no bound of clocks, so that nothing can be read by the clock: use `read_only` \
         or `scan`, which rely on none"
    )]
    NoClockBound {
        /// Its name.
        name: String,
    },
    /// A replica does not accept that its records are lost.
    #[error("{replica} does not accept the loss of its records: {reason}")]
    LossNotAccepted {
        /// The replica.
        replica: ReplicaId,
        /// Why not.
        reason: String,
        /// True if that passes by itself within moments, so that the call may be repeated.
        passes: bool,
    },
    /// A shard is lost for good, an operator has said: what touches it is executed nowhere.
    #[error(
        "{shard} of keyspace {name:?} is lost for good, as an operator has declared, and nothing that touches it is executed: \
         leave out its keys, or restore the keyspace"
    )]
    ShardLost {
        /// The name of the keyspace.
        name: String,
        /// The shard.
        shard: ShardId,
    },
    /// A replica was not told that a shard is lost.
    #[error("{replica} was not told that a shard is lost: {reason}")]
    LossNotDeclared {
        /// The replica.
        replica: ReplicaId,
        /// Why not.
        reason: String,
    },
    /// The keyspace was dropped while it was in use.
    #[error("the keyspace {name:?} was dropped")]
    KeyspaceDropped {
        /// Its name.
        name: String,
    },
    /// The replicas of the keyspace have changed, and it could not be found out in time who they are now.
    #[error(
        "the replicas of keyspace {name:?} have changed, and nobody could say in time who they are now: try again"
    )]
    KeyspaceOutdated {
        /// Its name.
        name: String,
    },
    /// The replicas of a keyspace cannot be where they are wanted.
    #[error("the replicas of {name:?} cannot move so: {error}")]
    CannotMove {
        /// Its name.
        name: String,
        /// Why not.
        error: MoveError,
    },
    /// Groups cannot be as they would have to be.
    #[error(transparent)]
    CannotChange(ChangeError),
    /// There is no such node, or it was forgotten.
    #[error("{node} is no node of this cluster")]
    NoSuchNode {
        /// The node.
        node: NodeId,
    },
    /// A node cannot be forgotten.
    #[error(
        "{node} has replicas of {what:?}, or had some that are still needed: move them away first, with `quorate cluster drain`"
    )]
    NodeInUse {
        /// The node.
        node: NodeId,
        /// The keyspace.
        what: String,
    },
    /// The quorum store is there to be measured, on the replicas that it was created with.
    #[error(
        "{name:?} is run by the quorum store, whose replicas stay where they are: drop it, and create it again"
    )]
    QuorumStoreStays {
        /// Its name.
        name: String,
    },
    /// A batch goes beyond a limit, or reads more than a transaction may.
    #[error("the batch cannot be carried out: {reason}")]
    Batch {
        /// Why.
        reason: String,
    },
    /// An announcement is too long, or its topic.
    #[error("nothing was announced: {reason}")]
    Announcement {
        /// Why.
        reason: String,
    },
    /// A procedure cannot be deployed, called or removed so.
    #[error(transparent)]
    Procedure(#[from] InvalidProcedure),
    /// The transaction has ended, because an earlier call of it failed or took too long.
    #[error("the transaction is over: begin a new one")]
    TransactionOver,
    /// Not a token.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// Not a cursor, or one of something else.
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
}

/// A replica that did not answer, and where it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingReplica {
    /// The replica.
    pub replica: ReplicaId,
    /// The address of its node, if the directory knows it.
    pub address: String,
    /// The name of its site, if the directory knows it.
    pub site: String,
    /// Why it will not serve before an operator acts, and what to do, if its node has said so.
    pub problem: Option<String>,
    /// The way out for an operator if it never comes back, where nothing goes on without it. It may be back in a moment.
    pub if_lost: Option<String>,
}

impl fmt::Display for MissingReplica {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at {} ({})", self.replica, self.address, self.site)
    }
}

fn list(missing: &[MissingReplica]) -> String {
    if missing.is_empty() {
        return "it is not known which".to_owned();
    }
    missing.iter().map(MissingReplica::to_string).collect::<Vec<_>>().join(", ")
}

fn has_problem(missing: &[MissingReplica]) -> bool {
    missing.iter().any(|replica| replica.problem.is_some())
}

/// The steps to take. Several replicas may say the same of themselves, which is said once.
fn advice(missing: &[MissingReplica]) -> String {
    let said = |of: fn(&MissingReplica) -> Option<&str>| {
        let said: BTreeSet<&str> = missing.iter().filter_map(of).collect();
        (!said.is_empty()).then(|| said.into_iter().collect::<Vec<_>>().join("; "))
    };
    match (said(|replica| replica.problem.as_deref()), said(|replica| replica.if_lost.as_deref())) {
        (Some(problems), _) => format!("an operator has to act: {problems}"),
        (None, Some(if_lost)) => format!("try again when they are back; {if_lost}"),
        (None, None) => "try again when they are back".to_owned(),
    }
}

/// Why the objects of a container cannot be at some sites.
fn copies(site: Option<&str>, error: &ReplicasError) -> String {
    match (site, error) {
        (Some(site), ReplicasError::NoCopy(_)) => format!(
            "the objects of the container are not at the site {site:?}: it can only be placed at sites that have its objects, and sites only \
             ever give them up"
        ),
        (Some(site), ReplicasError::PreferredWithoutCopy(_)) => format!(
            "{site:?} is to be the preferred site of the container, and is none of the sites that are to have its objects: name it among them"
        ),
        _ => error.to_string(),
    }
}

fn none_or_list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The subject of a feed.
fn followed(name: &str, shard: Option<ShardId>) -> String {
    shard.map_or_else(|| format!("{name:?}"), |shard| format!("{shard} of {name:?}"))
}

/// From where on changes are retained.
fn since(position: &Position) -> String {
    match position {
        Position::Timestamp(timestamp) => format!("since {} microseconds after 1970", timestamp.micros),
        Position::Sites(_) => format!("behind {position}, so many transactions of each site"),
    }
}

/// The rest of the text of a refusal: what of a transaction that was to be committed.
fn doubt(token: Option<&Token>) -> String {
    token.map_or_else(String::new, |token| {
        format!(" by this node; others may have let it in before the right was taken away: ask for the outcome of {token}")
    })
}

fn reasons(tried: &[(String, String)]) -> String {
    tried.iter().map(|(address, reason)| format!("{address}: {reason}")).collect::<Vec<_>>().join("; ")
}

fn not_expiring(name: &str, isolation: Isolation) -> String {
    let how = match isolation {
        Isolation::Strict | Isolation::Snapshot => {
            "create one with `--expiring`, which cannot be changed later".to_owned()
        }
        Isolation::Serializable => {
            "in a serializable keyspace the commands of Redis expire keys; else use a keyspace that is strict or snapshot".to_owned()
        }
        Isolation::ParallelSnapshot => "use a keyspace that is strict or snapshot, created with `--expiring`".to_owned(),
    };
    format!("values of the keyspace {name:?} have no lifetimes: {how}")
}

fn hours(retention: Duration) -> String {
    let seconds = retention.as_secs();
    if seconds >= 3600 && seconds.is_multiple_of(3600) {
        format!("{} h", seconds / 3600)
    } else {
        format!("{retention:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ReplicaIndex;

    #[test]
    fn messages_say_what_happened_and_what_to_do() {
        let missing = MissingReplica {
            replica: ReplicaId { shard: ShardId(3), index: ReplicaIndex(1) },
            address: "10.0.0.2:7400".to_owned(),
            site: "eu".to_owned(),
            problem: None,
            if_lost: None,
        };
        let problem = Some("it has lost its records: bring back its disk".to_owned());
        let lost = MissingReplica { problem, ..missing.clone() };
        let if_lost = Some("if it is lost, remove it".to_owned());
        let restarting = MissingReplica { if_lost, ..missing.clone() };
        let table = [
            (Error::Conflict, vec!["nothing was committed", "again"]),
            (Error::BelowZero, vec!["nothing was committed", "counter", "this site knows"]),
            (
                Error::Unavailable { missing: vec![restarting.clone()] },
                vec!["can be reached", "again when they are back; if it is lost, remove it"],
            ),
            (
                Error::Unavailable { missing: vec![restarting, lost.clone()] },
                vec!["too few replicas serve", "an operator has to act: it has lost"],
            ),
            (Error::Unavailable { missing: vec![missing] }, vec!["shard3/r1 at 10.0.0.2:7400 (eu)", "again"]),
            (
                Error::Unavailable { missing: vec![lost.clone(), lost] },
                vec!["too few replicas serve", "shard3/r1", "an operator has to act: it has lost", "disk"],
            ),
            (
                Error::Overloaded { retry_after: Duration::from_millis(20) },
                vec!["nothing was started", "20ms"],
            ),
            (Error::Connect { tried: vec![("a:1".into(), "refused".into())] }, vec!["a:1: refused", "check"]),
            (
                Error::NotReached {
                    milestone: Milestone::Durable,
                    missing: vec!["eu".into(), "us".into()],
                    waited: Duration::from_secs(2),
                },
                vec!["has committed", "not durable yet after 2s", "missing sites: eu, us", "again"],
            ),
            (Invalid::NoSuchKeyspace { name: "x".into(), existing: vec![] }.into(), vec!["\"x\"", "none"]),
        ];
        for (error, parts) in table {
            let message = error.to_string();
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }

    #[test]
    fn only_what_surely_did_not_commit_may_simply_be_run_again() {
        let token: Token = "a.1.0.1.1".parse().unwrap();
        assert!(Error::Conflict.is_retryable());
        assert!(!Error::BelowZero.is_retryable(), "it would fail again at once");
        assert!(!Error::Unknown { token: token.clone() }.is_retryable());
        let too_old = Error::TooOld { token, retention: Duration::from_secs(24 * 3600) };
        assert!(!too_old.is_retryable());
        assert!(too_old.to_string().contains("more than 24 h ago"), "{too_old}");
    }
}
