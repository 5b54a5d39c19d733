//! The replicas that clients take for reachable: their hosts hear of it when a connection breaks or comes up, and when a node says that it stops.

use quorate_core::ReplicaId;
use quorate_core::command::Command;
use quorate_core::hosted::HostedReplica;

use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::system::System;

impl<S: System> Cluster<S> {
    /// Every client hears whether a replica is likely to be reached, where clients hear such things.
    pub(crate) fn hint(&mut self, replica: ReplicaId, reachable: bool) {
        if self.scenario.hints {
            for at in 0..self.live_clients().len() {
                let client = self.live_clients()[at];
                self.world.command(client, Command::Reachable { replica, reachable });
            }
        }
    }

    /// The same, of all replicas, for a client that has just begun.
    pub(crate) fn hint_at(&mut self, client: usize) {
        for server in 0..self.world.servers() {
            let is_gone = self.world.server(server).is_none()
                || self.world.is_leaving(self.world.node_of_server(server));
            if self.scenario.hints && is_gone {
                let replica = self.replica(server);
                self.world.command(client, Command::Reachable { replica, reachable: false });
            }
        }
    }

    /// A node begins to stop in good order: its replicas give up what they lead.
    pub(crate) fn drain_node(&mut self, node: usize) {
        for server in self.servers_of(node) {
            if let Some(command) = S::Server::give_way()
                && self.world.server(server).is_some()
            {
                self.world.command_server(server, command);
            }
        }
        self.world.drain(node);
    }

    /// A node that stops goes on with it: it tells its clients to go, once others lead. True if it has nothing left to wait for.
    pub(crate) fn go_on_draining(&mut self, node: usize) -> bool {
        let servers = self.servers_of(node);
        let leads = |server: &usize| {
            let is_alone = self.is_home_alone(self.replica(*server).shard);
            !is_alone && self.world.server(*server).is_some_and(|machine| machine.health().leads)
        };
        let leads = S::Server::give_way().is_some() && servers.iter().any(leads);
        if self.world.is_to_leave(node, leads) {
            for server in &servers {
                self.hint(self.replica(*server), false);
            }
        }
        let is_idle = |server: &usize| self.world.server(*server).is_none_or(HostedReplica::is_idle);
        let is_done = self.world.has_left(node) && servers.iter().all(is_idle);
        self.stopped_idle += u64::from(is_done);
        is_done
    }

    /// The nodes that have stopped in good order, for a report.
    pub(crate) fn stopped(&self) -> Vec<(&'static str, u64)> {
        if !self.scenario.has(Fault::RollingRestarts) {
            return Vec::new();
        }
        vec![
            ("messages passed over by nodes that stop", self.world.passed_over()),
            ("nodes stopped with nothing under way", self.stopped_idle),
        ]
    }

    /// A node that was to stop serves on.
    pub(crate) fn serve_on(&mut self, node: usize) {
        if self.world.is_leaving(node) {
            for server in self.servers_of(node) {
                if self.world.server(server).is_some() {
                    self.hint(self.replica(server), true);
                }
            }
        }
        self.world.end_draining(node);
    }
}
