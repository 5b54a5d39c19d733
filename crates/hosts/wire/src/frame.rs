//! Frames: how packets are cut out of a stream of bytes.
//!
//! ```text
//!   bytes 0..4    length of what follows byte 8, the least significant byte first
//!   bytes 4..8    CRC-32 (of zlib) of what follows byte 8
//!   byte  8       version of the payload, 1
//!   bytes 9..     payload: each packet as field 1 of a protocol-buffers message
//! ```
//!
//! This header stays the same in every version, so that a peer of another version can be told apart from noise. The CRC
//! is there because mutated protocol buffers often still decode.

use bytes::{Buf, BufMut, BytesMut};

use crate::packet::Packet;
use quorate_codec::field::{put_tag, take_body};
use quorate_codec::reader::{Reader, WireType};
use quorate_codec::{DecodeError, Fault};
use quorate_codec::{Wire, Writer, varint};

/// The version of the payload that this program reads and writes.
pub const FRAME_VERSION: u8 = 1;

/// The greatest length that a frame may state. The largest transaction fits with room to spare.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A frame is closed once it holds this much, so that its receiver can begin.
const FRAME_BYTES_FULL: usize = 256 * 1024;

const HEADER_BYTES: usize = 8;
const VERSION_BYTES: usize = 1;
pub(crate) const PACKET_FIELD: u32 = 1;

/// Bytes that are not a frame. The stream cannot be read any further: close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is longer than the reader accepts.
    #[error(
        "a frame of {bytes} bytes exceeds the limit of {max}: the peer is faulty, or does not speak the protocol of Quorate"
    )]
    TooLarge {
        /// The length that it states.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The frame has no version byte.
    #[error("a frame is empty: the peer is faulty, or does not speak the protocol of Quorate")]
    Empty,
    /// The bytes are not those that were sent.
    #[error(
        "a frame has the CRC {found:08x} and states {stated:08x}: it was damaged on its way, or was never a frame"
    )]
    Crc {
        /// The checksum in the header.
        stated: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// The payload is in a version that this program cannot read.
    #[error("the peer speaks version {found} of the protocol; this program speaks version {FRAME_VERSION}")]
    Version {
        /// The peer's version.
        found: u8,
    },
}

/// A packet that fits into no frame. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet of {bytes} bytes does not fit into a frame of at most {FRAME_BYTES_MAX}")]
pub struct PacketTooLarge {
    /// The length of the packet.
    pub bytes: usize,
}

/// Gathers packets into frames, in one buffer that is used again.
///
/// [`FrameWriter::close`] makes everything that was pushed ready to be sent; what [`FrameWriter::ready`] then returns
/// may be sent in pieces, with [`FrameWriter::advance`] after each, while further packets are pushed.
#[derive(Debug, Default)]
pub struct FrameWriter {
    buffer: BytesMut,
    /// Where the open frame begins.
    open: Option<usize>,
}

impl FrameWriter {
    /// A writer with an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a packet to the open frame, or begins one.
    ///
    /// # Errors
    /// The packet is too large for any frame.
    pub fn push(&mut self, packet: &Packet) -> Result<(), PacketTooLarge> {
        let packet_bytes = packet.encoded_len();
        let bytes = 1 + varint::len(packet_bytes as u64) + packet_bytes;
        if VERSION_BYTES + bytes > FRAME_BYTES_MAX {
            return Err(PacketTooLarge { bytes: packet_bytes });
        }
        if let Some(start) = self.open
            && self.buffer.len() - start - HEADER_BYTES + bytes > FRAME_BYTES_FULL
        {
            self.close();
        }
        if self.open.is_none() {
            self.open = Some(self.buffer.len());
            self.buffer.put_bytes(0, HEADER_BYTES);
            self.buffer.put_u8(FRAME_VERSION);
        }
        let start = self.buffer.len();
        self.buffer.resize(start + bytes, 0);
        let mut writer = Writer::new(&mut self.buffer[start..]);
        packet.write(&mut writer);
        writer.put_varint(packet_bytes as u64);
        put_tag(PACKET_FIELD, WireType::Delimited, &mut writer);
        assert_eq!(writer.free(), 0, "a packet is as long as it announced");
        Ok(())
    }

