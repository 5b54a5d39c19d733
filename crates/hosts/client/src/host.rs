//! The host of the coordinators: between the handles of the user and the connections to the nodes.
//!
//! A call of a user steps a coordinator in place; what it sends leaves with the turn of the transport, together with
//! what other calls sent. Answers come back as events, straight to the call that waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::changes::{self, Position};
use quorate_core::command::{Command, Decided, Event, Routes};
use quorate_core::hash::FixedMap;
use quorate_core::seen::Seen;
use quorate_core::topology::Topology;
use quorate_core::verify::{Answer, Request};
use quorate_core::{
    Address, ClientId, Epoch, Instant, KeyspaceId, NodeId, ReplicaId, ShardId, TransactionId, View,
};
use quorate_log::Part;
use quorate_runtime::clock::Time;
use quorate_runtime::transport::{DialId, Host, LinkId, Remote, Target, Transport, Turn, Violation};
use quorate_wire::packet::DECIDED_MAX;
use quorate_wire::{
    About, Denial, Directory, Envelope, Packet, Peer, ProtocolMessage, ReplicaReport, event_loop_of,
};
use tokio::sync::{Notify, oneshot};

use crate::announcements::Listening;
use crate::coordinators::{Coordinators, World};
use crate::session::{ChangesReceiver, ChangesSender, Port};
use crate::trace::{Direction, Moment, Moments, Recorder};
use crate::waiters::Waiters;

/// Why a node does not do what an operator asks after a loss.
#[derive(Debug)]
pub(crate) struct LossRefused {
    /// Why not.
    pub(crate) reason: String,
    /// True if that passes by itself within moments.
    pub(crate) passes: bool,
}

/// Owns the coordinators of one client.
pub(crate) struct ClientHost {
    coordinators: Coordinators,
    waiters: Waiters,
    nodes: Nodes,
    statuses: Asked<Result<Bytes, String>>,
    reports: Asked<Result<NodeReport, String>>,
    directories: Asked<Directory>,
    /// The calls that wait for a replica's answer that its loss is accepted, or why not.
    losses: Vec<(ReplicaId, oneshot::Sender<Option<LossRefused>>)>,
    /// The calls that wait for the content of a replica.
    verifications: Vec<(ReplicaId, Request, oneshot::Sender<Answer>)>,
    /// The consumers that wait for changes, with what they have asked.
    consumers: Vec<(ReplicaId, changes::Request<Position>, ChangesSender)>,
    /// The listeners to announcements.
    pub(crate) listening: Listening,
    /// Woken whenever a node was reached, or could not be.
    settled: Arc<Notify>,
    /// Woken whenever what is known of nodes and keyspaces may be old.
    stale: Arc<Notify>,
    /// The trace that is being taken, if one is.
    recorder: Recorder,
    /// Lent to calls, and used again.
    commands: Vec<Command>,
}

/// The report of a node on its replicas.
#[derive(Clone, Debug)]
pub(crate) struct NodeReport {
    /// How far they are.
    pub(crate) replicas: Vec<ReplicaReport>,
    /// How many further ones it can have, if it knows.
    pub(crate) room: Option<u64>,
    /// True if what is created from now on is new to it.
    pub(crate) knows_keyspaces: bool,
    /// The applications that it is linked with.
    pub(crate) applications: Vec<String>,
}

/// The calls that wait for the answer of a node.
struct Asked<T>(Vec<(NodeId, oneshot::Sender<T>)>);

impl<T> Asked<T> {
    /// Asks a node something, and waits for what it answers; none if it is not connected.
    fn ask(
        &mut self,
        node: NodeId,
        link: Option<LinkId>,
        question: &Packet,
        turn: &mut Turn<'_>,
    ) -> Option<oneshot::Receiver<T>> {
        turn.send(link?, question);
        let (sender, receiver) = oneshot::channel();
        self.0.retain(|(_, sender)| !sender.is_closed());
        self.0.push((node, sender));
        Some(receiver)
    }

    /// The node has answered. The call that asked may not wait any more.
    fn answer(&mut self, node: NodeId, answer: T) {
        if let Some(position) = self.0.iter().position(|(asked, _)| *asked == node) {
            let _ = self.0.remove(position).1.send(answer);
        }
    }

