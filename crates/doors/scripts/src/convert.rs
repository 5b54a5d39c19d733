//! Replies as values of Lua, and values of Lua as replies.

use std::rc::Rc;

use mlua::{Lua, Table, Value};
use quorate_redis_commands::{Reply, print_decimal, print_double};

use crate::interpreter::{Bounds, Stop};

/// How deep a reply may nest.
const DEPTH_MAX: usize = 100;

/// The cost of each element of a reply beside its bytes.
const ELEMENT_BYTES: usize = 16;

/// A reply as a script sees it, in the version that the script has chosen.
pub(crate) fn to_lua(lua: &Lua, reply: &Reply, is_three: bool) -> mlua::Result<Value> {
    let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    let list = |replies: &mut dyn Iterator<Item = &Reply>| -> mlua::Result<Table> {
        let table = lua.create_table()?;
        for (at, reply) in replies.enumerate() {
            table.raw_set(at + 1, to_lua(lua, reply, is_three)?)?;
        }
        Ok(table)
    };
    let within = |name: &str, value: Value| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Simple(text) => within("ok", string(text.as_bytes())?),
        Reply::Error(text) => {
            let Value::Table(table) = within("err", string(text.as_bytes())?)? else { return Ok(Value::Nil) };
            table.raw_set("ignore_error_stats_update", true)?;
            Ok(Value::Table(table))
        }
        Reply::Integer(number) => Ok(Value::Number(*number as f64)),
        Reply::Boolean(flag) if is_three => Ok(Value::Boolean(*flag)),
        Reply::Boolean(flag) => Ok(Value::Number(f64::from(u8::from(*flag)))),
        Reply::Bulk(bytes) => string(bytes),
        Reply::Verbatim(text) if is_three => {
            let table = lua.create_table()?;
            table.raw_set("format", "txt")?;
            table.raw_set("string", string(text)?)?;
            within("verbatim_string", Value::Table(table))
        }
        Reply::Verbatim(text) => string(text),
        Reply::Null | Reply::NullArray if is_three => Ok(Value::Nil),
        Reply::Null | Reply::NullArray => Ok(Value::Boolean(false)),
        Reply::Double(number) | Reply::Decimal(number) if is_three => {
            within("double", Value::Number(*number))
        }
        Reply::Double(number) => string(print_double(*number).as_bytes()),
        Reply::Decimal(number) => string(print_decimal(*number).as_bytes()),
        Reply::Array(replies) => Ok(Value::Table(list(&mut replies.iter())?)),
        Reply::Set(replies) if is_three => {
            let table = lua.create_table()?;
            for reply in replies {
                table.raw_set(to_lua(lua, reply, true)?, true)?;
            }
            within("set", Value::Table(table))
        }
        Reply::Set(replies) => Ok(Value::Table(list(&mut replies.iter())?)),
        Reply::Map(pairs) | Reply::Table(pairs) if is_three => {
            let table = lua.create_table()?;
            for (key, value) in pairs {
                table.raw_set(to_lua(lua, key, true)?, to_lua(lua, value, true)?)?;
            }
            within("map", Value::Table(table))
        }
        Reply::Pairs(pairs) | Reply::Table(pairs) if is_three || matches!(reply, Reply::Table(_)) => {
            let table = lua.create_table()?;
            for (at, (key, value)) in pairs.iter().enumerate() {
                table.raw_set(at + 1, list(&mut [key, value].into_iter())?)?;
            }
            Ok(Value::Table(table))
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Table(pairs) => {
            Ok(Value::Table(list(&mut pairs.iter().flat_map(|(key, value)| [key, value]))?))
        }
    }
}

/// The value that a script returns, as a reply.
pub(crate) fn to_reply(
    lua: &Lua,
    bounds: &Rc<Bounds>,
    value: Value,
    replies_three: bool,
) -> mlua::Result<Reply> {
    let left = bounds.limits.reply_bytes_max;
    let mut returned = Returned { lua, bounds, left, replies_three };
    returned.reply(value, 0)
}

struct Returned<'a> {
    lua: &'a Lua,
    bounds: &'a Rc<Bounds>,
    left: usize,
    replies_three: bool,
}

impl Returned<'_> {
    fn count(&mut self, bytes: usize) -> mlua::Result<()> {
        match self.left.checked_sub(bytes + ELEMENT_BYTES) {
            Some(left) => self.left = left,
            None => return Err(self.bounds.end(self.lua, Stop::Reply)),
        }
        Ok(())
    }

    fn bytes(&mut self, text: &mlua::LuaString) -> mlua::Result<Vec<u8>> {
        let bytes = text.as_bytes().to_vec();
        self.count(bytes.len())?;
        Ok(bytes)
    }

    fn text(&mut self, text: &mlua::LuaString) -> mlua::Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(text)?).into_owned())
    }

    fn reply(&mut self, value: Value, depth: usize) -> mlua::Result<Reply> {
        if depth > DEPTH_MAX {
            return Ok(Reply::error("ERR reached lua stack limit"));
        }
        self.count(0)?;
        // An element is looked at several times, and the clock with it.
        self.bounds.spend(self.lua, 10)?;
        Ok(match value {
            Value::String(text) => Reply::Bulk(self.bytes(&text)?),
            Value::Number(number) => Reply::Integer(truncate(number)),
            Value::Integer(number) => Reply::Integer(number),
            Value::Boolean(flag) if self.replies_three => Reply::Boolean(flag),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Table(table) => self.table(&table, depth)?,
            _ => Reply::Null,
        })
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<Reply> {
        if let Value::String(text) = table.raw_get("err")? {
            return Ok(Reply::Error(self.text(&text)?));
        }
        if let Value::String(text) = table.raw_get("ok")? {
            return Ok(Reply::Simple(self.text(&text)?.into()));
        }
        match table.raw_get("double")? {
            Value::Number(number) => return Ok(Reply::Double(number)),
            Value::Integer(number) => return Ok(Reply::Double(number as f64)),
            _ => {}
        }
        if let Value::Table(map) = table.raw_get("map")? {
            let mut pairs = Vec::new();
            for pair in map.pairs::<Value, Value>() {
                let (key, value) = pair?;
                pairs.push((self.reply(key, depth + 1)?, self.reply(value, depth + 1)?));
            }
            return Ok(Reply::Map(pairs));
        }
        if let Value::Table(set) = table.raw_get("set")? {
            let mut members = Vec::new();
            for pair in set.pairs::<Value, Value>() {
                members.push(self.reply(pair?.0, depth + 1)?);
            }
            return Ok(Reply::Set(members));
        }
        if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let Value::String(text) = verbatim.raw_get("string")?
        {
            return Ok(Reply::Verbatim(self.bytes(&text)?));
        }
        if let Value::String(number) = table.raw_get("big_number")? {
            // A kind of its own in version 3, which no client has been seen to need: text in both.
            return Ok(Reply::Bulk(self.bytes(&number)?));
        }
        let mut replies = Vec::new();
        for at in 1_i64.. {
            match table.raw_get(at)? {
                Value::Nil => break,
                value => replies.push(self.reply(value, depth + 1)?),
            }
        }
        Ok(Reply::Array(replies))
    }
}

/// A number without its fraction, as C converts it on the machines that Redis runs on.
pub(crate) fn truncate(number: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}
