//! The state of a script, from its making to the reply.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mlua::chunk::ChunkMode;
use mlua::{Error, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use quorate_redis_commands::Reply;
use quorate_redis_evaluator::Random;

use crate::convert;
use crate::library::{self, Globals};
use crate::script::Script;
use crate::{Host, Library, Limits, Outcome, Program, Run, Shared};

/// The hook looks at the bounds of a script after so many instructions.
const INSTRUCTIONS: u32 = 200;

/// How scripts are named in errors,
const SCRIPT: &str = "@user_script";

/// and how libraries are.
const FUNCTION: &str = "@user_function";

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
    fn new(limits: &Limits, stop: &Arc<AtomicBool>) -> Rc<Self> {
        Rc::new(Bounds {
            limits: limits.clone(),
            steps: Cell::new(limits.steps_max),
            deadline: Instant::now() + limits.time_max,
            stop: Arc::clone(stop),
            stopped: Cell::new(None),
        })
    }

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
    pub(crate) is_read_only: Cell<bool>,
    /// True once the script has chosen replies of version 3.
    pub(crate) replies_three: Cell<bool>,
    pub(crate) random: RefCell<Random>,
    /// How far a library is; none for a script.
    pub(crate) phase: Cell<Option<Phase>>,
    /// The functions that a library has registered.
    pub(crate) registered: RefCell<Vec<Registered>>,
}

/// How far a library is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its text runs, and registers functions.
    Registers,
    /// One of them runs.
    Called,
}

/// A function that a library has registered.
pub(crate) struct Registered {
    pub(crate) function: crate::Function,
    pub(crate) callback: Function,
}

impl<H> Context<H> {
    fn new(host: &Shared<H>, bounds: &Rc<Bounds>, is_read_only: bool, phase: Option<Phase>) -> Rc<Self> {
        Rc::new(Context {
            host: Rc::clone(host),
            bounds: Rc::clone(bounds),
            is_read_only: Cell::new(is_read_only),
            replies_three: Cell::new(false),
            random: RefCell::new(Random::default()),
            phase: Cell::new(phase),
            registered: RefCell::default(),
        })
    }
}

fn state() -> mlua::Result<Lua> {
    Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())
}

/// The words of a compiler about a script,
fn syntax(error: &Error) -> Reply {
    Reply::error(format!("ERR Error compiling script (new function): {}", compiler(error)))
}

/// and as such.
fn compiler(error: &Error) -> String {
    match error {
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// The fault of a script before it runs.
pub(crate) fn check(script: &Script) -> Result<(), Reply> {
    let parsed = script.parse()?;
    let failed = |error: Error| Reply::error(format!("ERR no script can run: {error}"));
    let lua = state().map_err(failed)?;
    lua.set_memory_limit(Limits::default().memory_bytes_max).map_err(failed)?;
    let function = lua.load(parsed.code).set_name(SCRIPT).set_mode(ChunkMode::Text).into_function();
    function.map(|_| ()).map_err(|error| syntax(&error))
}

/// Runs a script or a function to its end. It waits where the host waits.
pub fn run<H: Host + 'static>(run: &Run<'_>, limits: &Limits, host: &Shared<H>) -> Outcome {
    let bounds = Bounds::new(limits, &run.stop);
    let outcome = match run.program {
        Program::Script(script) => match script.parse() {
            Ok(parsed) => {
                let is_read_only = run.is_read_only || !parsed.may_write;
                run_script(run, script, parsed.code, &Context::new(host, &bounds, is_read_only, None))
            }
            Err(reply) => return Outcome::Invalid(reply),
        },
        Program::Function(library, name) => {
            let context = Context::new(host, &bounds, run.is_read_only, Some(Phase::Registers));
            let outcome = run_function(run, library, name, &context);
            context.registered.borrow_mut().clear();
            outcome
        }
    };
    concluded(outcome, &bounds, limits)
}

/// Runs the text of a library, which registers its functions.
///
/// # Errors
/// It is [invalid](Outcome::Invalid), or was [stopped](Outcome::Stopped).
pub fn register<H: Host + 'static>(
    library: &Library,
    stop: &Arc<AtomicBool>,
    limits: &Limits,
    host: &Shared<H>,
) -> Result<Vec<crate::Function>, Outcome> {
    let bounds = Bounds::new(limits, stop);
    let context = Context::new(host, &bounds, true, Some(Phase::Registers));
    let outcome = load_library(library, &context).map(|loaded| match loaded {
        Ok(_) => Outcome::Ended(Reply::OK),
        Err(reply) => Outcome::Invalid(reply),
    });
    let functions = context.registered.take().into_iter().map(|registered| registered.function).collect();
    match concluded(outcome, &bounds, limits) {
        Outcome::Ended(_) => Ok(functions),
        other => Err(other),
    }
}

