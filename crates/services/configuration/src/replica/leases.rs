//! The holders of leases, and until when they hold them.
//!
//! A holder counts the length of its lease from when it *asked* to be granted or renewed it, the leader from when it *hears*
//! that, which is later; and a leader that has just come counts every lease at full length from then on, since it does not
//! know what was renewed last. Both allow for time that passes faster or slower elsewhere. So a holder takes its lease for
//! ended before anybody else does.
//!
//! That holds only if the replica that renews a lease leads at that instant: else the next leader might have begun to count
//! before. And once the end of a lease is on its way into the log, it is renewed no more.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::log::Log;
use quorate_core::{ClientId, Context};

use super::leader::wait;
use super::{Out, Replica, ReplicaTimer};
use crate::entry::{Entry, LeaseId};
use crate::message::{Message, Refusal};
use crate::rules::Plant;

impl Replica {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_grant(
        &mut self,
        from: ClientId,
        request: u64,
        lease: LeaseId,
        duration: Duration,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (shortest, longest) = self.config.lease_duration;
        if lease.client != from {
            return Self::refuse(from, request, Refusal::Malformed, outbox);
        }
        // As it is written: else a replica that reads the entry from a disk would take it for another length.
        let duration = Duration::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        if duration < shortest || duration > longest {
            return Self::refuse(from, request, Refusal::Duration, outbox);
        }
        if self.state.lease(lease).is_some() {
            // It was granted before, and is not renewed by that: the holder counts from when it first asked.
            return self.answer_certainly(from, Message::Renewed { request, lease }, context, log, outbox);
        }
        let Some(leader) = &mut self.leader else {
            return Self::send_not_leading(from, request, log, outbox);
        };
        if let Some(waiting) = leader.granting.get_mut(&lease) {
            return wait(waiting, (from, request));
        }
        if leader.granting.len() >= self.config.waiting_max {
            return Self::refuse(from, request, Refusal::TooMany, outbox);
        }
        match log.append(Entry::Grant { lease, duration }) {
            Some(_) => {
                leader.granting.insert(lease, BTreeSet::from([(from, request)]));
                let granting = leader.granting.len();
                assert!(granting <= self.config.waiting_max, "{granting} leases are to be granted");
            }
            None => Self::send_not_leading(from, request, log, outbox),
        }
    }

    /// A lease was to be granted.
    pub(super) fn on_granted(
        &mut self,
        lease: LeaseId,
        duration: Duration,
        is_granted: bool,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let until = context.now + self.config.at_least(duration);
        assert!(
            until >= context.now + duration,
            "a lease of {duration:?} is taken for ended at {until:?}, and it is {:?}",
            context.now
        );
        assert!(
            is_granted == self.state.lease(lease).is_some(),
            "{lease:?} was granted: {is_granted}, and is {:?}",
            self.state.lease(lease)
        );
        let Some(leader) = &mut self.leader else {
            if self.config.rules.has(Plant::LeaseNotRestarted) {
                self.granted_at.insert(lease, until);
            }
            return;
        };
        if is_granted {
            leader.lasts_until.entry(lease).or_insert(until);
        }
        for (to, request) in leader.granting.remove(&lease).into_iter().flatten() {
            match is_granted {
                true => outbox.send(to, Message::Renewed { request, lease }),
                false => Self::refuse(to, request, Refusal::TooMany, outbox),
            }
        }
    }

    pub(super) fn on_renew(
        &mut self,
        from: ClientId,
        request: u64,
        lease: LeaseId,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if lease.client != from {
            return Self::refuse(from, request, Refusal::Malformed, outbox);
        }
        let duration = self.state.lease(lease);
        let Some(leader) = &mut self.leader else {
            return Self::send_not_leading(from, request, log, outbox);
        };
        let Some(duration) = duration else {
            return self.answer_certainly(
                from,
                Message::NoSuchLease { request, lease },
                context,
                log,
                outbox,
            );
        };
        if let Some(waiting) = leader.ending.get_mut(&lease)
            && !self.config.rules.has(Plant::RenewedWhileEnding)
        {
            return wait(waiting, (from, request));
        }
        let until = context.now + self.config.at_least(duration);
        assert!(
            !leader.ending.contains_key(&lease) || self.config.rules.has(Plant::RenewedWhileEnding),
            "{lease:?} is renewed, and its end is on its way into the log"
        );
        let known = leader.lasts_until.entry(lease).or_insert(until);
        *known = until.max(*known);
        assert!(*known >= context.now + duration, "{lease:?} is renewed, and lasts until {known:?}");
        let reply = Message::Renewed { request, lease };
        match self.config.rules.has(Plant::RenewalNotConfirmed) {
            true => outbox.send(from, reply),
            false => self.answer_certainly(from, reply, context, log, outbox),
        }
    }

    pub(super) fn on_release(
        &mut self,
        from: ClientId,
        request: u64,
        lease: LeaseId,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if lease.client != from {
            return Self::refuse(from, request, Refusal::Malformed, outbox);
        }
        if self.state.lease(lease).is_none() {
            return self.answer_certainly(
                from,
                Message::NoSuchLease { request, lease },
                context,
                log,
                outbox,
            );
        }
        let Some(leader) = &mut self.leader else {
            return Self::send_not_leading(from, request, log, outbox);
        };
        if let Some(waiting) = leader.ending.get_mut(&lease) {
            return wait(waiting, (from, request));
        }
        match log.append(Entry::End { lease }) {
            Some(_) => {
                leader.ending.insert(lease, BTreeSet::from([(from, request)]));
            }
            None => Self::send_not_leading(from, request, log, outbox),
        }
    }

    /// A lease has ended.
    pub(super) fn on_lease_ended(&mut self, lease: LeaseId, outbox: &mut Out) {
        assert!(self.state.lease(lease).is_none(), "{lease:?} has ended, and is there");
        let Some(leader) = &mut self.leader else { return };
        leader.lasts_until.remove(&lease);
        for (to, request) in leader.ending.remove(&lease).into_iter().flatten() {
            outbox.send(to, Message::NoSuchLease { request, lease });
        }
    }

    /// This replica has begun to lead: it does not know what was renewed last, so every lease lasts its whole length from
    /// now on.
    pub(super) fn restart_leases(&mut self, context: &Context<'_>) {
        let Some(leader) = &mut self.leader else { return };
        for (lease, duration) in self.state.leases() {
            let restarted = context.now + self.config.at_least(duration);
            let until = self.granted_at.get(&lease).copied().unwrap_or(restarted);
            leader.lasts_until.insert(lease, until);
        }
        let (known, held) = (leader.lasts_until.len(), self.state.leases().count());
        assert!(known == held, "{held} leases are held, and the end of {known} is looked for");
    }

    pub(super) fn on_leases_timeout(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        let over: Vec<LeaseId> = leader
            .lasts_until
            .iter()
            .filter(|(lease, until)| **until <= context.now && !leader.ending.contains_key(lease))
            .map(|(lease, _)| *lease)
            .collect();
        for lease in over {
            assert!(self.state.lease(lease).is_some(), "{lease:?} is to end, and is not there");
            if log.append(Entry::End { lease }).is_some() {
                leader.ending.insert(lease, BTreeSet::new());
            }
        }
        outbox.set_timer(ReplicaTimer::Leases, self.config.attention_interval);
    }
}
