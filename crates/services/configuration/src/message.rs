//! Everything that is said. A reader who knows only this file knows the protocol.
//!
//! ```text
//!   client                     any replica                    leader                          the others
//!     ├─ GET, SCAN (stale) ────────►│                            │                                │
//!     │◄──────────────── GET-REPLY ─┤                            │                                │
//!     ├─ GET, SCAN, CHECK ──────────────────────────────────────►│ leads for certain?             │
//!     │◄───────────────────────────────────────────── GET-REPLY ─┤                                │
//!     ├─ WRITE ─────────────────────────────────────────────────►│ append                         │
//!     │                                                          ├───────────────────────────────►│
//!     │                                                          │◄───────────────────────────────┤
//!     │◄─────────────────────────────────────────── WRITE-REPLY ─┤ stable: conditions are looked at
//!     ├─ WATCH ────────────────────►│
//!     │◄─── CHANGES, CHANGES, … ────┤ as they become stable
//!     ├─ RENEW ─────────────────────────────────────────────────►│ leads for certain?
//!     │◄─────────────────────────────────────────────── RENEWED ─┤
//! ```
//!
//! Each question has a number that its client has given it, and is answered with that number. A client that hears nothing
//! asks again, with the same number or another.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::log::Position;
use quorate_core::{Key, KeyRange, ReplicaIndex, Timestamp, TransactionId, Value};

use crate::entry::{Change, KeyState, LeaseId, Revision, Stored};

/// A message between clients and replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client to a replica: what do these keys hold?
    Get {
        /// The question.
        request: u64,
        /// The keys.
        keys: Vec<Key>,
        /// How fresh the answer must be.
        consistency: Consistency,
    },
    /// The values of keys, all at one revision.
    GetReply {
        /// The question.
        request: u64,
        /// The map as it was after this write.
        revision: Revision,
        /// How far the replica knew the log.
        position: Position,
        /// The keys, in the order of the question.
        found: Vec<KeyState>,
    },
    /// Client to a replica: what is in this range?
    Scan {
        /// The question.
        request: u64,
        /// The range.
        range: KeyRange,
        /// At most so many keys.
        limit: u32,
        /// How fresh the answer must be.
        consistency: Consistency,
    },
    /// The first keys of a range, all at one revision.
    ScanReply {
        /// The question.
        request: u64,
        /// The map as it was after this write.
        revision: Revision,
        /// How far the replica knew the log.
        position: Position,
        /// The keys, ascending.
        found: Vec<(Key, Stored)>,
        /// The first key that is not covered, if the page is full.
        next: Option<Key>,
    },
    /// Client to the leader: does all of this hold? Nothing is appended: what holds at the instant at which it is looked at,
    /// held then.
    Check {
        /// The question.
        request: u64,
        /// The conditions.
        compares: Vec<Compare>,
    },
    /// Whether the conditions held.
    CheckReply {
        /// The question.
        request: u64,
        /// The map as it was after this write.
        revision: Revision,
        /// How far the replica knew the log.
        position: Position,
        /// True if all of them held.
        holds: bool,
    },
    /// Client to the leader: write this, if its conditions hold. It happens at most once, however often it is sent.
    Write {
        /// The question.
        request: u64,
        /// The name of the write.
        transaction: TransactionId,
        /// Up to here the client knew the log when it first sent this; the start, if it knew nothing of it.
        since: Position,
        /// The write itself.
        write: Arc<ConditionalWrite>,
    },
    /// Any client to the leader: what became of this write? If nobody has heard of it, it will never be applied.
    Settle {
        /// The question.
        request: u64,
        /// The name of the write.
        transaction: TransactionId,
        /// It was not sent before the log was here.
        since: Position,
    },
    /// The result of a write: stable, and the same whenever it is asked for.
    WriteReply {
        /// The question.
        request: u64,
        /// How far the replica knew the log.
        position: Position,
        /// The result.
        result: WriteResult,
    },
    /// Client to the leader: grant me this lease. A client that has it already is told so.
    Grant {
        /// The question.
        request: u64,
        /// Its name.
        lease: LeaseId,
        /// How long it lasts without being renewed.
        duration: Duration,
    },
    /// Client to the leader: I want to hold this lease for its whole length from now on. The client counts from when it said
    /// this, the leader from when it hears it.
    Renew {
        /// The question.
        request: u64,
        /// The lease.
        lease: LeaseId,
    },
    /// The lease is granted or renewed: nobody takes it for ended before its length has passed since that was asked for.
    Renewed {
        /// The question.
        request: u64,
        /// The lease.
        lease: LeaseId,
    },
    /// Client to the leader: I do not hold this lease any more.
    Release {
        /// The question.
        request: u64,
        /// The lease.
        lease: LeaseId,
    },
    /// There is no such lease: it has ended, or was never granted.
    NoSuchLease {
        /// The question.
        request: u64,
        /// The lease.
        lease: LeaseId,
    },
    /// Client to any replica: tell me of each change of this range after this revision. Said again and again: it says how far
    /// the client has come and that it still listens, and asks for what it has missed.
    Watch {
        /// The question, and the name of the watch.
        request: u64,
        /// The range.
        range: KeyRange,
        /// The client knows everything up to this revision.
        after: Revision,
    },
    /// Client to a replica: I listen no longer.
    Unwatch {
        /// The name of the watch.
        request: u64,
    },
    /// All changes of a watched range after one revision and up to another. Said in answer, and whenever there is one.
    Changes {
        /// The name of the watch.
        request: u64,
        /// After this revision.
        after: Revision,
        /// Up to this one.
        until: Revision,
        /// The changes, in order.
        changes: Vec<Arc<Change>>,
        /// True if there are more that the client has to ask for.
        has_more: bool,
    },
    /// The changes that a watch asks for are forgotten: the client has to read the range and watch from there.
    Forgotten {
        /// The name of the watch.
        request: u64,
        /// Changes up to this revision are forgotten.
        forgotten: Revision,
    },
    /// The receiver of a question does not lead, so it has done nothing about it.
    NotLeading {
        /// The question.
        request: u64,
        /// The leader, as far as the sender knows.
        leader: ReplicaIndex,
    },
    /// Nothing has been and nothing will be done about a question.
    Refused {
        /// The question.
        request: u64,
        /// Why.
        refusal: Refusal,
    },
}

