//! A preferred site locks what a slow commit of another site writes (section 5.5).
//!
//! A vote stands once LOCKED is stable, under any later leader of the site. The locks go when the transaction has committed here, or once its refusal
//! is durable at the site that coordinates it; that site is asked if nothing is heard for long.

use quorate_core::log::Log;
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{Address, Context, Instant, Key, ReplicaId, TransactionId};

use super::containers::{Holder, awaited};
use super::leader::Refusing;
use super::state::State;
use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::{Ending, Message, Period};
use crate::reasons;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector};

impl Replica {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_prepare(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        keys: Vec<Key>,
        snapshot: Vector,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(origin) = self.other_site(from.shard) else {
            return outbox.ignored(reasons::NO_SITE);
        };
        let is_well_formed = keys.is_sorted_by(|one, other| one < other)
            && (1..=TRANSACTION_ENTRIES_MAX).contains(&keys.len());
        if !is_well_formed {
            return outbox.ignored(reasons::MALFORMED);
        }
        let Some(leader) = &self.leader else {
            return self.send_not_leading(from.into(), None, log, outbox);
        };
        if leader.locking.contains(&id) {
            return outbox.ignored(reasons::UNDER_WAY);
        }
        if let Some((lock, _)) = self.state.locks.get(&id) {
            // An earlier leader may have asked for fewer registers, and a container may have moved here since. Registers that are not locked were not looked
            // at; the transaction begins anew once its locks are gone.
            let vouches = self.config.rules.has(Plant::OtherLocksVouch);
            let agrees = vouches || keys.iter().all(|key| lock.keys.binary_search(key).is_ok());
            return outbox.send(from, Message::Vote { transaction: id, keys, agrees });
        }
        let holders: Vec<Holder> = keys.iter().map(|key| self.holder(key)).collect();
        if let Some(needs) = awaited(&holders) {
            let mut needs = needs.clone();
            needs.join(&snapshot);
            let message = Message::Prepare { transaction: id, keys, snapshot };
            return self.wait(from.into(), message, needs, context, outbox);
        }
        // A transaction that has committed here gets no lock once more: its snapshot excludes its own writes, or the floor includes them.
        let is_recent = snapshot.includes_all(self.state.histories.floor());
        let is_here = holders.iter().all(|holder| *holder == Holder::Here);
        if !is_recent || !is_here || !keys.iter().all(|key| self.is_free(key, id, &snapshot)) {
            // The transaction in the way may be in the snapshot, and has not committed here; or one that brings a container.
            if !self.has_committed(&snapshot) {
                let needs = snapshot.clone();
                let message = Message::Prepare { transaction: id, keys, snapshot };
                return self.wait(from.into(), message, needs, context, outbox);
            }
            if is_here {
                self.reserve(id, &keys, context.now);
            }
            return outbox.send(from, Message::Vote { transaction: id, keys, agrees: false });
        }
        let entry = Entry::Locked { transaction: id, origin, keys: keys.clone() };
        let is_logged = !self.config.rules.has(Plant::LockNotLogged);
        if is_logged && log.append(entry).is_none() {
            return outbox.ignored(reasons::LOG_CLOSED);
        }
        let Some(leader) = &mut self.leader else { return };
        leader.hold(id, &keys);
        match is_logged {
            true => {
                let is_new = leader.locking.insert(id);
                assert!(is_new, "{id} is locked for twice");
            }
            false => outbox.send(from, Message::Vote { transaction: id, keys, agrees: true }),
        }
        self.release_reserved(id, context, log, outbox);
    }

    /// LOCKED is stable: the vote stands.
    pub(super) fn on_locked(&mut self, id: TransactionId, origin: LocalSite, keys: &[Key], outbox: &mut Out) {
        assert!(self.state.locks.contains_key(&id), "{id} was locked for, and has no lock");
        self.note_other_writer(origin, keys);
        let Some(leader) = &mut self.leader else { return };
        leader.let_go(id, keys);
        if leader.locking.remove(&id) {
            let vote = Message::Vote { transaction: id, keys: keys.to_vec(), agrees: true };
            outbox.send(self.leader_of(origin), vote);
        }
    }

