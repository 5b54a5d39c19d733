//! Three nodes, each with its door: what is published at one of them is heard at all, and what is loaded at one is there at all.

use std::io::BufRead;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quorate::Isolation;
use quorate_cluster::ThreeNodes;
use quorate_gateway::Gateway;

use crate::cluster::open;
use crate::wire::{Client, Value, encode};

/// Three nodes in three sites, each with a door of its own to one keyspace.
struct Doors {
    doors: Vec<Option<(Gateway, SocketAddr)>>,
    nodes: ThreeNodes,
}

impl Doors {
    fn start() -> Doors {
        let nodes = ThreeNodes::start().unwrap();
        nodes.create(&[("redis", Isolation::Serializable, 1)]).unwrap();
        let mut all = Doors { doors: Vec::new(), nodes };
        all.doors = (0..3).map(|node| Some(all.open(node))).collect();
        all
    }

    /// Opens the door of a node, which knows all nodes and its own first.
    fn open(&self, node: usize) -> (Gateway, SocketAddr) {
        let mut addresses = self.nodes.addresses();
        addresses.swap(0, node);
        open(addresses, &["redis"], 2)
    }

    fn client(&self, node: usize) -> Client {
        Client::connect(self.doors[node].as_ref().unwrap().1)
    }

    fn crash(&mut self, node: usize) {
        self.nodes.take(node).unwrap().crash().unwrap();
    }

    fn restart(&mut self, node: usize) {
        self.nodes.restart(node).unwrap();
    }
}

/// The content of the next message.
fn content(subscriber: &mut Client) -> String {
    let Value::Array(parts) = subscriber.receive() else { panic!("a message is an array") };
    let Some(Value::Bulk(content)) = parts.last() else { panic!("its content is text") };
    String::from_utf8_lossy(content).into_owned()
}