/// The outcome, whatever a script has made of being stopped.
fn concluded(outcome: mlua::Result<Outcome>, bounds: &Bounds, limits: &Limits) -> Outcome {
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

/// A state with a text that is compiled in it.
struct Ready {
    lua: Lua,
    /// Calls a function, and catches its errors.
    call: Function,
    text: Function,
}

/// Makes a state, with `KEYS` and `ARGV` if they are given; what is wrong with the text comes as an error within.
fn make_ready<H: Host + 'static>(
    code: &[u8],
    name: &str,
    arguments: Option<Globals<'_>>,
    context: &Rc<Context<H>>,
) -> mlua::Result<Result<Ready, Error>> {
    let lua = state()?;
    let native = library::native(&lua, arguments, context)?;
    let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
    let (environment, call): (Table, Function) = prelude.call(native)?;
    library::set_environment(&lua, &environment)?;
    lua.set_memory_limit(context.bounds.limits.memory_bytes_max)?;
    let text = lua.load(code).set_name(name).set_mode(ChunkMode::Text).set_environment(environment);
    let text = match text.into_function() {
        Ok(text) => text,
        Err(error) if is_out_of_memory(&error) => return Err(error),
        Err(error) => return Ok(Err(error)),
    };
    context.bounds.watch(&lua, INSTRUCTIONS)?;
    Ok(Ok(Ready { lua, call, text }))
}

/// The error that a script has ended with, and its line.
fn fault(value: &Value) -> mlua::Result<(String, i64)> {
    let Value::Table(error) = value else {
        // A handler that fails, or has no memory to run in.
        let text = if let Value::String(text) = value { text.to_string_lossy() } else { String::new() };
        if text == NO_MEMORY {
            return Err(Error::MemoryError(text));
        }
        return Ok((format!("ERR {text}"), 0));
    };
    let text = match error.raw_get::<Value>("err")? {
        Value::String(text) => text.to_string_lossy(),
        _ => "ERR unknown error".to_owned(),
    };
    if text.strip_prefix("ERR ") == Some(NO_MEMORY) {
        return Err(Error::MemoryError(text));
    }
    Ok((text, error.raw_get("line").unwrap_or(0)))
}

/// The result of a script, as a reply.
fn ended<H>(
    lua: &Lua,
    context: &Context<H>,
    (has_ended, value): (bool, Value),
    (script, name): (&str, &str),
) -> mlua::Result<Outcome> {
    if context.bounds.stopped().is_some() {
        return Ok(Outcome::Over);
    }
    if has_ended {
        let reply = convert::to_reply(lua, &context.bounds, value, context.replies_three.get());
        return reply.map(Outcome::Ended);
    }
    let (text, line) = fault(&value)?;
    Ok(Outcome::Ended(Reply::Error(format!("{text} script: {script}, on {name}:{line}."))))
}

fn run_script<H: Host + 'static>(
    run: &Run<'_>,
    script: &Script,
    code: &[u8],
    context: &Rc<Context<H>>,
) -> mlua::Result<Outcome> {
    let Ready { lua, call, text } = match make_ready(code, SCRIPT, Some((run.keys, run.arguments)), context)?
    {
        Ok(ready) => ready,
        Err(error) => return Ok(Outcome::Invalid(syntax(&error))),
    };
    let result = call.call(text)?;
    ended(&lua, context, result, (script.sha(), SCRIPT))
}

/// Runs the text of a library; the reply of `FUNCTION LOAD` if that is wrong.
fn load_library<H: Host + 'static>(
    library: &Library,
    context: &Rc<Context<H>>,
) -> mlua::Result<Result<Ready, Reply>> {
    let ready = match make_ready(library.body(), FUNCTION, None, context)? {
        Ok(ready) => ready,
        Err(error) => {
            let text = compiler(&error);
            return Ok(Err(Reply::error(format!("ERR Error compiling function: {text}"))));
        }
    };
    let (has_ended, value): (bool, Value) = ready.call.call(ready.text.clone())?;
    if context.bounds.stopped().is_some() || has_ended && !context.registered.borrow().is_empty() {
        return Ok(Ok(ready));
    }
    if has_ended {
        return Ok(Err(Reply::error("ERR No functions registered")));
    }
    let (text, _) = fault(&value)?;
    Ok(Err(Reply::error(format!("ERR Error registering functions: {text}"))))
}

fn run_function<H: Host + 'static>(
    run: &Run<'_>,
    library: &Library,
    name: &str,
    context: &Rc<Context<H>>,
) -> mlua::Result<Outcome> {
    let ready = match load_library(library, context)? {
        Ok(ready) => ready,
        Err(reply) => return Ok(Outcome::Invalid(reply)),
    };
    if context.bounds.stopped().is_some() {
        return Ok(Outcome::Over);
    }
    let found = context.registered.borrow().iter().find_map(|registered| {
        let function = &registered.function;
        (function.name == name).then(|| (registered.callback.clone(), function.only_reads()))
    });
    let Some((callback, only_reads)) = found else {
        return Ok(Outcome::Invalid(Reply::error("ERR Function not found")));
    };
    context.phase.set(Some(Phase::Called));
    context.is_read_only.set(run.is_read_only || only_reads);
    let Ready { lua, call, .. } = ready;
    let (keys, arguments) = (library::list(&lua, run.keys)?, library::list(&lua, run.arguments)?);
    let result = call.call((callback, keys, arguments))?;
    ended(&lua, context, result, (name, FUNCTION))
}
