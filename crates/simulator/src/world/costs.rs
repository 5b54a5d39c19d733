//! What work costs: how long processors and disks take for what they are given.
//!
//! Nothing in here knows a protocol: it says for each message how large it is and what [`Work`] it makes
//! ([`Protocol::work`](super::Protocol::work)), and a [`Costs`] says what that takes. So every protocol that runs in one
//! world pays the same prices.

use std::time::Duration;

use quorate_core::Random;
use serde::Serialize;

/// So much, and so much more for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// For the first of all, in nanoseconds.
    pub base_ns: f64,
    /// For each, in nanoseconds.
    pub each_ns: f64,
}

impl Cost {
    /// A cost that is made of these, in nanoseconds.
    pub const fn new(base_ns: f64, each_ns: f64) -> Self {
        Cost { base_ns, each_ns }
    }

    /// What so many cost, in nanoseconds.
    pub fn of(self, count: usize) -> f64 {
        self.base_ns + self.each_ns * count as f64
    }
}

/// What an input makes a machine do, as far as it matters for how long that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Looking after itself: timers, notices that something is durable, messages about no data.
    Control,
    /// Reading keys.
    Read,
    /// Checking keys for conflicts, and holding them: preparing, locking.
    Prepare,
    /// Installing the writes of a transaction, and releasing its keys.
    Commit,
    /// Releasing the keys of a transaction.
    Abort,
    /// Taking in what somebody else has read or decided.
    Reply,
    /// Doing what the application asks for.
    Command,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 7] = [
        Operation::Control,
        Operation::Read,
        Operation::Prepare,
        Operation::Commit,
        Operation::Abort,
        Operation::Reply,
        Operation::Command,
    ];
}

/// An operation on so many keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// What is done.
    pub operation: Operation,
    /// To how many keys.
    pub keys: usize,
}

impl Work {
    /// An operation on so many keys.
    pub const fn new(operation: Operation, keys: usize) -> Self {
        Work { operation, keys }
    }
}

/// How many messages a process takes and gives at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Batching {
    /// One message for each read of a socket, one for each write: what the papers measured.
    None,
    /// As servers do: a turn takes all that has arrived, reads once from each peer that has sent something, and writes
    /// once to each that is told something.
    Turns,
}

/// How long a processor takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// How many messages are taken at a time.
    pub batching: Batching,
    /// Reading from a socket, whatever is there, and being woken for it; in nanoseconds.
    pub read_ns: f64,
    /// Writing to a socket, whatever it is, in nanoseconds.
    pub write_ns: f64,
    /// Taking in a message, by its bytes.
    pub received: Cost,
    /// Saying a message, by its bytes.
    pub sent: Cost,
    /// Appending a record to the log of a disk, by its bytes.
    pub appended: Cost,
    /// Each operation of [`Operation::ALL`], by its keys.
    pub operations: [Cost; Operation::ALL.len()],
}

impl Costs {
    /// What an operation costs, in nanoseconds.
    pub fn operation(&self, work: Work) -> f64 {
        self.operations[work.operation as usize].of(work.keys)
    }

    /// The same, so many times as slow.
    #[must_use]
    pub fn times(&self, factor: f64) -> Costs {
        let slower = |cost: Cost| Cost::new(cost.base_ns * factor, cost.each_ns * factor);
        Costs {
            batching: self.batching,
            read_ns: self.read_ns * factor,
            write_ns: self.write_ns * factor,
            received: slower(self.received),
            sent: slower(self.sent),
            appended: slower(self.appended),
            operations: self.operations.map(slower),
        }
    }
}

/// How long a sync of a disk takes: between two bounds, evenly drawn, and so much more for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SyncTime {
    /// A small one at the soonest.
    pub low: Duration,
    /// A small one at the latest.
    pub high: Duration,
    /// For each byte that is written, in nanoseconds.
    pub byte_ns: f64,
}

impl SyncTime {
    /// Any disk that is not broken, however much is written.
    pub const TYPICAL: SyncTime = SyncTime::between(Duration::from_micros(50), Duration::from_millis(2));

    /// A sync takes between these, however much is written.
    pub const fn between(low: Duration, high: Duration) -> Self {
        SyncTime { low, high, byte_ns: 0.0 }
    }

    /// How long the next sync takes, of so many bytes.
    pub(super) fn draw(&self, bytes: usize, random: &mut Random) -> Duration {
        let fixed = random.between(self.low.as_nanos() as u64, self.high.as_nanos() as u64);
        Duration::from_nanos(fixed + (self.byte_ns * bytes as f64) as u64)
    }
}
