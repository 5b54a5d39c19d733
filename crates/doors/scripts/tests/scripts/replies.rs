//! Replies of scripts, and the errors that scripts see.

use quorate_redis_commands::Reply;
use quorate_redis_scripts::{Limits, Outcome, Script};

use crate::{error, reply, run_within};

fn text(text: &str) -> Reply {
    Reply::bulk(text)
}

#[test]
fn values_become_replies() {
    assert_eq!(reply("return 1.9"), Reply::Integer(1));
    assert_eq!(reply("return 0/0"), Reply::Integer(i64::MIN));
    assert_eq!(reply("return nil"), Reply::Null);
    assert_eq!(reply("return {1, 'x', nil, 3}"), Reply::Array(vec![Reply::Integer(1), text("x")]));
    assert_eq!(reply("return {ok = 'fine'}"), Reply::Simple("fine".into()));
    assert_eq!(reply("return {err = 'X no'}"), Reply::error("X no"));
    assert_eq!(reply("return {true, false}"), Reply::Array(vec![Reply::Integer(1), Reply::Null]));
    assert_eq!(reply("return {double = 1.5}"), Reply::Double(1.5));
    assert_eq!(
        reply("return {KEYS[2], ARGV[1], #KEYS}"),
        Reply::Array(vec![text("k2"), text("a1"), Reply::Integer(2)])
    );
    let three = run_within(Limits::default(), "redis.setresp(3) return {true, false}", false);
    assert_eq!(three, Outcome::Ended(Reply::Array(vec![Reply::Boolean(true), Reply::Boolean(false)])));
}

#[test]
fn replies_become_values() {
    assert_eq!(reply("return type(redis.call('get', 'x'))"), text("boolean"));
    assert_eq!(reply("redis.setresp(3) return type(redis.call('get', 'x'))"), text("nil"));
    assert_eq!(reply("return redis.call('hgetall', 'h')[2]"), text("v"));
    assert_eq!(reply("redis.setresp(3) return redis.call('hgetall', 'h').map.f"), text("v"));
    assert_eq!(reply("return redis.call('zscore', 'z', 'm')"), text("1.5"));
    assert_eq!(reply("return redis.call('set', 'k', 'v').ok"), text("OK"));
    assert_eq!(reply("return redis.call('time')"), Reply::Array(vec![text("12"), text("34")]));
    assert_eq!(
        reply("return redis.call('rpush', 0.1, 3, 1e15)"),
        Reply::Array(vec![text("0.10000000000000001"), text("3"), text("1000000000000000"),])
    );
}

#[test]
fn errors_name_the_script_and_the_line() {
    let Reply::Error(text) = reply("\nerror('x')") else { panic!("no error") };
    let sha = Script::new(b"\nerror('x')".to_vec()).sha().to_owned();
    assert_eq!(text, format!("ERR user_script:2: x script: {sha}, on @user_script:2."));
    assert_eq!(error("return redis.call('lpush', 'k', 'v')"), "WRONGTYPE no");
    assert_eq!(error("return redis.call('nothing')"), "ERR Unknown Redis command called from script");
    assert_eq!(error("redis.call('multi')"), "ERR This Redis command is not allowed from script");
    assert_eq!(
        error("return x"),
        "ERR user_script:1: Script attempted to access nonexistent global variable 'x'"
    );
    assert_eq!(error("x = 1"), "ERR user_script:1: Attempt to modify a readonly table");
    assert_eq!(error("string.x = 1"), "ERR user_script:1: Attempt to modify a readonly table");
    assert_eq!(error("rawset(_G, 'x', 1)"), "ERR Attempt to modify a readonly table");
    assert_eq!(error("return string.find('a', '[a')"), "ERR user_script:1: malformed pattern (missing ']')");
    assert_eq!(
        error("this is"),
        "ERR Error compiling script (new function): user_script:1: '=' expected near 'is'"
    );
    assert_eq!(error("return ('x'):bad()"), "ERR user_script:1: attempt to call method 'bad' (a nil value)");
    assert_eq!(
        error("local next = pairs(nil) return next"),
        "ERR user_script:1: bad argument #1 to 'pairs' (table expected, got nil)"
    );
    assert_eq!(
        reply("local ok, err = pcall(redis.call, 'lpush', 'k', 'v') return err"),
        text_of("WRONGTYPE no")
    );
    assert_eq!(reply("return redis.pcall('lpush', 'k', 'v').err"), text_of("WRONGTYPE no"));
}

