//! Commands of Redis with arguments that make sense and others: over a shard, and over what an interactive transaction has fetched.

use std::collections::BTreeSet;

use quorate_core::Random;
use quorate_procedure::fetched::{Attempt, Called, read};
use quorate_procedure::{Answer as Ended, Memory};
use quorate_redis::codec::{Limits, Version, write_reply};
use quorate_redis_commands::{Answer, COMMANDS, Commands, Reply, Request, check, find};

use super::pipeline::{decode, encode};
use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "commands",
    what: "all commands: alike at a shard and over what was fetched, readers do not write, and what is left is whole",
    draw,
    run,
};

/// The time of the first command, in microseconds since the Unix epoch.
pub(super) const NOW: u64 = 1_800_000_000_000_000;

/// From one command to the next.
const STEP_US: u64 = 700_000;

/// Of an input, so many commands are carried out.
const COMMANDS_MAX: usize = 40;

/// The words of a command that may be long, and are not looked at, in bytes.
const LIMITS: Limits = Limits { bulk_bytes_max: 100_000, arguments_max: 200, request_bytes_max: 1_000_000 };

/// Commands that make something, and those whose arguments chance would not find. A word of one letter stands for one of some keys: `L` of lists, `S` of sets, `H` of hashes, `Z` of
/// sorted sets, `X` of streams, `T` of strings, `P` of HyperLogLogs, `G` of places.
const TEMPLATES: &[&str] = &[
    "rpush L a b c 1 2",
    "lpush L 7 8 a",
    "linsert L before b x",
    "lmpop 2 L L left count 2",
    "lpos L a rank -1 count 0 maxlen 10",
    "lmove L L left right",
    "ltrim L 1 -2",
    "sadd S a b c 1 2 3",
    "spop S 2",
    "srandmember S -5",
    "smove S S a",
    "sintercard 2 S S limit 2",
    "sinterstore S S S",
    "hset H f 1 g 2 h 3",
    "hincrby H f 5",
    "hincrbyfloat H g 1.5",
    "hrandfield H -4 withvalues",
    "hscan H 0 match * count 2",
    "zadd Z 1 a 2 b 3 c",
    "zadd Z gt ch 5 a -inf d",
    "zadd Z incr 1.5 a",
    "zrange Z (1 +inf byscore limit 0 2 withscores",
    "zrange Z [a (c bylex rev",
    "zrangestore Z Z 0 -1",
    "zunionstore Z 2 Z S weights 2 3 aggregate max",
    "zinter 2 Z Z aggregate min withscores",
    "zdiffstore Z 2 Z S",
    "zmpop 2 Z Z min count 2",
    "zremrangebyscore Z 1 (3",
    "zremrangebylex Z - [b",
    "geoadd G 13.361389 38.115556 p 15.087269 37.502669 q",
    "geosearch G fromlonlat 15 37 byradius 200 km asc count 1 any withcoord withdist withhash",
    "geosearch G frommember p bybox 400 400 km",
    "geosearchstore G G frommember p byradius 200 km storedist",
    "georadius G 15 37 200 km store Z",
    "xadd X 5-1 f v",
    "xadd X * f v g w",
    "xadd X maxlen ~ 2 * f v",
    "xtrim X minid ~ 5 limit 10",
    "xgroup create X g 0 mkstream",
    "xgroup setid X g $ entriesread 1",
    "xgroup createconsumer X g alice",
    "xgroup delconsumer X g alice",
    "xgroup destroy X g",
    "xreadgroup group g alice count 2 streams X >",
    "xreadgroup group g bob noack streams X 0",
    "xread count 2 streams X X 0 5-1",
    "xack X g 5-1",
    "xpending X g idle 0 - + 10 alice",
    "xclaim X g bob 0 5-1 idle 5 retrycount 2 force justid lastid 6-0",
    "xautoclaim X g bob 0 0-0 count 2 justid",
    "xinfo stream X full count 1",
    "xinfo consumers X g",
    "xsetid X 9-9 entriesadded 5 maxdeletedid 1-1",
    "xdel X 5-1",
    "set T 5 ex 100 keepttl get",
    "set T hello px 500",
    "append T more",
    "setrange T 5 x",
    "setbit T 77 1",
    "bitfield T get u8 0 set i5 #1 7 overflow sat incrby u2 100 1",
    "bitpos T 1 0 -1 bit",
    "bitop xor T T T",
    "lcs T T idx minmatchlen 1 withmatchlen",
    "incrbyfloat T 3.0e3",
    "pfadd P a b c",
    "pfmerge P P P",
    "pfcount P P",
    "sort L by w* get # get k* limit 0 5 desc alpha store L",
    "sort S alpha",
    "expire T 100 nx",
    "pexpireat L 1800000005000 gt",
    "persist T",
    "rename L L",
    "copy Z Z replace",
    "object encoding Z",
    "scan 0 match * count 3 type list",
    "flushall async",
    "lrem L 0 a",
    "zrevrange Z 0 -1 withscores",
    "zcount Z -inf (3",
    "xpending X g",
    "xclaim X g bob 0 5-1 5-2",
    "xadd X 5-* f v",
    "xgroup create X g 0-0 mkstream",
    "setex T 100 v",
    "set T 7",
    "incrby T 5",
    "getrange T 0 -1",
    "substr T -3 2",
    "getbit T 7",
    "renamenx L T",
    "pexpire L 1000",
    "expireat L 1800000100",
    "lset L 0 x",
    "lrange L 0 -1",
    "sscan S 0 count 2",
    "zunion 2 Z Z withscores",
    "zdiff 2 Z S",
    "zinterstore Z 2 Z S",
    "zintercard 2 Z Z limit 1",
    "zrangebyscore Z -inf (3 withscores limit 0 2",
    "zrevrangebyscore Z +inf 1",
    "zrangebylex Z - + limit 1 2",
    "zrevrangebylex Z + (a",
    "zlexcount Z [a [c",
    "zremrangebyrank Z 0 0",
    "georadius_ro G 15 37 200 km count 1",
    "xrange X - + count 2",
    "xrevrange X + 5-1",
];

