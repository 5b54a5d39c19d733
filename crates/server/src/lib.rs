//! A node of a Quorate cluster: hosts replicas, learns of keyspaces, answers operators.

mod config;
mod data;

pub use config::{Config, ConfigError, Limits, print_config};
pub use data::{DataError, Initialise};
pub use quorate_wire::catalogue::SYSTEM_KEYSPACE;
