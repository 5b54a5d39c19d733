//! Scripts that mean no good: each ends, with an error of its own or with nothing done.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use quorate_redis_commands::Reply;
use quorate_redis_scripts::{Library, Limits, Outcome, Program, Run, STACK_BYTES, register, run};

use crate::{Echo, reply, run_measured, run_within};

fn limits() -> Limits {
    Limits { steps_max: 3_000_000, time_max: Duration::from_secs(10), ..Limits::default() }
}

/// Runs a script that is to be stopped, and gives the reason.
fn stopped(code: &str) -> String {
    let (outcome, took) = run_measured(limits(), code, false);
    assert!(took < Duration::from_secs(15), "{code} took {took:?}");
    match outcome {
        Outcome::Stopped(Reply::Error(text)) => text,
        other => panic!("{code}: {other:?}"),
    }
}

#[test]
fn endless_scripts_end_whatever_they_catch() {
    for code in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "local function f() return f() end return f()",
        "local c = coroutine.wrap(function() while true do end end) while true do pcall(c) end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "local t = setmetatable({}, {__index = function(t, k) while true do end end}) while true do pcall(function() return t.x end) end",
        "while true do pcall(redis.call, 'set', 'k', 'v') end",
        "while true do pcall(string.find, 'x', 'y') end",
        "return string.find(string.rep('a', 5000), string.rep('a*', 30) .. 'b')",
        "while true do pcall(string.gsub, string.rep('a', 5000), string.rep('a*', 30) .. 'b', '') end",
        "table.sort({1, 2, 3}, function() while true do end end)",
        "return string.gsub(string.rep('x', 100), '.', function() while true do end end)",
        "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
        "return cjson.encode(setmetatable({}, {__index = function() while true do end end})) .. (function() while true do end end)()",
    ] {
        let text = stopped(code);
        assert!(["steps", "memory", "ms"].iter().any(|what| text.contains(what)), "{code}: {text}");
        assert!(text.ends_with("nothing was done"), "{text}");
    }
}

#[test]
fn clocks_end_what_counts_too_little() {
    let limits = Limits { steps_max: u64::MAX, time_max: Duration::from_millis(100), ..Limits::default() };
    let outcome = run_within(limits, "while true do pcall(function() while true do end end) end", false);
    assert!(matches!(outcome, Outcome::Stopped(Reply::Error(text)) if text.contains("100 ms")));
}

#[test]
fn memory_is_bounded() {
    for code in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "return string.rep(string.rep('x', 1e6), 1e6)",
        "return string.gsub(string.rep('x', 1e6), 'x', string.rep('y', 1000))",
        "local t = {} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
        "local t = {} for i = 1, 40 do t = {t, t} end return t",
        "local t = {} for i = 1, 100 do t[i] = string.rep('x', 1e6) end return table.concat(t)",
    ] {
        let text = stopped(code);
        assert!(
            ["memory", "replies", "steps", "ms"].iter().any(|what| text.contains(what)),
            "{code}: {text}"
        );
    }
}

#[test]
fn depth_is_bounded() {
    for (code, expected) in [
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        (
            "local f f = function() return pcall(f) end local a = {f()} return {err = tostring(#a) .. ' stack overflow'}",
            "overflow",
        ),
        ("return {err = select('#', pcall(unpack, {}, 1, 3000)) .. ' results'}", "3001 results"),
        (
            "local function many() return unpack({}, 1, 3000) end return {err = select('#', xpcall(many, tostring)) .. ' results'}",
            "3001",
        ),
        ("return load(function() return '          ' end)", "chunk is too long"),
        ("local t = {} t[1] = t return cjson.encode(t)", "excessive nesting"),
        ("return cjson.decode(string.rep('[', 2000))", "too many nested"),
        ("local f f = function() return string.gsub('x', 'x', f) end return f()", "overflow"),
        ("return loadstring('return ' .. string.rep('(', 1000))() ", "nil value"),
    ] {
        let Reply::Error(text) = reply(code) else { panic!("{code}: no error") };
        assert!(text.contains(expected), "{code}: {text}");
    }
    let nested = reply("local t = {} t[1] = t return t");
    assert!(format!("{nested:?}").contains("reached lua stack limit"));
}

#[test]
fn what_one_script_spoils_no_other_one_sees() {
    reply("pcall(function() getmetatable('').__index = nil end) pcall(rawset, string, 'len', nil) return 1");
    reply("KEYS[1] = 'y' ARGV = nil");
    assert_eq!(
        reply("return {('x'):len(), KEYS[1]}"),
        Reply::Array(vec![Reply::Integer(1), Reply::bulk("k1")])
    );
}

#[test]
fn a_lost_transaction_ends_the_script_whatever_it_catches() {
    let code = "while true do pcall(redis.call, 'keys', '*') end";
    assert_eq!(run_within(limits(), code, false), Outcome::Over);
}

/// On any input, `cmsgpack` and `struct` end within their bounds.
#[test]
fn packed_bytes_that_promise_too_much_are_refused() {
    for (code, reason) in [
        ("return cmsgpack.unpack(string.char(0xdd, 255, 255, 255, 255, 1))", "Missing bytes in input."),
        ("return cmsgpack.unpack(string.char(0xdb, 255, 255, 255, 255))", "Missing bytes in input."),
        ("return cmsgpack.unpack(string.rep(string.char(0x91), 100000))", "Bad data format in input."),
        ("return cmsgpack.unpack(string.char(0x81, 0xc0, 1))", "Bad data format in input."),
        ("return #{cmsgpack.unpack(string.rep('a', 100000))}", "too many return values"),
        ("return struct.pack('c2147483647', 'x')", "string too short"),
        ("return struct.unpack('c2147483647', 'x')", "data string too short"),
        ("return struct.unpack('b', 'x', 9007199254740992)", "data string too short"),
        ("return struct.unpack(string.rep('b', 8000), string.rep('x', 8000))", "too many results"),
        ("return struct.unpack('i4c0', struct.pack('i4', -1))", "data string too short"),
    ] {
        let text = crate::error(code);
        assert!(text.contains(reason), "{code}: {text}");
    }
    let code = "local t = {} for i = 1, 20 do t = {t, t, t, t} end return #cmsgpack.pack(t)";
    assert!(matches!(run_within(limits(), code, false), Outcome::Stopped(_)));
}

/// A library may be as hostile as a script.
#[test]
fn a_library_that_never_ends_is_stopped() {
    let library = |body: &str| Library::new(format!("#!lua name=l\n{body}").into_bytes()).unwrap();
    for body in ["while true do end", "pcall(function() while true do end end) while true do end"] {
        let library = library(body);
        let registers = move || {
            let host = Rc::new(RefCell::new(Echo::default()));
            register(&library, &Arc::new(AtomicBool::new(false)), &limits(), &host)
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(registers).unwrap();
        assert!(matches!(thread.join().unwrap(), Err(Outcome::Stopped(_))), "{body}");
    }
    let library = library("redis.register_function('f', function(keys) while true do end end)");
    let calls = move || {
        let host = Rc::new(RefCell::new(Echo::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let functions = register(&library, &stop, &limits(), &host).unwrap();
        assert_eq!(functions.len(), 1);
        let program = Program::Function(&library, "f");
        let one = Run { program, keys: &[], arguments: &[], is_read_only: false, stop };
        run(&one, &limits(), &host)
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(calls).unwrap();
    assert!(matches!(thread.join().unwrap(), Outcome::Stopped(_)));
}
