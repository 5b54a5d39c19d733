//! Random messages, made from the tables of the codec as their schema tells them.
//!
//! Every alternative, every choice of a number and both states of every optional field are drawn, each with a chance that does
//! not depend on the other draws. Numbers are 0, 1, the last of one byte and the first of two, the greatest of their
//! type, or any; bytes and texts are as short as may be, everyday, or longer than one byte of length can tell; lists
//! are empty, short or long. `coverage` fails if one of these is never reached.
//!
//! Some rules stand in the check of a message and not in its table: `sound` makes a drawn message keep them.
//!
//! A message is made of values of the independent implementation, which also writes it. So a test begins with bytes that
//! the codec has not written.

mod sound;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use quorate_codec::schema::{Field, Kind, Label, Number, Schema};
use quorate_core::Random;
use quorate_wire::{Packet, Wire, decode};

use crate::protobuf::{self, File, Message, Value};

/// The messages, as the tables have them.
pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(quorate_wire::schema);

/// The messages, as clients in other languages have them.
pub(crate) static FILE: LazyLock<File> = LazyLock::new(protobuf::file);

/// The messages of the schema by their names.
static BY_NAME: LazyLock<BTreeMap<&str, &quorate_codec::schema::Message>> =
    LazyLock::new(|| SCHEMA.messages().iter().map(|message| (message.name.as_str(), message)).collect());

/// How many alternatives a message leads to, which makes it as much more likely to be drawn.
static WEIGHTS: LazyLock<BTreeMap<&str, u64>> =
    LazyLock::new(|| BY_NAME.keys().map(|name| (*name, alternatives_within(name))).collect());

/// Names from the tables to names in the text.
static IDENTIFIERS: LazyLock<BTreeMap<&str, String>> =
    LazyLock::new(|| BY_NAME.keys().map(|name| (*name, SCHEMA.identifier(name))).collect());

fn alternatives_within(name: &str) -> u64 {
    let of_kind = |field: &Field| match &field.kind {
        Kind::Message(name) => alternatives_within(name),
        _ => 1,
    };
    let message = BY_NAME[name];
    if message.alternatives.is_empty() {
        message.fields.iter().map(of_kind).max().unwrap_or(1)
    } else {
        message.alternatives.iter().map(of_kind).sum()
    }
}

/// The bytes of a message of this name, as others write it.
pub(crate) fn write(name: &str, message: &Message) -> Vec<u8> {
    FILE.encode(&IDENTIFIERS[name], message)
}

/// Reads a message of this name as others do.
pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<Message, String> {
    FILE.decode(&IDENTIFIERS[name], bytes)
}

/// A message of this type that the codec has read.
pub(crate) fn of_type<T: Wire>(random: &mut Random) -> T {
    let name = T::name();
    let message = message(&name, random);
    decode(&write(&name, &message)).unwrap_or_else(|error| panic!("{error}: {message:?}"))
}

/// A packet.
pub(crate) fn packet(random: &mut Random) -> Packet {
    of_type(random)
}

/// Any number, the edges as often as the others.
fn number(number: &Number, random: &mut Random) -> u64 {
    if !number.names.is_empty() {
        return random.between(1, number.max);
    }
    let drawn = match random.below(8) {
        0 => 0,
        1 => 1,
        2 => 127,
        3 => 128,
        4 => number.max,
        5 => random.next_u64(),
        _ => random.below(1000),
    };
    // A number that is too great is folded.
    if drawn <= number.max { drawn } else { drawn % number.max }
}

/// Mostly short.
fn length(min: usize, max: usize, everyday: u64, random: &mut Random) -> usize {
    let drawn = match random.below(32) {
        0..4 => 0,
        4 => random.between(120, 400) as usize,
        _ => random.below(everyday) as usize,
    };
    (min + drawn).min(max)
}

/// So many bytes.
pub(crate) fn bytes(length: usize, random: &mut Random) -> Vec<u8> {
    (0..length).map(|_| random.next_u64() as u8).collect()
}

fn text(random: &mut Random) -> String {
    let ranges = [(0, 0x7f), (0x80, 0x7ff), (0x800, 0xd7ff), (0x1_0000, 0x10_ffff)];
    let character = |random: &mut Random| {
        let (low, high) = ranges[random.index(ranges.len())];
        char::from_u32(random.between(low, high) as u32).expect("the ranges leave surrogates out")
    };
    (0..length(0, usize::MAX, 12, random)).map(|_| character(random)).collect()
}

