//! Everything that is said. A reader who knows only this file knows the protocol.
//!
//! ```text
//!   client            leader of shard 1       its backups       leader of shard 2       its backups
//!     ├─ REQUEST ───────────►│ append VOTED ──────►│                   │                      │
//!     ├─ REQUEST ────────────────────────────────────────────────────►│ append VOTED ────────►│
//!     │                      │◄────────────────────┤                   │◄─────────────────────┤
//!     │                      ├─ VOTE ─────────────────────────────────►│ stable               │
//!     │               stable │◄────────────────────────────────── VOTE ┤                      │
//!     │        execute at the greater of both proposals    execute at the greater of both proposals
//!     │◄────────────── REPLY ┤                                         │                      │
//!     │◄───────────────────────────────────────────────────────── REPLY ┤                      │
//! ```
//!
//! A transaction of one shard alone is executed as soon as its entry is stable, at the proposed timestamp. A read-only one is
//! not appended.

use std::collections::BTreeMap;

use quorate_core::{ClockTime, ReplicaIndex, ShardId, TransactionId, Value};

use crate::application::Answer;
use crate::entry::{Ending, Outcome, Vote};
use quorate_core::command::Class;

/// A message between the participants of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client to the leader of each participant: execute this.
    Request(Request),
    /// Anybody to the leader of each participant: what has become of this? If the receiver's shard has not heard of it, it votes
    /// against it. As long as it has not ended, there is no answer.
    Inquire {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that takes part in it, sorted.
        participants: Vec<ShardId>,
        /// Its client has not sent it earlier than this.
        not_before: ClockTime,
    },
    /// The state of a request at the sender's shard.
    Reply {
        /// The transaction.
        transaction: TransactionId,
        /// That state.
        reply: Reply,
    },
    /// Leader of a participant to those of the others: how its shard votes, durably, unless the transaction only reads.
    Vote {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that takes part in it, sorted.
        participants: Vec<ShardId>,
        /// When its client sent it first.
        first: ClockTime,
        /// The vote.
        vote: Vote,
        /// The sender executes it at no smaller timestamp.
        proposed: ClockTime,
        /// Its class: what its participants have to agree on. No vote on a read-only transaction is durable.
        class: Class,
        /// True if the sender lacks the receiver's vote.
        wants: bool,
    },
    /// To a participant that lacks votes: all are known to the sender, and this is what follows.
    Resolved {
        /// The transaction.
        transaction: TransactionId,
        /// Its ending.
        ending: Ending,
    },
    /// Leader of a participant to those of the others: a shard is lost for good, and its vote is not known here. Once no
    /// participant knows it, nobody executes the transaction (section 5.4).
    Abandoned {
        /// The transaction.
        transaction: TransactionId,
        /// The shard.
        lost: ShardId,
    },
    /// Client to the leader of the group that coordinates, where there is one: have these shards execute this.
    Begin(Begin),
    /// Leader of a participant to that of the group that coordinates: how its shard votes, durably, and what it would answer.
    Prepared {
        /// The transaction.
        transaction: TransactionId,
        /// The vote.
        vote: Vote,
        /// The sender executes it at no smaller timestamp.
        proposed: ClockTime,
        /// Its answer if all vote for it; nothing, if it cannot tell yet.
        answer: Option<Answer>,
    },
    /// Leader of the group that coordinates to a client: all participants have voted for it.
    Gathered {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: ClockTime,
        /// The answer of each of its participants.
        answers: BTreeMap<ShardId, Answer>,
    },
    /// The receiver of a message does not lead its shard, so it has done nothing about it.
    NotLeading {
        /// The transaction.
        transaction: TransactionId,
        /// The leader, as far as the sender knows.
        leader: ReplicaIndex,
    },
    /// Leader to a replica of another shard: below what do you accept nothing, and up to where may clients have seen timestamps? Of shards
    /// that took part in what it remembers, and of all if a client says that it has seen what is far ahead.
    AskFloor,
    /// Nothing that was first sent below is accepted at the shard of the sender or waits there to end, now or later.
    AskFloorReply {
        /// Its floor.
        floor: ClockTime,
        /// Its shard has made durable that it may execute up to here, so clients may have seen what lies below; zero of a replica of an
        /// earlier version.
        ceiling: ClockTime,
    },
}

/// A transaction, as the group that coordinates is asked to have it executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its operation at each of its participants.
    pub parts: BTreeMap<ShardId, Value>,
    /// As in [`Request`].
    pub high: ClockTime,
    /// As in [`Request`].
    pub first: ClockTime,
}

/// A transaction, as one of its participants is asked to execute it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The transaction.
    pub transaction: TransactionId,
    /// Every shard that takes part in it, sorted.
    pub participants: Vec<ShardId>,
    /// Its operation at the receiver's shard.
    pub operation: Value,
    /// Its class: what its participants have to agree on.
    pub class: Class,
    /// The greatest timestamp that the client has seen: it is executed above, so that everything that the client has seen comes
    /// before (section 4.2). A read-only transaction may be executed at it.
    pub high: ClockTime,
    /// When the client sent it first, by its own clock. The same whenever it is sent again.
    pub first: ClockTime,
}

/// The state of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It has ended.
    Ended(Outcome),
    /// It was sent so long ago that nobody knows any more what has become of it.
    Forgotten {
        /// The reading of the clock of the shard's leader.
        clock: ClockTime,
    },
    /// It is not executed anywhere, because it was sent so long ago. If it is new, the client's clock is behind.
    TooOld {
        /// The reading of the clock of the shard's leader.
        clock: ClockTime,
    },
    /// It is executed nowhere, because a shard is lost for good that would take part in it.
    Lost {
        /// The shard.
        shard: ShardId,
    },
    /// Its timestamps are further ahead than is allowed: the clock of its client, or what that has seen. Nothing has been done about it.
    ClockAhead {
        /// The reading of the clock of the shard's leader.
        clock: ClockTime,
    },
}
