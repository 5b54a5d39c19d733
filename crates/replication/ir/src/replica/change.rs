//! Going on with other replicas: how the members of a group are replaced while it serves.
//!
//! ```text
//!   replica that learns of it      falls silent, durably, and enters the first view of the epoch
//!   everybody                      DoViewChange → leader: those before and the members, each in turn
//!   leader                         f + 1 members, and f + 1 of those before: merge, as in any view change
//!   leader                         StartView → the members: state and record, as for any replica that lags behind
//!   member that has the record     Arrived → those before: f + 1 of them, and a replica that is no member is retired
//! ```
//!
//! *Source*: the paper leaves changes of membership open. This follows what "Viewstamped Replication Revisited" (section 7) and
//! joint consensus in Raft have in common.
//!
//! *Why nothing that has succeeded is lost.* An operation succeeds with f + 1 replicas of one view, and so before or after
//! the change, because views are numbered by the epoch in which they take place. Say that it was before. Of any f + 1 of
//! those before one has recorded it, and hands it over, or hands over a record that has it from an earlier view; and from
//! then on it takes part in no view of its epoch, so nothing succeeds there that it does not know. The merge settles what
//! f + 1 of those before have handed over by their own quorums. Say that it was after, in a view of the members: a later view
//! is started only from f + 1 of these, one of which was in that view or in one that follows from it, and then the
//! records from before are not asked for any more.
//!
//! *Why no view is started twice.* Before a member takes part in a view of the epoch it is a replica that lags behind, as any
//! other: it has given up all lower views, and can be counted. A new member has what view 0 began with. Only a replica that has lost its
//! record counts for nobody, and a change does not alter that.
//!
//! *Why the change ends.* A replica that is ahead of the others can lead: members and those before take turns. A replica that has the record
//! of a view of the epoch passes over the turns of those that are no members, for they may be gone. One of those before that such a member answers
//! tries no other view meanwhile: either would begin one view after the other, and the members that fetch the record would have
//! it from neither.
//!
//! The conditions for a definition of an epoch are told at [`Groups::next`](quorate_core::Groups::next).

use quorate_core::bound::reasons;
use quorate_core::{Epoch, Members, ReplicaIndex, Succession, View};

use super::{Host, Replica, Status};
use crate::message::Message;
use crate::{Mistake, Operations};

/// How many replicas, of the members and of those before them; who is both is counted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) members: usize,
    pub(super) previous: usize,
}

impl Count {
    /// True if there is anybody.
    pub(super) fn anybody(self) -> bool {
        self.members + self.previous > 0
    }

    /// Both together.
    pub(super) fn with(self, other: Count) -> Count {
        Count { members: self.members + other.members, previous: self.previous + other.previous }
    }
}

impl<O: Operations> Replica<O> {
    /// The epoch since which the members of the group are as they are, as far as is known here: its views are numbered
    /// by it.
    pub fn since(&self) -> Epoch {
        self.succession.present.since
    }

    /// True if this replica is a member of its group.
    pub fn is_member(&self) -> bool {
        self.group.contains(self.me)
    }

    /// True if another replica takes part in view changes here.
    pub fn is_peer(&self, other: ReplicaIndex) -> bool {
        other != self.me && self.everybody.contains(&other)
    }

    /// Since when the members were as they were in the latest view of which this replica has the record; none if it has lost it.
    pub fn arrived(&self) -> Option<Epoch> {
        self.last_normal().map(View::epoch)
    }

    /// True if this replica has the record of a view of its epoch.
    pub fn has_arrived(&self) -> bool {
        self.arrived().is_some_and(|arrived| arrived >= self.since())
    }

    /// True if this replica has the record of the view that it is in.
    pub(super) fn has_started(&self) -> bool {
        self.last_normal() == Some(self.view)
    }

    /// The leader of a view: each in turn, those before the members included.
    pub(super) fn leader_of(&self, view: View) -> ReplicaIndex {
        self.everybody[(view.within_epoch() % self.everybody.len() as u64) as usize]
    }

    /// The first view from this one on that can come to anything, as far as is known here; none if none is left.
    pub(super) fn useful(&self, view: View) -> Option<View> {
        let mut view = view.max(View::first_of(self.since()));
        // Those before need not be there any more once members can do without them.
        while self.has_arrived() && self.is_member() && !self.group.contains(self.leader_of(view)) {
            view = view.next()?;
        }
        assert!(view.epoch() >= self.since(), "{view:?} is of an epoch before {:?}", self.since());
        Some(view)
    }

    /// The same from the view after one on.
    pub(super) fn useful_after(&self, view: View) -> Option<View> {
        self.useful(view.next()?)
    }

    /// True if a view that another replica names may be gone on to; else says that it may not.
    pub(super) fn believes<H: Host<O>>(&self, view: View, host: &mut H) -> bool {
        let is_believed = self.view.may_go_to(view, self.since()) || self.makes(Mistake::BelievesAnyView);
        if !is_believed {
            host.ignored(reasons::VIEW);
        }
        is_believed
    }

    /// Counts replicas by what they are.
    pub(super) fn count(&self, replicas: impl Iterator<Item = ReplicaIndex>) -> Count {
        let mut count = Count::default();
        for replica in replicas {
            count.members += usize::from(self.group.contains(replica));
            let previous = self.succession.previous.filter(|tenure| tenure.members.contains(replica));
            count.previous += usize::from(previous.is_some());
        }
        count
    }