    /// The connection to a node is gone.
    fn forget(&mut self, node: NodeId) {
        self.0.retain(|(asked, _)| *asked != node);
    }
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Asked(Vec::new())
    }
}

/// The nodes, by node id, and the replicas that each of them hosts.
struct Nodes {
    client: ClientId,
    nodes: Vec<Node>,
    hosted: FixedMap<ReplicaId, NodeId>,
    keyspaces: FixedMap<KeyspaceId, Vec<NodeId>>,
}

#[derive(Default)]
struct Node {
    link: Option<LinkId>,
    /// The connections to its event loops beside the first one, in order, for messages; none while there is none.
    further: Vec<Option<LinkId>>,
    /// True once it has said that it is about to stop.
    is_stopping: bool,
    replicas: Vec<ReplicaId>,
    /// When the client began to connect to it,
    since: Instant,
    /// and when it last succeeded.
    connected_since: Instant,
    attempt: Attempt,
}

/// The result of the first attempt to connect to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is still under way.
    #[default]
    Open,
    /// It took this long.
    Reached(Duration),
    /// It did not work.
    Failed(String),
}

impl ClientHost {
    /// A host for a client of a cluster with these nodes.
    pub(crate) fn new(
        client: ClientId,
        coordinators: Coordinators,
        topology: &Topology,
        settled: Arc<Notify>,
        stale: Arc<Notify>,
    ) -> Self {
        let (hosted, keyspaces) = (FixedMap::default(), FixedMap::default());
        let mut host = ClientHost {
            coordinators,
            waiters: Waiters::default(),
            nodes: Nodes { client, nodes: Vec::new(), hosted, keyspaces },
            statuses: Asked::default(),
            reports: Asked::default(),
            directories: Asked::default(),
            losses: Vec::new(),
            verifications: Vec::new(),
            consumers: Vec::new(),
            listening: Listening::default(),
            settled,
            stale,
            recorder: Recorder::default(),
            commands: Vec::new(),
        };
        host.set_nodes(topology, Instant::START);
        host
    }

    /// There are these nodes: never fewer than before.
    pub(crate) fn set_nodes(&mut self, topology: &Topology, now: Instant) {
        let nodes = &mut self.nodes.nodes;
        nodes.resize_with(topology.nodes.len().max(nodes.len()), || Node { since: now, ..Node::default() });
        for (node, place) in nodes.iter_mut().zip(&topology.nodes) {
            if place.is_forgotten() && node.attempt == Attempt::Open {
                node.attempt = Attempt::Failed("it is no node of the cluster any more".to_owned());
            }
        }
    }

    /// Starts the coordinators.
    pub(crate) fn start(&mut self, turn: &mut Turn<'_>) {
        let (time, coordinators, mut world) = self.split(turn);
        coordinators.start(time, &mut world);
    }

    /// How far the client has seen, of the keyspaces that it uses.
    pub(crate) fn seen(&self) -> Seen {
        self.coordinators.seen()
    }

    /// The home that decides an open transaction, where transactions run at nodes.
    pub(crate) fn home_of(&self, transaction: TransactionId) -> Option<ShardId> {
        self.coordinators.home_of(transaction)
    }

    /// True if the coordinators have nothing to do and nothing to tell.
    pub(crate) fn is_idle(&self) -> bool {
        self.coordinators.is_idle()
    }

