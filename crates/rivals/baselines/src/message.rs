//! Everything that is said. A reader who knows only this file knows the protocol.
//!
//! ```text
//!   coordinator          a replica nearby   timestamp server     leaders of the participants      their backups
//!       ├─ READ ────────────────►│                 │                        │                           │
//!       │◄──────── READ-REPLY ───┤                 │                        │                           │
//!       ├─ NEXT-TIMESTAMP ────────────────────────►│                        │                           │
//!       │◄─────────────────── NEXT-TIMESTAMP-REPLY ┤                        │                           │
//!       ├─ PREPARE ────────────────────────────────────────────────────────►│ validate, append PREPARED │
//!       │                                                                   ├──────────────────────────►│
//!       │                                                                   │◄──────────────────────────┤
//!       │◄─────────────────────────────────────────────────── PREPARE-REPLY ┤ stable                    │
//!     committed if all have prepared
//!       ├─ DECIDE ─────────────────────────────────────────────────────────►│ append DECIDED            │
//! ```
//!
//! Where there is a dedicated coordinator, the client asks it, and it the participants; a transaction that one participant decides alone, the
//! client asks that one:
//!
//! ```text
//!   client          dedicated coordinator     leaders of the participants      their backups
//!       ├─ COORDINATE ─────────►│                          │                           │
//!       │                       ├─ PREPARE ───────────────►│ validate, append PREPARED │
//!       │                       │                          ├──────────────────────────►│
//!       │                       │                          │◄──────────────────────────┤
//!       │                       │◄─────────── PREPARE-REPLY┤ stable                    │
//!       │◄── COORDINATE-REPLY ──┤                          │                           │
//!       │                       ├─ DECIDE ────────────────►│ append DECIDED            │
//! ```

use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    ClockTime, Key, KeyRange, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, Value, View,
};

