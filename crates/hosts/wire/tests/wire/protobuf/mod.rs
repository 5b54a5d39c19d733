//! An independent implementation of protocol buffers: it knows `docs/wire-format.proto`, and nothing of the codec.
//!
//! | module | subject |
//! |---|---|
//! | `text` | reads the text of a `.proto` file |
//! | `bytes` | reads and writes messages, to the letter of the specification |
//! | `print` | messages as the text format of protocol buffers shows them |

mod bytes;
mod text;

use std::collections::BTreeMap;
use std::path::Path;

pub(crate) use bytes::put_varint;
use text::parse;

/// The messages of a `.proto` file, by their full names without the package.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) messages: BTreeMap<String, Type>,
}

/// The fields that a message may have, by number.
#[derive(Debug, Default)]
pub(crate) struct Type {
    pub(crate) fields: BTreeMap<u32, FieldType>,
}

/// The name and type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldType {
    pub(crate) name: String,
    pub(crate) label: Label,
    pub(crate) of: ValueType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// Left out if it is the default of its type; messages have no default.
    Singular,
    Optional,
    /// One of several, of which the last counts: written whenever it is present.
    Alternative,
    Repeated,
    Packed,
    Map,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueType {
    Bool,
    Uint32,
    Uint64,
    /// The sign is the lowest bit.
    Sint32,
    /// The sign is the lowest bit.
    Sint64,
    Fixed64,
    Bytes,
    Text,
    Message(String),
    /// A pair of a map, of which both parts are written as fields 1 and 2.
    Pair(Box<(ValueType, ValueType)>),
}

/// A message: the values of each field that is there, at least one for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message(pub(crate) BTreeMap<u32, Vec<Value>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Varint(u64),
    Fixed64(u64),
    Bytes(Vec<u8>),
    Text(String),
    Message(Message),
}

/// The file that clients in other languages compile.
pub(crate) fn file() -> File {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/wire-format.proto");
    parse(&std::fs::read_to_string(path).expect("the text is there"))
}
