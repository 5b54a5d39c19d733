//! Functions of libraries: the replies of a real Redis, kept in the database, and part of transactions.

use std::time::{Duration, Instant};

use quorate_gateway::Limits;

use crate::memory;
use crate::oracle::Oracle;
use crate::wire::{Client, Value, encode};

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn ask(client: &mut Client, of: &[&str]) -> Value {
    client.pipeline(&[words(of)]).remove(0)
}

const LIBRARY: &str = "#!lua name=mylib
local times = 2
local function double(keys, args) return redis.call('incrby', keys[1], args[1] * times) end
redis.register_function('double', double)
redis.register_function{function_name='peek', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}, description='looks'}
redis.register_function{function_name='sneaky', callback=function(keys) return redis.call('set', keys[1], 1) end, flags={'no-writes', 'allow-stale'}}
redis.register_function('fails', function(keys, args) error('on purpose') end)
redis.register_function('wrong', function(keys, args) return redis.call('lpush', keys[1], 1) end)
redis.register_function('sees', function(keys, args) return {#keys, #args, keys, args, type(redis.call)} end)
redis.register_function('globals', function() return KEYS end)
redis.register_function('late', function() return redis.register_function('x', function() end) end)
";

/// Texts that are loaded one after the other.
const LIBRARIES: &[&str] = &[
    "return 1",
    "#!lua",
    "#!lua\nreturn 1",
    "#!lua name=\n",
    "#!lua name=bad-name\n",
    "#!lua name=a name=b\n",
    "#!lua name=a more=b\n",
    "#!js name=a\n",
    "#!lua name=empty\n",
    "#!lua name=syntax\nthis is",
    "#!lua name=raises\nlocal x = nil + 1",
    "#!lua name=calls\nredis.call('set', 'a', 1)",
    "#!lua name=global\nx = 1",
    "#!lua name=reads\nlocal y = KEYS",
    "#!lua name=taken\nredis.register_function('double', function() end)",
    "#!lua name=twice\nredis.register_function('twice', function() end) redis.register_function('twice', function() end)",
    "#!lua name=name\nredis.register_function('bad-name', function() end)",
    "#!lua name=none\nredis.register_function()",
    "#!lua name=one\nredis.register_function('x')",
    "#!lua name=three\nredis.register_function('x', function() end, 1)",
    "#!lua name=first\nredis.register_function(1, function() end)",
    "#!lua name=second\nredis.register_function('x', 1)",
    "#!lua name=named\nredis.register_function{function_name='x'}",
    "#!lua name=callback\nredis.register_function{callback=function() end}",
    "#!lua name=unknown\nredis.register_function{function_name='x', callback=function() end, more=1}",
    "#!lua name=flags\nredis.register_function{function_name='x', callback=function() end, flags={'bad'}}",
    "#!lua name=flag\nredis.register_function{function_name='x', callback=function() end, flags='no-writes'}",
    "#!lua name=spaces \nredis.register_function('spaces', function(keys, args) return args[1] end)",
];

/// Other questions.
const COMMANDS: &[&[&str]] = &[
    &["fcall", "double", "1", "n", "21"],
    &["fcall", "double", "1", "n", "21"],
    &["fcall_ro", "double", "1", "n", "21"],
    &["fcall_ro", "peek", "1", "n"],
    &["fcall", "peek", "1", "n"],
    &["fcall", "sneaky", "1", "n"],
    &["fcall_ro", "sneaky", "1", "n"],
    &["fcall", "fails", "0"],
    &["fcall", "wrong", "1", "n"],
    &["fcall", "sees", "2", "a", "b", "c"],
    &["fcall", "globals", "0"],
    &["fcall", "late", "0"],
    &["fcall", "nothing", "0"],
    &["fcall", "double", "x"],
    &["fcall", "double", "-1"],
    &["fcall", "double", "2", "a"],
    &["fcall", "double"],
    &["fcall", "spaces", "0", "hello"],
    &["function", "stats"],
    &["function", "delete", "spaces"],
    &["function", "delete", "spaces"],
    &["function", "list"],
    &["function", "list", "withcode"],
    &["function", "list", "libraryname", "MY*", "withcode"],
    &["function", "list", "libraryname", "none*"],
    &["function", "list", "libraryname"],
    &["function", "list", "withcode", "withcode"],
    &["function", "list", "nothing"],
    &["function", "flush", "nothing"],
    &["function", "kill"],
    &["function", "nothing"],
    &["function", "load"],
    &["function", "load", "nothing", "#!lua name=x\n"],
    &["function", "restore", "x"],
    &["function", "restore", "x", "nothing"],
    &["function"],
    &["command", "getkeys", "fcall", "double", "1", "n", "21"],
    &["flushall"],
    &["fcall", "double", "1", "n", "1"],
    &["multi"],
    &["fcall", "double", "1", "n", "1"],
    &["get", "n"],
    &["fcall", "fails", "0"],
    &["exec"],
    &["eval", "return redis.call('fcall', 'double', 0)", "0"],
    &["eval", "return redis.call('function', 'list')", "0"],
    &["function", "flush", "async"],
    &["function", "list"],
    &["fcall", "double", "1", "n", "1"],
    &["function", "stats"],
];

fn compare(shards: usize, runs_at_shards: bool) {
    let Some(oracle) = Oracle::start() else { return };
    let (_gateway, address) = memory::open(shards, runs_at_shards, Limits::default());
    let (mut door, mut redis) = (Client::connect(address), Client::connect(oracle.address));
    let mut differences = Vec::new();
    for version in ["2", "3"] {
        door.ask(&format!("hello {version}"));
        redis.ask(&format!("hello {version}"));
        let load = |text| vec!["function", "load", text];
        let replace = vec!["function", "load", "replace", LIBRARY];
        let loads = LIBRARIES.iter().map(|text| load(*text));
        let all = [load(LIBRARY), load(LIBRARY), replace].into_iter().chain(loads);
        for of in all.chain(COMMANDS.iter().map(|of| of.to_vec())) {
            let (ours, theirs) = (ask(&mut door, &of), ask(&mut redis, &of));
            // Redis lists functions in no certain order.
            let [ours, theirs] =
                [ours, theirs].map(|value| if of[0] == "function" { sorted(value) } else { value });
            if ours != theirs {
                differences.push(format!("RESP{version} {of:?}\n  replies {ours}\n  Redis   {theirs}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Array(parts) => {
            let mut parts: Vec<Value> = parts.into_iter().map(sorted).collect();
            if parts.iter().all(|part| matches!(part, Value::Array(_) | Value::Map(_))) {
                parts.sort();
            }
            Value::Array(parts)
        }
        Value::Map(pairs) => {
            Value::Map(pairs.into_iter().map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Set(mut members) => {
            members.sort();
            Value::Set(members)
        }
        other => other,
    }
}

#[test]
fn functions_reply_as_those_of_redis_do_over_three_shards() {
    compare(3, true);
}

#[test]
fn functions_reply_as_those_of_redis_do_in_interactive_transactions() {
    compare(2, false);
}

#[test]
fn libraries_move_between_a_redis_and_the_door() {
    let Some(oracle) = Oracle::start() else { return };
    let (_gateway, address) = memory::open(2, true, Limits::default());
    let (mut door, mut redis) = (Client::connect(address), Client::connect(oracle.address));
    ask(&mut door, &["function", "load", LIBRARY]);
    let Value::Bulk(dump) = ask(&mut door, &["function", "dump"]) else { panic!("it is dumped") };
    let restore = |dump: &[u8], policy: &str| {
        vec![b"function".to_vec(), b"restore".to_vec(), dump.to_vec(), policy.as_bytes().to_vec()]
    };
    let ok = Value::Simple("OK".to_owned());
    assert_eq!(redis.pipeline(&[restore(&dump, "append")]).remove(0), ok);
    assert_eq!(ask(&mut redis, &["fcall", "double", "1", "n", "4"]), Value::Integer(8));
    let Value::Bulk(back) = ask(&mut redis, &["function", "dump"]) else { panic!("it is dumped") };
    assert!(matches!(door.pipeline(&[restore(&back, "append")]).remove(0), Value::Error(_)));
    for policy in ["replace", "flush"] {
        assert_eq!(door.pipeline(&[restore(&back, policy)]).remove(0), ok, "{policy}");
        assert!(matches!(ask(&mut door, &["fcall", "double", "1", "n", "4"]), Value::Integer(_)));
    }
    // Nothing of a dump is taken in that is damaged.
    let mut damaged = back.clone();
    damaged[5] ^= 1;
    assert!(matches!(door.pipeline(&[restore(&damaged, "flush")]).remove(0), Value::Error(_)));
    assert!(matches!(ask(&mut door, &["fcall", "double", "1", "n", "4"]), Value::Integer(_)));
    let other = "#!lua name=other\nredis.register_function('other', function() return 7 end)";
    ask(&mut door, &["function", "load", other]);
    assert_eq!(door.pipeline(&[restore(&back, "flush")]).remove(0), ok);
    assert!(matches!(ask(&mut door, &["fcall", "other", "0"]), Value::Error(_)), "it was there before");
}

#[test]
fn libraries_are_bounded_and_one_that_never_ends_is_not_loaded() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let (mut hostile, mut other) = (Client::connect(address), Client::connect(address));
    let long =
        format!("#!lua name=long\n--{}\nredis.register_function('f', function() end)", "x".repeat(600_000));
    assert!(matches!(ask(&mut hostile, &["function", "load", &long]), Value::Error(_)));
    hostile.send(&encode(&words(&["function", "load", "#!lua name=loops\nwhile true do end"])));
    let begun = Instant::now();
    assert_eq!(ask(&mut other, &["function", "list"]), Value::Array(Vec::new()));
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(matches!(hostile.receive(), Value::Error(text) if text.ends_with("nothing was done")));
    let functions: String =
        (0..1_001).map(|number| format!("redis.register_function('f{number}', function() end)\n")).collect();
    let many = format!("#!lua name=many\n{functions}");
    assert!(matches!(ask(&mut hostile, &["function", "load", &many]), Value::Error(_)));
    // So many bytes in all, each library within its bound.
    let mut loaded = 0;
    let refused = loop {
        let text = format!(
            "#!lua name=l{loaded}\n--{}\nredis.register_function('f{loaded}', function() end)",
            "x".repeat(500_000)
        );
        match ask(&mut hostile, &["function", "load", &text]) {
            Value::Bulk(_) => loaded += 1,
            other => break other,
        }
        assert!(loaded < 20, "they are not bounded");
    };
    assert!(matches!(refused, Value::Error(text) if text.contains("at most")));
    assert_eq!(ask(&mut other, &["fcall", "f0", "0"]), Value::Null);
}

#[test]
fn a_function_that_runs_is_told_of_and_killed() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let (mut hostile, mut other) = (Client::connect(address), Client::connect(address));
    let text = "#!lua name=loops\nredis.register_function('loops', function(keys) redis.call('set', keys[1], 1) while true do for i = 1, 100 do cjson.encode(string.rep('x', 1000000)) end end end)";
    assert!(matches!(ask(&mut other, &["function", "load", text]), Value::Bulk(_)));
    hostile.send(&encode(&words(&["fcall", "loops", "1", "k"])));
    let deadline = Instant::now() + Duration::from_secs(4);
    while ask(&mut other, &["function", "stats"]).to_string().contains("\"running_script\", Null") {
        assert!(Instant::now() < deadline, "no function runs");
    }
    assert!(ask(&mut other, &["function", "stats"]).to_string().contains("\"name\", \"loops\""));
    assert!(matches!(ask(&mut other, &["script", "kill"]), Value::Error(_)), "it is no script");
    while ask(&mut other, &["function", "kill"]) != Value::Simple("OK".to_owned()) {
        assert!(Instant::now() < deadline, "it is not killed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let Value::Error(text) = hostile.receive() else { panic!("the function has ended") };
    assert!(text.contains("killed by user"), "{text}");
    assert_eq!(ask(&mut other, &["exists", "k"]), Value::Integer(0));
}
