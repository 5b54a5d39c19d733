//! How the log of a member is shortened: a snapshot is written into it, among the ordinary records, and what lies before goes.
//!
//! ```text
//!   anchor, begun   …wait until what was open has ended and is collected…   carried over, page, page, …, ended, truncate
//! ```
//!
//! No step does more than a page. Pages are written at different times, while operations run; that does no harm, because
//! versions may be installed in any order and twice, and every operation since the anchor stands in the log as well. Below the
//! floor under which the first page was written the pages are all there is: what a restart has found below it is replaced by
//! them.
//!
//! A view change in between could replace what pages have been written from; then it is begun anew. A crash in between
//! leaves a snapshot without an end, which a restart ignores: the log before it is still there.

use quorate_core::machine::OutboxOf;
use quorate_core::{Context, Key, Timestamp, View};

use super::{Kept, Member, Parts};
use crate::{Cursor, Fact, Operations, Upcalls};

/// A snapshot that is being written, and when to begin the next.
#[derive(Debug, Default)]
pub(super) struct Shortening {
    run: Option<Run>,
    /// How many records stand in the log since the last snapshot was begun, without what was written until it ended.
    written: u64,
}

#[derive(Debug)]
struct Run {
    view: View,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Until everything that the record held has ended, and nearly all of it is collected.
    Waiting,
    /// Facts that must still be remembered are written down again.
    CarryingOver { after: Option<Cursor>, to: Cursor },
    /// The versions are written down.
    Writing { floor: Timestamp, after: Option<Key> },
}

/// At most so many transactions are carried over into a snapshot.
const CARRIED_OVER_MAX: usize = 10_000;

/// A snapshot costs as much as there are keys, so it is worth it only after this many records for each: a transaction that
/// writes one leaves at least one, and two if it is voted on.
const RECORDS_PER_KEY: u64 = 4;

impl Shortening {
    /// So many records stand in the log, or more of them do. Not only operations make a log long: an idle group looks for floors
    /// for ever.
    pub(super) fn note_written(&mut self, records: usize) {
        self.written += records as u64;
    }
}

/// The records from the beginning of the last complete snapshot on; all, if there is none. `belongs` tells which of a protocol's own
/// belong to the beginning of a snapshot.
pub(super) fn since_last<O: Operations, R>(
    mut records: Vec<Kept<O, R>>,
    belongs: impl Fn(&R) -> bool,
) -> Vec<Kept<O, R>> {
    let ended = records.iter().rposition(|record| matches!(record, Ok(Fact::SnapshotEnded(_))));
    let begun = ended.and_then(|ended| {
        records[..ended].iter().rposition(|record| matches!(record, Ok(Fact::SnapshotBegun { .. })))
    });
    records.drain(..begun.unwrap_or(0));
    let ended = ended.map_or(0, |ended| ended + 1 - begun.unwrap_or(0));
    let is_unfinished = |record: &Kept<O, R>| match record {
        Ok(fact) => matches!(fact, Fact::SnapshotBegun { .. } | Fact::SnapshotPage(_)),
        Err(own) => belongs(own),
    };
    let mut position = 0;
    records.retain(|record| {
        position += 1;
        position <= ended || !is_unfinished(record)
    });
    records
}

/// Begins a snapshot, or writes a page of it.
pub(super) fn sweep<O: Operations, M: Member<O>>(
    member: &mut M,
    context: &mut Context<'_>,
    outbox: &mut OutboxOf<M>,
) {
    let view = member.ir().view();
    let Parts { state, .. } = member.parts();
    let shortening = &mut state.shortening;
    let run = shortening.run.take().filter(|run| run.view == view);
    let next = match run {
        Some(Run { phase, .. }) => {
            let next = go_on(member, phase, context, outbox);
            if next.is_none() {
                // Its own pages must not be what the next one is begun for.
                member.parts().state.shortening.written = 0;
            }
            next
        }
        None if shortening.written >= records_max(member) => {
            member.parts().state.shortening.written = 0;
            member.with_desk(context.random, outbox, |ir, desk| ir.begin_snapshot(desk));
            member.on_snapshot_begun(outbox);
            Some(Phase::Waiting)
        }
        None => None,
    };
    member.parts().state.shortening.run = next.map(|phase| Run { view, phase });
}

/// A snapshot begins after so many records.
fn records_max<O: Operations, M: Member<O>>(member: &mut M) -> u64 {
    let Parts { protocol, state, .. } = member.parts();
    state.settings.snapshot_records_min.max(M::keys(protocol) as u64 * RECORDS_PER_KEY)
}

/// Does a page of a snapshot. None once it is complete.
fn go_on<O: Operations, M: Member<O>>(
    member: &mut M,
    phase: Phase,
    context: &mut Context<'_>,
    outbox: &mut OutboxOf<M>,
) -> Option<Phase> {
    let Parts { ir, protocol, state } = member.parts();
    let writing = Phase::Writing { floor: protocol.bounds().floor, after: None };
    let max = state.settings.search.page_max;
    match phase {
        Phase::Waiting if ir.is_snapshot_ready(CARRIED_OVER_MAX) => Some(match ir.carried_over_to() {
            Some(to) => Phase::CarryingOver { after: None, to },
            None => writing,
        }),
        Phase::Waiting => Some(Phase::Waiting),
        Phase::CarryingOver { after, to } => {
            let mut next = None;
            member.with_desk(context.random, outbox, |ir, desk| next = ir.carry_over(after, to, max, desk));
            Some(match next {
                Some(after) => Phase::CarryingOver { after: Some(after), to },
                None => writing,
            })
        }
        Phase::Writing { floor, after } => write_page(member, floor, after, outbox),
    }
}

/// Writes a page of versions; after the last one, ends the snapshot and gives up the log before it.
fn write_page<O: Operations, M: Member<O>>(
    member: &mut M,
    floor: Timestamp,
    after: Option<Key>,
    outbox: &mut OutboxOf<M>,
) -> Option<Phase> {
    let Parts { protocol, state, .. } = member.parts();
    let (page, next) = protocol.state_after(after.as_ref(), state.settings.page_bytes_max);
    outbox.persist(Fact::SnapshotPage(page).into());
    if next.is_some() {
        return Some(Phase::Writing { floor, after: next });
    }
    outbox.persist(Fact::SnapshotEnded(floor).into());
    outbox.truncate();
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tests::Words;

    type Letters = Kept<Words, char>;

    /// One letter a record: `i` initialised, `v` a view entered, `b` begun, `p` a page, `e` ended; a digit is a record of the
    /// protocol, an even one belongs to the beginning of a snapshot.
    fn records(text: &str) -> Vec<Letters> {
        let record = |letter| match letter {
            'i' => Ok(Fact::Initialised),
            'v' => Ok(Fact::ViewEntered(View(1))),
            'b' => Ok(Fact::SnapshotBegun {
                view: View(0),
                lineage: Vec::new(),
                floor: Timestamp::ZERO,
                complete: Timestamp::ZERO,
                lives: BTreeMap::new(),
                supplement: (),
            }),
            'p' => Ok(Fact::SnapshotPage(())),
            'e' => Ok(Fact::SnapshotEnded(Timestamp::ZERO)),
            own => Err(own),
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
            ("i1b2p3", "i13"),
            ("i1b2p3e4", "b2p3e"),
        ];
        for (log, expected) in table {
            let belongs = |own: &char| own.to_digit(10).is_some_and(|digit| digit % 2 == 0);
            assert_eq!(since_last(records(log), belongs), records(expected), "{log}");
        }
    }
}
