//! Clients that wait until there is something to take.

use std::time::{Duration, Instant};

use quorate_gateway::Limits;

use crate::memory;
use crate::wire::{Client, Value, encode};

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn command(line: &str) -> Vec<u8> {
    encode(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
}

#[test]
fn a_client_waits_for_what_another_pushes_and_everything_behind_waits_with_it() {
    let (_gateway, address) = memory::open(2, true, Limits::default());
    let (mut waits, mut pushes) = (Client::connect(address), Client::connect(address));
    for (asked, pushed, expected) in [
        ("blpop a b 0", "rpush b 1 2", vec![bulk("b"), bulk("1")]),
        ("brpop c 0", "rpush c 1 2", vec![bulk("c"), bulk("2")]),
        ("bzpopmin y z 0", "zadd z 2 two 1 one", vec![bulk("z"), bulk("one"), bulk("1")]),
        (
            "blmpop 0 2 d e left count 2",
            "rpush e 1 2 3",
            vec![bulk("e"), Value::Array(vec![bulk("1"), bulk("2")])],
        ),
    ] {
        waits.send(&command(asked));
        waits.send(&command("ping"));
        std::thread::sleep(Duration::from_millis(60));
        // Another type and another database are not waited for.
        let key = pushed.split(' ').nth(1).unwrap();
        assert!(matches!(pushes.ask(&format!("set {key} x")), Value::Simple(_)));
        pushes.ask(&format!("del {key}"));
        let begun = Instant::now();
        assert!(matches!(pushes.ask(pushed), Value::Integer(2..)), "{pushed}");
        assert_eq!(waits.receive(), Value::Array(expected), "{asked}");
        assert!(begun.elapsed() < Duration::from_millis(200), "a bell was rung: {:?}", begun.elapsed());
        assert_eq!(waits.receive(), Value::Simple("PONG".to_owned()));
    }
    waits.send(&command("blmove from to left right 0"));
    pushes.ask("multi");
    pushes.ask("rpush from x");
    assert_eq!(pushes.ask("exec"), Value::Array(vec![Value::Integer(1)]));
    assert_eq!(waits.receive(), bulk("x"));
    assert_eq!(pushes.ask("lrange to 0 -1"), Value::Array(vec![bulk("x")]));
}

#[test]
fn the_time_is_up_and_nothing_waits_within_a_transaction() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let mut client = Client::connect(address);
    for asked in ["blpop a 0.05", "blmove a b left left 0.05", "brpoplpush a b 0.05", "bzmpop 0.05 1 z min"] {
        let begun = Instant::now();
        assert_eq!(client.ask(asked), Value::NullArray, "{asked}");
        assert!(begun.elapsed() >= Duration::from_millis(50), "{asked}");
    }
    client.ask("multi");
    for asked in ["blpop a 0", "blmove a b left left 0", "blpop a x", "rpush a 1", "blpop a 0"] {
        assert_eq!(client.ask(asked), Value::Simple("QUEUED".to_owned()));
    }
    let error = Value::Error("ERR timeout is not a float or out of range".to_owned());
    let popped = Value::Array(vec![bulk("a"), bulk("1")]);
    assert_eq!(
        client.ask("exec"),
        Value::Array(vec![Value::NullArray, Value::Null, error, Value::Integer(1), popped])
    );
    assert_eq!(client.ask("command getkeys blpop a b 1"), Value::Array(vec![bulk("a"), bulk("b")]));
}

#[test]
fn a_client_that_has_gone_takes_nothing() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let mut other = Client::connect(address);
    for sends_more in [false, true] {
        let mut waits = Client::connect(address);
        waits.send(&command("blpop queue 0"));
        if sends_more {
            waits.send(&command("ping"));
        }
        std::thread::sleep(Duration::from_millis(50));
        drop(waits);
        // It is noticed a moment later.
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(other.ask("rpush queue 1"), Value::Integer(1));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(other.ask("lpop queue"), bulk("1"), "nobody else has taken it");
    }
}

