//! Native functions for scripts: `redis`, `bit`, `math.random`, `load`.

use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Error, Function, Lua, MultiValue, Table, Value};
use quorate_redis_commands::{Reply, find, timeout_position};
use quorate_redis_evaluator::{Random, sha1};

use crate::convert::{to_lua, truncate};
use crate::function::{FLAGS, INVALID_NAME, is_name};
use crate::interpreter::{Context, NO_MEMORY, Phase, Raised, Registered, Stop, is_out_of_memory};
use crate::strings::{self, number, string};
use crate::{Host, bits, json, message_pack, structs};

/// The name under which the globals of scripts are kept, for what they load.
const ENVIRONMENT: &str = "quorate environment";

/// A library registers so many functions at most.
const REGISTERED_MAX: usize = 1_000;

/// A text that a script loads has at most so many bytes.
const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// Commands that no script may call: those that Redis does not let it, and those that wait.
const FORBIDDEN: &[&str] = &[
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "auth",
    "client",
    "config",
    "discard",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "exec",
    "fcall",
    "fcall_ro",
    "function",
    "hello",
    "multi",
    "psubscribe",
    "punsubscribe",
    "quit",
    "reset",
    "script",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "unsubscribe",
    "unwatch",
    "wait",
    "watch",
];

/// `KEYS` and `ARGV`.
pub(crate) type Globals<'a> = (&'a [Vec<u8>], &'a [Vec<u8>]);

/// All of it, as the prelude takes it.
pub(crate) fn native<H: Host + 'static>(
    lua: &Lua,
    arguments: Option<Globals<'_>>,
    context: &Rc<Context<H>>,
) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    if let Some((keys, arguments)) = arguments {
        native.raw_set("keys", list(lua, keys)?)?;
        native.raw_set("arguments", list(lua, arguments)?)?;
    }
    native.raw_set("strings", strings::library(lua, &context.bounds)?)?;
    native.raw_set("redis", redis(lua, context)?)?;
    native.raw_set("bit", bits::library(lua)?)?;
    native.raw_set("cjson", json::library(lua, &context.bounds)?)?;
    native.raw_set("cmsgpack", message_pack::library(lua, &context.bounds)?)?;
    native.raw_set("struct", structs::library(lua, &context.bounds)?)?;
    let bounds = Rc::clone(&context.bounds);
    native.raw_set("is_stopped", lua.create_function(move |_, ()| Ok(bounds.stopped().is_some()))?)?;
    native.raw_set("unwrap", lua.create_function(|lua, value: Value| unwrap(lua, value))?)?;
    native.raw_set("line", lua.create_function(|lua, ()| Ok(line(lua)))?)?;
    native.raw_set("load", lua.create_function(load)?)?;
    native.raw_set("loadstring", lua.create_function(load_string)?)?;
    random(lua, context, &native)?;
    Ok(native)
}

/// Strings as a table.
pub(crate) fn list(lua: &Lua, texts: &[Vec<u8>]) -> mlua::Result<Table> {
    lua.create_sequence_from(texts.iter().map(|text| lua.create_string(text).ok()))
}

/// Keeps the globals of the script, which what it loads gets too.
pub(crate) fn set_environment(lua: &Lua, environment: &Table) -> mlua::Result<()> {
    lua.set_named_registry_value(ENVIRONMENT, environment.clone())
}

/// The line of the script that runs, or ran into an error: zero if none does.
fn line(lua: &Lua) -> usize {
    /// A stack is deeper than that in an overflow alone, where each frame is as good.
    const LEVELS: usize = 64;
    let of_level = |level| {
        let of_frame = |frame: &mlua::debug::Debug<'_>| {
            let is_ours = frame.source().source.is_some_and(|source| source == "=prelude");
            frame.current_line().filter(|_| !is_ours)
        };
        lua.inspect_stack(level, of_frame).flatten()
    };
    (1..LEVELS).find_map(of_level).unwrap_or(0)
}

