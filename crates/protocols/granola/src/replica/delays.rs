//! How late the votes of other shards are: what has several participants is proposed so far ahead of the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::ShardId;

use crate::class::Class;

/// A vote counts for so much of the estimate: one in this many.
const SHARE: u32 = 8;

/// How long the votes of each shard are waited for after the own vote could be told.
#[derive(Debug, Default)]
pub(super) struct VoteDelays(BTreeMap<ShardId, Delay>);

/// A vote on what only reads comes sooner: it need not be stable.
#[derive(Debug, Default)]
struct Delay {
    writes: Option<Duration>,
    reads: Option<Duration>,
}

impl VoteDelays {
    /// A vote came so long after the own.
    pub(super) fn note(&mut self, shard: ShardId, class: Class, late: Duration) {
        let estimate = self.0.entry(shard).or_default().of(class);
        let before = estimate.unwrap_or(late);
        *estimate = Some((before * (SHARE - 1) + late) / SHARE);
    }

    /// When the last vote of these shards is expected, after the own.
    pub(super) fn longest(&self, participants: &[ShardId], class: Class) -> Duration {
        let delays = participants.iter().filter_map(|shard| self.0.get(shard));
        let delays = delays.filter_map(|delay| match class {
            Class::ReadOnly => delay.reads,
            Class::Independent | Class::Coordinated => delay.writes,
        });
        delays.max().unwrap_or_default()
    }
}

impl Delay {
    fn of(&mut self, class: Class) -> &mut Option<Duration> {
        match class {
            Class::ReadOnly => &mut self.reads,
            Class::Independent | Class::Coordinated => &mut self.writes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_latest_shard_counts_and_old_votes_fade() {
        let mut delays = VoteDelays::default();
        let all = [ShardId(1), ShardId(2), ShardId(3)];
        assert_eq!(delays.longest(&all, Class::Independent), Duration::ZERO);
        delays.note(ShardId(2), Class::Coordinated, 10 * MS);
        delays.note(ShardId(3), Class::Independent, 2 * MS);
        delays.note(ShardId(3), Class::ReadOnly, MS);
        assert_eq!(delays.longest(&all, Class::Independent), 10 * MS);
        assert_eq!(delays.longest(&all[2..], Class::Coordinated), 2 * MS);
        assert_eq!(delays.longest(&all, Class::ReadOnly), MS);
        delays.note(ShardId(2), Class::Independent, 2 * MS);
        assert_eq!(delays.longest(&all, Class::Independent), 9 * MS);
        (0..100).for_each(|_| delays.note(ShardId(2), Class::Independent, Duration::ZERO));
        assert!(delays.longest(&all[..2], Class::Independent) < MS);
    }
}
