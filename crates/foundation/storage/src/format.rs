//! Format 1: where what stands in a segment. Pure functions over bytes.
//!
//! ```text
//!   segment   bytes 0..8     magic
//!                   8..12    format, 1
//!                   12..16   shard of the replica
//!                   16..24   cluster
//!                   24..32   incarnation of the log, random
//!                   32..36   number of the segment, from 1
//!                   36..40   size of the segment; a file that is shorter ends in zeros
//!                   40       index of the replica
//!                   60..64   CRC-32 of the bytes before
//!                   512..528 durable mark: position (8), zeros (4), CRC-32 of incarnation and position (4)
//!                   544..560 beginning, once the segments before this one are not needed: position of the first record (8),
//!                            zeros (4), CRC-32 of incarnation, position and zeros (4)
//!                   1024..   records
//!
//!   record    bytes 0..4     length of the contents; all ones for a seal, which has none: the log goes on in the next segment
//!                   4..8     CRC-32 of incarnation, position of the record, length, durable position and contents
//!                   8..16    up to which position the log was known to be durable when this was written
//!                   16..     contents, then zeros up to the next multiple of eight
//! ```
//!
//! Numbers have their least significant byte first. A position is `number of the segment << 32 | offset in it`.

use bytes::BytesMut;
use crc32fast::Hasher;
use quorate_core::{ReplicaId, ReplicaIndex, ShardId};

use super::{FORMAT, LogIdentity, Position, RECORD_BYTES_MAX};

/// Never the beginning of a text, and damaged by whatever converts line ends.
const MAGIC: [u8; 8] = *b"\x89QLOG\r\n\x1a";

const HEADER_BYTES: usize = 64;

/// Where the durable mark stands: in another sector than the header, which is never written again.
pub(super) const MARK_OFFSET: u64 = 512;

/// Where a segment says that the log begins with it.
pub(super) const BEGINNING_OFFSET: u64 = 544;

const MARK_BYTES: usize = 16;

/// Where records begin.
pub(super) const RECORDS_OFFSET: u32 = 1024;

/// The length of what stands before the contents of a record, and of a seal.
pub(super) const RECORD_HEADER_BYTES: usize = 16;

/// A segment has room for a record and a seal.
pub(super) const SEGMENT_BYTES_MIN: u64 = RECORDS_OFFSET as u64 + 64;

const SEAL: u32 = u32::MAX;

/// The content of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) identity: LogIdentity,
    pub(super) incarnation: u64,
    pub(super) number: u32,
    pub(super) bytes: u32,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    Magic,
    Format(u32),
    Damaged,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.identity.replica.shard.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.cluster.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.number.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[40] = self.identity.replica.index.0;
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of a segment. A later format may have another header, so only the magic is checked before it.
    pub(super) fn decode(segment: &[u8]) -> Result<Header, HeaderFault> {
        let Some(bytes) = segment.get(..HEADER_BYTES) else { return Err(HeaderFault::Damaged) };
        if bytes[..8] != MAGIC {
            return Err(HeaderFault::Magic);
        }
        let format = u32_at(bytes, 8);
        if format > FORMAT {
            return Err(HeaderFault::Format(format));
        }
        let damaged = format != FORMAT || u32_at(bytes, 60) != crc32fast::hash(&bytes[..60]);
        if damaged {
            return Err(HeaderFault::Damaged);
        }
        let replica = ReplicaId { shard: ShardId(u32_at(bytes, 12)), index: ReplicaIndex(bytes[40]) };
        Ok(Header {
            identity: LogIdentity { cluster: u64_at(bytes, 16), replica },
            incarnation: u64_at(bytes, 24),
            number: u32_at(bytes, 32),
            bytes: u32_at(bytes, 36),
        })
    }
}

/// The bytes of a durable mark.
pub(super) fn encode_mark(incarnation: u64, durable: Position) -> [u8; MARK_BYTES] {
    let mut bytes = [0; MARK_BYTES];
    bytes[..8].copy_from_slice(&durable.0.to_le_bytes());
    bytes[12..].copy_from_slice(&mark_crc(incarnation, durable).to_le_bytes());
    bytes
}

/// The durable mark of a segment, if it can be read. It may have been overtaken, or torn; so it proves how far the log
/// was durable and never how far it was not.
pub(super) fn decode_mark(segment: &[u8], incarnation: u64) -> Option<Position> {
    let bytes = segment.get(MARK_OFFSET as usize..)?.get(..MARK_BYTES)?;
    let durable = Position(u64_at(bytes, 0));
    (u32_at(bytes, 12) == mark_crc(incarnation, durable)).then_some(durable)
}

fn mark_crc(incarnation: u64, durable: Position) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&incarnation.to_le_bytes());
    hasher.update(&durable.0.to_le_bytes());
    hasher.finalize()
}

/// The bytes that say that the log begins with this segment.
pub(super) fn encode_beginning(header: &Header) -> [u8; MARK_BYTES] {
    let position = Position::new(header.number, RECORDS_OFFSET);
    let mut bytes = [0; MARK_BYTES];
    bytes[..8].copy_from_slice(&position.0.to_le_bytes());
    let mut hasher = Hasher::new();
    hasher.update(&header.incarnation.to_le_bytes());
    // With the zeros that follow the position, which keeps it apart from a durable mark.
    hasher.update(&bytes[..12]);
    bytes[12..].copy_from_slice(&hasher.finalize().to_le_bytes());
    bytes
}

