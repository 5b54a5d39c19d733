//! The port of an application: the code that a shard runs.
//!
//! A transaction is an *operation* for each of its participants, as bytes that mean something to the application alone. The
//! protocol says in which order operations run, and runs one at a time (section 3.4).
//!
//! # Executions have places
//! The leader of a shard runs ahead of its log: it executes a transaction as soon as its place in the serial order is certain,
//! and the others learn that place later. So an application is told the place of everything that it runs, and keeps what it
//! has overwritten until that is settled:
//!
//! ```text
//!   ──── settled ────┬──── ahead of the log ────►  places
//!                    │
//!        pages end here; a leader that is deposed is rewound to here; read-only operations may still run after here
//! ```
//!
//! Operations that write run in the order of places. A read-only operation may run later than others that stand above it,
//! down to the point up to which executions are settled, and must not see them.
//!
//! # Locks
//! A transaction on which its participants have to agree is *prepared* before it has a place, and *committed* or *aborted* later
//! (section 4.5). In between it holds locks, and whatever touches what it has locked conflicts. Only what does not touch the same
//! is executed in another order than that of places, so nobody can tell. Only the leader of a shard prepares: the
//! others run, in the order of places.

use std::fmt::Debug;

use quorate_core::attic::Memory;
use quorate_core::changes::{self, Retained, Retention};
use quorate_core::hosted::NO_CHANGES;
use quorate_core::landmark::FewKeys;
use quorate_core::verify::Digester;
use quorate_core::{ClockTime, Key, TransactionId, Value};

use crate::place::Place;

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was carried out.
    Done(Value),
    /// The application has refused it, for this reason: it has changed nothing.
    Refused(Value),
}

/// The answer to an operation that changes nothing, and the lock that it has met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The answer.
    pub answer: Answer,
    /// A transaction that is prepared and may change what it has read; any of them, if there are several.
    pub locked_by: Option<TransactionId>,
}

/// How an application votes on what it has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It can be committed, and will answer this as long as its locks are held.
    Commit(Answer),
    /// It refuses it, for this reason, and would answer so. That stays so as long as its locks are held.
    Abort(Value),
    /// Its effect depends on its place, which it does not have yet: another one could do something else at the replicas that follow, where it runs at
    /// its place. It has locked everything that it may touch in any serial order, nobody had locked any of that, and it runs once it is committed.
    /// Where its participants have to agree on it, it refuses, for this reason.
    Late(Value),
    /// Something that it touches is locked.
    Conflict,
}

/// An application as every replica of a shard runs it. The effects and the answer of an operation follow from the operation,
/// from its place and from what ran at places below: no clock, no randomness, no order of hashing.
pub trait Application: Debug {
    /// A part of its state.
    type Page: Clone + Debug + PartialEq + Eq;
    /// Its state as it was when it was frozen, while more runs.
    type Frozen: Debug;
    /// The application that stands for all those whose operations and pages are the same, but not what operations do: this
    /// one, unless there are several. See [`LogMachine::Canonical`](quorate_core::log::LogMachine::Canonical).
    type Canonical: Application<Page = Self::Page, Frozen = Self::Frozen, Canonical = Self::Canonical>;

    /// Runs an operation to its end and gives the answer. Bytes that are no operation are refused: whatever a client sends, all
    /// replicas do the same. None, and nothing was done, if it touches what is locked.
    fn run(&mut self, place: Place, operation: &Value) -> Option<Answer>;

    /// Runs an operation that changes nothing, and sees what ran at places below. An operation that would write is refused.
    fn read(&self, before: Place, operation: &Value) -> Read;

    /// Runs an operation up to where it could be committed, and locks what it has read and is going to write. It holds the locks
    /// until it is committed or aborted, whatever it would answer; with a conflict it holds none, and what it met is left as it was. An operation that asks
    /// for its place is [`Prepared::Late`].
    fn prepare(&mut self, transaction: TransactionId, operation: &Value) -> Prepared;

    /// Locks whatever an operation may touch in any serial order, although others may have locked some of that (the paper's
    /// `forcePrepare`); true if nobody had.
    fn force_prepare(&mut self, transaction: TransactionId, operation: &Value) -> bool;

    /// Carries out the operation that was prepared under this name, at this place, and unlocks it. An operation that was prepared by force, or
    /// late, is run now, even against locks of others. Its place may lie below what has run; but not below what has touched the same.
    fn commit(&mut self, place: Place) -> Answer;

    /// Unlocks what was prepared, and forgets it.
    fn abort(&mut self, transaction: TransactionId);

    /// Of what has run, what stands below this place is settled, or all of it: none of that is undone any more, nor read as it
    /// was before. More may still run below the place, above what has run.
    fn settle(&mut self, below: Option<Place>);

    /// True if it can be read as it was before this place: nothing that ran there or above is settled. In a state that another replica has given
    /// everything is.
    fn is_open(&self, place: Place) -> bool {
        let _ = place;
        true
    }

    /// Undoes everything that ran at this place and above. Nothing of it is settled.
    fn rewind(&mut self, to: Place);

    /// The state that all executions below this place have led to, or all of them. Nothing at it or above is settled.
    fn freeze(&self, below: Option<Place>) -> Self::Frozen;

    /// The next page of such a state, of about so many bytes; none once it has given all. The same pages at every replica.
    fn next_page(frozen: &mut Self::Frozen, bytes_max: usize) -> Option<Self::Page>;

    /// Adds to a digest what a page holds of the data of users.
    fn digest(page: &Self::Page, digester: &mut Digester);

    /// The application whose state these pages hold, in which everything is settled.
    fn from_pages(pages: Vec<Self::Page>) -> Self;

    /// The first keys that an operation writes, as far as it tells; none of bytes that are no operation. Only hosts that count keys want to know.
    fn keys_written(operation: &Value) -> FewKeys {
        let _ = operation;
        FewKeys::default()
    }

    /// False if an operation writes no value, or only deletes: it is let in where memory is short. Asked for only then.
    fn adds(operation: &Value) -> bool {
        let _ = operation;
        true
    }

    /// The memory that its state takes, about; none if it does not count it. Asked for often.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// How much work operations have been so far that were run, read or prepared here, in units of its own. Only turns go by it, and no answer
    /// does. Zero, if all of them are short.
    fn work(&self) -> u64 {
        0
    }

    /// From now on places need not come in the order that is promised here: a bug is planted in the replica. An application that
    /// asserts their order goes on all the same, so that clients get to see what comes of it.
    fn allow_disorder(&mut self) {}

    /// So much of what has been written is retained for consumers of changes.
    fn retain(&mut self, retention: Retention) {
        let _ = retention;
    }

    /// What was written so far is not retained: its state comes from a replica that says nothing of it.
    fn forget_history(&mut self) {}

    /// The changes that it retains.
    fn retained(&self) -> Retained {
        Retained::default()
    }

    /// The answer to a consumer of changes. Below the timestamp everything that ever will has run, and none of that is undone.
    fn changes(&self, request: &changes::Request, certain: ClockTime) -> changes::Answer {
        let _ = (request, certain);
        changes::Answer::unable(NO_CHANGES)
    }

    /// From now on the native code of this name can be called, which every host of a replica of the keyspace is linked with: said before anything runs.
    fn link(&mut self, name: &str) {
        let _ = name;
    }
}

/// An application that holds values under keys, for those that judge what a shard holds.
pub trait Keyed: Application {
    /// Every key, with the place of the transaction that wrote its value, ascending by key.
    fn versions(&self) -> Vec<(Key, Place, Value)>;

    /// How many of them there are.
    fn version_count(&self) -> usize;
}
