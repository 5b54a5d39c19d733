//! The time of a node: that of its clock, compared with those of the leaders of shards.

use quorate_core::{ClockTime, Context, Instant, ReplicaId, ReplicaIndex, ShardId, TransactionId};

use super::Home;
use super::transaction::{Asked, Redirected};
use crate::machine::Out;
use crate::message::{Message, Refusal, Session};
use crate::reasons;

impl Home {
    /// The time, by the clock of this node as long as that is not far from those of the leaders of shards: a clock that is wrong does not keep
    /// the node from reading. Where leaders' clocks differ, that of the first one counts, since its shard has the highest floor.
    pub(super) fn time(&self, context: &Context<'_>) -> ClockTime {
        let told = self.references.values();
        let Some(expected) = told.map(|(clock, at)| clock.saturating_add(context.now - *at)).max() else {
            return context.clock;
        };
        let behind = self.config.floor_lag.as_micros() as u64 / 4;
        let least = ClockTime::from_micros(expected.as_micros().saturating_sub(behind));
        // A snapshot further ahead would have to wait for a grant.
        context.clock.clamp(least, expected.saturating_add(self.config.grant_length / 2))
    }

    /// A time that has come by the clock of this node and by those of the leaders of shards, once any is known. A home that has forgotten by
    /// it cannot remember: if this node's clock leapt ahead, and counted alone, no transaction would commit here before the other clocks are as far.
    pub(super) fn clock_that_others_share(&self, context: &Context<'_>) -> Option<ClockTime> {
        let told = self.references.values().map(|(clock, at)| clock.saturating_add(context.now - *at)).min();
        told.map(|told| told.min(context.clock))
    }

    /// A replica has refused a snapshot, and so has told what time it is there, or what the next snapshot has to include.
    pub(super) fn note_refusal(&mut self, shard: ShardId, refusal: Refusal, context: &Context<'_>) {
        let clock = match refusal {
            Refusal::TooOld(floor) => floor.saturating_add(self.config.floor_lag),
            Refusal::Ahead(clock) => clock,
            Refusal::Overwritten(at) => {
                if at <= self.time(context).saturating_add(self.config.ahead_max) {
                    self.greatest = self.greatest.max(at);
                }
                return;
            }
            _ => return,
        };
        self.references.insert(shard, (clock, context.now));
    }

    /// A session has been refused since it is far ahead of the time that leaders have told. A leader's clock may have been wrong then: they are
    /// asked anew, and what they have told a while ago is forgotten.
    pub(super) fn doubt_time(&mut self, context: &Context<'_>, outbox: &mut Out) {
        let grants_last = self.config.grant_length;
        self.references.retain(|_, (_, at)| context.now - *at < grants_last);
        for shard in self.config.shards.ids() {
            self.ask_time(shard, context.now, outbox);
        }
    }

    /// Asks the leader of a shard for its time.
    pub(super) fn ask_time(&mut self, shard: ShardId, now: Instant, outbox: &mut Out) {
        self.ask_time_of(Asked::new(self.leaders.leader(shard), now), outbox);
    }

    fn ask_time_of(&mut self, asked: Asked, outbox: &mut Out) {
        self.asked_time.insert(asked.replica.shard, asked);
        outbox.send_unordered(asked.replica, Message::AskTime { life: self.life() });
    }

    /// The replica that was asked for its time does not lead its shard.
    pub(super) fn on_time_not_leading(
        &mut self,
        from: ReplicaId,
        leader: ReplicaIndex,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        self.leaders.redirect(from, leader);
        let asked = self.asked_time.get(&from.shard);
        match asked.map_or(Redirected::Nowhere, |asked| asked.named(from, leader, context.now)) {
            Redirected::To(named) => self.ask_time_of(named, outbox),
            Redirected::Soon(again) => {
                self.asked_time.insert(from.shard, again);
                self.ask_soon(outbox);
            }
            Redirected::Nowhere => outbox.ignored(reasons::KNOWN),
        }
    }

    /// TIME of the leader of a shard.
    pub(super) fn on_time(
        &mut self,
        from: ReplicaId,
        clock: ClockTime,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        self.note_leading(from, context.now, outbox);
        self.references.insert(from.shard, (clock, context.now));
    }

    /// Asks again as long as no leader has told its time, and after what one has told that is far from the clock of this node: either of the two was wrong then,
    /// and what is told without having been asked for may never come.
    pub(super) fn attend_time(&mut self, context: &Context<'_>, outbox: &mut Out) {
        let (far, timeout) = (self.config.grant_length.as_micros() as u64, self.config.resend_timeout);
        let is_far = |(clock, at): &(ClockTime, Instant)| {
            let told = clock.saturating_add(context.now - *at).as_micros();
            let apart = told.abs_diff(context.clock.as_micros());
            apart > far
        };
        for shard in self.config.shards.ids() {
            let asked = self.asked_time.get(&shard).copied();
            let may_ask = asked.is_none_or(|asked| asked.is_late(context.now, timeout));
            let told = self.references.get(&shard);
            let is_wanted = told.map_or(self.references.is_empty(), is_far);
            if !is_wanted || !may_ask {
                continue;
            }
            let is_silent = |asked: &Asked| told.is_none_or(|(_, at)| *at < asked.at);
            if let Some(silent) = asked.filter(is_silent) {
                self.suspect_if_silent(&silent);
            }
            self.ask_time(shard, context.now, outbox);
        }
    }

    /// Why a transaction does not begin yet, if it does not; its client asks again.
    ///
    /// A node that has compared its clock with none begins nothing: were it far ahead, its reads by that clock would raise its commits as far.
    /// Nor does a transaction whose session has seen what lies further ahead than grants reach: its commit would be out of the reach
    /// of other nodes until clocks come there. It waits no longer than a grant lasts, since a clock that was wrong may have led it there.
    pub(super) fn early(
        &mut self,
        id: TransactionId,
        session: Session,
        context: &Context<'_>,
    ) -> Option<&'static str> {
        if self.references.is_empty() {
            return Some(reasons::UNCOMPARED);
        }
        let time = self.time(context);
        let (near, far) = (self.config.grant_length, self.config.ahead_max);
        let is_ahead = session.seen > time.max(self.latest()).saturating_add(near)
            && session.seen <= time.saturating_add(far);
        if !is_ahead {
            return None;
        }
        if self.waiting.len() < self.config.waiting_max {
            let since = *self.waiting.entry(id).or_insert(context.now);
            if context.now - since >= near {
                return None;
            }
        }
        Some(reasons::EARLY)
    }
}
