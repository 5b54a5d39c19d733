//! Entries as rows of text, for people and other programs: lines of JSON, or CSV.
//!
//! | entry | line of JSON |
//! |---|---|
//! | value | `{"key":"ada","value":"100"}` |
//! | counting set | `{"set":"likes","element":"bob","count":2}` |
//! | counter | `{"counter":"stock","value":7}` |
//! | procedure | `{"procedure":"transfer","version":1,"code_base64":"AGFzbQ=="}` |
//!
//! Bytes that are no UTF-8 stand in base64 in a field of their own: `key_base64` in place of `key`, and so on. CSV has the columns `key`, `key_base64`,
//! `value` and `value_base64`, one of each two filled, and holds values alone.

use quorate::CutEntry;
use quorate_core::{Key, Value};
use serde_json::{Map, Value as Json};

/// A kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One JSON object a line.
    Json,
    /// RFC 4180, with a line of names first.
    Csv,
}

/// The line of names of a file in CSV.
pub const CSV_HEADER: &str = "key,key_base64,value,value_base64";

/// The longest row that is read: a key and a value in base64, and what stands around them.
pub const ROW_BYTES_MAX: usize = 4 * 1024 * 1024;

impl Rows {
    /// The line that comes first, if there is one.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Rows::Json => None,
            Rows::Csv => Some(CSV_HEADER),
        }
    }

    /// An entry as a row, without its end.
    ///
    /// # Errors
    /// It has no place in such rows.
    pub fn write(self, entry: &CutEntry) -> Result<String, String> {
        match self {
            Rows::Json => Ok(json_of(entry)),
            Rows::Csv => match entry {
                CutEntry::Value { key, value } => Ok([key as &[u8], value].map(csv_fields).join(",")),
                _ => Err("CSV holds keys and values alone: export counting sets, counters and procedures as lines of JSON".to_owned()),
            },
        }
    }
}

fn csv_fields(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("\"{}\",", text.replace('"', "\"\"")),
        Err(_) => format!(",{}", to_base64(bytes)),
    }
}

fn json_of(entry: &CutEntry) -> String {
    let mut row = Map::new();
    match entry {
        CutEntry::Value { key, value } => {
            put_bytes(&mut row, "key", key);
            put_bytes(&mut row, "value", value);
        }
        CutEntry::Count { set, element, count } => {
            put_bytes(&mut row, "set", set);
            put_bytes(&mut row, "element", element);
            row.insert("count".to_owned(), (*count).into());
        }
        CutEntry::Counter { counter, value } => {
            put_bytes(&mut row, "counter", counter);
            row.insert("value".to_owned(), (*value).into());
        }
        CutEntry::Procedure { name, version, code } => {
            row.insert("procedure".to_owned(), name.as_str().into());
            row.insert("version".to_owned(), (*version).into());
            row.insert("code_base64".to_owned(), to_base64(code).into());
        }
    }
    Json::Object(row).to_string()
}

/// Adds bytes to a row: as text under this name if they are UTF-8, and else in base64 under the name that says so.
pub fn put_bytes(row: &mut Map<String, Json>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => row.insert(name.to_owned(), text.into()),
        Err(_) => row.insert(format!("{name}_base64"), to_base64(bytes).into()),
    };
}

/// Reads a line of JSON.
///
/// # Errors
/// The mistake in it.
pub fn read_json(line: &str) -> Result<CutEntry, String> {
    let row: Json = serde_json::from_str(line).map_err(|error| format!("this is no JSON: {error}"))?;
    let Json::Object(mut row) = row else {
        return Err("this is no object, as {\"key\":…,\"value\":…}".to_owned());
    };
    let has = |row: &Map<String, Json>, name: &str| {
        row.contains_key(name) || row.contains_key(&format!("{name}_base64"))
    };
    let entry = if has(&row, "key") {
        CutEntry::Value {
            key: Key::from(take(&mut row, "key")?.as_slice()),
            value: Value::from(take(&mut row, "value")?),
        }
    } else if has(&row, "set") {
        CutEntry::Count {
            set: Key::from(take(&mut row, "set")?.as_slice()),
            element: Key::from(take(&mut row, "element")?.as_slice()),
            count: take_number(&mut row, "count")?,
        }
    } else if has(&row, "counter") {
        CutEntry::Counter {
            counter: Key::from(take(&mut row, "counter")?.as_slice()),
            value: take_number(&mut row, "value")?,
        }
    } else if row.contains_key("procedure") {
        let name = String::from_utf8(take(&mut row, "procedure")?);
        let version = u32::try_from(take_number(&mut row, "version")?);
        CutEntry::Procedure {
            name: name.map_err(|_| "the name of a procedure is text".to_owned())?,
            version: version.map_err(|_| "\"version\" is no number of 32 bits".to_owned())?,
            code: Value::from(take(&mut row, "code")?),
        }
    } else {
        return Err("it has none of \"key\", \"set\", \"counter\" and \"procedure\"".to_owned());
    };
    // A field that is not understood is not left out in silence.
    match row.keys().next() {
        Some(name) => Err(format!("it has a field {name:?}, which means nothing here")),
        None => Ok(entry),
    }
}

