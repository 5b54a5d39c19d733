//! The text format of protocol buffers, on one line.

use std::fmt::Write as _;

use crate::protobuf::{File, Message, Value, ValueType};

impl File {
    /// The fields by their names.
    pub(crate) fn print(&self, name: &str, message: &Message) -> String {
        let fields = &self.messages[name].fields;
        let mut words = Vec::new();
        for (number, values) in &message.0 {
            let field = &fields[number];
            for value in values {
                words.push(match (value, &field.of) {
                    (Value::Message(inner), ValueType::Message(of)) => {
                        let inner = self.print(of, inner);
                        let space = if inner.is_empty() { "" } else { " " };
                        format!("{} {{{space}{inner}{space}}}", field.name)
                    }
                    (Value::Message(pair), _) => {
                        let mut text = format!("{} {{", field.name);
                        for (part, name) in [(1, "key"), (2, "value")] {
                            let value = pair.0.get(&part).map_or("0".to_owned(), |values| scalar(&values[0]));
                            write!(text, " {name}: {value}").expect("a text takes all");
                        }
                        text + " }"
                    }
                    (Value::Varint(number), ValueType::Sint32 | ValueType::Sint64) => {
                        let magnitude = (number >> 1) as i64;
                        let signed = if number & 1 == 0 { magnitude } else { -1 - magnitude };
                        format!("{}: {signed}", field.name)
                    }
                    (value, _) => format!("{}: {}", field.name, scalar(value)),
                });
            }
        }
        words.join(" ")
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Varint(number) | Value::Fixed64(number) => number.to_string(),
        Value::Bytes(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::Text(text) => format!("{text:?}"),
        Value::Message(_) => unreachable!("the value of a map that is printed is a number"),
    }
}
