//! The port of an application: what a shard runs.
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
//! What writes runs in the order of places. What only reads may run later than others that stand above it, down to the
//! point up to which executions are settled, and must not see them.

use std::fmt::Debug;

use quorate_core::Value;

use crate::place::Place;

/// An application as every replica of a shard runs it. What an operation does and answers follows from the operation, from
/// its place and from what ran at places below: no clock, no randomness, no order of hashing.
pub trait Application: Debug {
    /// A part of its state.
    type Page: Clone + Debug + PartialEq + Eq;
    /// Its state as it was when it was frozen, while more runs.
    type Frozen: Debug;

    /// Runs an operation to its end and gives the answer (the paper's `run`). Bytes that are no operation are answered, too:
    /// whatever a client sends, all replicas do the same.
    fn run(&mut self, place: Place, operation: &Value) -> Value;

    /// Runs an operation that changes nothing, and sees what ran at places below. What would write answers that it must not.
    fn read(&self, before: Place, operation: &Value) -> Value;

    /// Of what has run, what stands below this place is settled, or all of it: none of that is undone any more, nor read as it
    /// was before. More may still run below the place, above what has run.
    fn settle(&mut self, below: Option<Place>);

    /// Undoes everything that ran at this place and above. Nothing of it is settled.
    fn rewind(&mut self, to: Place);

    /// The state that all executions below this place have led to, or all of them. Nothing at it or above is settled.
    fn freeze(&self, below: Option<Place>) -> Self::Frozen;

    /// The next page of such a state, of about so many bytes; none once it has given all. The same pages at every replica.
    fn next_page(frozen: &mut Self::Frozen, bytes_max: usize) -> Option<Self::Page>;

    /// The application whose state these pages hold, in which everything is settled.
    fn from_pages(pages: Vec<Self::Page>) -> Self;
}
