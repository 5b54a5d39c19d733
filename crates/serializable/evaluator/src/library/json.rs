//! `cjson`: `encode`, `decode` and `null`, as scripts find them that choose no options.

use std::sync::Arc;

use super::{Values, WRONG};
use crate::Halt;
use crate::machine::Machine;
use crate::natives::Native;
use crate::numbers;
use crate::table::Table;
use crate::values::Value;

/// How deep values nest.
const DEPTH_MAX: usize = 40;

/// A list has at most so many times its elements, or [`SPARSE_SAFE`] of them.
const SPARSE_RATIO: usize = 2;
const SPARSE_SAFE: usize = 10;

const TOO_DEEP: Halt = Halt::Unfit("JSON nests too deep");
const MALFORMED: Halt = Halt::Unfit("this is no JSON");

impl Machine<'_, '_> {
    pub(super) fn json(&mut self, native: Native, arguments: &[Value]) -> Values {
        let [value] = arguments else { return Err(WRONG) };
        if native == Native::Encode {
            let mut output = Vec::new();
            self.encode(value, 0, &mut output)?;
            return Ok(vec![self.string(output)?]);
        }
        let text = self.text(arguments, 0)?;
        self.spend(text.len() as u64 / 16)?;
        let mut decoder = Decoder { text: &text, at: 0 };
        let value = self.decode(&mut decoder, 0)?;
        decoder.skip_space();
        if decoder.at < text.len() { Err(MALFORMED) } else { Ok(vec![value]) }
    }

    fn encode(&mut self, value: &Value, depth: usize, output: &mut Vec<u8>) -> Result<(), Halt> {
        self.spend(1)?;
        self.check_bytes(output.len())?;
        match value {
            Value::String(text) => encode_text(text, output),
            Value::Number(number) if number.is_finite() => {
                output.extend_from_slice(numbers::text(*number)?.as_bytes());
            }
            Value::Boolean(flag) => output.extend_from_slice(flag.to_string().as_bytes()),
            Value::Nil | Value::Null => output.extend_from_slice(b"null"),
            Value::Table(table) if depth < DEPTH_MAX => return self.encode_table(*table, depth + 1, output),
            Value::Table(_) => return Err(TOO_DEEP),
            _ => return Err(WRONG),
        }
        Ok(())
    }

    /// The length of an array; zero if a table is none.
    fn array_length(&mut self, table: usize) -> Result<usize, Halt> {
        let (mut most, mut items, mut key) = (0, 0, Value::Nil);
        while let Some((next, _)) = self.tables[table].next(&key)? {
            self.spend(1)?;
            match next {
                Value::Number(number) if number >= 1.0 && number.fract() == 0.0 && number <= 1e15 => {
                    most = most.max(number as usize);
                    items += 1;
                }
                _ => return Ok(0),
            }
            key = next;
        }
        let is_sparse = most > items * SPARSE_RATIO && most > SPARSE_SAFE;
        if is_sparse { Err(Halt::Unfit("a list is mostly gaps")) } else { Ok(most) }
    }

    fn encode_table(&mut self, table: usize, depth: usize, output: &mut Vec<u8>) -> Result<(), Halt> {
        let length = self.array_length(table)?;
        if length > 0 {
            for at in 1..=length {
                output.push(if at == 1 { b'[' } else { b',' });
                let element = self.tables[table].at(at);
                self.encode(&element, depth, output)?;
            }
            output.push(b']');
            return Ok(());
        }
        output.push(b'{');
        let mut key = Value::Nil;
        while let Some((next, value)) = self.tables[table].next(&key)? {
            if !key.is_nil() {
                output.push(b',');
            }
            match &next {
                Value::String(name) => encode_text(name, output),
                Value::Number(number) if number.is_finite() => {
                    output.extend_from_slice(format!("\"{}\"", numbers::text(*number)?).as_bytes());
                }
                _ => return Err(WRONG),
            }
            output.push(b':');
            self.encode(&value, depth, output)?;
            key = next;
        }
        output.push(b'}');
        Ok(())
    }

