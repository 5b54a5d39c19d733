//! The rights of clients, where a simulation has users: each node has a copy of the catalogue's users and takes a message or does not, by the table and the decision of
//! servers ([`quorate_wire::rights`], [`quorate_access`]). A client hears a way later that it has not the right.
//!
//! Nodes learn of a change each in its own time, so that for a while some take what others do not. A client that is no user's has no right at all.

use std::sync::Arc;

use quorate_access::{Access, Claim, Login, Standing, Visitor};
use quorate_core::hash::{FixedMap, FixedSet};
use quorate_core::{Address, ClientId, ClockTime, Epoch, Input, Machine, ReplicaId, TransactionId};
use quorate_wire::ProtocolMessage;
use quorate_wire::rights::{
    Demand, Taking, decide_client, is_said_by_nodes, row, transaction_of, without_hints,
};

use super::surroundings::ClientSide;
use super::trace::TraceHash;
use super::{Endpoint, Event, Fabric, Happening, Protocol, World, kind};
use crate::fault::Fault;

/// A mistake of nodes that look at rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A client that may read is taken for one that coordinates.
    ReaderCoordinates,
    /// A replica that settles a transaction has to have the right of a client to do so, and has none.
    SettlerNeedsRight,
    /// A client is believed what replicas say.
    ClientBelieved,
    /// A client keeps at a node the rights that it was found to have there, whatever the node hears later.
    StandingKept,
}

/// A message of a client that a node has not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The client, as the world numbers it.
    pub client: usize,
    /// The replica that it was for.
    pub replica: ReplicaId,
    /// The transaction that it is about, if it is about one.
    pub transaction: Option<TransactionId>,
}

/// How many messages were not taken, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UntakenCounts {
    /// The right was missing, and the client is told.
    pub denied: u64,
    /// The right was missing, and nothing waits.
    pub passed_over: u64,
    /// No client says such a thing.
    pub unsaid: u64,
    /// They were taken without what only a coordinator is believed.
    pub without_hints: u64,
}

/// The users, as each node knows them.
pub struct Rights {
    keyspace: String,
    nodes: Vec<Copied>,
    /// The users of clients.
    logins: FixedMap<ClientId, Login>,
    /// Clients that may do everything, although they are no user's: their faults are others.
    trusted: FixedSet<ClientId>,
    mistake: Option<Mistake>,
    /// How many messages were not taken.
    pub counts: UntakenCounts,
    /// Messages that nobody may have said, and were taken, in words.
    wrong: Vec<String>,
    /// The transactions of which a node has taken something from which they may commit, as their first attempts: one of `serializable` is known under the attempt that its
    /// client has made first, and may commit in a later one.
    heard_of: FixedSet<TransactionId>,
}

/// The copy of a node, and the standings that it has looked up there.
struct Copied {
    access: Arc<Access>,
    standings: FixedMap<ClientId, Standing>,
}

impl Rights {
    /// As many nodes with the same copy of users, who have rights in a keyspace of this name.
    pub fn new(keyspace: String, nodes: usize, access: &Arc<Access>, mistake: Option<Mistake>) -> Self {
        let copied = || Copied { access: Arc::clone(access), standings: FixedMap::default() };
        Rights {
            keyspace,
            nodes: (0..nodes).map(|_| copied()).collect(),
            logins: FixedMap::default(),
            trusted: FixedSet::default(),
            mistake,
            counts: UntakenCounts::default(),
            wrong: Vec::new(),
            heard_of: FixedSet::default(),
        }
    }

    /// A client logs in.
    pub fn log_in(&mut self, client: ClientId, login: Login) {
        self.logins.insert(client, login);
    }

    /// A client may do everything from now on.
    pub fn trust(&mut self, client: ClientId) {
        self.trusted.insert(client);
    }

    /// A node learns which users there are.
    pub fn learn(&mut self, node: usize, access: &Arc<Access>) {
        let Copied { access: known, standings } = &mut self.nodes[node];
        *known = Arc::clone(access);
        if self.mistake != Some(Mistake::StandingKept) {
            standings.clear();
        }
    }

    /// The messages that nobody may have said and that were taken since this was last asked, in words.
    pub fn take_wrong(&mut self) -> Vec<String> {
        std::mem::take(&mut self.wrong)
    }

    /// The claims of a client, as a node knows them.
    fn standing(&mut self, node: usize, client: ClientId) -> Standing {
        if self.trusted.contains(&client) {
            return Standing::ALL;
        }
        let Copied { access, standings } = &mut self.nodes[node];
        let standing = *standings.entry(client).or_insert_with(|| {
            let visitor = self.logins.get(&client).map_or(Visitor::Nobody, Visitor::User);
            // No login here ends by a clock.
            access.standing(visitor, &self.keyspace, ClockTime::default())
        });
        match self.mistake {
            Some(Mistake::ReaderCoordinates) if standing.allows(Claim::Read) => Standing::ALL,
            _ => standing,
        }
    }

    /// How a node takes what a client says.
    fn decide(&mut self, node: usize, client: ClientId, message: &ProtocolMessage) -> Taking {
        let said = row(message);
        if self.mistake == Some(Mistake::ClientBelieved) && !said.is_of_clients() {
            return Taking::Whole;
        }
        decide_client(said, message, client, self.standing(node, client))
    }

    /// True if a node takes what a replica of another node says: all shards are of one keyspace.
    fn believes(&self, from: ReplicaId, to: ReplicaId, message: &ProtocolMessage) -> bool {
        let needs_right =
            self.mistake == Some(Mistake::SettlerNeedsRight) && from != to && row(message).is_of_clients();
        !needs_right && is_said_by_nodes(from.into(), to.into(), message, |_, _| true)
    }
}

