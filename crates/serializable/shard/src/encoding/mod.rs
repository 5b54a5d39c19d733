//! The bytes of operations and answers: messages of protocol buffers. `docs/wire-format.md` lists their
//! fields.
//!
//! Bytes come from outside. What is missing, or in no known form, is [`Malformed`], for every replica alike.

pub(crate) mod answer;
pub(crate) mod operation;
mod reader;
pub(crate) mod writer;

use bytes::Bytes;
use prost::{DecodeError, Message};
use quorate_core::{ClientId, ClockTime, Key, TransactionId};
use quorate_granola as granola;

use crate::operation::{self as own, Malformed};

/// A place in the serial order.
#[derive(Clone, PartialEq, Message)]
struct Place {
    #[prost(fixed64, tag = 1)]
    timestamp: u64,
    #[prost(fixed64, tag = 2)]
    client: u64,
    #[prost(uint64, tag = 3)]
    sequence: u64,
    #[prost(uint32, tag = 4)]
    attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyRange {
    #[prost(bytes = "bytes", tag = 1)]
    from: Bytes,
    #[prost(bytes = "bytes", optional, tag = 2)]
    to: Option<Bytes>,
}

/// What a call touches.
#[derive(Clone, PartialEq, Message)]
struct Declared {
    #[prost(bytes = "bytes", repeated, tag = 1)]
    keys: Vec<Bytes>,
    #[prost(message, repeated, tag = 2)]
    ranges: Vec<KeyRange>,
}

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

impl From<granola::Place> for Place {
    fn from(place: granola::Place) -> Self {
        let TransactionId { client, sequence, attempt } = place.transaction;
        Place { timestamp: place.timestamp.as_micros(), client: client.0, sequence, attempt }
    }
}

impl From<Place> for granola::Place {
    fn from(place: Place) -> Self {
        let Place { timestamp, client, sequence, attempt } = place;
        let transaction = TransactionId { client: ClientId(client), sequence, attempt };
        granola::Place { timestamp: ClockTime::from_micros(timestamp), transaction }
    }
}

impl From<quorate_core::KeyRange> for KeyRange {
    fn from(range: quorate_core::KeyRange) -> Self {
        KeyRange { from: range.from.into(), to: range.to.map(Bytes::from) }
    }
}

impl From<KeyRange> for quorate_core::KeyRange {
    fn from(range: KeyRange) -> Self {
        quorate_core::KeyRange { from: range.from.into(), to: range.to.map(Key::from) }
    }
}

impl From<own::Declared> for Declared {
    fn from(declared: own::Declared) -> Self {
        Declared {
            keys: declared.keys.into_iter().map(Bytes::from).collect(),
            ranges: declared.ranges.into_iter().map(KeyRange::from).collect(),
        }
    }
}

impl From<Declared> for own::Declared {
    fn from(declared: Declared) -> Self {
        own::Declared {
            keys: declared.keys.into_iter().map(Key::from).collect(),
            ranges: declared.ranges.into_iter().map(quorate_core::KeyRange::from).collect(),
        }
    }
}

/// What has to be there.
fn present<T>(field: Option<T>, what: &str) -> Result<T, Malformed> {
    field.ok_or_else(|| Malformed(format!("{what} is missing, or of a kind that is not known")))
}

impl From<DecodeError> for Malformed {
    /// Not in the words of the library: replicas may have different versions of it, and answer the same.
    fn from(_: DecodeError) -> Self {
        Malformed::of("the bytes do not have the fields that were expected")
    }
}
