//! How an event loop handles what it is handed, and how the first one acts on behalf of all.

use quorate_core::draining::Draining;
use quorate_core::topology::Keyspace;
use quorate_core::{Address, ReplicaId};
use quorate_runtime::transport::Violation;
use quorate_runtime::{LinkId, Turn};
use quorate_wire::{Packet, Peer, ReplicaReport};

use super::catalogue::{Answered, Joined};
use super::loops::Handed;
use super::{Node, outgoing};

impl Node {
    /// Takes in what other event loops have handed over.
    pub(super) fn take_in_handed(&mut self, turn: &mut Turn<'_>) {
        for handed in self.here.loops.take() {
            self.on_handed(handed, turn);
        }
    }

    fn on_handed(&mut self, handed: Handed, turn: &mut Turn<'_>) {
        match handed {
            Handed::Message(envelope) => match envelope.to {
                Address::Replica(id) if self.replicas.contains_key(&id) => self.take_in(envelope, turn),
                // The first event loop reaches others. Elsewhere its replica is gone, or does not exist yet.
                _ if self.is_first() => {
                    let mut outgoing = outgoing(&self.routes, &mut self.here, turn);
                    outgoing.send(envelope.from, envelope.to, envelope.epoch, envelope.message);
                }
                _ => {}
            },
            Handed::Asked(asked) => self.on_asked(asked, turn),
            Handed::Refused { link } => self.say_busy(link, turn),
            Handed::Question(question) => {
                if let Some(catalogue) = &mut self.catalogue {
                    catalogue.consult(question);
                }
            }
            Handed::Answer(answer) => self.on_answer(&answer, turn),
            Handed::ToClients(packet) => turn.send_to_clients(&packet),
            Handed::Service { event_loop, problems, logs } => {
                self.others_problems.insert(event_loop, (problems, logs));
                self.service_changed = true;
                self.renew_clients_max(turn);
            }
            Handed::Reading(reading) => self.apply(*reading, turn),
            Handed::Topology(topology) => {
                self.routes.set_nodes(topology.nodes.len());
                self.topology.send_replace(topology);
            }
            Handed::EventLoops { node, count } => self.set_event_loops_of(node, count),
            Handed::Version(version) => self.enter_version_too(version, turn),
            Handed::Space { own, others } => (self.told_low, self.without_space) = (own, others),
            Handed::Leaving(since) => self.draining = Some(Draining::leave(since)),
            Handed::Fenced(reason) => self.give_up_too(&reason),
            Handed::Limits(limits) => self.set_limits(&limits, turn),
            Handed::AccessControl => self.end_unjudged(turn),
        }
    }

    /// Gives a replica the answer of the configuration service.
    fn on_answer(&mut self, answer: &Answered, turn: &mut Turn<'_>) {
        let Answered { replica, asked, changes } = answer;
        match self.routes.elsewhere((*replica).into()) {
            Some(event_loop) => self.here.loops.hand(event_loop, Handed::Answer(answer.clone())),
            None => self.step(*replica, turn, |running, time, outgoing| {
                running.answer(time, *asked, changes, outgoing)
            }),
        }
    }

    /// Takes in what the copy of the catalogue has come to, at the first event loop.
    pub(super) fn end_turn_of_catalogue(&mut self, turn: &mut Turn<'_>) {
        let (time, Some(catalogue)) = (turn.time, &mut self.catalogue) else { return };
        catalogue.on_turn_end(time, &mut outgoing(&self.routes, &mut self.here, turn));
        let (answers, topology, joined) =
            (catalogue.take_answers(), catalogue.take_topology(), catalogue.take_joined());
        let (group, version, reading) =
            (catalogue.take_group(), catalogue.take_version(), catalogue.take_reading());
        for answer in &answers {
            self.on_answer(answer, turn);
        }
        if let Some(topology) = topology {
            self.addresses.set_registered(topology);
            self.renew_topology(turn);
        }
        for Joined { link, result } in joined {
            let (node, is_known, refused) = match result {
                Ok((node, is_known)) => (Some(node), is_known, None),
                Err(reason) => (None, false, Some(reason)),
            };
            turn.send(link, &Packet::JoinReply { node, is_known, refused });
        }
        if let Some(group) = group {
            let epoch = group.succession().present.since;
            let system = Keyspace { epoch, shards: vec![group], ..self.system.clone() };
            self.set_system(system, turn);
        }
        if let Some(version) = version {
            self.enter_version(version, turn);
        }
        if let Some(reading) = reading {
            self.apply(reading, turn);
        }
        self.renew_access(turn);
    }

    /// Does something where a replica lives. At the first event loop, which may wait for another one.
    pub(super) fn where_it_lives<R>(
        &mut self,
        replica: ReplicaId,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut Node, &mut Turn<'_>) -> R,
    ) -> R {
        let at = self
            .routes
            .elsewhere(replica.into())
            .and_then(|event_loop| usize::from(event_loop).checked_sub(1));
        match at.and_then(|at| self.others.get(at)).cloned() {
            Some(other) => other.with(act),
            None => act(self, turn),
        }
    }

    /// How far each replica of the node is, for operators that change groups.
    pub(super) fn all_reports(&self) -> Vec<ReplicaReport> {
        let mut reports = self.reports();
        for other in &self.others {
            reports.extend(other.with(|node, _| node.reports()));
        }
        reports.sort_unstable_by_key(|report| report.replica);
        reports
    }

    /// A packet that has arrived at another event loop than the first one: messages, and what nodes have to know of each other before.
    ///
    /// # Errors
    /// Such packets are said at the first event loop.
    pub(super) fn on_packet_beside(
        &mut self,
        link: LinkId,
        peer: Peer,
        packet: Packet,
        turn: &mut Turn<'_>,
    ) -> Result<(), Violation> {
        match (peer, packet) {
            (_, Packet::Envelope(envelope)) => return self.on_envelope(link, envelope, turn),
            (Peer::Node(node), Packet::Lives { own, known }) => self.on_lives(link, node, &own, &known),
            (Peer::Node(node), Packet::Settings { settings }) => {
                if let Some(reason) = self.versions.hear(link, node, &settings) {
                    turn.close(link, reason);
                }
            }
            (Peer::Client(client), _) => {
                let event_loop = self.event_loop();
                return Err(Violation(
                    format!("{client} says to event loop {event_loop} what is said to the first one").into(),
                ));
            }
            // A node whose number of event loops has changed takes this connection for one to the first.
            (Peer::Node(_), _) => {}
        }
        Ok(())
    }
}
