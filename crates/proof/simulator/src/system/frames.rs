//! Messages as bytes on a connection, with the framing and the encoding of servers and clients; and what damage does.

use bytes::BytesMut;
use quorate_core::Random;
use quorate_wire::frame::FRAME_VERSION;
use quorate_wire::{FrameReader, FrameWriter, Packet, ProtocolMessage, Wire};

use crate::world::Envelope;
use crate::world::trace::TraceHash;

/// The messages that connections carry.
pub trait Carried: Clone + Into<ProtocolMessage> + TryFrom<ProtocolMessage> {}

impl<M: Clone + Into<ProtocolMessage> + TryFrom<ProtocolMessage>> Carried for M {}

/// Sends a message through the bytes of a connection, and returns what comes out.
///
/// # Panics
/// If that is not the same.
pub(crate) fn carry<M: Carried>(envelope: Envelope<M>) -> Envelope<M> {
    let sent = packet(&envelope);
    let mut reader = FrameReader::new();
    reader.feed(&frame(&sent));
    let received = match reader.next_frame() {
        Ok(Some(mut packets)) => packets.next(),
        Ok(None) => None,
        Err(error) => unreachable!("a frame that was not damaged is refused: {error}"),
    };
    match received {
        Some(Ok(Packet::Envelope(received))) => {
            assert_eq!(Packet::Envelope(received.clone()), sent, "a message is read as it was written");
            let Ok(message) = M::try_from(received.message) else {
                unreachable!("a message is read as one of another protocol");
            };
            Envelope { message, ..envelope }
        }
        other => unreachable!("a message is read as something else: {other:?}"),
    }
}

/// How many bytes a message takes on a connection, but for its share of what frames it.
pub(crate) fn size<M: Carried>(envelope: &Envelope<M>) -> usize {
    packet(envelope).encoded_len()
}

/// Folds the bytes of a message into the hash of an execution.
pub(crate) fn digest(message: &impl Wire, hash: &mut TraceHash) {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    for eight in bytes.chunks(8) {
        let mut number = [0; 8];
        number[..eight.len()].copy_from_slice(eight);
        hash.fold(u64::from_le_bytes(number));
    }
    hash.fold(bytes.len() as u64);
}

/// How bytes are damaged on their way, or made up by somebody.
#[derive(Clone, Copy)]
enum Damage {
    /// A bit flips.
    Flipped,
    /// Some of the bytes are missing, and the next frame follows.
    Truncated,
    /// The frame says that it is longer than any may be.
    Oversized,
    /// The content of the frame makes no sense, and its CRC is right.
    Malformed,
}

/// Damages a message on its way, and reads what is left of it as its receiver would.
///
/// # Panics
/// If damage is not noticed. Malformed content of a sound frame may be read as anything, or be refused.
pub(crate) fn damage<M: Carried>(envelope: &Envelope<M>, random: &mut Random) {
    let sent = packet(envelope);
    let mut bytes = frame(&sent);
    let damage = [Damage::Flipped, Damage::Truncated, Damage::Oversized, Damage::Malformed][random.index(4)];
    match damage {
        Damage::Flipped => {
            let at = random.index(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        Damage::Truncated => {
            let next = bytes.clone();
            bytes.truncate(1 + random.index(bytes.len() - 1));
            bytes.extend(&next);
            if bytes.starts_with(&next) {
                // The bytes that follow happen to be those that are missing.
                return;
            }
        }
        Damage::Oversized => {
            let length = quorate_wire::FRAME_BYTES_MAX as u64 + 1 + random.below(1 << 30);
            bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
        }
        Damage::Malformed => {
            for _ in 0..=random.below(4) {
                // Behind the header and the version.
                let at = 9 + random.index(bytes.len() - 9);
                bytes[at] = random.below(256) as u8;
            }
            let crc = crc32fast::hash(&bytes[8..]);
            bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let mut reader = FrameReader::new();
    reader.feed(&bytes);
    match (damage, reader.next_frame()) {
        // Reading it must come to an end, with whatever result.
        (Damage::Malformed, Ok(Some(packets))) => drop(packets.count()),
        (_, Ok(Some(mut packets))) => panic!("a damaged frame is taken for sound: {:?}", packets.next()),
        (Damage::Malformed, result) => panic!("a sound frame is refused: {:?}", result.map(|_| ())),
        // The receiver waits for what the length promises, and what follows does not have the right CRC.
        (_, Ok(None) | Err(_)) => {}
    }
}

pub(super) fn packet<M: Carried>(envelope: &Envelope<M>) -> Packet {
    Packet::Envelope(quorate_wire::Envelope {
        from: envelope.from,
        to: envelope.to,
        epoch: envelope.epoch,
        message: envelope.message.clone().into(),
    })
}

/// A frame with this payload.
pub(super) fn framed(payload: &[u8]) -> Vec<u8> {
    let body = [&[FRAME_VERSION], payload].concat();
    let header = [(body.len() as u32).to_le_bytes(), crc32fast::hash(&body).to_le_bytes()].concat();
    [header, body].concat()
}

pub(super) fn frame(packet: &Packet) -> Vec<u8> {
    let mut writer = FrameWriter::new();
    match writer.push(packet) {
        Ok(()) => writer.take().to_vec(),
        Err(error) => unreachable!("simulated messages are small: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Epoch, Key, ReplicaId, TransactionId};
    use quorate_tapir::Message;

    use super::*;

    fn envelope() -> Envelope<Message> {
        let message = Message::Read { transaction: TransactionId::default(), key: Key::from("key") };
        let (from, to) = (ClientId(1).into(), ReplicaId::default().into());
        Envelope { from, to, epoch: Epoch::FIRST, message }
    }

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        assert_eq!(carry(envelope()).message, envelope().message);
    }

    #[test]
    fn damage_is_noticed_whatever_it_is() {
        let mut random = Random::new(1);
        (0..20_000).for_each(|_| damage(&envelope(), &mut random));
    }
}
