//! Clients that ask about other clients, end them, wake them and hold them up; and what the door tells of its commands.

use std::time::{Duration, Instant};

use quorate_gateway::Limits;

use crate::memory;
use crate::oracle::Oracle;
use crate::wire::{Client, Value, encode};

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn id(client: &mut Client) -> i64 {
    let Value::Integer(id) = client.ask("client id") else { panic!("it has an id") };
    id
}

/// The lines of `CLIENT LIST`, each as its fields.
fn list(client: &mut Client, line: &str) -> Vec<Vec<(String, String)>> {
    let Value::Bulk(text) = client.ask(line) else { panic!("it is text") };
    let field = |field: &str| {
        let (name, value) = field.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    let text = String::from_utf8(text).unwrap();
    text.lines().map(|line| line.split(' ').map(field).collect()).collect()
}

fn field<'a>(line: &'a [(String, String)], name: &str) -> &'a str {
    &line.iter().find(|(known, _)| known == name).unwrap().1
}

fn ok() -> Value {
    Value::Simple("OK".to_owned())
}

#[test]
fn a_client_is_told_of_all_clients_of_its_door() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let [mut one, mut subscriber, mut busy] = [(); 3].map(|()| Client::connect(address));
    subscriber.ask("client setname listens");
    subscriber.ask("subscribe a");
    busy.ask("multi");
    busy.ask("get x");
    let (subscribed, in_multi) = (list(&mut one, "client list type pubsub"), list(&mut one, "client list"));
    assert_eq!(subscribed.len(), 1);
    assert_eq!(field(&subscribed[0], "name"), "listens");
    assert_eq!((field(&subscribed[0], "sub"), field(&subscribed[0], "flags")), ("1", "P"));
    assert_eq!(field(&subscribed[0], "cmd"), "subscribe");
    let Value::Bulk(info) = one.ask("info stats") else { panic!("it is text") };
    assert!(String::from_utf8_lossy(&info).contains("\r\npubsub_channels:1\r\npubsub_patterns:0\r\n"));
    assert_eq!(in_multi.len(), 3);
    assert_eq!((field(&in_multi[2], "multi"), field(&in_multi[2], "flags")), ("1", "x"));
    let own = id(&mut one);
    let line = list(&mut one, &format!("client list id {own} 999"));
    assert_eq!((line.len(), field(&line[0], "cmd")), (1, "client|list"));
    drop(busy);
    let deadline = Instant::now() + Duration::from_secs(10);
    while list(&mut one, "client list").len() > 2 {
        assert!(Instant::now() < deadline, "a client that has gone is told of");
    }
}

