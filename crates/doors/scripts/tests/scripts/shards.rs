//! Scripts as shards run them, against Lua itself: what a shard runs to its end comes to the same there.

use quorate_redis_commands::{Command, Reply};
use quorate_redis_evaluator::{Halt, Host as AtShard, Limits as AtShardLimits, Program, Unfit};
use quorate_redis_scripts::{Host, Limits, Outcome};

use crate::{Echo, run_within};

impl AtShard for Echo {
    fn call(&mut self, _: &Command, words: &[Vec<u8>]) -> Result<Reply, Halt> {
        Host::call(self, words).map_err(|_| Halt::Unfit("over"))
    }

    fn log(&mut self, level: u8, text: &[u8]) {
        Host::log(self, level, text);
    }

    fn now(&self) -> u64 {
        Host::now(self)
    }
}

/// The reply of a shard, or why it gives up.
fn at_shard(code: &str) -> Result<Reply, &'static str> {
    let program = Program::new(code.as_bytes()).map_err(|Unfit(reason)| reason)?;
    let words: (&[&[u8]], &[&[u8]]) = (&[b"k1", b"k2"], &[b"a1"]);
    match program.run(words, false, AtShardLimits::default(), &mut Echo::default()) {
        Ok((reply, _)) => Ok(reply),
        Err(Halt::Unfit(reason)) => Err(reason),
        Err(Halt::Stop(stop)) => panic!("{code}: {stop:?}"),
    }
}

