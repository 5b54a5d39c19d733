//! How late the votes of other shards are: transactions that need them are proposed so far ahead of the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::ShardId;

/// A vote that is later than estimated counts for so much: one in this many.
const SHARE: u32 = 32;

/// How long the votes of each shard on what writes are waited for at least, after the own vote could be told.
///
/// A vote that is earlier counts at once, and one that is later only for a part: so this is the delay of messages, which all votes
/// have, and not that of queues, which some have. To propose too far ahead costs what has several participants; too little costs others the
/// difference.
#[derive(Debug, Default)]
pub(super) struct VoteDelays(BTreeMap<ShardId, Duration>);

impl VoteDelays {
    /// A vote came so long after the own.
    pub(super) fn note(&mut self, shard: ShardId, late: Duration) {
        let estimate = self.0.entry(shard).or_insert(late);
        *estimate = if late < *estimate { late } else { *estimate + (late - *estimate) / SHARE };
    }

    /// When the last vote of these shards is expected, after the own.
    pub(super) fn longest(&self, participants: &[ShardId]) -> Duration {
        participants.iter().filter_map(|shard| self.0.get(shard)).max().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_latest_shard_counts_with_what_all_its_votes_take() {
        let mut delays = VoteDelays::default();
        let all = [ShardId(1), ShardId(2), ShardId(3)];
        assert_eq!(delays.longest(&all), Duration::ZERO);
        delays.note(ShardId(2), 10 * MS);
        delays.note(ShardId(3), 2 * MS);
        assert_eq!(delays.longest(&all), 10 * MS);
        assert_eq!(delays.longest(&all[2..]), 2 * MS);
        delays.note(ShardId(2), 42 * MS);
        assert_eq!(delays.longest(&all), 11 * MS, "one that is late counts little");
        delays.note(ShardId(2), 3 * MS);
        assert_eq!(delays.longest(&all), 3 * MS, "one that is early counts at once");
    }
}
