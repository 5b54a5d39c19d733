//! Filling a buffer from its end to its beginning.
//!
//! The length of a nested message stands before it. Written backwards, the message is there already when its length is
//! needed, so nothing is measured more than once, however deep messages nest.

use super::varint;

/// The part of a buffer, at its front, that is still free.
#[derive(Debug)]
pub struct Writer<'a> {
    free: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// A writer that fills this buffer.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Writer { free: buffer }
    }

    /// How much is still free.
    #[inline]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes the last `length` free bytes.
    ///
    /// # Panics
    /// If there are not so many: the length of the message was computed wrongly.
    #[inline]
    fn take(&mut self, length: usize) -> &'a mut [u8] {
        let free = std::mem::take(&mut self.free);
        let at = free.len() - length;
        let (front, taken) = free.split_at_mut(at);
        self.free = front;
        taken
    }

    /// Writes bytes.
    #[inline]
    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.take(bytes.len()).copy_from_slice(bytes);
    }

    /// Writes a number of eight bytes.
    #[inline]
    pub fn put_fixed64(&mut self, value: u64) {
        self.take(8).copy_from_slice(&value.to_le_bytes());
    }

    /// Writes a number of variable length.
    #[inline]
    pub fn put_varint(&mut self, mut value: u64) {
        if value < 0x80 {
            self.take(1)[0] = value as u8;
            return;
        }
        let bytes = self.take(varint::len(value));
        let (last, others) = bytes.split_last_mut().expect("a number takes at least one byte");
        for byte in others {
            *byte = value as u8 | 0x80;
            value >>= 7;
        }
        *last = value as u8;
    }
}