/// Scripts that shards run.
const RUN: &[&str] = &[
    "return 1",
    "return {1, 2, 'x', {3.7, -3.7}, true, false, 'behind'}",
    "return {1, nil, 2}",
    "return",
    "return 0x10 + 1e2 + .5 + 3.",
    "return {KEYS[1], KEYS[2], ARGV[1], #KEYS, #ARGV}",
    "return 'a' .. 1 .. 2.5 .. -3 .. 1e100 .. 1/3",
    "return [[\nlong\nstring]] .. [==[with ]] in it]==] .. '\\65\\n\\\\\\'' -- comment\n",
    "--[[ a\nlong comment ]] return 1 --[==[ another ]==]",
    "local a, b, c = 1, 2 return {a, b, tostring(c)}",
    "local a, b = (function() return 1, 2 end)() return {a, b}",
    "local a, b = ((function() return 1, 2 end)()) return {a, tostring(b)}",
    "local t = {1, 2, x = 3, ['y'] = 4} return {t[1], t[2], t.x, t['y'], #t}",
    "local t = {n = {m = {}}} t.n.m.o = 5 return t.n.m.o",
    "local t = {} t[1] = 'a' t[2] = 'b' t[#t + 1] = 'c' t[#t] = nil return t",
    "local i, t = 1, {} i, t[i] = i + 1, 20 return {i, t[1], tostring(t[2])}",
    "local a, b = 1, 2 a, b = b, a return {a, b}",
    "local a = 1 local function f() a = 2 return 1 end return a + f()",
    "local a = 1 local function f() a = 2 return 1 end return {(a .. f()), a}",
    "local a, t = 'x', {} local function f() a = 'y' return 1 end t[a] = f() return {tostring(t.x), tostring(t.y)}",
    "if nil then return 1 elseif 0 then return 2 else return 3 end",
    "local n = 0 while true do n = n + 1 if n > 5 then break end end return n",
    "local n = 0 repeat local m = n n = n + 1 until m >= 3 return n",
    "local s = 0 for i = 1, 10 do s = s + i end return s",
    "local s = {} for i = 10, 1, -3 do s[#s + 1] = i end return s",
    "local s = {} for i = 0, 1, 0.25 do s[#s + 1] = tostring(i) end return s",
    "local s = 0 for i = 3, 1 do s = 1 end return s",
    "for i = '1', '3' do if i == 3 then return type(i) end end",
    "local s = '' for i, v in ipairs({'a', 'b', nil, 'c'}) do s = s .. i .. v end return s",
    "local s = '' for k, v in pairs({'a', 'b', 'c'}) do s = s .. k .. v end return s",
    "local s = '' for k, v in pairs({only = 'one'}) do s = s .. k .. v end return s",
    "local s = '' for k, v in pairs({a = 1, b = 2, c = 3, d = 4, e = 5}) do s = s .. k .. v end return s",
    "local t = {} for i = 1, 100 do t['key' .. i] = i end local s = {} for k, v in pairs(t) do s[#s + 1] = k .. v end return s",
    "local t = {} for i = 1, 60 do t[i * 7 % 61] = i end t.x = 1 t[0.5] = 2 t[true] = 3 local s = {} for k, v in pairs(t) do s[#s + 1] = tostring(k) .. v end return s",
    "local t = {1, 2, 3, nil, 5, nil, x = 1} t[9] = 9 t[7] = 7 t[2] = nil return {#t, #{1, nil, 3}, #{nil, nil, 3}, #{nil}, #{n = 1}, (unpack({1, 2, nil, 4}))}",
    "local t = {1, 2, 3} t[2] = nil local s = '' for k, v in pairs(t) do s = s .. k .. v end return s .. #t",
    "local t = {a = 1, b = 2, c = 3} for k in pairs(t) do t[k] = nil end t.d = 4 t.e = 5 local s = '' for k, v in pairs(t) do s = s .. k .. v end return s",
    "local t = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, nil} return {#t, #{unpack(t)}}",
    "local s = '' for k, v in pairs(redis.call('mget', 'k1', 'k2', 'x', 'y', 'z')) do s = s .. k .. v end return s",
    "local s = '' for k, v in next, {5, 6} do s = s .. k .. v end return s",
    "return tostring(next({}))",
    "local fs = {} for i = 1, 3 do fs[i] = function() i = i + 1 return i end end return {fs[1](), fs[1](), fs[2]()}",
    "local function counter() local n = 0 return function() n = n + 1 return n end end local a, b = counter(), counter() a() return {a(), b()}",
    "local function f(n) if n <= 1 then return 1 end return n * f(n - 1) end return f(6)",
    "local function f(...) local a, b = ... return select('#', ...), a, b, ... end return {f(1, nil, 3)}",
    "return {select(2, 'a', 'b', 'c')}",
    "return {select(-1, 'a', 'b', 'c')}",
    "local function f(...) return #{...} end return f(1, 2, 3)",
    "local t = {v = 1} function t.get(self) return self.v end function t:add(n) self.v = self.v + n return self end return t:add(4):get()",
    "return ('x'):rep(3) .. ('%d'):format(5)",
    "local f = string.format return f('%5d|%-5s|%05.1f|%x|%.3s|%g|%%', 42, 'ab', 3.14159, 255, 'abcdef', 0.5)",
    "return string.format('%03d %.2f %5.1f %d', 7, 2.5, -1.25, '12')",
    "return {not nil, not 1, 1 == 1, 1 ~= 1, 'a' < 'b', 'a' <= 'a', 2 > 1, 1 >= 2, '1' == 1}",
    "return {1 and 2, nil and 2, false or 'x', nil or false, 1 or error('no')}",
    "return {7 % 3, -7 % 3, 7 % -3, 5.5 % 2, 2 ^ 10, 2 ^ 3 ^ 2, -2 ^ 2, 10 / 4}",
    "return {1 + 2 * 3 - 4 / 2, (1 + 2) * 3, 2 * -3, not nil == true}",
    "return {'10' + 5, '3' * '4', -'2', 10 .. ''}",
    "return {#'abc', #{1, 2}, -(-3)}",
    "return {tonumber('10'), tonumber(' 5.5 '), tostring(tonumber('x')), tostring(tonumber('')), tonumber(7), tostring(tonumber(nil))}",
    "return {tostring(1), tostring(1.5), tostring(true), tostring(nil), tostring('s'), tostring(1e15), tostring(123456789012345)}",
    "return {type(1), type('s'), type({}), type(nil), type(true), type(type), type(string)}",
    "return {unpack({1, 2, 3})}",
    "return {unpack({1, 2, 3}, 2)}",
    "return {unpack({1, 2, 3}, 2, 3)}",
    "return {assert(1, 'm'), pcall(function(a) return a + 1 end, 2)}",
    "return {rawequal('a', 'a'), rawget({5}, 1), #rawset({}, 1, 'x')}",
    "return {math.floor(3.7), math.ceil(3.2), math.abs(-3), math.max(1, 5, 3), math.min(4, 2), math.fmod(7, 3), math.sqrt(16), math.pow(2, 3)}",
    "return {math.floor(-3.5), math.huge, -math.huge, math.modf(3.7)}",
    "return {math.random(100), math.random(5, 10), tostring(math.random())}",
    "math.randomseed(42) return {math.random(100), math.random(100)}",
    "return {string.sub('hello', 2, 3), string.sub('hello', -3), string.sub('hello', 2, -2), string.sub('hello', 0), string.sub('x', 5)}",
    "return {string.len('abc'), string.upper('aB'), string.lower('aB'), string.reverse('abc'), string.rep('ab', 3), string.rep('x', 0)}",
    "return {string.byte('abc'), string.byte('abc', 2), string.byte('abc', 1, 3), string.byte('abc', 10), string.char(72, 105)}",
    "return {string.find('hello', 'l+'), string.find('a.b', '.', 1, true), string.find('hello', 'xyz'), string.find('hello', ''), string.find('abc', 'b', -2)}",
    "return {string.match('k=v', '(%w)=(%w)'), string.match('2024-01', '%d+'), string.match('x', '()'), string.match('hello', '^h(.)')}",
    "return {string.gsub('hello', 'l', 'L'), string.gsub('hello', 'l', 'L', 1), string.gsub('abc', '%w', '%0%0'), string.gsub('hello', '', '-')}",
    "return {string.gsub('abc', '.', {a = '1', b = true and 'x'}), string.gsub('abc', '%w', function(c) if c == 'b' then return 'X' end end)}",
    "local t = {} for k, v in string.gmatch('a=1,b=2', '(%w+)=(%w+)') do t[#t + 1] = k .. v end return t",
    "local t = {} for w in ('one two'):gmatch('%a+') do t[#t + 1] = w end return t",
    "local t = {3, 1, 2} table.sort(t) return t",
    "local t = {'b', 'a', 'c'} table.sort(t, function(a, b) return a > b end) return t",
    "local t = {} for i = 1, 60 do t[i] = (i * 37) % 11 end table.sort(t) return t",
    "local t = {} for i = 1, 40 do t[i] = {(i * 7) % 5, i} end table.sort(t, function(a, b) return a[1] < b[1] end) local o = {} for i, v in ipairs(t) do o[i] = v[2] end return o",
    "local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) return {table.remove(t), table.remove(t, 1), #t, t[1], t[2]}",
    "return {table.remove({}), table.concat({1, 'b', 2.5}, '-'), table.concat({'a', 'b', 'c'}, '', 2, 3), table.concat({}), table.getn({1, 2})}",
    "return {bit.band(7, 12), bit.bor(1, 2), bit.bxor(5, 1), bit.bnot(0), bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-16, 2), bit.tobit(4294967295)}",
    "return cjson.encode({1, 'a/b\\\"\\n\\127\\0', {x = 1.5}, cjson.null, true, {}, -3e20, {nil, 2}})",
    "return cjson.encode({a = 1, b = 'c', d = {e = {1, 2}}, f = false, g = cjson.null})",
    "return cjson.decode('{\"a\": [1, 2.5e1, {\"b\": \"c\\\\u20ac\\\\ud83d\\\\ude00\"}], \"d\" : -0.5}').a[3].b",
    "local d = cjson.decode(' [ 1 , null , true , \"\" , {} , [] ] ') return {#d, d[1], d[2] == cjson.null, type(d[2]), d[3], d[4], cjson.encode(d)}",
    "return {cjson.null, cjson.encode('x'), cjson.encode(7), cjson.decode('\"y\"'), cjson.decode('12')}",
    "local m = cjson.decode('{\"one\":1,\"two\":2,\"three\":3,\"4\":4}') local s = '' for k, v in pairs(m) do s = s .. k .. v end return {s, cjson.encode(m)}",
    "return redis.call('set', 'k1', 'v').ok",
    "return redis.call('get', 'k1')",
    "return tostring(redis.call('get', 'k1'))",
    "return redis.call('mget', 'k1', 'k2', 0.1, 3, 1e15, 'x')",
    "return redis.call('hgetall', 'h')",
    "return redis.call('zscore', 'z', 'm')",
    "return redis.pcall('lpush', 'k1', 'v')",
    "return redis.pcall('lpush', 'k1', 'v').err",
    "return {redis.call('time'), redis.call('ping'), redis.call('echo', 'x')}",
    "return {redis.error_reply('x'), redis.error_reply('-X y'), redis.status_reply('good')}",
    "return {redis.sha1hex('abc'), redis.LOG_WARNING, redis.replicate_commands()}",
    "redis.log(redis.LOG_NOTICE, 'x', 1) return 1",
    "return {ok = 'fine'}",
    "return {err = 'MY error'}",
    "return {double = 1.5}",
    "return function() end",
    "local redis = redis local call = redis.call return call('echo', 'x')",
    "local s = string return s.len('abc')",
    "local t = {} t[true] = 1 t[1.5] = 2 t[-1] = 3 local k = {} t[k] = 4 return {t[true], t[1.5], t[-1], t[k], tostring(t[{}])}",
    "local t = {} t[3] = 'c' t[2] = 'b' t[1] = 'a' return {#t, t[3]}",
    "local t = {[1] = 'a', [2] = 'b'} return {t[1], t[2], #t}",
    "local t = {1, 2, 3} for i = 1, 3 do t[i] = nil end return #t",
    "do local a = 1 end local a = 2 do local a = 3 end return a",
    "local function f() return end return (select('#', f()))",
    "if ARGV[1] ~= 'a1' then error('never') elseif false then cmsgpack.pack(x) string.dump() y = 1 end return 1",
];