/// How fresh the answer to a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consistency {
    /// Everything that was acknowledged before: only who leads, and knows that it does, answers.
    Linearizable,
    /// The present state of the receiver. It says how old that is.
    Stale,
}

/// A write and what it relies on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionalWrite {
    /// It is written only if all of these hold.
    pub compares: Vec<Compare>,
    /// The writes: keys, ascending.
    pub puts: Vec<Put>,
}

impl ConditionalWrite {
    /// Roughly how many bytes it takes.
    pub fn bytes(&self) -> usize {
        const FRAMING: usize = 32;
        let compares = self.compares.iter().map(|compare| FRAMING + compare.bytes());
        let puts = self
            .puts
            .iter()
            .map(|put| FRAMING + put.key.len() + put.value.as_ref().map_or(0, |value| value.len()));
        compares.chain(puts).sum()
    }
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key was last changed by this write; none if it is absent.
    Key {
        /// The key.
        key: Key,
        /// The write.
        changed: Option<Revision>,
    },
    /// The range is as it was after some write: so many keys live in it, and none of them has changed since.
    Range {
        /// The range.
        range: KeyRange,
        /// After this write.
        after: Revision,
        /// How many keys lived in it.
        keys: u64,
    },
}

impl Compare {
    fn bytes(&self) -> usize {
        match self {
            Compare::Key { key, .. } => key.len(),
            Compare::Range { range, .. } => range.from.len() + range.to.as_ref().map_or(0, |to| to.len()),
        }
    }
}