    /// The result of the first attempt to connect to each node.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.nodes.nodes.iter().map(|node| node.attempt.clone()).collect()
    }

    /// Learns of a keyspace, so that transactions can begin in it.
    pub(crate) fn learn(&mut self, routes: Arc<Routes>, turn: &mut Turn<'_>) {
        let unreachable = self.nodes.learn(&routes, &self.waiters);
        self.waiters.set_current(routes.keyspace.id);
        self.command(Command::Route(routes), turn);
        for replica in unreachable {
            self.command(Command::Reachable { replica, reachable: false }, turn);
        }
    }

    /// A node has answered what was asked of a loss.
    fn on_loss_answered(&mut self, replica: ReplicaId, refused: Option<LossRefused>) {
        if let Some(position) = self.losses.iter().position(|(asked, _)| *asked == replica) {
            // The call that asked may not wait any more.
            let _ = self.losses.remove(position).1.send(refused);
        }
    }

    /// Asks a node to let a replica go on without its records; none if the node is not connected.
    pub(crate) fn accept_loss(
        &mut self,
        node: NodeId,
        replica: ReplicaId,
        view: View,
        turn: &mut Turn<'_>,
    ) -> Option<oneshot::Receiver<Option<LossRefused>>> {
        let link = self.nodes.link_of(node)?;
        let (sender, receiver) = oneshot::channel();
        self.losses.retain(|(_, sender)| !sender.is_closed());
        self.losses.push((replica, sender));
        turn.send(link, &Packet::AcceptLoss { replica, view });
        Some(receiver)
    }

    /// Asks a node to tell a replica that a shard is lost for good; none if the node is not connected.
    pub(crate) fn declare_lost(
        &mut self,
        node: NodeId,
        replica: ReplicaId,
        shard: ShardId,
        turn: &mut Turn<'_>,
    ) -> Option<oneshot::Receiver<Option<LossRefused>>> {
        let link = self.nodes.link_of(node)?;
        let (sender, receiver) = oneshot::channel();
        self.losses.retain(|(_, sender)| !sender.is_closed());
        // A node answers in order, so that answers about the same replica find who has asked.
        self.losses.push((replica, sender));
        turn.send(link, &Packet::DeclareLost { replica, shard });
        Some(receiver)
    }

    /// Asks a node what a replica holds; none if the node is not connected.
    pub(crate) fn verify(
        &mut self,
        node: NodeId,
        replica: ReplicaId,
        request: Request,
        turn: &mut Turn<'_>,
    ) -> Option<oneshot::Receiver<Answer>> {
        let link = self.nodes.link_of(node)?;
        let (sender, receiver) = oneshot::channel();
        self.verifications.retain(|(.., sender)| !sender.is_closed());
        turn.send(link, &Packet::Verify { replica, request: request.clone() });
        self.verifications.push((replica, request, sender));
        Some(receiver)
    }

    /// Asks a node for changes of a shard; none if it is not connected.
    pub(crate) fn ask_changes(
        &mut self,
        node: NodeId,
        replica: ReplicaId,
        request: changes::Request<Position>,
        turn: &mut Turn<'_>,
    ) -> Option<ChangesReceiver> {
        let link = self.nodes.link_of(node)?;
        let (sender, receiver) = oneshot::channel();
        self.consumers.retain(|(.., sender)| !sender.is_closed());
        turn.send(link, &Packet::Changes { replica, request: request.clone() });
        self.consumers.push((replica, request, sender));
        Some(receiver)
    }

    /// Asks a node how it is; none if it is not connected.
    pub(crate) fn ask_status(
        &mut self,
        node: NodeId,
        turn: &mut Turn<'_>,
    ) -> Option<oneshot::Receiver<Result<Bytes, String>>> {
        self.statuses.ask(node, self.nodes.link_of(node), &Packet::StatusRequest, turn)
    }

    /// Asks a node which replicas it hosts; none if it is not connected.
    pub(crate) fn ask_replicas(
        &mut self,
        node: NodeId,
        turn: &mut Turn<'_>,
    ) -> Option<oneshot::Receiver<Result<NodeReport, String>>> {
        self.reports.ask(node, self.nodes.link_of(node), &Packet::ReplicasRequest, turn)
    }

    /// Asks a node who is in the cluster; none if it is not connected.
    pub(crate) fn ask_directory(
        &mut self,
        node: NodeId,
        turn: &mut Turn<'_>,
    ) -> Option<oneshot::Receiver<Directory>> {
        self.directories.ask(node, self.nodes.link_of(node), &Packet::DirectoryRequest, turn)
    }

    /// The incarnation of this client.
    pub(crate) fn client(&self) -> ClientId {
        self.nodes.client
    }

    /// The connection to the nearest node that does not stop, or else to any. One that has just been connected comes behind the others: if it has come
    /// back, other clients may not have found it yet.
    pub(crate) fn nearest_connected(&self, now: Instant) -> Option<LinkId> {
        /// A client that looks for a node finds it within such a time of another one.
        const FOUND_AFTER: Duration = Duration::from_secs(2);
        let rank = |node: &Node| {
            let round_trip = match node.attempt {
                Attempt::Reached(round_trip) => round_trip,
                Attempt::Open | Attempt::Failed(_) => Duration::MAX,
            };
            let is_new = now.saturating_since(node.connected_since) < FOUND_AFTER;
            (node.is_stopping, is_new, round_trip)
        };
        let connected = self.nodes.nodes.iter().filter(|node| node.link.is_some());
        connected.min_by_key(|node| rank(node)).and_then(|node| node.link)
    }

    /// The nodes that are connected.
    pub(crate) fn connected(&self) -> Vec<NodeId> {
        let nodes = self.nodes.nodes.iter().zip(0..);
        nodes.filter(|(node, _)| node.link.is_some()).map(|(_, id)| NodeId(id)).collect()
    }

    /// The client's knowledge of a keyspace is as good as it gets.
    pub(crate) fn set_current(&mut self, keyspace: KeyspaceId) {
        self.waiters.set_current(keyspace);
    }

    /// True if the replicas of a keyspace are others than is known.
    pub(crate) fn is_outdated(&self, keyspace: KeyspaceId) -> bool {
        self.waiters.is_outdated(keyspace)
    }

    /// Begins a trace; false if one is being taken.
    pub(crate) fn begin_trace(&mut self, now: Instant) -> bool {
        self.recorder.begin(now)
    }

    /// Notes a moment in the trace, if one is being taken.
    pub(crate) fn note(&mut self, now: Instant, moment: Moment) {
        self.recorder.note(now, || moment);
    }

    /// Ends the trace.
    pub(crate) fn end_trace(&mut self) -> Moments {
        self.recorder.end()
    }

    fn call(&mut self, call: &mut dyn FnMut(&mut Waiters, &mut Vec<Command>), turn: &mut Turn<'_>) {
        let mut commands = std::mem::take(&mut self.commands);
        call(&mut self.waiters, &mut commands);
        for command in commands.drain(..) {
            self.command(command, turn);
        }
        self.commands = commands;
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        let (time, coordinators, mut world) = self.split(turn);
        coordinators.command(time, command, &mut world);
    }

    /// The coordinators, and what they speak to.
    fn split<'a, 'turn>(
        &'a mut self,
        turn: &'a mut Turn<'turn>,
    ) -> (Time, &'a mut Coordinators, ToWorld<'a, 'turn>) {
        let ClientHost { coordinators, nodes, waiters, stale, recorder, .. } = self;
        (turn.time, coordinators, ToWorld { nodes, waiters, stale, recorder, turn })
    }

    fn set_reachable(&mut self, node: NodeId, reachable: bool, turn: &mut Turn<'_>) {
        let Some(known) = self.nodes.nodes.get(usize::from(node.0)) else { return };
        for replica in known.replicas.clone() {
            self.command(Command::Reachable { replica, reachable }, turn);
        }
    }
}

