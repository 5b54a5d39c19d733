//! The outcome of a transaction as a function of how its participants stand to it.
//!
//! Commit if all have prepared, at the greatest of their timestamps; abort if one has refused. Durable standings never
//! change, so all that have heard every participant decide the same, however many decide.

use std::collections::BTreeMap;

use quorate_core::command::Outcome;
use quorate_core::{ShardId, Timestamp};

use crate::message::Standing;

/// The standings of the participants of a transaction so far.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    /// None as long as nothing was heard.
    heard: BTreeMap<ShardId, Option<Standing>>,
}

/// The conclusion from the standings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This is its fate.
    Outcome(Outcome),
    /// Nobody can tell any more.
    Forgotten,
}

impl Standings {
    /// Nobody has said anything.
    pub fn new(participants: &[ShardId]) -> Self {
        Standings { heard: participants.iter().map(|shard| (*shard, None)).collect() }
    }

    /// Notes what a shard says. True if it takes part.
    pub fn note(&mut self, shard: ShardId, standing: Standing) -> bool {
        let Some(heard) = self.heard.get_mut(&shard) else { return false };
        // A final standing outlives one that is not, in whatever order both arrive.
        if !matches!(heard, Some(Standing::Ended(_))) {
            *heard = Some(standing);
        }
        true
    }

    /// The shards that have not been heard.
    pub fn missing(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.heard.iter().filter(|(_, standing)| standing.is_none()).map(|(shard, _)| *shard)
    }

    /// Every participant, ascending.
    pub fn participants(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.heard.keys().copied()
    }

    /// The shards that hold the transaction or may come to hold it, as far as was heard.
    pub fn holders(&self) -> impl Iterator<Item = ShardId> + '_ {
        let may_hold = |standing: &Option<Standing>| matches!(standing, None | Some(Standing::Prepared(_)));
        self.heard.iter().filter(move |(_, standing)| may_hold(standing)).map(|(shard, _)| *shard)
    }

    /// The conclusion from the standings; none if they do not suffice.
    pub fn verdict(&self) -> Option<Verdict> {
        let mut commits_at = Some(Timestamp::ZERO);
        let mut is_forgotten = false;
        for standing in self.heard.values() {
            match standing {
                Some(Standing::Ended(outcome)) => return Some(Verdict::Outcome(*outcome)),
                Some(Standing::TooOld { .. }) => return Some(Verdict::Outcome(Outcome::Aborted)),
                Some(Standing::Prepared(timestamp)) => {
                    commits_at = commits_at.map(|greatest| greatest.max(*timestamp));
                }
                Some(Standing::Forgotten { .. }) => is_forgotten = true,
                None => commits_at = None,
            }
        }
        if is_forgotten {
            return Some(Verdict::Forgotten);
        }
        commits_at.map(|timestamp| Verdict::Outcome(Outcome::Committed(timestamp)))
    }

    /// The conclusion, as if one participant had said it all: a complaint about the proposer's clock, if that is the reason.
    pub fn summary(&self) -> Option<Standing> {
        let find = |is_reason: fn(&Standing) -> bool| self.heard.values().flatten().copied().find(is_reason);
        match self.verdict()? {
            Verdict::Outcome(outcome @ Outcome::Committed(_)) => Some(Standing::Ended(outcome)),
            Verdict::Outcome(Outcome::Aborted) => {
                find(|standing| matches!(standing, Standing::TooOld { .. }))
                    .or(Some(Standing::Ended(Outcome::Aborted)))
            }
            Verdict::Forgotten => find(|standing| matches!(standing, Standing::Forgotten { .. })),
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, ClockTime};

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    #[test]
    fn verdicts_as_a_table() {
        let (one, two) = (Standing::Prepared(at(5)), Standing::Prepared(at(7)));
        let clock = ClockTime::from_micros(9);
        let forgotten = Standing::Forgotten { clock };
        let aborted = Some(Verdict::Outcome(Outcome::Aborted));
        let committed = |micros| Some(Verdict::Outcome(Outcome::Committed(at(micros))));
        let table = [
            (vec![], None),
            (vec![(1, one)], None),
            (vec![(1, one), (2, two)], committed(7)),
            (vec![(1, two), (2, one)], committed(7)),
            (vec![(1, Standing::Ended(Outcome::Aborted))], aborted),
            (vec![(2, Standing::TooOld { clock }), (1, one)], aborted),
            (vec![(1, one), (2, Standing::Ended(Outcome::Committed(at(9))))], committed(9)),
            (vec![(1, forgotten)], Some(Verdict::Forgotten)),
            (vec![(1, forgotten), (2, Standing::Ended(Outcome::Committed(at(9))))], committed(9)),
            (vec![(1, Standing::Ended(Outcome::Aborted)), (1, forgotten)], aborted),
            (vec![(3, one)], None),
        ];
        for (heard, expected) in table {
            let mut standings = Standings::new(&[ShardId(1), ShardId(2)]);
            for (shard, standing) in &heard {
                assert_eq!(standings.note(ShardId(*shard), *standing), *shard < 3);
            }
            assert_eq!(standings.verdict(), expected, "{heard:?}");
        }
    }

    #[test]
    fn a_summary_leads_to_the_same_verdict() {
        let clock = ClockTime::from_micros(9);
        let (too_old, forgotten) = (Standing::TooOld { clock }, Standing::Forgotten { clock });
        let (aborted, prepared) = (Standing::Ended(Outcome::Aborted), Standing::Prepared(at(5)));
        let table = [
            ([Some(prepared), None], None),
            ([Some(prepared), Some(prepared)], Some(Standing::Ended(Outcome::Committed(at(5))))),
            ([Some(prepared), Some(too_old)], Some(too_old)),
            ([Some(forgotten), Some(too_old)], Some(too_old)),
            ([Some(forgotten), Some(aborted)], Some(aborted)),
            ([Some(prepared), Some(forgotten)], Some(forgotten)),
        ];
        for (heard, expected) in table {
            let shards = [ShardId(1), ShardId(2)];
            let mut standings = Standings::new(&shards);
            for (shard, standing) in shards.into_iter().zip(heard) {
                standing.map(|standing| standings.note(shard, standing));
            }
            assert_eq!(standings.summary(), expected, "{heard:?}");
            let mut told = Standings::new(&shards[..1]);
            expected.map(|standing| told.note(shards[0], standing));
            assert_eq!(told.verdict(), standings.verdict(), "{heard:?}");
        }
    }

    #[test]
    fn who_may_hold_a_transaction_is_told_its_outcome() {
        let mut standings = Standings::new(&[ShardId(1), ShardId(2), ShardId(3)]);
        standings.note(ShardId(1), Standing::Ended(Outcome::Aborted));
        standings.note(ShardId(2), Standing::Prepared(at(5)));
        assert_eq!(standings.holders().collect::<Vec<_>>(), [ShardId(2), ShardId(3)]);
        assert_eq!(standings.missing().collect::<Vec<_>>(), [ShardId(3)]);
    }
}
