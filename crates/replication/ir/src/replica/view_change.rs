//! View changes (TAPIR paper, section 3.2.2): how replicas that missed something, or everything, become current.
//!
//! ```text
//!   any replica          StartViewChange(v) → all                      fall silent, enter v (durably)
//!   every replica        DoViewChange(v, last normal view, tail) → leader v mod n, repeated
//!   leader, f + 1 in     keep the greatest last normal view, merge     install, be normal in v
//!   leader               StartView(v, what you lack) → each            install, be normal in v
//! ```
//!
//! A large message is sent in parts: see [`parts`]. And of what has ended, which nearly all of them know, the messages tell by an outline: see
//! [`stretches`](crate::record::Outline). So a view change moves what the receiver lacks, and not what it has missed and has had all the time.
//!
//! A replica whose log is intact changes views after every restart, so it comes back current. How one comes back that has
//! lost its record says [`recovery`](super::recovery).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::bound::reasons;
use quorate_core::{ReplicaIndex, Timestamp, TransactionId, View};

use super::change::Count;
use super::parts::{Collected, Cut, Received, transfer_time, window};
use super::recovery::Query;
use super::{Fact, Host, Replica, Status, Upcalls};
use crate::message::{Message, Part, PartRange};
use crate::record::{
    ConsensusEntry, InconsistentEntry, OperationEntries, Outline, RecordPage, Scope, State, merge_tails,
    merge_tails_by_latest, split_page,
};
use crate::{Mistake, Operations};

/// How often DO-VIEW-CHANGE is repeated before the next view is tried. After views that failed, more often: see
/// [`ViewChange::attempts_max`].
const ATTEMPTS_PER_VIEW: u32 = 4;

/// For every attempt parts may be asked for so often in vain, of somebody who goes on sending.
const STALLS_PER_ATTEMPT: u32 = 4;

/// After so many views that failed in a row the attempts are no longer further apart, but there are more of them.
const SPREADING_VIEWS: u32 = 3;

/// And after so many more nothing grows any longer: a view is then waited for 64 times as long as the first.
const MULTIPLYING_VIEWS: u32 = 3;

/// An outline names stretches of its record that have roughly so many bytes at least. Each takes some fifty bytes to name.
const STRETCH_BYTES_MIN: usize = 1024;

/// The state of a view change at a replica.
#[derive(Debug)]
pub(super) struct ViewChange<O: Operations> {
    /// How often DO-VIEW-CHANGE was repeated since anything was heard of a message in parts.
    attempts: u32,
    /// How often since anything new was.
    stalls: u32,
    /// How long what was handed over may be on its way.
    transfer: Duration,
    /// Views tried in a row without success; each makes the next wait longer.
    pub(super) failed_views: u32,
    /// The replicas that have been heard since this one gave up a view, and those in the time from the one before until then.
    heard: [BTreeSet<ReplicaIndex>; 2],
    /// The record that this replica hands over to the leader of the view.
    pub(super) handed_over: Option<Cut<O>>,
    /// As the leader, for each replica, what it was sent of the record, if that did not fit into one part.
    pub(super) passed_on: BTreeMap<ReplicaIndex, PassedOn<O>>,
    contributions: BTreeMap<ReplicaIndex, Contribution<O>>,
    pub(super) start_view: Option<Start<O>>,
    restored: Option<(View, Received<O>)>,
    pub(super) query: Option<Query>,
    /// The members that have said that they have the record of a view of the present epoch.
    pub(super) arrived: BTreeSet<ReplicaIndex>,
}

#[derive(Debug)]
struct Contribution<O: Operations> {
    last_normal: Option<View>,
    lineage: Vec<View>,
    supplement: O::Supplement,
    collected: Collected<O>,
    floor: Timestamp,
    complete: Timestamp,
}

/// The parts of a START-VIEW that have arrived, and what all of its parts say.
#[derive(Debug)]
pub(super) struct Start<O: Operations> {
    pub(super) collected: Collected<O>,
    pub(super) since: Option<View>,
    pub(super) supplement: O::Supplement,
    pub(super) floor: Option<Timestamp>,
}

