//! Everything that is said. A reader who knows only this file knows the protocol.
//!
//! ```text
//!   client                  leader of its local site              leaders of the other local sites
//!     ├─ READ, a new snapshot ──────►│                                       │
//!     │◄──────────── READ-REPLY ─────┤ the snapshot                          │
//!     ├─ READ, at that snapshot ────►│                                       │
//!     ├─ COMMIT ────────────────────►│ nothing in the way: append COMMIT     │
//!     │                              │ stable                                │
//!     │◄────────── COMMIT-REPLY ─────┤ committed                             │
//!     │                              ├─ PROPAGATE ──────────────────────────►│ append RECEIVED
//!     │                              │                                       │ stable: in the histories
//!     │                              │◄──────────────────────── PROGRESS ────┤ received
//!     │                    f + 1 have it: durable                            │
//!     │                              ├─ PROPAGATE, durable up to ───────────►│ append ADVANCE
//!     │                              │◄──────────────────────── PROGRESS ────┤ committed here, too
//!     │                    all have committed it: globally visible           │
//! ```
//!
//! An object need not be at every site. Its client reads it at one of those that have it, at the snapshot of its own site:
//!
//! ```text
//!   client                  leader of its local site              leader of a site that has the object
//!     ├─ READ ──────────────────────►│                                       │
//!     │◄──────────── READ-REPLY ─────┤ the snapshot; elsewhere; what was written to it here
//!     ├─ READ-COPY, at that snapshot ───────────────────────────────────────►│ has received all that it includes
//!     │◄──────────────────────────────────────────────────────── COPY-REPLY ─┤ its value, and how many of the first site's transactions count
//! ```
//!
//! A client may ask to be told of the last two milestones (ASK-MILESTONE, MILESTONE-REPLY).
//!
//! Before a transaction commits that writes registers whose preferred sites are others (*slow commit*), these lock them:
//!
//! ```text
//!   leader of the local site of its client             leaders of the preferred sites
//!     ├─ PREPARE ───────────────────────────────────────────►│ unmodified, unlocked: append LOCKED
//!     │                                                      │ stable
//!     │◄────────────────────────────────────────── VOTE ─────┤
//!   all agree: append COMMIT, and the locks go once it has committed there
//!   one does not: append REFUSED, stable
//!     ├─ RELEASE ───────────────────────────────────────────►│ append RELEASED
//!     │◄──────────────────────────────────── ASK-OUTCOME ────┤ a lock that is old
//! ```
//!
//! A site that joins, among them one that comes back, first gets all that the others have:
//!
//! ```text
//!   leader of the site that joins                      leaders of the others
//!     ├─ JOIN ──────────────────────────────────────────────►│ append JOIN
//!     │                                                      │ stable: nothing is forgotten that it may lack
//!     │◄────────────────────────────────────── EXPECTED ─────┤
//!   all have answered
//!     ├─ FETCH ─────────────────────────────────────────────►│ one of them
//!     │◄───────────────────────────────────────── STATE ─────┤ a page
//!   append ADOPT, and so on to the last
//!     ├─ PROGRESS ──────────────────────────────────────────►│ PROPAGATE, as to every site
//! ```

use std::sync::Arc;

use quorate_core::command::{End, Milestone};
use quorate_core::transaction::Value;
use quorate_core::{Key, KeyRange, ReplicaIndex, ShardId, TransactionId};

use crate::container::{Container, Replicas};
use crate::entry::{Commit, Page};
use crate::histories::{Count, Read, Update};
use crate::removal::Frozen;
use crate::vector::{LocalSite, Vector, VersionNumber};

/// A stretch of the log of a local site, counted from one. The site remembers how each transaction has ended for as long as messages
/// about it are accepted: those that name a period which is not over for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(pub u64);

/// The snapshot of a transaction: its *start vector timestamp*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// It has this one.
    Taken(Vector),
    /// It takes the present one of the local site, which has to include this: what the session of its client has seen.
    New(Vector),
    /// The same, once it is known there how an earlier transaction of the client has ended: if that has committed, the snapshot includes it.
    After {
        /// The transactions that the session has seen.
        seen: Vector,
        /// The earlier transaction, whose COMMIT was sent before.
        earlier: TransactionId,
        /// The period of the local site that its COMMIT names. Once that is over for long its ending is not known any more.
        period: Period,
    },
}

