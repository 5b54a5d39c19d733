//! Messages as a node of a later version says them: what this version knows, among what it does not know.
//!
//! A later version adds fields to messages, at any depth, and says packets of kinds that there were not before (see ADR 0019). Here both
//! are made up, by the tables of the wire format: a field may be added to every message that a packet holds, and packets of an unknown kind may
//! travel in the same frame. A receiver of this version has to read the same as without them.

use std::collections::BTreeMap;

use quorate_codec::reader::{Reader, WireType};
use quorate_codec::schema::{Kind, Label, Schema};
use quorate_core::Random;
use quorate_wire::{DecodeError, Fault, FrameReader, Packet, encode};

use super::frames::{Carried, frame, framed, packet};
use crate::world::Envelope;

/// No message has fields with numbers from here on.
const UNKNOWN_FIELD_FIRST: u64 = 1_000;

/// So often a message has a field that is not known.
const FIELD_PROBABILITY: f64 = 0.2;

/// So often a packet of a kind that is not known stands before or behind another one.
const PACKET_PROBABILITY: f64 = 0.1;

/// True if this version reads what it writes: nothing is larger than it may be.
fn is_readable(sent: &Packet) -> bool {
    let mut reader = FrameReader::new();
    reader.feed(&frame(sent));
    let Ok(Some(mut packets)) = reader.next_frame() else { return false };
    matches!(packets.next(), Some(Ok(_)))
}

/// Which fields of messages hold messages.
#[derive(Debug)]
pub struct Layout {
    /// Per message: for each field that holds one, its number and which message it is.
    messages: Vec<BTreeMap<u32, usize>>,
    /// That of a packet.
    packet: usize,
}

impl Default for Layout {
    /// That of the wire format.
    fn default() -> Self {
        Layout::of(&quorate_wire::schema())
    }
}

impl Layout {
    /// The layout of a schema in which packets are described.
    fn of(schema: &Schema) -> Self {
        let place = |name: &str| schema.messages().iter().position(|message| message.name == name);
        let holding = |message: &quorate_codec::schema::Message| {
            let fields = message.fields.iter().chain(&message.alternatives);
            // The pairs of a map are no messages of their own.
            let nested =
                fields.filter(|field| field.label != Label::Map).filter_map(|field| match &field.kind {
                    Kind::Message(name) => Some((field.number, place(name)?)),
                    _ => None,
                });
            nested.collect()
        };
        let messages = schema.messages().iter().map(holding).collect();
        let packet = place("Packet");
        Layout { messages, packet: packet.unwrap_or_else(|| unreachable!("a schema describes packets")) }
    }

    /// Sends a message through the bytes of a connection among what this version does not know, and returns what comes out.
    ///
    /// # Panics
    /// If that is not the same, or what is not known is taken for something else.
    pub(super) fn carry<M: Carried>(&self, envelope: Envelope<M>, random: &mut Random) -> Envelope<M> {
        let sent = packet(&envelope);
        if !is_readable(&sent) {
            // A hostile client says what no connection takes, to be refused by the machine alone. No version says that.
            return envelope;
        }
        let mut reader = FrameReader::new();
        reader.feed(&framed(&self.payload(&sent, random)));
        let packets = match reader.next_frame() {
            Ok(Some(packets)) => packets,
            Ok(None) => unreachable!("a frame is complete"),
            Err(error) => unreachable!("a frame of a later version is refused: {error}"),
        };
        let mut known = Vec::new();
        for read in packets {
            match read {
                Ok(packet) => known.push(packet),
                Err(error) => {
                    assert_eq!(error.fault, Fault::UnknownAlternative, "what is not known is passed over");
                }
            }
        }
        assert_eq!(known, [sent], "of a frame of a later version exactly what is known is read");
        envelope
    }

    /// The payload of a frame with this packet, and perhaps others beside it.
    fn payload(&self, sent: &Packet, random: &mut Random) -> Vec<u8> {
        let mut extended = Vec::new();
        if let Err(error) = self.extend(self.packet, &encode(sent), random, &mut extended) {
            unreachable!("what this version has written cannot be read: {error}");
        }
        let mut payload = Vec::new();
        put_unknown_packet(random, &mut payload);
        put_packet(&extended, &mut payload);
        put_unknown_packet(random, &mut payload);
        payload
    }

    /// Appends the bytes of a message with fields that nobody knows, in it and in those that it holds.
    fn extend(
        &self,
        message: usize,
        bytes: &[u8],
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new(bytes);
        put_unknown_field(random, out);
        while let Some((number, wire_type)) = reader.tag()? {
            put_varint(u64::from(number) << 3 | wire_type as u64, out);
            match wire_type {
                WireType::Varint => put_varint(reader.varint()?, out),
                WireType::Fixed64 => out.extend(reader.fixed64()?.to_le_bytes()),
                WireType::Delimited => {
                    let content = reader.delimited()?;
                    match self.messages[message].get(&number) {
                        Some(nested) => {
                            let mut extended = Vec::with_capacity(content.len() + 16);
                            self.extend(*nested, content, random, &mut extended)?;
                            put_delimited(&extended, out);
                        }
                        None => put_delimited(content, out),
                    }
                }
                WireType::Fixed32 => unreachable!("no field of this version has four bytes"),
            }
        }
        put_unknown_field(random, out);
        Ok(())
    }
}