/// A START-VIEW in parts, for whom it was made, and how long it is kept.
#[derive(Debug)]
pub(super) struct PassedOn<O: Operations> {
    pub(super) receiver: Receiver,
    pub(super) cut: Cut<O>,
    pub(super) transfer: Duration,
    /// True if it was asked for since it was last looked at.
    pub(super) is_asked_for: bool,
}

/// A replica that took part in a view change, and what it has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Receiver {
    pub(super) index: ReplicaIndex,
    pub(super) last_normal: Option<View>,
    pub(super) lineage: Vec<View>,
    pub(super) complete: Timestamp,
}

/// How many replicas have handed over their records to the leader of a view, itself among them.
struct Heard {
    /// Those that it is not behind.
    followers: Count,
    /// The others.
    ahead: Count,
}

impl<O: Operations> Default for ViewChange<O> {
    fn default() -> Self {
        ViewChange {
            attempts: 0,
            stalls: 0,
            transfer: Duration::ZERO,
            failed_views: 0,
            heard: Default::default(),
            handed_over: None,
            passed_on: BTreeMap::new(),
            contributions: BTreeMap::new(),
            start_view: None,
            restored: None,
            query: None,
            arrived: BTreeSet::new(),
        }
    }
}

impl<O: Operations> ViewChange<O> {
    pub(super) fn forget(&mut self) {
        self.wait_anew();
        self.transfer = Duration::ZERO;
        self.handed_over = None;
        self.passed_on.clear();
        self.start_view = None;
        self.query = None;
        self.contributions.clear();
    }

    /// The present view is waited for as long as if it had just been entered.
    pub(super) fn wait_anew(&mut self) {
        self.attempts = 0;
        self.stalls = 0;
    }

    /// How many records were handed over.
    pub(super) fn gathered(&self) -> usize {
        self.contributions.len()
    }

    /// A replica hands over that it has no record.
    #[cfg(test)]
    pub(super) fn gather(&mut self, from: ReplicaIndex) {
        let contribution = Contribution {
            last_normal: None,
            lineage: Vec::new(),
            supplement: O::Supplement::default(),
            collected: Collected::new(Part::WHOLE, 1),
            floor: Timestamp::ZERO,
            complete: Timestamp::ZERO,
        };
        self.contributions.insert(from, contribution);
    }

    /// A replica has all that it was sent of a record.
    pub(super) fn forget_passed_on(&mut self, replica: ReplicaIndex) {
        self.passed_on.remove(&replica);
    }

    /// The contribution of a replica counts no more.
    pub(super) fn forget_contribution(&mut self, replica: ReplicaIndex) {
        self.contributions.remove(&replica);
    }

    /// How often this replica repeats what it says before it tries the next view. A replica that hears nobody, or not the
    /// leaders that it elects, drags the others through one view after the other and comes back in none; so it does
    /// that ever more seldom. It goes on to speak as often as before: a replica that hears it can always join.
    fn attempts_max(&self) -> u32 {
        ATTEMPTS_PER_VIEW << self.failed_views.saturating_sub(SPREADING_VIEWS).min(MULTIPLYING_VIEWS)
    }

    /// True if the first part of what is handed over is due again. It may be large, and wait behind its own repetitions: so it is
    /// repeated as often as before any view had failed, and then ever more seldom.
    fn repeats_first_part(&self) -> bool {
        self.stalls < ATTEMPTS_PER_VIEW || self.stalls.is_power_of_two()
    }

    /// Nothing has come of a view.
    fn give_up_view(&mut self) {
        self.failed_views += 1;
        self.heard.swap(0, 1);
        self.heard[0].clear();
    }

    /// Another replica has been heard, in this replica's view or a later one: something earlier may have been on its way for
    /// as long as all those views took. True if it is back; then the next view may well succeed.
    fn note_heard(&mut self, from: ReplicaIndex) -> bool {
        let [now, before] = &mut self.heard;
        let is_back = now.insert(from) && !before.contains(&from);
        if is_back {
            self.failed_views = self.failed_views.min(SPREADING_VIEWS);
        }
        is_back
    }

