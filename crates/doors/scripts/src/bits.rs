//! `bit`: operations on numbers of 32 bits.

use mlua::{Lua, MultiValue, Table, Value};

use crate::strings::number;

/// A function of the library `bit` of one number, with its name,
type OfOne = (&'static str, fn(u32) -> u32);

/// and one of two.
type OfTwo = (&'static str, fn(u32, u32) -> u32);

/// A number as the library `bit` takes it: rounded, modulo 2³².
fn bits_of(lua: &Lua, arguments: &[Value], at: usize, name: &str) -> mlua::Result<u32> {
    let number = number(lua, arguments, at, name, None)?;
    Ok(number.round_ties_even().rem_euclid(4_294_967_296.0) as u32)
}

pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let ones: [OfOne; 3] = [("tobit", |bits| bits), ("bnot", |bits| !bits), ("bswap", u32::swap_bytes)];
    for (name, of) in ones {
        let function = lua.create_function(move |lua, arguments: MultiValue| {
            let arguments: Vec<Value> = arguments.into_iter().collect();
            Ok(f64::from(of(bits_of(lua, &arguments, 0, name)?) as i32))
        })?;
        table.raw_set(name, function)?;
    }
    let folds: [OfTwo; 3] = [
        ("band", |one, other| one & other),
        ("bor", |one, other| one | other),
        ("bxor", |one, other| one ^ other),
    ];
    for (name, of) in folds {
        let function = lua.create_function(move |lua, arguments: MultiValue| {
            let arguments: Vec<Value> = arguments.into_iter().collect();
            let mut bits = bits_of(lua, &arguments, 0, name)?;
            for at in 1..arguments.len() {
                bits = of(bits, bits_of(lua, &arguments, at, name)?);
            }
            Ok(f64::from(bits as i32))
        })?;
        table.raw_set(name, function)?;
    }
    let shifts: [OfTwo; 5] = [
        ("lshift", |bits, by| bits << by),
        ("rshift", |bits, by| bits >> by),
        ("arshift", |bits, by| (bits as i32 >> by) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, of) in shifts {
        let function = lua.create_function(move |lua, arguments: MultiValue| {
            let arguments: Vec<Value> = arguments.into_iter().collect();
            let (bits, by) = (bits_of(lua, &arguments, 0, name)?, bits_of(lua, &arguments, 1, name)?);
            Ok(f64::from(of(bits, by & 31) as i32))
        })?;
        table.raw_set(name, function)?;
    }
    let hex = lua.create_function(|lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        let bits = bits_of(lua, &arguments, 0, "tohex")?;
        let digits = if arguments.len() > 1 { bits_of(lua, &arguments, 1, "tohex")? as i32 } else { 8 };
        let count = digits.unsigned_abs().min(8) as usize;
        let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
        Ok(text[8 - count..].to_owned())
    })?;
    table.raw_set("tohex", hex)?;
    Ok(table)
}