    fn decode(&mut self, decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, Halt> {
        self.spend(1)?;
        decoder.skip_space();
        let rest = &decoder.text[decoder.at..];
        let word = |word: &[u8]| rest.starts_with(word);
        let (value, length) = match rest.first() {
            Some(b'{' | b'[') if depth >= DEPTH_MAX => return Err(TOO_DEEP),
            Some(b'{') => return self.decode_object(decoder, depth + 1),
            Some(b'[') => return self.decode_array(decoder, depth + 1),
            Some(b'"') => {
                let text = decoder.string()?;
                return self.string(text);
            }
            Some(b'-' | b'0'..=b'9') => return Ok(Value::Number(decoder.number()?)),
            _ if word(b"true") => (Value::Boolean(true), 4),
            _ if word(b"false") => (Value::Boolean(false), 5),
            _ if word(b"null") => (Value::Null, 4),
            // Or a number that C knows and JSON does not.
            _ => return Err(MALFORMED),
        };
        decoder.at += length;
        Ok(value)
    }

    fn empty_table(&mut self) -> Result<usize, Halt> {
        self.table(Table::default())?;
        Ok(self.tables.len() - 1)
    }

    fn decode_object(&mut self, decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, Halt> {
        let table = self.empty_table()?;
        decoder.at += 1;
        decoder.skip_space();
        let mut is_over = decoder.accept(b'}');
        while !is_over {
            decoder.skip_space();
            if decoder.peek() != Some(b'"') {
                return Err(MALFORMED);
            }
            let name = decoder.string()?;
            let name = self.string(name)?;
            decoder.skip_space();
            decoder.expect(b':')?;
            let value = self.decode(decoder, depth)?;
            self.set(table, &name, value)?;
            is_over = decoder.is_over(b'}')?;
        }
        Ok(Value::Table(table))
    }

    fn decode_array(&mut self, decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, Halt> {
        let table = self.empty_table()?;
        decoder.at += 1;
        decoder.skip_space();
        let (mut is_over, mut at) = (decoder.accept(b']'), 0.0);
        while !is_over {
            at += 1.0;
            let value = self.decode(decoder, depth)?;
            self.set(table, &Value::Number(at), value)?;
            is_over = decoder.is_over(b']')?;
        }
        Ok(Value::Table(table))
    }
}

fn encode_text(text: &[u8], output: &mut Vec<u8>) {
    output.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' | b'/' => output.extend_from_slice(&[b'\\', *byte]),
            8 => output.extend_from_slice(b"\\b"),
            9 => output.extend_from_slice(b"\\t"),
            10 => output.extend_from_slice(b"\\n"),
            12 => output.extend_from_slice(b"\\f"),
            13 => output.extend_from_slice(b"\\r"),
            0..=31 | 127 => output.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => output.push(*byte),
        }
    }
    output.push(b'"');
}

/// Reads from the front of a text.
struct Decoder<'a> {
    text: &'a Arc<[u8]>,
    at: usize,
}

impl Decoder<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn accept(&mut self, sign: u8) -> bool {
        let is_here = self.peek() == Some(sign);
        self.at += usize::from(is_here);
        is_here
    }

    fn expect(&mut self, sign: u8) -> Result<(), Halt> {
        if self.accept(sign) { Ok(()) } else { Err(MALFORMED) }
    }

    /// True if the end stands here; else a comma has to.
    fn is_over(&mut self, end: u8) -> Result<bool, Halt> {
        self.skip_space();
        if self.accept(end) {
            return Ok(true);
        }
        self.expect(b',')?;
        Ok(false)
    }

    /// A number as JSON has it: C knows more of them.
    fn number(&mut self) -> Result<f64, Halt> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &&u8| matches!(**byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().take_while(is_part).count();
        let digits = rest[..length].strip_prefix(b"-").unwrap_or(&rest[..length]);
        let is_json = match digits {
            [b'0'] => true,
            [b'0', second, ..] => !second.is_ascii_digit(),
            [b'1'..=b'9', ..] => true,
            _ => false,
        };
        // A letter behind it may belong to it, in hexadecimal digits.
        let is_alone = !rest.get(length).is_some_and(u8::is_ascii_alphabetic);
        let is_whole = digits.last().is_some_and(u8::is_ascii_digit);
        if !is_json || !is_alone || !is_whole {
            return Err(MALFORMED);
        }
        self.at += length;
        let text = std::str::from_utf8(&rest[..length]).map_err(|_| MALFORMED)?;
        text.parse().map_err(|_| MALFORMED)
    }

    fn string(&mut self) -> Result<Vec<u8>, Halt> {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let byte = self.peek().ok_or(MALFORMED)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(text),
                b'\\' => {
                    let escaped = self.peek().ok_or(MALFORMED)?;
                    self.at += 1;
                    text.push(match escaped {
                        b'b' => 8,
                        b't' => 9,
                        b'n' => 10,
                        b'f' => 12,
                        b'r' => 13,
                        b'"' | b'\\' | b'/' => escaped,
                        b'u' => {
                            let character = self.unicode()?;
                            text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                            continue;
                        }
                        _ => return Err(MALFORMED),
                    });
                }
                byte => text.push(byte),
            }
        }
    }

    /// The four digits behind `\u`.
    fn unit(&mut self) -> Result<u32, Halt> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(MALFORMED)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(MALFORMED);
        }
        self.at += 4;
        let digits = std::str::from_utf8(digits).map_err(|_| MALFORMED)?;
        u32::from_str_radix(digits, 16).map_err(|_| MALFORMED)
    }

    /// The character of one escape, or of two that are one.
    fn unicode(&mut self) -> Result<char, Halt> {
        let first = self.unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).ok_or(MALFORMED);
        }
        self.expect(b'\\')?;
        self.expect(b'u')?;
        let second = self.unit()?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(MALFORMED);
        }
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or(MALFORMED)
    }
}