/// Scripts that shards leave to the door: errors, and what is not the same everywhere.
const LEFT: &[&str] = &[
    "error('x')",
    "local a <const> = 1",
    "return x",
    "x = 1",
    "this is",
    "return redis.call('lpush', 'k1', 'v')",
    "return redis.call('nothing')",
    "return redis.call()",
    "return tostring({})",
    "return tostring(function() end)",
    "return tostring(0 / 0)",
    "return -0 .. ''",
    "return table.concat({1, nil, 3})",
    "local t = {[{}] = 1} return next(t)",
    "local t = {[function() end] = 1} return #t",
    "for k in pairs({a = 1}) do next({}, k) end",
    "return 1 + {}",
    "return #nil",
    "return nil .. 'x'",
    "return {} < {}",
    "return 1 < 'x'",
    "local t t.x = 1",
    "return ('x'):bad()",
    "return math.sin(1)",
    "return 2 ^ 0.5",
    "return 3 ^ 100",
    "return collectgarbage('count')",
    "return setmetatable({}, {})",
    "return coroutine.wrap(function() end)",
    "return loadstring('return 1')",
    "return cjson.encode({[1] = 1, [1000] = 2})",
    "return cjson.encode(function() end)",
    "return cjson.encode({[true] = 1})",
    "return cjson.encode({1 / 0})",
    "return cjson.decode('[1, 2')",
    "return cjson.decode('[0x10]')",
    "return cjson.decode('[01]')",
    "return cjson.decode('[-Infinity]')",
    "return cjson.decode('nothing')",
    "return cjson.decode(string.rep('[', 100) .. string.rep(']', 100))",
    "cjson.encode_max_depth(2)",
    "return tostring(cjson.null)",
    "return cmsgpack.pack(1)",
    "return string.format('%q', 'x')",
    "return string.format('%d', 1.5)",
    "return string.find('a', '[a')",
    "return tonumber('0x10')",
    "return tonumber('10', 2)",
    "return tostring(tonumber('nan'))",
    "while true do end",
    "local s = 'x' while true do s = s .. s end",
    "local t = {} while true do t[#t + 1] = {} end",
    "local function f() return 1 + f() end return f()",
    "return string.rep('x', 100000000)",
    "return string.rep('a', 1000):find(string.rep('a*', 50) .. 'b')",
    "table.sort({3, 2, 1, 5, 4}, function() return true end)",
    "return redis.setresp(3)",
    "return {map = {a = 1}}",
    "return {{{{{{{{1}}}}}}}}",
    "local t = {} t[nil] = 1",
    "redis.call('echo', {})",
    "string.x = 1",
    "KEYS = nil",
    "assert(false)",
    "return\n1\n2",
    "break",
    "local f = 1\n(f)()",
    "return 'a\nb'",
    "goto x",
    "#!lua\nreturn 1",
];

