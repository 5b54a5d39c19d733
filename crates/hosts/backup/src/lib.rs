//! Backups of keyspaces: everything that a keyspace holds at one instant, in files that can be checked, and from which a new keyspace is made.
//!
//! ```text
//!   cut of a keyspace ──► chunks that are not there yet, in segments ──► manifest, last     folder of a backup
//!   new keyspace ◄── entries ◄── segments, each block checked ◄── manifest, first
//! ```
//!
//! | module | what it is about | does it touch files? |
//! |---|---|---|
//! | [`manifest`] | what belongs to a backup, for people and programs | no |
//! | [`chunk`] | stretches of entries that are the same again in the next backup | no |
//! | [`segment`] | chunks in a file: compressed, checked, encrypted if asked | no |
//! | [`cipher`] | the key of a backup | no |
//! | [`rows`] | entries as lines of JSON and CSV | no |
//! | [`archive`] | folders and object stores that keep backups | yes |
//! | [`listing`] | which backups an archive has | yes |
//! | [`create`], [`verify`], [`restore`], [`delete`], [`transfer`] | what commands do | yes |
//!
//! How one instant is found stands at [`quorate::Database::cut`] and in ADR 0074, how backups share chunks in ADR 0086, the format in `docs/backup.md`.

pub mod archive;
pub mod chunk;
pub mod cipher;
pub mod create;
pub mod delete;
mod error;
mod known;
pub mod listing;
mod loader;
pub mod manifest;
pub mod restore;
pub mod rows;
pub mod segment;
mod time;
pub mod transfer;
pub mod verify;
mod writer;

pub use error::{Error, Result};
pub use time::rfc3339;
