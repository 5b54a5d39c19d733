//! Values as JSON.

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::choices::{Choices, Invalid};
use crate::interpreter::{Bounds, Raised};
use crate::library::format_number;

/// Writes a value.
pub(super) struct Encoder<'a> {
    pub(super) lua: &'a Lua,
    pub(super) bounds: &'a Rc<Bounds>,
    pub(super) output: Vec<u8>,
    pub(super) choices: Choices,
    /// The metatable of arrays.
    pub(super) array: Table,
}

impl Encoder<'_> {
    fn refused(&self, what: &str, why: &str) -> mlua::Error {
        Raised::here(self.lua, format!("Cannot serialise {what}: {why}"))
    }

    pub(super) fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
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
            let text = match self.choices.encodes_invalid {
                Invalid::Refused => return Err(self.refused("number", "must not be NaN or Inf")),
                Invalid::Null => "null",
                Invalid::AsTheyAre if number.is_nan() => "nan",
                Invalid::AsTheyAre if number > 0.0 => "inf",
                Invalid::AsTheyAre => "-inf",
            };
            self.output.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let precision = self.choices.precision;
        let is_short = number.abs() < 1e14 && precision == 14;
        if number.fract() == 0.0 && is_short && !(number == 0.0 && number.is_sign_negative()) {
            self.output.extend_from_slice((number as i64).to_string().as_bytes());
        } else {
            self.output.extend_from_slice(&format_number(self.lua, &format!("%.{precision}g"), number)?);
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
        let Choices { converts_sparse, sparse_ratio, sparse_safe, .. } = self.choices;
        if sparse_ratio > 0 && most > items * sparse_ratio && most > sparse_safe {
            if converts_sparse {
                return Ok(0);
            }
            return Err(self.refused("table", "excessively sparse array"));
        }
        Ok(most)
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if depth > self.choices.encode_depth_max {
            return Err(Raised::here(self.lua, format!("Cannot serialise, excessive nesting ({depth})")));
        }
        let length = self.length(table)?;
        let is_marked = table.metatable().is_some_and(|metatable| metatable == self.array);
        if length > 0 || is_marked && table.is_empty() {
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
