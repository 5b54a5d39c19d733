//! Scripts at the door: the same replies as from a real Redis, one transaction over any shards, and nobody else notices those that mean no good.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quorate_gateway::Limits;

use crate::memory;
use crate::oracle::Oracle;
use crate::wire::{Client, Value};

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn ask(client: &mut Client, of: &[&str]) -> Value {
    client.pipeline(&[words(of)]).remove(0)
}

/// Scripts without keys and arguments, which are compared one after the other.
const SCRIPTS: &[&str] = &[
    "return 1",
    "return {1, 2, 'x', {3.7, -3.7}, true, false, 'behind'}",
    "return {1, nil, 2}",
    "return nil",
    "return 1e30",
    "return {ok = 'fine'}",
    "return {err = 'MY error'}",
    "return redis.error_reply('x')",
    "return redis.error_reply('-X y')",
    "return redis.error_reply('My Err y')",
    "return redis.error_reply()",
    "return redis.error_reply(1, 2)",
    "return redis.status_reply('good')",
    "return {double = 1.5}",
    "return {map = {a = 1}}",
    "return {set = {a = true}}",
    "return function() end",
    "redis.call('set', 'a', 1) redis.call('incr', 'a') return redis.call('get', 'a')",
    "redis.call('set', 'a', 'x') return redis.call('incr', 'a')",
    "redis.call('set', 'written', 'before') return redis.call('incr', 'a')",
    "return redis.call('get', 'written')",
    "return redis.pcall('incr', 'a')",
    "return redis.pcall('incr', 'a')['err']",
    "local ok, err = pcall(redis.call, 'incr', 'a') return {tostring(ok), err}",
    "return redis.call('incr')",
    "return redis.call('nothing')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('multi')",
    "return redis.pcall('watch', 'a')",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('echo', 0.1)",
    "return redis.call('echo', 1e15)",
    "return redis.call('echo', 1e100)",
    "return redis.call('ping')",
    "redis.call('del', 'l') redis.call('rpush', 'l', 1, 2, 3) return redis.call('lrange', 'l', 0, -1)",
    "redis.call('del', 'h') redis.call('hset', 'h', 'f', 'v') return redis.call('hgetall', 'h')",
    "redis.setresp(3) return redis.call('hgetall', 'h')",
    "redis.call('del', 's') redis.call('xadd', 's', '1-1', 'f', 'v') return redis.call('xread', 'streams', 's', 0)",
    "redis.setresp(3) return redis.call('xread', 'streams', 's', 0)",
    "redis.setresp(3) return redis.call('xread', 'streams', 's', 0).map.s",
    "return redis.call('xread', 'block', 1, 'streams', 's', 0)",
    "redis.call('del', 'p') redis.call('geoadd', 'p', 13.361389, 38.115556, 'm') return redis.call('geopos', 'p', 'm')",
    "redis.setresp(3) return redis.call('geopos', 'p', 'm')",
    "redis.call('set', 'w1', 2) redis.call('set', 'w2', 1) redis.call('rpush', 'n', 1, 2) return redis.call('sort', 'n', 'by', 'w*')",
    "redis.setresp(3) return redis.call('hgetall', 'h').map.f",
    "redis.call('del', 'z') redis.call('zadd', 'z', 1.5, 'm') return redis.call('zscore', 'z', 'm')",
    "redis.setresp(3) return {redis.call('zscore', 'z', 'm').double, tostring(redis.call('get', 'absent'))}",
    "return {tostring(redis.call('get', 'absent')), redis.call('type', 'z')['ok']}",
    "redis.call('set', '{x}1', 'one') redis.call('set', '{y}2', 'two') redis.call('rename', '{x}1', '{y}3') return redis.call('mget', '{x}1', '{y}2', '{y}3')",
    "redis.call('set', 't', 1, 'px', 100000) return redis.call('ttl', 't')",
    "for i = 1, 50 do redis.call('incrby', 'sum', i) end return redis.call('get', 'sum')",
    "return redis.setresp(4)",
    "return redis.setresp()",
    "return redis.log(1)",
    "return redis.log(9, 'x')",
    "return redis.log('x', 'x')",
    "return redis.log(redis.LOG_DEBUG, 'x')",
    "return redis.sha1hex('abc')",
    "return redis.sha1hex()",
    "error('x')",
    "error('x', 0)",
    "error()",
    "error({err = 'FOO bar'})",
    "\n\nlocal function f() error('deep') end\nf()",
    "return x",
    "x = 1",
    "string.x = 1",
    "redis = nil",
    "KEYS = nil",
    "rawset(_G, 'x', 1)",
    "setmetatable(_G, {})",
    "getmetatable('').__index = nil",
    "local function f() return 1 + f() end return f()",
    "return string.find('a', '[a')",
    "return ('x'):bad()",
    "return 1 + {}",
    "return #nil",
    "this is",
    "return tostring(loadstring(string.dump(function() return 1 end)))",
    "math.randomseed(3) return {math.random(100), math.random(100), tostring(math.random())}",
    "return {string.find('hello', 'l+'), string.match('k=v', '(%w)=(%w)'), string.gsub('abc', '%w', '%0%0')}",
    "return {string.rep('ab', 3), string.rep('x', -1), string.format('%5.1f|%q', 1.25, 'a\\nb')}",
    "return {string.gsub('hello', '', '-'), string.gsub('abc', 'b', {b = 1}), string.gsub('abc', '.', function(c) if c == 'b' then return 'X' end end)}",
    "local t = {5, 3, 1} table.sort(t) return t",
    "return {select('#', unpack({1, 2, 3})), table.concat({1, 2}, '-')}",
    "return cjson.encode({1, 'a/b', {x = 1.5}, cjson.null, true})",
    "return cjson.encode({})",
    "return cjson.decode('{\"a\": [1, 2, {\"b\": \"c\\\\u20ac\"}]}').a[3].b",
    "return cjson.decode('[1, 2')",
    "return cjson.decode('nothing')",
    "return cjson.encode(function() end)",
    "return cjson.encode({[1] = 1, [1000] = 2})",
    "return {bit.bor(1, 2), bit.band(7, 12), bit.bxor(5, 1), bit.bnot(0), bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-16, 2), bit.tohex(255, 4), bit.rol(0x12345678, 12), bit.bswap(0x12345678)}",
    "local c = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) return {c(1), c(5)}",
    "local a, b = cmsgpack.unpack(cmsgpack.pack(1, 'x')) return {a, b}",
    "local values = {0, 1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, -1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, 1.5, 1e300, 0.1, true, false, 'text', string.rep('x', 32), string.rep('y', 300)} local out = {} for i, v in ipairs(values) do out[i] = cmsgpack.pack(v) end return out",
    "return {cmsgpack.pack({}), cmsgpack.pack({1, 2, 3}), cmsgpack.pack({a = 1}), cmsgpack.pack({[1] = 1, [3] = 3}), cmsgpack.pack(nil)}",
    "local t = {} for i = 1, 20 do t[i] = i end return cmsgpack.pack(t)",
    "local t = {} for i = 1, 30 do t = {t} end return cmsgpack.pack(t)",
    "return cjson.encode(cmsgpack.unpack(cmsgpack.pack({1, {a = {b = 'c'}}, 'x'})))",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 2)}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1), 1)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 1)}",
    "return cmsgpack.unpack('')",
    "return cmsgpack.unpack(string.char(0x92, 1))",
    "return cmsgpack.unpack(string.char(0xc1))",
    "return cmsgpack.unpack_one('abc', 4)",
    "return cmsgpack.unpack_one('abc', -1)",
    "return cmsgpack.pack()",
    "return cmsgpack.unpack({})",
    "return {cmsgpack.unpack(string.char(0xcf, 255, 255, 255, 255, 255, 255, 255, 255)) == 18446744073709551615, cmsgpack.unpack(string.char(0xd3, 255, 255, 255, 255, 255, 255, 255, 254))}",
    "return {cmsgpack._NAME, cmsgpack._VERSION}",
    "return {struct.pack('>I2<i4b', 1, -2, 3), struct.pack('HhLlTfd', 1, -1, 2, -2, 3, 0.5, 0.1)}",
    "return {struct.pack('s', 'abc'), struct.pack('c2', 'abc'), struct.pack('c0', 'abc'), struct.pack('Bc0', 3, 'abc')}",
    "return {struct.pack('!4 b i4', 1, 2), struct.pack('!bd', 1, 2), struct.pack('xbx', 1), struct.pack('i3', -3), struct.pack('I16', 5)}",
    "return {struct.unpack('>I2<i4b', struct.pack('>I2<i4b', 1, -2, 3))}",
    "return {struct.unpack('Bc0', struct.pack('Bc0', 3, 'abc'))}",
    "return {struct.unpack('sB', struct.pack('sB', 'abc', 9))}",
    "return {struct.unpack('b', 'abc', 2), struct.unpack('i3', struct.pack('i3', -3))}",
    "return tostring(struct.unpack('d', struct.pack('d', 0.1))) .. tostring(struct.unpack('f', struct.pack('f', 0.5)))",
    "return {struct.size('>I2<i4b'), struct.size('!4bi4'), struct.size('c10xd')}",
    "return struct.size('s')",
    "return struct.size('c0')",
    "return struct.pack('y', 1)",
    "return struct.pack('b')",
    "return struct.pack('b', 'x')",
    "return struct.pack('c4', 'abc')",
    "return struct.pack('i33', 1)",
    "return struct.pack('!3b', 1)",
    "return struct.pack('c99999999999', 1)",
    "return struct.unpack('i4', 'abc')",
    "return struct.unpack('s', 'abc')",
    "return struct.unpack('c0', 'abc')",
    "return struct.unpack('b', 'abc', 0)",
    "return struct.unpack('b', 'abc', 9)",
    "return {cjson.encode_sparse_array(), cjson.encode_max_depth(), cjson.decode_max_depth(), cjson.encode_number_precision(), cjson.encode_keep_buffer(), cjson.encode_invalid_numbers(), cjson.decode_invalid_numbers()}",
    // In Redis the choices outlive their script: each is taken back.
    "return {cjson.encode_sparse_array(true, 3, 5), cjson.encode_sparse_array(false, 2, 10)}",
    "cjson.encode_sparse_array(true) local r = cjson.encode({[1] = 1, [1000] = 2}) cjson.encode_sparse_array(false) return r",
    "cjson.encode_sparse_array(false, 0) local r = #cjson.encode({[1] = 1, [20] = 2}) cjson.encode_sparse_array(false, 2) return r",
    "cjson.encode_max_depth(2) local r = {pcall(cjson.encode, {{{}}})} cjson.encode_max_depth(1000) return r",
    "cjson.decode_max_depth(2) local r = {pcall(cjson.decode, '[[[]]]')} cjson.decode_max_depth(1000) return r",
    "cjson.encode_number_precision(3) local r = cjson.encode({1.23456, 123456}) cjson.encode_number_precision(14) return r",
    "cjson.encode_invalid_numbers('null') local r = {cjson.encode_invalid_numbers(), cjson.encode({0/0, 1/0})} cjson.encode_invalid_numbers(false) return r",
    "cjson.encode_invalid_numbers(true) local r = cjson.encode({1/0, -1/0}) cjson.encode_invalid_numbers(false) return r",
    "return cjson.encode({1/0})",
    "return tostring(cjson.decode('[0x10, 1e3, -Infinity, 012]')[1]) .. cjson.decode('[0x10, 012]')[2]",
    "cjson.decode_invalid_numbers(false) local r = {pcall(cjson.decode, '[0x10]')} cjson.decode_invalid_numbers(true) return r",
    "cjson.decode_invalid_numbers(false) local r = {pcall(cjson.decode, '[nan]')} cjson.decode_invalid_numbers(true) return r",
    "return cjson.encode_max_depth(0)",
    "return cjson.encode_number_precision(15)",
    "return cjson.encode_invalid_numbers('x')",
    "return cjson.encode_max_depth(1, 2)",
    "local other = cjson.new() other.encode_number_precision(3) return {other.encode({1.23456}), cjson.encode({1.23456})}",
    "return redis.register_function('x', function() end)",
    "return redis.REDIS_VERSION",
    "#!lua\nreturn redis.call('set', 'a', 1)",
    "#!lua flags=no-writes\nreturn redis.call('set', 'a', 1)",
    "#!lua flags=bad\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!js\nreturn 1",
    "#!lua",
];