    /// The parts of a view's record that were read back so far.
    pub(super) fn restored(&mut self, view: View) -> &mut Received<O> {
        if self.restored.as_ref().is_none_or(|(restoring, _)| *restoring != view) {
            self.restored = None;
        }
        &mut self.restored.get_or_insert_with(|| (view, Received::default())).1
    }

    pub(super) fn take_restored(&mut self, view: View) -> Received<O> {
        self.restored
            .take()
            .filter(|(restoring, _)| *restoring == view)
            .map(|(_, received)| received)
            .unwrap_or_default()
    }
}

impl<O: Operations> Replica<O> {
    /// Begins after a construction: nothing for a new group, a view change for a restarted replica, questions for one
    /// that has lost its record.
    pub fn start<H: Host<O>>(&mut self, host: &mut H) {
        if !self.takes_part() {
            return self.retire(host);
        }
        match self.status {
            Status::Normal => host.on_normal(self.view),
            Status::ViewChanging if self.makes(Mistake::ServesEmpty) && !self.restarted => {
                self.serve_empty(host)
            }
            Status::ViewChanging => self.enter_next_view(host),
            Status::Recovering => self.send_view_query(host),
            Status::Retired => host.on_retired(),
        }
    }

    /// Tries the next view; one that another replica leads, if there is another.
    fn enter_next_view<H: Host<O>>(&mut self, host: &mut H) {
        let mut view = self.useful_after(self.view);
        if view.is_some_and(|view| self.leader_of(view) == self.me) && self.everybody.len() > 1 {
            view = view.and_then(|view| self.useful_after(view));
        }
        self.enter_useful(view, host);
    }

    /// Changes to a view that can come to something, if there is one left in the epoch. If there is none the replica stays silent
    /// until the members of the group change.
    pub(super) fn enter_useful<H: Host<O>>(&mut self, view: Option<View>, host: &mut H) {
        match view {
            Some(view) => self.enter_view_change(view, host),
            None => host.ignored(reasons::NO_VIEW_LEFT),
        }
    }

    /// Changes views because this replica has found that it misses operations that others have.
    pub fn become_current<H: Host<O>>(&mut self, host: &mut H) {
        if self.status == Status::Normal {
            self.enter_next_view(host);
        }
    }

    /// Leaves the present view for `view` and falls silent.
    pub fn enter_view_change<H: Host<O>>(&mut self, view: View, host: &mut H) {
        self.leave_for(view, host);
        for other in self.others() {
            host.send_to_replica(other, Message::StartViewChange { view });
        }
        self.send_do_view_change(host);
    }

    pub(super) fn leave_for<H: Host<O>>(&mut self, view: View, host: &mut H) {
        assert!(view > self.view, "a view is left for a greater one");
        self.view = view;
        self.change.forget();
        if self.status == Status::Normal {
            self.status = Status::ViewChanging;
        }
        assert!(self.status != Status::Normal, "a replica that leaves for {view:?} is silent");
        host.persist(Fact::ViewEntered(view));
        host.on_view_changing(view);
        host.set_view_change_timer(self.attempt_timeout());
    }

    pub(super) fn attempt_timeout(&self) -> Duration {
        (self.view_change_timeout / ATTEMPTS_PER_VIEW) * (1 << self.change.failed_views.min(SPREADING_VIEWS))
            + self.change.transfer
    }

    /// A part of a record has arrived, or was asked for: whatever is missing is on its way too. One that had arrived before
    /// only says that its sender is there.
    pub(super) fn on_transfer_progress<H: Host<O>>(&mut self, is_new: bool, host: &mut H) {
        self.change.attempts = 0;
        if is_new {
            self.change.stalls = 0;
            host.set_view_change_timer(self.attempt_timeout());
        }
    }

