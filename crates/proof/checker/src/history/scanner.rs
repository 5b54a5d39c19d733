//! A cursor over the bytes of one JSON line. It allocates only for strings with escapes.
//!
//! Histories of a gigabyte and more are mostly short integers; reading them without an intermediate tree, and
//! without deciding each value's type twice, is what keeps parsing near the speed of the disk.

use std::borrow::Cow;

use super::Malformed;

/// Deeper nesting than this in a field that nobody reads is refused, so that hostile input cannot exhaust the
/// stack.
const DEPTH_MAX: usize = 64;
/// So many digits fit into 64 bits whatever they are.
const DIGITS_SAFE: usize = 18;

pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The bytes must be valid UTF-8.
    pub(crate) fn new(line: &'a str) -> Self {
        Scanner { bytes: line.as_bytes(), at: 0 }
    }

    pub(crate) fn unexpected<T>(&self, expected: &'static str) -> Result<T, Malformed> {
        Err(Malformed::Json { column: self.at + 1, expected })
    }

    /// The next byte that is not white space, without taking it; 0 at the end.
    pub(crate) fn peek(&mut self) -> u8 {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Takes `byte` if it comes next.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Malformed> {
        if self.take(byte) { Ok(()) } else { self.unexpected(expected) }
    }

    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        self.peek();
        if self.at == self.bytes.len() { Ok(()) } else { self.unexpected("the end of the line") }
    }

    /// Walks the elements of an array: true while another one follows.
    pub(crate) fn next_element(&mut self, first: &mut bool) -> Result<bool, Malformed> {
        if std::mem::take(first) {
            return Ok(!self.take(b']'));
        }
        if self.take(b']') {
            return Ok(false);
        }
        self.expect(b',', "`,` or `]`")?;
        Ok(true)
    }

    /// Walks the fields of an object: the next name, or none at its end.
    pub(crate) fn next_field(&mut self, first: &mut bool) -> Result<Option<Cow<'a, str>>, Malformed> {
        if self.take(b'}') {
            return Ok(None);
        }
        if !std::mem::take(first) {
            self.expect(b',', "`,` or `}`")?;
        }
        let name = self.string("a field name")?;
        self.expect(b':', "`:`")?;
        Ok(Some(name))
    }

    pub(crate) fn integer(&mut self, expected: &'static str) -> Result<i64, Malformed> {
        let negative = self.take(b'-');
        let start = self.at;
        // Numbers grow downwards, because the smallest one has no positive twin.
        let mut number: i64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            let digit = i64::from(digit - b'0');
            self.at += 1;
            if self.at - start <= DIGITS_SAFE {
                number = number * 10 - digit;
                continue;
            }
            match number.checked_mul(10).and_then(|number| number.checked_sub(digit)) {
                Some(next) => number = next,
                None => return self.unexpected("an integer of at most 64 bits"),
            }
        }
        let leading_zero = self.bytes.get(start) == Some(&b'0') && self.at - start > 1;
        let fraction = matches!(self.bytes.get(self.at), Some(b'.' | b'e' | b'E'));
        if self.at == start || leading_zero || fraction {
            return self.unexpected(expected);
        }
        if negative {
            return Ok(number);
        }
        match number.checked_neg() {
            Some(number) => Ok(number),
            None => self.unexpected("an integer of at most 64 bits"),
        }
    }

    /// Appends the elements of an array of integers whose opening bracket has been taken.
    pub(crate) fn integers(&mut self, into: &mut Vec<i64>, expected: &'static str) -> Result<(), Malformed> {
        if self.take(b']') {
            return Ok(());
        }
        loop {
            into.push(match self.short_integer() {
                Some(number) => number,
                None => self.integer(expected)?,
            });
            if !self.take(b',') {
                return self.expect(b']', "`,` or `]`");
            }
        }
    }

    /// The short way for what histories mostly consist of: a plain positive integer with a comma or bracket
    /// right after it. Takes nothing if anything else comes.
    fn short_integer(&mut self) -> Option<i64> {
        let rest = &self.bytes[self.at..];
        let mut number = 0;
        for (len, &byte) in rest.iter().enumerate().take(DIGITS_SAFE + 1) {
            match byte {
                b'0'..=b'9' if len < DIGITS_SAFE => number = number * 10 + i64::from(byte - b'0'),
                b',' | b']' if len == 1 || len > 1 && rest[0] != b'0' => {
                    self.at += len;
                    return Some(number);
                }
                _ => return None,
            }
        }
        None
    }

    pub(crate) fn string(&mut self, expected: &'static str) -> Result<Cow<'a, str>, Malformed> {
        if self.peek() != b'"' {
            return self.unexpected(expected);
        }
        let quote = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(0x20..) => self.at += 1,
                Some(_) | None => return self.unexpected("a closed string without control characters"),
            }
        }
        self.at += 1;
        if escaped {
            return match serde_json::from_slice::<String>(&self.bytes[quote..self.at]) {
                Ok(text) => Ok(Cow::Owned(text)),
                Err(_) => self.unexpected("valid string escapes"),
            };
        }
        match std::str::from_utf8(&self.bytes[quote + 1..self.at - 1]) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(_) => self.unexpected("valid UTF-8"),
        }
    }

    pub(crate) fn boolean(&mut self, expected: &'static str) -> Result<bool, Malformed> {
        self.peek();
        if self.literal(b"true") {
            return Ok(true);
        }
        if self.literal(b"false") { Ok(false) } else { self.unexpected(expected) }
    }

    /// Takes `null` if it comes next.
    pub(crate) fn null(&mut self) -> bool {
        self.peek();
        self.literal(b"null")
    }

    fn literal(&mut self, literal: &[u8]) -> bool {
        let found = self.bytes[self.at..].starts_with(literal);
        self.at += if found { literal.len() } else { 0 };
        found
    }

    /// Passes over a value that the checker does not use, which must be valid JSON all the same.
    pub(crate) fn skip_value(&mut self, depth: usize) -> Result<(), Malformed> {
        if depth > DEPTH_MAX {
            return self.unexpected("less nesting");
        }
        match self.peek() {
            b'{' => {
                self.at += 1;
                let mut first = true;
                while self.next_field(&mut first)?.is_some() {
                    self.skip_value(depth + 1)?;
                }
                Ok(())
            }
            b'[' => {
                self.at += 1;
                let mut first = true;
                while self.next_element(&mut first)? {
                    self.skip_value(depth + 1)?;
                }
                Ok(())
            }
            b'"' => self.string("a string").map(|_| ()),
            b't' | b'f' => self.boolean("a value").map(|_| ()),
            b'n' if self.null() => Ok(()),
            b'-' | b'0'..=b'9' => self.skip_number(),
            _ => self.unexpected("a value"),
        }
    }

    fn skip_number(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        match serde_json::from_slice::<serde_json::Number>(&self.bytes[start..self.at]) {
            Ok(_) => Ok(()),
            Err(_) => self.unexpected("a number"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_and_bounded() {
        for number in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(Scanner::new(&number.to_string()).integer("it"), Ok(number));
        }
        for text in ["", "-", "01", "1.5", "1e3", "9223372036854775808", "x"] {
            assert!(Scanner::new(text).integer("it").is_err(), "{text}");
        }
    }

    #[test]
    fn arrays_of_integers_by_the_short_and_the_long_way() {
        let read = |text: &str| {
            let mut values = Vec::new();
            let mut scanner = Scanner::new(text);
            scanner.integers(&mut values, "it").and_then(|()| scanner.end()).map(|()| values)
        };
        assert_eq!(read("]"), Ok(vec![]));
        assert_eq!(read("0,17 , -3,9223372036854775807]"), Ok(vec![0, 17, -3, i64::MAX]));
        assert_eq!(read("999999999999999999]"), Ok(vec![999_999_999_999_999_999]));
        for text in ["", "1", "1,", "1,]", "01]", "1 2]", "1.5]", ",1]", "9999999999999999999]", "null]"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn strings_with_and_without_escapes() {
        assert_eq!(Scanner::new("\"plain\"").string("it").unwrap(), "plain");
        assert_eq!(Scanner::new("\"a\\\"b\\u00e9\"").string("it").unwrap(), "a\"b\u{e9}");
        for text in ["\"open", "\"bad\\q\"", "\"\\", "\"tab\t\""] {
            assert!(Scanner::new(text).string("it").is_err(), "{text}");
        }
    }

    #[test]
    fn skipped_values_are_still_validated() {
        for text in ["{\"a\":[1,2.5e3,null,true,{}]}", "\"s\"", "-0.1", "[]"] {
            let mut scanner = Scanner::new(text);
            assert!(scanner.skip_value(0).and_then(|()| scanner.end()).is_ok(), "{text}");
        }
        for text in ["{\"a\"}", "[1,]", "nul", "1.2.3", "{,}", "[1 2]"] {
            let mut scanner = Scanner::new(text);
            assert!(scanner.skip_value(0).and_then(|()| scanner.end()).is_err(), "{text}");
        }
        assert!(Scanner::new(&"[".repeat(100_000)).skip_value(0).is_err());
    }
}
