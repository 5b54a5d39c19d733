//! A message: what a client publishes to a channel, and how one door tells it another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use quorate_redis_commands::Reply;

/// The length of the name of a channel, or of a pattern, at most, in bytes.
pub(crate) const CHANNEL_BYTES_MAX: usize = 64 * 1024;

/// The length of a message with its channel at most, in bytes: one announcement between doors, less what stands before it.
pub(crate) const MESSAGE_BYTES_MAX: usize = quorate::ANNOUNCEMENT_BYTES_MAX - HEAD_BYTES;

/// The cost of each message beside its bytes.
const OVERHEAD_BYTES: usize = 128;

/// A version of the encoding, the door of its publisher, whether it is for subscribers of shard channels, and the length of its channel.
const HEAD_BYTES: usize = 1 + 8 + 1 + 4;

/// The version of the encoding.
const VERSION: u8 = 1;

/// Something that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) channel: Bytes,
    pub(crate) content: Bytes,
    /// True if it is for subscribers of shard channels.
    pub(crate) is_shard: bool,
}

impl Message {
    /// The message that a client publishes. The bytes are copied: those of a request belong to the buffer of its connection.
    ///
    /// # Errors
    /// The reply that says what is too long.
    pub(crate) fn new(channel: &[u8], content: &[u8], is_shard: bool) -> Result<Self, Reply> {
        if channel.len() > CHANNEL_BYTES_MAX {
            return Err(too_long());
        }
        if channel.len() + content.len() > MESSAGE_BYTES_MAX {
            return Err(Reply::error(format!(
                "ERR a message and its channel may have at most {MESSAGE_BYTES_MAX} bytes, and nothing was published"
            )));
        }
        let (channel, content) = (Bytes::copy_from_slice(channel), Bytes::copy_from_slice(content));
        Ok(Message { channel, content, is_shard })
    }

    /// How much it takes to keep it, in bytes.
    pub(crate) fn cost(&self) -> usize {
        self.channel.len() + self.content.len() + OVERHEAD_BYTES
    }

    /// As other doors are told of it, by the door of this name.
    pub(crate) fn encode(&self, origin: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.channel.len() + self.content.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&origin.to_le_bytes());
        bytes.push(u8::from(self.is_shard));
        bytes.extend_from_slice(&(self.channel.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.channel);
        bytes.extend_from_slice(&self.content);
        bytes
    }

    /// The door that tells of a message, and the message; none if these bytes make no sense, or are of a later version.
    pub(crate) fn decode(bytes: &Bytes) -> Option<(u64, Message)> {
        let (version, rest) = bytes.split_first()?;
        let (origin, rest) = rest.split_first_chunk::<8>()?;
        let (kind, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if *version != VERSION || *kind > 1 || length > CHANNEL_BYTES_MAX || length > rest.len() {
            return None;
        }
        let (channel, content) = rest.split_at(length);
        let message = Message {
            channel: Bytes::copy_from_slice(channel),
            content: Bytes::copy_from_slice(content),
            is_shard: *kind == 1,
        };
        Some((u64::from_le_bytes(*origin), message))
    }
}

/// The name of a channel is too long.
pub(crate) fn too_long() -> Reply {
    Reply::error(format!("ERR a channel or pattern may have at most {CHANNEL_BYTES_MAX} bytes"))
}

/// A message that waits for subscribers, counted once as long as any of them has it before it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) message: Message,
    held: Arc<AtomicUsize>,
}

impl Kept {
    pub(crate) fn new(message: Message, held: &Arc<AtomicUsize>) -> Self {
        held.fetch_add(message.cost(), Ordering::Relaxed);
        Kept { message, held: Arc::clone(held) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.held.fetch_sub(self.message.cost(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_door_understands_another_and_passes_over_what_makes_no_sense() {
        let message = Message::new(b"news", b"a\r\n\0", true).unwrap();
        let bytes = Bytes::from(message.encode(7));
        assert_eq!(Message::decode(&bytes), Some((7, message)));
        for length in 0..HEAD_BYTES + 4 {
            assert_eq!(Message::decode(&bytes.slice(..length)), None, "the first {length} bytes");
        }
        for (at, byte) in [(0, 2), (9, 2), (10, 200), (13, 1)] {
            let mut damaged = bytes.to_vec();
            damaged[at] = byte;
            assert_eq!(Message::decode(&Bytes::from(damaged)), None, "byte {at}");
        }
    }

    #[test]
    fn a_message_fits_into_an_announcement() {
        let channel = vec![b'c'; CHANNEL_BYTES_MAX];
        let content = vec![b'm'; MESSAGE_BYTES_MAX - CHANNEL_BYTES_MAX];
        let message = Message::new(&channel, &content, false).unwrap();
        assert_eq!(message.encode(1).len(), quorate::ANNOUNCEMENT_BYTES_MAX);
        assert!(Message::new(&channel, &vec![b'm'; content.len() + 1], false).is_err());
        assert!(Message::new(&vec![b'c'; CHANNEL_BYTES_MAX + 1], b"", false).is_err());
    }
}
