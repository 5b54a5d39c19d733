//! Random commands to the door and to a real Redis: the replies must be the same, errors included.
//!
//! `docs/doors/redis.md` lists what is different; here it is not asked for, or not compared:
//! - the order of what has none (`HGETALL`, `KEYS`), and what is drawn at random;
//! - times to live, by a second, and how long ago an entry was delivered or a consumer seen;
//! - the tree that a stream is, the bytes of a HyperLogLog, the last bit of stored distances;
//! - the number of a client, and what a server says of itself.
//!
//! `QUORATE_REDIS_COMMANDS` says how many commands are compared, `QUORATE_REDIS_SEED` with which seed; a failure prints both. `QUORATE_REDIS_ALL=1` prints every
//! difference, and fails at the end.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quorate_gateway::Limits;

use crate::memory;
use crate::oracle::Oracle;
use crate::templates::{Draw, command, families};
use crate::wire::{Client, Value};

/// How many commands are compared where nobody says.
const COMMANDS: usize = 5_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Commands whose replies have no order.
const UNORDERED: &[&str] = &[
    "keys",
    "hgetall",
    "hkeys",
    "hvals",
    "hscan",
    "hrandfield",
    "smembers",
    "sinter",
    "sunion",
    "sdiff",
    "sscan",
    "spop",
    "srandmember",
    "zscan",
    "zrandmember",
    "command",
];

/// Commands that reply times, which go on.
const TIMES: &[(&str, i64)] = &[("ttl", 1), ("pttl", 1_500), ("expiretime", 1), ("pexpiretime", 1_500)];

fn name_of(words: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&words[0]).to_lowercase()
}

fn sorted(value: Value, in_pairs: bool) -> Value {
    match value {
        Value::Array(values)
            if in_pairs
                && values.len().is_multiple_of(2)
                && !matches!(values.first(), Some(Value::Array(_))) =>
        {
            let mut pairs: Vec<Value> =
                values.chunks_exact(2).map(|pair| Value::Array(pair.to_vec())).collect();
            pairs.sort();
            Value::Array(pairs)
        }
        Value::Array(mut values) => {
            values.sort();
            Value::Array(values)
        }
        Value::Set(mut values) => {
            values.sort();
            Value::Set(values)
        }
        Value::Map(mut pairs) => {
            pairs.sort();
            Value::Map(pairs)
        }
        other => other,
    }
}

/// Names of what is not compared in `XINFO`.
const MASKED: &[&[u8]] = &[b"idle", b"radix-tree-keys", b"radix-tree-nodes"];

/// A reply with zeros for what these names tell.
fn masked(value: Value) -> Value {
    let is_masked = |name: &Value| matches!(name, Value::Bulk(name) if MASKED.contains(&name.as_slice()));
    match value {
        Value::Array(values) => {
            let mut masked: Vec<Value> = values.into_iter().map(masked).collect();
            for at in 1..masked.len() {
                if is_masked(&masked[at - 1]) {
                    masked[at] = Value::Integer(0);
                }
            }
            Value::Array(masked)
        }
        Value::Map(pairs) => Value::Map(
            pairs
                .into_iter()
                .map(|(name, value)| {
                    let value = if is_masked(&name) { Value::Integer(0) } else { masked(value) };
                    (name, value)
                })
                .collect(),
        ),
        other => other,
    }
}

/// Pending entries, without how long ago they were delivered.
fn without_times(value: Value) -> Value {
    let entry = |entry: Value| match entry {
        Value::Array(mut parts) if parts.len() == 4 => {
            parts[2] = Value::Integer(0);
            Value::Array(parts)
        }
        other => other,
    };
    match value {
        Value::Array(entries) if matches!(entries.first(), Some(Value::Array(_))) => {
            Value::Array(entries.into_iter().map(entry).collect())
        }
        other => other,
    }
}

/// True if this asks for elements as they are kept, which are those of a set perhaps.
fn has_no_order(words: &[Vec<u8>]) -> bool {
    let is_constant = |pair: &[Vec<u8>]| pair[0].eq_ignore_ascii_case(b"by") && !pair[1].contains(&b'*');
    words.windows(2).any(is_constant)
}

