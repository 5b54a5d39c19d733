//! The client library of Quorate.
mod batch;
mod database;
mod directory;
mod error;
#[cfg(test)]
mod fake;
mod footprint;
mod keyspace;
mod options;
mod retry;
mod session;
#[cfg(test)]
mod tests;
mod token;
mod transaction;
mod waiters;

pub use batch::{Applied, Batch};
pub use error::{Error, Invalid, MissingReplica, Result};
pub use keyspace::Keyspace;
pub use options::Options;
pub use quorate_core::{Key, Timestamp, Value};
pub use token::{InvalidToken, Token};
pub use transaction::{Page, Receipt, Transaction};
