//! Protocol buffers over our own types: the trait, the kinds of fields, and the tables that join them.
//!
//! A type's encoding is a table of `number field: kind` (see [`table`]). The bytes are those that any protocol-buffers
//! library would read and write for the same field numbers, with one simplification on reading: when a nested message
//! appears twice, the last one wins and the two are not merged.
//!
//! A table stands in the crate of the types that it encodes: here those of the vocabulary, in a protocol's `wire` module
//! those of the protocol. `quorate-wire` adds frames and packets.
//!
//! Bytes from outside are untrusted. Decoding never panics, allocates in proportion to the bytes that have arrived, refuses
//! keys, values and transactions above the documented limits, and copies keys and values out, so that a small value does
//! not keep a large frame in memory. A field that is not known is skipped; a field that is missing takes its default, or is
//! refused where it has none.
//!
//! | module | subject |
//! |---|---|
//! | [`table`] | the macros that declare tables |
//! | [`field`] | the kinds of fields |
//! | [`scalar`] | the types that are numbers |
//! | [`reader`], [`writer`], [`varint`] | the bytes: read from a slice that nobody has checked, written from the end to the beginning |
//! | [`error`] | why bytes are not a message |
//! | [`schema`] | the tables as data, and as the text of a `.proto` file |
//! | [`vocabulary`] | the tables of ids, addresses, timestamps and transactions, and the kinds of pairs that several protocols have |
//! | `topology`, `groups` | the tables of nodes, keyspaces and shards, and of the members of groups |
//! | `lives`, `verify`, `changes` | the tables of the lives of nodes, of comparing replicas, and of change feeds |

#[macro_use]
pub mod table;
#[macro_use]
pub mod field;
mod changes;
pub mod error;
mod groups;
mod lives;
pub mod reader;
pub mod scalar;
pub mod schema;
mod topology;
pub mod varint;
mod verify;
pub mod vocabulary;
pub mod writer;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

pub use error::{DecodeError, Fault, Malformed};
pub use schema::Schema;
pub use table::{OneOf, Through};
pub use writer::Writer;

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

    /// The name of the message in a schema.
    fn name() -> String;

    /// Enters the message and those that it holds into a schema.
    fn describe(schema: &mut Schema) -> schema::Kind;
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

    fn name() -> String {
        T::name()
    }

    fn describe(schema: &mut Schema) -> schema::Kind {
        T::describe(schema)
    }
}

/// A protocol without such an operation: none is written, and one that arrives is not understood.
impl Wire for Infallible {
    fn encoded_len(&self) -> usize {
        match *self {}
    }

    fn write(&self, _: &mut Writer<'_>) {
        match *self {}
    }

    fn decode(_: &[u8]) -> Result<Self, DecodeError> {
        Err(Fault::Meaningless("this protocol has no consensus operations").into())
    }

    fn name() -> String {
        "Never".to_owned()
    }

    fn describe(_: &mut Schema) -> schema::Kind {
        schema::Kind::Never
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
