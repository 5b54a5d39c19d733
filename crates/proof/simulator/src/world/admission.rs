//! The admission of clients' messages: the decision is that of servers ([`quorate_core::admission`]), and so is the answer, that the
//! node is busy, which a client hears a way later.

use quorate_core::admission::{Cause, Load, Marks};
use quorate_core::hosted::{Admission, Urgency};
use quorate_core::{Address, ClientId};

use super::trace::TraceHash;
use super::{Endpoint, Event, Protocol, World, kind};
use crate::fault::Fault;

/// The work that nodes admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The marks above which new work is refused.
    pub marks: Marks,
    /// True if, above these, messages are refused as well that free what is held, and messages of replicas: a mistake.
    pub refuses_all: bool,
}

/// How many messages were refused, by whose doing it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedCounts {
    /// Because of what all clients together have under way.
    pub for_all: u64,
    /// Because of what the client itself has.
    pub for_client: u64,
}

impl Gate {
    /// The urgency of a message, and the client whose window it counts in; none if everybody takes it.
    fn judged(self, from: Address, urgency: Urgency) -> Option<(Urgency, Option<ClientId>)> {
        match (from, urgency) {
            (Address::Client(client), Urgency::Early | Urgency::Prepare) => Some((urgency, Some(client))),
            (_, Urgency::Always) | (Address::Replica(_), _) if self.refuses_all => {
                Some((Urgency::Prepare, None))
            }
            _ => None,
        }
    }
}

impl<P: Protocol, A> World<P, A> {
    /// From now on nodes refuse what clients say above these marks. At first they refuse nothing.
    pub fn set_gate(&mut self, gate: Gate) {
        self.fabric.gate = Some(gate);
    }

    /// How many messages nodes have refused.
    pub fn refused(&self) -> RefusedCounts {
        self.fabric.refused
    }

    /// The cause for which the node of a server refuses a message; none if it is taken.
    fn cause_to_refuse(&self, server: usize, from: Address, message: &P::Message) -> Option<Cause> {
        let gate = self.fabric.gate?;
        let Admission { urgency, .. } = P::admission(message);
        let (urgency, client) = gate.judged(from, urgency)?;
        let host = &self.servers[server];
        let machine = host.machine()?;
        let load = Load {
            queued_bytes: self.fabric.network.queued_bytes(host.node, self.fabric.now),
            prepared: P::load(machine, None),
            client_prepared: client.map_or(0, |client| P::load(machine, Some(client))),
            log_lag_bytes: host.disk.lag_bytes(),
            is_administration: false,
            // Where memory is short at all, it is in most seeds short for any value.
            exceeds_memory: false,
        };
        let cause = load.refuses(urgency, &gate.marks)?;
        (!P::is_awaited(machine, message)).then_some(cause)
    }

    /// Refuses a message if its node has too much to do, and tells the client; true if it does.
    pub(super) fn refuses(&mut self, server: usize, from: Address, message: &P::Message) -> bool {
        let Some(cause) = self.cause_to_refuse(server, from, message) else { return false };
        let node = self.servers[server].node;
        let fabric = &mut self.fabric;
        match cause {
            Cause::All => fabric.refused.for_all += 1,
            Cause::Client => fabric.refused.for_client += 1,
        }
        fabric.network.injected.add(Fault::LowMarks);
        let mut digest = TraceHash::default();
        P::digest(message, &mut digest);
        fabric.trace.event(fabric.now, kind::REFUSED, server as u64, digest.value());
        fabric.trace.line(fabric.now, || format!("{from} ✗ server {server} is busy: {cause:?}  {message:?}"));
        if let Some(&(Endpoint::Client(client), client_node)) = fabric.endpoints.get(&from)
            && let Some(after) = fabric.network.route(node, client_node).first
        {
            fabric.queue.push(fabric.now + after, Event::Busy(client));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ReplicaId;

    use super::*;

    const MARKS: Marks =
        Marks { queued_bytes_high: 1, prepared_high: 1, client_prepared_high: 1, log_lag_bytes_high: 1 };

    #[test]
    fn a_gate_judges_what_clients_begin_and_nothing_else() {
        let (client, replica) = (Address::Client(ClientId(7)), Address::Replica(ReplicaId::default()));
        let sound = Gate { marks: MARKS, refuses_all: false };
        for urgency in [Urgency::Early, Urgency::Prepare] {
            assert_eq!(sound.judged(client, urgency), Some((urgency, Some(ClientId(7)))));
            assert_eq!(sound.judged(replica, urgency), None);
        }
        assert_eq!(sound.judged(client, Urgency::Always), None);
        assert_eq!(sound.judged(replica, Urgency::Always), None);
        let unsound = Gate { refuses_all: true, ..sound };
        assert_eq!(unsound.judged(client, Urgency::Always), Some((Urgency::Prepare, None)));
        assert_eq!(unsound.judged(replica, Urgency::Always), Some((Urgency::Prepare, None)));
        assert_eq!(unsound.judged(client, Urgency::Early), Some((Urgency::Early, Some(ClientId(7)))));
    }
}
