//! The door to a real cluster.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate::Isolation;
use quorate_cluster::ThreeNodes;
use quorate_gateway::{Gateway, Options};
use quorate_redis::Redis;

use crate::wire::{Client, Value};

/// Three nodes, and a door to three keyspaces: serializable of three shards, strict, and snapshot.
pub(crate) struct Cluster {
    // Before the nodes: it is a client of them.
    _gateway: Gateway,
    _nodes: ThreeNodes,
    pub(crate) door: SocketAddr,
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let nodes = ThreeNodes::start().unwrap();
        let keyspaces = [
            ("redis", Isolation::Serializable, 3),
            ("strict", Isolation::Strict, 2),
            ("snapshot", Isolation::Snapshot, 1),
        ];
        nodes.create(&keyspaces).unwrap();
        let (gateway, door) = open(nodes.addresses(), &keyspaces.map(|(name, ..)| name), 1);
        Cluster { _gateway: gateway, _nodes: nodes, door }
    }
}

/// Opens a door to these keyspaces of a cluster, which so many threads serve.
pub(crate) fn open(addresses: Vec<String>, keyspaces: &[&str], threads: usize) -> (Gateway, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let door = listener.local_addr().unwrap();
    let databases = keyspaces.iter().map(|name| Some((*name).to_owned())).collect();
    let redis: Arc<dyn quorate_gateway::Door> = Arc::new(Redis::new(databases));
    let options = Options { threads, ..Options::new(addresses) };
    (Gateway::start(options, vec![(listener, redis)]).unwrap(), door)
}

