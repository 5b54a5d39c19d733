//! Publishing and subscribing at one door: the replies and messages of a real Redis, and subscribers that do not read.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quorate_gateway::Limits;

use crate::memory;
use crate::oracle::Oracle;
use crate::wire::{Client, Value, encode};

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The command that each of some clients sends, if any, and how many replies and messages it receives then.
type Step = (usize, &'static str, usize);

const STEPS: &[Step] = &[
    (0, "subscribe a b a", 3),
    (1, "publish a hello", 1),
    (0, "", 1),
    (1, "publish nobody hello", 1),
    (0, "psubscribe a* [b]", 2),
    (1, "publish b hello", 1),
    (0, "", 2),
    (0, "ssubscribe a", 1),
    (1, "spublish a shard", 1),
    (0, "", 1),
    (1, "pubsub numsub a b c", 1),
    (1, "pubsub numsub", 1),
    (1, "pubsub numpat", 1),
    (1, "pubsub shardnumsub a b", 1),
    (1, "pubsub shardchannels", 1),
    (1, "pubsub channels a*", 1),
    (1, "pubsub channels nothing*", 1),
    (1, "pubsub nothing", 1),
    (1, "pubsub numpat x", 1),
    (1, "pubsub", 1),
    (1, "publish a", 1),
    (1, "subscribe", 1),
    (0, "ping", 1),
    (0, "ping text", 1),
    (0, "ping too many", 1),
    (0, "get x", 1),
    (0, "client id x", 1),
    (0, "blpop x 0.01", 1),
    (0, "unknown x", 1),
    (0, "get", 1),
    (0, "multi x", 1),
    (0, "unsubscribe a nothing", 2),
    (1, "publish a hello", 1),
    (0, "", 1),
    (0, "punsubscribe nothing", 1),
    (0, "punsubscribe a*", 1),
    (0, "punsubscribe", 1),
    (0, "unsubscribe", 1),
    (0, "unsubscribe", 1),
    (0, "punsubscribe", 1),
    (0, "sunsubscribe a b", 2),
    (0, "sunsubscribe", 1),
    (0, "get x", 1),
    (2, "multi", 1),
    (2, "publish c 1", 1),
    (2, "spublish c 2", 1),
    (0, "subscribe c", 1),
    (0, "ssubscribe c", 1),
    (2, "exec", 1),
    (0, "", 2),
    (2, "multi", 1),
    (2, "publish c 3", 1),
    (2, "discard", 1),
    (2, "watch w", 1),
    (1, "set w 1", 1),
    (2, "multi", 1),
    (2, "publish c 4", 1),
    (2, "exec", 1),
    (2, "publish c 5", 1),
    (0, "", 1),
    (0, "reset", 1),
    (2, "publish c 6", 1),
    (0, "ping", 1),
];

fn compare(version: &str) {
    let Some(oracle) = Oracle::start() else { return };
    let (_gateway, address) = memory::open(3, true, Limits::default());
    let connect = |address: SocketAddr| {
        let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(address)).collect();
        clients.iter_mut().for_each(|client| {
            client.ask(&format!("hello {version}"));
        });
        clients
    };
    let (mut ours, mut theirs) = (connect(address), connect(oracle.address));
    for (at, line, count) in STEPS {
        let mut replies = [&mut ours, &mut theirs].map(|clients| {
            if !line.is_empty() {
                clients[*at].send(&encode(&words(line)));
            }
            (0..*count).map(|_| clients[*at].receive()).collect::<Vec<_>>()
        });
        if line.is_empty() {
            // A client with several subscriptions that match gets the message several times, in no certain order.
            replies.iter_mut().for_each(|replies| replies.sort());
        }
        let [ours, theirs] =
            replies.map(|replies| replies.iter().map(Value::to_string).collect::<Vec<_>>().join("\n    "));
        assert_eq!(ours, theirs, "client {at} sends {line:?} in version {version}");
    }
}

#[test]
fn subscribers_get_the_messages_of_redis_in_version_2() {
    compare("2");
}

#[test]
fn subscribers_get_the_messages_of_redis_in_version_3() {
    compare("3");
}

fn push(parts: &[&str]) -> Value {
    Value::Push(parts.iter().map(|part| Value::Bulk(part.as_bytes().to_vec())).collect())
}

#[test]
fn a_subscriber_in_version_3_goes_on_with_everything_else() {
    let (_gateway, address) = memory::open(2, true, Limits::default());
    let (mut client, mut other) = (Client::connect(address), Client::connect(address));
    client.ask("hello 3");
    assert!(matches!(client.ask("subscribe c"), Value::Push(_)));
    assert_eq!(client.ask("set k v"), Value::Simple("OK".to_owned()));
    assert_eq!(client.ask("multi"), Value::Simple("OK".to_owned()));
    assert_eq!(client.ask("get k"), Value::Simple("QUEUED".to_owned()));
    assert_eq!(other.ask("publish c between"), Value::Integer(1));
    assert_eq!(client.receive(), push(&["message", "c", "between"]));
    assert_eq!(client.ask("exec"), Value::Array(vec![Value::Bulk(b"v".to_vec())]));
    // It is not let wait without its messages, either.
    client.send(&encode(&words("blpop queue 0")));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(other.ask("publish c meanwhile"), Value::Integer(1));
    assert_eq!(client.receive(), push(&["message", "c", "meanwhile"]));
    other.ask("rpush queue 1");
    assert!(matches!(client.receive(), Value::Array(_)));
    assert!(matches!(client.ask("hello 2"), Value::Array(_)));
    assert!(matches!(client.ask("get k"), Value::Error(text) if text.starts_with("ERR Can't execute 'get'")));
}

