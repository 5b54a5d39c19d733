//! How replicated logs go by.

use quorate_log::{Limits, Timing};

/// How the members of replicated logs go by, on which the configuration service stands, and comparison systems. The times
/// must be the same at all nodes.
/// `quorate server --print-config` documents them with their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The times that groups go by.
    pub timing: Timing,
    /// How much of what a member takes upon itself.
    pub limits: Limits,
    /// A snapshot begins after so many bytes of entries.
    pub snapshot_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { timing: Timing::DEFAULT, limits: Limits::DEFAULT, snapshot_bytes: 64 * 1024 * 1024 }
    }
}