fn ok() -> Value {
    Value::Simple("OK".to_owned())
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

#[test]
fn redis_clients_use_keyspaces_of_a_cluster() {
    let cluster = Cluster::start();
    each_isolation_serves(&cluster);
    a_hot_counter_counts_every_increment(&cluster);
    transactions_span_shards(&cluster);
    keys_expire(&cluster);
    a_pipeline_keeps_its_order(&cluster);
    scripts_move_money_between_shards(&cluster);
    a_hot_script_never_aborts(&cluster);
}

fn each_isolation_serves(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    for database in 0..3 {
        assert_eq!(client.ask(&format!("select {database}")), ok());
        let value = format!("of-{database}");
        for (line, reply) in [
            (format!("set k {value}"), ok()),
            ("append k !".to_owned(), Value::Integer(5)),
            ("get k".to_owned(), bulk(&format!("{value}!"))),
            ("incr n".to_owned(), Value::Integer(1)),
            ("hset h f 1 g 2".to_owned(), Value::Integer(2)),
            ("hincrby h f 5".to_owned(), Value::Integer(6)),
            ("mset a 1 b 2 c 3 d 4".to_owned(), ok()),
            ("mget a b x d".to_owned(), Value::Array(vec![bulk("1"), bulk("2"), Value::Null, bulk("4")])),
            ("del a b c x".to_owned(), Value::Integer(3)),
            ("rename d elsewhere".to_owned(), ok()),
            ("get elsewhere".to_owned(), bulk("4")),
            ("dbsize".to_owned(), Value::Integer(4)),
            ("del n".to_owned(), Value::Integer(1)),
            ("geoadd place 13.361389 38.115556 p 15.087269 37.502669 q".to_owned(), Value::Integer(2)),
            ("geodist place p q km".to_owned(), bulk("166.2742")),
            ("pfadd seen a b c".to_owned(), Value::Integer(1)),
            ("pfcount seen unseen".to_owned(), Value::Integer(3)),
            ("xadd log 1-1 f v".to_owned(), bulk("1-1")),
            ("xgroup create log g 0".to_owned(), ok()),
            ("xreadgroup group g c block 1000 streams log >".to_owned(), read_from_log()),
            ("xack log g 1-1".to_owned(), Value::Integer(1)),
            ("xread block 20 streams log none $ 0".to_owned(), Value::NullArray),
            ("rpush numbers 1 2 3".to_owned(), Value::Integer(3)),
            ("mset weight1 3 weight2 1 weight3 2".to_owned(), ok()),
            ("sort numbers by weight* get # limit 0 2".to_owned(), Value::Array(vec![bulk("2"), bulk("3")])),
            ("dbsize".to_owned(), Value::Integer(10)),
            (
                "incr h".to_owned(),
                Value::Error("WRONGTYPE Operation against a key holding the wrong kind of value".to_owned()),
            ),
            ("flushall".to_owned(), ok()),
            ("dbsize".to_owned(), Value::Integer(0)),
        ] {
            assert_eq!(client.ask(&line), reply, "{line} in database {database}");
        }
    }
    assert_eq!(client.ask("select 3"), Value::Error("ERR DB index is out of range".to_owned()));
}

/// The entry that was added, as it is read.
fn read_from_log() -> Value {
    let entry = Value::Array(vec![bulk("1-1"), Value::Array(vec![bulk("f"), bulk("v")])]);
    Value::Array(vec![Value::Array(vec![bulk("log"), Value::Array(vec![entry])])])
}

/// None aborts, however many want the same key.
fn a_hot_counter_counts_every_increment(cluster: &Cluster) {
    const CLIENTS: usize = 8;
    const INCREMENTS: usize = 100;
    let door = cluster.door;
    let count = move || {
        let mut client = Client::connect(door);
        for _ in 0..INCREMENTS {
            assert!(matches!(client.ask("incr hot"), Value::Integer(_)));
        }
    };
    let counting: Vec<_> = (0..CLIENTS).map(|_| std::thread::spawn(count)).collect();
    counting.into_iter().for_each(|counting| counting.join().unwrap());
    let total = (CLIENTS * INCREMENTS).to_string();
    assert_eq!(Client::connect(cluster.door).ask("get hot"), bulk(&total));
}

fn transactions_span_shards(cluster: &Cluster) {
    let (mut client, mut other) = (Client::connect(cluster.door), Client::connect(cluster.door));
    // These keys lie in many slots.
    let keys: Vec<String> = (0..6).map(|number| format!("account{number}")).collect();
    client.ask("multi");
    for key in &keys {
        assert_eq!(client.ask(&format!("incrby {key} 10")), Value::Simple("QUEUED".to_owned()));
    }
    assert_eq!(client.ask("exec"), Value::Array(vec![Value::Integer(10); 6]));
    // Watched keys of several shards, with nobody in the way and with somebody.
    for (is_disturbed, expected) in
        [(false, Value::Array(vec![Value::Integer(11), Value::Integer(9)])), (true, Value::NullArray)]
    {
        assert_eq!(client.ask(&format!("watch {}", keys.join(" "))), ok());
        if is_disturbed {
            assert_eq!(other.ask("set account5 1"), ok());
        }
        client.ask("multi");
        client.ask("incr account0");
        client.ask("decr account1");
        assert_eq!(client.ask("exec"), expected);
    }
    client.ask("multi");
    client.ask("rename account2 account7");
    client.ask("get account7");
    assert_eq!(client.ask("exec"), Value::Array(vec![ok(), bulk("10")]));
}

fn keys_expire(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    for database in 0..3 {
        client.ask(&format!("select {database}"));
        assert_eq!(client.ask("set short lived px 300"), ok());
        assert_eq!(client.ask("get short"), bulk("lived"));
        let deadline = Instant::now() + Duration::from_secs(10);
        while client.ask("exists short") != Value::Integer(0) {
            assert!(Instant::now() < deadline, "a key lives on in database {database}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(client.ask("ttl short"), Value::Integer(-2));
    }
}

fn a_pipeline_keeps_its_order(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    let words = |line: String| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let pipeline: Vec<_> = (0..300)
        .flat_map(|number| {
            [format!("append log{} x", number % 3), "ping".to_owned(), format!("strlen log{}", number % 3)]
        })
        .map(words)
        .collect();
    let replies = client.pipeline(&pipeline);
    for number in 0..300 {
        let length = Value::Integer(number / 3 + 1);
        let at = number as usize * 3;
        assert_eq!((&replies[at], &replies[at + 2]), (&length, &length));
        assert_eq!(replies[at + 1], Value::Simple("PONG".to_owned()));
    }
}

/// In any isolation, and with any number of scripts that touch the same keys, none of them is lost or halved.
fn scripts_move_money_between_shards(cluster: &Cluster) {
    const MOVE: &str = "local from, to = 'money' .. ARGV[1], 'money' .. ARGV[2]
        local there = tonumber(redis.call('get', from))
        redis.call('set', from, there - 1)
        return redis.call('incr', to)";
    for database in 0..3 {
        let door = cluster.door;
        let select = format!("select {database}");
        let mut client = Client::connect(door);
        client.ask(&select);
        client.ask("mset money0 100 money1 100 money2 100 money3 100");
        let moving = (0..3_usize).map(|from| {
            let select = select.clone();
            std::thread::spawn(move || {
                let mut client = Client::connect(door);
                client.ask(&select);
                let arguments = [from.to_string(), (from + 1).to_string()];
                let eval: Vec<Vec<u8>> = ["eval", MOVE, "0", &arguments[0], &arguments[1]]
                    .iter()
                    .map(|word| word.as_bytes().to_vec())
                    .collect();
                let mut moved = 0;
                while moved < 10 {
                    match client.pipeline(std::slice::from_ref(&eval)).remove(0) {
                        Value::Integer(_) => moved += 1,
                        Value::Error(text) if text.starts_with("TRYAGAIN") => {}
                        other => panic!("{other} in database {database}"),
                    }
                }
            })
        });
        moving.collect::<Vec<_>>().into_iter().for_each(|moving| moving.join().unwrap());
        let expected = ["90", "100", "100", "110"].map(bulk).to_vec();
        assert_eq!(
            client.ask("mget money0 money1 money2 money3"),
            Value::Array(expected),
            "database {database}"
        );
    }
}

/// A script whose keys lie at one shard runs there: nobody is in its way, however many want the same keys.
fn a_hot_script_never_aborts(cluster: &Cluster) {
    const CLIENTS: usize = 8;
    const CALLS: usize = 50;
    const TAKE: &str = "local left = tonumber(redis.call('get', KEYS[1]) or '1000')
        if left < 1 then return redis.error_reply('none are left') end
        redis.call('set', KEYS[1], left - 1)
        redis.call('hincrby', KEYS[2], ARGV[1], 1)
        return {left, redis.call('rpush', KEYS[3], left)}";
    let door = cluster.door;
    let ask = |client: &mut Client, words: &[&str]| {
        client.pipeline(&[words.iter().map(|word| word.as_bytes().to_vec()).collect()]).remove(0)
    };
    let take = move |number: usize| {
        let mut client = Client::connect(door);
        for _ in 0..CALLS {
            let keys = ["{shop}left", "{shop}by", "{shop}order"];
            let reply =
                ask(&mut client, &["eval", TAKE, "3", keys[0], keys[1], keys[2], &number.to_string()]);
            let Value::Array(reply) = reply else { panic!("{reply}") };
            let [Value::Integer(left), Value::Integer(taken)] = reply[..] else { panic!("{reply:?}") };
            assert_eq!(left, 1_001 - taken, "each sees all before it, and none after it");
        }
    };
    let taking: Vec<_> = (0..CLIENTS).map(|number| std::thread::spawn(move || take(number))).collect();
    taking.into_iter().for_each(|taking| taking.join().unwrap());
    let mut client = Client::connect(door);
    assert_eq!(client.ask("llen {shop}order"), Value::Integer((CLIENTS * CALLS) as i64));
    assert_eq!(client.ask("get {shop}left"), bulk(&(1_000 - CLIENTS * CALLS).to_string()));
    // One that only reads, with a key that expires.
    client.ask("set {shop}left 5 px 50");
    let read = ["eval_ro", "return redis.call('get', KEYS[1])", "1", "{shop}left"];
    let deadline = Instant::now() + Duration::from_secs(10);
    while ask(&mut client, &read) != Value::Null {
        assert!(Instant::now() < deadline, "a key lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
    // With commands beside it, and something watched.
    for (is_disturbed, expected) in
        [(false, Value::Array(vec![ok(), Value::Integer(2), bulk("2")])), (true, Value::NullArray)]
    {
        client.ask("watch {shop}n {shop}order");
        if is_disturbed {
            Client::connect(door).ask("rpop {shop}order");
        }
        client.ask("multi");
        client.ask("set {shop}n 1");
        ask(&mut client, &["eval", "return redis.call('incr', KEYS[1])", "1", "{shop}n"]);
        client.ask("get {shop}n");
        assert_eq!(client.ask("exec"), expected);
    }
}
