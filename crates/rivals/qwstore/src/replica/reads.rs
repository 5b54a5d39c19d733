//! Gets and scans: what this replica has, whether or not others have something newer.
//!
//! What is told may be forgotten again in a crash, as may happen to whoever asks a replica that lags behind: nothing is promised
//! of it. So replies leave without waiting for the disk.

use quorate_core::machine::OutboxOf;
use quorate_core::transaction::KeyVersion;
use quorate_core::{Address, Key, KeyRange, Timestamp, TransactionId, Value};
use quorate_ir::Status;

use super::Replica;
use crate::message::Message;

/// Roughly how many bytes of keys and values go into one reply to a scan.
const SCAN_PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

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
        let (mut keys, mut next) = (Vec::new(), None);
        let (mut live, mut bytes) = (0, 0);
        for (key, version) in self.store.versions.range(range) {
            // Deletions count as well, or a graveyard would have to be walked in one step.
            let is_full = live >= limit || keys.len() >= self.config.scan_page_max;
            if is_full || bytes >= SCAN_PAGE_BYTES_MAX {
                next = Some(key.clone());
                break;
            }
            live += u32::from(version.value.is_some());
            bytes += key.len() + version.value.as_ref().map_or(0, Value::len);
            let (version, value) = (version.timestamp, version.value.clone());
            keys.push(KeyVersion { key: key.clone(), version, value });
        }
        outbox.send_unordered(from, Message::ScanReply { transaction, request, keys, next });
    }
}
