//! Snapshots are granted to replicas, so that each may serve them alone (ADR 0050).
//!
//! A replica asks for a grant while it is read from. A grant is an entry: the replica had applied every earlier prepare before it serves the
//! first snapshot under it, and every later prepare is voted on by it, or commits above its bound.

use quorate_core::log::Log;
use quorate_core::topology::Grants;
use quorate_core::{ClockTime, Context, ReplicaId, ReplicaIndex, TransactionId};

use super::Shard;
use super::reads::Read;
use crate::entry::{Entry, Granted};
use crate::machine::Out;
use crate::message::{Holder, Life, Message, Unreadable, newest_of};
use crate::reasons;
use crate::rules::Plant;

impl Shard {
    /// Asks the leader for a grant.
    pub(super) fn ask_grant(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let ReplicaId { shard, index } = self.config.replica;
        let leads = self.leader.is_some();
        if !leads && log.leader() != index && !self.may_be_granted(index) {
            return self.send_on(log, outbox);
        }
        // A leader that does not lead yet says nothing.
        let patience = self.config.attention_interval.min(self.config.resend_timeout);
        let is_asked = self.asked_at.is_some_and(|at| context.now - at < patience);
        if is_asked {
            return;
        }
        self.asked_at = Some(context.now);
        let wanted = self.ungranted.iter().map(|read| read.snapshot).max().unwrap_or_default();
        match leads {
            true => self.on_ask_grant(index, self.life, wanted, context, log, outbox),
            false if log.leader() == index => outbox.ignored(reasons::NOT_LEADING),
            false => {
                let leader = ReplicaId { shard, index: log.leader() };
                outbox.send_unordered(leader, Message::AskGrant { life: self.life, wanted });
            }
        }
    }