    /// Completes the open frame, if there is one, with its length and CRC.
    pub fn close(&mut self) {
        let Some(start) = self.open.take() else { return };
        let (header, body) = self.buffer[start..].split_at_mut(HEADER_BYTES);
        let crc = crc32fast::hash(body);
        header[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[4..].copy_from_slice(&crc.to_le_bytes());
    }

    /// The bytes of closed frames that have not been sent.
    pub fn ready(&self) -> &[u8] {
        &self.buffer[..self.open.unwrap_or(self.buffer.len())]
    }

    /// Forgets bytes that were sent.
    ///
    /// # Panics
    /// If there were not so many in [`FrameWriter::ready`].
    pub fn advance(&mut self, sent: usize) {
        assert!(sent <= self.ready().len(), "only closed frames can have been sent");
        self.buffer.advance(sent);
        self.open = self.open.map(|start| start - sent);
        if self.buffer.is_empty() {
            // Begin again at the front of the same allocation.
            self.buffer.clear();
        }
    }

    /// How many bytes wait here, those of the open frame included: what a bound on the buffer counts.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// True if nothing waits here.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Closes the open frame and takes all bytes out, in the order in which they are to be sent.
    pub fn take(&mut self) -> BytesMut {
        self.close();
        self.buffer.split()
    }

    /// Forgets everything that was not sent, as after the loss of a connection.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.open = None;
    }
}

/// Cuts a stream into frames and checks them.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    /// How much of the buffer the frame that was returned last takes.
    consumed: usize,
    bytes_max: usize,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameReader {
    /// A reader that accepts frames up to [`FRAME_BYTES_MAX`].
    pub fn new() -> Self {
        Self::with_limit(FRAME_BYTES_MAX)
    }

    /// A reader that accepts frames up to `bytes_max`, for a peer that has not said who it is.
    pub fn with_limit(bytes_max: usize) -> Self {
        FrameReader { buffer: BytesMut::new(), consumed: 0, bytes_max: bytes_max.min(FRAME_BYTES_MAX) }
    }

    /// Changes the limit, once the peer is known.
    pub fn set_limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max.min(FRAME_BYTES_MAX);
    }

    /// The buffer that arriving bytes are appended to, with room for at least `room` more.
    pub fn space(&mut self, room: usize) -> &mut BytesMut {
        self.discard_consumed();
        self.buffer.reserve(room);
        &mut self.buffer
    }

    /// Appends bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).put_slice(bytes);
    }

    /// The packets of the next complete frame; none if more bytes have to arrive first.
    ///
    /// # Errors
    /// The bytes are not a frame. Nothing after them can be read.
    pub fn next_frame(&mut self) -> Result<Option<Packets<'_>>, FrameError> {
        self.discard_consumed();
        let Some((header, rest)) = self.buffer.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [l0, l1, l2, l3, c0, c1, c2, c3] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let stated = u32::from_le_bytes([c0, c1, c2, c3]);
        if length > self.bytes_max {
            return Err(FrameError::TooLarge { bytes: length, max: self.bytes_max });
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let found = crc32fast::hash(body);
        if found != stated {
            return Err(FrameError::Crc { stated, found });
        }
        match body {
            [] => Err(FrameError::Empty),
            [FRAME_VERSION, payload @ ..] => {
                self.consumed = HEADER_BYTES + length;
                Ok(Some(Packets { reader: Reader::new(payload) }))
            }
            [version, ..] => Err(FrameError::Version { found: *version }),
        }
    }

    /// How many bytes wait here.
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.consumed
    }

    fn discard_consumed(&mut self) {
        self.buffer.advance(std::mem::take(&mut self.consumed));
    }
}

/// The packets of one frame, in the order in which they were pushed.
#[derive(Debug)]
pub struct Packets<'a> {
    reader: Reader<'a>,
}

impl Packets<'_> {
    fn next_packet(&mut self) -> Result<Option<Packet>, DecodeError> {
        while let Some((number, wire_type)) = self.reader.tag()? {
            if number == PACKET_FIELD {
                return Packet::decode(take_body(wire_type, &mut self.reader)?).map(Some);
            }
            self.reader.skip(wire_type)?;
        }
        Ok(None)
    }
}

impl Iterator for Packets<'_> {
    type Item = Result<Packet, DecodeError>;

    /// A packet of a kind that this version does not know is an error of its own, after which the next one can be read;
    /// after any other error there is no next one.
    fn next(&mut self) -> Option<Self::Item> {
        let result = self.next_packet().transpose()?;
        if let Err(error) = &result
            && error.fault != Fault::UnknownAlternative
        {
            self.reader = Reader::new(&[]);
        }
        Some(result)
    }
}