    fn send_do_view_change<H: Host<O>>(&mut self, host: &mut H) {
        let leader = self.leader_of(self.view);
        assert!(
            self.last_normal() < Some(self.view),
            "what is handed over to the leader of {:?} is the record of {:?}",
            self.view,
            self.last_normal()
        );
        if leader == self.me {
            // Its own tail is in its record.
            let mut collected = Collected::new(Part::WHOLE, self.window());
            collected.add(Part::WHOLE, RecordPage::default(), None, &Outline::default(), |_| false);
            let contribution = Contribution {
                last_normal: self.last_normal(),
                lineage: self.own_lineage(),
                supplement: host.protocol().contribution(),
                collected,
                floor: self.floor,
                complete: self.complete,
            };
            self.change.contributions.insert(self.me, contribution);
            host.set_view_change_timer(self.attempt_timeout());
            self.try_lead(host);
            return;
        }
        if let Some(cut) = &self.change.handed_over {
            if self.change.repeats_first_part() {
                // If something else of it has been lost, the leader will say what.
                host.send_to_replica(leader, cut.first(&self.record));
            }
        } else {
            let cut = self.cut_do_view_change(host);
            for part in cut.unasked(&self.record) {
                host.send_to_replica(leader, part);
            }
            self.change.handed_over = Some(cut);
        }
        host.set_view_change_timer(self.attempt_timeout());
    }

    fn cut_do_view_change<H: Host<O>>(&mut self, host: &mut H) -> Cut<O> {
        let (tail, outline) = match self.last_normal() {
            Some(_) => self.record.outlined_tail(self.floor, self.stretch_bytes_max()),
            // It has lost its record.
            None => Default::default(),
        };
        let pages = split_page(tail, self.page_bytes_max, H::Protocol::entry_bytes);
        let message = Message::DoViewChange {
            view: self.view,
            last_normal: self.last_normal(),
            lineage: self.own_lineage(),
            part: Part::WHOLE,
            page: RecordPage::default(),
            outline: Outline::default(),
            supplement: host.protocol().contribution(),
            floor: self.floor,
            complete: self.complete,
            lives: self.lives.clone(),
        };
        let cut = Cut::new(message, pages, None, (outline, Scope::Tail), self.window(), || host.nonce());
        self.change.transfer = transfer_time(cut.len(), self.page_bytes_max);
        cut
    }

    /// How large a stretch of an outline is: as a part, but not so small that an outline is no shorter than what it tells of.
    pub(super) fn stretch_bytes_max(&self) -> usize {
        self.page_bytes_max.max(STRETCH_BYTES_MIN)
    }

    /// How many parts of a message are under way at once.
    pub(super) fn window(&self) -> u32 {
        window(self.page_bytes_max)
    }

    fn own_lineage(&self) -> Vec<View> {
        if self.last_normal().is_some() { self.record.lineage().to_vec() } else { Vec::new() }
    }

    /// Asks for what has not arrived of messages of which something has.
    fn send_parts_missing<H: Host<O>>(&mut self, host: &mut H) {
        let (view, leader) = (self.view, self.leader_of(self.view));
        let start = self.change.start_view.iter_mut().map(|start| (leader, &mut start.collected));
        let others = self.change.contributions.iter_mut().filter(|(_, known)| !known.collected.is_complete());
        let others = others.map(|(index, contribution)| (*index, &mut contribution.collected));
        for (sender, collected) in start.chain(others) {
            let (series, missing) = (collected.series(), collected.missing());
            if !missing.is_empty() {
                host.send_to_replica(sender, Message::PartsMissing { view, series, missing });
            }
            if let Some(after) = collected.ask_for_state() {
                host.send_to_replica(sender, Message::StateWanted { view, series, after });
            }
        }
    }

