//! Shortening the log: a snapshot is written into it, among the ordinary facts, and what lies before goes.
//!
//! ```text
//!   anchor, begun   …wait until what the record held has ended and is collected…   carried over, page, page, …, ended, truncate
//! ```
//!
//! The record is not written down a second time. The log is marked where a snapshot *begins*, with what is small and changes
//! both ways, such as the view. Then the replica goes on as ever, until every operation that its record held at the mark has
//! ended, and nearly all have been collected: what is left of these is their effect. That is written down, page by page,
//! together with the few that must still be remembered; then everything before the mark may go. A restart from the mark finds
//! every later operation whole, behind the mark, and the effects of the earlier ones in the pages.
//!
//! No step does more than a page. Pages are written at different times, while operations run; that does no harm, because
//! effects may be installed in any order and twice, and every operation since the anchor stands in the log as well. Below the
//! floor under which the first page was written the pages are all there is: what a restart has found below it is replaced by
//! them.
//!
//! A view change in between could replace what pages have been written from; then the snapshot is begun anew. A crash in between
//! leaves a snapshot without an end, which a restart ignores: the log before it is still there.

use quorate_core::{Key, Timestamp, View};

use super::{Fact, Host, Replica, Upcalls};
use crate::Operations;
use crate::record::Cursor;

/// At most so many operations are carried over into a snapshot.
const CARRIED_OVER_MAX: usize = 10_000;

/// A snapshot costs as much as there are keys, so it is worth it only after this many records for each: a transaction that
/// writes one leaves at least one, and two if it is voted on.
const RECORDS_PER_KEY: u64 = 4;

/// A snapshot that is being written, and when to begin the next.
#[derive(Debug)]
pub(super) struct Shortening<S> {
    run: Option<Run>,
    /// How many records stand in the log since the last snapshot was begun, without what was written until it ended.
    written: u64,
    /// Pages that a restart has read, of a snapshot whose end it has not reached yet.
    pages: Vec<S>,
}

// Derived, it would ask for the same of the pages.
impl<S> Default for Shortening<S> {
    fn default() -> Self {
        Shortening { run: None, written: 0, pages: Vec::new() }
    }
}

#[derive(Debug)]
struct Run {
    view: View,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Until all that the record held has ended, and nearly all of it is collected.
    Waiting,
    /// Facts that must still be remembered are written down again.
    CarryingOver { after: Option<Cursor>, to: Cursor },
    /// The state is written down.
    Writing { floor: Timestamp, after: Option<Key> },
}

/// The part that a record of a log plays in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It begins the snapshot.
    Begun,
    /// It means nothing unless the snapshot ends.
    Within,
    /// It ends the snapshot.
    Ended,
}

/// The records from the beginning of the last complete snapshot on; all, if there is none. Nothing is left of snapshots that
/// have no end. `mark` tells the records of snapshots from ordinary ones, for which it gives none.
pub fn since_last_snapshot<R>(mut records: Vec<R>, mark: impl Fn(&R) -> Option<Mark>) -> Vec<R> {
    let ended = records.iter().rposition(|record| mark(record) == Some(Mark::Ended));
    let begun =
        ended.and_then(|ended| records[..ended].iter().rposition(|record| mark(record) == Some(Mark::Begun)));
    records.drain(..begun.unwrap_or(0));
    let ended = ended.map_or(0, |ended| ended + 1 - begun.unwrap_or(0));
    let mut position = 0;
    records.retain(|record| {
        position += 1;
        position <= ended || mark(record).is_none()
    });
    records
}

impl<O: Operations> Replica<O> {
    /// So many records stand in the log, or more of them do, the protocol's own among them. Not only operations make a log long:
    /// an idle group looks for floors for ever.
    pub fn note_written(&mut self, records: usize) {
        self.shortening.written += records as u64;
    }

