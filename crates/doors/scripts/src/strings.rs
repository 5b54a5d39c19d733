//! The functions of `string` that need bounds: `find`, `match`, `gmatch`, `gsub`, `rep`.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use crate::interpreter::{Bounds, Raised, Stop};
use quorate_redis_evaluator::pattern::{Capture, Fail, Matcher};

/// The functions of `string` that replace those of Lua.
pub(crate) fn library(lua: &Lua, bounds: &Rc<Bounds>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let with = |function: fn(&Lua, &Rc<Bounds>, Vec<Value>) -> mlua::Result<MultiValue>| {
        let bounds = Rc::clone(bounds);
        lua.create_function(move |lua, arguments: MultiValue| {
            function(lua, &bounds, arguments.into_iter().collect())
        })
    };
    table.raw_set("find", with(|lua, bounds, arguments| find(lua, bounds, &arguments, true))?)?;
    table.raw_set("match", with(|lua, bounds, arguments| find(lua, bounds, &arguments, false))?)?;
    let each = with(|lua, bounds, arguments| each(lua, bounds, &arguments))?;
    table.raw_set("gmatch", each.clone())?;
    table.raw_set("gfind", each)?;
    table.raw_set("gsub", with(|lua, bounds, arguments| replace(lua, bounds, &arguments))?)?;
    table.raw_set("rep", with(|lua, bounds, arguments| repeat(lua, bounds, &arguments))?)?;
    Ok(table)
}

fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::Integer(_)) => "number",
        Some(value) => value.type_name(),
    }
}

/// An argument that is a string, or a number, at this position, counted from zero.
pub(crate) fn string(lua: &Lua, arguments: &[Value], at: usize, name: &str) -> mlua::Result<LuaString> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value @ (Value::Number(_) | Value::Integer(_))) => {
            lua.coerce_string(value.clone())?.ok_or_else(|| Raised::here(lua, "a number has no digits"))
        }
        other => {
            let (at, got) = (at + 1, type_name(other));
            Err(Raised::here(lua, format!("bad argument #{at} to '{name}' (string expected, got {got})")))
        }
    }
}

/// An argument that is a number, or digits.
pub(crate) fn number(
    lua: &Lua,
    arguments: &[Value],
    at: usize,
    name: &str,
    default: Option<f64>,
) -> mlua::Result<f64> {
    match (arguments.get(at), default) {
        (None | Some(Value::Nil), Some(default)) => Ok(default),
        (Some(value), _) if let Some(number) = lua.coerce_number(value.clone())? => Ok(number),
        (other, _) => {
            let (at, got) = (at + 1, type_name(other));
            Err(Raised::here(lua, format!("bad argument #{at} to '{name}' (number expected, got {got})")))
        }
    }
}

/// An error of the matcher, as a script sees it.
fn failed(lua: &Lua, bounds: &Rc<Bounds>, fail: Fail) -> mlua::Error {
    match fail {
        Fail::Invalid(text) => Raised::here(lua, text),
        Fail::Index => Raised::here(lua, "invalid capture index"),
        Fail::TooMuch => bounds.end(lua, Stop::Steps),
    }
}

fn value_of(lua: &Lua, subject: &[u8], capture: Capture) -> mlua::Result<Value> {
    match capture {
        Capture::Text(from, to) => lua.create_string(&subject[from..to]).map(Value::String),
        Capture::Position(at) => Ok(Value::Number((at + 1) as f64)),
    }
}

/// A match from a position on: its bounds. The work is counted.
fn search(
    lua: &Lua,
    bounds: &Rc<Bounds>,
    matcher: &mut Matcher<'_>,
    (from, last): (usize, usize),
    pattern_at: usize,
) -> mlua::Result<Option<(usize, usize)>> {
    let before = matcher.steps_left();
    let mut found = None;
    for at in from..=last {
        match matcher.match_at(at, pattern_at) {
            Ok(None) => {}
            Ok(Some(end)) => {
                found = Some((at, end));
                break;
            }
            Err(fail) => return Err(failed(lua, bounds, fail)),
        }
    }
    bounds.spend(lua, before - matcher.steps_left())?;
    Ok(found)
}

