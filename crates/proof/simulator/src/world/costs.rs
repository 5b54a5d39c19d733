//! The costs of work: how long processors and disks take for what they are given.
//!
//! Nothing in here knows a protocol: it says for each message how large it is and what [`Work`] it makes
//! ([`Protocol::work`](super::Protocol::work)), and a [`Costs`] says what that takes. So every protocol that runs in one
//! world pays the same prices.

use std::time::Duration;

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

    /// The cost of so many, in nanoseconds.
    pub fn of(self, count: usize) -> f64 {
        self.base_ns + self.each_ns * count as f64
    }
}

/// The work of a machine for an input, as far as it matters for how long that takes.
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
    /// The operation.
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
    /// Being woken: a turn that begins after there was nothing to do, or after somebody else had the core; in nanoseconds.
    pub wake_ns: f64,
    /// Reading from a socket, whatever is there, in nanoseconds.
    pub read_ns: f64,
    /// Writing to a socket, whatever it is, in nanoseconds.
    pub write_ns: f64,
    /// Taking in a message, by its bytes.
    pub received: Cost,
    /// Saying a message, by its bytes.
    pub sent: Cost,
    /// Appending a record to the log of a disk, by its bytes.
    pub appended: Cost,
    /// Having a disk synced, beside the time that the disk takes, in nanoseconds: the work of a thread of its own.
    pub sync_ns: f64,
    /// Each operation of [`Operation::ALL`], by its keys.
    pub operations: [Cost; Operation::ALL.len()],
}

impl Costs {
    /// The cost of an operation, in nanoseconds.
    pub fn operation(&self, work: Work) -> f64 {
        self.operations[work.operation as usize].of(work.keys)
    }

    /// The same, so many times as slow.
    #[must_use]
    pub fn times(&self, factor: f64) -> Costs {
        let slower = |cost: Cost| Cost::new(cost.base_ns * factor, cost.each_ns * factor);
        Costs {
            batching: self.batching,
            wake_ns: self.wake_ns * factor,
            read_ns: self.read_ns * factor,
            write_ns: self.write_ns * factor,
            received: slower(self.received),
            sent: slower(self.sent),
            appended: slower(self.appended),
            sync_ns: self.sync_ns * factor,
            operations: self.operations.map(slower),
        }
    }
}

/// How long a sync of a disk takes: drawn from what was measured, and so much more for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SyncTime {
    /// Of small ones: the shortest, the longest, and between them those that a tenth, two tenths and so on do not exceed.
    pub tenths: [Duration; 11],
    /// For each byte that is written, in nanoseconds.
    pub byte_ns: f64,
}

impl SyncTime {
    /// Any disk that is not broken, however much is written.
    pub const TYPICAL: SyncTime = SyncTime::between(Duration::from_micros(50), Duration::from_millis(2));

    /// A sync takes between these, any time alike, however much is written.
    pub const fn between(low: Duration, high: Duration) -> Self {
        let mut tenths = [low; 11];
        let more = high.as_nanos() - low.as_nanos();
        let mut tenth = 1;
        while tenth < tenths.len() {
            tenths[tenth] = Duration::from_nanos((low.as_nanos() + more * tenth as u128 / 10) as u64);
            tenth += 1;
        }
        SyncTime { tenths, byte_ns: 0.0 }
    }

    /// The middle of small ones.
    pub fn median(&self) -> Duration {
        self.tenths[5]
    }

    /// How long a sync of so many bytes takes that is longer than this share of all, but for its bytes.
    pub(super) fn at(&self, share: f64, bytes: usize) -> Duration {
        let place = share * 10.0;
        let below = (place as usize).min(9);
        let (low, high) = (self.tenths[below], self.tenths[below + 1]);
        low + (high - low).mul_f64(place - below as f64)
            + Duration::from_nanos((self.byte_ns * bytes as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::Random;

    use super::*;

    #[test]
    fn syncs_are_drawn_as_they_were_measured() {
        let millis = Duration::from_millis;
        // Nine of ten take a millisecond, and the others up to ninety.
        let mut tenths = [millis(1); 11];
        tenths[10] = millis(90);
        let time = SyncTime { tenths, byte_ns: 1e3 };
        let mut random = Random::new(1);
        let drawn: Vec<Duration> = (0..10_000).map(|_| time.at(random.unit(), 1_000)).collect();
        let usual = drawn.iter().filter(|took| **took == millis(2)).count();
        assert!((8_900..9_100).contains(&usual), "{usual}");
        assert!(drawn.iter().all(|took| (millis(2)..millis(92)).contains(took)));
        let even = SyncTime::between(millis(3), millis(5));
        assert_eq!((even.tenths[0], even.median(), even.tenths[10]), (millis(3), millis(4), millis(5)));
    }
}