fn put_packet(content: &[u8], out: &mut Vec<u8>) {
    const PACKETS: u64 = 1;
    put_varint(PACKETS << 3 | WireType::Delimited as u64, out);
    put_delimited(content, out);
}

/// Perhaps appends a packet of which nothing but an alternative is there that nobody knows.
fn put_unknown_packet(random: &mut Random, out: &mut Vec<u8>) {
    if random.chance(PACKET_PROBABILITY) {
        let mut content = Vec::new();
        put_varint(
            (UNKNOWN_FIELD_FIRST + random.below(1_000)) << 3 | WireType::Delimited as u64,
            &mut content,
        );
        put_delimited(&random_bytes(random), &mut content);
        put_packet(&content, out);
    }
}

/// Perhaps appends a field that no message has, of any wire type.
fn put_unknown_field(random: &mut Random, out: &mut Vec<u8>) {
    if !random.chance(FIELD_PROBABILITY) {
        return;
    }
    let number = UNKNOWN_FIELD_FIRST + random.below(1_000);
    let mut tag = |wire_type: WireType| put_varint(number << 3 | wire_type as u64, out);
    match random.below(4) {
        0 => {
            tag(WireType::Varint);
            put_varint(random.next_u64(), out);
        }
        1 => {
            tag(WireType::Fixed64);
            out.extend(random.next_u64().to_le_bytes());
        }
        2 => {
            tag(WireType::Delimited);
            put_delimited(&random_bytes(random), out);
        }
        _ => {
            tag(WireType::Fixed32);
            out.extend((random.next_u64() as u32).to_le_bytes());
        }
    }
}

fn random_bytes(random: &mut Random) -> Vec<u8> {
    (0..random.below(12)).map(|_| random.below(256) as u8).collect()
}

fn put_delimited(content: &[u8], out: &mut Vec<u8>) {
    put_varint(content.len() as u64, out);
    out.extend(content);
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Epoch, ReplicaId, ShardId, TransactionId};
    use quorate_tapir::Message;

    use super::*;

    fn envelope() -> Envelope<Message> {
        let message = Message::Recover {
            transaction: TransactionId { client: ClientId(7), sequence: 3, attempt: 1 },
            participants: vec![ShardId(1), ShardId(2)],
            timestamp: quorate_core::Timestamp::ZERO,
        };
        let (from, to) = (ClientId(1).into(), ReplicaId::default().into());
        Envelope { from, to, epoch: Epoch::FIRST, message }
    }

    #[test]
    fn a_message_of_a_later_version_is_read_as_what_is_known_of_it() {
        let (layout, mut random) = (Layout::default(), Random::new(1));
        for _ in 0..2_000 {
            assert_eq!(layout.carry(envelope(), &mut random).message, envelope().message);
        }
    }

    #[test]
    fn a_message_that_no_connection_takes_is_left_as_it_is() {
        use quorate_configuration::{Consistency, Message};
        let (keys, consistency) = (vec![quorate_core::Key::from(vec![0xff; 5_000])], Consistency::Stale);
        let message = quorate_log::Part::Own(Message::Get { request: 1, keys, consistency });
        let (from, to) = (ClientId(1).into(), ReplicaId::default().into());
        let hostile = Envelope { from, to, epoch: Epoch::FIRST, message };
        let mut random = Random::new(1);
        assert_eq!(Layout::default().carry(hostile.clone(), &mut random).message, hostile.message);
    }

    #[test]
    fn fields_are_added_at_every_depth() {
        let layout = &Layout::default();
        let plain = encode(&packet(&envelope()));
        let mut random = Random::new(2);
        // Envelope, ProtocolMessage, TapirMessage, Recover, TransactionId, one within the other.
        let mut deepest = 0;
        for _ in 0..500 {
            let mut extended = Vec::new();
            layout.extend(layout.packet, &plain, &mut random, &mut extended).unwrap();
            deepest = deepest.max(depth_of_unknown(layout, layout.packet, &extended));
        }
        assert!(deepest >= 4, "{deepest}");
    }

    /// How deep the deepest message lies that holds a field which nobody knows; zero if none does.
    fn depth_of_unknown(layout: &Layout, message: usize, bytes: &[u8]) -> usize {
        let mut reader = Reader::new(bytes);
        let mut deepest = 0;
        while let Some((number, wire_type)) = reader.tag().unwrap() {
            if u64::from(number) >= UNKNOWN_FIELD_FIRST {
                deepest = deepest.max(1);
                reader.skip(wire_type).unwrap();
            } else if let (WireType::Delimited, Some(nested)) =
                (wire_type, layout.messages[message].get(&number))
            {
                let within = depth_of_unknown(layout, *nested, reader.delimited().unwrap());
                deepest = deepest.max(if within > 0 { within + 1 } else { 0 });
            } else {
                reader.skip(wire_type).unwrap();
            }
        }
        deepest
    }
}