impl Nodes {
    /// Notes where the replicas of a keyspace are, and gives back those that cannot be reached, or do not serve, at the
    /// moment.
    fn learn(&mut self, routes: &Routes, waiters: &Waiters) -> Vec<ReplicaId> {
        let mut unreachable = Vec::new();
        let mut hosts = Vec::new();
        for shard in routes.keyspace.groups() {
            for (index, host) in shard.members() {
                let replica = ReplicaId { shard: shard.id, index };
                let Some(node) = self.nodes.get_mut(usize::from(host.0)) else { continue };
                if self.hosted.insert(replica, host).is_none() {
                    node.replicas.push(replica);
                }
                if node.link.is_none() || node.is_stopping || waiters.problem(replica).is_some() {
                    unreachable.push(replica);
                }
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
        self.keyspaces.insert(routes.keyspace.id, hosts);
        unreachable
    }

    /// A connection for messages to another event loop of a node than its first one is up, or is gone.
    fn set_further(&mut self, link: LinkId, remote: &Remote, is_up: bool) {
        let Some((_, node)) = self.node_of(remote) else { return };
        let at = usize::from(remote.event_loop).saturating_sub(1);
        if is_up {
            node.further.resize(usize::from(remote.event_loops).saturating_sub(1), None);
        }
        let Some(known) = node.further.get_mut(at) else { return };
        if is_up {
            *known = Some(link);
        } else {
            known.take_if(|known| *known == link);
        }
    }

    fn link_of(&self, node: NodeId) -> Option<LinkId> {
        self.nodes.get(usize::from(node.0))?.link
    }

    fn node_of(&mut self, remote: &Remote) -> Option<(NodeId, &mut Node)> {
        let id = node_id(remote)?;
        self.nodes.get_mut(usize::from(id.0)).map(|node| (id, node))
    }
}

fn node_id(remote: &Remote) -> Option<NodeId> {
    match remote.identity {
        Peer::Node(id) => Some(id),
        Peer::Client(_) => None,
    }
}

impl Node {
    /// The connection for messages to a shard. The first one will do for all.
    fn link_for(&self, shard: ShardId) -> Option<LinkId> {
        let first = self.link?;
        if self.further.is_empty() {
            return Some(first);
        }
        let event_loop = usize::from(event_loop_of(shard, self.further.len() as u16 + 1));
        let further = event_loop.checked_sub(1).and_then(|at| self.further.get(at).copied().flatten());
        Some(further.unwrap_or(first))
    }

    fn has_link(&self, link: LinkId) -> bool {
        self.link == Some(link) || self.further.contains(&Some(link))
    }
}

/// The connections to the nodes, and the calls that wait.
struct ToWorld<'a, 'turn> {
    nodes: &'a Nodes,
    waiters: &'a mut Waiters,
    stale: &'a Notify,
    recorder: &'a mut Recorder,
    turn: &'a mut Turn<'turn>,
}

impl ToWorld<'_, '_> {
    /// Tells the node of one of its shards that these have decided differently: operators hear of it there. Without a connection to any
    /// that is lost.
    fn report(&mut self, transaction: TransactionId, mut decided: Vec<Decided>) {
        decided.truncate(DECIDED_MAX);
        let hosts = |shard| self.nodes.hosted.iter().filter(move |(replica, _)| replica.shard == shard);
        let hosts = decided.iter().flat_map(|decided| hosts(decided.shard));
        let links = hosts.filter_map(|(_, node)| self.nodes.nodes.get(usize::from(node.0))?.link);
        // Any order: the least is taken.
        if let Some(link) = links.min() {
            self.turn.send(link, &Packet::Disagreement { transaction, decided });
        }
    }
}

impl World for ToWorld<'_, '_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: ProtocolMessage) {
        let Address::Replica(replica) = to else { return };
        let host = self.nodes.hosted.get(&replica).copied();
        let node = host.and_then(|node| self.nodes.nodes.get(usize::from(node.0)));
        // Without a link the message is lost, as any message may be.
        if let Some(link) = node.and_then(|node| node.link_for(replica.shard)) {
            let from = Address::Client(self.nodes.client);
            self.recorder.message(self.turn.time.now, Direction::Sent, (replica, host), &message);
            self.turn.send(link, &Packet::Envelope(Envelope { from, to, epoch, message }));
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Outdated { .. } => self.stale.notify_one(),
            Event::Disagreement { transaction, decided } => return self.report(transaction, decided),
            _ => {}
        }
        self.waiters.deliver(event);
    }
}