fn text_of(of: &str) -> Reply {
    text(of)
}

#[test]
fn what_only_reads_does_not_write() {
    let refused = "ERR Write commands are not allowed from read-only scripts.";
    let outcome = run_within(Limits::default(), "return redis.pcall('set', 'k', 'v')", true);
    assert_eq!(outcome, Outcome::Ended(Reply::error(refused)));
    assert_eq!(error("#!lua flags=no-writes\nreturn redis.call('set', 'k', 'v')"), refused);
    assert_eq!(error("#!lua flags=bad\n"), "ERR Unexpected flag in script shebang: bad");
    assert_eq!(error("#!js\n"), "ERR Unexpected engine in script shebang: #!js");
    assert_eq!(error("#!lua"), "ERR Invalid script shebang");
}

#[test]
fn libraries_are_those_of_redis() {
    for (code, expected) in [
        ("return cjson.encode({1, 'a/b', {x = cjson.null}})", r#"[1,"a\/b",{"x":null}]"#),
        (
            "return cjson.encode(cjson.decode('[1.5, true, null, \"\\\\u20ac\", {}]'))",
            "[1.5,true,null,\"€\",{}]",
        ),
        ("return bit.tohex(bit.bor(1, bit.lshift(1, 31)))", "80000001"),
        ("return tostring(bit.tobit(4294967295))", "-1"),
        ("return (string.gsub('hello world', 'o', '0', 1))", "hell0 world"),
        ("return (string.gsub('hello', '', '-'))", "-h-e-l-l-o-"),
        ("return (string.gsub('abc', '%w', '%0%0'))", "aabbcc"),
        (
            "local t = {} for k, v in string.gmatch('a=1,b=2', '(%w+)=(%w+)') do t[#t + 1] = k .. v end return table.concat(t, ' ')",
            "a1 b2",
        ),
        ("return table.concat({string.find('a.b', '.', 1, true)}, ' ')", "2 2"),
        ("local t = {3, 1, 2} table.sort(t) return table.concat(t)", "123"),
        ("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t)", "321"),
        ("return redis.sha1hex('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("return tostring(cmsgpack.unpack(cmsgpack.pack({1, {a = 'b'}}))[2].a)", "b"),
        ("return tostring(select(2, struct.unpack('>I2s', struct.pack('>I2s', 258, 'x'))))", "x"),
        (
            "cjson.decode_array_with_array_mt(true) return cjson.encode(cjson.decode('{\"a\":[]}'))",
            "{\"a\":[]}",
        ),
        ("return loadstring('return 7')() .. ''", "7"),
        ("return tostring(loadstring(string.dump(function() end)))", "nil"),
        (
            "local c = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) return c(1) .. c(5) .. ''",
            "210",
        ),
        ("return tostring(rawget(_G, 'print'))", "nil"),
        (
            "return math.random(100) .. ' ' .. math.random(100) .. ' ' .. tostring(math.random())",
            "18 75 0.09637165539729",
        ),
    ] {
        assert_eq!(reply(code), text(expected), "{code}");
    }
    for missing in
        ["io", "os", "debug", "require", "dofile", "newproxy", "getfenv", "setfenv", "module", "package"]
    {
        let code = format!("return tostring(rawget(_G, '{missing}'))");
        assert_eq!(reply(&code), text("nil"), "{missing}");
    }
}