/// A message between the participants of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Coordinator to a replica nearby: what does this key hold? The answer may be stale; validation finds out. Where what is
    /// read is locked, to the leader: it answers when nobody is about to write the key, and nobody will before the lock is
    /// released, or wounded.
    Read {
        /// The transaction.
        transaction: TransactionId,
        /// The key.
        key: Key,
        /// How old the transaction is, if it is to lock the key.
        lock: Option<Timestamp>,
    },
    /// The newest version of a key that this replica has applied.
    ReadReply {
        /// The transaction.
        transaction: TransactionId,
        /// The key.
        key: Key,
        /// The transaction that wrote it; [`Timestamp::ZERO`] if nobody has.
        version: Timestamp,
        /// The value that it holds.
        value: Option<Value>,
        /// The view in which the key is locked: the lock ends with it.
        locked_in: Option<View>,
    },
    /// Coordinator to a replica nearby: what do the keys of this range hold?
    Scan {
        /// The transaction.
        transaction: TransactionId,
        /// Tells the scans of one transaction apart.
        request: u32,
        /// The range.
        range: KeyRange,
        /// At most so many keys.
        limit: u32,
        /// How old the transaction is, if it is to lock what the answer covers.
        lock: Option<Timestamp>,
    },
    /// The keys of a range, as far as one page goes.
    ScanReply {
        /// The transaction.
        transaction: TransactionId,
        /// Which scan is answered.
        request: u32,
        /// Keys in order, deleted ones included.
        keys: Vec<KeyVersion>,
        /// The first key that is not covered, if the page is full.
        next: Option<Key>,
        /// The view in which what is covered is locked: the lock ends with it.
        locked_in: Option<View>,
    },
    /// Coordinator to the leader of a shard where it has locks: it gives them up.
    Release {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Leader to the coordinator of a transaction that has locked what an older one is to write: it has lost its locks, and
    /// cannot commit.
    Wounded {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Coordinator to the leader of the timestamp server: a timestamp above all that were given before, and above this.
    NextTimestamp {
        /// The transaction.
        transaction: TransactionId,
        /// A replica has asked for more than this.
        above: Timestamp,
    },
    /// A timestamp that nobody else is given. Never durable by itself: a timestamp below a stable ceiling is given once.
    NextTimestampReply {
        /// The transaction.
        transaction: TransactionId,
        /// The timestamp.
        timestamp: Timestamp,
    },
    /// Client to the leader of the group that coordinates: commit this. It asks the participants, and does nothing durable by
    /// itself: the present leader of that group may be asked again, as often as need be.
    Coordinate {
        /// The transaction.
        transaction: TransactionId,
        /// Its reads and writes at each participant, in their order.
        parts: Vec<Arc<Transaction>>,
        /// The timestamp that is proposed: it may commit at a later one.
        proposed: Timestamp,
    },
    /// The outcome of a transaction: never that it is prepared.
    CoordinateReply {
        /// The transaction.
        transaction: TransactionId,
        /// How the participants stand to it, taken together.
        standing: Standing,
    },
    /// Coordinator to the leader of each participant: may this commit? The first answer that is stable is the last. Where one
    /// participant commits by itself what nobody else takes part in, that is its answer.
    Prepare {
        /// The transaction.
        transaction: TransactionId,
        /// Its reads and writes at the receiver's shard.
        part: Arc<Transaction>,
        /// The timestamp that is proposed: it may commit at a later one.
        proposed: Timestamp,
        /// When the first attempt at it began.
        age: Timestamp,
        /// The view in which it has locked what it has read here.
        locked_in: Option<View>,
    },
    /// How the receiver's shard stands to a transaction, durably.
    PrepareReply {
        /// The transaction.
        transaction: TransactionId,
        /// How.
        standing: Standing,
    },
    /// Coordinator to the leaders of all shards that a transaction has read, and that writes nothing: is what it has read
    /// still the newest? Nothing is held: what was the newest before this was asked and is so after it was the newest at the
    /// instant at which it was asked, at all shards at once.
    Validate {
        /// The transaction.
        transaction: TransactionId,
        /// Its reads at the receiver's shard.
        part: Arc<Transaction>,
        /// The view in which it has locked that. The locks end with the answer.
        locked_in: Option<View>,
        /// The timestamp at which it has read, where there are snapshots: nothing is prepared below any more.
        at: Option<Timestamp>,
    },
    /// Whether what a transaction has read is still the newest.
    ValidateReply {
        /// The transaction.
        transaction: TransactionId,
        /// True if it is, and nobody is about to write it.
        is_valid: bool,
    },
    /// Coordinator to the leader of a shard: what do these keys hold now? Strict by itself, because one shard is asked once.
    /// Answered when nobody is about to write one of them.
    ReadCurrent {
        /// The transaction.
        transaction: TransactionId,
        /// The keys.
        keys: Vec<Key>,
    },
    /// The newest versions of keys.
    ReadCurrentReply {
        /// The transaction.
        transaction: TransactionId,
        /// In the order of the question.
        found: Vec<KeyVersion>,
        /// Nothing that writes them commits at or below, now or later, but what was found.
        timestamp: Timestamp,
    },
    /// Coordinator to the leader of a shard: what did the receiver's shard hold at this timestamp? Nothing is prepared at or
    /// below any more, also by later leaders; what is prepared there already is waited for.
    ReadAt {
        /// The transaction.
        transaction: TransactionId,
        /// The keys or the range that are read.
        wanted: Wanted,
        /// The timestamp.
        at: Timestamp,
    },
    /// The values of a shard at a timestamp.
    ReadAtReply {
        /// The transaction.
        transaction: TransactionId,
        /// Keys in order, absent ones included.
        found: Vec<KeyVersion>,
        /// The first key of the range that is not covered, if the page is full.
        next: Option<Key>,
    },
    /// So far back no versions are kept.
    SnapshotTooOld {
        /// The transaction.
        transaction: TransactionId,
        /// The oldest timestamp that can be read.
        oldest: Timestamp,
    },
    /// Coordinator, or participant that has found out, to the leaders of the participants: how the transaction ends. It is a
    /// fact already: it follows from what the participants have made durable.
    Decide {
        /// The transaction.
        transaction: TransactionId,
        /// Its fate.
        outcome: Outcome,
    },
    /// A coordinator or a leader to every replica of a participant: how do you stand to this transaction? A leader that
    /// has not heard of it refuses it first, so that every answer is final.
    Inquire {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that takes part in it, sorted.
        participants: Vec<ShardId>,
        /// When it was proposed.
        age: Age,
    },
    /// How the shard of the sender stands to a transaction, durably.
    InquireReply {
        /// The transaction.
        transaction: TransactionId,
        /// How.
        standing: Standing,
    },
    /// The receiver of a message does not lead its shard, so it has done nothing about it.
    NotLeading {
        /// The transaction.
        transaction: TransactionId,
        /// The leader, as far as the sender knows.
        leader: ReplicaIndex,
    },
    /// Leader to the replicas of a shard that took part in what it remembers: below what do you refuse to prepare?
    AskFloor,
    /// Nothing is prepared below this at the shard of the sender, now or later.
    AskFloorReply {
        /// Its floor.
        floor: Timestamp,
    },
}

/// A part of a snapshot that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// These keys.
    Keys(Vec<Key>),
    /// The first so many keys of a range.
    Range(KeyRange, u32),
}

/// The standing of a shard to a transaction. Conclusions from it never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has prepared it at this timestamp and waits for the outcome.
    Prepared(Timestamp),
    /// It knows the outcome, or has refused it.
    Ended(Outcome),
    /// It was proposed below the floor of the shard and is not prepared there: it was not and never will be. The proposer's
    /// clock is behind.
    TooOld {
        /// The reading of the clock of the shard's leader.
        clock: ClockTime,
    },
    /// It was proposed so long ago that its outcome may have been known and is forgotten.
    Forgotten {
        /// The reading of the clock of the shard's leader.
        clock: ClockTime,
    },
}

/// When a transaction was proposed, as far as somebody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// At just this timestamp.
    Proposed(Timestamp),
    /// Not before this one.
    NotBefore(Timestamp),
}

impl Age {
    /// It was not proposed before.
    pub fn not_before(self) -> Timestamp {
        match self {
            Age::Proposed(timestamp) | Age::NotBefore(timestamp) => timestamp,
        }
    }
}
