//! The last changes, for watches.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::config::Limits;
use crate::entry::{Change, Revision};

/// A window of changes, one for each revision, in order.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Changes up to this revision are forgotten.
    forgotten: Revision,
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
}

impl History {
    /// No changes after a revision.
    pub(super) fn after(forgotten: Revision) -> Self {
        History { forgotten, ..History::default() }
    }

    pub(super) fn forgotten(&self) -> Revision {
        self.forgotten
    }

    pub(super) fn changes(&self) -> impl ExactSizeIterator<Item = &Arc<Change>> {
        self.changes.iter()
    }

    pub(super) fn last(&self) -> Option<&Arc<Change>> {
        self.changes.back()
    }

    /// Takes in the next change, and forgets as many as have to be.
    pub(super) fn push(&mut self, change: Change, limits: &Limits) {
        let last = self.changes.back().map_or(self.forgotten, |last| last.revision);
        assert!(change.revision > last, "the change {:?} comes after {last:?}", change.revision);
        self.restore(Arc::new(change));
        while self.changes.len() > limits.changes_max
            || self.bytes > limits.changes_bytes_max && self.changes.len() > 1
        {
            let Some(oldest) = self.changes.pop_front() else { break };
            let bytes = oldest.bytes();
            assert!(self.bytes >= bytes, "a change has {bytes} bytes, and all have {}", self.bytes);
            self.bytes -= bytes;
            self.forgotten = oldest.revision;
        }
        let first = self.changes.front().map(|first| first.revision);
        assert!(Some(self.forgotten) < first, "{:?} is forgotten, and {first:?} is not", self.forgotten);
    }

    /// Takes in the next change of a window that is known to be as large as it may be.
    pub(super) fn restore(&mut self, change: Arc<Change>) {
        self.bytes += change.bytes();
        self.changes.push_back(change);
    }

    /// Those of the changes after a revision that are not forgotten.
    pub(super) fn since(&self, after: Revision) -> impl Iterator<Item = &Arc<Change>> {
        let first = self.changes.partition_point(|change| change.revision <= after);
        self.changes.range(first..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_moves_on_and_says_what_it_has_forgotten() {
        let limits = Limits { changes_max: 3, ..Limits::DEFAULT };
        let mut history = History::default();
        for revision in 1..=5 {
            history.push(Change { revision: Revision(revision), keys: Vec::new() }, &limits);
        }
        let since =
            |after| history.since(Revision(after)).map(|change| change.revision.0).collect::<Vec<_>>();
        assert_eq!(history.forgotten(), Revision(2));
        assert_eq!(since(1), [3, 4, 5]);
        assert_eq!(since(4), [5]);
        assert_eq!(since(u64::MAX), []);
        // By bytes as well, but the last change stays.
        let limits = Limits { changes_bytes_max: 0, ..limits };
        history.push(Change { revision: Revision(6), keys: Vec::new() }, &limits);
        assert_eq!((history.forgotten(), history.changes().count()), (Revision(5), 1));
    }

    #[test]
    fn as_many_bytes_are_kept_as_may_be() {
        let change = |revision| Change { revision: Revision(revision), keys: Vec::new() };
        let three = 3 * change(1).bytes();
        for (changes_bytes_max, forgotten) in [(three, 1), (three - 1, 2)] {
            let limits = Limits { changes_bytes_max, ..Limits::DEFAULT };
            let mut history = History::default();
            (1..=4).for_each(|revision| history.push(change(revision), &limits));
            assert_eq!(history.forgotten(), Revision(forgotten), "{changes_bytes_max}");
            assert_eq!(history.changes().count() as u64, 4 - forgotten);
        }
    }
}
