//! How the containers of `parallel-snapshot` keyspaces go by.

use std::time::Duration;

/// When containers that no client has placed move by themselves to the site that writes them.
/// `quorate server --print-config` documents them with their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerOptions {
    /// For so long writes are counted before it is decided which move; if zero, they stay where they are.
    pub move_window: Duration,
    /// A site has to write a container so often in that time, and four times as often as all others together.
    pub move_writes_min: u64,
}

impl Default for ContainerOptions {
    fn default() -> Self {
        ContainerOptions { move_window: Duration::from_secs(10), move_writes_min: 50 }
    }
}
