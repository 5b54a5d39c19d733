//! The codecs that scripts of Redis have: `cjson`, `cmsgpack`, `struct`, and the patterns of `string`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use quorate_core::Random;
use quorate_redis_commands::Reply;
use quorate_redis_scripts::{Host, Limits, Outcome, Over, Program, Run, Script, run};

use crate::Target;

pub(super) const JSON: Target = Target {
    name: "json",
    what: "`cjson`: reads what is JSON, and what it writes comes back",
    draw: draw_json,
    run: run_json,
};

pub(super) const MESSAGE_PACK: Target = Target {
    name: "message-pack",
    what: "`cmsgpack`: any bytes are refused or read, and what it packs comes back",
    draw: draw_message_pack,
    run: run_message_pack,
};

pub(super) const STRUCTS: Target = Target {
    name: "structs",
    what: "`struct`: any format over any bytes ends, and what was unpacked is packed alike",
    draw: draw_structs,
    run: run_structs,
};

pub(super) const PATTERNS: Target = Target {
    name: "patterns",
    what: "`string.find`, `match`, `gsub` and `gmatch`: any pattern over any text ends within bounds",
    draw: draw_patterns,
    run: run_patterns,
};

/// Enough for inputs of a few kilobytes, and soon over.
fn limits() -> Limits {
    Limits {
        steps_max: 2_000_000,
        memory_bytes_max: 16 * 1024 * 1024,
        time_max: Duration::from_secs(20),
        reply_bytes_max: 4 * 1024 * 1024,
    }
}

/// A host that no script asks for anything.
struct Nothing;

impl Host for Nothing {
    fn call(&mut self, _: &[Vec<u8>]) -> Result<Reply, Over> {
        Ok(Reply::Null)
    }

