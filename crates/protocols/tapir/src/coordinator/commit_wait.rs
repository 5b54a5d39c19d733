//! Commit wait: in a keyspace that states a bound of clocks, a transaction is reported only once its timestamp has passed on
//! every clock.
//!
//! # Why timestamps follow real time there
//! The bound says that no clock ever shows so much less than another one, or itself, has shown before. *Let A be reported
//! before B begins. When A was, the clock of its client showed more than A's timestamp and the bound together, so from then
//! on every clock shows more than A's timestamp; and B's timestamp is not below the clock of its client at a moment
//! after B began. So A's timestamp is the lesser.* Timestamps are a valid serial order at any time (I2): that of all
//! transactions that write, of strict reads, which lie above what they read and keep writers above themselves, and of
//! snapshots at a timestamp. With the bound this one order agrees with real time too.
//!
//! So a snapshot at the clock's time is as strict as everything else, over any number of shards, and holds nothing
//! anywhere: see `read_only`. It has to wait like the others. Else one reader could be told of a transaction above the
//! clock of the next, who would miss it.
//!
//! Waiting only readers is not enough, whatever they wait for: of two writers that follow each other the earlier may have
//! the greater timestamp, and the snapshot lie between the two.
//!
//! Nothing else waits: holds end, and what was written can be read, as soon as it is decided. Where timestamps are
//! deadlines, they have mostly passed by the time the outcome is known. If a clock is further off than the bound,
//! transactions stay strict among each other, as everywhere, and snapshots at the clock's time may be stale.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::topology::Timestamping;
use quorate_core::{ClockTime, Context, Instant, ShardId, Timestamp, TransactionId};

use super::{Coordinator, Out, finish};
use crate::rules::Plant;
use quorate_core::command::{Committed, Event, Failure};

/// The commits that are known and not reported yet.
#[derive(Debug, Default)]
pub(super) struct CommitWaits {
    waiting: BTreeMap<TransactionId, Report>,
    /// When to look at each.
    wakeups: BTreeSet<(Instant, TransactionId)>,
}

/// That a transaction has committed.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) committed: Committed,
    /// Every shard that takes part in it, sorted.
    pub(super) participants: Vec<ShardId>,
    /// By when the client wants an answer.
    pub(super) deadline: Instant,
    /// True if the client waits for how it ends.
    pub(super) finishes: bool,
    /// True if the client has asked what became of it.
    pub(super) resolves: bool,
    /// The clock has to show more than this, in microseconds.
    passes_at: u64,
}

impl Report {
    pub(super) fn new(committed: Committed, participants: Vec<ShardId>, deadline: Instant) -> Self {
        Report { committed, participants, deadline, finishes: true, resolves: false, passes_at: 0 }
    }

    /// Tells the client.
    fn deliver(self, id: TransactionId, outbox: &mut Out) {
        if self.resolves {
            let outcome = Some(Outcome::Committed(self.committed.timestamp));
            outbox.emit(Event::Resolved { transaction: id, outcome });
        }
        if self.finishes {
            finish(outbox, id, Ok(self.committed));
        }
    }

    /// Tells the client that its time is up. It may ask again what became of the transaction.
    fn expire(self, id: TransactionId, outbox: &mut Out) {
        if self.resolves {
            outbox.emit(Event::Resolved { transaction: id, outcome: None });
        }
        if self.finishes {
            finish(outbox, id, Err(Failure::Unknown { participants: self.participants }));
        }
    }

    /// When the clock may have passed, if it has not.
    fn wait(&self, clock: ClockTime, now: Instant) -> Option<Instant> {
        let missing = self.passes_at.checked_sub(clock.as_micros())? + 1;
        Some((now + Duration::from_micros(missing)).min(self.deadline))
    }
}

impl CommitWaits {
    pub(super) fn contains(&self, id: TransactionId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Somebody asks what became of a transaction; true if that is known, and reported when it can be.
    pub(super) fn ask(&mut self, id: TransactionId, deadline: Instant) -> bool {
        let Some(report) = self.waiting.get_mut(&id) else { return false };
        report.resolves = true;
        report.deadline = report.deadline.max(deadline);
        true
    }

    /// When to look again.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.wakeups.first().map(|(at, _)| *at)
    }

    fn insert(&mut self, id: TransactionId, report: Report, wakes_at: Instant) {
        self.wakeups.insert((wakes_at, id));
        self.waiting.insert(id, report);
        self.assert_awaited();
    }

    /// Each transaction is looked at once more.
    fn assert_awaited(&self) {
        let (waiting, wakeups) = (self.waiting.len(), self.wakeups.len());
        assert!(waiting == wakeups, "{waiting} commits are to be reported, and {wakeups} looked at");
    }

