//! Connections that are lost because too much waits for them. Each node dials each other one and speaks over what it has dialled itself;
//! a client dials nodes, and both ends speak over that.

use std::time::Duration;

use quorate_core::{Address, Instant};

use super::links::{Departure, Queued};
use super::{Envelope, Fabric, Protocol, World};
use crate::fault::Fault;

/// A message was lost with the connection that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LostInQueue;

impl<P: Protocol, A> World<P, A> {
    /// From now on so many bytes may wait for each link; after more its connection is lost, and made again if nodes dial again.
    pub fn bound_links(&mut self, bytes_max: usize, dials_again: bool) {
        self.fabric.network.links.set_bytes_max(bytes_max);
        self.fabric.dials_again = dials_again;
    }

    /// A link takes nothing for so long: what is said over it waits.
    pub fn stall_link(&mut self, from: usize, to: usize, lasting: Duration) {
        let until = self.fabric.now + lasting;
        self.fabric.network.links.stall(from, to, until);
    }
}

impl<P: Protocol, A> Fabric<P, A> {
    /// Puts a message at the end of a link, which is there at one instant and leaves at another; nothing of that is kept where links are not
    /// bounded.
    ///
    /// # Errors
    /// Too much waits: the connection is lost, and the message with it.
    pub(super) fn take_up(
        &mut self,
        from: usize,
        to: usize,
        (at, leaves): (Instant, Instant),
        envelope: &Envelope<P::Message>,
    ) -> Result<Option<Departure>, LostInQueue> {
        if from == to || !self.network.links.are_bounded() {
            return Ok(None);
        }
        match self.network.links.queue(from, to, at, leaves, P::size(envelope)) {
            Queued::Leaves(departure) => Ok(Some(departure)),
            Queued::Overflows => {
                self.on_overflow(from, to, at, envelope);
                Err(LostInQueue)
            }
        }
    }

    /// Too much waits for a link. Its sender connects again, which takes a round trip.
    fn on_overflow(&mut self, from: usize, to: usize, at: Instant, envelope: &Envelope<P::Message>) {
        self.network.injected.add(Fault::FullLinks);
        let is_of_client = matches!(
            (envelope.from, envelope.to),
            (Address::Client(_), Address::Replica(_)) | (Address::Replica(_), Address::Client(_))
        );
        let lost: &[(usize, usize)] = if is_of_client { &[(from, to), (to, from)] } else { &[(from, to)] };
        let round_trip = self.network.delay(from, to) + self.network.delay(to, from);
        let until = if self.dials_again { at + round_trip } else { Instant::from_nanos(u64::MAX) };
        for link in lost {
            self.network.lose_connection(link.0, link.1, at);
            self.resets.insert(*link, until);
        }
        self.trace.line(self.now, || {
            format!("the connection of nodes {from} and {to} is lost: too much waits for it")
        });
    }
}