    /// True if so many suffice to start a view, the latest of whose records is that of the view `greatest`.
    pub(super) fn suffice(&self, count: Count, greatest: Option<View>) -> bool {
        let previous_max = self.succession.previous.map_or(0, |tenure| tenure.members.replicas());
        assert!(
            count.members <= self.group.replicas() && count.previous <= previous_max,
            "{count:?} replicas have been heard of {} members and {previous_max} before them",
            self.group.replicas()
        );
        if count.members < self.group.majority() {
            return false;
        }
        let (Some(previous), Some(greatest)) = (self.succession.previous, greatest) else { return true };
        if greatest.epoch() >= self.since() || self.makes(Mistake::HandsOverFromTooFew) {
            return true;
        }
        // Operations agreed on between its epoch and this one are with others: nobody should have gone on yet.
        let is_latest = greatest.epoch() >= previous.since || self.makes(Mistake::HandsOverFromTooEarly);
        is_latest && count.previous >= previous.members.majority()
    }

    /// Takes note, while the machine is rebuilt or before it starts, of who the members are.
    pub fn set_succession(&mut self, succession: Succession) {
        self.succession = succession;
        self.group = succession.present.members;
        self.everybody = succession.everybody();
        self.change.arrived.clear();
        assert!(
            self.group.iter().all(|member| self.everybody.contains(&member)),
            "some of {:?} would never lead: turns are taken by {:?}",
            self.group,
            self.everybody
        );
    }

    /// The group goes on with other members, from an epoch on that is later than the present one. The host has made that
    /// durable already: this replica never again takes part in what the members before agree on.
    pub fn enter_epoch<H: Host<O>>(&mut self, succession: Succession, host: &mut H) {
        assert!(succession.present.since > self.since(), "an epoch is left for a later one");
        self.set_succession(succession);
        self.change.forget();
        self.change.failed_views = 0;
        let first = View::first_of(self.since());
        match self.status {
            _ if !self.takes_part() => self.retire(host),
            Status::Recovering => self.send_view_query(host),
            Status::Normal | Status::ViewChanging | Status::Retired => {
                self.status = Status::ViewChanging;
                self.enter_view_change(first, host);
            }
        }
        assert!(
            self.view.epoch() >= self.since() || matches!(self.status, Status::Recovering | Status::Retired),
            "{:?} in {:?} after a change of the group at {:?}",
            self.status,
            self.view,
            self.since()
        );
    }

    /// True if this replica is a member, or was one before the last change and can tell what was agreed on then.
    pub(super) fn takes_part(&self) -> bool {
        self.is_member() || self.status != Status::Recovering && self.everybody.contains(&self.me)
    }

    /// The group whose quorums settled what the record of this replica does not: that of its last view.
    pub(super) fn voters(&self) -> Members {
        match self.succession.previous {
            Some(previous) if !self.has_arrived() => previous.members,
            _ => self.group,
        }
    }

    /// [`Mistake::ServesEmpty`]: a new member takes part in the first view of the epoch at once.
    pub(super) fn serve_empty<H: Host<O>>(&mut self, host: &mut H) {
        self.view = View::first_of(self.since());
        self.record.enter_lineage(self.record.last_normal(), self.view);
        self.status = Status::Normal;
        host.on_normal(self.view);
    }

    /// True, and says so, if one of those before wants to go on with a change that is over.
    pub(super) fn answers_earlier<H: Host<O>>(&self, from: ReplicaIndex, host: &mut H) -> bool {
        let is_over = self.is_member() && self.has_arrived() && !self.group.contains(from);
        if is_over {
            host.send_to_replica(from, Message::Arrived);
        }
        is_over
    }

    /// A member has, durably, the record of a view of the epoch. The records kept for it are not needed any more.
    pub fn on_arrived<H: Host<O>>(&mut self, from: ReplicaIndex, host: &mut H) {
        if self.has_started() {
            self.change.forget_passed_on(from);
        }
        if self.is_member() || !self.group.contains(from) || self.status != Status::ViewChanging {
            return;
        }
        self.change.arrived.insert(from);
        // That member can go on without this replica, which would only drag on those that fetch the record from it. If it falls silent,
        // this replica tries the next view as before.
        self.change.wait_anew();
        assert!(
            self.change.arrived.len() <= self.group.replicas(),
            "{:?} have arrived of {:?}",
            self.change.arrived,
            self.group
        );
        if self.change.arrived.len() >= self.group.majority() {
            self.retire(host);
        }
    }

    /// This replica has led the view in which the members begin, and is none itself. It waits until enough of them have what
    /// they were sent, and sends it again to those that ask.
    pub(super) fn await_arrival<H: Host<O>>(&mut self, host: &mut H) {
        self.forget_passed_on(host);
        let view = self.view;
        for member in self.group.iter().filter(|member| !self.change.arrived.contains(member)) {
            host.send_to_replica(member, Message::StartViewChange { view });
        }
        host.set_view_change_timer(self.attempt_timeout());
    }

    pub(super) fn retire<H: Host<O>>(&mut self, host: &mut H) {
        assert!(!self.is_member(), "{:?} retires, and is a member of {:?}", self.me, self.group);
        self.status = Status::Retired;
        self.change.forget();
        host.cancel_view_change_timer();
        host.on_retired();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_those_before_them_are_counted_apart() {
        let count = |members, previous| Count { members, previous };
        let table = [((0, 0), false), ((1, 0), true), ((0, 1), true), ((1, 1), true), ((1, 2), true)];
        for ((members, previous), anybody) in table {
            assert_eq!(count(members, previous).anybody(), anybody, "{members} and {previous}");
        }
        assert_eq!(count(1, 2).with(count(3, 5)), count(4, 7));
    }
}