    /// Takes out one that is to be looked at now.
    fn pop_due(&mut self, now: Instant) -> Option<(TransactionId, Report)> {
        let (_, id) = *self.wakeups.first().filter(|(at, _)| *at <= now)?;
        self.wakeups.pop_first();
        let report = self.waiting.remove(&id);
        self.assert_awaited();
        Some((id, report?))
    }
}

impl Coordinator {
    /// The bound of clocks that the keyspace of these shards states.
    pub(super) fn clock_bound(&self, shard: ShardId) -> Option<Duration> {
        let keyspace = self.groups.get(&shard)?.keyspace;
        self.keyspaces.get(&keyspace)?.keyspace.clock_bound
    }

    /// The options of timestamps of the keyspace of these shards, if it states any.
    pub(super) fn timestamping(&self, shard: ShardId) -> Option<Timestamping> {
        let keyspace = self.groups.get(&shard)?.keyspace;
        self.keyspaces.get(&keyspace)?.keyspace.timestamping
    }

    /// Reports that a transaction has committed, now or when its timestamp has passed on all clocks.
    pub(super) fn report(
        &mut self,
        id: TransactionId,
        report: Report,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let bound = report.participants.first().and_then(|shard| self.clock_bound(*shard));
        let Some(bound) = bound.filter(|_| !self.config.rules.has(Plant::CommitReportedAtOnce)) else {
            return report.deliver(id, outbox);
        };
        let passes_at = passes_at(report.committed.timestamp, bound);
        let report = Report { passes_at, ..report };
        match report.wait(context.clock, context.now) {
            Some(wakes_at) => self.commit_waits.insert(id, report, wakes_at),
            None => report.deliver(id, outbox),
        }
    }

    /// Reports what has passed.
    pub(super) fn attend_commit_waits(&mut self, context: &Context<'_>, outbox: &mut Out) {
        while let Some((id, report)) = self.commit_waits.pop_due(context.now) {
            match report.wait(context.clock, context.now) {
                None => report.deliver(id, outbox),
                Some(_) if context.now >= report.deadline => report.expire(id, outbox),
                // The clock is slow, or was turned back.
                Some(wakes_at) => {
                    let soonest = context.now + Duration::from_millis(1);
                    self.commit_waits.insert(id, report, wakes_at.max(soonest));
                }
            }
        }
    }
}

/// The time that a clock has to exceed so that every clock has passed a timestamp.
fn passes_at(timestamp: Timestamp, bound: Duration) -> u64 {
    timestamp.micros.saturating_add(bound.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { sequence, ..TransactionId::default() }
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::START + Duration::from_millis(milliseconds)
    }

    fn report(deadline: u64) -> Report {
        Report::new(Committed::at(Timestamp::ZERO), vec![ShardId(1)], at(deadline))
    }

    #[test]
    fn commits_are_looked_at_in_their_time_and_once() {
        let mut waits = CommitWaits::default();
        for (sequence, wakes_at) in [(1, 30), (2, 10), (3, 20)] {
            waits.insert(id(sequence), report(99), at(wakes_at));
        }
        assert_eq!(waits.wakes_at(), Some(at(10)));
        assert!(waits.pop_due(at(9)).is_none());
        let mut due = || waits.pop_due(at(20)).map(|(id, _)| id.sequence);
        assert_eq!([due(), due(), due()], [Some(2), Some(3), None]);
        assert_eq!(waits.wakes_at(), Some(at(30)));
        assert!(waits.contains(id(1)) && !waits.contains(id(2)));
    }

    #[test]
    fn who_asks_waits_as_long_as_the_more_patient_of_both() {
        for (asks_until, deadline) in [(50, 99), (120, 120)] {
            let mut waits = CommitWaits::default();
            assert!(!waits.ask(id(1), at(asks_until)), "nothing is known of it");
            waits.insert(id(1), report(99), at(10));
            assert!(waits.ask(id(1), at(asks_until)));
            let (_, report) = waits.pop_due(at(10)).unwrap();
            assert!(report.resolves && report.finishes && report.deadline == at(deadline));
        }
    }

    #[test]
    fn a_commit_that_is_lost_count_of_is_noticed() {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        let miscounted = || {
            let mut waits = CommitWaits::default();
            waits.insert(id(1), report(99), at(10));
            waits.insert(id(2), report(99), at(10));
            waits.wakeups.insert((at(50), id(9)));
            waits
        };
        let insert = || miscounted().insert(id(3), report(99), at(10));
        let pop = || miscounted().pop_due(at(10)).is_some();
        assert!(catch_unwind(AssertUnwindSafe(insert)).is_err());
        assert!(catch_unwind(AssertUnwindSafe(pop)).is_err());
    }
}
