//! `cjson`: JSON, with the options and the bounds of the library that Redis has.
//!
//! | file | role |
//! |---|---|
//! | `choices` | the options |
//! | `encode`, `decode` | values to text, text to values |

mod choices;
mod decode;
mod encode;

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::interpreter::{Bounds, Raised};
use crate::strings::string;
use choices::Shared;
use decode::{Decoder, Token};
use encode::Encoder;

/// How deep values may nest, and the greatest depth that a script may choose.
const DEPTH_MAX: usize = 1_000;

/// The name under which the metatable of arrays is kept.
const ARRAY: &str = "quorate array of JSON";

pub(crate) fn library(lua: &Lua, bounds: &Rc<Bounds>) -> mlua::Result<Table> {
    let array_mt = lua.create_table()?;
    lua.set_named_registry_value(ARRAY, array_mt)?;
    make(lua, bounds)
}

/// A table of the library, with choices of its own.
fn make(lua: &Lua, bounds: &Rc<Bounds>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let choices = Shared::default();
    let (of, chosen) = (Rc::clone(bounds), Rc::clone(&choices));
    let encode = lua.create_function(move |lua, arguments: MultiValue| {
        let [value] = <[Value; 1]>::try_from(arguments.into_iter().collect::<Vec<_>>())
            .map_err(|_| Raised::here(lua, "bad argument #1 to 'encode' (expected 1 argument)"))?;
        let array: Table = lua.named_registry_value(ARRAY)?;
        let choices = chosen.borrow().clone();
        let mut encoder = Encoder { lua, bounds: &of, output: Vec::new(), choices, array };
        encoder.value(&value, 0)?;
        lua.create_string(&encoder.output)
    })?;
    table.raw_set("encode", encode)?;
    let (of, chosen) = (Rc::clone(bounds), Rc::clone(&choices));
    let decode = lua.create_function(move |lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        if arguments.len() != 1 {
            return Err(Raised::here(lua, "bad argument #1 to 'decode' (expected 1 argument)"));
        }
        let text = string(lua, &arguments, 0, "decode")?;
        of.spend(lua, text.as_bytes().len() as u64)?;
        let choices = chosen.borrow().clone();
        let array: Option<Table> =
            if choices.marks_arrays { Some(lua.named_registry_value(ARRAY)?) } else { None };
        let mut decoder = Decoder { lua, text: &text.as_bytes(), at: 0, depth: 0, choices, array };
        let first = decoder.next()?;
        let value = decoder.value(first)?;
        match decoder.next()? {
            (Token::End, _) => Ok(value),
            other => Err(decoder.expected("the end", &other)),
        }
    })?;
    table.raw_set("decode", decode)?;
    choices::add(lua, &table, &choices)?;
    let of = Rc::clone(bounds);
    table.raw_set("new", lua.create_function(move |lua, _: MultiValue| make(lua, &of))?)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("array_mt", lua.named_registry_value::<Table>(ARRAY)?)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}
