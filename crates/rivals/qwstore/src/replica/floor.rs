//! Comparing what replicas hold, and finding a floor below which records and old versions can be collected. Why a floor is
//! safe is told in [`quorate_ir::replica::floor`].
//!
//! ```text
//!   leader    Gather(below, from) → all       durably refuse new puts below; answer with a page of those that are held
//!   leader    compare page by page            fetch what it lacks, push what the other lacks
//!   leader    Complete(below) → the alike     durably
//!   leader    RaiseFloor                      once f + 1 are: raise the floor, collect
//! ```
//!
//! A put that was acknowledged is held by f + 1 replicas, and f + 1 have refused new ones below before they said what they
//! hold: one of them holds it, so all that are complete do. A put that only a few hold, because its client died, spreads in
//! the same way.
//!
//! The leader of the view does it because somebody has to; if its floor does not move for too long the next replica tries as
//! well, which does no harm: floors need no order.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::machine::OutboxOf;
use quorate_core::{ClientId, Context, Instant, ReplicaId, ReplicaIndex, Timestamp, TransactionId, View};
use quorate_ir::{Cursor, Status, Summary};

use super::Replica;
use crate::message::Message;
use crate::record::Record;
use crate::rules::Plant;

/// A search for a floor that is under way, and when to begin the next.
#[derive(Debug, Default)]
pub(super) struct Floors {
    run: Option<Run>,
    /// The floor when it was last seen to move, and when that was.
    moved: Option<(Timestamp, Instant)>,
    /// True if the others have collected what this replica does not hold.
    is_behind: bool,
    /// Until then no view is changed for that reason, in case it is the others who cannot be reached.
    next_view_change: Instant,
}

/// A search for a floor.
#[derive(Debug)]
struct Run {
    view: View,
    /// Where the floor may come to lie.
    below: Timestamp,
    began: Instant,
    /// For each other replica: below here it holds what this one holds, and the other way round.
    compared: Vec<Cursor>,
    /// The replicas that have answered, and so refuse puts below.
    refusing: Vec<bool>,
    /// Once it is chosen: the floor, and the replicas that are complete below it.
    chosen: Option<(Timestamp, Vec<bool>)>,
}

/// The place before everything at or above a timestamp.
fn start_of(timestamp: Timestamp) -> Cursor {
    (timestamp, TransactionId::default())
}

/// Puts to be pushed or fetched at once.
const PUTS_MAX: usize = 128;

/// So many puts and keys are looked at, to collect them, with each put that arrives: more than one, so that more is dropped than
/// comes.
pub(super) const COLLECTED_WITH_PUT_MAX: usize = 4;

/// So many are looked at when nothing arrives.
pub(super) const COLLECTED_AT_REST_MAX: usize = 4_096;

/// A search that takes so many times the patience is given up, and begun anew with a later floor.
const PATIENCES_MAX: u32 = 4;

/// Between two view changes of a replica that is behind lie so many time-outs.
const TIMEOUTS_BETWEEN: u32 = 16;

impl Run {
    /// A put has come that the others may not have been compared for.
    fn step_back(&mut self, late: Timestamp) {
        let to = start_of(late);
        for compared in &mut self.compared {
            *compared = (*compared).min(to);
        }
    }

    /// The greatest place below which `count` replicas, `me` among them, hold the same.
    fn compared_by(&self, me: ReplicaIndex, count: usize) -> Cursor {
        let mut all = self.compared.clone();
        all[usize::from(me.0)] = start_of(self.below);
        all.sort_unstable_by(|one, other| other.cmp(one));
        all[count - 1]
    }
}

impl Floors {
    /// True if it is time to change the view, because the others have collected what this replica lacks.
    pub(super) fn is_behind(&mut self, now: Instant, timeout: Duration) -> bool {
        if !self.is_behind || now < self.next_view_change {
            return false;
        }
        self.is_behind = false;
        self.next_view_change = now + timeout * TIMEOUTS_BETWEEN;
        true
    }
}

impl Replica {
    /// Drops some of what the floor makes superfluous; looks at `max` puts and keys at most. True if more is left to do.
    pub(super) fn collect(&mut self, max: usize) -> bool {
        if self.config.rules.has(Plant::CollectsNothing) {
            return false;
        }
        let more_versions = self.store.versions.collect(self.store.floor, max);
        self.ir.collect(max) || more_versions
    }

