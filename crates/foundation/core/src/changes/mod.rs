//! Changes: the committed writes of a shard, in the order in which they have committed.
//!
//! Every replica of a shard agrees on the positions of its committed writes: the timestamps of their transactions, where an isolation
//! has such. A replica answers for a *stretch* of positions once nothing can commit in it any more, from the writes that it retains.
//! It keeps nothing for a consumer: the consumer says from which position on it wants to read, and any replica will do.
//!
//! The transactions of a `parallel-snapshot` keyspace have no common order. Each local site numbers its own, so a position there is a number
//! for each of them, and a stretch is what one such vector has more than another: of each site the next transactions, causes before effects.
//!
//! ```text
//!   consumer   what has committed from position p on? → a replica
//!   replica    everything in [p, q), and nothing comes there any more
//!              or: too old, I retain what lies from h on, and p < h
//!   consumer   goes on from q, at the same replica or at another one
//! ```
//!
//! Because stretches are half open and begin where the last one has ended, each write is in exactly one of them, whichever replicas
//! have answered ([ADR 0079](https://github.com/quorate/quorate/blob/main/docs/adr/0079-change-feeds.md)).
//!
//! | file | role |
//! |---|---|
//! | this one | the question and the answer |
//! | `position` | places between changes |
//! | `follower` | the consumer of one shard: which replica it asks, and what it makes of the answers |

mod follower;
mod position;

use std::time::Duration;

pub use follower::{Follower, Outcome};
pub use position::Position;

use crate::id::ClientId;
use crate::key::Key;
use crate::timestamp::Timestamp;
use crate::transaction::{KeyRange, Value, Write};

/// A page of changes ends with the transaction that brings it to so many bytes.
pub const PAGE_BYTES: u64 = 512 * 1024;

/// A page ends after so many writes, those among them that a filter passes over.
pub const PAGE_WRITES: usize = 16 * 1024;

/// A consumer is taken to be gone if it has not asked for so long: then floors are raised no faster for it.
pub const PRESENT: Duration = Duration::from_secs(3);

/// How much a replica retains of what has committed, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Changes are let go that lie so far below what is certain, or below the latest one. Zero: nothing below is retained.
    pub time: Duration,
    /// Changes before the last so many bytes are let go, if nothing can commit beside them any more.
    pub bytes: u64,
}

impl Retention {
    /// Nothing below what is certain.
    pub const NONE: Retention = Retention { time: Duration::ZERO, bytes: 0 };

    /// No replica retains changes for longer.
    pub const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// Nor more of them, in bytes: they are in memory, and in each snapshot of a log.
    pub const BYTES_MAX: u64 = 1024 * 1024 * 1024;

    /// True if a keyspace may ask for it.
    pub fn is_possible(self) -> bool {
        self.time <= Self::TIME_MAX && self.bytes <= Self::BYTES_MAX
    }
}

impl Default for Retention {
    /// As servers retain it: five minutes and 64 MiB for each replica.
    fn default() -> Self {
        Retention { time: Duration::from_secs(300), bytes: 64 * 1024 * 1024 }
    }
}

/// The changes that a replica retains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// About how many bytes they take.
    pub bytes: u64,
    /// Everything from this position on is retained.
    pub horizon: Timestamp,
}

/// The question of a consumer to a replica. Its positions are timestamps, to the machines that have them, or [`Position`]s, on the wire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request<P = Timestamp> {
    /// The first position that is wanted; none to ask where one that begins now is to begin.
    pub from: Option<P>,
    /// The keys that are wanted.
    pub keys: KeyRange,
    /// The page is to end with the transaction that brings it to so many bytes; [`PAGE_BYTES`] count at most.
    pub bytes_max: u64,
}

impl<P> Request<P> {
    /// The changes of all keys from a position on.
    pub fn all(from: Option<P>) -> Self {
        Request { from, keys: KeyRange { from: Key::default(), to: None }, bytes_max: u64::MAX }
    }
}

impl Request<Position> {
    /// The answer of a replica whose positions are timestamps.
    pub fn answered_by(&self, tell: impl FnOnce(&Request) -> Answer) -> Answer<Position> {
        let from = match &self.from {
            None => None,
            Some(Position::Timestamp(timestamp)) => Some(*timestamp),
            Some(Position::Sites(_)) => return Answer::unable("the position is one of another isolation"),
        };
        let request = Request { from, keys: self.keys.clone(), bytes_max: self.bytes_max };
        match tell(&request) {
            Answer::Page(Page { from, to, changes, is_last }) => {
                Answer::Page(Page { from: from.into(), to: to.into(), changes, is_last })
            }
            Answer::TooOld { retained_from } => Answer::TooOld { retained_from: retained_from.into() },
            Answer::Unable { reason } => Answer::Unable { reason },
        }
    }
}

/// The writes of one transaction at a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The name of the transaction, which is the same at every shard that took part. Its position, where positions are timestamps: another transaction of the same client may
    /// have it where timestamps have names beside them.
    pub timestamp: Timestamp,
    /// The writes that were wanted, ascending by key, each key once.
    pub writes: Vec<Write>,
    /// The changes of counting sets and counters that were wanted, ascending, each element and each counter once. There is a write or one of these.
    pub additions: Vec<Addition>,
}

impl Change {
    /// The writes of a transaction to keys.
    pub fn of_writes(timestamp: Timestamp, writes: Vec<Write>) -> Self {
        Change { timestamp, writes, additions: Vec::new() }
    }

    /// Roughly how many bytes it has.
    pub fn bytes(&self) -> u64 {
        let of = |write: &Write| write.key.len() + write.value.as_ref().map_or(0, Value::len) + 16;
        let added =
            |added: &Addition| added.object.len() + added.element.as_ref().map_or(0, |key| key.len()) + 24;
        let writes: usize = self.writes.iter().map(of).sum();
        (writes + self.additions.iter().map(added).sum::<usize>()) as u64 + 32
    }
}

/// The change of the count of an element of a counting set, or of a counter, by a transaction. The sum of all that were told is the count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addition {
    /// The name of the set or the counter.
    pub object: Key,
    /// The element of the set; none if it is a counter.
    pub element: Option<Key>,
    /// By how much its count has changed: not zero.
    pub by: i64,
}

/// Everything that was committed in a stretch of positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<P = Timestamp> {
    /// The first position of the stretch.
    pub from: P,
    /// The first position behind it: nothing commits below any more.
    pub to: P,
    /// The changes, ascending by their positions, and of one position in the order in which they have committed. Where positions are those of sites, of each site
    /// in the order of its numbers, and causes before effects.
    pub changes: Vec<Change>,
    /// True if the replica knew no more: to ask again at once is of no use.
    pub is_last: bool,
}

/// The answer of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<P = Timestamp> {
    /// The changes from the position on that was asked for.
    Page(Page<P>),
    /// The replica retains only what lies from this position on; or the position that was asked for includes transactions which were given up.
    TooOld {
        /// See there.
        retained_from: P,
    },
    /// It cannot answer.
    Unable {
        /// Why, for people.
        reason: String,
    },
}

impl<P> Answer<P> {
    /// A replica cannot answer.
    pub fn unable(reason: impl Into<String>) -> Self {
        Answer::Unable { reason: reason.into() }
    }
}

/// The smallest position above another.
pub fn successor(timestamp: Timestamp) -> Timestamp {
    let Timestamp { micros, client } = timestamp;
    match client.0.checked_add(1) {
        Some(next) => Timestamp { micros, client: ClientId(next) },
        None => Timestamp { micros: micros.saturating_add(1), client: ClientId(0) },
    }
}
