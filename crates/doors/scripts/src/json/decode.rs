//! JSON as values.

use mlua::{Lua, Table, Value};

use super::choices::Choices;
use crate::interpreter::Raised;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
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
pub(super) type Found = (Token, usize);

/// Reads a value.
pub(super) struct Decoder<'a> {
    pub(super) lua: &'a Lua,
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) choices: Choices,
    /// The metatable that arrays get, if they get one.
    pub(super) array: Option<Table>,
}

impl Decoder<'_> {
    pub(super) fn expected(&self, what: &str, (token, at): &Found) -> mlua::Error {
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

    pub(super) fn next(&mut self) -> mlua::Result<Found> {
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
            Some(b'-' | b'0'..=b'9') => self.number(rest),
            Some(_) if rest.starts_with(b"true") => (Token::Boolean(true), 4),
            Some(_) if rest.starts_with(b"false") => (Token::Boolean(false), 5),
            Some(_) if rest.starts_with(b"null") => (Token::Null, 4),
            Some(_) if self.choices.decodes_invalid && is_no_json(rest) => self.number(rest),
            Some(_) => (Token::Invalid("invalid token"), 1),
        };
        self.at += length;
        Ok((token, begin))
    }

    /// A number at the beginning of this text, and how long it is.
    fn number(&self, text: &[u8]) -> (Token, usize) {
        if !self.choices.decodes_invalid && is_no_json(text) {
            return (Token::Invalid("invalid number"), 0);
        }
        c_number(text)
            .map_or((Token::Invalid("invalid number"), 0), |(number, length)| (Token::Number(number), length))
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
        if self.depth > self.choices.decode_depth_max {
            let (depth, at) = (self.depth, self.at);
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(Raised::here(self.lua, text));
        }
        Ok(())
    }

    pub(super) fn value(&mut self, found: Found) -> mlua::Result<Value> {
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
        if let Some(array) = &self.array {
            table.set_metatable(Some(array.clone()))?;
        }
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

/// True if this begins as a number that C knows and JSON does not: with a plus or a needless zero, hexadecimal, infinite, or none.
fn is_no_json(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [b'0'..=b'9', ..] => false,
        _ => digits
            .get(..3)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")),
    }
}

/// The number that a text begins with, as C reads it, and how long it is.
fn c_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let is_negative = text.first() == Some(&b'-');
    let signed = |number: f64| if is_negative { -number } else { number };
    let rest = &text[sign..];
    let begins_with =
        |word: &[u8]| rest.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    if begins_with(b"infinity") {
        return Some((signed(f64::INFINITY), sign + 8));
    }
    if begins_with(b"inf") {
        return Some((signed(f64::INFINITY), sign + 3));
    }
    if begins_with(b"nan") {
        return Some((f64::NAN, sign + 3));
    }
    if begins_with(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
        let digits = rest[2..].iter().take_while(|byte| byte.is_ascii_hexdigit());
        let (number, count) = digits.fold((0.0, 0), |(number, count), digit| {
            (number * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0)), count + 1)
        });
        return Some((signed(number), sign + 2 + count));
    }
    let digits = |from: usize| {
        rest.get(from..).map_or(0, |of| of.iter().take_while(|byte| byte.is_ascii_digit()).count())
    };
    let whole = digits(0);
    let mut end = whole;
    if rest.get(end) == Some(&b'.') {
        let part = digits(end + 1);
        if whole + part == 0 {
            return None;
        }
        end += 1 + part;
    } else if whole == 0 {
        return None;
    }
    if matches!(rest.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let number: f64 = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((signed(number), sign + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("1.5e3,", Some((1500.0, 5))),
            ("-2]", Some((-2.0, 2))),
            ("1e", Some((1.0, 1))),
            ("1.e2", Some((100.0, 4))),
            (".5", Some((0.5, 2))),
            ("0x1F!", Some((31.0, 4))),
            ("0x", Some((0.0, 1))),
            ("-Infinity", Some((f64::NEG_INFINITY, 9))),
            ("info", Some((f64::INFINITY, 3))),
            ("+7", Some((7.0, 2))),
            ("-", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(c_number(text.as_bytes()), expected, "{text}");
        }
    }
}
