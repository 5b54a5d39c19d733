//! What a replica writes to its log.

use bytes::BytesMut;
use quorate_tapir::Record;

use crate::codec::Wire;
use crate::codec::field::{Nested, Optional, Varint};
use crate::codec::table::alternatives;
use crate::error::DecodeError;

alternatives!(Record, "tapir.Record", messages {
    1 Initialised {}
    2 ViewEntered { 1 view: Varint }
    3 Voted { 1 id: Nested, 2 prepare: Nested, 3 vote: Nested }
    4 VoteFinalized { 1 id: Nested, 2 vote: Nested, 3 ballot: Varint }
    5 Decided { 1 transaction: Nested, 2 decision: Nested, 3 executed: Varint }
    6 DecisionExecuted { 1 transaction: Nested }
    7 Promised { 1 transaction: Nested, 2 promise: Nested }
    8 ViewPage { 1 view: Varint, 2 page: Nested }
    9 ViewInstalled { 1 view: Varint, 2 since: Optional<Varint>, 3 supplement: Nested }
});

/// Appends the bytes of a record; never none.
pub fn encode_record(record: &Record, out: &mut BytesMut) {
    record.encode(out);
}

/// Reads back what [`encode_record`] has written, now or in an earlier version.
///
/// # Errors
/// The bytes are not a record that this version knows.
pub fn decode_record(bytes: &[u8]) -> Result<Record, DecodeError> {
    Record::decode(bytes)
}
