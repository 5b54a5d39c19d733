//! How the log of a member is shortened: a snapshot is written into it, among the ordinary records, and what lies before goes.
//!
//! ```text
//!   anchor, begun   …wait until what was open has ended and is collected…   carried over, page, page, …, ended, truncate
//! ```
//!
//! No step does more than a page, unless more is logged meanwhile: then pages keep up with it, so that the log is bounded by what is stored. Pages are written at different times, while operations run; that does no harm, because
//! versions may be installed in any order and twice, and every operation since the anchor stands in the log as well. Below the
//! floor under which the first page was written the pages are all there is: what a restart has found below it is replaced by
//! them.
//!
//! A view change in between could replace what pages have been written from; then it is begun anew. A crash in between
//! leaves a snapshot without an end, which a restart ignores: the log before it is still there.

use quorate_core::machine::OutboxOf;
use quorate_core::{Context, Key, Timestamp, View};

use super::{Member, Parts};
use crate::{Cursor, Fact, Operations, Upcalls};

/// A snapshot that is being written, and when to begin the next.
#[derive(Debug, Default)]
pub(super) struct Shortening {
    run: Option<Run>,
    /// How much stands in the log since the last snapshot was begun, without its own records: each record counts as one, and a large one as one more
    /// for each [`RECORD_BYTES`].
    written: u64,
    /// So many of the records of this step are those of a snapshot.
    own: u64,
    /// How many bytes of facts were written since the last snapshot was begun.
    bytes: u64,
    /// How many bytes of pages the last complete snapshot had.
    state_bytes: u64,
    /// How many the present one has so far.
    page_bytes: u64,
}

#[derive(Debug)]
struct Run {
    view: View,
    phase: Phase,
    /// How much stood in the log when it was begun: nothing of that goes before it is complete.
    due: u64,
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

/// At most so many transactions are carried over into a snapshot,
const CARRIED_OVER_MAX: usize = 10_000;

/// and at most so many bytes of them.
const CARRIED_OVER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A snapshot costs as much as there are keys, so it is worth it only after this many records for each.
const RECORDS_PER_KEY: u64 = 1;

/// A record of so many bytes is as long as one is reckoned to be.
const RECORD_BYTES: u64 = 320;

/// Pages of a snapshot lag behind what is logged meanwhile by so many bytes at most,
const LAG_BYTES_MAX: u64 = 1024 * 1024;

/// unless that would be more than so many bytes in one step.
const STEP_BYTES_MAX: u64 = 16 * 1024 * 1024;

impl Shortening {
    /// So many records stand in the log, or more of them do. Not only operations make a log long: an idle group looks for floors
    /// for ever.
    pub(super) fn note_written(&mut self, records: usize) {
        self.written += (records as u64).saturating_sub(std::mem::take(&mut self.own));
    }

    /// The snapshot that is being written, unless it was begun in another view than the present one: then all that it was begun for is
    /// due again.
    fn take_run(&mut self, view: View) -> Option<Run> {
        let run = self.run.take()?;
        if run.view == view {
            return Some(run);
        }
        self.written += run.due;
        None
    }

    /// One of them has so many bytes.
    pub(super) fn note_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.written += bytes as u64 / RECORD_BYTES;
    }

    /// A page of a snapshot stands in the log.
    pub(super) fn note_page(&mut self, bytes: usize) {
        self.page_bytes += bytes as u64;
    }

    /// A snapshot is complete.
    pub(super) fn note_ended(&mut self) {
        self.state_bytes = std::mem::take(&mut self.page_bytes);
    }

    /// A record was read back; if it is not the protocol's own, with this fact.
    pub(super) fn note_restored<O: Operations>(&mut self, fact: Option<&Fact<O>>) {
        self.note_written(1);
        match fact {
            Some(Fact::SnapshotPage { state, .. }) => self.note_page(O::state_bytes(state)),
            Some(Fact::SnapshotEnded(_)) => self.note_ended(),
            Some(fact) => self.note_bytes(fact.bytes()),
            None => {}
        }
    }

