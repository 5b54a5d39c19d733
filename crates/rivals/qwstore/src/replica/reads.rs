//! Gets and scans: what this replica has, whether or not others have something newer.
//!
//! What is told may be forgotten again in a crash, as may happen to whoever asks a replica that lags behind: nothing is promised
//! of it. So replies leave without waiting for the disk.

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Key, KeyRange, Timestamp, TransactionId};
use quorate_ir::Status;
use quorate_store::PageLimits;

use super::Replica;
use crate::message::Message;

impl Replica {
    pub(super) fn on_read(
        &mut self,
        from: Address,
        transaction: TransactionId,
        key: Key,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        let newest = self.store.versions.newest(&key);
        let version = newest.map_or(Timestamp::ZERO, |version| version.timestamp);
        let value = newest.and_then(|version| version.value.clone());
        outbox.send_unordered(from, Message::ReadReply { transaction, key, version, value });
    }

    pub(super) fn on_scan(
        &mut self,
        from: Address,
        transaction: TransactionId,
        request: u32,
        range: &KeyRange,
        limit: u32,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        let limits = PageLimits::of_scan(limit, self.config.scan_page_max);
        let (keys, next) = self.store.versions.scan(range, limits);
        outbox.send_unordered(from, Message::ScanReply { transaction, request, keys, next });
    }
}