    /// Begins a snapshot once `records_min` records stand in the log, and enough for each key, or goes on with one: looks at
    /// `operations_max` operations at most, or writes a page. True if it has begun one: the protocol adds what a restart from
    /// here needs of its own.
    pub fn shorten<H: Host<O>>(&mut self, records_min: u64, operations_max: usize, host: &mut H) -> bool {
        let view = self.view;
        let Some(run) = self.shortening.run.take_if(|run| run.view == view) else {
            self.shortening.run = None;
            let worth = host.protocol().key_count() as u64 * RECORDS_PER_KEY;
            let begins = self.shortening.written >= records_min.max(worth);
            if begins {
                self.begin_snapshot(host);
            }
            return begins;
        };
        let next = match run.phase {
            Phase::Waiting if self.is_snapshot_ready() => Some(match self.record.last() {
                // All from before the mark have ended, so none of them moves beyond this any more.
                Some(to) => Phase::CarryingOver { after: None, to },
                None => Phase::Writing { floor: self.floor, after: None },
            }),
            Phase::Waiting => Some(Phase::Waiting),
            Phase::CarryingOver { after, to } => {
                Some(match self.carry_over(after, to, operations_max, host) {
                    Some(after) => Phase::CarryingOver { after: Some(after), to },
                    None => Phase::Writing { floor: self.floor, after: None },
                })
            }
            Phase::Writing { floor, after } => self.write_page(floor, after, host),
        };
        if next.is_none() {
            // Its own pages must not be what the next one is begun for.
            self.shortening.written = 0;
        }
        self.shortening.run = next.map(|phase| Run { view, phase });
        false
    }

    /// Marks the log where a snapshot begins.
    fn begin_snapshot<H: Host<O>>(&mut self, host: &mut H) {
        self.record.start_generation();
        host.anchor();
        let (view, lineage) = (self.view, self.record.lineage().to_vec());
        let (floor, complete, lives) = (self.floor, self.complete, self.lives.clone());
        host.persist(Fact::SnapshotBegun { view, lineage, floor, complete, lives });
        self.shortening.written = 0;
        self.shortening.run = Some(Run { view, phase: Phase::Waiting });
    }

    /// True once all operations from before the mark have ended, and few are still remembered.
    fn is_snapshot_ready(&self) -> bool {
        self.record.older_open() == 0 && self.record.older() <= CARRIED_OVER_MAX
    }

    /// Writes down again those from before the mark that are still remembered, beginning after `after`, up to `to`; looks at
    /// `max` transactions at most. Gives where to go on, if there is more. What comes meanwhile lies above `to`, nearly all
    /// of it, or no number of pages would ever reach the end.
    fn carry_over<H: Host<O>>(
        &self,
        after: Option<Cursor>,
        to: Cursor,
        max: usize,
        host: &mut H,
    ) -> Option<Cursor> {
        let (ended, next) = self.record.older_ended(after, to, max);
        for (transaction, operation) in ended {
            let operation = operation.clone();
            host.persist(Fact::InconsistentRecorded { transaction, operation, executed: true });
        }
        next
    }

    /// Writes a page of the state; after the last one, ends the snapshot and gives up the log before it.
    fn write_page<H: Host<O>>(&self, floor: Timestamp, after: Option<Key>, host: &mut H) -> Option<Phase> {
        let (state, last) = host.protocol().next_page(after.as_ref(), self.page_bytes_max);
        host.persist(Fact::SnapshotPage(state));
        if last.is_some() {
            return Some(Phase::Writing { floor, after: last });
        }
        host.persist(Fact::SnapshotEnded { floor });
        host.truncate();
        None
    }

    /// Takes back a page while the machine is rebuilt.
    pub(super) fn restore_page(&mut self, state: O::State) {
        self.shortening.pages.push(state);
    }

    /// Takes back a complete snapshot: its pages take the place of what was found below the floor.
    pub(super) fn restore_snapshot<P: Upcalls<O>>(&mut self, floor: Timestamp, protocol: &mut P) {
        protocol.forget_state_below(floor);
        for state in std::mem::take(&mut self.shortening.pages) {
            protocol.install_state(&state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter a record: `i` initialised, `v` a view entered, `b` begun, `p` a page, `e` ended.
    fn mark(letter: &char) -> Option<Mark> {
        match letter {
            'b' => Some(Mark::Begun),
            'p' => Some(Mark::Within),
            'e' => Some(Mark::Ended),
            _ => None,
        }
    }

    #[test]
    fn a_restart_begins_at_the_last_complete_snapshot() {
        let table = [
            ("ivv", "ivv"),
            ("ivbvpv", "ivvv"),
            ("ivbvpve", "bvpve"),
            ("vbpevbvpevv", "bvpevv"),
            ("vbvbpe", "bpe"),
            ("vbpevbvp", "bpevv"),
            ("pvevbpe", "bpe"),
        ];
        for (log, expected) in table {
            let kept: String = since_last_snapshot(log.chars().collect(), mark).into_iter().collect();
            assert_eq!(kept, expected, "{log}");
        }
    }
}
