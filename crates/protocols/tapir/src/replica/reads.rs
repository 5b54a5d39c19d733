//! Reads and scans: the newest versions that this replica has (TAPIR paper, section 5.1.1).
//!
//! What they return may be stale and reveals nothing that a crash could take back in a way that matters: whatever a
//! transaction has read is validated when it is prepared. So replies leave without waiting for the disk.

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Key, KeyRange, Timestamp, TransactionId};
use quorate_ir::Status;

use super::Replica;
use crate::message::{Message, ScannedKey};

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
        let newest = self.participant.versions.newest(&key);
        let version = newest.map_or(Timestamp::ZERO, |version| version.timestamp);
        let value = newest.and_then(|version| version.value.clone());
        outbox.send_unordered(from, Message::ReadReply { transaction, key, version, value });
    }

    pub(super) fn on_scan(
        &mut self,
        from: Address,
        transaction: TransactionId,
        request: u32,
        range: KeyRange,
        limit: u32,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        let (mut keys, mut next) = (Vec::new(), None);
        let (mut live, mut bytes) = (0, 0);
        for (key, version) in self.participant.versions.range(&range) {
            // Deleted keys count against the page too, or a graveyard would have to be walked in one step.
            if live >= limit || keys.len() >= self.config.scan_page_max || bytes >= SCAN_PAGE_BYTES_MAX {
                next = Some(key.clone());
                break;
            }
            live += u32::from(version.value.is_some());
            bytes += key.len() + version.value.as_ref().map_or(0, |value| value.len());
            keys.push(ScannedKey {
                key: key.clone(),
                version: version.timestamp,
                value: version.value.clone(),
            });
        }
        outbox.send_unordered(from, Message::ScanReply { transaction, request, keys, next });
    }
}
