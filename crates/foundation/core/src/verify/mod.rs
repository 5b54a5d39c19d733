//! Verifying: whether the replicas of a shard hold the same.
//!
//! Replicas are never alike *now*: each has heard of something that another has not. They are alike at a common *point*, and a
//! protocol says what its points are:
//!
//! * on a replicated log, a position: what the entries up to it have led to is the same everywhere;
//! * in TAPIR, a floor: below it everything has ended and what it left behind is at every replica that has this floor, or a later
//!   one. Versions collected since are held back at replicas that are asked.
//!
//! ```text
//!   operator   where are you? → replicas              each says how far it is
//!   operator   what do you hold at this point? →      one that is not there yet waits for it; one that has passed it says so, and
//!                                                     another point is chosen; the others walk, a few items at a time
//!   operator   compares the digests
//! ```
//!
//! An operator may also *read* what a replica holds at a point, in place of its digest: a backup does that, at one point of every
//! shard of a keyspace ([ADR 0074](https://github.com/quorate/quorate/blob/main/docs/adr/0074-backups.md)). A replica that is read is a
//! *holder* of its floor in the same way as one that is compared, for [`Verification::HELD_MAX`] at most.
//!
//! | file | role |
//! |---|---|
//! | `hash`, `digest` | what a replica holds, in few bytes |
//! | `verification` | what a replica does about it |
//! | `reading` | the pages of a replica that is read |
//! | `reader` | what a reader does: which replica is asked, and what follows from the answers |
//! | `furthest` | what a reader does before: how far replicas are, where the point is a position |
//! | `comparison` | what an operator does: which point is asked for, and what follows from the answers |

mod comparison;
mod digest;
mod furthest;
mod hash;
mod reader;
mod reading;
mod verification;

use std::fmt;

use bytes::Bytes;
pub use comparison::{Compared, Comparison, Held, Odd, judge};
pub use digest::{BUCKETS, Checksum, Digest, Digester, Item, LISTED_MAX, Listed, PATH_MAX, Seen, Stored};
pub use furthest::Furthest;
pub use reader::{Arrival, Read, Reader};
pub use reading::{PAGE_BYTES, PAGE_ITEMS_MAX};
pub use verification::{Pace, Verification};

use crate::log::Position;
use crate::timestamp::Timestamp;

/// Where replicas can be alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// When the entries of the log up to here, and no others, have been applied.
    Position(Position),
    /// Below a floor: the newest version of each key below this timestamp.
    Below(Timestamp),
}

impl Point {
    /// True if both are points of one protocol.
    pub fn is_alike(self, other: Point) -> bool {
        matches!((self, other), (Point::Position(_), Point::Position(_)) | (Point::Below(_), Point::Below(_)))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Position(position) => write!(formatter, "position {position}"),
            Point::Below(floor) => write!(formatter, "floor {}", floor.micros),
        }
    }
}

/// How a replica says to a reader which transactions what it reads includes, where they have no common order: an item of [`Item::DATA`] for each local site, with its place, the number of
/// the last transaction, and a zero. Earlier programs pass over such items.
pub mod position {
    /// The key of these items, which no container has.
    pub const KEY: &[u8] = b"\xff\xffposition";
}

/// The request of an operator to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operator: a random number. A replica serves one at a time.
    pub operator: u64,
    /// At which point; none to ask how far the replica is: what it has applied, or with a page how long its log is.
    pub point: Option<Point>,
    /// How the paths of items begin that are wanted: see [`Digest`].
    pub path: Bytes,
    /// The page of items that is wanted, counted from zero, in place of a digest. Pages are asked for in their order: with a page an
    /// operator says that it has those before it. Where the point is a position, a later one will do.
    pub page: Option<u64>,
}

impl Request {
    /// True if both ask for parts of one answer.
    pub fn is_same(&self, other: &Request) -> bool {
        let Request { operator, point, path, page } = other;
        self.operator == *operator
            && self.point == *point
            && self.path == *path
            && self.page.is_some() == page.is_some()
    }

    /// True if it asks for a page that follows others: of the state that these were of, and of no other.
    fn is_later_page(&self) -> bool {
        self.page.is_some_and(|page| page > 0)
    }
}

/// The answer of a replica. It is asked again and again until it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How far it is; none if it has nothing that could be compared.
    pub at: Option<Point>,
    /// How far the digest is that was asked for.
    pub progress: Progress,
}

/// How far a digest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// None was asked for.
    Idle,
    /// The replica has not reached the point.
    Waiting,
    /// It is at it.
    Walking {
        /// It has looked at so many items.
        items: u64,
    },
    /// It is done.
    Done {
        /// The digest.
        digest: Digest,
    },
    /// A page of items is there.
    Page {
        /// The items, in the order in which the replica holds them.
        items: Vec<Stored>,
        /// True if there are no more.
        is_last: bool,
    },
    /// The replica does not know any more what it held at that point.
    Passed,
    /// It is busy with the question of another operator.
    Busy,
    /// It cannot be compared.
    Unable {
        /// Why, for people.
        reason: String,
    },
}

impl Answer {
    /// A replica cannot be compared.
    pub fn unable(reason: impl Into<String>) -> Self {
        Answer { at: None, progress: Progress::Unable { reason: reason.into() } }
    }
}