impl Host for ClientHost {
    fn on_link_up(&mut self, link: LinkId, remote: &Remote, turn: &mut Turn<'_>) {
        if remote.event_loop > 0 {
            return self.nodes.set_further(link, remote, true);
        }
        let Some((id, node)) = self.nodes.node_of(remote) else { return };
        (node.link, node.is_stopping) = (Some(link), false);
        node.further.resize(usize::from(remote.event_loops).saturating_sub(1), None);
        node.connected_since = turn.time.now;
        // Much may have happened while it could not say so; and one that has joined may be nearer than others.
        let is_first = node.attempt == Attempt::Open && node.since == Instant::START;
        if node.attempt == Attempt::Open {
            node.attempt = Attempt::Reached(turn.time.now.saturating_since(node.since));
        }
        if !is_first {
            self.stale.notify_one();
        }
        self.set_reachable(id, true, turn);
        self.listening.greet(link, turn);
        self.settled.notify_one();
    }

    fn on_link_down(&mut self, link: LinkId, remote: &Remote, _reason: &str, turn: &mut Turn<'_>) {
        if remote.event_loop > 0 {
            return self.nodes.set_further(link, remote, false);
        }
        let Some((id, node)) = self.nodes.node_of(remote) else { return };
        if node.link == Some(link) {
            node.link = None;
            self.waiters.forget_problems(id);
            self.statuses.forget(id);
            self.reports.forget(id);
            self.directories.forget(id);
            self.set_reachable(id, false, turn);
        }
    }

