//! Watching how long keys are held after a crash.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::hosted::{Held, Holdings};
use quorate_core::{Instant, TransactionId};

use super::configuration::Configuration;
use crate::cluster::Cluster;
use crate::invariants::{self, Finding};
use crate::system::System;

/// Looks again and again at what servers hold.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// When the last machine crashed, and how many have.
    crashed_at: Option<Instant>,
    crashes: usize,
    /// Since when a server has been seen to hold a transaction, while it was up.
    held_since: BTreeMap<(usize, TransactionId), Instant>,
    /// The longest time that one was held after the last crash.
    pub(crate) held_max: Duration,
    /// The keys that were held for too long, in words.
    overdue: BTreeMap<(usize, TransactionId), String>,
}

impl Watch {
    /// How often it looks.
    pub(crate) const INTERVAL: Duration = Duration::from_millis(1);

    /// A machine has crashed.
    pub(crate) fn on_crashed(&mut self, now: Instant) {
        self.crashed_at = Some(now);
        self.crashes += 1;
    }

    /// True if a machine has crashed, and everything that it had said has arrived.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        const ARRIVED: Duration = Duration::from_millis(10);
        self.crashed_at.is_none_or(|at| now - at >= ARRIVED)
    }

    /// Looks at all servers.
    pub(crate) fn look<S: System>(&mut self, cluster: &Cluster<S>, configuration: &Configuration) {
        let now = cluster.world.now();
        let dead_backups = configuration.nodes_lacking() + self.crashes.saturating_sub(1);
        let free_within = configuration.free_within(dead_backups);
        let mut held = BTreeMap::new();
        for server in 0..cluster.world.servers() {
            let Some(replica) = cluster.world.server(server) else { continue };
            for Held { id, .. } in replica.held() {
                let since = self.held_since.get(&(server, id)).copied().unwrap_or(now);
                held.insert((server, id), since);
                let Some(crashed_at) = self.crashed_at else { continue };
                let time = now - since.max(crashed_at);
                self.held_max = self.held_max.max(time);
                if time > free_within {
                    let name = cluster.replica(server);
                    self.overdue.entry((server, id)).or_insert_with(|| {
                        format!("{name} still holds the keys of {id} {time:?} after a crash")
                    });
                }
            }
        }
        self.held_since = held;
    }

    /// Whether everything was free in time (I6).
    pub(crate) fn finding(&self) -> Finding {
        let overdue: Vec<String> = self.overdue.values().cloned().collect();
        invariants::everything_ends("recovery takes too long", &overdue)
    }
}