fn find(lua: &Lua, bounds: &Rc<Bounds>, arguments: &[Value], is_find: bool) -> mlua::Result<MultiValue> {
    let name = if is_find { "find" } else { "match" };
    let subject = string(lua, arguments, 0, name)?;
    let pattern = string(lua, arguments, 1, name)?;
    let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
    let init = number(lua, arguments, 2, name, Some(1.0))?;
    let length = subject.len() as f64;
    let init = if init < 0.0 { (length + init).max(0.0) } else { (init - 1.0).max(0.0) };
    let init = init.min(length) as usize;
    let is_plain =
        matches!(arguments.get(3), Some(value) if !matches!(value, Value::Nil | Value::Boolean(false)));
    let has_specials = pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte));
    if is_find && (is_plain || !has_specials) {
        bounds
            .spend(lua, ((subject.len() - init) as u64 / 16).saturating_mul(1 + pattern.len() as u64 / 16))?;
        let rest = &subject[init..];
        let found = if pattern.is_empty() {
            Some(0)
        } else {
            let mut work = bounds.steps_left().saturating_mul(16);
            let mut found = None;
            for (at, window) in rest.windows(pattern.len()).enumerate() {
                work = work.saturating_sub(1);
                if work == 0 {
                    return Err(bounds.end(lua, Stop::Steps));
                }
                if window[0] == pattern[0] && window == pattern {
                    found = Some(at);
                    break;
                }
            }
            found
        };
        return Ok(match found {
            Some(at) => MultiValue::from_vec(vec![
                Value::Number((init + at + 1) as f64),
                Value::Number((init + at + pattern.len()) as f64),
            ]),
            None => MultiValue::from_vec(vec![Value::Nil]),
        });
    }
    let is_anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(subject, pattern, bounds.steps_left());
    let last = if is_anchored { init } else { subject.len() };
    let pattern_at = usize::from(is_anchored);
    let Some((from, to)) = search(lua, bounds, &mut matcher, (init, last), pattern_at)? else {
        return Ok(MultiValue::from_vec(vec![Value::Nil]));
    };
    let mut values = Vec::new();
    if is_find {
        values.extend([Value::Number((from + 1) as f64), Value::Number(to as f64)]);
    }
    let captures = matcher.captures((!is_find).then_some((from, to)));
    for capture in captures.map_err(|fail| failed(lua, bounds, fail))? {
        values.push(value_of(lua, subject, capture)?);
    }
    Ok(MultiValue::from_vec(values))
}

fn each(lua: &Lua, bounds: &Rc<Bounds>, arguments: &[Value]) -> mlua::Result<MultiValue> {
    let subject = string(lua, arguments, 0, "gmatch")?;
    let pattern = string(lua, arguments, 1, "gmatch")?;
    let (next, bounds) = (Cell::new(0), Rc::clone(bounds));
    let function = lua.create_function(move |lua, ()| {
        let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
        if next.get() > subject.len() {
            return Ok(MultiValue::from_vec(vec![Value::Nil]));
        }
        let mut matcher = Matcher::new(subject, pattern, bounds.steps_left());
        let Some((from, to)) = search(lua, &bounds, &mut matcher, (next.get(), subject.len()), 0)? else {
            next.set(subject.len() + 1);
            return Ok(MultiValue::from_vec(vec![Value::Nil]));
        };
        next.set(if to == from { to + 1 } else { to });
        let captures = matcher.captures(Some((from, to))).map_err(|fail| failed(lua, &bounds, fail))?;
        let values: mlua::Result<Vec<Value>> =
            captures.into_iter().map(|capture| value_of(lua, subject, capture)).collect();
        Ok(MultiValue::from_vec(values?))
    })?;
    Ok(MultiValue::from_vec(vec![Value::Function(function)]))
}

/// The replacement of matches.
enum Replacement {
    Text(Vec<u8>),
    Table(Table),
    Function(Function),
}