    fn on_dial_failed(&mut self, _dial: DialId, target: &Target, reason: &str, _turn: &mut Turn<'_>) {
        let Some(node) = target.expect.and_then(|id| self.nodes.nodes.get_mut(usize::from(id.0))) else {
            return;
        };
        if node.attempt == Attempt::Open {
            node.attempt = Attempt::Failed(reason.to_owned());
        }
        self.settled.notify_one();
    }

    fn on_packet(&mut self, link: LinkId, packet: Packet, turn: &mut Turn<'_>) -> Result<(), Violation> {
        match packet {
            Packet::Envelope(Envelope { from, epoch, message, .. }) => {
                if let Address::Replica(replica) = from {
                    let node = turn.remote(link).and_then(node_id);
                    self.recorder.message(turn.time.now, Direction::Received, (replica, node), &message);
                }
                let (time, coordinators, mut world) = self.split(turn);
                coordinators.on_message(time, from, epoch, message, &mut world);
            }
            Packet::Busy { retry_after } => self.on_busy(link, retry_after),
            Packet::Stopping => {
                let Some(id) = turn.remote(link).and_then(node_id) else { return Ok(()) };
                if let Some(node) = self.nodes.nodes.get_mut(usize::from(id.0)) {
                    node.is_stopping = true;
                    self.set_reachable(id, false, turn);
                }
            }
            Packet::ReplicaService { replica, problem } => {
                let Some(node) = turn.remote(link).and_then(node_id) else { return Ok(()) };
                let reachable = problem.is_none();
                self.waiters.set_problem(node, replica, problem);
                // One of a keyspace that is not known yet counts as soon as that is.
                if self.nodes.hosted.contains_key(&replica) {
                    self.command(Command::Reachable { replica, reachable }, turn);
                }
            }
            Packet::AcceptLossReply { replica, refused, passes } => {
                self.on_loss_answered(replica, refused.map(|reason| LossRefused { reason, passes }));
            }
            Packet::DeclareLostReply { replica, refused } => {
                self.on_loss_answered(replica, refused.map(|reason| LossRefused { reason, passes: false }));
            }
            Packet::VerifyReply { replica, request, answer } => {
                let asked = |(of, what, _): &(ReplicaId, Request, _)| *of == replica && *what == request;
                if let Some(position) = self.verifications.iter().position(asked) {
                    // The call may not wait any more.
                    let _ = self.verifications.remove(position).2.send(answer);
                }
            }
            Packet::ChangesReply { replica, request, answer } => {
                let asked = |(of, what, _): &(ReplicaId, changes::Request<Position>, _)| {
                    *of == replica && *what == request
                };
                if let Some(position) = self.consumers.iter().position(asked) {
                    // The consumer may be gone.
                    let _ = self.consumers.remove(position).2.send(Ok(answer));
                }
            }
            Packet::Status { json } => {
                if let Some(node) = turn.remote(link).and_then(node_id) {
                    self.statuses.answer(node, Ok(json));
                }
            }
            Packet::Replicas { replicas, room, knows_keyspaces, applications } => {
                if let Some(node) = turn.remote(link).and_then(node_id) {
                    let report = NodeReport { replicas, room, knows_keyspaces, applications };
                    self.reports.answer(node, Ok(report));
                }
            }
            Packet::Directory(directory) => {
                if let Some(node) = turn.remote(link).and_then(node_id) {
                    self.directories.answer(node, directory);
                }
            }
            Packet::Space { problem } => {
                if let Some(node) = turn.remote(link).and_then(node_id) {
                    self.waiters.set_space(node, problem);
                }
            }
            Packet::Denied(denial) => self.on_denied(link, denial, turn),
            Packet::CatalogueChanged => self.stale.notify_one(),
            Packet::Announce { from, number, topic, content } => {
                self.listening.hear(from, number, &topic, &content);
            }
            // The transport deals with these.
            Packet::Goodbye { .. } | Packet::Unsupported { .. } => {}
            Packet::Hello(_)
            | Packet::Welcome(_)
            | Packet::DirectoryRequest
            | Packet::StatusRequest
            | Packet::ReplicasRequest
            | Packet::Settings { .. }
            | Packet::Lives { .. }
            | Packet::Token { .. }
            | Packet::Join { .. }
            | Packet::JoinReply { .. }
            | Packet::AcceptLoss { .. }
            | Packet::DeclareLost { .. }
            | Packet::Listen { .. }
            | Packet::Disagreement { .. }
            | Packet::Verify { .. }
            | Packet::Changes { .. } => {
                return Err(Violation("a server said what only a client or a handshake says".into()));
            }
        }
        Ok(())
    }