/// An error of native code as a value that scripts know.
fn unwrap(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = value else { return Ok(value) };
    let text = |text: &str| lua.create_string(text).map(Value::String);
    match error.downcast_ref::<Raised>() {
        Some(Raised::Text(message)) => text(message),
        Some(Raised::Reply(message)) => {
            let table = lua.create_table()?;
            table.raw_set("err", text(message)?)?;
            Ok(Value::Table(table))
        }
        None if is_out_of_memory(&error) => text(NO_MEMORY),
        None => text(&error.to_string()),
    }
}

fn compile(lua: &Lua, code: Vec<u8>, name: String) -> mlua::Result<(Value, Value)> {
    let environment: Table = lua.named_registry_value(ENVIRONMENT)?;
    let chunk = lua.load(code).set_name(name).set_mode(ChunkMode::Text).set_environment(environment);
    match chunk.into_function() {
        Ok(function) => Ok((Value::Function(function), Value::Nil)),
        Err(Error::SyntaxError { message, .. }) => {
            Ok((Value::Nil, Value::String(lua.create_string(message)?)))
        }
        Err(error) => Err(error),
    }
}

/// The name of a chunk, as C takes it: up to its first zero.
fn chunk_name(arguments: &[Value], default: &[u8]) -> String {
    let given = match arguments.get(1) {
        Some(Value::String(name)) => name.as_bytes().to_vec(),
        _ => default.to_vec(),
    };
    let name = given.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn load_string(lua: &Lua, arguments: MultiValue) -> mlua::Result<(Value, Value)> {
    let arguments: Vec<Value> = arguments.into_iter().collect();
    let code = string(lua, &arguments, 0, "loadstring")?.as_bytes().to_vec();
    if code.len() > CHUNK_BYTES_MAX {
        return Err(Raised::here(lua, "chunk is too long"));
    }
    let name = chunk_name(&arguments, &code);
    compile(lua, code, name)
}

fn load(lua: &Lua, arguments: MultiValue) -> mlua::Result<(Value, Value)> {
    let arguments: Vec<Value> = arguments.into_iter().collect();
    let Some(Value::Function(reader)) = arguments.first() else {
        let got = arguments.first().map_or("no value", Value::type_name);
        return Err(Raised::here(lua, format!("bad argument #1 to 'load' (function expected, got {got})")));
    };
    let mut code = Vec::new();
    loop {
        match reader.call::<Value>(())? {
            Value::String(piece) if !piece.as_bytes().is_empty() => code.extend_from_slice(&piece.as_bytes()),
            Value::Nil | Value::String(_) => break,
            _ => return Err(Raised::text("reader function must return a string")),
        }
        if code.len() > CHUNK_BYTES_MAX {
            return Err(Raised::here(lua, "chunk is too long"));
        }
    }
    let name = chunk_name(&arguments, b"=(load)");
    compile(lua, code, name)
}

/// A command that a script calls, word by word.
fn words_of(lua: &Lua, arguments: &[Value]) -> mlua::Result<Result<Vec<Vec<u8>>, &'static str>> {
    if arguments.is_empty() {
        return Ok(Err("ERR Please specify at least one argument for this redis lib call"));
    }
    let mut words = Vec::with_capacity(arguments.len());
    for argument in arguments {
        words.push(match argument {
            Value::String(text) => text.as_bytes().to_vec(),
            Value::Integer(number) => number.to_string().into_bytes(),
            Value::Number(number) if truncate(*number) as f64 == *number => {
                truncate(*number).to_string().into_bytes()
            }
            Value::Number(number) => format_number(lua, "%.17g", *number)?,
            _ => return Ok(Err("ERR Lua redis lib command arguments must be strings or integers")),
        });
    }
    Ok(Ok(words))
}

/// A number as C prints it.
pub(crate) fn format_number(lua: &Lua, format: &str, number: f64) -> mlua::Result<Vec<u8>> {
    let strings: Table = lua.globals().raw_get("string")?;
    let function: Function = strings.raw_get("format")?;
    let text: mlua::LuaString = function.call((format, number))?;
    Ok(text.as_bytes().to_vec())
}

