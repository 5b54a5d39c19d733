//! How a value gives the values by which its key is found.

use std::fmt;
use std::str::FromStr;

use quorate_core::expiry::{Envelope, Expiry};
use serde_json::Value as Json;

/// The longest text or byte string by which a key is found, in bytes.
pub const INDEX_VALUE_BYTES_MAX: usize = 512;

/// One key is found by at most so many values of one index.
pub const VALUES_MAX: usize = 64;

/// The greatest integer below which a number of 64 bits that is no integer tells all integers apart.
const EXACT_MAX: u64 = 1 << 53;

/// The part of a value by which its key is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The value is JSON, and this pointer (RFC 6901) names a scalar in it, or an array of scalars. Where it names nothing, or null, there is no entry.
    Json(String),
    /// The bytes of the value from here (included) to there (excluded).
    Bytes {
        /// The first byte.
        from: usize,
        /// The first byte behind.
        to: usize,
    },
    /// The expiry of a value that has one, in a keyspace whose values have envelopes ([`quorate_core::expiry`]).
    Expiry,
}

/// The text of [`Source::Expiry`].
const EXPIRY: &str = "expiry:";

/// A text that names no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} says not what an index is on: {reason}. Write json:/POINTER, such as json:/address/city, or bytes:FROM..TO, such as bytes:0..8"
)]
pub struct InvalidSource {
    /// The text.
    pub given: String,
    /// The mistake.
    pub reason: String,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Json(pointer) => write!(formatter, "json:{pointer}"),
            Source::Bytes { from, to } => write!(formatter, "bytes:{from}..{to}"),
            Source::Expiry => formatter.write_str(EXPIRY),
        }
    }
}

impl FromStr for Source {
    type Err = InvalidSource;

    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        let invalid = |reason: &str| InvalidSource { given: text.to_owned(), reason: reason.to_owned() };
        if let Some(pointer) = text.strip_prefix("json:") {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(invalid("a JSON pointer begins with a slash, or is empty for the whole value"));
            }
            if pointer.len() > INDEX_VALUE_BYTES_MAX {
                return Err(invalid("the pointer is too long"));
            }
            return Ok(Source::Json(pointer.to_owned()));
        }
        if text == EXPIRY {
            return Ok(Source::Expiry);
        }
        let Some(range) = text.strip_prefix("bytes:") else {
            return Err(invalid("it begins with neither json: nor bytes:"));
        };
        let ends = range.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        let Some((from, to)) = ends else { return Err(invalid("a range of bytes has two numbers")) };
        if from >= to {
            return Err(invalid("the range of bytes is empty"));
        }
        if to - from > INDEX_VALUE_BYTES_MAX {
            return Err(invalid("at most 512 bytes of a value can be indexed"));
        }
        Ok(Source::Bytes { from, to })
    }
}

impl Source {
    /// The values by which a value is found: none if it is to have no entry, each once.
    ///
    /// # Errors
    /// The value does not have the form that the source expects; in words that follow "the value of key K".
    pub fn values_of(&self, value: &[u8]) -> Result<Vec<IndexValue>, String> {
        let mut values = match self {
            Source::Json(pointer) => json_values(pointer, value)?,
            Source::Expiry => match Envelope::expiry_in(value) {
                Ok(expiry) => expiry.into_iter().map(IndexValue::from).collect(),
                Err(error) => return Err(error.to_string()),
            },
            Source::Bytes { from, to } => match value.get(*from..*to) {
                Some(part) => vec![IndexValue::Text(part.to_vec())],
                None => {
                    return Err(format!(
                        "has {} bytes, and the index is on bytes {from} to {to}",
                        value.len()
                    ));
                }
            },
        };
        if let Some(long) = values.iter().find_map(IndexValue::excess) {
            return Err(format!("would be found by {long} bytes, and {INDEX_VALUE_BYTES_MAX} are the limit"));
        }
        values.sort_unstable_by_key(IndexValue::ordered);
        values.dedup_by_key(|value| value.ordered());
        Ok(values)
    }
}

fn json_values(pointer: &str, value: &[u8]) -> Result<Vec<IndexValue>, String> {
    let json: Json = serde_json::from_slice(value).map_err(|error| format!("is no JSON: {error}"))?;
    match json.pointer(pointer) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(elements)) if elements.len() > VALUES_MAX => {
            let count = elements.len();
            Err(format!("has {count} elements at {pointer:?}, and {VALUES_MAX} are the limit"))
        }
        Some(Json::Array(elements)) => {
            let present = elements.iter().filter(|element| !element.is_null());
            present.map(|element| scalar(pointer, element)).collect()
        }
        Some(other) => Ok(vec![scalar(pointer, other)?]),
    }
}