/// A write to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The key.
    pub key: Key,
    /// The value; none deletes.
    pub value: Option<Value>,
    /// A lease of the writer that the key is to vanish with.
    pub lease: Option<LeaseId>,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It was written.
    Written {
        /// Its revision.
        revision: Revision,
    },
    /// A condition does not hold. Nothing was written.
    NotHeld {
        /// The map as it was when that was looked at.
        revision: Revision,
        /// The first condition that does not hold, by its place.
        compare: u32,
    },
    /// A key was to be bound to a lease that its writer does not hold. Nothing was written.
    NoSuchLease {
        /// The lease.
        lease: LeaseId,
    },
    /// The map is as large as it may be. Nothing was written.
    Full,
    /// Somebody has asked for it before it came: nothing was and nothing will be written.
    Settled,
    /// No administrator would be left, and there are users. Nothing was written.
    LastAdministrator,
}

impl WriteResult {
    /// The outcome of the transaction that wrote this. Its timestamp is its revision, made unique by the client's name, so that
    /// a read-only transaction at that revision comes after it.
    pub fn outcome(&self, transaction: TransactionId) -> Outcome {
        match self {
            WriteResult::Written { revision } => {
                Outcome::Committed(Timestamp { micros: revision.0, client: transaction.client })
            }
            WriteResult::NotHeld { .. }
            | WriteResult::NoSuchLease { .. }
            | WriteResult::Full
            | WriteResult::Settled
            | WriteResult::LastAdministrator => Outcome::Aborted,
        }
    }
}

/// Why nothing is done about a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// Keys are empty, too long or not in order, or it is asked in the name of somebody else.
    Malformed,
    /// There is more of it than may be asked for at once.
    TooLarge,
    /// So long ago that nobody knows whether it has been done already. (Then it has not been done again.)
    TooOld,
    /// As many others are waiting as may wait, or there are as many leases or watches as may be.
    TooMany,
    /// A lease may not last so long, or so short.
    Duration,
}

impl Message {
    /// The question, or the one that is answered.
    pub fn request(&self) -> u64 {
        match self {
            Message::Get { request, .. }
            | Message::GetReply { request, .. }
            | Message::Scan { request, .. }
            | Message::ScanReply { request, .. }
            | Message::Check { request, .. }
            | Message::CheckReply { request, .. }
            | Message::Write { request, .. }
            | Message::Settle { request, .. }
            | Message::WriteReply { request, .. }
            | Message::Grant { request, .. }
            | Message::Renew { request, .. }
            | Message::Renewed { request, .. }
            | Message::Release { request, .. }
            | Message::NoSuchLease { request, .. }
            | Message::Watch { request, .. }
            | Message::Unwatch { request }
            | Message::Changes { request, .. }
            | Message::Forgotten { request, .. }
            | Message::NotLeading { request, .. }
            | Message::Refused { request, .. } => *request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The writes that go into one message are chosen by that.
    #[test]
    fn a_write_takes_as_many_bytes_as_all_that_it_names_and_a_little_for_each() {
        let key = |key: &str| Compare::Key { key: Key::from(key), changed: None };
        let range = |from: &str, to: Option<&str>| Compare::Range {
            range: KeyRange { from: Key::from(from), to: to.map(Key::from) },
            after: Revision::START,
            keys: 0,
        };
        let put = |key: &str, value: Option<&'static str>| Put {
            key: Key::from(key),
            value: value.map(|value| Value::from_static(value.as_bytes())),
            lease: None,
        };
        let write = |compares, puts| ConditionalWrite { compares, puts }.bytes();
        assert_eq!(write(vec![], vec![]), 0);
        assert_eq!(write(vec![key("12345")], vec![]), 32 + 5);
        assert_eq!(write(vec![range("12", Some("123"))], vec![]), 32 + 5);
        assert_eq!(write(vec![range("12", None)], vec![]), 32 + 2);
        assert_eq!(write(vec![], vec![put("123", Some("1234567"))]), 32 + 10);
        assert_eq!(write(vec![], vec![put("123", None)]), 32 + 3);
        assert_eq!(write(vec![key("1"), key("2")], vec![put("1", None), put("2", None)]), 4 * 33);
    }
}
