//! The timestamps by which a replica tells what is over from what is not.

use quorate_core::Timestamp;

/// The bounds of a replica, each of which only rises: see [`crate::replica::floor`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Below this everything has ended, and its effects are here.
    pub floor: Timestamp,
    /// Below this no new operation is let in.
    pub refusal: Timestamp,
    /// Below this f + 1 replicas of the group have executed everything that can ever take effect, as far as is known here.
    pub complete: Timestamp,
    /// A floor is searched for below this. The replica that searches refuses only once f others do, and may have compared what some
    /// of them have by then.
    sought: Timestamp,
    /// The smallest timestamp below `sought` or `refusal` at which anything has taken effect since this was last asked.
    late: Option<Timestamp>,
}

impl Bounds {
    /// Lets in no new operation below.
    pub fn refuse_below(&mut self, below: Timestamp) {
        self.refusal = self.refusal.max(below);
    }

    /// f + 1 replicas are complete below.
    pub fn complete_below(&mut self, below: Timestamp) {
        self.complete = self.complete.max(below);
    }

    /// The floor is this from now on, and the other bounds are no lower.
    pub fn raise_floor(&mut self, floor: Timestamp) {
        self.floor = self.floor.max(floor);
        self.complete_below(floor);
        self.refuse_below(floor);
        assert!(
            self.floor <= self.complete && self.floor <= self.refusal,
            "the floor {} lies above {}, below which all is complete, or {}, below which nothing is let in",
            self.floor,
            self.complete,
            self.refusal
        );
    }

    /// A floor is searched for below.
    pub fn seek(&mut self, below: Timestamp) {
        self.sought = below;
    }

    /// An operation has taken effect at a timestamp, perhaps where replicas have been compared already.
    pub fn note_effect(&mut self, timestamp: Timestamp) {
        if timestamp < self.refusal.max(self.sought) {
            self.late = Some(self.late.map_or(timestamp, |late| late.min(timestamp)));
        }
    }

    /// The smallest timestamp at which anything has taken effect late since this was last asked.
    pub fn take_late(&mut self) -> Option<Timestamp> {
        self.late.take()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(0) }
    }

    #[test]
    fn only_what_may_have_been_compared_is_late() {
        let mut bounds = Bounds::default();
        bounds.note_effect(at(1));
        assert_eq!(bounds.take_late(), None, "nothing is refused, and no floor is searched for");
        bounds.refuse_below(at(10));
        bounds.seek(at(20));
        for micros in [25, 15, 12, 19] {
            bounds.note_effect(at(micros));
        }
        assert_eq!((bounds.take_late(), bounds.take_late()), (Some(at(12)), None), "the smallest, once");
    }

    #[test]
    fn a_floor_lifts_the_other_bounds_and_no_bound_falls() {
        let mut bounds = Bounds::default();
        bounds.refuse_below(at(10));
        bounds.raise_floor(at(5));
        assert_eq!((bounds.floor, bounds.complete, bounds.refusal), (at(5), at(5), at(10)));
        bounds.raise_floor(at(3));
        bounds.complete_below(at(4));
        bounds.refuse_below(at(7));
        assert_eq!((bounds.floor, bounds.complete, bounds.refusal), (at(5), at(5), at(10)));
    }
}
