//! Sessions that follow a script: what is run, and when, is written down beforehand.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::Instant;
use quorate_workloads::Plan;

use super::{Clients, Work};
use crate::cluster::{Alarm, Cluster};
use crate::injector::{Ending, Strike};
use crate::system::System;

/// How a client goes about a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// How long it thinks before it commits.
    pub pause: Duration,
    /// True if it aborts instead of committing.
    pub gives_up: bool,
    /// True if a shard refuses its part of what it vouches for that all shards decide alike.
    pub breaks_promise: bool,
}

/// A transaction of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    /// It begins then, or when the one before it has ended.
    pub at: Duration,
    /// Its operations. If all of them read keys, it reads them at once, strictly.
    pub plan: Arc<Plan>,
    /// How the client goes about it.
    pub manner: Manner,
}

/// Wakes a session when the next transaction of its script is due.
pub(super) fn wake_for_next<S: System>(queue: &VecDeque<Scripted>, session: usize, cluster: &mut Cluster<S>) {
    if let Some(next) = queue.front() {
        let wait = next.at.saturating_sub(cluster.world.now() - Instant::START);
        cluster.world.set_alarm(wait + Duration::from_nanos(1), Alarm::Session(session));
    }
}

impl Clients {
    /// A client has crashed, as the world numbers it: it never returns, or after so long as a new incarnation, which goes on
    /// with the script.
    pub fn on_crashed<S: System>(
        &mut self,
        client: usize,
        returns_after: Option<Duration>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(slot) = self.slots.iter().position(|slot| slot.client == client) else { return };
        self.count_alarms(slot, cluster);
        // Everything that it had sent is on its way.
        cluster.crash_client(client, 0.0);
        self.bury(slot, cluster);
        match returns_after {
            Some(after) => {
                cluster.world.set_alarm(after, Alarm::Strike(Strike::End(Ending::Client(slot))));
            }
            None => {
                for session in self.sessions.iter_mut().filter(|session| session.slot == slot) {
                    session.work = Work::Script(VecDeque::new());
                }
            }
        }
    }
}
