//! The language of `.proto` files, as far as ours goes.

use super::{FieldType, File, Label, Type, ValueType};

/// # Panics
/// If the text is not such a file.
pub(crate) fn parse(text: &str) -> File {
    let lines = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut words = Words { rest: &code };
    for expected in ["syntax", "=", "\"proto3\"", ";", "package", "quorate", ";"] {
        words.expect(expected);
    }
    let mut file = File::default();
    while let Some(word) = words.next() {
        assert_eq!(word, "message", "a file has messages");
        message(&mut words, "", &mut file);
    }
    resolve(&mut file);
    file
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next()?;
        let is_part = |character: char| character.is_alphanumeric() || "_.\"".contains(character);
        let length = if is_part(first) {
            self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len())
        } else {
            first.len_utf8()
        };
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(word)
    }

    fn word(&mut self) -> &'a str {
        self.next().expect("the file goes on")
    }

    fn expect(&mut self, expected: &str) {
        assert_eq!(self.word(), expected, "before {:.60}", self.rest);
    }
}

fn message(words: &mut Words<'_>, around: &str, file: &mut File) {
    let name = words.word();
    let name = if around.is_empty() { name.to_owned() } else { format!("{around}.{name}") };
    let mut own = Type::default();
    words.expect("{");
    loop {
        match words.word() {
            "}" => break,
            "message" => message(words, &name, file),
            "reserved" => while words.word() != ";" {},
            "oneof" => {
                words.word();
                words.expect("{");
                loop {
                    match words.word() {
                        "}" => break,
                        word => field(words, word, Label::Alternative, &mut own),
                    }
                }
            }
            "optional" => {
                let word = words.word();
                field(words, word, Label::Optional, &mut own);
            }
            "repeated" => {
                let word = words.word();
                field(words, word, Label::Repeated, &mut own);
            }
            word => field(words, word, Label::Singular, &mut own),
        }
    }
    assert!(file.messages.insert(name.clone(), own).is_none(), "{name} is there twice");
}

fn field(words: &mut Words<'_>, first: &str, mut label: Label, message: &mut Type) {
    let of = if first == "map" {
        words.expect("<");
        let key = value_type(words.word());
        words.expect(",");
        let value = value_type(words.word());
        words.expect(">");
        label = Label::Map;
        ValueType::Pair(Box::new((key, value)))
    } else {
        value_type(first)
    };
    let name = words.word().to_owned();
    words.expect("=");
    let number: u32 = words.word().parse().expect("the number of a field");
    let is_number =
        !matches!(of, ValueType::Bytes | ValueType::Text | ValueType::Message(_) | ValueType::Pair(_));
    if label == Label::Repeated && is_number {
        label = Label::Packed;
    }
    match words.word() {
        ";" => {}
        "[" => {
            for expected in ["packed", "=", "false", "]", ";"] {
                words.expect(expected);
            }
            label = Label::Repeated;
        }
        word => panic!("{word} after a field"),
    }
    let known = message.fields.insert(number, FieldType { name, label, of });
    assert_eq!(known, None, "field {number} is there twice");
}

fn value_type(word: &str) -> ValueType {
    match word {
        "bool" => ValueType::Bool,
        "uint32" => ValueType::Uint32,
        "uint64" => ValueType::Uint64,
        "sint32" => ValueType::Sint32,
        "sint64" => ValueType::Sint64,
        "fixed64" => ValueType::Fixed64,
        "bytes" => ValueType::Bytes,
        "string" => ValueType::Text,
        name => ValueType::Message(name.to_owned()),
    }
}

/// Names a message from the inside out, as the language does.
fn resolve(file: &mut File) {
    let names: Vec<String> = file.messages.keys().cloned().collect();
    let find = |around: &str, name: &str| {
        let mut scope = Some(around);
        while let Some(within) = scope {
            let full = format!("{within}.{name}");
            if names.contains(&full) {
                return full;
            }
            scope = within.rsplit_once('.').map(|(outer, _)| outer);
        }
        assert!(names.iter().any(|known| known == name), "{around} holds {name}, which there is not");
        name.to_owned()
    };
    for (around, message) in &mut file.messages {
        for field in message.fields.values_mut() {
            let parts = match &mut field.of {
                ValueType::Pair(pair) => [Some(&mut pair.0), Some(&mut pair.1)],
                of => [Some(of), None],
            };
            for part in parts.into_iter().flatten() {
                if let ValueType::Message(name) = part {
                    *name = find(around, name);
                }
            }
        }
    }
}
