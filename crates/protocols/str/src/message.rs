//! Everything that is said. A reader who knows only this file knows the protocol.
//!
//! ```text
//!   client          home: the node's machine     replica of a shard    leader of that shard      other replicas
//!     ├─ READ ──────────────►│ snapshot                │ on the node            │                      │
//!     │                      ├─ READ-AT ──────────────►│ last reader            │                      │
//!     │                      │◄────────── READ-AT-REPLY┤                        │                      │
//!     │◄─────── READ-REPLY ──┤ or of one that has committed here                │                      │
//!     ├─ COMMIT ────────────►├─ PREPARE ──────────────►│ note                   │                      │
//!     │                      │◄───────────── LOCAL-VOTE┤                        │                      │
//!     │◄──────────── SHOWN ──┤ committed locally       │                        │                      │
//!     │                      ├─ PREPARE ───────────────────────────────────────►│ append, REPLICATE ──►│
//!     │                      │◄──────────────────────────────────────────────────────────────── VOTE ──┤
//!     │                      │◄─────────────────────────────────────── PREPARED ┤ stable               │
//!     │                      │ the decision is stable in the home's log          │                      │
//!     │◄──── COMMIT-REPLY ───┤                                                   │                      │
//!     │                      ├─ DECIDE ────────────────────────────────────────►│ append               │
//!     │                      │◄──────────────────────────────────────── APPLIED ┤                      │
//! ```
//!
//! A replica of a shard *holds a grant* if its leader has appended that it may serve snapshots up to a bound (ADR 0050).

use std::fmt;

use quorate_core::command::Outcome;
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    ClockTime, Key, KeyRange, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, View, Write,
};

use crate::entry::Decision;

/// One life of a machine: drawn at random when it starts. A promise that was made in one life means nothing in the next.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub u64);

impl fmt::Debug for Life {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "life{:x}", self.0)
    }
}

/// A stretch of the life of a machine of a home. A commit that was sent in an earlier one may have been forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period {
    /// The life; zero as long as the client has not heard of one.
    pub life: Life,
    /// Counts the periods of that life.
    pub number: u64,
}

/// The order of a session, as far as a transaction has to follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The greatest timestamp that the client has been told: its snapshot is above.
    pub seen: ClockTime,
    /// The transaction of the client before, if that was shown or sent and is not final: the transaction depends on its flow (section 6.4).
    pub after: Option<TransactionId>,
}

/// A wish to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A key.
    Key(Key),
    /// The keys of a range, in order.
    Range {
        /// The range.
        range: KeyRange,
        /// At most so many.
        limit: u32,
    },
}

/// A snapshot holds this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Of a key: the version, which is [`Timestamp::ZERO`] if it was never written.
    Key(KeyVersion),
    /// Of a range.
    Range {
        /// The keys, ascending, deleted ones with no value.
        keys: Vec<KeyVersion>,
        /// The first key that was not covered; none if the whole range was.
        next: Option<Key>,
    },
}

/// Why a snapshot cannot be read at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It lies below this floor, where versions may have been collected.
    TooOld(ClockTime),
    /// It is further ahead of this clock than is allowed. No reader was noted.
    Ahead(ClockTime),
    /// Leaders alone are granted snapshots, and this replica does not lead; that one does, as far as it knows.
    NotLeading(ReplicaIndex),
}

/// A replica that had been granted snapshots when a transaction was prepared, and has to vote on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The replica.
    pub replica: ReplicaIndex,
    /// In which of its lives.
    pub life: Life,
    /// It serves no snapshot above. A commit above needs no vote of it.
    pub until: ClockTime,
}

/// Why a transaction is not prepared, or not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another one is about to write a key.
    Conflict,
    /// Another one has written a key at this timestamp, above its snapshot. The next snapshot is to include it, or would be refused again for
    /// as long as clocks are behind.
    Overwritten(ClockTime),
    /// A transaction of its node that it depends on has aborted, or became final above its snapshot.
    Misspeculated,
    /// Its snapshot lies below this floor.
    TooOld(ClockTime),
    /// Its snapshot is further ahead of this clock than is allowed.
    Ahead(ClockTime),
    /// A shard has not answered in time.
    Unavailable(ShardId),
    /// The home has restarted, or has not heard of it for too long.
    Lost,
    /// The home, or a replica, has too much to do.
    Overloaded,
    /// The clock of the client is so far ahead of that of the home. No outcome could be remembered for that long.
    ClientAhead {
        /// By so much.
        ahead_micros: u64,
        /// So much is allowed.
        ahead_max_micros: u64,
    },
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It committed.
    Committed {
        /// At this timestamp; one that wrote nothing, at its snapshot.
        timestamp: Timestamp,
        /// It has read this snapshot.
        snapshot: ClockTime,
    },
    /// It did not.
    Aborted(Refusal),
}

