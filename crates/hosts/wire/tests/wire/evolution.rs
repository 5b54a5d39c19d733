//! Versions mix: what is not known is skipped, what is missing takes its default or is refused.

use quorate_core::{Ballot, ClientId, Random, TransactionId, View};
use quorate_tapir::message::Vote;
use quorate_tapir::{Message, Record};
use quorate_wire::{Fault, FrameReader, FrameWriter, Packet, decode, encode};

use crate::protobuf::put_varint;
use crate::{cases, generate};

/// Fields of any wire type with numbers that no message has.
fn unknown_fields(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.between(1, 3) {
        let number = random.between(1000, 1999);
        let mut tag = |wire_type| put_varint(number << 3 | wire_type, &mut bytes);
        match random.below(4) {
            0 => {
                tag(0);
                put_varint(random.next_u64(), &mut bytes);
            }
            1 => {
                tag(1);
                bytes.extend(random.next_u64().to_le_bytes());
            }
            2 => {
                tag(2);
                let content = generate::bytes(random.index(20), random);
                put_varint(content.len() as u64, &mut bytes);
                bytes.extend(content);
            }
            _ => {
                tag(5);
                bytes.extend((random.next_u64() as u32).to_le_bytes());
            }
        }
    }
    bytes
}

#[test]
fn unknown_fields_are_skipped() {
    cases(500, |random| {
        let packet = generate::packet(random);
        let (known, unknown) = (encode(&packet), unknown_fields(random));
        for bytes in [[&unknown[..], &known].concat(), [&known[..], &unknown].concat()] {
            assert_eq!(decode::<Packet>(&bytes).as_ref(), Ok(&packet));
        }
    });
}

/// Record.view_entered with view 5 and, inside it, a field 15 of a later version.
#[test]
fn unknown_fields_are_skipped_in_nested_messages() {
    let bytes = [0x12, 5, 0x08, 5, 0x7a, 1, 0xff];
    assert_eq!(decode::<Record>(&bytes), Ok(Record::ViewEntered { view: View(5) }));
}

#[test]
fn missing_numbers_are_zero_and_missing_messages_are_refused() {
    assert_eq!(decode::<Record>(&[0x12, 0]), Ok(Record::ViewEntered { view: View(0) }));
    // Message.superseded without its transaction, then with an empty one.
    let error = decode::<Message>(&[0x5a, 0]).unwrap_err();
    assert_eq!(
        (error.message, error.field, &error.fault),
        ("tapir.Message.Superseded", "transaction", &Fault::Missing)
    );
    let superseded = Message::Superseded { transaction: TransactionId::default(), promised: Ballot(0) };
    assert_eq!(decode::<Message>(&[0x5a, 2, 0x0a, 0]), Ok(superseded));
}

#[test]
fn the_last_of_two_alternatives_wins() {
    assert_eq!(decode::<Vote>(&[0x0a, 0, 0x12, 0]), Ok(Vote::Abstain));
}

#[test]
fn an_alternative_of_a_later_version_is_an_error_of_its_own() {
    let error = decode::<Record>(&[0xfa, 0x01, 0]).unwrap_err();
    assert_eq!((error.message, &error.fault), ("tapir.Record", &Fault::UnknownAlternative));
    assert_eq!(decode::<Vote>(&[]).unwrap_err().fault, Fault::UnknownAlternative);
}

/// A packet of a later version does not take its frame with it.
#[test]
fn a_packet_of_a_later_version_leaves_its_neighbours_readable() {
    // Number 1,000, which no packet will have soon.
    let unknown = [0x0a, 3, 0xc2, 0x3e, 0];
    let mut writer = FrameWriter::new();
    writer.push(&Packet::StatusRequest).unwrap();
    let one = writer.take();
    let body = [&one[8..], &unknown, &one[9..]].concat();
    let mut reader = FrameReader::new();
    reader.feed(&(body.len() as u32).to_le_bytes());
    reader.feed(&crc32fast::hash(&body).to_le_bytes());
    reader.feed(&body);
    let packets: Vec<_> = reader.next_frame().unwrap().unwrap().collect();
    assert_eq!(packets[0], Ok(Packet::StatusRequest));
    assert_eq!(packets[1].as_ref().unwrap_err().fault, Fault::UnknownAlternative);
    assert_eq!(packets[2], Ok(Packet::StatusRequest));
    assert_eq!(packets.len(), 3);
}

#[test]
fn wire_types_that_do_not_fit_are_refused() {
    // Record.view_entered as a number, and a field with a wire type that protocol buffers no longer have.
    for bytes in [&[0x10, 1][..], &[0x13, 0x14], &[0x00, 0x00]] {
        assert_eq!(decode::<Record>(bytes).unwrap_err().fault, Fault::WireType, "{bytes:?}");
    }
    // Welcome.node does not fit into sixteen bits.
    let error = decode::<Packet>(&[0x1a, 4, 0x10, 0x80, 0x80, 0x04]).unwrap_err();
    assert_eq!((error.message, error.field, &error.fault), ("Welcome", "node", &Fault::OutOfRange));
}

/// Lists of numbers are packed, but readers of protocol buffers take both forms.
#[test]
fn unpacked_lists_are_read() {
    let transaction = TransactionId { client: ClientId(0), sequence: 0, attempt: 0 };
    let participants = vec![quorate_core::ShardId(1), quorate_core::ShardId(300)];
    let bytes = [0x32, 9, 0x0a, 0, 0x10, 1, 0x10, 0xac, 0x02, 0x52, 0];
    assert_eq!(
        decode::<Message>(&bytes),
        Ok(Message::Recover { transaction, participants, timestamp: quorate_core::Timestamp::ZERO })
    );
}
