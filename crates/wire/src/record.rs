//! What a replica writes to its log.

use bytes::BytesMut;
use quorate_core::Epoch;
use quorate_tapir::Record;

use crate::codec::field::{Field, Map, Nested, Optional, Packed, Varint};
use crate::codec::table::{alternatives, take_fields};
use crate::codec::{Wire, Writer};
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
    9 ViewInstalled {
        1 view: Varint,
        2 since: Optional<Varint>,
        3 supplement: Nested,
        10 floor: Optional<Nested>,
    }
    10 Refusing { 1 below: Nested }
    11 Completed { 1 below: Nested }
    12 FloorRaised { 1 floor: Nested }
    13 ViewState { 1 view: Varint, 2 state: Nested }
    14 SnapshotBegun { 1 view: Varint, 2 lineage: Packed, 3 floor: Nested, 4 complete: Nested, 5 lives: Map }
    15 SnapshotBinds { 1 read_floor: Nested, 2 supplement: Nested }
    16 SnapshotPage { 1 state: Nested }
    17 SnapshotEnded { 1 floor: Nested }
    18 LifeNoted { 1 replica: Varint, 2 life: Varint }
    19 EpochEntered { 1 groups: Nested }
    30 ReadsPromised { 1 until: Nested }
});

/// The field of a record that holds its epoch. It stands outside the alternatives, which pass over it.
const EPOCH: u32 = 63;

/// Appends the bytes of a record that is written under a membership; never none.
pub fn encode_record<R: Wire>(epoch: Epoch, record: &R, out: &mut BytesMut) {
    record.encode(out);
    let start = out.len();
    out.resize(start + <Varint as Field<Epoch>>::encoded_len(EPOCH, &epoch), 0);
    <Varint as Field<Epoch>>::write(EPOCH, &epoch, &mut Writer::new(&mut out[start..]));
}

/// Reads back what [`encode_record`] has written, now or in an earlier version.
///
/// # Errors
/// The bytes are not a record that this version knows.
pub fn decode_record<R: Wire>(bytes: &[u8]) -> Result<(Epoch, R), DecodeError> {
    Ok((decode_epoch(bytes)?, R::decode(bytes)?))
}

fn decode_epoch(bytes: &[u8]) -> Result<Epoch, DecodeError> {
    take_fields!(bytes, "Record", { 63 epoch: Varint });
    Ok(epoch)
}
