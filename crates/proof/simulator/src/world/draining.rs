//! The intake of nodes that stop in good order: when their clients are told to go, and what is passed over after that, is decided by the code of
//! servers ([`quorate_core::draining`]).

use quorate_core::Address;
use quorate_core::draining::Draining;

use super::trace::TraceHash;
use super::{Protocol, World, kind};

impl<P: Protocol, A> World<P, A> {
    /// A node begins to stop: its replicas are told to give up what they lead.
    pub fn drain(&mut self, node: usize) {
        self.fabric.draining.insert(node, Draining::give_way(self.fabric.now));
    }

    /// True once, when it is time to tell the clients of a node to go: `leads` says that it leads what others could lead.
    pub fn is_to_leave(&mut self, node: usize, leads: bool) -> bool {
        let now = self.fabric.now;
        self.fabric.draining.get_mut(&node).is_some_and(|draining| draining.is_to_leave(leads, now))
    }

    /// True if the clients of a node were told to go.
    pub fn is_leaving(&self, node: usize) -> bool {
        self.fabric.draining.get(&node).is_some_and(Draining::is_leaving)
    }

    /// True if the clients of a node count on others by now.
    pub fn has_left(&self, node: usize) -> bool {
        self.fabric.draining.get(&node).is_some_and(|draining| draining.has_left(self.fabric.now))
    }

    /// A node has stopped, or goes on.
    pub fn end_draining(&mut self, node: usize) {
        self.fabric.draining.remove(&node);
    }

    /// How many messages of clients nodes have passed over because their clients were told to go.
    pub fn passed_over(&self) -> u64 {
        self.fabric.passed_over
    }

    /// Passes a message over if the node of its server stops, and its client begins with it what is better begun elsewhere; true if it does.
    pub(super) fn passes_over(&mut self, server: usize, from: Address, message: &P::Message) -> bool {
        let host = &self.servers[server];
        let (Address::Client(_), Some(draining)) = (from, self.fabric.draining.get(&host.node)) else {
            return false;
        };
        let is_open = || host.machine().is_some_and(|machine| P::has_open(machine, message));
        if !draining.passes_over(P::admission(message).urgency, is_open, self.fabric.now) {
            return false;
        }
        let fabric = &mut self.fabric;
        fabric.passed_over += 1;
        let mut digest = TraceHash::default();
        P::digest(message, &mut digest);
        fabric.trace.event(fabric.now, kind::REFUSED, server as u64, digest.value());
        fabric.trace.line(fabric.now, || format!("{from} ✗ server {server} is stopping  {message:?}"));
        true
    }
}
