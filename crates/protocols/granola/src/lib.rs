//! Granola: transactions that run in one round, ordered by timestamps, without locks and without aborts.
//!
//! *Source*: "Granola: Low-Overhead Distributed Transaction Coordination" (Cowling and Liskov, USENIX ATC 2012).
//!
//! A *one-round transaction* is an operation for each shard that takes part in it. Each runs to its end at its shard, and learns
//! nothing from the others but a timestamp. *Independent* transactions are those where every participant executes its part
//! whatever happens at the others, so that there is nothing to decide but the order. *Coordinated* ones are executed if all vote for
//! them: they are prepared, and hold locks until then.
//!
//! | role | machine | hosted by |
//! |---|---|---|
//! | coordinator (the paper's client proxy) | [`Coordinator`] | the client library |
//! | participant (the paper's repository) | [`Replica`], a [`LogMachine`](quorate_core::log::LogMachine) | a server node, on a log |
//! | what it runs | an [`Application`] | linked with the server |
//!
//! | file | what to read it for |
//! |---|---|
//! | [`message`] | the protocol, from what is said |
//! | [`mod@entry`] | what survives a crash |
//! | [`application`] | what an application has to offer |
//! | [`place`] | the serial order |
//! | [`coordinator`] | a transaction from its request to its answers |
//! | `replica` | timestamps, votes, execution, what may be forgotten |
//! | [`config`] | who a machine is and how long it waits |
//! | `landmarks` | by which messages a host follows a transaction, and what people call messages |
//! | [`rules`] | the planted bugs, for tests |
//! | `reasons` | why a message is dropped |
//! | `wire` | the field numbers |
//!
//! # Why it is serializable
//! Each transaction has one timestamp, the greatest that a participant has proposed, and every shard executes in the order of timestamps: it
//! waits for transactions that stand before and are not certain yet. A proposal lies above what the client has seen, above everything that the
//! shard has executed or read, and above what it proposed before and lacks no votes. A later leader begins above a ceiling that is stable, and
//! nothing is executed or read above that. No clock has to agree with another: one that is ahead takes the others along, and one that is
//! behind makes nobody wait but for a vote.
//!
//! # Where this deviates from the paper, and why
//! * *Nothing is proposed beneath what is certain*, and not only above what was executed. So a backup that knows the timestamp of an entry
//!   knows all that stands before it, and may execute: the paper does not say when it may.
//! * *A transaction of one shard passes beneath those that lack votes*: they are proposed ahead of the clock, by as much as votes are late.
//! * *A stable ceiling* rides along with every entry. With leases alone a leader that takes over proposes below what the one
//!   before has read (it logs no reads), or has executed at a timestamp that came from elsewhere.
//! * *A read-only transaction stands in nobody's way.* It is executed after everything that has its timestamp or a smaller one, as
//!   of then, even if what stands above has run already: what was overwritten is kept as long as somebody may read it. Where one
//!   shard takes part, it reads at the greatest timestamp that was executed there, below all that waits.
//! * *A leader that is deposed is rewound* to what its log says, and executes again what the next one says.
//! * *The way into locking mode never fails*: what is pending is prepared by force if any of it conflicts, as the paper does only where
//!   a shard is lost. A leader that takes over coordinated transactions goes the same way.
//! * *Refusals are logged*, those of one shard alone, too: a copy of the request may come later. And reads wait for locks only if their client has
//!   seen what lies above them.
//! * Transactions that nobody may ask for any more are forgotten by a floor of when they were first sent, not by numbers that
//!   clients count: requests of a client may overtake each other.
//!
//! # Invariants
//! I1 serializability of what clients saw, with the order of sessions. I3 acknowledged writes survive, once. I4 replicas
//! agree on every outcome and on the state. I6 every transaction ends. I7 what has ended is forgotten.
//!
//! Handlers assert what they rely on; properties between any two steps are asserted by [`Replica::assert_invariants`]. None of that is
//! about what a client says, nor about a message that may be late or come twice: those are refused, or dropped with one of the `reasons`.

pub mod application;

pub mod config;
pub mod coordinator;
pub mod entry;
mod hosted;
mod landmarks;
pub mod message;
pub mod place;
mod reasons;
mod replica;
pub mod rules;
mod wire;

pub use application::{Answer, Application, Keyed, Prepared, Read};
pub use config::{CoordinatorConfig, Locking, ReplicaConfig};
pub use coordinator::{Command, Coordinator, Event, Executed, Failure};
pub use entry::{Body, Ended, Ending, Entry, Final, Outcome, Page, Pending, Refusal, Vote, Voted};
pub use message::{Begin, Message, Reply, Request};
pub use place::Place;
pub use quorate_coordinator::CoordinatorTimer;
pub use quorate_core::command::Class;
pub use replica::invariants::Witness;
pub use replica::{Frozen, Replica, ReplicaCommand, ReplicaEvent, ReplicaTimer};
pub use rules::{Plant, Rules};
