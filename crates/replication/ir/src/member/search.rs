//! The search for a floor, below which everything has ended, so that records and old versions can be collected. Why a floor is safe is
//! told in [`crate::replica::floor`].
//!
//! ```text
//!   leader      Gather(below, from) → all        durably refuse new operations below; answer with a page of what has run
//!                                                and what is open
//!   leader      compare page by page             fetch what it lacks, push what the other lacks, wait for what is open
//!   leader      Complete(below) → the complete   durably
//!   leader      RaiseFloor                       once f + 1 are: raise the floor, collect
//! ```
//!
//! It all happens inside a view, while the group serves. The leader of the view does it because one member has to; if its
//! floor does not move for too long the next replica tries as well, which does no harm: floors need no order. But no member
//! compares what lies below the floor of either: a member that searches from below another's floor is told that floor instead.
//!
//! A member that somebody waits at for the floor searches for one as well, whichever it is.
//!
//! An idle group writes nothing: a member that remembers nothing searches for no floor. The leader of the view goes on until every member
//! is complete below the last one, because a search also tells a member that was away that it is behind.

use std::marker::PhantomData;
use std::time::Duration;

use quorate_core::machine::OutboxOf;
use quorate_core::{ClientId, Context, Instant, ReplicaId, ReplicaIndex, Timestamp, TransactionId, View};

use super::differences::Differences;
use super::{Member, Parts};
use crate::{Cursor, FloorMessage, Mistake, Operations, Status, Summary, Upcalls};

/// How a member searches for floors.
#[derive(Clone, Copy, Debug)]
pub struct SearchSettings {
    /// How often floors are searched for.
    pub interval: Duration,
    /// How far the floor stays behind the clock,
    pub lag: Duration,
    /// unless what has ended above it would have more bytes than this: then they are searched for at every sweep, and the floor comes so much nearer
    pub bytes_max: usize,
    /// as keeps this distance.
    pub lag_min: Duration,
    /// How far the floor stays behind the clock while somebody waits for it, if that is nearer: see [`Member::hurries`].
    pub lag_hurried: Duration,
    /// So long slower members are waited for before f + 1 go on without them.
    pub patience: Duration,
    /// A search that takes longer is given up, and begun anew with a later floor.
    pub limit: Duration,
    /// A floor further ahead of the local clock is not believed in.
    pub ahead_max: Duration,
    /// The most transactions in one page of what members compare.
    pub page_max: usize,
}

impl SearchSettings {
    /// The greatest timestamp in microseconds at which a floor is believed in.
    fn near_micros(&self, context: &Context<'_>) -> u64 {
        context.clock.saturating_add(self.ahead_max).as_micros()
    }
}

/// A search for a floor that is under way, and when to begin the next.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) run: Option<Run>,
    /// The floor when it was last seen to move, and when that was.
    moved: Option<(Timestamp, Instant)>,
    /// The last search that has ended here: its view, its floor, and the replicas that are complete below that, by their places.
    ended: Option<(View, Timestamp, Vec<bool>)>,
}

/// A search for a floor.
#[derive(Debug)]
pub(super) struct Run {
    view: View,
    /// Where the floor may come to lie.
    below: Timestamp,
    began: Instant,
    /// For each replica of the group, by its place: below here it has run what this one has, and the other way round, and
    /// nothing is open at either. For this replica itself: below here nothing is open.
    compared: Vec<Cursor>,
    /// The replicas that have answered, and so refuse operations below.
    refusing: Vec<bool>,
    /// Once it is chosen: the floor, and the replicas that are complete below it.
    chosen: Option<(Timestamp, Vec<bool>)>,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// Below here enough members have run the same, and nothing is open.
    pub to: Cursor,
    /// Where the search would end.
    pub end: Cursor,
    /// How long it has taken.
    pub waited: Duration,
}

/// The place before everything at or above a timestamp.
fn start_of(timestamp: Timestamp) -> Cursor {
    (timestamp, TransactionId::default())
}

/// Why a replica takes no part in raising a floor: the replica that is given state would lack what ended meanwhile as soon as it has arrived, and
/// would have to be given state again, without end.
const READ_FROM: &str = "another replica is given what is here";

/// Operations to be pushed or fetched at once.
const OPERATIONS_MAX: usize = 128;

