//! The common part of systems on inconsistent replication.

use quorate_core::hosted::Holdings;

use crate::world::disk::Disk;

/// As many records as make a snapshot worth it, twice, because they may have been written while the last one was; the
/// snapshot; and the segments at both ends.
pub(super) fn log_bytes_max(records_min: u64, replica: &impl Holdings) -> Option<u64> {
    const RECORD_BYTES: u64 = 2_048;
    let records = records_min.max(4 * replica.version_count() as u64);
    let bytes = || 2 * records * RECORD_BYTES + 2 * replica.state_bytes();
    (records_min <= 10_000).then(|| bytes() + 4 * u64::from(Disk::SEGMENT_BYTES_MAX))
}
