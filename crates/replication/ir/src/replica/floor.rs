//! Floors: below which timestamp everything has ended, so that the record of it can be collected.
//!
//! Operations stand in relation to timestamps that the protocol on top gives them. A timestamp can become a group's
//! floor once, in one view,
//!
//! 1. f + 1 replicas durably *refuse* new consensus operations below it, whatever others make of these, and then
//! 2. f + 1 of these are *complete* below it: none of their records holds an operation below it that can still take
//!    effect, and each has executed every inconsistent operation below it that any of them has, durably; and
//! 3. f + 1 have said so durably ([`Replica::complete_below`]).
//!
//! Then no operation below the floor can take effect any more that has not been executed at f + 1 replicas:
//! * It takes effect only with a favourable verdict of f + 1 replicas of one view. One of these is among those that
//!   refuse, so its record held the operation before it began to refuse, and later it was complete: the operation has
//!   ended, and been executed by all that were complete.
//! * A later view settles as favourable only what may have succeeded. In any f + 1 records handed over there is one of a
//!   replica that is complete: what it has not executed below the floor has not succeeded, whatever minorities recorded.
//!   So leaders refuse it (the protocol on top does so in its merge: it is told through the supplement).
//!
//! Only after 3 may anybody raise its floor and drop what has ended below (T13, T28). A transaction that is unknown to the record of
//! a replica and lies below its floor is *settled*: its decision needs no recording, and a proposal is refused.
//!
//! In view changes a replica that lacks something below the leader's floor is given the leader's state in place of the
//! operations that made it. A leader never has a lower floor than those whose records it merges. Floors need no names and
//! no order beside their own: whichever replica finds one, of two the greater implies the other.

use quorate_core::{Timestamp, TransactionId};

use super::{Fact, Host, Replica, Status, Upcalls};
use crate::record::RecordPage;
use crate::{Mistake, Operations};

impl<O: Operations> Replica<O> {
    /// Below this everything has ended, and its record is being collected.
    pub fn floor(&self) -> Timestamp {
        self.floor
    }

    /// Below this everything that can ever take effect has been executed here.
    pub fn complete(&self) -> Timestamp {
        self.complete
    }

    /// True if an operation of this transaction at this timestamp has ended below the floor: what became of it is part
    /// of the state, and of nothing else.
    pub fn is_settled(&self, transaction: TransactionId, timestamp: Timestamp) -> bool {
        timestamp < self.floor && !self.record.is_live(transaction, self.floor)
    }

    /// From now on lets in no new operation below a timestamp, durably.
    pub fn refuse_below<H: Host<O>>(&mut self, timestamp: Timestamp, host: &mut H) {
        let bounds = host.protocol().bounds_mut();
        if timestamp > bounds.refusal && !self.makes(Mistake::SaysBeforeRefusing) {
            bounds.refuse_below(timestamp);
            host.persist(Fact::Refusing(timestamp));
        }
    }

    /// Notes, durably, that everything that can ever take effect below a timestamp has been executed here.
    pub fn complete_below<H: Host<O>>(&mut self, timestamp: Timestamp, host: &mut H) {
        host.protocol().bounds_mut().complete_below(timestamp);
        if timestamp > self.complete {
            self.complete = timestamp;
            host.persist(Fact::Completed(timestamp));
        }
        let known = host.protocol().bounds().complete;
        assert!(known >= self.complete, "complete below {}, and told to be so below {known}", self.complete);
    }

    /// Raises the floor, durably, to a timestamp below which this replica is complete and f + 1 have said that they are.
    pub fn raise_floor<H: Host<O>>(&mut self, floor: Timestamp, host: &mut H) {
        if floor > self.floor {
            assert!(
                floor <= self.complete || self.makes(Mistake::CollectsAlone),
                "a floor of {floor} where all is complete below {}",
                self.complete
            );
            host.persist(Fact::FloorRaised(floor));
            self.set_floor(floor, host.protocol());
        }
    }

    pub(super) fn set_floor<P: Upcalls<O>>(&mut self, floor: Timestamp, protocol: &mut P) {
        self.floor = self.floor.max(floor);
        self.complete = self.complete.max(floor);
        self.collecting = Some(None);
        protocol.bounds_mut().raise_floor(self.floor);
        protocol.on_floor(self.floor);
        let bounds = protocol.bounds();
        assert!(
            bounds.floor == self.floor && self.floor <= self.complete,
            "the floor {} is {} to the protocol, and all is complete below {}",
            self.floor,
            bounds.floor,
            self.complete
        );
    }

    /// Drops what the floor makes superfluous; looks at `max` transactions at most, and names those of which it drops an
    /// inconsistent operation. True if more is left to do.
    pub fn collect(&mut self, max: usize) -> bool {
        let Some(after) = self.collecting.filter(|_| !self.is_read_from()) else { return false };
        let next = self.record.collect(after, self.floor, max);
        assert!(
            next.is_none_or(|next| Some(next) > after && next.0 < self.floor),
            "collecting goes on from {after:?} to {next:?} below {}",
            self.floor
        );
        self.collecting = next.map(Some);
        next.is_some()
    }

    /// Takes over an inconsistent operation that another replica of the group has executed, so that f + 1 hold it.
    pub fn learn<H: Host<O>>(
        &mut self,
        transaction: TransactionId,
        operation: O::Inconsistent,
        host: &mut H,
    ) {
        let settled = self.is_settled(transaction, O::inconsistent_timestamp(&operation));
        if self.status != Status::Normal || settled || self.record.is_executed(transaction) {
            return;
        }
        host.protocol().execute_inconsistent(transaction, &operation);
        if self.record.inconsistent(transaction).is_some() {
            host.persist(Fact::InconsistentExecuted(transaction));
            self.record.mark_executed(transaction);
        } else {
            host.persist(self.recorded(transaction, &operation, true));
            self.record.record_inconsistent(transaction, operation, true);
        }
        assert!(self.record.is_executed(transaction), "{transaction} was learned and has not run");
    }

    /// Replaces what this replica has below `floor` by the state of another.
    pub(super) fn replace_state<P: Upcalls<O>>(
        &mut self,
        floor: Timestamp,
        states: impl IntoIterator<Item = O::State>,
        protocol: &mut P,
    ) {
        assert!(floor >= self.floor, "state below {floor} in place of that below {}", self.floor);
        protocol.forget_state_below(floor);
        states.into_iter().for_each(|state| protocol.install_state(state));
        protocol.on_state_installed();
        self.record.forget_below(floor);
        self.set_floor(floor, protocol);
    }

    /// A page without the entries that are settled here.
    pub(super) fn without_settled(&self, page: &RecordPage<O>) -> RecordPage<O> {
        let mut kept = page.clone();
        kept.entries.retain_mut(|(transaction, entries)| {
            let is_settled = |timestamp| self.is_settled(*transaction, timestamp);
            entries.consensus.retain(|entry| !is_settled(O::consensus_timestamp(&entry.operation)));
            if let Some(entry) = &entries.inconsistent
                && is_settled(O::last_timestamp(&entry.operation))
            {
                entries.inconsistent = None;
            }
            entries.inconsistent.is_some() || !entries.consensus.is_empty()
        });
        kept
    }
}