/// The messages of the participants of a transaction to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client to the machine of a home: read this for a transaction. The first such message of a transaction takes its snapshot.
    Read {
        /// The transaction.
        transaction: TransactionId,
        /// The order that it has to follow, if it takes its snapshot.
        session: Session,
        /// Its snapshot, once the client knows it. A home that does not know such a transaction has lost it.
        snapshot: Option<ClockTime>,
        /// Numbers the reads of the transaction.
        request: u32,
        /// The keys and ranges.
        wanted: Vec<Wanted>,
    },
    /// Home to client: that was read. Read-write transactions may still find out that a version was none.
    ReadReply {
        /// The transaction.
        transaction: TransactionId,
        /// The number of the read.
        request: u32,
        /// The snapshot of the transaction.
        snapshot: ClockTime,
        /// In the order of the wishes.
        found: Vec<Found>,
        /// The period of the home.
        period: Period,
    },
    /// Client to home: commit this.
    Commit {
        /// The transaction.
        transaction: TransactionId,
        /// The order that it has to follow, if it has read nothing.
        session: Session,
        /// Its snapshot, if it has one.
        snapshot: Option<ClockTime>,
        /// The period that the client knew when it sent this first.
        period: Period,
        /// The client's clock when it was begun: its outcome is remembered for as long as one of that time.
        begun: ClockTime,
        /// Its writes, ascending by key.
        writes: Vec<Write>,
        /// True if the client may be shown the result before it is final (the paper's *canSpecCommit*).
        shows: bool,
        /// True if it has read an index list in its snapshot, and keeps the indexes that stand there ([`quorate_core::reserved`]).
        knows_indexes: bool,
    },
    /// Home to client: the transaction has committed locally (the paper's *onSpecCommit*). It may still abort.
    Shown {
        /// The transaction.
        transaction: TransactionId,
        /// Its snapshot.
        snapshot: ClockTime,
        /// Its local timestamp.
        local: ClockTime,
        /// So many transactions of its client are shown and not settled, itself among them.
        chain: u8,
    },
    /// Home to client: the transaction is under way and was not shown, or begins in a moment. The client may conclude that the node lives.
    UnderWay {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Home to client, after COMMIT: the transaction is over. The client may conclude that this never changes.
    CommitReply {
        /// The transaction.
        transaction: TransactionId,
        /// How it ended.
        ending: Ending,
    },
    /// Home to client, asked or unasked: the transaction cannot commit here. The client may conclude that it has not, unless it has asked
    /// some machine to commit it.
    Doomed {
        /// The transaction.
        transaction: TransactionId,
        /// Why.
        refusal: Refusal,
    },
    /// Home to client: the commit was sent in a period that is not remembered, so nothing was done about it.
    OtherPeriod {
        /// The transaction.
        transaction: TransactionId,
        /// The present one.
        period: Period,
    },
    /// Client to home: drop the transaction.
    Abort {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Client, or leader of a shard, to a replica of a home: what became of this? If nobody has decided it, it is aborted by that.
    Inquire {
        /// The transaction.
        transaction: TransactionId,
        /// Its snapshot, or its client's clock when it was begun: what lies further back may be forgotten.
        snapshot: ClockTime,
    },
    /// Replica of a home to a client that has inquired: so it ended; none if that is forgotten.
    InquireReply {
        /// The transaction.
        transaction: TransactionId,
        /// How it ended.
        outcome: Option<Outcome>,
    },
    /// Home to a replica of a shard: read this at a snapshot. The receiver notes the reader first, on every path (section 6.3).
    ReadAt {
        /// The life of the sender.
        life: Life,
        /// Numbers the reads of the sender.
        request: u64,
        /// The snapshot.
        snapshot: ClockTime,
        /// The keys and ranges.
        wanted: Vec<Wanted>,
    },
    /// A replica answers a read at a snapshot with committed versions. Where the sender is of the home's own node, those that have committed
    /// there alone are left out.
    ReadAtReply {
        /// The life of the home that asked.
        life: Life,
        /// The number of the read.
        request: u64,
        /// In the order of the wishes.
        found: Vec<Found>,
        /// All that has committed below this is in `found`, or was overwritten or deleted since; and deletions below it may be forgotten. So the home goes by no version
        /// of its cache that lies below. Nothing is said of that by a replica of an earlier version.
        floor: ClockTime,
    },
    /// A replica refuses a read at a snapshot. The home may conclude that no other replica serves it either.
    CannotRead {
        /// The life of the home that asked.
        life: Life,
        /// The number of the read.
        request: u64,
        /// Why.
        why: Unreadable,
    },
    /// Home to a replica of a shard: certify this. To the replica on its own node it is the local certification (section 6.5): the receiver
    /// notes the transaction, and if it leads appends it as well. To the leader it is the global one.
    Prepare {
        /// The transaction.
        transaction: TransactionId,
        /// The life of the home.
        life: Life,
        /// Its snapshot.
        snapshot: ClockTime,
        /// Its writes at the receiver's shard, ascending by key.
        writes: Vec<Write>,
        /// Transactions of this home whose writes are in its snapshot: it may stand on top of theirs, and never commits before them.
        after: Vec<TransactionId>,
        /// True for the local certification.
        is_local: bool,
        /// True if it keeps the indexes of its snapshot.
        knows_indexes: bool,
    },
    /// Replica to the home of its node: the transaction is noted here. From now on no snapshot above its own is served that lacks it,
    /// until its outcome is known here.
    LocalVote {
        /// The transaction.
        transaction: TransactionId,
        /// The life of the sender.
        life: Life,
        /// It proposes this timestamp.
        proposal: ClockTime,
        /// True if the sender leads, and has appended it.
        leads: bool,
    },
    /// Leader of a shard to each other replica that holds a grant: this is being appended (section 6.5: *replicate*).
    Replicate {
        /// The transaction.
        transaction: TransactionId,
        /// Its home.
        home: ReplicaId,
        /// The life of its home.
        life: Life,
        /// Its snapshot.
        snapshot: ClockTime,
        /// The keys that it writes.
        keys: Vec<Key>,
        /// The receiver, as the leader knows it.
        holder: Holder,
        /// Under which view it is appended.
        view: View,
    },
    /// Replica that holds a grant to home: as [`Message::LocalVote`], as long as nobody leads a later view.
    Vote {
        /// The transaction.
        transaction: TransactionId,
        /// The life in which the sender holds the grant.
        life: Life,
        /// The view whose leader has announced the transaction.
        view: View,
        /// It proposes this timestamp.
        proposal: ClockTime,
    },
    /// Leader of a shard to home: the transaction is prepared, durably.
    Prepared {
        /// The transaction.
        transaction: TransactionId,
        /// The view whose leader has appended it.
        view: View,
        /// The shard proposes this timestamp.
        proposal: ClockTime,
        /// These have to vote as well, under this view.
        holders: Vec<Holder>,
    },
    /// Replica to home: the shard does not let it in.
    Refused {
        /// The transaction.
        transaction: TransactionId,
        /// Why.
        refusal: Refusal,
    },
    /// Home to replicas of the shards that it wrote to: it ended like this, durably if it committed.
    Decide {
        /// The transaction.
        transaction: TransactionId,
        /// How.
        outcome: Outcome,
        /// The latest snapshots that have read its keys at its own node alone.
        readers: Vec<(Key, ClockTime)>,
        /// True if the home remembers nothing of it: it has aborted, unless the shard knows that it has committed. A commit is forgotten once every shard has
        /// applied it, and an inquiry that was sent before that may come long after it.
        is_forgotten: bool,
    },
    /// Leader of a shard to home: the outcome is in the shard's log.
    Applied {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Replica to the home of its node: a transaction that has committed here alone conflicts with one that its shard lets in, and is to be
    /// aborted (section 6.5). The sender does not vote for the other before.
    GiveWay {
        /// The one that is to be aborted.
        transaction: TransactionId,
    },
    /// Replica to the leader of its shard: grant me snapshots.
    AskGrant {
        /// The life of the sender.
        life: Life,
        /// The latest snapshot that waits at the sender; zero if none does.
        wanted: ClockTime,
    },
    /// Home to the leader of a shard: what is the time? A home compares its clock before it reads by it.
    AskTime {
        /// The life of the sender.
        life: Life,
    },
    /// Leader of a shard to home: its clock shows this.
    Time {
        /// The life in which the home has asked.
        life: Life,
        /// The reading.
        clock: ClockTime,
    },
    /// Replica to the home of its node: it serves snapshots up to here, and has every earlier prepare.
    Bound {
        /// The bound.
        until: ClockTime,
        /// The clock of the leader that has granted it.
        clock: ClockTime,
    },
    /// Machines of one node to each other: I live this life.
    Hello {
        /// The life.
        life: Life,
        /// True if the sender does not know the life of the receiver.
        wants: bool,
    },
    /// Machine of a home to the leader of its log: record this decision.
    Record {
        /// The decision.
        decision: Decision,
        /// The time below which the machine knew outcomes to be forgotten when it let the commit in. Earlier versions do not say.
        forgotten: Option<ClockTime>,
    },
    /// Leader of a home's log to the machine that has decided: this is what became of it.
    Recorded {
        /// The transaction.
        transaction: TransactionId,
        /// How it ended.
        outcome: Outcome,
    },
    /// Machine of a home to the leader of its log: every shard has applied these outcomes.
    Settled {
        /// The transactions.
        transactions: Vec<TransactionId>,
    },
    /// The receiver of a message does not lead, so it has done nothing about it.
    NotLeading {
        /// The transaction; none if it was about none.
        transaction: Option<TransactionId>,
        /// The leader, as far as it knows.
        leader: ReplicaIndex,
    },
}

/// The greatest version that a snapshot includes.
pub(crate) const fn newest_of(snapshot: ClockTime) -> Timestamp {
    Timestamp { micros: snapshot.as_micros(), client: quorate_core::ClientId(u64::MAX) }
}

/// One more.
pub(crate) const fn after(time: ClockTime) -> ClockTime {
    ClockTime::from_micros(time.as_micros().saturating_add(1))
}
