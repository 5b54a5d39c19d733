//! `cjson`: `encode`, `decode` and `null`, with the bounds of the library that Redis has.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::interpreter::{Bounds, Raised};
use crate::library::format_number;
use crate::strings::string;

/// How deep values may nest.
const DEPTH_MAX: usize = 1_000;

/// An array that names a number above this may not be mostly holes.
const SPARSE_SAFE: usize = 10;

/// So many times its elements is as long as such an array may be.
const SPARSE_RATIO: usize = 2;

pub(crate) fn library(lua: &Lua, bounds: &Rc<Bounds>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let of = Rc::clone(bounds);
    let encode = lua.create_function(move |lua, arguments: MultiValue| {
        let [value] = <[Value; 1]>::try_from(arguments.into_iter().collect::<Vec<_>>())
            .map_err(|_| Raised::here(lua, "bad argument #1 to 'encode' (expected 1 argument)"))?;
        let mut encoder = Encoder { lua, bounds: &of, output: Vec::new() };
        encoder.value(&value, 0)?;
        lua.create_string(&encoder.output)
    })?;
    table.raw_set("encode", encode)?;
    let of = Rc::clone(bounds);
    let decode = lua.create_function(move |lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        if arguments.len() != 1 {
            return Err(Raised::here(lua, "bad argument #1 to 'decode' (expected 1 argument)"));
        }
        let text = string(lua, &arguments, 0, "decode")?;
        of.spend(lua, text.as_bytes().len() as u64)?;
        let mut decoder = Decoder { lua, text: &text.as_bytes(), at: 0, depth: 0 };
        let first = decoder.next()?;
        let value = decoder.value(first)?;
        match decoder.next()? {
            (Token::End, _) => Ok(value),
            other => Err(decoder.expected("the end", &other)),
        }
    })?;
    table.raw_set("decode", decode)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

struct Encoder<'a> {
    lua: &'a Lua,
    bounds: &'a Rc<Bounds>,
    output: Vec<u8>,
}

impl Encoder<'_> {
    fn refused(&self, what: &str, why: &str) -> mlua::Error {
        Raised::here(self.lua, format!("Cannot serialise {what}: {why}"))
    }

    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.bounds.spend(self.lua, 1)?;
        self.bounds.check_bytes(self.lua, self.output.len())?;
        match value {
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Number(number) => return self.number(*number),
            Value::Integer(number) => return self.number(*number as f64),
            Value::Boolean(flag) => self.output.extend_from_slice(flag.to_string().as_bytes()),
            Value::Nil => self.output.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.output.extend_from_slice(b"null"),
            Value::Table(table) => return self.table(table, depth + 1),
            other => return Err(self.refused(other.type_name(), "type not supported")),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            return Err(self.refused("number", "must not be NaN or Infinity"));
        }
        if number.fract() == 0.0 && number.abs() < 1e14 && !(number == 0.0 && number.is_sign_negative()) {
            self.output.extend_from_slice((number as i64).to_string().as_bytes());
        } else {
            self.output.extend_from_slice(&format_number(self.lua, "%.14g", number)?);
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        self.output.push(b'"');
        for byte in text {
            let escaped = match byte {
                b'"' => b"\\\"".as_slice(),
                b'\\' => b"\\\\",
                b'/' => b"\\/",
                8 => b"\\b",
                9 => b"\\t",
                10 => b"\\n",
                12 => b"\\f",
                13 => b"\\r",
                0..=31 | 127 => {
                    self.output.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => std::slice::from_ref(byte),
            };
            self.output.extend_from_slice(escaped);
        }
        self.output.push(b'"');
    }

    /// The length of an array; zero if the table is none.
    fn length(&self, table: &Table) -> mlua::Result<usize> {
        let (mut most, mut items) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            let key = match pair?.0 {
                Value::Integer(key) => key as f64,
                Value::Number(key) => key,
                _ => return Ok(0),
            };
            if key < 1.0 || key.fract() != 0.0 || key > 1e15 {
                return Ok(0);
            }
            most = most.max(key as usize);
            items += 1;
        }
        self.bounds.spend(self.lua, items as u64)?;
        if most > items * SPARSE_RATIO && most > SPARSE_SAFE {
            return Err(self.refused("table", "excessively sparse array"));
        }
        Ok(most)
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if depth > DEPTH_MAX {
            return Err(Raised::here(self.lua, format!("Cannot serialise, excessive depth ({depth})")));
        }
        let length = self.length(table)?;
        if length > 0 {
            self.output.push(b'[');
            for at in 1..=length {
                if at > 1 {
                    self.output.push(b',');
                }
                self.value(&table.raw_get(at)?, depth)?;
            }
            self.output.push(b']');
            return Ok(());
        }
        self.output.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::replace(&mut is_first, false) {
                self.output.push(b',');
            }
            match key {
                Value::String(key) => self.text(&key.as_bytes()),
                Value::Number(_) | Value::Integer(_) => {
                    self.output.push(b'"');
                    self.value(&key, depth)?;
                    self.output.push(b'"');
                }
                _ => return Err(self.refused("table", "table key must be a number or string")),
            }
            self.output.push(b':');
            self.value(&value, depth)?;
        }
        self.output.push(b'}');
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