    pub(super) fn on_release(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(origin) = self.other_site(from.shard) else {
            return outbox.ignored(reasons::NO_SITE);
        };
        let Some(leader) = &mut self.leader else {
            return self.send_not_leading(from.into(), None, log, outbox);
        };
        let is_held = self.state.locks.get(&id).is_some_and(|(lock, _)| lock.origin == origin);
        if leader.locking.contains(&id) || (is_held && !leader.releasing.contains(&id)) {
            match log.append(Entry::Released(id)) {
                Some(_) => {
                    leader.releasing.insert(id);
                }
                None => outbox.ignored(reasons::LOG_CLOSED),
            }
        } else {
            outbox.ignored(reasons::NOT_OPEN);
        }
    }

    /// RELEASED is stable.
    pub(super) fn on_released(&mut self, id: TransactionId) {
        assert!(!self.state.locks.contains_key(&id), "{id} was released, and holds a lock");
        if let Some(leader) = &mut self.leader {
            leader.releasing.remove(&id);
        }
    }

    /// Asks what became of transactions whose locks are old.
    pub(super) fn attend_locks(&mut self, context: &Context<'_>, outbox: &mut Out) {
        let timeout = self.config.recovery_timeout;
        let mut old = Vec::new();
        for (id, (lock, since)) in &mut self.state.locks {
            if context.now - *since >= timeout {
                *since = context.now;
                old.push((*id, lock.origin));
            }
        }
        for (id, origin) in old {
            if self.is_frozen(origin) {
                // It goes with the end of its site.
                continue;
            }
            let committed = self.state.committed.of(origin);
            let message = Message::AskOutcome { transaction: id, period: Period(0), committed };
            outbox.send(self.leader_of(origin), message);
            if let Some(leader) = &mut self.leader {
                leader.settling.insert(id);
            }
        }
        let State { locks, .. } = &self.state;
        if let Some(leader) = &mut self.leader {
            leader.settling.retain(|id| locks.contains_key(id));
            let (settling, held) = (leader.settling.len(), locks.len());
            assert!(settling <= held, "{settling} transactions are settled, and {held} hold locks");
        }
    }

    pub(super) fn on_ask_outcome(
        &mut self,
        from: Address,
        id: TransactionId,
        (period, committed): (Period, u64),
        now: Instant,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let site = match from {
            Address::Client(_) => None,
            Address::Replica(replica) => match self.other_site(replica.shard) {
                Some(site) => Some(site),
                None => return outbox.ignored(reasons::NO_SITE),
            },
        };
        let Some(leader) = &mut self.leader else {
            return self.send_not_leading(from, Some(id), log, outbox);
        };
        if leader.is_under_way(id) {
            return outbox.ignored(reasons::UNDER_WAY);
        }
        if let Some(refusing) = leader.refusing.get_mut(&id) {
            match site {
                Some(site) => refusing.sites.insert(site),
                None => refusing.clients.insert(from),
            };
            return;
        }
        let floor = self.state.histories.floor().of(self.site);
        match (self.state.ending(id), site) {
            (Some(_), None) => self.tell_ending(from, id, now, outbox),
            (Some(Ending::Aborted), Some(_)) => outbox.send(from, Message::Release { transaction: id }),
            // It comes as every transaction does, and its locks go when it has committed there.
            (Some(Ending::Committed { .. }), Some(_)) => outbox.ignored(reasons::KNOWN),
            (None, None) if period <= self.state.forgotten => {
                outbox.send(from, Message::Forgotten { transaction: id });
            }
            (None, None) => self.refuse(id, Refusing::told(from), log, outbox),
            (None, Some(_)) if committed < floor => outbox.ignored(reasons::KNOWN),
            // If it had committed, this site would know as long as it has not committed where the lock is.
            (None, Some(site)) => {
                let told = Refusing { sites: [site].into(), ..Refusing::default() };
                self.refuse(id, told, log, outbox);
            }
        }
    }
}