impl Snapshot {
    /// All that it includes at least.
    pub(crate) fn least(&self) -> &Vector {
        let (Snapshot::Taken(vector) | Snapshot::New(vector) | Snapshot::After { seen: vector, .. }) = self;
        vector
    }

    /// The earlier transaction that it waits for, and the period that its COMMIT names.
    pub(crate) fn earlier(&self) -> Option<(TransactionId, Period)> {
        match self {
            Snapshot::After { earlier, period, .. } => Some((*earlier, *period)),
            Snapshot::Taken(_) | Snapshot::New(_) => None,
        }
    }
}

/// A question to a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A register.
    Register(Key),
    /// The first so many registers of a range that have a value.
    Range(KeyRange, u32),
    /// The count of an element of a set.
    Count {
        /// The set.
        set: Key,
        /// The element.
        element: Key,
    },
    /// Elements of a set whose count is not zero.
    Elements {
        /// The set.
        set: Key,
        /// Those in this range.
        range: KeyRange,
        /// From which end.
        from: End,
        /// At most so many.
        limit: u32,
    },
    /// Elements of a set whose count is not zero, and the registers whose keys they are.
    Members {
        /// The set.
        set: Key,
        /// The elements in this range.
        range: KeyRange,
        /// From which end.
        from: End,
        /// At most so many.
        limit: u32,
    },
    /// Whether the version of a register may not have committed at every site yet (section 4.1: users may be shown it as *in flight*).
    InFlight(Key),
    /// The preferred site of the objects of a container.
    Container(Key),
}

/// An element of a set, and the register whose key it is, in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The element.
    pub element: Key,
    /// Its count, which is not zero.
    pub count: i64,
    /// True if the register is at other sites, so that nothing is said of it.
    pub is_elsewhere: bool,
    /// The transaction that wrote the register; none if it was never written, or destroyed long ago.
    pub version: Option<VersionNumber>,
    /// Its value, if it has one.
    pub value: Option<Value>,
}

/// The answer of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A register that was written: the version that the snapshot reads.
    Register {
        /// The transaction that wrote it; none if it was never written, or destroyed long ago.
        version: Option<VersionNumber>,
        /// Its value, if it has one.
        value: Option<Value>,
    },
    /// Registers of a range.
    Range {
        /// Those that have a value, ascending.
        entries: Vec<Read>,
        /// The first key that is not covered, if the page is full.
        next: Option<Key>,
        /// The replica sets of all containers that have none at this site, as far as there are different ones: other registers of the range
        /// may be there. None in the answer of another site than the client's.
        elsewhere: Vec<Replicas>,
    },
    /// The count of an element.
    Count(i64),
    /// Elements of a set.
    Elements {
        /// With their counts, in the order that was asked for.
        counts: Vec<Count>,
        /// True if the page is full and there are more.
        is_cut: bool,
    },
    /// Elements of a set and the registers that they name.
    Members {
        /// In the order that was asked for.
        members: Vec<Member>,
        /// True if the page is full and there are more.
        is_cut: bool,
    },
    /// False if the version has committed at every site.
    InFlight(bool),
    /// A container.
    Container {
        /// Where it is.
        container: Container,
        /// So many sites at least must have its objects.
        copies_min: u32,
    },
    /// The object is at other sites.
    Elsewhere {
        /// These, but for those that were taken out, ascending.
        sites: Vec<LocalSite>,
        /// The changes of a set that transactions of this site have made, as far as the snapshot includes them and other sites may lack them, in the
        /// order of their numbers.
        own: Vec<Change>,
    },
}

/// A change of a set, as the site has it whose transaction has made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The number of the transaction.
    pub seqno: u64,
    /// The element.
    pub element: Key,
    /// By how much its count was changed.
    pub by: i32,
}

/// How a transaction has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It committed under this name, with this snapshot.
    Committed {
        /// The name.
        version: VersionNumber,
        /// The snapshot.
        snapshot: Vector,
        /// True if other sites were asked first (*slow commit*).
        is_slow: bool,
    },
    /// It did not, and will not.
    Aborted,
}