/// True if the log begins with this segment, whatever came before it.
pub(super) fn is_beginning(segment: &[u8], header: &Header) -> bool {
    segment.get(BEGINNING_OFFSET as usize..).and_then(|rest| rest.get(..MARK_BYTES))
        == Some(&encode_beginning(header)[..])
}

/// The content of some place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Record {
        contents: &'a [u8],
        durable: Position,
        next: u32,
    },
    Seal {
        durable: Position,
    },
    /// Nothing was written here.
    Blank,
    /// Something that is none of the above.
    Unreadable,
}

/// How many bytes a record of so much contents takes.
pub(super) fn record_bytes(contents: usize) -> usize {
    (RECORD_HEADER_BYTES + contents).next_multiple_of(8)
}

/// Completes a record whose contents stand at the end of `bytes`, after a blank header at `start`: fills the header in
/// and pads.
pub(super) fn finish_record(
    bytes: &mut BytesMut,
    start: usize,
    incarnation: u64,
    position: Position,
    durable: Position,
) {
    let length = (bytes.len() - start - RECORD_HEADER_BYTES) as u32;
    fill_header(&mut bytes[start..], incarnation, position, length, durable);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// The bytes of a seal.
pub(super) fn seal(incarnation: u64, position: Position, durable: Position) -> [u8; RECORD_HEADER_BYTES] {
    let mut bytes = [0; RECORD_HEADER_BYTES];
    fill_header(&mut bytes, incarnation, position, SEAL, durable);
    bytes
}

fn fill_header(record: &mut [u8], incarnation: u64, position: Position, length: u32, durable: Position) {
    let (header, contents) = record.split_at_mut(RECORD_HEADER_BYTES);
    let crc = record_crc(incarnation, position, length, durable, contents);
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4..8].copy_from_slice(&crc.to_le_bytes());
    header[8..].copy_from_slice(&durable.0.to_le_bytes());
}

fn record_crc(incarnation: u64, position: Position, length: u32, durable: Position, contents: &[u8]) -> u32 {
    let mut prefix = [0; 28];
    prefix[..8].copy_from_slice(&incarnation.to_le_bytes());
    prefix[8..16].copy_from_slice(&position.0.to_le_bytes());
    prefix[16..20].copy_from_slice(&length.to_le_bytes());
    prefix[20..].copy_from_slice(&durable.0.to_le_bytes());
    let mut hasher = Hasher::new();
    hasher.update(&prefix);
    hasher.update(contents);
    hasher.finalize()
}

/// Reads what stands at `offset` of a segment of which `segment` is the beginning and the rest is zeros.
pub(super) fn entry_at<'a>(segment: &'a [u8], header: &Header, offset: u32) -> Entry<'a> {
    let end = (segment.len() as u64).min(u64::from(header.bytes)) as usize;
    entry_of(segment.get(offset as usize..end).unwrap_or(&[]), header, offset)
}

/// How many bytes the record takes that begins here, as its header says; none for anything else.
pub(super) fn record_bytes_at(rest: &[u8]) -> Option<usize> {
    let length = u32_at(rest.get(..RECORD_HEADER_BYTES)?, 0);
    (length != SEAL && length as usize <= RECORD_BYTES_MAX).then(|| record_bytes(length as usize))
}

/// Reads what stands at `offset` of a segment, where `rest` begins.
pub(super) fn entry_of<'a>(rest: &'a [u8], header: &Header, offset: u32) -> Entry<'a> {
    let Some((head, body)) = rest.split_at_checked(RECORD_HEADER_BYTES) else {
        return if is_zero(rest) { Entry::Blank } else { Entry::Unreadable };
    };
    let (length, crc, durable) = (u32_at(head, 0), u32_at(head, 4), Position(u64_at(head, 8)));
    let position = Position::new(header.number, offset);
    let crc_of = |contents| record_crc(header.incarnation, position, length, durable, contents);
    match length {
        // A record is never empty, so this is no record.
        0 if is_zero(head) => Entry::Blank,
        0 => Entry::Unreadable,
        SEAL if crc == crc_of(&[]) => Entry::Seal { durable },
        SEAL => Entry::Unreadable,
        _ => match body.get(..length as usize) {
            Some(contents) if length as usize <= RECORD_BYTES_MAX && crc == crc_of(contents) => {
                let next = offset + record_bytes(contents.len()) as u32;
                Entry::Record { contents, durable, next }
            }
            _ => Entry::Unreadable,
        },
    }
}

/// The greatest position that some entry beyond `from`, valid although what stands before it is not, says was durable;
/// only those above `floor` matter.
pub(super) fn durable_beyond(
    segment: &[u8],
    header: &Header,
    from: u32,
    floor: Position,
) -> Option<Position> {
    let end = segment.len().saturating_sub(RECORD_HEADER_BYTES - 1);
    (from as usize..end)
        .step_by(8)
        .filter(|&offset| {
            // Decides nearly always, and without a CRC over what is no record.
            let durable = Position(u64_at(segment, offset + 8));
            durable > floor && durable <= Position::new(header.number, offset as u32)
        })
        .filter_map(|offset| match entry_at(segment, header, offset as u32) {
            Entry::Record { durable, .. } | Entry::Seal { durable } => Some(durable),
            Entry::Blank | Entry::Unreadable => None,
        })
        .max()
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