/// Carries out a command of a script: what is wrong with it is a reply.
fn carry_out<H: Host>(context: &Context<H>, words: &[Vec<u8>]) -> Result<Reply, crate::Over> {
    let name = String::from_utf8_lossy(&words[0]).to_lowercase();
    let text = |word: &[u8]| Reply::Bulk(word.to_vec());
    const WRONG_NUMBER: &str = "ERR Wrong number of args calling Redis command from script";
    if let Some(command) = find(&words[0]).filter(|command| !command.is_internal()) {
        if !command.takes(words.len()) {
            return Ok(Reply::error(WRONG_NUMBER));
        }
        if context.is_read_only.get() && command.writes() {
            return Ok(Reply::error("ERR Write commands are not allowed from read-only scripts."));
        }
        if timeout_position(words).is_some() {
            let name = String::from_utf8_lossy(&words[0]);
            let text = format!("ERR {name} command is not allowed with BLOCK option from scripts");
            return Ok(Reply::error(text));
        }
        return context.host.borrow_mut().call(words);
    }
    if let ("publish" | "spublish", [_, channel, content]) = (name.as_str(), words) {
        if context.is_read_only.get() {
            return Ok(Reply::error("ERR Write commands are not allowed from read-only scripts."));
        }
        return context.host.borrow_mut().publish(channel, content, name == "spublish");
    }
    Ok(match (name.as_str(), words) {
        ("ping", [_]) => Reply::Simple("PONG".into()),
        ("ping" | "echo", [_, word]) => text(word),
        ("time", [_]) => {
            let now = context.host.borrow().now();
            let part = |part: u64| Reply::Bulk(part.to_string().into_bytes());
            Reply::Array(vec![part(now / 1_000_000), part(now % 1_000_000)])
        }
        ("ping" | "echo" | "time" | "publish" | "spublish", _) => Reply::error(WRONG_NUMBER),
        ("select" | "info" | "command" | "pubsub", _) => {
            Reply::error(format!("ERR unsupported: {name} from a script"))
        }
        (name, _) if FORBIDDEN.contains(&name) => {
            Reply::error("ERR This Redis command is not allowed from script")
        }
        _ => Reply::error("ERR Unknown Redis command called from script"),
    })
}

/// `redis.call` and `redis.pcall`.
fn call<H: Host>(
    lua: &Lua,
    context: &Context<H>,
    arguments: MultiValue,
    raises: bool,
) -> mlua::Result<Value> {
    let arguments: Vec<Value> = arguments.into_iter().collect();
    context.bounds.spend(lua, 10)?;
    if context.phase.get() == Some(Phase::Registers) {
        let name = if raises { "call" } else { "pcall" };
        let text = format!("Script attempted to access nonexistent global variable '{name}'");
        return Err(Raised::here(lua, text));
    }
    let reply = match words_of(lua, &arguments)? {
        Ok(words) => match carry_out(context, &words) {
            Ok(reply) => reply,
            Err(crate::Over) => return Err(context.bounds.end(lua, Stop::Over)),
        },
        Err(text) => Reply::error(text),
    };
    match reply {
        Reply::Error(text) if raises => Err(Raised::reply(text)),
        reply => to_lua(lua, &reply, context.replies_three.get()),
    }
}

/// A reply that a script makes: of one string, or an error that it returns.
fn made(lua: &Lua, arguments: &MultiValue, field: &str, of: fn(String) -> String) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    match arguments.front() {
        Some(Value::String(text)) if arguments.len() == 1 => {
            table.raw_set(field, of(text.to_string_lossy()))?;
        }
        _ => table.raw_set("err", "ERR wrong number or type of arguments")?,
    }
    Ok(table)
}

/// The text of an error: with a code of its own if it has several words.
fn error_text(text: String) -> String {
    let text = text.strip_prefix('-').unwrap_or(&text).trim_end_matches(['\r', '\n']);
    if text.contains(' ') { text.to_owned() } else { format!("ERR {text}") }
}