/// Words that commands look for, and those at which they turn.
const WORDS: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "10",
    "-10",
    "100",
    "1000000",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "1.5",
    "-0",
    "0.1",
    "1e308",
    "-1e308",
    "1e-320",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "(1",
    "(inf",
    "(",
    "[a",
    "(b",
    "[",
    "-",
    "+",
    "*",
    "$",
    ">",
    "~",
    "=",
    "#",
    "0-0",
    "5-1",
    "5-*",
    "6",
    "18446744073709551615-18446744073709551615",
    "nx",
    "xx",
    "gt",
    "lt",
    "ch",
    "incr",
    "ex",
    "px",
    "exat",
    "pxat",
    "keepttl",
    "get",
    "persist",
    "limit",
    "count",
    "match",
    "type",
    "withscores",
    "withvalues",
    "byscore",
    "bylex",
    "rev",
    "aggregate",
    "sum",
    "min",
    "max",
    "weights",
    "store",
    "storedist",
    "by",
    "asc",
    "desc",
    "alpha",
    "rank",
    "maxlen",
    "minid",
    "nomkstream",
    "streams",
    "group",
    "noack",
    "block",
    "idle",
    "time",
    "retrycount",
    "force",
    "justid",
    "lastid",
    "entriesread",
    "create",
    "setid",
    "destroy",
    "mkstream",
    "stream",
    "full",
    "frommember",
    "fromlonlat",
    "byradius",
    "bybox",
    "m",
    "km",
    "withcoord",
    "any",
    "left",
    "right",
    "before",
    "after",
    "and",
    "not",
    "bit",
    "byte",
    "overflow",
    "wrap",
    "sat",
    "fail",
    "set",
    "incrby",
    "u8",
    "i64",
    "u63",
    "#1",
    "len",
    "idx",
    "minmatchlen",
    "withmatchlen",
    "replace",
    "absttl",
    "freq",
    "idletime",
    "encoding",
    "help",
    "a",
    "b",
    "f",
    "g",
    "alice",
    "hello",
    "l1",
    "s1",
    "h1",
    "z1",
    "x1",
    "t1",
    "p1",
    "[^",
    "\\",
    "a*b*c*d*",
];

/// How often a word of a template is another one than it says.
const BENT_WORD: f64 = 0.12;

fn key(kind: char, random: &mut Random) -> Vec<u8> {
    let name = kind.to_ascii_lowercase();
    // Slots differ, and some keys share one.
    format!("{name}{}", random.below(2)).into_bytes()
}