fn take(row: &mut Map<String, Json>, name: &str) -> Result<Vec<u8>, String> {
    let in_base64 = format!("{name}_base64");
    match (row.remove(name), row.remove(&in_base64)) {
        (Some(Json::String(text)), None) => Ok(text.into_bytes()),
        (None, Some(Json::String(text))) => {
            from_base64(&text).ok_or_else(|| format!("{in_base64:?} is no base64"))
        }
        (Some(_), Some(_)) => Err(format!("it has both {name:?} and {in_base64:?}")),
        (None, None) => Err(format!("it has neither {name:?} nor {in_base64:?}")),
        (Some(_), None) => {
            Err(format!("{name:?} is no text: put it in quotes, or in base64 as {in_base64:?}"))
        }
        (None, Some(_)) => Err(format!("{in_base64:?} is no text")),
    }
}

fn take_number(row: &mut Map<String, Json>, name: &str) -> Result<i64, String> {
    let number = row.remove(name).ok_or_else(|| format!("it has no {name:?}"))?;
    number.as_i64().ok_or_else(|| format!("{name:?} is no whole number of 64 bits"))
}

/// Where the columns of a file in CSV are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    key: [Option<usize>; 2],
    value: [Option<usize>; 2],
    count: usize,
}

impl Columns {
    /// Reads the line of names, in any order.
    ///
    /// # Errors
    /// The mistake in it.
    pub fn read(line: &str) -> Result<Self, String> {
        let names = fields(line)?;
        let known = ["key", "key_base64", "value", "value_base64"];
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("the first line names a column {name:?}; there are {}", known.join(", ")));
        }
        let at = |name: &str| names.iter().position(|known| known == name);
        let columns = Columns {
            key: [at("key"), at("key_base64")],
            value: [at("value"), at("value_base64")],
            count: names.len(),
        };
        match columns.key == [None; 2] || columns.value == [None; 2] {
            true => Err(format!("the first line names no column for keys, or none for values: {CSV_HEADER}")),
            false => Ok(columns),
        }
    }

    /// Reads a row.
    ///
    /// # Errors
    /// The mistake in it.
    pub fn entry(&self, line: &str) -> Result<CutEntry, String> {
        let fields = fields(line)?;
        if fields.len() != self.count {
            return Err(format!("it has {} fields, and the first line {}", fields.len(), self.count));
        }
        let bytes = |[text, in_base64]: [Option<usize>; 2]| {
            let field = |at: Option<usize>| at.map_or("", |at| fields[at].as_str());
            match (field(text), field(in_base64)) {
                (text, "") => Ok(text.as_bytes().to_vec()),
                ("", encoded) => from_base64(encoded).ok_or_else(|| format!("{encoded:?} is no base64")),
                _ => Err("a field stands there both as text and in base64".to_owned()),
            }
        };
        let (key, value) = (bytes(self.key)?, bytes(self.value)?);
        Ok(CutEntry::Value { key: Key::from(key.as_slice()), value: Value::from(value) })
    }
}

/// True if a row of CSV goes on in the next line: a quote is open.
pub fn is_open(row: &[u8]) -> bool {
    row.iter().filter(|byte| **byte == b'"').count() % 2 == 1
}

/// The fields of a row of CSV.
fn fields(row: &str) -> Result<Vec<String>, String> {
    let (mut fields, mut rest) = (Vec::new(), row);
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let field = &rest[..end];
                if field.contains('"') {
                    return Err(format!(
                        "the field {field:?} has a quote within: put it in quotes, and double the quote"
                    ));
                }
                (field.to_owned(), &rest[end..])
            }
            Some(quoted) => quoted_field(quoted)?,
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err("something stands between a quote and the next comma".to_owned()),
        }
    }
}

/// A field up to its closing quote, and what comes behind.
fn quoted_field(text: &str) -> Result<(String, &str), String> {
    let (mut field, mut rest) = (String::new(), text);
    loop {
        let end = rest.find('"').ok_or("a quote is not closed")?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Ok((field, rest)),
        }
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes in base64 (RFC 4648, with padding).
fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let number = number << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (number >> (18 - 6 * digit)) & 63;
            let is_padding = digit > chunk.len();
            text.push(if is_padding { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    text
}

/// The bytes that a text in base64 stands for; none if it is not in base64.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (quads, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(quads.len() * 3);
    for (position, quad) in quads.iter().enumerate() {
        let padding = quad.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || padding > 0 && position + 1 < quads.len() {
            return None;
        }
        let digit = |byte: &u8| ALPHABET.iter().position(|known| known == byte);
        let digits: Vec<usize> = quad[..4 - padding].iter().map(digit).collect::<Option<_>>()?;
        let number = digits.iter().fold(0, |number, digit| number << 6 | digit) << (6 * padding);
        let three = [(number >> 16) as u8, (number >> 8) as u8, number as u8];
        // Bits behind the end are zero, or two texts would stand for the same bytes.
        if three[3 - padding..].iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&three[..3 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
