//! The incoming side of one connection: bytes in, packets out.

use std::collections::BTreeSet;

use bytes::BytesMut;
use quorate_wire::packet::Packet;
use quorate_wire::{FRAME_BYTES_MAX, Fault, FrameError, FrameReader};

use super::Violation;

/// The longest frame of a handshake, in bytes: strangers get no more memory than this.
const HANDSHAKE_BYTES_MAX: usize = 4 * 1024;

/// How much room a read is given, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// The bytes and packets that a peer has sent and nobody has seen yet.
pub(super) struct Inbound {
    frames: FrameReader,
    read_bytes: usize,
    /// The packets that came in the same frame as the first one.
    rest: Vec<Packet>,
    /// True once the peer is known.
    is_introduced: bool,
    /// The messages of which the peer has been told that they are not supported.
    told: BTreeSet<&'static str>,
    unsupported: Unsupported,
}

/// Packets of a later version that were passed over.
#[derive(Debug, Default)]
pub(super) struct Unsupported {
    /// How many.
    pub(super) packets: u64,
    /// The messages that held what is not known, those of which the peer has not been told.
    pub(super) news: Vec<&'static str>,
}

impl Inbound {
    /// For a peer that has not said who it is.
    pub(super) fn for_handshake() -> Self {
        Inbound {
            frames: FrameReader::with_limit(HANDSHAKE_BYTES_MAX),
            read_bytes: HANDSHAKE_BYTES_MAX,
            rest: Vec::new(),
            is_introduced: false,
            unsupported: Unsupported::default(),
            told: BTreeSet::new(),
        }
    }

    /// The peer is known from here on.
    pub(super) fn finish_handshake(&mut self) {
        self.frames.set_limit(FRAME_BYTES_MAX);
        self.read_bytes = READ_BYTES;
        self.is_introduced = true;
    }

    /// The packets that were passed over since this was asked last.
    pub(super) fn take_unsupported(&mut self) -> Unsupported {
        std::mem::take(&mut self.unsupported)
    }

    /// Where bytes that arrive are appended.
    pub(super) fn space(&mut self) -> &mut BytesMut {
        self.frames.space(self.read_bytes)
    }

    /// How much there is of a frame that has begun and not ended.
    pub(super) fn unfinished_bytes(&self) -> usize {
        self.frames.buffered()
    }

    /// Appends the packets of all complete frames to `packets`.
    pub(super) fn decode_into(&mut self, packets: &mut Vec<Packet>) -> Result<(), Violation> {
        packets.append(&mut self.rest);
        while self.decode_frame(packets)? {}
        Ok(())
    }

    /// The first packet of a handshake; none if more bytes have to arrive first. Packets that follow it are kept: a peer may
    /// go on without waiting for the answer.
    pub(super) fn first_packet(&mut self) -> Result<Option<Packet>, Violation> {
        let mut packets = Vec::new();
        while packets.is_empty() && self.decode_frame(&mut packets)? {}
        let mut packets = packets.into_iter();
        let first = packets.next();
        self.rest = packets.collect();
        Ok(first)
    }

    /// Appends the packets of the next complete frame, if there is one.
    fn decode_frame(&mut self, packets: &mut Vec<Packet>) -> Result<bool, Violation> {
        let Some(frame) = self.frames.next_frame()? else { return Ok(false) };
        for packet in frame {
            match packet {
                Ok(packet) => packets.push(packet),
                // A later version may say more than this one understands. The identity of the peer must be understood.
                Err(error)
                    if error.fault == Fault::UnknownAlternative
                        && (self.is_introduced || error.message == "Packet") =>
                {
                    self.unsupported.packets += 1;
                    if self.told.insert(error.message) {
                        self.unsupported.news.push(error.message);
                    }
                }
                Err(error) => return Err(Violation(error.to_string().into())),
            }
        }
        Ok(true)
    }
}

impl From<FrameError> for Violation {
    fn from(error: FrameError) -> Self {
        Violation(error.to_string().into())
    }
}
