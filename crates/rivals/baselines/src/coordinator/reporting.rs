//! Commit wait: where clocks are bounded, what has committed is reported once its timestamp has passed on all of them. So
//! timestamps follow real time, and a snapshot at any clock's time holds everything that was reported before.

use quorate_core::command::{Committed, Outcome};
use quorate_core::{ClockTime, Context, Instant, ShardId, Timestamp, TransactionId};

use super::{Coordinator, Out, Phase, finish};
use crate::rules::Plant;

/// A transaction that has committed, and whose timestamp has not passed.
#[derive(Debug)]
pub(super) struct Reporting {
    pub(super) timestamp: Timestamp,
    pub(super) until: ClockTime,
    /// Every shard that takes part, if it writes anything.
    pub(super) participants: Vec<ShardId>,
}

impl Coordinator {
    /// A transaction has committed: tells the client, and all that have asked for it since, at once or when `passes` has
    /// passed on all clocks. `shard` is one that it has read or written.
    #[expect(clippy::too_many_arguments, reason = "what is known of a commit")]
    pub(super) fn report(
        &mut self,
        id: TransactionId,
        timestamp: Timestamp,
        passes: Timestamp,
        shard: Option<ShardId>,
        participants: Vec<ShardId>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let until = self.bound_of(shard).map_or(ClockTime::default(), |bound| {
            ClockTime::from_micros(passes.micros).saturating_add(bound)
        });
        let Some(open) = self.transactions.get_mut(&id) else { return };
        open.phase = Phase::Reporting(Reporting { timestamp, until, participants });
        if let Some(next) = self.attend_reporting(id, context, outbox) {
            self.transactions.wake_at(id, next);
        }
    }

    /// How far clocks are apart at most, where that is waited for.
    fn bound_of(&self, shard: Option<ShardId>) -> Option<std::time::Duration> {
        if !self.config.system.has_snapshots() || self.config.rules.has(Plant::CommitReportedAtOnce) {
            return None;
        }
        let keyspace = self.leaders.group(shard?)?.keyspace?;
        self.keyspaces.get(&keyspace)?.keyspace.clock_bound
    }

    /// Reports, if it is time; else gives when to look again.
    pub(super) fn attend_reporting(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let open = self.transactions.get(&id)?;
        let Phase::Reporting(reporting) = &open.phase else { return None };
        let Reporting { timestamp, until, .. } = *reporting;
        if context.clock < until {
            let wait = until.as_micros() - context.clock.as_micros();
            return Some(context.now + std::time::Duration::from_micros(wait));
        }
        let open = self.close(id, Outcome::Committed(timestamp), outbox)?;
        if !open.wants.answered {
            finish(outbox, id, Ok(Committed::at(timestamp)));
        }
        None
    }
}
