//! The transactions that may be forgotten, so that memory does not grow with their number.
//!
//! A snapshot can be read for a while, then it is too old: a client that vanished pins nothing. Each site tells the others the oldest
//! snapshot that can still be read at it, and the floor is what all of these include. Periods count how long endings are remembered.

use quorate_core::Context;
use quorate_core::log::Log;

use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::Period;
use crate::reasons;
use crate::vector::Vector;

impl Replica {
    /// The oldest snapshot that may still be read at this site: what had committed some time ago.
    pub(super) fn oldest(&self) -> Vector {
        let sampled = self.leader.as_ref().and_then(|leader| leader.samples.front());
        let floor = self.state.histories.floor();
        sampled.map_or_else(
            || floor.clone(),
            |(_, committed, _)| {
                let mut oldest = committed.clone();
                oldest.join(floor);
                oldest
            },
        )
    }

    /// Ends a period and raises the floor, if something can be forgotten.
    pub(super) fn attend_floor(
        &mut self,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (now, lag) = (context.now, self.config.floor_lag);
        let Some(leader) = &mut self.leader else { return };
        if leader.samples.back().is_some_and(|(at, ..)| now - *at >= lag / 8) {
            leader.samples.push_back((now, self.state.committed.clone(), self.state.period));
        }
        // The first is to be the newest that is old enough.
        while leader.samples.get(1).is_some_and(|(at, ..)| now - *at >= lag) {
            leader.samples.pop_front();
        }
        let Some((at, _, period)) = leader.samples.front() else { return };
        if leader.raising || now - *at < lag {
            return;
        }
        // An ending of a period that had not ended may be newer than the sample.
        let forgotten = Period(period.0 - 1);
        let mut floor = self.oldest();
        let Some(leader) = &mut self.leader else { return };
        for peer in leader.peers.values() {
            floor.meet(peer.oldest.as_ref().unwrap_or(&Vector::default()));
        }
        floor.join(self.state.histories.floor());
        let committed = &self.state.committed;
        assert!(committed.includes_all(&floor), "the floor is to be {floor}, and {committed} has committed");
        let remembers = self.state.ended_len() > 0;
        if !remembers && floor == *self.state.histories.floor() {
            return;
        }
        match log.append(Entry::Floor { floor, forgotten }) {
            Some(_) => leader.raising = true,
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// FLOOR is stable.
    pub(super) fn on_floor(&mut self) {
        if let Some(leader) = &mut self.leader {
            leader.raising = false;
        }
    }
}