impl Run {
    /// Something has run here that the others may not have.
    fn step_back(&mut self, to: Cursor) {
        for compared in &mut self.compared {
            *compared = (*compared).min(to);
        }
    }

    /// The greatest place below which `count` replicas, `me` among them, have compared everything.
    fn compared_by(&self, me: usize, count: usize) -> Cursor {
        let own = self.compared[me];
        assert!(
            (1..=self.compared.len()).contains(&count),
            "{count} of {} have compared",
            self.compared.len()
        );
        let mut all = self.compared.clone();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all[count - 1].min(own)
    }

    /// How many replicas refuse operations below.
    fn refusing(&self) -> usize {
        self.refusing.iter().filter(|refusing| **refusing).count()
    }
}

/// A member that searches for a floor, or answers one that does, within one step.
pub(super) struct Searching<'a, 'c, O: Operations, M: Member<O>> {
    member: &'a mut M,
    context: &'a mut Context<'c>,
    outbox: &'a mut OutboxOf<M>,
    operations: PhantomData<O>,
}

impl<'a, 'c, O: Operations, M: Member<O>> Searching<'a, 'c, O, M> {
    pub(super) fn new(member: &'a mut M, context: &'a mut Context<'c>, outbox: &'a mut OutboxOf<M>) -> Self {
        Searching { member, context, outbox, operations: PhantomData }
    }

