//! Viewstamped Replication: a log that 2f + 1 replicas agree on, entry by entry. It may be 2f + 2, and then f + 2 stand here for f + 1: what
//! counts is n - f, any two of which share a replica.
//!
//! *Source*: "Viewstamped Replication Revisited" (Liskov and Cowling, 2012).
//!
//! The replica that leads a *view* appends entries and sends them to the others, the backups. An entry that f + 1 replicas
//! hold durably is *stable*: whatever fails afterwards, every later leader has it, at the same position. Stable entries
//! are handed to the host in order, the same at every replica. If a leader falls silent, the next in turn gathers what
//! f + 1 replicas hold and begins the next view with it.
//!
//! | file | role |
//! |---|---|
//! | [`message`] | everything that replicas say to each other |
//! | [`member`] | a replica and the machine that stands on it, as one machine |
//! | [`guest`] | a participant without a part of the log, which speaks with those that have one |
//! | [`clocks`] | what members know of each other's clocks, and who is off |
//! | [`membership`] | who the replicas are, and which views are theirs |
//! | [`entries`] | the log of one replica, and in which views its entries were appended |
//! | [`rules`] | the bugs that can be planted |
//! | [`replica`] | what a replica does: appending, changing views, joining a view, coming back without a disk, going on with other members |
//! | `wire` | the field numbers, whatever stands on the log |
//!
//! # Where this deviates from the paper, and why
//! * Entries are durable before they are acknowledged. A replica restarts from its disk and goes on in its view; only one
//!   that has lost its disk has to recover from the others.
//! * DO-VIEW-CHANGE and START-VIEW carry no entries, but the [`Shape`] of a log: in which view each of its entries was
//!   appended. Two logs are alike exactly as far as their shapes are, so that a replica that joins a view fetches what it
//!   lacks and nothing else, in parts of bounded size.
//! * A replica that joins a view keeps its own log until it has all of what the view began with, and then changes over in
//!   one durable step. Else a replica that is half way would count as one that took part in the view (it would have the
//!   greatest last normal view and miss entries that were stable).
//! * A replica leaves its view only if f + 1 want to, so that one broken link does not keep a group busy.
//! * A replica that comes back without a disk counts its lives, or an offer of an earlier life could lose what it has
//!   helped to make stable since: see [`replica::recovery`].
//! * The log does not grow for ever: see [`replica::snapshot`]. A replica that is so far behind that no other has the
//!   entries any more is given the state that they have led to.
//! * Leaders hold leases, counted in time that passes and not by clocks: see [`replica::lease`].
//! * Members compare their clocks. The machine on a leader is given one that is never far from those of a majority, and a leader
//!   whose own clock is off hands over: see [`clocks`].

pub mod clocks;
pub mod entries;
pub mod guest;
pub mod member;
pub mod membership;
pub mod message;
pub mod replica;
pub mod rules;
mod wire;

pub use entries::{Entry, Run, Shape};
pub use guest::Guest;
pub use member::{LogCommand, LogEvent, Member, Part};
pub use membership::Membership;
pub use message::Message;
pub use quorate_core::hosted::Status;
pub use replica::invariants::Witness;
pub use replica::{Beginning, Boot, Durable, Fact, Host, Limits, Replica, Timer, Timing};
pub use rules::{Plant, Rules};

#[cfg(test)]
mod tests;

use std::fmt::Debug;

/// The content of entries, and the state that entries lead to.
pub trait Payload: Clone + Debug + PartialEq + Eq {
    /// A part of the state that all entries up to some position have led to.
    type Page: Clone + Debug + PartialEq + Eq;

    /// That state, as it was at one position, while more entries come.
    type Frozen: Debug;

    /// Roughly how many bytes it takes in a message.
    fn bytes(&self) -> usize;

    /// The next epoch, with who the replicas of the group are from then on, if this entry changes that. It is the last of its own.
    fn next_group(&self) -> Option<&Membership>;
}
