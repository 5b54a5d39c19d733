//! The records that a replica writes to its log.

use bytes::BytesMut;
use quorate_codec::field::{Field, Varint};
use quorate_codec::reader::Reader;
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

/// The number of the alternative that a record is, which takes no decoding; none if it holds anything besides and its epoch, as what a later version has written may.
pub fn record_alternative(bytes: &[u8]) -> Option<u32> {
    let mut reader = Reader::new(bytes);
    let (alternative, wire_type) = reader.tag().ok()??;
    reader.skip(wire_type).ok()?;
    if let Some((number, wire_type)) = reader.tag().ok()? {
        reader.skip(wire_type).ok()?;
        if number != EPOCH_FIELD || !reader.is_empty() {
            return None;
        }
    }
    (alternative != EPOCH_FIELD).then_some(alternative)
}

fn decode_epoch(bytes: &[u8]) -> Result<Epoch, DecodeError> {
    take_fields!(bytes, "Record", { 63 epoch: Varint });
    Ok(epoch)
}

#[cfg(test)]
mod tests {
    use quorate_core::View;
    use quorate_tapir::Record;

    use super::*;

    #[test]
    fn a_record_tells_its_alternative_unless_it_holds_more() {
        let encoded = |epoch, record: &Record| {
            let mut out = BytesMut::new();
            encode_record(epoch, record, &mut out);
            out
        };
        let entered = |view| Record::ViewEntered { view: View(view) };
        let alternative = record_alternative(&encoded(Epoch(1), &entered(1)));
        assert!(alternative.is_some());
        for epoch in [Epoch(0), Epoch(7), Epoch(u32::MAX)] {
            assert_eq!(record_alternative(&encoded(epoch, &entered(u64::MAX))), alternative);
        }
        assert_ne!(record_alternative(&encoded(Epoch(1), &Record::Initialised)), alternative);
        let whole = encoded(Epoch(7), &entered(300));
        let more = [&whole[..], &whole[..]].concat();
        assert_eq!(record_alternative(&more), None, "there is another field");
        assert_eq!(record_alternative(&[]), None);
        // Up to its epoch, it may seem to be one without.
        let cut = (1..whole.len()).filter_map(|length| record_alternative(&whole[..length]));
        assert!(cut.count() <= 1);
    }
}