    fn on_turn_end(&mut self, turn: &mut Turn<'_>) {
        let (time, coordinators, mut world) = self.split(turn);
        coordinators.fire_timers(time, &mut world);
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        self.coordinators.next_deadline()
    }
}

impl ClientHost {
    /// A node has not done something, because this client has not the right. The call that waits for it is told so.
    fn on_denied(&mut self, link: LinkId, denial: Denial, turn: &mut Turn<'_>) {
        let Denial { about, replica, transaction, question, reason } = denial;
        let node = turn.remote(link).and_then(node_id);
        match (about, node, replica) {
            (About::Status, Some(node), _) => self.statuses.answer(node, Err(reason)),
            (About::Replicas, Some(node), _) => self.reports.answer(node, Err(reason)),
            (About::Verify, _, Some(replica)) => {
                // It is the first that waits: a node answers in order.
                if let Some(position) = self.verifications.iter().position(|(of, ..)| *of == replica) {
                    // The call may not wait any more.
                    let _ = self.verifications.remove(position).2.send(Answer::unable(reason));
                }
            }
            (About::Changes, _, Some(replica)) => {
                if let Some(position) = self.consumers.iter().position(|(of, ..)| *of == replica) {
                    // The consumer may be gone.
                    let _ = self.consumers.remove(position).2.send(Err(reason));
                }
            }
            (About::Message, _, Some(replica)) => {
                // The coordinator knows to which transaction a question, or a transaction of its own, belongs. It gives it up as one that no replica takes.
                if let Some(request) = question {
                    let refusal = quorate_configuration::Refusal::Malformed;
                    let refused = quorate_configuration::Message::Refused { request, refusal };
                    self.deny_at_coordinator(
                        replica,
                        ProtocolMessage::Configuration(Part::Own(refused)),
                        &reason,
                        turn,
                    );
                }
                if let Some(transaction) = transaction {
                    let awaited = self.waiters.awaited(transaction);
                    if let Some(message) = awaited.giving_up(transaction, replica.shard) {
                        self.deny_at_coordinator(replica, message, &reason, turn);
                    }
                    self.waiters.deny(transaction, reason);
                }
            }
            // Nothing waits for it: an announcement may be lost.
            _ => {}
        }
    }

    /// Has the coordinator of a shard hear something that ends what was denied. One of another protocol passes it over.
    fn deny_at_coordinator(
        &mut self,
        replica: ReplicaId,
        message: ProtocolMessage,
        reason: &str,
        turn: &mut Turn<'_>,
    ) {
        self.waiters.begin_denying(reason.to_owned());
        let (time, coordinators, mut world) = self.split(turn);
        coordinators.on_message(time, replica.into(), Epoch::FIRST, message, &mut world);
        self.waiters.end_denying();
    }

    fn on_busy(&mut self, link: LinkId, retry_after: Duration) {
        /// A server cannot silence a client for longer.
        const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);
        let until = tokio::time::Instant::now() + retry_after.min(RETRY_AFTER_MAX);
        for (keyspace, hosts) in &self.nodes.keyspaces {
            let is_host = |node: &NodeId| {
                self.nodes.nodes.get(usize::from(node.0)).is_some_and(|node| node.has_link(link))
            };
            if hosts.iter().any(is_host) {
                self.waiters.set_busy(*keyspace, until);
            }
        }
    }
}

impl Port for Transport<ClientHost> {
    fn with(&self, call: &mut dyn FnMut(&mut Waiters, &mut Vec<Command>)) {
        Transport::with(self, |host, turn| host.call(call, turn));
    }

    fn home_of(&self, transaction: TransactionId) -> Option<ShardId> {
        Transport::with(self, |host, _| host.home_of(transaction))
    }

    fn ask_changes(
        &self,
        node: NodeId,
        replica: ReplicaId,
        request: changes::Request<Position>,
    ) -> Option<ChangesReceiver> {
        Transport::with(self, |host, turn| host.ask_changes(node, replica, request, turn))
    }

    fn shut(&self) {
        self.abandon();
    }
}
