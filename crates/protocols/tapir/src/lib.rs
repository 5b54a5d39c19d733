//! TAPIR over inconsistent replication: strict serializability in one wide-area round trip, without a leader.
//!
//! *Source*: "Building Consistent Transactions with Inconsistent Replication", whose early text is completed by its later
//! published versions, and repaired: as published, TAPIR is not strictly serializable.
//!
//! | role | machine | hosted by |
//! |---|---|---|
//! | coordinator | [`Coordinator`] | the client library |
//! | replica (participant, and backup coordinator) | [`Replica`] | a server node |
//!
//! | file | what to read it for |
//! |---|---|
//! | [`message`] | the protocol, from what is said |
//! | [`record`] | what survives a crash |
//! | [`quorate_core::command`] | what a client can ask for, and how a transaction can end |
//! | `coordinator` | a transaction from begin to outcome |
//! | `replica` | votes (`validate`), what is kept (`participant`), reads, promises, floors (`checkpoint`), other members (`epochs`) |
//! | `recovery` | how a transaction ends whose coordinator died |
//! | [`config`] | who a machine is and how long it waits |
//! | `landmarks` | by which messages a host follows a transaction, and what people call messages |
//! | [`rules`] | the published rules and the planted bugs, for tests |
//! | `wire` | the field numbers |
//!
//! # Deviations from the paper
//! * **Exclusive preparation** instead of conflicts by timestamp: see `replica/validate`. Timestamps are *not* an external
//!   order (T1); the instants at which all shards hold a transaction are.
//! * A vote that is not OK is made final at f + 1 replicas before a conflict is reported, and a recovering coordinator
//!   makes OK final before it commits: nothing that was reported can be decided otherwise later.
//! * ABSTAIN ends the attempt, and the client backs off, instead of preparing again at a new timestamp.
//! * Read timestamps of committed transactions keep writers above them (T2), absent keys and ranges are validated (T19).
//! * Timestamps are deadlines by measured delays, prepares wait for conflicting ones at lower timestamps, and reads of
//!   contended keys take turns: only about when votes are given, never about which.
//! * Replicas send no vote for timestamps far ahead of their clocks, so that one wild clock cannot drag all others along.
//!
//! # Invariants
//! I1 strict serializability of what clients saw. I2 timestamps are a valid serial order. I3 acknowledged writes survive,
//! once. I4 replicas agree on every outcome. I6 every transaction ends and leaves no hold behind. I7 what has ended is
//! forgotten.
//!
//! # What is left out
//! A strict scan over several shards takes more than one round trip: it runs like any other transaction. The paper's smaller quorums
//! for synchronous logs are not safe: a majority as a fast quorum loses commits (plant T31).

pub mod config;
mod coordinator;
mod hosted;
mod landmarks;
pub mod message;
pub mod record;
mod recovery;
mod replica;
pub mod rules;
mod wire;

pub use config::{CoordinatorConfig, ReplicaConfig};
pub use coordinator::Coordinator;
pub use message::{Message, Tapir};
pub use quorate_coordinator::CoordinatorTimer;
pub use quorate_core::changes::Retention;
pub use quorate_core::hosted::{Boot, Status};
pub use record::Record;
pub use replica::invariants::Witness;
pub use replica::{Handover, Remains, Replica, ReplicaCommand, ReplicaEvent, ReplicaTimer};
pub use rules::{Plant, Rules};
