//! Backups of keyspaces: everything that a keyspace holds at one instant, in files that can be checked, and from which a new keyspace is made.
//!
//! ```text
//!   cut of a keyspace ──► segments, one or more for each shard ──► manifest, last     folder of a backup
//!   new keyspace ◄── entries ◄── segments, each block checked ◄── manifest, first
//! ```
//!
//! | module | what it is about | does it touch files? |
//! |---|---|---|
//! | [`manifest`] | what belongs to a backup, for people and programs | no |
//! | [`segment`] | entries in blocks: compressed, checked, encrypted if asked | no |
//! | [`cipher`] | the key of a backup | no |
//! | [`rows`] | entries as lines of JSON and CSV | no |
//! | [`directory`] | backups in a folder | yes |
//! | [`create`], [`verify`], [`restore`], [`transfer`] | what commands do | yes |
//!
//! How one instant is found stands at [`quorate::Database::cut`] and in ADR 0074, the format in `docs/backup.md`.

pub mod cipher;
pub mod create;
pub mod directory;
mod error;
mod loader;
pub mod manifest;
pub mod restore;
pub mod rows;
pub mod segment;
mod time;
pub mod transfer;
pub mod verify;

pub use error::{Error, Result};
pub use time::rfc3339;