    /// Some of what this replica has sent in parts has not arrived.
    pub fn on_parts_missing<H: Host<O>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        series: u64,
        missing: &[PartRange],
        host: &mut H,
    ) {
        if view != self.view {
            return;
        }
        let has_started = self.has_started();
        let cut = if has_started {
            self.change.passed_on.get_mut(&from).map(|passed_on| {
                passed_on.is_asked_for = true;
                &passed_on.cut
            })
        } else {
            self.change.handed_over.as_ref().filter(|_| self.leader_of(view) == from)
        };
        let parts = cut.map(|cut| cut.missing(series, missing, &self.record)).unwrap_or_default();
        let is_some_missing = !parts.is_empty();
        for part in parts {
            host.send_to_replica(from, part);
        }
        if is_some_missing && !has_started {
            // The leader is there, and busy with what it has been sent.
            self.on_transfer_progress(true, host);
        }
    }

    /// The last view in which the replica was normal; none if it has lost its record.
    pub(super) fn last_normal(&self) -> Option<View> {
        if self.status == Status::Recovering { None } else { self.record.last_normal() }
    }

    /// The view change takes too long: repeat, and after a few times try the next view.
    pub fn on_view_change_timeout<H: Host<O>>(&mut self, host: &mut H) {
        match self.status {
            Status::Normal | Status::Retired => self.forget_passed_on(host),
            Status::ViewChanging if self.has_started() => self.await_arrival(host),
            Status::Recovering if self.change.query.is_some() => self.send_view_query(host),
            Status::ViewChanging if self.is_too_far_behind() => self.enter_next_view(host),
            Status::ViewChanging | Status::Recovering => {
                self.change.attempts += 1;
                self.change.stalls += 1;
                let attempts_max = self.change.attempts_max();
                if self.change.attempts >= attempts_max
                    || self.change.stalls >= attempts_max * STALLS_PER_ATTEMPT
                {
                    self.change.give_up_view();
                    if self.status == Status::Recovering {
                        // It cannot push the others on; it asks again where they are.
                        self.send_view_query(host);
                    } else {
                        // Also one that this replica leads itself: it may be the only one that can.
                        self.enter_useful(self.useful_after(self.view), host);
                    }
                } else {
                    for other in self.others() {
                        host.send_to_replica(other, Message::StartViewChange { view: self.view });
                    }
                    self.send_parts_missing(host);
                    self.send_do_view_change(host);
                }
            }
        }
    }

    /// Another replica is changing views: join it, or tell it where this one is.
    pub fn on_start_view_change<H: Host<O>>(&mut self, from: ReplicaIndex, view: View, host: &mut H) {
        if matches!(self.status, Status::Recovering | Status::Retired) || self.answers_earlier(from, host) {
            return;
        }
        if !self.believes(view, host) {
            return;
        }
        if view < self.view {
            return self.send_higher_view(from, host);
        }
        if view > self.view {
            self.change.note_heard(from);
            return self.enter_useful(self.useful(view), host);
        }
        if self.status == Status::Normal && self.leader_of(view) == self.me {
            // Its record may be lost, or on its way, or due for a repetition only later.
            self.send_higher_view(from, host);
        }
        self.hear_again(from, host);
    }

    /// Another replica is in the view of this one. If it is the leader that this replica waits for, and has been silent so far, it can be
    /// reached again, and has the record of this replica now.
    pub(super) fn hear_again<H: Host<O>>(&mut self, from: ReplicaIndex, host: &mut H) {
        let is_awaited = self.status == Status::ViewChanging && !self.has_started();
        let is_back = self.change.note_heard(from);
        if is_back && is_awaited && self.leader_of(self.view) == from && self.change.stalls > 0 {
            self.change.stalls = 0;
            self.send_do_view_change(host);
        }
    }

    /// Tells a replica that lags behind where this one is, or where it wants to go: a replica that was down leaps past a view in
    /// which others are already, and two that were would drive each other on for ever. (If what the other had said was
    /// merely late, it has long moved on and ignores this.)
    fn send_higher_view<H: Host<O>>(&self, to: ReplicaIndex, host: &mut H) {
        let view = self.view;
        host.send_to_replica(
            to,
            match self.status {
                Status::ViewChanging => Message::StartViewChange { view },
                Status::Normal | Status::Recovering | Status::Retired => Message::HigherView { view },
            },
        );
    }

    /// Another replica hands over what it knows.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub fn on_do_view_change<H: Host<O>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        last_normal: Option<View>,
        lineage: Vec<View>,
        part: Part,
        page: RecordPage<O>,
        outline: Outline,
        supplement: O::Supplement,
        floor: Timestamp,
        complete: Timestamp,
        lives: &BTreeMap<ReplicaIndex, u64>,
        host: &mut H,
    ) {
        let is_late = self.status == Status::Retired && view != self.view;
        if self.status == Status::Recovering || is_late || !self.is_peer(from) {
            return;
        }
        if self.answers_earlier(from, host) || !self.believes(view, host) {
            return;
        }
        if last_normal > Some(view) {
            return host.ignored("last view above the next");
        }
        if !self.believes_lives(lives) {
            return host.ignored(reasons::LIFE);
        }
        if view < self.view {
            self.send_higher_view(from, host);
            return;
        }
        self.change.note_heard(from);
        if view > self.view {
            self.enter_view_change(view, host);
        }
        if self.leader_of(view) != self.me {
            return;
        }
        if self.has_started() {
            // One answer per question, not per part of it; and to members only.
            if part.index == 0 && self.group.contains(from) {
                let receiver = Receiver { index: from, last_normal, lineage, complete };
                self.send_start_view(receiver, host);
            }
            return;
        }
        self.note_lives(lives, host);
        if lives.get(&from).copied().unwrap_or(0) < self.life_of(from) {
            return;
        }
        let collected = Collected::new(part, self.window());
        // The first part has these, which need not be the first to arrive.
        let none = (Vec::new(), O::Supplement::default());
        let news =
            Contribution { last_normal, lineage: none.0, supplement: none.1, collected, floor, complete };
        let contribution = match self.change.contributions.entry(from) {
            Entry::Vacant(slot) => slot.insert(news),
            Entry::Occupied(slot) => {
                let known = slot.into_mut();
                if known.last_normal != last_normal || !known.collected.belongs(part) {
                    *known = news;
                }
                known
            }
        };
        if part.index == 0 && !contribution.collected.has_first() {
            (contribution.lineage, contribution.supplement) = (lineage, supplement);
        }
        // Only the tail counts of the view in which this replica was last normal; of any other nothing is merged.
        let (record, is_merged) =
            (&self.record, last_normal.is_some() && last_normal == self.record.last_normal());
        let is_new = contribution.collected.add(part, page, None, &outline, |stretch| {
            !is_merged || record.holds_stretch(stretch, Scope::Tail, outline.floor)
        });
        let (series, next) = (contribution.collected.series(), contribution.collected.next());
        assert!(
            self.change.contributions.len() <= self.everybody.len(),
            "{} have handed over their records, of {:?}",
            self.change.contributions.len(),
            self.everybody
        );
        if part.count > 1 {
            self.on_transfer_progress(is_new, host);
        }
        if !next.is_empty() {
            host.send_to_replica(from, Message::PartsMissing { view, series, missing: next });
        }
        self.try_lead(host);
    }

    /// Starts the view if f + 1 replicas that know their record have handed it over, none of which is ahead of this one.
    /// Those that are count as if they had not been heard: of what has succeeded, one of any f + 1 knows.
    fn try_lead<H: Host<O>>(&mut self, host: &mut H) {
        let lost = self.change.contributions.iter().filter(|(_, known)| known.last_normal.is_none());
        let lost = self.count(lost.map(|(index, _)| *index));
        if lost.members > self.group.failures() {
            host.on_lost(lost.members);
            return;
        }
        let Heard { followers, ahead } = self.heard();
        if self.suffice(followers, self.last_normal()) {
            self.lead(host);
        } else if ahead.members > self.group.failures() {
            // One that lacks nothing will lead a later view.
            self.enter_next_view(host);
        }
    }

    /// Counts those whose records have been handed over.
    fn heard(&self) -> Heard {
        let counts_lost = self.makes(Mistake::CountsLostReplicas);
        let (ahead, followers): (Vec<_>, Vec<_>) = self
            .change
            .contributions
            .iter()
            .filter(|(_, known)| {
                known.collected.is_complete() && (known.last_normal.is_some() || counts_lost)
            })
            .partition(|(_, known)| self.is_behind(known));
        let count = |known: Vec<(&ReplicaIndex, _)>| self.count(known.into_iter().map(|(index, _)| *index));
        let heard = Heard { followers: count(followers), ahead: count(ahead) };
        assert!(
            heard.followers.with(heard.ahead).members <= self.group.replicas(),
            "{:?} follow and {:?} are ahead, in a group of {}",
            heard.followers,
            heard.ahead,
            self.group.replicas()
        );
        heard
    }

    /// True if this replica could lead if it were not behind. Others may come that are no further: it waits for them, but
    /// not for long.
    fn is_too_far_behind(&self) -> bool {
        let Heard { followers, ahead } = self.heard();
        let greatest = self.change.contributions.values().filter_map(|known| known.last_normal).max();
        ahead.anybody() && self.suffice(followers.with(ahead), greatest)
    }

    /// True if this replica lacks the base of what another one has handed over, or what that one has collected.
    fn is_behind(&self, known: &Contribution<O>) -> bool {
        (known.last_normal, known.floor) > (self.last_normal(), self.floor)
    }

    /// Merges what was handed over, and is normal in the new view.
    fn lead<H: Host<O>>(&mut self, host: &mut H) {
        let greatest = self.last_normal();
        assert!(self.leader_of(self.view) == self.me, "{:?} leads {:?} out of turn", self.me, self.view);
        assert!(
            greatest < Some(self.view) && self.status != Status::Normal,
            "{:?} is started anew by a replica that was normal in {greatest:?}",
            self.view
        );
        let contributions = std::mem::take(&mut self.change.contributions);
        let mut tails: Vec<RecordPage<O>> = Vec::new();
        let mut receivers = Vec::new();
        for (index, contribution) in contributions {
            // One whose first part is on its way repeats it.
            if index != self.me && self.group.contains(index) && contribution.collected.has_first() {
                receivers.push(Receiver {
                    index,
                    last_normal: contribution.last_normal,
                    lineage: contribution.lineage,
                    complete: contribution.complete,
                });
            }
            // Promises and read timestamps count whichever view they were given in, and before prepares are merged.
            host.protocol().adopt_supplement(&contribution.supplement);
            if index != self.me
                && contribution.last_normal == greatest
                && contribution.collected.is_complete()
            {
                let pages = contribution.collected.into_received().pages;
                tails.push(RecordPage { entries: pages.into_iter().flat_map(|page| page.entries).collect() });
            }
        }
        tails.push(self.record.tail_beside(&tails));
        // The operation that counts may differ from the replica's own: a coordinator that lies proposes several under one number.
        for (id, operation) in self.record.forget_consensus_beyond(greatest) {
            host.protocol().forget_consensus(id, &operation);
        }
        let page = self.merge(&tails, host);
        let view = self.view;
        self.record.install(view, &page);
        // All of its own is in the base; nobody has to be told what of it has ended.
        let kept: Vec<_> = self.record.everything().into_iter().collect();
        self.record.settle_ended(view, &kept);
        self.record.enter_lineage(greatest, view);
        let received = Received { pages: vec![page], states: Vec::new(), kept };
        self.become_normal(greatest, None, received, host);
        for receiver in receivers {
            self.send_start_view(receiver, host);
        }
    }

    /// Settles everything in the tails: first what is final, then what may be, then the rest.
    fn merge<H: Host<O>>(&mut self, tails: &[RecordPage<O>], host: &mut H) -> RecordPage<O> {
        let doubts = self.makes(Mistake::DoubtsFastVerdicts);
        let witnesses = if doubts { usize::MAX } else { self.voters().fast_witnesses() };
        let merge =
            if self.makes(Mistake::LatestOperationCounts) { merge_tails_by_latest } else { merge_tails };
        let merged = merge(tails, witnesses);
        let mut entries: BTreeMap<_, OperationEntries<O>> = BTreeMap::new();
        for (transaction, operation) in merged.inconsistent {
            if self.is_settled(transaction, O::inconsistent_timestamp(&operation)) {
                // A replica that has not collected it yet still lists it.
                continue;
            }
            self.execute_if_new(transaction, &operation, host.protocol());
            let entry = InconsistentEntry { operation, executed: true };
            entries.entry(transaction).or_default().inconsistent = Some(entry);
        }
        // A transaction whose fate is in the base needs no verdicts any more, whatever a tail still says of it.
        let open = |list: Vec<(_, ConsensusEntry<O>)>| -> Vec<(_, ConsensusEntry<O>)> {
            let is_open = |id: TransactionId, entry: &ConsensusEntry<O>| {
                !self.record.is_executed(id) && !self.is_settled(id, O::consensus_timestamp(&entry.operation))
            };
            list.into_iter().filter(|(transaction, entry)| is_open(*transaction, entry)).collect()
        };
        let (finalized, mut decided, undecided) =
            (open(merged.finalized), open(merged.decided), open(merged.undecided));
        for (transaction, entry) in open(merged.superseded) {
            let id = crate::OperationId { transaction, number: entry.number };
            let (verdict, state) =
                (H::Protocol::superseded_verdict(), State::Finalized(quorate_core::Ballot::ORIGINAL));
            host.protocol().finalize_consensus(id, &entry.operation, &verdict, true);
            let entry = ConsensusEntry { verdict, state, ..entry };
            entries.entry(transaction).or_default().consensus.push(entry);
        }
        // A replica that is behind may have made final what had not succeeded when others became complete.
        let complete = host.protocol().bounds().complete;
        let is_late = |entry: &ConsensusEntry<O>| {
            O::is_favourable(&entry.verdict) && O::consensus_timestamp(&entry.operation) < complete
        };
        let (late, finalized): (Vec<_>, Vec<_>) =
            finalized.into_iter().partition(|(_, entry)| is_late(entry));
        decided.extend(late);
        for (transaction, entry) in finalized {
            let id = crate::OperationId { transaction, number: entry.number };
            host.protocol().finalize_consensus(id, &entry.operation, &entry.verdict, true);
            entries.entry(transaction).or_default().consensus.push(entry);
        }
        let verdicts = host.protocol().merge(&decided, &undecided);
        assert_eq!(verdicts.len(), decided.len() + undecided.len(), "merge settles every operation");
        for ((transaction, entry), verdict) in decided.into_iter().chain(undecided).zip(verdicts) {
            let state = State::Finalized(quorate_core::Ballot::ORIGINAL);
            entries.entry(transaction).or_default().consensus.push(ConsensusEntry {
                verdict,
                state,
                ..entry
            });
        }
        for known in entries.values_mut() {
            known.consensus.sort_unstable_by_key(|entry| entry.number);
            assert!(
                known.consensus.is_sorted_by(|one, other| one.number < other.number),
                "an operation was settled twice: {:?}",
                known.consensus
            );
            assert!(
                known.consensus.iter().all(|entry| entry.state.is_finalized()),
                "an operation was left open: {:?}",
                known.consensus
            );
        }
        RecordPage { entries: entries.into_iter().collect() }
    }

    /// Makes the installed record durable and serves.
    pub(super) fn become_normal<H: Host<O>>(
        &mut self,
        since: Option<View>,
        floor: Option<Timestamp>,
        received: Received<O>,
        host: &mut H,
    ) {
        let view = self.view;
        assert!(since < Some(view), "{view:?} is built from the record of {since:?}");
        assert!(
            self.record.last_normal() == Some(view),
            "{view:?} begins with the record of {:?}",
            self.record.last_normal()
        );
        self.restarted = false;
        self.change.forget();
        self.change.failed_views = 0;
        host.on_installing();
        for state in received.states {
            host.persist(Fact::ViewState { view, state });
        }
        let split = |page| split_page(page, self.page_bytes_max, H::Protocol::entry_bytes);
        for page in received.pages.into_iter().flat_map(split) {
            host.persist(Fact::ViewPage { view, page });
        }
        let supplement = host.protocol().supplement();
        host.persist(Fact::ViewInstalled { view, since, supplement, floor, kept: received.kept });
        if !self.is_member() {
            // It is no member, and waits until enough members serve.
            host.set_view_change_timer(self.attempt_timeout());
            return;
        }
        self.status = Status::Normal;
        host.cancel_view_change_timer();
        // Last, so that nobody hears of it before it is durable.
        host.on_normal(view);
    }
}
