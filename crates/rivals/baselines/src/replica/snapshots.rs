//! Snapshots: the values of a shard at a timestamp, read at its leader without locks.
//!
//! A read at a timestamp gives it away: nothing is prepared at or below any more, by this leader or a later one. A transaction
//! that is prepared there already may commit there, so its outcome is waited for. Then the versions up to that timestamp are
//! all that there will ever be.

use quorate_core::log::Log;
use quorate_core::transaction::KeyVersion;
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{Address, Context, Key, KeyRange, Timestamp, TransactionId};
use quorate_store::{Holder, PreparedSet};

use super::reads::found;
use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::{Message, Wanted};
use crate::rules::Plant;

impl Replica {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_at(
        &mut self,
        from: Address,
        id: TransactionId,
        wanted: Wanted,
        at: Timestamp,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let ahead_max = context.clock.saturating_add(self.config.timestamp_ahead_max);
        let is_long = matches!(&wanted, Wanted::Keys(keys) if keys.len() > TRANSACTION_ENTRIES_MAX);
        if at.micros > ahead_max.as_micros() || is_long {
            return;
        }
        if self.leader.is_none() {
            return Self::send_not_leading(from, id, log, outbox);
        }
        if at < self.state.floor {
            let oldest = self.state.floor;
            return outbox.send(from, Message::SnapshotTooOld { transaction: id, oldest });
        }
        let message = || Message::ReadAt { transaction: id, wanted: wanted.clone(), at };
        if !self.give_away(at, from, id, message, context, log) {
            return;
        }
        let page = match &wanted {
            Wanted::Keys(keys) => self.keys_at(keys, at),
            Wanted::Range(range, limit) => self.range_at(range, *limit, at),
        };
        match page {
            Ok((found, next)) => {
                outbox.send(from, Message::ReadAtReply { transaction: id, found, next });
            }
            Err(writer) => self.block(writer, from, message()),
        }
    }

    /// Keys as they were, or a transaction that may yet write one of them there.
    fn keys_at(&self, keys: &[Key], at: Timestamp) -> Result<Page, TransactionId> {
        let writer = |key: &Key| {
            self.first_below(at, |set| set.other_writers(key, TransactionId::default()).collect())
        };
        match keys.iter().find_map(writer) {
            Some(writer) => Err(writer),
            None => Ok((keys.iter().map(|key| found(key, self.state.versions.at(key, at))).collect(), None)),
        }
    }

    /// The first keys of a range as they were, or a transaction that may yet write one of them there.
    fn range_at(&self, range: &KeyRange, limit: u32, at: Timestamp) -> Result<Page, TransactionId> {
        let page_max = self.config.scan_page_max.min(limit as usize);
        let mut keys = self.state.versions.range(range).map(|(key, _)| key);
        let found =
            keys.by_ref().take(page_max).map(|key| found(key, self.state.versions.at(key, at))).collect();
        let next = keys.next().cloned();
        let covered = KeyRange { from: range.from.clone(), to: next.clone().or_else(|| range.to.clone()) };
        let writers = |set: &PreparedSet| set.other_writers_in(&covered, TransactionId::default()).collect();
        match self.first_below(at, writers) {
            Some(writer) => Err(writer),
            None => Ok((found, next)),
        }
    }

    /// Somebody who is prepared at or below a timestamp, among those that `find` finds.
    fn first_below(
        &self,
        at: Timestamp,
        find: impl Fn(&PreparedSet) -> Vec<Holder>,
    ) -> Option<TransactionId> {
        if self.config.rules.has(Plant::SnapshotOverlooksPrepared) {
            return None;
        }
        let in_flight = self.leader.iter().map(|leader| &leader.in_flight);
        let mut sets = in_flight.chain([&self.state.prepared]);
        sets.find_map(|set| find(set).into_iter().find(|holder| holder.timestamp <= at))
            .map(|holder| holder.transaction)
    }
}

/// Keys, and the first that is not covered.
type Page = (Vec<KeyVersion>, Option<Key>);
