//! An operator that compares what the replicas of shards hold, one shard after the other, while faults strike: see
//! [`quorate_core::verify`]. Whichever faults strike, replicas that could be compared must hold the same (I4).

use std::time::Duration;

use quorate_core::hosted::HostedReplica;
use quorate_core::verify::Comparison;
use quorate_core::{Instant, ReplicaIndex};

use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::invariants::{self, Finding};
use crate::system::System;

/// Between two comparisons.
const PAUSE: Duration = Duration::from_secs(1);

/// How long replicas are waited for that do not come to the point.
const PATIENCE: Duration = Duration::from_secs(5);

/// The present task of the operator.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    comparison: Option<(Vec<usize>, Comparison)>,
    /// How many comparisons have begun, which says whose turn it is.
    begun: u64,
    rests_until: Instant,
    /// How many comparisons found at least two replicas at a common point.
    compared: u64,
}

impl Operator {
    /// How often at least two replicas could be compared.
    pub(crate) fn compared(&self) -> u64 {
        self.compared
    }

    /// Nothing that was answered counts any more.
    pub(crate) fn begin_anew(&mut self) {
        self.comparison = None;
    }

    /// Goes on: asks the replicas of a shard, and gives what is wrong.
    pub(crate) fn go_on<S: System>(&mut self, cluster: &mut Cluster<S>) -> Finding {
        let now = cluster.world.now();
        // Hostile clients may tell each replica differently what they write.
        if cluster.scenario.has(Fault::HostileClients) || now < self.rests_until {
            return Finding::Holds;
        }
        let (servers, comparison) = match &mut self.comparison {
            Some(comparison) => comparison,
            none => {
                let groups = cluster.groups();
                let shard = groups[self.begun as usize % groups.len()];
                self.begun += 1;
                let is_of_group = |server: &usize| cluster.replica(*server).shard == shard;
                let servers: Vec<usize> = cluster.members().filter(is_of_group).collect();
                let replicas: Vec<ReplicaIndex> =
                    servers.iter().map(|server| cluster.replica(*server).index).collect();
                let comparison = Comparison::new(self.begun, replicas, Default::default(), 0, PATIENCE, now);
                none.insert((servers, comparison))
            }
        };
        let request = comparison.request();
        for server in servers.iter().copied() {
            let index = cluster.replica(server).index;
            let command = S::Server::verify(request.clone());
            match (cluster.world.server(server).is_some(), command) {
                (true, Some(command)) => cluster.world.command_server(server, command),
                (true, None) => {
                    self.rests_until = Instant::from_nanos(u64::MAX);
                    return Finding::Holds;
                }
                (false, _) => {}
            }
            let answer = cluster.world.server(server).map(|replica| replica.verified(&request));
            match answer.filter(|_| !cluster.world.ends_unread(server)) {
                Some(answer) => comparison.on_answer(index, &request, answer, now),
                None => comparison.on_failure(index, "it is down".to_owned()),
            }
        }
        let Some(compared) = comparison.advance(now) else { return Finding::Holds };
        self.comparison = None;
        self.rests_until = now + PAUSE;
        self.compared += u64::from(compared.held.values().filter(|held| held.is_ok()).count() > 1);
        invariants::digests_agree(&compared)
    }
}
