//! Reads the bytes of a message strictly, and writes them canonically.

use super::{FieldType, File, Label, Message, Type, Value, ValueType};

impl File {
    fn of(&self, name: &str) -> &Type {
        self.messages.get(name).unwrap_or_else(|| panic!("there is no message {name}"))
    }

    /// Reads a message; an error if a field is not declared, or not as it is declared.
    pub(crate) fn decode(&self, name: &str, bytes: &[u8]) -> Result<Message, String> {
        self.decode_fields(name, &self.of(name).fields, bytes)
    }

    fn decode_fields(
        &self,
        name: &str,
        fields: &std::collections::BTreeMap<u32, FieldType>,
        bytes: &[u8],
    ) -> Result<Message, String> {
        let mut message = Message::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let tag = varint(&mut rest)?;
            let (number, wire_type) = ((tag >> 3) as u32, tag & 7);
            let field = fields.get(&number).ok_or_else(|| format!("{name} has no field {number}"))?;
            let error = |error: String| format!("{name}.{}: {error}", field.name);
            let values = message.0.entry(number).or_default();
            if field.label == Label::Packed && wire_type == 2 {
                let mut numbers = delimited(&mut rest).map_err(error)?;
                while !numbers.is_empty() {
                    let wire_type = if field.of == ValueType::Fixed64 { 1 } else { 0 };
                    values.push(self.value(&field.of, wire_type, &mut numbers).map_err(error)?);
                }
                continue;
            }
            let is_list = matches!(field.label, Label::Repeated | Label::Packed | Label::Map);
            if !is_list && !values.is_empty() {
                return Err(error("it is there twice".to_owned()));
            }
            values.push(self.value(&field.of, wire_type, &mut rest).map_err(error)?);
        }
        let present = |number: &u32| fields[number].label == Label::Alternative;
        if message.0.keys().filter(|number| present(number)).count() > 1 {
            return Err(format!("{name} has two alternatives"));
        }
        Ok(message)
    }

    fn value(&self, of: &ValueType, wire_type: u64, rest: &mut &[u8]) -> Result<Value, String> {
        let expected = match of {
            ValueType::Bool
            | ValueType::Uint32
            | ValueType::Uint64
            | ValueType::Sint32
            | ValueType::Sint64 => 0,
            ValueType::Fixed64 => 1,
            _ => 2,
        };
        if wire_type != expected {
            return Err(format!("the wire type is {wire_type}"));
        }
        Ok(match of {
            ValueType::Bool => Value::Varint(at_most(1, varint(rest)?)?),
            ValueType::Uint32 | ValueType::Sint32 => {
                Value::Varint(at_most(u64::from(u32::MAX), varint(rest)?)?)
            }
            ValueType::Uint64 | ValueType::Sint64 => Value::Varint(varint(rest)?),
            ValueType::Fixed64 => {
                let (bytes, behind) = rest.split_first_chunk().ok_or("cut")?;
                *rest = behind;
                Value::Fixed64(u64::from_le_bytes(*bytes))
            }
            ValueType::Bytes => Value::Bytes(delimited(rest)?.to_vec()),
            ValueType::Text => {
                Value::Text(String::from_utf8(delimited(rest)?.to_vec()).map_err(|_| "not UTF-8".to_owned())?)
            }
            ValueType::Message(name) => Value::Message(self.decode(name, delimited(rest)?)?),
            ValueType::Pair(pair) => {
                Value::Message(self.decode_fields("pair", &pair_fields(pair), delimited(rest)?)?)
            }
        })
    }

    /// Writes a message: fields by ascending number, without those that have their defaults.
    pub(crate) fn encode(&self, name: &str, message: &Message) -> Vec<u8> {
        self.encode_fields(&self.of(name).fields, message)
    }

    fn encode_fields(
        &self,
        fields: &std::collections::BTreeMap<u32, FieldType>,
        message: &Message,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, values) in &message.0 {
            let field = &fields[number];
            if field.label == Label::Packed {
                if !values.is_empty() {
                    let mut numbers = Vec::new();
                    values.iter().for_each(|value| self.put(&field.of, value, &mut numbers));
                    put_varint(u64::from(number << 3 | 2), &mut out);
                    put_delimited(&numbers, &mut out);
                }
                continue;
            }
            for value in values {
                if field.label == Label::Singular && is_default(value) {
                    continue;
                }
                let wire_type = match value {
                    Value::Varint(_) => 0,
                    Value::Fixed64(_) => 1,
                    Value::Bytes(_) | Value::Text(_) | Value::Message(_) => 2,
                };
                put_varint(u64::from(number << 3 | wire_type), &mut out);
                self.put(&field.of, value, &mut out);
            }
        }
        out
    }

    fn put(&self, of: &ValueType, value: &Value, out: &mut Vec<u8>) {
        match (value, of) {
            (Value::Varint(number), _) => put_varint(*number, out),
            (Value::Fixed64(number), _) => out.extend(number.to_le_bytes()),
            (Value::Bytes(bytes), _) => put_delimited(bytes, out),
            (Value::Text(text), _) => put_delimited(text.as_bytes(), out),
            (Value::Message(message), ValueType::Message(name)) => {
                put_delimited(&self.encode(name, message), out)
            }
            (Value::Message(message), ValueType::Pair(pair)) => {
                put_delimited(&self.encode_fields(&pair_fields(pair), message), out);
            }
            (Value::Message(_), _) => panic!("a message where there is none"),
        }
    }
}

/// A map is a list of messages with a key and a value.
fn pair_fields(pair: &(ValueType, ValueType)) -> std::collections::BTreeMap<u32, FieldType> {
    let field = |name: &str, of: &ValueType| FieldType {
        name: name.to_owned(),
        label: Label::Singular,
        of: of.clone(),
    };
    [(1, field("key", &pair.0)), (2, field("value", &pair.1))].into()
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Varint(number) | Value::Fixed64(number) => *number == 0,
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Text(text) => text.is_empty(),
        Value::Message(_) => false,
    }
}

fn at_most(max: u64, number: u64) -> Result<u64, String> {
    if number <= max { Ok(number) } else { Err(format!("{number} is more than {max}")) }
}

fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0u128;
    for at in 0..10 {
        let (byte, behind) = rest.split_first().ok_or("cut")?;
        *rest = behind;
        number |= u128::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return u64::try_from(number).map_err(|_| "a number is too long".to_owned());
        }
    }
    Err("a number is too long".to_owned())
}

fn delimited<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = varint(rest)? as usize;
    let (bytes, behind) = rest.split_at_checked(length).ok_or("cut")?;
    *rest = behind;
    Ok(bytes)
}

/// Writes a number of variable length.
pub(crate) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_delimited(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend(bytes);
}