fn value(kind: &Kind, random: &mut Random) -> Value {
    match kind {
        Kind::Varint(of) => Value::Varint(number(of, random)),
        Kind::Fixed64(of) => Value::Fixed64(number(of, random)),
        Kind::Bytes { min, max } => {
            let length = length(*min, max.unwrap_or(usize::MAX), 40, random);
            Value::Bytes(bytes(length, random))
        }
        Kind::Text => Value::Text(text(random)),
        Kind::Message(name) => Value::Message(message(name, random)),
        Kind::Never => unreachable!("there is no such value"),
    }
}

/// A message of this name that the codec accepts.
pub(crate) fn message(name: &str, random: &mut Random) -> Message {
    let described = BY_NAME.get(name).unwrap_or_else(|| panic!("{name} is in no schema"));
    let mut message = Message::default();
    for field in described.fields.iter().filter(|field| !SCHEMA.is_never(&field.kind)) {
        message.set(field.number, values(field, random));
    }
    if let Some(field) = alternative(described, random) {
        message.set(field.number, vec![value(&field.kind, random)]);
    }
    sound::repair(name, &mut message, random);
    message.drop_defaults(described);
    message
}

/// An alternative, as likely as there are alternatives in it: the root of that, or envelopes would leave no room for the rest.
fn alternative<'a>(message: &'a quorate_codec::schema::Message, random: &mut Random) -> Option<&'a Field> {
    let possible = message.alternatives.iter().filter(|field| !SCHEMA.is_never(&field.kind));
    let weighted: Vec<(&Field, u64)> = possible
        .map(|field| match &field.kind {
            Kind::Message(name) => (field, WEIGHTS[name.as_str()].isqrt().max(1)),
            _ => (field, 1),
        })
        .collect();
    if weighted.is_empty() {
        return None;
    }
    let mut drawn = random.below(weighted.iter().map(|(_, weight)| weight).sum());
    weighted.into_iter().find_map(|(field, weight)| match drawn.checked_sub(weight) {
        Some(rest) => {
            drawn = rest;
            None
        }
        None => Some(field),
    })
}

fn values(field: &Field, random: &mut Random) -> Vec<Value> {
    let count = match field.label {
        Label::Plain | Label::Required => 1,
        Label::Optional => random.below(2) as usize,
        Label::Repeated { max } => entries(random).min(max),
        Label::Packed | Label::Map => entries(random),
    };
    let mut values: Vec<Value> = (0..count).map(|_| value(&field.kind, random)).collect();
    if field.label == Label::Map {
        sound::ascend(&mut values, 1);
    }
    values
}

fn entries(random: &mut Random) -> usize {
    match random.below(64) {
        0 => random.between(4, 24) as usize,
        _ => random.below(4) as usize,
    }
}

impl Message {
    pub(crate) fn set(&mut self, number: u32, values: Vec<Value>) {
        if values.is_empty() {
            self.0.remove(&number);
        } else {
            self.0.insert(number, values);
        }
    }

    /// The values of a field.
    pub(crate) fn all(&self, number: u32) -> &[Value] {
        self.0.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The number that a field has, which is zero if it is left out.
    pub(crate) fn number(&self, number: u32) -> u64 {
        match self.all(number) {
            [] => 0,
            [Value::Varint(number) | Value::Fixed64(number), ..] => *number,
            other => panic!("{other:?} is no number"),
        }
    }

    /// The message that a field holds.
    pub(crate) fn inner(&mut self, number: u32) -> Option<&mut Message> {
        match self.0.get_mut(&number)?.first_mut()? {
            Value::Message(message) => Some(message),
            other => panic!("{other:?} is no message"),
        }
    }

    /// Leaves fields out that have their defaults.
    fn drop_defaults(&mut self, described: &quorate_codec::schema::Message) {
        for field in described.fields.iter().filter(|field| field.label == Label::Plain) {
            let is_default = match self.all(field.number) {
                [Value::Varint(0) | Value::Fixed64(0)] => true,
                [Value::Bytes(bytes)] => bytes.is_empty(),
                [Value::Text(text)] => text.is_empty(),
                _ => false,
            };
            if is_default {
                self.0.remove(&field.number);
            }
        }
    }
}