fn any_word(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => (0..random.below(12)).map(|_| random.next_u64() as u8).collect(),
        1 => vec![b'x'; [63, 64, 65, 300, 4_063, 4_064, 4_065, 5_000][random.index(8)]],
        2 | 3 => key(['l', 's', 'h', 'z', 'x', 't', 'p', 'g'][random.index(8)], random),
        _ => WORDS[random.index(WORDS.len())].into(),
    }
}

/// The words of a command: from a template, or of any command with any words.
pub(super) fn draw_words(random: &mut Random) -> Vec<Vec<u8>> {
    if random.chance(0.3) {
        let command = loop {
            let command = &COMMANDS[random.index(COMMANDS.len())];
            if !command.is_internal() {
                break command;
            }
        };
        let least = command.arity.unsigned_abs() as usize;
        let more = if command.arity < 0 { random.index(6) } else { 0 };
        let mut words = vec![command.name.as_bytes().to_vec()];
        words.extend((1..least + more).map(|_| any_word(random)));
        for at in command.key_positions(&words) {
            words[at] = key(['l', 's', 'h', 'z', 'x', 't', 'p', 'g'][random.index(8)], random);
        }
        return words;
    }
    let template = TEMPLATES[random.index(TEMPLATES.len())];
    let mut words = Vec::new();
    for (at, word) in template.split(' ').enumerate() {
        let mut letters = word.chars();
        words.push(match (letters.next(), letters.next()) {
            _ if at > 0 && random.chance(BENT_WORD) => any_word(random),
            (Some(kind @ ('L' | 'S' | 'H' | 'Z' | 'X' | 'T' | 'P' | 'G')), None) => key(kind, random),
            _ => word.into(),
        });
    }
    if random.chance(0.1) {
        words.push(any_word(random));
    }
    words
}

fn draw(random: &mut Random) -> Vec<u8> {
    (0..random.between(1, COMMANDS_MAX as u64)).flat_map(|_| encode(&draw_words(random))).collect()
}

fn run(input: &[u8]) {
    let mut memory = Memory { timestamp: Some(NOW), ..Memory::default() };
    for (at, words) in decode(input, LIMITS, &[]).0.iter().take(COMMANDS_MAX).enumerate() {
        carry_out(&mut memory, at as u64, words);
    }
    assert_whole(&mut memory);
}

/// Carries out a command as a door does, if it is one, both at the shard and over what is fetched of it. Gives its reply; none if it is not carried out.
pub(super) fn carry_out(memory: &mut Memory, seed: u64, words: &[Vec<u8>]) -> Option<Reply> {
    let now = memory.timestamp.unwrap_or(NOW) + STEP_US;
    memory.timestamp = Some(now);
    let command = find(words.first()?).filter(|command| !command.is_internal())?;
    check(&command, words).ok()?;
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let request = Request { seed, commands: vec![words.clone()], ..Request::default() }.encode();
    let mut attempt = Attempt::at(now);
    let called = loop {
        match attempt.next(&Commands, &request) {
            Called::Misses(needs) => attempt.found_all(read(memory, needs).expect("a memory has everything")),
            called => break called,
        }
    };
    let mut before = memory.clone();
    let shown = || words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
    match (memory.call(&Commands, &request, !command.writes()), called) {
        (Ok(Ended::Done(answer)), Called::Done { answer: fetched, writes }) => {
            assert_eq!(answer, fetched, "another answer over what was fetched: {}", shown());
            before.apply(writes);
            assert!(before == *memory, "other writes over what was fetched: {}", shown());
            let Ok(Answer::Replies(mut replies)) = Answer::decode(&answer) else {
                panic!("no reply that a door can read: {}", shown())
            };
            assert_eq!(replies.len(), 1, "{}", shown());
            for version in [Version::Two, Version::Three] {
                write_reply(&mut Vec::new(), &replies[0], version);
            }
            replies.pop()
        }
        (Ok(Ended::Refused(reason)), Called::Refused(fetched)) => {
            assert_eq!(reason, fetched, "{}", shown());
            None
        }
        (shard, fetched) => panic!("{shard:?} at a shard, {fetched:?} over what was fetched: {}", shown()),
    }
}