fn scalar(pointer: &str, json: &Json) -> Result<IndexValue, String> {
    match json {
        Json::Bool(value) => Ok(IndexValue::Bool(*value)),
        Json::String(text) => Ok(IndexValue::Text(text.as_bytes().to_vec())),
        Json::Number(number) => {
            let is_beyond = number
                .as_i64()
                .map(i64::unsigned_abs)
                .or(number.as_u64())
                .is_some_and(|whole| whole > EXACT_MAX);
            match number.as_f64() {
                // Both zeros are one number.
                Some(value) if !is_beyond => Ok(IndexValue::Number(value + 0.0)),
                _ => Err(format!(
                    "has the number {number} at {pointer:?}, and integers above 2^53 are not told apart: write it as text"
                )),
            }
        }
        Json::Null | Json::Array(_) | Json::Object(_) => {
            Err(format!("has at {pointer:?} what is no text, number, boolean, or array of these"))
        }
    }
}

/// A value by which keys are found.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexValue {
    /// A boolean of JSON.
    Bool(bool),
    /// A number of JSON.
    Number(f64),
    /// A text of JSON, or bytes.
    Text(Vec<u8>),
}

const BOOL_TAG: u8 = 0x10;
const NUMBER_TAG: u8 = 0x20;
const TEXT_TAG: u8 = 0x30;
const SIGN: u64 = 1 << 63;

impl IndexValue {
    /// The value that a scalar in JSON stands for; a text that is no such scalar stands for itself.
    pub fn read(text: &str) -> Self {
        match serde_json::from_str(text) {
            Ok(Json::Bool(value)) => IndexValue::Bool(value),
            Ok(Json::String(value)) => IndexValue::Text(value.into_bytes()),
            Ok(Json::Number(value)) => {
                value.as_f64().map_or_else(|| IndexValue::Text(text.into()), IndexValue::Number)
            }
            _ => IndexValue::Text(text.into()),
        }
    }

    /// The expiry that it stands for, if it does.
    pub fn as_expiry(&self) -> Option<Expiry> {
        match self {
            IndexValue::Text(text) => {
                Some(Expiry::from_micros(u64::from_be_bytes(text[..].try_into().ok()?)))
            }
            IndexValue::Bool(_) | IndexValue::Number(_) => None,
        }
    }

    /// How many bytes it has, if these are too many.
    pub(crate) fn excess(&self) -> Option<usize> {
        match self {
            IndexValue::Text(text) if text.len() > INDEX_VALUE_BYTES_MAX => Some(text.len()),
            _ => None,
        }
    }

    /// Bytes that are in the order of values: booleans first, then numbers, then texts.
    pub(crate) fn ordered(&self) -> Vec<u8> {
        match self {
            IndexValue::Bool(value) => vec![BOOL_TAG, u8::from(*value)],
            IndexValue::Number(number) => {
                // Both zeros are one number.
                let bits = if *number == 0.0 { 0 } else { number.to_bits() };
                let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                [&[NUMBER_TAG][..], &ordered.to_be_bytes()].concat()
            }
            IndexValue::Text(text) => [&[TEXT_TAG][..], text].concat(),
        }
    }

    /// Reads back what [`IndexValue::ordered`] gives; none if it gives no such bytes.
    pub(crate) fn of_ordered(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (&BOOL_TAG, [value @ (0 | 1)]) => Some(IndexValue::Bool(*value == 1)),
            (&NUMBER_TAG, rest) => {
                let ordered = u64::from_be_bytes(rest.try_into().ok()?);
                let bits = if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN };
                Some(IndexValue::Number(f64::from_bits(bits)))
            }
            (&TEXT_TAG, text) => Some(IndexValue::Text(text.to_vec())),
            _ => None,
        }
    }
}

impl fmt::Display for IndexValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexValue::Bool(value) => value.fmt(formatter),
            IndexValue::Number(number) => number.fmt(formatter),
            IndexValue::Text(text) => write!(formatter, "\"{}\"", text.escape_ascii()),
        }
    }
}

impl From<Expiry> for IndexValue {
    fn from(expiry: Expiry) -> Self {
        IndexValue::Text(expiry.as_micros().to_be_bytes().to_vec())
    }
}

impl From<&str> for IndexValue {
    fn from(text: &str) -> Self {
        IndexValue::Text(text.into())
    }
}

impl From<String> for IndexValue {
    fn from(text: String) -> Self {
        IndexValue::Text(text.into_bytes())
    }
}

impl From<&[u8]> for IndexValue {
    fn from(bytes: &[u8]) -> Self {
        IndexValue::Text(bytes.to_vec())
    }
}

impl From<Vec<u8>> for IndexValue {
    fn from(bytes: Vec<u8>) -> Self {
        IndexValue::Text(bytes)
    }
}

