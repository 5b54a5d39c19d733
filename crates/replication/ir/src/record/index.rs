//! The entries of a record by timestamp, and how many of them are older than a log that is being shortened.

use std::collections::BTreeSet;

use quorate_core::{Timestamp, TransactionId};

/// A place in a record that is walked by timestamp.
pub type Cursor = (Timestamp, TransactionId);

/// How an entry stands in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    timestamp: Timestamp,
    generation: u32,
    open: bool,
}

impl Mark {
    /// Where the entry stands.
    pub(super) fn cursor(self, id: TransactionId) -> Cursor {
        (self.timestamp, id)
    }
}

/// The index of a record.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) by_timestamp: BTreeSet<Cursor>,
    /// Counts the beginnings of a log.
    generation: u32,
    /// How many entries are open.
    open: usize,
    /// How many entries are of earlier generations, and how many of these are open.
    older: usize,
    older_open: usize,
}

impl Index {
    /// An entry is new, or has changed.
    pub(super) fn update(
        &mut self,
        id: TransactionId,
        mark: &mut Option<Mark>,
        timestamp: Timestamp,
        open: bool,
    ) {
        let Some(known) = mark else {
            self.by_timestamp.insert((timestamp, id));
            self.open += usize::from(open);
            *mark = Some(Mark { timestamp, generation: self.generation, open });
            return;
        };
        if known.timestamp != timestamp {
            self.by_timestamp.remove(&(known.timestamp, id));
            self.by_timestamp.insert((timestamp, id));
            known.timestamp = timestamp;
        }
        if known.open && !open {
            self.close(known);
        }
    }

    fn close(&mut self, mark: &mut Mark) {
        mark.open = false;
        self.open -= 1;
        if mark.generation != self.generation {
            self.older_open -= 1;
        }
    }

    /// An entry is dropped.
    pub(super) fn remove(&mut self, id: TransactionId, mark: &mut Option<Mark>) {
        let Some(mut known) = mark.take() else { return };
        self.by_timestamp.remove(&(known.timestamp, id));
        if known.open {
            self.close(&mut known);
        }
        if known.generation != self.generation {
            self.older -= 1;
        }
    }

    /// A log begins anew: what is there now is older.
    pub(super) fn start_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.older = self.by_timestamp.len();
        self.older_open = self.open;
    }

    /// How many entries are older than the log.
    pub(super) fn older(&self) -> usize {
        self.older
    }

    /// How many of these are open.
    pub(super) fn older_open(&self) -> usize {
        self.older_open
    }

    /// True if the entry is older than the log.
    pub(super) fn is_older(&self, mark: Option<&Mark>) -> bool {
        mark.is_some_and(|mark| mark.generation != self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_is_counted_until_it_is_gone() {
        let id = |sequence| TransactionId { sequence, ..TransactionId::default() };
        let at = |micros| Timestamp { micros, ..Timestamp::ZERO };
        let mut index = Index::default();
        let mut marks = [None; 4];
        index.update(id(0), &mut marks[0], at(1), true);
        index.update(id(1), &mut marks[1], at(2), true);
        index.update(id(2), &mut marks[2], at(3), false);
        index.start_generation();
        index.update(id(3), &mut marks[3], at(4), true);
        assert_eq!((index.older(), index.older_open()), (3, 2));
        index.update(id(0), &mut marks[0], at(9), false);
        index.update(id(3), &mut marks[3], at(4), false);
        assert_eq!((index.older(), index.older_open()), (3, 1));
        assert!(index.is_older(marks[0].as_ref()) && !index.is_older(marks[3].as_ref()));
        index.remove(id(1), &mut marks[1]);
        index.remove(id(2), &mut marks[2]);
        assert_eq!((index.older(), index.older_open()), (1, 0));
        assert_eq!(index.by_timestamp.len(), 2);
        index.start_generation();
        assert_eq!((index.older(), index.older_open()), (2, 0));
    }
}
