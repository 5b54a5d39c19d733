//! The measures of a node when room or descriptors run short: it says so, takes no writes that it could not keep, and lets fewer
//! clients connect.

use quorate_core::topology::Shard;
use quorate_core::{NodeId, ReplicaId};
use quorate_runtime::{LinkId, Turn};
use quorate_wire::Packet;
use quorate_wire::catalogue::SYSTEM_KEYSPACE_ID;

use super::Node;
use super::loops::Handed;
use crate::process;

/// The descriptors that the process needs beside connections and logs: standard streams, the event loops, what is opened for a moment.
const DESCRIPTORS_OF_PROCESS: u64 = 64;

/// A log holds its lock and its last two segments, and for moments those that are sealed, created or read again.
const DESCRIPTORS_PER_LOG: u64 = 6;

/// Two nodes may be connected in both directions, and be so anew before the old connections are gone.
const DESCRIPTORS_PER_NODE: u64 = 4;

/// So many clients may connect however few descriptors there are: a node that nobody reaches is of no use.
const CLIENTS_MIN: usize = 16;

/// The connections and logs that take descriptors.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// The most connections of clients that are configured.
    connections_max: usize,
    http_connections_max: usize,
    nodes: usize,
    logs: usize,
    /// A client or node makes a connection to each.
    event_loops: u16,
}

/// How many clients may connect, so that logs never lack descriptors.
fn clients_max(limit: u64, wanted: Wanted) -> usize {
    let Wanted { connections_max, http_connections_max, nodes, logs, event_loops } = wanted;
    let event_loops = u64::from(event_loops.max(1));
    let kept = DESCRIPTORS_OF_PROCESS
        + http_connections_max as u64
        + DESCRIPTORS_PER_NODE * nodes as u64 * event_loops
        + DESCRIPTORS_PER_LOG * logs as u64;
    let left = usize::try_from(limit.saturating_sub(kept) / event_loops).unwrap_or(usize::MAX);
    connections_max.min(left.max(CLIENTS_MIN))
}

impl Node {
    /// Bounds the connections of clients by the descriptors that there are.
    pub(super) fn renew_clients_max(&mut self, turn: &mut Turn<'_>) {
        if !self.is_first() {
            // The first one counts the logs of all.
            self.service_changed = true;
            return;
        }
        let logs = self.logs_len() + self.others_problems.values().map(|(_, logs)| logs).sum::<usize>();
        let limits = &self.config.limits;
        let wanted = Wanted {
            connections_max: limits.connections_max,
            http_connections_max: limits.http_connections_max,
            nodes: self.topology.borrow().nodes.len(),
            logs,
            event_loops: self.here.loops.count(),
        };
        let limit = process::descriptors_max();
        let clients_max = clients_max(limit, wanted);
        if clients_max != self.clients_max {
            if clients_max < limits.connections_max {
                tracing::warn!(
                    clients_max,
                    connections_max = limits.connections_max,
                    limit,
                    logs,
                    "fewer clients may connect than is configured, because the limit of open files is low"
                );
            }
            self.clients_max = clients_max;
            turn.set_clients_max(clients_max);
        }
    }

    /// How many replicas here keep logs.
    pub(super) fn logs_len(&self) -> usize {
        self.replicas.values().filter(|hosted| hosted.placement.keeps_log()).count()
    }

    /// The problem with the room on the disk, if there is one.
    pub(super) fn space_problem(&self) -> Option<String> {
        let free = self.disk.as_ref().filter(|disk| disk.is_low())?.free_bytes()?;
        Some(format!(
            "the disk of node{} is nearly full ({} MiB are left in {}, and free_bytes_low is {} MiB): make room, and what is \
             refused until then is taken again within seconds",
            self.config.node.0,
            free >> 20,
            self.data.path().display(),
            self.config.limits.free_bytes_low >> 20
        ))
    }

    /// Tells everybody whether there is room, if that has changed.
    pub(super) fn tell_space(&mut self, turn: &mut Turn<'_>) {
        let Some(disk) = &self.disk else { return };
        if disk.is_low() == self.told_low {
            return;
        }
        let problem = self.space_problem();
        match &problem {
            Some(problem) => tracing::error!("{problem}"),
            None => tracing::info!("there is room on the disk again"),
        }
        self.told_low = problem.is_some();
        self.tell_space_to_others();
        turn.send_to_all(&Packet::Space { problem });
    }

    /// Tells somebody who has just connected, if there is no room.
    pub(super) fn tell_space_to(&self, link: LinkId, turn: &mut Turn<'_>) {
        if self.told_low
            && let Some(problem) = self.space_problem()
        {
            turn.send(link, &Packet::Space { problem: Some(problem) });
        }
    }

    /// Another node says whether it has room.
    pub(super) fn on_space(&mut self, node: NodeId, has_room: bool) {
        if has_room {
            self.without_space.remove(&node);
        } else {
            self.without_space.insert(node);
        }
        self.tell_space_to_others();
    }

    fn tell_space_to_others(&mut self) {
        let (own, others) = (self.told_low, self.without_space.clone());
        self.here.loops.hand_to_others_if_first(|| Handed::Space { own, others: others.clone() });
    }

    /// True if a replica takes no writes, because its group could not keep them: too many disks are nearly full. With one that a
    /// group can do without it goes on. Writes into the catalogue are small, and some of them make room.
    pub(super) fn lacks_space(&self, replica: ReplicaId) -> bool {
        if !self.told_low && self.without_space.is_empty() {
            return false;
        }
        let Some(hosted) = self.replicas.get(&replica) else { return false };
        let placement = &hosted.placement;
        let is_low = |node| match node == self.config.node {
            true => self.told_low,
            false => self.without_space.contains(&node),
        };
        let lacks = |group: &Shard| group.needs_some_of(is_low);
        if placement.keyspace == SYSTEM_KEYSPACE_ID || !placement.keeps_log() {
            return false;
        }
        // Writes that a home takes in go to the shards.
        let listed = self.reading.as_ref().filter(|_| placement.is_home());
        let listed = listed.and_then(|reading| reading.listed(placement.keyspace));
        lacks(&placement.group) || listed.is_some_and(|keyspace| keyspace.shards.iter().any(lacks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_come_before_clients() {
        let wanted = |logs| Wanted {
            connections_max: 1_024,
            http_connections_max: 64,
            nodes: 3,
            logs,
            event_loops: 1,
        };
        // The limit of open files, logs, clients.
        let table = [
            (1_048_576, 10, 1_024),
            (1_024, 1, 1_024 - 64 - 64 - 12 - 6),
            (1_024, 100, 1_024 - 64 - 64 - 12 - 600),
            (1_024, 1_000, CLIENTS_MIN),
            (64, 1, CLIENTS_MIN),
        ];
        for (limit, logs, expected) in table {
            assert_eq!(clients_max(limit, wanted(logs)), expected, "{limit} {logs}");
        }
        let few = Wanted { connections_max: 2, ..wanted(1) };
        assert_eq!(clients_max(1_024, few), 2, "no more than is configured");
        let threads = Wanted { event_loops: 2, ..wanted(1) };
        assert_eq!(clients_max(1_024, threads), (1_024 - 64 - 64 - 24 - 6) / 2, "two connections each");
    }
}
