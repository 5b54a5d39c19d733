//! The bounds of every queue of a node.

use std::time::Duration;

use quorate_core::admission::Marks;

/// The bounds within which a node works. `quorate server --print-config` documents them with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are accepted at a time.
    pub connections_max: usize,
    /// HTTP connections that are open at a time; the one that was answered least recently is closed for a further one.
    pub http_connections_max: usize,
    /// How long an HTTP connection may go without a part of an answer: that bounds idle connections, requests that never end,
    /// and clients that do not read.
    pub http_timeout: Duration,
    /// How long a connection may take to introduce itself.
    pub handshake_timeout: Duration,
    /// How long a frame may take to arrive, and a peer to take some of what waits for it.
    pub stall_timeout: Duration,
    /// How much may wait for a client before it is disconnected as a slow reader, in bytes.
    pub client_queue_bytes_max: usize,
    /// How much may wait for another node before it is disconnected, in bytes.
    pub node_queue_bytes_max: usize,
    /// How much of frames that have begun and not ended may be held, over all connections, in bytes.
    pub unfinished_bytes_max: usize,
    /// How much may wait to be sent over all connections before new work is refused, in bytes.
    pub queued_bytes_high: usize,
    /// How many transactions one replica may hold prepared before new work is refused.
    pub prepared_high: usize,
    /// How many of those one client may have before its new work is refused: nobody else notices a client that begins
    /// more than it finishes.
    pub client_prepared_high: usize,
    /// How much of the log of one replica may wait for the disk before new work is refused, in bytes.
    pub log_lag_bytes_high: u64,
    /// With less room than this where the data directory is, the node raises an alarm, and shards that would have no majority
    /// without such nodes take no writes, in bytes; 0 for never.
    pub free_bytes_low: u64,
    /// How much memory the keys and values of all replicas may take that can keep values in files, in bytes; further values are there. 0: everything is
    /// in memory.
    pub memory_bytes: u64,
    /// How much of logs is read again in the background, to find decay before more of a group decays, in bytes a second; 0 for
    /// nothing.
    pub scrub_bytes_per_second: u64,
    /// How long after one pass over all logs has begun the next one begins, if it has not to wait for the end of the first.
    pub scrub_interval: Duration,
    /// How long refused clients are told to wait.
    pub busy_retry_after: Duration,
    /// How often the node asks for changes of the catalogue that it may not have been told of: at most ten seconds.
    pub catalogue_interval: Duration,
    /// How long a stopping node waits for transactions under way.
    pub drain_timeout: Duration,
}

impl Limits {
    /// The marks above which new work of clients is refused.
    pub(crate) fn marks(&self) -> Marks {
        Marks {
            queued_bytes_high: self.queued_bytes_high,
            prepared_high: self.prepared_high,
            client_prepared_high: self.client_prepared_high,
            log_lag_bytes_high: self.log_lag_bytes_high,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 1_024,
            http_connections_max: 64,
            http_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            client_queue_bytes_max: 64 * 1024 * 1024,
            node_queue_bytes_max: 1024 * 1024 * 1024,
            unfinished_bytes_max: 512 * 1024 * 1024,
            queued_bytes_high: 256 * 1024 * 1024,
            prepared_high: 50_000,
            client_prepared_high: 10_000,
            log_lag_bytes_high: 64 * 1024 * 1024,
            free_bytes_low: 128 * 1024 * 1024,
            memory_bytes: 0,
            scrub_bytes_per_second: 4 * 1024 * 1024,
            scrub_interval: Duration::from_secs(60),
            busy_retry_after: Duration::from_millis(50),
            catalogue_interval: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(8),
        }
    }
}
