//! The records that a replica writes to its log.

use bytes::BytesMut;
use quorate_codec::field::{Field, Varint};
use quorate_codec::{DecodeError, Wire, Writer, take_fields};
use quorate_core::Epoch;

/// The field of a record that holds its epoch. It stands outside the alternatives, which pass over it.
pub(crate) const EPOCH_FIELD: u32 = 63;

/// Appends the bytes of a record that is written under a membership; never none.
pub fn encode_record<R: Wire>(epoch: Epoch, record: &R, out: &mut BytesMut) {
    record.encode(out);
    let start = out.len();
    out.resize(start + <Varint as Field<Epoch>>::encoded_len(EPOCH_FIELD, &epoch), 0);
    <Varint as Field<Epoch>>::write(EPOCH_FIELD, &epoch, &mut Writer::new(&mut out[start..]));
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
