//! The durable log of a replica.
//!
//! A replica's records go into a write-ahead log of its own, a directory of *segments*. A segment is a file of a fixed
//! size that is filled with zeros and synced before it is used, so that syncing records later changes no metadata of
//! the file. [`Log`] gathers the records of one turn and writes them with one system call; the [`Syncer`], a thread,
//! makes what was written durable and reports how far, for many logs and many turns at once (group commit).
//!
//! ```text
//!   directory   lock  0000000001.log  0000000002.log …
//!   segment     header (magic, format, cluster, replica, incarnation, number, size, CRC) | marks | record | …
//!   record      length | CRC of incarnation, position, header and bytes | durable | bytes | zeros up to 8 bytes
//! ```
//!
//! # What is torn, and what is corrupt
//! After a crash the last writes may be there in part, in any order of their pages, and none of them was acknowledged:
//! that is a *torn tail*, and it is cut off. Anything else that cannot be read is *corruption*: something acknowledged
//! may be lost, so the log is refused. To tell the two apart, each record says up to which position the log was known
//! to be durable when it was written, and when a log falls idle (or is closed) the same is noted in the *durable marks*
//! of its last two segments. If what cannot be read lies below the greatest of these it had been durable, so it is
//! corrupt.
//!
//! The CRC covers the position and a random incarnation that is drawn when the log is created, so bytes that a disk
//! misdirected, or that an earlier log left in the same place, are not taken for records.
//!
//! # Truncation
//! Records that are not needed any more go with whole segments ([`Log::truncate`]). First the segment that the log begins
//! with from then on says so, durably; then those before it are removed, and whatever a crash leaves of them, in
//! whatever order the disk forgets names, is ignored and removed later. So a segment that is missing without such a word
//! is still noticed.
//!
//! # Decay
//! A [`Scrubber`] reads again what is durable, while the log is used, and finds what opening the log would find.
//!
//! # Where a log lies
//! A log lies in a [`Directory`]: one of the file system ([`Files`]), or one of the simulator, which tears, loses and decays what
//! was written.
//!
//! # Many logs
//! A node that writes to many logs in a turn would pay for as many syncs. A [`Journal`] makes all that durable by one.
//!
//! # Values beyond memory
//! A [`FileAttic`] holds values of a replica that do not fit into memory, in a file that is worth nothing to another process.
//!
//! # First boot
//! A log is created by an explicit act, [`Log::create`], and never because it is missing: an empty disk in place of a
//! lost log would forget promises. [`Log::open`] refuses a missing log and [`Log::create`] an existing one.

mod attic;
mod directory;
mod error;
mod files;
mod format;
mod journal;
mod log;
mod recovery;
mod scrub;
mod segment;
mod syncer;
#[cfg(test)]
mod tests;
mod window;

use quorate_core::ReplicaId;

pub use attic::{AtticBounds, AtticStatus, FileAttic};
pub use directory::{Directory, LogFile};
pub use error::{LogError, Shortage};
pub use files::Files;
pub use journal::{
    Begun, Committed, Journal, JournalId, JournalOptions, Replayed, Settled, Settling, Whereabouts,
};
pub use log::{Log, Truncation, Unsynced};
pub use recovery::{Records, Recovery};
pub use scrub::{Scrubbed, Scrubber, scrub};
pub use syncer::{Report, Syncer};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// The longest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The owner of a log. A log of another cluster or replica is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// The cluster.
    pub cluster: u64,
    /// The replica.
    pub replica: ReplicaId,
}

/// A place in a log: everything before it, in the order of appending. Only positions of one log can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Before everything.
    pub const ZERO: Position = Position(0);

    fn new(segment: u32, offset: u32) -> Self {
        Position(u64::from(segment) << 32 | u64::from(offset))
    }

    /// The number of the segment that it lies in.
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Where in the segment, in bytes.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The position whose number this is.
    pub const fn from_u64(number: u64) -> Position {
        Position(number)
    }

    /// The position as a number that grows with it; zero is before everything.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// How a log divides itself into files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of the first segment, in bytes. Each further one is twice as large as the one before.
    pub segment_bytes_first: u32,
    /// The size that segments grow to, in bytes.
    pub segment_bytes_max: u32,
}

impl Default for LogOptions {
    /// From 64 KiB, so that thousands of shards are created in seconds and fit on a disk, to 64 MiB, so that a new segment is rarely
    /// needed: a log gets there with its first 64 MiB.
    fn default() -> Self {
        LogOptions { segment_bytes_first: 64 << 10, segment_bytes_max: 64 << 20 }
    }
}

impl LogOptions {
    /// The size of a segment, by its number.
    fn segment_bytes(&self, number: u32) -> u32 {
        let doublings = (number - 1).min(31);
        let bytes = u64::from(self.segment_bytes_first) << doublings;
        bytes.min(u64::from(self.segment_bytes_max)).max(format::SEGMENT_BYTES_MIN) as u32
    }
}