fn redis<H: Host + 'static>(lua: &Lua, context: &Rc<Context<H>>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let context = Rc::clone(context);
        let function =
            lua.create_function(move |lua, arguments: MultiValue| call(lua, &context, arguments, raises))?;
        table.raw_set(name, function)?;
    }
    let error = lua.create_function(|lua, arguments: MultiValue| made(lua, &arguments, "err", error_text))?;
    table.raw_set("error_reply", error)?;
    let status =
        lua.create_function(|lua, arguments: MultiValue| made(lua, &arguments, "ok", |text| text))?;
    table.raw_set("status_reply", status)?;
    let digest = lua.create_function(|lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        match arguments.as_slice() {
            [Value::String(_) | Value::Number(_) | Value::Integer(_)] => {
                Ok(sha1::hex(&string(lua, &arguments, 0, "sha1hex")?.as_bytes()))
            }
            // A value that is no string has no bytes.
            [_] => Ok(sha1::hex(b"")),
            _ => Err(Raised::reply("ERR wrong number of arguments")),
        }
    })?;
    table.raw_set("sha1hex", digest)?;
    let version = Rc::clone(context);
    let choose = lua.create_function(move |lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        let [version_given] = arguments.as_slice() else {
            return Err(Raised::reply("ERR redis.setresp() requires one argument."));
        };
        match lua.coerce_number(version_given.clone())?.map(truncate) {
            Some(2) => version.replies_three.set(false),
            Some(3) => version.replies_three.set(true),
            _ => return Err(Raised::reply("ERR RESP version must be 2 or 3.")),
        }
        Ok(())
    })?;
    table.raw_set("setresp", choose)?;
    let logging = Rc::clone(context);
    let log = move |lua: &Lua, arguments: MultiValue| log(lua, &logging, &arguments);
    table.raw_set("log", lua.create_function(log)?)?;
    if context.phase.get().is_some() {
        let context = Rc::clone(context);
        let register = lua.create_function(move |lua, arguments: MultiValue| {
            register(lua, &context, &arguments.into_iter().collect::<Vec<_>>())
        })?;
        table.raw_set("register_function", register)?;
    }
    // All that a script writes is one transaction, which is replicated as a whole.
    table.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    table.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    let constants: &[(&str, i64)] = &[
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REDIS_VERSION_NUM", 0x0007_000f),
    ];
    for (name, value) in constants {
        table.raw_set(*name, *value as f64)?;
    }
    table.raw_set("REDIS_VERSION", "7.0.15")?;
    Ok(table)
}

/// `redis.register_function`: a name and a function, or a table with these and more.
fn register<H>(lua: &Lua, context: &Context<H>, arguments: &[Value]) -> mlua::Result<()> {
    let refused = |text: &str| Err(Raised::reply(format!("ERR {text}")));
    if context.phase.get() != Some(Phase::Registers) {
        return Err(Raised::here(lua, "attempt to call field 'register_function' (a nil value)"));
    }
    context.bounds.spend(lua, 100)?;
    let (mut name, mut callback, mut description, mut flags) = (None, None, None, Vec::new());
    match arguments {
        [Value::Table(named)] => {
            for pair in named.pairs::<Value, Value>() {
                let (key, value) = pair?;
                let Value::String(key) = key else {
                    return refused("named argument key given to redis.register_function is not a string");
                };
                match (key.to_string_lossy().to_lowercase().as_str(), value) {
                    (of @ ("function_name" | "description"), value) => match text(lua, &value)? {
                        Some(given) if of == "function_name" => name = Some(given),
                        Some(given) => description = Some(given.as_bytes().to_vec()),
                        None => {
                            return refused(&format!(
                                "{of} argument given to redis.register_function must be a string"
                            ));
                        }
                    },
                    ("callback", Value::Function(given)) => callback = Some(given),
                    ("callback", _) => {
                        return refused(
                            "callback argument given to redis.register_function must be a function",
                        );
                    }
                    ("flags", Value::Table(given)) => match read_flags(&given)? {
                        Some(given) => flags = given,
                        None => return refused("unknown flag given"),
                    },
                    ("flags", _) => {
                        return refused(
                            "flags argument to redis.register_function must be a table representing function flags",
                        );
                    }
                    _ => return refused("unknown argument given to redis.register_function"),
                }
            }
        }
        [_] => {
            return refused(
                "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
            );
        }
        [given, function] => match (text(lua, given)?, function) {
            (None, _) => return refused("first argument to redis.register_function must be a string"),
            (given, Value::Function(function)) => (name, callback) = (given, Some(function.clone())),
            _ => return refused("second argument to redis.register_function must be a function"),
        },
        _ => return refused("wrong number of arguments to redis.register_function"),
    }
    let Some(name) = name else {
        return refused("redis.register_function must get a function name argument");
    };
    let Some(callback) = callback else {
        return refused("redis.register_function must get a callback argument");
    };
    if !is_name(&name.as_bytes()) {
        return refused(INVALID_NAME);
    }
    let name = name.to_string_lossy();
    let mut registered = context.registered.borrow_mut();
    if registered.iter().any(|known| known.function.name == name) {
        return refused("Function already exists in the library");
    }
    if registered.len() >= REGISTERED_MAX {
        return refused(&format!("a library may register at most {REGISTERED_MAX} functions"));
    }
    registered.push(Registered { function: crate::Function { name, description, flags }, callback });
    Ok(())
}

