//! TAPIR over inconsistent replication: strict serializability in one wide-area round trip, without a leader.

pub mod command;
pub mod config;
pub mod message;
pub mod record;
pub mod rules;

pub use command::{Command, Committed, Event, Failure, Invalid, Routes};
pub use config::{Boot, CoordinatorConfig, ReplicaConfig};
pub use message::{Message, Outcome, Tapir};
pub use record::Record;
pub use rules::{Plant, Rules};