impl From<bool> for IndexValue {
    fn from(value: bool) -> Self {
        IndexValue::Bool(value)
    }
}

impl From<f64> for IndexValue {
    fn from(number: f64) -> Self {
        IndexValue::Number(number)
    }
}

impl From<i32> for IndexValue {
    fn from(number: i32) -> Self {
        IndexValue::Number(f64::from(number))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(source: &str, value: &str) -> Result<String, String> {
        let source: Source = source.parse().unwrap();
        let values = source.values_of(value.as_bytes())?;
        Ok(values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn values_of_sources_as_a_table() {
        let table = [
            ("json:/city", r#"{"city":"Berlin"}"#, "\"Berlin\""),
            ("json:/city", r#"{"town":"Berlin"}"#, ""),
            ("json:/city", r#"{"city":null}"#, ""),
            ("json:/a/1", r#"{"a":[5,-6.5]}"#, "-6.5"),
            ("json:/a", r#"{"a":["x",2,true,null,"x",-2]}"#, "true -2 2 \"x\""),
            ("json:/a", r#"{"a":[]}"#, ""),
            ("json:", "-0.0", "0"),
            ("json:/a~1b", r#"{"a/b":"c"}"#, "\"c\""),
            ("bytes:1..3", "abcd", "\"bc\""),
            ("expiry:", "\0abc", ""),
            ("expiry:", "\u{1}\0\0\0\0\0\0\0*x", "\"\\x00\\x00\\x00\\x00\\x00\\x00\\x00*\""),
        ];
        for (source, value, expected) in table {
            assert_eq!(values(source, value).as_deref(), Ok(expected), "{source} of {value}");
        }
    }

    #[test]
    fn values_that_do_not_parse_are_told_in_words() {
        let long = format!("{{\"a\":{:?}}}", "x".repeat(INDEX_VALUE_BYTES_MAX + 1));
        let many = format!("{{\"a\":{:?}}}", vec![1; VALUES_MAX + 1]);
        let deep = "[".repeat(100_000);
        let table = [
            ("json:/a", "no json", "is no JSON"),
            ("json:/a", "", "is no JSON"),
            ("json:/a", &deep, "is no JSON"),
            ("json:/a", r#"{"a":{}}"#, "no text, number, boolean"),
            ("json:/a", r#"{"a":[[1]]}"#, "no text, number, boolean"),
            ("json:/a", r#"{"a":9007199254740993}"#, "2^53"),
            ("json:/a", r#"{"a":-9007199254740993}"#, "2^53"),
            ("json:/a", &long, "513 bytes"),
            ("json:/a", &many, "65 elements"),
            ("bytes:1..5", "abcd", "has 4 bytes"),
            ("expiry:", "{}", "no envelope"),
        ];
        for (source, value, expected) in table {
            let told = values(source, value).unwrap_err();
            assert!(told.contains(expected), "{source}: {told}");
        }
    }

    #[test]
    fn sources_are_read_back_and_mistakes_are_explained() {
        for text in ["json:", "json:/a/b", "bytes:0..8", "expiry:"] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "json",
            "json:a",
            "expiry",
            "expiry:x",
            "bytes:",
            "bytes:3..3",
            "bytes:4..3",
            "bytes:a..b",
            "bytes:0..513",
            "/a",
        ] {
            let told = text.parse::<Source>().unwrap_err().to_string();
            assert!(told.contains("json:/POINTER"), "{told}");
        }
    }

    #[test]
    fn words_of_people_are_scalars_of_json_or_texts() {
        let table = [
            ("5", IndexValue::Number(5.0)),
            ("true", IndexValue::Bool(true)),
            ("\"5\"", IndexValue::from("5")),
            ("Berlin", IndexValue::from("Berlin")),
            ("[1]", IndexValue::from("[1]")),
        ];
        for (text, expected) in table {
            assert_eq!(IndexValue::read(text), expected);
        }
    }

    proptest! {
        #[test]
        fn numbers_are_in_their_order(one: f64, other: f64) {
            prop_assume!(!one.is_nan() && !other.is_nan());
            let ordered = |number| IndexValue::Number(number).ordered();
            prop_assert_eq!(Some(ordered(one).cmp(&ordered(other))), one.partial_cmp(&other));
            prop_assert_eq!(IndexValue::of_ordered(&ordered(one)), Some(IndexValue::Number(one)));
        }

        #[test]
        fn no_value_stops_it(value: Vec<u8>, pointer in "(/[a-b]{0,2}){0,2}") {
            for source in [Source::Json(pointer), Source::Bytes { from: 0, to: 3 }] {
                let _ = source.values_of(&value);
            }
        }
    }
}
