//! How the transactions of a coordinator ended, and why those did that did not commit.

use crate::message::Vote;

/// Counts of prepared transactions by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Committed, every shard on the fast path.
    pub committed_fast: u64,
    /// Committed, some shard on the slow path.
    pub committed_slow: u64,
    /// Aborted because some replica had executed a commit that overwrote what was read.
    pub stale: u64,
    /// Aborted because another prepared transaction was in the way at too many replicas.
    pub pending: u64,
    /// Aborted because a higher timestamp was asked for too often.
    pub outpaced: u64,
    /// Prepared again at a higher timestamp, each time counted.
    pub retries: u64,
}

impl Tally {
    /// Counts in what another coordinator has counted.
    pub fn add(&mut self, other: Tally) {
        self.committed_fast += other.committed_fast;
        self.committed_slow += other.committed_slow;
        self.stale += other.stale;
        self.pending += other.pending;
        self.outpaced += other.outpaced;
        self.retries += other.retries;
    }

    pub(super) fn count_commit(&mut self, fast: bool) {
        *(if fast { &mut self.committed_fast } else { &mut self.committed_slow }) += 1;
    }

    /// Counts an abort, by the replies of all shards.
    pub(super) fn count_abort<'a>(&mut self, votes: impl Iterator<Item = &'a Vote>) {
        let (mut stale, mut pending) = (false, false);
        for vote in votes {
            stale |= *vote == Vote::Abort;
            pending |= *vote == Vote::Abstain;
        }
        let cause = match (stale, pending) {
            (true, _) => &mut self.stale,
            (false, true) => &mut self.pending,
            (false, false) => &mut self.outpaced,
        };
        *cause += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_is_counted_by_its_clearest_cause() {
        let retry = Vote::Retry(Default::default());
        let mut tally = Tally::default();
        tally.count_abort([Vote::Ok, Vote::Abstain, Vote::Abort].iter());
        tally.count_abort([Vote::Ok, Vote::Abstain, retry].iter());
        tally.count_abort([Vote::Ok, retry, retry].iter());
        tally.count_commit(true);
        let expected = Tally { stale: 1, pending: 1, outpaced: 1, committed_fast: 1, ..Tally::default() };
        assert_eq!(tally, expected);
    }
}