    fn publish(&mut self, _: &[u8], _: &[u8], _: bool) -> Result<Reply, Over> {
        Ok(Reply::Integer(0))
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn now(&self) -> u64 {
        0
    }
}

/// The reply of a script to these arguments; none if it went beyond its limits.
fn reply(code: &str, arguments: &[Vec<u8>]) -> Option<Reply> {
    let script = Script::new(code.as_bytes().to_vec());
    let one = Run {
        program: Program::Script(&script),
        keys: &[],
        arguments,
        is_read_only: false,
        stop: Arc::new(AtomicBool::new(false)),
    };
    match run(&one, &limits(), &Rc::new(RefCell::new(Nothing))) {
        Outcome::Ended(reply) => Some(reply),
        Outcome::Stopped(Reply::Error(text)) => {
            assert!(text.ends_with("nothing was done"), "{text}");
            None
        }
        other => panic!("{other:?}"),
    }
}

/// The reply of a script that catches every error of what it tries: an array whose first element says how far it has come.
fn steps(code: &str, arguments: &[Vec<u8>]) -> Option<Vec<Reply>> {
    match reply(code, arguments)? {
        Reply::Array(steps) => Some(steps),
        // The error of a number that does not fit, of a depth.
        Reply::Error(_) => None,
        other => panic!("{other:?}"),
    }
}

fn draw_document(random: &mut Random, depth: u64) -> String {
    let leaf = depth == 0 || random.chance(0.4);
    match random.below(if leaf { 8 } else { 10 }) {
        0 => "null".to_owned(),
        1 => random.chance(0.5).to_string(),
        2 => (random.next_u64() as i64 >> random.below(64)).to_string(),
        3 => {
            ["0", "-0", "1e5", "1E-5", "0.1", "123456789012345678901234567890", "1e308", "5e-324", "-1.5e+3"]
                [random.index(9)]
            .to_owned()
        }
        4..8 => draw_string(random),
        8 => {
            let elements: Vec<_> = (0..random.below(4)).map(|_| draw_document(random, depth - 1)).collect();
            format!("[{}]", elements.join(", "))
        }
        _ => {
            let member =
                |random: &mut Random| format!("{}:{}", draw_string(random), draw_document(random, depth - 1));
            let members: Vec<_> = (0..random.below(4)).map(|_| member(random)).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

fn draw_string(random: &mut Random) -> String {
    const PARTS: [&str; 10] =
        ["a", "key", "\\n", "\\\\", "\\\"", "\\u0000", "\\u00e9", "\\ud83d\\ude00", "é😀", "\\/"];
    let parts: Vec<_> = (0..random.below(5)).map(|_| PARTS[random.index(PARTS.len())]).collect();
    format!("\"{}\"", parts.concat())
}

fn draw_json(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => {
            let depth = random.between(1, 1_100) as usize;
            format!("{}{}", "[".repeat(depth), "]".repeat(depth)).into_bytes()
        }
        _ => draw_document(random, 5).into_bytes(),
    }
}

fn sorted(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.sort_unstable();
    bytes
}

fn run_json(input: &[u8]) {
    const CODE: &str = "local ok, value = pcall(cjson.decode, ARGV[1])
        if not ok then return {0} end
        local ok, text = pcall(cjson.encode, value)
        if not ok then return {1} end
        local ok, value = pcall(cjson.decode, text)
        if not ok then return {2, text} end
        return {3, text, cjson.encode(value)}";
    let Some(steps) = steps(CODE, &[input.to_vec()]) else { return };
    match steps.as_slice() {
        [Reply::Integer(0)] => {
            // It reads more than JSON, and no less. A document beside an object or an array is none to it.
            let parsed = serde_json::from_slice::<serde_json::Value>(input);
            assert!(!parsed.is_ok_and(|value| value.is_object() || value.is_array()), "JSON is refused");
        }
        // Tables that JSON cannot tell, numbers that are none.
        [Reply::Integer(1)] => {}
        [Reply::Integer(3), Reply::Bulk(text), Reply::Bulk(again)] => {
            // The members of an object have no order.
            assert_eq!(sorted(text.clone()), sorted(again.clone()), "it comes back as another one");
        }
        other => panic!("what was written is not read: {other:?}"),
    }
}

fn draw_message_pack(random: &mut Random) -> Vec<u8> {
    const CODE: &str = "local ok, value = pcall(cjson.decode, ARGV[1])
        if not ok then return '' end
        return cmsgpack.pack(value, ARGV[1], #ARGV[1], 0.5)";
    if random.chance(0.3) {
        return (0..random.below(60)).map(|_| random.next_u64() as u8).collect();
    }
    match reply(CODE, &[draw_document(random, 4).into_bytes()]) {
        Some(Reply::Bulk(packed)) => packed,
        _ => Vec::new(),
    }
}

fn run_message_pack(input: &[u8]) {
    const CODE: &str = "local values = {pcall(cmsgpack.unpack, ARGV[1])}
        if not values[1] then return {0} end
        local ok, packed = pcall(cmsgpack.pack, values[2])
        if not ok then return {1} end
        local ok, value = pcall(cmsgpack.unpack, packed)
        if not ok then return {2, packed} end
        pcall(cmsgpack.unpack_one, ARGV[1], #ARGV[1] - 1)
        pcall(cmsgpack.unpack_limit, ARGV[1], 2, 1)
        return {3, packed, cmsgpack.pack(value)}";
    let Some(steps) = steps(CODE, &[input.to_vec()]) else { return };
    match steps.as_slice() {
        [Reply::Integer(0 | 1)] => {}
        [Reply::Integer(3), Reply::Bulk(packed), Reply::Bulk(again)] => {
            assert_eq!(sorted(packed.clone()), sorted(again.clone()), "it comes back as another one");
        }
        other => panic!("what was packed is not unpacked: {other:?}"),
    }
}

/// A format, the end of a line, and bytes.
fn draw_structs(random: &mut Random) -> Vec<u8> {
    const PARTS: [&str; 24] = [
        "b", "B", "h", "H", "l", "L", "T", "f", "d", "s", "c", "c0", "c5", "x", "i", "I", "i3", "I8", "<",
        ">", "=", "!", "!4", " ",
    ];
    let format: Vec<_> = (0..random.between(1, 8)).map(|_| PARTS[random.index(PARTS.len())]).collect();
    let mut input = format.concat().into_bytes();
    input.push(b'\n');
    input.extend((0..random.below(64)).map(|_| if random.chance(0.3) { 0 } else { random.next_u64() as u8 }));
    input
}

fn halves(input: &[u8]) -> [Vec<u8>; 2] {
    let (first, second) = input.split_at(input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len()));
    [first.to_vec(), second.get(1..).unwrap_or_default().to_vec()]
}

fn run_structs(input: &[u8]) {
    const CODE: &str = "pcall(struct.size, ARGV[1])
        pcall(struct.unpack, ARGV[1], ARGV[2], #ARGV[2])
        pcall(struct.pack, ARGV[1], 1, 2, 'x', 4, 5, 6, 7, 8)
        local values = {pcall(struct.unpack, ARGV[1], ARGV[2])}
        if not values[1] then return {0} end
        local ok, packed = pcall(struct.pack, ARGV[1], unpack(values, 2, #values - 1))
        if not ok then return {1} end
        local again = {pcall(struct.unpack, ARGV[1], packed)}
        if not again[1] or #again ~= #values then return {2, packed} end
        for at = 2, #values - 1 do
          if again[at] ~= values[at] and values[at] == values[at] then return {3, packed, at} end
        end
        return {4}";
    let Some(steps) = steps(CODE, &halves(input)) else { return };
    match steps.as_slice() {
        [Reply::Integer(0 | 1 | 4)] => {}
        other => panic!("what was unpacked and packed is another one: {other:?}"),
    }
}

/// A pattern, the end of a line, and a text.
fn draw_patterns(random: &mut Random) -> Vec<u8> {
    const PARTS: [&str; 30] = [
        "a", "b", ".", "%a", "%d", "%s", "%w", "%W", "%%", "%z", "[abc]", "[^a]", "[%a_]", "[a-z]", "[]]",
        "[^]-a]", "(", ")", "()", "*", "+", "-", "?", "^", "$", "%b()", "%f[%a]", "%1", "(a*)", "%",
    ];
    let pattern: Vec<_> = (0..random.between(1, 10)).map(|_| PARTS[random.index(PARTS.len())]).collect();
    let mut input = pattern.concat().into_bytes();
    input.push(b'\n');
    input.extend((0..random.below(300)).map(|_| b"aab(b) _\0\xff9"[random.index(11)]));
    input
}

fn run_patterns(input: &[u8]) {
    const CODE: &str = "local pattern, text = ARGV[1], ARGV[2]
        local found = {pcall(string.find, text, pattern)}
        pcall(string.match, text, pattern, -5)
        pcall(string.gsub, text, pattern, '%0%1')
        pcall(string.gsub, text, pattern, function(a) return a end, 5)
        pcall(function() local n = 0 for _ in string.gmatch(text, pattern) do n = n + 1 if n > 50 then break end end end)
        pcall(string.format, pattern, 1, 'x', 2.5)
        if not found[1] then return {0} end
        if found[2] == nil then return {1} end
        return {2, found[2], found[3]}";
    let [pattern, text] = halves(input);
    let length = text.len() as i64;
    let Some(steps) = steps(CODE, &[pattern, text]) else { return };
    match steps.as_slice() {
        [Reply::Integer(0 | 1)] => {}
        // An empty match behind the end ends before it begins.
        [Reply::Integer(2), Reply::Integer(from), Reply::Integer(to)] => {
            assert!(1 <= *from && from - 1 <= *to && *to <= length, "found from {from} to {to} of {length}");
        }
        other => panic!("{other:?}"),
    }
}
