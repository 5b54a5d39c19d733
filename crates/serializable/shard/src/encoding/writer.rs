//! Writes the answers to batches while they run: nothing that is found has to be kept until all is known.

use quorate_core::{Key, Value};
use quorate_granola::Place;

use crate::shard::Seen;

/// What stands before the steps: that it is an answer to a batch, and how long it is.
const HEADER_BYTES_MAX: usize = 11;

const VARINT: u8 = 0;
const FIXED: u8 = 1;
const BYTES: u8 = 2;

/// The answer to a batch, as far as it is known.
#[derive(Debug)]
pub(crate) struct AnswerWriter {
    /// Room for the header, and then the steps.
    bytes: Vec<u8>,
}

impl AnswerWriter {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.resize(HEADER_BYTES_MAX, 0);
        AnswerWriter { bytes }
    }

    /// A get has come to this.
    pub(crate) fn value(&mut self, seen: Option<Seen<'_>>) {
        match seen {
            Some(seen) => {
                let length = held_length(&seen);
                self.found(1 + varint_length(length) + length);
                tagged(&mut self.bytes, 1, BYTES, length);
                write_held(&mut self.bytes, &seen);
            }
            None => self.nothing(2),
        }
    }

    /// A put or a delete is done.
    pub(crate) fn done(&mut self) {
        self.nothing(3);
    }

    /// An increment has led to this number.
    pub(crate) fn number(&mut self, number: i64) {
        let number = ((number << 1) ^ (number >> 63)) as u64;
        self.found(1 + varint_length(number));
        tagged(&mut self.bytes, 4, VARINT, number);
    }

    /// An append has led to this length.
    pub(crate) fn length(&mut self, length: u64) {
        self.found(1 + varint_length(length));
        tagged(&mut self.bytes, 5, VARINT, length);
    }

    /// A scan has found this.
    pub(crate) fn keys(&mut self, mut keys: KeysWriter, more: bool) {
        if more {
            tagged(&mut keys.bytes, 2, VARINT, 1);
        }
        let length = keys.bytes.len() as u64;
        self.found(1 + varint_length(length) + length);
        tagged(&mut self.bytes, 6, BYTES, length);
        self.bytes.extend_from_slice(&keys.bytes);
    }

    fn nothing(&mut self, field: u8) {
        self.found(2);
        tagged(&mut self.bytes, field, BYTES, 0);
    }

    /// Begins what a step has come to.
    fn found(&mut self, length: u64) {
        tagged(&mut self.bytes, 1, BYTES, length);
    }

    /// The whole answer.
    pub(crate) fn finish(mut self) -> Value {
        let length = (self.bytes.len() - HEADER_BYTES_MAX) as u64;
        let mut header = Vec::with_capacity(HEADER_BYTES_MAX);
        tagged(&mut header, 1, BYTES, length);
        let start = HEADER_BYTES_MAX - header.len();
        self.bytes[start..HEADER_BYTES_MAX].copy_from_slice(&header);
        Value::copy_from_slice(&self.bytes[start..])
    }
}

/// What a scan has found so far.
#[derive(Debug, Default)]
pub(crate) struct KeysWriter {
    bytes: Vec<u8>,
}

impl KeysWriter {
    pub(crate) fn push(&mut self, key: &Key, seen: &Seen<'_>) {
        let held = held_length(seen);
        let key_length = key.len() as u64;
        let length = 1 + varint_length(key_length) + key_length + 1 + varint_length(held) + held;
        tagged(&mut self.bytes, 1, BYTES, length);
        tagged(&mut self.bytes, 1, BYTES, key_length);
        self.bytes.extend_from_slice(key);
        tagged(&mut self.bytes, 2, BYTES, held);
        write_held(&mut self.bytes, seen);
    }
}

fn held_length(seen: &Seen<'_>) -> u64 {
    let place = seen.place.map_or(0, |place| 2 + place_length(&place));
    let length = seen.value.len() as u64;
    place + if length > 0 { 1 + varint_length(length) + length } else { 0 }
}

fn write_held(bytes: &mut Vec<u8>, seen: &Seen<'_>) {
    if let Some(place) = seen.place {
        tagged(bytes, 1, BYTES, place_length(&place));
        write_place(bytes, &place);
    }
    if !seen.value.is_empty() {
        tagged(bytes, 2, BYTES, seen.value.len() as u64);
        bytes.extend_from_slice(seen.value);
    }
}

/// Less than 128 in any case. What is zero is left out.
fn place_length(place: &Place) -> u64 {
    let fixed = |number: u64| if number == 0 { 0 } else { 9 };
    let varint = |number: u64| if number == 0 { 0 } else { 1 + varint_length(number) };
    let id = place.transaction;
    let name = fixed(id.client.0) + varint(id.sequence) + varint(u64::from(id.attempt));
    fixed(place.timestamp.as_micros()) + name
}

fn write_place(bytes: &mut Vec<u8>, place: &Place) {
    let id = place.transaction;
    for (field, number) in [(1, place.timestamp.as_micros()), (2, id.client.0)] {
        if number != 0 {
            bytes.push(field << 3 | FIXED);
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    for (field, number) in [(3, id.sequence), (4, u64::from(id.attempt))] {
        if number != 0 {
            tagged(bytes, field, VARINT, number);
        }
    }
}

/// A field's number and kind, and a number that follows: its value, or its length.
fn tagged(bytes: &mut Vec<u8>, field: u8, kind: u8, mut number: u64) {
    bytes.push(field << 3 | kind);
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn varint_length(number: u64) -> u64 {
    u64::from((64 - (number | 1).leading_zeros()).div_ceil(7))
}
