//! How pages of two records differ.

use std::collections::BTreeSet;

use quorate_core::TransactionId;

use crate::{Cursor, Operations, Record, Summary};

/// How a page of another replica's record differs from that of this one.
pub(super) struct Differences {
    /// This replica has not run these.
    pub(super) lacking: Vec<TransactionId>,
    /// The other has not.
    pub(super) pushed: Vec<TransactionId>,
    /// Below here both have run the same, and nothing is open at the other.
    pub(super) agreed: Cursor,
    /// Where the page ends.
    pub(super) end: Cursor,
}

impl Differences {
    pub(super) fn between<O: Operations>(
        record: &Record<O>,
        theirs: &Summary,
        from: Cursor,
        end: Cursor,
        page_max: usize,
    ) -> Self {
        let end = theirs.next.unwrap_or(end);
        let ours = record.summary(from, end, page_max);
        let end = ours.next.unwrap_or(end);
        let known: BTreeSet<&Cursor> = theirs.executed.iter().collect();
        let lacking: Vec<Cursor> =
            theirs.executed.iter().filter(|theirs| !record.is_executed(theirs.1)).copied().collect();
        let missing = ours.executed.iter().filter(|ours| !known.contains(ours));
        let ended = theirs.open.iter().filter(|open| record.is_executed(open.1));
        let pushed: Vec<Cursor> = missing.chain(ended).copied().collect();
        let differences = lacking.iter().chain(&pushed).chain(&theirs.open);
        let agreed = differences.copied().min().unwrap_or(end).min(end);
        let ids = |cursors: Vec<Cursor>| cursors.into_iter().map(|(_, transaction)| transaction).collect();
        Differences { lacking: ids(lacking), pushed: ids(pushed), agreed, end }
    }

    /// [`Mistake::ComparesNothing`](crate::Mistake::ComparesNothing): there are none.
    pub(super) fn unless(self, ignored: bool) -> Self {
        if ignored {
            Differences { lacking: Vec::new(), pushed: Vec::new(), agreed: self.end, end: self.end }
        } else {
            self
        }
    }
}
