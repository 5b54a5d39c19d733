//! The state of a shard that a replica keeps in memory.
//!
//! | file | what it holds |
//! |---|---|
//! | [`versions`] | the multi-version key space: a hash index for points, an ordered index for scans |
//! | [`pages`] | pages of it: of a scan, and of all versions |
//! | [`read_timestamps`] | at which timestamps keys and ranges have been read, so that no write slips below a read |
//! | [`prepared`] | transactions that are prepared and not yet decided, and the keys that they hold |
//! | [`read_locks`] | who has locked what to read it |
//! | [`client_table`] | what clients have asked for and been answered, so that nothing is done twice |
//! | [`history`] | which versions are retained for consumers of changes, in the order of timestamps |
//! | [`below`] | a walk over what is held below a timestamp, to compare replicas |
//! | [`validated`] | which versions are known to have been the newest until when |
//!
//! Nothing here decides anything: protocols look things up and draw their own conclusions.

pub mod below;
pub mod client_table;
pub mod history;
pub mod pages;
pub mod prepared;
pub mod read_locks;
pub mod read_timestamps;
pub mod validated;
pub mod versions;

pub use below::WalkBelow;
pub use client_table::ClientTable;
pub use history::History;
pub use pages::{Filling, PageLimits};
pub use prepared::{Holder, Prepared, PreparedSet};
pub use read_locks::ReadLocks;
pub use read_timestamps::ReadTimestamps;
pub use validated::{ValidatedVersions, Validity};
pub use versions::{Version, VersionRef, Versions};