/// The messages of the participants to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client to the leader of its local site.
    Read {
        /// The transaction.
        transaction: TransactionId,
        /// Tells the reads of one transaction apart.
        request: u32,
        /// At which snapshot.
        snapshot: Snapshot,
        /// The questions. Several are answered at one snapshot.
        wanted: Vec<Wanted>,
    },
    /// The answers to a READ.
    ReadReply {
        /// The transaction.
        transaction: TransactionId,
        /// Which read is answered.
        request: u32,
        /// The snapshot.
        snapshot: Vector,
        /// In the order of the question.
        found: Vec<Found>,
        /// The present period of the local site.
        period: Period,
    },
    /// Client to the leader of a site that has objects which its own has not.
    ReadCopy {
        /// The transaction.
        transaction: TransactionId,
        /// Tells the reads of one transaction apart.
        request: u32,
        /// The snapshot, which the client's site has given it.
        snapshot: Vector,
        /// The client's site. Of its transactions the receiver need not have all that the snapshot includes.
        home: LocalSite,
        /// The objects.
        wanted: Vec<Wanted>,
    },
    /// The answer, as far as the sender has received what the snapshot includes: of all sites but the client's everything.
    CopyReply {
        /// The transaction.
        transaction: TransactionId,
        /// Which read is answered.
        request: u32,
        /// So many transactions of the client's site count in the answer, as far as the snapshot includes them.
        included: u64,
        /// In the order of the question.
        found: Vec<Found>,
    },
    /// Client to the leader of its local site: commit this.
    Commit {
        /// The transaction.
        transaction: TransactionId,
        /// With which snapshot. One that has read nothing takes a new one.
        snapshot: Snapshot,
        /// A period of the local site in which the client had not sent it yet.
        period: Period,
        /// Its updates.
        updates: Vec<Update>,
    },
    /// How a transaction has ended, durably.
    CommitReply {
        /// The transaction.
        transaction: TransactionId,
        /// How.
        ending: Ending,
        /// If it was aborted since they were silent, or nobody has taken over from them yet: the sites that let in what it writes.
        silent: Vec<ShardId>,
        /// True if it was aborted since it would take more from a counter than any site is known to have.
        is_short: bool,
    },
    /// The snapshot is older than what is kept, or the period is over for long: nothing has been done about it, unless that was long ago and is
    /// forgotten.
    TooOld {
        /// The transaction.
        transaction: TransactionId,
        /// The period that the refused message names; none if it was a read that comes after no other transaction.
        refused: Option<Period>,
        /// The transactions that have committed at the local site.
        committed: Vector,
        /// Its present period.
        period: Period,
    },
    /// The receiver of a message does not lead its local site, and has done nothing about it.
    NotLeading {
        /// The transaction, if the message was about one.
        transaction: Option<TransactionId>,
        /// The leader, as far as it knows.
        leader: ReplicaIndex,
    },
    /// Leader of the local site of the client to the leaders of preferred sites: lock what is written there.
    Prepare {
        /// The transaction.
        transaction: TransactionId,
        /// The registers that it writes and whose preferred site is the receiver's, ascending.
        keys: Vec<Key>,
        /// Its snapshot.
        snapshot: Vector,
    },
    /// Whether the sender's site has locked what it was asked for, durably.
    Vote {
        /// The transaction.
        transaction: TransactionId,
        /// The registers. A later leader may ask for others: a container may have moved.
        keys: Vec<Key>,
        /// True if it has.
        agrees: bool,
    },
    /// The transaction was aborted: its locks go.
    Release {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Leader of a preferred site to that of the site that coordinates; or a client to that of its site: how has it ended? A transaction
    /// that the receiver has not heard of is refused first, so that the answer is final.
    AskOutcome {
        /// The transaction.
        transaction: TransactionId,
        /// The period that it was sent with, as far as a client knows: what was sent long ago may be forgotten.
        period: Period,
        /// How many transactions of the receiver's site have committed at the sender's, if that is a site: not the one that is asked for. A question that
        /// comes so late that it has committed everywhere since asks for nothing any more.
        committed: u64,
    },
    /// The outcome of a transaction that was sent so long ago is not known any more.
    Forgotten {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Client to the leader of the local site at which its transaction has committed: has it reached this? If not, the
    /// client is told once it has; unless it has not asked for a while, or the leader fails.
    AskMilestone {
        /// The transaction.
        transaction: TransactionId,
        /// Its name.
        version: VersionNumber,
        /// The milestone that it is to reach.
        milestone: Milestone,
    },
    /// The transaction has reached it, and that will not change; or not yet.
    MilestoneReply {
        /// The transaction.
        transaction: TransactionId,
        /// The milestone that was asked for.
        milestone: Milestone,
        /// The sites whose copies or commits are missing, as far as the sender knows; none if it has reached it.
        missing: Vec<ShardId>,
    },
    /// Leader to leader: transactions of the sender's site, in the order of their numbers.
    Propagate {
        /// The transactions, without gaps; none to tell how far they are durable.
        commits: Vec<Arc<Commit>>,
        /// Up to this number the transactions of the sender's site are disaster-safe durable.
        durable: u64,
    },
    /// Leader to client: its session, or the snapshot of its transaction, includes transactions that were abandoned with their site.
    /// Nothing has been done.
    Abandoned {
        /// The transaction.
        transaction: TransactionId,
        /// The last transaction of that site that is kept.
        last: VersionNumber,
    },
    /// Leader to client: its session, or the snapshot of its transaction, includes transactions that their site never had. Nothing has been
    /// done.
    NeverCommitted {
        /// The transaction.
        transaction: TransactionId,
        /// The last transaction of that site, as far as it said so, at a time after the client had spoken.
        last: VersionNumber,
    },
    /// Leader to leader: the sender's site lacks a share of a counter.
    AskShare {
        /// The counter, as a set.
        counter: Key,
        /// How much is missing.
        wanted: u64,
    },
    /// Leader to leader: how many transactions have committed at the receiver's site? Clients of the sender's claim to have seen more than have come.
    AskLast {
        /// Tells this question from others.
        question: u64,
    },
    /// The answer: so many, at least when the question came.
    Last {
        /// The question.
        question: u64,
        /// The number of the last one.
        seqno: u64,
    },
    /// Leader to leader, while the ends of sites that were taken out are open: how far the sender had come when it went on without them.
    Frozen {
        /// That.
        frozen: Frozen,
        /// The transactions that it has received of all sites that were taken out by now, durably.
        received: Vector,
    },
    /// Leader to leader: transactions of sites that were taken out, which the receiver has said to lack.
    Relay {
        /// The transactions.
        commits: Vec<Arc<Commit>>,
    },
    /// Leader to leader: how far the sender's site is with the transactions of the receiver's, and with all.
    Progress {
        /// It has received those of the receiver's site up to this number, durably.
        received: u64,
        /// All that has committed at it.
        committed: Vector,
        /// The oldest snapshot that may be read at it.
        oldest: Vector,
    },
    /// Leader of a site that joins to the leaders of the others: keep what the sender's site may lack.
    Join {},
    /// The answer, once that is durable.
    Expected {
        /// All that the sender's site has forgotten by now: a state that the sender of JOIN adopts has to include it.
        floor: Vector,
    },
    /// Leader of a site that joins to that of another: a page of the state of its site.
    Fetch {
        /// Tells one state from another. The sender chooses it when it asks for the first page.
        state: u64,
        /// Which page, from zero. All before it have come.
        number: u32,
    },
    /// The page.
    State {
        /// Of this state.
        state: u64,
        /// Its number.
        number: u32,
        /// True if it is the last.
        is_last: bool,
        /// The page.
        page: Page,
    },
}

impl Message {
    /// The transaction that a message between a client and a site is about; none if it is one between sites.
    pub(crate) fn transaction_of_client(&self) -> Option<TransactionId> {
        match self {
            Message::Read { transaction, .. }
            | Message::ReadReply { transaction, .. }
            | Message::ReadCopy { transaction, .. }
            | Message::CopyReply { transaction, .. }
            | Message::Commit { transaction, .. }
            | Message::CommitReply { transaction, .. }
            | Message::TooOld { transaction, .. }
            | Message::Abandoned { transaction, .. }
            | Message::NeverCommitted { transaction, .. }
            | Message::AskOutcome { transaction, .. }
            | Message::Forgotten { transaction }
            | Message::AskMilestone { transaction, .. }
            | Message::MilestoneReply { transaction, .. } => Some(*transaction),
            _ => None,
        }
    }
}