    fn parts(&mut self) -> Parts<'_, O, M::Protocol> {
        self.member.parts()
    }

    fn run(&mut self) -> Option<&mut Run> {
        self.member.parts().state.search.run.as_mut()
    }

    fn settings(&mut self) -> SearchSettings {
        self.member.parts().state.settings.search
    }

    /// The place of this replica in its group, whose views it takes part in.
    fn own_place(&self) -> usize {
        self.member.ir().group().position(self.member.id().index).expect("only members are normal")
    }

    fn send(&mut self, to: ReplicaIndex, message: FloorMessage<O>) {
        self.outbox.send(ReplicaId { shard: self.member.id().shard, index: to }, message.into());
    }

    /// Begins, repeats or gives up the search for a floor.
    pub(super) fn sweep(&mut self) {
        if self.member.ir().is_read_from() {
            self.parts().state.search.run = None;
            return;
        }
        let now = self.context.now;
        let settings = self.settings();
        let (floor, view) = (self.member.ir().floor(), self.member.ir().view());
        let near = settings.near_micros(self.context);
        let Parts { ir, state, .. } = self.parts();
        let search = &mut state.search;
        let moved = search.moved.filter(|(known, _)| *known == floor);
        let (_, moved_at) = *search.moved.insert(moved.unwrap_or((floor, now)));
        let gives_up_wild = M::ENDS_WHEN_WILD && !ir.makes(Mistake::SeeksWildFloors);
        let is_over = |run: &mut Run| {
            let is_passed = M::ENDS_WHEN_PASSED && run.below <= floor;
            let was_wild = gives_up_wild && run.below.micros > near;
            run.view != view || now - run.began >= settings.limit || is_passed || was_wild
        };
        drop(search.run.take_if(is_over));
        if search.run.is_none() {
            let n = self.member.ir().group().replicas() as u64;
            let turn = (self.own_place() as u64 + n - view.0 % n) % n;
            if !self.member.remembers() && (turn > 0 || self.is_everybody_complete()) {
                self.parts().state.search.moved = Some((floor, now));
            } else if self.member.hurries()
                || now - moved_at >= settings.interval * (turn as u32 + 1)
                || (turn == 0 && self.member.ir().record().ended_bytes() > settings.bytes_max)
            {
                self.begin();
            }
        }
        self.send_gathers();
        self.send_complete();
        self.member.ask_again(now, self.outbox);
        self.advance();
    }

    /// True if this replica knows, since its view began, that each member is complete below the floor.
    fn is_everybody_complete(&mut self) -> bool {
        let (floor, view) = (self.member.ir().floor(), self.member.ir().view());
        let ended = self.parts().state.search.ended.as_ref();
        ended.is_some_and(|(of, below, complete)| {
            (*of, *below) == (view, floor) && complete.iter().all(|complete| *complete)
        })
    }

    fn begin(&mut self) {
        let SearchSettings { lag, lag_min, lag_hurried, bytes_max, .. } = self.settings();
        let lag = if self.member.hurries() { lag.min(lag_hurried) } else { lag };
        let clock = self.context.clock.as_micros();
        let behind = |lag: Duration| clock.saturating_sub(lag.as_micros() as u64);
        let ir = self.member.ir();
        let latest = ir.record().latest(bytes_max).micros.min(behind(lag_min));
        let below = Timestamp { micros: behind(lag).max(latest), client: ClientId(0) };
        let (floor, view, n) = (ir.floor(), ir.view(), ir.group().replicas());
        if below <= floor {
            return;
        }
        if ir.makes(Mistake::CollectsAlone) {
            return self.set_floor(below);
        }
        let began = self.context.now;
        let Parts { ir, protocol, state } = self.parts();
        assert!(
            state.search.run.is_none(),
            "a floor at {below} is searched for beside {:?}",
            state.search.run
        );
        let _ = protocol.bounds_mut().take_late();
        if !ir.makes(Mistake::ComparesOnce) {
            protocol.bounds_mut().seek(below);
        }
        let (compared, refusing) = (vec![start_of(floor); n], vec![false; n]);
        state.search.run = Some(Run { view, below, began, compared, refusing, chosen: None });
        self.member.on_search(start_of(floor));
    }

    /// Asks each replica that has not been compared to the end.
    fn send_gathers(&mut self) {
        let (group, me) = (self.member.ir().group(), self.member.id().index);
        for (place, index) in group.iter().enumerate().filter(|(_, index)| *index != me) {
            let Some(run) = self.run().filter(|run| run.chosen.is_none()) else { return };
            if run.compared[place] < start_of(run.below) || !run.refusing[place] {
                self.send_gather(place, index);
            }
        }
    }

    fn send_gather(&mut self, place: usize, to: ReplicaIndex) {
        let floor = self.member.ir().floor();
        let Some(run) = self.run() else { return };
        let message =
            FloorMessage::Gather { view: run.view, floor, below: run.below, from: run.compared[place] };
        self.send(to, message);
    }

    /// A message of the search, from another replica of the group.
    pub(super) fn on_message(&mut self, from: ReplicaIndex, message: FloorMessage<O>) {
        if self.member.ir().status() != Status::Normal {
            return;
        }
        let raises = matches!(
            message,
            FloorMessage::Gather { .. } | FloorMessage::Complete { .. } | FloorMessage::RaiseFloor { .. }
        );
        if raises && self.member.ir().is_read_from() {
            return self.outbox.ignored(READ_FROM);
        }
        let own_view = self.member.ir().view();
        match message {
            FloorMessage::Gather { view, floor, below, from: cursor } if view == own_view => {
                self.on_gather(from, floor, below, cursor);
            }
            FloorMessage::GatherReply { view, below, from: cursor, summary } => {
                self.on_gather_reply(from, view, below, cursor, &summary);
            }
            FloorMessage::Fetch { transactions } => self.send_operations(from, &transactions),
            FloorMessage::Learn { operations } => self.on_learn(operations),
            FloorMessage::Complete { view, below } if view == own_view => {
                self.complete_below(below);
                self.send(from, FloorMessage::CompleteReply { view, below });
            }
            FloorMessage::CompleteReply { view, below } => self.on_complete_reply(from, view, below),
            FloorMessage::RaiseFloor { floor } => self.raise_floor(floor),
            // Said in another view.
            FloorMessage::Gather { .. } | FloorMessage::Complete { .. } => {}
        }
    }

    fn on_gather(&mut self, from: ReplicaIndex, floor: Timestamp, below: Timestamp, cursor: Cursor) {
        self.raise_floor(floor);
        let ir = self.member.ir();
        if ir.complete() < floor {
            return;
        }
        let own = ir.floor();
        if floor < own && !ir.makes(Mistake::ComparesBelowFloors) {
            // Operations below its own floor may have been collected here, and would look as if they had never been.
            return self.send(from, FloorMessage::RaiseFloor { floor: own });
        }
        // A clock far ahead of this one must not drag the group along (and the leader gives up what its own clock led it to once
        // that is right again).
        let settings = self.settings();
        if below.micros > settings.near_micros(self.context) {
            return;
        }
        self.refuse_below(below);
        let Parts { ir, protocol, .. } = self.parts();
        assert!(
            protocol.bounds().refusal >= below || ir.makes(Mistake::SaysBeforeRefusing),
            "what is held below {below} is told, and refused below {} only",
            protocol.bounds().refusal
        );
        let ir = self.member.ir();
        let (view, summary) = (ir.view(), ir.record().summary(cursor, start_of(below), settings.page_max));
        self.member.have_settled(&summary.open, self.context.now, self.outbox);
        self.send(from, FloorMessage::GatherReply { view, below, from: cursor, summary });
    }

    /// From now on refuses new operations below, durably, before anything is said of what is held below (T28).
    fn refuse_below(&mut self, below: Timestamp) {
        self.member.with_desk(self.context.random, self.outbox, |ir, desk| ir.refuse_below(below, desk));
    }

    fn on_gather_reply(
        &mut self,
        from: ReplicaIndex,
        view: View,
        below: Timestamp,
        cursor: Cursor,
        theirs: &Summary,
    ) {
        self.step_back();
        let page_max = self.settings().page_max;
        let Some(place) = self.member.ir().group().position(from) else { return };
        let Parts { ir, state, .. } = self.parts();
        let Some(run) = &mut state.search.run else { return };
        if run.view != view || run.below != below || run.chosen.is_some() {
            return;
        }
        run.refusing[place] = true;
        if run.compared[place] != cursor {
            return;
        }
        let Differences { lacking, pushed, agreed, end } =
            Differences::between(ir.record(), theirs, cursor, start_of(below), page_max)
                .unless(ir.makes(Mistake::ComparesNothing));
        run.compared[place] = agreed;
        let goes_on = agreed == end && end < start_of(below);
        for page in pushed.chunks(OPERATIONS_MAX) {
            self.send_operations(from, page);
        }
        for page in lacking.chunks(OPERATIONS_MAX) {
            self.send(from, FloorMessage::Fetch { transactions: page.to_vec() });
        }
        if goes_on {
            self.send_gather(place, from);
        }
        self.advance();
    }

    /// Sends another replica the operations of transactions, as far as they have run here.
    fn send_operations(&mut self, to: ReplicaIndex, transactions: &[TransactionId]) {
        let bytes_max = self.parts().state.settings.page_bytes_max;
        let (mut operations, mut bytes) = (Vec::new(), 0);
        for transaction in transactions.iter().take(OPERATIONS_MAX) {
            let known = self.member.ir().record().inconsistent(*transaction).filter(|known| known.executed);
            let Some(known) = known else { continue };
            bytes += O::bytes(&known.operation);
            // Operations that do not fit are asked for again, or pushed again.
            if !operations.is_empty() && bytes > bytes_max {
                break;
            }
            operations.push((*transaction, known.operation.clone()));
        }
        if !operations.is_empty() {
            self.send(to, FloorMessage::Learn { operations });
        }
    }

    fn on_learn(&mut self, operations: Vec<(TransactionId, O::Inconsistent)>) {
        for (transaction, operation) in operations {
            if self.member.learns(&operation) {
                self.member.with_desk(self.context.random, self.outbox, |ir, desk| {
                    ir.learn(transaction, operation, desk);
                });
            }
        }
        self.advance();
    }

    /// Takes note of what has run here late, so that it is compared once more.
    fn step_back(&mut self) {
        let Parts { protocol, state, .. } = self.parts();
        if let Some(late) = protocol.bounds_mut().take_late()
            && let Some(run) = &mut state.search.run
        {
            run.step_back(start_of(late));
            self.member.on_stepped_back(start_of(late));
        }
    }

    /// Goes on with the search as far as the answers allow.
    pub(super) fn advance(&mut self) {
        self.step_back();
        let (group, view, me) = (self.member.ir().group(), self.member.ir().view(), self.own_place());
        // Its own clock may be the wild one, so this replica follows f others.
        let follows =
            |run: &&mut Run| run.view == view && run.chosen.is_none() && run.refusing() >= group.failures();
        let Some(below) = self.run().filter(follows).map(|run| run.below) else { return };
        self.refuse_below(below);
        let (now, settings) = (self.context.now, self.settings());
        let Parts { ir, state, .. } = self.parts();
        let Some(run) = &mut state.search.run else { return };
        let end = start_of(below);
        let open = if M::NOTHING_IS_OPEN {
            run.compared[me] = end;
            Vec::new()
        } else {
            let page = ir.record().summary(run.compared[me], end, settings.page_max);
            run.compared[me] = page.open.first().copied().unwrap_or(page.next.unwrap_or(end));
            page.open
        };
        let waited = now - run.began;
        let is_patient = waited < settings.patience;
        let to = run.compared_by(me, if is_patient { group.replicas() } else { group.majority() });
        if is_patient && to != end {
            return self.member.have_settled(&open, now, self.outbox);
        }
        let Some((floor, _)) = self.member.confirm(Reached { to, end, waited }, self.outbox) else { return };
        if floor > self.member.ir().floor() {
            self.choose(floor);
        }
    }

    fn choose(&mut self, floor: Timestamp) {
        let (n, me) = (self.member.ir().group().replicas(), self.own_place());
        let failures = self.member.ir().group().failures();
        let Some(run) = self.run() else { return };
        assert!(floor <= run.below, "a floor at {floor} is chosen, and was searched for below {}", run.below);
        assert!(run.refusing() >= failures, "{} others refuse what is below {floor}", run.refusing());
        let mut complete = vec![false; n];
        complete[me] = true;
        run.chosen = Some((floor, complete));
        self.complete_below(floor);
        self.send_complete();
        self.raise_if_complete();
    }

    fn send_complete(&mut self) {
        let group = self.member.ir().group();
        let Some(run) = self.run() else { return };
        let Some((floor, complete)) = &run.chosen else { return };
        let (view, floor) = (run.view, *floor);
        let is_alike = |place: &usize| !complete[*place] && run.compared[*place] >= start_of(floor);
        let alike: Vec<usize> = (0..run.compared.len()).filter(is_alike).collect();
        for place in alike {
            self.send(group.at(place), FloorMessage::Complete { view, below: floor });
        }
    }

    /// Notes, durably, that everything that can ever take effect below has been executed here.
    fn complete_below(&mut self, below: Timestamp) {
        self.member.with_desk(self.context.random, self.outbox, |ir, desk| ir.complete_below(below, desk));
    }

    fn on_complete_reply(&mut self, from: ReplicaIndex, view: View, below: Timestamp) {
        let place = self.member.ir().group().position(from);
        if below <= self.member.ir().floor() {
            if let Some((of, floor, complete)) = &mut self.parts().state.search.ended
                && (*of, *floor) == (view, below)
                && let Some(place) = place
            {
                complete[place] = true;
            }
            return self.send(from, FloorMessage::RaiseFloor { floor: below });
        }
        let Some(run) = self.run().filter(|run| run.view == view) else { return };
        let Some((floor, complete)) = &mut run.chosen else { return };
        if *floor == below
            && let Some(place) = place
        {
            complete[place] = true;
            self.raise_if_complete();
        }
    }

    fn raise_if_complete(&mut self) {
        let (group, me) = (self.member.ir().group(), self.own_place());
        let Some((floor, complete)) = self.run().and_then(|run| run.chosen.clone()) else { return };
        if complete.iter().filter(|complete| **complete).count() < group.majority() {
            return;
        }
        let view = self.member.ir().view();
        assert!(
            complete[me] && self.member.ir().complete() >= floor,
            "a floor at {floor} is raised by a replica that is complete below {}",
            self.member.ir().complete()
        );
        let search = &mut self.parts().state.search;
        (search.run, search.ended) = (None, Some((view, floor, complete.clone())));
        self.raise_floor(floor);
        for place in (0..complete.len()).filter(|place| complete[*place] && *place != me) {
            self.send(group.at(place), FloorMessage::RaiseFloor { floor });
        }
    }

    /// Raises the floor if this replica is complete below it; else it is behind those that sent it.
    fn raise_floor(&mut self, floor: Timestamp) {
        if self.member.ir().complete() >= floor {
            self.set_floor(floor);
        } else {
            self.member.note_behind();
        }
    }

    fn set_floor(&mut self, floor: Timestamp) {
        self.member.with_desk(self.context.random, self.outbox, |ir, desk| ir.raise_floor(floor, desk));
    }
}
