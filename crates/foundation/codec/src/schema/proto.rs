//! The schema as a text that every implementation of protocol buffers reads.

use std::fmt::Write as _;

use super::{Field, Kind, Label, Message, Number, Schema};
use crate::field::ENTRIES_MAX;

/// The package of all messages.
const PACKAGE: &str = "quorate";

const HEADER: &str = "\
// The messages of Quorate, for implementations in other languages.
//
// Written from the tables of the codec: edit those, and let `QUORATE_BLESS=1 cargo test -p quorate-wire --test wire schema`
// write this file anew. docs/wire-format.md has the rules that protocol buffers cannot state.

";

/// The name of a message in the text: `tapir.Message` is `TapirMessage`, and an alternative of it is `TapirMessage.Read`.
fn identifier(schema: &Schema, name: &str) -> String {
    let message = schema.message(name).expect("every message that is named was described");
    match &message.parent {
        Some(parent) => format!("{}.{}", identifier(schema, parent), last(name)),
        None => name.split('.').map(capitalised).collect(),
    }
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().expect("a name has a last part")
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

/// `StartView` as `start_view`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (at, character) in name.char_indices() {
        if character.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

impl Schema {
    /// The identifier that the message of this name has in [`Schema::proto`], with those of the messages around it.
    ///
    /// # Panics
    /// If there is no such message.
    pub fn identifier(&self, name: &str) -> String {
        identifier(self, name)
    }

    /// The text of a `.proto` file with all messages.
    ///
    /// # Panics
    /// If two messages would have one name in it.
    pub fn proto(&self) -> String {
        let mut text = format!("{HEADER}syntax = \"proto3\";\n\npackage {PACKAGE};\n");
        let mut identifiers = std::collections::BTreeSet::new();
        for message in self.messages() {
            let identifier = identifier(self, &message.name);
            assert!(identifiers.insert(identifier), "two messages would have the name of {}", message.name);
            if message.parent.is_none() && !self.is_pair_of_a_map(&message.name) {
                text.push('\n');
                self.write_message(&mut text, message, 0);
            }
        }
        text
    }

    /// Pairs of maps have no name in the text.
    fn is_pair_of_a_map(&self, name: &str) -> bool {
        let fields = self.messages.iter().flat_map(|message| &message.fields);
        let mut uses =
            fields.filter(|field| matches!(&field.kind, Kind::Message(used) if used == name)).peekable();
        uses.peek().is_some() && uses.all(|field| field.label == Label::Map)
    }

    /// The fields that can have values and those that cannot, each by their numbers.
    fn by_number<'a>(&self, fields: &'a [Field]) -> (Vec<&'a Field>, Vec<&'a Field>) {
        let mut fields: Vec<&Field> = fields.iter().collect();
        fields.sort_by_key(|field| field.number);
        fields.into_iter().partition(|field| !self.is_never(&field.kind))
    }

    fn write_message(&self, text: &mut String, message: &Message, depth: usize) {
        let indent = "  ".repeat(depth);
        let name = match &message.parent {
            Some(_) => last(&message.name).to_owned(),
            None => identifier(self, &message.name),
        };
        let (fields, never) = self.by_number(&message.fields);
        let (alternatives, never_alternatives) = self.by_number(&message.alternatives);
        if fields.is_empty() && alternatives.is_empty() {
            writeln!(text, "{indent}message {name} {{}}").expect("a text takes all");
            return;
        }
        writeln!(text, "{indent}message {name} {{").expect("a text takes all");
        let reserved = never.into_iter().chain(never_alternatives);
        let reserved: Vec<String> = reserved.map(|field| field.number.to_string()).collect();
        if !reserved.is_empty() {
            writeln!(text, "{indent}  reserved {};", reserved.join(", ")).expect("a text takes all");
        }
        for field in &fields {
            self.write_field(text, message, field, field.name, depth + 1);
        }
        if !alternatives.is_empty() {
            writeln!(text, "{indent}  oneof is {{").expect("a text takes all");
            for field in &alternatives {
                self.write_field(text, message, field, &snake(field.name), depth + 2);
            }
            writeln!(text, "{indent}  }}").expect("a text takes all");
        }
        for inner in self.messages.iter().filter(|inner| inner.parent.as_ref() == Some(&message.name)) {
            if !self.is_never(&Kind::Message(inner.name.clone())) {
                self.write_message(text, inner, depth + 1);
            }
        }
        writeln!(text, "{indent}}}").expect("a text takes all");
    }

    fn write_field(&self, text: &mut String, around: &Message, field: &Field, name: &str, depth: usize) {
        let indent = "  ".repeat(depth);
        let of_type = match (&field.kind, field.label) {
            (Kind::Message(pair), Label::Map) => {
                let pair = self.message(pair).expect("it was described");
                let [key, value] = &pair.fields[..] else { panic!("{} is no pair", pair.name) };
                format!("map<{}, {}>", self.type_name(around, &key.kind), self.type_name(around, &value.kind))
            }
            (kind, _) => self.type_name(around, kind),
        };
        let label = match field.label {
            Label::Plain | Label::Required | Label::Map => "",
            Label::Optional => "optional ",
            Label::Repeated { .. } | Label::Packed => "repeated ",
        };
        let option = match (field.label, &field.kind) {
            (Label::Repeated { .. }, Kind::Varint(_) | Kind::Fixed64(_)) => " [packed = false]",
            _ => "",
        };
        write!(text, "{indent}{label}{of_type} {name} = {}{option};", field.number)
            .expect("a text takes all");
        let is_alternative = around.alternatives.contains(field);
        let remarks = remarks(field, is_alternative);
        if !remarks.is_empty() {
            write!(text, " // {}", remarks.join("; ")).expect("a text takes all");
        }
        text.push('\n');
    }

    fn type_name(&self, around: &Message, kind: &Kind) -> String {
        match kind {
            Kind::Varint(number) => number.proto.to_owned(),
            Kind::Fixed64(_) => "fixed64".to_owned(),
            Kind::Bytes { .. } => "bytes".to_owned(),
            Kind::Text => "string".to_owned(),
            Kind::Message(name) => {
                let message = self.message(name).expect("it was described");
                if message.parent.as_ref() == Some(&around.name) {
                    return last(name).to_owned();
                }
                let identifier = identifier(self, name);
                let is_hidden = self.messages.iter().any(|inner| {
                    inner.parent.as_ref() == Some(&around.name) && last(&inner.name) == identifier
                });
                assert!(!is_hidden, "in {} an alternative hides {identifier}", around.name);
                identifier
            }
            Kind::Never => unreachable!("a field without values is left out"),
        }
    }
}

/// Limits and meanings that the types of protocol buffers leave open.
fn remarks(field: &Field, is_alternative: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    if field.label == Label::Required && !is_alternative {
        remarks.push("always present".to_owned());
    }
    if let Label::Repeated { max } = field.label
        && max != ENTRIES_MAX
    {
        remarks.push(format!("at most {max}"));
    }
    match &field.kind {
        Kind::Varint(number) | Kind::Fixed64(number) => remarks.extend(of_number(number)),
        Kind::Bytes { min: 0, max: Some(max) } => remarks.push(format!("at most {max} bytes")),
        Kind::Bytes { min, max: Some(max) } => remarks.push(format!("{min} to {max} bytes")),
        _ => {}
    }
    remarks
}

fn of_number(number: &Number) -> Option<String> {
    if !number.names.is_empty() {
        let names = (1..).zip(number.names).map(|(number, name): (u32, _)| format!("{number} {name}"));
        return Some(names.collect::<Vec<_>>().join(", "));
    }
    if !number.unit.is_empty() {
        return Some(number.unit.to_owned());
    }
    let is_whole = [1, u64::from(u32::MAX), u64::MAX].contains(&number.max);
    (!is_whole).then(|| format!("at most {}", number.max))
}