    /// True if a page is due besides one that was written in this step, which has had so many bytes so far.
    fn is_behind(&self, step_bytes: u64) -> bool {
        self.page_bytes + LAG_BYTES_MAX < self.bytes && step_bytes < STEP_BYTES_MAX
    }
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
    let next = match shortening.take_run(view) {
        Some(Run { phase, due, .. }) => {
            let (written, emitted) = (shortening.written, outbox.effects().len());
            let next = go_on_from(member, phase, context, outbox).map(|phase| Run { view, phase, due });
            // Its own records must not be what the next one is begun for.
            let shortening = &mut member.parts().state.shortening;
            shortening.written = written;
            shortening.own += (outbox.effects().len() - emitted) as u64;
            next
        }
        None if shortening.written >= records_max(member) => {
            let shortening = &mut member.parts().state.shortening;
            let due = std::mem::take(&mut shortening.written);
            (shortening.bytes, shortening.page_bytes) = (0, 0);
            member.with_desk(context.random, outbox, |ir, desk| ir.begin_snapshot(desk));
            member.on_snapshot_begun(outbox);
            Some(Run { view, phase: Phase::Waiting, due })
        }
        None => None,
    };
    member.parts().state.shortening.run = next;
}

/// A snapshot begins after so many records: after as much, at least, as it will add itself.
fn records_max<O: Operations, M: Member<O>>(member: &mut M) -> u64 {
    let Parts { protocol, state, .. } = member.parts();
    let keys = M::keys(protocol) as u64 * RECORDS_PER_KEY;
    state.settings.snapshot_records_min.max(keys).max(state.shortening.state_bytes / RECORD_BYTES)
}

/// Goes on with a snapshot: does not pause between two phases, unless much was written in the first. None once it is complete.
fn go_on_from<O: Operations, M: Member<O>>(
    member: &mut M,
    mut phase: Phase,
    context: &mut Context<'_>,
    outbox: &mut OutboxOf<M>,
) -> Option<Phase> {
    let before = member.parts().state.shortening.bytes;
    loop {
        let kind = std::mem::discriminant(&phase);
        let next = go_on(member, phase, context, outbox)?;
        let is_much = member.parts().state.shortening.bytes - before > LAG_BYTES_MAX;
        if std::mem::discriminant(&next) == kind || is_much {
            return Some(next);
        }
        phase = next;
    }
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
        Phase::Waiting if ir.is_snapshot_ready(CARRIED_OVER_MAX, CARRIED_OVER_BYTES_MAX) => {
            Some(match ir.carried_over_to() {
                Some(to) => Phase::CarryingOver { after: None, to },
                None => writing,
            })
        }
        Phase::Waiting => Some(Phase::Waiting),
        Phase::CarryingOver { after, to } => {
            let mut next = None;
            member.with_desk(context.random, outbox, |ir, desk| next = ir.carry_over(after, to, max, desk));
            Some(match next {
                Some(after) => Phase::CarryingOver { after: Some(after), to },
                None => writing,
            })
        }
        Phase::Writing { floor, after } => write_pages(member, floor, after, outbox),
    }
}

/// Writes a page of versions, or as many as it takes to keep up with what is logged; after the last one, ends the snapshot and gives up the log before
/// it.
fn write_pages<O: Operations, M: Member<O>>(
    member: &mut M,
    floor: Timestamp,
    mut after: Option<Key>,
    outbox: &mut OutboxOf<M>,
) -> Option<Phase> {
    let Parts { protocol, state, .. } = member.parts();
    let mut step_bytes = 0;
    loop {
        // Versions at the floor or above stand behind the anchor, or were carried over.
        let (page, next) = protocol.state_after(after.as_ref(), floor, state.settings.page_bytes_max);
        assert!(next.is_none() || next > after, "a snapshot goes on from {after:?} to {next:?}");
        let bytes = O::state_bytes(&page);
        state.shortening.note_page(bytes);
        step_bytes += bytes as u64;
        outbox.persist(Fact::SnapshotPage { state: page, below: Some(floor) }.into());
        if next.is_none() {
            break;
        }
        if !state.shortening.is_behind(step_bytes) {
            return Some(Phase::Writing { floor, after: next });
        }
        after = next;
    }
    state.shortening.note_ended();
    let now = protocol.bounds().floor;
    assert!(floor <= now, "a snapshot from below {floor} on ends where the floor is {now}");
    outbox.persist(Fact::SnapshotEnded(floor).into());
    outbox.truncate();
    None
}