/// Other commands that have to do with scripts.
const COMMANDS: &[&[&str]] = &[
    &["eval", "return {KEYS, ARGV}", "2", "a", "b", "c"],
    &["eval", "return 1"],
    &["eval", "return 1", "x"],
    &["eval", "return 1", "-1"],
    &["eval", "return 1", "2", "a"],
    &["eval_ro", "return redis.call('get', KEYS[1])", "1", "sum"],
    &["eval_ro", "return redis.call('set', KEYS[1], 1)", "1", "sum"],
    &["eval_ro", "return redis.pcall('set', KEYS[1], 1)", "1", "sum"],
    &["script", "flush"],
    &["evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["evalsha", "short", "0"],
    &["script", "load", "return 1"],
    &["evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["evalsha_ro", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"],
    &["script", "exists", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "x"],
    &["eval", "return 2", "0"],
    &["evalsha", "7f923f79fe76194c868d7e1d0820de36700eb649", "0"],
    &["script", "load", "this is"],
    &["script", "load"],
    &["script", "nothing"],
    &["script", "exists"],
    &["script", "flush", "x"],
    &["script", "flush", "async"],
    &["script", "kill"],
    &["multi"],
    &["set", "m", "1"],
    &["eval", "return redis.call('incr', 'm')", "0"],
    &["evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["eval", "return redis.call('lpush', 'm', 1)", "0"],
    &["ping"],
    &["get", "m"],
    &["exec"],
    &["multi"],
    &["eval", "return 1"],
    &["exec"],
    &["watch", "m"],
    &["set", "m", "other"],
    &["multi"],
    &["eval", "return redis.call('set', 'm', 'mine')", "0"],
    &["exec"],
    &["get", "m"],
    &["watch", "m", "{far}n"],
    &["multi"],
    &["eval", "return redis.call('set', 'm', 'mine')", "0"],
    &["exec"],
    &["get", "m"],
    &["command", "info", "eval_ro_nothing"],
];

/// The keys of all scripts, so that a shard may run those that touch any of them.
const KEYS: &[&str] = &[
    "a", "written", "l", "h", "s", "p", "w1", "w2", "n", "z", "{x}1", "{y}2", "{y}3", "t", "sum", "m",
    "absent",
];

/// Compares all scripts, and says how many requests shards have carried out.
fn compare(shards: usize, runs: (bool, bool), keys: &[&str]) -> usize {
    let Some(oracle) = Oracle::start() else { return usize::MAX };
    let (_gateway, address, counts) = memory::open_with(shards, runs, Limits::default());
    let (mut door, mut redis) = (Client::connect(address), Client::connect(oracle.address));
    let mut differences = Vec::new();
    let count = keys.len().to_string();
    for version in ["2", "3"] {
        door.ask(&format!("hello {version}"));
        redis.ask(&format!("hello {version}"));
        let with_keys = |script: &&'static str| {
            ["eval", script, &count].into_iter().chain(keys.iter().copied()).collect()
        };
        let scripts: Vec<Vec<&str>> = SCRIPTS.iter().map(with_keys).collect();
        for of in scripts.into_iter().chain(COMMANDS.iter().map(|of| of.to_vec())) {
            let (ours, theirs) = (ask(&mut door, &of), ask(&mut redis, &of));
            if ours != theirs {
                differences.push(format!("RESP{version} {of:?}\n  replies {ours}\n  Redis   {theirs}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    counts.scripts_run.load(Ordering::Relaxed)
}

#[test]
fn scripts_reply_as_those_of_redis_do_at_the_shard() {
    let count = compare(1, (true, true), KEYS);
    assert!(count > 70, "the shard has run {count} scripts");
}

#[test]
fn scripts_reply_as_those_of_redis_do_over_one_shard() {
    assert!(matches!(compare(1, (true, false), KEYS), 0 | usize::MAX), "the door runs them");
}

#[test]
fn scripts_reply_as_those_of_redis_do_over_five_shards() {
    compare(5, (true, true), KEYS);
}

#[test]
fn scripts_without_keys_reply_as_those_of_redis_do() {
    compare(5, (true, true), &[]);
}

#[test]
fn scripts_reply_as_those_of_redis_do_in_interactive_transactions() {
    compare(3, (false, true), &[]);
}

#[test]
fn a_script_at_the_door_reads_its_keys_in_one_round() {
    let (_gateway, address, counts) = memory::open_with(5, (true, false), Limits::default());
    let mut client = Client::connect(address);
    client.ask("mset a 1 b 2 c 3");
    let add = "return redis.call('get', KEYS[1]) + redis.call('get', KEYS[2]) + redis.call('incr', KEYS[3])";
    for (words, reply, rounds) in [
        (vec!["eval", add, "3", "a", "b", "c"], 7, 1),
        // One round for those that are listed, and one for each that is not.
        (vec!["eval", "return redis.call('get', 'a') + redis.call('get', 'b')", "1", "c"], 3, 3),
        (vec!["eval", "return 1", "0"], 1, 0),
    ] {
        let before = counts.rounds.load(Ordering::Relaxed);
        assert_eq!(ask(&mut client, &words), Value::Integer(reply));
        assert_eq!(counts.rounds.load(Ordering::Relaxed) - before, rounds, "{words:?}");
    }
}

#[test]
fn a_script_that_shards_give_up_again_and_again_is_tried_there_less_and_less() {
    let (_gateway, address, counts) = memory::open_with(1, (true, true), Limits::default());
    let mut client = Client::connect(address);
    let script = "if ARGV[1] == 'door' then return #cmsgpack.pack({1}) end return ARGV[1]";
    let run = |client: &mut Client, of: &str| ask(client, &["eval", script, "1", "k", of]);
    let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let ran = || counts.scripts_run.load(Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(run(&mut client, "door"), Value::Integer(2));
    }
    assert_eq!((ran(), run(&mut client, "x")), (0, text("x")), "it is not tried now");
    for _ in 0..8 {
        run(&mut client, "x");
    }
    assert!(ran() > 0, "it is tried again");
    let before = ran();
    for _ in 0..8 {
        run(&mut client, "x");
    }
    assert_eq!(ran() - before, 8, "and stays at the shard once that has run it");
}

#[test]
fn a_text_travels_once_to_a_shard_where_it_is_run_often() {
    let (_gateway, address, counts) = memory::open_with(1, (true, true), Limits::default());
    let mut client = Client::connect(address);
    let script = format!("--{}\nreturn redis.call('incr', KEYS[1])", "-".repeat(2_000));
    let mut bytes = Vec::new();
    for number in 1..=20 {
        let before = counts.script_bytes.load(Ordering::Relaxed);
        assert_eq!(ask(&mut client, &["eval", &script, "1", "k"]), Value::Integer(number));
        bytes.push(counts.script_bytes.load(Ordering::Relaxed) - before);
    }
    assert!(bytes[..9].iter().all(|bytes| *bytes > 2_000), "{bytes:?}");
    assert!(bytes[9..].iter().all(|bytes| *bytes < 200), "{bytes:?}");
    // Another door, or this one after a restart, knows nothing of that; and records are no keys.
    assert_eq!(client.ask("dbsize"), Value::Integer(1));
    assert_eq!(client.ask("flushall"), Value::Simple("OK".to_owned()));
    assert_eq!(ask(&mut client, &["eval", &script, "1", "k"]), Value::Integer(1));
}

#[test]
fn a_transaction_with_scripts_runs_at_the_shard_of_its_keys() {
    let (_gateway, address, counts) = memory::open_with(5, (true, true), Limits::default());
    let mut client = Client::connect(address);
    let add = ["eval", "return redis.call('incrby', KEYS[1], 2)", "1", "{t}n"];
    for (elsewhere, ran) in [("{t}other", 1), ("far", 1), ("{t}other", 2)] {
        client.ask("watch {t}watched");
        client.ask("multi");
        client.ask("set {t}n 1");
        ask(&mut client, &add);
        client.ask(&format!("set {elsewhere} 1"));
        ask(&mut client, &["eval", "return 1"]);
        let ok = Value::Simple("OK".to_owned());
        let Value::Error(_) = client.ask("exec") else { panic!("a command makes no sense") };
        client.ask("multi");
        client.ask("set {t}n 1");
        ask(&mut client, &add);
        client.ask(&format!("set {elsewhere} 1"));
        ask(&mut client, &["evalsha", "nothing", "0"]);
        let Value::Array(replies) = client.ask("exec") else { panic!("it is carried out") };
        assert_eq!(replies[..3], [ok.clone(), Value::Integer(3), ok]);
        assert!(matches!(&replies[3], Value::Error(text) if text.starts_with("NOSCRIPT")));
        assert_eq!(counts.scripts_run.load(Ordering::Relaxed), ran, "{elsewhere}");
    }
}

#[test]
fn a_client_that_waits_is_woken_by_a_script_at_the_shard() {
    let (_gateway, address, counts) = memory::open_with(2, (true, true), Limits::default());
    let (mut waiting, mut pushing) = (Client::connect(address), Client::connect(address));
    waiting.send(&crate::wire::encode(&words(&["blpop", "queue", "20"])));
    std::thread::sleep(Duration::from_millis(100));
    let push =
        ask(&mut pushing, &["eval", "return redis.call('rpush', KEYS[1], ARGV[1])", "1", "queue", "x"]);
    assert_eq!(push, Value::Integer(1));
    let began = Instant::now();
    let expected = Value::Array(vec![Value::Bulk(b"queue".to_vec()), Value::Bulk(b"x".to_vec())]);
    assert_eq!(waiting.receive(), expected);
    assert!(began.elapsed() < Duration::from_secs(10), "it has waited for {:?}", began.elapsed());
    assert_eq!(counts.scripts_run.load(Ordering::Relaxed), 1);
}

#[test]
fn a_hostile_script_does_nothing_and_others_are_served_meanwhile() {
    let (_gateway, address) = memory::open(2, true, Limits::default());
    let mut hostile = Client::connect(address);
    let script = "redis.call('set', 'k', 'v') while true do pcall(function() while true do end end) end";
    hostile.send(&crate::wire::encode(&words(&["eval", script, "0"])));
    std::thread::sleep(Duration::from_millis(50));
    let mut other = Client::connect(address);
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(other.ask("ping"), Value::Simple("PONG".to_owned()));
        assert_eq!(ask(&mut other, &["eval", "return 1", "0"]), Value::Integer(1));
        assert!(began.elapsed() < Duration::from_secs(2), "others wait for {:?}", began.elapsed());
    }
    let Value::Error(text) = hostile.receive() else { panic!("the script has ended") };
    assert!(text.ends_with("nothing was done"), "{text}");
    assert_eq!(hostile.ask("exists k"), Value::Integer(0));
}

#[test]
fn scripts_that_run_are_killed() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let (mut hostile, mut other) = (Client::connect(address), Client::connect(address));
    let script = "redis.call('set', 'k', 'v') while true do for i = 1, 100 do cjson.encode(string.rep('x', 1000000)) end end";
    hostile.send(&crate::wire::encode(&words(&["eval", script, "0"])));
    let deadline = Instant::now() + Duration::from_secs(4);
    while other.ask("script kill") != Value::Simple("OK".to_owned()) {
        assert!(Instant::now() < deadline, "no script runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    let Value::Error(text) = hostile.receive() else { panic!("the script has ended") };
    assert!(text.contains("killed by user"), "{text}");
    assert_eq!(hostile.ask("exists k"), Value::Integer(0));
}

#[test]
fn clients_that_go_leave_no_scripts_behind() {
    let (gateway, address) = memory::open(1, true, Limits::default());
    for _ in 0..20 {
        let mut client = Client::connect(address);
        client.send(&crate::wire::encode(&words(&["eval", "return redis.call('incr', 'n')", "0"])));
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while gateway.connections() > 0 {
        assert!(Instant::now() < deadline, "connections stay");
        std::thread::sleep(Duration::from_millis(5));
    }
}
