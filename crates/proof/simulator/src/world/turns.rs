//! The turns of processors: what they take in costs time, then machines step, then what they say costs time.

use std::time::Duration;

use quorate_core::Address;

use super::costs::{Batching, Costs, Operation, Work};
use super::{Endpoint, Envelope, Event, Fabric, Protocol, World};

impl<P: Protocol, A> World<P, A> {
    /// Begins a turn of a processor that has to be woken for it, or lets it wait for a core.
    pub(super) fn wake(&mut self, at: usize) {
        let wake_ns = self.fabric.processors[at].costs.as_ref().map_or(0.0, |costs| costs.wake_ns);
        self.begin_turn(at, wake_ns);
    }

    fn begin_turn(&mut self, at: usize, first_ns: f64) {
        let Fabric { processors, cores, now, .. } = &mut self.fabric;
        let processor = &mut processors[at];
        if let Some(cores) = processor.cores.map(|place| &mut cores[place])
            && !cores.take(at, processor)
        {
            return;
        }
        processor.runs_since = *now;
        self.go_on(at, first_ns);
    }

    /// Begins a turn of a processor that has a core.
    fn go_on(&mut self, at: usize, first_ns: f64) {
        let processor = &mut self.fabric.processors[at];
        processor.begin_turn();
        let mut takes = processor.drag * processor.serving().len() as u32;
        if let Some(costs) = processor.costs.clone() {
            let serving = self.fabric.processors[at].serving();
            takes += nanoseconds(match self.fabric.is_syncer(at) {
                // That it is woken is a part of what a sync costs.
                true => costs.sync_ns * serving.len() as f64,
                false => first_ns + self.cost_of_inputs(&costs, serving),
            });
        }
        self.fabric.processors[at].worked += takes;
        self.fabric.queue.push(self.fabric.now + takes, Event::Turn(at));
    }

    /// Lets happen what the processor has taken its time for.
    pub(super) fn serve(&mut self, at: usize) {
        let node = self.fabric.node_of_processor(at);
        let served = self.fabric.processors[at].take_serving();
        let takes = if self.fabric.is_syncer(at) {
            for event in served {
                self.take_in(node, event);
            }
            Duration::ZERO
        } else {
            for event in served {
                self.perform(event);
            }
            self.settle(Some(node));
            self.fabric.depart(node)
        };
        self.fabric.queue.push(self.fabric.now + takes, Event::TurnEnded(at));
    }

    /// Puts something into the inbox of a processor, and wakes it if it sleeps.
    pub(super) fn take_in(&mut self, at: usize, event: Event<P, A>) {
        if self.fabric.processors[at].add(event) {
            self.wake(at);
        }
    }

    /// Ends a turn: what has happened meanwhile gets the next turn, or the core goes to a processor that waits for it.
    pub(super) fn end_turn(&mut self, at: usize) {
        let Fabric { processors, cores, now, .. } = &mut self.fabric;
        let has_more = processors[at].end_turn();
        if has_more && !processors[at].is_to_yield(*now) {
            return self.go_on(at, 0.0);
        }
        if let Some(next) = processors[at].cores.and_then(|place| cores[place].give_back()) {
            self.wake(next);
        }
        if has_more {
            self.begin_turn(at, 0.0);
        }
    }

    /// The cost of taking in what a turn serves, in nanoseconds.
    fn cost_of_inputs(&self, costs: &Costs, served: &[Event<P, A>]) -> f64 {
        let mut read_from: Vec<usize> = Vec::new();
        let mut total_ns = 0.0;
        for event in served {
            let work = match event {
                Event::Deliver(envelope, _) => {
                    let sender = self.fabric.node_at(envelope.from);
                    if !read_from.contains(&sender) {
                        read_from.push(sender);
                        total_ns += costs.read_ns;
                    }
                    total_ns += costs.received.of(P::size(envelope));
                    let receiver = match self.fabric.endpoints.get(&envelope.to) {
                        Some((Endpoint::Server(at), _)) => self.servers[*at].machine(),
                        _ => None,
                    };
                    P::work(receiver, &envelope.message)
                }
                Event::Command(_, command) => P::command_work(command),
                _ => Work::new(Operation::Control, 0),
            };
            total_ns += costs.operation(work);
        }
        total_ns
    }
}

impl<P: Protocol, A> Fabric<P, A> {
    /// Where the processor is that has the disks of a node synced.
    pub(super) fn syncer(&self, node: usize) -> usize {
        self.clocks.len() + node
    }

    fn is_syncer(&self, at: usize) -> bool {
        at >= self.clocks.len()
    }

    /// The node of a processor.
    pub(super) fn node_of_processor(&self, at: usize) -> usize {
        at % self.clocks.len()
    }

    /// Lets the processor of a node write what its machines have said, one packet after the other, and returns how long
    /// that takes.
    pub(super) fn depart(&mut self, node: usize) -> Duration {
        let Some(costs) = self.processors[node].costs.clone() else { return Duration::ZERO };
        let mut takes_ns = std::mem::take(&mut self.processors[node].owed_ns);
        for packet in self.packets_of(costs.batching) {
            takes_ns += costs.write_ns;
            takes_ns += packet.iter().map(|envelope| costs.sent.of(P::size(envelope))).sum::<f64>();
            for envelope in packet {
                self.convey(node, envelope, nanoseconds(takes_ns));
            }
            self.packets += 1;
        }
        let takes = nanoseconds(takes_ns);
        self.processors[node].worked += takes;
        takes
    }

    /// The messages that were said, divided into what is written at once: a packet for each message, or one for each node, in the order
    /// in which they were first spoken to.
    fn packets_of(&mut self, batching: Batching) -> Vec<Vec<Envelope<P::Message>>> {
        let mut packets: Vec<(usize, Vec<Envelope<P::Message>>)> = Vec::new();
        for envelope in std::mem::take(&mut self.outgoing) {
            let receiver = self.node_at(envelope.to);
            let open = packets.iter_mut().find(|(to, _)| batching == Batching::Turns && *to == receiver);
            match open {
                Some((_, packet)) => packet.push(envelope),
                None => packets.push((receiver, vec![envelope])),
            }
        }
        packets.into_iter().map(|(_, packet)| packet).collect()
    }

    /// The node of an address; one that there is not, if it is nobody's.
    fn node_at(&self, address: Address) -> usize {
        self.endpoints.get(&address).map_or(usize::MAX, |(_, node)| *node)
    }
}

fn nanoseconds(count: f64) -> Duration {
    Duration::from_nanos(count.round() as u64)
}