fn replace(lua: &Lua, bounds: &Rc<Bounds>, arguments: &[Value]) -> mlua::Result<MultiValue> {
    let subject = string(lua, arguments, 0, "gsub")?;
    let pattern = string(lua, arguments, 1, "gsub")?;
    let replacement = match arguments.get(2) {
        Some(Value::Table(table)) => Replacement::Table(table.clone()),
        Some(Value::Function(function)) => Replacement::Function(function.clone()),
        Some(Value::String(_) | Value::Number(_) | Value::Integer(_)) => {
            Replacement::Text(string(lua, arguments, 2, "gsub")?.as_bytes().to_vec())
        }
        _ => {
            let text = "bad argument #3 to 'gsub' (string/function/table expected)";
            return Err(Raised::here(lua, text));
        }
    };
    let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
    let most = number(lua, arguments, 3, "gsub", Some(f64::INFINITY))?;
    let is_anchored = pattern.first() == Some(&b'^');
    let (mut output, mut at, mut count) = (Vec::new(), 0, 0.0);
    while count < most {
        let mut matcher = Matcher::new(subject, pattern, bounds.steps_left());
        let found = search(lua, bounds, &mut matcher, (at, at), usize::from(is_anchored))?;
        if let Some((from, to)) = found {
            count += 1.0;
            let whole = Some((from, to));
            let captures = matcher.captures(whole).map_err(|fail| failed(lua, bounds, fail))?;
            let matched = &subject[from..to];
            match &replacement {
                Replacement::Text(text) => {
                    expand(text, matched, subject, &captures, &mut output)
                        .map_err(|fail| failed(lua, bounds, fail))?;
                }
                Replacement::Table(table) => {
                    let value = table.get(value_of(lua, subject, captures[0])?)?;
                    put(lua, &value, matched, &mut output)?;
                }
                Replacement::Function(function) => {
                    let values: mlua::Result<Vec<Value>> =
                        captures.into_iter().map(|capture| value_of(lua, subject, capture)).collect();
                    let value = function.call(MultiValue::from_vec(values?))?;
                    put(lua, &value, matched, &mut output)?;
                }
            }
            bounds.check_bytes(lua, output.len())?;
        }
        match found {
            Some((from, to)) if to > from => at = to,
            _ if at < subject.len() => {
                output.push(subject[at]);
                at += 1;
            }
            _ => break,
        }
        if is_anchored {
            break;
        }
    }
    output.extend_from_slice(&subject[at.min(subject.len())..]);
    bounds.check_bytes(lua, output.len())?;
    let text = Value::String(lua.create_string(&output)?);
    Ok(MultiValue::from_vec(vec![text, Value::Number(count)]))
}

/// Puts what a table or a function says instead of a match: the match itself if it says nothing.
fn put(lua: &Lua, value: &Value, matched: &[u8], output: &mut Vec<u8>) -> mlua::Result<()> {
    match value {
        Value::Nil | Value::Boolean(false) => output.extend_from_slice(matched),
        Value::String(text) => output.extend_from_slice(&text.as_bytes()),
        Value::Number(_) | Value::Integer(_) => {
            if let Some(text) = lua.coerce_string(value.clone())? {
                output.extend_from_slice(&text.as_bytes());
            }
        }
        other => {
            let text = format!("invalid replacement value (a {})", other.type_name());
            return Err(Raised::here(lua, text));
        }
    }
    Ok(())
}

/// Puts a text in which `%1` stands for the first capture.
fn expand(
    text: &[u8],
    matched: &[u8],
    subject: &[u8],
    captures: &[Capture],
    output: &mut Vec<u8>,
) -> Result<(), Fail> {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match (byte, if *byte == b'%' { bytes.next() } else { None }) {
            (b'%', Some(b'0')) => output.extend_from_slice(matched),
            (b'%', Some(digit)) if digit.is_ascii_digit() => {
                match captures.get(usize::from(digit - b'1')).ok_or(Fail::Index)? {
                    Capture::Text(from, to) => output.extend_from_slice(&subject[*from..*to]),
                    Capture::Position(at) => output.extend_from_slice((at + 1).to_string().as_bytes()),
                }
            }
            (b'%', Some(other)) => output.push(*other),
            (b'%', None) => output.push(0),
            (other, _) => output.push(*other),
        }
    }
    Ok(())
}

fn repeat(lua: &Lua, bounds: &Rc<Bounds>, arguments: &[Value]) -> mlua::Result<MultiValue> {
    let text = string(lua, arguments, 0, "rep")?;
    let count = number(lua, arguments, 1, "rep", None)?;
    let text = text.as_bytes();
    let count = if text.is_empty() || count.is_nan() { 0 } else { count.max(0.0) as usize };
    bounds.check_bytes(lua, text.len().saturating_mul(count))?;
    let repeated = lua.create_string(text.repeat(count))?;
    Ok(MultiValue::from_vec(vec![Value::String(repeated)]))
}