    /// Begins, repeats or gives up the search for a floor.
    pub(super) fn sweep_floor(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.collect(COLLECTED_AT_REST_MAX);
        let now = context.now;
        let floor = self.ir.floor();
        let moved = self.floors.moved.filter(|(known, _)| *known == floor);
        let (_, moved_at) = *self.floors.moved.insert(moved.unwrap_or((floor, now)));
        let limit = self.config.floor_patience * PATIENCES_MAX;
        let view = self.ir.view();
        let is_over = |run: &Run| run.view != view || now - run.began >= limit || run.below <= floor;
        if self.floors.run.as_ref().is_some_and(is_over) {
            self.floors.run = None;
        }
        if self.floors.run.is_none() {
            let n = self.config.group.replicas() as u64;
            let turn = (u64::from(self.config.replica.index.0) + n - view.0 % n) % n;
            let wait = self.config.floor_interval * (turn as u32 + 1);
            if now - moved_at >= wait {
                self.begin_floor(context, outbox);
            }
        }
        self.send_gathers(outbox);
        if self.floors.run.as_ref().is_some_and(|run| run.chosen.is_some()) {
            self.send_complete(outbox);
        }
        self.advance_floor(context, outbox);
    }

    fn begin_floor(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        let lag = self.config.floor_lag.as_micros() as u64;
        let micros = context.clock.as_micros().saturating_sub(lag);
        let below = Timestamp { micros, client: ClientId(0) };
        let floor = self.ir.floor();
        if below <= floor {
            return;
        }
        if self.config.rules.has(Plant::CollectsAlone) {
            self.with_desk(context.random, outbox, |ir, desk| ir.raise_floor(below, desk));
            return;
        }
        let n = self.config.group.replicas();
        self.store.late = None;
        // Others are compared before this replica refuses anything: it follows them.
        if !self.config.rules.has(Plant::ComparesOnce) {
            self.store.gathering = below;
        }
        self.floors.run = Some(Run {
            view: self.ir.view(),
            below,
            began: context.now,
            compared: vec![start_of(floor); n],
            refusing: vec![false; n],
            chosen: None,
        });
    }

    /// Asks each replica that has not been compared to the end.
    fn send_gathers(&self, outbox: &mut OutboxOf<Self>) {
        let Some(run) = self.floors.run.as_ref().filter(|run| run.chosen.is_none()) else { return };
        for index in self.others() {
            let at = usize::from(index.0);
            if run.compared[at] < start_of(run.below) || !run.refusing[at] {
                self.send_gather(run, index, outbox);
            }
        }
    }

    fn others(&self) -> impl Iterator<Item = ReplicaIndex> + use<> {
        let (n, me) = (self.config.group.replicas() as u8, self.config.replica.index);
        (0..n).map(ReplicaIndex).filter(move |index| *index != me)
    }

    fn send_gather(&self, run: &Run, to: ReplicaIndex, outbox: &mut OutboxOf<Self>) {
        let from = run.compared[usize::from(to.0)];
        let (view, floor, below) = (run.view, self.ir.floor(), run.below);
        self.send_to_peer(to, Message::Gather { view, floor, below, from }, outbox);
    }

    fn send_to_peer(&self, to: ReplicaIndex, message: Message, outbox: &mut OutboxOf<Self>) {
        outbox.send(ReplicaId { shard: self.config.replica.shard, index: to }, message);
    }

