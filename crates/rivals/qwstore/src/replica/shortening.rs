//! How the log is shortened: a snapshot is written into it, among the ordinary records, and what lies before goes.
//!
//! ```text
//!   anchor, begun   …wait until what the record held is collected…   carried over, page, page, …, ended, truncate
//! ```
//!
//! No step does more than a page. Pages are written at different times, while puts arrive; that does no harm, because versions
//! may be installed in any order and twice, and every put since the anchor stands in the log as well. Below the floor under
//! which the first page was written the pages are all there is: what a restart has found below it is replaced by them.
//!
//! A view change in between could replace what pages have been written from; then it is begun anew. A crash in between
//! leaves a snapshot without an end, which a restart ignores: the log before it is still there.

use quorate_core::machine::OutboxOf;
use quorate_core::transaction::KeyVersion;
use quorate_core::{Context, Key, Timestamp, View};
use quorate_ir::Cursor;

use super::Replica;
use crate::message::StatePage;
use crate::record::Record;

/// A snapshot that is being written, and when to begin the next.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    run: Option<Run>,
    /// How many records stand in the log since the last snapshot was begun, without what was written until it ended.
    written: u64,
    /// Pages that a restart has read, of a snapshot whose end it has not reached yet.
    pub(super) pages: Vec<StatePage>,
}

#[derive(Debug)]
struct Run {
    view: View,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Until nearly everything that the record held has been collected.
    Waiting,
    /// What must still be remembered is written down again.
    CarryingOver { after: Option<Cursor>, to: Cursor },
    /// The versions are written down.
    Writing { floor: Timestamp, after: Option<Key> },
}

/// At most so many puts are carried over into a snapshot.
const CARRIED_OVER_MAX: usize = 10_000;

/// A snapshot costs as much as there are keys, so it is worth it only after this many records for each.
const RECORDS_PER_KEY: u64 = 4;

/// The records from the beginning of the last complete snapshot on; all, if there is none.
pub(super) fn since_last(mut records: Vec<Record>) -> Vec<Record> {
    let ended = records.iter().rposition(|record| matches!(record, Record::SnapshotEnded { .. }));
    let begun = ended.and_then(|ended| {
        records[..ended].iter().rposition(|record| matches!(record, Record::SnapshotBegun { .. }))
    });
    records.drain(..begun.unwrap_or(0));
    let ended = ended.map_or(0, |ended| ended + 1 - begun.unwrap_or(0));
    let is_unfinished =
        |record: &Record| matches!(record, Record::SnapshotBegun { .. } | Record::SnapshotPage { .. });
    let mut position = 0;
    records.retain(|record| {
        position += 1;
        position <= ended || !is_unfinished(record)
    });
    records
}

impl Snapshots {
    /// So many records stand in the log, or more of them do. Not only puts make a log long: an idle group looks for floors for
    /// ever.
    pub(super) fn note_written(&mut self, records: usize) {
        self.written += records as u64;
    }
}

impl Replica {
    /// Begins a snapshot, or writes a page of it.
    pub(super) fn sweep_snapshot(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        if self.snapshots.run.as_ref().is_some_and(|run| run.view != self.ir.view()) {
            self.snapshots.run = None;
        }
        let view = self.ir.view();
        let Some(run) = &self.snapshots.run else {
            let keys = self.store.versions.len() as u64;
            let wanted = self.config.snapshot_records_min.max(keys * RECORDS_PER_KEY);
            if self.snapshots.written >= wanted {
                self.snapshots.written = 0;
                self.with_desk(context.random, outbox, |ir, desk| ir.begin_snapshot(desk));
                self.snapshots.run = Some(Run { view, phase: Phase::Waiting });
            }
            return;
        };
        let writing = Phase::Writing { floor: self.store.floor, after: None };
        let next = match run.phase.clone() {
            Phase::Waiting if self.ir.is_snapshot_ready(CARRIED_OVER_MAX) => {
                Some(match self.ir.carried_over_to() {
                    Some(to) => Phase::CarryingOver { after: None, to },
                    None => writing,
                })
            }
            Phase::Waiting => Some(Phase::Waiting),
            Phase::CarryingOver { after, to } => {
                let max = self.config.floor_page_max;
                let mut next = None;
                self.with_desk(context.random, outbox, |ir, desk| next = ir.carry_over(after, to, max, desk));
                Some(match next {
                    Some(after) => Phase::CarryingOver { after: Some(after), to },
                    None => writing,
                })
            }
            Phase::Writing { floor, after } => self.write_page(floor, after, outbox),
        };
        if next.is_none() {
            // Its own pages must not be what the next one is begun for.
            self.snapshots.written = 0;
        }
        self.snapshots.run = next.map(|phase| Run { view, phase });
    }

    /// Writes a page of versions; after the last one, ends the snapshot and gives up the log before it.
    fn write_page(&self, floor: Timestamp, after: Option<Key>, outbox: &mut OutboxOf<Self>) -> Option<Phase> {
        let (mut state, mut bytes) = (StatePage::default(), 0);
        let mut last: Option<Key> = None;
        for (key, version) in self.store.versions.after(after.as_ref()) {
            let begins = last.as_ref() != Some(key);
            if begins && bytes >= self.config.page_bytes_max {
                outbox.persist(Record::SnapshotPage { state });
                return Some(Phase::Writing { floor, after: last });
            }
            bytes += key.len() + version.value.as_ref().map_or(0, |value| value.len());
            let (version, value) = (version.timestamp, version.value.clone());
            state.versions.push(KeyVersion { key: key.clone(), version, value });
            if begins {
                last = Some(key.clone());
            }
        }
        outbox.persist(Record::SnapshotPage { state });
        outbox.persist(Record::SnapshotEnded { floor });
        outbox.truncate();
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::message::Supplement;

    /// One letter a record: `i` initialised, `v` a view entered, `b` begun, `p` a page, `e` ended.
    fn records(text: &str) -> Vec<Record> {
        let record = |letter| match letter {
            'i' => Record::Initialised,
            'v' => Record::ViewEntered { view: View(1) },
            'b' => Record::SnapshotBegun {
                view: View(0),
                lineage: Vec::new(),
                floor: Timestamp::ZERO,
                complete: Timestamp::ZERO,
                lives: BTreeMap::new(),
                supplement: Supplement::default(),
            },
            'p' => Record::SnapshotPage { state: StatePage::default() },
            'e' => Record::SnapshotEnded { floor: Timestamp::ZERO },
            _ => panic!("no such record: {letter}"),
        };
        text.chars().map(record).collect()
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
            assert_eq!(since_last(records(log)), records(expected), "{log}");
        }
    }
}
