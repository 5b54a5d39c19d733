//! `cmsgpack`: values in the format of MessagePack, as the library that Redis has reads and writes it.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::convert::truncate;
use crate::interpreter::{Bounds, Raised};
use crate::strings::{number, string};

/// Tables in tables are written to this depth; deeper ones are nil.
const WRITTEN_DEPTH_MAX: usize = 16;

/// How deep values that are read may nest.
const READ_DEPTH_MAX: usize = 1_000;

/// So many values are unpacked at most: they have to fit onto the stack of Lua.
const RESULTS_MAX: usize = 7_000;

pub(crate) fn library(lua: &Lua, bounds: &Rc<Bounds>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let of = Rc::clone(bounds);
    let pack = lua.create_function(move |lua, arguments: MultiValue| {
        if arguments.is_empty() {
            let text = "bad argument #0 to 'pack' (MessagePack pack needs input.)";
            return Err(Raised::here(lua, text));
        }
        let mut writer = Writer { lua, bounds: &of, output: Vec::new() };
        for value in &arguments {
            writer.value(value, 0)?;
        }
        lua.create_string(&writer.output)
    })?;
    table.raw_set("pack", pack)?;
    let of = Rc::clone(bounds);
    let all = move |lua: &Lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        unpack(lua, &of, &arguments, "unpack", None, 0)
    };
    table.raw_set("unpack", lua.create_function(all)?)?;
    let of = Rc::clone(bounds);
    let one = move |lua: &Lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        let offset = truncate(number(lua, &arguments, 1, "unpack_one", Some(0.0))?);
        unpack(lua, &of, &arguments, "unpack_one", Some(1), offset)
    };
    table.raw_set("unpack_one", lua.create_function(one)?)?;
    let of = Rc::clone(bounds);
    let some = move |lua: &Lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        let limit = truncate(number(lua, &arguments, 1, "unpack_limit", None)?);
        let offset = truncate(number(lua, &arguments, 2, "unpack_limit", Some(0.0))?);
        unpack(lua, &of, &arguments, "unpack_limit", Some(limit), offset)
    };
    table.raw_set("unpack_limit", lua.create_function(some)?)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

struct Writer<'a> {
    lua: &'a Lua,
    bounds: &'a Rc<Bounds>,
    output: Vec<u8>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.bounds.spend(self.lua, 1)?;
        self.bounds.check_bytes(self.lua, self.output.len())?;
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                self.bounds.spend(self.lua, text.len() as u64 / 64)?;
                self.bounds.check_bytes(self.lua, self.output.len() + text.len())?;
                match text.len() {
                    length @ 0..=31 => self.output.push(0xa0 | length as u8),
                    length @ 32..=0xff => self.output.extend([0xd9, length as u8]),
                    length => self.length(length, 0xda, 0xdb),
                }
                self.output.extend_from_slice(&text);
            }
            Value::Number(number) => self.number(*number),
            Value::Integer(number) => self.integer(*number),
            Value::Boolean(flag) => self.output.push(if *flag { 0xc3 } else { 0xc2 }),
            Value::Table(table) if depth < WRITTEN_DEPTH_MAX => return self.table(table, depth),
            _ => self.output.push(0xc0),
        }
        Ok(())
    }

    /// A length above those that have a byte of their own.
    fn length(&mut self, length: usize, short: u8, long: u8) {
        match u16::try_from(length) {
            Ok(length) => {
                self.output.push(short);
                self.output.extend(length.to_be_bytes());
            }
            Err(_) => {
                self.output.push(long);
                self.output.extend((length as u32).to_be_bytes());
            }
        }
    }

    fn number(&mut self, number: f64) {
        if number.is_finite() && truncate(number) as f64 == number {
            return self.integer(truncate(number));
        }
        let short = number as f32;
        if f64::from(short) == number {
            self.output.push(0xca);
            self.output.extend(short.to_be_bytes());
        } else {
            self.output.push(0xcb);
            self.output.extend(number.to_be_bytes());
        }
    }

    fn integer(&mut self, number: i64) {
        let output = &mut self.output;
        match number {
            0..=0x7f => output.push(number as u8),
            0x80..=0xff => output.extend([0xcc, number as u8]),
            0x100..=0xffff => {
                output.push(0xcd);
                output.extend((number as u16).to_be_bytes());
            }
            0x1_0000..=0xffff_ffff => {
                output.push(0xce);
                output.extend((number as u32).to_be_bytes());
            }
            0x1_0000_0000.. => {
                output.push(0xcf);
                output.extend(number.to_be_bytes());
            }
            -32..0 => output.push(number as u8),
            -128..-32 => output.extend([0xd0, number as u8]),
            -0x8000..-128 => {
                output.push(0xd1);
                output.extend((number as i16).to_be_bytes());
            }
            -0x8000_0000..-0x8000 => {
                output.push(0xd2);
                output.extend((number as i32).to_be_bytes());
            }
            _ => {
                output.push(0xd3);
                output.extend(number.to_be_bytes());
            }
        }
    }

    /// The length of a table that is an array without holes; none if it is none.
    fn array_length(&self, table: &Table) -> mlua::Result<(usize, bool)> {
        let (mut count, mut most, mut is_array) = (0, 0.0_f64, true);
        for pair in table.pairs::<Value, Value>() {
            let key = match pair?.0 {
                Value::Integer(key) => key as f64,
                Value::Number(key) => key,
                _ => 0.0,
            };
            is_array &= key > 0.0 && key <= f64::from(i32::MAX) && key.fract() == 0.0;
            most = most.max(key);
            count += 1;
        }
        self.bounds.spend(self.lua, count as u64)?;
        Ok((count, is_array && most == count as f64))
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let (count, is_array) = self.array_length(table)?;
        let short = if is_array { 0x90 } else { 0x80 };
        match count {
            0..=15 => self.output.push(short | count as u8),
            _ if is_array => self.length(count, 0xdc, 0xdd),
            _ => self.length(count, 0xde, 0xdf),
        }
        if is_array {
            for at in 1..=count {
                self.value(&table.raw_get(at)?, depth + 1)?;
            }
            return Ok(());
        }
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}

