//! How a node stops in good order: what it leads goes to others first, then its clients go, and then it ends.
//!
//! ```text
//!   giving way ──► leaving ─────────────────► left ──► nothing is under way, or it takes too long: the end
//!   (replicas      (clients are told, and     (what a client begins
//!    give up        what is under way to       is passed over)
//!    the lead)      the node is taken in)
//! ```
//!
//! A client that is told counts on other nodes. A transaction that the client begins here all the same is as good as lost. One that is open here and nowhere
//! else ([`HostedReplica::has_open`](crate::hosted::HostedReplica::has_open)) goes on.

use std::time::Duration;

use crate::Instant;
use crate::hosted::Urgency;

/// So long clients are left to find the new leaders before they are told, at most: others may not be there to lead.
pub const GIVING_WAY_MAX: Duration = Duration::from_secs(1);

/// So long what clients have sent before they heard it is still taken in.
pub const LEAVING_MIN: Duration = Duration::from_millis(200);

/// A node, or an event loop of one, that stops in good order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    phase: Phase,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    GivingWay,
    Leaving,
}

impl Draining {
    /// Its replicas are told to give up what they lead.
    pub fn give_way(now: Instant) -> Self {
        Draining { phase: Phase::GivingWay, since: now }
    }

    /// Its clients were told to go at this instant.
    pub fn leave(since: Instant) -> Self {
        Draining { phase: Phase::Leaving, since }
    }

    /// True once, when it is time to tell the clients of the node: `leads` says that its replicas lead what others could lead.
    pub fn is_to_leave(&mut self, leads: bool, now: Instant) -> bool {
        let gives_way_still = leads && now - self.since < GIVING_WAY_MAX;
        if self.is_leaving() || gives_way_still {
            return false;
        }
        *self = Draining::leave(now);
        true
    }

    /// True if its clients were told to go.
    pub fn is_leaving(&self) -> bool {
        self.phase == Phase::Leaving
    }

    /// True if its clients count on others by now.
    pub fn has_left(&self, now: Instant) -> bool {
        self.is_leaving() && now - self.since >= LEAVING_MIN
    }

    /// True if a message of a client is passed over: it would begin what is better begun elsewhere. `is_open` says that it goes on with a transaction
    /// that is open here and nowhere else.
    pub fn passes_over(&self, urgency: Urgency, is_open: impl FnOnce() -> bool, now: Instant) -> bool {
        self.has_left(now) && urgency != Urgency::Always && !is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::default() + Duration::from_millis(millis)
    }

    #[test]
    fn clients_are_told_once_others_lead() {
        let mut draining = Draining::give_way(at(0));
        assert!(!draining.is_to_leave(true, at(999)) && !draining.is_leaving());
        assert!(draining.is_to_leave(false, at(999)), "others lead");
        assert!(draining.is_leaving());
        assert!(!draining.is_to_leave(false, at(2_000)), "they are told once");
        let mut alone = Draining::give_way(at(0));
        assert!(alone.is_to_leave(true, at(1_000)), "nobody wants to lead");
    }

    #[test]
    fn what_is_on_its_way_to_a_node_that_leaves_is_taken_in_and_no_more() {
        let draining = Draining::leave(at(1_000));
        assert!(!draining.has_left(at(1_199)) && draining.has_left(at(1_200)));
        let passes_over = |urgency, is_open, now| draining.passes_over(urgency, || is_open, at(now));
        assert!(!passes_over(Urgency::Early, false, 1_199));
        assert!(passes_over(Urgency::Early, false, 1_200) && passes_over(Urgency::Prepare, false, 1_200));
        assert!(!passes_over(Urgency::Prepare, true, 1_200), "it is open here alone");
        assert!(!passes_over(Urgency::Always, false, 1_200), "it frees what is held");
        let giving_way = Draining::give_way(at(0));
        assert!(!giving_way.passes_over(Urgency::Early, || false, at(5_000)), "clients know nothing of it");
    }
}