/// The reply to a command.
pub(super) fn ask(memory: &mut Memory, words: &[&[u8]]) -> Reply {
    let request = Request { commands: vec![words.to_vec()], ..Request::default() }.encode();
    match memory.call(&Commands, &request, false) {
        Ok(Ended::Done(answer)) => match Answer::decode(&answer) {
            Ok(Answer::Replies(mut replies)) => replies.pop().expect("one reply to one command"),
            other => panic!("no reply: {other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The keys that are there.
pub(super) fn keys_of(memory: &mut Memory) -> Vec<Vec<u8>> {
    let Reply::Array(keys) = ask(memory, &[b"keys", b"*"]) else { panic!("KEYS replies an array") };
    let bytes = |key| if let Reply::Bulk(key) = key { key } else { panic!("a key is bytes: {key:?}") };
    keys.into_iter().map(bytes).collect()
}

/// Every key is of a type, holds as many elements as it says, and none, and comes back from a dump.
///
/// # Panics
/// One does not.
pub(super) fn assert_whole(memory: &mut Memory) {
    let keys = keys_of(memory);
    assert_eq!(ask(memory, &[b"dbsize"]), Reply::count(keys.len()), "DBSIZE and KEYS");
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "a key is there twice");
    for key in &keys {
        let name = key.escape_ascii().to_string();
        let Reply::Simple(kind) = ask(memory, &[b"type", key]) else { panic!("{name} has no type") };
        let (count, all): (&[u8], &[&[u8]]) = match kind.as_ref() {
            "string" => (b"strlen", &[b"get", key]),
            "list" => (b"llen", &[b"lrange", key, b"0", b"-1"]),
            "set" => (b"scard", &[b"smembers", key]),
            "hash" => (b"hlen", &[b"hgetall", key]),
            "zset" => (b"zcard", &[b"zrange", key, b"0", b"-1"]),
            "stream" => (b"xlen", &[b"xrange", key, b"-", b"+"]),
            other => panic!("{name} is of type {other}"),
        };
        let Reply::Integer(count) = ask(memory, &[count, key]) else { panic!("{name} has no length") };
        let there = match ask(memory, all) {
            Reply::Bulk(bytes) => bytes.len(),
            Reply::Array(elements) | Reply::Set(elements) => elements.len(),
            Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Table(pairs) => pairs.len(),
            other => panic!("{name} holds {other:?}"),
        };
        assert_eq!(count, there as i64, "the length of the {kind} {name}");
        assert!(count > 0 || ["string", "stream"].contains(&kind.as_ref()), "{name} is an empty {kind}");
        comes_back(memory, key);
    }
}

/// A dump of a key becomes a key of which the dump is the same.
fn comes_back(memory: &mut Memory, key: &[u8]) {
    const COPY: &[u8] = b"the copy of a key";
    let Reply::Bulk(dump) = ask(memory, &[b"dump", key]) else { panic!("there is no dump of a key") };
    let restored = ask(memory, &[b"restore", COPY, b"0", &dump, b"replace"]);
    assert_eq!(restored, Reply::OK, "{} is not restored", key.escape_ascii());
    assert_eq!(ask(memory, &[b"dump", COPY]), Reply::Bulk(dump), "{} is another one now", key.escape_ascii());
    ask(memory, &[b"del", COPY]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many inputs are enough to meet nearly all commands.
    const INPUTS: u64 = 1_500;

    #[test]
    fn nearly_every_command_does_something_in_one_input_or_another() {
        let mut done = BTreeSet::new();
        for seed in 0..INPUTS {
            let mut memory = Memory { timestamp: Some(NOW), ..Memory::default() };
            for (at, words) in decode(&draw(&mut Random::new(seed).fork()), LIMITS, &[]).0.iter().enumerate()
            {
                if carry_out(&mut memory, at as u64, words).is_some_and(|reply| !reply.is_error()) {
                    done.extend(find(&words[0]).map(|command| command.name));
                }
            }
        }
        let all = COMMANDS.iter().filter(|command| !command.is_internal()).map(|command| command.name);
        let missing: Vec<_> = all.filter(|name| !done.contains(name)).collect();
        // A dump is nothing that chance writes; every key that is left is dumped and restored.
        assert_eq!(missing, ["restore"], "nothing comes of these");
    }

    #[test]
    #[should_panic(expected = "Failed")]
    fn a_collection_whose_elements_are_gone_is_noticed() {
        let mut memory = Memory { timestamp: Some(NOW), ..Memory::default() };
        carry_out(&mut memory, 0, &["rpush", "l", "a"].map(|word| word.as_bytes().to_vec()));
        // The header stays, and says that there is one.
        memory.pairs.retain(|key, _| key[0] == b'k');
        assert_whole(&mut memory);
    }
}