/// A token, and where it begins, counted from zero.
type Found = (Token, usize);

struct Decoder<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Decoder<'_> {
    fn expected(&self, what: &str, (token, at): &Found) -> mlua::Error {
        let found = match token {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Invalid(what) => what,
        };
        Raised::here(self.lua, format!("Expected {what} but found {found} at character {}", at + 1))
    }

    fn next(&mut self) -> mlua::Result<Found> {
        while self.text.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let begin = self.at;
        let rest = &self.text[begin..];
        let (token, length) = match rest.first() {
            None => (Token::End, 0),
            Some(b'{') => (Token::ObjectBegin, 1),
            Some(b'}') => (Token::ObjectEnd, 1),
            Some(b'[') => (Token::ArrayBegin, 1),
            Some(b']') => (Token::ArrayEnd, 1),
            Some(b':') => (Token::Colon, 1),
            Some(b',') => (Token::Comma, 1),
            Some(b'"') => return Ok(self.string(begin)),
            Some(b'-' | b'0'..=b'9') => {
                let is_part = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let length = rest.iter().take_while(is_part).count();
                let number = std::str::from_utf8(&rest[..length]).ok().and_then(|text| text.parse().ok());
                (number.map_or(Token::Invalid("invalid number"), Token::Number), length)
            }
            Some(_) if rest.starts_with(b"true") => (Token::Boolean(true), 4),
            Some(_) if rest.starts_with(b"false") => (Token::Boolean(false), 5),
            Some(_) if rest.starts_with(b"null") => (Token::Null, 4),
            Some(_) => (Token::Invalid("invalid token"), 1),
        };
        self.at += length;
        Ok((token, begin))
    }

    fn string(&mut self, begin: usize) -> Found {
        let (mut text, mut at) = (Vec::new(), begin + 1);
        loop {
            match self.text.get(at) {
                None => return (Token::Invalid("unexpected end of string"), at),
                Some(b'"') => {
                    self.at = at + 1;
                    return (Token::Text(text), begin);
                }
                Some(b'\\') => {
                    let plain = match self.text.get(at + 1) {
                        Some(b'b') => 8,
                        Some(b't') => 9,
                        Some(b'n') => 10,
                        Some(b'f') => 12,
                        Some(b'r') => 13,
                        Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
                        Some(b'u') => {
                            let Some((character, length)) = unicode(&self.text[at..]) else {
                                return (Token::Invalid("invalid unicode escape code"), at);
                            };
                            text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                            at += length;
                            continue;
                        }
                        _ => return (Token::Invalid("invalid escape code"), at),
                    };
                    text.push(plain);
                    at += 2;
                }
                Some(byte) => {
                    text.push(*byte);
                    at += 1;
                }
            }
        }
    }

    fn enter(&mut self) -> mlua::Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let (depth, at) = (self.depth, self.at);
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(Raised::here(self.lua, text));
        }
        Ok(())
    }

    fn value(&mut self, found: Found) -> mlua::Result<Value> {
        match found.0 {
            Token::Text(text) => self.lua.create_string(text).map(Value::String),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Boolean(flag) => Ok(Value::Boolean(flag)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => self.object(),
            Token::ArrayBegin => self.array(),
            _ => Err(self.expected("value", &found)),
        }
    }

    fn object(&mut self) -> mlua::Result<Value> {
        self.enter()?;
        let table = self.lua.create_table()?;
        let mut found = self.next()?;
        if found.0 != Token::ObjectEnd {
            loop {
                let Token::Text(key) = found.0 else {
                    return Err(self.expected("object key string", &found));
                };
                let colon = self.next()?;
                if colon.0 != Token::Colon {
                    return Err(self.expected("colon", &colon));
                }
                let first = self.next()?;
                let value = self.value(first)?;
                table.raw_set(self.lua.create_string(key)?, value)?;
                let behind = self.next()?;
                match behind.0 {
                    Token::ObjectEnd => break,
                    Token::Comma => found = self.next()?,
                    _ => return Err(self.expected("comma or object end", &behind)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> mlua::Result<Value> {
        self.enter()?;
        let table = self.lua.create_table()?;
        let mut found = self.next()?;
        if found.0 != Token::ArrayEnd {
            for at in 1.. {
                let value = self.value(found)?;
                table.raw_set(at, value)?;
                let behind = self.next()?;
                match behind.0 {
                    Token::ArrayEnd => break,
                    Token::Comma => found = self.next()?,
                    _ => return Err(self.expected("comma or array end", &behind)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}

/// The character of an escape `\uXXXX`, or of two that are one, and how long it is.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?;
        let digits = digits.strip_prefix(b"\\u").filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(0)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first).map(|character| (character, 6));
    }
    let second = unit(6).filter(|second| (0xdc00..0xe000).contains(second))?;
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).map(|character| (character, 12))
}