#[test]
fn a_shard_and_lua_come_to_the_same() {
    let mut differences = Vec::new();
    for code in RUN {
        let of_lua = run_within(Limits::default(), code, false);
        match at_shard(code) {
            Ok(reply) if Outcome::Ended(reply.clone()) == of_lua => {}
            other => differences.push(format!("{code}\nshard {other:?}\nLua   {of_lua:?}")),
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_shard_gives_up_what_it_cannot_know() {
    for code in LEFT {
        assert!(at_shard(code).is_err(), "{code}: {:?}", at_shard(code));
    }
}

/// Draws scripts.
struct Author {
    state: u64,
    depth: usize,
    loops: usize,
}

impl Author {
    fn below(&mut self, count: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % count
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn number(&mut self) -> String {
        self.depth += 1;
        let choice = if self.depth > 4 { self.below(3) } else { self.below(17) };
        let text = match choice {
            0 => self.one(&["0", "1", "2", "3.5", "-4", "10", "1e3", "0.1"]).to_owned(),
            1 | 2 => self.one(&["a", "b", "c"]).to_owned(),
            3..=6 => {
                let sign = self.one(&["+", "-", "*", "/", "%"]);
                format!("({} {sign} {})", self.number(), self.number())
            }
            7 => format!("#{}", self.one(&["s", "t", "u", "{1, 2, 3}"])),
            8 => format!("math.{}({})", self.one(&["floor", "ceil", "abs"]), self.number()),
            9 => format!("math.{}({}, {})", self.one(&["max", "min"]), self.number(), self.number()),
            10 => format!("f({}, {})", self.number(), self.number()),
            11 => format!("(t[{}] or {})", self.number(), self.number()),
            12 => format!("({} and {} or {})", self.truth(), self.number(), self.number()),
            13 => format!("(tonumber({}) or {})", self.text(), self.number()),
            14 => format!("-{}", self.one(&["a", "b", "(c)"])),
            15 => "r.n".to_owned(),
            _ => format!(
                "select({}, {}, {}, {})",
                self.one(&["1", "2", "'#'"]),
                self.number(),
                self.number(),
                self.number()
            ),
        };
        self.depth -= 1;
        text
    }

    fn text(&mut self) -> String {
        self.depth += 1;
        let choice = if self.depth > 4 { self.below(2) } else { self.below(12) };
        let text = match choice {
            0 => self.one(&["''", "'x'", "'hello world'", "\"a,b\"", "'12'", "KEYS[1]", "[[l]]"]).to_owned(),
            1 => self.one(&["s", "u"]).to_owned(),
            2 | 3 => format!("({} .. {})", self.text(), self.text()),
            4 => format!("tostring({})", self.number()),
            5 => format!(
                "string.sub({}, {}, {})",
                self.text(),
                self.one(&["1", "2", "-3", "0"]),
                self.one(&["-1", "3", "-2"])
            ),
            6 => format!("string.{}({})", self.one(&["upper", "lower", "reverse"]), self.text()),
            7 => format!("string.rep({}, {})", self.text(), self.one(&["0", "1", "3"])),
            8 => format!(
                "(string.gsub({}, '{}', '{}'))",
                self.text(),
                self.one(&["l", "%w", "[a-h]+", "o.", "(%a)(%a)"]),
                self.one(&["", "z", "<%0>"])
            ),
            9 => format!(
                "(string.match({}, '{}') or 'none')",
                self.text(),
                self.one(&["%d+", "^h", "(%a)$", "l*o"])
            ),
            10 => "table.concat(t, ',')".to_owned(),
            _ => format!(
                "string.format('%s|%5.2f|%d', {}, {}, {})",
                self.text(),
                self.number(),
                self.one(&["7", "-3", "#t"])
            ),
        };
        self.depth -= 1;
        text
    }

    fn truth(&mut self) -> String {
        self.depth += 1;
        let choice = if self.depth > 4 { 0 } else { self.below(6) };
        let text = match choice {
            0 => self.one(&["true", "false", "nil", "a == b", "s == u"]).to_owned(),
            1 | 2 => format!(
                "{} {} {}",
                self.number(),
                self.one(&["<", "<=", ">", ">=", "==", "~="]),
                self.number()
            ),
            3 => format!("{} {} {}", self.text(), self.one(&["<", "==", "~=", ">="]), self.text()),
            4 => format!("not ({})", self.truth()),
            _ => format!("({} {} {})", self.truth(), self.one(&["and", "or"]), self.truth()),
        };
        self.depth -= 1;
        text
    }

    fn statement(&mut self) -> String {
        self.depth += 1;
        let choice = if self.depth > 3 { self.below(7) } else { self.below(22) };
        let text = match choice {
            17 => format!("m[{}] = {}", self.text(), self.one(&["a", "nil", "1", "'x'"])),
            18 => format!("m[{}] = {}", self.number(), self.one(&["b", "nil", "true"])),
            19 => format!(
                "for i = 1, {} do m['k' .. i * a] = i m[i * {}] = s end",
                self.one(&["3", "9", "20"]),
                self.one(&["1", "2", "0.5", "3"])
            ),
            20 => {
                "for k, v in pairs(m) do s = string.sub(s .. tostring(k) .. tostring(v), -40) end".to_owned()
            }
            21 => format!(
                "m = {{{}, nil, {}, x = {}, {}}} c = #m",
                self.number(),
                self.one(&["nil", "1", "a"]),
                self.text(),
                self.one(&["nil", "unpack(t)", "f(1, 2)", "5"])
            ),
            0 | 1 => format!("{} = {}", self.one(&["a", "b", "c"]), self.number()),
            2 => format!("{} = {}", self.one(&["s", "u"]), self.text()),
            3 => format!("t[#t + 1] = {}", self.number()),
            4 => format!("t[{}] = {}", self.one(&["1", "2", "a", "#t"]), self.one(&["a", "b", "nil", "5"])),
            5 => self
                .one(&[
                    "table.insert(t, a)",
                    "table.insert(t, 1, b)",
                    "table.remove(t)",
                    "table.remove(t, 1)",
                    "table.sort(t)",
                ])
                .to_owned(),
            6 => self
                .one(&[
                    "a, b = b, a",
                    "r.n = r.n + 1",
                    "u = s",
                    "r.o = r",
                    "r[a] = b",
                    "c = g()",
                    "r.n, a = a, r.n",
                ])
                .to_owned(),
            7 | 8 => format!("if {} then {} else {} end", self.truth(), self.block(), self.block()),
            9 => format!(
                "if {} then {} elseif {} then {} end",
                self.truth(),
                self.block(),
                self.truth(),
                self.block()
            ),
            10 => format!(
                "for i = {}, {} do a = a + i {} end",
                self.one(&["1", "0", "5"]),
                self.one(&["3", "4", "2"]),
                self.block()
            ),
            11 => format!(
                "for i = 3, 1, {} do {} if {} then break end end",
                self.one(&["-1", "-0.5"]),
                self.block(),
                self.truth()
            ),
            12 => format!(
                "for i, v in {}(t) do c = c + i * v {} end",
                self.one(&["ipairs", "pairs"]),
                self.one(&["", "if i > 3 then break end"])
            ),
            13 => {
                self.loops += 1;
                let n = format!("n{}", self.loops);
                format!(
                    "local {n} = 0 while {n} < 3 and not ({}) do {n} = {n} + 1 {} end",
                    self.truth(),
                    self.block()
                )
            }
            14 => format!("do local a = {} {} s = s .. a end", self.number(), self.block()),
            15 => format!("f = function(x, y, ...) local z = {} c = z return x + z, y end", self.number()),
            _ => format!("for w in string.gmatch({}, '%w+') do u = w {} end", self.text(), self.block()),
        };
        self.depth -= 1;
        text
    }

    fn block(&mut self) -> String {
        (0..1 + self.below(2)).map(|_| self.statement() + " ").collect()
    }

    fn script(&mut self) -> String {
        let mut script = "local a, b, c, s, u, t, r, m = 1, 2, 3, 'one', 'two', {5, 3, 4}, {n = 1}, {}\n\
            local function f(x, y) return x * 2 - y end local function g() a = a + 1 return a end\n"
            .to_owned();
        for _ in 0..2 + self.below(6) {
            script += &self.statement();
            script.push('\n');
        }
        script
            + "local o = {tostring(a), tostring(b), tostring(c), s, u, #t, t, tostring(r.n), #m}\n\
               for k, v in pairs(m) do o[#o + 1] = tostring(k) o[#o + 1] = tostring(v) end return o"
    }
}

/// So many scripts are drawn, or as many as the variable says.
const CASES: u64 = 1_500;

#[test]
fn a_shard_and_lua_come_to_the_same_with_any_script() {
    let cases = std::env::var("QUORATE_REDIS_SCRIPTS").map_or(CASES, |count| count.parse().unwrap());
    let mut ended = 0;
    for seed in 0..cases {
        let code = Author { state: seed, depth: 0, loops: 0 }.script();
        if let Ok(reply) = at_shard(&code) {
            ended += 1;
            let of_lua = run_within(Limits::default(), &code, false);
            assert_eq!(Outcome::Ended(reply), of_lua, "seed {seed}:\n{code}");
        }
    }
    assert!(ended > cases / 4, "only {ended} of {cases} scripts have come to an end at a shard");
}

/// A script with some bytes taken away, doubled or replaced.
fn damaged(author: &mut Author) -> String {
    let mut bytes = RUN[author.below(RUN.len() as u64) as usize].as_bytes().to_vec();
    for _ in 0..1 + author.below(3) {
        let at = author.below(bytes.len() as u64 + 1) as usize;
        let to = (at + author.below(6) as usize).min(bytes.len());
        let part: Vec<u8> = match author.below(4) {
            0 => Vec::new(),
            1 => [&bytes[at..to], &bytes[at..to]].concat(),
            2 => author.one(&["(", ")", "=", ",", "'", "end ", "[", "-", "..", " ", "\n", "nil"]).into(),
            _ => author
                .one(&["1", "x", "{}", "#", "%", "or ", "local ", "]]", "--", "\\", ":", "function "])
                .into(),
        };
        bytes.splice(at..to, part);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_shard_takes_no_damaged_script_for_another_one() {
    let cases = std::env::var("QUORATE_REDIS_SCRIPTS").map_or(2 * CASES, |count| count.parse().unwrap());
    let mut ended = 0;
    for seed in 0..cases {
        let code = damaged(&mut Author { state: seed, depth: 0, loops: 0 });
        if let Ok(reply) = at_shard(&code) {
            ended += 1;
            let of_lua = run_within(Limits::default(), &code, false);
            assert_eq!(Outcome::Ended(reply), of_lua, "seed {seed}:\n{code}");
        }
    }
    assert!(ended > cases / 20, "only {ended} of {cases} scripts have come to an end at a shard");
}
