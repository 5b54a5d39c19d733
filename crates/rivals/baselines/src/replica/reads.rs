//! Reads: of the state that this replica has applied, for any client; and strict ones, for which it must lead.
//!
//! A strict answer is true of the instant at which it is made only if nobody else leads then. The leader knows that while it
//! holds a lease; else it asks the others whether it still leads, and the answer waits for theirs.

use std::sync::Arc;

use quorate_core::log::Log;
use quorate_core::transaction::KeyVersion;
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{Address, Context, Key, KeyRange, Timestamp, Transaction, TransactionId, View};
use quorate_store::{PreparedSet, VersionRef};

use super::prepare::is_well_formed;
use super::validation::Validation;
use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::Message;
use crate::rules::Plant;

/// So many answers may wait to be confirmed; the client of a further one asks again.
const UNCONFIRMED_MAX: usize = 100_000;

impl Replica {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read(
        &mut self,
        from: Address,
        id: TransactionId,
        key: Key,
        lock: Option<Timestamp>,
        context: &Context<'_>,
        log: &impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if let Some(age) = lock {
            if self.leader.is_none() {
                return Self::send_not_leading(from, id, log, outbox);
            }
            if !self.may_lock(from, id) {
                return;
            }
            if let Some(writer) = self.writer(&key, id) {
                return self.block(writer, from, Message::Read { transaction: id, key, lock });
            }
            if let Some(leader) = &mut self.leader {
                leader.locks.lock_key(id, age, &key, context.now);
            }
        }
        let locked_in = lock.and_then(|_| self.leads());
        let KeyVersion { key, version, value } = self.find(&key);
        outbox.send(from, Message::ReadReply { transaction: id, key, version, value, locked_in });
    }

    /// True if a transaction may lock something: it asks itself, and has not been prepared yet.
    fn may_lock(&self, from: Address, id: TransactionId) -> bool {
        let is_in_flight = self.leader.as_ref().is_some_and(|leader| leader.is_in_flight(id));
        let is_late =
            is_in_flight || self.state.prepared.entry(id).is_some() || self.state.ended(id).is_some();
        from == Address::Client(id.client) && !is_late
    }

    fn find(&self, key: &Key) -> KeyVersion {
        found(key, self.state.versions.newest(key))
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_scan(
        &mut self,
        from: Address,
        id: TransactionId,
        request: u32,
        range: KeyRange,
        limit: u32,
        lock: Option<Timestamp>,
        context: &Context<'_>,
        log: &impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let page_max = self.config.scan_page_max.min(limit as usize);
        let mut versions = self.state.versions.range(&range);
        let keys = versions.by_ref().take(page_max).map(|(key, version)| found(key, Some(version))).collect();
        let next = versions.next().map(|(key, _)| key.clone());
        drop(versions);
        if let Some(age) = lock {
            if self.leader.is_none() {
                return Self::send_not_leading(from, id, log, outbox);
            }
            if !self.may_lock(from, id) {
                return;
            }
            let to = next.clone().or_else(|| range.to.clone());
            let covered = KeyRange { from: range.from.clone(), to };
            if let Some(writer) = self.writer_in(&covered, id) {
                let message = Message::Scan { transaction: id, request, range, limit, lock };
                return self.block(writer, from, message);
            }
            if let Some(leader) = &mut self.leader {
                leader.locks.lock_range(id, age, &covered, context.now);
            }
        }
        let locked_in = lock.and_then(|_| self.leads());
        outbox.send(from, Message::ScanReply { transaction: id, request, keys, next, locked_in });
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_validate(
        &mut self,
        from: Address,
        id: TransactionId,
        part: &Arc<Transaction>,
        locked_in: Option<View>,
        at: Option<Timestamp>,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let ahead_max = context.clock.saturating_add(self.config.timestamp_ahead_max).as_micros();
        if at.is_some_and(|at| at.micros > ahead_max) {
            return;
        }
        if !is_well_formed(part, &self.config) || from != Address::Client(id.client) {
            return;
        }
        if self.leader.is_none() {
            return Self::send_not_leading(from, id, log, outbox);
        }
        let message = || Message::Validate { transaction: id, part: part.clone(), locked_in, at };
        if let Some(at) = at
            && !self.give_away(at, from, id, message, context, log)
        {
            return;
        }
        let is_valid = if self.config.system.locks() {
            let has_locks = self.has_kept_locks(id, part, locked_in);
            if let Some(leader) = &mut self.leader {
                leader.locks.release(id);
            }
            has_locks
        } else {
            self.validation().is_some_and(|validation| validation.is_current(id, part))
        };
        let reply = Message::ValidateReply { transaction: id, is_valid };
        self.send_strict(from, reply, context, log, outbox);
    }

    pub(super) fn on_read_current(
        &mut self,
        from: Address,
        id: TransactionId,
        keys: Vec<Key>,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if keys.len() > TRANSACTION_ENTRIES_MAX {
            return;
        }
        if self.leader.is_none() {
            return Self::send_not_leading(from, id, log, outbox);
        }
        let overlooks = self.config.rules.has(Plant::PreparedOverlooked);
        if !overlooks && let Some(writer) = keys.iter().find_map(|key| self.writer(key, id)) {
            // It may have committed already, so that what it writes has to be read.
            return self.block(writer, from, Message::ReadCurrent { transaction: id, keys });
        }
        let found = keys.iter().map(|key| self.find(key)).collect();
        // Writes from here on lie above both, and those that a later leader lets in above what it finds in the log.
        let last = self.leader.as_ref().map_or(self.state.last, |leader| leader.last);
        let timestamp = self.state.last.min(last);
        let reply = Message::ReadCurrentReply { transaction: id, found, timestamp };
        self.send_strict(from, reply, context, log, outbox);
    }

    /// The state that transactions are validated against; none if this replica does not lead.
    pub(super) fn validation(&self) -> Option<Validation<'_>> {
        let leader = self.leader.as_ref()?;
        let prepared: [&PreparedSet; 2] = [&self.state.prepared, &leader.in_flight];
        let committing = &leader.committing;
        Some(Validation { versions: &self.state.versions, prepared, committing, rules: self.config.rules })
    }

    /// Sends an answer that is right only if this replica led when it was made.
    fn send_strict(
        &mut self,
        to: Address,
        reply: Message,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        let has_lease = log.lease_until().is_some_and(|until| context.now < until);
        if has_lease || self.config.rules.has(Plant::LeaseNotChecked) {
            outbox.send(to, reply);
        } else if leader.unconfirmed.len() < UNCONFIRMED_MAX
            && let Some(confirmation) = log.confirm()
        {
            leader.unconfirmed.push_back((confirmation, to, reply));
        }
    }

    /// Sends what has been confirmed since.
    pub(super) fn send_confirmed(&mut self, log: &impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        while let Some((confirmation, ..)) = leader.unconfirmed.front()
            && log.has_confirmed(*confirmation)
        {
            if let Some((_, to, reply)) = leader.unconfirmed.pop_front() {
                outbox.send(to, reply);
            }
        }
    }
}

pub(super) fn found(key: &Key, version: Option<VersionRef<'_>>) -> KeyVersion {
    KeyVersion {
        key: key.clone(),
        version: version.map_or(Timestamp::ZERO, |version| version.timestamp),
        value: version.and_then(|version| version.value()),
    }
}