/// Why bytes cannot be read.
enum Fault {
    /// They end too soon.
    Missing,
    /// They are none of this format, or nest too deep.
    Format,
    /// An error of Lua.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Fault::Lua(error)
    }
}

/// Reads values: all, or so many from a place on, behind which the place of the next one comes first.
fn unpack(
    lua: &Lua,
    bounds: &Rc<Bounds>,
    arguments: &[Value],
    name: &str,
    limit: Option<i64>,
    offset: i64,
) -> mlua::Result<MultiValue> {
    let text = string(lua, arguments, 0, name)?;
    let bytes = text.as_bytes();
    let (Ok(start), true) = (usize::try_from(offset), limit.is_none_or(|limit| limit >= 0)) else {
        // The limit of that library is the length.
        let length = bytes.len();
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {length}.");
        return Err(Raised::here(lua, text));
    };
    if start > bytes.len() {
        let text = format!("Start offset {start} greater than input length {}.", bytes.len());
        return Err(Raised::here(lua, text));
    }
    // A limit of zero stands for none.
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let mut reader = Reader { lua, bounds, bytes: &bytes, at: start };
    let mut results = Vec::new();
    while reader.at < bytes.len() && limit.is_none_or(|limit| results.len() < limit) {
        if results.len() >= RESULTS_MAX {
            return Err(Raised::here(lua, "stack overflow (too many return values)"));
        }
        results.push(reader.value(0).map_err(|fault| match fault {
            Fault::Missing => Raised::here(lua, "Missing bytes in input."),
            Fault::Format => Raised::here(lua, "Bad data format in input."),
            Fault::Lua(error) => error,
        })?);
    }
    if limit.is_some() {
        let next = if reader.at == bytes.len() { -1.0 } else { reader.at as f64 };
        results.insert(0, Value::Number(next));
    }
    Ok(results.into_iter().collect())
}

struct Reader<'a> {
    lua: &'a Lua,
    bounds: &'a Rc<Bounds>,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], Fault> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len()).ok_or(Fault::Missing)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A number without a sign, of one, two or four bytes.
    fn length(&mut self, bytes: usize) -> Result<usize, Fault> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        if depth > READ_DEPTH_MAX {
            return Err(Fault::Format);
        }
        self.bounds.spend(self.lua, 1)?;
        let [kind] = self.array::<1>()?;
        let number = |number: f64| Ok(Value::Number(number));
        match kind {
            0x00..=0x7f => number(f64::from(kind)),
            0xe0..=0xff => number(f64::from(kind as i8)),
            0xcc => number(self.length(1)? as f64),
            0xcd => number(self.length(2)? as f64),
            0xce => number(self.length(4)? as f64),
            // Also those without a sign, which the library of Redis takes for negative ones.
            0xd0 => number(f64::from(i8::from_be_bytes(self.array()?))),
            0xd1 => number(f64::from(i16::from_be_bytes(self.array()?))),
            0xd2 => number(f64::from(i32::from_be_bytes(self.array()?))),
            0xcf | 0xd3 => number(i64::from_be_bytes(self.array()?) as f64),
            0xca => number(f64::from(f32::from_be_bytes(self.array()?))),
            0xcb => number(f64::from_be_bytes(self.array()?)),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xa0..=0xbf => self.text(usize::from(kind & 0x1f)),
            0xd9..=0xdb => {
                let length = self.length(1 << (kind - 0xd9))?;
                self.text(length)
            }
            0x90..=0x9f => self.list(usize::from(kind & 0x0f), depth),
            0xdc | 0xdd => {
                let count = self.length(2 << (kind - 0xdc))?;
                self.list(count, depth)
            }
            0x80..=0x8f => self.map(usize::from(kind & 0x0f), depth),
            0xde | 0xdf => {
                let count = self.length(2 << (kind - 0xde))?;
                self.map(count, depth)
            }
            _ => Err(Fault::Format),
        }
    }

    fn text(&mut self, length: usize) -> Result<Value, Fault> {
        let (lua, bounds) = (self.lua, self.bounds);
        let text = self.take(length)?;
        bounds.spend(lua, text.len() as u64 / 64)?;
        Ok(Value::String(lua.create_string(text)?))
    }

    fn list(&mut self, count: usize, depth: usize) -> Result<Value, Fault> {
        let table = self.lua.create_table()?;
        for at in 1..=count {
            let value = self.value(depth + 1)?;
            table.raw_set(at, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Value, Fault> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if matches!(key, Value::Nil) || matches!(key, Value::Number(number) if number.is_nan()) {
                return Err(Fault::Format);
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
