//! The generators reach every input: all that the tables allow is drawn, down to the edges of each field.
//!
//! From the messages that stand by themselves every field is reached; and each message, drawn by itself, has every state
//! of each of its fields.

use std::collections::{BTreeMap, BTreeSet};

use quorate_codec::schema::{Field, Kind, Label};
use quorate_core::Random;

use crate::generate::{self, SCHEMA};
use crate::protobuf::{Message, Value};
use crate::roots;

/// How often the most seldom state must have been drawn: more than once, so that it is no accident.
const TIMES_MIN: usize = 3;

/// Fields whose check leaves no room for all that their type has: `sound` draws the edges that are left.
const CHECKED: [(&str, &str); 25] = [
    ("Speculation", "chain_max"),
    ("Transaction", "participants"),
    ("Tenure", "members"),
    ("log.Membership", "members"),
    ("Groups", "size"),
    ("Groups.Apart", "size"),
    ("Shard", "replicas"),
    ("Change", "nodes"),
    ("Change", "next"),
    ("Keyspace", "name"),
    ("Keyspace", "shards"),
    ("Keyspace", "clock_bound"),
    ("Retention", "time"),
    ("Retention", "bytes"),
    ("Keyspace", "application"),
    ("Dropped", "name"),
    ("Dropped", "former_names"),
    ("verify.Request", "path"),
    ("verify.Digest", "path"),
    ("verify.Digest", "buckets"),
    ("ir.Part", "count"),
    ("ir.Part", "index"),
    ("log.Shape", "base"),
    ("log.Shape", "last"),
    ("tapir.CoordinatorChangeReply", "committed"),
];

/// A commit is the first that names a transaction of its list, so it names the one at position zero, which is left out.
const ALWAYS_ZERO: (&str, &str) = ("ir.InconsistentEntry.Decision.Commit", "transaction");

/// How often each state of each field was drawn.
#[derive(Default)]
struct Tally(BTreeMap<(String, String), usize>);

impl Tally {
    fn count(&mut self, field: String, state: impl Into<String>) {
        *self.0.entry((field, state.into())).or_default() += 1;
    }

    fn look_at(&mut self, name: &str, message: &Message) {
        let described = SCHEMA.message(name).expect("it was drawn");
        for field in described.fields.iter().chain(&described.alternatives) {
            let place = format!("{name}.{}", field.name);
            let values = message.all(field.number);
            self.count(
                place.clone(),
                match values.len() {
                    0 => "none",
                    1 => "one",
                    _ => "several",
                },
            );
            if !values.is_empty() {
                self.count(place.clone(), "present");
            }
            for value in values {
                self.count(place.clone(), state(value));
                if let (Value::Message(inner), Kind::Message(name)) = (value, &field.kind) {
                    self.look_at(name, inner);
                }
            }
        }
    }
}

fn state(value: &Value) -> String {
    match value {
        Value::Varint(number) | Value::Fixed64(number) => number.to_string(),
        Value::Bytes(bytes) if bytes.len() > 127 => "long".to_owned(),
        Value::Text(text) if text.len() > 127 => "long".to_owned(),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::Text(text) => format!("{} bytes", text.len()),
        Value::Message(_) => "a message".to_owned(),
    }
}

/// The states that a field must be drawn in.
fn expected(message: &str, field: &Field, is_alternative: bool) -> BTreeSet<String> {
    let mut states = BTreeSet::new();
    if is_alternative {
        states.extend(["none", "one"]);
    } else {
        match field.label {
            Label::Plain => {}
            Label::Required => drop(states.insert("one")),
            Label::Optional => states.extend(["none", "one"]),
            Label::Repeated { .. } | Label::Packed | Label::Map => states.extend(["none", "one", "several"]),
        }
    }
    let mut states: BTreeSet<String> = states.into_iter().map(str::to_owned).collect();
    let is_plain = field.label == Label::Plain && !is_alternative;
    match &field.kind {
        Kind::Varint(number) | Kind::Fixed64(number) if !number.names.is_empty() => {
            states.extend((1..=number.max).map(|number| number.to_string()));
        }
        Kind::Varint(number) | Kind::Fixed64(number) => {
            states.insert(number.max.to_string());
            states.insert(if is_plain { "none".to_owned() } else { "0".to_owned() });
        }
        Kind::Bytes { min, .. } => {
            states.insert("long".to_owned());
            states.insert(if is_plain && *min == 0 { "none".to_owned() } else { format!("{min} bytes") });
        }
        Kind::Text => {
            states.insert("long".to_owned());
            states.insert(if is_plain { "none".to_owned() } else { "0 bytes".to_owned() });
        }
        Kind::Message(_) | Kind::Never => {}
    }
    let is_checked = |known: &(&str, &str)| *known == (message, field.name);
    if CHECKED.iter().any(is_checked) {
        states = ["present".to_owned()].into();
    }
    states
}

/// The fields of a message that can have values, and whether each is one of several alternatives.
fn fields(message: &quorate_codec::schema::Message) -> impl Iterator<Item = (&Field, bool)> {
    let alternatives = message.alternatives.iter().map(|field| (field, true));
    let fields = message.fields.iter().map(|field| (field, false)).chain(alternatives);
    fields.filter(|(field, _)| !SCHEMA.is_never(&field.kind))
}

/// The messages that there can be.
fn messages() -> impl Iterator<Item = &'static quorate_codec::schema::Message> {
    SCHEMA.messages().iter().filter(|message| !SCHEMA.is_never(&Kind::Message(message.name.clone())))
}

impl Tally {
    fn times(&self, message: &str, field: &str, state: &str) -> usize {
        self.0.get(&(format!("{message}.{field}"), state.to_owned())).copied().unwrap_or(0)
    }
}

#[test]
fn every_field_is_reached_from_the_messages_that_stand_by_themselves() {
    let mut tally = Tally::default();
    let mut random = Random::new(0);
    for _ in 0..6_000 {
        for root in roots::all() {
            tally.look_at(&root.name, &generate::message(&root.name, &mut random));
        }
    }
    for message in messages().filter(|message| message.name != "Payload") {
        for (field, _) in
            fields(message).filter(|(field, _)| (message.name.as_str(), field.name) != ALWAYS_ZERO)
        {
            let times = tally.times(&message.name, field.name, "present");
            assert!(times >= TIMES_MIN, "{}.{} is drawn {times} times", message.name, field.name);
        }
    }
}

#[test]
fn every_state_of_every_field_is_reached() {
    let mut seldom = Vec::new();
    for message in messages() {
        let mut tally = Tally::default();
        let mut random = Random::new(0);
        let missing = |tally: &Tally| {
            let states = fields(message).flat_map(|(field, is_alternative)| {
                expected(&message.name, field, is_alternative).into_iter().map(|state| (field.name, state))
            });
            states
                .filter(|(field, state)| tally.times(&message.name, field, state) < TIMES_MIN)
                .collect::<Vec<_>>()
        };
        for _ in 0..40 {
            if missing(&tally).is_empty() {
                break;
            }
            for _ in 0..100 {
                tally.look_at(&message.name, &generate::message(&message.name, &mut random));
            }
        }
        seldom.extend(
            missing(&tally).into_iter().map(|(field, state)| format!("{}.{field} {state}", message.name)),
        );
    }
    assert!(seldom.is_empty(), "these are drawn too seldom: {seldom:#?}");
}
