//! The effects that clocks far off must not have, looked at while a seed runs.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::Instant;
use quorate_core::hosted::{Holdings, HostedReplica};

use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::injector::Injector;
use crate::invariants::{Finding, leaders_have_sound_clocks, timestamps_follow_clocks};
use crate::system::System;
use crate::world::clock::START_MICROS;

/// No timestamp may be further ahead of a perfect clock: twenty seconds that clocks may be wrong, half a minute of bounds, a minute that
/// clients may be ahead, and what leaders that change all the time add. Clocks that leap do so by more than twice as much.
const LEAD_MAX: Duration = Duration::from_secs(300);

/// Watches timestamps, and leaders whose clocks are off.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    /// Since when each server was seen to lead while its clock was far off.
    leads_off: BTreeMap<usize, Instant>,
}

impl ClockWatch {
    /// Looks at the cluster, and gives what is wrong.
    pub(crate) fn look<S: System>(&mut self, cluster: &Cluster<S>, injector: &Injector<S>) -> [Finding; 2] {
        [timestamps_follow_clocks(&dragged(cluster)), self.look_at_leaders(cluster, injector)]
    }

    /// Where clocks leap and nothing else goes wrong a leader can hand over, and must.
    fn look_at_leaders<S: System>(&mut self, cluster: &Cluster<S>, injector: &Injector<S>) -> Finding {
        let now = cluster.world.now();
        let Some(patience) = S::hands_over_within(&cluster.scenario.settings) else { return Finding::Holds };
        if cluster.scenario.faults != [Fault::ClockLeaps] {
            return Finding::Holds;
        }
        let patience = patience + 4 * cluster.scenario.slow_round_trip() + Duration::from_millis(500);
        let leads_off = |server: &usize| {
            let is_far = injector.is_far(cluster.world.node_of_server(*server));
            is_far && cluster.world.server(*server).is_some_and(|replica| replica.health().leads)
        };
        let off: Vec<usize> = cluster.members().filter(leads_off).collect();
        self.leads_off.retain(|server, _| off.contains(server));
        let mut late = Vec::new();
        for server in off {
            let led = now - *self.leads_off.entry(server).or_insert(now);
            if led > patience {
                late.push((cluster.replica(server), led));
            }
        }
        leaders_have_sound_clocks(&late)
    }
}

/// The replicas whose groups have timestamps that no right clock has led to, and how far these are ahead.
fn dragged<S: System>(cluster: &Cluster<S>) -> Vec<(quorate_core::ReplicaId, Duration)> {
    let perfect = START_MICROS as u64 + cluster.world.now().as_nanos() / 1_000;
    let lead = |server: usize| {
        let reached = cluster.world.server(server)?.reached()?;
        let ahead = Duration::from_micros(reached.as_micros().saturating_sub(perfect));
        (ahead > LEAD_MAX).then(|| (cluster.replica(server), ahead))
    };
    cluster.members().filter_map(lead).collect()
}
