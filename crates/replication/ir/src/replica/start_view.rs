//! START-VIEW: how the leader of a view passes its record on, and how a replica comes to have it.
//!
//! ```text
//!   leader       StartView(v, what you lack) → each     kept for as long as it may be asked for more of it
//!   replica      PartsMissing, StateWanted → leader     what is next, a few parts at a time
//!   replica      install, be normal in v; Arrived       what was kept is dropped
//! ```

use std::time::Duration;

use quorate_core::{Key, ReplicaIndex, Timestamp, View};

use super::parts::{Collected, Cut, STATE_PAGES_AT_ONCE, StatePage, transfer_time};
use super::view_change::{PassedOn, Receiver, Start};
use super::{Host, Replica, Status, Upcalls};
use crate::message::{Message, Part};
use crate::record::{Outline, RecordPage, Scope, split_page};
use crate::{Mistake, Operations};

/// A leader keeps a START-VIEW in parts for so many view-change timeouts after it was last asked for some of them. That is
/// several times the longest that a receiver waits between two questions.
const TIMEOUTS_KEPT: u32 = 8;

/// A page of state has roughly so many bytes at most.
const STATE_BYTES_MAX: usize = 256 * 1024;

impl<O: Operations> Replica<O> {
    /// Sends a replica what it lacks of this view's record, and state in place of what has been collected of it.
    pub(super) fn send_start_view<H: Host<O>>(&mut self, to: Receiver, host: &mut H) {
        let slot = to.index;
        assert!(
            self.has_started() && slot != self.me,
            "{:?} is told to begin by a replica that has the record of {:?}",
            self.view,
            self.last_normal()
        );
        let passed_on = self.change.passed_on.get_mut(&slot);
        if let Some(passed_on) = passed_on.filter(|known| known.receiver == to) {
            // It is on its way, or some of it has been lost: then the receiver will say what.
            passed_on.is_asked_for = true;
            host.send_to_replica(to.index, passed_on.cut.first(&self.record));
            return;
        }
        let (cut, transfer) = self.cut_start_view(&to, host);
        for part in cut.unasked(&self.record) {
            host.send_to_replica(to.index, part);
        }
        let passed_on = PassedOn { receiver: to, cut, transfer, is_asked_for: true };
        if passed_on.cut.is_whole() {
            self.change.passed_on.remove(&slot);
        } else {
            self.change.passed_on.insert(slot, passed_on);
        }
        self.set_passed_on_timer(host);
    }

    fn cut_start_view<H: Host<O>>(&self, to: &Receiver, host: &mut H) -> (Cut<O>, Duration) {
        let floor = (to.complete < self.floor).then_some(self.floor);
        let shares_base = to.last_normal.is_some() && floor.is_none();
        let since = if shares_base { self.record.common_ancestor(&to.lineage) } else { None };
        let (bytes_max, entry_bytes) = (self.page_bytes_max, H::Protocol::entry_bytes);
        let (page, outline) = self.record.outlined_beyond(since, self.floor, self.stretch_bytes_max());
        let pages = split_page(page, bytes_max, entry_bytes);
        let state =
            floor.map(|_| host.protocol().state_after(None, self.state_below(), self.state_bytes_max()));
        let joins = to.last_normal.is_none_or(|view| view.epoch() < self.since());
        let stays_behind = joins && self.makes(Mistake::SupplementStaysBehind);
        let supplement = if stays_behind { O::Supplement::default() } else { host.protocol().supplement() };
        let message = Message::StartView {
            view: self.view,
            since,
            part: Part::WHOLE,
            page: RecordPage::default(),
            outline: Outline::default(),
            supplement,
            floor,
            state: None,
            state_to: None,
        };
        let cut =
            Cut::new(message, pages, state, (outline, Scope::Beyond(since)), self.window(), || host.nonce());
        let transfer = transfer_time(cut.len(), bytes_max);
        (cut, transfer)
    }

    /// True while another replica may ask for what this record holds of an outline, or for state: nothing of it is collected, and no floor raised.
    pub fn is_read_from(&self) -> bool {
        let cuts = self.change.handed_over.iter().chain(self.change.passed_on.values().map(|kept| &kept.cut));
        cuts.into_iter().any(|cut| !cut.is_whole())
    }

    /// Drops what nobody asks for any more: its receiver has all of it, or has gone.
    pub(super) fn forget_passed_on<H: Host<O>>(&mut self, host: &mut H) {
        self.change.passed_on.retain(|_, known| std::mem::replace(&mut known.is_asked_for, false));
        self.set_passed_on_timer(host);
    }

    fn set_passed_on_timer<H: Host<O>>(&self, host: &mut H) {
        if let Some(transfer) = self.change.passed_on.values().map(|kept| kept.transfer).max() {
            host.set_view_change_timer(self.view_change_timeout * TIMEOUTS_KEPT + transfer);
        }
    }