    /// A message of the search for a floor, from another replica of the group.
    pub(super) fn on_floor_message(
        &mut self,
        from: ReplicaIndex,
        message: Message,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        match message {
            Message::Gather { view, floor, below, from: cursor } if view == self.ir.view() => {
                self.on_gather(from, floor, below, cursor, context, outbox);
            }
            Message::GatherReply { view, below, from: cursor, held, next } => {
                let summary = Summary { executed: held, open: Vec::new(), next };
                self.on_gather_reply(from, view, below, cursor, &summary, context, outbox);
            }
            Message::FetchPuts { puts } => self.send_puts(from, &puts, outbox),
            Message::Puts { puts } => {
                for (put, operation) in puts {
                    // Whoever is complete holds all that was acknowledged. What it lacks was not, and who is complete as well may
                    // have collected what lies around it already.
                    if operation.timestamp < self.ir.complete() {
                        continue;
                    }
                    self.with_desk(context.random, outbox, |ir, desk| ir.learn(put, operation, desk));
                }
                self.advance_floor(context, outbox);
            }
            Message::Complete { view, below } if view == self.ir.view() => {
                self.complete_below(below, context, outbox);
                self.send_to_peer(from, Message::CompleteReply { view, below }, outbox);
            }
            Message::CompleteReply { view, below } => {
                self.on_complete_reply(from, view, below, context, outbox);
            }
            Message::RaiseFloor { floor } => self.raise_floor(floor, context, outbox),
            _ => {}
        }
    }

    fn on_gather(
        &mut self,
        from: ReplicaIndex,
        floor: Timestamp,
        below: Timestamp,
        cursor: Cursor,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        self.raise_floor(floor, context, outbox);
        if self.ir.complete() < floor {
            return;
        }
        let own = self.ir.floor();
        if floor < own {
            // What lies below its own floor may have been collected here, and would look as if it had never been.
            self.send_to_peer(from, Message::RaiseFloor { floor: own }, outbox);
            return;
        }
        // A clock far ahead of this one must not drag the group along.
        let allowed = context.clock.saturating_add(self.config.timestamp_ahead_max / 2);
        if below.micros > allowed.as_micros() {
            return;
        }
        self.refuse_below(below, outbox);
        let Summary { executed: held, next, .. } =
            self.ir.record().summary(cursor, start_of(below), self.config.floor_page_max);
        let view = self.ir.view();
        self.send_to_peer(from, Message::GatherReply { view, below, from: cursor, held, next }, outbox);
    }