#[test]
fn clients_are_ended_by_what_is_known_of_them() {
    let (gateway, address) = memory::open(1, true, Limits::default());
    let mut one = Client::connect(address);
    let mut waits = Client::connect(address);
    let waiting = id(&mut waits);
    waits.send(&encode(&words("blpop nothing 0")));
    let mut idle = Client::connect(address);
    let at = idle.stream.get_ref().local_addr().unwrap();
    assert_eq!(idle.ask("ping"), Value::Simple("PONG".to_owned()));
    assert_eq!(one.ask(&format!("client kill id {waiting}")), Value::Integer(1));
    assert_eq!(one.ask(&format!("client kill addr {at} skipme yes")), Value::Integer(1));
    let deadline = Instant::now() + Duration::from_secs(10);
    while gateway.connections() > 1 {
        assert!(Instant::now() < deadline, "they are still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(one.ask("client kill type normal"), Value::Integer(0), "it spares itself");
    assert_eq!(one.ask("client kill type normal skipme no"), Value::Integer(1));
    while gateway.connections() > 0 {
        assert!(Instant::now() < deadline, "it is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_waits_is_woken_by_another_one() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let (mut one, mut waits) = (Client::connect(address), Client::connect(address));
    let id = id(&mut waits);
    assert_eq!(one.ask(&format!("client unblock {id}")), Value::Integer(0), "it does not wait");
    for (how, expected) in [
        ("", Value::NullArray),
        (" timeout", Value::NullArray),
        (" error", Value::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".to_owned())),
    ] {
        waits.send(&encode(&words("blpop nothing 0")));
        let deadline = Instant::now() + Duration::from_secs(10);
        while one.ask(&format!("client unblock {id}{how}")) == Value::Integer(0) {
            assert!(Instant::now() < deadline, "it does not wait");
        }
        assert_eq!(waits.receive(), expected);
    }
    one.ask("rpush queue 1");
    assert!(matches!(waits.ask("blpop queue 0"), Value::Array(_)), "it goes on");
}

#[test]
fn a_pause_holds_up_writes_or_everything_until_it_ends() {
    const PAUSE: Duration = Duration::from_millis(300);
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let (mut one, mut other) = (Client::connect(address), Client::connect(address));
    for (mode, held_up, free) in
        [("write", "set a 1", "get a"), ("write", "publish c m", "ping"), ("all", "get a", "")]
    {
        let begun = Instant::now();
        assert_eq!(one.ask(&format!("client pause {} {mode}", PAUSE.as_millis())), ok());
        if !free.is_empty() {
            other.ask(free);
            assert!(begun.elapsed() < PAUSE, "{free}");
        }
        other.ask(held_up);
        assert!(begun.elapsed() >= PAUSE, "{held_up} after {:?}", begun.elapsed());
    }
    let begun = Instant::now();
    one.ask("client pause 50000 write");
    other.send(&encode(&words("set a 2")));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(one.ask("client unpause"), ok());
    assert_eq!(other.receive(), ok());
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(matches!(one.ask("client pause 60001"), Value::Error(_)));
}

/// Questions whose replies are those of Redis.
const QUESTIONS: &[&str] = &[
    "client kill 127.0.0.1:1",
    "client kill id 0",
    "client kill id x",
    "client kill id 99999",
    "client kill type nothing",
    "client kill user nobody",
    "client kill addr",
    "client kill addr 127.0.0.1:1 skipme maybe",
    "client kill nothing x",
    "client kill",
    "client unblock x",
    "client unblock 99999",
    "client unblock 99999 maybe",
    "client unblock",
    "client pause x",
    "client pause -1",
    "client pause 0 maybe",
    "client pause",
    "client unpause",
    "client getredir",
    "client list type nothing",
    "client list type",
    "client list id x",
    "client list nothing",
    "client nothing",
    "command getkeys get x",
    "command getkeys mset a 1 b 2",
    "command getkeys object encoding k",
    "command getkeys eval x 1 k",
    "command getkeys eval x 0",
    "command getkeys watch a b",
    "command getkeys publish a b",
    "command getkeys spublish a b",
    "command getkeys zunion 2 a b",
    "command getkeys zunion 5 a",
    "command getkeys zunionstore d 2 a b",
    "command getkeys blpop a b 0",
    "command getkeys blmpop 0 2 a b left",
    "command getkeys bitop and d a b",
    "command getkeys script load x",
    "command getkeys nothing x",
    "command getkeys get x y",
    "command getkeys lmpop 2 a b left",
    "command getkeys sintercard 2 a b limit 1",
    "command getkeys rename a b",
    "command getkeys set a b px 1",
    "command info client|id object|encoding",
    "command info nothing|at",
];

#[test]
fn a_write_behind_a_flush_of_many_keys_stays() {
    for runs_at_shards in [true, false] {
        let (_gateway, address) = memory::open(1, runs_at_shards, Limits::default());
        let mut client = Client::connect(address);
        // More than one transaction removes.
        for part in 0..21 {
            let pairs = (0..500).flat_map(|number| [format!("k{part}-{number}"), "v".to_owned()]);
            let set: Vec<String> = std::iter::once("mset".to_owned()).chain(pairs).collect();
            assert_eq!(client.ask(&set.join(" ")), ok());
        }
        assert_eq!(client.ask("dbsize"), Value::Integer(10_500));
        let pipeline = ["set a 0", "flushall", "set a 1", "get a", "dbsize"].map(words);
        let expected = [ok(), ok(), ok(), Value::Bulk(b"1".to_vec()), Value::Integer(1)];
        assert_eq!(client.pipeline(&pipeline), expected, "at shards: {runs_at_shards}");
        assert_eq!(client.ask("dbsize"), Value::Integer(1));
    }
}

#[test]
fn a_client_is_told_what_redis_tells_it() {
    let Some(oracle) = Oracle::start() else { return };
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let (mut ours, mut theirs) = (Client::connect(address), Client::connect(oracle.address));
    let mut differences = Vec::new();
    for question in QUESTIONS {
        let [reply, of_redis] = [&mut ours, &mut theirs].map(|client| client.ask(question));
        if reply != of_redis {
            differences.push(format!("{question}\n  replies {reply}\n  Redis   {of_redis}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Everything but the subcommands that are not there, which Redis lists in no certain order.
fn without_subcommands(value: Value) -> Value {
    match value {
        Value::Array(mut parts) => {
            parts.truncate(9);
            Value::Array(parts)
        }
        other => other,
    }
}

/// The names that a list of commands tells, in order.
fn names(client: &mut Client, question: &str) -> Vec<String> {
    let Value::Array(names) = client.ask(question) else { panic!("it is a list: {question}") };
    let text = |name| match name {
        Value::Bulk(name) => String::from_utf8(name).unwrap(),
        other => panic!("{question}: {other}"),
    };
    let mut names: Vec<String> = names.into_iter().map(text).collect();
    names.sort_unstable();
    names
}

#[test]
fn commands_and_subcommands_are_listed_and_those_left_out_are_unsupported() {
    let Some(oracle) = Oracle::start() else { return };
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let (mut ours, mut theirs) = (Client::connect(address), Client::connect(oracle.address));
    let is_there = names(&mut ours, "command list");
    for name in ["client|id", "config|get", "xgroup|create", "object|encoding", "get"] {
        assert!(is_there.iter().any(|known| known == name), "{name}");
    }
    for filter in ["", " filterby pattern client*", " filterby aclcat connection", " filterby aclcat write"] {
        let question = format!("command list{filter}");
        let mut expected = names(&mut theirs, &question);
        expected.retain(|name| is_there.contains(name));
        assert_eq!(names(&mut ours, &question), expected, "{question}");
    }
    for name in names(&mut theirs, "command list") {
        if !is_there.contains(&name) && !name.contains('|') {
            let reply = ours.ask(&name);
            let beginning = format!("ERR unsupported: {}: ", name.to_uppercase());
            assert!(matches!(&reply, Value::Error(text) if text.starts_with(&beginning)), "{name}: {reply}");
        }
    }
    let Value::Error(unknown) = ours.ask("nothing-like-it") else { panic!("it is there") };
    assert!(unknown.starts_with("ERR unknown command 'nothing-like-it'"), "{unknown}");
    ours.ask("multi");
    assert!(matches!(ours.ask("move a 1"), Value::Error(_)));
    assert!(matches!(ours.ask("exec"), Value::Error(text) if text.starts_with("EXECABORT")));
}

#[test]
fn every_command_is_described_as_redis_describes_it() {
    let Some(oracle) = Oracle::start() else { return };
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let (mut ours, mut theirs) = (Client::connect(address), Client::connect(oracle.address));
    for version in ["2", "3"] {
        for client in [&mut ours, &mut theirs] {
            client.ask(&format!("hello {version}"));
        }
        let Value::Array(names) = ours.ask("command list") else { panic!("it is a list") };
        assert!(names.len() > 160);
        for name in names {
            let Value::Bulk(name) = name else { panic!("names are text") };
            let question = format!("command info {}", String::from_utf8(name).unwrap());
            let [reply, of_redis] = [&mut ours, &mut theirs].map(|client| match client.ask(&question) {
                Value::Array(mut of) => without_subcommands(of.remove(0)),
                other => panic!("{question}: {other}"),
            });
            assert_eq!(reply.to_string(), of_redis.to_string(), "{question}");
        }
    }
}
