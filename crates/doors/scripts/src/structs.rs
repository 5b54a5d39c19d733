//! `struct`: numbers and strings as bytes, in a layout that a format describes.
//!
//! | option | stands for |
//! |---|---|
//! | `>`, `<` | the greatest byte of a number comes first, or last, from here on |
//! | `!n` | numbers are aligned, to `n` bytes at most |
//! | `x`, space | a zero byte; nothing |
//! | `b`, `h`, `l`, `in`; `B`, `H`, `L`, `In`, `T` | an integer of 1, 2, 8, or `n` bytes, with a sign or without |
//! | `f`, `d` | a number with a fraction, of 4 or 8 bytes |
//! | `s`; `cn`, `c0` | a string that a zero byte ends; of `n` bytes, or of all that are given |

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::convert::truncate;
use crate::interpreter::{Bounds, Raised};
use crate::strings::{number, string};

/// The longest integer, in bytes.
const INTEGER_BYTES_MAX: usize = 32;

/// The alignment of `!` without a number, in bytes.
const ALIGNMENT: usize = 8;

/// Numbers in formats end below this, as those of C do.
const NUMBER_MAX: usize = i32::MAX as usize;

/// So many values are unpacked at most: they have to fit onto the stack of Lua.
const RESULTS_MAX: usize = 7_000;

pub(crate) fn library(lua: &Lua, bounds: &Rc<Bounds>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let of = Rc::clone(bounds);
    let pack = lua.create_function(move |lua, arguments: MultiValue| {
        // The library of Redis marks the end of its arguments, which errors show.
        let arguments: Vec<Value> = arguments.into_iter().chain([Value::Nil]).collect();
        let packed = pack(lua, &of, &arguments)?;
        lua.create_string(packed)
    })?;
    table.raw_set("pack", pack)?;
    let of = Rc::clone(bounds);
    let unpack = lua.create_function(move |lua, arguments: MultiValue| {
        unpack(lua, &of, &arguments.into_iter().collect::<Vec<_>>())
    })?;
    table.raw_set("unpack", unpack)?;
    let of = Rc::clone(bounds);
    let size = lua.create_function(move |lua, arguments: MultiValue| {
        size(lua, &of, &arguments.into_iter().collect::<Vec<_>>())
    })?;
    table.raw_set("size", size)?;
    Ok(table)
}

/// A format, read from its beginning.
struct Format<'a> {
    lua: &'a Lua,
    /// The function that reads it, for errors.
    name: &'static str,
    rest: &'a [u8],
    is_little: bool,
    alignment: usize,
}

/// An option of a format.
#[derive(Clone, Copy, Debug)]
struct Item {
    name: u8,
    /// How many bytes it stands for; zero if that is not known.
    size: usize,
    /// How many bytes come before it.
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, name: &'static str, format: &'a [u8]) -> Self {
        // A string of C ends at its first zero.
        let rest = format.split(|byte| *byte == 0).next().unwrap_or_default();
        Format { lua, name, rest, is_little: cfg!(target_endian = "little"), alignment: 1 }
    }

    fn argument(&self, at: usize, text: &str) -> mlua::Error {
        Raised::here(self.lua, format!("bad argument #{at} to '{}' ({text})", self.name))
    }

    fn digits(&mut self, default: usize) -> mlua::Result<usize> {
        if !self.rest.first().is_some_and(u8::is_ascii_digit) {
            return Ok(default);
        }
        let mut read = 0;
        while let Some((digit, rest)) = self.rest.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
            read = read * 10 + usize::from(digit - b'0');
            if read > NUMBER_MAX {
                return Err(Raised::here(self.lua, "integral size overflow"));
            }
            self.rest = rest;
        }
        Ok(read)
    }

    /// The next option behind so many bytes.
    fn next(&mut self, position: usize) -> mlua::Result<Option<Item>> {
        let Some((name, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match name {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.digits(1)?,
            b'i' | b'I' => {
                let size = self.digits(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(Raised::here(self.lua, text));
                }
                size
            }
            _ => 0,
        };
        let aligned = size.min(self.alignment);
        let is_free = size == 0 || *name == b'c';
        // Sizes that are no power of two are aligned as the mask of the reference makes of them.
        let mask = if is_free { 0 } else { aligned.saturating_sub(1) };
        let padding = if is_free { 0 } else { aligned.wrapping_sub(position & mask) & mask };
        Ok(Some(Item { name: *name, size, padding }))
    }

    /// An option that stands for no bytes.
    fn set(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.is_little = false,
            b'<' => self.is_little = true,
            b'!' => {
                let alignment = self.digits(ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(Raised::here(self.lua, text));
                }
                self.alignment = alignment;
            }
            other => {
                return Err(self.argument(1, &format!("invalid format option '{}'", char::from(other))));
            }
        }
        Ok(())
    }

    /// Bytes with the least one first, in the order that was chosen.
    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.is_little {
            bytes.reverse();
        }
        bytes
    }
}