/// Publishes to a channel again and again until a subscriber hears it, and tells how long that took.
fn until_heard(publisher: &mut Client, subscriber: &mut Client, channel: &str) -> Duration {
    let begun = Instant::now();
    let mut sent = 0;
    loop {
        sent += 1;
        let published = publisher.ask(&format!("publish {channel} probe-{sent}"));
        assert!(matches!(published, Value::Integer(_)), "{published}");
        subscriber.stream.get_ref().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let is_heard = subscriber.stream.get_ref().peek(&mut [0]).is_ok();
        subscriber.stream.get_ref().set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        if is_heard {
            // Those that were sent since.
            while content(subscriber) != format!("probe-{sent}") {}
            return begun.elapsed();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing published to {channel} is heard");
    }
}

const MESSAGES: usize = 300;

/// How often doors get another chance to pass everything on: a node that a busy machine delays may take a connection for broken, and what was on its way is lost.
const ATTEMPTS: usize = 5;

/// Publishes many messages at some doors at once, all of which are heard by each subscriber, those of a publisher in their order.
fn all_are_heard(doors: &Doors, publishers: &[usize], subscribers: &mut [Client], what: &str) {
    for attempt in 0..ATTEMPTS {
        publish_at_once(doors, publishers, attempt);
        let hear = |subscriber| hears_all(subscriber, publishers.len(), attempt, what);
        // Each is asked, so that none has an earlier attempt before it.
        let heard: Vec<bool> = subscribers.iter_mut().map(hear).collect();
        if heard.into_iter().all(|is_heard| is_heard) {
            return;
        }
    }
    panic!("{what}, and of {ATTEMPTS} attempts none was heard by all");
}

fn publish_at_once(doors: &Doors, publishers: &[usize], attempt: usize) {
    let publishing: Vec<_> = publishers
        .iter()
        .map(|node| {
            let (mut client, node) = (doors.client(*node), *node);
            std::thread::spawn(move || {
                let publish = |number: usize| format!("publish news {attempt}-{node}-{number}");
                let all = (0..MESSAGES).map(|number| {
                    publish(number).split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>()
                });
                for reply in client.pipeline(&all.collect::<Vec<_>>()) {
                    assert!(matches!(reply, Value::Integer(_)), "{reply}");
                }
            })
        })
        .collect();
    publishing.into_iter().for_each(|publishing| publishing.join().unwrap());
}

/// True if a subscriber hears all messages of an attempt. Whatever it hears, it hears once and in the order of its publisher.
fn hears_all(subscriber: &mut Client, publishers: usize, attempt: usize, what: &str) -> bool {
    let mut last: [Option<usize>; 3] = [None; 3];
    let mut heard = 0;
    while heard < MESSAGES * publishers {
        subscriber.stream.get_ref().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let is_silent = subscriber.stream.fill_buf().is_err();
        subscriber.stream.get_ref().set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        if is_silent {
            return false;
        }
        let text = content(subscriber);
        let numbers: Vec<usize> = text.split('-').map(|number| number.parse().unwrap()).collect();
        let [of, node, number] = numbers[..] else { panic!("{text}") };
        if of < attempt {
            continue;
        }
        assert!(last[node] < Some(number), "{text} after {:?}, {what}", last[node]);
        last[node] = Some(number);
        heard += 1;
    }
    true
}

fn subscribe(doors: &Doors, node: usize, channel: &str) -> Client {
    let mut client = doors.client(node);
    client.send(&encode(&[b"subscribe".to_vec(), channel.as_bytes().to_vec()]));
    assert!(matches!(client.receive(), Value::Array(_)));
    client
}

/// A door is heard at another one soon after something has happened.
fn soon(doors: &Doors, from: usize, to: usize, what: &str) {
    let channel = format!("{what}-{from}-{to}");
    let took = until_heard(&mut doors.client(from), &mut subscribe(doors, to, &channel), &channel);
    assert!(took < Duration::from_secs(5), "{channel} after {took:?}");
}

#[test]
fn subscribers_of_any_door_hear_publishers_of_every_door_whichever_nodes_die_and_return() {
    let mut doors = Doors::start();
    let mut subscribers: Vec<Client> = (0..3).map(|node| subscribe(&doors, node, "news")).collect();
    for from in 0..3 {
        for to in 0..3 {
            let channel = format!("probe-{from}-{to}");
            until_heard(&mut doors.client(from), &mut subscribe(&doors, to, &channel), &channel);
        }
    }
    all_are_heard(&doors, &[0, 1, 2], &mut subscribers, "all nodes are there");

    let library = "#!lua name=counts\nredis.register_function('count', function(keys) return redis.call('incr', keys[1]) end)";
    let load = [b"function".to_vec(), b"load".to_vec(), library.as_bytes().to_vec()];
    assert_eq!(doors.client(1).pipeline(&[load.to_vec()]), [Value::Bulk(b"counts".to_vec())]);
    assert_eq!(doors.client(2).ask("fcall count 1 counter"), Value::Integer(1), "every door has it");

    // A node dies with its door: the others hear each other as before.
    doors.doors[1] = None;
    doors.crash(1);
    drop(subscribers.remove(1));
    for (from, to) in [(0, 2), (2, 0)] {
        soon(&doors, from, to, "dead");
    }
    all_are_heard(&doors, &[0, 2], &mut subscribers, "a node is dead");

    // It returns, and is found again soon.
    doors.restart(1);
    doors.doors[1] = Some(doors.open(1));
    for (from, to) in [(0, 1), (1, 0), (2, 1), (1, 2), (0, 2), (2, 0)] {
        soon(&doors, from, to, "again");
    }
    all_are_heard(&doors, &[0, 1, 2], &mut subscribers, "the node is back");

    assert_eq!(doors.client(1).ask("fcall count 1 counter"), Value::Integer(2), "the library is still there");

    // A node dies and its door does not: it tells another node.
    doors.crash(2);
    soon(&doors, 2, 0, "through-another");
    all_are_heard(&doors, &[0, 2], &mut subscribers, "a door has lost its node");
}
