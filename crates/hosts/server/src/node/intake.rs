//! Messages that arrive at an event loop: judged, passed on to another one, refused for load, or given to a machine.

use quorate_core::admission::{Cause, Load};
use quorate_core::hosted::{Admission, Urgency};
use quorate_core::{Address, ClientId};
use quorate_runtime::transport::Violation;
use quorate_runtime::{LinkId, Turn};
use quorate_wire::catalogue::SYSTEM_SHARD;
use quorate_wire::{Envelope, Packet, Peer, ProtocolMessage};

use super::admission::refusal_of_write;
use super::hosted::Hosted;
use super::loops::{Asked, Handed};
use super::{Node, outgoing, served};

impl Node {
    /// Takes in a message from a socket.
    pub(super) fn on_envelope(
        &mut self,
        link: LinkId,
        mut envelope: Envelope,
        turn: &mut Turn<'_>,
    ) -> Result<(), Violation> {
        let Some(remote) = turn.remote(link) else { return Ok(()) };
        match (remote.identity, envelope.from) {
            (Peer::Client(client), Address::Client(sender)) if client == sender => {
                let Admission { urgency, prepares_for, writes } = served::admission(&envelope.message);
                if let Some(owner) = prepares_for
                    && owner != client
                {
                    // It would be counted against somebody else's window.
                    return Err(Violation(format!("{client} prepares a transaction of {owner}").into()));
                }
                if let Some(fault) = refusal_of_write(&envelope.message) {
                    return Err(Violation(
                        format!("{client} writes what is no entry of the catalogue: {fault}").into(),
                    ));
                }
                if !self.may_say(link, client, &mut envelope, turn) {
                    return Ok(());
                }
                let (event_loop, queued_bytes) = (self.event_loop(), turn.queued_bytes());
                self.on_asked(
                    Asked { envelope, client, urgency, writes, event_loop, link, queued_bytes },
                    turn,
                );
                return Ok(());
            }
            (Peer::Client(client), sender) => {
                return Err(Violation(format!("{client} sends in the name of {sender}").into()));
            }
            (Peer::Node(_), _) if !self.peers.believes(link) || !self.versions.admits(link) => return Ok(()),
            (Peer::Node(node), sender) if !self.may_send(node, link, sender, turn) => return Ok(()),
            (Peer::Node(node), sender) if !self.may_say_as_node(&envelope) => {
                self.misattributed.note(node, sender);
                return Ok(());
            }
            (Peer::Node(_), Address::Client(client)) => self.routes.learn_client(client, link),
            (Peer::Node(_), Address::Replica(_)) => {}
        }
        self.take_in(envelope, turn);
        Ok(())
    }

    /// Takes in a message of a client, unless its replica has too much to do.
    pub(super) fn on_asked(&mut self, asked: Asked, turn: &mut Turn<'_>) {
        if let Some(event_loop) = self.routes.elsewhere(asked.envelope.to) {
            // It is handed over once: its event loop is known there as here, but for what was created a moment ago.
            if asked.event_loop == self.event_loop() {
                self.here.loops.hand(event_loop, Handed::Asked(asked));
            }
            return;
        }
        let Asked { ref envelope, client, urgency, writes, event_loop, link, queued_bytes } = asked;
        if let Address::Replica(id) = envelope.to
            && self.is_dropped(id)
        {
            // Every client was told, and of transactions that are under way the replicas settle what becomes of them.
            self.refused += 1;
            return;
        }
        if self.passes_over(urgency, envelope, turn) {
            // The client was told, and begins its transactions elsewhere.
            self.refused += 1;
            return;
        }
        let without_space = urgency == Urgency::Prepare
            && matches!(envelope.to, Address::Replica(replica) if self.lacks_space(replica))
            && writes;
        let cause = match without_space {
            true => Some(Cause::All),
            false => {
                let queued_bytes = queued_bytes.max(turn.queued_bytes());
                self.cause_to_refuse(urgency, client, envelope, queued_bytes)
            }
        };
        match cause {
            None => self.take_in(asked.envelope, turn),
            Some(cause) => {
                self.refused += 1;
                self.refused_for_client += u64::from(cause == Cause::Client);
                if event_loop == self.event_loop() {
                    self.say_busy(link, turn);
                } else {
                    self.here.loops.hand(event_loop, Handed::Refused { link });
                }
            }
        }
    }

    /// Takes in a message that may be, for a machine of this node.
    pub(super) fn take_in(&mut self, envelope: Envelope, turn: &mut Turn<'_>) {
        if let Some(event_loop) = self.routes.elsewhere(envelope.to) {
            self.here.loops.hand(event_loop, Handed::Message(envelope));
        } else if self.is_started
            && let Some(envelope) = self.loader.keep(envelope)
        {
            self.deliver(envelope, turn);
        }
    }

    /// Gives a message to a machine of this node.
    pub(super) fn deliver(&mut self, envelope: Envelope, turn: &mut Turn<'_>) {
        let Envelope { from, to, epoch, message } = envelope;
        match to {
            Address::Replica(id) if self.replicas.contains_key(&id) => {
                self.step(id, turn, |running, time, outgoing| {
                    running.on_message(time, from, epoch, message, outgoing)
                });
            }
            // Its keyspace may have been created a moment ago, or dropped.
            Address::Replica(_) => {}
            Address::Client(client) if client == self.routes.own_client() => {
                let ProtocolMessage::Configuration(message) = message else { return };
                let (time, Some(catalogue)) = (turn.time, &mut self.catalogue) else { return };
                catalogue.on_message(
                    time,
                    from,
                    epoch,
                    message,
                    &mut outgoing(&self.routes, &mut self.here, turn),
                );
            }
            // A client that is gone, or was never here.
            Address::Client(_) => {}
        }
    }

    /// True if a message goes on with a transaction that is open at its receiver and nowhere else.
    pub(super) fn has_open(&mut self, envelope: &Envelope) -> bool {
        let Address::Replica(id) = envelope.to else { return false };
        let running = self.replicas.get_mut(&id).and_then(Hosted::running);
        running.is_some_and(|running| running.has_open(&envelope.message))
    }

    /// Why a message of a client is not taken in, if it is not.
    pub(super) fn cause_to_refuse(
        &mut self,
        urgency: Urgency,
        client: ClientId,
        envelope: &Envelope,
        queued_bytes: usize,
    ) -> Option<Cause> {
        if urgency == Urgency::Always {
            return None;
        }
        let Address::Replica(id) = envelope.to else { return None };
        let running = self.replicas.get_mut(&id).and_then(Hosted::running)?;
        let load = Load {
            queued_bytes,
            prepared: running.load(None),
            client_prepared: running.load(Some(client)),
            log_lag_bytes: running.facts().log_lag_bytes,
            is_administration: id.shard == SYSTEM_SHARD,
            exceeds_memory: running.exceeds_memory() && served::adds(&envelope.message),
        };
        let cause = load.refuses(urgency, &self.config.limits.marks())?;
        (!running.is_awaited(&envelope.message)).then_some(cause)
    }

    /// Tells a client that a message of it was refused.
    pub(super) fn say_busy(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        if !self.told_busy.contains(&link) {
            self.told_busy.push(link);
            turn.send(link, &Packet::Busy { retry_after: self.config.limits.busy_retry_after });
        }
    }
}