/// A reply without what may be different.
fn canonical(words: &[Vec<u8>], reply: Value) -> Value {
    let name = name_of(words);
    match name.as_str() {
        "xinfo" => return masked(reply),
        "xpending" => return without_times(reply),
        // Members of a set are kept in another order.
        "sort" | "sort_ro" if has_no_order(words) => return sorted(reply, false),
        _ => {}
    }
    if !UNORDERED.contains(&name.as_str()) {
        return reply;
    }
    let is_scan = name.ends_with("scan");
    let has_pairs = matches!(name.as_str(), "hgetall" | "hscan" | "zscan")
        || matches!(name.as_str(), "hrandfield" | "zrandmember") && words.len() == 4;
    match reply {
        Value::Array(mut page) if is_scan && page.len() == 2 => {
            let elements = page.remove(1);
            Value::Array(vec![page.remove(0), sorted(elements, has_pairs)])
        }
        reply => sorted(reply, has_pairs),
    }
}

fn is_same(words: &[Vec<u8>], one: &Value, other: &Value) -> bool {
    let time = TIMES.iter().find(|(name, _)| *name == name_of(words));
    let is_draw = ["hrandfield", "srandmember", "zrandmember"].contains(&name_of(words).as_str());
    let (is_drawn, is_sample) = (is_draw && words.len() == 2, is_draw && words.len() > 2);
    match (time, one, other) {
        // Redis counts what is expired until it meets it.
        (_, Value::Integer(ours), Value::Integer(theirs)) if name_of(words) == "dbsize" => ours <= theirs,
        (_, Value::Bulk(_), Value::Bulk(_)) if is_drawn => true,
        // As many are drawn, and perhaps others.
        (_, Value::Array(one), Value::Array(other)) if is_sample && words[2].len() < 3 => {
            one.len() == other.len()
        }
        // A Redis remembers the count in these.
        (_, Value::Bulk(one), Value::Bulk(other))
            if one.starts_with(b"HYLL") && other.starts_with(b"HYLL") =>
        {
            true
        }
        (Some((_, off)), Value::Integer(one), Value::Integer(other)) => (one - other).abs() <= *off,
        _ => canonical(words, one.clone()) == canonical(words, other.clone()),
    }
}