#[test]
fn messages_come_in_the_order_of_their_publisher() {
    const MESSAGES: usize = 2_000;
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let mut subscriber = Client::connect(address);
    subscriber.ask("subscribe c");
    let publish = move |name: usize| {
        let mut client = Client::connect(address);
        let all: Vec<_> = (0..MESSAGES).map(|number| words(&format!("publish c {name}-{number}"))).collect();
        assert!(client.pipeline(&all).iter().all(|reply| *reply == Value::Integer(1)));
    };
    let publishers: Vec<_> = (0..3).map(|name| std::thread::spawn(move || publish(name))).collect();
    let mut next = [0; 3];
    for _ in 0..3 * MESSAGES {
        let Value::Array(parts) = subscriber.receive() else { panic!("a message is an array") };
        let Value::Bulk(content) = &parts[2] else { panic!("its content is text") };
        let text = String::from_utf8_lossy(content);
        let (name, number) = text.split_once('-').unwrap();
        let expected = &mut next[name.parse::<usize>().unwrap()];
        assert_eq!(number.parse::<usize>().unwrap(), *expected);
        *expected += 1;
    }
    publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
}

#[test]
fn a_message_is_heard_only_if_its_transaction_commits() {
    let (_gateway, address) = memory::open(2, true, Limits::default());
    let (mut subscriber, mut client) = (Client::connect(address), Client::connect(address));
    let eval = |script: &str| vec![b"eval".to_vec(), script.as_bytes().to_vec(), b"0".to_vec()];
    subscriber.ask("subscribe c");
    let fails = "redis.call('publish', 'c', 'lost') while true do end";
    assert!(matches!(client.pipeline(&[eval(fails)]).remove(0), Value::Error(_)));
    let refused = "return redis.pcall('publish', 'c', 'lost')";
    let eval_ro = [b"eval_ro".to_vec(), refused.as_bytes().to_vec(), b"0".to_vec()];
    assert!(matches!(client.pipeline(&[eval_ro.to_vec()]).remove(0), Value::Error(_)));
    client.ask("multi");
    client.ask("subscribe c");
    assert!(matches!(client.ask("exec"), Value::Error(text) if text.starts_with("EXECABORT")));
    let publishes = "redis.call('publish', 'c', 'second') return redis.call('publish', 'none', 'x')";
    client.ask("multi");
    client.ask("publish c first");
    client.pipeline(&[eval(publishes)]);
    client.ask("publish c third");
    assert_eq!(
        client.ask("exec"),
        Value::Array(vec![Value::Integer(1), Value::Integer(0), Value::Integer(1)])
    );
    for expected in ["first", "second", "third"] {
        let Value::Array(parts) = subscriber.receive() else { panic!("a message is an array") };
        assert_eq!(parts[2], Value::Bulk(expected.as_bytes().to_vec()));
    }
}

#[test]
fn a_subscriber_that_does_not_read_is_cut_off_and_disturbs_nobody() {
    let (gateway, address) = memory::open(1, true, Limits::default());
    let (mut slow, mut quick) = (Client::connect(address), Client::connect(address));
    let mut publisher = Client::connect(address);
    for subscriber in [&mut slow, &mut quick] {
        assert!(matches!(subscriber.ask("subscribe c"), Value::Array(_)));
    }
    let publish = [b"publish".to_vec(), b"c".to_vec(), vec![b'm'; 500_000]];
    let begun = Instant::now();
    let mut published = 0;
    loop {
        let reply = publisher.pipeline(&[publish.to_vec()]).remove(0);
        assert!(matches!(quick.receive(), Value::Array(_)));
        assert!(gateway.memory().held() < 128 * 1024 * 1024);
        published += 1;
        if reply == Value::Integer(1) {
            break;
        }
        assert!(published < 1_000 && begun.elapsed() < Duration::from_secs(60), "it is never cut off");
    }
    assert!(published > 50, "it may be behind for a while: {published} messages");
    assert_eq!(publisher.ask("ping"), Value::Simple("PONG".to_owned()));
}

#[test]
fn what_a_subscriber_asks_for_is_bounded() {
    let (_gateway, address) = memory::open(1, true, Limits::default());
    let mut client = Client::connect(address);
    let long = vec![b'c'; 70_000];
    let many = |count: usize| {
        let names = (0..count).map(|number| format!("channel{number}").into_bytes());
        std::iter::once(b"subscribe".to_vec()).chain(names).collect::<Vec<_>>()
    };
    for refused in [
        vec![b"subscribe".to_vec(), long.clone()],
        vec![b"publish".to_vec(), long, b"m".to_vec()],
        vec![b"publish".to_vec(), b"c".to_vec(), vec![b'm'; 1_100_000]],
        many(100_001),
    ] {
        assert!(matches!(client.pipeline(&[refused]).remove(0), Value::Error(_)));
    }
    client.send(&encode(&many(1_000)));
    for number in 1..=1_000 {
        let Value::Array(parts) = client.receive() else { panic!("it is confirmed") };
        assert_eq!(parts[2], Value::Integer(number));
    }
}
