//! Arguments and answers as bytes: numbers, little endian, and texts after a byte with their length.

use alloc::vec::Vec;

use crate::row::Field;

/// Appends a field.
pub fn put<F: Field>(bytes: &mut Vec<u8>, value: F) {
    let at = bytes.len();
    bytes.resize(at + F::ROOM, 0);
    value.write(&mut bytes[at..]);
}

/// A text of at most 255 bytes; what is longer is cut off.
pub fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    let length = text.len().min(255);
    bytes.push(length as u8);
    bytes.extend_from_slice(&text[..length]);
}

/// Reads what was put.
#[derive(Clone, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// A field; none if too little is left.
    pub fn take<F: Field>(&mut self) -> Option<F> {
        let (bytes, rest) = self.0.split_at_checked(F::ROOM)?;
        self.0 = rest;
        Some(F::read(bytes))
    }

    /// A text; none if too little is left.
    pub fn take_text(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.take::<u8>()?);
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// So many of something, which takes at least a byte each.
    pub fn take_many<T>(
        &mut self,
        count: usize,
        mut take: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        if count > self.0.len() {
            return None;
        }
        (0..count).map(|_| take(self)).collect()
    }

    /// True if nothing is left.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}
