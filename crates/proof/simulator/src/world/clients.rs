//! Clients in the world: they keep nothing, and vanish for ever.

use bytes::BytesMut;
use quorate_core::{Address, Machine};

use super::disk::{Crash, Disk};
use super::host::Host;
use super::surroundings::ClientSide;
use super::{Endpoint, Event, Happening, Protocol, World, kind};

/// Clients.
impl<P: Protocol, A> World<P, A> {
    /// Adds a client with a running machine and returns its number. Clients keep nothing across a crash.
    pub fn add_client(&mut self, address: Address, node: usize, machine: P::Client) -> usize {
        let id = self.clients.len();
        let random = self.fabric.random.fork();
        self.fabric.endpoints.insert(address, (Endpoint::Client(id), node));
        self.fabric.silenced.remove(&address);
        let encode = |_, _: &_, _: &mut BytesMut| unreachable!("clients keep nothing");
        self.clients.push(Host::new(id, address, node, Disk::memory(), encode, random));
        self.fabric.trace.event(self.fabric.now, kind::BOOTED, (1 << 32) + id as u64, 0);
        self.fabric.trace.line(self.fabric.now, || format!("{address} starts"));
        self.clients[id].boot(machine, &mut ClientSide(&mut self.fabric));
        self.fabric.depart(node);
        id
    }

    /// The machine of a client, unless it has crashed.
    pub fn client(&self, client: usize) -> Option<&P::Client> {
        self.clients[client].machine()
    }

    /// The node of a client.
    pub fn node_of_client(&self, client: usize) -> usize {
        self.clients[client].node
    }

    /// Gives a command to a client's machine; nothing happens if it has crashed. Where work costs something, it waits for
    /// its turn.
    pub fn command(&mut self, client: usize, command: impl Into<<P::Client as Machine>::Command>) {
        let command = command.into();
        let node = self.clients[client].node;
        if !self.fabric.processors[node].writes() {
            self.obey(client, command);
        } else {
            self.take_in(node, Event::Command(client, command));
        }
    }

    /// A client vanishes for ever, and of what it had said so much is lost on its way: nothing, everything, or each
    /// message with this probability.
    pub fn crash_client(&mut self, client: usize, silenced: f64) {
        self.fabric.trace.event(self.fabric.now, kind::CRASHED, (1 << 32) + client as u64, 0);
        let host = &mut self.clients[client];
        self.fabric.trace.line(self.fabric.now, || format!("{} vanishes", host.address));
        self.fabric.silenced.insert(host.address, silenced);
        host.crash(Crash::Process, &mut ClientSide(&mut self.fabric));
        // Nobody has heard the events that it has told in the turn in which it vanishes.
        self.fabric.happenings.retain(|told| !matches!(told, Happening::Client(who, _) if *who == client));
    }
}