    /// From now on refuses new puts below, durably, before anything is said of what is held below.
    fn refuse_below(&mut self, below: Timestamp, outbox: &mut OutboxOf<Self>) {
        if below > self.store.refusal {
            self.store.refuse_below(below);
            outbox.persist(Record::Refusing { below });
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    fn on_gather_reply(
        &mut self,
        from: ReplicaIndex,
        view: View,
        below: Timestamp,
        cursor: Cursor,
        theirs: &Summary,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        self.step_back_floor();
        let Some(run) = &mut self.floors.run else { return };
        let index = usize::from(from.0);
        if run.view != view || run.below != below || run.chosen.is_some() {
            return;
        }
        run.refusing[index] = true;
        if run.compared[index] != cursor {
            return;
        }
        let record = self.ir.record();
        let end = theirs.next.unwrap_or(start_of(below));
        let ours = record.summary(cursor, end, self.config.floor_page_max);
        let end = ours.next.unwrap_or(end);
        let known: BTreeSet<&Cursor> = theirs.executed.iter().collect();
        let lacking: Vec<Cursor> =
            theirs.executed.iter().filter(|theirs| !record.is_executed(theirs.1)).copied().collect();
        let pushed: Vec<Cursor> =
            ours.executed.iter().filter(|ours| !known.contains(ours)).copied().collect();
        let compares = !self.config.rules.has(Plant::NobodyCompares);
        let differences = lacking.iter().chain(&pushed).filter(|_| compares);
        let agreed = differences.copied().min().unwrap_or(end).min(end);
        run.compared[index] = agreed;
        let goes_on = agreed == end && end < start_of(below);
        if compares {
            for page in pushed.chunks(PUTS_MAX) {
                let puts: Vec<TransactionId> = page.iter().map(|(_, put)| *put).collect();
                self.send_puts(from, &puts, outbox);
            }
            for page in lacking.chunks(PUTS_MAX) {
                let puts = page.iter().map(|(_, put)| *put).collect();
                self.send_to_peer(from, Message::FetchPuts { puts }, outbox);
            }
        }
        if goes_on && let Some(run) = &self.floors.run {
            self.send_gather(run, from, outbox);
        }
        self.advance_floor(context, outbox);
    }

    /// Sends another replica puts that are held here.
    fn send_puts(&self, to: ReplicaIndex, wanted: &[TransactionId], outbox: &mut OutboxOf<Self>) {
        let (mut puts, mut bytes) = (Vec::new(), 0);
        for put in wanted.iter().take(PUTS_MAX) {
            let Some(known) = self.ir.record().inconsistent(*put) else { continue };
            bytes += known.operation.bytes();
            // What does not fit is asked for again, or pushed again.
            if !puts.is_empty() && bytes > self.config.page_bytes_max {
                break;
            }
            puts.push((*put, known.operation.clone()));
        }
        if !puts.is_empty() {
            self.send_to_peer(to, Message::Puts { puts }, outbox);
        }
    }

    /// Takes note of what has come late, so that it is compared once more.
    fn step_back_floor(&mut self) {
        if let Some(late) = self.store.late.take()
            && let Some(run) = &mut self.floors.run
        {
            run.step_back(late);
        }
    }

    /// Goes on with the search as far as the answers allow.
    fn advance_floor(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.step_back_floor();
        let (group, me) = (self.config.group, self.config.replica.index);
        let Some(run) = &self.floors.run else { return };
        if run.view != self.ir.view() || run.chosen.is_some() {
            return;
        }
        // Its own clock may be the wild one, so this replica follows f others.
        if run.refusing.iter().filter(|refusing| **refusing).count() < group.failures() {
            return;
        }
        let below = run.below;
        self.refuse_below(below, outbox);
        let Some(run) = &mut self.floors.run else { return };
        let is_patient = context.now - run.began < self.config.floor_patience;
        let count = if is_patient { group.replicas() } else { group.majority() };
        let (floor, _) = run.compared_by(me, count);
        let is_whole = floor == below;
        if floor <= self.ir.floor() || (is_patient && !is_whole) {
            return;
        }
        let mut complete = vec![false; group.replicas()];
        complete[usize::from(me.0)] = true;
        run.chosen = Some((floor, complete));
        self.complete_below(floor, context, outbox);
        self.send_complete(outbox);
        self.raise_if_complete(context, outbox);
    }

    fn send_complete(&self, outbox: &mut OutboxOf<Self>) {
        let Some(run) = &self.floors.run else { return };
        let Some((floor, complete)) = &run.chosen else { return };
        for index in self.others() {
            let at = usize::from(index.0);
            if !complete[at] && run.refusing[at] && run.compared[at] >= start_of(*floor) {
                self.send_to_peer(index, Message::Complete { view: run.view, below: *floor }, outbox);
            }
        }
    }

    /// Notes, durably, that every put that may have been acknowledged below has taken effect here.
    fn complete_below(&mut self, below: Timestamp, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        self.store.complete = self.store.complete.max(below);
        self.with_desk(context.random, outbox, |ir, desk| ir.complete_below(below, desk));
    }

    fn on_complete_reply(
        &mut self,
        from: ReplicaIndex,
        view: View,
        below: Timestamp,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if below <= self.ir.floor() {
            self.send_to_peer(from, Message::RaiseFloor { floor: below }, outbox);
            return;
        }
        let Some(run) = self.floors.run.as_mut().filter(|run| run.view == view) else { return };
        let Some((floor, complete)) = &mut run.chosen else { return };
        if *floor == below {
            complete[usize::from(from.0)] = true;
            self.raise_if_complete(context, outbox);
        }
    }

    fn raise_if_complete(&mut self, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        let Some(run) = &self.floors.run else { return };
        let Some((floor, complete)) = run.chosen.clone() else { return };
        if complete.iter().filter(|complete| **complete).count() < self.config.group.majority() {
            return;
        }
        self.floors.run = None;
        self.raise_floor(floor, context, outbox);
        for index in self.others().filter(|index| complete[usize::from(index.0)]) {
            self.send_to_peer(index, Message::RaiseFloor { floor }, outbox);
        }
    }

    /// Raises the floor if this replica is complete below it; else it is behind those who sent it.
    fn raise_floor(&mut self, floor: Timestamp, context: &mut Context<'_>, outbox: &mut OutboxOf<Self>) {
        if self.ir.complete() >= floor {
            self.with_desk(context.random, outbox, |ir, desk| ir.raise_floor(floor, desk));
        } else {
            self.floors.is_behind = true;
        }
    }
}
