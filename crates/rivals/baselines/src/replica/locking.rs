//! Strict two-phase locking: the reads of a transaction are locked at the leader, its writes when it is prepared.
//!
//! Read locks live with the leader and end with its view; a transaction is prepared only if it has kept all of its own. From
//! then on its reads and writes are held until its outcome is known, by whichever replica leads.
//!
//! # Deadlocks
//! The older transaction, by the beginning of its first attempt, has precedence. A transaction that is not prepared can be
//! wounded: an older one that is to write what it has locked takes the lock away. One that is prepared cannot, since it may
//! have committed; there an older one waits, and a younger one is refused. Reads wait for every prepared writer. So nobody
//! waits for a transaction that reads, and among those that prepare the older wait for the younger only: there is no cycle.
//! Pure wound-wait would have to wound what is prepared, and pure wait-die would refuse every younger reader of a key that is
//! being written, which is where most waits are short. A refused transaction keeps its age, so that it is the oldest in the
//! end.
//!
//! A transaction that has read for long without reading more may have died, and has no precedence: any other may wound it.

use std::collections::BTreeSet;

use quorate_core::{Address, Context, Instant, Key, KeyRange, Timestamp, Transaction, TransactionId, View};

use super::prepare::{Admission, Prepare};
use super::recovery::before;
use super::{Out, Replica};
use crate::message::Message;
use crate::rules::Plant;

/// So many requests may wait for one transaction; the client of a further one asks again.
const BLOCKED_MAX: usize = 10_000;

impl Replica {
    /// Whether a transaction may be prepared, where transactions lock.
    pub(super) fn admission_by_locks(&self, prepare: &Prepare, now: Instant) -> Admission {
        let Some(leader) = &self.leader else { return Admission::Refused };
        let (id, part) = (prepare.id, &prepare.part);
        if !self.has_kept_locks(id, part, prepare.locked_in) {
            return Admission::Refused;
        }
        let own = (prepare.proposal.age, id);
        let mut waits_on = None;
        let mut wounded = BTreeSet::new();
        for write in &part.writes {
            for other in self.holders(&write.key, id) {
                if self.age_of(other) < own {
                    return Admission::Refused;
                }
                waits_on = Some(other);
            }
            if self.config.rules.has(Plant::ReadLocksOverlooked) {
                continue;
            }
            for (other, age, since) in leader.locks.others(&write.key, id) {
                let is_idle = now - since >= self.config.recovery_timeout;
                if (age, other) < own && !is_idle {
                    return Admission::Refused;
                }
                wounded.insert(other);
            }
        }
        waits_on.map_or(Admission::Granted { wounded }, |on| Admission::Waits { on })
    }

    /// True if a transaction has locked what it has read, and has not lost that since.
    ///
    /// A lock that was lost and is taken again, by a late repetition of the read, looks like one that was kept. So what was
    /// read must be the newest as well.
    pub(super) fn has_kept_locks(
        &self,
        id: TransactionId,
        part: &Transaction,
        locked_in: Option<View>,
    ) -> bool {
        let Some(leader) = &self.leader else { return false };
        let has_read = !part.reads.is_empty() || !part.ranges.is_empty();
        let has_locks = !has_read || (locked_in == Some(leader.view) && leader.locks.cover(id, part));
        let is_current = self.config.rules.has(Plant::ReadLocksOverlooked)
            || self.validation().is_some_and(|validation| validation.is_current(id, part));
        (has_locks && is_current) || self.config.rules.has(Plant::LostLocksCount)
    }

    /// The other prepared transactions that have read a key or are about to write it.
    fn holders(&self, key: &Key, id: TransactionId) -> Vec<TransactionId> {
        let in_flight = self.leader.iter().map(|leader| &leader.in_flight);
        let sets = in_flight.chain([&self.state.prepared]);
        let holds_reads = !self.config.rules.has(Plant::ReadsNotHeld);
        let mut holders = BTreeSet::new();
        for set in sets {
            holders.extend(set.other_writers(key, id).map(|holder| holder.transaction));
            if holds_reads {
                holders.extend(set.other_readers(key, id).map(|holder| holder.transaction));
            }
        }
        holders.into_iter().collect()
    }

    /// How old a prepared transaction is: the lesser, the older.
    fn age_of(&self, id: TransactionId) -> (Timestamp, TransactionId) {
        let in_flight = self.leader.as_ref().and_then(|leader| leader.in_flight_proposals.get(&id));
        let in_flight = in_flight.map(|(proposal, _)| proposal);
        let age =
            self.state.proposals.get(&id).or(in_flight).map_or(Timestamp::ZERO, |proposal| proposal.age);
        (age, id)
    }

    /// Somebody else who is about to write a key, if somebody is.
    pub(super) fn writer(&self, key: &Key, id: TransactionId) -> Option<TransactionId> {
        let in_flight = self.leader.iter().map(|leader| &leader.in_flight);
        let mut sets = in_flight.chain([&self.state.prepared]);
        sets.find_map(|set| set.other_writers(key, id).next().map(|holder| holder.transaction))
    }

    /// Somebody else who is about to write a key in a range, if somebody is.
    pub(super) fn writer_in(&self, range: &KeyRange, id: TransactionId) -> Option<TransactionId> {
        let in_flight = self.leader.iter().map(|leader| &leader.in_flight);
        let mut sets = in_flight.chain([&self.state.prepared]);
        sets.find_map(|set| set.other_writers_in(range, id).next().map(|holder| holder.transaction))
    }

    /// Lets a request wait for the outcome of a transaction.
    pub(super) fn block(&mut self, on: TransactionId, from: Address, message: Message) {
        let Some(leader) = &mut self.leader else { return };
        let waiting = leader.blocked.entry(on).or_default();
        let request = (from, message);
        if waiting.len() < BLOCKED_MAX && !waiting.contains(&request) {
            waiting.push(request);
        }
    }

    /// Takes the locks of transactions away, for an older one.
    pub(super) fn wound(&mut self, wounded: &BTreeSet<TransactionId>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        for id in wounded {
            leader.locks.release(*id);
            outbox.send(id.client, Message::Wounded { transaction: *id });
        }
    }

    pub(super) fn on_release(&mut self, from: Address, id: TransactionId) {
        if let Some(leader) = &mut self.leader
            && from == Address::Client(id.client)
        {
            leader.locks.release(id);
        }
    }

    /// Releases what clients have locked that have died.
    pub(super) fn release_idle(&mut self, context: &Context<'_>) {
        let (Some(leader), Some(cutoff)) =
            (&mut self.leader, before(context.now, self.config.client_timeout))
        else {
            return;
        };
        for id in leader.locks.idle_since(cutoff) {
            leader.locks.release(id);
        }
    }
}