/// The name of a transaction, whichever attempt it is.
fn first_attempt(transaction: TransactionId) -> TransactionId {
    TransactionId { attempt: 0, ..transaction }
}

impl<P: Protocol, A> World<P, A> {
    /// From now on clients need rights. At first each may say everything.
    pub fn set_rights(&mut self, rights: Rights) {
        self.fabric.rights = Some(rights);
    }

    /// The rights of clients, if they need some.
    pub fn rights(&mut self) -> Option<&mut Rights> {
        self.fabric.rights.as_mut()
    }

    /// True if a transaction may have committed: some node has taken what its client has asked of it, or may have.
    pub fn has_heard_of(&self, transaction: TransactionId) -> bool {
        self.fabric.rights.as_ref().is_none_or(|rights| rights.heard_of.contains(&first_attempt(transaction)))
    }

    /// The message as a server's node takes it; none if it does not. A client that waits for what comes of it is told.
    pub(super) fn take(
        &mut self,
        server: usize,
        from: Address,
        to: Address,
        message: P::Message,
    ) -> Option<P::Message> {
        let Some(rights) = &mut self.fabric.rights else { return Some(message) };
        let (Some(mut said), Address::Replica(replica)) = (P::to_wire(&message), to) else {
            return Some(message);
        };
        let node = self.servers[server].node;
        let client = match from {
            Address::Client(client) => client,
            Address::Replica(sender) => {
                // Machines of one node talk past the network.
                let is_here = self.fabric.endpoints.get(&from).is_some_and(|(_, of)| *of == node);
                if is_here || rights.believes(sender, replica, &said) {
                    return Some(message);
                }
                if rights.mistake.is_none() {
                    rights.wrong.push(format!("{from} says to {to} what no replica says there: {message:?}"));
                }
                self.fabric.note_untaken(server, from, "no replica says this there", &message);
                return None;
            }
        };
        let taking = rights.decide(node, client, &said);
        if matches!(taking, Taking::Whole | Taking::WithoutHints)
            && matches!(row(&said).demand, Demand::Claim(Claim::Coordinate) | Demand::Own(_))
        {
            rights.heard_of.extend(transaction_of(&said).map(first_attempt));
        }
        let counts = &mut rights.counts;
        let (count, why) = match taking {
            Taking::Whole => {
                if !row(&said).is_of_clients() {
                    rights.wrong.push(format!("{to} has taken from {from} what replicas say: {message:?}"));
                }
                return Some(message);
            }
            Taking::WithoutHints => {
                counts.without_hints += 1;
                without_hints(&mut said);
                let taken = P::from_wire(said);
                return Some(taken.unwrap_or_else(|| unreachable!("a message stays one of its protocol")));
            }
            Taking::PassedOver => (&mut counts.passed_over, "passed over"),
            Taking::Unsaid => (&mut counts.unsaid, "no client says this"),
            Taking::Denied(_) => (&mut counts.denied, "no right to this"),
            Taking::IfEntriesMay => unreachable!("users have rights in keyspaces, and not in the catalogue"),
        };
        *count += 1;
        self.fabric.note_untaken(server, from, why, &message);
        if taking != Taking::PassedOver {
            self.fabric.deny(node, from, replica, transaction_of(&said));
        }
        None
    }

    /// A client hears that it has not the right.
    pub(super) fn hear_denial(&mut self, denied: Denied) {
        if self.clients[denied.client].machine().is_some() {
            self.fabric.trace.event(self.fabric.now, kind::DENIED, denied.client as u64, 0);
            self.fabric.trace.line(self.fabric.now, || format!("{denied:?}"));
            self.fabric.happenings.push_back(Happening::Denied(denied));
        }
    }

    /// The host of a client tells its machine something in the name of a replica. Gives what the machine says to that.
    pub fn tell_client(
        &mut self,
        client: usize,
        from: ReplicaId,
        message: P::Message,
    ) -> Vec<<P::Client as Machine>::Event> {
        let before = self.fabric.happenings.len();
        let host = &mut self.clients[client];
        self.fabric.trace.line(self.fabric.now, || format!("{} ⇐ as {from}: {message:?}", host.address));
        let input = Input::Message { from: from.into(), epoch: Epoch::FIRST, message };
        host.step(input, &mut ClientSide(&mut self.fabric));
        let node = host.node;
        self.fabric.depart(node);
        let mut told = Vec::new();
        for happening in self.fabric.happenings.split_off(before) {
            match happening {
                Happening::Client(at, event) if at == client => told.push(event),
                other => self.fabric.happenings.push_back(other),
            }
        }
        told
    }
}

impl<P: Protocol, A> Fabric<P, A> {
    fn note_untaken(&mut self, server: usize, from: Address, why: &str, message: &P::Message) {
        self.network.injected.add(Fault::Rights);
        let mut digest = TraceHash::default();
        P::digest(message, &mut digest);
        self.trace.event(self.now, kind::REFUSED, server as u64, digest.value());
        self.trace.line(self.now, || format!("{from} ✗ server {server}: {why}  {message:?}"));
    }

    /// Tells a client that it has not the right.
    fn deny(&mut self, node: usize, from: Address, replica: ReplicaId, transaction: Option<TransactionId>) {
        if let Some(&(Endpoint::Client(client), client_node)) = self.endpoints.get(&from)
            && let Some(after) = self.network.route(node, client_node).first
        {
            self.queue.push(self.now + after, Event::Denied(Denied { client, replica, transaction }));
        }
    }
}