fn show(words: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| {
        let shown = String::from_utf8_lossy(&word[..word.len().min(60)]).into_owned();
        if word.len() > 60 { format!("{shown:?}… ({} bytes)", word.len()) } else { format!("{shown:?}") }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A door and a Redis that are told the same.
struct Both {
    door: Client,
    redis: Client,
    /// The commands that both were sent lately.
    told: Vec<String>,
    /// The last pipeline was answered differently, and differences are counted.
    is_apart: bool,
    differences: usize,
}

impl Both {
    fn connect(door: SocketAddr, redis: SocketAddr) -> Self {
        Both {
            door: Client::connect(door),
            redis: Client::connect(redis),
            told: Vec::new(),
            is_apart: false,
            differences: 0,
        }
    }

    fn fail(&self, words: &[Vec<u8>], ours: &Value, theirs: &Value) -> ! {
        let mut text = String::new();
        let lately = self.told.len().saturating_sub(25);
        self.told[lately..].iter().for_each(|line| writeln!(text, "    {line}").unwrap());
        panic!("after\n{text}{}\n  replies {ours}\n  Redis   {theirs}", show(words));
    }

    fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) {
        let (ours, theirs) = (self.door.pipeline(commands), self.redis.pipeline(commands));
        let mut queued: Vec<&[Vec<u8>]> = Vec::new();
        for ((words, ours), theirs) in commands.iter().zip(&ours).zip(&theirs) {
            let is_same = match (ours, theirs) {
                (Value::Array(ours), Value::Array(theirs)) if name_of(words) == "exec" => {
                    let each = queued.iter().zip(ours.iter().zip(theirs));
                    ours.len() == theirs.len()
                        && each.clone().all(|(words, (one, other))| is_same(words, one, other))
                }
                _ => is_same(words, ours, theirs),
            };
            if !is_same {
                if std::env::var("QUORATE_REDIS_ALL").is_err() {
                    self.fail(words, ours, theirs);
                }
                let cut = |text: String| text.chars().take(600).collect::<String>();
                let queued: Vec<String> = queued.iter().map(|words| show(words)).collect();
                println!(
                    "DIFF {} | {queued:?}\n  ours  {}\n  redis {}",
                    show(words),
                    cut(ours.to_string()),
                    cut(theirs.to_string())
                );
                self.is_apart = true;
                return;
            }
            match theirs {
                Value::Simple(text) if text == "QUEUED" => queued.push(words),
                _ => queued.clear(),
            }
            self.told.push(show(words));
        }
    }

    /// Compares what all keys hold.
    fn compare_all(&mut self) {
        let Value::Array(keys) = self.redis.ask("keys *") else { panic!("no keys") };
        for key in keys {
            let Value::Bulk(key) = key else { panic!("{key} is no key") };
            let of = |name: &str| vec![name.as_bytes().to_vec(), key.clone()];
            let Value::Simple(kind) = self.redis.pipeline(&[of("type")]).remove(0) else { panic!("no type") };
            let with = |name: &str, rest: &[&str]| {
                [of(name), rest.iter().map(|word| word.as_bytes().to_vec()).collect()].concat()
            };
            let read = match kind.as_str() {
                "zset" if key == b"dist" => of("zcard"),
                "string" if key.starts_with(b"hll:") => of("pfcount"),
                "stream" => with("xrange", &["-", "+"]),
                "string" => of("get"),
                "hash" => of("hgetall"),
                "set" => of("smembers"),
                "list" => [of("lrange"), vec![b"0".to_vec(), b"-1".to_vec()]].concat(),
                _ => [of("zrange"), vec![b"0".to_vec(), b"-1".to_vec(), b"withscores".to_vec()]].concat(),
            };
            self.pipeline(&[of("type"), read, of("pttl")]);
        }
        let all = |client: &mut Client| {
            let (mut cursor, mut found) = ("0".to_owned(), std::collections::BTreeSet::new());
            loop {
                let Value::Array(page) = client.ask(&format!("scan {cursor} count 3")) else {
                    panic!("no page")
                };
                let [Value::Bulk(next), Value::Array(keys)] = &page[..] else { panic!("no page") };
                found.extend(keys.iter().cloned());
                cursor = String::from_utf8(next.clone()).unwrap();
                if cursor == "0" {
                    return found;
                }
            }
        };
        let (ours, theirs) = (all(&mut self.door), all(&mut self.redis));
        assert_eq!(ours, theirs, "SCAN meets other keys");
    }
}

/// Puts commands into a transaction now and then, behind a watch.
fn transaction(commands: Vec<Vec<Vec<u8>>>, draw: &mut Draw) -> Vec<Vec<Vec<u8>>> {
    let line = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let mut all = Vec::new();
    if draw.one_in(3) {
        all.push(line("watch key:1 {tag}:1"));
        if draw.one_in(3) {
            all.push(line("set key:1 other"));
        }
    }
    all.push(line("multi"));
    // A command that Redis does not queue ends the transaction sooner, which is compared as well.
    all.extend(commands);
    if draw.one_in(12) {
        all.push(line("multi"));
    }
    all.push(line(if draw.one_in(8) { "discard" } else { "exec" }));
    all
}

/// True if this asks for a page of keys, or for one behind the first.
fn is_part_of_a_walk(words: &[Vec<u8>]) -> bool {
    let name = name_of(words);
    let at = if name == "scan" { 1 } else { 2 };
    let cursor = words.get(at).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    let count = words.get(3).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    name == "scan" && (words.len() == 2 || count.is_some_and(|count| count > 0))
        || name.ends_with("scan") && cursor.is_some_and(|cursor| cursor > 0)
}

/// True if this waits for more than a moment.
fn is_long_wait(words: &[Vec<u8>]) -> bool {
    const SECONDS_MAX: f64 = 0.1;
    let (at, unit) = match name_of(words).as_str() {
        "blpop" | "brpop" | "blmove" | "brpoplpush" | "bzpopmin" | "bzpopmax" => (words.len() - 1, 1.0),
        "blmpop" | "bzmpop" => (1, 1.0),
        _ => (quorate_redis_commands::timeout_position(words).unwrap_or(words.len()), 0.001),
    };
    let timeout = words.get(at).and_then(|word| std::str::from_utf8(word).ok()?.parse::<f64>().ok());
    timeout.is_some_and(|timeout| timeout == 0.0 || timeout * unit > SECONDS_MAX)
}

fn compare(shards: usize, runs_at_shards: bool, commands: usize, seed: u64) {
    let Some(oracle) = Oracle::start() else { return };
    let (gateway, address) = memory::open(shards, runs_at_shards, Limits::default());
    let (mut draw, families) = (Draw::new(seed), families());
    let mut both = Both::connect(address, oracle.address);
    let mut count = 0;
    while count < commands {
        if draw.one_in(20) {
            let version = draw.choose(&["2", "3"]);
            for client in [&mut both.door, &mut both.redis] {
                client.ask(&format!("hello {version}"));
            }
        }
        // A family at a time meets its own keys more often than all together do.
        let (_, templates) = draw.choose(&families);
        let length = if draw.one_in(3) { 1 + draw.below(10) } else { 1 };
        let mut pipeline: Vec<_> = (0..length).map(|_| command(templates, &mut draw)).collect();
        // A connection that ends is compared elsewhere.
        pipeline.retain(|words| !matches!(name_of(words).as_str(), "quit" | "reset" | "client"));
        // Nor one whose effect is drawn at random.
        pipeline.retain(|words| name_of(words) != "spop" || words.len() != 2);
        // Nor one that waits for long, or for ever.
        pipeline.retain(|words| !is_long_wait(words));
        // Nor a part of a walk, nor what depends on how things are kept.
        pipeline.retain(|words| !is_part_of_a_walk(words) && (name_of(words) != "dump" || words.len() != 2));
        if draw.one_in(6) {
            pipeline = transaction(pipeline, &mut draw);
        }
        count += pipeline.len();
        both.pipeline(&pipeline);
        if std::mem::take(&mut both.is_apart) {
            both = Both { differences: both.differences, ..Both::connect(address, oracle.address) };
            both.door.ask("flushall");
            both.redis.ask("flushall");
            continue;
        }
        if draw.one_in(150) {
            both.compare_all();
            let flush = |name: &str| vec![name.as_bytes().to_vec()];
            if draw.one_in(2) {
                both.pipeline(&[flush("flushall"), flush("dbsize")]);
            }
        }
    }
    both.compare_all();
    assert_eq!(both.differences, 0, "commands were answered differently");
    drop(both);
    let deadline = Instant::now() + Duration::from_secs(10);
    while gateway.memory().held() > 0 || gateway.connections() > 0 {
        assert!(Instant::now() < deadline, "connections do not give back what they held");
        std::thread::sleep(Duration::from_millis(5));
    }
    gateway.shutdown();
}

fn compare_by_settings(shards: usize, runs_at_shards: bool) {
    let commands = setting("QUORATE_REDIS_COMMANDS", COMMANDS as u64) as usize;
    let seed = setting("QUORATE_REDIS_SEED", 1);
    println!("QUORATE_REDIS_COMMANDS={commands} QUORATE_REDIS_SEED={seed}");
    compare(shards, runs_at_shards, commands, seed);
}

#[test]
fn one_shard_replies_as_redis_does() {
    compare_by_settings(1, true);
}

#[test]
fn five_shards_reply_as_redis_does() {
    compare_by_settings(5, true);
}

#[test]
fn interactive_transactions_reply_as_redis_does() {
    compare_by_settings(3, false);
}