fn pack(lua: &Lua, bounds: &Rc<Bounds>, arguments: &[Value]) -> mlua::Result<Vec<u8>> {
    let text = string(lua, arguments, 0, "pack")?.as_bytes().to_vec();
    let mut format = Format::new(lua, "pack", &text);
    let (mut packed, mut at) = (Vec::new(), 1);
    while let Some(Item { name, size, padding }) = format.next(packed.len())? {
        bounds.spend(lua, 1)?;
        bounds.check_bytes(lua, packed.len() + padding)?;
        packed.resize(packed.len() + padding, 0);
        match name {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = number(lua, arguments, at, "pack", None)?;
                let value = if number < 0.0 { truncate(number) as u64 } else { number as u64 };
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(size, 0);
                packed.extend(format.ordered(bytes));
                at += 1;
            }
            b'x' => packed.push(0),
            b'f' => {
                let number = number(lua, arguments, at, "pack", None)? as f32;
                packed.extend(format.ordered(number.to_le_bytes().to_vec()));
                at += 1;
            }
            b'd' => {
                let number = number(lua, arguments, at, "pack", None)?;
                packed.extend(format.ordered(number.to_le_bytes().to_vec()));
                at += 1;
            }
            b'c' | b's' => {
                let text = string(lua, arguments, at, "pack")?;
                let text = text.as_bytes();
                at += 1;
                let size = if size == 0 { text.len() } else { size };
                if text.len() < size {
                    return Err(format.argument(at + 1, "string too short"));
                }
                bounds.spend(lua, size as u64 / 64)?;
                bounds.check_bytes(lua, packed.len() + size)?;
                packed.extend_from_slice(&text[..size]);
                if name == b's' {
                    packed.push(0);
                }
            }
            other => format.set(other)?,
        }
    }
    bounds.check_bytes(lua, packed.len())?;
    Ok(packed)
}

/// An integer of some bytes with the least one first, as a number of Lua.
fn integer(bytes: &[u8], is_signed: bool) -> f64 {
    let mut all = [0; 8];
    let kept = bytes.len().min(all.len());
    all[..kept].copy_from_slice(&bytes[..kept]);
    let value = u64::from_le_bytes(all);
    if !is_signed {
        return value as f64;
    }
    let unused = 64 - 8 * kept as u32;
    let extended = value.checked_shl(unused).map_or(0, |shifted| (shifted as i64) >> unused);
    extended as f64
}

fn unpack(lua: &Lua, bounds: &Rc<Bounds>, arguments: &[Value]) -> mlua::Result<MultiValue> {
    let text = string(lua, arguments, 0, "unpack")?.as_bytes().to_vec();
    let mut format = Format::new(lua, "unpack", &text);
    let data = string(lua, arguments, 1, "unpack")?.as_bytes().to_vec();
    let first = truncate(number(lua, arguments, 2, "unpack", Some(1.0))?);
    let Some(mut position) = usize::try_from(first).ok().and_then(|first| first.checked_sub(1)) else {
        return Err(format.argument(3, "offset must be 1 or greater"));
    };
    let too_short = |format: &Format<'_>| format.argument(2, "data string too short");
    let mut results: Vec<Value> = Vec::new();
    while let Some(Item { name, mut size, padding }) = format.next(position)? {
        bounds.spend(lua, 1)?;
        position = position.saturating_add(padding);
        let part = |position: usize, size: usize| data.get(position..position.checked_add(size)?);
        let Some(bytes) = part(position, size) else { return Err(too_short(&format)) };
        if results.len() >= RESULTS_MAX {
            return Err(Raised::here(lua, "stack overflow (too many results)"));
        }
        match name {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let bytes = format.ordered(bytes.to_vec());
                results.push(Value::Number(integer(&bytes, name.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => {
                let mut of = [0; 4];
                of.copy_from_slice(&format.ordered(bytes.to_vec()));
                results.push(Value::Number(f64::from(f32::from_le_bytes(of))));
            }
            b'd' => {
                let mut of = [0; 8];
                of.copy_from_slice(&format.ordered(bytes.to_vec()));
                results.push(Value::Number(f64::from_le_bytes(of)));
            }
            b'c' => {
                if size == 0 {
                    let Some(Value::Number(told)) = results.pop() else {
                        return Err(Raised::here(lua, "format 'c0' needs a previous size"));
                    };
                    // There is no data of a negative length.
                    size = if told < 0.0 { usize::MAX } else { told as usize };
                }
                let Some(bytes) = part(position, size) else { return Err(too_short(&format)) };
                bounds.spend(lua, size as u64 / 64)?;
                results.push(Value::String(lua.create_string(bytes)?));
            }
            b's' => {
                let rest = data.get(position..).unwrap_or_default();
                let Some(length) = rest.iter().position(|byte| *byte == 0) else {
                    return Err(Raised::here(lua, "unfinished string in data"));
                };
                bounds.spend(lua, length as u64 / 64)?;
                results.push(Value::String(lua.create_string(&rest[..length])?));
                size = length + 1;
            }
            other => format.set(other)?,
        }
        position += size;
    }
    results.push(Value::Number((position + 1) as f64));
    Ok(results.into_iter().collect())
}

fn size(lua: &Lua, bounds: &Rc<Bounds>, arguments: &[Value]) -> mlua::Result<f64> {
    let text = string(lua, arguments, 0, "size")?.as_bytes().to_vec();
    let mut format = Format::new(lua, "size", &text);
    let mut position = 0_usize;
    while let Some(Item { name, size, padding }) = format.next(position)? {
        bounds.spend(lua, 1)?;
        position = position.saturating_add(padding);
        match name {
            b's' => return Err(format.argument(1, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(format.argument(1, "option 'c0' has no fixed size")),
            other if !other.is_ascii_alphanumeric() => format.set(other)?,
            _ => {}
        }
        position = position.saturating_add(size);
    }
    Ok(position as f64)
}