/// A string, or a number as one; none if it is neither.
fn text(lua: &Lua, value: &Value) -> mlua::Result<Option<mlua::LuaString>> {
    match value {
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(_) | Value::Integer(_) => lua.coerce_string(value.clone()),
        _ => Ok(None),
    }
}

/// The flags in a table; none if one of them is unknown.
fn read_flags(given: &Table) -> mlua::Result<Option<Vec<&'static str>>> {
    let mut flags = Vec::new();
    for at in 1_i64.. {
        match given.raw_get(at)? {
            Value::Nil => break,
            Value::String(flag) => match FLAGS.iter().find(|known| flag.as_bytes() == known.as_bytes()) {
                Some(known) if !flags.contains(known) => flags.push(*known),
                Some(_) => {}
                None => return Ok(None),
            },
            _ => return Ok(None),
        }
    }
    Ok(Some(flags))
}

/// Hands the host what a script logs, with spaces between.
fn log<H: Host>(lua: &Lua, context: &Context<H>, arguments: &MultiValue) -> mlua::Result<()> {
    let level = match arguments.front() {
        _ if arguments.len() < 2 => {
            return Err(Raised::reply("ERR redis.log() requires two arguments or more."));
        }
        Some(Value::Number(level)) => *level,
        Some(Value::Integer(level)) => *level as f64,
        _ => return Err(Raised::reply("ERR First argument must be a number (log level).")),
    };
    if !(0.0..=3.0).contains(&level) {
        return Err(Raised::reply("ERR Invalid debug level."));
    }
    let mut text = Vec::new();
    for argument in arguments.iter().skip(1) {
        context.bounds.spend(lua, 1)?;
        // Values that are no strings have no text.
        if let Some(part) = lua.coerce_string(argument.clone())? {
            if !text.is_empty() {
                text.push(b' ');
            }
            text.extend_from_slice(&part.as_bytes());
            context.bounds.check_bytes(lua, text.len())?;
        }
    }
    context.host.borrow_mut().log(level as u8, &text);
    Ok(())
}

fn random<H: Host + 'static>(lua: &Lua, context: &Rc<Context<H>>, native: &Table) -> mlua::Result<()> {
    let drawing = Rc::clone(context);
    let draw = move |lua: &Lua, arguments: MultiValue| -> mlua::Result<f64> {
        const MAX: u64 = i32::MAX as u64;
        let part = (drawing.random.borrow_mut().draw() % MAX) as f64 / MAX as f64;
        let arguments: Vec<Value> = arguments.into_iter().collect();
        let bound = |at| number(lua, &arguments, at, "random", None).map(|number| truncate(number) as f64);
        let (least, most) = match arguments.len() {
            0 => return Ok(part),
            1 => (1.0, bound(0)?),
            2 => (bound(0)?, bound(1)?),
            _ => return Err(Raised::here(lua, "wrong number of arguments")),
        };
        if least > most {
            let at = arguments.len();
            return Err(Raised::here(lua, format!("bad argument #{at} to 'random' (interval is empty)")));
        }
        Ok((part * (most - least + 1.0)).floor() + least)
    };
    native.raw_set("random", lua.create_function(draw)?)?;
    let context = Rc::clone(context);
    let seed = lua.create_function(move |lua, arguments: MultiValue| {
        let arguments: Vec<Value> = arguments.into_iter().collect();
        let seed = truncate(number(lua, &arguments, 0, "randomseed", None)?) as u32;
        *context.random.borrow_mut() = Random::new(seed);
        Ok(())
    })?;
    native.raw_set("randomseed", seed)
}