    /// ASK-GRANT.
    pub(super) fn on_ask_grant(
        &mut self,
        replica: ReplicaIndex,
        life: Life,
        wanted: ClockTime,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if !self.config.groups.members(self.shard()).contains(replica) {
            return outbox.ignored(reasons::NOT_ITS_PLACE);
        }
        if !self.may_be_granted(replica) {
            return outbox.ignored(reasons::LEADERS_ALONE);
        }
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        // The clocks of other shards' leaders may be ahead, and snapshots of their time have to be served here, too.
        let time = context.clock.max(wanted.min(context.clock.saturating_add(self.config.ahead_max)));
        let until = time.saturating_add(self.config.grant_length);
        let known = leader.granted.get(&replica).copied();
        let is_covered = known.is_some_and(|known| {
            known.life == life && known.until > time.saturating_add(self.config.grant_length / 2)
        });
        if is_covered {
            return outbox.ignored(reasons::GRANTED);
        }
        let until = known.map_or(until, |known| known.until.max(until));
        assert!(
            known.is_none_or(|known| known.life != life || known.until < until),
            "{replica} is granted snapshots up to {until:?}, and has {known:?}"
        );
        let holder = Holder { replica, life, until };
        let granted = Granted { view: leader.view, clock: context.clock, holders: vec![holder] };
        match log.append(Entry::Granted(granted)) {
            Some(_) => {
                leader.granted.insert(replica, holder);
            }
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// True if a replica may be granted snapshots: any, or the leader alone, as the keyspace says.
    fn may_be_granted(&self, replica: ReplicaIndex) -> bool {
        match self.config.grants {
            Grants::All => true,
            Grants::Leader => self.leader.is_some() && replica == self.config.replica.index,
        }
    }

    /// Reads that wait for a grant which this replica will not get go on to the leader.
    fn send_on(&mut self, log: &impl Log<Entry>, outbox: &mut Out) {
        self.fewer_wait(self.ungranted.len());
        for Read { home, life, request, .. } in std::mem::take(&mut self.ungranted) {
            let why = Unreadable::NotLeading(log.leader());
            outbox.send_unordered(home, Message::CannotRead { life, request, why });
        }
    }

    /// ASK-TIME.
    pub(super) fn on_ask_time(
        &self,
        home: ReplicaId,
        life: Life,
        context: &Context<'_>,
        log: &impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let message = match self.leader.is_some() {
            true => Message::Time { life, clock: context.clock },
            false => Message::NotLeading { transaction: None, leader: log.leader() },
        };
        outbox.send_unordered(home, message);
    }

    /// The log has a grant.
    pub(super) fn on_granted(
        &mut self,
        granted: &Granted,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let me = self.config.replica.index;
        for holder in granted.holders.iter().filter(|holder| holder.replica == me) {
            if holder.life != self.life {
                self.forget_readers(holder.until);
            }
        }
        self.state.grant(granted);
        if let Some(leader) = &self.leader {
            for holder in &granted.holders {
                let known = leader.granted.get(&holder.replica);
                assert!(
                    known.is_some_and(|known| known.until >= holder.until),
                    "the leader of {} has granted {known:?}, and the log {holder:?}",
                    leader.view
                );
            }
        }
        self.forget_announced(granted, context, log, outbox);
        let own = granted.holders.iter().find(|holder| holder.replica == me && holder.life == self.life);
        if let Some(own) = own {
            self.bound = self.bound.max(own.until);
            let most = self.state.grants.get(&me).map(|holder| holder.until);
            assert!(Some(self.bound) <= most, "{:?} is served, and granted is {most:?}", self.bound);
            self.bound_clock = self.bound_clock.max(granted.clock);
            (self.asked_at, self.is_read) = (None, false);
            self.tell_bound(outbox);
            self.refuse_far_reads(granted, outbox);
            self.wake_ungranted(context, log, outbox);
        }
    }

    /// An earlier life of this replica may have served whatever it was granted, and nobody knows its readers any more.
    pub(super) fn forget_readers(&mut self, until: ClockTime) {
        if !self.has(Plant::ReadersForgotten) {
            self.readers.raise_floor(newest_of(until));
        }
    }

    /// An earlier leader has announced what is not in the log: it never will be.
    fn forget_announced(
        &mut self,
        granted: &Granted,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let outdated: Vec<TransactionId> = self
            .pendings
            .iter_mut()
            .filter(|(_, pending)| pending.announced.is_some_and(|view| view < granted.view))
            .map(|(id, pending)| {
                pending.announced = None;
                id
            })
            .collect();
        for id in outdated {
            let is_held = self.pendings.get(id).is_some_and(|one| one.is_let_in() || one.note.is_some());
            if !is_held {
                self.release(id, context, log, outbox);
            }
        }
    }

    /// The time, if this replica leads and a snapshot lies too far ahead of it to wait for: it was not granted, and will not be soon. Other
    /// replicas cannot say, because their own clocks may be wrong.
    pub(super) fn is_behind(&self, snapshot: ClockTime, clock: ClockTime) -> Option<ClockTime> {
        let leader = self.leader.as_ref()?;
        let bound = leader.granted.values().map(|holder| holder.until).fold(self.bound, ClockTime::max);
        let is_ahead = snapshot > bound && snapshot > clock.saturating_add(self.config.ahead_max);
        is_ahead.then_some(clock)
    }

    /// Refuses what waits for a grant, and lies too far ahead of the clock of the leader that has granted one.
    fn refuse_far_reads(&mut self, granted: &Granted, outbox: &mut Out) {
        let far = granted.clock.saturating_add(self.config.ahead_max).max(self.bound);
        let (refused, left): (Vec<Read>, Vec<Read>) =
            std::mem::take(&mut self.ungranted).into_iter().partition(|read| read.snapshot > far);
        self.ungranted = left;
        self.fewer_wait(refused.len());
        for Read { home, life, request, .. } in refused {
            let why = Unreadable::Ahead(granted.clock);
            outbox.send_unordered(home, Message::CannotRead { life, request, why });
        }
    }

    /// Tells the home of this node up to where this replica serves snapshots.
    pub(super) fn tell_bound(&self, outbox: &mut Out) {
        if let Some((home, Some(_))) = self.home
            && self.bound > ClockTime::default()
        {
            outbox.send_unordered(home, Message::Bound { until: self.bound, clock: self.bound_clock });
        }
    }

    /// Asks for more while somebody reads.
    pub(super) fn attend_grants(
        &mut self,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let ends = context.clock.saturating_add(self.config.grant_length / 2) >= self.bound;
        let is_wanted = self.is_read && ends || !self.ungranted.is_empty();
        if is_wanted {
            self.ask_grant(context, log, outbox);
        }
    }
}