#[test]
fn of_many_that_wait_each_gets_one() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(address)).collect();
    clients.iter_mut().for_each(|client| client.send(&command("blpop queue 0")));
    std::thread::sleep(Duration::from_millis(50));
    let mut pushes = Client::connect(address);
    for number in 0..20 {
        pushes.ask(&format!("rpush queue {number}"));
    }
    let mut got: Vec<Value> = clients.iter_mut().map(Client::receive).collect();
    got.sort();
    let mut expected: Vec<Value> =
        (0..20).map(|number| Value::Array(vec![bulk("queue"), bulk(&number.to_string())])).collect();
    expected.sort();
    assert_eq!(got, expected);
}

/// The reply to a reader of one entry of one stream.
fn told(key: &str, id: &str, value: &str) -> Value {
    let entry = Value::Array(vec![bulk(id), Value::Array(vec![bulk("f"), bulk(value)])]);
    Value::Array(vec![Value::Array(vec![bulk(key), Value::Array(vec![entry])])])
}

#[test]
fn readers_of_a_stream_wait_for_the_next_entry() {
    let (_gateway, address) = memory::open(3, true, Limits::default());
    let mut adds = Client::connect(address);
    adds.ask("xadd s 1-1 f before");
    let mut readers: Vec<Client> = (0..3).map(|_| Client::connect(address)).collect();
    for reader in &mut readers {
        reader.send(&command("xread block 0 streams other s $ $"));
        reader.send(&command("ping"));
    }
    std::thread::sleep(Duration::from_millis(60));
    let begun = Instant::now();
    assert_eq!(adds.ask("xadd s 2-1 f now"), bulk("2-1"));
    for reader in &mut readers {
        assert_eq!(reader.receive(), told("s", "2-1", "now"), "each of them reads it");
        assert_eq!(reader.receive(), Value::Simple("PONG".to_owned()));
    }
    assert!(begun.elapsed() < Duration::from_millis(500), "a bell was rung: {:?}", begun.elapsed());
    let mut reader = readers.remove(0);
    assert_eq!(reader.ask("xread block 50 streams s 1-1"), told("s", "2-1", "now"), "there is something");
    let begun = Instant::now();
    assert_eq!(reader.ask("xread block 50 streams s $"), Value::NullArray);
    assert!(begun.elapsed() >= Duration::from_millis(50));
    reader.ask("multi");
    reader.ask("xread block 0 streams s $");
    assert_eq!(reader.ask("exec"), Value::Array(vec![Value::NullArray]), "nothing waits in a transaction");
    let error = Value::Error("ERR timeout is negative".to_owned());
    assert_eq!(reader.ask("xread block -1 streams s $"), error);
}

#[test]
fn consumers_of_a_group_wait_for_an_entry_each() {
    let (_gateway, address) = memory::open(2, true, Limits::default());
    let mut adds = Client::connect(address);
    assert_eq!(adds.ask("xgroup create s g $ mkstream"), Value::Simple("OK".to_owned()));
    let mut consumers: Vec<Client> = (0..5).map(|_| Client::connect(address)).collect();
    for (number, consumer) in consumers.iter_mut().enumerate() {
        consumer.send(&command(&format!("xreadgroup group g c{number} count 1 block 0 streams s >")));
    }
    std::thread::sleep(Duration::from_millis(60));
    for number in 1..=5 {
        adds.ask(&format!("xadd s {number}-0 f {number}"));
    }
    let mut got: Vec<Value> = consumers.iter_mut().map(Client::receive).collect();
    got.sort();
    let mut expected: Vec<Value> =
        (1..=5).map(|number| told("s", &format!("{number}-0"), &number.to_string())).collect();
    expected.sort();
    assert_eq!(got, expected);
    let Value::Array(pending) = adds.ask("xpending s g") else { panic!("no summary") };
    assert_eq!(pending[0], Value::Integer(5));
    consumers[0].send(&command("xreadgroup group g c0 block 0 streams s >"));
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(adds.ask("xgroup destroy s g"), Value::Integer(1));
    assert!(
        matches!(consumers[0].receive(), Value::Error(error) if error.starts_with("NOGROUP ")),
        "its group is gone"
    );
}
