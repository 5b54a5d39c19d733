//! Protocol buffers over our own types: the trait, the kinds of fields, and the tables that join them.
//!
//! A type's encoding is a table of `number field: kind` (see the `table` module's macros). The bytes are those that any
//! protocol-buffers library would read and write for the same field numbers, with one simplification on reading: when a
//! nested message appears twice, the last one wins and the two are not merged.

pub(crate) mod field;
pub(crate) mod reader;
pub(crate) mod table;
pub(crate) mod varint;
pub(crate) mod writer;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

pub use writer::Writer;

use crate::error::DecodeError;

/// A type with an encoding as a protocol-buffers message.
pub trait Wire: Sized {
    /// The length of what [`Wire::encode`] appends.
    fn encoded_len(&self) -> usize;

    /// Writes the fields from the last to the first, into the end of what is free.
    fn write(&self, writer: &mut Writer<'_>);

    /// Appends the fields.
    fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        out.resize(start + self.encoded_len(), 0);
        let mut writer = Writer::new(&mut out[start..]);
        self.write(&mut writer);
        assert_eq!(writer.free(), 0, "a message is as long as it announced");
    }

    /// Reads a message from exactly these bytes. Keys and values are copied out.
    ///
    /// # Errors
    /// The bytes are not such a message, or it exceeds a limit.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;
}

impl<T: Wire> Wire for Arc<T> {
    fn encoded_len(&self) -> usize {
        self.as_ref().encoded_len()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.as_ref().write(writer);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        T::decode(bytes).map(Arc::new)
    }
}

/// The bytes of one message.
pub fn encode<T: Wire>(message: &T) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(&mut out);
    out.freeze()
}

/// Reads a message from exactly these bytes.
///
/// # Errors
/// As [`Wire::decode`].
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, DecodeError> {
    T::decode(bytes)
}