    /// The leader has started the view: adopt its record and serve.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub fn on_start_view<H: Host<O>>(
        &mut self,
        view: View,
        since: Option<View>,
        part: Part,
        page: RecordPage<O>,
        outline: Outline,
        supplement: O::Supplement,
        floor: Option<Timestamp>,
        state: Option<StatePage<O::State>>,
        host: &mut H,
    ) {
        let is_late = view < self.view || (view == self.view && self.has_started());
        if is_late || !self.is_member() || view > self.view && self.status == Status::Recovering {
            return;
        }
        if !self.believes(view, host) {
            return;
        }
        if view > self.view {
            self.leave_for(view, host);
        }
        let unknown_base = since.is_some_and(|since| !self.record.lineage().contains(&since));
        if unknown_base || floor.is_some_and(|floor| floor < self.floor) {
            // It was made for an earlier life of this replica; DO-VIEW-CHANGE will be repeated.
            return;
        }
        let known = self.change.start_view.take().filter(|known| known.collected.belongs(part));
        let Start { mut collected, supplement: known, .. } = known.unwrap_or_else(|| Start {
            collected: Collected::new(part, self.window()),
            since,
            supplement: O::Supplement::default(),
            floor,
        });
        let supplement = if part.index == 0 { supplement } else { known };
        let asks_for_state = part.index == 0 && state.as_ref().is_some_and(|(_, to)| to.is_some());
        // State takes the place of what is below a floor, so what this replica has of it counts for nothing.
        let (record, is_shared) = (&self.record, floor.is_none());
        let is_new = collected.add(part, page, state, &outline, |stretch| {
            is_shared && record.holds_stretch(stretch, Scope::After(since), outline.floor)
        });
        let (leader, series, missing) = (self.leader_of(view), collected.series(), collected.next());
        if !missing.is_empty() {
            host.send_to_replica(leader, Message::PartsMissing { view, series, missing });
        }
        if is_new
            && asks_for_state
            && let Some(after) = collected.ask_for_state()
        {
            host.send_to_replica(leader, Message::StateWanted { view, series, after });
        }
        self.change.start_view = Some(Start { collected, since, supplement, floor });
        self.go_on_with_start(is_new, host);
    }

    /// Installs what the leader has sent once it is complete.
    fn go_on_with_start<H: Host<O>>(&mut self, is_new: bool, host: &mut H) {
        let is_complete = self.change.start_view.as_ref().is_some_and(|start| start.collected.is_complete());
        if !is_complete {
            return self.on_transfer_progress(is_new, host);
        }
        if let Some(Start { collected, since, supplement, floor }) = self.change.start_view.take() {
            assert!(floor.is_none_or(|floor| floor >= self.floor), "a silent replica raises no floor");
            let was_in_parts = collected.series() != Part::WHOLE.series;
            let received = collected.into_received();
            host.protocol().adopt_supplement(&supplement);
            let state = floor.map(|floor| (floor, received.states.iter().cloned()));
            self.adopt(self.view, since, state, &received, host.protocol());
            self.become_normal(since, floor, received, host);
            if was_in_parts {
                // The leader need not keep it any longer.
                host.send_to_replica(self.leader_of(self.view), Message::Arrived);
            }
        }
    }

    /// The timestamp up to which state is handed over. Beyond the floor the record counts, as it was when the view began: an operation that has run here since then is
    /// one of a single replica, perhaps. The receiver would have its effect and not the operation, and the group might raise a floor above it without the operation.
    fn state_below(&self) -> Timestamp {
        if self.makes(Mistake::HandsOverBeyondFloor) { Timestamp::MAX } else { self.floor }
    }

    /// How large a page of state is: small enough for the leader to do other things in between.
    fn state_bytes_max(&self) -> usize {
        self.page_bytes_max.min(STATE_BYTES_MAX)
    }

    /// A replica that was sent a START-VIEW with state wants more of the state.
    pub fn on_state_wanted<H: Host<O>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        series: u64,
        after: Key,
        host: &mut H,
    ) {
        let passed_on = self.change.passed_on.get_mut(&from);
        let is_kept =
            view == self.view && passed_on.as_ref().is_some_and(|known| known.cut.has_state(series));
        let Some(passed_on) = passed_on.filter(|_| is_kept) else {
            return host.ignored("no state is kept for this replica");
        };
        passed_on.is_asked_for = true;
        let mut after = Some(after);
        for _ in 0..STATE_PAGES_AT_ONCE {
            let Some(from_here) = after.take() else { return };
            let (state, to) =
                host.protocol().state_after(Some(&from_here), self.state_below(), self.state_bytes_max());
            assert!(
                to.as_ref().is_none_or(|to| *to > from_here),
                "state goes on from {from_here:?} to {to:?}"
            );
            after.clone_from(&to);
            host.send_to_replica(from, Message::StatePage { view, series, after: from_here, state, to });
        }
    }

    /// The leader has sent a page of state.
    pub fn on_state_page<H: Host<O>>(
        &mut self,
        view: View,
        series: u64,
        after: Key,
        state: O::State,
        to: Option<Key>,
        host: &mut H,
    ) {
        let leader = self.leader_of(view);
        let start = self.change.start_view.as_mut().filter(|_| view == self.view);
        let Some(Start { collected, .. }) = start.filter(|start| start.collected.series() == series) else {
            return host.ignored("state of a message that nothing is known of");
        };
        let is_new = collected.add_state(after, state, to);
        if collected.has_state_asked_for()
            && let Some(after) = collected.ask_for_state()
        {
            host.send_to_replica(leader, Message::StateWanted { view, series, after });
        }
        self.go_on_with_start(is_new, host);
    }
}
