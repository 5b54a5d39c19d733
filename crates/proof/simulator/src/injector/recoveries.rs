//! The faults while others settle a transaction, and view changes for no reason.

use std::time::Duration;

use quorate_core::hosted::{Held, Holdings};
use quorate_core::{Address, ClientId};

use super::{Injector, Request, Step};
use crate::cluster::Cluster;
use crate::system::{Far, System};
use crate::world::disk::Crash;

impl<S: System> Injector<S> {
    /// A client vanishes; then the backup coordinator that settles what it has left behind is hunted.
    pub(super) fn begin_hunt(&mut self, cluster: &mut Cluster<S>) -> Request {
        self.wait(cluster, Step::Hunt { left: 200 });
        Request::CrashClient(self.random.index(cluster.scenario.clients))
    }

    /// Crashes a node with a replica that leads a recovery; true if there is one.
    pub(super) fn hunt(&mut self, cluster: &mut Cluster<S>, left: u32) -> bool {
        let leads = |server: &usize| {
            let replica = cluster.world.server(*server);
            replica.is_some_and(Holdings::settles)
        };
        let leaders: Vec<usize> = (0..cluster.world.servers())
            .filter(leads)
            .map(|server| cluster.world.node_of_server(server))
            .filter(|node| self.may_crash(cluster, *node))
            .collect();
        if leaders.is_empty() {
            if left > 0 {
                self.wait(cluster, Step::Hunt { left: left - 1 });
            }
            return false;
        }
        let node = leaders[self.random.index(leaders.len())];
        self.crash(cluster, node, Crash::Process)
    }

    /// Has a transaction that is being prepared taken over by some replicas of each of its shards, as its client may ask
    /// them to when it loses track; only those of its backup shard will. True if there is such a transaction.
    pub(super) fn await_duel(&mut self, cluster: &mut Cluster<S>, left: u32) -> bool {
        let servers = (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server));
        let mut prepared: Vec<Held> = servers.flat_map(Holdings::held).collect();
        if prepared.is_empty() {
            if left > 0 {
                self.wait(cluster, Step::Duel { left: left - 1 });
            }
            return false;
        }
        let held = prepared.swap_remove(self.random.index(prepared.len()));
        let Some(message) = S::ask_to_settle(&held) else { return false };
        let asker_id = ClientId(self.random.next_u64() >> 12);
        let asker = Address::Client(asker_id);
        let node = cluster.client_node(self.random.index(cluster.scenario.clients));
        cluster.trust(asker_id);
        for shard in &held.participants {
            for index in cluster.definition().members(*shard).iter() {
                if self.random.chance(0.6) {
                    let to = quorate_core::ReplicaId { shard: *shard, index };
                    cluster.world.inject(node, asker, to.into(), message.clone());
                }
            }
        }
        true
    }

    /// A replica hears from another that the group is in the last view that there can be.
    pub(super) fn forge_view(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        let far = if self.random.chance(0.5) { Far::LastOfEpoch } else { Far::Last };
        self.change_view(cluster, node, far)
    }

    /// A replica hears from another that the group is in a later view.
    pub(super) fn change_view(&mut self, cluster: &mut Cluster<S>, node: usize, far: Far) -> bool {
        let servers = cluster.servers_of(node);
        if servers.is_empty() {
            return false;
        }
        let server = servers[self.random.index(servers.len())];
        let Some(machine) = cluster.world.server(server) else { return false };
        let to = cluster.replica(server);
        let members = cluster.definition().members(to.shard);
        let own = members.position(to.index).unwrap_or(0);
        let hint = |index| S::hint_view(machine, index, far).map(|message| (index, message));
        let mut others = (1..members.replicas()).map(|ahead| members.at(own + ahead));
        let Some((index, message)) = others.find_map(hint) else { return false };
        let from = quorate_core::ReplicaId { index, ..to };
        cluster.world.inject(node, from.into(), to.into(), message);
        true
    }

    fn wait(&mut self, cluster: &mut Cluster<S>, step: Step) {
        let step_max = S::recovery_timeout(&cluster.scenario.settings) / 16;
        self.next_after(cluster, Duration::from_micros(100), step_max.max(Duration::from_millis(1)), step);
    }
}
