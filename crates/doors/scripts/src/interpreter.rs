//! The state of a script, from its making to the reply.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mlua::chunk::ChunkMode;
use mlua::{Error, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use quorate_redis_commands::Reply;

use crate::convert;
use crate::library;
use crate::script::Script;
use crate::{Host, Limits, Outcome, Run, Shared};

/// The hook looks at the bounds of a script after so many instructions.
const INSTRUCTIONS: u32 = 200;

/// How scripts are named in errors.
pub(crate) const NAME: &str = "@user_script";

/// The words of Lua where its allocator has refused.
pub(crate) const NO_MEMORY: &str = "not enough memory";

/// Why a script has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Steps,
    Time,
    Killed,
    Memory,
    Reply,
    Over,
}

/// An error of native code, as a script is to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// A message, with its place where it has one.
    Text(String),
    /// A table with this in its field `err`.
    Reply(String),
}

impl std::fmt::Display for Raised {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Text(text) | Raised::Reply(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// A message that begins with the place where a script has called this native function.
    pub(crate) fn here(lua: &Lua, text: impl std::fmt::Display) -> Error {
        let place = lua.inspect_stack(1, |frame| {
            let source = frame.source().short_src.map(|source| source.into_owned());
            source.zip(frame.current_line())
        });
        // A protected call is ours, and has no place.
        let place = place.flatten().filter(|(source, _)| source != "prelude");
        let place = place.map_or(String::new(), |(source, line)| format!("{source}:{line}: "));
        Error::external(Raised::Text(format!("{place}{text}")))
    }

    pub(crate) fn text(text: impl Into<String>) -> Error {
        Error::external(Raised::Text(text.into()))
    }

    pub(crate) fn reply(text: impl Into<String>) -> Error {
        Error::external(Raised::Reply(text.into()))
    }
}

/// The bounds of a script, and how much is left of them.
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    steps: Cell<u64>,
    deadline: Instant,
    stop: Arc<AtomicBool>,
    stopped: Cell<Option<Stop>>,
}

impl Bounds {
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stopped.get()
    }

    pub(crate) fn steps_left(&self) -> u64 {
        self.steps.get()
    }

    /// Ends the script: each further instruction is an error, whether or not the script catches them.
    pub(crate) fn end(self: &Rc<Self>, lua: &Lua, why: Stop) -> Error {
        if self.stopped.get().is_none() {
            self.stopped.set(Some(why));
        }
        if let Err(error) = self.watch(lua, 1) {
            return error;
        }
        Error::runtime("the script has to end")
    }

    /// Counts the work of native code.
    pub(crate) fn spend(self: &Rc<Self>, lua: &Lua, steps: u64) -> mlua::Result<()> {
        if self.stopped.get().is_some() {
            return Err(self.end(lua, Stop::Over));
        }
        match self.steps.get().checked_sub(steps) {
            Some(left) => self.steps.set(left),
            None => return Err(self.end(lua, Stop::Steps)),
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(self.end(lua, Stop::Killed));
        }
        if Instant::now() > self.deadline {
            return Err(self.end(lua, Stop::Time));
        }
        Ok(())
    }

    /// Refuses what native code would make of more bytes than the script may hold.
    pub(crate) fn check_bytes(self: &Rc<Self>, lua: &Lua, bytes: usize) -> mlua::Result<()> {
        if bytes > self.limits.memory_bytes_max { Err(self.end(lua, Stop::Memory)) } else { Ok(()) }
    }

    /// Has the hook look again after so many instructions, in this coroutine and in those that it makes.
    fn watch(self: &Rc<Self>, lua: &Lua, instructions: u32) -> mlua::Result<()> {
        let bounds = Rc::clone(self);
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(instructions), move |lua, _| {
            match bounds.stopped() {
                // Nothing that the script does now can keep it from its end.
                Some(why) => Err(bounds.end(lua, why)),
                None => bounds.spend(lua, u64::from(instructions)).map(|()| VmState::Continue),
            }
        })
    }
}

/// The state that native functions share.
pub(crate) struct Context<H> {
    pub(crate) host: Shared<H>,
    pub(crate) bounds: Rc<Bounds>,
    pub(crate) is_read_only: bool,
    /// True once the script has chosen replies of version 3.
    pub(crate) replies_three: Cell<bool>,
    pub(crate) random: RefCell<library::Random>,
}

fn state() -> mlua::Result<Lua> {
    Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())
}

