//! The parts that the coordinators of all protocols have in common.
//!
//! | module | what it keeps |
//! |---|---|
//! | [`buffer`] | what a transaction has read and wants to write, within its limits |
//! | [`clock`] | timestamps by a clock that may be turned back |
//! | [`leaders`] | the leader of each group, as far as a coordinator knows |
//! | [`scan`] | the pages of a scan that spans shards, until they are one |
//! | [`transactions`] | which transactions are not forgotten, and when they want attention |
//! | [`frame`] | the machine around it: messages, commands, attention, one timer |
//!
//! Protocols differ in the replicas that they ask, and in what they ask of those that are to commit.

pub mod buffer;
pub mod clock;
pub mod frame;
pub mod leaders;
mod plans;
pub mod scan;
pub mod transactions;

pub use buffer::Buffer;
pub use clock::clock_since;
pub use frame::{Coordinates, CoordinatorTimer, Out, Wants, finish, tell_known};
pub use leaders::{Leaders, soon};
pub use scan::{Entries, Page, Scan};
pub use transactions::Transactions;