/// The words of a compiler.
fn syntax(error: &Error) -> Reply {
    let text = match error {
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    Reply::error(format!("ERR Error compiling script (new function): {text}"))
}

/// The fault of a script before it runs.
pub(crate) fn check(script: &Script) -> Result<(), Reply> {
    let parsed = script.parse()?;
    let failed = |error: Error| Reply::error(format!("ERR no script can run: {error}"));
    let lua = state().map_err(failed)?;
    lua.set_memory_limit(Limits::default().memory_bytes_max).map_err(failed)?;
    let function = lua.load(parsed.code).set_name(NAME).set_mode(ChunkMode::Text).into_function();
    function.map(|_| ()).map_err(|error| syntax(&error))
}

/// Runs a script to its end. It waits where the host waits.
pub fn run<H: Host + 'static>(run: &Run<'_>, limits: &Limits, host: &Shared<H>) -> Outcome {
    let bounds = Rc::new(Bounds {
        limits: limits.clone(),
        steps: Cell::new(limits.steps_max),
        deadline: Instant::now() + limits.time_max,
        stop: Arc::clone(&run.stop),
        stopped: Cell::new(None),
    });
    let context = |may_write: bool| {
        Rc::new(Context {
            host: Rc::clone(host),
            bounds: Rc::clone(&bounds),
            is_read_only: run.is_read_only || !may_write,
            replies_three: Cell::new(false),
            random: RefCell::new(library::Random::default()),
        })
    };
    let parsed = match run.script.parse() {
        Ok(parsed) => parsed,
        Err(reply) => return Outcome::Invalid(reply),
    };
    let outcome = try_run(run, parsed.code, context(parsed.may_write));
    match (bounds.stopped(), outcome) {
        (Some(Stop::Over), _) => Outcome::Over,
        (Some(stop), _) => Outcome::Stopped(Reply::error(words(stop, limits))),
        (None, Ok(outcome)) => outcome,
        (None, Err(error)) if is_out_of_memory(&error) => {
            Outcome::Stopped(Reply::error(words(Stop::Memory, limits)))
        }
        (None, Err(error)) => Outcome::Stopped(Reply::error(format!("ERR the script has failed: {error}"))),
    }
}

pub(crate) fn is_out_of_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } => is_out_of_memory(cause),
        _ => false,
    }
}

fn words(stop: Stop, limits: &Limits) -> String {
    let what = match stop {
        Stop::Steps => format!("has taken more than {} steps", limits.steps_max),
        Stop::Time => format!("has run for more than {} ms", limits.time_max.as_millis()),
        Stop::Killed => return "ERR Error running script: Script killed by user with SCRIPT KILL".to_owned(),
        Stop::Memory => format!("takes more than {} bytes of memory", limits.memory_bytes_max),
        Stop::Reply => format!("replies more than {} bytes", limits.reply_bytes_max),
        Stop::Over => "has lost its transaction".to_owned(),
    };
    format!("ERR the script {what}, and nothing was done")
}

fn try_run<H: Host + 'static>(run: &Run<'_>, code: &[u8], context: Rc<Context<H>>) -> mlua::Result<Outcome> {
    let lua = state()?;
    let bounds = Rc::clone(&context.bounds);
    let native = library::native(&lua, run, &context)?;
    let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
    let (environment, call): (Table, Function) = prelude.call(native)?;
    library::set_environment(&lua, &environment)?;
    lua.set_memory_limit(bounds.limits.memory_bytes_max)?;
    let script = lua.load(code).set_name(NAME).set_mode(ChunkMode::Text).set_environment(environment);
    let script = match script.into_function() {
        Ok(script) => script,
        Err(error) if is_out_of_memory(&error) => return Err(error),
        Err(error) => return Ok(Outcome::Invalid(syntax(&error))),
    };
    bounds.watch(&lua, INSTRUCTIONS)?;
    let (has_ended, value): (bool, Value) = call.call(script)?;
    if bounds.stopped().is_some() {
        return Ok(Outcome::Over);
    }
    if has_ended {
        return convert::to_reply(&lua, &bounds, value, context.replies_three.get()).map(Outcome::Ended);
    }
    let Value::Table(error) = value else {
        // A handler that fails, or has no memory to run in.
        let text = if let Value::String(text) = &value { text.to_string_lossy() } else { String::new() };
        if text == NO_MEMORY {
            return Err(Error::MemoryError(text));
        }
        let text = format!("ERR {text} script: {}, on {NAME}:0.", run.script.sha());
        return Ok(Outcome::Ended(Reply::Error(text)));
    };
    let text = match error.raw_get::<Value>("err")? {
        Value::String(text) => text.to_string_lossy(),
        _ => "ERR unknown error".to_owned(),
    };
    if text.strip_prefix("ERR ") == Some(NO_MEMORY) {
        return Err(Error::MemoryError(text));
    }
    let line: i64 = error.raw_get("line").unwrap_or(0);
    let text = format!("{text} script: {}, on {NAME}:{line}.", run.script.sha());
    Ok(Outcome::Ended(Reply::Error(text)))
}
